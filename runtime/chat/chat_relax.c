#include "format/json/json_write.h"
#include "runtime/chat/chat_grammar.h"
#include "runtime/grammar/grammar.h"

#include <string.h>

static const struct sp_json *function_of(const struct sp_json *tool)
{
    const struct sp_json *function = sp_json_get(tool, "function");

    return function ? function : tool;
}

/* How much of the parameters of a tool is kept. */
enum kept { ALL, NAMES_AND_TYPES, NOTHING };

/* Writes the type and the enum of a property; other types than words restrict nothing. */
static void write_property(struct sp_json_out *out, const char *key, const struct sp_json *from)
{
    const struct sp_json *type = sp_json_get(from, "type"), *values = sp_json_get(from, "enum");
    enum sp_json_kind kind = sp_json_kind(type);

    sp_json_out_begin(out, key, '{');
    if (kind == SP_JSON_STRING || kind == SP_JSON_ARRAY) sp_json_out_value(out, "type", type);
    if (sp_json_kind(values) == SP_JSON_ARRAY) sp_json_out_value(out, "enum", values);
    sp_json_out_end(out, '}');
}

static void write_parameters(struct sp_json_out *out, const struct sp_json *from, enum kept kept)
{
    const struct sp_json *properties = sp_json_get(from, "properties"),
                         *required = sp_json_get(from, "required");

    sp_json_out_begin(out, "parameters", '{');
    sp_json_out_text(out, "type", "object");
    if (kept == NAMES_AND_TYPES && sp_json_kind(properties) == SP_JSON_OBJECT) {
        sp_json_out_begin(out, "properties", '{');
        for (struct sp_json_iter it = {0}; sp_json_next(properties, &it);)
            write_property(out, it.key, it.value);
        sp_json_out_end(out, '}');
        if (sp_json_kind(required) == SP_JSON_ARRAY) sp_json_out_value(out, "required", required);
    }
    sp_json_out_end(out, '}');
}

static void write_tool(struct sp_json_out *out, const struct sp_json *tool, enum kept kept)
{
    const struct sp_json *function = function_of(tool);

    if (kept == ALL) {
        sp_json_out_value(out, NULL, tool);
        return;
    }
    sp_json_out_put(out, "{type:'function', function:{");
    sp_json_out_value(out, "name", sp_json_get(function, "name"));
    write_parameters(out, sp_json_get(function, "parameters"), kept);
    sp_json_out_put(out, "}}");
}

/* Tries the grammar with one tool alone. */
static enum sp_status try_tool(const struct sp_chat_grammar_options *options,
                               const struct sp_json *tool, enum kept kept, struct sp_err *err)
{
    struct sp_chat_grammar_options alone = *options;
    struct sp_json_out out = {0};
    struct sp_json *tools = NULL;
    struct sp_grammar *g = NULL;
    enum sp_status st;

    sp_json_out_begin(&out, NULL, '[');
    write_tool(&out, tool, kept);
    sp_json_out_end(&out, ']');
    if ((st = sp_json_out_parse(&tools, &out, SP_OK, err))) return st;
    alone.tools = tools;
    alone.function = NULL;
    st = sp_chat_grammar(&g, &alone, err);
    sp_grammar_close(g);
    sp_json_free(tools);
    return st;
}

/* *kept = how much of the parameters of a tool can be enforced. */
static enum sp_status find_kept(enum kept *kept, const struct sp_chat_grammar_options *options,
                                const struct sp_json *tool, struct sp_err *err)
{
    struct sp_err own = {0};
    bool strict = false;
    enum sp_status st;

    *kept = ALL;
    st = try_tool(options, tool, ALL, &own);
    (void)sp_json_to_bool(sp_json_get(function_of(tool), "strict"), &strict);
    if (st != SP_E_UNSUPPORTED || strict) return st ? sp_fail_as(err, &own) : SP_OK;
    *kept = NAMES_AND_TYPES;
    if ((st = try_tool(options, tool, *kept, NULL)) == SP_E_UNSUPPORTED) *kept = NOTHING;
    return st == SP_E_NOMEM ? sp_fail(err, st, "out of memory for the schemas of tools") : SP_OK;
}

enum sp_status sp_chat_relax_tools(struct sp_json **out, char *changes, size_t size,
                                   const struct sp_chat_grammar_options *options,
                                   struct sp_err *err)
{
    enum { MOST_NODES = 2 * SP_GRAMMAR_NODES };
    struct sp_chat_grammar_options counted = *options;
    struct sp_json_out list = {0};
    size_t n_nodes = 0;
    enum sp_status st = SP_OK;

    counted.n_nodes = &n_nodes;
    sp_json_out_begin(&list, NULL, '[');
    for (size_t i = 0; i < sp_json_len(options->tools) && !st; i++) {
        const struct sp_json *tool = sp_json_at(options->tools, i);
        const char *name = sp_json_get_text(function_of(tool), "name");
        enum kept kept = ALL;
        size_t len = strlen(changes);
        if (options->function && name && strcmp(name, options->function) != 0) continue;
        if ((st = find_kept(&kept, &counted, tool, err))) break;
        if (n_nodes > MOST_NODES) {
            st = sp_fail(err, SP_E_UNSUPPORTED, "the schemas are too large to be relaxed");
            break;
        }
        write_tool(&list, tool, kept);
        if (kept == ALL || len + 80 > size) continue;
        snprintf(changes + len, size - len, "%sschema of %.50s relaxed", len ? ", " : "", name);
    }
    sp_json_out_end(&list, ']');
    return sp_json_out_parse(out, &list, st, err);
}
