/* The grammar of a call's arguments, constrained to the function's schema. */
#include "runtime/chat/chat_grammar_parts.h"

#include "runtime/chat/tool_call.h"
#include "runtime/grammar/json_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a function's schema ---- */

static const char *name_of(const struct sp_json *function)
{
    return sp_json_to_string(sp_json_get(function, "name"), NULL);
}

/* Opens the schema of the arguments, which are an object in any case. */
static void open_schema(struct sp_chat_grammar_builder *b, struct sp_schema *s,
                        struct sp_schema_view *view, const struct sp_json *function)
{
    const struct sp_json *parameters = sp_json_get(function, "parameters");

    if (parameters == NULL) parameters = b->no_arguments;
    *s = (struct sp_schema){.g = b->g,
                            .json = b->json,
                            .root = b->takes_any ? b->object : parameters,
                            .relaxed = b->is_relaxed ? &b->relaxed : NULL};
    *view = (struct sp_schema_view){0};
    sp_schema_add(s, view, s->root, "#", NULL, NULL);
    sp_schema_add(s, view, b->object, "#", NULL, NULL);
}

/* Closes the schema and reports its error; `failed`: an earlier one was reported. */
static void close_schema(struct sp_schema *s, const struct sp_json *function, bool failed)
{
    struct sp_err *err = &s->g->err;

    sp_schema_finish(s);
    if (err->status && !failed) sp_context(err, "the parameters of %s", name_of(function));
}

uint32_t sp_chat_grammar_object(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                                uint32_t next)
{
    bool failed = b->g->err.status != SP_OK;
    struct sp_schema s;
    struct sp_schema_view view;
    char what[80];
    int len = snprintf(what, sizeof what, "the parameters of %.50s", name_of(function));
    uint32_t rule = sp_grammar_rule(b->g, what, (size_t)len), object;

    open_schema(b, &s, &view, function);
    object = sp_schema_rule(&s, &view);
    sp_grammar_define(b->g, rule, sp_grammar_call(b->g, object, 1, 1, SP_GRAMMAR_END));
    close_schema(&s, function, failed);
    return sp_grammar_call(b->g, rule, 1, 1, next);
}

/* ---- strings that stand as they are ---- */

struct writing {
    struct sp_chat_grammar_builder *b;
    const struct sp_json *function;
    const struct sp_argument_notation *notation;
    struct sp_schema *s;
};

/* Refuses the schema of a property, or relaxes it. */
static void refuse(struct writing *w, const char *key, const char *what)
{
    struct sp_err *relaxed = w->s->relaxed;

    if (relaxed == NULL)
        sp_grammar_fail(w->b->g, SP_E_UNSUPPORTED, "#/properties/%s: %s", key, what);
    else if (relaxed->status == SP_OK)
        (void)!sp_fail(relaxed, SP_E_UNSUPPORTED, "#/properties/%s: %s", key, what);
}

/* Writes one value of `enum` or `const`. */
static uint32_t given_text(struct writing *w, const char *key, const struct sp_json *value,
                           uint32_t next)
{
    const struct sp_argument_notation *n = w->notation;
    size_t len;
    const char *text = sp_json_to_string(value, &len);

    if (text == NULL) return SP_GRAMMAR_NEVER; /* a value of another type */
    if (strstr(text, n->after_text) || strlen(text) != len) {
        refuse(w, key, "the model cannot write one of these values");
        return SP_GRAMMAR_NEVER;
    }
    next = sp_grammar_string(w->b->g, n->tail, next);
    return sp_grammar_text(w->b->g, text, len, next);
}

static uint32_t text_value(struct writing *w, const char *key, const struct sp_schema_view *view,
                           uint32_t next)
{
    static const char *const lengths[] = {"pattern", "format", "minLength", "maxLength", "anyOf",
                                          "oneOf",   "allOf",  "$ref",      "not"};
    const struct sp_argument_notation *n = w->notation;
    const struct sp_free_text any = {
        .stops = {{n->after_text, next}}, .n_stops = 1, .end = SP_GRAMMAR_NEVER};
    const struct sp_json *values, *one;
    uint32_t alternatives = SP_GRAMMAR_NEVER,
             after = sp_chat_grammar_tag(w->b, n->after_text, next);
    size_t n_given = 0;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        if (!sp_schema_has(w->s, view, lengths[i])) continue;
        refuse(
            w, key,
            "strings are unquoted in this model's tool calls: only enum and const are supported");
    }
    for (size_t i = 0; sp_schema_next(w->s, view, "enum", &i, &values); n_given++) {
        for (size_t k = 0; k < sp_json_len(values); k++) {
            one = sp_json_at(values, k);
            alternatives = sp_grammar_either(w->b->g, alternatives, given_text(w, key, one, after));
        }
    }
    for (size_t i = 0; sp_schema_next(w->s, view, "const", &i, &one); n_given++)
        alternatives = sp_grammar_either(w->b->g, alternatives, given_text(w, key, one, after));
    if (n_given > 1) refuse(w, key, "more than one enum or const is not supported");
    if (n_given > 0 && alternatives == SP_GRAMMAR_NEVER) refuse(w, key, "nothing can match");
    if (alternatives == SP_GRAMMAR_NEVER) alternatives = sp_chat_grammar_free_text(w->b, &any);
    return sp_grammar_string(w->b->g, n->lead, alternatives);
}

/* ---- one by one ---- */

static bool is_word(const char *key)
{
    static const char characters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    const char *letters = characters + 10;

    return strspn(key, letters) > 0 && key[strspn(key, characters)] == '\0';
}

/* Returns true if the key can be written so that it is parsed as itself. */
static bool is_plain(const char *key)
{
    enum { MOST = 200 };
    size_t n = strlen(key);

    if (n == 0 || n > MOST || sp_is_whitespace(key[0]) || sp_is_whitespace(key[n - 1]))
        return false;
    return strpbrk(key, "<>[]|\n\x01") == NULL;
}

/* The words that some templates write for true, false and null. */
static uint32_t python_words(struct writing *w, const struct sp_schema_view *view, uint32_t next)
{
    static const char *const chosen[] = {"enum", "const", "anyOf", "oneOf"};
    static const struct {
        const char *word;
        unsigned type;
    } words[] = {{"True", SP_TYPE_BOOLEAN}, {"False", SP_TYPE_BOOLEAN}, {"None", SP_TYPE_NULL}};
    unsigned types = sp_schema_types(w->s, view);
    uint32_t alternatives = SP_GRAMMAR_NEVER;

    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
        if (sp_schema_has(w->s, view, chosen[i])) return alternatives;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!(types & words[i].type)) continue;
        alternatives = sp_grammar_either(w->b->g, alternatives,
                                         sp_grammar_string(w->b->g, words[i].word, next));
    }
    return alternatives;
}

/* Writes the key between its tags. Whitespace may part it from a tag that is a word. */
static uint32_t name(struct writing *w, const char *key, const char *before_value, uint32_t next)
{
    const struct sp_argument_notation *n = w->notation;
    struct sp_chat_grammar_builder *b = w->b;
    size_t len = strlen(n->before_key);

    next = sp_chat_grammar_tag(b, before_value, next);
    if (sp_tag_is_any(*before_value)) next = sp_chat_grammar_whitespace(b, next);
    next = sp_chat_grammar_tag(b, n->after_key, next);
    next = sp_grammar_string(b->g, key, next);
    if (len > 0 && sp_tag_is_any(n->before_key[len - 1]))
        next = sp_chat_grammar_whitespace(b, next);
    return sp_chat_grammar_tag(b, n->before_key, next);
}

static uint32_t argument(struct writing *w, const char *key, const struct sp_schema_view *view,
                         uint32_t next)
{
    const struct sp_argument_notation *n = w->notation;
    struct sp_chat_grammar_builder *b = w->b;
    struct sp_grammar *g = b->g;
    bool text = n->before_text && sp_tool_value_is_text(w->function, key);

    if (n->keys_are_words ? !is_word(key) : !is_plain(key)) {
        refuse(w, key, "the model cannot write this name");
        return SP_GRAMMAR_NEVER;
    }
    if (text) {
        next = text_value(w, key, view, next);
    } else {
        next = sp_chat_grammar_close_tag(b, n->after_value, next);
        next = sp_grammar_either(g, sp_grammar_call(g, sp_schema_rule(w->s, view), 1, 1, next),
                                 python_words(w, view, next));
        next = sp_grammar_string(g, n->lead, next);
    }
    return name(w, key, text ? n->before_text : n->before_value, next);
}

/* Builds the arguments from last to first; at the node `first` none was written, at `later` one. */
static uint32_t all_arguments(struct writing *w, const struct sp_schema_view *all,
                              const struct sp_schema_names *names, uint32_t next)
{
    struct sp_grammar *g = w->b->g;
    uint32_t first = next, later = next;

    for (size_t i = names->n; i-- > 0 && !g->err.status;) {
        const char *key = names->at[i], *separator = w->notation->separator;
        bool required = sp_schema_is_required(w->s, all, key);
        struct sp_schema_view view;
        uint32_t one = SP_GRAMMAR_NEVER, more;
        sp_schema_property(w->s, all, key, NULL, &view);
        if (!view.never) one = argument(w, key, &view, later);
        if (one == SP_GRAMMAR_NEVER && w->s->relaxed) continue;
        more = sp_grammar_string(g, separator, sp_chat_grammar_whitespace(w->b, one));
        first = required ? one : sp_grammar_either(g, one, first);
        later = required ? more : sp_grammar_either(g, more, later);
    }
    return first;
}

uint32_t sp_chat_grammar_arguments(struct sp_chat_grammar_builder *b,
                                   const struct sp_json *function,
                                   const struct sp_argument_notation *notation, uint32_t next)
{
    static const char *const whole[] = {"minProperties", "maxProperties", "propertyNames"};
    bool failed = b->g->err.status != SP_OK;
    struct sp_schema s;
    struct sp_schema_view view;
    struct sp_schema_names names = {0};
    struct writing w = {b, function, notation, &s};

    open_schema(b, &s, &view, function);
    if (sp_schema_has(&s, &view, "anyOf") || sp_schema_has(&s, &view, "oneOf")) {
        sp_grammar_fail(b->g, SP_E_UNSUPPORTED,
                        "#: a choice between schemas is not supported for models that write "
                        "arguments one by one");
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (!sp_schema_has(&s, &view, whole[i])) continue;
        sp_grammar_fail(b->g, SP_E_UNSUPPORTED,
                        "#/%s: not supported for models that write arguments one by one", whole[i]);
    }
    sp_schema_find_names(&s, &view, &names);
    next = all_arguments(&w, &view, &names, next);
    close_schema(&s, function, failed);
    free(names.at);
    return next;
}
