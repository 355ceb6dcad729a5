#define _XOPEN_SOURCE 700 /* realpath */

#include "cli/packed_folder.h"
#include "cli/base/user_folder.h"
#include "cli/create_callbacks.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/base/strbuf.h"
#include "runtime/spectool.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Appends name, size and time of a file of the folder; folders and hidden files do not count. */
static enum sp_status add_file(struct sp_strbuf *list, const char *folder, const char *name,
                               struct sp_err *err)
{
    char *path = NULL, line[80];
    struct stat info;
    enum sp_status st;
    int n;

    if (name[0] == '.') return SP_OK;
    if ((st = sp_file_join(&path, folder, name, err))) return st;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        n = snprintf(line, sizeof line, "/%jd %jd.%ld\n", (intmax_t)info.st_size,
                     (intmax_t)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
        st = sp_strbuf_append(list, name, strlen(name), err);
        if (!st) st = sp_strbuf_append(list, line, (size_t)n, err);
    }
    free(path);
    return st;
}

/* *identity = hash of the folder's files. */
static enum sp_status identify(uint64_t *identity, const char *folder, struct sp_err *err)
{
    struct sp_strbuf list = {0};
    struct dirent **entries = NULL;
    enum sp_status st = SP_OK;
    int n = scandir(folder, &entries, NULL, alphasort);

    if (n < 0) return sp_fail(err, SP_E_IO, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!st) st = add_file(&list, folder, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    if (!st) *identity = sp_hash64(list.at ? list.at : "", list.len);
    sp_strbuf_release(&list);
    return st;
}

/* Removes the packed files of earlier states of the folder, whose names begin with `prefix`; `name`
 * is the new one. */
static void remove_older(const char *cache, const char *prefix, const char *name)
{
    DIR *folder = opendir(cache);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL) {
        char *path = NULL;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
            strcmp(entry->d_name, name) == 0) {
            continue;
        }
        if (sp_file_join(&path, cache, entry->d_name, NULL) == SP_OK) unlink(path);
        free(path);
    }
    if (folder) closedir(folder);
}

static enum sp_status pack(const char *folder, const char *path, const char *command,
                           struct sp_err *err)
{
    struct sp_create_listener listener = {.command = command};
    struct sp_create_report report;
    struct sp_create_options create = {
        .from = folder, .output = path, .check_template = sp_template_check};
    char size[SP_AMOUNT_TEXT];
    enum sp_status st;

    fprintf(stderr, "spectool %s: packing %s, once, into %s\n", command, folder, path);
    sp_create_attach(&create.callbacks, &listener);
    st = sp_create(&report, &create, err);
    sp_progress_end(&listener.progress);
    if (st == SP_OK) {
        fprintf(stderr, "spectool %s: packed, %s\n", command, sp_out_size(size, report.file_size));
    }
    return st;
}

static enum sp_status check_folder(const char *folder, struct sp_err *err)
{
    char *config = NULL;
    enum sp_status st = sp_file_join(&config, folder, "config.json", err);

    if (!st && !sp_file_exists(config)) {
        st = sp_fail(err, SP_E_INPUT,
                     "%s: a folder without config.json, expected a packed file or a checkpoint",
                     folder);
    }
    free(config);
    return st;
}

enum sp_status sp_packed_folder(char **path, const char *folder, const char *command,
                                struct sp_err *err)
{
    char place[PATH_MAX], prefix[NAME_MAX], name[NAME_MAX + 32];
    char *cache = NULL, *whole = NULL;
    const char *base;
    uint64_t identity = 0;
    enum sp_status st;

    if (realpath(folder, place) == NULL) {
        return sp_fail(err, SP_E_IO, "%s: %s", folder, strerror(errno));
    }
    if ((st = check_folder(folder, err))) return st;
    if ((st = identify(&identity, place, err))) return st;
    if ((st = sp_user_folder(&cache, "XDG_CACHE_HOME", ".cache", err))) goto done;
    base = strrchr(place, '/') + 1;
    snprintf(prefix, sizeof prefix, "%.100s-%016" PRIx64 "-", base,
             sp_hash64(place, strlen(place)));
    snprintf(name, sizeof name, "%s%016" PRIx64 ".bin", prefix, identity);
    if ((st = sp_file_join(&whole, cache, name, err))) goto done;
    if (!sp_file_exists(whole)) {
        if ((st = pack(folder, whole, command, err))) goto done;
        remove_older(cache, prefix, name);
    }
    *path = whole;
    whole = NULL;
done:
    free(whole);
    free(cache);
    return st;
}
