/* Maps the paths of the APIs to the functions that handle their requests. */
#include "cli/serve/serve_routes.h"
#include "cli/serve/handlers.h"
#include "cli/serve/serve_origin.h"
#include "cli/serve/serve_page.h"
#include "format/base/clock.h"
#include "format/base/spelling.h"

#include <stdio.h>
#include <string.h>

static const struct route {
    const char *method; /* NULL: any method */
    const char *path;   /* a path; with a slash at its end: the prefix of longer paths */
    /* one of these: */
    void (*answer)(struct sp_exchange *x);
    const struct sp_serve_api *text;
    sp_serve_members_fn *members;
    sp_serve_list_fn *list;
} routes[] = {
    {"GET", "/", .answer = sp_handle_root},
    {"GET", "/page.css", .answer = sp_handle_page},
    {"GET", "/elements.js", .answer = sp_handle_page},
    {"GET", "/markdown_inline.js", .answer = sp_handle_page},
    {"GET", "/markdown.js", .answer = sp_handle_page},
    {"GET", "/conversations.js", .answer = sp_handle_page},
    {"GET", "/requests.js", .answer = sp_handle_page},
    {"GET", "/messages.js", .answer = sp_handle_page},
    {"GET", "/page.js", .answer = sp_handle_page},
    {"GET", "/health", .answer = sp_handle_health},
    {"GET", "/ready", .answer = sp_handle_ready},
    {"GET", "/metrics", .answer = sp_handle_metrics},
    {"GET", "/props", .answer = sp_handle_props},
    {"GET", "/slots", .answer = sp_handle_slots},
    {"GET", "/lora-adapters", .answer = sp_handle_lora_adapters},
    {"POST", "/lora-adapters", .answer = sp_handle_lora_scales},
    {"POST", "/tokenize", .members = sp_serve_tokenize},
    {"POST", "/detokenize", .members = sp_serve_detokenize},
    {"POST", "/apply-template", .members = sp_serve_apply_template},
    {"POST", "/infill", .text = &sp_serve_infill},
    {"GET", "/v1/models", .answer = sp_handle_models},
    {"GET", "/v1/models/", .answer = sp_handle_model},
    {"POST", "/v1/messages", .answer = sp_handle_anthropic},
    {"POST", "/v1/messages/count_tokens", .members = sp_serve_count_tokens},
    {NULL, "/v1/messages/batches", .answer = sp_handle_missing},
    {NULL, "/v1/messages/batches/", .answer = sp_handle_missing},
    {NULL, "/v1/complete", .answer = sp_handle_missing},
    {"POST", "/v1/chat/completions", .text = &sp_serve_openai_chat},
    {"POST", "/v1/completions", .text = &sp_serve_openai_text},
    {"POST", "/v1/responses", .text = &sp_serve_responses},
    {NULL, "/v1/responses/", .answer = sp_handle_missing},
    {"POST", "/v1/embeddings", .members = sp_serve_openai_embeddings},
    {"POST", "/v1/rerank", .members = sp_serve_rerank},
    {"POST", "/v1/reranking", .members = sp_serve_rerank},
    {"POST", "/v2/rerank", .members = sp_serve_rerank},
    {NULL, "/v1/images/", .answer = sp_handle_missing},
    {NULL, "/v1/audio/", .answer = sp_handle_missing},
    {NULL, "/v1/moderations", .answer = sp_handle_missing},
    {NULL, "/v1/files", .answer = sp_handle_missing},
    {"GET", "/api/version", .answer = sp_handle_version},
    {"GET", "/api/tags", .list = sp_serve_model_tags},
    {"GET", "/api/ps", .list = sp_serve_model_open_list},
    {"POST", "/api/show", .answer = sp_handle_show},
    {"POST", "/api/chat", .answer = sp_handle_ollama_chat},
    {"POST", "/api/generate", .answer = sp_handle_ollama_text},
    {"POST", "/api/embed", .members = sp_serve_ollama_embed},
    {"POST", "/api/embeddings", .members = sp_serve_ollama_embeddings},
    {NULL, "/api/pull", .answer = sp_handle_missing},
    {NULL, "/api/push", .answer = sp_handle_missing},
    {NULL, "/api/create", .answer = sp_handle_missing},
    {NULL, "/api/copy", .answer = sp_handle_missing},
    {NULL, "/api/delete", .answer = sp_handle_missing},
    {NULL, "/api/blobs/", .answer = sp_handle_missing},
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
        sp_handle_members(x, route->members);
    else if (route->list)
        sp_handle_list(x, route->list);
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
    const char *refusal = sp_serve_check_origin(x.serve, request);

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
