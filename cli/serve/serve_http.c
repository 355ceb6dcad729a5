/* _GNU_SOURCE declares POLLRDHUP: POSIX poll does not report a closed connection while bytes are
 * unread. */
#define _GNU_SOURCE
#include "cli/serve/serve_http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BACKLOG = 64,
    IDLE_SECONDS = 30, /* timeout of a client that neither sends nor receives */
    CLOSE_SECONDS = 2  /* time for pending responses when the server closes */
};

struct sp_http {
    struct sp_http_options options;
    struct MHD_Daemon *daemon;
    int listener;
    unsigned port;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    size_t n_open; /* requests whose response is not complete; under `lock` */
};

/* A request of a connection and its response. */
struct sp_http_connection {
    struct sp_http *http;
    struct MHD_Connection *mhd;
    int socket;
    char *method, *path; /* owned */
    struct sp_strbuf body;
    bool too_large, failed, answered;
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
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

bool sp_http_is_gone(const struct sp_http_connection *c)
{
    struct pollfd socket = {.fd = c->socket, .events = POLLRDHUP};

    return poll(&socket, 1, 0) > 0;
}

static struct sp_http_connection *connection_new(struct sp_http *http, struct MHD_Connection *mhd,
                                                 const char *method, const char *path)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct sp_http_connection *c = NULL;

    if (info == NULL || sp_new(&c, 1, sizeof *c, NULL)) return NULL;
    *c = (struct sp_http_connection){.http = http, .mhd = mhd, .socket = info->connect_fd};
    if (sp_copy_text(&c->method, method, strlen(method), NULL) ||
        sp_copy_text(&c->path, path, strlen(path), NULL)) {
        free(c->method);
        free(c);
        return NULL;
    }
    count(http, 1);
    return c;
}

/* Adds received bytes to the body. A body that is too large is read to its end all the same, so
 * that the client reads the response. */
static void take_body(struct sp_http_connection *c, const char *data, size_t size)
{
    if (c->too_large || c->failed) return;
    if (size > SP_HTTP_MAX_BODY - c->body.len) {
        c->too_large = true;
        sp_strbuf_release(&c->body);
    } else if (sp_strbuf_append(&c->body, data, size, NULL)) {
        c->failed = true;
        sp_strbuf_release(&c->body);
    }
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

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value != NULL) (void)MHD_add_response_header(response, name, value);
}

static struct MHD_Response *response_of(struct sp_http_connection *c)
{
    struct sp_http_response *a = &c->answer;
    struct MHD_Response *response;

    if (a->stream != NULL) {
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, c, NULL);
        if (response != NULL) add_header(response, "Cache-Control", "no-cache");
    } else {
        response = MHD_create_response_from_buffer(a->body.len, a->body.at, MHD_RESPMEM_PERSISTENT);
    }
    if (response == NULL) return NULL;
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    add_header(response, MHD_HTTP_HEADER_ALLOW, a->allow);
    add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, a->retry ? "1" : NULL);
    if (a->cors != NULL) {
        add_header(response, "Access-Control-Allow-Origin", a->cors);
        add_header(response, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        add_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type, *");
        add_header(response, "Vary", "Origin");
    }
    return response;
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
        .connection = c,
    };
    struct MHD_Response *response;
    enum MHD_Result done;

    if (c->failed || sp_strbuf_append(&c->body, "", 1, NULL)) return MHD_NO;
    request.body = c->body.at;
    set_timeout(c, 0);
    o->handle(o->context, &request, &c->answer);
    c->answered = true;
    sp_strbuf_release(&c->body);
    set_timeout(c, IDLE_SECONDS);
    if (c->answer.status == 0 || (response = response_of(c)) == NULL) return MHD_NO;
    done = MHD_queue_response(c->mhd, (unsigned)c->answer.status, response);
    MHD_destroy_response(response);
    return done;
}

/* Called by libmicrohttpd for the headers, for every part of the body, and at the end of the
 * request. */
static enum MHD_Result receive(void *context, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *size, void **own)
{
    struct sp_http_connection *c = *own;

    (void)version;
    if (c == NULL) {
        *own = connection_new(context, mhd, method, url);
        return *own ? MHD_YES : MHD_NO;
    }
    if (*size > 0) {
        take_body(c, data, *size);
        *size = 0;
        return MHD_YES;
    }
    return c->answered ? MHD_YES : answer(c);
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
        o->log(o->context, c->method, c->path, c->answer.status, c->answer.log_line.at);
    }
    count(c->http, -1);
    sp_strbuf_release(&c->answer.body);
    sp_strbuf_release(&c->answer.log_line);
    sp_strbuf_release(&c->body);
    free(c->method);
    free(c->path);
    free(c);
}

static enum sp_status listen_on(int *out, const struct addrinfo *at, const char *host,
                                unsigned port, struct sp_err *err)
{
    int one = 1, fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, BACKLOG)) {
        enum sp_status st =
            sp_fail(err, SP_E_IO, "--host %s --port %u: %s", host, port, strerror(errno));
        if (fd >= 0) close(fd);
        return st;
    }
    *out = fd;
    return SP_OK;
}

static enum sp_status open_listener(struct sp_http *http, struct sp_err *err)
{
    const struct sp_http_options *o = &http->options;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char port[16];
    enum sp_status st;
    int code;

    snprintf(port, sizeof port, "%u", o->port);
    if ((code = getaddrinfo(o->host, port, &hints, &found))) {
        return sp_fail(err, SP_E_USAGE, "--host %s: %s", o->host, gai_strerror(code));
    }
    st = listen_on(&http->listener, found, o->host, o->port, err);
    freeaddrinfo(found);
    if (st) return st;
    if (getsockname(http->listener, (struct sockaddr *)&address, &len) ||
        getnameinfo((struct sockaddr *)&address, len, NULL, 0, port, sizeof port, NI_NUMERICSERV)) {
        return sp_fail(err, SP_E_IO, "--host %s: its port is not known", o->host);
    }
    http->port = (unsigned)strtoul(port, NULL, 10);
    return SP_OK;
}

enum sp_status sp_http_open(struct sp_http **out, const struct sp_http_options *options,
                            struct sp_err *err)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC;
    struct sp_http *http = NULL;
    enum sp_status st;

    if ((st = sp_new(&http, 1, sizeof *http, err))) return st;
    http->options = *options;
    http->listener = -1;
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->idle, NULL);
    if ((st = open_listener(http, err))) goto done;
    http->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, receive, http, MHD_OPTION_LISTEN_SOCKET,
                         http->listener, MHD_OPTION_NOTIFY_COMPLETED, finish, http,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
                         MHD_OPTION_CONNECTION_LIMIT, options->max_connections, MHD_OPTION_END);
    if (http->daemon == NULL) {
        st = sp_fail(err, SP_E_IO, "no HTTP server: %s", strerror(errno));
        goto done;
    }
    *out = http;
    http = NULL;
done:
    sp_http_close(http);
    return st;
}

unsigned sp_http_port(const struct sp_http *http)
{
    return http->port;
}

void sp_http_close(struct sp_http *http)
{
    struct timespec until;
    int late = 0;

    if (http == NULL) return;
    if (http->daemon != NULL) {
        (void)MHD_quiesce_daemon(http->daemon);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += CLOSE_SECONDS;
        pthread_mutex_lock(&http->lock);
        while (http->n_open > 0 && !late)
            late = pthread_cond_timedwait(&http->idle, &http->lock, &until);
        pthread_mutex_unlock(&http->lock);
        MHD_stop_daemon(http->daemon);
    }
    if (http->listener >= 0) close(http->listener);
    pthread_cond_destroy(&http->idle);
    pthread_mutex_destroy(&http->lock);
    free(http);
}
