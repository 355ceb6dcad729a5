/* A line becomes a request without a connection, which the routes of the server answer. */
#include "cli/serve/serve_batch.h"
#include "cli/serve/jobs/serve.h"
#include "cli/serve/handlers.h"
#include "cli/base/signals.h"
#include "format/base/affix.h"
#include "format/json/json_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The most memory that the requests of a session may take. */
static const size_t request_bytes = (size_t)256 << 20;

struct sp_serve_batch {
    struct sp_serve serve;
    struct sp_serve_model model;
    struct sp_serve_budget budget;
    struct sp_serve_keys keys;
    pthread_mutex_t template_locks[2];
    pthread_t *threads; /* [n_threads] owned */
    size_t n_threads;
    uint64_t began_at;   /* wall clock, seconds; part of the ids */
    const char *refused; /* option of the command, borrowed; NULL: none */
};

/* The model of a batch is open all the time. */
static enum sp_status open_model(void *context, struct sp_serve_model *model, struct sp_err *err)
{
    (void)context;
    (void)model;
    (void)err;
    return SP_OK;
}

static void close_model(void *context, struct sp_serve_model *model)
{
    (void)context;
    (void)model;
}

enum sp_status sp_serve_batch_open(struct sp_serve_batch **out, struct sp_loaded_model *m,
                                   struct sp_session_pool *pool, size_t n_sessions,
                                   const char *refused, struct sp_err *err)
{
    struct sp_serve_models_options models = {.n_models = 1,
                                             .max_open = 1,
                                             .max_waiting = n_sessions,
                                             .open = open_model,
                                             .close = close_model};
    struct sp_serve_batch *b = NULL;
    enum sp_status st;

    if ((st = sp_new(&b, 1, sizeof *b, err))) return st;
    *b = (struct sp_serve_batch){
        .serve = {.version = sp_version(),
                  .host = "",
                  .n_sessions = n_sessions,
                  .quiet = true,
                  .any_name = true},
        .budget = SP_SERVE_BUDGET_INIT(n_sessions * request_bytes),
        .template_locks = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER},
        .began_at = (uint64_t)time(NULL),
        .refused = refused};
    b->serve.all = &b->model;
    b->serve.n_models = 1;
    b->serve.keep_alive = -1;
    models.models = &b->model;
    b->serve.budget = &b->budget;
    b->serve.keys = &b->keys;
    b->serve.template_locks = b->template_locks;
    if ((st = sp_serve_model_attach(&b->model, m, pool, err))) goto done;
    if ((st = sp_serve_models_new(&b->serve.models, &models, err))) goto done;
    if ((st = sp_serve_metrics_new(&b->serve.metrics, 1, err))) goto done;
    if ((st = sp_serve_queue_new(&b->serve.queue, n_sessions, n_sessions, err))) goto done;
    if ((st = sp_new(&b->threads, n_sessions, sizeof *b->threads, err))) goto done;
    while (b->n_threads < n_sessions &&
           pthread_create(&b->threads[b->n_threads], NULL, sp_serve_job_run_all, &b->serve) == 0)
        b->n_threads++;
    if (b->n_threads == 0) {
        st = sp_fail(err, SP_E_NOMEM, "cannot create a thread for generation");
        goto done;
    }
    *out = b;
    b = NULL;
done:
    sp_serve_batch_close(b);
    return st;
}

void sp_serve_batch_close(struct sp_serve_batch *b)
{
    if (b == NULL) return;
    if (b->serve.queue) sp_serve_queue_stop(b->serve.queue);
    while (b->n_threads > 0)
        pthread_join(b->threads[--b->n_threads], NULL);
    free(b->threads);
    sp_serve_models_free(b->serve.models);
    sp_serve_model_release(&b->model);
    sp_serve_queue_free(b->serve.queue);
    sp_serve_metrics_free(b->serve.metrics);
    free(b);
}

/* ---- requests ---- */

/* Checks the members of OpenAI's line. */
static enum sp_status check_url(const struct sp_json *line, struct sp_err *err)
{
    const char *method = sp_json_get_text(line, "method"), *url = sp_json_get_text(line, "url");

    if (method == NULL || strcmp(method, "POST") != 0)
        return sp_fail(err, SP_E_INPUT, "method: expected \"POST\"");
    if (url && sp_is_among(url, "/v1/chat/completions /v1/completions /v1/responses")) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "url: expected /v1/chat/completions, /v1/completions or /v1/responses");
}

/* *body = the body of the request that the line describes, borrowed. */
static enum sp_status read_line(const struct sp_json **body, const struct sp_serve_batch *b,
                                const struct sp_json *line, bool anthropic, struct sp_err *err)
{
    const char *key = anthropic ? "params" : "body", *id = NULL;
    bool stream = false;
    enum sp_status st;

    if ((st = sp_json_get_string(line, "custom_id", &id, err))) return st;
    if (id == NULL) return sp_fail(err, SP_E_INPUT, "custom_id is missing");
    if (!anthropic && (st = check_url(line, err))) return st;
    *body = sp_json_get(line, key);
    if (sp_json_kind(*body) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "%s: expected an object", key);
    if (sp_json_to_bool(sp_json_get(*body, "stream"), &stream) && stream)
        return sp_fail(err, SP_E_INPUT, "stream: a batch cannot be streamed");
    if (!b->model.loaded->info.has_tokenizer)
        return sp_fail(err, SP_E_UNSUPPORTED, "%s has no tokenizer", b->model.given);
    if (b->refused == NULL) return SP_OK;
    return sp_fail(err, SP_E_USAGE, "%s has no effect on requests of this API", b->refused);
}

/* Has the server's routes answer a request. *body = the body of the response, owned by the caller;
 * SP_E_CANCELLED: a signal interrupted the answer. */
static enum sp_status handle(struct sp_strbuf *body, int *status, struct sp_serve_batch *b,
                             const char *path, const struct sp_json *json, struct sp_err *err)
{
    struct sp_http_response answer = {.status = 0};
    struct sp_http_request request = {.method = "POST", .path = path};
    char *text = NULL;
    enum sp_status st;

    if ((st = sp_json_print(&text, json, err))) return st;
    request.body = text;
    request.size = strlen(text);
    request.too_large = request.size > SP_HTTP_MAX_BODY;
    sp_serve_handle(&b->serve, &request, &answer);
    free(text);
    if (answer.stream) answer.close(answer.stream, &answer.log_line);
    sp_strbuf_release(&answer.log_line);
    *status = answer.status;
    *body = answer.body;
    while (body->len > 0 && body->at[body->len - 1] == '\n') /* the line goes on after it */
        body->len--;
    if (answer.status != 0) return SP_OK;
    sp_strbuf_release(body);
    if (sp_signals_caught()) return sp_fail(err, SP_E_CANCELLED, "interrupted");
    return sp_fail(err, SP_E_NOMEM, "out of memory for an answer");
}

/* ---- answers ---- */

/* Writes the sentence as OpenAI's or Anthropic's error of a line without a response. */
static void write_line_error(struct sp_json_out *out, bool anthropic, const char *sentence)
{
    if (anthropic)
        sp_json_out_put(out, "result:{type:'errored', error:{type:'error'");
    else
        sp_json_out_text(out, "response", NULL);
    sp_json_out_begin(out, "error", '{');
    sp_json_out_text(out, anthropic ? "type" : "code",
                     anthropic ? "invalid_request_error" : "invalid_request");
    sp_json_out_put(out, "message:%s}", sentence);
    if (anthropic) sp_json_out_put(out, "}}");
}

/* Makes the error of a response that is not a success, with the sentence of its body. */
static enum sp_status status_error(int status, const struct sp_strbuf *body, struct sp_err *err)
{
    struct sp_json *json = NULL;
    const char *sentence = NULL;

    if (sp_json_parse(&json, body->at, body->len, SP_JSON_STRICT, NULL) == SP_OK)
        sentence = sp_json_get_text(sp_json_get(json, "error"), "message");
    (void)!sp_fail(err, SP_E_INPUT, "status %d: %s", status, sentence ? sentence : "no message");
    sp_json_free(json);
    return SP_E_INPUT;
}

enum sp_status sp_serve_batch_answer(void *context, FILE *file, size_t number,
                                     const struct sp_json *line, struct sp_err *err)
{
    struct sp_serve_batch *b = context;
    struct sp_json_out out = {.file = file};
    struct sp_strbuf body = {0};
    const struct sp_json *json = NULL;
    bool anthropic = sp_json_has(line, "params");
    const char *url = anthropic ? "/v1/messages" : sp_json_get_text(line, "url");
    char batch_id[SP_SERVE_ID_SIZE], request_id[SP_SERVE_ID_SIZE];
    int status = 0;
    enum sp_status st;

    snprintf(batch_id, sizeof batch_id, "batch_req_%" PRIx64 "%08zx", b->began_at, number);
    snprintf(request_id, sizeof request_id, "req_%" PRIx64 "%08zx", b->began_at, number);
    st = read_line(&json, b, line, anthropic, err);
    if (!st) st = handle(&body, &status, b, url, json, err);
    if (st == SP_E_CANCELLED) return st;
    if (st) sp_context(err, "line %zu", number);
    sp_json_out_begin(&out, NULL, '{');
    if (!anthropic) sp_json_out_text(&out, "id", batch_id);
    sp_json_out_text(&out, "custom_id", sp_json_get_text(line, "custom_id"));
    if (st) {
        write_line_error(&out, anthropic, err->text);
    } else if (anthropic) {
        sp_json_out_put(&out, "result:{type:%s", status == 200 ? "succeeded" : "errored");
        sp_json_out_written(&out, status == 200 ? "message" : "error", body.at, body.len);
        sp_json_out_end(&out, '}');
    } else {
        sp_json_out_put(&out, "response:{status_code:%zu, request_id:%s", (size_t)status,
                        request_id);
        sp_json_out_written(&out, "body", body.at, body.len);
        sp_json_out_put(&out, "}, error:null");
    }
    sp_json_out_end_line(&out);
    if (!st && status != 200) {
        st = status_error(status, &body, err);
        sp_context(err, "line %zu", number);
    }
    sp_strbuf_release(&body);
    return st;
}
