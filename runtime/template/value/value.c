/* The heap with its budget, values and lists; see value.h. */
#include "runtime/template/value/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 16 };

struct sp_heap_chunk {
    struct sp_heap_chunk *next;
    size_t cap, used;
    alignas(max_align_t) char at[];
};

void sp_heap_init(struct sp_heap *heap, size_t limit, uint64_t work_limit, struct sp_err *err)
{
    memset(heap, 0, sizeof *heap);
    heap->limit = limit;
    heap->work_limit = work_limit;
    heap->err = err;
}

void sp_heap_release(struct sp_heap *heap)
{
    while (heap->chunks != NULL) {
        struct sp_heap_chunk *next = heap->chunks->next;
        free(heap->chunks);
        heap->chunks = next;
    }
    heap->used = 0;
}

enum sp_status sp_heap_charge(struct sp_heap *heap, uint64_t n)
{
    if (n > heap->work_limit - heap->work) {
        heap->exhausted = true;
        return sp_fail(heap->err, SP_E_INPUT, "template does more than %" PRIu64 " steps of work",
                       heap->work_limit);
    }
    heap->work += n;
    return SP_OK;
}

enum sp_status sp_heap_charge_reading(struct sp_heap *heap, const struct sp_value *values, size_t n)
{
    uint64_t work = 0;

    for (size_t i = 0; i < n; i++)
        work += values[i].kind == SP_V_TEXT ? values[i].len / 32 : 0;
    return sp_heap_charge(heap, work);
}

enum sp_status sp_heap_count(struct sp_heap *heap, size_t size)
{
    if (size > heap->limit - heap->used) {
        heap->exhausted = true;
        return sp_fail(heap->err, SP_E_INPUT, "template needs more than %zu bytes of memory",
                       heap->limit);
    }
    heap->used += size;
    return SP_OK;
}

static enum sp_status add_chunk(struct sp_heap *heap, size_t size)
{
    enum sp_status st;
    size_t cap = size > CHUNK_BYTES / 4 ? size : CHUNK_BYTES;
    struct sp_heap_chunk *chunk;

    if (cap > heap->limit - heap->used) cap = size;
    if ((st = sp_heap_count(heap, cap))) return st;
    chunk = malloc(sizeof *chunk + cap);
    if (chunk == NULL)
        return sp_fail(heap->err, SP_E_NOMEM, "out of memory: %zu bytes were requested", cap);
    chunk->cap = cap;
    chunk->used = 0;
    /* A chunk for a single large allocation goes after the current one, which may have space. */
    if (cap == size && heap->chunks != NULL) {
        chunk->next = heap->chunks->next;
        heap->chunks->next = chunk;
    } else {
        chunk->next = heap->chunks;
        heap->chunks = chunk;
    }
    return SP_OK;
}

enum sp_status sp_heap_take(struct sp_heap *heap, void *out, size_t size)
{
    enum sp_status st;
    struct sp_heap_chunk *chunk = heap->chunks;
    char *at;

    if (size > heap->limit) return sp_heap_count(heap, size);
    size = sp_round_up(size ? size : 1, alignof(max_align_t));
    if (chunk == NULL || chunk->cap - chunk->used < size) {
        if ((st = add_chunk(heap, size))) return st;
        chunk = heap->chunks;
        if (chunk->cap - chunk->used < size) chunk = chunk->next;
    }
    at = chunk->at + chunk->used;
    memset(at, 0, size);
    chunk->used += size;
    memcpy(out, &at, sizeof at);
    return SP_OK;
}

enum sp_status sp_heap_grow(struct sp_heap *heap, void *at, size_t n, size_t *cap, size_t size)
{
    enum sp_status st;
    size_t more = *cap < 4 ? 8 : *cap * 2;
    void *old, *larger = NULL;

    if (n < *cap) return SP_OK;
    if ((st = sp_heap_take(heap, &larger, more * size))) return st;
    memcpy(&old, at, sizeof old);
    if (n) memcpy(larger, old, n * size);
    memcpy(at, &larger, sizeof larger);
    *cap = more;
    return SP_OK;
}

/* Extends the current chunk's newest allocation in place; false: it is another or does not fit. */
static bool extend(struct sp_heap *heap, const char *at, size_t old, size_t size)
{
    struct sp_heap_chunk *chunk = heap->chunks;
    size_t begin;

    old = sp_round_up(old ? old : 1, alignof(max_align_t));
    if (chunk == NULL || at == NULL || chunk->used < old) return false;
    begin = chunk->used - old;
    size = sp_round_up(size, alignof(max_align_t));
    if (at != chunk->at + begin || size > chunk->cap - begin) return false;
    chunk->used = begin + size;
    return true;
}

enum sp_status sp_build(struct sp_builder *b, const char *text, size_t len)
{
    enum sp_status st;

    if ((st = sp_heap_charge(b->heap, len / 16 + 1))) return st;
    if (len > b->cap - b->len) {
        size_t cap = b->cap < 64 ? 128 : b->cap * 2;
        char *at;
        while (cap - b->len < len)
            cap *= 2;
        if (cap > UINT32_MAX / 2) {
            return sp_fail(b->heap->err, SP_E_INPUT, "template makes a text of more than %u bytes",
                           UINT32_MAX / 2);
        }
        if (!extend(b->heap, b->at, b->cap, cap)) {
            if ((st = sp_heap_take(b->heap, &at, cap))) return st;
            if (b->len) memcpy(at, b->at, b->len);
            b->at = at;
        }
        b->cap = cap;
    }
    if (len) memcpy(b->at + b->len, text, len);
    b->len += len;
    return SP_OK;
}

enum sp_status sp_build_text(struct sp_builder *b, const char *text)
{
    return sp_build(b, text, strlen(text));
}

enum sp_status sp_build_repeat(struct sp_builder *b, char c, size_t n)
{
    enum sp_status st = SP_OK;
    char run[64];

    memset(run, c, sizeof run);
    while (n > 0 && !st) {
        size_t now = n < sizeof run ? n : sizeof run;
        st = sp_build(b, run, now);
        n -= now;
    }
    return st;
}

struct sp_value sp_builder_value(const struct sp_builder *b)
{
    return sp_value_text(b->at ? b->at : "", b->len);
}

struct sp_value sp_value_none(void)
{
    return (struct sp_value){.kind = SP_V_NONE};
}

struct sp_value sp_value_bool(bool truth)
{
    return (struct sp_value){.kind = SP_V_BOOL, .truth = truth};
}

struct sp_value sp_value_int(int64_t integer)
{
    return (struct sp_value){.kind = SP_V_INT, .integer = integer};
}

struct sp_value sp_value_natural(uint64_t natural)
{
    if (natural <= INT64_MAX) return sp_value_int((int64_t)natural);
    return (struct sp_value){.kind = SP_V_BIG, .natural = natural};
}

struct sp_value sp_value_float(double real)
{
    return (struct sp_value){.kind = SP_V_FLOAT, .real = real};
}

struct sp_value sp_value_text(const char *text, size_t len)
{
    return (struct sp_value){.kind = SP_V_TEXT, .len = (uint32_t)len, .text = text};
}

struct sp_value sp_value_name(const char *text)
{
    return sp_value_text(text, strlen(text));
}

struct sp_value sp_value_object(void *object)
{
    return (struct sp_value){.kind = SP_V_OBJECT, .object = object};
}

enum sp_status sp_value_copy_text(struct sp_heap *heap, struct sp_value *out, const char *text,
                                  size_t len)
{
    enum sp_status st;
    char *at = NULL;

    if (len >= UINT32_MAX / 2) {
        return sp_fail(heap->err, SP_E_INPUT, "a text of %zu bytes, at most %u are possible", len,
                       UINT32_MAX / 2);
    }
    if ((st = sp_heap_take(heap, &at, len + 1))) return st;
    if (len) memcpy(at, text, len);
    *out = sp_value_text(at, len);
    return SP_OK;
}

enum sp_status sp_value_list(struct sp_heap *heap, struct sp_value *out, enum sp_value_shape shape,
                             size_t cap)
{
    enum sp_status st;
    struct sp_list *list = NULL;
    size_t size;

    if (!sp_mul(&size, cap, sizeof *list->at)) size = SIZE_MAX;
    if ((st = sp_heap_take(heap, &list, sizeof *list))) return st;
    if (cap && (st = sp_heap_take(heap, &list->at, size))) return st;
    list->cap = cap;
    *out = (struct sp_value){.kind = SP_V_LIST, .shape = (uint8_t)shape, .list = list};
    return SP_OK;
}

enum sp_status sp_list_push(struct sp_heap *heap, struct sp_list *list, struct sp_value value)
{
    enum sp_status st;

    if ((st = sp_heap_charge(heap, 1))) return st;
    if ((st = sp_heap_grow(heap, &list->at, list->n, &list->cap, sizeof *list->at))) return st;
    list->at[list->n++] = value;
    return SP_OK;
}

bool sp_value_is_number(struct sp_value v)
{
    return v.kind == SP_V_BOOL || v.kind == SP_V_INT || v.kind == SP_V_FLOAT || v.kind == SP_V_BIG;
}

double sp_value_to_double(struct sp_value v)
{
    switch (v.kind) {
    case SP_V_BOOL:
        return v.truth;
    case SP_V_INT:
        return (double)v.integer;
    case SP_V_FLOAT:
        return v.real;
    default:
        return (double)v.natural;
    }
}

bool sp_text_is(struct sp_value v, const char *text)
{
    return v.kind == SP_V_TEXT && strlen(text) == v.len && memcmp(v.text, text, v.len) == 0;
}

size_t sp_text_characters(struct sp_value text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.text[i] & 0xc0) != 0x80;
    return n;
}

int sp_text_order(struct sp_value a, struct sp_value b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.text, b.text, n) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

int64_t sp_value_to_integer(struct sp_value v)
{
    return v.kind == SP_V_BOOL ? v.truth : v.integer;
}

int sp_number_order(struct sp_value a, struct sp_value b)
{
    double x, y;

    if (a.kind == SP_V_BIG && b.kind == SP_V_BIG)
        return (a.natural > b.natural) - (a.natural < b.natural);
    if (a.kind == SP_V_BIG && b.kind != SP_V_FLOAT) return 1;
    if (b.kind == SP_V_BIG && a.kind != SP_V_FLOAT) return -1;
    if (a.kind != SP_V_FLOAT && b.kind != SP_V_FLOAT) {
        int64_t i = sp_value_to_integer(a), j = sp_value_to_integer(b);
        return (i > j) - (i < j);
    }
    x = sp_value_to_double(a);
    y = sp_value_to_double(b);
    if (x == y && a.kind != b.kind && fabs(x) >= 9007199254740992.0 && fabs(x) < 9.2e18) {
        /* beyond 2^53 several integers become the same double, so integers are compared */
        int64_t i = a.kind == SP_V_FLOAT ? (int64_t)x : sp_value_to_integer(a);
        int64_t j = b.kind == SP_V_FLOAT ? (int64_t)y : sp_value_to_integer(b);
        return (i > j) - (i < j);
    }
    return (x > y) - (x < y);
}

static enum sp_status equal_at(struct sp_heap *heap, bool *out, struct sp_value a,
                               struct sp_value b, int depth);

static enum sp_status equal_lists(struct sp_heap *heap, bool *out, const struct sp_list *a,
                                  const struct sp_list *b, int depth)
{
    enum sp_status st = SP_OK;
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n && !st; i++)
        st = equal_at(heap, &same, a->at[i], b->at[i], depth + 1);
    *out = same;
    return st;
}

static enum sp_status equal_dicts(struct sp_heap *heap, bool *out, const struct sp_dict *a,
                                  const struct sp_dict *b, int depth)
{
    enum sp_status st = SP_OK;
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n && !st; i++) {
        const struct sp_value *other;
        if ((st = sp_dict_find(heap, &other, b, a->at[i].key))) return st;
        same = other != NULL;
        if (same) st = equal_at(heap, &same, a->at[i].value, *other, depth + 1);
    }
    *out = same;
    return st;
}

static enum sp_status equal_at(struct sp_heap *heap, bool *out, struct sp_value a,
                               struct sp_value b, int depth)
{
    enum sp_status st;

    if ((st = sp_heap_charge(heap, 1))) return st;
    if (depth > SP_VALUE_DEPTH)
        return sp_fail(heap->err, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    *out = false;
    if (sp_value_is_number(a) && sp_value_is_number(b)) {
        bool nan =
            (a.kind == SP_V_FLOAT && isnan(a.real)) || (b.kind == SP_V_FLOAT && isnan(b.real));
        *out = !nan && sp_number_order(a, b) == 0;
        return SP_OK;
    }
    if (a.kind != b.kind) return SP_OK;
    switch (a.kind) {
    case SP_V_TEXT:
        if (a.len != b.len) return SP_OK;
        *out = a.len == 0 || memcmp(a.text, b.text, a.len) == 0;
        return sp_heap_charge(heap, a.len / 16);
    case SP_V_LIST:
        if ((a.shape == SP_SHAPE_TUPLE) != (b.shape == SP_SHAPE_TUPLE)) return SP_OK;
        if (a.list == b.list) {
            *out = true;
            return SP_OK;
        }
        return equal_lists(heap, out, a.list, b.list, depth);
    case SP_V_DICT:
        return equal_dicts(heap, out, a.dict, b.dict, depth);
    case SP_V_OBJECT:
        *out = a.object == b.object;
        return SP_OK;
    default:
        *out = true;
        return SP_OK;
    }
}

enum sp_status sp_value_equal(struct sp_heap *heap, bool *out, struct sp_value a, struct sp_value b)
{
    return equal_at(heap, out, a, b, 0);
}

bool sp_value_truth(struct sp_value v)
{
    switch (v.kind) {
    case SP_V_ABSENT:
    case SP_V_UNDEFINED:
    case SP_V_NONE:
        return false;
    case SP_V_BOOL:
        return v.truth;
    case SP_V_INT:
        return v.integer != 0;
    case SP_V_FLOAT:
        return v.real != 0;
    case SP_V_TEXT:
        return v.len != 0;
    case SP_V_LIST:
        return v.shape == SP_SHAPE_ITERATOR || v.list->n != 0;
    case SP_V_DICT:
        return v.dict->n != 0;
    default:
        return true;
    }
}

static enum sp_status from_json_at(struct sp_heap *heap, struct sp_value *out,
                                   const struct sp_json *json, int depth)
{
    enum sp_status st = SP_OK;
    struct sp_json_iter it = {0};
    struct sp_value item, key;
    const char *text;
    double d = 0;
    uint64_t natural;
    bool b = false;
    size_t len;

    if (depth > SP_VALUE_DEPTH)
        return sp_fail(heap->err, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    switch (sp_json_kind(json)) {
    case SP_JSON_NULL:
        *out = sp_value_none();
        return SP_OK;
    case SP_JSON_BOOL:
        *out = sp_value_bool(sp_json_to_bool(json, &b) && b);
        return SP_OK;
    case SP_JSON_INT:
        *out = sp_value_int(0);
        if (!sp_json_to_i64(json, &out->integer) && sp_json_to_u64(json, &natural))
            *out = sp_value_natural(natural);
        return SP_OK;
    case SP_JSON_DOUBLE:
        *out = sp_value_float(sp_json_to_double(json, &d) ? d : 0);
        return SP_OK;
    case SP_JSON_STRING:
        text = sp_json_to_string(json, &len);
        return sp_value_copy_text(heap, out, text, len);
    case SP_JSON_ARRAY:
        len = sp_json_len(json);
        if ((st = sp_value_list(heap, out, SP_SHAPE_PLAIN, len))) return st;
        for (size_t i = 0; i < len && !st; i++) {
            st = from_json_at(heap, &item, sp_json_at(json, i), depth + 1);
            if (!st) st = sp_list_push(heap, out->list, item);
        }
        return st;
    case SP_JSON_OBJECT:
        if ((st = sp_value_dict(heap, out))) return st;
        while (!st && sp_json_next(json, &it)) {
            st = sp_value_copy_text(heap, &key, it.key, strlen(it.key));
            if (!st) st = from_json_at(heap, &item, it.value, depth + 1);
            if (!st) st = sp_dict_set(heap, out->dict, key, item);
        }
        return st;
    }
    return SP_OK;
}

enum sp_status sp_value_from_json(struct sp_heap *heap, struct sp_value *out,
                                  const struct sp_json *json)
{
    return from_json_at(heap, out, json, 0);
}
