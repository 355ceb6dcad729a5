/* The prompt of a conversation: its ids, and what its answer is constrained to and read by. */
#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "runtime/chat/chat.h"
#include "runtime/chat/chat_grammar.h"
#include "runtime/template/template.h"

#include <stdlib.h>
#include <string.h>

/* ---- the grammar ---- */

/* Returns true if tool calls are constrained to the tools' schemas. If calls cannot be recognized,
 * an answer has at most one. */
static bool constrains_calls(const struct sp_chat *chat, const struct sp_chat_request *request)
{
    if (request->tools == NULL) return false;
    return request->calls >= SP_CHAT_CALLS_STRICT ||
           (request->one_call && sp_chat_format_can_constrain_calls(&chat->format));
}

/* Returns true if those tool calls are constrained that begin with a tag. */
static bool constrains_tagged_calls(const struct sp_chat *chat,
                                    const struct sp_chat_request *request)
{
    const struct sp_tool_call_format *calls = &chat->format.calls;

    return request->calls != SP_CHAT_CALLS_FREE && request->tools && !request->response_format &&
           sp_chat_format_can_constrain_calls(&chat->format) && (*calls->all_open || *calls->open);
}

/* The ids that end an answer: those of the package, then those of the prompt. *ends is owned. */
static enum sp_status list_ends(uint32_t **ends, size_t *n, const struct sp_chat_prompt *p,
                                struct sp_err *err)
{
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    enum sp_status st;

    if (p->chat->package) sp_package_describe(p->chat->package, &info);
    if ((st = sp_new(ends, info.n_eos + p->n_end_ids, sizeof **ends, err))) return st;
    if (info.n_eos) memcpy(*ends, info.eos, info.n_eos * sizeof **ends);
    if (p->n_end_ids) memcpy(*ends + info.n_eos, p->end_ids, p->n_end_ids * sizeof **ends);
    *n = info.n_eos + p->n_end_ids;
    return SP_OK;
}

/* The response format and constrained calls follow the reasoning. A response format without
 * reasoning or calls is the grammar itself. */
static enum sp_status make_grammar(struct sp_chat_prompt *p, const struct sp_chat_request *request,
                                   const struct sp_json *tools, struct sp_err *err)
{
    const struct sp_chat *chat = p->chat;
    struct sp_chat_grammar_options options = {
        .format = &chat->format,
        .tokenizer = chat->tokenizer,
        .thinking = sp_reasoning_mode_of(&chat->format, p->text, p->size,
                                         !request->is_think_set || request->think),
        .content = request->response_format,
        .tools = p->constrained_calls ? tools : NULL,
        .function = request->function,
        .must_call = request->calls == SP_CHAT_CALLS_REQUIRED,
        .one_call = request->one_call,
        .tagged_only = p->tagged_calls_only,
    };
    struct sp_err own = {0};
    uint32_t *ends = NULL;
    enum sp_status st;

    p->grammar = request->response_format;
    if (options.tools == NULL &&
        (request->response_format == NULL || options.thinking == SP_REASONING_NONE))
        return SP_OK;
    if ((st = list_ends(&ends, &options.n_ends, p, err))) return st;
    options.ends = ends;
    st = sp_chat_grammar(&p->own_grammar, &options, &own);
    if (st == SP_E_UNSUPPORTED && options.tools &&
        sp_chat_format_can_constrain_calls(&chat->format)) {
        size_t n_changes = strlen(p->changes);
        own = (struct sp_err){0};
        options.changes = p->changes;
        options.changes_size = sizeof p->changes;
        st = sp_chat_grammar(&p->own_grammar, &options, &own);
        if (st) p->changes[n_changes] = '\0';
    }
    if (st && options.tools) sp_context(&own, options.must_call ? "tool_choice" : "tools");
    if (st) st = sp_fail_as(err, &own);
    p->grammar = p->own_grammar;
    free(ends);
    return st;
}

/* ---- the reading of the answer ---- */

static enum sp_status list_specials(struct sp_chat_prompt *p, bool calls, struct sp_err *err)
{
    enum sp_status st;

    p->specials = &p->chat->specials[calls];
    if ((st = sp_new(&p->special_ids, p->specials->n, sizeof *p->special_ids, err))) return st;
    p->n_special_ids = p->specials->n;
    for (size_t i = 0; i < p->n_special_ids; i++)
        p->special_ids[i] = p->specials->at[i].id;
    return SP_OK;
}

/* *tools is taken over where calls are read. Content that has a response format is searched for
 * calls only where these are constrained too. */
static enum sp_status plan_reading(struct sp_chat_prompt *p, const struct sp_chat_request *request,
                                   struct sp_json **tools, struct sp_err *err)
{
    const struct sp_chat *chat = p->chat;
    bool calls;
    enum sp_status st;

    p->in_reasoning = sp_chat_format_opens_reasoning(&chat->format, p->text, p->size);
    p->constrained_calls = constrains_calls(chat, request);
    if (request->prefix_size > 0 && p->in_reasoning) {
        return sp_fail(
            err, SP_E_UNSUPPORTED,
            "the last message is a partial answer, which a model that always reasons first "
            "cannot continue");
    }
    if (!p->constrained_calls && constrains_tagged_calls(chat, request)) {
        p->constrained_calls = p->tagged_calls_only = true;
        st = make_grammar(p, request, *tools, NULL);
        if (st == SP_E_NOMEM) return sp_fail(err, st, "out of memory for the schemas of tools");
        if (st) p->constrained_calls = p->tagged_calls_only = false;
    }
    if (p->own_grammar == NULL && (st = make_grammar(p, request, *tools, err))) return st;
    p->content_only = request->response_format && p->own_grammar == NULL;
    if (p->content_only) return SP_OK;
    calls = request->tools && (request->response_format == NULL || p->constrained_calls);
    if (calls) {
        p->tools = *tools;
        *tools = NULL;
    }
    return list_specials(p, calls, err);
}

static enum sp_status limit_reasoning(struct sp_chat_prompt *p,
                                      const struct sp_chat_request *request, struct sp_err *err)
{
    const struct sp_chat_format *format = &p->chat->format;

    if (!request->limit_reasoning) return SP_OK;
    if (!sp_chat_can_limit_reasoning(p->chat)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "the reasoning of this model cannot be limited: %s",
                       format->calls.style == SP_TOOL_CALL_HARMONY
                           ? "it has no single closing tag"
                           : "its chat template does not show how reasoning ends");
    }
    p->limits_reasoning = !p->content_only;
    p->reasoning_limit = (struct sp_reasoning_limit){
        .size = sizeof p->reasoning_limit,
        .max_tokens = request->max_reasoning_tokens,
        .open = format->reasoning_open,
        .close = format->reasoning_close,
        .is_open = p->in_reasoning,
    };
    return SP_OK;
}

/* ---- the whole ---- */

static enum sp_status list_end_ids(struct sp_chat_prompt *p, const struct sp_chat_request *request,
                                   struct sp_err *err)
{
    bool own = p->chat->has_end_id && !request->ignore_eos;
    enum sp_status st = sp_new(&p->end_ids, request->n_end_ids + own, sizeof *p->end_ids, err);

    if (st) return st;
    if (own) p->end_ids[p->n_end_ids++] = p->chat->end_id;
    for (size_t i = 0; i < request->n_end_ids; i++)
        p->end_ids[p->n_end_ids++] = request->end_ids[i];
    return SP_OK;
}

static enum sp_status append_prefix(struct sp_chat_prompt *p, const struct sp_chat_request *request,
                                    struct sp_err *err)
{
    struct sp_strbuf text = {0};
    enum sp_status st;

    if (request->prefix_size == 0) return SP_OK;
    if ((st = sp_strbuf_append(&text, p->text, p->size, err)) ||
        (st = sp_strbuf_append(&text, request->prefix, request->prefix_size, err)) ||
        (st = sp_strbuf_append(&text, "", 1, err))) {
        sp_strbuf_release(&text);
        return st;
    }
    free(p->text);
    p->text = text.at;
    p->size = text.len - 1;
    return SP_OK;
}

/* A prompt that came as ids: nothing is known of its text. */
static enum sp_status take_ids(struct sp_chat_prompt *p, const struct sp_chat_request *request,
                               struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_copy_text(&p->text, "", 0, err))) return st;
    if ((st = sp_new(&p->ids, request->n_ids, sizeof *p->ids, err))) return st;
    memcpy(p->ids, request->ids, request->n_ids * sizeof *p->ids);
    p->n_ids = request->n_ids;
    p->grammar = request->response_format;
    p->content_only = request->response_format != NULL;
    return list_specials(p, false, err);
}

/* Removes what the post-processor put behind the prompt, and one of two beginnings: the template
 * may have written its own. */
static void keep_one_beginning(struct sp_chat_prompt *p, const struct sp_tokenizer *tokenizer)
{
    size_t lead = sp_tokenizer_lead(tokenizer, p->ids, p->n_ids);

    p->n_ids -= sp_tokenizer_n_tail(tokenizer);
    if (sp_tokenizer_lead(tokenizer, p->ids + lead, p->n_ids - lead) == 0) return;
    p->n_ids -= lead;
    memmove(p->ids, p->ids + lead, p->n_ids * sizeof *p->ids);
}

/* A Jinja template writes every special token itself, so the tokenizer adds none. A Go template
 * leaves the beginning of the text to the tokenizer, as in ollama. */
static enum sp_status encode(struct sp_chat_prompt *p, size_t max_tokens, struct sp_err *err)
{
    const struct sp_chat *chat = p->chat;
    size_t n = chat->tokenizer ? sp_tokenizer_min_tokens(chat->tokenizer, p->size) : 0;
    bool go = sp_template_language(chat->template) == SP_TEMPLATE_GO;
    unsigned flags = SP_ENCODE_PARSE_SPECIAL | (go ? SP_ENCODE_ADD_SPECIAL : 0);
    enum sp_status st;

    if (max_tokens > 0 && n > max_tokens) {
        return sp_fail(err, SP_E_USAGE, "the prompt has at least %zu tokens, expected at most %zu",
                       n, max_tokens);
    }
    st = sp_tokenizer_encode(chat->tokenizer, p->text, p->size, flags, &p->ids, &p->n_ids, err);
    if (st) return st;
    if (go) keep_one_beginning(p, chat->tokenizer);
    if (p->size && p->n_ids) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "the prompt is empty");
}

static enum sp_status render(struct sp_chat_prompt *p, struct sp_template_request *request,
                             struct sp_err *err)
{
    const struct sp_chat *chat = p->chat;
    unsigned changed = 0;
    enum sp_status st;

    st = sp_chat_normalize(&changed, request, chat->refused, &chat->format.calls, err);
    if (st) return st;
    (void)sp_chat_describe_changes(p->changes, changed);
    st = sp_template_render(&p->text, &p->size, chat->template, &request->input, err);
    if (st) sp_context(err, "the chat template");
    return st;
}

/* `for_answer`: an answer is constrained and read by what is set here; else the ids alone count. */
static enum sp_status read_conversation(struct sp_chat_prompt *p,
                                        const struct sp_chat_request *request, bool for_answer,
                                        struct sp_err *err)
{
    struct sp_template_request parsed = {0};
    enum sp_status st;

    if ((st = sp_template_request_read(&parsed, request, SP_JSON_STRICT, err))) goto done;
    if ((st = render(p, &parsed, err))) goto done;
    /* Text around a gap is not a conversation: the text that fills the gap is content. */
    p->content_only = parsed.messages == NULL;
    p->grammar = request->response_format;
    if (for_answer && !p->content_only) st = plan_reading(p, request, &parsed.tools, err);
    if (!st) st = append_prefix(p, request, err);
    if (!st) st = encode(p, request->max_tokens, err);
done:
    sp_template_request_release(&parsed);
    return st;
}

enum sp_status sp_chat_prompt_open(struct sp_chat_prompt **out, const struct sp_chat *chat,
                                   const struct sp_chat_request *request, struct sp_err *err)
{
    struct sp_chat_request r = {0};
    struct sp_chat_prompt *p = NULL;
    enum sp_status st;

    if ((st = sp_copy_in(&r, sizeof r, request, "sp_chat_request", err))) return st;
    if ((st = sp_new(&p, 1, sizeof *p, err))) return st;
    p->chat = chat;
    if ((st = list_end_ids(p, &r, err))) goto done;
    if ((st = r.ids ? take_ids(p, &r, err) : read_conversation(p, &r, true, err))) goto done;
    if ((st = limit_reasoning(p, &r, err))) goto done;
    *out = p;
    p = NULL;
done:
    sp_chat_prompt_close(p);
    return st;
}

void sp_chat_prompt_close(struct sp_chat_prompt *p)
{
    if (p == NULL) return;
    sp_grammar_close(p->own_grammar);
    sp_json_free(p->tools);
    free(p->text);
    free(p->ids);
    free(p->end_ids);
    free(p->special_ids);
    free(p);
}

void sp_chat_prompt_describe(const struct sp_chat_prompt *p, struct sp_chat_prompt_info *info)
{
    const struct sp_chat_prompt_info all = {
        .size = sizeof all,
        .text = p->text,
        .text_size = p->size,
        .ids = p->ids,
        .n_ids = p->n_ids,
        .content_only = p->content_only,
        .changes = p->changes,
    };

    sp_copy_out(info, &all);
}

void sp_chat_prompt_apply(const struct sp_chat_prompt *p, struct sp_request *request)
{
    struct sp_request r = {0};

    if (sp_copy_in(&r, sizeof r, request, "sp_request", NULL)) return;
    r.size = sizeof r;
    r.prompt = p->ids;
    r.n_prompt = p->n_ids;
    r.end_ids = p->end_ids;
    r.n_end_ids = p->n_end_ids;
    r.grammar = p->grammar;
    r.special_ids = p->special_ids;
    r.n_special_ids = p->n_special_ids;
    r.reasoning_limit = p->limits_reasoning ? &p->reasoning_limit : NULL;
    sp_copy_out(request, &r);
}

enum sp_status sp_chat_count_tokens(const struct sp_chat *chat,
                                    const struct sp_chat_request *request, size_t *n_tokens,
                                    struct sp_err *err)
{
    struct sp_chat_request r = {0};
    struct sp_chat_prompt p = {.chat = chat};
    enum sp_status st;

    if ((st = sp_copy_in(&r, sizeof r, request, "sp_chat_request", err))) return st;
    if ((st = read_conversation(&p, &r, false, err)) == SP_OK) *n_tokens = p.n_ids;
    free(p.text);
    free(p.ids);
    return st;
}
