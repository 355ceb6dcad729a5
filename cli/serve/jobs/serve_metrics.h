/* Counts what the server does, model by model, and writes the counts in the text format of
 * Prometheus.
 *
 * https://prometheus.io/docs/instrumenting/exposition_formats/; the series are those of
 * llama-server by their meaning. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_METRICS_H
#define SP_CLI_SERVE_JOBS_SERVE_METRICS_H

#include "runtime/spectool.h"

#include <stdio.h>

struct sp_serve_model;

struct sp_serve_metrics; /* opaque */

SP_MUST_CHECK enum sp_status sp_serve_metrics_new(struct sp_serve_metrics **out, size_t n_models,
                                                  struct sp_err *err);
void sp_serve_metrics_free(struct sp_serve_metrics *metrics); /* accepts NULL */

/* ---- [any thread]; `model` is the number of a model, below n_models ---- */

/* Counts a response; status 0: the client had gone. */
void sp_serve_metrics_response(struct sp_serve_metrics *metrics, int status);
/* Counts an answer, complete or cancelled. `seconds`: since the request arrived. */
void sp_serve_metrics_answer(struct sp_serve_metrics *metrics, size_t model,
                             const struct sp_result *result, double seconds);
/* Counts embeddings, and the tokens of their texts. */
void sp_serve_metrics_embeddings(struct sp_serve_metrics *metrics, size_t model, size_t n_texts,
                                 size_t n_tokens);
/* Counts the time from a request's arrival to its first token, or from one token to the next. */
void sp_serve_metrics_first_token(struct sp_serve_metrics *metrics, size_t model, double seconds);
void sp_serve_metrics_next_token(struct sp_serve_metrics *metrics, size_t model, double seconds);

/* The state of the server at the moment. */
struct sp_serve_state {
    const char *version;
    const struct sp_serve_model *models; /* [n_models]; the caller holds sp_serve_models_lock */
    size_t n_running, n_waiting;         /* answers that are generated; requests that wait */
    size_t n_sessions;
    size_t request_bytes; /* memory of the requests */
    size_t cache_bytes;   /* memory of the KV caches */
};
/* Writes all series. */
void sp_serve_metrics_write(struct sp_serve_metrics *metrics, const struct sp_serve_state *state,
                            FILE *out);

#endif
