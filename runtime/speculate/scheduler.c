#include "runtime/speculate/scheduler.h"

#include "format/base/mem.h"
#include "format/base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { MAX_SEQS = 64 }; /* entries of one batch */

/* A thread that waits to hold the scheduler. */
struct waiter {
    pthread_cond_t woken;
    bool is_running;
    struct waiter *next;
};

/* A submitted batch entry; it lies on the stack of the thread that waits for it. */
struct request {
    const struct sp_batch_seq *seq;
    struct sp_pass *pass;
    enum sp_priority priority;
    bool done;
    struct waiter waiter; /* waits for the pass, then for the scheduler */
    struct request *next;
};

/* Each waiter has a condition of its own: a broadcast would wake threads that cannot run. */
struct sp_scheduler {
    pthread_mutex_t lock;
    bool taken;                         /* a thread holds the scheduler or runs a pass */
    size_t n_in;                        /* active threads, including those that wait in acquire */
    size_t n_behind;                    /* active threads that came while a pass was due */
    struct waiter *ready, **last_ready; /* waiting to hold the scheduler, the oldest first */
    size_t n_requests;                  /* entries that have not run */
    size_t n_passes;                    /* passes that have run */
    size_t learned, answered;           /* the last pass that was learned from, and with answers */
    size_t n_prompts;                   /* in the last pass that was learned from */
    double answer_seconds;              /* of a pass without prompts; 0: not known */
    double row_seconds;                 /* that a row of a prompt adds to it; 0: not known */
    struct request *first, **last;      /* the entries that have not run, the oldest first */
};

enum sp_status sp_scheduler_open(struct sp_scheduler **out, struct sp_err *err)
{
    struct sp_scheduler *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    s->last = &s->first;
    s->last_ready = &s->ready;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return SP_OK;
}

void sp_scheduler_close(struct sp_scheduler *s)
{
    if (s == NULL) return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The caller of each of the next functions holds the lock, up to sp_scheduler_acquire. */
static void queue_up(struct sp_scheduler *s, struct waiter *w)
{
    *s->last_ready = w;
    s->last_ready = &w->next;
}

static void await_pass(struct sp_scheduler *s, struct waiter *w)
{
    while (!w->is_running)
        pthread_cond_wait(&w->woken, &s->lock);
}

/* True if all threads wait for a pass, which one of them is about to run. */
static bool is_due(const struct sp_scheduler *s)
{
    return !s->taken && s->n_requests > 0 && s->n_requests + s->n_behind == s->n_in;
}

/* Hands the scheduler over to the thread that waits longest. */
static void hand_over(struct sp_scheduler *s)
{
    struct waiter *w = s->ready;

    s->taken = w != NULL;
    if (w == NULL) return;
    s->ready = w->next;
    if (s->ready == NULL) s->last_ready = &s->ready;
    w->is_running = true;
    pthread_cond_signal(&w->woken);
}

/* A thread that comes while a pass is due lets it run first. Otherwise a thread that releases the
 * scheduler and acquires it again would be back before the thread that is woken to run the pass, so
 * that the pass might never run. */
void sp_scheduler_acquire(struct sp_scheduler *s)
{
    struct waiter w = {.woken = PTHREAD_COND_INITIALIZER};
    bool due;

    pthread_mutex_lock(&s->lock);
    due = is_due(s);
    s->n_behind += due;
    s->n_in++;
    if (s->taken || due) {
        queue_up(s, &w);
        await_pass(s, &w);
    }
    s->taken = true;
    pthread_mutex_unlock(&s->lock);
}

/* If all other threads wait for a pass, one of them is woken to run it. */
void sp_scheduler_release(struct sp_scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    s->n_in--;
    hand_over(s);
    if (!s->taken && s->first) pthread_cond_signal(&s->first->waiter.woken);
    pthread_mutex_unlock(&s->lock);
}

size_t sp_scheduler_n_active(struct sp_scheduler *s)
{
    size_t n;

    pthread_mutex_lock(&s->lock);
    n = s->n_in;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* The mean of what was measured, in which the newest value has this weight. */
static double smooth(double mean, double value, double weight)
{
    return mean > 0 ? mean + weight * (value - mean) : value;
}

void sp_scheduler_learn(struct sp_scheduler *s, const struct sp_pass *pass)
{
    size_t n_more = pass->n_rows - pass->n_draft_rows - pass->n_seqs;

    if (pass->number == s->learned) return;
    s->learned = pass->number;
    s->n_prompts = pass->n_prompts;
    /* A sequence by itself waits for nobody, and its passes must not depend on time: calibration
     * adds up their rows. */
    if (pass->n_prompts < pass->n_seqs && sp_scheduler_n_active(s) > 1) s->answered = pass->number;
    if (pass->n_prompts == 0) /* longer ones may run while the pages of a prompt are written */
        s->answer_seconds = smooth(s->answer_seconds, pass->seconds,
                                   pass->seconds < s->answer_seconds ? 0.25 : 0.0625);
    else if (pass->seconds > s->answer_seconds)
        s->row_seconds =
            smooth(s->row_seconds, (pass->seconds - s->answer_seconds) / (double)n_more, 0.25);
}

enum { BESIDE_OTHERS = 32 };

size_t sp_scheduler_prompt_rows(struct sp_scheduler *s, size_t most)
{
    return most > BESIDE_OTHERS && sp_scheduler_n_active(s) > 1 ? BESIDE_OTHERS : most;
}

size_t sp_scheduler_target_rows(struct sp_scheduler *s, size_t most)
{
    /* An answer may miss passes, and even leave the prompt alone, while its pages are written. */
    enum { RECENT = 16, LEAST = 2 };
    double seconds = s->answer_seconds * 3 / 4, of_each = s->row_seconds;
    bool is_alone = sp_scheduler_n_active(s) == 1 && s->n_passes > s->answered;
    size_t n;

    most = sp_scheduler_prompt_rows(s, most);
    if (s->n_prompts > 1) of_each *= (double)s->n_prompts;
    if (is_alone || s->n_passes > s->answered + RECENT || seconds >= of_each * (double)most)
        return most;
    n = (size_t)(seconds / of_each);
    if (n < LEAST) n = LEAST;
    return n < most ? n : most;
}

/* Removes an entry from the list. */
static struct request *take(struct request **at)
{
    struct request *r = *at;

    *at = r->next;
    return r;
}

/* Removes the next entry, the oldest draft entry or, if there is none, the oldest entry, and those
 * that fit in a batch with it. An entry that does not fit is older in the next batch. */
static size_t choose(struct sp_scheduler *s, struct request *chosen[MAX_SEQS],
                     struct sp_batch_seq seqs[MAX_SEQS])
{
    struct request **at = &s->first;
    size_t n = 1;

    while (*at && (*at)->priority != SP_PRIORITY_DRAFT)
        at = &(*at)->next;
    chosen[0] = take(*at ? at : &s->first);
    seqs[0] = *chosen[0]->seq;
    at = &s->first;
    while (*at && n < MAX_SEQS && chosen[0]->priority != SP_PRIORITY_EXCLUSIVE) {
        seqs[n] = *(*at)->seq;
        if ((*at)->priority == SP_PRIORITY_EXCLUSIVE || !sp_batch_fits(seqs, n + 1)) {
            at = &(*at)->next;
            continue;
        }
        chosen[n++] = take(at);
    }
    while (*at)
        at = &(*at)->next;
    s->last = at;
    s->n_requests -= n;
    return n;
}

/* Runs one batch, since all active threads wait for a pass. The caller holds the lock, which is
 * released during the pass. */
static void run_batch(struct sp_scheduler *s)
{
    struct request *chosen[MAX_SEQS];
    struct sp_batch_seq seqs[MAX_SEQS];
    struct sp_pass pass = {.n_seqs = choose(s, chosen, seqs), .number = ++s->n_passes};

    s->taken = true;
    s->n_behind = 0;
    pthread_mutex_unlock(&s->lock);
    pass.seconds = sp_seconds();
    sp_batch_run(seqs, pass.n_seqs);
    pass.seconds = sp_seconds() - pass.seconds;
    for (size_t i = 0; i < pass.n_seqs; i++) {
        pass.n_rows += seqs[i].n;
        pass.n_draft_rows += seqs[i].n - seqs[i].n_committed;
        pass.n_prompts += seqs[i].n_committed > 1;
    }
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < pass.n_seqs; i++) {
        *chosen[i]->pass = pass;
        chosen[i]->done = true;
        queue_up(s, &chosen[i]->waiter);
    }
    hand_over(s);
}

void sp_scheduler_run(struct sp_scheduler *s, const struct sp_batch_seq *seq,
                      enum sp_priority priority, struct sp_pass *pass)
{
    struct request own = {
        .seq = seq,
        .pass = pass,
        .priority = priority,
        .waiter.woken = PTHREAD_COND_INITIALIZER,
    };

    pthread_mutex_lock(&s->lock);
    assert(s->taken);
    *s->last = &own;
    s->last = &own.next;
    s->n_requests++;
    hand_over(s);
    while (!own.done)
        if (is_due(s))
            run_batch(s);
        else
            pthread_cond_wait(&own.waiter.woken, &s->lock);
    await_pass(s, &own.waiter);
    pthread_mutex_unlock(&s->lock);
}
