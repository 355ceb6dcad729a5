/* What the sandbox of the server denies and allows, tried in a child process. */
#define _GNU_SOURCE /* unshare */
#include "cli/serve/serve_start.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static struct sp_serve_path models[2];
static struct sp_serve_paths paths = {.at = models, .n = 2};
static struct sp_listeners listeners = {.n = 1};
static const char *elsewhere, *linked, *statistics;

/* Returns 0, or the errno of opening the file. */
static int opens(const char *path, int flags)
{
    int fd = open(path, flags, 0600);

    if (fd < 0) return errno;
    close(fd);
    return 0;
}

/* Returns the errno of opening a TCP connection to a port on which nothing listens, or of listening
 * there. */
static int connects(bool listens)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), code;

    at.sin_port = htons(listens ? 0 : 9);
    code = (listens ? bind : connect)(fd, (const struct sockaddr *)&at, sizeof at) ? errno : 0;
    close(fd);
    return code;
}

static int count_denied(void)
{
    int n = 0;

    n += opens(elsewhere, O_RDONLY) == EACCES;
    n += opens("/etc/passwd", O_RDONLY) == EACCES;
    n += opens(models[0].path, O_WRONLY) == EACCES;
    const char *target = keep_format("%s.new", models[0].path);
    n += opens(target, O_WRONLY | O_CREAT) == EACCES;
    n += unlink(models[0].path) && errno == EACCES;
    n += rename(models[0].path, target) && errno == EACCES;
    n += execl("/bin/true", "true", (char *)NULL) && errno == EACCES;
    return n;
}

static int count_allowed(void)
{
    char replacement[512];
    int n = 0;

    snprintf(replacement, sizeof replacement, "%s.replacement", models[0].path);
    n += opens(models[0].path, O_RDONLY) == 0;
    n += opens(replacement, O_RDONLY) == 0;
    n += opens(linked, O_RDONLY) == 0;
    n += opens("/proc/meminfo", O_RDONLY) == 0;
    n += opens("/dev/null", O_RDWR) == 0;
    n += unlink(listeners.at[0].path) == 0;
    snprintf(replacement, sizeof replacement, "%s/new", statistics);
    n += opens(replacement, O_WRONLY | O_CREAT | O_EXCL) == 0;
    const char *kept = keep_format("%s/kept", statistics);
    n += rename(replacement, kept) == 0;
    n += opens(kept, O_RDONLY) == 0;
    n += unlink(kept) == 0;
    return n;
}

static enum sp_status enter_folders(struct sp_err *err)
{
    return sp_serve_sandbox_enter(&paths, &(struct sp_serve_adapters){0}, NULL, statistics,
                                  &listeners, err);
}

/* Runs the check in a child process inside a sandbox, and returns what it returned; skips the test
 * if the kernel has no such sandbox. */
static int inside(enum sp_status (*enter)(struct sp_err *err), int (*check)(void))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        struct sp_err err = {0};
        enum sp_status st = enter(&err);
        if (st) fprintf(stderr, "%s\n", err.text);
        _exit(st == SP_E_UNSUPPORTED ? SKIPPED : st ? 99 : check());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) skip();
    return WEXITSTATUS(status);
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *path = keep_format("%s/%d", scratch_folder(), i);
        if (mkdir(path, 0700)) return 1;
    }
    models[0].path = strdup(scratch_write("0/model", "a", 1));
    scratch_write("0/model.replacement", "a", 1);
    linked = strdup(scratch_write("1/linked", "a", 1));
    models[1].path = strdup(scratch_path("0/link"));
    statistics = strdup(scratch_path("3"));
    elsewhere = strdup(scratch_write("2/elsewhere", "a", 1));
    listeners.at[0].path = strdup(scratch_write("2/socket", "", 0));
    return symlink(linked, models[1].path);
}

TEST(test_denied)
{
    assert_int_equal(inside(enter_folders, count_denied), 7);
}

TEST(test_allowed)
{
    assert_int_equal(inside(enter_folders, count_allowed), 10);
}

/* Older kernels deny files only. */
static int count_connections(void)
{
    return (connects(false) == EACCES) + (connects(true) == EACCES) +
           (kill(getppid(), 0) && errno == EPERM);
}

TEST(test_connections)
{
    int n = inside(enter_folders, count_connections);

    assert_true(n == 0 || n == 2 || n == 3);
}

/* ---- system calls ---- */

static int count_forbidden(void)
{
    int n = 0;

    n += socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM;
    n += ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 && errno == EPERM;
    n += execl("/bin/true", "true", (char *)NULL) && errno == EPERM;
    n += unshare(CLONE_NEWUSER) && errno == EPERM;
    n += chmod(models[0].path, 0600) && errno == EPERM;
    n += setuid(getuid()) && errno == EPERM;
    n += symlink("a", "b") && errno == EPERM;
    return n;
}

static void *add_one(void *context)
{
    ++*(int *)context;
    return NULL;
}

/* What the program needs after its start. */
static int count_permitted(void)
{
    pthread_t thread;
    pid_t child;
    int n = 0, status;

    n += opens(models[0].path, O_RDONLY) == 0;
    n += pthread_create(&thread, NULL, add_one, &n) == 0 && pthread_join(thread, NULL) == 0;
    n += (child = fork()) >= 0;
    if (child == 0) _exit(7);
    n += waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7;
    return n;
}

TEST(test_system_calls)
{
    assert_int_equal(inside(sp_serve_syscalls_filter, count_forbidden), 7);
    assert_int_equal(inside(sp_serve_syscalls_filter, count_permitted), 5);
}

GROUP_FIXTURE(setup, scratch_teardown);
