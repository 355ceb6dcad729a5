#include "cli/serve/serve_body.h"
#include "cli/serve/jobs/serve_job.h"

/* The most memory that the JSON of one request may take. */
static const size_t max_tree_bytes = (size_t)64 << 20;

/* Takes memory beside `held` bytes of the same request that the body is not charged for. */
static enum sp_status take(struct sp_serve_body *b, size_t size, size_t held, struct sp_err *err)
{
    if (b->n_charged + held + size > b->budget->max)
        return sp_fail(err, SP_E_INPUT,
                       "the JSON of the request takes more memory than the %zu MiB that the server "
                       "has for all requests",
                       b->budget->max >> 20);
    if (!sp_serve_budget_take(b->budget, size))
        return sp_fail(err, SP_E_NOMEM,
                       "the requests of all clients take too much memory, try again later");
    b->n_charged += size;
    return SP_OK;
}

enum sp_status sp_serve_body_take(void *body, size_t size, struct sp_err *err)
{
    return take(body, size, 0, err);
}

int sp_serve_body_read(struct sp_serve_body *out, struct sp_serve_budget *budget,
                       const struct sp_serve_members *members, const char *text, size_t size,
                       struct sp_err *err)
{
    struct sp_serve_body body = {.budget = budget};
    size_t before = 0, n;
    enum sp_status st;

    /* twice: the messages are converted for the chat template */
    if ((st = sp_json_measure(&before, text, size, SP_JSON_STRICT, max_tree_bytes, err)) ||
        (st = take(&body, 2 * before, size, err)))
        return sp_serve_status_of(st);
    if ((st = sp_json_parse(&body.json, text, size, SP_JSON_STRICT, err))) {
        sp_serve_body_release(&body);
        return sp_serve_status_of(st);
    }
    if (sp_json_kind(body.json) != SP_JSON_OBJECT) {
        sp_serve_body_release(&body);
        (void)!sp_fail(err, SP_E_INPUT, "the request body is not a JSON object");
        return 400;
    }
    sp_serve_members_keep(body.json, members, body.ignored);
    n = 2 * sp_json_tree_bytes(body.json);
    if (n < body.n_charged) {
        sp_serve_budget_give(budget, body.n_charged - n);
        body.n_charged = n;
    }
    *out = body;
    return 0;
}

void sp_serve_body_release(struct sp_serve_body *body)
{
    sp_json_free(body->json);
    if (body->n_charged) sp_serve_budget_give(body->budget, body->n_charged);
    *body = (struct sp_serve_body){0};
}
