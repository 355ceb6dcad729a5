#include "runtime/chat/chat_grammar_call.h"
#include "runtime/chat/chat_grammar_parts.h"
#include "runtime/chat/chat_grammar_tag.h"
#include "runtime/grammar/grammar_chars.h"

#include <string.h>

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

/* ---- the parts of an answer -------------------------------------------------------------------
 */

/* Content up to the first call, if there is one. An object at the beginning of an answer is parsed
 * as a call with or without tags, so it is constrained to be one, unless only tags count. */
static uint32_t content_or_calls(struct sp_chat_grammar_builder *b,
                                 const struct sp_chat_grammar_calls *calls)
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
    struct sp_chat_grammar_calls calls = {.all = SP_GRAMMAR_NEVER};
    uint32_t node, rest = SP_GRAMMAR_END; /* after calls */

    if (options->tools) {
        if (options->tagged_only) rest = sp_grammar_fork(b->g);
        calls = sp_chat_grammar_calls(b, rest);
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

/* ---- the whole --------------------------------------------------------------------------------
 */

/* The rule for the place of an id in a tag. */
static uint32_t add_word(struct sp_grammar *g)
{
    enum { MOST = 64 };
    static const struct sp_char_range ranges[] = {
        {'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}, {'-', '.'}};
    uint32_t letter = sp_grammar_rule(g, NULL, 0), word = sp_grammar_rule(g, NULL, 0);

    sp_grammar_define(g, letter,
                      sp_grammar_chars(g, ranges, sizeof ranges / sizeof *ranges, SP_GRAMMAR_END));
    sp_grammar_define(g, word, sp_grammar_call(g, letter, 1, MOST, SP_GRAMMAR_END));
    return word;
}

static enum sp_status parse(struct sp_json **out, const char *text, struct sp_err *err)
{
    return sp_json_parse(out, text, strlen(text), SP_JSON_STRICT, err);
}

enum sp_status sp_chat_grammar(struct sp_grammar **out,
                               const struct sp_chat_grammar_options *options, struct sp_err *err)
{
    struct sp_chat_grammar_builder b = {.options = options};
    enum sp_status st;

    if (options->tools && !sp_chat_format_can_constrain_calls(options->format)) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       options->format->calls.style == SP_TOOL_CALL_UNKNOWN
                           ? "the model's chat template does not show how it writes tool calls, so "
                             "they cannot be constrained"
                           : "tool calls in this model's notation cannot be constrained");
    }
    if ((st = sp_grammar_new(&b.g, err)) ||
        (st = parse(&b.no_arguments, "{\"type\": \"object\", \"properties\": {}}", err)) ||
        (st = parse(&b.object, "{\"type\": \"object\"}", err)))
        goto done;
    sp_json_grammar_init(&b.json, b.g);
    b.word = add_word(b.g);
    if ((st = sp_grammar_finish(b.g, answer(&b), err))) goto done;
    *out = b.g;
    b.g = NULL;
done:
    sp_grammar_close(b.g);
    sp_json_free(b.no_arguments);
    sp_json_free(b.object);
    return st;
}
