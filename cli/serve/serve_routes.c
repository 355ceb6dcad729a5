/* Maps the paths of the APIs to the functions that handle their requests. */
#include "cli/serve/serve_routes.h"
#include "cli/serve/handlers.h"
#include "cli/serve/serve_origin.h"
#include "cli/serve/serve_page.h"
#include "cli/serve/handlers_generate.h"
#include "format/base/clock.h"
#include "format/base/spelling.h"

#include <stdio.h>
#include <string.h>

static const struct route {
    const char *method; /* NULL: any method */
    const char *path;   /* a path; with a slash at its end: the prefix of longer paths */
    void (*answer)(struct sp_exchange *x);
} routes[] = {
    {"GET", "/", sp_handle_root},
    {"GET", "/page.css", sp_handle_page},
    {"GET", "/elements.js", sp_handle_page},
    {"GET", "/markdown_inline.js", sp_handle_page},
    {"GET", "/markdown.js", sp_handle_page},
    {"GET", "/page.js", sp_handle_page},
    {"GET", "/health", sp_handle_health},
    {"GET", "/ready", sp_handle_ready},
    {"GET", "/metrics", sp_handle_metrics},
    {"GET", "/props", sp_handle_props},
    {"GET", "/slots", sp_handle_slots},
    {"GET", "/lora-adapters", sp_handle_lora_adapters},
    {"POST", "/lora-adapters", sp_handle_lora_scales},
    {"POST", "/tokenize", sp_handle_tokenize},
    {"POST", "/detokenize", sp_handle_detokenize},
    {"POST", "/apply-template", sp_handle_apply_template},
    {"POST", "/infill", sp_handle_infill},
    {"GET", "/v1/models", sp_handle_models},
    {"GET", "/v1/models/", sp_handle_model},
    {"POST", "/v1/messages", sp_handle_anthropic},
    {"POST", "/v1/messages/count_tokens", sp_handle_count_tokens},
    {NULL, "/v1/messages/batches", sp_handle_missing},
    {NULL, "/v1/messages/batches/", sp_handle_missing},
    {NULL, "/v1/complete", sp_handle_missing},
    {"POST", "/v1/chat/completions", sp_handle_openai_chat},
    {"POST", "/v1/completions", sp_handle_openai_text},
    {"POST", "/v1/responses", sp_handle_openai_responses},
    {NULL, "/v1/responses/", sp_handle_missing},
    {"POST", "/v1/embeddings", sp_handle_openai_embeddings},
    {"POST", "/v1/rerank", sp_handle_rerank},
    {"POST", "/v1/reranking", sp_handle_rerank},
    {"POST", "/v2/rerank", sp_handle_rerank},
    {NULL, "/v1/images/", sp_handle_missing},
    {NULL, "/v1/audio/", sp_handle_missing},
    {NULL, "/v1/moderations", sp_handle_missing},
    {NULL, "/v1/files", sp_handle_missing},
    {"GET", "/api/version", sp_handle_version},
    {"GET", "/api/tags", sp_handle_tags},
    {"GET", "/api/ps", sp_handle_open_models},
    {"POST", "/api/show", sp_handle_show},
    {"POST", "/api/chat", sp_handle_ollama_chat},
    {"POST", "/api/generate", sp_handle_ollama_text},
    {"POST", "/api/embed", sp_handle_ollama_embed},
    {"POST", "/api/embeddings", sp_handle_ollama_embeddings},
    {NULL, "/api/pull", sp_handle_missing},
    {NULL, "/api/push", sp_handle_missing},
    {NULL, "/api/create", sp_handle_missing},
    {NULL, "/api/copy", sp_handle_missing},
    {NULL, "/api/delete", sp_handle_missing},
    {NULL, "/api/blobs/", sp_handle_missing},
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

/* Answers a request to x->path. Returns false if there is no such path. */
static bool try_routes(struct sp_exchange *x)
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
        if (!is_prefix && route->answer != sp_handle_missing)
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

    answer->cors = sp_serve_allowed_origin(x.serve, request);
    if (request->malformed) {
        sp_exchange_refuse(&x, 400, request->malformed);
    } else if (sp_serve_is_cross_origin(x.serve, request)) {
        sp_exchange_refuse(&x, 403,
                           "this host or origin is not allowed, see --cors of spectool serve");
    } else if (strcmp(request->method, "OPTIONS") == 0 && x.serve->cors != NULL) {
        answer->status = 204;
    } else if (!sp_serve_admits(context, request->path, request->connection)) {
        refuse_key(&x);
    } else {
        dispatch(&x);
    }
    if (x.is_acquired) sp_serve_models_release(x.serve->models, x.model);
    sp_serve_body_release(&x.body);
}
