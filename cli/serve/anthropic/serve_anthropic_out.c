#include "cli/serve/anthropic/serve_anthropic.h"
#include "cli/serve/jobs/serve.h"

#include <string.h>

/* Begins the object "error"; the caller closes it. */
static void begin_error(struct sp_json_out *out, int status, const char *sentence)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"},  {403, "permission_error"},
        {404, "not_found_error"},       {405, "invalid_request_error"}, {413, "request_too_large"},
        {503, "overloaded_error"},
    };
    const char *type = "api_error";

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status) type = types[i].type;
    sp_json_out_put(out, "error:{type:%s, message:%s", type, sentence);
}

/* By the code of a refused `thread`, client libraries know that they can continue without one. */
static void fail(struct sp_json_out *out, const struct sp_serve_failure *failure)
{
    sp_json_out_put(out, "{type:'error'");
    begin_error(out, failure->status, failure->sentence);
    if (failure->param && strcmp(failure->param, "thread") == 0)
        sp_json_out_put(out, "details:{error_code:'thread_unsupported_request', "
                             "unsupported:['thread']}");
    sp_json_out_put(out, "}}");
}

/* ---- parts of a message ---- */

/* Writes the usage: uncached and cached tokens of the prompt, and tokens of the answer so far. */
static void write_usage(struct sp_serve_response *r, size_t n_prompt, size_t n_reused,
                        size_t n_generated)
{
    struct sp_json_out *out = &r->out;

    sp_json_out_put(out,
                    "usage:{input_tokens:%zu, cache_creation_input_tokens:0, "
                    "cache_read_input_tokens:%zu, output_tokens:%zu, "
                    "output_tokens_details:{thinking_tokens:%zu}}",
                    n_prompt - n_reused, n_reused, n_generated, r->message->n_reasoning_tokens);
}

/* Returns the stop text if it is the request's; NULL for one of the file's, which ends a turn. */
static const char *stop_of(const struct sp_serve_response *r, const struct sp_result *result)
{
    const struct sp_json *stops = sp_json_get(r->request->body, "stop_sequences");
    const char *stop;

    if (result->stop != SP_STOP_TEXT) return NULL;
    stop = r->request->settings.stops.at[result->stop_index];
    if (sp_json_kind(stops) == SP_JSON_STRING) return stop;
    for (size_t i = 0; i < sp_json_len(stops); i++)
        if (strcmp(sp_json_to_string(sp_json_at(stops, i), NULL), stop) == 0) return stop;
    return NULL;
}

/* Writes the reason why the answer ended; result NULL: it has not ended. */
static void write_stop(struct sp_serve_response *r, const struct sp_result *result)
{
    const char *stop = result ? stop_of(r, result) : NULL, *reason = "end_turn";

    if (result == NULL)
        reason = NULL;
    else if (result->stop == SP_STOP_LENGTH)
        reason = "max_tokens";
    else if (result->stop == SP_STOP_CONTEXT || result->stop == SP_STOP_MEMORY)
        reason = "model_context_window_exceeded";
    else if (stop != NULL)
        reason = "stop_sequence";
    else if (r->message->n_calls > 0)
        reason = "tool_use";
    sp_json_out_text(&r->out, "stop_reason", reason);
    sp_json_out_text(&r->out, "stop_sequence", stop);
}

/* Writes the signature of a reasoning block, which clients send back. The server never checks it;
 * it is empty until the block ends. */
static void write_signature(struct sp_serve_response *r, bool known)
{
    char text[32] = "";

    if (known) snprintf(text, sizeof text, "sp-%.16s", r->request->model->file.digest);
    sp_json_out_text(&r->out, "signature", text);
}

/* Writes the members of a message and opens its content, which the caller closes. */
static void begin_message(struct sp_serve_response *r)
{
    struct sp_json_out *out = &r->out;
    char id[SP_SERVE_ID_SIZE];

    sp_json_out_put(out, "id:%s, type:'message', role:'assistant', model:%s",
                    sp_serve_id(id, "msg_", r), sp_serve_model_name(r->request));
    sp_serve_write_fields(r, false);
    sp_json_out_begin(out, "content", '[');
}

/* ---- blocks ---- */

/* Writes a content block; `whole`: with its text or input, else as the start event of a stream. */
static void write_block(struct sp_serve_response *r, const char *key,
                        const struct sp_chat_segment *part, bool whole)
{
    const struct sp_chat_answer *message = r->message;
    const struct sp_chat_call *call;
    struct sp_json_out *out = &r->out;
    size_t size = whole ? part->size : 0;

    sp_json_out_begin(out, key, '{');
    switch (part->kind) {
    case SP_CHAT_CONTENT:
        sp_json_out_text(out, "type", "text");
        sp_json_out_string(out, "text", message->content.at + part->at, size);
        break;
    case SP_CHAT_REASONING:
        if (r->request->omit_reasoning) size = 0;
        sp_json_out_text(out, "type", "thinking");
        sp_json_out_string(out, "thinking", message->reasoning.at + part->at, size);
        write_signature(r, whole);
        break;
    default:
        call = &message->calls[part->at];
        sp_json_out_put(out, "type:'tool_use', id:%s, name:%s", call->id, call->name);
        if (whole)
            sp_serve_write_arguments(out, "input", call);
        else
            sp_json_out_put(out, "input:{}");
    }
    sp_json_out_end(out, '}');
}

static void whole(struct sp_serve_response *r, const struct sp_result *result)
{
    sp_json_out_begin(&r->out, NULL, '{');
    begin_message(r);
    for (size_t i = 0; i < r->message->n_segments; i++)
        write_block(r, NULL, &r->message->segments[i], true);
    sp_json_out_end(&r->out, ']');
    write_stop(r, result);
    write_usage(r, result->n_prompt, result->n_reused, result->n_ids);
    sp_json_out_end_line(&r->out);
}

/* ---- streams ---- */

/* Begins an event of the block that is `back` blocks before the last one. */
static void begin_block_event(struct sp_serve_response *r, const char *type, size_t back)
{
    sp_serve_begin_event(r, type);
    sp_json_out_u64(&r->out, "index", r->message->n_segments - 1 - back);
}

static void begin_delta(struct sp_serve_response *r, const char *type, size_t back)
{
    begin_block_event(r, "content_block_delta", back);
    sp_json_out_put(&r->out, "delta:{type:%s", type);
}

static void end_delta(struct sp_serve_response *r)
{
    sp_json_out_end(&r->out, '}');
    sp_serve_end_event(r);
}

static void write_delta(struct sp_serve_response *r, const char *type, const char *key,
                        const struct sp_chat_part *part)
{
    begin_delta(r, type, 0);
    sp_json_out_string(&r->out, key, part->text, part->size);
    end_delta(r);
}

/* Ends the block that is `back` blocks before the last one, if there is one. */
static void end_block(struct sp_serve_response *r, size_t back)
{
    if (r->message->n_segments <= back) return;
    if (r->message->segments[r->message->n_segments - 1 - back].kind == SP_CHAT_REASONING) {
        begin_delta(r, "signature_delta", back);
        write_signature(r, true);
        end_delta(r);
    }
    begin_block_event(r, "content_block_stop", back);
    sp_serve_end_event(r);
}

static void begin_block(struct sp_serve_response *r)
{
    end_block(r, 1);
    begin_block_event(r, "content_block_start", 0);
    write_block(r, "content_block", &r->message->segments[r->message->n_segments - 1], false);
    sp_serve_end_event(r);
}

static void keep_alive(struct sp_serve_response *r)
{
    sp_serve_begin_event(r, "ping");
    sp_serve_end_event(r);
}

static void begin(struct sp_serve_response *r)
{
    sp_serve_begin_event(r, "message_start");
    sp_json_out_begin(&r->out, "message", '{');
    begin_message(r);
    sp_json_out_end(&r->out, ']');
    write_stop(r, NULL);
    write_usage(r, r->n_prompt, r->n_reused, 0);
    sp_json_out_end(&r->out, '}');
    sp_serve_end_event(r);
    keep_alive(r);
}

/* Writes a part of the answer. A block starts with the part that makes up its whole text so far. */
static void write_part(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    const struct sp_chat_segment *part = &r->message->segments[r->message->n_segments - 1];

    switch (p->kind) {
    case SP_CHAT_CONTENT:
        if (part->size == p->size) begin_block(r);
        write_delta(r, "text_delta", "text", p);
        break;
    case SP_CHAT_REASONING:
        if (part->size == p->size) begin_block(r);
        if (!r->request->omit_reasoning) write_delta(r, "thinking_delta", "thinking", p);
        break;
    case SP_CHAT_TOOL_CALL_START:
        begin_block(r);
        break;
    case SP_CHAT_TOOL_CALL:
        begin_block(r);
        write_delta(r, "input_json_delta", "partial_json", p);
        break;
    case SP_CHAT_TOOL_CALL_ARGUMENTS:
        write_delta(r, "input_json_delta", "partial_json", p);
    }
}

static void end(struct sp_serve_response *r, const struct sp_result *result)
{
    end_block(r, 0);
    sp_serve_begin_event(r, "message_delta");
    sp_json_out_begin(&r->out, "delta", '{');
    write_stop(r, result);
    sp_json_out_end(&r->out, '}');
    write_usage(r, result->n_prompt, result->n_reused, result->n_ids);
    sp_serve_end_event(r);
    sp_serve_begin_event(r, "message_stop");
    sp_serve_end_event(r);
}

static void fail_stream(struct sp_serve_response *r, const struct sp_serve_failure *failure)
{
    sp_serve_begin_event(r, "error");
    begin_error(&r->out, failure->status, failure->sentence);
    sp_json_out_end(&r->out, '}');
    sp_serve_end_event(r);
}

const struct sp_serve_api sp_serve_anthropic = {
    .stream_type = "text/event-stream",
    .fields = sp_serve_anthropic_fields,
    .begin = begin,
    .keep_alive = keep_alive,
    .part = write_part,
    .end = end,
    .whole = whole,
    .fail_stream = fail_stream,
    .fail = fail,
    .too_long = "prompt is too long",
};
