/* The sockets on which the server listens: a TCP port, a UNIX socket, or those from systemd. */
#ifndef SP_CLI_SERVE_HTTP_SERVE_LISTEN_H
#define SP_CLI_SERVE_HTTP_SERVE_LISTEN_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { SP_LISTEN_MAX = 8, SP_LISTEN_TEXT = 320 };

struct sp_listener {
    int fd;
    bool local;    /* a UNIX socket */
    bool loopback; /* bound to an address of the loopback interface */
    char *path;    /* file of a UNIX socket, removed by close; owned; NULL: none */
    ino_t inode;   /* of that file: another one in its place is not removed */
    char url[SP_LISTEN_TEXT];
};

/* The sockets that accept connections. Valid when zeroed. */
struct sp_listeners {
    struct sp_listener at[SP_LISTEN_MAX];
    size_t n;
};

/* Listens on a host and port (0: any free port) or, if `host` contains a slash, on a UNIX socket of
 * that path. A socket file on which no process listens is replaced; any other file is refused. */
SP_MUST_CHECK enum sp_status sp_listen(struct sp_listeners *out, const char *host, unsigned port,
                                       struct sp_err *err);
/* True if systemd has passed sockets to this process (sd_listen_fds(3)). */
bool sp_listen_is_activated(void);
/* Takes the sockets that systemd has passed. */
SP_MUST_CHECK enum sp_status sp_listen_activated(struct sp_listeners *out, struct sp_err *err);
void sp_listen_close(struct sp_listeners *listeners);

#endif
