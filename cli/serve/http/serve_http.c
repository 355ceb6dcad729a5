/* _GNU_SOURCE declares POLLRDHUP: POSIX poll reports no closed connection with unread bytes. */
#define _GNU_SOURCE
#include "cli/serve/http/serve_http.h"
#include "format/base/clock.h"
#include "cli/base/signals.h"
#include "format/system/macos.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SPARE_CONNECTIONS = 256, /* connections beyond max_connections, which get a response at once */
    IDLE_SECONDS = 30,       /* timeout of a client that neither sends nor receives */
    CLOSE_SECONDS = 1        /* time for pending responses when the server closes */
};

struct sp_http {
    struct sp_http_options options;
    struct MHD_Daemon *daemon;
    struct sp_connections *connections;
    pthread_t acceptor;
    bool accepts;
    int wake[2]; /* pipe whose end stops the accepting thread */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    size_t n_open; /* requests whose response is not complete; under `lock` */
};

/* A request of a connection and its response. */
struct sp_http_connection {
    struct sp_http *http;
    struct MHD_Connection *mhd;
    struct sp_connection *peer; /* owned by http->connections */
    int socket;
    char *method, *path; /* owned */
    struct sp_strbuf body;
    size_t n_received; /* bytes of the body that arrived, also of one that is too large */
    size_t n_charged;  /* bytes of the body that were taken from the budget */
    bool too_large, no_memory, failed, answered;
    const char *malformed;
    bool without_body; /* the response is sent before the body is received */
    struct sp_http_response answer;
};

static void count(struct sp_http *http, int change)
{
    pthread_mutex_lock(&http->lock);
    http->n_open += (size_t)change;
    if (http->n_open == 0) pthread_cond_broadcast(&http->idle);
    pthread_mutex_unlock(&http->lock);
}

/* Sets the idle timeout of the connection; 0: none. */
static void set_timeout(struct sp_http_connection *c, unsigned seconds)
{
    MHD_set_connection_option(c->mhd, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

const char *sp_http_header(const struct sp_http_connection *c, const char *name)
{
    return c ? MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name) : NULL;
}

const char *sp_http_argument(const struct sp_http_connection *c, const char *name)
{
    return c ? MHD_lookup_connection_value(c->mhd, MHD_GET_ARGUMENT_KIND, name) : NULL;
}

bool sp_http_is_gone(const struct sp_http_connection *c)
{
    struct pollfd socket = {.events = POLLRDHUP};

    if (c == NULL) return sp_signals_caught();
    socket.fd = c->socket;
    return poll(&socket, 1, 0) > 0;
}

static int socket_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

static struct sp_http_connection *connection_new(struct sp_http *http, struct MHD_Connection *mhd,
                                                 const char *method, const char *path)
{
    int socket = socket_of(mhd);
    struct sp_connection *peer = sp_connections_find(http->connections, socket, false);
    struct sp_http_connection *c = NULL;

    if (peer == NULL || sp_new(&c, 1, sizeof *c, NULL)) return NULL;
    *c = (struct sp_http_connection){.http = http, .mhd = mhd, .peer = peer, .socket = socket};
    if (sp_copy_text(&c->method, method, strlen(method), NULL) ||
        sp_copy_text(&c->path, path, strlen(path), NULL)) {
        free(c->method);
        free(c);
        return NULL;
    }
    count(http, 1);
    return c;
}

void sp_http_drop_body(struct sp_http_connection *c)
{
    if (c == NULL) return;
    sp_strbuf_release(&c->body);
    sp_serve_budget_give(c->http->options.budget, c->n_charged);
    c->n_charged = 0;
}

/* Reads what has arrived on a socket, because closing it with unread bytes would take from the
 * client the response that it has been sent. */
static void drop_unread(int fd)
{
    char unread[4096];

    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0) {
    }
}

/* Sends a response without libmicrohttpd and ends the output of the connection. */
static void refuse_directly(int fd, unsigned status, const char *message)
{
    const bool retry = status == MHD_HTTP_SERVICE_UNAVAILABLE;
    char body[256], response[512];
    int size = snprintf(body, sizeof body,
                        "{\"error\": {\"message\": \"%s\", \"type\": \"%s\", \"param\": null, "
                        "\"code\": null}}\n",
                        message, retry ? "server_error" : "invalid_request_error");

    size = snprintf(response, sizeof response,
                    "HTTP/1.1 %u %s\r\n"
                    "Content-Type: application/json\r\n"
                    "Content-Length: %d\r\n"
                    "%sConnection: close\r\n\r\n%s",
                    status, MHD_get_reason_phrase_for(status), size,
                    retry ? "Retry-After: 1\r\n" : "", body);
    (void)!send(fd, response, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    drop_unread(fd);
}

/* True if the request announces a body that is too large to be received at all. A Content-Length
 * that is no number of 64 bits is refused by libmicrohttpd. */
static bool announces_too_much(const struct sp_http_connection *c)
{
    const char *length = sp_http_header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return length && strtoumax(length, NULL, 10) > SP_HTTP_MAX_DROPPED_BODY;
}

/* Adds received bytes to the body. A body that is too large is read to its end all the same, so
 * that the client reads the response. False: it is larger than any that is received, which chunks
 * do not announce. */
static bool take_body(struct sp_http_connection *c, const char *data, size_t size)
{
    sp_connections_receive(c->http->connections, c->peer, size);
    c->n_received += size;
    if (c->n_received > SP_HTTP_MAX_DROPPED_BODY) return false;
    if (c->too_large || c->no_memory || c->failed) return true;
    if (size > SP_HTTP_MAX_BODY - c->body.len) {
        c->too_large = true;
    } else if (!sp_serve_budget_take(c->http->options.budget, size)) {
        c->no_memory = true;
    } else {
        c->n_charged += size;
        c->failed = sp_strbuf_append(&c->body, data, size, NULL) != SP_OK;
    }
    if (c->too_large || c->no_memory || c->failed) sp_http_drop_body(c);
    return true;
}

/* Copies output of the handler's stream to libmicrohttpd. Afterwards the idle timeout starts anew,
 * so that the time spent waiting for output does not count against the client. */
static ssize_t read_stream(void *context, uint64_t pos, char *to, size_t size)
{
    struct sp_http_connection *c = context;
    long n = c->answer.read(c->answer.stream, to, size);

    (void)pos;
    set_timeout(c, 0);
    set_timeout(c, IDLE_SECONDS);
    if (n > 0) return (ssize_t)n;
    return n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static bool add_headers(struct MHD_Response *response, const struct sp_http_connection *c)
{
    const struct sp_http_response *a = &c->answer;
    const bool shared = a->cors != NULL;
    const bool page = a->type != NULL && strncmp(a->type, "text/html", 9) == 0;
    const struct {
        const char *name, *value;
    } rows[] = {
        {MHD_HTTP_HEADER_CACHE_CONTROL, a->stream ? "no-cache" : NULL},
        {MHD_HTTP_HEADER_CONTENT_TYPE, a->type},
        {MHD_HTTP_HEADER_ALLOW, a->allow},
        {"Content-Security-Policy", page ? "frame-ancestors 'none'" : NULL},
        {"X-Frame-Options", page ? "DENY" : NULL},
        {MHD_HTTP_HEADER_RETRY_AFTER, a->retry ? "1" : NULL},
        {MHD_HTTP_HEADER_WWW_AUTHENTICATE, a->ask_key ? "Bearer" : NULL},
        {"X-Ignored-Members", *a->ignored ? a->ignored : NULL},
        {"X-Changes", *a->changes ? a->changes : NULL},
        {"X-Prompt-Seconds", *a->prompt_seconds ? a->prompt_seconds : NULL},
        {MHD_HTTP_HEADER_CONNECTION, c->without_body ? "close" : NULL},
        {"Access-Control-Allow-Origin", a->cors},
        {"Access-Control-Allow-Methods", shared ? "GET, POST, OPTIONS" : NULL},
        {"Access-Control-Allow-Headers", shared ? "Authorization, Content-Type, *" : NULL},
        {MHD_HTTP_HEADER_VARY, shared ? "Origin" : NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value &&
            MHD_add_response_header(response, rows[i].name, rows[i].value) != MHD_YES)
            return false;
    return true;
}

/* NULL: out of memory for the response or a header, without which it would mean something else. */
static struct MHD_Response *response_of(struct sp_http_connection *c)
{
    struct sp_http_response *a = &c->answer;
    struct MHD_Response *response =
        a->stream
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, c, NULL)
            : MHD_create_response_from_buffer(a->body.len, a->body.at, MHD_RESPMEM_PERSISTENT);

    if (response == NULL || add_headers(response, c)) return response;
    MHD_destroy_response(response);
    return NULL;
}

static enum MHD_Result answer(struct sp_http_connection *c)
{
    const struct sp_http_options *o = &c->http->options;
    struct sp_http_request request = {
        .method = c->method,
        .path = c->path,
        .host = sp_http_header(c, MHD_HTTP_HEADER_HOST),
        .origin = sp_http_header(c, MHD_HTTP_HEADER_ORIGIN),
        .size = c->body.len,
        .too_large = c->too_large,
        .no_memory = c->no_memory,
        .loopback = c->peer->listener->loopback,
        .malformed = c->malformed,
        .connection = c,
    };
    struct MHD_Response *response;
    enum MHD_Result done;

    if (c->failed || sp_strbuf_append(&c->body, "", 1, NULL)) return MHD_NO;
    request.body = c->body.at;
    sp_connections_set(c->http->connections, c->peer, false);
    set_timeout(c, 0);
    o->handle(o->context, &request, &c->answer);
    c->answered = true;
    sp_http_drop_body(c);
    set_timeout(c, IDLE_SECONDS);
    if (c->answer.status == 0 || (response = response_of(c)) == NULL) return MHD_NO;
    done = MHD_queue_response(c->mhd, (unsigned)c->answer.status, response);
    MHD_destroy_response(response);
    return done;
}

/* What the headers of a request contain. */
struct header_check {
    unsigned n_lengths, n_encodings, n_hosts, n_origins;
    bool bad_name, bad_encoding, folded;
};

/* True if a folded line may have been appended to the name of this header, as libmicrohttpd 0.9.75
 * does: a request would have another length than a proxy sees. No other header begins like that. */
static bool hides(const char *name, const char *header)
{
    size_t n = strlen(header);

    return strncasecmp(name, header, n) == 0 && name[n] != '\0';
}

static enum MHD_Result check_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct header_check *check = context;

    (void)kind;
    check->n_lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    check->n_hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    check->n_origins += strcasecmp(name, MHD_HTTP_HEADER_ORIGIN) == 0;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        check->n_encodings++;
        if (value == NULL || strcasecmp(value, "chunked") != 0) check->bad_encoding = true;
    }
    check->folded |= hides(name, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
                     hides(name, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (*name == '\0' || strpbrk(name, " \t\"(),/:;<=>?@[\\]{}")) check->bad_name = true;
    return MHD_YES;
}

/* Returns why the headers are malformed, NULL: they are not. Headers that a proxy may read
 * differently are refused: they could pass a request through it that it would not allow. */
static const char *find_malformed(struct MHD_Connection *mhd, const char *version)
{
    struct header_check check = {0};

    (void)MHD_get_connection_values(mhd, MHD_HEADER_KIND, check_header, &check);
    if (check.bad_name) return "the name of a header is not valid";
    if (check.folded) return "the length of the request is on a folded line";
    if (check.n_hosts > 1) return "the request has more than one Host header";
    if (check.n_hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
        return "the request has no Host header, which HTTP/1.1 requires";
    if (check.n_origins > 1) return "the request has more than one Origin header";
    if (check.n_lengths > 1) return "the request has more than one Content-Length header";
    if (check.n_encodings > 1) return "the request has more than one Transfer-Encoding header";
    if (check.n_lengths + check.n_encodings > 1)
        return "the request has both Content-Length and Transfer-Encoding";
    if (check.n_encodings && strcmp(version, MHD_HTTP_VERSION_1_0) == 0)
        return "the request has Transfer-Encoding, which HTTP/1.0 does not have";
    if (check.bad_encoding)
        return "Transfer-Encoding is not chunked, the only one that is supported";
    return NULL;
}

/* Called by libmicrohttpd for the headers, every part of the body, and the end of the request. */
static enum MHD_Result receive(void *context, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *size, void **own)
{
    struct sp_http_connection *c = *own;

    if (c == NULL) {
        if ((*own = c = connection_new(context, mhd, method, url)) == NULL) return MHD_NO;
        c->malformed = find_malformed(mhd, version);
        c->too_large = announces_too_much(c);
        c->without_body = c->malformed || c->too_large ||
                          !c->http->options.admits(c->http->options.context, url, c);
        return c->without_body ? answer(c) : MHD_YES;
    }
    if (*size > 0) {
        if (!take_body(c, data, *size)) {
            refuse_directly(c->socket, 413, "the request body is too large");
            c->answer.status = 413;
            c->answered = true;
            return MHD_NO;
        }
        *size = 0;
        return MHD_YES;
    }
    return c->answered ? MHD_YES : answer(c);
}

/* ---- refusals of libmicrohttpd ---- */

static void *begin_request(void *context, const char *uri, struct MHD_Connection *mhd)
{
    struct sp_http *http = context;

    (void)uri;
    (void)sp_connections_find(http->connections, socket_of(mhd), true);
    return NULL;
}

/* Receives the messages of libmicrohttpd. It reports a request that it refuses, by the status and
 * the text of its response, before it sends that, which would be a page of HTML. A chunk's line
 * longer than its buffer is an error of the server there, whose text is about "blocking". */
static void take_message(void *context, const char *format, va_list arguments)
{
    struct sp_http *http = context;
    const char *text;
    unsigned status;
    int fd;

    if (strncmp(format, "Error processing request (HTTP response code is %u", 50) != 0) return;
    status = va_arg(arguments, unsigned);
    text = va_arg(arguments, const char *);
    if (text && strstr(text, "blocking")) status = 413;
    fd = sp_connections_current(http->connections);
    if (fd < 0 || status < 400) return;
    refuse_directly(fd, status, "the request is not valid HTTP, or its headers are too large");
}

/* Decodes %XX in a path or an argument. A text with an escaped NUL stays as it is, so that no path
 * seems to end there. */
static size_t unescape(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static void finish(void *context, struct MHD_Connection *mhd, void **own,
                   enum MHD_RequestTerminationCode how)
{
    struct sp_http_connection *c = *own;
    const struct sp_http_options *o;

    (void)context;
    (void)mhd;
    (void)how;
    if (c == NULL) return;
    *own = NULL;
    o = &c->http->options;
    if (c->answer.stream) c->answer.close(c->answer.stream, &c->answer.log_line);
    if (o->log && c->answered && !sp_strbuf_append(&c->answer.log_line, "", 1, NULL)) {
        o->log(o->context, c->method, c->path, c->answer.status, c->answer.log_line.at,
               c->answer.ignored);
    }
    sp_connections_set(c->http->connections, c->peer, true);
    sp_strbuf_release(&c->answer.body);
    sp_strbuf_release(&c->answer.log_line);
    sp_http_drop_body(c);
    free(c->method);
    free(c->path);
    count(c->http, -1);
    free(c);
}

static void forget_closed(void *context, struct MHD_Connection *mhd, void **own,
                          enum MHD_ConnectionNotificationCode code)
{
    struct sp_http *http = context;

    (void)own;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        sp_connections_remove(http->connections, socket_of(mhd));
}

/* ---- accepting ---- */

static void accept_one(struct sp_http *http, const struct sp_listener *listener)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    int fd = accept(listener->fd, (struct sockaddr *)&address, &len);

    if (fd < 0) {
        const struct timespec pause = {.tv_nsec = 10000000}; /* while no descriptor is left */
        if (errno == EMFILE || errno == ENFILE) nanosleep(&pause, NULL);
        return;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!sp_connections_add(http->connections, fd, listener)) {
        refuse_directly(fd, MHD_HTTP_SERVICE_UNAVAILABLE,
                        "too many connections are open, try later");
        close(fd);
        return;
    }
    if (MHD_add_connection(http->daemon, fd, (struct sockaddr *)&address, len) != MHD_YES)
        sp_connections_remove(http->connections, fd);
}

static void *accept_connections(void *context)
{
    struct sp_http *http = context;
    const struct sp_listeners *l = &http->options.listeners;
    struct pollfd fds[SP_LISTEN_MAX + 1];

    for (size_t i = 0; i < l->n; i++)
        fds[i] = (struct pollfd){.fd = l->at[i].fd, .events = POLLIN};
    fds[l->n] = (struct pollfd){.fd = http->wake[0], .events = POLLIN};
    while (poll(fds, (nfds_t)l->n + 1, -1) >= 0 || errno == EINTR) {
        if (fds[l->n].revents) break;
        for (size_t i = 0; i < l->n; i++)
            if (fds[i].revents) accept_one(http, &l->at[i]);
    }
    return NULL;
}

static enum sp_status start_accepting(struct sp_http *http, struct sp_err *err)
{
    for (size_t i = 0; i < http->options.listeners.n; i++) {
        int fd = http->options.listeners.at[i].fd;
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    if (pipe(http->wake)) return sp_fail(err, SP_E_IO, "cannot create a pipe: %s", strerror(errno));
    (void)fcntl(http->wake[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(http->wake[1], F_SETFD, FD_CLOEXEC);
    if (pthread_create(&http->acceptor, NULL, accept_connections, http))
        return sp_fail(err, SP_E_NOMEM, "cannot create the thread that accepts connections");
    http->accepts = true;
    return SP_OK;
}

enum sp_status sp_http_open(struct sp_http **out, const struct sp_http_options *options,
                            struct sp_err *err)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    const unsigned n_most = options->max_connections + SPARE_CONNECTIONS;
    struct sp_http *http = NULL;
    enum sp_status st;

    if ((st = sp_new(&http, 1, sizeof *http, err))) return st;
    http->wake[0] = http->wake[1] = -1;
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->idle, NULL);
    http->options = *options;
    http->options.listeners.n = 0; /* they are the caller's until the server has opened */
    st = sp_connections_open(&http->connections, options->max_connections, n_most, err);
    if (st) goto done;
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, receive, http, MHD_OPTION_EXTERNAL_LOGGER, take_message, http,
        MHD_OPTION_URI_LOG_CALLBACK, begin_request, http, MHD_OPTION_NOTIFY_COMPLETED, finish, http,
        MHD_OPTION_NOTIFY_CONNECTION, forget_closed, http, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT, n_most + 1,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
    if (http->daemon == NULL) {
        st = sp_fail(err, errno == ENOMEM || errno == EAGAIN ? SP_E_NOMEM : SP_E_IO,
                     "cannot start the HTTP server: %s", strerror(errno));
        goto done;
    }
    http->options.listeners.n = options->listeners.n;
    if ((st = start_accepting(http, err))) {
        http->options.listeners.n = 0;
        goto done;
    }
    *out = http;
    http = NULL;
done:
    sp_http_close(http);
    return st;
}

void sp_http_await_responses(struct sp_http *http, double seconds)
{
    struct timespec until = sp_deadline(seconds);
    int late = 0;

    pthread_mutex_lock(&http->lock);
    while (http->n_open > 0 && !late)
        late = pthread_cond_timedwait(&http->idle, &http->lock, &until);
    pthread_mutex_unlock(&http->lock);
}

void sp_http_close(struct sp_http *http)
{
    if (http == NULL) return;
    if (http->wake[1] >= 0) close(http->wake[1]); /* the reading end becomes ready */
    if (http->accepts) pthread_join(http->acceptor, NULL);
    if (http->wake[0] >= 0) close(http->wake[0]);
    sp_listen_close(&http->options.listeners);
    if (http->daemon != NULL) {
        sp_http_await_responses(http, CLOSE_SECONDS);
        MHD_stop_daemon(http->daemon);
    }
    sp_connections_close(http->connections);
    pthread_cond_destroy(&http->idle);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

void sp_http_library(char *text, size_t size)
{
    snprintf(text, size, "libmicrohttpd %s", MHD_get_version());
}
