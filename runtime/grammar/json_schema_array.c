/* Arrays: elements by place, how many there are and how many of them match `contains`, and arrays
 * of different values. */
#include "runtime/grammar/json_schema.h"

#include <stdio.h>

/* ---- elements ---- */

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
    uint32_t element;

    min = min > before ? min - (uint32_t)before : 0;
    if (max != SP_NO_LIMIT) max = max > before ? max - (uint32_t)before : 0;
    element_view(s, v, SIZE_MAX, &rest);
    if (max == 0 || rest.never) return min ? SP_GRAMMAR_NEVER : end;
    element = sp_schema_rule(s, &rest);
    if (before == 0) return sp_json_list(&s->json, element, min, max, end);
    return sp_grammar_call(s->g, sp_json_more(&s->json, element), min, max, end);
}

/* ---- contains ---- */

enum { MOST_MATCHES = 64 };

/* Any number of elements, n of which match `contains` as well, followed by `end`. */
static uint32_t containing(struct sp_schema *s, const struct sp_schema_view *v,
                           const struct sp_schema_part *part, uint32_t n, uint32_t end)
{
    const struct sp_schema_place place = s->places[part->place];
    struct sp_schema_view view;
    uint32_t element, match, fork = sp_grammar_fork(s->g), more;

    element_view(s, v, SIZE_MAX, &view);
    if (view.never) return SP_GRAMMAR_NEVER;
    element = sp_schema_rule(s, &view);
    sp_schema_add(s, &view, sp_json_get(place.json, "contains"), place.path, "contains", NULL);
    match = sp_schema_rule(s, &view);
    sp_grammar_join(s->g, fork, sp_json_comma(&s->json, sp_grammar_call(s->g, element, 1, 1, fork)),
                    end);
    more = sp_grammar_call(s->g, match, 1, 1, fork);
    for (uint32_t i = 0; i < n && !s->g->err.status; i++) {
        if (i > 0) more = sp_grammar_call(s->g, match, 1, 1, sp_json_comma(&s->json, fork));
        fork = sp_grammar_fork(s->g);
        sp_grammar_join(s->g, fork, more,
                        sp_grammar_call(s->g, element, 1, 1, sp_json_comma(&s->json, fork)));
    }
    return fork;
}

/* ---- uniqueItems ---- */

/* Values of which any may have come. */
enum { MOST_FREE_VALUES = 10 };

/* Finds the different values of the elements of an array; false: they are no short enum. */
static bool read_unique_values(struct sp_schema *s, const struct sp_schema_view *element,
                               const struct sp_json *values[MOST_FREE_VALUES], size_t *n)
{
    const struct sp_json *list = NULL;
    unsigned types = sp_schema_types(s, element);
    const char *key;
    size_t i = 0;

    if (sp_schema_find_choice(s, element, &i, &key) || sp_schema_keyword_types(s, element))
        return false;
    i = 0;
    if (!sp_schema_next(s, element, "enum", &i, &list)) return false;
    for (i = 0; i < sp_json_len(list); i++) {
        const struct sp_json *one = sp_json_at(list, i);
        bool known = !sp_schema_is_enum_value(s, element, one, list, types);
        for (size_t k = 0; k < *n && !known; k++)
            known = sp_schema_same_value(s, one, values[k]);
        if (!known && *n == MOST_FREE_VALUES) return false;
        if (!known) values[(*n)++] = one;
    }
    return true;
}

/* The values in any order: a state is the set of those that have come. */
static uint32_t unique_in_any_order(struct sp_schema *s, const uint32_t *rules, size_t n,
                                    uint32_t min, uint32_t max, uint32_t end)
{
    uint32_t forks[1 << MOST_FREE_VALUES];

    for (size_t set = 0; set < (size_t)1 << n; set++)
        forks[set] = sp_grammar_fork(s->g);
    for (size_t set = 0; set < (size_t)1 << n; set++) {
        uint32_t choice = SP_GRAMMAR_NEVER, count = 0;
        for (size_t i = 0; i < n; i++)
            count += set >> i & 1;
        for (size_t i = 0; i < n && count < max; i++) {
            if (set >> i & 1) continue;
            choice = sp_grammar_either(
                s->g, choice, sp_grammar_call(s->g, rules[i], 1, 1, forks[set | (size_t)1 << i]));
        }
        if (set && choice != SP_GRAMMAR_NEVER) choice = sp_json_comma(&s->json, choice);
        sp_grammar_join(s->g, forks[set], choice, count >= min ? end : SP_GRAMMAR_NEVER);
    }
    return forks[0];
}

/* The elements of an array of different values of a short enum; false: there is none. */
static bool unique_elements(struct sp_schema *s, const struct sp_schema_view *element, uint32_t min,
                            uint32_t max, uint32_t end, uint32_t *node)
{
    const struct sp_json *values[MOST_FREE_VALUES];
    uint32_t rules[MOST_FREE_VALUES];
    size_t n = 0;

    if (!read_unique_values(s, element, values, &n)) return false;
    for (size_t i = 0; i < n; i++)
        rules[i] = sp_grammar_group(s->g, sp_schema_enum_value(s, values[i]));
    *node = unique_in_any_order(s, rules, n, min, max, end);
    return true;
}

/* True if the elements of an array must differ. */
static bool is_unique(struct sp_schema *s, const struct sp_schema_view *v)
{
    const struct sp_json *value;
    bool unique = false;

    for (size_t i = 0; !unique && sp_schema_next(s, v, "uniqueItems", &i, &value);)
        (void)sp_json_to_bool(value, &unique);
    return unique;
}

/* ---- the whole array ---- */

/* The elements of an array, followed by `end`. */
static uint32_t elements(struct sp_schema *s, const struct sp_schema_view *v, uint32_t min,
                         uint32_t max, uint32_t end)
{
    const struct sp_json *value;
    size_t n_prefix = longest_prefix(s, v), i = 0;
    const struct sp_schema_part *contains = sp_schema_next(s, v, "contains", &i, &value);
    uint32_t node, least = sp_schema_bound(s, v, "minContains", 1, 0);
    struct sp_schema_view element;

    if (!sp_schema_has(s, v, "minContains")) least = 1;
    if (contains && least == 0 && !sp_schema_has(s, v, "maxContains")) contains = NULL;
    if (contains && n_prefix == 0 && min <= least && max == SP_NO_LIMIT && least <= MOST_MATCHES &&
        !sp_schema_has(s, v, "maxContains") && !is_unique(s, v) &&
        !sp_schema_next(s, v, "contains", &i, &value))
        return containing(s, v, contains, least, end);
    if (contains)
        sp_schema_fail(s, contains, "contains", SP_E_UNSUPPORTED,
                       "only supported once, without prefixItems, maxContains, and bounds beyond "
                       "minContains");
    i = 0;
    if (is_unique(s, v) && max > 1) {
        element_view(s, v, SIZE_MAX, &element);
        if (n_prefix == 0 && unique_elements(s, &element, min, max, end, &node)) return node;
        sp_schema_fail(s, sp_schema_next(s, v, "uniqueItems", &i, &value), "uniqueItems",
                       SP_E_UNSUPPORTED, "only supported for an enum of at most 10 values");
    }
    if (n_prefix > max) n_prefix = max;
    node = more_elements(s, v, n_prefix, min, max, end);
    for (i = n_prefix; i-- > 0 && !s->g->err.status;) {
        struct sp_schema_view view;
        element_view(s, v, i, &view);
        node = view.never ? SP_GRAMMAR_NEVER
                          : sp_grammar_call(s->g, sp_schema_rule(s, &view), 1, 1, node);
        if (i > 0) node = sp_json_comma(&s->json, node);
        if (i >= min) node = sp_grammar_either(s->g, node, end);
    }
    return node;
}

uint32_t sp_schema_array(struct sp_schema *s, const struct sp_schema_view *v)
{
    uint32_t min = sp_schema_bound(s, v, "minItems", 1, 0);
    uint32_t max = sp_schema_bound(s, v, "maxItems", -1, SP_NO_LIMIT);
    uint32_t close = sp_grammar_string(s->g, "]", SP_GRAMMAR_END),
             end = sp_json_whitespace(&s->json, close);

    if (min > max) return SP_GRAMMAR_NEVER;
    return sp_grammar_string(s->g, "[",
                             sp_json_whitespace(&s->json, elements(s, v, min, max, end)));
}
