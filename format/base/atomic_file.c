/* Writing files whole or not at all: a temporary in the target's folder, synced, then moved.
 *
 * Until it is complete the temporary has no name, where the file system allows that: it goes with
 * the process, even one that is killed, unless that happens between naming and renaming a file that
 * replaces another. It is made by open() rather than mkstemp(), so that it has
 * the permissions that the user's umask gives new files; or those of the file that it replaces. */
/* POSIX has no copy in the kernel, no reservation that says "cannot", no file without a name, no
 * rename that leaves an existing file alone, and no sync that does not wait. */
#define _GNU_SOURCE /* copy_file_range, fallocate, O_TMPFILE, renameat2, sync_file_range */
#include "format/base/atomic_file.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/system/macos.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_SHOWN = 200, MAX_TRIES = 1000 };

struct sp_atomic_file {
    char *path;      /* as given: for messages */
    char *name;      /* final name inside the folder */
    char *temporary; /* inside the folder; NULL while it has no name, or when there is none */
    int folder, fd;
    const struct sp_mapping *source; /* NULL: none */
    mode_t mode;                     /* of the file that is replaced; 0: a new one */
    bool force;
};

static enum sp_status io_error(const struct sp_atomic_file *o, const char *doing,
                               struct sp_err *err)
{
    return sp_fail(err, SP_E_IO, "%s: %s: %s", o->path, doing, strerror(errno));
}

static enum sp_status exists_error(const struct sp_atomic_file *o, struct sp_err *err)
{
    return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_EXISTING, "%s exists already", o->path);
}

/* Splits the path, following symbolic links to an existing target, and opens its folder. */
static enum sp_status open_folder(struct sp_atomic_file *o, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    char *real = realpath(o->path, NULL), *for_dir = NULL;
    const char *path = real ? real : o->path, *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (*name == '\0') {
        st = sp_fail(err, SP_E_USAGE, "%s is not a file's name", o->path);
        goto done;
    }
    if ((st = sp_copy_text(&o->name, name, strlen(name), err))) goto done;
    if ((st = sp_copy_text(&for_dir, path, strlen(path), err))) goto done;
    o->folder = open(dirname(for_dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->folder < 0) st = io_error(o, "its folder", err);
done:
    free(real);
    free(for_dir);
    return st;
}

static enum sp_status check_target(struct sp_atomic_file *o, struct sp_err *err)
{
    struct stat info;

    if (fstatat(o->folder, o->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? SP_OK : io_error(o, "looking it up", err);
    if (S_ISDIR(info.st_mode)) return sp_fail(err, SP_E_USAGE, "%s is a folder", o->path);
    if (!o->force) return exists_error(o, err);
    if (!S_ISREG(info.st_mode))
        return sp_fail(err, SP_E_USAGE, "%s exists and is not a regular file", o->path);
    o->mode = info.st_mode;
    return SP_OK;
}

static mode_t temporary_mode(const struct sp_atomic_file *o)
{
    return o->mode ? S_IRUSR | S_IWUSR : 0666;
}

/* Makes, or names, the temporary `name` in its folder; false: errno says why not. */
typedef bool take_name_fn(struct sp_atomic_file *o, const char *name);

static bool create_under(struct sp_atomic_file *o, const char *name)
{
    o->fd = openat(o->folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, temporary_mode(o));
    return o->fd >= 0;
}

enum { LINK_SIZE = 32 };

/* Where an open file without a name can be linked from. */
static const char *proc_link(char link[LINK_SIZE], const struct sp_atomic_file *o)
{
    snprintf(link, LINK_SIZE, "/proc/self/fd/%d", o->fd);
    return link;
}

static bool link_under(struct sp_atomic_file *o, const char *name)
{
    char link[LINK_SIZE];

    return linkat(AT_FDCWD, proc_link(link, o), o->folder, name, AT_SYMLINK_FOLLOW) == 0;
}

/* Lets the temporary take the first name that is free. */
static enum sp_status take_name(struct sp_atomic_file *o, take_name_fn *take, struct sp_err *err)
{
    char name[NAME_SHOWN + 64];
    enum sp_status st;

    for (int i = 0; i < MAX_TRIES; i++) {
        snprintf(name, sizeof name, ".%.*s.%ld-%d.tmp", NAME_SHOWN, o->name, (long)getpid(), i);
        if (take(o, name)) {
            if ((st = sp_copy_text(&o->temporary, name, strlen(name), err)))
                unlinkat(o->folder, name, 0);
            return st;
        }
        if (errno != EEXIST) break;
    }
    return io_error(o, "creating a temporary file in its folder", err);
}

static void drop_temporary(struct sp_atomic_file *o)
{
    if (o->fd >= 0) close(o->fd);
    o->fd = -1;
    if (o->temporary != NULL) unlinkat(o->folder, o->temporary, 0);
    free(o->temporary);
    o->temporary = NULL;
}

static bool open_nameless(struct sp_atomic_file *o)
{
    o->fd = openat(o->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, temporary_mode(o));
    return o->fd >= 0;
}

/* Naming the file in the end takes /proc. */
static bool make_nameless(struct sp_atomic_file *o)
{
    char link[LINK_SIZE];

    if (!open_nameless(o)) return false;
    if (access(proc_link(link, o), F_OK) == 0) return true;
    drop_temporary(o);
    return false;
}

static enum sp_status make_temporary(struct sp_atomic_file *o, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (!make_nameless(o) && (st = take_name(o, create_under, err))) return st;
    if (o->mode && fchmod(o->fd, o->mode & 0777) != 0)
        st = io_error(o, "setting its permissions", err);
    return st;
}

/* A file system that cannot reserve space is not an error; a full disk or an exceeded quota is. */
static enum sp_status reserve(struct sp_atomic_file *o, uint64_t size, struct sp_err *err)
{
    if (size == 0) return SP_OK;
    if (size > INT64_MAX)
        return sp_fail(err, SP_E_INPUT, "%s: %ju bytes", o->path, (uintmax_t)size);
    while (fallocate(o->fd, 0, 0, (off_t)size) != 0) {
        if (errno == EINTR) continue;
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) {
            return sp_fail(err, SP_E_IO, "%s: reserving %ju bytes: %s", o->path, (uintmax_t)size,
                           strerror(errno));
        }
        return ftruncate(o->fd, (off_t)size) ? io_error(o, "setting its size", err) : SP_OK;
    }
    return SP_OK;
}

enum sp_status sp_atomic_file_check_replaced(const char *path, const void *magic, size_t magic_size,
                                             const char *kind, struct sp_err *err)
{
    enum { LONGEST = 64 };
    enum sp_status st;
    struct sp_file *file = NULL;
    uint8_t bytes[LONGEST] = {0};
    uint64_t size;

    assert(magic_size <= LONGEST);
    if (!sp_file_exists(path) || sp_file_is_folder(path)) return SP_OK;
    if ((st = sp_file_open(&file, path, err))) return st;
    size = sp_file_size(file);
    if (size >= magic_size) st = sp_file_read_at(file, 0, bytes, magic_size, err);
    if (st == SP_OK && size > 0 && (size < magic_size || memcmp(bytes, magic, magic_size) != 0)) {
        st = sp_fail(err, SP_E_USAGE, "%s exists and is not a %s; only those are changed", path,
                     kind);
    }
    sp_file_close(file);
    return st;
}

enum sp_status sp_atomic_file_open(struct sp_atomic_file **out, const char *path, bool force,
                                   uint64_t size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_atomic_file *o = NULL;

    if ((st = sp_new(&o, 1, sizeof *o, err))) return st;
    *o = (struct sp_atomic_file){.folder = -1, .fd = -1, .force = force};
    if ((st = sp_copy_text(&o->path, path, strlen(path), err))) goto done;
    if ((st = open_folder(o, err))) goto done;
    if ((st = check_target(o, err))) goto done;
    if ((st = make_temporary(o, err))) goto done;
    if ((st = reserve(o, size, err))) goto done;
    *out = o;
    o = NULL;
done:
    sp_atomic_file_close(o);
    return st;
}

enum sp_status sp_atomic_file_check(const char *path, bool force, struct sp_err *err)
{
    struct sp_atomic_file o = {.folder = -1, .fd = -1, .force = force};
    enum sp_status st;

    if ((st = sp_copy_text(&o.path, path, strlen(path), err))) return st;
    if ((st = open_folder(&o, err)) == SP_OK) st = check_target(&o, err);
    if (o.folder >= 0) close(o.folder);
    free(o.path);
    free(o.name);
    return st;
}

/* Lets the disk begin with what is large, so that the sync at the end finds little left to do, and
 * memory does not fill with what waits for it. Only a hint: failing changes nothing. */
static void start_writing(const struct sp_atomic_file *o, uint64_t offset, size_t size)
{
    enum { LARGE = 1 << 20 };

    if (size >= LARGE)
        (void)!sync_file_range(o->fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

void sp_atomic_file_copies(struct sp_atomic_file *o, const struct sp_mapping *source)
{
    o->source = source;
}

/* Copies whole blocks from the file that they are mapped from. 0: that cannot be done. */
static ssize_t copy_blocks(struct sp_atomic_file *o, uint64_t offset, const char *from, size_t size)
{
    uintptr_t at = (uintptr_t)from - (o->source ? (uintptr_t)o->source->data : 0);
    off_t in = (off_t)at, out = (off_t)offset;
    ssize_t n;

    if (!o->source || at >= o->source->size || (at | offset) % SP_FILE_BLOCK) return 0;
    n = copy_file_range(o->source->fd, &in, o->fd, &out, size - size % SP_FILE_BLOCK, 0);
    return n > 0 ? n : 0;
}

enum sp_status sp_atomic_file_write_at(struct sp_atomic_file *o, uint64_t offset, const void *bytes,
                                       size_t size, struct sp_err *err)
{
    const char *from = bytes;

    if (offset > INT64_MAX || size > INT64_MAX - offset)
        return sp_fail(err, SP_E_INPUT, "%s: writing at byte %ju", o->path, (uintmax_t)offset);
    while (size > 0) {
        ssize_t n = copy_blocks(o, offset, from, size);
        if (n == 0) n = pwrite(o->fd, from, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(o, "writing", err);
        start_writing(o, offset, (size_t)n);
        from += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SP_OK;
}

/* Without force the move must not replace: renameat2 where the file system knows it, else a second
 * link, which fails when the name is taken. */
static enum sp_status place(struct sp_atomic_file *o, struct sp_err *err)
{
    int code;

    if (o->force) {
        code = renameat(o->folder, o->temporary, o->folder, o->name);
    } else {
        code = renameat2(o->folder, o->temporary, o->folder, o->name, RENAME_NOREPLACE);
        if (code != 0 && (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)) {
            code = linkat(o->folder, o->temporary, o->folder, o->name, 0);
            if (code == 0) code = unlinkat(o->folder, o->temporary, 0);
        }
    }
    if (code == 0) return SP_OK;
    return errno == EEXIST ? exists_error(o, err) : io_error(o, "moving it into place", err);
}

/* Gives the file its final name at once where nothing has that name: a process that is killed
 * leaves no temporary. A file that is replaced takes a temporary name and a rename. */
static enum sp_status name_file(struct sp_atomic_file *o, struct sp_err *err)
{
    enum sp_status st;

    if (o->temporary == NULL) {
        if (link_under(o, o->name)) return SP_OK;
        if (errno != EEXIST) return io_error(o, "naming it", err);
        if (!o->force) return exists_error(o, err);
        if ((st = take_name(o, link_under, err))) return st;
    }
    return place(o, err);
}

enum sp_status sp_atomic_file_publish(struct sp_atomic_file *o, struct sp_err *err)
{
    enum sp_status st = name_file(o, err);

    if (st) return st;
    free(o->temporary);
    o->temporary = NULL;
    return SP_OK;
}

enum sp_status sp_atomic_file_commit(struct sp_atomic_file *o, struct sp_err *err)
{
    enum sp_status st;

    if (fsync(o->fd) != 0) return io_error(o, "syncing", err);
    if ((st = sp_atomic_file_publish(o, err))) return st;
    if (fsync(o->folder) != 0 && errno != EINVAL) return io_error(o, "syncing its folder", err);
    return SP_OK;
}

void sp_atomic_file_close(struct sp_atomic_file *o)
{
    if (o == NULL) return;
    drop_temporary(o);
    if (o->folder >= 0) close(o->folder);
    free(o->name);
    free(o->path);
    free(o);
}

enum sp_status sp_atomic_file_write_file(const char *path, bool force, const void *bytes,
                                         size_t size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_atomic_file *output = NULL;

    if ((st = sp_atomic_file_open(&output, path, force, size, err))) return st;
    if (!(st = sp_atomic_file_write_at(output, 0, bytes, size, err)))
        st = sp_atomic_file_commit(output, err);
    sp_atomic_file_close(output);
    return st;
}
