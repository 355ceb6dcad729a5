/* OpenAI's Responses API: its responses, the items of their output, and the events of streams. */
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/jobs/serve.h"

#include <string.h>

enum { ID_SIZE = SP_SERVE_ID_SIZE + 24 };

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

/* Writes the id of a part of the message, which is an item of the output. Returns `id`. */
static const char *id_of(char id[ID_SIZE], const struct sp_serve_response *r, size_t part)
{
    const char *type = type_of(&r->message->segments[part]);
    char base[SP_SERVE_ID_SIZE];

    sp_serve_id(base, *type == 'f' ? "fc_" : *type == 'r' ? "rs_" : "msg_", r);
    snprintf(id, ID_SIZE, "%s_%zu", base, part);
    return id;
}

/* True if the request asks for a summary of the reasoning, as which the reasoning itself serves. */
static bool wants_summary(const struct sp_serve_response *r)
{
    return sp_json_get(sp_json_get(r->request->body, "reasoning"), "summary") != NULL;
}

/* Returns the text of a part or, for a call, its arguments. Borrowed from the message. */
static const char *text_of(size_t *size, const struct sp_serve_response *r, size_t part)
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

/* Writes the member "logprobs" with the tokens of a part. */
static void write_logprobs(struct sp_serve_response *r, size_t part)
{
    size_t first = 0, n = r->message->segments[part].n_tokens;

    for (size_t i = 0; i < part; i++)
        first += r->message->segments[i].n_tokens;
    if (first > r->n_all_tokens)
        first = r->n_all_tokens; /* without log-probabilities there are no tokens */
    if (n > r->n_all_tokens - first) n = r->n_all_tokens - first;
    sp_serve_logprobs_write(r, "logprobs", n ? r->all_tokens + first : NULL, n);
}

/* Writes the only part of an item's content or summary; partial: without its text. */
static void write_content(struct sp_serve_response *r, const char *key, size_t part, bool partial)
{
    struct sp_json_out *out = &r->out;
    size_t size;
    const char *text = text_of(&size, r, part);
    bool reasoning = r->message->segments[part].kind == SP_CHAT_REASONING;

    sp_json_out_begin(out, key, '{');
    if (reasoning)
        sp_json_out_text(out, "type", wants_summary(r) ? "summary_text" : "reasoning_text");
    else
        sp_json_out_put(out, "type:'output_text', annotations:[]");
    sp_json_out_string(out, "text", text, partial ? 0 : size);
    if (!reasoning && !partial) write_logprobs(r, part);
    sp_json_out_end(out, '}');
}

/* Writes a member of an item: an array of one part or of none. */
static void write_contents(struct sp_serve_response *r, const char *key, size_t part, bool none)
{
    sp_json_out_begin(&r->out, key, '[');
    if (!none) write_content(r, NULL, part, false);
    sp_json_out_end(&r->out, ']');
}

static void write_tagged_reasoning(struct sp_serve_response *r, size_t part)
{
    static const char tag[] = SP_SERVE_REASONING_TAG;
    struct sp_strbuf marked = {0};
    size_t size;
    const char *text = text_of(&size, r, part);

    if (!sp_strbuf_append(&marked, tag, sizeof tag - 1, NULL) &&
        !sp_strbuf_append(&marked, text, size, NULL))
        sp_json_out_string(&r->out, "encrypted_content", marked.at, marked.len);
    sp_strbuf_release(&marked);
}

/* Writes an item; partial: without its content. */
static void write_item(struct sp_serve_response *r, const char *key, size_t part,
                       const char *status, bool partial)
{
    const struct sp_chat_segment *p = &r->message->segments[part];
    bool summary = wants_summary(r);
    struct sp_json_out *out = &r->out;
    char id[ID_SIZE];

    sp_json_out_begin(out, key, '{');
    sp_json_out_put(out, "id:%s, type:%s, status:%s", id_of(id, r, part), type_of(p), status);
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

static void write_end(struct sp_json_out *out, const char *status)
{
    if (strcmp(status, "completed") == 0)
        sp_json_out_u64(out, "completed_at", (uint64_t)time(NULL));
    else
        sp_json_out_text(out, "completed_at", NULL);
    if (strcmp(status, "incomplete") == 0)
        sp_json_out_put(out, "incomplete_details:{reason:'max_output_tokens'}");
    else
        sp_json_out_text(out, "incomplete_details", NULL);
}

/* Writes the response object; result NULL: it is in progress or, with a sentence, has failed. */
static void write_response(struct sp_serve_response *r, const char *key,
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
                    "background:false, service_tier:'default', store:false",
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
        write_item(r, NULL, i, cut ? "incomplete" : "completed", false);
    }
    sp_json_out_end(out, ']');
    sp_serve_write_fields(r, false);
    if (result != NULL)
        write_usage(r, result);
    else
        sp_json_out_text(out, "usage", NULL);
    sp_json_out_end(out, '}');
}

/* ---- the events of a stream ---- */

/* Begins an event, whose members the caller writes; sp_serve_end_event ends it. */
static struct sp_json_out *begin_event(struct sp_serve_response *r, const char *type)
{
    sp_serve_begin_event(r, type);
    sp_json_out_u64(&r->out, "sequence_number", r->n_events++);
    return &r->out;
}

/* Writes an event that contains the whole response. */
static void write_response_event(struct sp_serve_response *r, const char *type,
                                 const struct sp_result *result, const char *sentence)
{
    begin_event(r, type);
    write_response(r, "response", result, sentence);
    sp_serve_end_event(r);
}

/* Writes an event that contains an item. */
static void write_item_event(struct sp_serve_response *r, const char *type, size_t part,
                             const char *status, bool partial)
{
    sp_json_out_u64(begin_event(r, type), "output_index", part);
    write_item(r, "item", part, status, partial);
    sp_serve_end_event(r);
}

/* The names of a part in events: of its text, of the member that holds it in the `done` event, and
 * of its only content and the index of that; NULL for calls, which have no contents. */
struct names {
    const char *stem, *text, *content, *index;
};

static const struct names *names_of(const struct sp_serve_response *r, size_t part)
{
    static const struct names call = {"function_call_arguments", "arguments", NULL, NULL},
                              text = {"output_text", "text", "content_part", "content_index"},
                              reasoning = {"reasoning_text", "text", "content_part",
                                           "content_index"},
                              summary = {"reasoning_summary_text", "text", "reasoning_summary_part",
                                         "summary_index"};

    switch (r->message->segments[part].kind) {
    case SP_CHAT_TOOL_CALL:
        return &call;
    case SP_CHAT_REASONING:
        return wants_summary(r) ? &summary : &reasoning;
    default:
        return &text;
    }
}

/* Begins an event of the contents of an item: `what` happens to what `stem` names. */
static struct sp_json_out *begin_part_event(struct sp_serve_response *r, const char *stem,
                                            const char *what, size_t part)
{
    const char *index = names_of(r, part)->index;
    char id[ID_SIZE], type[64];
    struct sp_json_out *out;

    snprintf(type, sizeof type, "response.%s.%s", stem, what);
    out = begin_event(r, type);
    sp_json_out_put(out, "item_id:%s, output_index:%zu", id_of(id, r, part), part);
    if (index != NULL) sp_json_out_u64(out, index, 0);
    return out;
}

/* Writes an event that contains the only content of an item, which calls lack. */
static void write_content_event(struct sp_serve_response *r, const char *what, size_t part,
                                bool partial)
{
    const char *stem = names_of(r, part)->content;

    if (stem == NULL) return;
    begin_part_event(r, stem, what, part);
    write_content(r, "part", part, partial);
    sp_serve_end_event(r);
}

static void write_delta_event(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    size_t part = r->message->n_segments - 1;

    sp_json_out_string(begin_part_event(r, names_of(r, part)->stem, "delta", part), "delta",
                       p->text, p->size);
    if (p->kind == SP_CHAT_CONTENT) sp_serve_logprobs_write(r, "logprobs", r->tokens, r->n_tokens);
    sp_serve_end_event(r);
}

/* Ends the last part that was started. */
static void end_part(struct sp_serve_response *r, const char *status)
{
    size_t part = r->n_started - 1, size;
    const struct names *names;
    const char *text;

    if (!r->is_open) return;
    names = names_of(r, part);
    text = text_of(&size, r, part);
    sp_json_out_string(begin_part_event(r, names->stem, "done", part), names->text, text, size);
    if (r->message->segments[part].kind == SP_CHAT_CONTENT) write_logprobs(r, part);
    if (r->message->segments[part].kind == SP_CHAT_TOOL_CALL)
        sp_json_out_text(&r->out, "name", r->message->calls[r->message->segments[part].at].name);
    sp_serve_end_event(r);
    write_content_event(r, "done", part, false);
    write_item_event(r, "response.output_item.done", part, status, false);
    r->is_open = false;
}

static void begin(struct sp_serve_response *r)
{
    write_response_event(r, "response.created", NULL, NULL);
    write_response_event(r, "response.in_progress", NULL, NULL);
}

/* Sends an event to keep the connection alive: clients close a stream that is silent for long. */
static void keep_alive(struct sp_serve_response *r)
{
    write_response_event(r, "response.in_progress", NULL, NULL);
}

static void write_part(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    if (r->message->n_segments > r->n_started) {
        end_part(r, "completed");
        r->n_started = r->message->n_segments;
        r->is_open = true;
        write_item_event(r, "response.output_item.added", r->n_started - 1, "in_progress", true);
        write_content_event(r, "added", r->n_started - 1, true);
    }
    if (p->kind != SP_CHAT_TOOL_CALL_START) write_delta_event(r, p);
    if (p->kind == SP_CHAT_TOOL_CALL) end_part(r, "completed");
}

static void end(struct sp_serve_response *r, const struct sp_result *result)
{
    bool cut = sp_serve_is_truncated(result);

    end_part(r, cut ? "incomplete" : "completed");
    write_response_event(r, cut ? "response.incomplete" : "response.completed", result, NULL);
}

static void fail_stream(struct sp_serve_response *r, const struct sp_serve_failure *failure)
{
    write_response_event(r, "response.failed", NULL, failure->sentence);
}

static void write_whole(struct sp_serve_response *r, const struct sp_result *result)
{
    write_response(r, NULL, result, NULL);
    sp_json_out_raw(&r->out, "\n");
}

const struct sp_serve_api sp_serve_responses = {
    .stream_type = "text/event-stream",
    .fields = sp_serve_responses_fields,
    .begin = begin,
    .keep_alive = keep_alive,
    .part = write_part,
    .end = end,
    .whole = write_whole,
    .fail_stream = fail_stream,
    .fail = sp_serve_openai_fail,
};
