#include "cli/serve/jobs/serve.h"
#include "cli/serve/openai/serve_openai.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sp_serve_openai_fail(struct sp_json_out *out, const struct sp_serve_failure *failure)
{
    sp_json_out_put(out, "{error:{message:%s, type:%s, param:%s, code:%s}}", failure->sentence,
                    failure->status < 500 ? "invalid_request_error" : "server_error",
                    failure->param, failure->code);
}

/* ---- log-probabilities ---- */

/* Writes alternatives as members named by their text; of two with equal text the likelier one. */
static void write_alternatives(struct sp_serve_response *r, const struct sp_serve_logprob *t)
{
    char *texts[SP_SERVE_MAX_TOP] = {0};
    size_t size;

    sp_json_out_begin(&r->out, NULL, '{');
    for (size_t k = 0; k < t->n_top; k++) {
        const struct sp_package *package = r->request->model->loaded->package;
        bool sent = sp_serve_logprob_bytes(&texts[k], &size, package, t->top[k].id) != SP_OK;
        for (size_t i = 0; i < k && !sent; i++)
            sent = texts[i] && strcmp(texts[i], texts[k]) == 0;
        if (!sent) sp_json_out_double(&r->out, texts[k], (double)t->top[k].logprob);
    }
    sp_json_out_end(&r->out, '}');
    for (size_t k = 0; k < t->n_top; k++)
        free(texts[k]);
}

static size_t n_characters(const char *text, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++)
        n += (text[i] & 0xC0) != 0x80;
    return n;
}

static void write_text_logprobs(struct sp_serve_response *r)
{
    struct sp_json_out *out = &r->out;

    sp_json_out_put(out, "logprobs:{tokens:[");
    for (size_t i = 0; i < r->n_tokens; i++)
        sp_json_out_string(out, NULL, r->tokens[i].bytes, r->tokens[i].size);
    sp_json_out_put(out, "], token_logprobs:[");
    for (size_t i = 0; i < r->n_tokens; i++)
        sp_json_out_double(out, NULL, (double)r->tokens[i].chosen.logprob);
    sp_json_out_put(out, "], top_logprobs:[");
    for (size_t i = 0; i < r->n_tokens; i++)
        if (isnan(r->tokens[i].chosen.logprob))
            sp_json_out_text(out, NULL, NULL);
        else
            write_alternatives(r, &r->tokens[i]);
    sp_json_out_put(out, "], text_offset:[");
    for (size_t i = 0; i < r->n_tokens; i++) {
        sp_json_out_u64(out, NULL, r->offset);
        r->offset += n_characters(r->tokens[i].bytes, r->tokens[i].size);
    }
    sp_json_out_put(out, "]}");
}

static void write_logprobs(struct sp_serve_response *r)
{
    if (!r->request->logprobs || r->n_tokens == 0) {
        sp_json_out_text(&r->out, "logprobs", NULL);
    } else if (r->api->is_chat) {
        sp_json_out_begin(&r->out, "logprobs", '{');
        sp_serve_logprobs_write(r, "content", r->tokens, r->n_tokens);
        sp_json_out_put(&r->out, "refusal:null}");
    } else {
        write_text_logprobs(r);
    }
}

/* ---- figures ---- */

static void write_usage(struct sp_json_out *out, const struct sp_serve_usage *usage)
{
    sp_json_out_put(out,
                    "usage:{prompt_tokens:%zu, completion_tokens:%zu, total_tokens:%zu, "
                    "prompt_tokens_details:{cached_tokens:%zu}, "
                    "completion_tokens_details:{reasoning_tokens:%zu, "
                    "accepted_prediction_tokens:%zu, rejected_prediction_tokens:%zu}}",
                    usage->n_prompt, usage->n_ids, usage->n_prompt + usage->n_ids, usage->n_reused,
                    usage->n_reasoning, usage->accepted, usage->drafted - usage->accepted);
}

static double quotient(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void sp_serve_openai_write_timings(struct sp_json_out *out, const struct sp_result *r)
{
    const size_t n_new = r->n_prompt - r->n_reused;
    const double prompt = r->prompt_seconds, predicted = sp_answer_seconds(r);

    sp_json_out_put(out,
                    "timings:{cache_n:%zu, prompt_n:%zu, prompt_ms:%g, prompt_per_token_ms:%g, "
                    "prompt_per_second:%g, predicted_n:%zu, predicted_ms:%g, "
                    "predicted_per_token_ms:%g, predicted_per_second:%g, draft_n:%zu, "
                    "draft_n_accepted:%zu}",
                    r->n_reused, n_new, prompt * 1e3, quotient(prompt * 1e3, (double)n_new),
                    quotient((double)n_new, prompt), r->n_ids, predicted * 1e3,
                    quotient(predicted * 1e3, (double)r->n_ids),
                    quotient((double)r->n_ids, predicted), r->drafted, r->accepted);
}

/* ---- objects ---- */

static const char *reason(const struct sp_serve_response *r, const struct sp_result *result)
{
    if (sp_serve_is_truncated(result)) return "length";
    return r->message->n_calls > 0 ? "tool_calls" : "stop";
}

static void begin_object(struct sp_serve_response *r, const char *kind)
{
    struct sp_json_out *out = &r->out;
    char id[SP_SERVE_ID_SIZE];

    sp_serve_id(id, r->api->is_chat ? "chatcmpl-" : "cmpl-", r);
    sp_json_out_put(out, "{id:%s, object:%s, created:%zu, model:%s", id, kind,
                    (size_t)r->began.tv_sec, sp_serve_model_name(r->request));
    snprintf(id, sizeof id, "sp-%.16s", r->request->model->file.digest);
    sp_json_out_text(out, "system_fingerprint", id);
    sp_serve_write_fields(r, false);
}

static void begin_chunk(struct sp_serve_response *r)
{
    sp_json_out_raw(&r->out, "data: ");
    begin_object(r, r->api->is_chat ? "chat.completion.chunk" : "text_completion");
}

/* Writes a tool call, or the members of it that a chunk of a stream contains: an index of SIZE_MAX
 * and a NULL are left out. */
static void write_call(struct sp_json_out *out, size_t index, const char *id, const char *name,
                       const char *arguments, size_t size)
{
    sp_json_out_begin(out, NULL, '{');
    if (index != SIZE_MAX) sp_json_out_u64(out, "index", index);
    if (id != NULL) sp_json_out_put(out, "id:%s, type:'function'", id);
    sp_json_out_begin(out, "function", '{');
    if (name != NULL) sp_json_out_text(out, "name", name);
    sp_json_out_string(out, "arguments", arguments, size);
    sp_json_out_put(out, "}}");
}

/* The contents of a chunk of a stream. */
struct delta {
    bool first;
    /* part of the answer; of a call, its id and name; NULL: none */
    const struct sp_chat_part *part;
    bool arguments;                 /* write the call's arguments instead of its id and name */
    const struct sp_result *result; /* NULL: the answer has not ended */
};

static void write_chat_delta(struct sp_serve_response *r, const struct delta *d)
{
    const struct sp_chat_part *p = d->part;
    struct sp_json_out *out = &r->out;

    sp_json_out_begin(out, "delta", '{');
    if (d->first) sp_json_out_text(out, "role", "assistant");
    if (p != NULL && p->kind >= SP_CHAT_TOOL_CALL) {
        size_t index = r->message->n_calls - 1;
        const struct sp_chat_call *call = &r->message->calls[index];
        sp_json_out_begin(out, "tool_calls", '[');
        if (p->kind == SP_CHAT_TOOL_CALL_ARGUMENTS || d->arguments)
            write_call(out, index, NULL, NULL, p->text, p->size);
        else
            write_call(out, index, call->id, call->name, "", 0);
        sp_json_out_end(out, ']');
    } else if (p != NULL) {
        sp_json_out_string(out, p->kind == SP_CHAT_REASONING ? "reasoning_content" : "content",
                           p->text, p->size);
    }
    sp_json_out_end(out, '}');
}

static void write_delta(struct sp_serve_response *r, const struct delta *d)
{
    struct sp_json_out *out = &r->out;

    sp_json_out_put(out, "choices:[{index:%zu", r->answer);
    if (r->api->is_chat)
        write_chat_delta(r, d);
    else
        sp_json_out_string(out, "text", d->part ? d->part->text : "", d->part ? d->part->size : 0);
    if (d->arguments) /* the tokens were sent in the chunk with the call's name */
        sp_json_out_text(out, "logprobs", NULL);
    else
        write_logprobs(r);
    if (d->part) sp_serve_write_fields(r, true);
    sp_json_out_put(out, "finish_reason:%s}]", d->result ? reason(r, d->result) : NULL);
}

static void chunk(struct sp_serve_response *r, const struct delta *d)
{
    begin_chunk(r);
    write_delta(r, d);
    if (r->request->include_usage) sp_json_out_text(&r->out, "usage", NULL);
    if (d->result) sp_serve_openai_write_timings(&r->out, d->result);
    sp_serve_end_event(r);
}

static void end_stream(struct sp_serve_response *r, const struct sp_result *result)
{
    chunk(r, &(struct delta){.result = result});
}

/* Writes the message; its content is null if it consists of calls only. */
static void write_message(struct sp_serve_response *r)
{
    const struct sp_chat_answer *message = r->message;
    struct sp_json_out *out = &r->out;

    sp_json_out_put(out, "message:{role:'assistant'");
    if (message->content.len == 0 && message->n_calls > 0)
        sp_json_out_text(out, "content", NULL);
    else
        sp_json_out_string(out, "content", message->content.at, message->content.len);
    sp_json_out_text(out, "refusal", NULL);
    if (message->reasoning.len > 0)
        sp_json_out_string(out, "reasoning_content", message->reasoning.at, message->reasoning.len);
    if (message->n_calls > 0) {
        sp_json_out_begin(out, "tool_calls", '[');
        for (size_t i = 0; i < message->n_calls; i++) {
            const struct sp_chat_call *call = &message->calls[i];
            write_call(out, SIZE_MAX, call->id, call->name, call->arguments, call->size);
        }
        sp_json_out_end(out, ']');
    }
    sp_json_out_end(out, '}');
}

/* Writes the response to a request for one answer, or one choice of several. */
static void whole(struct sp_serve_response *r, const struct sp_result *result)
{
    struct sp_json_out *out = &r->out;

    sp_json_out_put(out, "{index:%zu", r->answer);
    if (r->api->is_chat)
        write_message(r);
    else if (r->echo == NULL)
        sp_json_out_string(out, "text", result->text, result->text_size);
    else /* the text after that of its prompt */
        sp_json_out_string(out, "text", r->echo->len ? r->echo->at : "", r->echo->len);
    write_logprobs(r);
    sp_json_out_put(out, "finish_reason:%s}", reason(r, result));
}

/* Writes the response with several choices, without timings, which only single answers have. */
static void close_whole(struct sp_serve_response *r, const struct sp_result *last)
{
    struct sp_json_out *out = &r->out;

    begin_object(r, r->api->is_chat ? "chat.completion" : "text_completion");
    sp_json_out_begin(out, "choices", '[');
    for (size_t i = 0; i < r->n_answers; i++)
        sp_json_out_written(out, NULL, r->outputs[i].at, r->outputs[i].len);
    sp_json_out_end(out, ']');
    write_usage(out, r->usage);
    if (r->n_answers == 1) sp_serve_openai_write_timings(out, last);
    sp_json_out_end_line(out);
}

static void close_all(struct sp_serve_response *r, const struct sp_result *last)
{
    if (!r->request->stream) {
        close_whole(r, last);
        return;
    }
    if (r->request->include_usage) {
        begin_chunk(r);
        sp_json_out_put(&r->out, "choices:[]");
        write_usage(&r->out, r->usage);
        sp_serve_end_event(r);
    }
    sp_json_out_raw(&r->out, "data: [DONE]\n\n");
}

void sp_serve_openai_fail_stream(struct sp_serve_response *r,
                                 const struct sp_serve_failure *failure)
{
    sp_json_out_raw(&r->out, "data: ");
    sp_serve_openai_fail(&r->out, failure);
    sp_json_out_raw(&r->out, "\n\n");
}

static const struct sp_chat_part empty = {SP_CHAT_CONTENT, "", 0, NULL};

/* Writes a comment, which readers of server-sent events skip, or llama-server's progress. */
static void keep_alive(struct sp_serve_response *r)
{
    const struct delta nothing = {.part = &empty};
    struct sp_json_out *out = &r->out;

    if (!r->request->return_progress) {
        sp_json_out_raw(out, ": reading the prompt\n\n");
        return;
    }
    begin_chunk(r);
    write_delta(r, &nothing);
    sp_json_out_put(out, "prompt_progress:{total:%zu, cache:%zu, processed:%zu, time_ms:%zu}",
                    r->n_prompt, r->n_reused, r->n_processed, (size_t)(r->prompt_seconds * 1e3));
    sp_serve_end_event(r);
}

static void begin_chat(struct sp_serve_response *r)
{
    chunk(r, &(struct delta){.first = true, .part = &empty});
}

static void write_part(struct sp_serve_response *r, const struct sp_chat_part *part)
{
    const struct delta head = {.part = part}, arguments = {.part = part, .arguments = true};

    chunk(r, &head);
    if (part->kind == SP_CHAT_TOOL_CALL) chunk(r, &arguments);
}

#define FUNCTIONS                                                                                  \
    .stream_type = "text/event-stream", .keep_alive = keep_alive, .part = write_part,              \
    .end = end_stream, .whole = whole, .close = close_all,                                         \
    .fail_stream = sp_serve_openai_fail_stream, .fail = sp_serve_openai_fail

const struct sp_serve_api sp_serve_openai_chat = {
    FUNCTIONS, .is_chat = true, .fields = sp_serve_openai_chat_fields, .begin = begin_chat};
const struct sp_serve_api sp_serve_openai_text = {FUNCTIONS, .fields = sp_serve_openai_text_fields};
