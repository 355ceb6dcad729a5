/* OpenAI's Responses API: its requests. Several items of the input may form a message, and
 * functions have their members beside the type; both become what chat templates take.
 *
 * The server stores nothing between requests: each one carries its whole conversation.
 * https://platform.openai.com/docs/api-reference/responses */
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/request/serve_request.h"
#include "cli/serve/jobs/serve.h"

#include <string.h>

struct input {
    const struct sp_json *items; /* JSON array of items */
    size_t at;                   /* index of the next item */
    struct sp_json_out *out;
    struct sp_serve_request *request;
};

/* Returns the next item; NULL after the last one. */
static const struct sp_json *next(const struct input *in)
{
    return sp_json_at(in->items, in->at);
}

/* Returns the type of an item, "message" if the member is absent. */
static const char *type_of(const struct sp_json *item)
{
    const char *type = sp_serve_filled(item, "type");

    return type == NULL && sp_serve_filled(item, "role") != NULL ? "message" : type;
}

static bool is_of(const struct sp_json *item, const char *type)
{
    const char *value = type_of(item);

    return value && strcmp(value, type) == 0;
}

static bool has_role(const struct sp_json *item, const char *role)
{
    const char *value = sp_serve_filled(item, "role");

    return is_of(item, "message") && value && strcmp(value, role) == 0;
}

/* Appends a string or text parts, separated by an empty line from existing text. */
static enum sp_status append(struct sp_strbuf *to, const struct sp_json *content,
                             struct sp_err *err)
{
    enum sp_status st = to->len > 0 ? sp_strbuf_append(to, "\n\n", 2, err) : SP_OK;

    return st ? st : sp_serve_join_content(to, content, err);
}

static void write_text(struct sp_json_out *out, const char *key, const struct sp_strbuf *text)
{
    sp_json_out_string(out, key, text->len > 0 ? text->at : "", text->len);
}

static void write_message(struct sp_json_out *out, const char *role,
                          const struct sp_strbuf *content)
{
    sp_json_out_put(out, "{role:%s", role);
    write_text(out, "content", content);
    sp_json_out_end(out, '}');
}

/* ---- messages to the model ---- */

/* Writes the system message: the instructions and the leading messages of system and developer. */
static enum sp_status write_system(struct input *in, struct sp_err *err)
{
    const struct sp_json *instructions = NULL;
    struct sp_strbuf text = {0};
    enum sp_status st =
        sp_serve_read_kind(&instructions, in->request->body, "instructions", SP_JSON_STRING, err);

    if (!st && instructions != NULL) st = append(&text, instructions, err);
    while (!st && (has_role(next(in), "system") || has_role(next(in), "developer"))) {
        if ((st = append(&text, sp_json_get(next(in), "content"), err)))
            sp_context(err, "input[%zu]", in->at);
        in->at++;
    }
    if (!st && text.len > 0) write_message(in->out, "system", &text);
    sp_strbuf_release(&text);
    return st;
}

static enum sp_status write_input_message(struct input *in, struct sp_err *err)
{
    static const char *const roles[] = {"user", "system", "developer"};
    const struct sp_json *item = next(in);
    struct sp_strbuf text = {0};
    enum sp_status st;

    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (!has_role(item, roles[i])) continue;
        st = append(&text, sp_json_get(item, "content"), err);
        if (!st) write_message(in->out, roles[i], &text);
        sp_strbuf_release(&text);
        in->at++;
        return st;
    }
    sp_serve_fault_set(&in->request->fault, "invalid_value", "input[%zu].role", in->at);
    return sp_fail(err, SP_E_INPUT, "role: expected user, assistant, system or developer");
}

static enum sp_status write_output(struct input *in, struct sp_err *err)
{
    const struct sp_json *item = next(in), *output = sp_json_get(item, "output");
    struct sp_strbuf text = {0};
    enum sp_status st;

    if (sp_serve_filled(item, "call_id") == NULL) return sp_fail(err, SP_E_INPUT, "has no call_id");
    if (output == NULL) return sp_fail(err, SP_E_INPUT, "has no output");
    if (!(st = append(&text, output, err))) {
        sp_json_out_put(in->out, "{role:'tool'");
        sp_json_out_value(in->out, "tool_call_id", sp_json_get(item, "call_id"));
        write_text(in->out, "content", &text);
        sp_json_out_end(in->out, '}');
    }
    sp_strbuf_release(&text);
    in->at++;
    return st;
}

/* ---- messages of the model ---- */

/* Appends reasoning from an item's content, from `encrypted_content` of this server or, without
 * either, from its summary. */
static enum sp_status append_reasoning(struct sp_strbuf *to, const struct sp_json *item,
                                       struct sp_err *err)
{
    static const size_t n_tag = sizeof SP_SERVE_REASONING_TAG - 1;
    const struct sp_json *content = sp_json_get(item, "content");
    size_t size = 0;
    const char *encrypted = sp_json_to_string(sp_json_get(item, "encrypted_content"), &size);
    enum sp_status st;

    if (sp_json_len(content) > 0) return append(to, content, err);
    if (encrypted && size >= n_tag && memcmp(encrypted, SP_SERVE_REASONING_TAG, n_tag) == 0) {
        if (to->len > 0 && (st = sp_strbuf_append(to, "\n\n", 2, err))) return st;
        return sp_strbuf_append(to, encrypted + n_tag, size - n_tag, err);
    }
    return append(to, sp_json_get(item, "summary"), err);
}

static bool is_call(const struct sp_json *item)
{
    return is_of(item, "function_call") || is_of(item, "custom_tool_call");
}

/* Writes a call. That of a custom tool has a text instead of arguments. */
static enum sp_status write_call(struct sp_json_out *out, const struct sp_json *item,
                                 struct sp_err *err)
{
    const bool custom = is_of(item, "custom_tool_call");
    const char *const members[] = {"call_id", "name", custom ? "input" : "arguments"};

    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (sp_json_kind(sp_json_get(item, members[i])) == SP_JSON_STRING) continue;
        return sp_fail(err, SP_E_INPUT, "%s has no %s", type_of(item), members[i]);
    }
    sp_json_out_put(out, "{type:'function'");
    sp_json_out_value(out, "id", sp_json_get(item, "call_id"));
    sp_json_out_begin(out, "function", '{');
    sp_json_out_value(out, "name", sp_json_get(item, "name"));
    if (custom) sp_json_out_begin(out, "arguments", '{');
    sp_json_out_value(out, members[2], sp_json_get(item, members[2]));
    sp_json_out_put(out, custom ? "}}}" : "}}");
    return SP_OK;
}

/* Writes one message from consecutive items of the assistant: reasoning, content, calls. */
static enum sp_status write_answer(struct input *in, struct sp_err *err)
{
    struct sp_strbuf reasoning = {0}, content = {0};
    enum sp_status st = SP_OK;

    for (; !st && is_of(next(in), "reasoning"); in->at++)
        st = append_reasoning(&reasoning, next(in), err);
    if (!st && has_role(next(in), "assistant")) {
        st = append(&content, sp_json_get(next(in), "content"), err);
        in->at++;
    }
    sp_json_out_put(in->out, "{role:'assistant'");
    write_text(in->out, "content", &content);
    write_text(in->out, "reasoning_content", &reasoning);
    sp_json_out_begin(in->out, "tool_calls", '[');
    for (; !st && is_call(next(in)); in->at++)
        st = write_call(in->out, next(in), err);
    sp_json_out_put(in->out, "]}");
    sp_strbuf_release(&reasoning);
    sp_strbuf_release(&content);
    return st;
}

/* ---- items ---- */

static enum sp_status write_item(struct input *in, struct sp_err *err)
{
    const struct sp_json *item = next(in);
    const char *type = type_of(item);

    if (sp_json_kind(item) != SP_JSON_OBJECT) return sp_fail(err, SP_E_INPUT, "is not an object");
    if (type == NULL) return sp_fail(err, SP_E_INPUT, "has neither a type nor a role");
    if (is_of(item, "reasoning") || is_call(item) || has_role(item, "assistant"))
        return write_answer(in, err);
    if (is_of(item, "message")) return write_input_message(in, err);
    if (is_of(item, "function_call_output") || is_of(item, "custom_tool_call_output"))
        return write_output(in, err);
    if (is_of(item, "additional_tools")) {
        sp_serve_request_leave_out(in->request, type);
        in->at++;
        return SP_OK;
    }
    return sp_fail(err, SP_E_UNSUPPORTED, "items of type %s are not supported", type);
}

/* Writes all items. If one is rejected, the error names its index: the last one that was taken or,
 * if none was, the next one. */
static enum sp_status write_items(struct input *in, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    while (!st && in->at < sp_json_len(in->items)) {
        size_t first = in->at;
        st = write_item(in, err);
        if (st) sp_context(err, "input[%zu]", in->at > first ? in->at - 1 : first);
    }
    return st;
}

static enum sp_status write_input(struct sp_json_out *out, struct sp_serve_request *request,
                                  struct sp_err *err)
{
    const struct sp_json *body = request->body, *input = sp_json_get(body, "input");
    struct input in = {.items = input, .out = out, .request = request};
    struct sp_strbuf text = {0};
    enum sp_status st = write_system(&in, err);

    if (st) return st;
    if (sp_json_kind(input) == SP_JSON_ARRAY && sp_json_len(input) > 0)
        return write_items(&in, err);
    if (sp_json_kind(input) != SP_JSON_STRING) {
        sp_serve_fault_set(&request->fault, input ? "invalid_type" : "missing_required_parameter",
                           "input");
        return sp_serve_wrong("input", input, "a string or an array of items", err);
    }
    if (!(st = append(&text, input, err))) write_message(out, "user", &text);
    sp_strbuf_release(&text);
    return st;
}

enum sp_status sp_serve_responses_read_input(struct sp_json **messages,
                                             struct sp_serve_request *request, struct sp_err *err)
{
    struct sp_json_out out = {0};
    enum sp_status st;

    sp_json_out_begin(&out, NULL, '[');
    st = write_input(&out, request, err);
    sp_json_out_end(&out, ']');
    return sp_json_out_parse(messages, &out, st, err);
}

bool sp_serve_responses_includes(const struct sp_json *body, const char *name)
{
    const struct sp_json *include = sp_json_get(body, "include");

    for (size_t i = 0; i < sp_json_len(include); i++) {
        const char *text = sp_json_to_string(sp_json_at(include, i), NULL);
        if (text && strcmp(text, name) == 0) return true;
    }
    return false;
}

/* ---- tools ---- */

/* Writes a function; other tools cannot be offered. */
static enum sp_status write_tool(struct sp_json_out *out, struct sp_serve_request *request,
                                 const struct sp_json *tool, struct sp_err *err)
{
    static const char *const members[] = {"name", "description", "parameters", "strict"};
    const char *type = sp_json_get_text(tool, "type");

    if (type == NULL) return sp_fail(err, SP_E_INPUT, "has no type");
    if (strcmp(type, "function") != 0) {
        sp_serve_request_leave_out(request, type);
        return SP_OK;
    }
    if (sp_json_get_text(tool, "name") == NULL) return sp_fail(err, SP_E_INPUT, "has no name");
    sp_json_out_put(out, "{type:'function', function:{");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct sp_json *value = sp_json_get(tool, members[i]);
        if (value != NULL) sp_json_out_value(out, members[i], value);
    }
    sp_json_out_put(out, "}}");
    return SP_OK;
}

enum sp_status sp_serve_responses_read_tools(const struct sp_serve_member *m, struct sp_err *err)
{
    return sp_serve_read_tools(m->request, write_tool, err);
}

/* ---- the whole request ---- */

/* All of the reasoning is sent as a summary that is requested. */
static enum sp_status read_summary(const struct sp_serve_member *m, struct sp_err *err)
{
    const char *text = sp_json_get_text(m->value, "summary");

    if (sp_json_get(m->value, "summary") == NULL) return SP_OK;
    if (text && (strcmp(text, "auto") == 0 || strcmp(text, "detailed") == 0)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "reasoning.summary: expected \"auto\" or \"detailed\"");
}

static enum sp_status read_include(const struct sp_serve_member *m, struct sp_err *err)
{
    static const char logprobs[] = "message.output_text.logprobs",
                      reasoning[] = "reasoning.encrypted_content";

    for (size_t i = 0; i < sp_json_len(m->value); i++) {
        const char *name = sp_json_to_string(sp_json_at(m->value, i), NULL);
        if (name && (strcmp(name, logprobs) == 0 || strcmp(name, reasoning) == 0)) continue;
        return sp_fail(err, SP_E_UNSUPPORTED, "include[%zu]: expected %s or %s", i, logprobs,
                       reasoning);
    }
    m->request->logprobs = sp_serve_responses_includes(m->object, logprobs);
    return SP_OK;
}

static enum sp_status read_messages(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_json *messages = NULL;
    enum sp_status st = sp_serve_responses_read_input(&messages, m->request, err);

    if (!st) st = sp_serve_read_messages(m->request, messages, err);
    sp_json_free(messages);
    return st;
}

static const char kept[] = "responses are not stored: send the whole conversation in input",
                  whole[] = "not supported: a conversation is never truncated";

static const struct sp_serve_field reasoning_fields[] = {
    {"generate_summary", .why = "deprecated, use summary"},
    {"context", .harmless = "\"auto\"", .why = "not supported: the chat template decides"},
    {"mode", .harmless = "\"standard\"", .why = "other modes are not supported"},
    {"effort", .read = sp_serve_openai_read_effort},
    {.key = NULL},
};

static const struct sp_serve_field text_fields[] = {
    {"verbosity", .harmless = "\"medium\"", .why = "not supported"},
    {.key = NULL},
};

static void write_reasoning(struct sp_serve_response *r, const struct sp_serve_field *field,
                            const struct sp_json *value)
{
    (void)field;
    sp_json_out_put(&r->out, "reasoning:{effort:%s, summary:%s}",
                    sp_json_to_string(sp_json_get(value, "effort"), NULL),
                    sp_json_to_string(sp_json_get(value, "summary"), NULL));
}

static void write_text_format(struct sp_serve_response *r, const struct sp_serve_field *field,
                              const struct sp_json *value)
{
    const struct sp_json *format = sp_json_get(value, "format");

    sp_json_out_begin(&r->out, field->key, '{');
    if (format)
        sp_json_out_value(&r->out, "format", format);
    else
        sp_json_out_put(&r->out, "format:{type:'text'}");
    sp_json_out_put(&r->out, "verbosity:'medium'}");
}

/* Writes the value in effect. */
static void write_setting(struct sp_serve_response *r, const struct sp_serve_field *field,
                          const struct sp_json *value)
{
    (void)value;
    sp_settings_sampling_to_json(&r->out, &r->request->settings, field->key);
}

/* A member that the response repeats, and JSON in its place. */
#define REPEATED(json) .write = sp_serve_repeat, .otherwise = (json)

/* What a response repeats stands in its order at the end. */
const struct sp_serve_field sp_serve_responses_fields[] = {
    {.read = sp_serve_check_template},
    {.names = "prompt_cache_retention service_tier store stream_options"},
    {"conversation", .why = kept},
    {"prompt", .why = "stored prompts are not supported"},
    {"background", .harmless = "false", .why = "background responses are not supported"},
    {"context_management", .harmless = "[]", .why = whole},
    {"moderation", .why = "moderation is not supported"},
    {.read = sp_serve_read_sampling},
    {"chat_template_kwargs", SP_JSON_OBJECT, SP_SERVE_AT(kwargs)},
    {"reasoning", SP_JSON_OBJECT, .members = reasoning_fields},
    {"text", SP_JSON_OBJECT, .members = text_fields},
    {"include", SP_JSON_ARRAY, .read = read_include},
    {"tools", .read = sp_serve_responses_read_tools},
    {"instructions", REPEATED("null")},
    {"max_output_tokens", .read = sp_serve_openai_read_limit, .parameter = "num_predict",
     REPEATED("null")},
    {"max_tool_calls", SP_JSON_INT, .min = 1, .max = INT32_MAX, REPEATED("null")},
    {"metadata", SP_JSON_OBJECT, REPEATED("{}")},
    {"parallel_tool_calls", REPEATED("true")},
    {"previous_response_id", .why = kept, REPEATED("null")},
    {"prompt_cache_key", SP_JSON_STRING, REPEATED("null")},
    {"reasoning", .read = read_summary, .write = write_reasoning, .otherwise = "{}"},
    {"safety_identifier", SP_JSON_STRING, REPEATED("null")},
    {"temperature", .write = write_setting, .otherwise = "0"},
    {"text", .read = sp_serve_responses_read_response_format, .write = write_text_format,
     .otherwise = "{}"},
    {"tool_choice", .read = sp_serve_openai_read_tool_choice, .always = true, REPEATED("\"auto\"")},
    {"tools", REPEATED("[]")},
    {"top_logprobs", SP_JSON_INT, SP_SERVE_AT(n_top), .max = SP_SERVE_MAX_TOP,
     .read = sp_serve_check_top, .why = "message.output_text.logprobs in include", REPEATED("0")},
    {"top_p", .write = write_setting, .otherwise = "1"},
    {"truncation", .harmless = "\"disabled\"", .why = whole, REPEATED("\"disabled\"")},
    {"user", SP_JSON_STRING, REPEATED("null")},
    {"input", .read = read_messages, .always = true},
    {.key = NULL},
};
