#include "cli/serve/anthropic/serve_anthropic.h"
#include "cli/serve/request/serve_request.h"
#include "format/base/affix.h"

#include <inttypes.h>
#include <string.h>

/* ---- reasoning ---- */

/* Reads the most tokens of reasoning. */
static enum sp_status read_budget(const struct sp_serve_member *thinking, const char *type,
                                  struct sp_err *err)
{
    static const struct sp_serve_field field = {.key = "budget_tokens"};
    const struct sp_serve_member budget = {thinking->request, thinking->value,
                                           sp_json_get(thinking->value, field.key), &field};
    int64_t n = 0;
    enum sp_status st;

    if (budget.value == NULL) return SP_OK;
    if (strcmp(type, "enabled") != 0)
        return sp_fail(err, SP_E_INPUT, "thinking.budget_tokens requires \"type\": \"enabled\"");
    if (sp_json_to_i64(budget.value, &n) && n < 1) {
        return sp_fail(err, SP_E_INPUT, "thinking.budget_tokens is %" PRId64 ", expected 1 or more",
                       n);
    }
    if (!thinking->request->is_think_set) return SP_OK;
    if ((st = sp_serve_read_reasoning_budget(&budget, err))) sp_context(err, "thinking");
    return st;
}

/* Reads whether the model reasons, for how long, and whether reasoning is shown or omitted. */
static enum sp_status read_thinking(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_request *request = m->request;
    const char *type = sp_json_get_text(m->value, "type"), *display = NULL;
    enum sp_status st;

    if (type == NULL)
        return sp_serve_wrong("thinking.type", sp_json_get(m->value, "type"), "a text", err);
    request->is_think_set = true;
    request->think = strcmp(type, "disabled") != 0;
    if (request->think && strcmp(type, "enabled") != 0 && strcmp(type, "adaptive") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "thinking.type is %s, expected enabled, adaptive or disabled", type);
    }
    (void)sp_serve_leave_out_reasoning(request, "thinking");
    if ((st = read_budget(m, type, err))) return st;
    if ((st = sp_json_get_string(m->value, "display", &display, err))) {
        sp_context(err, "thinking");
        return st;
    }
    request->omit_reasoning = display && strcmp(display, "omitted") == 0;
    if (display == NULL || request->omit_reasoning || strcmp(display, "summarized") == 0)
        return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "thinking.display is %s, expected summarized or omitted",
                   display);
}

/* Reads the effort, which sets the level of reasoning without turning reasoning on. */
static enum sp_status read_effort(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_json *effort = sp_json_get(m->value, "effort");
    struct sp_serve_request *request = m->request;
    const char *level = sp_json_to_string(effort, NULL);

    if (effort == NULL) return SP_OK;
    if (level == NULL || !sp_is_among(level, "low medium high xhigh max")) {
        return sp_fail(err, SP_E_INPUT,
                       "output_config.effort is %.40s, expected low, medium, high, xhigh or max",
                       level ? level : sp_json_kind_name(sp_json_kind(effort)));
    }
    if (!request->conversation->chat_info.has_reasoning)
        sp_serve_request_change(request, "effort left out");
    else if (request->think || !request->is_think_set)
        request->think_level = level;
    return SP_OK;
}

/* Accepts edits that remove reasoning from earlier answers, since the chat template decides which
 * reasoning it keeps. Rejects every other edit of the conversation. */
static enum sp_status read_edits(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_json *edits = sp_json_get(m->value, "edits");

    if (edits != NULL && sp_json_kind(edits) != SP_JSON_ARRAY)
        return sp_serve_wrong("context_management.edits", edits, "an array", err);
    for (size_t i = 0; i < sp_json_len(edits); i++) {
        const char *type = sp_json_get_text(sp_json_at(edits, i), "type");
        if (type && strncmp(type, "clear_thinking", strlen("clear_thinking")) == 0) continue;
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "context_management: %s: only clear_thinking edits are supported",
                       type ? type : "an edit without a type");
    }
    return SP_OK;
}

/* ---- tools ---- */

static const struct sp_serve_field tool_fields[] = {
    {"defer_loading", .harmless = "false", .why = "tools are always sent to the model"},
    {"allowed_callers", .harmless = "[\"direct\"]", .why = "only direct calls are supported"},
    {.key = NULL},
};

/* Writes a tool in the format that chat templates take, unless its type is one of Anthropic's own,
 * which has no schema. */
static enum sp_status write_tool(struct sp_json_out *out, struct sp_serve_request *request,
                                 const struct sp_json *tool, struct sp_err *err)
{
    static const char *const kept[] = {"description", "strict", "input_examples"};
    const struct sp_json *schema = sp_json_get(tool, "input_schema");
    const char *type = sp_json_get_text(tool, "type"), *name = sp_json_get_text(tool, "name");
    enum sp_status st;

    if (type && strcmp(type, "custom") != 0) {
        sp_serve_request_leave_out(request, type);
        return SP_OK;
    }
    if (name == NULL || *name == '\0') return sp_fail(err, SP_E_INPUT, "missing name");
    if (sp_json_kind(schema) != SP_JSON_OBJECT)
        return sp_serve_wrong("input_schema", schema, "an object", err);
    if ((st = sp_serve_read_fields(request, tool, tool_fields, err))) return st;
    sp_json_out_put(out, "{type:'function', function:{name:%s", name);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const struct sp_json *value = sp_json_get(tool, kept[i]);
        if (value != NULL) sp_json_out_value(out, kept[i], value);
    }
    sp_json_out_value(out, "parameters", schema);
    sp_json_out_put(out, "}}");
    return SP_OK;
}

static enum sp_status read_tools(const struct sp_serve_member *m, struct sp_err *err)
{
    return sp_serve_read_tools(m->request, write_tool, err);
}

static enum sp_status read_choice(const struct sp_serve_member *m, struct sp_err *err)
{
    const char *type = sp_json_get_text(m->value, "type");
    struct sp_serve_tool_choice choice = {.none = false};
    enum sp_status st;

    if ((st = sp_json_get_bool(m->value, "disable_parallel_tool_use", &choice.one, err))) {
        sp_context(err, "tool_choice");
        return st;
    }
    if (type && strcmp(type, "none") == 0) {
        choice.none = true;
    } else if (type && strcmp(type, "any") == 0) {
        choice.must = true;
    } else if (type && strcmp(type, "tool") == 0) {
        choice.must = true;
        choice.function = sp_json_get_text(m->value, "name");
        if (choice.function == NULL) return sp_fail(err, SP_E_INPUT, "tool_choice.name is missing");
    } else if (m->value != NULL && (type == NULL || strcmp(type, "auto") != 0)) {
        return sp_fail(err, SP_E_INPUT, "tool_choice.type: expected auto, any, tool or none");
    }
    return sp_serve_apply_tool_choice(m->request, &choice, err);
}

/* ---- requests ---- */

static enum sp_status read_messages(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_request *request = m->request;
    enum sp_status st = sp_serve_anthropic_read_messages(request, err);

    if (st || request->partial.len == 0) return st;
    if (request->think) {
        return sp_fail(err, SP_E_INPUT,
                       "thinking cannot be combined with a partial answer as the last message");
    }
    if (request->grammar || request->must_call) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s cannot be combined with a partial answer as the last message",
                       request->grammar ? "output_config" : "tool_choice");
    }
    return SP_OK;
}

const struct sp_serve_field sp_serve_anthropic_prompt_fields[] = {
    {.read = sp_serve_check_template},
    {.names = "cache_control inference_geo metadata service_tier speed"},
    {"mcp_servers", .harmless = "[]", .why = "MCP servers are not supported"},
    {"container", .why = "code execution is not supported"},
    {"compaction", .why = "compaction is not supported"},
    {"fallbacks", .harmless = "[]", .why = "not supported: another model never answers instead"},
    {"context_management", SP_JSON_OBJECT, .read = read_edits},
    {"thinking", SP_JSON_OBJECT, .read = read_thinking},
    {"output_config", SP_JSON_OBJECT, .read = read_effort},
    {"output_config", .read = sp_serve_anthropic_read_response_format},
    {"output_format", .read = sp_serve_anthropic_read_response_format},
    {"tools", .read = read_tools},
    {"tool_choice", .read = read_choice, .always = true},
    {"messages", .read = read_messages, .always = true},
    {.key = NULL},
};

static enum sp_status read_max_tokens(const struct sp_serve_member *m, struct sp_err *err)
{
    int64_t n = 1;

    if (m->value == NULL) return sp_serve_wrong("max_tokens", m->value, "a number", err);
    if (sp_json_to_i64(m->value, &n) && n < 1)
        return sp_fail(err, SP_E_INPUT, "max_tokens is %" PRId64 ", expected 1 or more", n);
    return sp_serve_read_setting(m, err);
}

static enum sp_status read_stops(const struct sp_serve_member *m, struct sp_err *err)
{
    enum sp_status st;

    if (sp_json_kind(m->value) != SP_JSON_ARRAY)
        return sp_serve_wrong("stop_sequences", m->value, "an array", err);
    if ((st = sp_serve_read_stops(m, err))) sp_context(err, "stop_sequences");
    return st;
}

const struct sp_serve_field sp_serve_anthropic_fields[] = {
    {"thread", .why = "conversations are not stored"},
    {"max_tokens", .read = read_max_tokens, .always = true, .parameter = "num_predict"},
    {"temperature", .read = sp_serve_read_setting, .parameter = "temperature"},
    {"top_p", .read = sp_serve_read_setting, .parameter = "top_p"},
    {"top_k", .read = sp_serve_read_setting, .parameter = "top_k"},
    {"seed", .read = sp_serve_read_setting, .parameter = "seed"}, /* the API has no seed */
    {"stop_sequences", .read = read_stops},
    {.members = sp_serve_anthropic_prompt_fields},
    {.key = NULL},
};
