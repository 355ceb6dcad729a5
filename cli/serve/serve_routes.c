/* Maps the paths of the APIs to the functions that handle their requests, and handles those that
 * need no queue. */
#include "cli/base/out.h"
#include "cli/serve/handlers.h"
#include "cli/serve/jobs/serve.h"
#include "cli/serve/openai/serve_openai.h"
#include "format/base/clock.h"
#include "format/base/spelling.h"

#include <stdio.h>
#include <string.h>

/* ---- handlers ---- */

/* Answers with the file of the page that the path names. */
static void handle_page(struct sp_exchange *x)
{
    const struct sp_page_file *file = sp_page_files;

    while (strcmp(file->path, x->path) != 0)
        file++;
    x->answer->status = 200;
    x->answer->type = file->type;
    if (sp_strbuf_append(&x->answer->body, file->text, file->size, NULL)) x->answer->status = 500;
}

/* Answers a browser with the page, and clients that ask if the server is alive with a sentence. */
static void handle_root(struct sp_exchange *x)
{
    static const char sentence[] = "spectool is running";
    const char *accept = sp_http_header(x->request->connection, "Accept");

    if (accept && strstr(accept, "text/html")) {
        handle_page(x);
        return;
    }
    x->answer->status = 200;
    x->answer->type = "text/plain; charset=utf-8";
    if (sp_strbuf_append(&x->answer->body, sentence, strlen(sentence), NULL))
        x->answer->status = 500;
}

static void open_object(struct sp_exchange *x)
{
    sp_json_out_begin(&x->out, NULL, '{');
}

static void close_object(struct sp_exchange *x)
{
    sp_json_out_end(&x->out, '}');
    sp_exchange_close_body(x, 200);
}

static void handle_health(struct sp_exchange *x)
{
    sp_json_out_put(&x->out, "{status:'ok'}");
    sp_exchange_close_body(x, 200);
}

/* Readiness: whether the server would accept a request for text now. */
static void handle_ready(struct sp_exchange *x)
{
    struct sp_serve_load load = sp_serve_queue_load(x->serve->queue);

    sp_json_out_put(&x->out, "{status:%s, answers_running:%zu, requests_waiting:%zu}",
                    load.ends   ? "shutting down"
                    : load.full ? "busy"
                                : "ready",
                    load.n_running, load.n_waiting);
    sp_exchange_close_body(x, load.full ? 503 : 200);
}

static void handle_metrics(struct sp_exchange *x)
{
    struct sp_strbuf *body = &x->answer->body;
    FILE *out;

    if ((out = open_memstream(&body->at, &body->len)) == NULL) return;
    sp_serve_metrics_write(x->serve, out);
    x->answer->status = sp_close_text(out, &body->at, NULL) ? 500 : 200;
    if (x->answer->status == 500) *body = (struct sp_strbuf){0};
    x->answer->type = "text/plain; version=0.0.4; charset=utf-8";
}

/* Finds the model that the argument `model` of the URL names. */
static bool find_model_argument(struct sp_exchange *x)
{
    return sp_exchange_find_model(x, sp_http_argument(x->request->connection, "model"));
}

/* GET /props: the settings of requests that set none, and the template of an open model. */
static void handle_props(struct sp_exchange *x)
{
    const struct sp_serve_model *m;
    const struct sp_settings *s;
    struct sp_json_out *out = &x->out;

    if (!find_model_argument(x) || !sp_exchange_open_model(x)) return;
    m = x->model;
    s = m->loaded->settings;
    sp_json_out_put(out, "{default_generation_settings:{n_ctx:%zu, params:{", m->n_context);
    sp_settings_sampling_to_json(out, s, NULL);
    sp_json_out_put(out, "max_tokens:%g, stop:[", s->n_predict > 0 ? (double)s->n_predict : -1);
    for (size_t i = 0; i < s->stops.n; i++)
        sp_json_out_text(out, NULL, s->stops.at[i]);
    sp_json_out_put(out,
                    "]}}, total_slots:%zu, model_alias:%s, chat_template:%s, "
                    "modalities:{vision:false, audio:false}, build_info:%s",
                    x->serve->n_sessions, m->names[0], m->file.template ? m->file.template : "",
                    x->serve->version);
    close_object(x);
}

/* GET /slots: the sessions. With fail_on_no_slot the status says whether one is free. */
static void handle_slots(struct sp_exchange *x)
{
    const char *fail = sp_http_argument(x->request->connection, "fail_on_no_slot");
    const struct sp_serve *serve = x->serve;
    size_t n_free = 0, n_context;
    bool is_open;

    if (!find_model_argument(x)) return;
    is_open = sp_serve_models_hold(serve->models, x->model);
    sp_serve_models_lock(serve->models);
    n_context = sp_serve_model_context(x->model);
    sp_serve_models_unlock(serve->models);
    sp_json_out_begin(&x->out, NULL, '[');
    for (size_t i = 0; i < serve->n_sessions; i++) {
        bool taken = is_open && sp_session_pool_is_taken(x->model->sessions, i);
        n_free += !taken;
        sp_json_out_put(&x->out, "{id:%zu, n_ctx:%zu, is_processing:%d}", i, n_context, taken);
    }
    sp_json_out_end(&x->out, ']');
    if (is_open) sp_serve_models_let_go(serve->models, x->model);
    sp_exchange_close_body(x, n_free == 0 && fail && strcmp(fail, "0") != 0 ? 503 : 200);
}

/* GET /lora-adapters: the adapters of a model. Their scale is 0, because a request that names none
 * is answered without. */
static void handle_lora_adapters(struct sp_exchange *x)
{
    const struct sp_serve_model *m;

    if (!find_model_argument(x)) return;
    m = x->model;
    sp_json_out_begin(&x->out, NULL, '[');
    for (size_t i = 0; i < m->n_adapters; i++) {
        sp_json_out_put(&x->out, "{id:%zu, name:%s, path:%s, scale:0}", i,
                        m->names[m->n_names - m->n_adapters + i], m->adapter_paths[i]);
    }
    sp_json_out_end(&x->out, ']');
    sp_exchange_close_body(x, 200);
}

/* Scales that hold for all later requests would make their answers depend on other clients. */
static void handle_lora_scales(struct sp_exchange *x)
{
    sp_exchange_refuse(x, 501,
                       "scales of adapters are set by each request: by its member lora, or by the "
                       "name of the adapter as model");
}

static void handle_members(struct sp_exchange *x, sp_serve_members_fn *write)
{
    struct sp_serve_request *asked = &x->asked;
    struct sp_serve_failure failure;
    struct sp_err err = {0};
    enum sp_status st;

    if (sp_exchange_read_body(x) == NULL || !sp_exchange_open_model(x)) return;
    open_object(x);
    asked->model = x->model;
    asked->conversation = &x->model->loaded->conversation;
    asked->body = x->body.json;
    asked->take_memory = sp_serve_body_take;
    asked->memory = &x->body;
    x->body.json = NULL;
    st = write(&x->out, x, &err);
    if (!st) sp_serve_body_settle(&x->body, asked->body, x->answer->ignored);
    if (!st) st = sp_package_check_file(x->model->loaded->package, &err);
    if (st == SP_OK) {
        close_object(x);
    } else {
        sp_strbuf_release(&x->out.text);
        x->out = (struct sp_json_out){0};
        sp_advise(&err);
        if (st == SP_E_CANCELLED) {
            sp_exchange_refuse(x, 503, "the server is shutting down");
        } else {
            failure = sp_serve_failure_of(asked, sp_serve_status_of(st), err.text);
            sp_exchange_refuse_with(x, &failure);
        }
    }
    sp_serve_request_release(asked);
}

/* The ollama release whose API this server follows. Clients check it for reasoning (0.9), tool
 * calls in streams (0.8) and structured output (0.5). */
static const char ollama_version[] = "0.13.4";

static void handle_version(struct sp_exchange *x)
{
    sp_json_out_put(&x->out, "{version:%s, spectool:%s}", ollama_version, x->serve->version);
    sp_exchange_close_body(x, 200);
}

static void handle_list(struct sp_exchange *x, sp_serve_list_fn *write)
{
    open_object(x);
    sp_serve_models_lock(x->serve->models);
    write(&x->out, x->serve->all, x->serve->n_models);
    sp_serve_models_unlock(x->serve->models);
    close_object(x);
}

static void handle_show(struct sp_exchange *x)
{
    const struct sp_json *body = sp_exchange_read_body(x);

    if (body == NULL) return;
    sp_serve_read_hints(body, "verbose");
    sp_serve_body_settle(&x->body, x->body.json, x->answer->ignored);
    open_object(x);
    sp_serve_models_lock(x->serve->models);
    sp_serve_model_show(&x->out, x->model);
    sp_serve_models_unlock(x->serve->models);
    close_object(x);
}

static void handle_models(struct sp_exchange *x)
{
    handle_list(x,
                sp_exchange_is_anthropic(x) ? sp_serve_model_anthropic_list : sp_serve_model_list);
}

/* Handles GET /v1/models/NAME. */
static void handle_model(struct sp_exchange *x)
{
    const char *name = x->path + strlen("/v1/models/");

    if (!sp_exchange_find_model(x, name)) return;
    open_object(x);
    name = sp_serve_model_find_name(x->model, name);
    sp_serve_models_lock(x->serve->models);
    if (sp_exchange_is_anthropic(x))
        sp_serve_model_anthropic_entry(&x->out, x->model, name);
    else
        sp_serve_model_entry(&x->out, x->model, name);
    sp_serve_models_unlock(x->serve->models);
    close_object(x);
}

/* Handles paths of the APIs that one packed file cannot serve. */
static void handle_missing(struct sp_exchange *x)
{
    char sentence[160];

    snprintf(sentence, sizeof sentence, "%.100s is not supported by spectool", x->request->path);
    sp_exchange_refuse(x, 501, sentence);
}

/* ---- routes ---- */

static const struct route {
    const char *method; /* NULL: any method */
    const char *path;   /* a path; with a slash at its end: the prefix of longer paths */
    /* one of these: */
    void (*answer)(struct sp_exchange *x);
    const struct sp_serve_api *text;
    sp_serve_members_fn *members;
    sp_serve_list_fn *list;
} routes[] = {
    {"GET", "/", .answer = handle_root},
    {"GET", "/page.css", .answer = handle_page},
    {"GET", "/elements.js", .answer = handle_page},
    {"GET", "/markdown_inline.js", .answer = handle_page},
    {"GET", "/markdown.js", .answer = handle_page},
    {"GET", "/conversations.js", .answer = handle_page},
    {"GET", "/requests.js", .answer = handle_page},
    {"GET", "/messages.js", .answer = handle_page},
    {"GET", "/page.js", .answer = handle_page},
    {"GET", "/health", .answer = handle_health},
    {"GET", "/ready", .answer = handle_ready},
    {"GET", "/metrics", .answer = handle_metrics},
    {"GET", "/props", .answer = handle_props},
    {"GET", "/slots", .answer = handle_slots},
    {"GET", "/lora-adapters", .answer = handle_lora_adapters},
    {"POST", "/lora-adapters", .answer = handle_lora_scales},
    {"POST", "/tokenize", .members = sp_serve_tokenize},
    {"POST", "/detokenize", .members = sp_serve_detokenize},
    {"POST", "/apply-template", .members = sp_serve_apply_template},
    {"POST", "/infill", .text = &sp_serve_infill},
    {"GET", "/v1/models", .answer = handle_models},
    {"GET", "/v1/models/", .answer = handle_model},
    {"POST", "/v1/messages", .text = &sp_serve_anthropic},
    {"POST", "/v1/messages/count_tokens", .members = sp_serve_count_tokens},
    {NULL, "/v1/messages/batches", .answer = handle_missing},
    {NULL, "/v1/messages/batches/", .answer = handle_missing},
    {NULL, "/v1/complete", .answer = handle_missing},
    {"POST", "/v1/chat/completions", .text = &sp_serve_openai_chat},
    {"POST", "/v1/completions", .text = &sp_serve_openai_text},
    {"POST", "/v1/responses", .text = &sp_serve_responses},
    {NULL, "/v1/responses/", .answer = handle_missing},
    {"POST", "/v1/embeddings", .members = sp_serve_openai_embeddings},
    {"POST", "/v1/rerank", .members = sp_serve_rerank},
    {"POST", "/v1/reranking", .members = sp_serve_rerank},
    {"POST", "/v2/rerank", .members = sp_serve_rerank},
    {NULL, "/v1/images/", .answer = handle_missing},
    {NULL, "/v1/audio/", .answer = handle_missing},
    {NULL, "/v1/moderations", .answer = handle_missing},
    {NULL, "/v1/files", .answer = handle_missing},
    {"GET", "/api/version", .answer = handle_version},
    {"GET", "/api/tags", .list = sp_serve_model_tags},
    {"GET", "/api/ps", .list = sp_serve_model_open_list},
    {"POST", "/api/show", .answer = handle_show},
    {"POST", "/api/chat", .text = &sp_serve_ollama_chat},
    {"POST", "/api/generate", .text = &sp_serve_ollama_text},
    {"POST", "/api/embed", .members = sp_serve_ollama_embed},
    {"POST", "/api/embeddings", .members = sp_serve_ollama_embeddings},
    {NULL, "/api/pull", .answer = handle_missing},
    {NULL, "/api/push", .answer = handle_missing},
    {NULL, "/api/create", .answer = handle_missing},
    {NULL, "/api/copy", .answer = handle_missing},
    {NULL, "/api/delete", .answer = handle_missing},
    {NULL, "/api/blobs/", .answer = handle_missing},
};

static bool matches(const struct route *route, const char *path)
{
    size_t len = strlen(route->path);

    if (len > 1 && route->path[len - 1] == '/')
        return strncmp(path, route->path, len) == 0 && path[len] != '\0';
    return strcmp(path, route->path) == 0;
}

/* True if the route allows the method. GET routes also serve HEAD. */
static bool allows(const struct route *route, const char *method)
{
    if (route->method == NULL || strcmp(route->method, method) == 0) return true;
    return strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0;
}

static void answer(struct sp_exchange *x, const struct route *route)
{
    if (route->text)
        sp_handle_text(x, route->text);
    else if (route->members)
        handle_members(x, route->members);
    else if (route->list)
        handle_list(x, route->list);
    else
        route->answer(x);
}

/* Answers a request to x->path. Returns false if there is no such path. */
static bool try_routes(struct sp_exchange *x)
{
    const struct route *other = NULL;

    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!matches(&routes[i], x->path)) continue;
        if (allows(&routes[i], x->request->method)) {
            answer(x, &routes[i]);
            return true;
        }
        other = &routes[i];
    }
    if (other == NULL) return false;
    x->answer->allow = strcmp(other->method, "GET") == 0 ? "GET, HEAD" : "POST";
    sp_exchange_refuse(x, 405, "method not allowed");
    return true;
}

/* Returns the path of a handler that `path` is probably a misspelling of; NULL: none is near. */
static const char *nearest(const char *path)
{
    const char *near = NULL;

    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *route = &routes[i];
        bool is_prefix = route->path[strlen(route->path) - 1] == '/';
        if (!is_prefix && route->answer != handle_missing)
            near = sp_nearer(near, route->path, path);
    }
    return near;
}

/* Paths under /v1 are also found without it, as in llama-server. */
static void dispatch(struct sp_exchange *x)
{
    char path[1024], sentence[128] = "not found";
    const char *near;

    if (try_routes(x)) return;
    if (snprintf(path, sizeof path, "/v1%s", x->request->path) >= (int)sizeof path) {
        sp_exchange_refuse(x, 404, sentence);
        return;
    }
    x->path = path;
    if (try_routes(x)) return;
    x->path = x->request->path;
    if ((near = nearest(x->path)) == NULL) near = nearest(path);
    if (near) snprintf(sentence, sizeof sentence, "not found, did you mean %s?", near);
    sp_exchange_refuse(x, 404, sentence);
}

bool sp_serve_admits(void *context, const char *path, const struct sp_http_connection *connection)
{
    const struct sp_serve *serve = context;

    if (strcmp(path, "/health") == 0 || strcmp(path, "/ready") == 0) return true;
    for (size_t i = 0; i < sp_n_page_files; i++)
        if (strcmp(path, sp_page_files[i].path) == 0) return true;
    return sp_serve_keys_allow(serve->keys, sp_http_header(connection, "Authorization"),
                               sp_http_header(connection, "x-api-key"));
}

/* Refuses a request without a key, or with one that is not among those of the server. */
static void refuse_key(struct sp_exchange *x)
{
    const struct sp_http_connection *connection = x->request->connection;
    bool has_key = sp_http_header(connection, "Authorization") != NULL ||
                   sp_http_header(connection, "x-api-key") != NULL;

    sp_exchange_refuse_as(
        x, 401, "invalid_api_key",
        has_key ? "the API key is not valid: Authorization: Bearer KEY, or x-api-key: KEY"
                : "this server needs an API key: Authorization: Bearer KEY, or x-api-key: KEY");
    x->answer->ask_key = true;
}

void sp_serve_handle(void *context, const struct sp_http_request *request,
                     struct sp_http_response *answer)
{
    struct sp_exchange x = {.serve = context,
                            .request = request,
                            .answer = answer,
                            .path = request->path,
                            .arrived_at = sp_seconds()};
    const char *refusal = sp_serve_check_origin(x.serve, request);

    x.keep_alive = x.serve->keep_alive;
    answer->cors = sp_serve_allowed_origin(x.serve, request);
    if (request->malformed)
        sp_exchange_refuse(&x, 400, request->malformed);
    else if (refusal)
        sp_exchange_refuse(&x, 403, refusal);
    else if (strcmp(request->method, "OPTIONS") == 0 && x.serve->cors != NULL)
        answer->status = 204;
    else if (!sp_serve_admits(context, request->path, request->connection))
        refuse_key(&x);
    else
        dispatch(&x);
    if (x.is_acquired) sp_serve_models_release(x.serve->models, x.model);
    sp_serve_body_release(&x.body);
}
