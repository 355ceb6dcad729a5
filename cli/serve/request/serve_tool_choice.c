/* Reads which tools a client wants called. OpenAI's members are tool_choice, parallel_tool_calls
 * and strict: https://platform.openai.com/docs/api-reference/chat/create */
#include "cli/serve/request/serve_tool_choice.h"
#include "cli/serve/request/serve_request.h"

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
    if (choice->must && request->tools == NULL) {
        return sp_fail(err, SP_E_INPUT, "tool_choice: the request has no tools");
    }
    request->constrain_calls = choice->must;
    return read_strict(request, err);
}

/* Reads a tool choice: a string, {"type": "function", "function": {"name": ...}}, or the name
 * beside the type. */
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
                       "type \"function\" that names one");
    }
    return SP_OK;
}

enum sp_status sp_serve_openai_read_tool_choice(struct sp_serve_request *request,
                                                const struct sp_json *json, struct sp_err *err)
{
    struct sp_serve_tool_choice choice = {.none = false};
    bool parallel = true;
    enum sp_status st;

    if ((st = sp_json_get_bool(request->body, "parallel_tool_calls", &parallel, err)) ||
        (st = read_choice(&choice, json, err))) {
        return st;
    }
    choice.one = !parallel;
    return sp_serve_apply_tool_choice(request, &choice, err);
}
