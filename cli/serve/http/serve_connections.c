#include "cli/serve/http/serve_http.h"
#include "format/base/clock.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <sys/socket.h>

/* The time for a request: 30 seconds and one more for each 64 KiB of its body. A connection that
 * has been sending for less than half a second is not slow. */
#define REQUEST_SECONDS 30.0
#define BYTES_PER_SECOND 65536.0
#define GRACE_SECONDS 0.5

struct sp_connections {
    pthread_mutex_t lock;
    pthread_cond_t stop;
    struct sp_connection *first;
    size_t n, n_wanted, n_most;
    bool stopped, watches;
    pthread_t watcher;
};

/* Ends a connection: its thread reads the end of the stream and closes the socket. */
static void shut_down(struct sp_connection *c)
{
    c->closing = true;
    (void)shutdown(c->socket, SHUT_RDWR);
}

static void close_late(struct sp_connections *s)
{
    double now = sp_seconds();

    for (struct sp_connection *c = s->first; c; c = c->next) {
        double limit = REQUEST_SECONDS + (double)c->n_received / BYTES_PER_SECOND;
        if (c->receiving && !c->closing && now - c->since > limit) shut_down(c);
    }
}

static void close_slowest(struct sp_connections *s)
{
    struct sp_connection *slowest = NULL;
    double before = sp_seconds() - GRACE_SECONDS;

    for (struct sp_connection *c = s->first; c; c = c->next) {
        if (!c->receiving || c->closing || c->since > before) continue;
        slowest = c;
        before = c->since;
    }
    if (slowest) shut_down(slowest);
}

static void *watch(void *context)
{
    struct sp_connections *s = context;
    struct timespec until;

    pthread_mutex_lock(&s->lock);
    while (!s->stopped) {
        until = sp_deadline(1);
        (void)pthread_cond_timedwait(&s->stop, &s->lock, &until);
        close_late(s);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum sp_status sp_connections_open(struct sp_connections **out, size_t n_wanted, size_t n_most,
                                   struct sp_err *err)
{
    struct sp_connections *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    s->n_wanted = n_wanted;
    s->n_most = n_most;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->stop, NULL);
    if (pthread_create(&s->watcher, NULL, watch, s)) {
        sp_connections_close(s);
        return sp_fail(err, SP_E_NOMEM, "cannot create the thread that closes late connections");
    }
    s->watches = true;
    *out = s;
    return SP_OK;
}

void sp_connections_close(struct sp_connections *s)
{
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->stopped = true;
    pthread_cond_signal(&s->stop);
    pthread_mutex_unlock(&s->lock);
    if (s->watches) pthread_join(s->watcher, NULL);
    while (s->first) {
        struct sp_connection *c = s->first;
        s->first = c->next;
        free(c);
    }
    pthread_cond_destroy(&s->stop);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool sp_connections_add(struct sp_connections *s, int socket, const struct sp_listener *listener)
{
    struct sp_connection *c = NULL;
    bool added = false;

    pthread_mutex_lock(&s->lock);
    if (s->n >= s->n_wanted) close_slowest(s);
    if (s->n < s->n_most && sp_new(&c, 1, sizeof *c, NULL) == SP_OK) {
        *c = (struct sp_connection){.socket = socket,
                                    .listener = listener,
                                    .receiving = true,
                                    .since = sp_seconds(),
                                    .next = s->first};
        s->first = c;
        s->n++;
        added = true;
    }
    pthread_mutex_unlock(&s->lock);
    return added;
}

struct sp_connection *sp_connections_find(struct sp_connections *s, int socket, bool enter)
{
    struct sp_connection *c;

    pthread_mutex_lock(&s->lock);
    for (c = s->first; c && c->socket != socket;)
        c = c->next;
    if (c && enter) c->thread = pthread_self();
    if (c && enter) c->has_thread = true;
    pthread_mutex_unlock(&s->lock);
    return c;
}

void sp_connections_remove(struct sp_connections *s, int socket)
{
    struct sp_connection **at = &s->first, *c;

    pthread_mutex_lock(&s->lock);
    while (*at && (*at)->socket != socket)
        at = &(*at)->next;
    if ((c = *at) != NULL) {
        *at = c->next;
        s->n--;
    }
    pthread_mutex_unlock(&s->lock);
    free(c);
}

int sp_connections_current(struct sp_connections *s)
{
    int socket = -1, fresh = -1;
    size_t n_fresh = 0;

    pthread_mutex_lock(&s->lock);
    for (const struct sp_connection *c = s->first; c; c = c->next) {
        if (!c->has_thread) {
            fresh = c->socket;
            n_fresh++;
        } else if (pthread_equal(c->thread, pthread_self())) {
            socket = c->socket;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return socket < 0 && n_fresh == 1 ? fresh : socket;
}

void sp_connections_set(struct sp_connections *s, struct sp_connection *c, bool receiving)
{
    pthread_mutex_lock(&s->lock);
    c->receiving = receiving;
    c->since = sp_seconds();
    c->n_received = 0;
    pthread_mutex_unlock(&s->lock);
}

void sp_connections_receive(struct sp_connections *s, struct sp_connection *c, size_t size)
{
    pthread_mutex_lock(&s->lock);
    c->n_received += size;
    pthread_mutex_unlock(&s->lock);
}
