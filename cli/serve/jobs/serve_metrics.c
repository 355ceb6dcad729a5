#include "cli/serve/jobs/serve.h"
#include "cli/serve/jobs/serve_model.h"
#include "format/base/clock.h"
#include "format/base/mem.h"
#include "format/system/energy.h"

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_BOUNDS = 16, MAX_POSITIONS = 32, N_STATUSES = 16 };

/* A histogram; buckets[i] counts values up to bounds[i] and above the bound before it. */
struct histogram {
    const double *bounds; /* [N_BOUNDS], ascending */
    uint64_t buckets[N_BOUNDS + 1];
    double sum;
};

/* The counts of a model. */
struct counts {
    double n_prompt, n_reused, n_generated, n_answers, n_rounds, n_drafted, n_accepted;
    double n_embeddings, n_embedding_tokens, prompt_seconds, generation_seconds;
    struct sp_position_count positions[MAX_POSITIONS];
    size_t n_positions;
    struct histogram first_token, next_token, answer;
};

struct sp_serve_metrics {
    pthread_mutex_t lock;
    time_t started;
    struct sp_energy energy;
    struct {
        int status;
        uint64_t n;
    } responses[N_STATUSES];
    size_t n_models;
    struct counts of[]; /* [n_models] */
};

static const double long_times[N_BOUNDS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,   2.5,
                                            5,    10,    20,   40,  80,   160, 320, 640};
static const double short_times[N_BOUNDS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                             0.01,   0.02,    0.04,   0.06,  0.08,   0.1,
                                             0.15,   0.25,    0.5,    1};

enum sp_status sp_serve_metrics_new(struct sp_serve_metrics **out, size_t n_models,
                                    struct sp_err *err)
{
    struct sp_serve_metrics *m = NULL;
    enum sp_status st = sp_new(&m, sizeof *m + n_models * sizeof *m->of, 1, err);

    if (st) return st;
    pthread_mutex_init(&m->lock, NULL);
    m->started = time(NULL);
    sp_energy_start(&m->energy, NULL);
    m->n_models = n_models;
    for (size_t i = 0; i < n_models; i++) {
        m->of[i].first_token.bounds = long_times;
        m->of[i].answer.bounds = long_times;
        m->of[i].next_token.bounds = short_times;
    }
    *out = m;
    return SP_OK;
}

void sp_serve_metrics_free(struct sp_serve_metrics *m)
{
    if (m == NULL) return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void observe(struct histogram *h, double value)
{
    size_t i = 0;

    while (i < N_BOUNDS && value > h->bounds[i])
        i++;
    h->buckets[i]++;
    h->sum += value;
}

void sp_serve_metrics_response(struct sp_serve_metrics *m, int status)
{
    size_t i = 0;

    pthread_mutex_lock(&m->lock);
    while (i + 1 < N_STATUSES && m->responses[i].n > 0 && m->responses[i].status != status)
        i++;
    m->responses[i].status = status;
    m->responses[i].n++;
    pthread_mutex_unlock(&m->lock);
}

void sp_serve_metrics_answer(struct sp_serve_metrics *m, size_t model, const struct sp_result *r,
                             double seconds)
{
    struct counts *c = &m->of[model];

    pthread_mutex_lock(&m->lock);
    c->n_answers++;
    c->n_prompt += (double)r->n_prompt;
    c->n_reused += (double)r->n_reused;
    c->n_generated += (double)r->n_ids;
    c->prompt_seconds += r->prompt_seconds;
    c->generation_seconds += sp_answer_seconds(r);
    c->n_rounds += (double)(r->n_rounds - r->plain_rounds);
    c->n_drafted += (double)r->drafted;
    c->n_accepted += (double)r->accepted;
    for (size_t i = 0; i < r->n_draft_positions && i < MAX_POSITIONS; i++) {
        c->positions[i].tried += r->draft_positions[i].tried;
        c->positions[i].accepted += r->draft_positions[i].accepted;
        if (i >= c->n_positions) c->n_positions = i + 1;
    }
    observe(&c->answer, seconds);
    pthread_mutex_unlock(&m->lock);
}

void sp_serve_metrics_embeddings(struct sp_serve_metrics *m, size_t model, size_t n_texts,
                                 size_t n_tokens)
{
    pthread_mutex_lock(&m->lock);
    m->of[model].n_embeddings += (double)n_texts;
    m->of[model].n_embedding_tokens += (double)n_tokens;
    pthread_mutex_unlock(&m->lock);
}

void sp_serve_metrics_token(struct sp_serve_metrics *m, size_t model, bool first, double seconds)
{
    pthread_mutex_lock(&m->lock);
    observe(first ? &m->of[model].first_token : &m->of[model].next_token, seconds);
    pthread_mutex_unlock(&m->lock);
}

void sp_serve_metrics_keep_up(struct sp_serve_metrics *m)
{
    pthread_mutex_lock(&m->lock);
    sp_energy_keep_up(&m->energy, sp_seconds());
    pthread_mutex_unlock(&m->lock);
}

/* ---- writing ---- */

/* The text being written. */
struct page {
    FILE *out;
    const struct sp_serve *serve;
    const struct sp_serve_metrics *metrics;
};

static void write_head(const struct page *p, const char *name, const char *type, const char *help)
{
    fprintf(p->out, "# HELP spectool_%s %s\n# TYPE spectool_%s %s\n", name, help, name, type);
}

static void write_number(const struct page *p, const char *name, const char *help, double value)
{
    write_head(p, name, "gauge", help);
    fprintf(p->out, "spectool_%s %.15g\n", name, value);
}

/* Writes a label, in whose value three characters are escaped. */
static void write_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\n') {
            fputs("\\n", out);
        } else {
            if (*value == '"' || *value == '\\') fputc('\\', out);
            fputc(*value, out);
        }
    }
    fputc('"', out);
}

/* Begins the line of a model's series, up to the labels after its name. */
static void begin_series(const struct page *p, const char *name, const char *suffix, size_t model)
{
    fprintf(p->out, "spectool_%s%s{", name, suffix);
    write_label(p->out, "model", p->serve->all[model].names[0]);
}

static void write_histogram(const struct page *p, const char *name, const char *help, size_t offset)
{
    write_head(p, name, "histogram", help);
    for (size_t k = 0; k < p->metrics->n_models; k++) {
        const struct counts *c = &p->metrics->of[k];
        const struct histogram *h =
            (const struct histogram *)(const void *)((const char *)c + offset);
        uint64_t n = 0;
        for (size_t i = 0; i < N_BOUNDS; i++) {
            n += h->buckets[i];
            begin_series(p, name, "_bucket", k);
            fprintf(p->out, ",le=\"%g\"} %" PRIu64 "\n", h->bounds[i], n);
        }
        n += h->buckets[N_BOUNDS];
        begin_series(p, name, "_bucket", k);
        fprintf(p->out, ",le=\"+Inf\"} %" PRIu64 "\n", n);
        begin_series(p, name, "_sum", k);
        fprintf(p->out, "} %.15g\n", h->sum);
        begin_series(p, name, "_count", k);
        fprintf(p->out, "} %" PRIu64 "\n", n);
    }
}

static void write_state(const struct page *p, const struct sp_serve_load *load, size_t cache_bytes)
{
    write_head(p, "build_info", "gauge", "The version of spectool.");
    fputs("spectool_build_info{", p->out);
    write_label(p->out, "version", p->serve->version);
    fputs("} 1\n", p->out);
    write_head(p, "model_open", "gauge", "Whether the model is open.");
    for (size_t k = 0; k < p->metrics->n_models; k++) {
        begin_series(p, "model_open", "", k);
        fprintf(p->out, "} %d\n", p->serve->all[k].use.is_open);
    }
    write_number(p, "start_time_seconds", "Start of the server, in seconds since 1970.",
                 (double)p->metrics->started);
    write_number(p, "sessions", "Answers that can be generated at the same time.",
                 (double)p->serve->n_sessions);
    write_number(p, "answers_running", "Answers that are being generated.",
                 (double)load->n_running);
    write_number(p, "requests_waiting", "Requests that wait for a session.",
                 (double)load->n_waiting);
    write_number(p, "request_memory_bytes", "Memory that the requests take.",
                 (double)sp_serve_budget_used(p->serve->budget));
    write_number(p, "cache_memory_bytes", "Memory that the KV caches of all models take.",
                 (double)cache_bytes);
}

/* Writes nothing where the machine does not tell. */
static void write_energy(const struct page *p, double joules)
{
    if (joules <= 0) return;
    write_head(p, "energy_joules_total", "counter",
               "Energy of the processors since the start, of other programs too.");
    fprintf(p->out, "spectool_energy_joules_total %.15g\n", joules);
}

static void write_responses(const struct page *p)
{
    const struct sp_serve_metrics *m = p->metrics;

    write_head(p, "responses_total", "counter",
               "Responses by HTTP status; 0: the client disconnected before.");
    for (size_t i = 0; i < N_STATUSES && m->responses[i].n > 0; i++) {
        fprintf(p->out, "spectool_responses_total{code=\"%d\"} %" PRIu64 "\n",
                m->responses[i].status, m->responses[i].n);
    }
}

static void write_positions(const struct page *p, const char *name, const char *help, bool accepted)
{
    write_head(p, name, "counter", help);
    for (size_t k = 0; k < p->metrics->n_models; k++) {
        const struct counts *c = &p->metrics->of[k];
        for (size_t i = 0; i < c->n_positions; i++) {
            begin_series(p, name, "", k);
            fprintf(p->out, ",position=\"%zu\"} %zu\n", i,
                    accepted ? c->positions[i].accepted : c->positions[i].tried);
        }
    }
}

/* A counter of each model: a number of struct counts. */
struct counter {
    const char *name, *help;
    size_t offset;
};

#define COUNT(member) .offset = offsetof(struct counts, member)

static const struct counter counters[] = {
    {"answers_total", "Answers, complete or cancelled.", COUNT(n_answers)},
    {"prompt_tokens_total", "Tokens of prompts.", COUNT(n_prompt)},
    {"prompt_tokens_cached_total", "Tokens of prompts that the KV cache held.", COUNT(n_reused)},
    {"prompt_seconds_total", "Time of prompt processing.", COUNT(prompt_seconds)},
    {"generated_tokens_total", "Tokens generated.", COUNT(n_generated)},
    {"generation_seconds_total", "Time of generation.", COUNT(generation_seconds)},
    {"draft_rounds_total", "Rounds with draft tokens.", COUNT(n_rounds)},
    {"draft_tokens_total", "Draft tokens verified.", COUNT(n_drafted)},
    {"draft_tokens_accepted_total", "Draft tokens accepted.", COUNT(n_accepted)},
    {"embeddings_total", "Texts embedded.", COUNT(n_embeddings)},
    {"embedding_tokens_total", "Tokens of texts embedded.", COUNT(n_embedding_tokens)},
};

static void write_counter(const struct page *p, const struct counter *counter)
{
    write_head(p, counter->name, "counter", counter->help);
    for (size_t k = 0; k < p->metrics->n_models; k++) {
        const char *at = (const char *)&p->metrics->of[k] + counter->offset;
        double value;
        memcpy(&value, at, sizeof value);
        begin_series(p, counter->name, "", k);
        fprintf(p->out, "} %.15g\n", value);
    }
}

void sp_serve_metrics_write(const struct sp_serve *serve, FILE *out)
{
    const struct sp_serve_load load = sp_serve_queue_load(serve->queue);
    const size_t cache_bytes = sp_cache_budget_used(serve->caches);
    struct sp_serve_metrics *m = serve->metrics;
    const struct page page = {.out = out, .serve = serve, .metrics = m};

    sp_serve_models_lock(serve->models);
    pthread_mutex_lock(&m->lock);
    write_state(&page, &load, cache_bytes);
    write_energy(&page, sp_energy_joules(&m->energy));
    write_responses(&page);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        write_counter(&page, &counters[i]);
    write_positions(
        &page, "draft_position_verified_total",
        "Draft tokens verified with all before them accepted, by position in the proposal.", false);
    write_positions(&page, "draft_position_accepted_total",
                    "Draft tokens accepted, by position in the proposal.", true);
    write_histogram(&page, "time_to_first_token_seconds",
                    "Time from the arrival of a request to the first token of an answer.",
                    offsetof(struct counts, first_token));
    write_histogram(&page, "inter_token_seconds", "Time from one token of an answer to the next.",
                    offsetof(struct counts, next_token));
    write_histogram(&page, "answer_seconds",
                    "Time from the arrival of a request to the end of an answer.",
                    offsetof(struct counts, answer));
    pthread_mutex_unlock(&m->lock);
    sp_serve_models_unlock(serve->models);
}
