/* Folders written whole or not at all: a temporary beside the target, synced, then moved.
 *
 * A folder that is replaced changes places with the new one in one step, so that there is always
 * one of them under the name, and is then removed, entry by entry, two levels deep: deeper there is
 * nothing of ours. Where the file system knows no such step (NFS, some of FUSE) the old one is
 * moved aside, then the new one into its place, and if that fails, the old one back: between the
 * two there is nothing under the name, and both are beside it. */
#define _GNU_SOURCE /* renameat2: POSIX has no rename that leaves an existing folder alone, and    \
                     * none that lets two change places */
#include "format/base/atomic_folder.h"

#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/system/macos.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_SHOWN = 200, MAX_TRIES = 1000 };

struct sp_atomic_folder {
    char *path;      /* as given: for messages */
    char *name;      /* final name inside the parent */
    char *temporary; /* inside the parent; NULL when there is none (any more) */
    char *work;      /* path of the temporary */
    int parent;
    bool force;
    sp_folder_entry_fn *ours;
};

static enum sp_status io_error(const struct sp_atomic_folder *o, const char *doing,
                               struct sp_err *err)
{
    return sp_fail(err, errno == ENOMEM ? SP_E_NOMEM : SP_E_IO, "%s: %s: %s", o->path, doing,
                   strerror(errno));
}

static enum sp_status exists_error(const struct sp_atomic_folder *o, struct sp_err *err)
{
    return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_EXISTING, "%s exists already", o->path);
}

/* ---- what is in a folder ---- */

typedef enum sp_status visit_fn(const struct sp_atomic_folder *o, int at, const char *inside,
                                const char *name, bool is_folder, struct sp_err *err);

/* Visits every entry of the folder `name` in `at`; not what links lead to. */
static enum sp_status visit_entries(const struct sp_atomic_folder *o, int at, const char *name,
                                    const char *inside, visit_fn *visit, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct stat info;

    if (dir == NULL) {
        st = io_error(o, "opening a folder", err);
        if (fd >= 0) close(fd);
        return st;
    }
    for (struct dirent *e; st == SP_OK && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (fstatat(fd, e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            st = io_error(o, e->d_name, err);
        else
            st = visit(o, fd, inside, e->d_name, S_ISDIR(info.st_mode), err);
    }
    closedir(dir);
    return st;
}

static enum sp_status check_entry(const struct sp_atomic_folder *o, int at, const char *inside,
                                  const char *name, bool is_folder, struct sp_err *err)
{
    if (!o->ours(inside, name) || (inside && is_folder)) {
        return sp_fail(
            err, SP_E_USAGE,
            "%s contains %s%s%s, which is not part of an export; only exports are replaced",
            o->path, inside ? inside : "", inside ? "/" : "", name);
    }
    return is_folder ? visit_entries(o, at, name, name, check_entry, err) : SP_OK;
}

static enum sp_status remove_entry(const struct sp_atomic_folder *o, int at, const char *inside,
                                   const char *name, bool is_folder, struct sp_err *err)
{
    enum sp_status st;

    if (is_folder && inside == NULL && (st = visit_entries(o, at, name, name, remove_entry, err)))
        return st;
    if (unlinkat(at, name, is_folder ? AT_REMOVEDIR : 0) == 0) return SP_OK;
    return io_error(o, "removing a file", err);
}

static enum sp_status sync_fd(const struct sp_atomic_folder *o, int fd, struct sp_err *err)
{
    return fsync(fd) == 0 || errno == EINVAL ? SP_OK : io_error(o, "syncing a folder", err);
}

/* The folder that the entry is in; the files were synced when they were written. */
static enum sp_status sync_entry(const struct sp_atomic_folder *o, int at, const char *inside,
                                 const char *name, bool is_folder, struct sp_err *err)
{
    enum sp_status st = sync_fd(o, at, err);

    (void)inside;
    return st || !is_folder ? st : visit_entries(o, at, name, name, sync_entry, err);
}

/* ---- from open to commit ---- */

static enum sp_status split_path(struct sp_atomic_folder *o, struct sp_err *err)
{
    enum sp_status st;
    char *copy = NULL, *folder, *name;
    size_t len = strlen(o->path);

    while (len > 1 && o->path[len - 1] == '/')
        len--;
    if ((st = sp_copy_text(&copy, o->path, len, err))) return st;
    name = strrchr(copy, '/');
    name = name ? name + 1 : copy;
    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        st = sp_fail(err, SP_E_USAGE, "%s is not a name for a new folder", o->path);
        goto done;
    }
    if ((st = sp_copy_text(&o->name, name, strlen(name), err))) goto done;
    folder = dirname(copy);
    o->parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->parent < 0) st = io_error(o, "its folder", err);
done:
    free(copy);
    return st;
}

static enum sp_status check_target(const struct sp_atomic_folder *o, struct sp_err *err)
{
    struct stat info;

    if (fstatat(o->parent, o->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? SP_OK : io_error(o, "looking it up", err);
    if (!S_ISDIR(info.st_mode))
        return sp_fail(err, SP_E_USAGE, "%s exists and is not a folder", o->path);
    if (!o->force) return exists_error(o, err);
    return visit_entries(o, o->parent, o->name, NULL, check_entry, err);
}

/* Creates a new folder next to the target; *made: its name, owned by the caller. */
static enum sp_status make_beside(char **made, const struct sp_atomic_folder *o, struct sp_err *err)
{
    char name[NAME_SHOWN + 64];
    enum sp_status st;

    for (int i = 0; i < MAX_TRIES; i++) {
        snprintf(name, sizeof name, ".%.*s.%ld-%d.tmp", NAME_SHOWN, o->name, (long)getpid(), i);
        if (mkdirat(o->parent, name, 0777) == 0) {
            if ((st = sp_copy_text(made, name, strlen(name), err)))
                unlinkat(o->parent, name, AT_REMOVEDIR);
            return st;
        }
        if (errno != EEXIST) break;
    }
    return io_error(o, "creating a temporary file in its folder", err);
}

static enum sp_status make_temporary(struct sp_atomic_folder *o, struct sp_err *err)
{
    char *copy = NULL;
    enum sp_status st;

    if ((st = make_beside(&o->temporary, o, err))) return st;
    if ((st = sp_copy_text(&copy, o->path, strlen(o->path), err))) return st;
    st = sp_file_join(&o->work, dirname(copy), o->temporary, err);
    free(copy);
    return st;
}

enum sp_status sp_atomic_folder_open(struct sp_atomic_folder **out, const char *path, bool force,
                                     sp_folder_entry_fn *ours, struct sp_err *err)
{
    enum sp_status st;
    struct sp_atomic_folder *o = NULL;

    if ((st = sp_new(&o, 1, sizeof *o, err))) return st;
    *o = (struct sp_atomic_folder){.parent = -1, .force = force, .ours = ours};
    if ((st = sp_copy_text(&o->path, path, strlen(path), err))) goto done;
    if ((st = split_path(o, err))) goto done;
    if ((st = check_target(o, err))) goto done;
    if ((st = make_temporary(o, err))) goto done;
    *out = o;
    o = NULL;
done:
    sp_atomic_folder_close(o);
    return st;
}

const char *sp_atomic_folder_path(const struct sp_atomic_folder *folder)
{
    return folder->work;
}

enum sp_status sp_atomic_folder_add(char **path, const struct sp_atomic_folder *o, const char *name,
                                    struct sp_err *err)
{
    enum sp_status st;
    char *made = NULL;

    if ((st = sp_file_join(&made, o->work, name, err))) return st;
    if (mkdir(made, 0777) != 0) {
        st = io_error(o, name, err);
        free(made);
        return st;
    }
    *path = made;
    return SP_OK;
}

static bool is_unknown(int code)
{
    return code == EINVAL || code == ENOSYS || code == ENOTSUP;
}

/* A rename puts a folder in the place of an empty one. */
static enum sp_status change_places_in_steps(struct sp_atomic_folder *o, struct sp_err *err)
{
    enum sp_status st;
    char *aside = NULL;

    if ((st = make_beside(&aside, o, err))) return st;
    if (renameat(o->parent, o->name, o->parent, aside) != 0) {
        st = io_error(o, "moving the old one aside", err);
        unlinkat(o->parent, aside, AT_REMOVEDIR);
    } else if (renameat(o->parent, o->temporary, o->parent, o->name) != 0) {
        st = io_error(o, "replacing it", err);
        if (renameat(o->parent, aside, o->parent, o->name) != 0)
            sp_context(err, "the previous content is %s now", aside);
    } else {
        free(o->temporary);
        o->temporary = aside;
        return SP_OK;
    }
    free(aside);
    return st;
}

static enum sp_status change_places(struct sp_atomic_folder *o, struct sp_err *err)
{
    if (renameat2(o->parent, o->temporary, o->parent, o->name, RENAME_EXCHANGE) == 0) return SP_OK;
    return is_unknown(errno) ? change_places_in_steps(o, err) : io_error(o, "replacing it", err);
}

/* The temporary becomes the folder; *old: it now is what was there before. */
static enum sp_status place(struct sp_atomic_folder *o, bool *old, struct sp_err *err)
{
    enum sp_status st;
    int code;

    *old = false;
    code = renameat2(o->parent, o->temporary, o->parent, o->name, RENAME_NOREPLACE);
    if (code != 0 && is_unknown(errno)) {
        /* A folder that is not empty stays under this rename, too. */
        code = renameat(o->parent, o->temporary, o->parent, o->name);
    }
    if (code == 0) return SP_OK;
    if (errno != EEXIST && errno != ENOTEMPTY) return io_error(o, "moving it into place", err);
    if ((st = check_target(o, err)) || (st = change_places(o, err))) return st;
    *old = true;
    return SP_OK;
}

enum sp_status sp_atomic_folder_commit(struct sp_atomic_folder *o, struct sp_err *err)
{
    enum sp_status st;
    bool old;

    if ((st = visit_entries(o, o->parent, o->temporary, NULL, sync_entry, err))) return st;
    if ((st = place(o, &old, err))) return st;
    if (!old) {
        free(o->temporary);
        o->temporary = NULL;
    }
    return sync_fd(o, o->parent, err);
}

void sp_atomic_folder_close(struct sp_atomic_folder *o)
{
    struct sp_err ignored = {0};

    if (o == NULL) return;
    if (o->temporary != NULL &&
        visit_entries(o, o->parent, o->temporary, NULL, remove_entry, &ignored) == SP_OK)
        unlinkat(o->parent, o->temporary, AT_REMOVEDIR);
    if (o->parent >= 0) close(o->parent);
    free(o->temporary);
    free(o->work);
    free(o->name);
    free(o->path);
    free(o);
}
