/* Maps the paths of the APIs to the functions that handle their requests. */
#include "cli/serve/serve_routes.h"
#include "cli/base/duration.h"
#include "cli/serve/anthropic/serve_anthropic.h"
#include "cli/serve/anthropic/serve_anthropic_out.h"
#include "cli/serve/jobs/serve_job.h"
#include "cli/serve/jobs/serve_prompt.h"
#include "cli/serve/ollama/serve_ollama.h"
#include "cli/serve/openai/serve_infill.h"
#include "cli/serve/openai/serve_openai_out.h"
#include "cli/serve/serve_body.h"
#include "cli/serve/serve_embed.h"
#include "cli/serve/serve_inspect.h"
#include "cli/serve/serve_origin.h"
#include "cli/serve/serve_page.h"
#include "cli/serve/serve_rerank.h"
#include "format/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char json_type[] = "application/json";

struct exchange {
    const struct sp_serve *serve;
    const struct sp_http_request *request;
    struct sp_http_response *answer;
    const char *path;             /* path of the request, with its version */
    double arrived_at;            /* seconds of sp_seconds */
    struct sp_serve_body body;    /* of a request that has been read */
    struct sp_serve_model *model; /* that the request names; NULL: not known yet */
    bool is_acquired;             /* the model is kept open for this request */
    char *text;
    size_t size;
    struct sp_json_out out;
};

/* Opens the body of the response for writing; close_body ends it. */
static bool open_body(struct exchange *x)
{
    x->out = (struct sp_json_out){.file = open_memstream(&x->text, &x->size)};
    return x->out.file != NULL;
}

static void close_body(struct exchange *x, int status)
{
    bool whole = sp_close_text(x->out.file, &x->text, NULL) == SP_OK;

    x->answer->status = status;
    x->answer->type = json_type;
    if (!whole || sp_strbuf_append(&x->answer->body, x->text, x->size, NULL))
        x->answer->status = 500;
    free(x->text);
}

static bool begins(const struct exchange *x, const char *path)
{
    return strncmp(x->path, path, strlen(path)) == 0;
}

/* True for requests with the header that all clients of Anthropic's API send, also to paths that
 * OpenAI's API has too. */
static bool is_anthropic(const struct exchange *x)
{
    return begins(x, "/v1/messages") ||
           sp_http_header(x->request->connection, "anthropic-version") != NULL;
}

/* Adds a text to the log line of a request: a member of its object, or the text alone. */
static void add_to_log(struct sp_strbuf *line, const struct sp_serve *serve, const char *key,
                       const char *value)
{
    struct sp_json_out out = {0};
    char *text = NULL;
    size_t size = 0;

    if (!serve->log_json) {
        (void)!sp_strbuf_append(line, value, strlen(value), NULL);
        return;
    }
    if ((out.file = open_memstream(&text, &size)) == NULL) return;
    sp_json_out_text(&out, key, value);
    if (sp_close_text(out.file, &text, NULL) == SP_OK)
        (void)!sp_strbuf_append(line, text, size, NULL);
    free(text);
}

/* Adds a sentence to the request's line in the log. */
static void note(struct exchange *x, const char *sentence)
{
    add_to_log(&x->answer->log_line, x->serve, "error", sentence);
}

/* Writes an error in the format of the requested API, and to the log. */
static void refuse_as(struct exchange *x, int status, const char *code, const char *sentence)
{
    const struct sp_serve_failure failure = {.status = status, .code = code, .sentence = sentence};

    if (!open_body(x)) return;
    if (begins(x, "/api/")) {
        sp_serve_ollama_fail(&x->out, &failure);
    } else if (is_anthropic(x)) {
        sp_serve_anthropic_fail(&x->out, &failure);
    } else {
        sp_serve_openai_fail(&x->out, &failure);
    }
    close_body(x, status);
    note(x, sentence);
}

static void refuse(struct exchange *x, int status, const char *sentence)
{
    refuse_as(x, status, status == 404 ? "not_found" : NULL, sentence);
}

/* Refuses a request that could succeed later. */
static void refuse_for_now(struct exchange *x, const char *sentence)
{
    refuse(x, 503, sentence);
    x->answer->retry = true;
}

/* ---- models -----------------------------------------------------------------------------------
 */

/* Writes the names of the models after `sentence`: "..., this server has 'a', 'b'". */
static void refuse_model(struct exchange *x, int status, const char *code, char *sentence,
                         size_t size)
{
    size_t len = strlen(sentence);

    len += (size_t)snprintf(sentence + len, size - len, ", this server has");
    for (size_t i = 0; i < x->serve->n_models; i++) {
        const char *name = x->serve->all[i].names[0];
        if (len + strlen(name) + sizeof ", '', ..." > size) {
            snprintf(sentence + len, size - len, ", ...");
            break;
        }
        len += (size_t)snprintf(sentence + len, size - len, "%s '%s'", i ? "," : "", name);
    }
    refuse_as(x, status, code, sentence);
}

/* Sets x->model to the model of a name. A request without a name means the only model. Returns
 * false if an error was written. */
static bool find_model(struct exchange *x, const char *name)
{
    char sentence[SP_ERR_TEXT] = "model is missing";

    if (name == NULL && x->serve->n_models > 1) {
        refuse_model(x, 400, NULL, sentence, sizeof sentence);
        return false;
    }
    x->model = name ? sp_serve_models_find(x->serve->models, name) : x->serve->all;
    if (x->model != NULL) return true;
    snprintf(sentence, sizeof sentence, "model '%.200s' not found", name);
    refuse_model(x, 404, "model_not_found", sentence, sizeof sentence);
    return false;
}

/* Opens x->model and keeps it open until the end of the request. Returns false if an error was
 * written. */
static bool acquire_model(struct exchange *x, double keep_alive)
{
    struct sp_err err = {0};
    int status = sp_serve_models_acquire(x->serve->models, x->model, keep_alive,
                                         x->request->connection, &err);

    x->is_acquired = status == 0;
    if (status > 0) {
        refuse(x, status, err.text);
        x->answer->retry = status == 503;
    }
    return x->is_acquired;
}

/* *seconds = how long the model is to stay open after the request: the member keep_alive, a number
 * of seconds or a duration. Returns false if an error was written. */
static bool read_keep_alive(struct exchange *x, double *seconds)
{
    const struct sp_json *value = sp_json_get(x->body.json, "keep_alive");
    const char *text = sp_json_to_string(value, NULL);

    *seconds = x->serve->keep_alive;
    if (sp_json_kind(value) == SP_JSON_NULL || sp_json_to_double(value, seconds)) return true;
    if (text && sp_duration_read(seconds, text)) return true;
    refuse(x, 400, "keep_alive: expected seconds or a duration such as \"5m\"");
    return false;
}

/* Reads the JSON of a request for a model. Returns it, owned by x->body; NULL: an error was
 * written. */
static const struct sp_json *read_body(struct exchange *x)
{
    const struct sp_http_request *q = x->request;
    const struct sp_json *body;
    struct sp_err err = {0};
    const char *model = NULL;
    int status;

    if (q->too_large) {
        refuse(x, 413, "the request body is too large, expected at most 16 MiB");
        return NULL;
    }
    if (q->no_memory) {
        refuse_for_now(x, "the requests of all clients take too much memory, try again later");
        return NULL;
    }
    if ((status = sp_serve_body_read(&x->body, x->serve->budget, q->body, q->size, &err))) {
        refuse(x, status, err.text);
        x->answer->retry = status == 503;
        return NULL;
    }
    sp_http_drop_body(q->connection);
    body = x->body.json;
    if (sp_json_get_string(body, "model", &model, &err)) {
        refuse(x, 400, err.text);
        return NULL;
    }
    if (model == NULL) /* "name" is the member's earlier name */
        (void)!sp_json_get_string(body, "name", &model, NULL);
    return find_model(x, model) ? body : NULL;
}

/* Opens the model of a body that was read. Returns false if an error was written. */
static bool open_model(struct exchange *x)
{
    double keep_alive;

    return read_keep_alive(x, &keep_alive) && acquire_model(x, keep_alive);
}

/* ---- text -------------------------------------------------------------------------------------
 */

struct client {
    const struct sp_serve *serve;
    struct sp_serve_body body; /* without the JSON, which is the request's */
    struct sp_serve_job job;
};

static long read_output(void *stream, char *to, size_t size)
{
    struct client *c = stream;

    return sp_serve_queue_read(c->serve->queue, &c->job, to, size);
}

static void release_client(struct client *c)
{
    if (c->job.model) sp_serve_models_release(c->serve->models, c->job.model);
    sp_serve_request_release(&c->job.request);
    sp_serve_body_release(&c->body);
    for (size_t i = 0; i < c->job.n_answers && c->job.answers; i++)
        sp_strbuf_release(&c->job.answers[i]);
    free(c->job.answers);
    sp_strbuf_release(&c->job.out);
    sp_strbuf_release(&c->job.log_line);
    free(c);
}

/* Adds the name of the model to the log line of a request, if there are several. */
static void add_model_to_log(struct sp_strbuf *line, const struct client *c)
{
    const char *name = c->job.request.model->names[0];

    if (c->serve->n_models == 1) return;
    add_to_log(line, c->serve, "model", name);
    if (c->job.log_line.len > 0) (void)!sp_strbuf_append(line, ", ", 2, NULL);
}

static void close_job(void *stream, struct sp_strbuf *log_line)
{
    struct client *c = stream;

    sp_serve_queue_leave(c->serve->queue, &c->job);
    add_model_to_log(log_line, c);
    if (c->job.log_line.len > 0) {
        (void)!sp_strbuf_append(log_line, c->job.log_line.at, c->job.log_line.len, NULL);
    }
    release_client(c);
}

/* Waits until the job has started or, for a response that is not a stream, ended. */
static void wait_for_job(struct exchange *x, struct client *c)
{
    struct sp_serve_queue *q = x->serve->queue;
    struct sp_http_response *a = x->answer;
    int status = sp_serve_queue_wait(q, &c->job);

    a->stream = c;
    a->read = read_output;
    a->close = close_job;
    a->status = status;
    a->type = c->job.api->stream_type;
    if (status == 200 && c->job.request.stream) return;
    a->type = json_type;
    if (status == 0 || !sp_serve_queue_wait_end(q, &c->job)) {
        a->status = 0;
        return;
    }
    a->stream = NULL;
    a->body = c->job.out;
    c->job.out = (struct sp_strbuf){0};
    close_job(c, &a->log_line);
}

/* Allocates the outputs of the answers if the API combines several. */
static enum sp_status allocate_answers(struct sp_serve_job *job, struct sp_err *err)
{
    job->n_answers = sp_serve_request_n_answers(&job->request);
    if (job->api->close == NULL) return SP_OK;
    return sp_new(&job->answers, job->n_answers, sizeof *job->answers, err);
}

static const char queue_full[] = "too many requests are waiting, try again later";

/* Handles a request for text, whose body has been read. */
static void generate(struct exchange *x, const struct sp_serve_api *api)
{
    struct client *c = NULL;
    struct sp_err err = {0};
    enum sp_status st;
    enum sp_serve_entry entry;

    if (sp_new(&c, 1, sizeof *c, NULL)) return;
    c->serve = x->serve;
    c->body = x->body;
    x->body = (struct sp_serve_body){0};
    c->job.request.body = c->body.json;
    c->body.json = NULL;
    c->job.api = api;
    c->job.connection = x->request->connection;
    c->job.arrived_at = c->job.polled_at = x->arrived_at;
    c->job.request.model = c->job.model = x->model;
    x->is_acquired = false;
    st = sp_settings_copy(&c->job.request.settings, x->model->generation->settings, &err);
    if (!st) st = api->read(&c->job.request, &err);
    if (!st) st = allocate_answers(&c->job, &err);
    if (st) {
        refuse(x, sp_serve_status_of(st), err.text);
        goto refused;
    }
    entry = sp_serve_queue_put(x->serve->queue, &c->job);
    if (entry == SP_SERVE_IN) {
        wait_for_job(x, c);
        return;
    }
    if (entry == SP_SERVE_FULL) {
        refuse_for_now(x, queue_full);
    } else {
        refuse(x, 503, "the server is shutting down");
    }
refused:
    release_client(c);
}

/* Reads the body of a request for text, without opening its model. A request that would find the
 * queue full is refused before its body is parsed. */
static const struct sp_json *read_job(struct exchange *x)
{
    struct sp_serve_load load = sp_serve_queue_load(x->serve->queue);

    if (!load.full || sp_serve_queue_is_stopped(x->serve->queue)) return read_body(x);
    refuse_for_now(x, queue_full);
    return NULL;
}

static void anthropic(struct exchange *x)
{
    static const char sentence[] = "thread: conversations are not stored";
    const struct sp_json *body = read_job(x);

    if (body == NULL) return;
    if (sp_json_get(body, "thread") == NULL) {
        if (open_model(x)) generate(x, &sp_serve_anthropic);
        return;
    }
    if (!open_body(x)) return;
    sp_serve_anthropic_refuse_thread(&x->out, sentence);
    close_body(x, 400);
    note(x, sentence);
}

static void openai_chat(struct exchange *x)
{
    if (read_job(x) && open_model(x)) generate(x, &sp_serve_openai_chat);
}

static void openai_text(struct exchange *x)
{
    if (read_job(x) && open_model(x)) generate(x, &sp_serve_openai_text);
}

static void infill(struct exchange *x)
{
    if (read_job(x) && open_model(x)) generate(x, &sp_serve_infill);
}

static void openai_responses(struct exchange *x)
{
    if (read_job(x) && open_model(x)) generate(x, &sp_serve_responses);
}

/* Loads or unloads the model of a request without a prompt. */
static void load(struct exchange *x, double keep_alive, bool chat)
{
    const char *name = sp_json_get_text(x->body.json, "model");

    if (keep_alive == 0) {
        sp_serve_models_unload(x->serve->models, x->model);
    } else if (!acquire_model(x, keep_alive)) {
        return;
    }
    if (!open_body(x)) return;
    sp_serve_ollama_write_load(&x->out, name ? name : x->model->names[0], chat, keep_alive != 0);
    close_body(x, 200);
}

static void ollama(struct exchange *x, bool chat)
{
    const struct sp_json *body = read_job(x);
    double keep_alive;

    if (body == NULL || !read_keep_alive(x, &keep_alive)) return;
    if (!sp_serve_ollama_has_prompt(body, chat)) {
        load(x, keep_alive, chat);
    } else if (acquire_model(x, keep_alive)) {
        generate(x, chat ? &sp_serve_ollama_chat : &sp_serve_ollama_text);
    }
}

static void ollama_chat(struct exchange *x)
{
    ollama(x, true);
}

static void ollama_text(struct exchange *x)
{
    ollama(x, false);
}

/* ---- lists ------------------------------------------------------------------------------------
 */

static void write_plain_text(struct exchange *x, const char *text)
{
    x->answer->status = 200;
    x->answer->type = "text/plain; charset=utf-8";
    if (sp_strbuf_append(&x->answer->body, text, strlen(text), NULL)) x->answer->status = 500;
}

/* Answers a browser with the page, and other clients, which ask whether the server is alive, with a
 * sentence. */
static void root(struct exchange *x)
{
    const char *accept = sp_http_header(x->request->connection, "Accept");

    if (accept == NULL || strstr(accept, "text/html") == NULL) {
        write_plain_text(x, "spectool is running");
        return;
    }
    x->answer->status = 200;
    x->answer->type = "text/html; charset=utf-8";
    if (sp_strbuf_append(&x->answer->body, sp_serve_page, sp_serve_page_size, NULL))
        x->answer->status = 500;
}

static bool open_object(struct exchange *x)
{
    if (!open_body(x)) return false;
    sp_json_out_begin(&x->out, NULL, '{');
    return true;
}

static void close_object(struct exchange *x)
{
    sp_json_out_end(&x->out, '}');
    close_body(x, 200);
}

static void health(struct exchange *x)
{
    if (!open_object(x)) return;
    sp_json_out_text(&x->out, "status", "ok");
    close_object(x);
}

/* Readiness: whether the server would accept a request for text now. */
static void ready(struct exchange *x)
{
    struct sp_serve_load load = sp_serve_queue_load(x->serve->queue);

    if (!open_object(x)) return;
    sp_json_out_text(&x->out, "status", load.full ? "busy" : "ready");
    sp_json_out_u64(&x->out, "answers_running", load.n_running);
    sp_json_out_u64(&x->out, "requests_waiting", load.n_waiting);
    sp_json_out_end(&x->out, '}');
    close_body(x, load.full ? 503 : 200);
}

static void metrics(struct exchange *x)
{
    struct sp_serve_load load = sp_serve_queue_load(x->serve->queue);
    const struct sp_serve_state state = {
        .version = x->serve->version,
        .models = x->serve->all,
        .n_running = load.n_running,
        .n_waiting = load.n_waiting,
        .n_sessions = x->serve->n_sessions,
        .request_bytes = sp_serve_budget_used(x->serve->budget),
    };

    if (!open_body(x)) return;
    sp_serve_models_lock(x->serve->models);
    sp_serve_metrics_write(x->serve->metrics, &state, x->out.file);
    sp_serve_models_unlock(x->serve->models);
    close_body(x, 200);
    x->answer->type = "text/plain; version=0.0.4; charset=utf-8";
}

/* Finds the model that the argument `model` of the URL names. */
static bool find_model_argument(struct exchange *x)
{
    return find_model(x, sp_http_argument(x->request->connection, "model"));
}

static void props(struct exchange *x)
{
    if (!find_model_argument(x) || !acquire_model(x, x->serve->keep_alive) || !open_object(x))
        return;
    sp_serve_props(&x->out, x->serve, x->model);
    close_object(x);
}

/* With fail_on_no_slot the status says whether a session is free. */
static void slots(struct exchange *x)
{
    const char *fail = sp_http_argument(x->request->connection, "fail_on_no_slot");
    size_t n_free;

    if (!find_model_argument(x) || !open_body(x)) return;
    n_free = sp_serve_slots(&x->out, x->serve, x->model);
    close_body(x, n_free == 0 && fail && strcmp(fail, "0") != 0 ? 503 : 200);
}

/* Moves the body that was read into a request for the model. */
static void take_body(struct sp_serve_request *request, struct exchange *x)
{
    request->model = x->model;
    request->body = x->body.json;
    x->body.json = NULL;
}

/* Answers a request with members that a function makes of the body, or with its error. */
static void
write_members(struct exchange *x,
              enum sp_status (*write)(struct sp_json_out *out, const struct sp_serve *serve,
                                      struct sp_serve_request *request, struct sp_err *err))
{
    struct sp_serve_request request = {.n_each = 1};
    struct sp_err err = {0};
    enum sp_status st;

    if (read_body(x) == NULL || !open_model(x) || !open_object(x)) return;
    take_body(&request, x);
    st = write(&x->out, x->serve, &request, &err);
    if (st == SP_OK) {
        close_object(x);
    } else {
        fclose(x->out.file);
        free(x->text);
        refuse(x, sp_serve_status_of(st), err.text);
    }
    sp_serve_request_release(&request);
}

/* Answers a request for embeddings or scores. */
static void embed_with(struct exchange *x, sp_serve_embed_fn *fn)
{
    struct sp_serve_request request = {.n_each = 1};
    struct sp_serve_embed embed = {
        .serve = x->serve, .request = &request, .connection = x->request->connection};
    struct sp_err err = {0};
    enum sp_status st;

    if (read_body(x) == NULL || !open_model(x) || !open_object(x)) return;
    take_body(&request, x);
    st = fn(&x->out, &embed, &err);
    if (st == SP_OK) {
        close_object(x);
    } else {
        fclose(x->out.file);
        free(x->text);
        if (st == SP_E_CHECK) {
            refuse(x, 503, "the server is shutting down");
        } else {
            refuse_as(x, sp_serve_status_of(st), embed.code, err.text);
        }
    }
    sp_serve_request_release(&request);
}

static void openai_embeddings(struct exchange *x)
{
    embed_with(x, sp_serve_openai_embeddings);
}

static void ollama_embed(struct exchange *x)
{
    embed_with(x, sp_serve_ollama_embed);
}

static void ollama_embeddings(struct exchange *x)
{
    embed_with(x, sp_serve_ollama_embeddings);
}

static void rerank(struct exchange *x)
{
    embed_with(x, sp_serve_rerank);
}

static void tokenize(struct exchange *x)
{
    write_members(x, sp_serve_tokenize);
}

static void detokenize(struct exchange *x)
{
    write_members(x, sp_serve_detokenize);
}

static void apply_template(struct exchange *x)
{
    write_members(x, sp_serve_apply_template);
}

/* The ollama release whose API this server follows. Clients check it for reasoning (0.9), tool
 * calls in streams (0.8) and structured output (0.5). */
static const char ollama_version[] = "0.9.0";

static void version(struct exchange *x)
{
    if (!open_object(x)) return;
    sp_json_out_text(&x->out, "version", ollama_version);
    sp_json_out_text(&x->out, "spectool", x->serve->version);
    close_object(x);
}

/* Answers with an object that a function writes about all models. */
static void write_list(struct exchange *x,
                       void (*write)(struct sp_json_out *out, const struct sp_serve_model *models,
                                     size_t n))
{
    if (!open_object(x)) return;
    sp_serve_models_lock(x->serve->models);
    write(&x->out, x->serve->all, x->serve->n_models);
    sp_serve_models_unlock(x->serve->models);
    close_object(x);
}

/* Answers with an object that a function writes about the request's model. */
static void write_entry(struct exchange *x,
                        void (*write)(struct sp_json_out *out, const struct sp_serve_model *model))
{
    if (!open_object(x)) return;
    sp_serve_models_lock(x->serve->models);
    write(&x->out, x->model);
    sp_serve_models_unlock(x->serve->models);
    close_object(x);
}

static void tags(struct exchange *x)
{
    write_list(x, sp_serve_model_tags);
}

static void open_models(struct exchange *x)
{
    write_list(x, sp_serve_model_open_list);
}

static void show(struct exchange *x)
{
    if (read_body(x)) write_entry(x, sp_serve_model_show);
}

static void models(struct exchange *x)
{
    write_list(x, is_anthropic(x) ? sp_serve_model_anthropic_list : sp_serve_model_list);
}

/* Handles GET /v1/models/NAME. */
static void model(struct exchange *x)
{
    if (!find_model(x, x->path + strlen("/v1/models/"))) return;
    write_entry(x, is_anthropic(x) ? sp_serve_model_anthropic_entry : sp_serve_model_entry);
}

/* Handles the request for the number of tokens of a conversation's prompt. */
static void count_tokens(struct exchange *x)
{
    struct sp_serve_request request = {.n_each = 1};
    struct sp_err err = {0};
    size_t n = 0;
    enum sp_status st;

    if (read_body(x) == NULL || !open_model(x)) return;
    take_body(&request, x);
    st = sp_serve_anthropic_read_prompt(&request, &err);
    if (!st) st = sp_serve_prompt_count(&n, x->serve, &request, &err);
    if (st) {
        refuse(x, sp_serve_status_of(st), err.text);
    } else if (open_object(x)) {
        sp_json_out_u64(&x->out, "input_tokens", n);
        close_object(x);
    }
    sp_serve_request_release(&request);
}

/* Handles paths of the APIs that one packed file cannot serve. */
static void missing(struct exchange *x)
{
    char sentence[160];

    snprintf(sentence, sizeof sentence, "%.100s is not supported by spectool", x->request->path);
    refuse(x, 501, sentence);
}

/* ---- routes -----------------------------------------------------------------------------------
 */

static const struct route {
    const char *method; /* NULL: any method */
    const char *path;   /* a path; with a slash at its end: the prefix of longer paths */
    void (*answer)(struct exchange *x);
} routes[] = {
    {"GET", "/", root},
    {"GET", "/health", health},
    {"GET", "/ready", ready},
    {"GET", "/metrics", metrics},
    {"GET", "/props", props},
    {"GET", "/slots", slots},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/apply-template", apply_template},
    {"POST", "/infill", infill},
    {"GET", "/v1/models", models},
    {"GET", "/v1/models/", model},
    {"POST", "/v1/messages", anthropic},
    {"POST", "/v1/messages/count_tokens", count_tokens},
    {NULL, "/v1/messages/batches", missing},
    {NULL, "/v1/messages/batches/", missing},
    {NULL, "/v1/complete", missing},
    {"POST", "/v1/chat/completions", openai_chat},
    {"POST", "/v1/completions", openai_text},
    {"POST", "/v1/responses", openai_responses},
    {NULL, "/v1/responses/", missing},
    {"POST", "/v1/embeddings", openai_embeddings},
    {"POST", "/v1/rerank", rerank},
    {"POST", "/v1/reranking", rerank},
    {"POST", "/v2/rerank", rerank},
    {NULL, "/v1/images/", missing},
    {NULL, "/v1/audio/", missing},
    {NULL, "/v1/moderations", missing},
    {NULL, "/v1/files", missing},
    {"GET", "/api/version", version},
    {"GET", "/api/tags", tags},
    {"GET", "/api/ps", open_models},
    {"POST", "/api/show", show},
    {"POST", "/api/chat", ollama_chat},
    {"POST", "/api/generate", ollama_text},
    {"POST", "/api/embed", ollama_embed},
    {"POST", "/api/embeddings", ollama_embeddings},
    {NULL, "/api/pull", missing},
    {NULL, "/api/push", missing},
    {NULL, "/api/create", missing},
    {NULL, "/api/copy", missing},
    {NULL, "/api/delete", missing},
    {NULL, "/api/blobs/", missing},
};

static bool matches(const struct route *route, const char *path)
{
    size_t len = strlen(route->path);

    if (len > 1 && route->path[len - 1] == '/') {
        return strncmp(path, route->path, len) == 0 && path[len] != '\0';
    }
    return strcmp(path, route->path) == 0;
}

/* True if the route allows the method. GET routes also serve HEAD. */
static bool allows(const struct route *route, const char *method)
{
    if (route->method == NULL || strcmp(route->method, method) == 0) return true;
    return strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0;
}

/* Answers a request to x->path. Returns false if there is no such path. */
static bool try_routes(struct exchange *x)
{
    const struct route *other = NULL;

    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!matches(&routes[i], x->path)) continue;
        if (allows(&routes[i], x->request->method)) {
            routes[i].answer(x);
            return true;
        }
        other = &routes[i];
    }
    if (other == NULL) return false;
    x->answer->allow = strcmp(other->method, "GET") == 0 ? "GET, HEAD" : "POST";
    refuse(x, 405, "method not allowed");
    return true;
}

/* Paths under /v1 are also found without it, as in llama-server. */
static void dispatch(struct exchange *x)
{
    char path[1024];

    if (try_routes(x)) return;
    if (snprintf(path, sizeof path, "/v1%s", x->request->path) >= (int)sizeof path) {
        refuse(x, 404, "not found");
        return;
    }
    x->path = path;
    if (try_routes(x)) return;
    x->path = x->request->path;
    refuse(x, 404, "not found");
}

bool sp_serve_admits(void *context, const char *path, const struct sp_http_connection *connection)
{
    static const char *const open_paths[] = {"/", "/health", "/ready"};
    const struct sp_serve *serve = context;

    for (size_t i = 0; i < sizeof open_paths / sizeof *open_paths; i++) {
        if (strcmp(path, open_paths[i]) == 0) return true;
    }
    return sp_serve_keys_allow(serve->keys, sp_http_header(connection, "Authorization"),
                               sp_http_header(connection, "x-api-key"));
}

void sp_serve_handle(void *context, const struct sp_http_request *request,
                     struct sp_http_response *answer)
{
    struct exchange x = {.serve = context,
                         .request = request,
                         .answer = answer,
                         .path = request->path,
                         .arrived_at = sp_seconds()};

    answer->cors = x.serve->cors;
    if (request->malformed) {
        refuse(&x, 400, request->malformed);
    } else if (sp_serve_is_cross_origin(x.serve, request)) {
        refuse(&x, 403, "this host or origin is not allowed, see --cors of spectool serve");
    } else if (strcmp(request->method, "OPTIONS") == 0 && x.serve->cors != NULL) {
        answer->status = 204;
    } else if (!sp_serve_admits(context, request->path, request->connection)) {
        refuse_as(&x, 401, "invalid_api_key",
                  "this server needs an API key: Authorization: Bearer KEY, or x-api-key: KEY");
        answer->ask_key = true;
    } else {
        dispatch(&x);
    }
    if (x.is_acquired) sp_serve_models_release(x.serve->models, x.model);
    sp_serve_body_release(&x.body);
}
