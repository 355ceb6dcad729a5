#include "format/json/json.h"
#include "format/json/json_write.h"
#include "runtime/grammar/json_schema.h"
#include "runtime/grammar/grammar_matcher.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- oneOf: branches of which no two can match ---- */

/* The view of a branch: the branch itself and the targets of its references. */
static void open_branch(struct sp_schema *s, struct sp_schema_view *view,
                        const struct sp_schema_part *part, const struct sp_json *branches, size_t i)
{
    char number[24];

    *view = (struct sp_schema_view){0};
    snprintf(number, sizeof number, "%zu", i);
    sp_schema_add(s, view, sp_json_at(branches, i), s->places[part->place].path, "oneOf", number);
}

bool sp_schema_same_value(struct sp_schema *s, const struct sp_json *a, const struct sp_json *b)
{
    bool same = false;

    return sp_json_equal(&same, a, b, &s->g->err) == SP_OK && same;
}

/* The number of values of a schema: 1 for const, the length of enum, 0 for neither. */
static size_t n_literals(const struct sp_json *schema)
{
    if (sp_json_has(schema, "const")) return 1;
    return sp_json_len(sp_json_get(schema, "enum"));
}

static const struct sp_json *literal_at(const struct sp_json *schema, size_t i)
{
    if (sp_json_has(schema, "const")) return sp_json_get(schema, "const");
    return sp_json_at(sp_json_get(schema, "enum"), i);
}

/* True if both schemas list their values and have none in common. */
static bool are_disjoint_enums(struct sp_schema *s, const struct sp_json *a,
                               const struct sp_json *b)
{
    for (size_t i = 0; i < n_literals(a); i++) {
        for (size_t k = 0; k < n_literals(b); k++)
            if (sp_schema_same_value(s, literal_at(a, i), literal_at(b, k))) return false;
    }
    return n_literals(a) > 0 && n_literals(b) > 0;
}

/* True if both are objects that require a property whose values differ; `tag` (NULL: none) is
 * required in any case. */
static bool are_discriminated(struct sp_schema *s, const struct sp_json *a, const struct sp_json *b,
                              const char *tag)
{
    const struct sp_json *in_a = sp_json_get(a, "properties"), *in_b = sp_json_get(b, "properties");

    for (struct sp_json_iter it = {0}; sp_json_next(in_a, &it);) {
        bool required = tag && strcmp(tag, it.key) == 0;
        if (!required && (!sp_schema_lists(sp_json_get(a, "required"), it.key) ||
                          !sp_schema_lists(sp_json_get(b, "required"), it.key)))
            continue;
        if (are_disjoint_enums(s, it.value, sp_json_get(in_b, it.key))) return true;
    }
    return false;
}

static bool are_exclusive(struct sp_schema *s, const struct sp_schema_view *a,
                          const struct sp_schema_view *b, const char *tag)
{
    if ((sp_schema_types(s, a) & sp_schema_types(s, b)) == 0) return true;
    for (size_t i = 0; i < a->n; i++) {
        const struct sp_json *x = s->places[a->parts[i].place].json;
        for (size_t k = 0; k < b->n; k++) {
            const struct sp_json *y = s->places[b->parts[k].place].json;
            if (are_disjoint_enums(s, x, y) || are_discriminated(s, x, y, tag)) return true;
        }
    }
    return a->never || b->never;
}

/* Adds to the view of a branch of oneOf that the value matches none of the other branches, unless
 * these exclude it in any case: by their types, by their const and enum, or by those of a property
 * that both require. */
static void exclude_branches(struct sp_schema *s, struct sp_schema_view *view,
                             const struct sp_schema_part *part, const struct sp_json *branches,
                             size_t i, const char *tag)
{
    const char *path = s->places[part->place].path;
    struct sp_schema_view a, b;

    open_branch(s, &a, part, branches, i);
    for (size_t k = 0; k < sp_json_len(branches) && !s->g->err.status; k++) {
        const struct sp_json *other = sp_json_at(branches, k);
        if (k == i) continue;
        open_branch(s, &b, part, branches, k);
        if (are_exclusive(s, &a, &b, tag)) continue;
        other = sp_schema_negation(s, part, "oneOf", other);
        if (other) sp_schema_add(s, view, other, path, "oneOf", NULL);
    }
}

/* ---- types ---- */

const struct sp_schema_type sp_schema_type_names[SP_SCHEMA_TYPES] = {
    {"null", SP_TYPE_NULL},       {"boolean", SP_TYPE_BOOLEAN}, {"number", SP_TYPE_NUMBER},
    {"string", SP_TYPE_STRING},   {"array", SP_TYPE_ARRAY},     {"object", SP_TYPE_OBJECT},
    {"integer", SP_TYPE_INTEGER},
};

static unsigned type_of_name(const struct sp_json *name)
{
    const char *text = sp_json_to_string(name, NULL);

    for (size_t i = 0; text && i < SP_SCHEMA_TYPES; i++)
        if (strcmp(sp_schema_type_names[i].name, text) == 0) return sp_schema_type_names[i].types;
    return 0;
}

unsigned sp_schema_types_of(const struct sp_json *type)
{
    unsigned types = 0;

    if (sp_json_kind(type) != SP_JSON_ARRAY) return type_of_name(type);
    for (size_t i = 0; i < sp_json_len(type); i++) {
        unsigned one = type_of_name(sp_json_at(type, i));
        if (one == 0) return 0;
        types |= one;
    }
    return types;
}

/* The types that one part's `type` and `nullable` allow. */
static unsigned named_types(struct sp_schema *s, const struct sp_schema_part *part,
                            const struct sp_json *type)
{
    bool nullable = false;
    unsigned types = sp_schema_types_of(type);

    if (types == 0) {
        sp_schema_fail(s, part, "type", SP_E_INPUT,
                       "expected null, boolean, integer, number, string, array or object, or an "
                       "array of them");
        return SP_TYPE_ANY;
    }
    (void)sp_json_to_bool(sp_json_get(s->places[part->place].json, "nullable"), &nullable);
    return nullable ? types | SP_TYPE_NULL : types;
}

unsigned sp_schema_types(struct sp_schema *s, const struct sp_schema_view *v)
{
    const struct sp_json *type;
    const struct sp_schema_part *part;
    unsigned types = SP_TYPE_ANY, keyword_types = sp_schema_keyword_types(s, v);
    bool named = false;

    for (size_t i = 0; (part = sp_schema_next(s, v, "type", &i, &type)); named = true)
        types &= named_types(s, part, type);
    return named || keyword_types == 0 ? types : keyword_types;
}

unsigned sp_schema_type_of(const struct sp_json *v)
{
    static const unsigned of_kind[] = {
        [SP_JSON_NULL] = SP_TYPE_NULL,     [SP_JSON_BOOL] = SP_TYPE_BOOLEAN,
        [SP_JSON_INT] = SP_TYPE_INTEGER,   [SP_JSON_DOUBLE] = SP_TYPE_FRACTION,
        [SP_JSON_STRING] = SP_TYPE_STRING, [SP_JSON_ARRAY] = SP_TYPE_ARRAY,
        [SP_JSON_OBJECT] = SP_TYPE_OBJECT,
    };

    double x;

    if (sp_json_to_double(v, &x) && x == floor(x)) return SP_TYPE_INTEGER; /* 1.0 is an integer */
    return of_kind[sp_json_kind(v)];
}

/* ---- enum and const ---- */

static bool is_one_of(struct sp_schema *s, const struct sp_json *v, const struct sp_json *values)
{
    for (size_t i = 0; i < sp_json_len(values); i++)
        if (sp_schema_same_value(s, v, sp_json_at(values, i))) return true;
    return false;
}

bool sp_schema_is_enum_value(struct sp_schema *s, const struct sp_schema_view *v,
                             const struct sp_json *one, const struct sp_json *values_from,
                             unsigned types)
{
    const struct sp_json *values;
    const struct sp_schema_part *part;

    if (!(sp_schema_type_of(one) & types)) return false;
    for (size_t i = 0; (part = sp_schema_next(s, v, "enum", &i, &values));) {
        if (!sp_schema_is_short(s, part, "enum", values, SP_SCHEMA_VALUES)) return false;
        if (values != values_from && !is_one_of(s, one, values)) return false;
    }
    for (size_t i = 0; sp_schema_next(s, v, "const", &i, &values);)
        if (!sp_schema_same_value(s, one, values)) return false;
    return true;
}

uint32_t sp_schema_enum_value(struct sp_schema *s, const struct sp_json *one)
{
    uint32_t node = SP_GRAMMAR_NEVER;
    char *text = NULL;
    size_t len;
    const char *string = sp_json_to_string(one, &len);

    if (string) return sp_json_text(&s->json, string, len, SP_GRAMMAR_END);
    if (sp_json_print(&text, one, &s->g->err) == SP_OK)
        node = sp_grammar_string(s->g, text, SP_GRAMMAR_END);
    free(text);
    return node;
}

/* The strings and the numbers that the keywords for them allow, to try values of an enum. */
struct value_check {
    struct sp_grammar *g;
    struct sp_grammar_matcher *matcher;
};

static void open_check(struct sp_schema *s, const struct sp_schema_view *v, unsigned type,
                       struct value_check *check)
{
    struct sp_schema alone = *s;
    struct sp_err own = {0};
    uint32_t start;
    enum sp_status st;

    if (sp_grammar_new(&check->g, &s->g->err)) return;
    alone.g = check->g;
    sp_json_grammar_init(&alone.json, alone.g);
    start = type == SP_TYPE_STRING ? sp_schema_string(&alone, v, SP_GRAMMAR_END)
                                   : sp_schema_number(&alone, v, false, SP_GRAMMAR_END);
    st = sp_grammar_finish(check->g, start, &own);
    if (!st) st = sp_grammar_matcher_open(&check->matcher, check->g, &own);
    /* A grammar without a text allows no value. */
    if (alone.g->err.status || st == SP_E_NOMEM) sp_fail_as(&s->g->err, &own);
}

/* True if the keywords for its type allow a string or number of an enum. */
static bool keywords_allow(struct sp_schema *s, const struct sp_schema_view *v,
                           const struct sp_json *one, struct value_check checks[2])
{
    unsigned type = sp_schema_type_of(one) & SP_TYPE_NUMBER ? SP_TYPE_NUMBER : SP_TYPE_STRING;
    struct value_check *check = &checks[type == SP_TYPE_STRING];
    uint32_t state = SP_STATE_START;
    char *text = NULL;
    bool allowed = false;

    if (check->g == NULL) open_check(s, v, type, check);
    if (check->matcher && sp_json_print(&text, one, &s->g->err) == SP_OK &&
        sp_grammar_matcher_read(check->matcher, &state, text, strlen(text), &s->g->err) == SP_OK)
        allowed = sp_grammar_matcher_may_end(check->matcher, state);
    free(text);
    return allowed;
}

/* Matches the value of `const`, or one of `enum`. */
static uint32_t enum_values(struct sp_schema *s, const struct sp_schema_view *v, unsigned types)
{
    const struct sp_json *values = NULL;
    unsigned keyword_types = sp_schema_keyword_types(s, v);
    bool single = sp_schema_has(s, v, "const");
    const char *key = single ? "const" : "enum";
    uint32_t choice = SP_GRAMMAR_NEVER;
    struct value_check checks[2] = {0};
    size_t i = 0;
    const struct sp_schema_part *part = sp_schema_next(s, v, key, &i, &values);

    if (!single && sp_json_kind(values) != SP_JSON_ARRAY) {
        sp_schema_fail(s, part, key, SP_E_INPUT, "expected an array");
        return choice;
    }
    if (sp_schema_has(s, v, "not")) keyword_types |= SP_TYPE_STRING;
    for (size_t k = 0; k < (single ? 1 : sp_json_len(values)) && !s->g->err.status; k++) {
        const struct sp_json *one = single ? values : sp_json_at(values, k);
        bool limited = sp_schema_type_of(one) & keyword_types;
        if (!sp_schema_is_enum_value(s, v, one, single ? NULL : values, types)) continue;
        if (limited && sp_schema_type_of(one) & (SP_TYPE_ARRAY | SP_TYPE_OBJECT)) {
            sp_schema_fail(s, part, key, SP_E_UNSUPPORTED,
                           "cannot be combined with keywords for the types of its values");
        } else if (limited && !keywords_allow(s, v, one, checks)) {
            continue;
        }
        choice = sp_grammar_either(s->g, choice, sp_schema_enum_value(s, one));
    }
    for (size_t k = 0; k < 2; k++) {
        sp_grammar_matcher_close(checks[k].matcher);
        sp_grammar_close(checks[k].g);
    }
    return choice;
}

/* ---- one rule ---- */

static uint32_t either_type(struct sp_schema *s, const struct sp_schema_view *v, unsigned types)
{
    struct sp_grammar *g = s->g;
    uint32_t choice = SP_GRAMMAR_NEVER;

    if (types & SP_TYPE_OBJECT) choice = sp_schema_object(s, v);
    if (types & SP_TYPE_ARRAY) choice = sp_grammar_either(g, choice, sp_schema_array(s, v));
    if (types & SP_TYPE_STRING)
        choice = sp_grammar_either(g, choice, sp_schema_string(s, v, SP_GRAMMAR_END));
    if (types & SP_TYPE_INTEGER) {
        bool whole = !(types & SP_TYPE_FRACTION);
        choice = sp_grammar_either(g, choice, sp_schema_number(s, v, whole, SP_GRAMMAR_END));
    }
    if (types & SP_TYPE_BOOLEAN) {
        choice = sp_grammar_either(g, choice, sp_grammar_string(g, "true", SP_GRAMMAR_END));
        choice = sp_grammar_either(g, choice, sp_grammar_string(g, "false", SP_GRAMMAR_END));
    }
    if (types & SP_TYPE_NULL)
        choice = sp_grammar_either(g, choice, sp_grammar_string(g, "null", SP_GRAMMAR_END));
    return choice;
}

bool sp_schema_find_choice(const struct sp_schema *s, const struct sp_schema_view *v, size_t *which,
                           const char **key)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct sp_json *json = s->places[v->parts[i].place].json;
        *which = i;
        *key = "anyOf";
        if (!v->parts[i].any_chosen && sp_json_has(json, *key)) return true;
        *key = "oneOf";
        if (!v->parts[i].one_chosen && sp_json_has(json, *key)) return true;
    }
    return false;
}

static uint32_t choices(struct sp_schema *s, const struct sp_schema_view *v, size_t which,
                        const char *key)
{
    const struct sp_schema_place place = s->places[v->parts[which].place];
    const struct sp_json *branches = sp_json_get(place.json, key);
    const char *tag = sp_json_get_text(sp_json_get(place.json, "discriminator"), "propertyName");
    uint32_t choice = SP_GRAMMAR_NEVER;
    char number[24];

    if (v->tag) tag = NULL; /* a view has one tag */
    if (sp_json_kind(branches) != SP_JSON_ARRAY || sp_json_len(branches) == 0) {
        sp_schema_fail(s, &v->parts[which], key, SP_E_INPUT, "expected an array of schemas");
        return choice;
    }
    if (key[0] == 'o' &&
        !sp_schema_is_short(s, &v->parts[which], key, branches, SP_SCHEMA_BRANCHES))
        return choice;
    for (size_t i = 0; i < sp_json_len(branches) && !s->g->err.status; i++) {
        struct sp_schema_view view = *v;
        view.parts[which].any_chosen |= key[0] == 'a';
        view.parts[which].one_chosen |= key[0] == 'o';
        if (key[0] == 'o' && tag) view.tag = tag;
        snprintf(number, sizeof number, "%zu", i);
        sp_schema_add(s, &view, sp_json_at(branches, i), place.path, key, number);
        if (key[0] == 'o') exclude_branches(s, &view, &v->parts[which], branches, i, tag);
        if (view.never) continue;
        choice = sp_grammar_either(
            s->g, choice, sp_grammar_call(s->g, sp_schema_rule(s, &view), 1, 1, SP_GRAMMAR_END));
    }
    return choice;
}

/* Fails for `unevaluatedProperties` and `unevaluatedItems` that may not know all other schemas of
 * the view: they are taken from a schema that the others are parts of, and what a negation names is
 * not evaluated. */
static void check_unevaluated(struct sp_schema *s, const struct sp_schema_view *v)
{
    static const char *const keys[] = {"unevaluatedProperties", "unevaluatedItems"};

    for (size_t i = 0; i < v->n; i++) {
        const struct sp_json *json = s->places[v->parts[i].place].json;
        bool whole = i == 0 && !s->g->is_narrowed &&
                     (v->n == 1 || sp_json_has(json, "$ref") || sp_json_has(json, "allOf") ||
                      sp_json_has(json, "anyOf") || sp_json_has(json, "oneOf"));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            bool all = false;
            const struct sp_json *one = sp_json_get(json, keys[k]);
            if (!sp_json_has(json, keys[k]) || whole || (sp_json_to_bool(one, &all) && all))
                continue;
            sp_schema_fail(s, &v->parts[i], keys[k], SP_E_UNSUPPORTED,
                           "only supported in a schema that all others are parts of");
        }
    }
}

static uint32_t value(struct sp_schema *s, const struct sp_schema_view *v)
{
    unsigned types;
    size_t which;
    const char *key;

    if (v->never || sp_schema_is_contradictory(s, v)) return SP_GRAMMAR_NEVER;
    check_unevaluated(s, v);
    if (sp_schema_find_choice(s, v, &which, &key)) return choices(s, v, which, key);
    types = sp_schema_types(s, v);
    if (sp_schema_has(s, v, "enum") || sp_schema_has(s, v, "const"))
        return enum_values(s, v, types);
    if (types == SP_TYPE_ANY && sp_schema_keyword_types(s, v) == 0)
        return sp_grammar_call(s->g, s->json.value, 1, 1, SP_GRAMMAR_END);
    return either_type(s, v, types);
}

/* ---- whole schemas ---- */

void sp_schema_finish(struct sp_schema *s)
{
    for (size_t i = 0; i < s->n_jobs && !s->g->err.status; i++) {
        const struct sp_schema_job job = s->jobs[i]; /* s->jobs may be reallocated below */
        sp_grammar_define(s->g, job.rule, value(s, &job.view));
    }
    for (size_t i = 0; i < s->n_places; i++)
        free(s->places[i].path);
    for (size_t i = 0; i < s->n_derived; i++)
        sp_json_free(s->derived[i].json);
    free(s->places);
    free(s->jobs);
    free(s->derived);
}

static uint32_t whole(struct sp_grammar *g, const struct sp_json_grammar *json,
                      const struct sp_json *root, struct sp_err *relaxed)
{
    struct sp_schema s = {.g = g, .json = *json, .root = root, .relaxed = relaxed};
    struct sp_schema_view view = {0};
    uint32_t rule;

    sp_schema_add(&s, &view, root, "#", NULL, NULL);
    rule = sp_schema_rule(&s, &view);
    sp_schema_finish(&s);
    return sp_grammar_call(g, rule, 1, 1, SP_GRAMMAR_END);
}

/* Makes the grammar of a schema; NULL: of any JSON object. */
static enum sp_status make(struct sp_grammar **out, const struct sp_json *root, bool as_object,
                           struct sp_err *relaxed, struct sp_err *err)
{
    struct sp_grammar *g;
    struct sp_json_grammar json;
    uint32_t start;
    enum sp_status st;

    if ((st = sp_grammar_new(&g, err))) return st;
    sp_json_grammar_init(&json, g);
    start = as_object ? sp_grammar_call(g, json.object, 1, 1, SP_GRAMMAR_END)
                      : whole(g, &json, root, relaxed);
    if ((st = sp_grammar_finish(g, start, err)))
        sp_grammar_close(g);
    else
        *out = g;
    return st;
}

static enum sp_status of_schema(struct sp_grammar **out, const char *text, size_t size,
                                struct sp_err *relaxed, struct sp_err *err)
{
    struct sp_json *root = NULL;
    enum sp_status st;

    if (size > SP_GRAMMAR_TEXT)
        return sp_fail(err, SP_E_UNSUPPORTED, "the schema has more than %d bytes", SP_GRAMMAR_TEXT);
    if ((st = sp_json_parse(&root, text, size, SP_JSON_LENIENT, err))) return st;
    st = make(out, root, false, relaxed, err);
    sp_json_free(root);
    return st;
}

enum sp_status sp_grammar_of_schema(struct sp_grammar **out, const char *text, size_t size,
                                    struct sp_err *err)
{
    return of_schema(out, text, size, NULL, err);
}

enum sp_status sp_grammar_of_schema_relaxed(struct sp_grammar **out, const char *text, size_t size,
                                            struct sp_err *err)
{
    struct sp_err unused = {0};

    return of_schema(out, text, size, &unused, err);
}

enum sp_status sp_grammar_of_json(struct sp_grammar **out, struct sp_err *err)
{
    return make(out, NULL, true, NULL, err);
}
