#include "cli/serve/handlers.h"
#include "cli/serve/jobs/serve.h"

#include <stdio.h>
#include <stdlib.h>

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
    sp_serve_job_release(&c->job);
    sp_serve_body_release(&c->body);
    free(c);
}

static void close_job(void *stream, struct sp_strbuf *log_line)
{
    struct client *c = stream;

    sp_serve_queue_leave(c->serve->queue, &c->job);
    if (c->serve->n_models > 1) {
        sp_exchange_add_to_log(log_line, c->serve, "model", c->job.request.model->names[0]);
        if (c->job.log_line.len > 0) (void)!sp_strbuf_append(log_line, ", ", 2, NULL);
    }
    if (c->job.log_line.len > 0)
        (void)!sp_strbuf_append(log_line, c->job.log_line.at, c->job.log_line.len, NULL);
    if (c->job.failure.status) {
        if (log_line->len > 0) (void)!sp_strbuf_append(log_line, ", ", 2, NULL);
        sp_exchange_add_to_log(log_line, c->serve, "error", c->job.failure.text);
    }
    release_client(c);
}

/* Waits until the job has started or, for a response that is not a stream, ended. */
static void wait_for_job(struct sp_exchange *x, struct client *c)
{
    struct sp_serve_queue *q = x->serve->queue;
    struct sp_http_response *a = x->answer;
    int status = sp_serve_queue_wait(q, &c->job, false) ? c->job.status : 0;

    a->stream = c;
    a->read = read_output;
    a->close = close_job;
    a->status = status;
    a->retry = status == 503;
    a->type = c->job.api->stream_type;
    snprintf(a->changes, sizeof a->changes, "%s%s%s", c->job.request.changes,
             *c->job.request.changes && *c->job.changes ? ", " : "", c->job.changes);
    if (c->job.prompt_seconds > 0)
        snprintf(a->prompt_seconds, sizeof a->prompt_seconds, "%.2f", c->job.prompt_seconds);
    for (char *at = a->changes; *at; at++)
        if (*at < 0x20 || *at > 0x7E) *at = '?';
    if (status == 200 && c->job.request.stream) return;
    a->type = sp_exchange_json_type;
    if (status == 0 || !sp_serve_queue_wait(q, &c->job, true)) {
        a->status = 0;
        return;
    }
    a->stream = NULL;
    a->body = c->job.out;
    c->job.out = (struct sp_strbuf){0};
    close_job(c, &a->log_line);
}

static const char queue_full[] = "too many requests are waiting, try again later",
                  queue_ends[] = "the server is shutting down";

/* Handles a request for text, whose body has been read. */
static void generate(struct sp_exchange *x, const struct sp_serve_api *api)
{
    struct client *c = NULL;
    struct sp_err err = {0};
    enum sp_status st;
    enum sp_serve_entry entry;
    struct sp_serve_failure failure;

    if (sp_new(&c, 1, sizeof *c, NULL)) return;
    c->serve = x->serve;
    c->body = x->body;
    x->body = (struct sp_serve_body){0};
    c->job.request.body = c->body.json;
    c->body.json = NULL;
    c->job.request.take_memory = sp_serve_body_take;
    c->job.request.memory = &c->body;
    c->job.api = api;
    c->job.connection = x->request->connection;
    c->job.arrived_at = c->job.polled_at = x->arrived_at;
    c->job.request.model = c->job.model = x->model;
    x->is_acquired = false;
    if ((st = sp_serve_job_read(&c->job, &err))) {
        failure = sp_serve_failure_of(&c->job.request, sp_serve_status_of(st), err.text);
        sp_exchange_refuse_with(x, &failure);
        goto refused;
    }
    sp_serve_body_settle(&c->body, c->job.request.body, x->answer->ignored);
    entry = sp_serve_queue_put(x->serve->queue, &c->job);
    if (entry == SP_SERVE_IN) {
        wait_for_job(x, c);
        return;
    }
    sp_exchange_refuse(x, 503, entry == SP_SERVE_FULL ? queue_full : queue_ends);
refused:
    release_client(c);
}

/* Reads the body of a request for text, without opening its model. A request that the queue would
 * refuse is refused before its body is parsed. */
static const struct sp_json *read_job(struct sp_exchange *x)
{
    struct sp_serve_load load = sp_serve_queue_load(x->serve->queue);

    if (!load.full) return sp_exchange_read_body(x);
    sp_exchange_refuse(x, 503, load.ends ? queue_ends : queue_full);
    return NULL;
}

/* Loads or unloads the model of a request without a prompt. */
static void load(struct sp_exchange *x, const struct sp_serve_api *api)
{
    const char *name = sp_json_get_text(x->body.json, "model");

    if (x->keep_alive == 0)
        sp_serve_models_unload(x->serve->models, x->model);
    else if (!sp_exchange_open_model(x))
        return;
    api->write_load(&x->out, name ? name : x->model->names[0], api->is_chat, x->keep_alive != 0);
    sp_exchange_close_body(x, 200);
}

void sp_handle_text(struct sp_exchange *x, const struct sp_serve_api *api)
{
    const struct sp_json *body = read_job(x);

    if (body == NULL) return;
    if (api->has_prompt && !api->has_prompt(body, api->is_chat))
        load(x, api);
    else if (sp_exchange_open_model(x))
        generate(x, api);
}
