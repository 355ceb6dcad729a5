#include "cli/serve/serve_prompt.h"
#include "cli/base/template_source.h"

#include <stdlib.h>
#include <string.h>

void sp_serve_prompt_release(struct sp_serve_prompt *prompt)
{
    sp_ids_release(&prompt->ids);
    free(prompt->text);
    *prompt = (struct sp_serve_prompt){0};
}

/* The answer goes on behind its beginning. */
static enum sp_status read_begun(struct sp_ids *ids, const struct sp_serve_prompt *prompt,
                                 const struct sp_serve_request *request,
                                 const struct sp_generation *g, struct sp_err *err)
{
    struct sp_strbuf text = {0};
    enum sp_status st;

    st = sp_strbuf_append(&text, prompt->text, prompt->size, err);
    if (!st) st = sp_strbuf_append(&text, request->begun.at, request->begun.len, err);
    if (!st) st = sp_prompt_raw(ids, g->package, text.at, text.len, false, err);
    sp_strbuf_release(&text);
    return st;
}

static enum sp_status render(struct sp_serve_prompt *p, const struct sp_serve_request *request,
                             struct sp_generation *g, struct sp_err *err)
{
    const struct sp_template *t = request->template ? request->template : g->conversation.template;
    struct sp_template_input in = {
        .messages = request->messages,
        .tools = request->tools,
        .kwargs = request->kwargs,
        .prompt = request->prompt,
        .suffix = request->suffix,
        .generation_prompt = true,
        .think = request->think,
        .is_think_set = request->is_think_set,
        .think_level = request->think_level,
        .now = sp_template_now(),
    };
    enum sp_status st = sp_template_render(&p->text, &p->size, t, &in, err);

    if (st) {
        sp_context(err, "the chat template");
        return st;
    }
    if (request->template != NULL) {
        g->conversation.has_end_id =
            sp_prompt_end_of_turn(&g->conversation.end_id, g->package, request->template);
    }
    if (request->begun.len > 0) return read_begun(&p->ids, p, request, g, err);
    return sp_prompt_raw(&p->ids, g->package, p->text, p->size, false, err);
}

static enum sp_status read_raw(struct sp_ids *ids, const struct sp_serve_raw_prompt *from,
                               const struct sp_generation *g, struct sp_err *err)
{
    enum sp_status st;

    if (from->text != NULL) {
        return sp_prompt_raw(ids, g->package, from->text, from->size, true, err);
    }
    if ((st = sp_new(&ids->at, from->ids.n, sizeof *ids->at, err))) return st;
    memcpy(ids->at, from->ids.at, from->ids.n * sizeof *ids->at);
    ids->n = from->ids.n;
    return SP_OK;
}

static enum sp_status read_prompt(struct sp_serve_prompt *p, const struct sp_serve_request *request,
                                  size_t which, struct sp_generation *g, struct sp_err *err)
{
    if (request->messages != NULL || request->suffix != NULL) return render(p, request, g, err);
    g->conversation.has_end_id = false;
    return read_raw(&p->ids, &request->prompts[which], g, err);
}

enum sp_status sp_serve_prompt_read(struct sp_serve_prompt *out,
                                    const struct sp_serve_request *request, size_t which,
                                    struct sp_generation *g, struct sp_err *err)
{
    struct sp_serve_prompt p = {.text = NULL};
    enum sp_status st = read_prompt(&p, request, which, g, err);

    if (!st && p.ids.n == 0) st = sp_fail(err, SP_E_INPUT, "the prompt is empty");
    if (st) {
        sp_serve_prompt_release(&p);
        return st;
    }
    *out = p;
    return SP_OK;
}

enum sp_status sp_serve_prompt_count(size_t *n_tokens, const struct sp_serve *serve,
                                     const struct sp_serve_request *request, struct sp_err *err)
{
    struct sp_generation g = *serve->generation;
    struct sp_serve_prompt prompt = {.text = NULL};
    enum sp_status st;

    pthread_mutex_lock(serve->reading);
    st = sp_serve_prompt_read(&prompt, request, 0, &g, err);
    pthread_mutex_unlock(serve->reading);
    *n_tokens = prompt.ids.n;
    sp_serve_prompt_release(&prompt);
    return st;
}
