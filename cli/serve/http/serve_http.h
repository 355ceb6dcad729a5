/* An HTTP server that passes requests to a handler and sends its responses. It knows nothing of
 * models and APIs.
 *
 * Only this file and its source use libmicrohttpd. Every connection has a thread of its own, so
 * that a handler may block and a slow client delays no other client. */
#ifndef SP_CLI_SERVE_HTTP_SERVE_HTTP_H
#define SP_CLI_SERVE_HTTP_SERVE_HTTP_H

#include "format/base/err.h"
#include "format/base/strbuf.h"

#include <sys/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <pthread.h>

/* ---- sockets to listen on (serve_listen.c) ----
 *
 * The sockets on which the server listens: a TCP port, a UNIX socket, or those from systemd. */

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
/* Takes the sockets that systemd has passed to this process (sd_listen_fds(3)), if it has. */
SP_MUST_CHECK enum sp_status sp_listen_activated(struct sp_listeners *out, struct sp_err *err);
void sp_listen_close(struct sp_listeners *listeners);

enum {
    SP_HTTP_MAX_BODY = 16 << 20,
    /* A request whose Content-Length is greater gets its response before the body is received. A
     * body between the two is received and dropped, since many clients read the response only
     * after they have sent the body. */
    SP_HTTP_MAX_DROPPED_BODY = 64 << 20
};

struct sp_http_connection; /* opaque */

/* A request; borrowed by the handler for the duration of the call. */
struct sp_http_request {
    const char *method, *path;
    const char *host, *origin; /* headers; NULL: absent */
    const char *body;          /* NUL-terminated; never NULL */
    size_t size;
    bool too_large;        /* the body exceeded SP_HTTP_MAX_BODY bytes and was dropped */
    bool no_memory;        /* the budget did not suffice for the body, which was dropped */
    bool loopback;         /* the request came to a socket of the loopback interface */
    const char *malformed; /* why the headers are not valid HTTP; static; NULL: they are valid */
    struct sp_http_connection *connection; /* NULL: the request comes from a file */
};

/* The response, which the handler fills; zeroed before. It has either a `body` or a stream. */
struct sp_http_response {
    int status;
    const char *type;          /* Content-Type; static */
    const char *allow;         /* Allow, or NULL; static */
    const char *cors;          /* Access-Control-Allow-Origin, or NULL; outlives the server */
    bool retry;                /* send Retry-After: 1 */
    bool ask_key;              /* send WWW-Authenticate: Bearer */
    char ignored[256];         /* X-Ignored-Members, also for the log; empty: not sent */
    char changes[520];         /* X-Changes; empty: not sent */
    char prompt_seconds[24];   /* X-Prompt-Seconds; empty: not sent */
    struct sp_strbuf body;     /* the server takes ownership */
    struct sp_strbuf log_line; /* text for the log; the server takes ownership */
    void *stream;              /* context of read and close; NULL: no stream */
    /* Waits for output and copies up to `size` bytes of it to `to`. Returns the number of bytes, 0
     * at the end, or a negative number to abort the connection. */
    long (*read)(void *stream, char *to, size_t size);
    /* Called once, however the stream ended. May append to the log text. */
    void (*close)(void *stream, struct sp_strbuf *log_line);
};

struct sp_http_options {
    struct sp_listeners listeners;  /* taken over by a server that opens, which closes them */
    struct sp_serve_budget *budget; /* of the bodies; borrowed */
    /* Beyond this number of connections, slow ones are closed. Some hundred more are accepted, so
     * that every client gets a response. */
    unsigned max_connections;
    void *context;
    /* Decides from the headers whether the request's body is worth receiving. Otherwise the
     * request is handled without it, and the connection is closed. */
    bool (*admits)(void *context, const char *path, const struct sp_http_connection *connection);
    void (*handle)(void *context, const struct sp_http_request *request,
                   struct sp_http_response *answer);
    /* Called when the response has been sent or could not be sent. May be NULL. */
    void (*log)(void *context, const char *method, const char *path, int status,
                const char *log_line, const char *ignored);
};

struct sp_http; /* opaque */

/* Starts to listen. */
SP_MUST_CHECK enum sp_status
sp_http_open(struct sp_http **out, const struct sp_http_options *options, struct sp_err *err);
/* Waits until no response is pending, for at most some seconds. */
void sp_http_await_responses(struct sp_http *http, double seconds);
/* Accepts no more connections, gives pending responses a short time, and closes the server. */
void sp_http_close(struct sp_http *http); /* accepts NULL */

/* The following functions accept NULL for a request that comes from a file. */

/* Returns a header of the request; NULL: absent. Borrowed until the request ends. */
const char *sp_http_header(const struct sp_http_connection *connection, const char *name);

/* Returns an argument of the request's URL; NULL: absent. Borrowed until the request ends. */
const char *sp_http_argument(const struct sp_http_connection *connection, const char *name);

/* Releases the body of the request, which the handler does not need any more. */
void sp_http_drop_body(struct sp_http_connection *connection);

/* True if the client has closed its end of the connection; of a request from a file: if a signal
 * has interrupted the program. */
bool sp_http_is_gone(const struct sp_http_connection *connection);

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_http_library(char *text, size_t size);

/* ---- the memory of requests (serve_budget.c) ----
 *
 * The memory that the requests of all clients may hold together: bodies that are being received and
 * the JSON of requests that wait or are answered. */

struct sp_serve_budget {
    pthread_mutex_t lock;
    size_t used, max; /* bytes */
    size_t peak;      /* largest `used` since it was 0 */
};
#define SP_SERVE_BUDGET_INIT(bytes)                                                                \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .max = (bytes)                                          \
    }

/* Takes `size` bytes. False: fewer are left, and none are taken. [any thread] */
bool sp_serve_budget_take(struct sp_serve_budget *budget, size_t size);
/* The bytes in use. */
size_t sp_serve_budget_used(struct sp_serve_budget *budget);
/* Gives bytes back. When none are used any more, the memory is returned to the system. */
void sp_serve_budget_give(struct sp_serve_budget *budget, size_t size);

/* ---- keys (serve_keys.c) ----
 *
 * The API keys of the server: a client must send one of them, as "Authorization: Bearer KEY" or
 * "x-api-key: KEY". */

/* Valid when zeroed: no key is needed. */
struct sp_serve_keys {
    char **at; /* [n], owned with the texts */
    size_t n, cap;
};

/* Reads the keys of a file, one on each line; empty lines and lines that begin with '#' are
 * skipped. path NULL: none. `key`: one more key; NULL: none. SP_E_INPUT: the file has no key. */
SP_MUST_CHECK enum sp_status sp_serve_keys_read(struct sp_serve_keys *out, const char *path,
                                                const char *key, struct sp_err *err);
void sp_serve_keys_release(struct sp_serve_keys *keys);

/* True if one of the headers has a key, or if no key is needed. The time that this takes depends on
 * the length of the header alone. NULL: the header is absent. */
bool sp_serve_keys_allow(const struct sp_serve_keys *keys, const char *authorization,
                         const char *x_api_key);

/* ---- open connections (serve_connections.c) ----
 *
 * The open connections of the server. Those that send their requests too slowly are closed, so that
 * they keep no other client out.
 *
 * A request must arrive within a time that grows with its size. When more connections are open than
 * the server wants, a new one also closes the one that has been sending its request for the longest
 * time. Connections whose response is being made are never closed here. */

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
/* Returns the connection of a socket; NULL: there is none. It is owned by the list. `enter`: the
 * calling thread is the one that receives its request. */
struct sp_connection *sp_connections_find(struct sp_connections *connections, int socket,
                                          bool enter);
/* Removes the connection of a socket, if it is in the list, before the socket is closed. */
void sp_connections_remove(struct sp_connections *connections, int socket);

/* Returns the socket of the connection whose request the calling thread, that of a connection,
 * receives; -1: not known. A thread that has not entered yet has the only connection without a
 * thread, if there is just one. */
int sp_connections_current(struct sp_connections *connections);

/* The connection begins to wait for a request or, if not `receiving`, for the response; it has
 * received `size` bytes of the request's body. */
void sp_connections_set(struct sp_connections *connections, struct sp_connection *c,
                        bool receiving);
void sp_connections_receive(struct sp_connections *connections, struct sp_connection *c,
                            size_t size);

#endif
