#include "cli/serve/handlers.h"
#include "cli/base/advice.h"
#include "cli/serve/jobs/serve_job.h"
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/serve_page.h"

#include <string.h>

/* Answers with the file of the page that the path names. */
void sp_handle_page(struct sp_exchange *x)
{
    const struct sp_page_file *file = sp_page_files;

    while (strcmp(file->path, x->path) != 0)
        file++;
    x->answer->status = 200;
    x->answer->type = file->type;
    if (sp_strbuf_append(&x->answer->body, file->text, file->size, NULL)) x->answer->status = 500;
}

/* Answers a browser with the page, and clients that ask if the server is alive with a sentence. */
void sp_handle_root(struct sp_exchange *x)
{
    static const char sentence[] = "spectool is running";
    const char *accept = sp_http_header(x->request->connection, "Accept");

    if (accept && strstr(accept, "text/html")) {
        sp_handle_page(x);
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

void sp_handle_health(struct sp_exchange *x)
{
    sp_json_out_put(&x->out, "{status:'ok'}");
    sp_exchange_close_body(x, 200);
}

/* Readiness: whether the server would accept a request for text now. */
void sp_handle_ready(struct sp_exchange *x)
{
    struct sp_serve_load load = sp_serve_queue_load(x->serve->queue);

    sp_json_out_put(&x->out, "{status:%s, answers_running:%zu, requests_waiting:%zu}",
                    load.ends   ? "shutting down"
                    : load.full ? "busy"
                                : "ready",
                    load.n_running, load.n_waiting);
    sp_exchange_close_body(x, load.full ? 503 : 200);
}

void sp_handle_metrics(struct sp_exchange *x)
{
    struct sp_serve_load load = sp_serve_queue_load(x->serve->queue);
    const struct sp_serve_state state = {
        .version = x->serve->version,
        .models = x->serve->all,
        .n_running = load.n_running,
        .n_waiting = load.n_waiting,
        .n_sessions = x->serve->n_sessions,
        .request_bytes = sp_serve_budget_used(x->serve->budget),
        .cache_bytes = sp_cache_budget_used(x->serve->caches),
    };
    struct sp_strbuf *body = &x->answer->body;
    FILE *out;

    if ((out = open_memstream(&body->at, &body->len)) == NULL) return;
    sp_serve_models_lock(x->serve->models);
    sp_serve_metrics_write(x->serve->metrics, &state, out);
    sp_serve_models_unlock(x->serve->models);
    x->answer->status = sp_close_text(out, &body->at, NULL) ? 500 : 200;
    if (x->answer->status == 500) *body = (struct sp_strbuf){0};
    x->answer->type = "text/plain; version=0.0.4; charset=utf-8";
}

/* Finds the model that the argument `model` of the URL names. */
static bool find_model_argument(struct sp_exchange *x)
{
    return sp_exchange_find_model(x, sp_http_argument(x->request->connection, "model"));
}

void sp_handle_props(struct sp_exchange *x)
{
    if (!find_model_argument(x) || !sp_exchange_acquire_model(x, x->serve->keep_alive)) return;
    open_object(x);
    sp_serve_props(&x->out, x->serve, x->model);
    close_object(x);
}

/* With fail_on_no_slot the status says whether a session is free. */
void sp_handle_slots(struct sp_exchange *x)
{
    const char *fail = sp_http_argument(x->request->connection, "fail_on_no_slot");
    size_t n_free;

    if (!find_model_argument(x)) return;
    n_free = sp_serve_slots(&x->out, x->serve, x->model);
    sp_exchange_close_body(x, n_free == 0 && fail && strcmp(fail, "0") != 0 ? 503 : 200);
}

void sp_handle_lora_adapters(struct sp_exchange *x)
{
    if (!find_model_argument(x)) return;
    sp_serve_lora_list(&x->out, x->model);
    sp_exchange_close_body(x, 200);
}

/* Scales that hold for all later requests would make their answers depend on other clients. */
void sp_handle_lora_scales(struct sp_exchange *x)
{
    sp_exchange_refuse(x, 501,
                       "scales of adapters are set by each request: by its member lora, or by the "
                       "name of the adapter as model");
}

void sp_handle_members(struct sp_exchange *x, sp_serve_members_fn *write)
{
    struct sp_serve_request request = {.n_each = 1};
    struct sp_serve_call call = {
        .serve = x->serve,
        .request = &request,
        .connection = x->request->connection,
        .arrived_at = x->arrived_at,
    };
    struct sp_err err = {0};
    enum sp_status st;

    if (sp_exchange_read_body(x) == NULL || !sp_exchange_open_model(x)) return;
    open_object(x);
    request.model = x->model;
    request.body = x->body.json;
    request.take_memory = sp_serve_body_take;
    request.memory = &x->body;
    x->body.json = NULL;
    st = write(&x->out, &call, &err);
    if (!st) sp_serve_body_settle(&x->body, request.body, x->answer->ignored);
    if (!st) st = sp_package_check_file(x->model->loaded->package, &err);
    if (st == SP_OK) {
        close_object(x);
    } else {
        sp_strbuf_release(&x->out.text);
        x->out = (struct sp_json_out){0};
        sp_advise(&err);
        if (st == SP_E_CANCELLED)
            sp_exchange_refuse(x, 503, "the server is shutting down");
        else
            sp_exchange_refuse_for(x, sp_serve_status_of(st), &request.fault, err.text);
    }
    sp_serve_request_release(&request);
}

/* The ollama release whose API this server follows. Clients check it for reasoning (0.9), tool
 * calls in streams (0.8) and structured output (0.5). */
static const char ollama_version[] = "0.13.4";

void sp_handle_version(struct sp_exchange *x)
{
    sp_json_out_put(&x->out, "{version:%s, spectool:%s}", ollama_version, x->serve->version);
    sp_exchange_close_body(x, 200);
}

void sp_handle_list(struct sp_exchange *x, sp_serve_list_fn *write)
{
    open_object(x);
    sp_serve_models_lock(x->serve->models);
    write(&x->out, x->serve->all, x->serve->n_models);
    sp_serve_models_unlock(x->serve->models);
    close_object(x);
}

void sp_handle_show(struct sp_exchange *x)
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

void sp_handle_models(struct sp_exchange *x)
{
    sp_handle_list(x, sp_exchange_is_anthropic(x) ? sp_serve_model_anthropic_list
                                                  : sp_serve_model_list);
}

/* Handles GET /v1/models/NAME. */
void sp_handle_model(struct sp_exchange *x)
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
void sp_handle_missing(struct sp_exchange *x)
{
    char sentence[160];

    snprintf(sentence, sizeof sentence, "%.100s is not supported by spectool", x->request->path);
    sp_exchange_refuse(x, 501, sentence);
}
