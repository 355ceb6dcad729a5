#include "cli/serve/jobs/serve.h"
#include "cli/serve/http/serve_http.h"
#include "format/base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The interval at which a waiting thread polls its client's connection. */
#define POLL_SECONDS 0.05

struct sp_serve_queue {
    pthread_mutex_t lock; /* taken before that of struct sp_serve_models, never while holding it */
    pthread_cond_t changed; /* signalled when there may be an answer to take, or none any more */
    struct sp_serve_job *first, **last;
    size_t n_waiting, max_waiting, n_running;
    size_t n_several, max_several; /* running answers of requests for several, and their maximum */
    uint64_t n_taken;
    bool drains;  /* refuses further jobs */
    bool stopped; /* ends the present ones, too */
};

enum sp_status sp_serve_queue_new(struct sp_serve_queue **out, size_t max_waiting, size_t n_threads,
                                  struct sp_err *err)
{
    struct sp_serve_queue *q = NULL;
    enum sp_status st;

    if ((st = sp_new(&q, 1, sizeof *q, err))) return st;
    q->last = &q->first;
    q->max_waiting = max_waiting;
    q->max_several = n_threads > 1 ? n_threads - 1 : 1;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    *out = q;
    return SP_OK;
}

void sp_serve_queue_free(struct sp_serve_queue *q)
{
    if (q == NULL) return;
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* Wakes the threads that take answers. */
static void unlock_and_signal(struct sp_serve_queue *q)
{
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void sp_serve_queue_close(struct sp_serve_queue *q, bool now)
{
    pthread_mutex_lock(&q->lock);
    q->drains = true;
    q->stopped |= now;
    unlock_and_signal(q);
}

static void append(struct sp_serve_queue *q, struct sp_serve_job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
}

enum sp_serve_entry sp_serve_queue_put(struct sp_serve_queue *q, struct sp_serve_job *job)
{
    enum sp_serve_entry entry = SP_SERVE_IN;

    pthread_mutex_lock(&q->lock);
    if (q->drains) {
        entry = SP_SERVE_STOPPED;
    } else if (q->n_waiting >= q->max_waiting) {
        entry = SP_SERVE_FULL;
    } else {
        pthread_cond_init(&job->changed, NULL);
        job->is_queued = true;
        append(q, job);
        q->n_waiting++;
    }
    unlock_and_signal(q);
    return entry;
}

struct sp_serve_load sp_serve_queue_load(struct sp_serve_queue *q)
{
    struct sp_serve_load load;

    pthread_mutex_lock(&q->lock);
    load = (struct sp_serve_load){.n_running = q->n_running,
                                  .n_waiting = q->n_waiting,
                                  .n_pending = q->n_running,
                                  .full = q->drains || q->n_waiting >= q->max_waiting,
                                  .ends = q->drains};
    for (const struct sp_serve_job *job = q->first; job; job = job->next)
        load.n_pending += job->n_answers - job->n_taken;
    pthread_mutex_unlock(&q->lock);
    return load;
}

/* True if no work on the job is running or pending. */
static bool has_ended(const struct sp_serve_job *job)
{
    return !job->is_queued && job->n_running == 0;
}

static void unlink_job(struct sp_serve_queue *q, struct sp_serve_job *job)
{
    struct sp_serve_job **at = &q->first;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    if (q->last == &job->next) q->last = at;
}

static void dequeue(struct sp_serve_queue *q, struct sp_serve_job *job)
{
    if (!job->is_queued) return;
    job->is_queued = false;
    unlink_job(q, job);
    q->n_waiting--;
}

/* Waits until the job has changed or the interval has passed. False: the client has gone. */
static bool wait_and_poll(struct sp_serve_queue *q, struct sp_serve_job *job)
{
    struct timespec until = sp_deadline(POLL_SECONDS);
    double now;

    pthread_cond_timedwait(&job->changed, &q->lock, &until);
    now = sp_seconds();
    if (now - job->polled_at < POLL_SECONDS) return true;
    job->polled_at = now;
    return !sp_http_is_gone(job->connection);
}

bool sp_serve_queue_wait(struct sp_serve_queue *q, struct sp_serve_job *job, bool to_end)
{
    bool connected = true;

    pthread_mutex_lock(&q->lock);
    while (connected && (to_end || job->status == 0) && !has_ended(job))
        connected = wait_and_poll(q, job);
    pthread_mutex_unlock(&q->lock);
    return connected;
}

long sp_serve_queue_read(struct sp_serve_queue *q, struct sp_serve_job *job, char *to, size_t size)
{
    bool connected = true;
    size_t n = 0;

    pthread_mutex_lock(&q->lock);
    while (connected && !has_ended(job) &&
           (job->n_sent == job->out.len || job->n_done == job->n_answers))
        connected = wait_and_poll(q, job);
    connected = connected && !job->aborted;
    if (connected) {
        n = job->out.len - job->n_sent;
        if (n > size) n = size;
        if (n > 0) memcpy(to, job->out.at + job->n_sent, n);
        job->n_sent += n;
        if (job->n_sent == job->out.len) job->out.len = job->n_sent = 0; /* uses its memory again */
    }
    pthread_mutex_unlock(&q->lock);
    return connected ? (long)n : -1;
}

void sp_serve_queue_leave(struct sp_serve_queue *q, struct sp_serve_job *job)
{
    pthread_mutex_lock(&q->lock);
    job->aborted = true;
    dequeue(q, job);
    while (!has_ended(job))
        pthread_cond_wait(&job->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
    pthread_cond_destroy(&job->changed);
}

/* Returns the first job of which an answer may be generated now; NULL: none. A stopped queue gives
 * out every job, since its answers end at once. */
static struct sp_serve_job *find_next(const struct sp_serve_queue *q)
{
    struct sp_serve_job *job = q->first;

    while (job && job->n_answers > 1 && q->n_several >= q->max_several && !q->stopped)
        job = job->next;
    return job;
}

/* Takes an answer of the job, which then waits behind all others if it has more answers. */
static void take(struct sp_serve_queue *q, struct sp_serve_job *job, size_t *answer)
{
    if (job->n_taken == 0) {
        job->number = ++q->n_taken;
        clock_gettime(CLOCK_REALTIME, &job->began);
    }
    *answer = job->n_taken++;
    job->n_running++;
    q->n_running++;
    if (job->n_answers > 1) q->n_several++;
    if (job->n_taken == job->n_answers) {
        dequeue(q, job);
    } else {
        unlink_job(q, job);
        append(q, job);
    }
}

struct sp_serve_job *sp_serve_queue_take(struct sp_serve_queue *q, size_t *answer)
{
    struct sp_serve_job *job;

    pthread_mutex_lock(&q->lock);
    while ((job = find_next(q)) == NULL && !(q->drains && q->first == NULL))
        pthread_cond_wait(&q->changed, &q->lock);
    if (job != NULL) take(q, job, answer);
    pthread_mutex_unlock(&q->lock);
    return job;
}

bool sp_serve_queue_is_abandoned(struct sp_serve_queue *q, const struct sp_serve_job *job)
{
    bool abandoned;

    pthread_mutex_lock(&q->lock);
    abandoned = q->stopped || (job && (job->aborted || job->failed));
    pthread_mutex_unlock(&q->lock);
    return abandoned;
}

void sp_serve_queue_tell(struct sp_serve_queue *q, struct sp_serve_job *job, const char *changes,
                         double seconds)
{
    pthread_mutex_lock(&q->lock);
    if (changes && job->status == 0) snprintf(job->changes, sizeof job->changes, "%s", changes);
    if (job->prompt_seconds <= 0 && job->status == 0) job->prompt_seconds = seconds;
    pthread_mutex_unlock(&q->lock);
}

void sp_serve_queue_write(struct sp_serve_queue *q, struct sp_serve_job *job, int status,
                          const struct sp_json_out *text)
{
    const bool begins = status == 200, fails = status > 200;

    pthread_mutex_lock(&q->lock);
    if (text->no_memory) {
        job->aborted = true;
    } else if (fails || (!job->failed && !(begins && job->status))) {
        if (sp_strbuf_append(&job->out, text->text.at, text->text.len, NULL)) job->aborted = true;
        if (job->status == 0 && !job->aborted) job->status = status;
    }
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&q->lock);
}

bool sp_serve_queue_claim_failure(struct sp_serve_queue *q, struct sp_serve_job *job,
                                  const struct sp_err *why, bool *started)
{
    bool first;

    pthread_mutex_lock(&q->lock);
    first = !job->failed;
    job->failed = true;
    if (first) job->failure = *why;
    *started = job->status == 200;
    dequeue(q, job);
    pthread_cond_signal(&job->changed);
    unlock_and_signal(q);
    return first;
}

bool sp_serve_queue_add(struct sp_serve_queue *q, struct sp_serve_job *job,
                        const struct sp_result *result, const struct sp_chat_answer *message,
                        bool first, size_t period)
{
    bool last;

    pthread_mutex_lock(&q->lock);
    sp_serve_usage_add(&job->usage, result, message, first, period);
    last = ++job->n_done == job->n_answers;
    pthread_mutex_unlock(&q->lock);
    return last;
}

void sp_serve_queue_end(struct sp_serve_queue *q, struct sp_serve_job *job,
                        struct sp_serve_models *models)
{
    pthread_mutex_lock(&q->lock);
    job->n_running--;
    q->n_running--;
    if (job->n_answers > 1) q->n_several--;
    if (has_ended(job) && job->model) { /* before it is seen that the job has ended */
        sp_serve_models_release(models, job->model);
        job->model = NULL;
    }
    pthread_cond_signal(&job->changed);
    unlock_and_signal(q);
}

/* ---- numbers of tokens ---- */

void sp_serve_usage_add(struct sp_serve_usage *usage, const struct sp_result *r,
                        const struct sp_chat_answer *message, bool first, size_t period)
{
    if (first) {
        usage->n_prompt += r->n_prompt;
        usage->n_reused += r->n_reused;
    }
    usage->n_ids += r->n_ids;
    usage->prompt_seconds += r->prompt_seconds;
    usage->generation_seconds += sp_answer_seconds(r);
    usage->n_reasoning += message->n_reasoning_tokens;
    usage->drafted += r->drafted;
    usage->accepted += r->accepted;
    if (period == 0) return;
    usage->n_repeating++;
    usage->period = period;
}

/* Returns tokens per second, without the first token, which the prompt's pass generates. */
static double rate(const struct sp_result *r)
{
    double seconds = sp_answer_seconds(r);

    return seconds > 0 && r->n_ids > 0 ? (double)(r->n_ids - 1) / seconds : 0;
}

enum { USAGE_TEXT = 512 };

static void describe_json(char text[USAGE_TEXT], const struct sp_serve_usage *t, size_t n,
                          const struct sp_result *last)
{
    snprintf(text, USAGE_TEXT,
             "\"answers\": %zu, \"prompt_tokens\": %zu, \"cached_tokens\": %zu, "
             "\"prompt_seconds\": %.4f, \"generated_tokens\": %zu, \"generation_seconds\": %.4f, "
             "\"draft_tokens\": %zu, \"accepted_tokens\": %zu, \"repeating_answers\": %zu, "
             "\"repeated_tokens\": %zu, "
             "\"stop\": \"%s\"",
             n, t->n_prompt, t->n_reused, t->prompt_seconds, t->n_ids, t->generation_seconds,
             t->drafted, t->accepted, t->n_repeating, t->period, sp_stop_name(last->stop));
}

/* Several answers have no common rate and stop reason, so these are written for a single answer
 * only. One token, which the prompt's pass generates, has no rate. */
static void describe(char text[USAGE_TEXT], const struct sp_serve_usage *t, size_t n,
                     const struct sp_result *last)
{
    char details[96] = "", accepted[64] = "", loop[64] = "", stop[32] = "";

    if (n > 1) {
        int len = snprintf(details, sizeof details, " in %zu answers", n);
        if (t->n_repeating > 0) {
            snprintf(details + len, sizeof details - (size_t)len, ", %zu of which repeat%s",
                     t->n_repeating, t->n_repeating == 1 ? "s itself" : " themselves");
        }
    } else {
        if (last->n_ids > 1) snprintf(details, sizeof details, ", %.1f tokens/s", rate(last));
        snprintf(stop, sizeof stop, ", %s", sp_stop_name(last->stop));
        if (t->period > 0) {
            snprintf(loop, sizeof loop, ", repeats its last %zu token%s", t->period,
                     t->period == 1 ? "" : "s");
        }
    }
    if (t->drafted > 0) {
        snprintf(accepted, sizeof accepted, ", %zu of %zu draft tokens accepted", t->accepted,
                 t->drafted);
    }
    snprintf(text, USAGE_TEXT, "%zu (%zu cached) + %zu tokens, prompt %.2f s%s%s%s%s", t->n_prompt,
             t->n_reused, t->n_ids, t->prompt_seconds, details, accepted, loop, stop);
}

void sp_serve_queue_describe(struct sp_serve_queue *q, struct sp_serve_job *job,
                             const struct sp_serve_usage *usage, const struct sp_result *last,
                             bool json)
{
    char text[USAGE_TEXT];

    (json ? describe_json : describe)(text, usage, job->n_answers, last);
    pthread_mutex_lock(&q->lock);
    if (sp_strbuf_append(&job->log_line, text, strlen(text), NULL)) job->aborted = true;
    pthread_mutex_unlock(&q->lock);
}
