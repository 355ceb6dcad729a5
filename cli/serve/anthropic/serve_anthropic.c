#include "cli/serve/anthropic/serve_anthropic.h"
#include "cli/serve/request/serve_request.h"
#include "format/base/affix.h"

#include <inttypes.h>
#include <string.h>

static const struct sp_request_setting settings[] = {
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"top_k", "top_k"},
    {"max_tokens", "num_predict"},
    {"seed", "seed"}, /* an extension: the API has no seed */
    {NULL, NULL},
};

static const char no_servers[] = "MCP servers are not supported";

static const struct sp_serve_refusal refusals[] = {
    {"mcp_servers", "[]", no_servers},
    {"container", NULL, "code execution is not supported"},
    {"compaction", NULL, "compaction is not supported"},
    {"fallbacks", "[]", "not supported: another model never answers instead"},
    {NULL, NULL, NULL},
};

static const struct sp_serve_refusal thread_refusal[] = {
    {"thread", NULL, "conversations are not stored"},
    {NULL, NULL, NULL},
};

static const struct sp_serve_refusal tool_refusals[] = {
    {"defer_loading", "false", "tools are always sent to the model"},
    {"allowed_callers", "[\"direct\"]", "only direct calls are supported"},
    {NULL, NULL, NULL},
};

static enum sp_status expected(const char *name, const struct sp_json *value, const char *what,
                               struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "%s is %s, expected %s", name,
                   value ? sp_json_kind_name(sp_json_kind(value)) : "missing", what);
}

/* ---- reasoning ---- */

static const char budget_key[] = "budget_tokens";

/* Reads the most tokens of reasoning. */
static enum sp_status read_budget(struct sp_serve_request *request, const struct sp_json *thinking,
                                  const char *type, struct sp_err *err)
{
    const struct sp_json *budget = sp_json_get(thinking, budget_key);
    int64_t n = 0;
    enum sp_status st;

    if (budget == NULL) return SP_OK;
    if (strcmp(type, "enabled") != 0)
        return sp_fail(err, SP_E_INPUT, "thinking.budget_tokens requires \"type\": \"enabled\"");
    if (sp_json_to_i64(budget, &n) && n < 1) {
        return sp_fail(err, SP_E_INPUT, "thinking.budget_tokens is %" PRId64 ", expected 1 or more",
                       n);
    }
    if (!request->is_think_set) return SP_OK;
    st = sp_serve_read_reasoning_budget(request, thinking, budget_key, err);
    if (st) sp_context(err, "thinking");
    return st;
}

/* Reads whether the model reasons, for how long, and if reasoning is shown as it is or omitted.
 */
static enum sp_status read_thinking(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *thinking = sp_json_get(request->body, "thinking");
    const char *type = sp_json_get_text(thinking, "type"), *display = NULL;
    enum sp_status st;

    if (thinking == NULL) return SP_OK;
    if (type == NULL)
        return expected("thinking.type", sp_json_get(thinking, "type"), "a text", err);
    request->is_think_set = true;
    request->think = strcmp(type, "disabled") != 0;
    if (request->think && strcmp(type, "enabled") != 0 && strcmp(type, "adaptive") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "thinking.type is %s, expected enabled, adaptive or disabled", type);
    }
    (void)sp_serve_leave_out_reasoning(request, "thinking");
    if ((st = read_budget(request, thinking, type, err))) return st;
    if ((st = sp_json_get_string(thinking, "display", &display, err))) {
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
static enum sp_status read_effort(struct sp_serve_request *request, const struct sp_json *config,
                                  struct sp_err *err)
{
    const struct sp_json *effort = sp_json_get(config, "effort");
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
static enum sp_status read_edits(const struct sp_json *body, struct sp_err *err)
{
    const struct sp_json *management = NULL, *edits;
    enum sp_status st =
        sp_serve_read_kind(&management, body, "context_management", SP_JSON_OBJECT, err);

    if (st) return st;
    edits = sp_json_get(management, "edits");
    if (edits != NULL && sp_json_kind(edits) != SP_JSON_ARRAY)
        return expected("context_management.edits", edits, "an array", err);
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
        return expected("input_schema", schema, "an object", err);
    if ((st = sp_serve_refuse(tool, tool_refusals, err))) return st;
    sp_json_out_put(out, "{type:'function', function:{name:%s", name);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const struct sp_json *value = sp_json_get(tool, kept[i]);
        if (value != NULL) sp_json_out_value(out, kept[i], value);
    }
    sp_json_out_value(out, "parameters", schema);
    sp_json_out_put(out, "}}");
    return SP_OK;
}

static enum sp_status read_choice(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *json = sp_json_get(request->body, "tool_choice");
    const char *type = sp_json_get_text(json, "type");
    struct sp_serve_tool_choice choice = {.none = false};
    enum sp_status st;

    if ((st = sp_json_get_bool(json, "disable_parallel_tool_use", &choice.one, err))) {
        sp_context(err, "tool_choice");
        return st;
    }
    if (type && strcmp(type, "none") == 0) {
        choice.none = true;
    } else if (type && strcmp(type, "any") == 0) {
        choice.must = true;
    } else if (type && strcmp(type, "tool") == 0) {
        choice.must = true;
        choice.function = sp_json_get_text(json, "name");
        if (choice.function == NULL) return sp_fail(err, SP_E_INPUT, "tool_choice.name is missing");
    } else if (json != NULL && (type == NULL || strcmp(type, "auto") != 0)) {
        return sp_fail(err, SP_E_INPUT, "tool_choice.type: expected auto, any, tool or none");
    }
    return sp_serve_apply_tool_choice(request, &choice, err);
}

/* ---- requests ---- */

enum sp_status sp_serve_anthropic_read_prompt(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *config = NULL;
    enum sp_status st;

    sp_serve_read_hints(request->body, "cache_control inference_geo metadata service_tier speed");
    if ((st = sp_serve_model_check_template(request->model, err)) ||
        (st = sp_serve_refuse(request->body, refusals, err)) ||
        (st = read_edits(request->body, err)) || (st = read_thinking(request, err)) ||
        (st = sp_serve_read_kind(&config, request->body, "output_config", SP_JSON_OBJECT, err)) ||
        (st = read_effort(request, config, err)) ||
        (st = sp_serve_anthropic_read_response_format(request, err)) ||
        (st = sp_serve_read_tools(request, write_tool, err)) || (st = read_choice(request, err)) ||
        (st = sp_serve_anthropic_read_messages(request, err)))
        return st;
    if (request->partial.len == 0) return SP_OK;
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

enum sp_status sp_serve_anthropic_read(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *max = sp_json_get(request->body, "max_tokens");
    const struct sp_json *stops = sp_json_get(request->body, "stop_sequences");
    int64_t n = 1;
    enum sp_status st;

    if ((st = sp_serve_refuse(request->body, thread_refusal, err))) return st;
    if (max == NULL) return expected("max_tokens", max, "a number", err);
    if (sp_json_to_i64(max, &n) && n < 1)
        return sp_fail(err, SP_E_INPUT, "max_tokens is %" PRId64 ", expected 1 or more", n);
    if ((st = sp_request_settings_read(&request->settings, request->body, settings, err)))
        return st;
    if ((st = sp_json_get_bool(request->body, "stream", &request->stream, err))) return st;
    if (stops != NULL && sp_json_kind(stops) != SP_JSON_ARRAY)
        return expected("stop_sequences", stops, "an array", err);
    if ((st = sp_request_settings_read_stops(&request->settings, stops, err))) {
        sp_context(err, "stop_sequences");
        return st;
    }
    return sp_serve_anthropic_read_prompt(request, err);
}
