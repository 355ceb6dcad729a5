/* Filters on lists and dictionaries. */
#include "runtime/template/jinja/jinja_machine.h"

#include <string.h>

/* Gets item.a.b for the attribute "a.b", item[1] for 1 or "1". */
static enum sp_status get_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                    struct sp_value item, struct sp_value attribute,
                                    struct sp_value otherwise)
{
    enum sp_status st;
    size_t begin = 0;

    *out = item;
    if ((st = sp_heap_charge_reading(m->heap, &attribute, 1))) return st;
    if (attribute.kind != SP_V_TEXT) {
        if ((st = sp_jinja_item(m, out, item, attribute))) return st;
        if (out->kind == SP_V_UNDEFINED && sp_jinja_given(otherwise)) *out = otherwise;
        return SP_OK;
    }
    for (size_t i = 0; i <= attribute.len; i++) {
        struct sp_value part;
        int64_t number = 0;
        bool digits = i > begin && i - begin < 10;
        if (i < attribute.len && attribute.text[i] != '.') continue;
        for (size_t k = begin; k < i && digits; k++) {
            digits = attribute.text[k] >= '0' && attribute.text[k] <= '9';
            number = number * 10 + (attribute.text[k] - '0');
        }
        part = digits ? sp_value_int(number) : sp_value_text(attribute.text + begin, i - begin);
        if ((st = sp_jinja_item(m, out, *out, part))) return st;
        if (out->kind == SP_V_UNDEFINED && sp_jinja_given(otherwise)) *out = otherwise;
        begin = i + 1;
    }
    return SP_OK;
}

/* The sort key of an item: the item itself or an attribute. */
static enum sp_status key_of(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value item,
                             struct sp_value attribute, bool case_sensitive)
{
    enum sp_status st;

    *out = item;
    if (sp_jinja_given(attribute) &&
        (st = get_attribute(m, out, item, attribute, (struct sp_value){0})))
        return st;
    if (case_sensitive || out->kind != SP_V_TEXT) return SP_OK;
    return sp_jinja_recase(m, out, *out, SP_JINJA_LOWER);
}

/* An order of pairs {key, item} by their keys. `equal_first`: equal keys need not be orderable, so
 * that none and undefined values are equal to their like. */
struct sorting {
    struct sp_value attribute;
    bool case_sensitive, reverse, equal_first;
};

/* Merges two sorted runs of pairs. Equal keys keep their order, also in reverse. */
static enum sp_status merge(struct sp_jinja_machine *m, struct sp_dict_entry *to,
                            const struct sp_dict_entry *a, size_t n_a,
                            const struct sp_dict_entry *b, size_t n_b, const struct sorting *by)
{
    enum sp_status st;

    while (n_a > 0 && n_b > 0) {
        bool same = false;
        int order = 0;
        if (by->equal_first && (st = sp_value_equal(m->heap, &same, b->key, a->key))) return st;
        if (!same && (st = sp_jinja_order(m, &order, b->key, a->key))) return st;
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
    return SP_OK;
}

/* Sorts items by merging runs, bottom up. */
static enum sp_status sort_list(struct sp_jinja_machine *m, struct sp_value *out,
                                const struct sp_list *items, const struct sorting *by)
{
    enum sp_status st;
    struct sp_dict_entry *from, *to;
    size_t n = items->n;

    if ((st = sp_heap_take(m->heap, &from, n * sizeof *from))) return st;
    if ((st = sp_heap_take(m->heap, &to, n * sizeof *to))) return st;
    for (size_t i = 0; i < n; i++) {
        from[i].value = items->at[i];
        st = key_of(m, &from[i].key, items->at[i], by->attribute, by->case_sensitive);
        if (st) return st;
    }
    for (size_t run = 1; run < n; run *= 2) {
        struct sp_dict_entry *swap = to;
        for (size_t i = 0; i < n; i += 2 * run) {
            size_t a = n - i < run ? n - i : run;
            size_t b = n - i - a < run ? n - i - a : run;
            if ((st = merge(m, to + i, from + i, a, from + i + a, b, by))) return st;
        }
        to = from;
        from = swap;
    }
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, n))) return st;
    for (size_t i = 0; i < n && !st; i++)
        st = sp_list_push(m->heap, out->list, from[i].value);
    return st;
}

SP_JINJA_FUNCTION(filter_sort)
{
    enum sp_status st;
    const struct sp_list *items;

    if (arg[2].kind == SP_V_TEXT && arg[2].len && memchr(arg[2].text, ',', arg[2].len))
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "sort by several attributes");
    if ((st = sp_jinja_items(m, &items, in))) return st;
    return sort_list(m, out, items,
                     &(struct sorting){.attribute = arg[2],
                                       .case_sensitive = sp_value_truth(arg[1]),
                                       .reverse = sp_value_truth(arg[0]),
                                       .equal_first = true});
}

SP_JINJA_FUNCTION(filter_dictsort)
{
    enum sp_status st;
    struct sp_value pairs;
    bool by_value = sp_text_is(arg[1], "value");

    if ((st = sp_jinja_defined(m, in))) return st;
    if (in.kind != SP_V_DICT)
        return sp_jinja_fail(m, "dictsort: '%s' object has no items", sp_jinja_type_name(in));
    if (!by_value && arg[1].kind != SP_V_ABSENT && !sp_text_is(arg[1], "key"))
        return sp_jinja_fail(m, "You can only sort by either \"key\" or \"value\"");
    if ((st = sp_jinja_view(m, &pairs, in.dict, SP_SHAPE_ITEMS))) return st;
    return sort_list(m, out, pairs.list,
                     &(struct sorting){.attribute = sp_value_int(by_value),
                                       .case_sensitive = sp_value_truth(arg[0]),
                                       .reverse = sp_value_truth(arg[2])});
}

SP_JINJA_FUNCTION(filter_items)
{
    enum sp_status st;

    (void)arg;
    if (in.kind == SP_V_UNDEFINED) return sp_value_list(m->heap, out, SP_SHAPE_ITERATOR, 0);
    if (in.kind != SP_V_DICT) return sp_jinja_fail(m, "Can only get item pairs from a mapping.");
    if ((st = sp_jinja_view(m, out, in.dict, SP_SHAPE_ITEMS))) return st;
    out->shape = SP_SHAPE_ITERATOR;
    return SP_OK;
}

SP_JINJA_FUNCTION(filter_list)
{
    enum sp_status st;
    const struct sp_list *items;

    (void)arg;
    if ((st = sp_jinja_items(m, &items, in))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, items->n))) return st;
    for (size_t i = 0; i < items->n && !st; i++)
        st = sp_list_push(m->heap, out->list, items->at[i]);
    return st;
}

SP_JINJA_FUNCTION(filter_end)
{
    const bool last = arg[SP_JINJA_HOW].integer == 1;
    enum sp_status st;
    const struct sp_list *items;

    if (last && in.kind == SP_V_LIST && in.shape == SP_SHAPE_ITERATOR)
        return sp_jinja_fail(m, "'generator' object is not reversible");
    if ((st = sp_jinja_items(m, &items, in))) return st;
    if (items->n == 0) {
        return sp_jinja_undefined(m, out, "No %s item, sequence was empty.",
                                  last ? "last" : "first");
    }
    *out = items->at[last ? items->n - 1 : 0];
    return SP_OK;
}

SP_JINJA_FUNCTION(filter_join)
{
    enum sp_status st;
    const struct sp_list *items;
    struct sp_builder b = {.heap = m->heap};
    struct sp_value between = sp_value_name("");

    if (arg[0].kind != SP_V_ABSENT && (st = sp_jinja_to_text(m, &between, arg[0]))) return st;
    if ((st = sp_jinja_items(m, &items, in))) return st;
    for (size_t i = 0; i < items->n; i++) {
        struct sp_value item = items->at[i];
        if (i && (st = sp_build(&b, between.text, between.len))) return st;
        if (sp_jinja_given(arg[1])) {
            if ((st = get_attribute(m, &item, item, arg[1], (struct sp_value){0}))) return st;
        }
        if ((st = sp_jinja_build_str(&b, item))) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

SP_JINJA_FUNCTION(filter_reverse)
{
    enum sp_status st;
    const struct sp_list *items;
    const struct sp_value backwards[3] = {{0}, {0}, sp_value_int(-1)};

    (void)arg;
    if (in.kind == SP_V_TEXT) return sp_jinja_slice(m, out, in, backwards);
    if ((st = sp_jinja_items(m, &items, in))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_ITERATOR, items->n))) return st;
    for (size_t i = items->n; i > 0 && !st; i--)
        st = sp_list_push(m->heap, out->list, items->at[i - 1]);
    return st;
}

SP_JINJA_FUNCTION(filter_unique)
{
    enum sp_status st;
    const struct sp_list *items;
    const struct sp_value *found;
    struct sp_value seen, key;

    if ((st = sp_jinja_items(m, &items, in))) return st;
    if ((st = sp_value_dict(m->heap, &seen))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_ITERATOR, 0))) return st;
    for (size_t i = 0; i < items->n && !st; i++) {
        if ((st = key_of(m, &key, items->at[i], arg[1], sp_value_truth(arg[0])))) return st;
        if (!sp_value_hashable(key))
            return sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(key));
        if ((st = sp_dict_find(m->heap, &found, seen.dict, key))) return st;
        if (found != NULL) continue;
        if ((st = sp_dict_set(m->heap, seen.dict, key, sp_value_none()))) return st;
        st = sp_list_push(m->heap, out->list, items->at[i]);
    }
    return st;
}

SP_JINJA_FUNCTION(filter_extreme)
{
    const bool largest = arg[SP_JINJA_HOW].integer == 1;
    enum sp_status st;
    const struct sp_list *items;
    struct sp_value best = {0}, key;

    if ((st = sp_jinja_items(m, &items, in))) return st;
    if (items->n == 0) return sp_jinja_undefined(m, out, "No aggregated item, sequence was empty.");
    for (size_t i = 0; i < items->n; i++) {
        int order = 0;
        if ((st = key_of(m, &key, items->at[i], arg[1], sp_value_truth(arg[0])))) return st;
        if (i && (st = sp_jinja_order(m, &order, key, best))) return st;
        if (i && !(largest ? order > 0 : order < 0)) continue;
        best = key;
        *out = items->at[i];
    }
    return SP_OK;
}

SP_JINJA_FUNCTION(filter_sum)
{
    enum sp_status st;
    const struct sp_list *items;

    if ((st = sp_jinja_items(m, &items, in)) || (st = sp_heap_charge(m->heap, items->n))) return st;
    *out = arg[1].kind == SP_V_ABSENT ? sp_value_int(0) : arg[1];
    for (size_t i = 0; i < items->n; i++) {
        struct sp_value item = items->at[i];
        if (sp_jinja_given(arg[0])) {
            if ((st = get_attribute(m, &item, item, arg[0], (struct sp_value){0}))) return st;
        }
        if ((st = sp_jinja_binary(m, out, SP_T_ADD, *out, item))) return st;
    }
    return SP_OK;
}

SP_JINJA_FUNCTION(filter_batch)
{
    enum sp_status st;
    const struct sp_list *items;
    struct sp_value row = {0};
    size_t size;

    if (arg[0].kind != SP_V_INT || arg[0].integer < 1)
        return sp_jinja_fail(m, "batch: not a count");
    size = (size_t)arg[0].integer;
    if ((st = sp_jinja_items(m, &items, in))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_ITERATOR, 0))) return st;
    for (size_t i = 0; i < items->n; i++) {
        if (i % size == 0) {
            if ((st = sp_value_list(m->heap, &row, SP_SHAPE_PLAIN, 0))) return st;
            if ((st = sp_list_push(m->heap, out->list, row))) return st;
        }
        if ((st = sp_list_push(m->heap, row.list, items->at[i]))) return st;
    }
    while (items->n && sp_jinja_given(arg[1]) && row.list->n < size)
        if ((st = sp_list_push(m->heap, row.list, arg[1]))) return st;
    return SP_OK;
}

static struct sp_jinja_args rest_of(const struct sp_jinja_args *args, size_t skip)
{
    return (struct sp_jinja_args){skip ? args->at + skip : args->at, args->names, args->named,
                                  args->n - skip, args->n_named};
}

static enum sp_status map_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                    const struct sp_list *items, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_SLOTS], item;

    if ((st = sp_jinja_bind(m, "map", "attribute default=", args, slot))) return st;
    for (size_t i = 0; i < items->n && !st; i++) {
        st = get_attribute(m, &item, items->at[i], slot[0], slot[1]);
        if (!st) st = sp_list_push(m->heap, out->list, item);
    }
    return st;
}

/* What map, select and reject make of every false value: Jinja2 does not iterate over none or 0. */
static enum sp_status no_items(struct sp_jinja_machine *m, struct sp_value *out)
{
    return sp_value_list(m->heap, out, SP_SHAPE_ITERATOR, 0);
}

static enum sp_status filter_map(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_value in, const struct sp_jinja_args *args, int how)
{
    enum sp_status st;
    const struct sp_list *items;
    const struct sp_jinja_function *filter;
    struct sp_jinja_args rest;
    struct sp_value item;

    (void)how;
    if (!sp_value_truth(in)) return no_items(m, out);
    if ((st = sp_jinja_items(m, &items, in))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_ITERATOR, items->n))) return st;
    if (args->n == 0) return map_attribute(m, out, items, args);
    if ((st = sp_jinja_want_text(m, args->at[0]))) return st;
    filter = sp_jinja_find_filter(args->at[0]);
    if (filter == NULL) return sp_jinja_refuse(m, "filter", args->at[0]);
    rest = rest_of(args, 1);
    for (size_t i = 0; i < items->n && !st; i++) {
        st = sp_jinja_run(m, &item, filter, items->at[i], &rest);
        if (!st) st = sp_list_push(m->heap, out->list, item);
    }
    return st;
}

enum { KEEP = 1, BY_ATTRIBUTE = 2 };

/* Keeps or rejects the items that pass a test, or whose attribute does; no test: the true ones. */
static enum sp_status filter_pick(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_value in, const struct sp_jinja_args *args, int how)
{
    const bool by_attribute = how & BY_ATTRIBUTE, keep = how & KEEP;
    enum sp_status st;
    const struct sp_list *items;
    const struct sp_jinja_function *test = NULL;
    struct sp_jinja_args rest;
    size_t skip = by_attribute;

    if (!sp_value_truth(in)) return no_items(m, out);
    if (args->n < skip) return sp_jinja_fail(m, "Missing parameter for attribute name");
    if (args->n > skip) {
        if ((st = sp_jinja_want_text(m, args->at[skip]))) return st;
        test = sp_jinja_find_test(args->at[skip]);
        if (test == NULL) return sp_jinja_refuse(m, "test", args->at[skip]);
    }
    rest = rest_of(args, test ? skip + 1 : skip);
    if ((st = sp_jinja_items(m, &items, in)) || (st = sp_heap_charge(m->heap, items->n))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_ITERATOR, 0))) return st;
    for (size_t i = 0; i < items->n && !st; i++) {
        struct sp_value v = items->at[i];
        if (by_attribute && (st = get_attribute(m, &v, v, args->at[0], (struct sp_value){0})))
            break;
        if (test != NULL && (st = sp_jinja_run(m, &v, test, v, &rest))) break;
        if (sp_value_truth(v) == keep) st = sp_list_push(m->heap, out->list, items->at[i]);
    }
    return st;
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
