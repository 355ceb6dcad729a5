/* The members of a JSON object: sorted, found by key, and what becomes of keys that occur twice. */
#include "format/json_node.h"

#include <stdlib.h>
#include <string.h>

static uint64_t key_prefix(const char *key)
{
    uint64_t prefix = 0;

    for (int i = 0; i < 8; i++) {
        prefix = prefix << 8 | (unsigned char)*key;
        if (*key) key++;
    }
    return prefix;
}

/* By key, then by place in the text. */
static int compare_slots(const void *left, const void *right)
{
    const struct sp_json_slot *a = left, *b = right;
    int order;

    if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
    order = strcmp(a->member->key, b->member->key);
    return order ? order : (a->member > b->member) - (a->member < b->member);
}

void sp_json_sort_members(struct sp_json_slot *slots, const struct sp_json_member *members,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        slots[i] = (struct sp_json_slot){key_prefix(members[i].key), members + i};
    }
    qsort(slots, n, sizeof *slots, compare_slots);
}

static bool same_key(const struct sp_json_slot *a, const struct sp_json_slot *b)
{
    return a->prefix == b->prefix && strcmp(a->member->key, b->member->key) == 0;
}

const char *sp_json_repeated_key(const struct sp_json_slot *slots, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (same_key(slots + i - 1, slots + i)) return slots[i].member->key;
    }
    return NULL;
}

size_t sp_json_merge_repeated(struct sp_json_slot *slots, struct sp_json_member *members, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0, j; i < n; i = j) {
        struct sp_json_member *first = members + (slots[i].member - members);
        for (j = i + 1; j < n && same_key(slots + i, slots + j); j++) {
            first->value = slots[j].member->value;
        }
        for (size_t k = i + 1; k < j; k++)
            members[slots[k].member - members].key = NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (members[i].key != NULL) members[kept++] = members[i];
    }
    sp_json_sort_members(slots, members, kept);
    return kept;
}

const struct sp_json *sp_json_find_member(const struct sp_json *v, const char *key)
{
    const struct sp_json_object *o;
    uint64_t prefix;
    size_t low = 0, high;

    if (sp_json_kind(v) != SP_JSON_OBJECT) return NULL;
    o = v->as.object;
    high = v->len;
    if (o->sorted == NULL) {
        for (size_t i = 0; i < v->len; i++) {
            if (strcmp(o->members[i].key, key) == 0) return &o->members[i].value;
        }
        return NULL;
    }
    prefix = key_prefix(key);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct sp_json_slot *s = o->sorted + mid;
        int order =
            s->prefix != prefix ? (s->prefix < prefix ? -1 : 1) : strcmp(s->member->key, key);
        if (order == 0) return &s->member->value;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}
