#include "cli/serve/request/serve_request.h"
#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/json/json_write.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sp_serve_fault_set(struct sp_serve_fault *fault, const char *code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(fault->param, sizeof fault->param, format, args);
    va_end(args);
    fault->code = code;
}

void sp_serve_request_change(struct sp_serve_request *request, const char *format, ...)
{
    static const char more[] = ", ...";
    size_t len = strlen(request->changes), left = sizeof request->changes - sizeof more - len;
    int n = 0;
    va_list args;

    if (len > strlen(more) && strcmp(request->changes + len - strlen(more), more) == 0) return;
    if (len > 0) n = snprintf(request->changes + len, left, ", ");
    va_start(args, format);
    if ((size_t)n < left)
        n += vsnprintf(request->changes + len + n, left - (size_t)n, format, args);
    va_end(args);
    if ((size_t)n >= left) memcpy(request->changes + len, more, sizeof more);
}

void sp_serve_request_leave_out(struct sp_serve_request *request, const char *type)
{
    sp_serve_request_change(request, "tool %.40s left out", type);
}

void sp_serve_request_release(struct sp_serve_request *request)
{
    sp_settings_release(&request->settings);
    sp_template_close(request->template);
    sp_grammar_close(request->grammar);
    sp_strbuf_release(&request->partial);
    for (size_t i = 0; i < request->n_prompts; i++)
        sp_ids_release(&request->prompts[i].ids);
    free(request->prompts);
    sp_json_free(request->messages);
    sp_json_free(request->own_tools);
    sp_json_free(request->body);
    *request = (struct sp_serve_request){0};
}

size_t sp_serve_request_n_each(const struct sp_serve_request *request)
{
    return request->n_each ? (size_t)request->n_each : 1;
}

size_t sp_serve_request_n_answers(const struct sp_serve_request *request)
{
    return (request->n_prompts ? request->n_prompts : 1) * sp_serve_request_n_each(request);
}

enum sp_status sp_serve_request_take_prompts(struct sp_serve_request *request, size_t n,
                                             struct sp_err *err)
{
    enum sp_status st = sp_new(&request->prompts, n, sizeof *request->prompts, err);

    if (!st) request->n_prompts = n;
    return st;
}

enum sp_status sp_serve_request_take_text(struct sp_serve_request *request,
                                          const struct sp_json *text, struct sp_err *err)
{
    enum sp_status st = sp_serve_request_take_prompts(request, 1, err);

    if (!st) request->prompts[0].text = sp_json_to_string(text, &request->prompts[0].size);
    return st;
}

bool sp_serve_leave_out_reasoning(struct sp_serve_request *request, const char *key)
{
    if (!sp_serve_lacks_reasoning(request)) return false;
    request->is_think_set = request->think = false;
    request->think_level = NULL;
    sp_serve_request_change(request, "%s left out", key);
    return true;
}

bool sp_serve_lacks_reasoning(const struct sp_serve_request *request)
{
    return request->think && request->template == NULL &&
           !request->conversation->chat_info.has_reasoning;
}

enum sp_status sp_serve_set_think_level(struct sp_serve_request *request, const char *key,
                                        const char *level, struct sp_err *err)
{
    if (!sp_is_among(level, "none minimal low medium high xhigh max")) {
        sp_serve_fault_set(&request->fault, "invalid_value", "%s", key);
        return sp_fail(err, SP_E_INPUT,
                       "%s is %.40s, expected none, minimal, low, medium, high, xhigh or max", key,
                       *level ? level : "empty");
    }
    request->is_think_set = true;
    request->think = strcmp(level, "none") != 0;
    request->think_level = request->think ? level : NULL;
    return SP_OK;
}

enum sp_status sp_serve_wrong(const char *key, const struct sp_json *value, const char *expected,
                              struct sp_err *err)
{
    /* An array in the place of an array is empty. */
    const bool is_empty = sp_json_kind(value) == SP_JSON_ARRAY && strstr(expected, "array");

    return sp_fail(err, SP_E_INPUT, "%s is %s, expected %s", key,
                   is_empty ? "empty"
                   : value  ? sp_json_kind_name(sp_json_kind(value))
                            : "missing",
                   expected);
}

enum sp_status sp_serve_read_kind(const struct sp_json **out, const struct sp_json *object,
                                  const char *key, enum sp_json_kind kind, struct sp_err *err)
{
    const struct sp_json *value = sp_json_get(object, key);

    if (value != NULL && sp_json_kind(value) != kind) {
        return sp_serve_wrong(key, value,
                              kind == SP_JSON_STRING  ? "a string"
                              : kind == SP_JSON_ARRAY ? "an array"
                                                      : "an object",
                              err);
    }
    *out = value;
    return SP_OK;
}

void sp_serve_read_hints(const struct sp_json *object, const char *keys)
{
    char key[32];

    for (size_t n; *keys; keys += n + (keys[n] == ' ')) {
        n = strcspn(keys, " ");
        snprintf(key, sizeof key, "%.*s", (int)n, keys);
        (void)sp_json_get(object, key);
    }
}

enum sp_status sp_serve_read_tools(struct sp_serve_request *request, sp_serve_tool_fn *write,
                                   struct sp_err *err)
{
    const struct sp_json *tools = NULL;
    struct sp_json_out out = {0};
    enum sp_status st = sp_serve_read_kind(&tools, request->body, "tools", SP_JSON_ARRAY, err);

    request->tools = NULL;
    if (st || sp_json_len(tools) == 0) return st;
    for (size_t i = 0; i < sp_json_len(tools); i++) {
        enum sp_json_kind kind = sp_json_kind(sp_json_at(tools, i));
        if (kind == SP_JSON_OBJECT) continue;
        return sp_fail(err, SP_E_INPUT, "tools[%zu] is %s, expected an object", i,
                       sp_json_kind_name(kind));
    }
    sp_json_out_begin(&out, NULL, '[');
    for (size_t i = 0; i < sp_json_len(tools) && !st; i++)
        if ((st = write(&out, request, sp_json_at(tools, i), err)))
            sp_context(err, "tools[%zu]", i);
    sp_json_out_end(&out, ']');
    if ((st = sp_json_out_parse(&request->own_tools, &out, st, err))) return st;
    request->tools = sp_json_len(request->own_tools) > 0 ? request->own_tools : NULL;
    return SP_OK;
}

static enum sp_status write_function(struct sp_json_out *out, struct sp_serve_request *request,
                                     const struct sp_json *tool, struct sp_err *err)
{
    const char *type = sp_json_get_text(tool, "type");

    if (type && strcmp(type, "function") != 0)
        sp_serve_request_leave_out(request, type);
    else if (sp_serve_filled(sp_json_get(tool, "function"), "name") == NULL)
        return sp_fail(err, SP_E_INPUT, "function.name is missing");
    else
        sp_json_out_value(out, NULL, tool);
    return SP_OK;
}

enum sp_status sp_serve_read_functions(const struct sp_serve_member *m, struct sp_err *err)
{
    return sp_serve_read_tools(m->request, write_function, err);
}

enum sp_status sp_serve_read_keep_alive(double *seconds, const struct sp_json *body,
                                        struct sp_err *err)
{
    const struct sp_json *value = sp_json_get(body, "keep_alive");
    const char *text = sp_json_to_string(value, NULL);

    if (value == NULL || (text && sp_duration_read(seconds, text))) return SP_OK;
    if (sp_json_to_double(value, seconds) && *seconds <= SP_DURATION_MAX) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "keep_alive: expected seconds or a duration such as \"5m\"");
}
