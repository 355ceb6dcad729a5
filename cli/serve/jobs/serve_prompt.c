#include "cli/serve/jobs/serve.h"
#include "format/json/json_write.h"

#include <stdlib.h>
#include <string.h>

void sp_serve_prompt_release(struct sp_serve_prompt *prompt)
{
    sp_chat_prompt_close(prompt->rendered);
    sp_chat_close(prompt->chat);
    sp_ids_release(&prompt->raw);
    *prompt = (struct sp_serve_prompt){0};
}

/* ---- conversations ---- */

/* The options of a chat prompt. */
struct chat_request {
    struct sp_chat_request request;
    char *texts[5]; /* JSON texts that the options borrow; owned */
    size_t n_texts;
    uint32_t stop_ids[SP_MAX_STOPS];
};

static void release(struct chat_request *r)
{
    while (r->n_texts > 0)
        free(r->texts[--r->n_texts]);
}

static enum sp_status print(const char **out, struct chat_request *r, const struct sp_json *value,
                            struct sp_err *err)
{
    enum sp_status st;

    if (value == NULL) return SP_OK;
    if ((st = sp_json_print(&r->texts[r->n_texts], value, err))) return st;
    *out = r->texts[r->n_texts++];
    return SP_OK;
}

static enum sp_status fill(struct chat_request *r, const struct sp_serve_request *request,
                           const struct sp_loaded_model *loaded, struct sp_err *err)
{
    struct sp_chat_request *to = &r->request;
    enum sp_status st;

    *to = (struct sp_chat_request){
        .size = sizeof *to,
        .is_think_set = request->is_think_set,
        .think = request->think,
        .think_level = request->think_level,
        .prefix = request->partial.at,
        .prefix_size = request->partial.len,
        .now = request->now,
        .response_format = request->grammar ? request->grammar : loaded->grammar,
        .calls = request->must_call         ? SP_CHAT_CALLS_REQUIRED
                 : request->constrain_calls ? SP_CHAT_CALLS_STRICT
                                            : SP_CHAT_CALLS_TAGGED,
        .function = request->function,
        .one_call = request->one_call,
        .end_ids = r->stop_ids,
        .n_end_ids = sp_prompt_stop_ids(r->stop_ids, loaded->package, &request->settings),
        .ignore_eos = loaded->ignore_eos || request->ignore_eos,
        .max_tokens = loaded->info.max_positions,
    };
    if (request->template || loaded->conversation.chat_info.can_limit_reasoning)
        sp_prompt_limit_reasoning(to, &request->settings);
    if (request->chat_ids) {
        to->ids = request->prompts->ids.at;
        to->n_ids = request->prompts->ids.n;
    }
    if ((st = print(&to->messages, r, request->messages, err))) return st;
    if ((st = print(&to->tools, r, request->tools, err))) return st;
    if ((st = print(&to->kwargs, r, request->kwargs, err))) return st;
    if ((st = print(&to->prompt, r, request->prompt, err))) return st;
    return print(&to->suffix, r, request->suffix, err);
}

/* *out = the chat of the request's own template or of the file's. */
static enum sp_status find_chat(const struct sp_chat **out, struct sp_serve_prompt *p,
                                const struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_loaded_model *loaded = request->model->loaded;
    const struct sp_chat_options options = {.size = sizeof options,
                                            .chat_template = request->template};
    enum sp_status st;

    *out = loaded->conversation.chat;
    if (request->template == NULL) return SP_OK;
    if ((st = sp_chat_open(&p->chat, loaded->package, &options, err))) return st;
    *out = p->chat;
    return SP_OK;
}

/* Renders the prompt, or counts its tokens where n_tokens is not NULL. Each rendering may take the
 * memory that a template is allowed, so that they are made one at a time. A second lock keeps those
 * that may take long from delaying the others. */
static enum sp_status render(struct sp_serve_prompt *p, size_t *n_tokens,
                             const struct sp_serve *serve, const struct sp_serve_request *request,
                             struct sp_err *err)
{
    static const size_t many = (size_t)256 << 10;
    size_t size = sp_json_tree_bytes(request->messages) + sp_json_tree_bytes(request->prompt);
    pthread_mutex_t *lock = &serve->template_locks[request->template || size > many];
    struct sp_chat_prompt_info info = {.size = sizeof info};
    struct chat_request r = {.n_texts = 0};
    const struct sp_chat *chat;
    enum sp_status st;

    pthread_mutex_lock(lock);
    st = find_chat(&chat, p, request, err);
    if (!st) st = fill(&r, request, request->model->loaded, err);
    if (!st) {
        st = n_tokens ? sp_chat_count_tokens(chat, &r.request, n_tokens, err)
                      : sp_chat_prompt_open(&p->rendered, chat, &r.request, err);
    }
    release(&r);
    pthread_mutex_unlock(lock);
    if (st || n_tokens) return st;
    sp_chat_prompt_describe(p->rendered, &info);
    p->ids = info.ids;
    p->n_ids = info.n_ids;
    return SP_OK;
}

/* ---- all prompts ---- */

static enum sp_status read_raw(struct sp_serve_prompt *p, const struct sp_serve_raw_prompt *from,
                               const struct sp_loaded_model *loaded, struct sp_err *err)
{
    const struct sp_tokenizer *tokenizer = sp_package_tokenizer(loaded->package);
    enum sp_status st;

    if (from->text != NULL) {
        size_t n = tokenizer ? sp_tokenizer_min_tokens(tokenizer, from->size) : 0;
        if (n > loaded->info.max_positions) return sp_loaded_model_check_context(loaded, n, err);
        st = sp_prompt_raw(&p->raw, loaded->package, from->text, from->size, true, err);
        if (st) return st;
    } else {
        if ((st = sp_new(&p->raw.at, from->ids.n, sizeof *p->raw.at, err))) return st;
        memcpy(p->raw.at, from->ids.at, from->ids.n * sizeof *p->raw.at);
        p->raw.n = from->ids.n;
    }
    p->ids = p->raw.at;
    p->n_ids = p->raw.n;
    return p->n_ids ? SP_OK : sp_fail(err, SP_E_INPUT, "the prompt is empty");
}

static struct sp_infill_text text_of(const struct sp_json *value)
{
    struct sp_infill_text text = {NULL, 0};

    text.at = sp_json_to_string(value, &text.size);
    return text;
}

/* The tokens that a cut prompt may have: the answer needs the rest, or an eighth of the context. */
static size_t most_tokens(const struct sp_serve_request *request)
{
    size_t context = request->model->n_context, answer = context / 8;

    if (request->settings.n_predict > 0 && (size_t)request->settings.n_predict < context / 2)
        answer = (size_t)request->settings.n_predict;
    return context - answer;
}

/* Makes the prompt for a gap by the tokenizer's own tokens. */
static enum sp_status read_gap(struct sp_serve_prompt *p, const struct sp_serve_request *request,
                               size_t which, struct sp_err *err)
{
    const struct sp_loaded_model *loaded = request->model->loaded;
    const struct sp_serve_raw_prompt *before = &request->prompts[which];
    struct sp_infill_gap gap = {
        .prefix = {before->text, before->size},
        .suffix = text_of(request->suffix),
        .begun = text_of(request->begun),
        .n_extra = sp_json_len(request->extra),
        .n_most = request->cut_prompt ? most_tokens(request) : 0,
    };
    struct sp_infill_extra *extra = NULL;
    enum sp_status st;

    if ((st = sp_new(&extra, gap.n_extra, sizeof *extra, err))) return st;
    for (size_t i = 0; i < gap.n_extra; i++) {
        const struct sp_json *at = sp_json_at(request->extra, i);
        extra[i].name = text_of(sp_json_get(at, "filename"));
        extra[i].text = text_of(sp_json_get(at, "text"));
    }
    gap.extra = extra;
    st = sp_infill_prompt(&p->raw, &loaded->infill, sp_package_tokenizer(loaded->package), &gap,
                          err);
    free(extra);
    p->ids = p->raw.at;
    p->n_ids = p->raw.n;
    return st;
}

enum sp_status sp_serve_prompt_read(struct sp_serve_prompt *out, const struct sp_serve *serve,
                                    const struct sp_serve_request *request, size_t which,
                                    struct sp_err *err)
{
    const struct sp_loaded_model *loaded = request->model->loaded;
    struct sp_serve_prompt p = {.n_ids = 0};
    enum sp_status st;

    if (request->messages || request->prompt || request->chat_ids)
        st = render(&p, NULL, serve, request, err);
    else if (request->suffix)
        st = read_gap(&p, request, which, err);
    else
        st = read_raw(&p, &request->prompts[which], loaded, err);
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
    struct sp_serve_prompt p = {.n_ids = 0};
    enum sp_status st = render(&p, n_tokens, serve, request, err);

    sp_serve_prompt_release(&p);
    return st;
}
