/* The grammar of tool calls, in each style of chat_format.h. */
#include "runtime/chat/chat_grammar_call.h"
#include "runtime/chat/chat_grammar_arguments.h"
#include "runtime/chat/chat_grammar_parts.h"

#include "runtime/chat/chat_grammar_tag.h"
#include "runtime/chat/tool_call.h"

#include <string.h>

#define TEXT(g, text, next) sp_grammar_text(g, text, sizeof(text) - 1, next)

static const struct sp_tool_call_format *syntax_of(const struct sp_chat_grammar_builder *b)
{
    return &b->options->format->calls;
}

/* ---- {"name": ..., "arguments": {...}} --------------------------------------------------------
 */

static uint32_t json_text(struct sp_chat_grammar_builder *b, const char *text, uint32_t next)
{
    return sp_json_text(&b->json, text, strlen(text), next);
}

/* Writes "key": */
static uint32_t json_key(struct sp_chat_grammar_builder *b, const char *key, uint32_t next)
{
    next = TEXT(b->g, ":", sp_json_whitespace(&b->json, next));
    return json_text(b, key, next);
}

static uint32_t object_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                            const char *name, uint32_t next)
{
    const struct sp_tool_call_format *s = syntax_of(b);

    next = sp_json_whitespace(&b->json, TEXT(b->g, "}", next));
    next = sp_chat_grammar_object(b, function, next);
    if (!*s->name_key) {
        next = json_key(b, name, next);
    } else {
        next = json_key(b, s->arguments_key, next);
        next = json_text(b, name, sp_json_comma(&b->json, next));
        next = json_key(b, s->name_key, next);
    }
    return TEXT(b->g, "{", sp_json_whitespace(&b->json, next));
}

/* ---- a name and its arguments -----------------------------------------------------------------
 */

static uint32_t name_text(struct sp_chat_grammar_builder *b, const char *name, uint32_t next)
{
    return sp_grammar_text(b->g, name, strlen(name), next);
}

static uint32_t named_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                           const char *name, uint32_t next)
{
    next = sp_chat_grammar_whitespace(b, sp_chat_grammar_object(b, function, next));
    return name_text(b, name, sp_chat_grammar_close_tag(b, syntax_of(b)->before_arguments, next));
}

static uint32_t bare_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                          const char *name, uint32_t next)
{
    const struct sp_tool_call_format *s = syntax_of(b);
    const struct sp_argument_notation notation = {
        .before_key = "",
        .after_key = ":",
        .before_text = s->quote,
        .after_text = s->quote,
        .before_value = "",
        .after_value = "",
        .lead = "",
        .tail = "",
        .separator = ",",
        .keys_are_words = true,
    };

    next = sp_chat_grammar_arguments(b, function, &notation, TEXT(b->g, "}", next));
    next = TEXT(b->g, "{", next);
    return name_text(b, name, sp_chat_grammar_close_tag(b, s->before_arguments, next));
}

static uint32_t tagged_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                            const char *name, uint32_t next)
{
    const struct sp_tool_call_format *s = syntax_of(b);
    const struct sp_argument_notation notation = {
        .before_key = s->before_key,
        .after_key = "",
        .before_text = s->before_text,
        .after_text = s->after_value,
        .before_value = s->before_value,
        .after_value = s->after_value,
        .lead = s->value_lead,
        .tail = s->value_tail,
        .separator = "",
    };

    next = sp_chat_grammar_arguments(b, function, &notation, sp_chat_grammar_whitespace(b, next));
    return name_text(
        b, name, sp_chat_grammar_close_tag(b, s->after_name, sp_chat_grammar_whitespace(b, next)));
}

static uint32_t python_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                            const char *name, uint32_t next)
{
    static const struct sp_argument_notation notation = {
        .before_key = "",
        .after_key = "=",
        .before_value = "",
        .after_value = "",
        .lead = "",
        .tail = "",
        .separator = ",",
        .keys_are_words = true,
    };

    next = sp_chat_grammar_arguments(b, function, &notation, TEXT(b->g, ")", next));
    return name_text(b, name, TEXT(b->g, "(", next));
}

/* ---- one call ---------------------------------------------------------------------------------
 */

static uint32_t call_of(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                        const char *name)
{
    switch (syntax_of(b)->style) {
    case SP_TOOL_CALL_OBJECT:
        return object_call(b, function, name, SP_GRAMMAR_END);
    case SP_TOOL_CALL_NAMED:
        return named_call(b, function, name, SP_GRAMMAR_END);
    case SP_TOOL_CALL_BARE:
        return bare_call(b, function, name, SP_GRAMMAR_END);
    case SP_TOOL_CALL_TAGGED:
        return tagged_call(b, function, name, SP_GRAMMAR_END);
    case SP_TOOL_CALL_PYTHON:
        return python_call(b, function, name, SP_GRAMMAR_END);
    case SP_TOOL_CALL_UNKNOWN:
    case SP_TOOL_CALL_HARMONY:
    default:
        return SP_GRAMMAR_NEVER;
    }
}

/* The rule for a call of any of the functions. */
static uint32_t any_call(struct sp_chat_grammar_builder *b)
{
    const struct sp_json *tools = b->options->tools;
    uint32_t ways = SP_GRAMMAR_NEVER, rule;

    for (size_t i = 0; i < sp_json_len(tools) && !b->g->err.status; i++) {
        const struct sp_json *tool = sp_json_at(tools, i);
        const struct sp_json *function = sp_json_get(tool, "function");
        const char *name;
        size_t len = 0;

        if (function == NULL) function = tool;
        name = sp_json_to_string(sp_json_get(function, "name"), &len);
        if (name == NULL || strlen(name) != len || !sp_tool_call_name_possible(name, len)) {
            sp_grammar_fail(b->g, SP_E_INPUT, "tools[%zu]: %s", i,
                            name ? "this name cannot be used in a tool call"
                                 : "expected a function with a name");
            break;
        }
        if (b->options->function && strcmp(b->options->function, name) != 0) continue;
        ways = sp_grammar_either(b->g, ways, call_of(b, function, name));
    }
    if (ways == SP_GRAMMAR_NEVER && !b->g->err.status)
        sp_grammar_fail(b->g, SP_E_INPUT, "none of the tools is allowed");
    rule = sp_grammar_rule(b->g, NULL, 0);
    sp_grammar_define(b->g, rule, ways);
    return rule;
}

/* ---- all calls --------------------------------------------------------------------------------
 */

/* One call or, where several stand between one pair of tags, a list of them. */
static uint32_t calls_between_tags(struct sp_chat_grammar_builder *b, uint32_t call, uint32_t next)
{
    struct sp_grammar *g = b->g;
    uint32_t fork, list;

    if (!sp_tool_call_is_list(syntax_of(b))) return sp_grammar_call(g, call, 1, 1, next);
    fork = sp_grammar_fork(g);
    list = sp_chat_grammar_whitespace(b, TEXT(g, "]", next));
    sp_grammar_join(g, fork, list,
                    b->options->one_call
                        ? SP_GRAMMAR_NEVER
                        : sp_json_comma(&b->json, sp_grammar_call(g, call, 1, 1, fork)));
    list = sp_grammar_call(g, call, 1, 1, fork);
    list = TEXT(g, "[", sp_chat_grammar_whitespace(b, list));
    return sp_grammar_either(g, sp_grammar_call(g, call, 1, 1, next), list);
}

struct sp_chat_grammar_calls sp_chat_grammar_calls(struct sp_chat_grammar_builder *b, uint32_t next)
{
    const struct sp_tool_call_format *s = syntax_of(b);
    uint32_t call = any_call(b), fork = sp_grammar_fork(b->g), end, more = SP_GRAMMAR_NEVER;
    struct sp_chat_grammar_calls calls;

    calls.bare = calls_between_tags(b, call, SP_GRAMMAR_END);
    end = sp_chat_grammar_close_tag(b, s->close, fork);
    calls.after_open = calls_between_tags(b, call, end);
    if (*s->open) calls.after_open = sp_chat_grammar_whitespace(b, calls.after_open);
    calls.after_all_open = sp_chat_grammar_tag(b, s->open, calls.after_open);
    if (*s->all_open) calls.after_all_open = sp_chat_grammar_whitespace(b, calls.after_all_open);
    if (!b->options->one_call && *s->open)
        more = sp_chat_grammar_whitespace(b, sp_chat_grammar_tag(b, s->open, calls.after_open));
    sp_grammar_join(b->g, fork, sp_chat_grammar_close_tag(b, s->all_close, next), more);
    calls.all = sp_chat_grammar_tag(b, s->all_open, calls.after_all_open);
    return calls;
}
