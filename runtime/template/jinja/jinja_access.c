/* Attributes, items and slices of Jinja with Python's semantics. */
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

/* Finds a Python attribute: a method, or an attribute of an object. SP_V_ABSENT: there is none. */
static struct sp_value own_attribute(struct sp_jinja_machine *m, struct sp_value v,
                                     struct sp_value name)
{
    const struct sp_value *value = NULL;
    struct sp_jinja_object *object = v.object;

    if (name.len > 0 && name.text[0] == '_') return SP_VALUE_ABSENT;
    if (v.kind != SP_V_OBJECT) return sp_jinja_method(m, v, name);
    if (object->kind == SP_JINJA_LOOP) return sp_jinja_loop_attribute(m, object, name);
    if (object->kind == SP_JINJA_NAMESPACE) value = sp_dict_find(m->heap, object->dict, name);
    if (object->kind == SP_JINJA_MACRO && sp_text_is(name, "name")) value = &object->node->value;
    return value ? *value : SP_VALUE_ABSENT;
}

static struct sp_value no_attribute(struct sp_jinja_machine *m, struct sp_value v,
                                    struct sp_value name)
{
    return sp_jinja_undefined(m, "'%s%s' has no attribute '%.*s'", sp_jinja_type_name(v),
                              v.kind == SP_V_NONE ? "" : " object", (int)name.len, name.text);
}

/* Evaluates v.name: an attribute first, then an item of that name. */
struct sp_value sp_jinja_attribute(struct sp_jinja_machine *m, struct sp_value v,
                                   struct sp_value name)
{
    const struct sp_value *item = NULL;
    struct sp_value own;

    if (!sp_jinja_defined(m, v) || !sp_heap_charge_reading(m->heap, &name, 1))
        return SP_VALUE_ABSENT;
    own = own_attribute(m, v, name);
    if (own.kind != SP_V_ABSENT) return own;
    if (v.kind == SP_V_DICT) item = sp_dict_find(m->heap, v.dict, name);
    return item ? *item : no_attribute(m, v, name);
}

static bool indexable(struct sp_value v)
{
    return v.kind == SP_V_LIST &&
           (v.shape == SP_SHAPE_PLAIN || v.shape == SP_SHAPE_TUPLE || v.shape == SP_SHAPE_RANGE);
}

static struct sp_value char_at(struct sp_jinja_machine *m, struct sp_value v, int64_t index)
{
    const bool backwards = index < 0;
    size_t pos = backwards ? v.len : 0, end;

    for (; index < 0 && pos > 0; index++)
        pos = sp_utf8_prev(v.text, pos);
    for (; index > 0 && pos < v.len; index--)
        sp_utf8_next(v.text, v.len, &pos);
    if (!sp_heap_charge(m->heap, (backwards ? v.len - pos : pos) / 8)) return SP_VALUE_ABSENT;
    if (index < 0 || pos >= v.len) return SP_VALUE_ABSENT;
    end = pos;
    sp_utf8_next(v.text, v.len, &end);
    return sp_value_text(v.text + pos, end - pos);
}

/* Evaluates v[index]: an item first, then an attribute of that name. */
struct sp_value sp_jinja_item(struct sp_jinja_machine *m, struct sp_value v, struct sp_value index)
{
    struct sp_builder b = {.heap = m->heap};
    struct sp_value found = SP_VALUE_ABSENT;
    bool number = index.kind == SP_V_INT || index.kind == SP_V_BOOL;

    if (!sp_jinja_defined(m, v)) return SP_VALUE_ABSENT;
    if (v.kind == SP_V_DICT) {
        const struct sp_value *item = sp_dict_find(m->heap, v.dict, index);
        if (item != NULL) found = *item;
    } else if (number && indexable(v)) {
        int64_t i = sp_value_to_integer(index), n = (int64_t)v.list->n;
        if (i >= -n && i < n) found = v.list->at[i < 0 ? i + n : i];
    } else if (number && v.kind == SP_V_TEXT) {
        found = char_at(m, v, sp_value_to_integer(index));
    }
    if (found.kind != SP_V_ABSENT) return found;
    if (index.kind == SP_V_TEXT) {
        found = own_attribute(m, v, index);
        return found.kind != SP_V_ABSENT ? found : no_attribute(m, v, index);
    }
    sp_jinja_build_repr(&b, index);
    return sp_jinja_undefined(m, "%s object has no element %.*s", sp_jinja_type_name(v),
                              (int)(b.len < 100 ? b.len : 100), b.at ? b.at : "");
}

/* Reads a bound; false, and *out is unchanged, if it is not given. */
static bool slice_bound(struct sp_jinja_machine *m, int64_t *out, struct sp_value v)
{
    if (!sp_jinja_given(v)) return false;
    if (v.kind == SP_V_INT || v.kind == SP_V_BOOL)
        *out = sp_value_to_integer(v);
    else
        sp_jinja_fail(m, "slice indices must be integers or None, not %s", sp_jinja_type_name(v));
    return true;
}

/* Applies Python's rules for slice bounds: negative ones count from the end, all are clipped.
 * False: a failure. */
static bool slice_range(struct sp_jinja_machine *m, const struct sp_value bound[3], int64_t n,
                        int64_t range[3])
{
    int64_t low, high;

    range[2] = 1;
    if (slice_bound(m, &range[2], bound[2]) && range[2] == 0)
        sp_jinja_fail(m, "slice step cannot be zero");
    low = range[2] < 0 ? -1 : 0;
    high = range[2] < 0 ? n - 1 : n;
    for (int i = 0; i < 2; i++) {
        range[i] = 0;
        if (!slice_bound(m, &range[i], bound[i]))
            range[i] = (range[2] < 0) == (i == 0) ? high : low;
        else if (range[i] < 0)
            range[i] = range[i] < -n ? -1 : range[i] + n;
        if (range[i] < low) range[i] = low;
        if (range[i] > high) range[i] = high;
    }
    return !m->heap->status;
}

static int64_t slice_length(const int64_t range[3])
{
    const int64_t span = range[2] > 0 ? range[1] - range[0] : range[0] - range[1];

    if (span <= 0) return 0;
    return 1 + (range[2] > 0 ? (span - 1) / range[2] : -((span - 1) / range[2]));
}

static struct sp_value slice_text(struct sp_jinja_machine *m, struct sp_value v,
                                  const struct sp_value bound[3])
{
    int64_t range[3];
    size_t n = sp_text_characters(v), k = 0;
    uint32_t *offset; /* [n + 1] byte offsets of the characters */
    struct sp_builder b = {.heap = m->heap};

    if (!sp_heap_charge(m->heap, v.len / 4) || !slice_range(m, bound, (int64_t)n, range) ||
        (offset = sp_heap_take(m->heap, (n + 1) * sizeof *offset)) == NULL)
        return SP_VALUE_ABSENT;
    for (size_t pos = 0; pos < v.len; sp_utf8_next(v.text, v.len, &pos))
        offset[k++] = (uint32_t)pos;
    offset[n] = v.len;
    if (range[2] == 1) {
        size_t begin = offset[range[0]];
        size_t end = range[1] > range[0] ? offset[range[1]] : begin;
        return sp_value_text(v.text + begin, end - begin);
    }
    for (int64_t i = 0; i < slice_length(range); i++) {
        const uint32_t *at = &offset[range[0] + i * range[2]];
        sp_build(&b, v.text + at[0], at[1] - at[0]);
    }
    return sp_builder_value(&b);
}

struct sp_value sp_jinja_slice(struct sp_jinja_machine *m, struct sp_value v,
                               const struct sp_value bound[3])
{
    int64_t range[3];
    struct sp_value out;

    if (!sp_jinja_defined(m, v)) return SP_VALUE_ABSENT;
    if (v.kind == SP_V_TEXT) {
        out = slice_text(m, v, bound);
        out.shape = v.shape;
        return out;
    }
    if (!indexable(v))
        return sp_jinja_fail(m, "'%s' object cannot be sliced", sp_jinja_type_name(v));
    if (!slice_range(m, bound, (int64_t)v.list->n, range)) return SP_VALUE_ABSENT;
    out = sp_value_list(m->heap, v.shape, 0);
    for (int64_t i = 0; i < slice_length(range); i++)
        sp_list_push(m->heap, out.list, v.list->at[range[0] + i * range[2]]);
    return out;
}
