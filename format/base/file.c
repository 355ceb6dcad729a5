/* Reading files. Everything is opened without waiting (O_NONBLOCK), so that a FIFO in a model's
 * folder is refused instead of hanging the program; for regular files the flag means nothing. */
#define _DEFAULT_SOURCE /* madvise */
#include "format/base/file.h"
#include "format/system/file_guard.h"
#include "format/base/mem.h"
#include "format/system/macos.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool sp_file_exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool sp_file_is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool sp_file_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

enum sp_status sp_file_join(char **out, const char *folder, const char *name, struct sp_err *err)
{
    enum sp_status st;
    size_t n_folder = strlen(folder), n_name = strlen(name);
    bool slash = n_folder > 0 && folder[n_folder - 1] != '/';
    char *path = NULL;

    if ((st = sp_new(&path, n_folder + slash + n_name + 1, 1, err))) return st;
    memcpy(path, folder, n_folder);
    if (slash) path[n_folder] = '/';
    memcpy(path + n_folder + slash, name, n_name);
    *out = path;
    return SP_OK;
}

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a FIFO";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

/* *fd open for reading a regular file of *size bytes. */
static enum sp_status open_regular(int *fd, uint64_t *size, const char *path, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct stat info;
    int f = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

    if (f < 0) return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
    if (fstat(f, &info) != 0)
        st = sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        st = sp_fail(err, SP_E_INPUT, "%s is %s, expected a file", path, kind_of(info.st_mode));
    if (st) {
        close(f);
        return st;
    }
    *fd = f;
    *size = (uint64_t)info.st_size;
    return SP_OK;
}

enum sp_status sp_file_map(struct sp_mapping *out, const char *path, struct sp_err *err)
{
    static const uint8_t nothing[1];
    enum sp_status st;
    uint64_t size = 0;
    void *data;
    int fd = -1;

    if ((st = open_regular(&fd, &size, path, err))) return st;
    if (size == 0) {
        *out = (struct sp_mapping){.data = nothing};
        goto done;
    }
    if (size > SIZE_MAX) {
        st = sp_fail(err, SP_E_UNSUPPORTED, "%s: %ju bytes do not fit in this machine's addresses",
                     path, (uintmax_t)size);
        goto done;
    }
    data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        st = sp_fail(err, errno == ENOMEM ? SP_E_NOMEM : SP_E_IO, "%s: mapping %ju bytes: %s", path,
                     (uintmax_t)size, strerror(errno));
        goto done;
    }
    *out = (struct sp_mapping){data, (size_t)size, fd};
    sp_file_guard_add(out->data, out->size);
    sp_file_set_paging(out->data, out->size, SP_PAGING_HUGE);
    return SP_OK;
done:
    close(fd);
    return st;
}

void sp_file_unmap(struct sp_mapping *mapping)
{
    if (mapping->size) {
        sp_file_guard_remove(mapping->data);
        munmap((void *)(uintptr_t)mapping->data, mapping->size);
        close(mapping->fd);
    }
    *mapping = (struct sp_mapping){0};
}

void sp_file_unload(const uint8_t *bytes, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), mask = ~(page - 1);
    uintptr_t begin = (uintptr_t)bytes & mask, end = ((uintptr_t)bytes + size) & mask;

    if (end > begin) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void sp_file_prefetch(const uint8_t *bytes, size_t size)
{
    const size_t piece = 128 << 10; /* as much as Linux reads ahead of a file, and then at a time */
    uintptr_t begin = (uintptr_t)bytes & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    uintptr_t end = (uintptr_t)bytes + size;

    for (; begin < end; begin += piece)
        (void)madvise((void *)begin, end - begin < piece ? end - begin : piece, MADV_WILLNEED);
}

uint64_t sp_file_resident(const struct sp_mapping *mapping)
{
    enum { PAGES = 4096 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char resident[PAGES];
    uint64_t n = 0;

    for (size_t at = 0; at < mapping->size; at += PAGES * page) {
        size_t left = mapping->size - at, size = left < PAGES * page ? left : PAGES * page;
        if (mincore((void *)(uintptr_t)(mapping->data + at), size, (void *)resident)) return 0;
        for (size_t i = 0; i * page < size; i++)
            if (resident[i] & 1) n += size - i * page < page ? size - i * page : page;
    }
    return n;
}

/* If a mapping may have huge pages, the system also makes some later, and reads what they lack. */
void sp_file_set_paging(const uint8_t *bytes, size_t size, enum sp_paging paging)
{
    void *data = (void *)(uintptr_t)bytes;

    (void)madvise(data, size, paging == SP_PAGING_SINGLE ? MADV_RANDOM : MADV_NORMAL);
    (void)madvise(data, size, paging == SP_PAGING_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

struct sp_file {
    int fd; /* -1: it rests */
    uint64_t size;
    char *path;
    dev_t device; /* device and number identify a file that rests */
    ino_t number;
};

enum sp_status sp_file_open(struct sp_file **out, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_file *file = NULL;

    if ((st = sp_new(&file, 1, sizeof *file, err))) return st;
    file->fd = -1;
    if ((st = sp_copy_text(&file->path, path, strlen(path), err))) goto done;
    if ((st = open_regular(&file->fd, &file->size, path, err))) goto done;
    *out = file;
    file = NULL;
done:
    sp_file_close(file);
    return st;
}

void sp_file_close(struct sp_file *file)
{
    if (file == NULL) return;
    if (file->fd >= 0) close(file->fd);
    free(file->path);
    free(file);
}

void sp_file_rest(struct sp_file *file)
{
    struct stat info;

    if (file->fd < 0 || fstat(file->fd, &info) != 0) return;
    file->device = info.st_dev;
    file->number = info.st_ino;
    close(file->fd);
    file->fd = -1;
}

/* *fd = a descriptor of the file, to be closed if it rests. */
static enum sp_status wake(int *fd, const struct sp_file *file, struct sp_err *err)
{
    enum sp_status st;
    struct stat info;
    uint64_t size;
    int opened = -1;

    *fd = file->fd;
    if (file->fd >= 0) return SP_OK;
    if ((st = open_regular(&opened, &size, file->path, err))) return st;
    if (fstat(opened, &info) != 0 || info.st_dev != file->device || info.st_ino != file->number) {
        close(opened);
        return sp_fail(err, SP_E_IO, "%s: was replaced after it was opened", file->path);
    }
    *fd = opened;
    return SP_OK;
}

const char *sp_file_path(const struct sp_file *file)
{
    return file->path;
}

uint64_t sp_file_size(const struct sp_file *file)
{
    return file->size;
}

static enum sp_status read_all(int fd, const struct sp_file *file, uint64_t at, char *to,
                               size_t size, struct sp_err *err)
{
    while (size > 0) {
        ssize_t n = pread(fd, to, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            return sp_fail(err, SP_E_IO, "%s: reading at byte %ju: %s", file->path, (uintmax_t)at,
                           strerror(errno));
        }
        if (n == 0) {
            return sp_fail(err, SP_E_IO, "%s: ends at byte %ju, it had %ju when it was opened",
                           file->path, (uintmax_t)at, (uintmax_t)file->size);
        }
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return SP_OK;
}

enum sp_status sp_file_read_at(const struct sp_file *file, uint64_t offset, void *buffer,
                               size_t size, struct sp_err *err)
{
    enum sp_status st;
    int fd;

    if (offset > file->size || size > file->size - offset) {
        return sp_fail(err, SP_E_INPUT, "%s: %zu bytes wanted at byte %ju, but it has %ju",
                       file->path, size, (uintmax_t)offset, (uintmax_t)file->size);
    }
    if ((st = wake(&fd, file, err))) return st;
    st = read_all(fd, file, offset, buffer, size, err);
    if (fd != file->fd) close(fd);
    return st;
}

enum sp_status sp_file_read_text(struct sp_text *text, const char *path, size_t cap,
                                 struct sp_err *err)
{
    enum sp_status st;
    struct sp_file *file = NULL;
    char *bytes = NULL;

    if ((st = sp_file_open(&file, path, err))) return st;
    if (file->size > cap) {
        st = sp_fail(err, SP_E_INPUT, "%s: %ju bytes, expected at most %zu", path,
                     (uintmax_t)file->size, cap);
        goto done;
    }
    if ((st = sp_new(&bytes, (size_t)file->size + 1, 1, err))) goto done;
    if ((st = sp_file_read_at(file, 0, bytes, (size_t)file->size, err))) goto done;
    *text = (struct sp_text){bytes, (size_t)file->size};
    bytes = NULL;
done:
    free(bytes);
    sp_file_close(file);
    return st;
}

bool sp_file_exists_in(const char *folder, const char *name)
{
    char *path = NULL;
    bool there = sp_file_join(&path, folder, name, NULL) == SP_OK && sp_file_exists(path);

    free(path);
    return there;
}

enum sp_status sp_file_read_in(struct sp_text *text, const char *folder, const char *name,
                               size_t cap, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = sp_file_join(&path, folder, name, err))) return st;
    if (sp_file_exists(path)) st = sp_file_read_text(text, path, cap, err);
    free(path);
    return st;
}

enum sp_status sp_file_read_magic(void *magic, size_t size, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_file *file = NULL;

    memset(magic, 0, size);
    if ((st = sp_file_open(&file, path, err))) return st;
    if (file->size >= size) st = sp_file_read_at(file, 0, magic, size, err);
    sp_file_close(file);
    return st;
}

enum sp_status sp_file_folder(char **out, const char *path, struct sp_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);

    return sp_copy_text(out, path, size, err);
}
