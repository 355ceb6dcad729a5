#include "runtime/chat/chat_grammar_parts.h"
#include "runtime/grammar/grammar_sequence.h"
#include "runtime/chat/tool_call.h"

#include <string.h>

/* ---- the calls of an answer ---- */

/* Grammar nodes that match all calls of an answer and what follows, by where they begin. */
struct chat_grammar_calls {
    uint32_t all;            /* before the first tag */
    uint32_t after_all_open; /* after the tag that opens all calls */
    uint32_t after_open;     /* after the tag that opens one call */
    uint32_t bare;           /* calls without tags */
};

static const struct sp_tool_call_format *syntax_of(const struct sp_chat_grammar_builder *b)
{
    return &b->options->format->calls;
}

/* ---- {"name": ..., "arguments": {...}} ---- */

static uint32_t json_text(struct sp_chat_grammar_builder *b, const char *text, uint32_t next)
{
    return sp_json_text(&b->json, text, strlen(text), next);
}

/* Writes "key": */
static uint32_t json_key(struct sp_chat_grammar_builder *b, const char *key, uint32_t next)
{
    next = sp_grammar_string(b->g, ":", sp_json_whitespace(&b->json, next));
    return json_text(b, key, next);
}

static uint32_t object_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                            const char *name, uint32_t next)
{
    const struct sp_tool_call_format *s = syntax_of(b);

    next = sp_json_whitespace(&b->json, sp_grammar_string(b->g, "}", next));
    next = sp_chat_grammar_object(b, function, next);
    if (!*s->name_key) {
        next = json_key(b, name, next);
    } else {
        next = json_key(b, s->arguments_key, next);
        next = json_text(b, name, sp_json_comma(&b->json, next));
        next = json_key(b, s->name_key, next);
    }
    return sp_grammar_string(b->g, "{", sp_json_whitespace(&b->json, next));
}

/* ---- a name and its arguments ---- */

static uint32_t named_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                           const char *name, uint32_t next)
{
    next = sp_chat_grammar_whitespace(b, sp_chat_grammar_object(b, function, next));
    return sp_grammar_string(b->g, name,
                             sp_chat_grammar_close_tag(b, syntax_of(b)->before_arguments, next));
}

/* A name and arguments one by one: BARE, TAGGED or PYTHON. */
static uint32_t spelled_call(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                             const char *name, uint32_t next)
{
    const struct sp_tool_call_format *s = syntax_of(b);
    const char *tag = s->before_arguments;
    const char *open = "{", *close = "}"; /* NULL: whitespace may be there */
    struct sp_argument_notation notation = {
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

    if (s->style == SP_TOOL_CALL_PYTHON) {
        tag = "";
        open = "(";
        close = ")";
        notation.after_key = "=";
        notation.before_text = NULL;
    } else if (s->style == SP_TOOL_CALL_TAGGED) {
        tag = s->after_name;
        open = close = NULL;
        notation = (struct sp_argument_notation){
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
    }
    next = close ? sp_grammar_string(b->g, close, next) : sp_chat_grammar_whitespace(b, next);
    next = sp_chat_grammar_arguments(b, function, &notation, next);
    next = open ? sp_grammar_string(b->g, open, next) : sp_chat_grammar_whitespace(b, next);
    return sp_grammar_string(b->g, name, sp_chat_grammar_close_tag(b, tag, next));
}

/* ---- one call ---- */

static uint32_t call_of(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                        const char *name)
{
    enum sp_tool_call_style style = syntax_of(b)->style;

    if (style == SP_TOOL_CALL_OBJECT) return object_call(b, function, name, SP_GRAMMAR_END);
    if (style == SP_TOOL_CALL_NAMED) return named_call(b, function, name, SP_GRAMMAR_END);
    return spelled_call(b, function, name, SP_GRAMMAR_END);
}

/* Adds to the changes which keyword of a function's schema has no effect. */
static void note_relaxed(const struct sp_chat_grammar_options *o, const char *name,
                         const struct sp_err *why)
{
    enum { LONGEST_PATH = 100 };
    size_t len = strlen(o->changes), left = o->changes_size - len;
    const char *path = strchr(why->text, '#');
    int n = path ? (int)strcspn(path, ": ") : 0;

    if (n > LONGEST_PATH) n = LONGEST_PATH;
    if ((size_t)snprintf(o->changes + len, left, "%sschema of %.50s relaxed%s%.*s", len ? ", " : "",
                         name, n ? ": " : "", n, path) >= left)
        o->changes[len] = '\0';
}

/* Relaxes the schema of a function where it cannot be enforced and may be relaxed. */
static uint32_t call_or_relaxed(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                                const char *name)
{
    struct sp_grammar *g = b->g;
    size_t n_nodes = g->n_nodes, n_rules = g->n_rules;
    bool strict = false;
    uint32_t call;

    (void)sp_json_to_bool(sp_json_get(function, "strict"), &strict);
    b->relaxed = (struct sp_err){0};
    b->is_relaxed = b->options->changes && !strict;
    call = call_of(b, function, name);
    if (b->is_relaxed && g->err.status == SP_E_UNSUPPORTED) {
        b->relaxed = g->err;
        sp_grammar_shrink(g, n_nodes, n_rules);
        b->takes_any = true;
        call = call_of(b, function, name);
        b->takes_any = false;
    }
    if (b->relaxed.status) note_relaxed(b->options, name, &b->relaxed);
    return call;
}

/* The rule for a call of any of the functions. */
static uint32_t any_call(struct sp_chat_grammar_builder *b)
{
    const struct sp_json *tools = b->options->tools;
    uint32_t ways = SP_GRAMMAR_NEVER;

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
        ways = sp_grammar_either(b->g, ways, call_or_relaxed(b, function, name));
    }
    if (ways == SP_GRAMMAR_NEVER && !b->g->err.status)
        sp_grammar_fail(b->g, SP_E_INPUT, "none of the tools is allowed");
    return sp_grammar_group(b->g, ways);
}

/* ---- all calls ---- */

/* One call or, where several stand between one pair of tags, a list of them. */
static uint32_t calls_between_tags(struct sp_chat_grammar_builder *b, uint32_t call, uint32_t next)
{
    struct sp_grammar *g = b->g;
    uint32_t fork, list;

    if (!sp_tool_call_is_list(syntax_of(b))) return sp_grammar_call(g, call, 1, 1, next);
    fork = sp_grammar_fork(g);
    list = sp_chat_grammar_whitespace(b, sp_grammar_string(g, "]", next));
    sp_grammar_join(g, fork, list,
                    b->options->one_call
                        ? SP_GRAMMAR_NEVER
                        : sp_json_comma(&b->json, sp_grammar_call(g, call, 1, 1, fork)));
    list = sp_grammar_call(g, call, 1, 1, fork);
    list = sp_grammar_string(g, "[", sp_chat_grammar_whitespace(b, list));
    return sp_grammar_either(g, sp_grammar_call(g, call, 1, 1, next), list);
}

/* next: after the last call and its tags. */
static struct chat_grammar_calls chat_grammar_calls(struct sp_chat_grammar_builder *b,
                                                    uint32_t next)
{
    const struct sp_tool_call_format *s = syntax_of(b);
    uint32_t call = any_call(b), fork = sp_grammar_fork(b->g), end, more = SP_GRAMMAR_NEVER;
    struct chat_grammar_calls calls;

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

enum sp_reasoning_mode sp_reasoning_mode_of(const struct sp_chat_format *s, const char *prompt,
                                            size_t size, bool think)
{
    size_t n;

    if (!*s->reasoning_open || !*s->reasoning_close || s->calls.style == SP_TOOL_CALL_HARMONY)
        return SP_REASONING_NONE;
    if (sp_chat_format_opens_reasoning(s, prompt, size)) return SP_REASONING_OPEN;
    size = sp_trim_whitespace(prompt, size);
    n = strlen(s->reasoning_close);
    if (!think || (n <= size && memcmp(prompt + size - n, s->reasoning_close, n) == 0))
        return SP_REASONING_NONE;
    return SP_REASONING_OPTIONAL;
}

bool sp_chat_format_can_constrain_calls(const struct sp_chat_format *s)
{
    return s->calls.style != SP_TOOL_CALL_UNKNOWN && s->calls.style != SP_TOOL_CALL_HARMONY;
}

/* ---- the parts of an answer ---- */

/* Content up to the first call, if there is one. An object at the beginning of an answer is parsed
 * as a call with or without tags, so it is constrained to be one, unless only tags count. */
static uint32_t content_or_calls(struct sp_chat_grammar_builder *b,
                                 const struct chat_grammar_calls *calls)
{
    const struct sp_tool_call_format *s = &b->options->format->calls;
    bool is_object = s->style == SP_TOOL_CALL_OBJECT && !b->options->tagged_only;
    struct sp_free_text text = {.end = SP_GRAMMAR_END, .not_first = is_object ? "{[" : NULL};
    uint32_t node;

    if (*s->all_open)
        text.stops[text.n_stops++] = (struct sp_stop_tag){s->all_open, calls->after_all_open};
    if (*s->open) text.stops[text.n_stops++] = (struct sp_stop_tag){s->open, calls->after_open};
    node = sp_chat_grammar_free_text(b, &text);
    return is_object ? sp_grammar_either(b->g, node, sp_chat_grammar_whitespace(b, calls->bare))
                     : node;
}

static uint32_t after_reasoning(struct sp_chat_grammar_builder *b)
{
    const struct sp_chat_grammar_options *options = b->options;
    struct chat_grammar_calls calls = {.all = SP_GRAMMAR_NEVER};
    uint32_t node, rest = SP_GRAMMAR_END; /* after calls */

    if (options->tools) {
        if (options->tagged_only) rest = sp_grammar_fork(b->g);
        calls = chat_grammar_calls(b, rest);
        if (*options->format->calls.all_open || *options->format->calls.open)
            calls.all = sp_chat_grammar_whitespace(b, calls.all);
        if (options->must_call) return calls.all;
        if (options->content == NULL) {
            node = content_or_calls(b, &calls);
            if (options->tagged_only) sp_grammar_join(b->g, rest, node, SP_GRAMMAR_NEVER);
            return node;
        }
    }
    node = sp_grammar_call(b->g, sp_grammar_include(b->g, options->content), 1, 1, SP_GRAMMAR_END);
    return sp_grammar_either(b->g, node, calls.all);
}

static uint32_t answer(struct sp_chat_grammar_builder *b)
{
    const struct sp_chat_format *s = b->options->format;
    uint32_t node = after_reasoning(b), reasoning;
    struct sp_free_text text = {.n_stops = 1, .end = SP_GRAMMAR_NEVER};

    if (b->options->thinking == SP_REASONING_NONE) return node;
    text.stops[0] = (struct sp_stop_tag){s->reasoning_close, sp_chat_grammar_whitespace(b, node)};
    reasoning = sp_chat_grammar_free_text(b, &text);
    if (b->options->thinking == SP_REASONING_OPEN) return reasoning;
    return sp_grammar_either(b->g, sp_chat_grammar_tag(b, s->reasoning_open, reasoning), node);
}

/* ---- the whole ---- */

/* The rule for the place of an id in a tag. */
static uint32_t add_word(struct sp_grammar *g)
{
    enum { MOST = 64 };
    static const struct sp_char_range ranges[] = {
        {'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}, {'-', '.'}};
    uint32_t letter = sp_grammar_group(
        g, sp_grammar_chars(g, ranges, sizeof ranges / sizeof *ranges, SP_GRAMMAR_END));

    return sp_grammar_group(g, sp_grammar_call(g, letter, 1, MOST, SP_GRAMMAR_END));
}

static enum sp_status parse(struct sp_json **out, const char *text, struct sp_err *err)
{
    return sp_json_parse(out, text, strlen(text), SP_JSON_STRICT, err);
}

enum sp_status sp_chat_grammar(struct sp_grammar **out,
                               const struct sp_chat_grammar_options *options, struct sp_err *err)
{
    struct sp_chat_grammar_builder b = {.options = options};
    uint32_t node;
    enum sp_status st;

    if (options->tools && !sp_chat_format_can_constrain_calls(options->format)) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       options->format->calls.style == SP_TOOL_CALL_UNKNOWN
                           ? "the model's chat template does not show how it writes tool calls, so "
                             "they cannot be constrained"
                           : "tool calls in this model's notation cannot be constrained");
    }
    if ((st = sp_grammar_new(&b.g, err))) goto done;
    if ((st = parse(&b.no_arguments, "{\"type\": \"object\", \"properties\": {}}", err))) goto done;
    if ((st = parse(&b.object, "{\"type\": \"object\"}", err))) goto done;
    sp_json_grammar_init(&b.json, b.g);
    b.word = add_word(b.g);
    node = answer(&b);
    if ((st = sp_grammar_finish(b.g, node, err))) goto done;
    *out = b.g;
    b.g = NULL;
done:
    sp_grammar_close(b.g);
    sp_json_free(b.no_arguments);
    sp_json_free(b.object);
    return st;
}
