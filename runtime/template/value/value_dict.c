/* Dictionaries of values.
 *
 * A dictionary is a vector of pairs; a larger one has an open-addressing table of pair indices as
 * well. Probes are work, so keys that collide on purpose exhaust the template's budget. */
#include "runtime/template/value/value.h"

#include <stdlib.h>
#include <string.h>

enum { LINEAR_DICT = 8 };

bool sp_value_hashable(struct sp_value v)
{
    return v.kind != SP_V_LIST && v.kind != SP_V_DICT;
}

/* Hashes a key; equal keys have equal hashes: numbers by their value as a double. */
static uint64_t hash_of(struct sp_value v)
{
    uint64_t h = 1469598103934665603u;

    if (sp_value_is_number(v)) {
        double d = sp_value_to_double(v);
        if (d == 0) d = 0; /* -0.0 */
        memcpy(&h, &d, sizeof h);
        h *= 0x9e3779b97f4a7c15u;
    } else if (v.kind == SP_V_TEXT) {
        for (uint32_t i = 0; i < v.len; i++)
            h = (h ^ (unsigned char)v.text[i]) * 1099511628211u;
    } else {
        h ^= v.kind;
    }
    /* The bits of small integers as doubles are at the top, so they are spread twice. */
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static bool same_key(struct sp_value a, struct sp_value b)
{
    if (a.kind == SP_V_TEXT && b.kind == SP_V_TEXT) return sp_text_order(a, b) == 0;
    if (sp_value_is_number(a) && sp_value_is_number(b)) return sp_number_order(a, b) == 0;
    return a.kind == b.kind && (a.kind != SP_V_OBJECT || a.object == b.object);
}

/* The work of hashing a key, or of comparing it with one that is equal. */
static uint64_t key_work(struct sp_value key)
{
    return key.kind == SP_V_TEXT ? 1 + key.len / 16 : 1;
}

/* The index of a key's entry, or dict->n. `*probes` counts comparisons. */
static size_t find_entry(const struct sp_dict *dict, struct sp_value key, size_t *probes)
{
    if (dict->slots == NULL) {
        *probes += dict->n;
        for (size_t i = 0; i < dict->n; i++)
            if (same_key(dict->at[i].key, key)) return i;
        return dict->n;
    }
    for (size_t slot = hash_of(key) & (dict->n_slots - 1);;
         slot = (slot + 1) & (dict->n_slots - 1)) {
        uint32_t entry = dict->slots[slot];

        ++*probes;
        if (entry == 0) return dict->n;
        if (same_key(dict->at[entry - 1].key, key)) return entry - 1;
    }
}

static void index_entry(struct sp_dict *dict, size_t entry)
{
    size_t slot = hash_of(dict->at[entry].key) & (dict->n_slots - 1);

    while (dict->slots[slot])
        slot = (slot + 1) & (dict->n_slots - 1);
    dict->slots[slot] = (uint32_t)(entry + 1);
}

static enum sp_status grow_dict(struct sp_heap *heap, struct sp_dict *dict)
{
    enum sp_status st;
    size_t cap = dict->cap < 4 ? 4 : dict->cap * 2;
    struct sp_dict_entry *at;

    if ((st = sp_heap_charge(heap, cap))) return st;
    if ((st = sp_heap_take(heap, &at, cap * sizeof *at))) return st;
    if (dict->n) memcpy(at, dict->at, dict->n * sizeof *at);
    dict->at = at;
    dict->cap = cap;
    if (cap <= LINEAR_DICT) return SP_OK;
    if ((st = sp_heap_take(heap, &dict->slots, 2 * cap * sizeof *dict->slots))) return st;
    dict->n_slots = 2 * cap;
    for (size_t i = 0; i < dict->n; i++)
        index_entry(dict, i);
    return SP_OK;
}

enum sp_status sp_value_dict(struct sp_heap *heap, struct sp_value *out)
{
    enum sp_status st;
    struct sp_dict *dict = NULL;

    if ((st = sp_heap_take(heap, &dict, sizeof *dict))) return st;
    *out = (struct sp_value){.kind = SP_V_DICT, .dict = dict};
    return SP_OK;
}

enum sp_status sp_dict_set(struct sp_heap *heap, struct sp_dict *dict, struct sp_value key,
                           struct sp_value value)
{
    enum sp_status st;
    size_t probes = 1, entry;

    if (!sp_value_hashable(key))
        return sp_fail(heap->err, SP_E_INPUT, "a list or dictionary cannot be a key");
    entry = find_entry(dict, key, &probes);
    if ((st = sp_heap_charge(heap, probes * key_work(key)))) return st;
    if (entry < dict->n) {
        dict->at[entry].value = value;
        return SP_OK;
    }
    if (dict->n == dict->cap && (st = grow_dict(heap, dict))) return st;
    dict->at[dict->n++] = (struct sp_dict_entry){.key = key, .value = value};
    if (dict->slots != NULL) index_entry(dict, dict->n - 1);
    return SP_OK;
}

enum sp_status sp_dict_set_name(struct sp_heap *heap, struct sp_dict *dict, const char *key,
                                struct sp_value value)
{
    return sp_dict_set(heap, dict, sp_value_name(key), value);
}

enum sp_status sp_dict_find(struct sp_heap *heap, const struct sp_value **out,
                            const struct sp_dict *dict, struct sp_value key)
{
    size_t probes = 1, entry = dict->n;

    if (sp_value_hashable(key)) entry = find_entry(dict, key, &probes);
    *out = entry < dict->n ? &dict->at[entry].value : NULL;
    return sp_heap_charge(heap, probes * key_work(key));
}

const struct sp_value *sp_dict_find_name(const struct sp_dict *dict, const char *key)
{
    size_t probes = 0, entry = find_entry(dict, sp_value_name(key), &probes);

    return entry < dict->n ? &dict->at[entry].value : NULL;
}

static int by_key(const void *a, const void *b)
{
    return sp_text_order(((const struct sp_dict_entry *)a)->key,
                         ((const struct sp_dict_entry *)b)->key);
}

enum sp_status sp_dict_sorted(struct sp_heap *heap, const struct sp_dict_entry **out,
                              const struct sp_dict *dict)
{
    enum sp_status st;
    struct sp_dict_entry *pairs;

    if ((st = sp_heap_take(heap, &pairs, dict->n * sizeof *pairs))) return st;
    if ((st = sp_heap_charge(heap, 16 * dict->n))) return st;
    for (size_t i = 0; i < dict->n; i++) {
        pairs[i] = dict->at[i];
        if (pairs[i].key.kind != SP_V_TEXT)
            return sp_fail(heap->err, SP_E_UNSUPPORTED, "sorted pairs with a key that is no text");
        if ((st = sp_heap_charge_reading(heap, &pairs[i].key, 1))) return st;
    }
    qsort(pairs, dict->n, sizeof *pairs, by_key);
    *out = pairs;
    return SP_OK;
}
