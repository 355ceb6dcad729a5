/* Views: the schemas that a value has to match, and their keywords. */
#include "runtime/grammar/json_schema.h"

#include "format/base/strbuf.h"
#include "format/base/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The keywords that restrict values, by the types to which they apply; 0: to all. */
static const struct {
    unsigned types;
    const char *names[16];
} keywords[] = {
    {0, {"$ref", "allOf", "anyOf", "const", "enum", "if", "not", "nullable", "oneOf", "type"}},
    {SP_TYPE_STRING, {"format", "maxLength", "minLength", "pattern"}},
    {SP_TYPE_NUMBER, {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"}},
    {SP_TYPE_ARRAY,
     {"additionalItems", "contains", "items", "maxItems", "minItems", "prefixItems",
      "unevaluatedItems", "uniqueItems"}},
    {SP_TYPE_OBJECT,
     {"additionalProperties", "dependencies", "dependentRequired", "dependentSchemas",
      "maxProperties", "minProperties", "patternProperties", "properties", "propertyNames",
      "required", "unevaluatedProperties"}},
};

static bool is_read(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        for (const char *const *is = keywords[i].names; *is; is++)
            if (strcmp(*is, name) == 0) return true;
    return false;
}

static bool is_refused(const char *name)
{
    return strcmp(name, "$dynamicRef") == 0 || strcmp(name, "$recursiveRef") == 0;
}

bool sp_schema_is_keyword(const char *name)
{
    return is_read(name) || is_refused(name);
}

void sp_schema_fail(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                    enum sp_status status, const char *what)
{
    const char *path = s->places[part->place].path;

    if (status != SP_E_UNSUPPORTED || s->relaxed == NULL)
        sp_grammar_fail(s->g, status, "%s/%s: %s", path, key, what);
    else if (s->relaxed->status == SP_OK)
        (void)!sp_fail(s->relaxed, status, "%s/%s: %s", path, key, what);
}

/* ---- places ---- */

/* Appends a name to a path, with "~" and "/" written as "~0" and "~1" (RFC 6901). */
static enum sp_status append_name(struct sp_strbuf *path, const char *name, struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(path, "/", 1, err);

    for (; *name && !st; name++)
        if (*name == '~')
            st = sp_strbuf_append(path, "~0", 2, err);
        else if (*name == '/')
            st = sp_strbuf_append(path, "~1", 2, err);
        else
            st = sp_strbuf_append(path, name, 1, err);
    return st;
}

static void check_keywords(struct sp_schema *s, uint32_t place)
{
    const struct sp_json *json = s->places[place].json;

    for (struct sp_json_iter it = {0}; sp_json_next(json, &it);) {
        bool base = strcmp(it.key, "$id") == 0 && json != s->root;
        if (!base && !is_refused(it.key)) continue;
        sp_schema_fail(s, &(struct sp_schema_part){.place = place}, it.key, SP_E_UNSUPPORTED,
                       "this keyword is not supported");
    }
}

/* Returns the index of a place. The keywords of a new place are checked. */
static uint32_t place_of(struct sp_schema *s, const struct sp_json *json, const char *path,
                         const char *key, const char *name)
{
    struct sp_strbuf text = {0};
    struct sp_err *err = &s->g->err;

    for (size_t i = 0; i < s->n_places; i++)
        if (s->places[i].json == json) return (uint32_t)i;
    if (err->status) return 0;
    if (s->n_places == SP_SCHEMA_PLACES) {
        sp_grammar_fail(s->g, SP_E_UNSUPPORTED, "the schema has more than %d subschemas",
                        SP_SCHEMA_PLACES);
        return 0;
    }
    if (sp_strbuf_append(&text, path, strlen(path), err) || (key && append_name(&text, key, err)) ||
        (name && append_name(&text, name, err)) || sp_strbuf_append(&text, "", 1, err) ||
        sp_grow(&s->places, &s->cap_places, s->n_places + 1, sizeof *s->places, err)) {
        sp_strbuf_release(&text);
        return 0;
    }
    s->places[s->n_places] = (struct sp_schema_place){json, text.at};
    check_keywords(s, (uint32_t)s->n_places);
    return (uint32_t)s->n_places++;
}

/* ---- references ---- */

/* Decodes one name of a JSON pointer as the document writes it; *pointer moves past it. */
static void read_name(char *name, const char **pointer)
{
    const char *p = *pointer;

    while (*p && *p != '/') {
        if (*p == '~' && (p[1] == '0' || p[1] == '1')) {
            *name++ = p[1] == '0' ? '~' : '/';
            p += 2;
        } else if (*p == '%' && sp_hex_digit(p[1]) >= 0 && sp_hex_digit(p[2]) >= 0) {
            *name++ = (char)(sp_hex_digit(p[1]) << 4 | sp_hex_digit(p[2]));
            p += 3;
        } else {
            *name++ = *p++;
        }
    }
    *name = '\0';
    *pointer = p;
}

static const struct sp_json *member_of(const struct sp_json *json, const char *name)
{
    char *end;
    unsigned long i;

    if (sp_json_kind(json) != SP_JSON_ARRAY) return sp_json_get(json, name);
    i = strtoul(name, &end, 10);
    return *name >= '0' && *name <= '9' && *end == '\0' ? sp_json_at(json, i) : NULL;
}

/* Returns the definition that has an anchor; NULL: none. */
static const struct sp_json *find_anchor(const struct sp_json *root, const char *anchor)
{
    static const char *const keys[] = {"$defs", "definitions"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        for (struct sp_json_iter it = {0}; sp_json_next(sp_json_get(root, keys[i]), &it);) {
            const char *is = sp_json_get_text(it.value, "$anchor");
            if (is && strcmp(is, anchor) == 0) return it.value;
        }
    }
    return NULL;
}

const struct sp_json *sp_schema_follow(struct sp_schema *s, const struct sp_schema_part *part,
                                       const char *pointer)
{
    const struct sp_json *at = s->root;
    char *name = NULL;

    if (pointer[0] != '#' || (pointer[1] != '/' && pointer[1] != '\0')) {
        const struct sp_json *anchor = *pointer == '#' ? find_anchor(at, pointer + 1) : NULL;
        if (anchor) return anchor;
        sp_schema_fail(s, part, "$ref", SP_E_UNSUPPORTED,
                       "only references into the same schema are followed: \"#\", \"#/...\" and "
                       "anchors of $defs");
        return NULL;
    }
    if (sp_new(&name, strlen(pointer) + 1, 1, &s->g->err)) return NULL;
    for (pointer++; *pointer == '/' && at;) {
        pointer++;
        read_name(name, &pointer);
        at = member_of(at, name);
    }
    if (at == NULL) sp_schema_fail(s, part, "$ref", SP_E_INPUT, "not found in the schema");
    free(name);
    return at;
}

/* ---- views ---- */

/* True if no other keyword than a $ref restricts values. */
static bool is_reference(const struct sp_json *json)
{
    for (struct sp_json_iter it = {0}; sp_json_next(json, &it);)
        if (strcmp(it.key, "$ref") != 0 && is_read(it.key)) return false;
    return sp_json_has(json, "$ref");
}

const struct sp_json *sp_schema_resolve(struct sp_schema *s, const struct sp_schema_part *part,
                                        const struct sp_json *json)
{
    enum { MOST = 64 };

    for (unsigned i = 0; json && is_reference(json); i++) {
        const char *ref = sp_json_get_text(json, "$ref");
        if (ref == NULL || i == MOST) {
            sp_schema_fail(s, part, "$ref", SP_E_INPUT,
                           ref ? "refers to itself" : "expected a string");
            return NULL;
        }
        json = sp_schema_follow(s, part, ref);
    }
    return json;
}

static void add_part(struct sp_schema *s, struct sp_schema_view *v, const struct sp_json *json,
                     const char *path, const char *key, const char *name)
{
    enum sp_json_kind kind = sp_json_kind(json);
    uint32_t place;
    bool truth;

    if (sp_json_to_bool(json, &truth)) {
        v->never = v->never || !truth;
        return;
    }
    if (kind != SP_JSON_OBJECT) {
        sp_grammar_fail(s->g, SP_E_INPUT, "%s%s%s%s%s: a schema is an object or a boolean, not %s",
                        path, key ? "/" : "", key ? key : "", name ? "/" : "", name ? name : "",
                        sp_json_kind_name(kind));
        return;
    }
    place = place_of(s, json, path, key, name);
    for (size_t i = 0; i < v->n; i++) {
        if (v->parts[i].place != place) continue;
        if (v->parts[i].any_chosen || v->parts[i].one_chosen) {
            sp_grammar_fail(s->g, SP_E_INPUT, "%s: refers to itself through anyOf or oneOf",
                            s->places[place].path);
        }
        return;
    }
    if (v->n == SP_SCHEMA_PARTS) {
        sp_grammar_fail(s->g, SP_E_UNSUPPORTED, "%s: more than %d schemas apply at once", path,
                        SP_SCHEMA_PARTS);
        return;
    }
    v->parts[v->n++] = (struct sp_schema_part){.place = place};
}

/* Appends the schemas of a part's $ref, not, conditions and allOf; they are expanded in turn. */
static void add_referenced(struct sp_schema *s, struct sp_schema_view *v, size_t i)
{
    const struct sp_schema_part part = v->parts[i];
    const struct sp_json *json = s->places[part.place].json, *all = sp_json_get(json, "allOf");
    const struct sp_json *derived;
    const char *ref = sp_json_to_string(sp_json_get(json, "$ref"), NULL);
    char number[24];

    if (sp_json_has(json, "$ref")) {
        const struct sp_json *to;
        if (ref == NULL) {
            sp_schema_fail(s, &part, "$ref", SP_E_INPUT, "expected a string");
            return;
        }
        to = sp_schema_resolve(s, &part, sp_schema_follow(s, &part, ref));
        if (to == NULL) return;
        add_part(s, v, to, ref, NULL, NULL);
    }
    if (sp_json_has(json, "not") && !sp_schema_is_unlike(json) &&
        (derived = sp_schema_negation(s, &part, "not", sp_json_get(json, "not"))))
        add_part(s, v, derived, s->places[part.place].path, "not", NULL);
    if ((derived = sp_schema_conditions(s, &part)))
        add_part(s, v, derived, s->places[part.place].path, "if", NULL);
    if (all && sp_json_kind(all) != SP_JSON_ARRAY)
        sp_schema_fail(s, &part, "allOf", SP_E_INPUT, "expected an array");
    for (size_t k = 0; k < sp_json_len(all) && sp_json_kind(all) == SP_JSON_ARRAY; k++) {
        snprintf(number, sizeof number, "%zu", k);
        add_part(s, v, sp_json_at(all, k), s->places[part.place].path, "allOf", number);
    }
}

bool sp_schema_is_unlike(const struct sp_json *json)
{
    const struct sp_json *not = sp_json_get(json, "not");
    const char *type = sp_json_get_text(json, "type");

    return type && strcmp(type, "string") == 0 && sp_json_len(not ) == 1 &&
           sp_json_get_text(not, "pattern");
}

void sp_schema_add(struct sp_schema *s, struct sp_schema_view *v, const struct sp_json *json,
                   const char *path, const char *key, const char *name)
{
    size_t first = v->n, kept = v->n;

    add_part(s, v, json, path, key, name);
    for (size_t i = first; i < v->n && !s->g->err.status; i++)
        add_referenced(s, v, i);
    if (s->g->err.status) return;
    /* A schema with nothing but $ref is dropped, so that a reference to it and one to its target
     * have equal views. */
    for (size_t i = first; i < v->n; i++) {
        const struct sp_json *part = s->places[v->parts[i].place].json;
        if (!is_reference(part)) v->parts[kept++] = v->parts[i];
    }
    v->n = kept;
}

static bool same_view(const struct sp_schema_view *a, const struct sp_schema_view *b)
{
    if (a->n != b->n || a->never != b->never || a->tag != b->tag) return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct sp_schema_part *x = &a->parts[i], *y = &b->parts[i];
        if (x->place != y->place || x->any_chosen != y->any_chosen ||
            x->one_chosen != y->one_chosen)
            return false;
    }
    return true;
}

uint32_t sp_schema_rule(struct sp_schema *s, const struct sp_schema_view *view)
{
    const char *path;
    uint32_t rule;

    if (s->g->err.status) return 0; /* the view may have a place that could not be added */
    for (size_t i = 0; i < s->n_jobs; i++)
        if (same_view(&s->jobs[i].view, view)) return s->jobs[i].rule;
    if (s->n_jobs == SP_SCHEMA_VIEWS) {
        sp_grammar_fail(s->g, SP_E_UNSUPPORTED,
                        "the schema combines its parts in more than %d ways", SP_SCHEMA_VIEWS);
    }
    if (s->g->err.status) return 0;
    path = view->n ? s->places[view->parts[0].place].path : view->never ? "false" : "any value";
    rule = sp_grammar_rule(s->g, path, strlen(path));
    if (sp_grow(&s->jobs, &s->cap_jobs, s->n_jobs + 1, sizeof *s->jobs, &s->g->err)) return 0;
    s->jobs[s->n_jobs++] = (struct sp_schema_job){*view, rule};
    return rule;
}

const struct sp_schema_part *sp_schema_next(const struct sp_schema *s,
                                            const struct sp_schema_view *view, const char *key,
                                            size_t *i, const struct sp_json **value)
{
    while (*i < view->n) {
        const struct sp_schema_part *part = &view->parts[(*i)++];
        if (!sp_json_has(s->places[part->place].json, key)) continue;
        *value = sp_json_get(s->places[part->place].json, key);
        return part;
    }
    return NULL;
}

bool sp_schema_has(const struct sp_schema *s, const struct sp_schema_view *view, const char *key)
{
    const struct sp_json *value;
    size_t i = 0;

    return sp_schema_next(s, view, key, &i, &value) != NULL;
}

bool sp_schema_is_short(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                        const struct sp_json *array, size_t most)
{
    if (sp_json_len(array) <= most) return true;
    sp_grammar_fail(s->g, SP_E_UNSUPPORTED, "%s/%s: more than %zu are not taken",
                    s->places[part->place].path, key, most);
    return false;
}

uint32_t sp_schema_bound(struct sp_schema *s, const struct sp_schema_view *view, const char *key,
                         int sign, uint32_t otherwise)
{
    const struct sp_json *value;
    const struct sp_schema_part *part;
    int64_t n;

    for (size_t i = 0; (part = sp_schema_next(s, view, key, &i, &value));) {
        if (!sp_json_to_i64(value, &n) || n < 0 || n > SP_GRAMMAR_TIMES) {
            sp_schema_fail(s, part, key, SP_E_INPUT, "expected an integer 0..16777216");
            return otherwise;
        }
        if (sign > 0 ? n > otherwise : n < otherwise) otherwise = (uint32_t)n;
    }
    return otherwise;
}

unsigned sp_schema_keyword_types(const struct sp_schema *s, const struct sp_schema_view *view)
{
    unsigned types = 0;

    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        for (const char *const *name = keywords[i].names; *name; name++)
            if (sp_schema_has(s, view, *name)) types |= keywords[i].types;
    return types;
}
