/* Converts the tools of the Responses API, whose functions have their members beside the type, to
 * the format that chat templates take. */
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/request/serve_request.h"

#include <string.h>

/* *name = the name of a tool; NULL: it is no function, and cannot be offered. */
static enum sp_status read_name(const char **name, const struct sp_json *tool, struct sp_err *err)
{
    const char *type = sp_json_get_text(tool, "type");

    *name = NULL;
    if (type == NULL) return sp_fail(err, SP_E_INPUT, "has no type");
    if (strcmp(type, "function") != 0) return SP_OK;
    if ((*name = sp_json_get_text(tool, "name")) == NULL)
        return sp_fail(err, SP_E_INPUT, "has no name");
    return SP_OK;
}

/* True if one of the tools has this name. */
static bool is_among(const struct sp_json *tools, const char *name)
{
    for (size_t i = 0; i < sp_json_len(tools); i++) {
        const char *value = sp_json_get_text(sp_json_at(tools, i), "name");
        if (value && strcmp(value, name) == 0) return true;
    }
    return false;
}

/* Checks that the allowed tools are functions of the request. */
static enum sp_status check_allowed(const struct sp_json *allowed, const struct sp_json *tools,
                                    struct sp_err *err)
{
    enum sp_status st;

    if (sp_json_kind(allowed) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "tool_choice: allowed_tools has no array tools");
    for (size_t i = 0; i < sp_json_len(allowed); i++) {
        const char *name;
        if ((st = read_name(&name, sp_json_at(allowed, i), err))) {
            sp_context(err, "tool_choice: tools[%zu]", i);
            return st;
        }
        if (name && !is_among(tools, name))
            return sp_fail(err, SP_E_INPUT, "tool_choice: there is no tool named %s", name);
    }
    return SP_OK;
}

static void write_tool(struct sp_json_out *out, const struct sp_json *tool)
{
    static const char *const members[] = {"name", "description", "parameters", "strict"};

    sp_json_out_put(out, "{type:'function', function:{");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct sp_json *value = sp_json_get(tool, members[i]);
        if (value != NULL) sp_json_out_value(out, members[i], value);
    }
    sp_json_out_put(out, "}}");
}

/* Writes the functions that are allowed; allowed NULL: all of them. */
static enum sp_status write_tools(struct sp_json_out *out, struct sp_serve_request *request,
                                  const struct sp_json *allowed, struct sp_err *err)
{
    const struct sp_json *tools = request->tools;
    enum sp_status st = SP_OK;

    sp_json_out_begin(out, NULL, '[');
    for (size_t i = 0; i < sp_json_len(tools) && !st; i++) {
        const struct sp_json *tool = sp_json_at(tools, i);
        const char *name = NULL;
        if ((st = read_name(&name, tool, err)))
            sp_context(err, "tools[%zu]", i);
        else if (name == NULL)
            sp_serve_request_leave_out(request, sp_json_get_text(tool, "type"));
        else if (allowed == NULL || is_among(allowed, name))
            write_tool(out, tool);
    }
    sp_json_out_end(out, ']');
    return st;
}

enum sp_status sp_serve_responses_read_tools(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *choice = sp_json_get(request->body, "tool_choice"), *allowed = NULL;
    const char *type = sp_json_get_text(choice, "type");
    struct sp_json_out out = {0};
    enum sp_status st;

    if ((st = sp_serve_read_tools(request, err))) return st;
    if (type && strcmp(type, "allowed_tools") == 0) {
        allowed = sp_json_get(choice, "tools");
        if ((st = check_allowed(allowed, request->tools, err))) return st;
        choice = sp_json_get(choice, "mode");
    }
    if (request->tools != NULL) {
        st = write_tools(&out, request, allowed, err);
        if ((st = sp_json_out_parse(&request->own_tools, &out, st, err))) return st;
        request->tools = sp_json_len(request->own_tools) > 0 ? request->own_tools : NULL;
    }
    return sp_serve_openai_read_tool_choice(request, choice, err);
}
