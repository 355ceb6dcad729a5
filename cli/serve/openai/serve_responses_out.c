/* Writes a response and the items of its output as JSON. */
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/jobs/serve.h"

#include <string.h>

static const char *type_of(const struct sp_chat_segment *part)
{
    switch (part->kind) {
    case SP_CHAT_TOOL_CALL:
        return "function_call";
    case SP_CHAT_REASONING:
        return "reasoning";
    default:
        return "message";
    }
}

const char *sp_serve_responses_id(char id[SP_RESPONSES_ID_SIZE], const struct sp_serve_response *r,
                                  size_t part)
{
    const char *type = type_of(&r->message->segments[part]);
    char base[SP_SERVE_ID_SIZE];

    sp_serve_id(base, *type == 'f' ? "fc_" : *type == 'r' ? "rs_" : "msg_", r);
    snprintf(id, SP_RESPONSES_ID_SIZE, "%s_%zu", base, part);
    return id;
}

bool sp_serve_responses_wants_summary(const struct sp_serve_response *r)
{
    return sp_json_get(sp_json_get(r->request->body, "reasoning"), "summary") != NULL;
}

const char *sp_serve_responses_text(size_t *size, const struct sp_serve_response *r, size_t part)
{
    const struct sp_chat_segment *p = &r->message->segments[part];

    if (p->kind == SP_CHAT_TOOL_CALL) {
        *size = r->message->calls[p->at].size;
        return r->message->calls[p->at].arguments;
    }
    *size = p->size;
    return (p->kind == SP_CHAT_REASONING ? r->message->reasoning.at : r->message->content.at) +
           p->at;
}

void sp_serve_responses_write_logprobs(struct sp_serve_response *r, size_t part)
{
    size_t first = 0, n = r->message->segments[part].n_tokens;

    for (size_t i = 0; i < part; i++)
        first += r->message->segments[i].n_tokens;
    if (first > r->n_all_tokens)
        first = r->n_all_tokens; /* without log-probabilities there are no tokens */
    if (n > r->n_all_tokens - first) n = r->n_all_tokens - first;
    sp_serve_logprobs_write(r, "logprobs", n ? r->all_tokens + first : NULL, n);
}

void sp_serve_responses_write_content(struct sp_serve_response *r, const char *key, size_t part,
                                      bool partial)
{
    struct sp_json_out *out = &r->out;
    size_t size;
    const char *text = sp_serve_responses_text(&size, r, part);
    bool reasoning = r->message->segments[part].kind == SP_CHAT_REASONING;

    sp_json_out_begin(out, key, '{');
    if (reasoning) {
        sp_json_out_text(out, "type",
                         sp_serve_responses_wants_summary(r) ? "summary_text" : "reasoning_text");
    } else {
        sp_json_out_put(out, "type:'output_text', annotations:[]");
    }
    sp_json_out_string(out, "text", text, partial ? 0 : size);
    if (reasoning || partial) {
        sp_json_out_end(out, '}');
        return;
    }
    sp_serve_responses_write_logprobs(r, part);
    sp_json_out_end(out, '}');
}

/* Writes a member of an item: an array of one part or of none. */
static void write_contents(struct sp_serve_response *r, const char *key, size_t part, bool none)
{
    sp_json_out_begin(&r->out, key, '[');
    if (!none) sp_serve_responses_write_content(r, NULL, part, false);
    sp_json_out_end(&r->out, ']');
}

static void write_tagged_reasoning(struct sp_serve_response *r, size_t part)
{
    static const char tag[] = SP_SERVE_REASONING_TAG;
    struct sp_strbuf marked = {0};
    size_t size;
    const char *text = sp_serve_responses_text(&size, r, part);

    if (!sp_strbuf_append(&marked, tag, sizeof tag - 1, NULL) &&
        !sp_strbuf_append(&marked, text, size, NULL))
        sp_json_out_string(&r->out, "encrypted_content", marked.at, marked.len);
    sp_strbuf_release(&marked);
}

void sp_serve_responses_write_item(struct sp_serve_response *r, const char *key, size_t part,
                                   const char *status, bool partial)
{
    const struct sp_chat_segment *p = &r->message->segments[part];
    bool summary = sp_serve_responses_wants_summary(r);
    struct sp_json_out *out = &r->out;
    char id[SP_RESPONSES_ID_SIZE];

    sp_json_out_begin(out, key, '{');
    sp_json_out_put(out, "id:%s, type:%s, status:%s", sp_serve_responses_id(id, r, part),
                    type_of(p), status);
    if (p->kind == SP_CHAT_TOOL_CALL) {
        const struct sp_chat_call *call = &r->message->calls[p->at];
        sp_json_out_put(out, "call_id:%s, name:%s", call->id, call->name);
        sp_json_out_string(out, "arguments", call->arguments, partial ? 0 : call->size);
    } else if (p->kind == SP_CHAT_REASONING) {
        write_contents(r, "summary", part, partial || !summary);
        write_contents(r, "content", part, partial || summary);
        if (!partial &&
            sp_serve_responses_includes(r->request->body, "reasoning.encrypted_content"))
            write_tagged_reasoning(r, part);
    } else {
        sp_json_out_text(out, "role", "assistant");
        write_contents(r, "content", part, partial);
    }
    sp_json_out_end(out, '}');
}

/* ---- the response ---- */

static void write_usage(struct sp_serve_response *r, const struct sp_result *result)
{
    struct sp_json_out *out = &r->out;

    sp_json_out_put(out,
                    "usage:{input_tokens:%zu, input_tokens_details:{cached_tokens:%zu, "
                    "cache_write_tokens:%zu}, output_tokens:%zu, "
                    "output_tokens_details:{reasoning_tokens:%zu}, total_tokens:%zu}",
                    result->n_prompt, result->n_reused, result->n_prompt - result->n_reused,
                    result->n_ids, r->message->n_reasoning_tokens,
                    result->n_prompt + result->n_ids);
}

/* Writes a member as it is in the request, or `else_text` if it is absent. */
static void echo(struct sp_serve_response *r, const char *key, const char *else_text)
{
    const struct sp_json *value = sp_json_get(r->request->body, key);

    if (value)
        sp_json_out_value(&r->out, key, value);
    else
        sp_json_out_text(&r->out, key, else_text);
}

/* Writes a member as it is in the request, or `brackets` if it is absent. */
static void echo_all(struct sp_serve_response *r, const char *key, const char *brackets)
{
    const struct sp_json *value = sp_json_get(r->request->body, key);

    if (value)
        sp_json_out_value(&r->out, key, value);
    else
        sp_json_out_written(&r->out, key, brackets, 2);
}

static void write_format(struct sp_serve_response *r)
{
    const struct sp_json *format = sp_json_get(sp_json_get(r->request->body, "text"), "format");
    struct sp_json_out *out = &r->out;

    sp_json_out_begin(out, "text", '{');
    if (format)
        sp_json_out_value(out, "format", format);
    else
        sp_json_out_put(out, "format:{type:'text'}");
    sp_json_out_put(out, "verbosity:'medium'}");
}

/* Writes the settings of the request, with the values in effect for those that it left out. */
static void write_request(struct sp_serve_response *r)
{
    const struct sp_settings *settings = &r->request->settings;
    const struct sp_json *reasoning = sp_json_get(r->request->body, "reasoning");
    struct sp_json_out *out = &r->out;
    bool parallel = true;

    (void)!sp_json_to_bool(sp_json_get(r->request->body, "parallel_tool_calls"), &parallel);
    echo(r, "instructions", NULL);
    echo(r, "max_output_tokens", NULL);
    echo(r, "max_tool_calls", NULL);
    echo_all(r, "metadata", "{}");
    sp_json_out_put(out, "parallel_tool_calls:%d, previous_response_id:null", parallel);
    echo(r, "prompt_cache_key", NULL);
    sp_json_out_put(out, "reasoning:{effort:%s, summary:%s}",
                    sp_json_to_string(sp_json_get(reasoning, "effort"), NULL),
                    sp_json_to_string(sp_json_get(reasoning, "summary"), NULL));
    echo(r, "safety_identifier", NULL);
    sp_json_out_put(out, "service_tier:'default', store:false");
    sp_settings_sampling_to_json(out, settings, "temperature");
    write_format(r);
    echo(r, "tool_choice", "auto");
    echo_all(r, "tools", "[]");
    sp_json_out_u64(out, "top_logprobs", r->request->n_top);
    sp_settings_sampling_to_json(out, settings, "top_p");
    sp_json_out_text(out, "truncation", "disabled");
    echo(r, "user", NULL);
}

static void write_end(struct sp_json_out *out, const char *status)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (strcmp(status, "completed") == 0)
        sp_json_out_u64(out, "completed_at", (uint64_t)now.tv_sec);
    else
        sp_json_out_text(out, "completed_at", NULL);
    if (strcmp(status, "incomplete") == 0)
        sp_json_out_put(out, "incomplete_details:{reason:'max_output_tokens'}");
    else
        sp_json_out_text(out, "incomplete_details", NULL);
}

void sp_serve_responses_write(struct sp_serve_response *r, const char *key,
                              const struct sp_result *result, const char *sentence)
{
    bool whole = result != NULL && !sp_serve_is_truncated(result);
    const char *status = whole ? "completed" : result ? "incomplete" : "in_progress";
    struct sp_json_out *out = &r->out;
    char id[SP_SERVE_ID_SIZE];

    if (sentence != NULL) status = "failed";
    sp_json_out_begin(out, key, '{');
    sp_json_out_put(out,
                    "id:%s, object:'response', created_at:%zu, model:%s, status:%s, "
                    "background:false",
                    sp_serve_id(id, "resp_", r), (size_t)r->began.tv_sec,
                    sp_serve_model_name(r->request), status);
    if (sentence)
        sp_json_out_put(out, "error:{code:'server_error', message:%s}", sentence);
    else
        sp_json_out_text(out, "error", NULL);
    write_end(out, status);
    sp_json_out_begin(out, "output", '[');
    for (size_t i = 0; i < r->message->n_segments; i++) {
        bool cut = !whole && i + 1 == r->message->n_segments; /* the last item of a cut answer */
        sp_serve_responses_write_item(r, NULL, i, cut ? "incomplete" : "completed", false);
    }
    sp_json_out_end(out, ']');
    write_request(r);
    if (result != NULL)
        write_usage(r, result);
    else
        sp_json_out_text(out, "usage", NULL);
    sp_json_out_end(out, '}');
}
