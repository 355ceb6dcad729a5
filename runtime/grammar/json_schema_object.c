/* Objects: properties in the order of the schema, required or optional, then additional ones. */
#include "runtime/grammar/json_schema.h"

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

static void add_name(struct sp_schema *s, struct sp_schema_names *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->at[i], name) == 0) return;
    if (s->g->err.status) return;
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
    for (size_t i = 0; (part = sp_schema_next(s, v, "propertyNames", &i, &json));) {
        json = sp_json_get(json, "enum");
        if (!sp_schema_is_short(s, part, "propertyNames", json, SP_SCHEMA_NAMES)) return;
        for (size_t k = 0; k < sp_json_len(json); k++) {
            const char *name = sp_json_to_string(sp_json_at(json, k), NULL);
            if (name) add_name(s, p, name);
        }
    }
}

/* True if `propertyNames` of all parts allow a name, as far as they have an enum. */
static bool is_allowed_name(const struct sp_schema *s, const struct sp_schema_view *v,
                            const char *name)
{
    const struct sp_json *json;

    for (size_t i = 0; sp_schema_next(s, v, "propertyNames", &i, &json);) {
        json = sp_json_get(json, "enum");
        if (json != NULL && !sp_schema_lists(json, name)) return false;
    }
    return true;
}

bool sp_schema_lists(const struct sp_json *array, const char *name)
{
    for (size_t i = 0; i < sp_json_len(array); i++) {
        const char *one = sp_json_to_string(sp_json_at(array, i), NULL);
        if (one && strcmp(one, name) == 0) return true;
    }
    return false;
}

bool sp_schema_is_required(const struct sp_schema *s, const struct sp_schema_view *v,
                           const char *name)
{
    const struct sp_json *json;

    if (v->tag && strcmp(v->tag, name) == 0) return true;
    for (size_t i = 0; sp_schema_next(s, v, "required", &i, &json);)
        if (sp_schema_lists(json, name)) return true;
    return false;
}

/* ---- patternProperties ---- */

enum { MOST_NAME_PATTERNS = 6 };

/* The different patterns of `patternProperties` of all parts. */
struct name_patterns {
    const char *at[MOST_NAME_PATTERNS];
    const struct sp_schema_part *parts[MOST_NAME_PATTERNS];
    size_t n;
};

static struct sp_text_pattern text_pattern(const struct sp_schema *s,
                                           const struct sp_schema_part *part, const char *text,
                                           bool negated)
{
    return (struct sp_text_pattern){text, strlen(text), s->places[part->place].path,
                                    "patternProperties", negated};
}

static void find_patterns(struct sp_schema *s, const struct sp_schema_view *v,
                          struct name_patterns *p)
{
    const struct sp_json *json;
    const struct sp_schema_part *part;

    for (size_t i = 0; (part = sp_schema_next(s, v, "patternProperties", &i, &json));) {
        for (struct sp_json_iter it = {0}; sp_json_next(json, &it) && !s->g->err.status;) {
            size_t k = 0;
            if (!sp_schema_takes_pattern(s, part, "patternProperties", it.key, strlen(it.key)))
                continue;
            while (k < p->n && strcmp(p->at[k], it.key) != 0)
                k++;
            if (k < p->n) continue;
            if (k < MOST_NAME_PATTERNS) {
                p->parts[p->n] = part;
                p->at[p->n++] = it.key;
            } else {
                sp_schema_fail(s, part, "patternProperties", SP_E_UNSUPPORTED,
                               "more than 6 patterns");
            }
        }
    }
}

/* True if a property is one of those that a pattern names. */
static bool has_pattern(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                        const char *name, const char *pattern)
{
    struct sp_text_pattern text = text_pattern(s, part, key, false);

    if (name == NULL) return pattern && strcmp(pattern, key) == 0;
    if (!sp_schema_takes_pattern(s, part, "patternProperties", key, strlen(key))) return false;
    return sp_grammar_pattern_matches(s->g, &text, name);
}

void sp_schema_property(struct sp_schema *s, const struct sp_schema_view *v, const char *name,
                        const char *pattern, struct sp_schema_view *out)
{
    *out = (struct sp_schema_view){0};
    for (size_t i = 0; i < v->n; i++) {
        const struct sp_schema_place place = s->places[v->parts[i].place];
        const struct sp_json *named = sp_json_get(place.json, "properties");
        const char *other = "additionalProperties";
        bool found = name && sp_json_has(named, name);
        if (!sp_json_has(place.json, other) && name == NULL) other = "unevaluatedProperties";
        if (found) sp_schema_add(s, out, sp_json_get(named, name), place.path, "properties", name);
        named = sp_json_get(place.json, "patternProperties");
        for (struct sp_json_iter it = {0}; sp_json_next(named, &it);) {
            if (!has_pattern(s, &v->parts[i], it.key, name, pattern)) continue;
            found = true;
            sp_schema_add(s, out, it.value, place.path, "patternProperties", it.key);
        }
        if (!found && sp_json_has(place.json, other))
            sp_schema_add(s, out, sp_json_get(place.json, other), place.path, other, NULL);
    }
}

/* Matches the name of a property that is none of `names`, and matches pattern `which` but no other
 * one (SIZE_MAX: none of them). */
static uint32_t patterned_name(struct sp_schema *s, const struct name_patterns *p, size_t which,
                               const struct sp_schema_names *names, uint32_t next)
{
    struct sp_text_pattern all[MOST_NAME_PATTERNS + 2];
    struct sp_strbuf given = {0};
    enum sp_status st = SP_OK;
    size_t n = 0;

    all[n++] = text_pattern(s, p->parts[0], "", false); /* any text */
    for (size_t i = 0; i < p->n; i++)
        all[n++] = text_pattern(s, p->parts[i], p->at[i], i != which);
    for (size_t i = 0; i < names->n && !st; i++)
        st = sp_schema_append_literal(&given, names->at[i], strlen(names->at[i]), &s->g->err);
    if (names->n && !st) {
        all[n] = text_pattern(s, p->parts[0], "", true);
        all[n].text = given.at;
        all[n++].len = given.len;
    }
    if (!st) next = sp_grammar_intersection(s->g, all, n, 0, SP_NO_LIMIT, next);
    sp_strbuf_release(&given);
    return next;
}

static uint32_t colon(struct sp_schema *s, uint32_t value, uint32_t next)
{
    next = sp_grammar_call(s->g, value, 1, 1, next);
    return sp_grammar_string(s->g, ":", sp_json_whitespace(&s->json, next));
}

/* The view of `propertyNames` of all parts, where these restrict names other than by an enum. */
static void names_view(struct sp_schema *s, const struct sp_schema_view *v,
                       struct sp_schema_view *out)
{
    const struct sp_json *json;
    const struct sp_schema_part *part;

    *out = (struct sp_schema_view){0};
    for (size_t i = 0; (part = sp_schema_next(s, v, "propertyNames", &i, &json));) {
        bool type = sp_json_has(json, "type");
        if (sp_json_kind(json) == SP_JSON_OBJECT && sp_json_len(json) == (size_t)type) continue;
        sp_schema_add(s, out, json, s->places[part->place].path, "propertyNames", NULL);
    }
}

/* True if a part declares properties that may be there, so that no others are written unless
 * `additionalProperties` allows them. */
static bool is_closed(const struct sp_schema *s, const struct sp_schema_view *v)
{
    static const char *const keys[] = {"properties", "patternProperties"};
    const struct sp_json *named;
    bool closed = false, truth;

    if (sp_schema_has(s, v, "additionalProperties")) return false;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t i = 0; sp_schema_next(s, v, keys[k], &i, &named);) {
            closed = closed || sp_json_len(named) == 0;
            for (struct sp_json_iter it = {0}; sp_json_next(named, &it);)
                closed = closed || !sp_json_to_bool(it.value, &truth) || truth;
        }
    }
    return closed;
}

/* The rule of a property that no part names; 0: none is allowed. */
static uint32_t other_member(struct sp_schema *s, const struct sp_schema_view *v,
                             const struct sp_schema_names *p)
{
    struct sp_schema_view view = {0}, names;
    struct name_patterns patterns = {0};
    bool none = is_closed(s, v), listed, spelled;
    uint32_t choice = SP_GRAMMAR_NEVER, value;

    find_patterns(s, v, &patterns);
    if (!none) sp_schema_property(s, v, NULL, NULL, &view);
    names_view(s, v, &names);
    listed = sp_schema_has(s, &names, "enum") || (names.n == 0 && !names.never);
    none = none || view.never || names.never || sp_schema_has(s, &names, "enum");
    spelled =
        !listed && p->n == 0 && patterns.n == 0 && sp_schema_types(s, &names) == SP_TYPE_STRING;
    if (!listed && !spelled && (p->n > 0 || !none || patterns.n > 0)) {
        size_t i = 0;
        const struct sp_json *unused;
        const struct sp_schema_part *part = sp_schema_next(s, v, "propertyNames", &i, &unused);
        sp_schema_fail(s, part, "propertyNames", SP_E_UNSUPPORTED,
                       "only strings, and no properties beside it");
    }
    if (s->g->err.status || (none && patterns.n == 0)) return 0;
    if (!none) {
        value = colon(s, sp_schema_rule(s, &view), SP_GRAMMAR_END);
        choice = spelled      ? sp_grammar_call(s->g, sp_schema_rule(s, &names), 1, 1, value)
                 : patterns.n ? patterned_name(s, &patterns, SIZE_MAX, p, value)
                              : sp_schema_other_name(s, p->at, p->n, value);
    }
    for (size_t i = 0; i < patterns.n && !s->g->err.status && !names.never; i++) {
        sp_schema_property(s, v, NULL, patterns.at[i], &view);
        if (view.never) continue;
        value = colon(s, sp_schema_rule(s, &view), SP_GRAMMAR_END);
        choice = sp_grammar_either(s->g, choice, patterned_name(s, &patterns, i, p, value));
    }
    return sp_grammar_group(s->g, choice);
}

/* The properties of an object, and how many of them there may be. */
struct members {
    uint32_t rules[SP_SCHEMA_NAMES]; /* of named properties; SP_GRAMMAR_NEVER: not allowed */
    bool required[SP_SCHEMA_NAMES];
    size_t n, n_required;
    uint32_t other;      /* rule of the other properties; 0: none */
    uint32_t close, end; /* nodes of the closing brace, and of whitespace before it */
    uint32_t empty;      /* node of the end of an object without properties */
};

/* Reads the properties, each of which becomes a rule. */
static void read_members(struct sp_schema *s, const struct sp_schema_view *v,
                         const struct sp_schema_names *p, struct members *m)
{
    m->n = p->n;
    m->other = other_member(s, v, p);
    for (size_t i = 0; i < p->n && !s->g->err.status; i++) {
        struct sp_schema_view view;
        sp_schema_property(s, v, p->at[i], NULL, &view);
        m->required[i] = sp_schema_is_required(s, v, p->at[i]);
        m->n_required += m->required[i];
        m->rules[i] = SP_GRAMMAR_NEVER;
        if (view.never || !is_allowed_name(s, v, p->at[i])) continue;
        m->rules[i] = sp_grammar_group(
            s->g, sp_json_text(&s->json, p->at[i], strlen(p->at[i]),
                               colon(s, sp_schema_rule(s, &view), SP_GRAMMAR_END)));
    }
}

static uint32_t member(struct sp_schema *s, const struct members *m, size_t i, uint32_t next)
{
    return m->rules[i] == SP_GRAMMAR_NEVER ? SP_GRAMMAR_NEVER
                                           : sp_grammar_call(s->g, m->rules[i], 1, 1, next);
}

/* Any number of other properties, and of optional ones whose turn is over, each after a comma: were
 * these excluded, a model that writes their names would be bent to names that begin like them. */
static uint32_t more_members(struct sp_schema *s, const struct members *m)
{
    uint32_t fork, choice;

    if (m->other == 0) return m->end;
    fork = sp_grammar_fork(s->g);
    choice = sp_grammar_call(s->g, m->other, 1, 1, fork);
    for (size_t i = 0; i < m->n; i++)
        if (!m->required[i]) choice = sp_grammar_either(s->g, choice, member(s, m, i, fork));
    sp_grammar_join(s->g, fork, sp_json_comma(&s->json, choice), m->end);
    return fork;
}

/* Builds named properties from the last to the first, in the order of the schema, and then others:
 * `first` is the node where the object is still empty, `later` the node after a property. */
static uint32_t in_order(struct sp_schema *s, const struct members *m)
{
    struct sp_grammar *g = s->g;
    uint32_t later = more_members(s, m), first = m->empty;

    if (m->other) first = sp_grammar_either(g, sp_grammar_call(g, m->other, 1, 1, later), first);
    for (size_t i = m->n; i-- > 0 && !g->err.status;) {
        uint32_t one = member(s, m, i, later);
        first = m->required[i] ? one : sp_grammar_either(g, one, first);
        one = one == SP_GRAMMAR_NEVER ? one : sp_json_comma(&s->json, one);
        later = m->required[i] ? one : sp_grammar_either(g, one, later);
    }
    return first;
}

enum { MOST_FREE = 6, MOST_STATES = 256 };

/* Whether optional properties may come in any order: where others may come as well, and there are
 * few enough to remember which have come. */
static bool is_free(const struct members *m)
{
    size_t n_optional = m->n - m->n_required;

    return m->other && n_optional > 0 && n_optional <= MOST_FREE &&
           ((size_t)1 << n_optional) * (m->n_required + 1) <= MOST_STATES;
}

/* Required properties in the order of the schema, optional ones once at any time, and others after
 * the required ones. A state is the set of optional ones that have come, and the number of required
 * ones. */
static uint32_t in_any_order(struct sp_schema *s, const struct members *m)
{
    struct sp_grammar *g = s->g;
    size_t n_optional = m->n - m->n_required, n_sets = (size_t)1 << n_optional;
    uint32_t forks[MOST_STATES], first = SP_GRAMMAR_NEVER;

    for (size_t i = 0; i < n_sets * (m->n_required + 1); i++)
        forks[i] = sp_grammar_fork(g);
    for (size_t set = n_sets; set-- > 0 && !g->err.status;) {
        for (size_t done = m->n_required + 1; done-- > 0;) {
            uint32_t *states = forks + set * (m->n_required + 1), choice = SP_GRAMMAR_NEVER, end;
            size_t optional = 0, required = 0;
            for (size_t i = 0; i < m->n; i++) {
                size_t bit = (size_t)1 << optional;
                uint32_t next;
                if (m->required[i] && required++ == done)
                    choice = sp_grammar_either(g, choice, member(s, m, i, states[done + 1]));
                if (m->required[i]) continue;
                next = forks[(set | bit) * (m->n_required + 1) + done];
                if (!(set & bit)) choice = sp_grammar_either(g, choice, member(s, m, i, next));
                optional++;
            }
            end = done == m->n_required ? m->end : SP_GRAMMAR_NEVER;
            if (done == m->n_required) {
                uint32_t other = sp_grammar_call(g, m->other, 1, 1, states[done]);
                choice = sp_grammar_either(g, choice, other);
            }
            /* The empty set comes last. */
            first = sp_grammar_either(g, choice, done ? end : m->n_required ? end : m->empty);
            if (choice != SP_GRAMMAR_NEVER) choice = sp_json_comma(&s->json, choice);
            sp_grammar_join(g, states[done], choice, end);
        }
    }
    return first;
}

/* Reads the bounds of the number of properties. Those that hold in any case do not limit it; names
 * may come twice, so that no object can be held to have several of them. */
static void read_counts(struct sp_schema *s, const struct sp_schema_view *v,
                        const struct members *m, uint32_t *min, uint32_t *max)
{
    *min = sp_schema_bound(s, v, "minProperties", 1, 0);
    *max = sp_schema_bound(s, v, "maxProperties", -1, SP_NO_LIMIT);
    if (*min <= m->n_required) *min = 0;
    if (!m->other && *max >= m->n) *max = SP_NO_LIMIT;
    if ((*min <= 1 && *max == SP_NO_LIMIT) || (*min <= 1 && m->n == 0 && m->other)) return;
    for (size_t i = 0; i < v->n; i++) {
        const char *key = *min > 1 ? "minProperties" : "maxProperties";
        if (sp_json_has(s->places[v->parts[i].place].json, key))
            sp_schema_fail(s, &v->parts[i], key, SP_E_UNSUPPORTED,
                           "not supported beside properties");
    }
    *min = *min > 1 ? 1 : *min;
    if (m->n > 0 || !m->other) *max = SP_NO_LIMIT;
}

static uint32_t members(struct sp_schema *s, const struct sp_schema_view *v,
                        const struct sp_schema_names *p, struct members *m)
{
    struct sp_grammar *g = s->g;
    uint32_t first, min, max;

    m->close = sp_grammar_string(g, "}", SP_GRAMMAR_END);
    m->end = sp_json_whitespace(&s->json, m->close);
    read_members(s, v, p, m);
    read_counts(s, v, m, &min, &max);
    if (g->err.status) return SP_GRAMMAR_NEVER;
    m->empty = min > 0 ? SP_GRAMMAR_NEVER : m->end;
    if (m->n == 0 && m->other && (min > 0 || max != SP_NO_LIMIT))
        first = sp_json_list(&s->json, m->other, min, max, m->end);
    else
        first = is_free(m) ? in_any_order(s, m) : in_order(s, m);
    if (first == m->end) return first;
    first = sp_json_whitespace(&s->json, first);
    return m->n_required == 0 && min == 0 ? sp_grammar_either(g, m->close, first) : first;
}

uint32_t sp_schema_object(struct sp_schema *s, const struct sp_schema_view *v)
{
    struct sp_schema_names p = {0};
    struct members *m = NULL;
    uint32_t node = SP_GRAMMAR_NEVER;

    sp_schema_find_names(s, v, &p);
    if (s->g->err.status == SP_OK && !sp_new(&m, 1, sizeof *m, &s->g->err))
        node = sp_grammar_string(s->g, "{", members(s, v, &p, m));
    free(m);
    free(p.at);
    return node;
}
