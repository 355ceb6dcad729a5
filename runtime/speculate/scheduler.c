#include "runtime/speculate/scheduler.h"

#include "format/base/mem.h"
#include "format/base/clock.h"

#include <assert.h>
#include <math.h>
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
    size_t learned;                     /* the last pass that was learned from */
    size_t n_answers;                   /* active threads whose prompt is done */
    const struct sp_decoder *reading;   /* of the prompt that goes on before others begin */
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

void sp_scheduler_begin_answer(struct sp_scheduler *s)
{
    s->n_answers++;
}

void sp_scheduler_end_answer(struct sp_scheduler *s)
{
    s->n_answers--;
}

void sp_scheduler_learn(struct sp_scheduler *s, const struct sp_pass *pass)
{
    size_t n_more = pass->n_rows - pass->n_draft_rows - pass->n_seqs;

    if (pass->number == s->learned) return;
    s->learned = pass->number;
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

/* The rows that all prompts together may have in a pass beside answers. */
static size_t rows_beside_answers(const struct sp_scheduler *s)
{
    enum { LEAST = 2, FOR_NEXT = 16, MOST = 64 }; /* for the first prompt, and each behind it */
    bool known = s->row_seconds > 0 && s->answer_seconds > 0;
    double rows = known ? s->answer_seconds * 3 / 4 / s->row_seconds : BESIDE_OTHERS;
    size_t n = 0;

    for (const struct request *r = s->first; r; r = r->next)
        if (r->priority == SP_PRIORITY_PROMPT) n += n ? FOR_NEXT : LEAST;
    if (n > MOST) n = MOST;
    return (size_t)fmax(fmin(rows, BESIDE_OTHERS), (double)n);
}

struct batch {
    struct request *requests[MAX_SEQS];
    struct sp_batch_seq seqs[MAX_SEQS];
    size_t n;
    size_t prompt_rows; /* that the prompts after the entries so far may have together */
};

/* Moves an entry of the list to the batch if it fits; a prompt's with as many rows as it may have.
 */
static bool add(struct sp_scheduler *s, struct batch *b, struct request **at)
{
    struct request *r = *at;
    struct sp_batch_seq *seq = &b->seqs[b->n];
    size_t most = s->n_in > 1 && b->prompt_rows > BESIDE_OTHERS ? BESIDE_OTHERS : b->prompt_rows;
    bool is_prompt = r->priority == SP_PRIORITY_PROMPT;

    *seq = *r->seq;
    if (is_prompt && seq->n > most) {
        seq->n = seq->n_committed = most;
        seq->n_logits = 0;
    }
    if (b->n > 0 &&
        (r->priority == SP_PRIORITY_EXCLUSIVE || seq->n == 0 || !sp_batch_fits(b->seqs, b->n + 1)))
        return false;
    if (is_prompt && s->n_answers > 0) b->prompt_rows -= seq->n;
    b->requests[b->n++] = r;
    *at = r->next;
    return true;
}

/* Removes the next entry, the oldest draft entry or, if there is none, the oldest entry, and those
 * that fit in a batch with it. An entry that does not fit is older in the next batch. */
static void choose(struct sp_scheduler *s, struct batch *b)
{
    struct request **at = &s->first;

    b->prompt_rows = s->n_answers > 0 ? rows_beside_answers(s) : SIZE_MAX;
    while (*at && (*at)->priority != SP_PRIORITY_DRAFT)
        at = &(*at)->next;
    (void)add(s, b, *at ? at : &s->first);
    at = &s->first;
    while (*at && b->n < MAX_SEQS && b->requests[0]->priority != SP_PRIORITY_EXCLUSIVE)
        if (!add(s, b, at)) at = &(*at)->next;
    while (*at)
        at = &(*at)->next;
    s->last = at;
    s->n_requests -= b->n;
}

/* Notes the first prompt of a batch that is not done. */
static void note_reading(struct sp_scheduler *s, const struct batch *b)
{
    for (size_t i = b->n; i-- > 0;) {
        if (b->requests[i]->priority != SP_PRIORITY_PROMPT) continue;
        if (b->seqs[i].n_logits == 0)
            s->reading = b->seqs[i].decoder;
        else if (s->reading == b->seqs[i].decoder)
            s->reading = NULL;
    }
}

/* Runs one batch, since all active threads wait for a pass. The caller holds the lock, which is
 * released during the pass. */
static void run_pass(struct sp_scheduler *s)
{
    struct batch b = {.n = 0};
    struct sp_pass pass = {.number = ++s->n_passes};

    choose(s, &b);
    s->taken = true;
    s->n_behind = 0;
    pthread_mutex_unlock(&s->lock);
    pass.seconds = sp_seconds();
    sp_batch_run(b.seqs, b.n);
    pass.seconds = sp_seconds() - pass.seconds;
    pass.n_seqs = b.n;
    for (size_t i = 0; i < b.n; i++) {
        pass.n_rows += b.seqs[i].n;
        pass.n_draft_rows += b.seqs[i].n - b.seqs[i].n_committed;
        pass.n_prompts += b.seqs[i].n_committed > 1;
    }
    pthread_mutex_lock(&s->lock);
    note_reading(s, &b);
    for (size_t i = 0; i < b.n; i++) {
        *b.requests[i]->pass = pass;
        b.requests[i]->pass->n_own = b.seqs[i].n;
        b.requests[i]->done = true;
        queue_up(s, &b.requests[i]->waiter);
    }
    hand_over(s);
}

/* A prompt that has begun goes on before other prompts. */
static void submit(struct sp_scheduler *s, struct request *r)
{
    struct request **at = s->last;

    if (r->priority == SP_PRIORITY_PROMPT && r->seq->decoder == s->reading)
        for (at = &s->first; *at && (*at)->priority != SP_PRIORITY_PROMPT;)
            at = &(*at)->next;
    r->next = *at;
    *at = r;
    if (r->next == NULL) s->last = &r->next;
    s->n_requests++;
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
    submit(s, &own);
    hand_over(s);
    while (!own.done)
        if (is_due(s))
            run_pass(s);
        else
            pthread_cond_wait(&own.waiter.woken, &s->lock);
    await_pass(s, &own.waiter);
    pthread_mutex_unlock(&s->lock);
}
