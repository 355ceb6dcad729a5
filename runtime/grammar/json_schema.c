#include "format/base/mem.h"
#include "format/json/json.h"
#include "format/json/json_write.h"
#include "runtime/grammar/json_schema.h"
#include "runtime/grammar/json_schema_parts.h"

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

/* Compares two JSON values; also false if the grammar has failed. */
static bool schema_same_value(struct sp_schema *s, const struct sp_json *a, const struct sp_json *b)
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
            if (schema_same_value(s, literal_at(a, i), literal_at(b, k))) return false;
    }
    return n_literals(a) > 0 && n_literals(b) > 0;
}

static bool requires(const struct sp_json *schema, const char *name)
{
    const struct sp_json *required = sp_json_get(schema, "required");

    for (size_t i = 0; i < sp_json_len(required); i++) {
        const char *one = sp_json_to_string(sp_json_at(required, i), NULL);
        if (one && strcmp(one, name) == 0) return true;
    }
    return false;
}

/* True if both are objects that require a property whose values differ; `tag` (NULL: none) is
 * required in any case. */
static bool are_discriminated(struct sp_schema *s, const struct sp_json *a, const struct sp_json *b,
                              const char *tag)
{
    const struct sp_json *in_a = sp_json_get(a, "properties"), *in_b = sp_json_get(b, "properties");

    for (struct sp_json_iter it = {0}; sp_json_next(in_a, &it);) {
        bool required = tag && strcmp(tag, it.key) == 0;
        if (!required && (!requires(a, it.key) || !requires(b, it.key))) continue;
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

/* Records a failure unless the branches of a part's oneOf provably exclude each other: by their
 * types, by their const and enum, or by those of a property that both require. */
static void schema_check_one_of(struct sp_schema *s, const struct sp_schema_part *part,
                                const struct sp_json *branches, const char *tag)
{
    struct sp_schema_view a, b;
    char sentence[160];

    if (!sp_schema_is_short(s, part, "oneOf", branches, SP_SCHEMA_BRANCHES)) return;
    for (size_t i = 0; i < sp_json_len(branches); i++) {
        open_branch(s, &a, part, branches, i);
        for (size_t k = i + 1; k < sp_json_len(branches) && !s->g->err.status; k++) {
            open_branch(s, &b, part, branches, k);
            if (are_exclusive(s, &a, &b, tag) || s->relaxed) continue;
            snprintf(sentence, sizeof sentence,
                     "a value may match both %zu and %zu; anyOf allows that", i, k);
            sp_schema_fail(s, part, "oneOf", SP_E_UNSUPPORTED, sentence);
        }
    }
}

#define TEXT(g, text, next) sp_grammar_text(g, text, sizeof(text) - 1, next)

/* ---- types ---- */

static const struct {
    const char *name;
    unsigned types;
} type_names[] = {
    {"null", SP_TYPE_NULL},     {"boolean", SP_TYPE_BOOLEAN}, {"integer", SP_TYPE_INTEGER},
    {"number", SP_TYPE_NUMBER}, {"string", SP_TYPE_STRING},   {"array", SP_TYPE_ARRAY},
    {"object", SP_TYPE_OBJECT},
};

static unsigned type_of_name(const struct sp_json *name)
{
    const char *text = sp_json_to_string(name, NULL);

    for (size_t i = 0; text && i < sizeof type_names / sizeof *type_names; i++)
        if (strcmp(type_names[i].name, text) == 0) return type_names[i].types;
    return 0;
}

/* The types that one part's `type` and `nullable` allow. */
static unsigned named_types(struct sp_schema *s, const struct sp_schema_part *part,
                            const struct sp_json *type)
{
    bool nullable = false;
    unsigned types = 0;

    if (sp_json_kind(type) == SP_JSON_ARRAY) {
        for (size_t i = 0; i < sp_json_len(type); i++) {
            unsigned one = type_of_name(sp_json_at(type, i));
            types = one ? types | one : SP_TYPE_ANY + 1;
        }
    } else {
        types = type_of_name(type);
    }
    if (types == 0 || types > SP_TYPE_ANY) {
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

static unsigned type_of_value(const struct sp_json *v)
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
        if (schema_same_value(s, v, sp_json_at(values, i))) return true;
    return false;
}

/* True if the enum, const and type of all parts allow a value, an element of values_from. */
static bool is_enum_value(struct sp_schema *s, const struct sp_schema_view *v,
                          const struct sp_json *one, const struct sp_json *values_from,
                          unsigned types)
{
    const struct sp_json *values;
    const struct sp_schema_part *part;

    if (!(type_of_value(one) & types)) return false;
    for (size_t i = 0; (part = sp_schema_next(s, v, "enum", &i, &values));) {
        if (!sp_schema_is_short(s, part, "enum", values, SP_SCHEMA_VALUES)) return false;
        if (values != values_from && !is_one_of(s, one, values)) return false;
    }
    for (size_t i = 0; sp_schema_next(s, v, "const", &i, &values);)
        if (!schema_same_value(s, one, values)) return false;
    return true;
}

static uint32_t enum_value(struct sp_schema *s, const struct sp_json *one)
{
    uint32_t node = SP_GRAMMAR_NEVER;
    char *text = NULL;
    size_t len;
    const char *string = sp_json_to_string(one, &len);

    if (string) return sp_json_text(&s->json, string, len, SP_GRAMMAR_END);
    if (sp_json_print(&text, one, &s->g->err) == SP_OK)
        node = sp_grammar_text(s->g, text, strlen(text), SP_GRAMMAR_END);
    free(text);
    return node;
}

/* Matches the value of `const`, or one of `enum`. */
static uint32_t enum_values(struct sp_schema *s, const struct sp_schema_view *v, unsigned types)
{
    const struct sp_json *values = NULL;
    unsigned keyword_types = sp_schema_keyword_types(s, v);
    bool single = sp_schema_has(s, v, "const");
    const char *key = single ? "const" : "enum";
    uint32_t choice = SP_GRAMMAR_NEVER;
    size_t i = 0;
    const struct sp_schema_part *part = sp_schema_next(s, v, key, &i, &values);

    if (!single && sp_json_kind(values) != SP_JSON_ARRAY) {
        sp_schema_fail(s, part, key, SP_E_INPUT, "expected an array");
        return choice;
    }
    for (size_t k = 0; k < (single ? 1 : sp_json_len(values)) && !s->g->err.status; k++) {
        const struct sp_json *one = single ? values : sp_json_at(values, k);
        if (!is_enum_value(s, v, one, single ? NULL : values, types)) continue;
        if (type_of_value(one) & keyword_types && !s->relaxed) {
            sp_schema_fail(s, part, key, SP_E_UNSUPPORTED,
                           "cannot be combined with keywords for the types of its values");
        }
        choice = sp_grammar_either(s->g, choice, enum_value(s, one));
    }
    return choice;
}

/* ---- arrays ---- */

/* The keyword under which a schema has the first elements: `items` in drafts before 2020-12. */
static const char *prefix_key(const struct sp_json *schema)
{
    bool old = sp_json_kind(sp_json_get(schema, "items")) == SP_JSON_ARRAY;

    return old ? "items" : "prefixItems";
}

/* The view of element `at`; SIZE_MAX: of the elements after all of the first ones. */
static void element_view(struct sp_schema *s, const struct sp_schema_view *v, size_t at,
                         struct sp_schema_view *out)
{
    char number[24];

    *out = (struct sp_schema_view){0};
    snprintf(number, sizeof number, "%zu", at);
    for (size_t i = 0; i < v->n; i++) {
        const struct sp_schema_place place = s->places[v->parts[i].place];
        const char *key = prefix_key(place.json);
        const char *rest = *key == 'i' ? "additionalItems" : "items";
        const struct sp_json *prefix = sp_json_get(place.json, key);
        if (at < sp_json_len(prefix)) {
            sp_schema_add(s, out, sp_json_at(prefix, at), place.path, key, number);
            continue;
        }
        if (!sp_json_has(place.json, rest) && at == SIZE_MAX) rest = "unevaluatedItems";
        if (sp_json_has(place.json, rest))
            sp_schema_add(s, out, sp_json_get(place.json, rest), place.path, rest, NULL);
    }
}

static size_t longest_prefix(struct sp_schema *s, const struct sp_schema_view *v)
{
    size_t longest = 0;

    for (size_t i = 0; i < v->n; i++) {
        const struct sp_json *json = s->places[v->parts[i].place].json;
        const char *key = prefix_key(json);
        const struct sp_json *prefix = sp_json_get(json, key);
        if (prefix && sp_json_kind(prefix) != SP_JSON_ARRAY) {
            sp_schema_fail(s, &v->parts[i], key, SP_E_INPUT, "expected an array");
            return 0;
        }
        if (sp_json_len(prefix) > longest) longest = sp_json_len(prefix);
    }
    return longest;
}

/* The elements after prefixItems, `before` of which precede: any number of commas and elements
 * such that the array has min to max elements in all. */
static uint32_t more_elements(struct sp_schema *s, const struct sp_schema_view *v, size_t before,
                              uint32_t min, uint32_t max, uint32_t end)
{
    struct sp_schema_view rest;
    uint32_t element, with_comma, some;

    min = min > before ? min - (uint32_t)before : 0;
    if (max != SP_NO_LIMIT) max = max > before ? max - (uint32_t)before : 0;
    element_view(s, v, SIZE_MAX, &rest);
    if (max == 0 || rest.never) return min ? SP_GRAMMAR_NEVER : end;
    element = sp_schema_rule(s, &rest);
    with_comma = sp_grammar_rule(s->g, NULL, 0);
    sp_grammar_define(
        s->g, with_comma,
        sp_json_comma(&s->json, sp_grammar_call(s->g, element, 1, 1, SP_GRAMMAR_END)));
    if (before > 0) return sp_grammar_call(s->g, with_comma, min, max, end);
    some = sp_grammar_call(s->g, with_comma, min ? min - 1 : 0, max == SP_NO_LIMIT ? max : max - 1,
                           end);
    some = sp_grammar_call(s->g, element, 1, 1, some);
    return min ? some : sp_grammar_either(s->g, some, end);
}

static uint32_t array(struct sp_schema *s, const struct sp_schema_view *v)
{
    uint32_t min = sp_schema_bound(s, v, "minItems", 1, 0);
    uint32_t max = sp_schema_bound(s, v, "maxItems", -1, SP_NO_LIMIT);
    uint32_t close = TEXT(s->g, "]", SP_GRAMMAR_END), end = sp_json_whitespace(&s->json, close);
    size_t n_prefix = longest_prefix(s, v);
    uint32_t node;

    if (n_prefix > max) n_prefix = max;
    node = more_elements(s, v, n_prefix, min, max, end);
    for (size_t i = n_prefix; i-- > 0 && !s->g->err.status;) {
        struct sp_schema_view view;
        element_view(s, v, i, &view);
        node = view.never ? SP_GRAMMAR_NEVER
                          : sp_grammar_call(s->g, sp_schema_rule(s, &view), 1, 1, node);
        if (i > 0) node = sp_json_comma(&s->json, node);
        if (i >= min) node = sp_grammar_either(s->g, node, end);
    }
    if (min == 0)
        node = sp_grammar_either(s->g, close, sp_json_whitespace(&s->json, node));
    else
        node = sp_json_whitespace(&s->json, node);
    return TEXT(s->g, "[", node);
}

/* ---- one rule ---- */

static uint32_t either_type(struct sp_schema *s, const struct sp_schema_view *v, unsigned types)
{
    struct sp_grammar *g = s->g;
    uint32_t choice = SP_GRAMMAR_NEVER;

    if (types & SP_TYPE_OBJECT) choice = sp_schema_object(s, v);
    if (types & SP_TYPE_ARRAY) choice = sp_grammar_either(g, choice, array(s, v));
    if (types & SP_TYPE_STRING)
        choice = sp_grammar_either(g, choice, sp_schema_string(s, v, SP_GRAMMAR_END));
    if (types & SP_TYPE_INTEGER) {
        bool whole = !(types & SP_TYPE_FRACTION);
        choice = sp_grammar_either(g, choice, sp_schema_number(s, v, whole, SP_GRAMMAR_END));
    }
    if (types & SP_TYPE_BOOLEAN) {
        choice = sp_grammar_either(g, choice, TEXT(g, "true", SP_GRAMMAR_END));
        choice = sp_grammar_either(g, choice, TEXT(g, "false", SP_GRAMMAR_END));
    }
    if (types & SP_TYPE_NULL)
        choice = sp_grammar_either(g, choice, TEXT(g, "null", SP_GRAMMAR_END));
    return choice;
}

/* Finds the first part with an anyOf or oneOf without a chosen branch yet, and the keyword. */
static bool find_choice(struct sp_schema *s, const struct sp_schema_view *v, size_t *which,
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
    if (key[0] == 'o') schema_check_one_of(s, &v->parts[which], branches, tag);
    for (size_t i = 0; i < sp_json_len(branches) && !s->g->err.status; i++) {
        struct sp_schema_view view = *v;
        view.parts[which].any_chosen |= key[0] == 'a';
        view.parts[which].one_chosen |= key[0] == 'o';
        if (key[0] == 'o' && tag) view.tag = tag;
        snprintf(number, sizeof number, "%zu", i);
        sp_schema_add(s, &view, sp_json_at(branches, i), place.path, key, number);
        if (view.never) continue;
        choice = sp_grammar_either(
            s->g, choice, sp_grammar_call(s->g, sp_schema_rule(s, &view), 1, 1, SP_GRAMMAR_END));
    }
    return choice;
}

/* Fails for `unevaluatedProperties` and `unevaluatedItems` that may not know all other schemas of
 * the view: they are taken from a schema that the others are parts of. */
static void check_unevaluated(struct sp_schema *s, const struct sp_schema_view *v)
{
    static const char *const keys[] = {"unevaluatedProperties", "unevaluatedItems"};

    for (size_t i = 0; i < v->n && !s->relaxed; i++) {
        const struct sp_json *json = s->places[v->parts[i].place].json;
        bool whole =
            i == 0 && (v->n == 1 || sp_json_has(json, "$ref") || sp_json_has(json, "allOf") ||
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

    if (v->never) return SP_GRAMMAR_NEVER;
    check_unevaluated(s, v);
    if (find_choice(s, v, &which, &key)) return choices(s, v, which, key);
    types = sp_schema_types(s, v);
    if (sp_schema_has(s, v, "enum") || sp_schema_has(s, v, "const"))
        return enum_values(s, v, types);
    if (types == SP_TYPE_ANY && sp_schema_keyword_types(s, v) == 0)
        return sp_grammar_call(s->g, s->json.value, 1, 1, SP_GRAMMAR_END);
    return either_type(s, v, types);
}

/* ---- whole schemas ---- */

/* Fails for a rule that matches no text, where the schema is and not where it is used. */
static void check_possible(struct sp_schema *s, const struct sp_schema_view *v, uint32_t start)
{
    if (start != SP_GRAMMAR_NEVER || s->g->err.status) return;
    sp_grammar_fail(s->g, SP_E_INPUT, "%s: no value can match",
                    v->n ? s->places[v->parts[0].place].path : "#");
}

void sp_schema_finish(struct sp_schema *s)
{
    for (size_t i = 0; i < s->n_jobs && !s->g->err.status; i++) {
        const struct sp_schema_job job = s->jobs[i]; /* s->jobs may be reallocated below */
        uint32_t start = value(s, &job.view);
        check_possible(s, &job.view, start);
        sp_grammar_define(s->g, job.rule, start);
    }
    for (size_t i = 0; i < s->n_places; i++)
        free(s->places[i].path);
    free(s->places);
    free(s->jobs);
}

static uint32_t whole(struct sp_grammar *g, const struct sp_json_grammar *json,
                      const struct sp_json *root, bool relaxed)
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
                           bool relaxed, struct sp_err *err)
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
                                bool relaxed, struct sp_err *err)
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
    return of_schema(out, text, size, false, err);
}

enum sp_status sp_grammar_of_schema_relaxed(struct sp_grammar **out, const char *text, size_t size,
                                            struct sp_err *err)
{
    return of_schema(out, text, size, true, err);
}

enum sp_status sp_grammar_of_json(struct sp_grammar **out, struct sp_err *err)
{
    return make(out, NULL, true, false, err);
}
