#include "cli/serve/handlers.h"
#include "cli/serve/jobs/serve.h"
#include "format/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most memory that the JSON of one request may take. */
static const size_t max_tree_bytes = (size_t)64 << 20;

/* Takes memory beside `held` bytes of the same request that the body is not charged for. */
static enum sp_status take(struct sp_serve_body *b, size_t size, size_t held, struct sp_err *err)
{
    if (b->n_charged + held + size > b->budget->max)
        return sp_fail(err, SP_E_INPUT,
                       "the request takes more memory than the %zu MiB that the server has for all "
                       "requests",
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

static enum sp_status read_object(struct sp_serve_body *b, const char *text, size_t size,
                                  struct sp_err *err)
{
    struct sp_json *options;
    size_t bytes = 0;
    enum sp_status st;

    if ((st = sp_json_measure(&bytes, text, size, SP_JSON_STRICT, max_tree_bytes, err))) return st;
    b->n_tree = 2 * bytes; /* the messages are converted for the chat template */
    if ((st = take(b, b->n_tree, size, err))) return st;
    if ((st = sp_json_parse(&b->json, text, size, SP_JSON_STRICT, err))) return st;
    if (sp_json_kind(b->json) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "the request body is not a JSON object");
    if ((st = sp_new(&b->marks, 2, sizeof *b->marks, err))) return st;
    options = (struct sp_json *)(uintptr_t)sp_json_get(b->json, "options");
    sp_json_watch(b->json, &b->marks[0]);
    if (sp_json_kind(options) == SP_JSON_OBJECT) sp_json_watch(options, &b->marks[1]);
    return SP_OK;
}

int sp_serve_body_read(struct sp_serve_body *out, struct sp_serve_budget *budget, const char *text,
                       size_t size, struct sp_err *err)
{
    struct sp_serve_body body = {.budget = budget};
    enum sp_status st = read_object(&body, text, size, err);

    if (st) {
        sp_serve_body_release(&body);
        return sp_serve_status_of(st);
    }
    *out = body;
    return 0;
}

/* The text with the names of the members that were not read. */
struct names {
    char *text; /* [SP_SERVE_IGNORED_TEXT] */
    size_t len; /* SP_SERVE_IGNORED_TEXT: no more fits */
    const char *prefix;
};

static void add_name(void *context, const char *name, const struct sp_json *value)
{
    static const char more[] = ", ...";
    struct names *n = context;
    const char *separator = n->len ? ", " : "";
    size_t left = SP_SERVE_IGNORED_TEXT - n->len;
    size_t want = strlen(separator) + strlen(n->prefix) + strlen(name);

    if (value == NULL || left == 0) return;
    if (want + sizeof more > left) {
        snprintf(n->text + n->len, left, "%s", n->len ? more : more + 2);
        n->len = SP_SERVE_IGNORED_TEXT;
        return;
    }
    n->len += (size_t)snprintf(n->text + n->len, left, "%s%s%s", separator, n->prefix, name);
}

void sp_serve_body_settle(struct sp_serve_body *body, struct sp_json *json,
                          char ignored[SP_SERVE_IGNORED_TEXT])
{
    struct names names = {.text = ignored, .prefix = ""};
    struct sp_json *options;
    size_t n_tree;

    *ignored = '\0';
    sp_json_drop_unmarked(json, add_name, &names);
    names.prefix = "options.";
    options = (struct sp_json *)(uintptr_t)sp_json_get(json, "options");
    if (sp_json_kind(options) == SP_JSON_OBJECT) sp_json_drop_unmarked(options, add_name, &names);
    for (; *ignored; ignored++)
        if (*ignored < 0x20 || *ignored > 0x7E) *ignored = '?';
    n_tree = 2 * sp_json_tree_bytes(json);
    if (n_tree >= body->n_tree) return;
    sp_serve_budget_give(body->budget, body->n_tree - n_tree);
    body->n_charged -= body->n_tree - n_tree;
    body->n_tree = n_tree;
}

void sp_serve_body_release(struct sp_serve_body *body)
{
    sp_json_free(body->json);
    free(body->marks);
    if (body->n_charged) sp_serve_budget_give(body->budget, body->n_charged);
    *body = (struct sp_serve_body){0};
}
