/* OpenAI's Responses API: the settings of a request, and the functions of the API.
 *
 * The server stores nothing between requests: each one carries its whole conversation.
 * https://platform.openai.com/docs/api-reference/responses */
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/request/serve_request.h"
#include "cli/serve/jobs/serve.h"

#include <string.h>

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
    sp_serve_responses_write(r, "response", result, sentence);
    sp_serve_end_event(r);
}

/* Writes an event that contains an item. */
static void write_item_event(struct sp_serve_response *r, const char *type, size_t part,
                             const char *status, bool partial)
{
    sp_json_out_u64(begin_event(r, type), "output_index", part);
    sp_serve_responses_write_item(r, "item", part, status, partial);
    sp_serve_end_event(r);
}

/* The names of the events of a part, and of the index of its only content; NULL for calls, which
 * have no contents. */
struct names {
    const char *delta, *done, *text; /* text: the member that holds the text in the `done` event */
    const char *added, *part_done, *index; /* events and index of the content */
};

static const struct names *names_of(const struct sp_serve_response *r, size_t part)
{
    static const struct names call = {.delta = "response.function_call_arguments.delta",
                                      .done = "response.function_call_arguments.done",
                                      .text = "arguments"},
                              content = {.delta = "response.output_text.delta",
                                         .done = "response.output_text.done",
                                         .text = "text",
                                         .added = "response.content_part.added",
                                         .part_done = "response.content_part.done",
                                         .index = "content_index"},
                              reasoning = {.delta = "response.reasoning_text.delta",
                                           .done = "response.reasoning_text.done",
                                           .text = "text",
                                           .added = "response.content_part.added",
                                           .part_done = "response.content_part.done",
                                           .index = "content_index"},
                              summary = {.delta = "response.reasoning_summary_text.delta",
                                         .done = "response.reasoning_summary_text.done",
                                         .text = "text",
                                         .added = "response.reasoning_summary_part.added",
                                         .part_done = "response.reasoning_summary_part.done",
                                         .index = "summary_index"};

    switch (r->message->segments[part].kind) {
    case SP_CHAT_TOOL_CALL:
        return &call;
    case SP_CHAT_REASONING:
        return sp_serve_responses_wants_summary(r) ? &summary : &reasoning;
    default:
        return &content;
    }
}

/* Begins an event of the contents of an item. */
static struct sp_json_out *begin_part_event(struct sp_serve_response *r, const char *type,
                                            size_t part)
{
    struct sp_json_out *out = begin_event(r, type);
    const char *index = names_of(r, part)->index;
    char id[SP_RESPONSES_ID_SIZE];

    sp_json_out_put(out, "item_id:%s, output_index:%zu", sp_serve_responses_id(id, r, part), part);
    if (index != NULL) sp_json_out_u64(out, index, 0);
    return out;
}

static void write_content_event(struct sp_serve_response *r, const char *type, size_t part,
                                bool partial)
{
    begin_part_event(r, type, part);
    sp_serve_responses_write_content(r, "part", part, partial);
    sp_serve_end_event(r);
}

static void write_delta_event(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    size_t part = r->message->n_segments - 1;

    sp_json_out_string(begin_part_event(r, names_of(r, part)->delta, part), "delta", p->text,
                       p->size);
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
    text = sp_serve_responses_text(&size, r, part);
    sp_json_out_string(begin_part_event(r, names->done, part), names->text, text, size);
    if (r->message->segments[part].kind == SP_CHAT_CONTENT)
        sp_serve_responses_write_logprobs(r, part);
    if (r->message->segments[part].kind == SP_CHAT_TOOL_CALL)
        sp_json_out_text(&r->out, "name", r->message->calls[r->message->segments[part].at].name);
    sp_serve_end_event(r);
    if (names->part_done != NULL) write_content_event(r, names->part_done, part, false);
    write_item_event(r, "response.output_item.done", part, status, false);
    r->is_open = false;
}

/* These functions implement the streams of struct sp_serve_api. */
static void serve_responses_begin(struct sp_serve_response *r)
{
    write_response_event(r, "response.created", NULL, NULL);
    write_response_event(r, "response.in_progress", NULL, NULL);
}

/* Sends an event to keep the connection alive: clients close a stream that is silent for long. */
static void serve_responses_keep_alive(struct sp_serve_response *r)
{
    write_response_event(r, "response.in_progress", NULL, NULL);
}

static void serve_responses_part(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    const char *added;

    if (r->message->n_segments > r->n_started) {
        end_part(r, "completed");
        r->n_started = r->message->n_segments;
        r->is_open = true;
        added = names_of(r, r->n_started - 1)->added;
        write_item_event(r, "response.output_item.added", r->n_started - 1, "in_progress", true);
        if (added != NULL) write_content_event(r, added, r->n_started - 1, true);
    }
    if (p->kind != SP_CHAT_TOOL_CALL_START) write_delta_event(r, p);
    if (p->kind == SP_CHAT_TOOL_CALL) end_part(r, "completed");
}

static void serve_responses_end(struct sp_serve_response *r, const struct sp_result *result)
{
    bool cut = sp_serve_is_truncated(result);

    end_part(r, cut ? "incomplete" : "completed");
    write_response_event(r, cut ? "response.incomplete" : "response.completed", result, NULL);
}

static void serve_responses_fail_stream(struct sp_serve_response *r,
                                        const struct sp_serve_failure *failure)
{
    write_response_event(r, "response.failed", NULL, failure->sentence);
}

static const struct sp_request_setting limits[] = {
    {"max_output_tokens", "num_predict"},
    {NULL, NULL},
};

static const char kept[] = "responses are not stored: send the whole conversation in input",
                  whole[] = "not supported: a conversation is never truncated";

static const struct sp_serve_refusal refusals[] = {
    {"previous_response_id", NULL, kept},
    {"conversation", NULL, kept},
    {"prompt", NULL, "stored prompts are not supported"},
    {"background", "false", "background responses are not supported"},
    {"truncation", "\"disabled\"", whole},
    {"context_management", "[]", whole},
    {"moderation", NULL, "moderation is not supported"},
    {NULL, NULL, NULL},
};

static const struct sp_serve_refusal reasoning_refusals[] = {
    {"generate_summary", NULL, "deprecated, use summary"},
    {"context", "\"auto\"", "not supported: the chat template decides"},
    {"mode", "\"standard\"", "other modes are not supported"},
    {NULL, NULL, NULL},
};

static const struct sp_serve_refusal text_refusals[] = {
    {"verbosity", "\"medium\"", "not supported"},
    {NULL, NULL, NULL},
};

/* *object = a member that is an object; NULL: absent. */
static enum sp_status read_object(const struct sp_json **object, const struct sp_json *body,
                                  const char *key, const struct sp_serve_refusal *rows,
                                  struct sp_err *err)
{
    const struct sp_json *value = NULL;
    enum sp_status st = sp_serve_read_kind(&value, body, key, SP_JSON_OBJECT, err);

    if (st) return st;
    if ((st = sp_serve_refuse(value, rows, err))) {
        sp_context(err, "%s", key);
        return st;
    }
    *object = value;
    return SP_OK;
}

/* Reads the options of reasoning. All of the reasoning is sent as a summary that is requested. */
static enum sp_status read_reasoning(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *reasoning = NULL, *summary;
    const char *text;
    enum sp_status st;

    if ((st = read_object(&reasoning, request->body, "reasoning", reasoning_refusals, err)))
        return st;
    if ((st = sp_serve_openai_read_effort(request, reasoning, "effort", err))) {
        if (request->fault.code)
            sp_serve_fault_set(&request->fault, request->fault.code, "reasoning.effort");
        sp_context(err, "reasoning");
        return st;
    }
    if ((summary = sp_json_get(reasoning, "summary")) == NULL) return SP_OK;
    text = sp_json_to_string(summary, NULL);
    if (text && (strcmp(text, "auto") == 0 || strcmp(text, "detailed") == 0)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "reasoning.summary: expected \"auto\" or \"detailed\"");
}

static enum sp_status read_include(struct sp_serve_request *request, struct sp_err *err)
{
    static const char logprobs[] = "message.output_text.logprobs",
                      reasoning[] = "reasoning.encrypted_content";
    const struct sp_json *include = NULL;
    int64_t n_top = 0;
    enum sp_status st = sp_serve_read_kind(&include, request->body, "include", SP_JSON_ARRAY, err);

    if (st) return st;
    for (size_t i = 0; i < sp_json_len(include); i++) {
        const char *name = sp_json_to_string(sp_json_at(include, i), NULL);
        if (name && (strcmp(name, logprobs) == 0 || strcmp(name, reasoning) == 0)) continue;
        return sp_fail(err, SP_E_UNSUPPORTED, "include[%zu]: expected %s or %s", i, logprobs,
                       reasoning);
    }
    request->logprobs = sp_serve_responses_includes(request->body, logprobs);
    if ((st = sp_json_get_i64(request->body, "top_logprobs", 0, SP_SERVE_MAX_TOP, &n_top, err)))
        return st;
    if (n_top > 0 && !request->logprobs)
        return sp_fail(err, SP_E_INPUT, "top_logprobs requires %s in include", logprobs);
    request->n_top = (unsigned)n_top;
    return SP_OK;
}

/* Checks the types of members that the response repeats and that have no other effect: clients
 * would not understand it otherwise. */
static enum sp_status check_repeated(const struct sp_json *body, struct sp_err *err)
{
    static const char *const texts[] = {"prompt_cache_key", "safety_identifier", "user"};
    const struct sp_json *metadata = NULL;
    const char *text;
    int64_t n;
    enum sp_status st = sp_serve_read_kind(&metadata, body, "metadata", SP_JSON_OBJECT, err);

    for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
        st = sp_json_get_string(body, texts[i], &text, err);
    return st ? st : sp_json_get_i64(body, "max_tool_calls", 1, INT32_MAX, &n, err);
}

static enum sp_status read_request(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *text = NULL;
    struct sp_json *messages = NULL;
    enum sp_status st;

    sp_serve_read_hints(request->body, "prompt_cache_retention service_tier store stream_options");
    if ((st = sp_serve_model_check_template(request->model, err)) ||
        (st = sp_serve_refuse(request->body, refusals, err)) ||
        (st = check_repeated(request->body, err)) ||
        (st = sp_serve_openai_read_settings(request, limits, err)) ||
        (st = sp_json_get_bool(request->body, "stream", &request->stream, err)) ||
        (st = sp_serve_openai_read_kwargs(request, err)) || (st = read_reasoning(request, err)) ||
        (st = read_object(&text, request->body, "text", text_refusals, err)) ||
        (st = sp_serve_responses_read_response_format(request, err)) ||
        (st = read_include(request, err)) || (st = sp_serve_responses_read_tools(request, err)) ||
        (st = sp_serve_responses_read_input(&messages, request, err)))
        return st;
    st = sp_serve_read_messages(request, &request->model->loaded->conversation, messages, err);
    sp_json_free(messages);
    return st;
}

static void write_whole(struct sp_serve_response *r, const struct sp_result *result)
{
    sp_serve_responses_write(r, NULL, result, NULL);
    sp_json_out_raw(&r->out, "\n");
}

const struct sp_serve_api sp_serve_responses = {
    .stream_type = "text/event-stream",
    .read = read_request,
    .begin = serve_responses_begin,
    .keep_alive = serve_responses_keep_alive,
    .part = serve_responses_part,
    .end = serve_responses_end,
    .whole = write_whole,
    .fail_stream = serve_responses_fail_stream,
    .fail = sp_serve_openai_fail,
};
