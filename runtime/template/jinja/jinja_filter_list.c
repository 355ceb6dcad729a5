/* Filters on lists and dictionaries. */
#include "runtime/template/jinja/jinja_machine.h"

#include <string.h>

/* Gets item.a.b for the attribute "a.b", item[1] for 1 or "1". */
static struct sp_value get_attribute(struct sp_jinja_machine *m, struct sp_value item,
                                     struct sp_value attribute, struct sp_value otherwise)
{
    size_t begin = 0;

    if (!sp_heap_charge_reading(m->heap, &attribute, 1)) return SP_VALUE_ABSENT;
    if (attribute.kind != SP_V_TEXT) {
        item = sp_jinja_item(m, item, attribute);
        return item.kind == SP_V_UNDEFINED && sp_jinja_given(otherwise) ? otherwise : item;
    }
    for (size_t i = 0; i <= attribute.len; i++) {
        int64_t number = 0;
        bool digits = i > begin && i - begin < 10;
        if (i < attribute.len && attribute.text[i] != '.') continue;
        for (size_t k = begin; k < i && digits; k++) {
            digits = attribute.text[k] >= '0' && attribute.text[k] <= '9';
            number = number * 10 + (attribute.text[k] - '0');
        }
        item = sp_jinja_item(m, item,
                             digits ? sp_value_int(number)
                                    : sp_value_text(attribute.text + begin, i - begin));
        if (item.kind == SP_V_UNDEFINED && sp_jinja_given(otherwise)) item = otherwise;
        begin = i + 1;
    }
    return item;
}

/* An item, or its attribute if that is given. */
static struct sp_value given_attribute(struct sp_jinja_machine *m, struct sp_value item,
                                       struct sp_value attribute)
{
    return sp_jinja_given(attribute) ? get_attribute(m, item, attribute, SP_VALUE_ABSENT) : item;
}

/* The sort key of an item: the item itself or an attribute. */
static struct sp_value key_of(struct sp_jinja_machine *m, struct sp_value item,
                              struct sp_value attribute, bool case_sensitive)
{
    struct sp_value key = given_attribute(m, item, attribute);

    if (case_sensitive || key.kind != SP_V_TEXT) return key;
    return sp_jinja_recase(m, key, NULL, SP_JINJA_LOWER);
}

/* An order of pairs {key, item} by their keys. `equal_first`: equal keys need not be orderable, so
 * that none and undefined values are equal to their like. */
struct sorting {
    struct sp_value attribute;
    bool case_sensitive, reverse, equal_first;
};

/* Merges two sorted runs of pairs. Equal keys keep their order, also in reverse. */
static void merge(struct sp_jinja_machine *m, struct sp_dict_entry *to,
                  const struct sp_dict_entry *a, size_t n_a, const struct sp_dict_entry *b,
                  size_t n_b, const struct sorting *by)
{
    while (n_a > 0 && n_b > 0) {
        int order = 0;
        if (!by->equal_first || !sp_value_equal(m->heap, b->key, a->key))
            order = sp_jinja_order(m, b->key, a->key);
        if (by->reverse ? order > 0 : order < 0) {
            *to++ = *b++;
            n_b--;
        } else {
            *to++ = *a++;
            n_a--;
        }
    }
    if (n_a) memcpy(to, a, n_a * sizeof *to);
    if (n_b) memcpy(to, b, n_b * sizeof *to);
}

/* Sorts items by merging runs, bottom up. */
static struct sp_value sort_list(struct sp_jinja_machine *m, const struct sp_list *items,
                                 const struct sorting *by)
{
    size_t n = items->n;
    struct sp_dict_entry *from = sp_heap_take(m->heap, n * sizeof *from);
    struct sp_dict_entry *to = sp_heap_take(m->heap, n * sizeof *to);
    struct sp_value out;

    if (from == NULL || to == NULL) return SP_VALUE_ABSENT;
    for (size_t i = 0; i < n; i++) {
        from[i].value = items->at[i];
        from[i].key = key_of(m, items->at[i], by->attribute, by->case_sensitive);
    }
    for (size_t run = 1; run < n && !m->heap->status; run *= 2) {
        struct sp_dict_entry *swap = to;
        for (size_t i = 0; i < n; i += 2 * run) {
            size_t a = n - i < run ? n - i : run;
            size_t b = n - i - a < run ? n - i - a : run;
            merge(m, to + i, from + i, a, from + i + a, b, by);
        }
        to = from;
        from = swap;
    }
    out = sp_value_list(m->heap, SP_SHAPE_PLAIN, n);
    for (size_t i = 0; i < n; i++)
        sp_list_push(m->heap, out.list, from[i].value);
    return out;
}

static SP_JINJA_FUNCTION(filter_sort)
{
    if (arg[2].kind == SP_V_TEXT && arg[2].len && memchr(arg[2].text, ',', arg[2].len))
        return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "sort by several attributes");
    return sort_list(m, sp_jinja_items(m, in),
                     &(struct sorting){.attribute = arg[2],
                                       .case_sensitive = sp_value_truth(arg[1]),
                                       .reverse = sp_value_truth(arg[0]),
                                       .equal_first = true});
}

static SP_JINJA_FUNCTION(filter_dictsort)
{
    bool by_value = sp_text_is(arg[1], "value");

    if (!sp_jinja_defined(m, in)) return SP_VALUE_ABSENT;
    if (in.kind != SP_V_DICT)
        return sp_jinja_fail(m, "dictsort: '%s' object has no items", sp_jinja_type_name(in));
    if (!by_value && arg[1].kind != SP_V_ABSENT && !sp_text_is(arg[1], "key"))
        return sp_jinja_fail(m, "You can only sort by either \"key\" or \"value\"");
    return sort_list(m, sp_jinja_view(m, in.dict, SP_SHAPE_ITEMS).list,
                     &(struct sorting){.attribute = sp_value_int(by_value),
                                       .case_sensitive = sp_value_truth(arg[0]),
                                       .reverse = sp_value_truth(arg[2])});
}

static SP_JINJA_FUNCTION(filter_items)
{
    struct sp_value out;

    if (in.kind == SP_V_UNDEFINED) return sp_value_list(m->heap, SP_SHAPE_ITERATOR, 0);
    if (in.kind != SP_V_DICT) return sp_jinja_fail(m, "Can only get item pairs from a mapping.");
    out = sp_jinja_view(m, in.dict, SP_SHAPE_ITEMS);
    out.shape = SP_SHAPE_ITERATOR;
    return out;
}

static SP_JINJA_FUNCTION(filter_list)
{
    const struct sp_list *items = sp_jinja_items(m, in);
    struct sp_value out = sp_value_list(m->heap, SP_SHAPE_PLAIN, items->n);

    for (size_t i = 0; i < items->n; i++)
        sp_list_push(m->heap, out.list, items->at[i]);
    return out;
}

static SP_JINJA_FUNCTION(filter_end)
{
    const bool last = how == 1;
    const struct sp_list *items;

    if (last && in.kind == SP_V_LIST && in.shape == SP_SHAPE_ITERATOR)
        return sp_jinja_fail(m, "'generator' object is not reversible");
    items = sp_jinja_items(m, in);
    if (items->n > 0) return items->at[last ? items->n - 1 : 0];
    return sp_jinja_undefined(m, "No %s item, sequence was empty.", last ? "last" : "first");
}

static SP_JINJA_FUNCTION(filter_join)
{
    const struct sp_list *items;
    struct sp_builder b = {.heap = m->heap};
    struct sp_value between = sp_value_name("");

    if (arg[0].kind != SP_V_ABSENT) between = sp_jinja_to_text(m, arg[0]);
    items = sp_jinja_items(m, in);
    for (size_t i = 0; i < items->n; i++) {
        if (i) sp_build_value(&b, between);
        sp_jinja_build_str(&b, given_attribute(m, items->at[i], arg[1]));
    }
    return sp_builder_value(&b);
}

static SP_JINJA_FUNCTION(filter_reverse)
{
    const struct sp_value backwards[3] = {{0}, {0}, sp_value_int(-1)};
    const struct sp_list *items;
    struct sp_value out;

    if (in.kind == SP_V_TEXT) return sp_jinja_slice(m, in, backwards);
    items = sp_jinja_items(m, in);
    out = sp_value_list(m->heap, SP_SHAPE_ITERATOR, items->n);
    for (size_t i = items->n; i > 0; i--)
        sp_list_push(m->heap, out.list, items->at[i - 1]);
    return out;
}

static SP_JINJA_FUNCTION(filter_unique)
{
    const struct sp_list *items = sp_jinja_items(m, in);
    struct sp_value seen = sp_value_dict(m->heap);
    struct sp_value out = sp_value_list(m->heap, SP_SHAPE_ITERATOR, 0);

    for (size_t i = 0; i < items->n && !m->heap->status; i++) {
        struct sp_value key = key_of(m, items->at[i], arg[1], sp_value_truth(arg[0]));
        if (!sp_value_hashable(key))
            return sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(key));
        if (sp_dict_find(m->heap, seen.dict, key) != NULL) continue;
        sp_dict_set(m->heap, seen.dict, key, sp_value_none());
        sp_list_push(m->heap, out.list, items->at[i]);
    }
    return out;
}

static SP_JINJA_FUNCTION(filter_extreme)
{
    const bool largest = how == 1;
    const struct sp_list *items = sp_jinja_items(m, in);
    struct sp_value best = {0}, out = {0};

    if (items->n == 0) return sp_jinja_undefined(m, "No aggregated item, sequence was empty.");
    for (size_t i = 0; i < items->n; i++) {
        struct sp_value key = key_of(m, items->at[i], arg[1], sp_value_truth(arg[0]));
        int order = i ? sp_jinja_order(m, key, best) : 0;
        if (i && !(largest ? order > 0 : order < 0)) continue;
        best = key;
        out = items->at[i];
    }
    return out;
}

static SP_JINJA_FUNCTION(filter_sum)
{
    const struct sp_list *items = sp_jinja_items(m, in);
    struct sp_value sum = arg[1].kind == SP_V_ABSENT ? sp_value_int(0) : arg[1];

    sp_heap_charge(m->heap, items->n);
    for (size_t i = 0; i < items->n && !m->heap->status; i++)
        sum = sp_jinja_binary(m, SP_T_ADD, sum, given_attribute(m, items->at[i], arg[0]));
    return sum;
}

static SP_JINJA_FUNCTION(filter_batch)
{
    const struct sp_list *items;
    struct sp_value row = {0}, out;
    size_t size;

    if (arg[0].kind != SP_V_INT || arg[0].integer < 1)
        return sp_jinja_fail(m, "batch: not a count");
    size = (size_t)arg[0].integer;
    items = sp_jinja_items(m, in);
    out = sp_value_list(m->heap, SP_SHAPE_ITERATOR, 0);
    for (size_t i = 0; i < items->n; i++) {
        if (i % size == 0) {
            row = sp_value_list(m->heap, SP_SHAPE_PLAIN, 0);
            sp_list_push(m->heap, out.list, row);
        }
        sp_list_push(m->heap, row.list, items->at[i]);
    }
    while (items->n && sp_jinja_given(arg[1]) && row.list->n < size && !m->heap->status)
        sp_list_push(m->heap, row.list, arg[1]);
    return out;
}

static struct sp_jinja_args rest_of(const struct sp_jinja_args *args, size_t skip)
{
    return (struct sp_jinja_args){skip ? args->at + skip : args->at, args->names, args->named,
                                  args->n - skip, args->n_named};
}

/* map, select and reject make an empty list of every false value: Jinja2 does not iterate over none
 * or 0. */
static SP_JINJA_FUNCTION_ANY(filter_map)
{
    const struct sp_list *items;
    const struct sp_jinja_function *filter = NULL;
    struct sp_jinja_args rest;
    struct sp_value slot[SP_JINJA_MAX_ARGS], out;

    if (!sp_value_truth(in)) return sp_value_list(m->heap, SP_SHAPE_ITERATOR, 0);
    items = sp_jinja_items(m, in);
    out = sp_value_list(m->heap, SP_SHAPE_ITERATOR, items->n);
    if (args->n == 0) {
        if (!sp_jinja_bind(m, "map", "attribute default=", args, slot)) return out;
    } else {
        if (!sp_jinja_want_text(m, args->at[0])) return out;
        filter = sp_jinja_find_filter(args->at[0]);
        if (filter == NULL) return sp_jinja_refuse(m, "filter", args->at[0]);
        rest = rest_of(args, 1);
    }
    for (size_t i = 0; i < items->n && !m->heap->status; i++)
        sp_list_push(m->heap, out.list,
                     filter ? sp_jinja_run(m, filter, items->at[i], &rest)
                            : get_attribute(m, items->at[i], slot[0], slot[1]));
    return out;
}

enum { KEEP = 1, BY_ATTRIBUTE = 2 };

/* Keeps or rejects the items that pass a test, or whose attribute does; no test: the true ones. */
static SP_JINJA_FUNCTION_ANY(filter_pick)
{
    const bool by_attribute = how & BY_ATTRIBUTE, keep = how & KEEP;
    const struct sp_list *items;
    const struct sp_jinja_function *test = NULL;
    struct sp_jinja_args rest;
    struct sp_value out;
    size_t skip = by_attribute;

    if (!sp_value_truth(in)) return sp_value_list(m->heap, SP_SHAPE_ITERATOR, 0);
    if (args->n < skip) return sp_jinja_fail(m, "Missing parameter for attribute name");
    if (args->n > skip) {
        if (!sp_jinja_want_text(m, args->at[skip])) return SP_VALUE_ABSENT;
        test = sp_jinja_find_test(args->at[skip]);
        if (test == NULL) return sp_jinja_refuse(m, "test", args->at[skip]);
    }
    rest = rest_of(args, test ? skip + 1 : skip);
    items = sp_jinja_items(m, in);
    sp_heap_charge(m->heap, items->n);
    out = sp_value_list(m->heap, SP_SHAPE_ITERATOR, 0);
    for (size_t i = 0; i < items->n && !m->heap->status; i++) {
        struct sp_value v = items->at[i];
        if (by_attribute) v = get_attribute(m, v, args->at[0], SP_VALUE_ABSENT);
        if (test != NULL) v = sp_jinja_run(m, test, v, &rest);
        if (sp_value_truth(v) == keep) sp_list_push(m->heap, out.list, items->at[i]);
    }
    return out;
}

const struct sp_jinja_function sp_jinja_list_filters[] = {
    {"batch", "linecount fill_with=", filter_batch, NULL, 0},
    {"dictsort", "case_sensitive= by= reverse=", filter_dictsort, NULL, 0},
    {"first", "", filter_end, NULL, 0},
    {"items", "", filter_items, NULL, 0},
    {"join", "d= attribute=", filter_join, NULL, 0},
    {"last", "", filter_end, NULL, 1},
    {"list", "", filter_list, NULL, 0},
    {"map", "", NULL, filter_map, 0},
    {"max", "case_sensitive= attribute=", filter_extreme, NULL, 1},
    {"min", "case_sensitive= attribute=", filter_extreme, NULL, 0},
    {"reject", "", NULL, filter_pick, 0},
    {"rejectattr", "", NULL, filter_pick, BY_ATTRIBUTE},
    {"reverse", "", filter_reverse, NULL, 0},
    {"select", "", NULL, filter_pick, KEEP},
    {"selectattr", "", NULL, filter_pick, KEEP | BY_ATTRIBUTE},
    {"sort", "reverse= case_sensitive= attribute=", filter_sort, NULL, 0},
    {"sum", "attribute= start=", filter_sum, NULL, 0},
    {"unique", "case_sensitive= attribute=", filter_unique, NULL, 0},
    {NULL, NULL, NULL, NULL, 0},
};
