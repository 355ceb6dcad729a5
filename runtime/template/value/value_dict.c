/* Dictionaries of values.
 *
 * A dictionary is a vector of pairs; a larger one has an open-addressing table of pair indices as
 * well. Probes are work, so keys that collide on purpose exhaust the template's budget. */
#include "format/base/hash.h"
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
    double number;

    if (v.kind == SP_V_TEXT) return sp_hash64(v.text, v.len);
    if (!sp_value_is_number(v)) return v.kind;
    number = sp_value_to_double(v);
    if (number == 0) number = 0; /* -0.0 */
    return sp_hash64(&number, sizeof number);
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

static bool grow_dict(struct sp_heap *heap, struct sp_dict *dict)
{
    size_t cap = dict->cap < 4 ? 4 : dict->cap * 2;
    struct sp_dict_entry *at;

    if (!sp_heap_charge(heap, cap)) return false;
    if ((at = sp_heap_take(heap, cap * sizeof *at)) == NULL) return false;
    if (dict->n) memcpy(at, dict->at, dict->n * sizeof *at);
    dict->at = at;
    dict->cap = cap;
    if (cap <= LINEAR_DICT) return true;
    if ((dict->slots = sp_heap_take(heap, 2 * cap * sizeof *dict->slots)) == NULL) return false;
    dict->n_slots = 2 * cap;
    for (size_t i = 0; i < dict->n; i++)
        index_entry(dict, i);
    return true;
}

struct sp_value sp_value_dict(struct sp_heap *heap)
{
    struct sp_dict *dict = sp_heap_take(heap, sizeof *dict);

    return (struct sp_value){.kind = SP_V_DICT, .dict = dict ? dict : &heap->no_dict};
}

void sp_dict_set(struct sp_heap *heap, struct sp_dict *dict, struct sp_value key,
                 struct sp_value value)
{
    size_t probes = 1, entry;

    if (heap->status) return;
    if (!sp_value_hashable(key)) {
        sp_heap_fail(heap, SP_E_INPUT, "a list or dictionary cannot be a key");
        return;
    }
    entry = find_entry(dict, key, &probes);
    if (!sp_heap_charge(heap, probes * key_work(key))) return;
    if (entry < dict->n) {
        dict->at[entry].value = value;
        return;
    }
    if (dict->n == dict->cap && !grow_dict(heap, dict)) return;
    dict->at[dict->n++] = (struct sp_dict_entry){.key = key, .value = value};
    if (dict->slots != NULL) index_entry(dict, dict->n - 1);
}

void sp_dict_set_name(struct sp_heap *heap, struct sp_dict *dict, const char *key,
                      struct sp_value value)
{
    sp_dict_set(heap, dict, sp_value_name(key), value);
}

const struct sp_value *sp_dict_find(struct sp_heap *heap, const struct sp_dict *dict,
                                    struct sp_value key)
{
    size_t probes = 1, entry = dict->n;

    if (sp_value_hashable(key)) entry = find_entry(dict, key, &probes);
    if (!sp_heap_charge(heap, probes * key_work(key))) return NULL;
    return entry < dict->n ? &dict->at[entry].value : NULL;
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

const struct sp_dict_entry *sp_dict_sorted(struct sp_heap *heap, const struct sp_dict *dict)
{
    struct sp_dict_entry *pairs = sp_heap_take(heap, dict->n * sizeof *pairs);

    if (pairs == NULL || !sp_heap_charge(heap, 16 * dict->n)) return NULL;
    for (size_t i = 0; i < dict->n; i++) {
        pairs[i] = dict->at[i];
        if (pairs[i].key.kind != SP_V_TEXT)
            sp_heap_fail(heap, SP_E_UNSUPPORTED, "sorted pairs with a key that is no text");
        if (!sp_heap_charge_reading(heap, &pairs[i].key, 1)) return NULL;
    }
    qsort(pairs, dict->n, sizeof *pairs, by_key);
    return pairs;
}
