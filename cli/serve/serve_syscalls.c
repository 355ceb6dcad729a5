#define _GNU_SOURCE /* CLONE_NEWNS and its kin */
#include "cli/serve/serve_start.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

/* What the server and its libraries call, by names, since each machine has some of them only.
 * Several versions of a call stand beside each other for other versions of the C library. */
static const char *const allowed[] = {
    /* memory */
    "brk", "get_mempolicy", "madvise", "mbind", "mlock", "mmap", "mprotect", "mremap", "munmap",
    "set_mempolicy",
    /* threads, and the processes of --ranks; the registers of --kernels amx */
    "arch_prctl", "exit", "exit_group", "futex", "getcpu", "getpid", "getppid", "gettid",
    "membarrier", "prctl", "restart_syscall", "rseq", "sched_getaffinity", "sched_setaffinity",
    "sched_yield", "set_robust_list", "set_tid_address", "wait4", "waitid",
    /* signals */
    "kill", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "sigaltstack", "tgkill", "tkill",
    /* files, as far as Landlock allows them */
    "access", "close", "close_range", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64",
    "fallocate", "fcntl", "fstat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents64",
    "linkat", "lseek", "lstat", "mkdir", "mkdirat", "newfstatat", "open", "openat", "pread64",
    "preadv", "pwrite64", "read", "readlink", "readlinkat", "readv", "rename", "renameat",
    "renameat2", "stat", "statfs", "statx", "sync_file_range", "unlink", "unlinkat", "utimensat",
    "write", "writev",
    /* connections that clients open */
    "accept", "accept4", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait", "eventfd2",
    "getpeername", "getsockname", "getsockopt", "pipe", "pipe2", "poll", "ppoll", "pselect6",
    "recvfrom", "recvmsg", "select", "sendfile", "sendmsg", "sendto", "setsockopt", "shutdown",
    /* time, limits, and what the machine is */
    "clock_getres", "clock_gettime", "clock_nanosleep", "getegid", "geteuid", "getgid", "getrandom",
    "getrlimit", "getrusage", "gettimeofday", "getuid", "nanosleep", "prlimit64", "sysinfo",
    "times", "uname"};

/* Requests that tell a terminal from a file, and make sockets return at once. */
static const unsigned long requests[] = {TCGETS, TIOCGWINSZ, FIONBIO, FIONREAD};

/* Each returns 0 or a negative errno. A call that this machine does not have is not allowed. */
static int allow_all(scmp_filter_ctx filter)
{
    int code = 0;

    for (size_t i = 0; i < sizeof allowed / sizeof *allowed && !code; i++) {
        int call = seccomp_syscall_resolve_name(allowed[i]);
        if (call >= 0) code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
    }
    for (size_t i = 0; i < sizeof requests / sizeof *requests && !code; i++) {
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                SCMP_A1_64(SCMP_CMP_EQ, requests[i], 0));
    }
    return code;
}

/* Allows new threads and processes, but no new namespaces. The flags of clone3 cannot be read by a
 * filter; where that is missing, the C library uses clone. */
static int allow_threads(scmp_filter_ctx filter)
{
    const unsigned long namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    int code = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

    if (code) return code;
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0_64(SCMP_CMP_MASKED_EQ, namespaces, 0));
}

bool sp_serve_syscalls_can_be_filtered(void)
{
    return true;
}

enum sp_status sp_serve_syscalls_filter(struct sp_err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int code = filter ? 0 : -ENOMEM;

    if (!code) code = allow_all(filter);
    if (!code) code = allow_threads(filter);
    if (!code) code = seccomp_load(filter);
    if (filter) seccomp_release(filter);
    if (code == -ENOMEM)
        return sp_fail(err, SP_E_NOMEM, "out of memory for the filter of system calls");
    if (code) {
        return sp_fail(err, SP_E_UNSUPPORTED, "this kernel filters no system calls (seccomp): %s",
                       strerror(-code));
    }
    return SP_OK;
}
