/* Reads which tools a client wants called. OpenAI's members are tool_choice, parallel_tool_calls
 * and strict: https://platform.openai.com/docs/api-reference/chat/create */
#include "cli/serve/request/serve_request.h"
#include "format/json/json_write.h"

#include <string.h>

static const struct sp_json *function_of(const struct sp_json *tool)
{
    const struct sp_json *function = sp_json_get(tool, "function");

    return function ? function : tool;
}

static enum sp_status read_strict(struct sp_serve_request *request, struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; i < sp_json_len(request->tools); i++) {
        bool strict = false;
        if ((st = sp_json_get_bool(function_of(sp_json_at(request->tools, i)), "strict", &strict,
                                   err))) {
            sp_context(err, "tools[%zu]", i);
            return st;
        }
        request->constrain_calls = request->constrain_calls || strict;
    }
    return SP_OK;
}

static enum sp_status find_function(struct sp_serve_request *request, const char *name,
                                    struct sp_err *err)
{
    for (size_t i = 0; i < sp_json_len(request->tools); i++) {
        const struct sp_json *function = function_of(sp_json_at(request->tools, i));
        const char *value = sp_json_to_string(sp_json_get(function, "name"), NULL);
        if (value && strcmp(value, name) == 0) request->function = name;
    }
    if (request->function) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "tool_choice: there is no tool named %s", name);
}

enum sp_status sp_serve_apply_tool_choice(struct sp_serve_request *request,
                                          const struct sp_serve_tool_choice *choice,
                                          struct sp_err *err)
{
    enum sp_status st;

    request->must_call = choice->must;
    request->one_call = choice->one || choice->function;
    if (choice->none) request->tools = NULL;
    if (choice->function && (st = find_function(request, choice->function, err))) return st;
    if (choice->must && request->tools == NULL)
        return sp_fail(err, SP_E_INPUT, "tool_choice: the request has no tools");
    request->constrain_calls = choice->must;
    return read_strict(request, err);
}

/* Reads a tool choice: a string, {"type": "function", "function": {"name": ...}}, or both. */
static enum sp_status read_choice(struct sp_serve_tool_choice *choice, const struct sp_json *json,
                                  struct sp_err *err)
{
    const char *text = sp_json_to_string(json, NULL);
    const char *type = sp_json_to_string(sp_json_get(json, "type"), NULL);
    const char *name = sp_json_to_string(sp_json_get(function_of(json), "name"), NULL);

    if (json == NULL || (text && strcmp(text, "auto") == 0)) return SP_OK;
    if (text && strcmp(text, "none") == 0) {
        choice->none = true;
    } else if (text && strcmp(text, "required") == 0) {
        choice->must = true;
    } else if (type && strcmp(type, "function") == 0 && name) {
        choice->must = true;
        choice->function = name;
    } else {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "tool_choice: expected \"auto\", \"none\", \"required\", or an object of "
                       "type \"function\" that names one, or of type \"allowed_tools\"");
    }
    return SP_OK;
}

/* True if one of the tools has the name of this one. */
static bool is_among(const struct sp_json *tools, const struct sp_json *tool)
{
    const char *name = sp_json_get_text(function_of(tool), "name");

    for (size_t i = 0; i < sp_json_len(tools); i++) {
        const char *other = sp_json_get_text(function_of(sp_json_at(tools, i)), "name");
        if (name && other && strcmp(name, other) == 0) return true;
    }
    return false;
}

/* Leaves the request those of its functions that are allowed; it has no other tools. */
static enum sp_status keep_allowed(struct sp_serve_request *request, const struct sp_json *allowed,
                                   struct sp_err *err)
{
    struct sp_json_out out = {0};
    struct sp_json *kept = NULL;
    enum sp_status st;

    for (size_t i = 0; i < sp_json_len(allowed); i++) {
        const struct sp_json *tool = sp_json_at(allowed, i);
        const char *type = sp_json_get_text(tool, "type");
        const char *name = sp_json_get_text(function_of(tool), "name");
        if (type && strcmp(type, "function") != 0) continue;
        if (is_among(request->tools, tool)) continue;
        return sp_fail(err, SP_E_INPUT, "tool_choice: there is no tool named %.200s",
                       name ? name : "(missing)");
    }
    sp_json_out_begin(&out, NULL, '[');
    for (size_t i = 0; i < sp_json_len(request->tools); i++) {
        const struct sp_json *tool = sp_json_at(request->tools, i);
        if (is_among(allowed, tool)) sp_json_out_value(&out, NULL, tool);
    }
    sp_json_out_end(&out, ']');
    if ((st = sp_json_out_parse(&kept, &out, SP_OK, err))) return st;
    sp_json_free(request->own_tools);
    request->own_tools = kept;
    request->tools = sp_json_len(request->own_tools) > 0 ? request->own_tools : NULL;
    return SP_OK;
}

/* Reads {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}, or the Responses
 * API's {"type": "allowed_tools", "mode": ..., "tools": [...]}; *json becomes the mode. Other
 * choices stay as they are. */
static enum sp_status read_allowed(struct sp_serve_request *request, const struct sp_json **json,
                                   struct sp_err *err)
{
    const char *type = sp_json_get_text(*json, "type");
    const struct sp_json *choice, *tools;

    if (type == NULL || strcmp(type, "allowed_tools") != 0) return SP_OK;
    choice = sp_json_get(*json, "allowed_tools");
    if (choice == NULL) choice = *json;
    tools = sp_json_get(choice, "tools");
    if (sp_json_kind(tools) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "tool_choice: allowed_tools has no array tools");
    *json = sp_json_get(choice, "mode");
    return keep_allowed(request, tools, err);
}

enum sp_status sp_serve_openai_read_tool_choice(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_tool_choice choice = {.none = false};
    const struct sp_json *json = m->value;
    bool parallel = true;
    enum sp_status st;

    if ((st = sp_json_get_bool(m->object, "parallel_tool_calls", &parallel, err))) return st;
    if ((st = read_allowed(m->request, &json, err))) return st;
    if ((st = read_choice(&choice, json, err))) return st;
    choice.one = !parallel;
    return sp_serve_apply_tool_choice(m->request, &choice, err);
}
