#include "cli/serve/jobs/serve_metrics.h"
#include "format/base/mem.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { N_BOUNDS = 16, MAX_POSITIONS = 32, N_STATUSES = 16 };

/* A histogram; buckets[i] counts values up to bounds[i] and above the bound before it. */
struct histogram {
    const double *bounds; /* [N_BOUNDS], ascending */
    uint64_t buckets[N_BOUNDS + 1];
    double sum;
};

struct sp_serve_metrics {
    pthread_mutex_t lock;
    time_t started;
    struct {
        int status;
        uint64_t n;
    } responses[N_STATUSES];
    uint64_t n_prompt, n_reused, n_generated, n_answers, n_rounds, n_drafted, n_accepted;
    uint64_t n_embeddings, n_embedding_tokens;
    double prompt_seconds, generation_seconds;
    struct sp_position_count positions[MAX_POSITIONS];
    size_t n_positions;
    struct histogram first_token, next_token, answer;
};

static const double long_times[N_BOUNDS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,   2.5,
                                            5,    10,    20,   40,  80,   160, 320, 640};
static const double short_times[N_BOUNDS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                             0.01,   0.02,    0.04,   0.06,  0.08,   0.1,
                                             0.15,   0.25,    0.5,    1};

enum sp_status sp_serve_metrics_new(struct sp_serve_metrics **out, struct sp_err *err)
{
    struct sp_serve_metrics *m = NULL;
    enum sp_status st = sp_new(&m, 1, sizeof *m, err);

    if (st) return st;
    pthread_mutex_init(&m->lock, NULL);
    m->started = time(NULL);
    m->first_token.bounds = long_times;
    m->answer.bounds = long_times;
    m->next_token.bounds = short_times;
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

void sp_serve_metrics_answer(struct sp_serve_metrics *m, const struct sp_result *r, double seconds)
{
    pthread_mutex_lock(&m->lock);
    m->n_answers++;
    m->n_prompt += r->n_prompt;
    m->n_reused += r->n_reused;
    m->n_generated += r->n_ids;
    m->prompt_seconds += r->prompt_seconds;
    m->generation_seconds += r->draft_seconds + r->verify_seconds + r->plain_seconds;
    m->n_rounds += r->n_rounds - r->plain_rounds;
    m->n_drafted += r->drafted;
    m->n_accepted += r->accepted;
    for (size_t i = 0; i < r->n_draft_positions && i < MAX_POSITIONS; i++) {
        m->positions[i].tried += r->draft_positions[i].tried;
        m->positions[i].accepted += r->draft_positions[i].accepted;
        if (i >= m->n_positions) m->n_positions = i + 1;
    }
    observe(&m->answer, seconds);
    pthread_mutex_unlock(&m->lock);
}

void sp_serve_metrics_embeddings(struct sp_serve_metrics *m, size_t n_texts, size_t n_tokens)
{
    pthread_mutex_lock(&m->lock);
    m->n_embeddings += n_texts;
    m->n_embedding_tokens += n_tokens;
    pthread_mutex_unlock(&m->lock);
}

void sp_serve_metrics_first_token(struct sp_serve_metrics *m, double seconds)
{
    pthread_mutex_lock(&m->lock);
    observe(&m->first_token, seconds);
    pthread_mutex_unlock(&m->lock);
}

void sp_serve_metrics_next_token(struct sp_serve_metrics *m, double seconds)
{
    pthread_mutex_lock(&m->lock);
    observe(&m->next_token, seconds);
    pthread_mutex_unlock(&m->lock);
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void write_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP spectool_%s %s\n# TYPE spectool_%s %s\n", name, help, name, type);
}

static void write_number(FILE *out, const char *name, const char *type, const char *help,
                         double value)
{
    write_head(out, name, type, help);
    fprintf(out, "spectool_%s %.15g\n", name, value);
}

static void write_histogram(FILE *out, const char *name, const char *help,
                            const struct histogram *h)
{
    uint64_t n = 0;

    write_head(out, name, "histogram", help);
    for (size_t i = 0; i < N_BOUNDS; i++) {
        n += h->buckets[i];
        fprintf(out, "spectool_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, h->bounds[i], n);
    }
    n += h->buckets[N_BOUNDS];
    fprintf(out, "spectool_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, n);
    fprintf(out, "spectool_%s_sum %.15g\nspectool_%s_count %" PRIu64 "\n", name, h->sum, name, n);
}

/* Writes the value of a label, in which three characters are escaped. */
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

static void write_state(FILE *out, const struct sp_serve_state *state, time_t started)
{
    write_head(out, "build_info", "gauge", "The version of spectool and the name of the model.");
    fputs("spectool_build_info{", out);
    write_label(out, "version", state->version);
    fputc(',', out);
    write_label(out, "model", state->model);
    fputs("} 1\n", out);
    write_number(out, "start_time_seconds", "gauge", "Start of the server, in seconds since 1970.",
                 (double)started);
    write_number(out, "sessions", "gauge", "Answers that can be generated at the same time.",
                 (double)state->n_sessions);
    write_number(out, "answers_running", "gauge", "Answers that are being generated.",
                 (double)state->n_running);
    write_number(out, "requests_waiting", "gauge", "Requests that wait for a session.",
                 (double)state->n_waiting);
    write_number(out, "request_memory_bytes", "gauge", "Memory that the requests take.",
                 (double)state->request_bytes);
}

static void write_responses(FILE *out, const struct sp_serve_metrics *m)
{
    write_head(out, "responses_total", "counter",
               "Responses by HTTP status; 0: the client disconnected before.");
    for (size_t i = 0; i < N_STATUSES && m->responses[i].n > 0; i++) {
        fprintf(out, "spectool_responses_total{code=\"%d\"} %" PRIu64 "\n", m->responses[i].status,
                m->responses[i].n);
    }
}

static void write_positions(FILE *out, const struct sp_serve_metrics *m)
{
    write_head(out, "draft_position_verified_total", "counter",
               "Draft tokens verified with all before them accepted, by position in the proposal.");
    for (size_t i = 0; i < m->n_positions; i++)
        fprintf(out, "spectool_draft_position_verified_total{position=\"%zu\"} %zu\n", i,
                m->positions[i].tried);
    write_head(out, "draft_position_accepted_total", "counter",
               "Draft tokens accepted, by position in the proposal.");
    for (size_t i = 0; i < m->n_positions; i++)
        fprintf(out, "spectool_draft_position_accepted_total{position=\"%zu\"} %zu\n", i,
                m->positions[i].accepted);
}

void sp_serve_metrics_write(struct sp_serve_metrics *m, const struct sp_serve_state *state,
                            FILE *out)
{
    struct {
        const char *name, *help;
        double value;
    } rows[] = {
        {"answers_total", "Answers, complete or cancelled.", 0},
        {"prompt_tokens_total", "Tokens of prompts.", 0},
        {"prompt_tokens_cached_total", "Tokens of prompts that the KV cache held.", 0},
        {"prompt_seconds_total", "Time of prompt processing.", 0},
        {"generated_tokens_total", "Tokens generated.", 0},
        {"generation_seconds_total", "Time of generation.", 0},
        {"draft_rounds_total", "Rounds with draft tokens.", 0},
        {"draft_tokens_total", "Draft tokens verified.", 0},
        {"draft_tokens_accepted_total", "Draft tokens accepted.", 0},
        {"embeddings_total", "Texts embedded.", 0},
        {"embedding_tokens_total", "Tokens of texts embedded.", 0},
    };
    struct sp_serve_metrics now;

    pthread_mutex_lock(&m->lock);
    now = *m;
    pthread_mutex_unlock(&m->lock);
    rows[0].value = (double)now.n_answers;
    rows[1].value = (double)now.n_prompt;
    rows[2].value = (double)now.n_reused;
    rows[3].value = now.prompt_seconds;
    rows[4].value = (double)now.n_generated;
    rows[5].value = now.generation_seconds;
    rows[6].value = (double)now.n_rounds;
    rows[7].value = (double)now.n_drafted;
    rows[8].value = (double)now.n_accepted;
    rows[9].value = (double)now.n_embeddings;
    rows[10].value = (double)now.n_embedding_tokens;
    write_state(out, state, now.started);
    write_responses(out, &now);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        write_number(out, rows[i].name, "counter", rows[i].help, rows[i].value);
    write_positions(out, &now);
    write_histogram(out, "time_to_first_token_seconds",
                    "Time from the arrival of a request to the first token of an answer.",
                    &now.first_token);
    write_histogram(out, "inter_token_seconds", "Time from one token of an answer to the next.",
                    &now.next_token);
    write_histogram(out, "answer_seconds",
                    "Time from the arrival of a request to the end of an answer.", &now.answer);
}
