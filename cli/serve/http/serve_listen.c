#include "cli/serve/http/serve_http.h"
#include "format/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, FIRST_PASSED_FD = 3 };

/* True for the number of an address of the loopback interface, as getnameinfo writes it. */
static bool is_loopback(const char *number)
{
    return strncmp(number, "127.", 4) == 0 || strcmp(number, "::1") == 0 ||
           strncmp(number, "::ffff:127.", 11) == 0;
}

/* Adds a listening socket, which `out` then owns. host: shown in the URL; NULL: the socket's. */
static enum sp_status add(struct sp_listeners *out, int fd, const char *host, struct sp_err *err)
{
    struct sp_listener *l = &out->at[out->n];
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    char own[128], port[16] = "";

    if (getsockname(fd, (struct sockaddr *)&address, &len))
        return sp_fail(err, SP_E_IO, "cannot read the address of a socket: %s", strerror(errno));
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    *l = (struct sp_listener){.fd = fd, .local = address.ss_family == AF_UNIX};
    if (l->local) {
        const struct sockaddr_un *unix_address = (const void *)&address;
        snprintf(l->url, sizeof l->url, "unix:%s", host ? host : unix_address->sun_path);
    } else {
        bool bracket;
        if (getnameinfo((struct sockaddr *)&address, len, own, sizeof own, port, sizeof port,
                        NI_NUMERICHOST | NI_NUMERICSERV))
            return sp_fail(err, SP_E_IO, "the address of a socket is not known");
        if (host == NULL) host = own;
        bracket = strchr(host, ':') != NULL;
        snprintf(l->url, sizeof l->url, "http://%s%.255s%s:%s", bracket ? "[" : "", host,
                 bracket ? "]" : "", port);
        l->loopback = is_loopback(own);
    }
    out->n++;
    return SP_OK;
}

static enum sp_status add_bound(struct sp_listeners *out, int domain, const struct sockaddr *at,
                                socklen_t len, const char *host, struct sp_err *err)
{
    static const char in_use[] = "; another server, perhaps ollama, listens there: --port N "
                                 "chooses another port";
    int one = 1, fd = socket(domain, SOCK_STREAM, 0);
    enum sp_status st = SP_OK;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) || bind(fd, at, len) ||
        listen(fd, BACKLOG)) {
        bool taken = errno == EADDRINUSE && domain != AF_UNIX;
        st = sp_fail(err, SP_E_IO, "%s%s", strerror(errno), taken ? in_use : "");
    } else {
        st = add(out, fd, host, err);
    }
    if (st && fd >= 0) close(fd);
    return st;
}

static enum sp_status listen_tcp(struct sp_listeners *out, const char *host, unsigned port,
                                 struct sp_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    char number[16];
    enum sp_status st;
    int code;

    snprintf(number, sizeof number, "%u", port);
    if ((code = getaddrinfo(host, number, &hints, &found)))
        return sp_fail(err, SP_E_USAGE, "--host %s: %s", host, gai_strerror(code));
    st = add_bound(out, found->ai_family, found->ai_addr, found->ai_addrlen, host, err);
    freeaddrinfo(found);
    if (st) sp_context(err, "--host %s --port %u", host, port);
    return st;
}

/* The inode of a socket's file; 0: there is none, or a file of another kind. */
static ino_t socket_inode(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

/* Removes the file of a socket on which no process listens any more. Connecting to a file of
 * another kind is refused as well, and such a file stays. */
static void remove_stale(const struct sockaddr_un *address)
{
    int fd = socket_inode(address->sun_path) ? socket(AF_UNIX, SOCK_STREAM, 0) : -1;

    if (fd < 0) return;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) && errno == ECONNREFUSED)
        (void)unlink(address->sun_path);
    close(fd);
}

static enum sp_status listen_unix(struct sp_listeners *out, const char *path, struct sp_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    char *copy = NULL;
    enum sp_status st;

    if (strlen(path) >= sizeof address.sun_path) {
        return sp_fail(err, SP_E_USAGE, "--host %s: the path of a socket has at most %zu bytes",
                       path, sizeof address.sun_path - 1);
    }
    strcpy(address.sun_path, path);
    if (lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode))
        return sp_fail(err, SP_E_USAGE, "--host %s: a file that is not a socket is there", path);
    if ((st = sp_copy_text(&copy, path, strlen(path), err))) return st;
    remove_stale(&address);
    st = add_bound(out, AF_UNIX, (struct sockaddr *)&address, sizeof address, path, err);
    if (st) {
        sp_context(err, "--host %s", path);
        free(copy);
        return st;
    }
    out->at[out->n - 1].path = copy;
    out->at[out->n - 1].inode = socket_inode(path);
    return SP_OK;
}

enum sp_status sp_listen(struct sp_listeners *out, const char *host, unsigned port,
                         struct sp_err *err)
{
    return strchr(host, '/') ? listen_unix(out, host, err) : listen_tcp(out, host, port, err);
}

/* Returns the number of sockets that were passed to this process. */
static long n_passed(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");

    return pid && n && strtol(pid, NULL, 10) == (long)getpid() ? strtol(n, NULL, 10) : 0;
}

enum sp_status sp_listen_activated(struct sp_listeners *out, struct sp_err *err)
{
    long n = n_passed();
    enum sp_status st;

    if (n > SP_LISTEN_MAX)
        return sp_fail(err, SP_E_USAGE, "LISTEN_FDS is %ld, expected at most %d", n, SP_LISTEN_MAX);
    for (int fd = FIRST_PASSED_FD; fd < FIRST_PASSED_FD + n; fd++) {
        int listens = 0;
        socklen_t len = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens) {
            return sp_fail(err, SP_E_USAGE, "LISTEN_FDS: descriptor %d is not a listening socket",
                           fd);
        }
        if ((st = add(out, fd, NULL, err))) return st;
    }
    return SP_OK;
}

void sp_listen_close(struct sp_listeners *listeners)
{
    for (size_t i = 0; i < listeners->n; i++) {
        struct sp_listener *l = &listeners->at[i];
        close(l->fd);
        if (l->inode && socket_inode(l->path) == l->inode) (void)unlink(l->path);
        free(l->path);
    }
    listeners->n = 0;
}
