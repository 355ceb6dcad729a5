/* Keywords that others can say: `not`, `if` and the dependencies of properties. Each becomes a
 * schema of anyOf and simpler keywords, which is written as JSON and read like a part of the
 * document. A `not` is written one level at a time: what it forbids inside of a value is a `not`
 * again.
 *
 * A value violates a schema if it violates one of its keywords, so the negation of a schema is an
 * anyOf of the negations of its keywords. A keyword whose negation cannot be said is left out of
 * that anyOf, which makes the grammar stricter. The negation of a pattern stays as it is,
 * {"type": "string", "not": {"pattern": P}}, and json_schema_text.c compiles it. */
#include "runtime/grammar/json_schema.h"

#include "format/base/mem.h"
#include "format/json/json_write.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The text of all derived schemas of a document. */
enum { MOST_BYTES = 4 << 20 };

/* Writes a text in which @ stands for the next value and $ for the next string; the arguments are
 * of type const struct sp_json * and const char *. */
static void put(struct sp_json_out *out, const char *text, ...)
{
    va_list args;

    va_start(args, text);
    for (; *text; text++) {
        const char *string;
        out->comma = false;
        if (*text == '@') {
            sp_json_out_value(out, NULL, va_arg(args, const struct sp_json *));
        } else if (*text == '$') {
            string = va_arg(args, const char *);
            sp_json_out_quoted(out, string, strlen(string));
        } else {
            sp_json_out_bytes(out, text, 1);
        }
    }
    va_end(args);
}

/* ---- values ---- */

/* Writes an element of anyOf for each type that is not one of these. */
static void put_other_types(struct sp_json_out *out, unsigned types)
{
    for (const struct sp_schema_type *t = sp_schema_type_names; t->types != SP_TYPE_INTEGER; t++)
        if (!(types & t->types)) put(out, "{\"type\":$},", t->name);
}

static int compare_numbers(const void *a, const void *b)
{
    const struct sp_json *const *first = a, *const *second = b;
    int64_t i, k;
    double x = 0, y = 0;

    if (sp_json_to_i64(*first, &i) && sp_json_to_i64(*second, &k)) return (i > k) - (i < k);
    (void)sp_json_to_double(*first, &x);
    (void)sp_json_to_double(*second, &y);
    return (x > y) - (x < y);
}

/* Writes the intervals between numbers. */
static void put_intervals(struct sp_json_out *out, const struct sp_json **numbers, size_t n)
{
    if (n == 0) return;
    qsort(numbers, n, sizeof *numbers, compare_numbers);
    put(out, "{\"type\":\"number\",\"exclusiveMaximum\":@},", numbers[0]);
    for (size_t i = 1; i < n; i++)
        put(out, "{\"type\":\"number\",\"exclusiveMinimum\":@,\"exclusiveMaximum\":@},",
            numbers[i - 1], numbers[i]);
    put(out, "{\"type\":\"number\",\"exclusiveMinimum\":@},", numbers[n - 1]);
}

enum sp_status sp_schema_append_literal(struct sp_strbuf *pattern, const char *text, size_t len,
                                        struct sp_err *err)
{
    enum sp_status st =
        sp_strbuf_append(pattern, pattern->len ? "|^" : "^", pattern->len ? 2 : 1, err);

    for (; len > 0 && !st; len--, text++) {
        if (*text && strchr("^$\\.*+?()[]{}|/", *text))
            st = sp_strbuf_append(pattern, "\\", 1, err);
        if (!st) st = sp_strbuf_append(pattern, text, 1, err);
    }
    return st ? st : sp_strbuf_append(pattern, "$", 1, err);
}

/* Writes the schemas of all values but those of an enum: of other types, other strings, numbers and
 * booleans. */
static void put_unlike(struct sp_schema *s, struct sp_json_out *out, const struct sp_json *values,
                       bool single)
{
    size_t n = single ? 1 : sp_json_len(values), n_numbers = 0;
    const struct sp_json **numbers = NULL;
    struct sp_strbuf pattern = {0};
    struct sp_err *err = &s->g->err;
    unsigned types = 0, truths = 0;

    if (n > SP_SCHEMA_VALUES || sp_new(&numbers, n, sizeof *numbers, err)) return;
    for (size_t i = 0; i < n && !err->status; i++) {
        const struct sp_json *one = single ? values : sp_json_at(values, i);
        size_t len = 0;
        const char *text = sp_json_to_string(one, &len);
        bool truth;
        types |= sp_schema_type_of(one);
        if (sp_json_to_bool(one, &truth)) truths |= truth ? 1 : 2;
        if (sp_schema_type_of(one) & SP_TYPE_NUMBER) numbers[n_numbers++] = one;
        if (text && sp_schema_append_literal(&pattern, text, len, err)) break;
    }
    put_other_types(out, types);
    put_intervals(out, numbers, n_numbers);
    if (truths == 1) put(out, "{\"const\":false},");
    if (truths == 2) put(out, "{\"const\":true},");
    if (types & SP_TYPE_STRING) {
        put(out, "{\"type\":\"string\",\"not\":{\"pattern\":");
        sp_json_out_quoted(out, pattern.at, pattern.len);
        put(out, "}},");
    }
    sp_strbuf_release(&pattern);
    free(numbers);
}

/* ---- not ---- */

/* Writes what violates a keyword whose value is a bound: another bound, and its type. */
static void put_bound(struct sp_json_out *out, const char *key, const struct sp_json *value)
{
    static const struct {
        const char *key, *type, *instead;
        int by; /* what is added to an integer */
    } bounds[] = {
        {"minimum", "number", "exclusiveMaximum", 0},
        {"maximum", "number", "exclusiveMinimum", 0},
        {"exclusiveMinimum", "number", "maximum", 0},
        {"exclusiveMaximum", "number", "minimum", 0},
        {"minLength", "string", "maxLength", -1},
        {"maxLength", "string", "minLength", 1},
        {"minItems", "array", "maxItems", -1},
        {"maxItems", "array", "minItems", 1},
        {"minProperties", "object", "maxProperties", -1},
        {"maxProperties", "object", "minProperties", 1},
    };
    int64_t n = 0;

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (strcmp(bounds[i].key, key) != 0) continue;
        if (bounds[i].by == 0) {
            put(out, "{\"type\":$,$:@},", bounds[i].type, bounds[i].instead, value);
        } else if (sp_json_to_i64(value, &n) && n + bounds[i].by >= 0) {
            put(out, "{\"type\":$,$:", bounds[i].type, bounds[i].instead);
            sp_json_out_print(out, "%lld},", (long long)(n + bounds[i].by));
        }
    }
}

/* Writes {"not": ...} of each schema. */
static void put_all_not(struct sp_json_out *out, const struct sp_json *schemas)
{
    for (size_t i = 0; i < sp_json_len(schemas); i++)
        put(out, "{\"not\":@},", sp_json_at(schemas, i));
}

/* Writes the schemas of values that violate one keyword, elements of anyOf. */
static void put_violation(struct sp_schema *s, struct sp_json_out *out,
                          const struct sp_json *schema, const char *key,
                          const struct sp_json *value)
{
    bool is_enum = strcmp(key, "enum") == 0, is_array = sp_json_kind(value) == SP_JSON_ARRAY;
    bool nullable = false;

    put_bound(out, key, value);
    if (strcmp(key, "type") == 0) {
        (void)sp_json_to_bool(sp_json_get(schema, "nullable"), &nullable);
        put_other_types(out, sp_schema_types_of(value) | (nullable ? SP_TYPE_NULL : 0));
    } else if (strcmp(key, "const") == 0 || (is_enum && is_array)) {
        put_unlike(s, out, value, !is_enum);
    } else if (strcmp(key, "pattern") == 0) {
        put(out, "{\"type\":\"string\",\"not\":{\"pattern\":@}},", value);
    } else if (strcmp(key, "required") == 0) {
        for (size_t i = 0; i < sp_json_len(value); i++)
            put(out, "{\"type\":\"object\",\"properties\":{@:false}},", sp_json_at(value, i));
    } else if (strcmp(key, "properties") == 0) {
        for (struct sp_json_iter it = {0}; sp_json_next(value, &it);)
            put(out, "{\"type\":\"object\",\"required\":[$],\"properties\":{$:{\"not\":@}}},",
                it.key, it.key, it.value);
    } else if (strcmp(key, "items") == 0 && !sp_json_has(schema, "prefixItems") && !is_array) {
        put(out, "{\"type\":\"array\",\"contains\":{\"not\":@}},", value);
    } else if (strcmp(key, "contains") == 0 && !sp_json_has(schema, "minContains") &&
               !sp_json_has(schema, "maxContains")) {
        put(out, "{\"type\":\"array\",\"items\":{\"not\":@}},", value);
    } else if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) {
        put(out, "{\"allOf\":[");
        put_all_not(out, value);
        put(out, "true]},");
    } else if (strcmp(key, "allOf") == 0) {
        put_all_not(out, value);
    } else if (strcmp(key, "not") == 0) {
        put(out, "@,", value);
    }
}

/* Writes the schema of what does not match a schema; false: it cannot be said. */
static bool put_negation(struct sp_schema *s, struct sp_json_out *out,
                         const struct sp_schema_part *part, const struct sp_json *schema)
{
    enum { MOST_REFERENCES = 16 };
    bool truth, said = false;
    size_t before;

    if (sp_json_to_bool(schema, &truth)) {
        put(out, truth ? "false" : "true");
        return true;
    }
    put(out, "{\"anyOf\":[");
    before = out->text.len;
    for (unsigned i = 0; schema && i < MOST_REFERENCES; i++) {
        const char *ref = sp_json_get_text(schema, "$ref");
        for (struct sp_json_iter it = {0}; sp_json_next(schema, &it) && !s->g->err.status;) {
            said = said || sp_schema_is_keyword(it.key);
            put_violation(s, out, schema, it.key, it.value);
        }
        schema = ref ? sp_schema_follow(s, part, ref) : NULL;
    }
    said = said && out->text.len == before && !s->g->err.status;
    put(out, "false]}"); /* nothing violates {} */
    return !said;
}

/* ---- conditions ---- */

static const char *const dependencies[] = {"dependentRequired", "dependentSchemas", "dependencies"};
enum { N_DEPENDENCIES = sizeof dependencies / sizeof *dependencies };

static bool has_condition(const struct sp_json *schema)
{
    return sp_json_has(schema, "if") &&
           (sp_json_has(schema, "then") || sp_json_has(schema, "else"));
}

/* Writes a member of a schema, or true. */
static void put_member(struct sp_json_out *out, const struct sp_json *schema, const char *key)
{
    if (sp_json_has(schema, key))
        put(out, "@", sp_json_get(schema, key));
    else
        put(out, "true");
}

/* Writes the schema of all conditions of a schema. An object lacks a property, or has it and what
 * it depends on: names or a schema. */
static void put_conditions(struct sp_json_out *out, const struct sp_json *schema)
{
    const struct sp_json *condition = sp_json_get(schema, "if");

    put(out, "{\"allOf\":[");
    if (has_condition(schema)) {
        put(out, "{\"anyOf\":[{\"allOf\":[@,", condition);
        put_member(out, schema, "then");
        put(out, "]},{\"allOf\":[{\"not\":@},", condition);
        put_member(out, schema, "else");
        put(out, "]}]},");
    }
    for (size_t i = 0; i < N_DEPENDENCIES; i++) {
        const struct sp_json *all = sp_json_get(schema, dependencies[i]);
        for (struct sp_json_iter it = {0}; sp_json_next(all, &it);) {
            bool names = sp_json_kind(it.value) == SP_JSON_ARRAY;
            put(out, "{\"anyOf\":[{\"properties\":{$:false}},{\"required\":[$],\"allOf\":[", it.key,
                it.key);
            put(out, names ? "{\"required\":@}]}]}," : "@]}]},", it.value);
        }
    }
    put(out, "true]}");
}

/* ---- derived schemas ---- */

/* Returns the schema derived from one of the document, which is written if it is new. `part`: NULL
 * for the conditions of the schema, else for what does not match it, the part that says so. */
static const struct sp_json *derive(struct sp_schema *s, const struct sp_json *of,
                                    const struct sp_schema_part *part, const char *key)
{
    struct sp_json_out out = {0};
    struct sp_schema_derived *d;
    bool said = true;

    for (size_t i = 0; i < s->n_derived; i++)
        if (s->derived[i].of == of && s->derived[i].negated == (part != NULL))
            return s->derived[i].json;
    if (s->g->err.status ||
        sp_grow(&s->derived, &s->cap_derived, s->n_derived + 1, sizeof *s->derived, &s->g->err))
        return NULL;
    if (part)
        said = put_negation(s, &out, part, of);
    else
        put_conditions(&out, of);
    s->derived_bytes += out.text.len;
    if (part && !said)
        sp_schema_fail(s, part, key, SP_E_UNSUPPORTED,
                       "what these keywords forbid is not supported");
    if (s->derived_bytes > MOST_BYTES)
        sp_grammar_fail(s->g, SP_E_UNSUPPORTED, "the conditions of the schema are too large");
    if (!said) {
        out.text.len = 0;
        put(&out, "true");
    }
    d = &s->derived[s->n_derived];
    *d = (struct sp_schema_derived){.of = of, .negated = part != NULL};
    if (s->g->err.status) sp_strbuf_release(&out.text);
    if (s->g->err.status || sp_json_out_parse(&d->json, &out, SP_OK, &s->g->err)) return NULL;
    s->n_derived++;
    return d->json;
}

const struct sp_json *sp_schema_negation(struct sp_schema *s, const struct sp_schema_part *part,
                                         const char *key, const struct sp_json *schema)
{
    const struct sp_json *of = sp_schema_resolve(s, part, schema);

    s->g->is_narrowed = true;
    return schema && of == NULL ? NULL : derive(s, of, part, key);
}

bool sp_schema_is_contradictory(const struct sp_schema *s, const struct sp_schema_view *v)
{
    for (size_t d = 0; d < s->n_derived; d++) {
        bool says = false, denies = false;
        for (size_t i = 0; i < v->n && s->derived[d].negated; i++) {
            const struct sp_json *json = s->places[v->parts[i].place].json;
            says = says || json == s->derived[d].of;
            denies = denies || json == s->derived[d].json;
        }
        if (says && denies) return true;
    }
    return false;
}

const struct sp_json *sp_schema_conditions(struct sp_schema *s, const struct sp_schema_part *part)
{
    const struct sp_json *schema = s->places[part->place].json;
    bool any = has_condition(schema);

    for (size_t i = 0; i < N_DEPENDENCIES; i++)
        any = any || sp_json_has(schema, dependencies[i]);
    return any ? derive(s, schema, NULL, NULL) : NULL;
}
