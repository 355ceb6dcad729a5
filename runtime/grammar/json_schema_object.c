/* Objects: properties in the order of the schema, required or optional, then additional ones. */
#include "runtime/grammar/json_schema_object.h"
#include "runtime/grammar/json_schema.h"

#include "format/base/mem.h"
#include "runtime/grammar/json_schema_text.h"
#include "runtime/grammar/json_schema_view.h"

#include <stdlib.h>
#include <string.h>

#define TEXT(g, text, next) sp_grammar_text(g, text, sizeof(text) - 1, next)

static size_t find_name(const struct sp_schema_names *p, const char *name)
{
    size_t i = 0;

    while (i < p->n && strcmp(p->at[i], name) != 0)
        i++;
    return i;
}

static void add_name(struct sp_schema *s, struct sp_schema_names *p, const char *name)
{
    if (s->g->err.status || find_name(p, name) < p->n) return;
    if (p->n == SP_SCHEMA_NAMES) {
        sp_grammar_fail(s->g, SP_E_UNSUPPORTED, "an object of more than %d properties",
                        SP_SCHEMA_NAMES);
        return;
    }
    if (sp_grow(&p->at, &p->cap, p->n + 1, sizeof *p->at, &s->g->err)) return;
    p->at[p->n++] = name;
}

void sp_schema_find_names(struct sp_schema *s, const struct sp_schema_view *v,
                          struct sp_schema_names *p)
{
    const struct sp_json *json;
    const struct sp_schema_part *part;

    for (size_t i = 0; (part = sp_schema_next(s, v, "properties", &i, &json));) {
        if (sp_json_kind(json) != SP_JSON_OBJECT) {
            sp_schema_fail(s, part, "properties", SP_E_INPUT, "expected an object");
            return;
        }
        for (struct sp_json_iter it = {0}; sp_json_next(json, &it) && !s->g->err.status;)
            add_name(s, p, it.key);
    }
    for (size_t i = 0; (part = sp_schema_next(s, v, "required", &i, &json));) {
        bool strings = sp_json_kind(json) == SP_JSON_ARRAY;
        if (!sp_schema_is_short(s, part, "required", json, SP_SCHEMA_NAMES)) return;
        for (size_t k = 0; k < sp_json_len(json) && strings; k++) {
            const char *name = sp_json_to_string(sp_json_at(json, k), NULL);
            strings = name != NULL;
            if (strings) add_name(s, p, name);
        }
        if (!strings)
            sp_schema_fail(s, part, "required", SP_E_INPUT, "expected an array of strings");
    }
}

bool sp_schema_is_required(const struct sp_schema *s, const struct sp_schema_view *v,
                           const char *name)
{
    const struct sp_json *json;

    for (size_t i = 0; sp_schema_next(s, v, "required", &i, &json);) {
        for (size_t k = 0; k < sp_json_len(json); k++) {
            const char *one = sp_json_to_string(sp_json_at(json, k), NULL);
            if (one && strcmp(one, name) == 0) return true;
        }
    }
    return false;
}

void sp_schema_property(struct sp_schema *s, const struct sp_schema_view *v, const char *name,
                        struct sp_schema_view *out)
{
    *out = (struct sp_schema_view){0};
    for (size_t i = 0; i < v->n; i++) {
        const struct sp_schema_place place = s->places[v->parts[i].place];
        const struct sp_json *named = sp_json_get(place.json, "properties");
        const char other[] = "additionalProperties";
        if (name && sp_json_has(named, name))
            sp_schema_add(s, out, sp_json_get(named, name), place.path, "properties", name);
        else if (sp_json_has(place.json, other))
            sp_schema_add(s, out, sp_json_get(place.json, other), place.path, other, NULL);
    }
}

static uint32_t colon(struct sp_schema *s, uint32_t value, uint32_t next)
{
    next = sp_grammar_call(s->g, value, 1, 1, next);
    return TEXT(s->g, ":", sp_json_whitespace(&s->json, next));
}

/* The rule of a property that no part names; 0: none is allowed. */
static uint32_t other_member(struct sp_schema *s, const struct sp_schema_view *v,
                             const struct sp_schema_names *p)
{
    struct sp_schema_view view;
    uint32_t rule, value;

    if (sp_schema_has(s, v, "properties") && !sp_schema_has(s, v, "additionalProperties")) return 0;
    sp_schema_property(s, v, NULL, &view);
    if (view.never) return 0;
    rule = sp_grammar_rule(s->g, NULL, 0);
    value = colon(s, sp_schema_rule(s, &view), SP_GRAMMAR_END);
    sp_grammar_define(s->g, rule, sp_schema_other_name(s, p->at, p->n, value));
    return rule;
}

/* Builds properties from the last to the first: `first` is the node where the object is still
 * empty, `later` the node after a property. */
static uint32_t members(struct sp_schema *s, const struct sp_schema_view *v,
                        const struct sp_schema_names *p, uint32_t close)
{
    struct sp_grammar *g = s->g;
    uint32_t end = sp_json_whitespace(&s->json, close), other = other_member(s, v, p);
    uint32_t first = end, later = end;
    bool may_be_empty = true;

    if (other) {
        uint32_t fork = sp_grammar_fork(g);
        sp_grammar_join(g, fork, sp_json_comma(&s->json, sp_grammar_call(g, other, 1, 1, fork)),
                        end);
        later = fork;
        first = sp_grammar_either(g, sp_grammar_call(g, other, 1, 1, fork), end);
    }
    for (size_t i = p->n; i-- > 0 && !g->err.status;) {
        bool required = sp_schema_is_required(s, v, p->at[i]);
        struct sp_schema_view view;
        uint32_t member = SP_GRAMMAR_NEVER;
        sp_schema_property(s, v, p->at[i], &view);
        if (!view.never) {
            member = colon(s, sp_schema_rule(s, &view), later);
            member = sp_json_text(&s->json, p->at[i], strlen(p->at[i]), member);
        }
        may_be_empty = may_be_empty && !required;
        first = required ? member : sp_grammar_either(g, member, first);
        member = view.never ? member : sp_json_comma(&s->json, member);
        later = required ? member : sp_grammar_either(g, member, later);
    }
    if (first == end) return end;
    first = sp_json_whitespace(&s->json, first);
    return may_be_empty ? sp_grammar_either(g, close, first) : first;
}

uint32_t sp_schema_object(struct sp_schema *s, const struct sp_schema_view *v)
{
    struct sp_schema_names p = {0};
    uint32_t close = TEXT(s->g, "}", SP_GRAMMAR_END), node;

    sp_schema_find_names(s, v, &p);
    node = TEXT(s->g, "{", members(s, v, &p, close));
    free(p.at);
    return node;
}
