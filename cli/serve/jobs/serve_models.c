#include "cli/serve/jobs/serve_model.h"
#include "cli/serve/http/serve_http.h"
#include "format/base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* The interval at which a request that waits polls its connection. */
#define POLL_SECONDS 0.05

/* A request that waits for its model. */
struct waiter {
    const struct sp_serve_model *model;
    struct waiter *next;
};

struct sp_serve_models {
    struct sp_serve_models_options options;
    pthread_mutex_t lock;   /* protects the fields below and those of struct sp_serve_use */
    pthread_cond_t changed; /* signalled when one of them changes */
    struct waiter *first, **last;
    size_t n_waiting;
    size_t n_open;   /* models that are open, or are being opened or closed */
    uint64_t n_uses; /* of all models */
    bool stopped, ends;
    pthread_t closer; /* closes models that have been idle for long */
    bool has_closer;
};

static void unlock_and_signal(struct sp_serve_models *m)
{
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

/* Waits for a change, for at most some seconds. */
static void wait_for(struct sp_serve_models *m, double seconds)
{
    struct timespec until = sp_deadline(seconds);

    pthread_cond_timedwait(&m->changed, &m->lock, &until);
}

/* ---- opening and closing ---- */

/* True if the model is open and may be closed. */
static bool is_idle(const struct sp_serve_models *m, const struct sp_serve_model *model)
{
    return model->use.is_open && model->use.n_users == 0 && !m->options.keep_open;
}

/* Closes an idle model; releases the lock meanwhile. */
static void close_model(struct sp_serve_models *m, struct sp_serve_model *model)
{
    model->use.is_open = false;
    model->use.is_changing = true;
    pthread_mutex_unlock(&m->lock);
    m->options.close(m->options.context, model);
    pthread_mutex_lock(&m->lock);
    model->use.is_changing = false;
    m->n_open--;
    pthread_cond_broadcast(&m->changed);
}

/* Closes the least recently used idle model, without the lock meanwhile. False if there is none. */
static bool close_oldest(struct sp_serve_models *m)
{
    struct sp_serve_model *oldest = NULL;

    for (size_t i = 0; i < m->options.n_models; i++) {
        struct sp_serve_model *model = &m->options.models[i];
        if (!is_idle(m, model)) continue;
        if (oldest == NULL || model->use.used_at < oldest->use.used_at) oldest = model;
    }
    if (oldest == NULL) return false;
    close_model(m, oldest);
    return true;
}

/* Opens a model for which there is a place; releases the lock meanwhile. Idle models make way for
 * one that memory does not suffice for. */
static enum sp_status open_model(struct sp_serve_models *m, struct sp_serve_model *model,
                                 struct sp_err *err)
{
    enum sp_status st;

    model->use.is_changing = true;
    m->n_open++;
    unlock_and_signal(m);
    do {
        *err = (struct sp_err){0};
        st = m->options.open(m->options.context, model, err);
    } while (st == SP_E_NOMEM && sp_serve_models_unload_idle(m));
    pthread_mutex_lock(&m->lock);
    model->use.is_changing = false;
    model->use.is_open = st == SP_OK;
    if (st) m->n_open--;
    return st;
}

/* Returns a model whose time has passed; NULL: there is none for *seconds. */
static struct sp_serve_model *find_expired(struct sp_serve_models *m, double *seconds)
{
    static const double longest = 3600;
    double now = sp_seconds();

    *seconds = longest;
    for (size_t i = 0; i < m->options.n_models; i++) {
        struct sp_serve_model *model = &m->options.models[i];
        double left = model->use.expires_at - now;
        if (!is_idle(m, model)) continue;
        if (left <= 0) return model;
        if (left < *seconds) *seconds = left;
    }
    return NULL;
}

/* The lock is held from each look at the models to the wait, so that no change is missed. */
static void *run_closer(void *context)
{
    struct sp_serve_models *m = context;
    struct sp_serve_model *model;
    double seconds;

    pthread_mutex_lock(&m->lock);
    while (!m->ends)
        if ((model = find_expired(m, &seconds)) != NULL)
            close_model(m, model);
        else
            wait_for(m, seconds);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- the server ---- */

enum sp_status sp_serve_models_new(struct sp_serve_models **out,
                                   const struct sp_serve_models_options *options,
                                   struct sp_err *err)
{
    struct sp_serve_models *m = NULL;
    enum sp_status st;

    if ((st = sp_new(&m, 1, sizeof *m, err))) return st;
    m->options = *options;
    m->last = &m->first;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    if (pthread_create(&m->closer, NULL, run_closer, m)) {
        sp_serve_models_free(m);
        return sp_fail(err, SP_E_NOMEM, "cannot create the thread that closes idle models");
    }
    m->has_closer = true;
    *out = m;
    return SP_OK;
}

void sp_serve_models_free(struct sp_serve_models *m)
{
    if (m == NULL) return;
    pthread_mutex_lock(&m->lock);
    m->ends = true;
    m->options.keep_open = false;
    unlock_and_signal(m);
    if (m->has_closer) pthread_join(m->closer, NULL);
    while (sp_serve_models_unload_idle(m)) {
    }
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void sp_serve_models_stop(struct sp_serve_models *m)
{
    pthread_mutex_lock(&m->lock);
    m->stopped = true;
    unlock_and_signal(m);
}

void sp_serve_models_lock(struct sp_serve_models *m)
{
    pthread_mutex_lock(&m->lock);
}

void sp_serve_models_unlock(struct sp_serve_models *m)
{
    pthread_mutex_unlock(&m->lock);
}

struct sp_serve_model *sp_serve_models_find(const struct sp_serve_models *m, const char *name)
{
    for (size_t i = 0; i < m->options.n_models; i++)
        if (sp_serve_model_find_name(&m->options.models[i], name)) return &m->options.models[i];
    return NULL;
}

double sp_serve_models_expires_in(const struct sp_serve_model *model)
{
    double keep = model->use.keep_alive;

    if (keep < 0) return HUGE_VAL;
    return model->use.n_users > 0 ? keep : model->use.expires_at - sp_seconds();
}

/* ---- requests ---- */

static void leave(struct sp_serve_models *m, struct waiter *waiter)
{
    struct waiter **at = &m->first;

    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    if (m->last == &waiter->next) m->last = at;
    m->n_waiting--;
    pthread_cond_broadcast(&m->changed);
}

/* True if no earlier request has to be served before: those whose models are being opened or closed
 * do not hold up others. */
static bool is_next(const struct sp_serve_models *m, const struct waiter *waiter)
{
    const struct waiter *w = m->first;

    while (w != waiter && w->model->use.is_changing)
        w = w->next;
    return w == waiter;
}

/* Makes a place for a closed model, for which another model may be closed. Returns false if the
 * model can neither be used nor opened now. */
static bool make_place(struct sp_serve_models *m, const struct sp_serve_model *model)
{
    while (!model->use.is_open && !model->use.is_changing && m->n_open >= m->options.max_open)
        if (!close_oldest(m)) return false;
    return !model->use.is_changing;
}

/* Waits until the model is open or there is a place for it. Returns false if the client has gone or
 * the server has stopped. */
static bool await_place(struct sp_serve_models *m, const struct sp_serve_model *model,
                        const struct sp_http_connection *connection)
{
    struct waiter me = {.model = model};
    bool connected = true, is_ready = false;

    *m->last = &me;
    m->last = &me.next;
    m->n_waiting++;
    while (!m->stopped && connected && !is_ready) {
        is_ready = is_next(m, &me) && make_place(m, model);
        if (is_ready) break;
        wait_for(m, POLL_SECONDS);
        connected = connection == NULL || !sp_http_is_gone(connection);
    }
    leave(m, &me);
    return is_ready;
}

static int refuse(struct sp_err *err, int status, const char *sentence)
{
    (void)!sp_fail(err, SP_E_NOMEM, "%s", sentence);
    return status;
}

int sp_serve_models_acquire(struct sp_serve_models *m, struct sp_serve_model *model,
                            double keep_alive, const struct sp_http_connection *connection,
                            struct sp_err *err)
{
    int status = 0;

    pthread_mutex_lock(&m->lock);
    /* The file of an open model was cut short, so that the model answers no more. */
    if (is_idle(m, model) && model->loaded &&
        sp_package_check_file(model->loaded->package, NULL) != SP_OK)
        close_model(m, model);
    if (m->stopped) {
        status = refuse(err, 503, "the server is shutting down");
    } else if (m->n_waiting >= m->options.max_waiting) {
        status = refuse(err, 503, "too many requests are waiting, try again later");
    } else if (!await_place(m, model, connection)) {
        status = m->stopped ? refuse(err, 503, "the server is shutting down") : -1;
    } else if (!model->use.is_open && open_model(m, model, err)) {
        status = err->status == SP_E_NOMEM ? 503 : 500;
    } else {
        model->use.n_users++;
        model->use.used_at = ++m->n_uses;
        model->use.keep_alive = keep_alive;
    }
    unlock_and_signal(m);
    return status;
}

void sp_serve_models_release(struct sp_serve_models *m, struct sp_serve_model *model)
{
    double keep;

    pthread_mutex_lock(&m->lock);
    model->use.n_users--;
    model->use.used_at = ++m->n_uses;
    keep = model->use.keep_alive;
    model->use.expires_at = keep < 0 ? HUGE_VAL : sp_seconds() + keep;
    unlock_and_signal(m);
}

bool sp_serve_models_hold(struct sp_serve_models *m, struct sp_serve_model *model)
{
    bool is_open;

    pthread_mutex_lock(&m->lock);
    is_open = model->use.is_open;
    if (is_open) model->use.n_users++;
    pthread_mutex_unlock(&m->lock);
    return is_open;
}

void sp_serve_models_let_go(struct sp_serve_models *m, struct sp_serve_model *model)
{
    pthread_mutex_lock(&m->lock);
    model->use.n_users--;
    unlock_and_signal(m);
}

void sp_serve_models_unload(struct sp_serve_models *m, struct sp_serve_model *model)
{
    pthread_mutex_lock(&m->lock);
    model->use.keep_alive = 0;
    model->use.expires_at = 0;
    if (is_idle(m, model)) close_model(m, model);
    unlock_and_signal(m);
}

bool sp_serve_models_unload_idle(struct sp_serve_models *m)
{
    bool closed;

    pthread_mutex_lock(&m->lock);
    closed = close_oldest(m);
    unlock_and_signal(m);
    return closed;
}

/* Returns the open model that was used first of those used after `used_at`; NULL: none. */
static struct sp_serve_model *next_open(const struct sp_serve_models *m, uint64_t used_at)
{
    struct sp_serve_model *next = NULL;

    for (size_t i = 0; i < m->options.n_models; i++) {
        struct sp_serve_model *model = &m->options.models[i];
        if (!model->use.is_open || model->use.used_at <= used_at) continue;
        if (next == NULL || model->use.used_at < next->use.used_at) next = model;
    }
    return next;
}

bool sp_serve_models_reclaim(struct sp_serve_models *m)
{
    struct sp_serve_model *model;
    uint64_t used_at = 0;
    bool freed;

    pthread_mutex_lock(&m->lock);
    freed = close_oldest(m);
    while (!freed && (model = next_open(m, used_at)) != NULL) {
        used_at = model->use.used_at;
        model->use.n_users++;
        pthread_mutex_unlock(&m->lock);
        freed = m->options.trim(m->options.context, model);
        pthread_mutex_lock(&m->lock);
        model->use.n_users--;
    }
    unlock_and_signal(m);
    return freed;
}
