/* HTTP: connections in, requests out, answers back. It knows no models and no APIs.
 *
 * libmicrohttpd does the protocol, and this is its only home. Every connection has a thread of its
 * own, so a handler may wait, and a slow client keeps nobody but itself waiting. */
#ifndef SP_CLI_SERVE_SERVE_HTTP_H
#define SP_CLI_SERVE_SERVE_HTTP_H

#include "format/base/err.h"
#include "format/base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

enum { SP_HTTP_MAX_BODY = 16 << 20 };

struct sp_http_connection; /* opaque */

/* Borrowed during the handler's call. */
struct sp_http_request {
    const char *method, *path;
    const char *host, *origin; /* headers; NULL: not there */
    const char *body;          /* NUL-terminated; never NULL */
    size_t size;
    bool too_large; /* the body had more than SP_HTTP_MAX_BODY bytes, which are gone */
    struct sp_http_connection *connection;
};

/* What a handler fills; zeroed at first. Either `body`, or a stream. */
struct sp_http_response {
    int status;
    const char *type;  /* Content-Type; static */
    const char *allow; /* Allow, or NULL; static */
    const char *cors;  /* Access-Control-Allow-Origin, or NULL; borrowed as long as the server */
    bool retry;        /* Retry-After: 1 */
    struct sp_strbuf body;  /* owned: taken over */
    struct sp_strbuf about; /* owned: what the log says behind the status; may grow until closed */
    void *stream;           /* NULL: none */
    /* Up to `size` bytes into `to`, waiting for the first of them; 0: the end; negative: cut off.
     */
    long (*read)(void *stream, char *to, size_t size);
    void (*close)(void *stream, struct sp_strbuf *about); /* however it ended */
};

struct sp_http_options {
    const char *host; /* name or number */
    unsigned port;    /* 0: any that is free */
    unsigned max_connections;
    void *context;
    void (*handle)(void *context, const struct sp_http_request *request,
                   struct sp_http_response *answer);
    /* The answer has been sent, or could not be. May be NULL. */
    void (*log)(void *context, const char *method, const char *path, int status, const char *about);
};

struct sp_http; /* opaque */

/* Listens. */
SP_MUST_CHECK enum sp_status
sp_http_open(struct sp_http **out, const struct sp_http_options *options, struct sp_err *err);
unsigned sp_http_port(const struct sp_http *http);
/* Takes no more connections, gives answers on their way a moment to go out, and ends. */
void sp_http_close(struct sp_http *http); /* NULL is fine */

/* A header of the request; NULL: not there. Borrowed as long as the request. */
const char *sp_http_header(const struct sp_http_connection *connection, const char *name);

/* Has the client closed its end? */
bool sp_http_is_gone(const struct sp_http_connection *connection);

#endif
