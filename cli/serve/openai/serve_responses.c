/* OpenAI's Responses API: the settings of a request, and the functions of the API.
 *
 * The server stores nothing between requests: each one carries its whole conversation.
 * https://platform.openai.com/docs/api-reference/responses */
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/openai/serve_openai_out.h"
#include "cli/serve/openai/serve_responses_events.h"
#include "cli/serve/openai/serve_responses_input.h"
#include "cli/serve/openai/serve_responses_out.h"
#include "cli/serve/openai/serve_responses_tools.h"
#include "cli/serve/request/serve_messages.h"
#include "cli/serve/request/serve_response_format.h"

#include <string.h>

static const struct sp_request_setting limits[] = {
    {"max_output_tokens", "num_predict"},
    {NULL, NULL},
};

static const char kept[] = "responses are not stored: send the whole conversation in input",
                  whole[] = "not supported: a conversation is never truncated";

static const struct sp_serve_refusal refusals[] = {
    {"previous_response_id", NULL, kept},
    {"conversation", NULL, kept},
    {"store", "false", kept},
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
    enum sp_status st = sp_serve_read_object(&value, body, key, err);

    if (st) return st;
    if ((st = sp_serve_refuse(value, rows, err))) {
        sp_context(err, "%s", key);
        return st;
    }
    *object = value;
    return SP_OK;
}

/* Reads the options of reasoning. If a summary is requested, the whole reasoning is sent as the
 * summary. */
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

static enum sp_status read_text(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *text = NULL;
    enum sp_status st = read_object(&text, request->body, "text", text_refusals, err);

    return st ? st : sp_serve_responses_read_response_format(request, err);
}

static enum sp_status read_include(struct sp_serve_request *request, struct sp_err *err)
{
    static const char logprobs[] = "message.output_text.logprobs",
                      reasoning[] = "reasoning.encrypted_content";
    const struct sp_json *include = sp_json_get(request->body, "include");
    int64_t n_top = 0;
    enum sp_status st;

    if (include != NULL && sp_json_kind(include) != SP_JSON_ARRAY) {
        return sp_fail(err, SP_E_INPUT, "include is %s, expected an array",
                       sp_json_kind_name(sp_json_kind(include)));
    }
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
    enum sp_status st = sp_serve_read_object(&metadata, body, "metadata", err);

    for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
        st = sp_json_get_string(body, texts[i], &text, err);
    return st ? st : sp_json_get_i64(body, "max_tool_calls", 1, INT32_MAX, &n, err);
}

static enum sp_status read_request(struct sp_serve_request *request, struct sp_err *err)
{
    struct sp_json *messages = NULL;
    enum sp_status st;

    sp_serve_read_hints(request->body, "prompt_cache_retention service_tier stream_options");
    if ((st = sp_serve_openai_check_template(request, err)) ||
        (st = sp_serve_refuse(request->body, refusals, err)) ||
        (st = check_repeated(request->body, err)) ||
        (st = sp_serve_openai_read_settings(request, limits, err)) ||
        (st = sp_json_get_bool(request->body, "stream", &request->stream, err)) ||
        (st = sp_serve_openai_read_kwargs(request, err)) || (st = read_reasoning(request, err)) ||
        (st = read_text(request, err)) || (st = read_include(request, err)) ||
        (st = sp_serve_responses_read_tools(request, err)) ||
        (st = sp_serve_responses_read_input(&messages, request->body, &request->fault, err)))
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
    .begin = sp_serve_responses_begin,
    .keep_alive = sp_serve_responses_keep_alive,
    .part = sp_serve_responses_part,
    .end = sp_serve_responses_end,
    .whole = write_whole,
    .fail_stream = sp_serve_responses_fail_stream,
    .fail = sp_serve_openai_fail,
};
