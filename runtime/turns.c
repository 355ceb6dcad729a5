#include "runtime/turns.h"

#include "format/mem.h"
#include "runtime/clock.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_SHARES = 64 }; /* of a pass */

/* A share that was handed in; it lies with the thread that waits for it. */
struct request {
    const struct sp_share *share;
    const struct sp_model *source;
    struct sp_pass *pass;
    bool alone, done;
    struct request *next;
};

struct sp_turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool taken;                    /* somebody has the turn, or runs a pass */
    size_t n_in;                   /* threads, those that wait to come in counted too */
    size_t n_requests;             /* not done */
    struct request *first, **last; /* these, the oldest first */
};

enum sp_status sp_turns_open(struct sp_turns **out, struct sp_err *err)
{
    struct sp_turns *t = NULL;
    enum sp_status st;

    if ((st = sp_new(&t, 1, sizeof *t, err))) return st;
    t->last = &t->first;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    *out = t;
    return SP_OK;
}

void sp_turns_close(struct sp_turns *t)
{
    if (t == NULL) return;
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* These two under the lock. */
static void take_turn(struct sp_turns *t)
{
    while (t->taken)
        pthread_cond_wait(&t->changed, &t->lock);
    t->taken = true;
}

static void give_turn(struct sp_turns *t)
{
    t->taken = false;
    pthread_cond_broadcast(&t->changed);
}

void sp_turns_enter(struct sp_turns *t)
{
    pthread_mutex_lock(&t->lock);
    t->n_in++;
    take_turn(t);
    pthread_mutex_unlock(&t->lock);
}

void sp_turns_leave(struct sp_turns *t)
{
    pthread_mutex_lock(&t->lock);
    t->n_in--;
    give_turn(t);
    pthread_mutex_unlock(&t->lock);
}

size_t sp_turns_n_in(struct sp_turns *t)
{
    size_t n;

    pthread_mutex_lock(&t->lock);
    n = t->n_in;
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* Takes the oldest request out, and those that can go with it. Whoever finds no place is older, and
 * goes first, the next time. */
static size_t choose(struct sp_turns *t, struct request *chosen[MOST_SHARES],
                     struct sp_share shares[MOST_SHARES])
{
    struct request **at = &t->first, *r;
    size_t n = 0;

    while ((r = *at) != NULL && n < MOST_SHARES) {
        shares[n] = *r->share;
        if (n > 0 && (r->alone || chosen[0]->alone || r->source != chosen[0]->source ||
                      !sp_shares_fit(shares, n + 1))) {
            at = &r->next;
            continue;
        }
        chosen[n++] = r;
        *at = r->next;
    }
    while (*at)
        at = &(*at)->next;
    t->last = at;
    t->n_requests -= n;
    return n;
}

/* All who are in wait for a pass: runs one. Under the lock, which it leaves meanwhile. */
static void run_pass(struct sp_turns *t)
{
    struct request *chosen[MOST_SHARES];
    struct sp_share shares[MOST_SHARES];
    struct sp_pass pass = {.n_shares = choose(t, chosen, shares)};

    t->taken = true;
    pthread_mutex_unlock(&t->lock);
    pass.seconds = sp_seconds();
    sp_shares_run(shares, pass.n_shares, chosen[0]->source);
    pass.seconds = sp_seconds() - pass.seconds;
    for (size_t i = 0; i < pass.n_shares; i++)
        pass.n_rows += shares[i].n;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < pass.n_shares; i++) {
        *chosen[i]->pass = pass;
        chosen[i]->done = true;
    }
    give_turn(t);
}

void sp_turns_pass(struct sp_turns *t, const struct sp_share *share, const struct sp_model *source,
                   bool alone, struct sp_pass *pass)
{
    struct request own = {.share = share, .source = source, .pass = pass, .alone = alone};

    pthread_mutex_lock(&t->lock);
    *t->last = &own;
    t->last = &own.next;
    t->n_requests++;
    give_turn(t);
    while (!own.done) {
        if (!t->taken && t->n_requests == t->n_in) {
            run_pass(t);
        } else {
            pthread_cond_wait(&t->changed, &t->lock);
        }
    }
    take_turn(t);
    pthread_mutex_unlock(&t->lock);
}
