/* Attributes, items and slices of Jinja with Python's semantics. */
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

/* Finds a Python attribute: a method, or an attribute of an object. */
static enum sp_status own_attribute(struct sp_jinja_machine *m, struct sp_value *out, bool *found,
                                    struct sp_value v, struct sp_value name)
{
    enum sp_status st = SP_OK;
    const struct sp_value *value = NULL;
    struct sp_jinja_object *object = v.object;

    *found = false;
    if (name.len > 0 && name.text[0] == '_') return SP_OK;
    if (v.kind != SP_V_OBJECT) return sp_jinja_method(m, out, found, v, name);
    out->kind = SP_V_ABSENT;
    if (object->kind == SP_JINJA_LOOP)
        st = sp_jinja_loop_attribute(m, out, object, name);
    else if (object->kind == SP_JINJA_NAMESPACE)
        st = sp_dict_find(m->heap, &value, object->dict, name);
    else if (object->kind == SP_JINJA_MACRO && sp_text_is(name, "name"))
        value = &object->node->value;
    if (value != NULL) *out = *value;
    *found = out->kind != SP_V_ABSENT;
    return st;
}

static enum sp_status no_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_value v, struct sp_value name)
{
    return sp_jinja_undefined(m, out, "'%s%s' has no attribute '%.*s'", sp_jinja_type_name(v),
                              v.kind == SP_V_NONE ? "" : " object", (int)name.len, name.text);
}

/* Evaluates v.name: an attribute first, then an item of that name. */
enum sp_status sp_jinja_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_value v, struct sp_value name)
{
    enum sp_status st;
    const struct sp_value *item = NULL;
    bool found = false;

    if ((st = sp_jinja_defined(m, v))) return st;
    if ((st = sp_heap_charge_reading(m->heap, &name, 1))) return st;
    if ((st = own_attribute(m, out, &found, v, name)) || found) return st;
    if (v.kind == SP_V_DICT && (st = sp_dict_find(m->heap, &item, v.dict, name))) return st;
    if (item != NULL) {
        *out = *item;
        return SP_OK;
    }
    return no_attribute(m, out, v, name);
}

static bool indexable(struct sp_value v)
{
    return v.kind == SP_V_LIST &&
           (v.shape == SP_SHAPE_PLAIN || v.shape == SP_SHAPE_TUPLE || v.shape == SP_SHAPE_RANGE);
}

static enum sp_status char_at(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value v,
                              int64_t index, bool *found)
{
    const bool backwards = index < 0;
    size_t pos = backwards ? v.len : 0, end = 0;
    enum sp_status st;

    *found = false;
    for (; index < 0 && pos > 0; index++)
        pos = sp_utf8_prev(v.text, pos);
    if (backwards && ((st = sp_heap_charge(m->heap, (v.len - pos) / 8)) || index < 0)) return st;
    for (; index > 0 && pos < v.len; index--)
        sp_utf8_next(v.text, v.len, &pos);
    if (!backwards && (st = sp_heap_charge(m->heap, pos / 8))) return st;
    if (pos >= v.len) return SP_OK;
    end = pos;
    sp_utf8_next(v.text, v.len, &end);
    *out = sp_value_text(v.text + pos, end - pos);
    *found = true;
    return SP_OK;
}

/* Evaluates v[index]: an item first, then an attribute of that name. */
enum sp_status sp_jinja_item(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value v,
                             struct sp_value index)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    bool number = index.kind == SP_V_INT || index.kind == SP_V_BOOL, found = false;

    if ((st = sp_jinja_defined(m, v))) return st;
    if (v.kind == SP_V_DICT) {
        const struct sp_value *item;
        if ((st = sp_dict_find(m->heap, &item, v.dict, index))) return st;
        if (item != NULL) {
            *out = *item;
            return SP_OK;
        }
    } else if (number && indexable(v)) {
        int64_t i = sp_value_to_integer(index), n = (int64_t)v.list->n;
        if (i >= -n && i < n) {
            *out = v.list->at[i < 0 ? i + n : i];
            return SP_OK;
        }
    } else if (number && v.kind == SP_V_TEXT) {
        if ((st = char_at(m, out, v, sp_value_to_integer(index), &found)) || found) return st;
    }
    if (index.kind == SP_V_TEXT) {
        if ((st = own_attribute(m, out, &found, v, index)) || found) return st;
        return no_attribute(m, out, v, index);
    }
    if ((st = sp_jinja_build_repr(&b, index))) return st;
    return sp_jinja_undefined(m, out, "%s object has no element %.*s", sp_jinja_type_name(v),
                              (int)(b.len < 100 ? b.len : 100), b.at ? b.at : "");
}

static enum sp_status slice_bound(struct sp_jinja_machine *m, struct sp_value v, int64_t *out,
                                  bool *given)
{
    *given = v.kind != SP_V_ABSENT && v.kind != SP_V_NONE;
    if (!*given) return SP_OK;
    if (v.kind != SP_V_INT && v.kind != SP_V_BOOL) {
        return sp_jinja_fail(m, "slice indices must be integers or None, not %s",
                             sp_jinja_type_name(v));
    }
    *out = sp_value_to_integer(v);
    return SP_OK;
}

/* Applies Python's rules for slice bounds: negative ones count from the end, all are clipped. */
static enum sp_status slice_range(struct sp_jinja_machine *m, const struct sp_value bound[3],
                                  int64_t n, int64_t range[3])
{
    enum sp_status st;
    int64_t low, high;
    bool given;

    range[2] = 1;
    if ((st = slice_bound(m, bound[2], &range[2], &given))) return st;
    if (range[2] == 0) return sp_jinja_fail(m, "slice step cannot be zero");
    low = range[2] < 0 ? -1 : 0;
    high = range[2] < 0 ? n - 1 : n;
    for (int i = 0; i < 2; i++) {
        if ((st = slice_bound(m, bound[i], &range[i], &given))) return st;
        if (!given) range[i] = (range[2] < 0) == (i == 0) ? high : low;
        if (given && range[i] < 0) range[i] = range[i] < -n ? -1 : range[i] + n;
        if (range[i] < low) range[i] = low;
        if (range[i] > high) range[i] = high;
    }
    return SP_OK;
}

static enum sp_status slice_text(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_value v, const struct sp_value bound[3])
{
    enum sp_status st;
    int64_t range[3];
    size_t n = sp_text_characters(v), k = 0;
    uint32_t *offset; /* [n + 1] byte offsets of the characters */
    struct sp_builder b = {.heap = m->heap};

    if ((st = sp_heap_charge(m->heap, v.len / 4))) return st;
    if ((st = slice_range(m, bound, (int64_t)n, range))) return st;
    if ((st = sp_heap_take(m->heap, &offset, (n + 1) * sizeof *offset))) return st;
    for (size_t pos = 0; pos < v.len; sp_utf8_next(v.text, v.len, &pos))
        offset[k++] = (uint32_t)pos;
    offset[n] = v.len;
    if (range[2] == 1) {
        size_t begin = offset[range[0]];
        size_t end = range[1] > range[0] ? offset[range[1]] : begin;
        *out = sp_value_text(v.text + begin, end - begin);
        return SP_OK;
    }
    for (int64_t i = range[0]; range[2] > 0 ? i < range[1] : i > range[1]; i += range[2]) {
        if ((st = sp_build(&b, v.text + offset[i], offset[i + 1] - offset[i]))) return st;
        if (range[2] > 0 ? range[2] > range[1] - i : range[2] < range[1] - i) break;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

enum sp_status sp_jinja_slice(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value v,
                              const struct sp_value bound[3])
{
    enum sp_status st;
    int64_t range[3];

    if ((st = sp_jinja_defined(m, v))) return st;
    if (v.kind == SP_V_TEXT) {
        st = slice_text(m, out, v, bound);
        if (!st) out->shape = v.shape;
        return st;
    }
    if (!indexable(v))
        return sp_jinja_fail(m, "'%s' object cannot be sliced", sp_jinja_type_name(v));
    if ((st = slice_range(m, bound, (int64_t)v.list->n, range))) return st;
    if ((st = sp_value_list(m->heap, out, v.shape, 0))) return st;
    for (int64_t i = range[0]; range[2] > 0 ? i < range[1] : i > range[1]; i += range[2]) {
        if ((st = sp_list_push(m->heap, out->list, v.list->at[i]))) return st;
        if (range[2] > 0 ? range[2] > range[1] - i : range[2] < range[1] - i) break;
    }
    return SP_OK;
}
