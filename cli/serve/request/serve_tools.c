#include "cli/serve/request/serve_request.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

static const char *id_of(const struct sp_serve_call_id *call)
{
    return call->id ? call->id : call->own_id;
}

const char *sp_serve_filled(const struct sp_json *object, const char *key)
{
    const char *text = sp_json_get_text(object, key);

    return text && *text ? text : NULL;
}

/* *out = the object that a text is, owned by the caller; NULL: it is none. Small texts become large
 * trees, so their memory is taken: of this one, and of that which the template gets. */
static enum sp_status parse_arguments(struct sp_json **out, const struct sp_serve_request *request,
                                      const char *text, size_t size, struct sp_err *err)
{
    struct sp_json *value = NULL;
    struct sp_err own = {0};
    size_t bytes;
    enum sp_status st;

    *out = NULL;
    if (sp_json_measure(&bytes, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, NULL)) return SP_OK;
    if (request->take_memory && (st = request->take_memory(request->memory, 2 * bytes, err)))
        return st;
    if (sp_json_parse(&value, text, size, SP_JSON_STRICT, &own)) {
        if (own.status != SP_E_NOMEM) return SP_OK;
        *err = own;
        return own.status;
    }
    if (sp_json_kind(value) == SP_JSON_OBJECT) {
        *out = value;
        value = NULL;
    }
    sp_json_free(value);
    return SP_OK;
}

/* Writes the arguments of a call as the chat template expects them, a JSON object or a string.
 * OpenAI's clients send them as a string, ollama's as an object. Arguments that are not an object
 * stay as they came. */
static enum sp_status write_arguments(struct sp_json_out *out, const struct sp_json *value,
                                      const struct sp_serve_call_ids *known, struct sp_err *err)
{
    const bool as_text = known->request->conversation->chat_info.text_arguments;
    enum sp_status st = SP_OK;
    struct sp_json *object = NULL;
    char *printed = NULL;
    size_t size;
    const char *text = sp_json_to_string(value, &size);

    if (as_text && sp_json_kind(value) == SP_JSON_OBJECT) {
        if ((st = sp_json_print(&printed, value, err))) return st;
        sp_json_out_text(out, "arguments", printed);
    } else {
        if (!as_text && text) st = parse_arguments(&object, known->request, text, size, err);
        if (!st) sp_json_out_value(out, "arguments", object ? object : value);
    }
    sp_json_free(object);
    free(printed);
    return st;
}

static enum sp_status write_function(struct sp_json_out *out, const struct sp_json *function,
                                     const struct sp_serve_call_ids *known, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_json_iter it = {0};

    sp_json_out_begin(out, "function", '{');
    while (!st && sp_json_next(function, &it))
        if (strcmp(it.key, "arguments") == 0)
            st = write_arguments(out, it.value, known, err);
        else
            sp_json_out_value(out, it.key, it.value);
    sp_json_out_end(out, '}');
    return st;
}

/* Writes the last call of those that are known. */
static enum sp_status write_call(struct sp_json_out *out, const struct sp_serve_call_ids *known,
                                 const struct sp_json *call, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_json_iter it = {0};

    sp_json_out_put(out, "{id:%s", id_of(&known->at[known->n - 1]));
    if (sp_serve_filled(call, "type") == NULL) sp_json_out_text(out, "type", "function");
    while (!st && sp_json_next(call, &it)) {
        if (strcmp(it.key, "id") == 0 || it.value == NULL) continue;
        if (strcmp(it.key, "function") == 0 && sp_json_kind(it.value) == SP_JSON_OBJECT)
            st = write_function(out, it.value, known, err);
        else
            sp_json_out_value(out, it.key, it.value);
    }
    sp_json_out_end(out, '}');
    return st;
}

static enum sp_status add_id(struct sp_serve_call_ids *known, const char *id, const char *name,
                             struct sp_err *err)
{
    struct sp_serve_call_id *k;
    enum sp_status st = sp_grow(&known->at, &known->cap, known->n + 1, sizeof *known->at, err);

    if (st) return st;
    k = &known->at[known->n];
    *k = (struct sp_serve_call_id){.id = id, .name = name};
    snprintf(k->own_id, sizeof k->own_id, "call%05u", (unsigned)(known->n % 100000));
    known->n++;
    return SP_OK;
}

/* Writes the one call of a message of OpenAI's API before it had tools. */
static enum sp_status write_function_call(struct sp_json_out *out, struct sp_serve_call_ids *known,
                                          const struct sp_json *function, struct sp_err *err)
{
    enum sp_status st;

    if (sp_json_kind(function) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "function_call: expected an object");
    if ((st = add_id(known, NULL, sp_serve_filled(function, "name"), err))) return st;
    sp_json_out_put(out, "tool_calls:[{id:%s, type:'function'", id_of(&known->at[known->n - 1]));
    st = write_function(out, function, known, err);
    sp_json_out_put(out, "}]");
    return st;
}

enum sp_status sp_serve_write_calls(struct sp_json_out *out, struct sp_serve_call_ids *known,
                                    const struct sp_json *message, struct sp_err *err)
{
    const struct sp_json *calls = sp_json_get(message, "tool_calls");
    const struct sp_json *legacy = sp_json_get(message, "function_call"), *function;
    enum sp_status st = SP_OK;

    if (calls == NULL && legacy) return write_function_call(out, known, legacy, err);
    if (calls == NULL || (sp_json_kind(calls) == SP_JSON_ARRAY && sp_json_len(calls) == 0))
        return SP_OK;
    if (sp_json_kind(calls) != SP_JSON_ARRAY)
        return sp_serve_wrong("tool_calls", calls, "an array", err);
    sp_json_out_begin(out, "tool_calls", '[');
    for (size_t i = 0; i < sp_json_len(calls) && !st; i++) {
        const struct sp_json *call = sp_json_at(calls, i);
        if (sp_json_kind(call) != SP_JSON_OBJECT) {
            return sp_fail(err, SP_E_INPUT, "tool_calls[%zu] is %s, expected an object", i,
                           sp_json_kind_name(sp_json_kind(call)));
        }
        function = sp_json_get(call, "function");
        if (sp_json_kind(function) != SP_JSON_OBJECT && !sp_serve_filled(call, "name") &&
            !sp_json_has(call, "custom")) {
            st = sp_serve_wrong("function", function, "an object", err);
            sp_context(err, "tool_calls[%zu]", i);
            return st;
        }
        st = add_id(known, sp_serve_filled(call, "id"), sp_serve_filled(function, "name"), err);
        if (!st) st = write_call(out, known, call, err);
    }
    sp_json_out_end(out, ']');
    return st;
}

/* Finds the call with this id; without an id, the first call that has no result yet. */
static const struct sp_serve_call_id *find(struct sp_serve_call_ids *known, const char *id)
{
    if (id == NULL) return known->n_matched < known->n ? &known->at[known->n_matched++] : NULL;
    for (size_t i = known->n; i-- > 0;)
        if (strcmp(id_of(&known->at[i]), id) == 0) return &known->at[i];
    return NULL;
}

void sp_serve_write_call_reference(struct sp_json_out *out, struct sp_serve_call_ids *known,
                                   const struct sp_json *message)
{
    const char *id = sp_serve_filled(message, "tool_call_id"),
               *name = sp_serve_filled(message, "name");
    const struct sp_serve_call_id *call = find(known, id);

    if (id == NULL && call != NULL) id = id_of(call);
    if (name == NULL) name = sp_serve_filled(message, "tool_name");
    if (name == NULL && call != NULL) name = call->name;
    if (id != NULL) sp_json_out_text(out, "tool_call_id", id);
    if (name == NULL) return;
    sp_json_out_put(out, "name:%s, tool_name:%s", name, name);
}
