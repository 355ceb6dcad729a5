/* oneOf: a value has to match exactly one branch. A grammar cannot express "exactly one", so
 * branches are accepted only if they provably exclude each other. */
#include "runtime/grammar/json_schema_choice.h"
#include "format/base/json_equal.h"
#include "runtime/grammar/json_schema.h"
#include "runtime/grammar/json_schema_view.h"

#include <stdio.h>
#include <string.h>

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
static size_t n_enum_values(const struct sp_json *schema)
{
    if (sp_json_has(schema, "const")) return 1;
    return sp_json_len(sp_json_get(schema, "enum"));
}

static const struct sp_json *enum_value(const struct sp_json *schema, size_t i)
{
    if (sp_json_has(schema, "const")) return sp_json_get(schema, "const");
    return sp_json_at(sp_json_get(schema, "enum"), i);
}

/* True if both schemas list their values and have none in common. */
static bool are_disjoint_enums(struct sp_schema *s, const struct sp_json *a,
                               const struct sp_json *b)
{
    for (size_t i = 0; i < n_enum_values(a); i++) {
        for (size_t k = 0; k < n_enum_values(b); k++)
            if (sp_schema_same_value(s, enum_value(a, i), enum_value(b, k))) return false;
    }
    return n_enum_values(a) > 0 && n_enum_values(b) > 0;
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

/* True if both are objects that require a property whose values differ. */
static bool are_discriminated(struct sp_schema *s, const struct sp_json *a, const struct sp_json *b)
{
    const struct sp_json *in_a = sp_json_get(a, "properties"), *in_b = sp_json_get(b, "properties");

    for (struct sp_json_iter it = {0}; sp_json_next(in_a, &it);) {
        if (!requires(a, it.key) || !requires(b, it.key)) continue;
        if (are_disjoint_enums(s, it.value, sp_json_get(in_b, it.key))) return true;
    }
    return false;
}

static bool are_exclusive(struct sp_schema *s, const struct sp_schema_view *a,
                          const struct sp_schema_view *b)
{
    if ((sp_schema_types(s, a) & sp_schema_types(s, b)) == 0) return true;
    for (size_t i = 0; i < a->n; i++) {
        const struct sp_json *x = s->places[a->parts[i].place].json;
        for (size_t k = 0; k < b->n; k++) {
            const struct sp_json *y = s->places[b->parts[k].place].json;
            if (are_disjoint_enums(s, x, y) || are_discriminated(s, x, y)) return true;
        }
    }
    return a->never || b->never;
}

void sp_schema_check_one_of(struct sp_schema *s, const struct sp_schema_part *part,
                            const struct sp_json *branches)
{
    struct sp_schema_view a, b;
    char sentence[160];

    if (!sp_schema_is_short(s, part, "oneOf", branches, SP_SCHEMA_BRANCHES)) return;
    for (size_t i = 0; i < sp_json_len(branches); i++) {
        open_branch(s, &a, part, branches, i);
        for (size_t k = i + 1; k < sp_json_len(branches) && !s->g->err.status; k++) {
            open_branch(s, &b, part, branches, k);
            if (are_exclusive(s, &a, &b)) continue;
            snprintf(sentence, sizeof sentence,
                     "a value may match both %zu and %zu; anyOf allows that", i, k);
            sp_schema_fail(s, part, "oneOf", SP_E_UNSUPPORTED, sentence);
        }
    }
}
