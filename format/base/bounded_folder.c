#include "format/base/bounded_folder.h"

#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/system/macos.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A hidden file that was changed in this time is one that a process writes now. */
enum { WRITTEN_SECONDS = 24 * 60 * 60 };

struct entry {
    char *path; /* owned */
    uint64_t size;
    struct timespec used;
    bool stays;
};

static int older_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct entry *)a)->used;
    const struct timespec *y = &((const struct entry *)b)->used;

    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Sets *e to the file of this name; false: it is gone, or memory lacks. */
static bool look_at(struct entry *e, const char *folder, const char *name, const char *keep)
{
    struct stat info;

    if (sp_file_join(&e->path, folder, name, NULL)) return false;
    if (stat(e->path, &info) || !S_ISREG(info.st_mode)) {
        free(e->path);
        return false;
    }
    e->size = (uint64_t)info.st_size;
    e->used = info.st_mtim;
    e->stays = (keep && strcmp(name, keep) == 0) ||
               (*name == '.' && info.st_mtim.tv_sec > time(NULL) - WRITTEN_SECONDS);
    return true;
}

uint64_t sp_folder_trim(const char *path, const struct sp_folder_bound *bound)
{
    DIR *folder = opendir(path);
    const struct dirent *file;
    struct entry *all = NULL;
    size_t n = 0, room = 0;
    uint64_t total = 0;

    while (folder && (file = readdir(folder)) != NULL) {
        const char *name = file->d_name + (*file->d_name == '.');
        if (strstr(name, bound->part) == NULL) continue;
        if (bound->n_digits && strspn(name, "0123456789abcdef") != bound->n_digits) continue;
        if (sp_grow(&all, &room, n + 1, sizeof *all, NULL)) break;
        if (!look_at(&all[n], path, file->d_name, bound->keep)) continue;
        total += all[n++].size;
    }
    if (folder) closedir(folder);
    if (n) qsort(all, n, sizeof *all, older_first);
    for (size_t i = 0; i < n; i++) {
        if (total > bound->most && !all[i].stays && unlink(all[i].path) == 0) {
            total -= all[i].size;
            if (bound->removed) bound->removed(bound->context, all[i].path);
        }
        free(all[i].path);
    }
    free(all);
    return total;
}
