/* A library for LD_PRELOAD that makes one call of a program fail, or kills the program there.
 *
 *   FAULT_CALLS   the calls that count: "memory", "files", "threads", "network", or names such as
 *                 "fsync,rename"
 *   FAULT_AT      the number of the call that fails, from 1; 0: none
 *   FAULT_ERRNO   its errno; 0: the program is killed before the call; -1: after it
 *   FAULT_REPORT  a file to which "CALLS BLOCKS" is written at exit: the number of counted calls,
 * and the number of memory blocks still allocated, of which a failed run must not leave more than a
 * successful one
 *
 * Calls of libc itself, such as those of stdio for files, cannot be replaced this way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { ERRNO_KILL_BEFORE = 0, ERRNO_KILL_AFTER = -1 };

static const char *counted = "";
static long fail_at;
static int fail_errno;
static atomic_long n_calls, n_blocks;

/* Memory for the allocations of dlsym, which runs before the real calloc is known. */
static char early[65536];
static size_t early_used;

static bool is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + sizeof early;
}

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (f == NULL) abort();
    return f;
}

/* Declares `next`, the real function of this name. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *next;                                                                 \
    if (next == NULL) next = (__typeof__(name) *)real(#name)

static bool counts(const char *name, const char *group)
{
    size_t len = strlen(name);

    if (strcmp(counted, group) == 0) return true;
    for (const char *at = counted; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != 0))
        if (strcspn(at, ",") == len && strncmp(at, name, len) == 0) return true;
    return false;
}

static void end_by_kill(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* Counts a call. Returns true, and sets errno, if the call must fail. *kill_after: whether the
 * program must be killed after the call. */
static bool fails(const char *name, const char *group, bool *kill_after)
{
    *kill_after = false;
    if (!counts(name, group) || atomic_fetch_add(&n_calls, 1) + 1 != fail_at) return false;
    if (fail_errno == ERRNO_KILL_BEFORE) end_by_kill();
    *kill_after = fail_errno == ERRNO_KILL_AFTER;
    errno = fail_errno;
    return !*kill_after;
}

static bool no_memory(const char *name)
{
    bool ignored;

    return fails(name, "memory", &ignored);
}

__attribute__((constructor)) static void begin(void)
{
    const char *calls = getenv("FAULT_CALLS"), *at = getenv("FAULT_AT");
    const char *number = getenv("FAULT_ERRNO");

    if (at != NULL) fail_at = strtol(at, NULL, 10);
    fail_errno = number != NULL ? (int)strtol(number, NULL, 10) : ENOMEM;
    if (calls != NULL) counted = calls;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("FAULT_REPORT");
    long calls = n_calls, blocks = n_blocks;
    FILE *file;

    counted = "";
    if (path == NULL || (file = fopen(path, "w")) == NULL) return;
    fprintf(file, "%ld %ld\n", calls, blocks);
    fclose(file);
}

/* ---- memory ---- */

static void *allocated(void *p)
{
    if (p != NULL) n_blocks++;
    return p;
}

void *malloc(size_t size)
{
    REAL(malloc);
    return no_memory("malloc") ? NULL : allocated(next(size));
}

void *calloc(size_t n, size_t size)
{
    static __typeof__(calloc) *next;
    static bool finding;

    if (next == NULL && !finding) {
        finding = true;
        next = (__typeof__(calloc) *)real("calloc");
    }
    if (next == NULL) {
        void *p = early + early_used;
        early_used += (n * size + 15) & ~(size_t)15;
        if (early_used > sizeof early) abort();
        return p;
    }
    return no_memory("calloc") ? NULL : allocated(next(n, size));
}

void *realloc(void *old, size_t size)
{
    REAL(realloc);

    if (no_memory("realloc")) return NULL;
    void *p = next(old, size);
    if (old == NULL) return allocated(p);
    if (p == NULL && size == 0) n_blocks--;
    return p;
}

int posix_memalign(void **out, size_t align, size_t size)
{
    REAL(posix_memalign);

    if (no_memory("posix_memalign")) return ENOMEM;
    int code = next(out, align, size);
    if (code == 0) n_blocks++;
    return code;
}

void *aligned_alloc(size_t align, size_t size)
{
    REAL(aligned_alloc);
    return no_memory("aligned_alloc") ? NULL : allocated(next(align, size));
}

void free(void *p)
{
    REAL(free);
    if (p == NULL || is_early(p)) return;
    n_blocks--;
    next(p);
}

/* ---- files ---- */

/* Defines a replacement that returns `failure` when it fails. */
#define FILE_CALL(type, name, parameters, arguments, failure)                                      \
    CALL("files", type, name, parameters, arguments, failure)
#define CALL(group, type, name, parameters, arguments, failure)                                    \
    type name parameters                                                                           \
    {                                                                                              \
        REAL(name);                                                                                \
        bool kill_after;                                                                           \
        type result;                                                                               \
                                                                                                   \
        if (fails(#name, group, &kill_after)) return failure;                                      \
        result = next arguments;                                                                   \
        if (kill_after) end_by_kill();                                                             \
        return result;                                                                             \
    }

/* True for an event by which threads of a process wake each other: writing to it cannot fail, and
 * libmicrohttpd ends the program if it does. */
static bool is_event(int fd)
{
    char path[64], target[64] = "";

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, target, sizeof target - 1) > 0 && strstr(target, "eventfd");
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    REAL(write);
    bool kill_after;

    if (size == sizeof(uint64_t) && is_event(fd)) return next(fd, bytes, size);
    if (fails("write", "files", &kill_after)) return -1;
    ssize_t result = next(fd, bytes, size);
    if (kill_after) end_by_kill();
    return result;
}

/* A failing close releases the descriptor all the same, as that of Linux does (close(2)). */
int close(int fd)
{
    REAL(close);
    bool kill_after, failed = fails("close", "files", &kill_after);
    int result, code = errno;

    result = next(fd);
    if (kill_after) end_by_kill();
    if (!failed) return result;
    errno = code;
    return -1;
}

FILE_CALL(ssize_t, pwrite, (int fd, const void *bytes, size_t size, off_t at),
          (fd, bytes, size, at), -1)
FILE_CALL(ssize_t, copy_file_range,
          (int from, off_t *at, int to, off_t *to_at, size_t size, unsigned flags),
          (from, at, to, to_at, size, flags), -1)
FILE_CALL(ssize_t, read, (int fd, void *bytes, size_t size), (fd, bytes, size), -1)
FILE_CALL(ssize_t, pread, (int fd, void *bytes, size_t size, off_t at), (fd, bytes, size, at), -1)
FILE_CALL(int, fsync, (int fd), (fd), -1)
FILE_CALL(int, ftruncate, (int fd, off_t size), (fd, size), -1)
FILE_CALL(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), -1)
FILE_CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
FILE_CALL(int, fstat, (int fd, struct stat *out), (fd, out), -1)
FILE_CALL(int, stat, (const char *path, struct stat *out), (path, out), -1)
FILE_CALL(int, fstatat, (int fd, const char *path, struct stat *out, int flags),
          (fd, path, out, flags), -1)
FILE_CALL(int, rename, (const char *from, const char *to), (from, to), -1)
FILE_CALL(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), -1)
FILE_CALL(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
          (a, from, b, to, flags), -1)
FILE_CALL(int, linkat, (int a, const char *from, int b, const char *to, int flags),
          (a, from, b, to, flags), -1)
FILE_CALL(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), -1)
FILE_CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
FILE_CALL(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), -1)
CALL(fd < 0 ? "memory" : "files", void *, mmap,
     (void *at, size_t size, int prot, int flags, int fd, off_t offset),
     (at, size, prot, flags, fd, offset), MAP_FAILED)
CALL("memory", int, mprotect, (void *at, size_t size, int prot), (at, size, prot), -1)

/* ---- threads and connections ---- */

CALL("threads", int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context),
     (thread, attributes, run, context), errno)
CALL("network", int, socket, (int family, int type, int protocol), (family, type, protocol), -1)
CALL("network", int, bind, (int fd, const struct sockaddr *at, socklen_t size), (fd, at, size), -1)
CALL("network", int, listen, (int fd, int n), (fd, n), -1)
CALL("network", int, accept, (int fd, struct sockaddr *at, socklen_t *size), (fd, at, size), -1)
CALL("network", int, getsockname, (int fd, struct sockaddr *at, socklen_t *size), (fd, at, size),
     -1)
CALL("network", ssize_t, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags),
     -1)
CALL("network", ssize_t, send, (int fd, const void *from, size_t size, int flags),
     (fd, from, size, flags), -1)
CALL("network", ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
     (fd, message, flags), -1)
CALL("network", int, pipe, (int fds[2]), (fds), -1)

static mode_t mode_argument(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

/* Defines a replacement of open or openat, whose mode is present if the call creates a file. */
#define OPEN_CALL(name, parameters, arguments)                                                     \
    int name parameters                                                                            \
    {                                                                                              \
        REAL(name);                                                                                \
        bool kill_after;                                                                           \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
        int fd;                                                                                    \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_argument(flags, args);                                                         \
        va_end(args);                                                                              \
        if (fails(#name, "files", &kill_after)) return -1;                                         \
        fd = next arguments;                                                                       \
        if (kill_after) end_by_kill();                                                             \
        return fd;                                                                                 \
    }

OPEN_CALL(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
