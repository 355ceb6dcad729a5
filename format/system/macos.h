/* Functions and names of Linux beyond POSIX, for macOS; elsewhere this header has nothing. A file
 * that uses one of them includes it. What macOS lacks fails as it does on a Linux file system that
 * cannot do it, and the callers go on without. */
#ifndef SP_FORMAT_SYSTEM_MACOS_H
#define SP_FORMAT_SYSTEM_MACOS_H
#if defined(__APPLE__)

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>
#include <xlocale.h>

#define st_mtim st_mtimespec
#define POLLRDHUP POLLHUP
#define MADV_HUGEPAGE MADV_NORMAL
#define MADV_NOHUGEPAGE MADV_NORMAL
#define MADV_COLLAPSE MADV_NORMAL
#define O_TMPFILE O_DIRECTORY /* no folder is opened for writing */
#define renameat2 renameatx_np
#define RENAME_NOREPLACE RENAME_EXCL
#define RENAME_EXCHANGE RENAME_SWAP
#define getrandom(to, size, flags) (getentropy(to, size) == 0 ? (ssize_t)(size) : -1)
#define fallocate(fd, mode, at, size) (errno = ENOTSUP, -1)
#define memfd_create(name, flags) (errno = ENOTSUP, -1)
#define copy_file_range(from, at, to, to_at, size, flags) (errno = ENOTSUP, -1)
#define sync_file_range(fd, at, size, flags)                                                       \
    ((void)(fd), (void)(at), 0) /* hints, of which macOS has none */
#define posix_fadvise(fd, at, size, advice) 0

/* The fast cores: the others would be waited for in each product. */
typedef int cpu_set_t;
#define CPU_COUNT(set) (*(set))
static inline int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set)
{
    (void)process;
    return sysctlbyname("hw.perflevel0.logicalcpu", set, &size, NULL, 0) &&
           sysctlbyname("hw.logicalcpu", set, &size, NULL, 0);
}

/* Looks for a signal 50 times a second. */
static inline int sigtimedwait(const sigset_t *signals, siginfo_t *info,
                               const struct timespec *limit)
{
    const struct timespec nap = {.tv_nsec = 20000000};
    sigset_t pending;
    int number;

    (void)info;
    for (long long left = limit->tv_sec * 50LL + limit->tv_nsec / nap.tv_nsec; left >= 0; left--) {
        sigpending(&pending);
        for (number = 1; number < NSIG; number++)
            if (sigismember(&pending, number) == 1 && sigismember(signals, number) == 1)
                return sigwait(signals, &number) ? -1 : number;
        if (left > 0) nanosleep(&nap, NULL);
    }
    errno = EAGAIN;
    return -1;
}

#endif
#endif
