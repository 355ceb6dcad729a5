/* The open connections of the server. Those that send their requests too slowly are closed, so that
 * they keep no other client out.
 *
 * A request must arrive within a time that grows with its size. When more connections are open than
 * the server wants, a new one also closes the one that has been sending its request for the longest
 * time. Connections whose response is being made are never closed here. */
#ifndef SP_CLI_SERVE_HTTP_SERVE_CONNECTIONS_H
#define SP_CLI_SERVE_HTTP_SERVE_CONNECTIONS_H

#include "format/base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct sp_listener;

/* One connection. */
struct sp_connection {
    int socket;
    const struct sp_listener *listener; /* that has accepted it; borrowed */
    bool receiving;                     /* it sends a request, or is idle */
    bool closing;                       /* it has been shut down */
    double since;                       /* start of the current state, seconds of sp_seconds */
    size_t n_received;                  /* bytes of the request's body */
    pthread_t thread;                   /* that receives the request, if has_thread */
    bool has_thread;
    struct sp_connection *next;
};

struct sp_connections; /* opaque */

/* n_wanted: the number of connections beyond which slow ones are closed; n_most: the most
 * connections there can be. Starts a thread that closes late ones. */
SP_MUST_CHECK enum sp_status sp_connections_open(struct sp_connections **out, size_t n_wanted,
                                                 size_t n_most, struct sp_err *err);
void sp_connections_close(struct sp_connections *connections); /* accepts NULL */

/* Adds the connection of a socket. False: there are too many, or memory ran out. [any thread] */
bool sp_connections_add(struct sp_connections *connections, int socket,
                        const struct sp_listener *listener);
/* Returns the connection of a socket; NULL: there is none. It is owned by the list. */
struct sp_connection *sp_connections_find(struct sp_connections *connections, int socket);
/* Removes the connection of a socket, if it is in the list, before the socket is closed. */
void sp_connections_remove(struct sp_connections *connections, int socket);

/* The calling thread receives the request of the connection of a socket. */
void sp_connections_enter(struct sp_connections *connections, int socket);
/* Returns the socket of the connection whose request the calling thread, that of a connection,
 * receives; -1: not known. A thread that has not entered yet has the only connection without a
 * thread, if there is just one. */
int sp_connections_current(struct sp_connections *connections);

/* The connection begins to wait for a request, has received `size` bytes of its body, or begins to
 * wait for the response. */
void sp_connections_expect(struct sp_connections *connections, struct sp_connection *c);
void sp_connections_receive(struct sp_connections *connections, struct sp_connection *c,
                            size_t size);
void sp_connections_respond(struct sp_connections *connections, struct sp_connection *c);

#endif
