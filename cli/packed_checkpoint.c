#define _XOPEN_SOURCE 700 /* realpath */

#include "cli/packed_checkpoint.h"
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

/* Appends name, size and time of a file of the folder; folders do not count. */
static enum sp_status add_file(struct sp_strbuf *list, const char *folder, const char *name,
                               struct sp_err *err)
{
    char *path = NULL, line[80];
    struct stat info;
    enum sp_status st;
    int n;

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

/* Appends the folder's files; hidden ones do not count. */
static enum sp_status add_files(struct sp_strbuf *list, const char *folder, struct sp_err *err)
{
    struct dirent **entries = NULL;
    enum sp_status st = SP_OK;
    int n = scandir(folder, &entries, NULL, alphasort);

    if (n < 0) return sp_fail(err, SP_E_IO, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!st && entries[i]->d_name[0] != '.')
            st = add_file(list, folder, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return st;
}

/* *identity = hash of the folder's files, or of the one file. */
static enum sp_status identify(uint64_t *identity, const char *place, struct sp_err *err)
{
    struct sp_strbuf list = {0};
    enum sp_status st =
        sp_file_is_folder(place) ? add_files(&list, place, err) : add_file(&list, "/", place, err);

    if (!st) *identity = sp_hash64(list.at ? list.at : "", list.len);
    sp_strbuf_release(&list);
    return st;
}

/* Removes the packed files of earlier states of the checkpoint, whose names begin with `prefix`;
 * `name` is the new one. */
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

static enum sp_status pack(const char *checkpoint, const char *path, const char *command,
                           struct sp_err *err)
{
    struct sp_create_listener listener = {.command = command};
    struct sp_create_report report;
    struct sp_create_options create = {
        .from = checkpoint, .output = path, .check_template = sp_template_check};
    char size[SP_AMOUNT_TEXT];
    enum sp_status st;

    fprintf(stderr, "spectool %s: packing %s, once, into %s\n", command, checkpoint, path);
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

bool sp_is_checkpoint(const char *path)
{
    static const char magic[] = {'G', 'G', 'U', 'F'};
    char first[sizeof magic] = "";
    struct sp_file *file = NULL;
    bool is_gguf;

    if (sp_file_is_folder(path)) return true;
    is_gguf = sp_file_open(&file, path, NULL) == SP_OK &&
              sp_file_read_at(file, 0, first, sizeof first, NULL) == SP_OK &&
              memcmp(first, magic, sizeof magic) == 0;
    sp_file_close(file);
    return is_gguf;
}

enum sp_status sp_packed_checkpoint(char **path, const char *checkpoint, const char *command,
                                    struct sp_err *err)
{
    char place[PATH_MAX], prefix[NAME_MAX], name[NAME_MAX + 32];
    char *cache = NULL, *whole = NULL;
    const char *base;
    uint64_t identity = 0;
    enum sp_status st;

    if (realpath(checkpoint, place) == NULL) {
        return sp_fail(err, SP_E_IO, "%s: %s", checkpoint, strerror(errno));
    }
    if (sp_file_is_folder(place) && (st = check_folder(checkpoint, err))) return st;
    if ((st = identify(&identity, place, err))) return st;
    if ((st = sp_user_folder(&cache, "XDG_CACHE_HOME", ".cache", err))) goto done;
    base = strrchr(place, '/') + 1;
    snprintf(prefix, sizeof prefix, "%.100s-%016" PRIx64 "-", base,
             sp_hash64(place, strlen(place)));
    snprintf(name, sizeof name, "%s%016" PRIx64 ".bin", prefix, identity);
    if ((st = sp_file_join(&whole, cache, name, err))) goto done;
    if (!sp_file_exists(whole)) {
        if ((st = pack(checkpoint, whole, command, err))) goto done;
        remove_older(cache, prefix, name);
    }
    *path = whole;
    whole = NULL;
done:
    free(whole);
    free(cache);
    return st;
}
