#include "cli/chat/loaded_model.h"
#include "cli/base/user_folder.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "cli/base/out.h"
#include "format/base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SIZE = 1 << 16, RETRY_EVERY = 8 };

char *sp_drafting_cache_folder(void)
{
    char *folder = NULL;

    if (sp_user_file(&folder, "XDG_CACHE_HOME", ".cache", "drafting", NULL) == SP_OK)
        mkdir(folder, 0700);
    return folder;
}

/* Returns the path of the file, owned by the caller; NULL: there is no cache folder. */
static char *path_of(const struct sp_package *package)
{
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    char machine[512], host[256] = "", name[64], *folder = sp_drafting_cache_folder(), *path = NULL;

    if (folder == NULL) return NULL;
    sp_package_describe(package, &info);
    gethostname(host, sizeof host - 1);
    snprintf(machine, sizeof machine, "%s %s %u %u", host, info.kernels, info.n_threads,
             info.n_ranks);
    snprintf(name, sizeof name, "%016" PRIx64 "-%016" PRIx64 ".json", info.identity,
             sp_hash64(machine, strlen(machine)));
    if (sp_file_join(&path, folder, name, NULL)) path = NULL;
    free(folder);
    return path;
}

/* True in one call of RETRY_EVERY, whose order does not matter. */
static bool is_retry(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_nsec / 1000 % RETRY_EVERY == 0;
}

void sp_drafting_cache_load(struct sp_package *package)
{
    char *path = path_of(package);
    struct sp_text text = {0};

    if (path && sp_file_exists(path) && sp_file_read_text(&text, path, MAX_SIZE, NULL) == SP_OK &&
        sp_package_set_drafting_statistics(package, text.at, text.size, is_retry(), NULL))
        unlink(path); /* damaged */
    free(text.at);
    free(path);
}

/* Writes a file that another process sees complete or not at all; after a power failure it may be
 * damaged, which the next run notices. */
static void write_file(const char *path, const char *text)
{
    char temporary[PATH_MAX];
    ssize_t size = (ssize_t)strlen(text);
    int fd;

    if (snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid()) >=
        (int)sizeof temporary)
        return;
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    bool complete = write(fd, text, (size_t)size) == size;
    complete &= close(fd) == 0;
    if (!complete || rename(temporary, path)) unlink(temporary);
}

void sp_drafting_cache_save(const struct sp_package *package)
{
    char *path = NULL, *text = NULL;

    if (sp_package_check_file(package, NULL) ||
        sp_package_drafting_statistics(package, &text, NULL) || text == NULL)
        return;
    if ((path = path_of(package)) != NULL) write_file(path, text);
    free(path);
    free(text);
}

/* ---- the folder of processed prompts ---- */

static void note(void *context, const char *sentence)
{
    sp_note(context, "%s", sentence);
}

enum sp_status sp_prompt_folder_open(struct sp_prompt_cache **out, char **folder,
                                     const struct sp_backend_opts *o, const char *command,
                                     struct sp_err *err)
{
    struct sp_prompt_cache_options options = {
        .size = sizeof options, .limit = o->cache_size, .note = note};
    struct sp_err why = {0};
    enum sp_status st;

    options.context = (void *)(uintptr_t)command;
    *out = NULL;
    *folder = NULL;
    st = o->cache_dir ? sp_copy_text(folder, o->cache_dir, strlen(o->cache_dir), &why)
                      : sp_user_file(folder, "XDG_CACHE_HOME", ".cache", "prompts", &why);
    if (st == SP_OK) {
        options.folder = *folder;
        st = sp_prompt_cache_open(out, &options, &why);
    }
    if (st == SP_OK) return SP_OK;
    free(*folder);
    *folder = NULL;
    return o->cache_dir ? sp_fail_as(err, &why) : SP_OK;
}
