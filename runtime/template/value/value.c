/* The heap with its budget, values and lists; see value.h. */
#include "runtime/template/value/value.h"
#include "format/base/number_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdalign.h>
#include <stdarg.h>
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
    *heap = (struct sp_heap){.limit = limit, .work_limit = work_limit, .err = err};
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

struct sp_value sp_heap_fail(struct sp_heap *heap, enum sp_status status, const char *format, ...)
{
    char text[SP_ERR_TEXT];
    va_list args;

    if (heap->status) return SP_VALUE_ABSENT;
    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    heap->status = sp_fail(heap->err, status, "%s", text);
    return SP_VALUE_ABSENT;
}

bool sp_heap_charge(struct sp_heap *heap, uint64_t n)
{
    if (heap->status) return false;
    if (n > heap->work_limit - heap->work) {
        heap->exhausted = true;
        sp_heap_fail(heap, SP_E_INPUT, "template does more than %" PRIu64 " steps of work",
                     heap->work_limit);
        return false;
    }
    heap->work += n;
    return true;
}

bool sp_heap_charge_reading(struct sp_heap *heap, const struct sp_value *values, size_t n)
{
    uint64_t work = 0;

    for (size_t i = 0; i < n; i++)
        work += values[i].kind == SP_V_TEXT ? values[i].len / 32 : 0;
    return sp_heap_charge(heap, work);
}

bool sp_heap_count(struct sp_heap *heap, size_t size)
{
    if (heap->status) return false;
    if (size > heap->limit - heap->used) {
        heap->exhausted = true;
        sp_heap_fail(heap, SP_E_INPUT, "template needs more than %zu bytes of memory", heap->limit);
        return false;
    }
    heap->used += size;
    return true;
}

bool sp_heap_may_nest(struct sp_heap *heap, int depth)
{
    if (depth > SP_VALUE_DEPTH)
        sp_heap_fail(heap, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    return !heap->status;
}

static struct sp_heap_chunk *add_chunk(struct sp_heap *heap, size_t size)
{
    size_t cap = size > CHUNK_BYTES / 4 ? size : CHUNK_BYTES;
    struct sp_heap_chunk *chunk;

    if (cap > heap->limit - heap->used) cap = size;
    if (!sp_heap_count(heap, cap)) return NULL;
    chunk = malloc(sizeof *chunk + cap);
    if (chunk == NULL) {
        sp_heap_fail(heap, SP_E_NOMEM, "out of memory: %zu bytes were requested", cap);
        return NULL;
    }
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
    return chunk;
}

void *sp_heap_take(struct sp_heap *heap, size_t size)
{
    struct sp_heap_chunk *chunk = heap->chunks;
    char *at;

    if (heap->status || (size > heap->limit && !sp_heap_count(heap, size))) return NULL;
    size = sp_round_up(size ? size : 1, alignof(max_align_t));
    if (chunk == NULL || chunk->cap - chunk->used < size) chunk = add_chunk(heap, size);
    if (chunk == NULL) return NULL;
    at = chunk->at + chunk->used;
    memset(at, 0, size);
    chunk->used += size;
    return at;
}

bool sp_heap_grow(struct sp_heap *heap, void *at, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap < 4 ? 8 : *cap * 2;
    void *old, *larger;

    if (heap->status || n < *cap) return !heap->status;
    if ((larger = sp_heap_take(heap, more * size)) == NULL) return false;
    memcpy(&old, at, sizeof old);
    if (n) memcpy(larger, old, n * size);
    memcpy(at, &larger, sizeof larger);
    *cap = more;
    return true;
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

void sp_build(struct sp_builder *b, const char *text, size_t len)
{
    if (!sp_heap_charge(b->heap, len / 16 + 1)) return;
    if (len > b->cap - b->len) {
        size_t cap = b->cap < 64 ? 128 : b->cap * 2;
        while (cap - b->len < len)
            cap *= 2;
        if (cap > UINT32_MAX / 2) {
            sp_heap_fail(b->heap, SP_E_INPUT, "template makes a text of more than %u bytes",
                         UINT32_MAX / 2);
            return;
        }
        if (!extend(b->heap, b->at, b->cap, cap)) {
            char *at = sp_heap_take(b->heap, cap);
            if (at == NULL) return;
            if (b->len) memcpy(at, b->at, b->len);
            b->at = at;
        }
        b->cap = cap;
    }
    if (len) memcpy(b->at + b->len, text, len);
    b->len += len;
}

void sp_build_text(struct sp_builder *b, const char *text)
{
    sp_build(b, text, strlen(text));
}

void sp_build_value(struct sp_builder *b, struct sp_value text)
{
    sp_build(b, text.text, text.len);
}

void sp_build_repeat(struct sp_builder *b, char c, size_t n)
{
    char run[64];

    memset(run, c, sizeof run);
    while (n > 0 && !b->heap->status) {
        size_t now = n < sizeof run ? n : sizeof run;
        sp_build(b, run, now);
        n -= now;
    }
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

struct sp_value sp_value_copy_text(struct sp_heap *heap, const char *text, size_t len)
{
    char *at;

    if (len >= UINT32_MAX / 2) {
        return sp_heap_fail(heap, SP_E_INPUT, "a text of %zu bytes, at most %u are possible", len,
                            UINT32_MAX / 2);
    }
    if ((at = sp_heap_take(heap, len + 1)) == NULL) return sp_value_name("");
    if (len) memcpy(at, text, len);
    return sp_value_text(at, len);
}

struct sp_value sp_value_list(struct sp_heap *heap, enum sp_value_shape shape, size_t cap)
{
    struct sp_list *list = sp_heap_take(heap, sizeof *list);
    size_t size;

    if (!sp_mul(&size, cap, sizeof *list->at)) size = SIZE_MAX;
    if (list && cap && (list->at = sp_heap_take(heap, size)) != NULL) list->cap = cap;
    if (list == NULL) list = &heap->no_list;
    return (struct sp_value){.kind = SP_V_LIST, .shape = (uint8_t)shape, .list = list};
}

void sp_list_push(struct sp_heap *heap, struct sp_list *list, struct sp_value value)
{
    if (sp_heap_charge(heap, 1) &&
        sp_heap_grow(heap, &list->at, list->n, &list->cap, sizeof *list->at))
        list->at[list->n++] = value;
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

static bool equal_at(struct sp_heap *heap, struct sp_value a, struct sp_value b, int depth);

static bool equal_lists(struct sp_heap *heap, const struct sp_list *a, const struct sp_list *b,
                        int depth)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++)
        same = equal_at(heap, a->at[i], b->at[i], depth + 1);
    return same;
}

static bool equal_dicts(struct sp_heap *heap, const struct sp_dict *a, const struct sp_dict *b,
                        int depth)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++) {
        const struct sp_value *other = sp_dict_find(heap, b, a->at[i].key);
        same = other != NULL && equal_at(heap, a->at[i].value, *other, depth + 1);
    }
    return same;
}

static bool equal_at(struct sp_heap *heap, struct sp_value a, struct sp_value b, int depth)
{
    if (!sp_heap_charge(heap, 1) || !sp_heap_may_nest(heap, depth)) return false;
    if (sp_value_is_number(a) && sp_value_is_number(b)) {
        bool nan =
            (a.kind == SP_V_FLOAT && isnan(a.real)) || (b.kind == SP_V_FLOAT && isnan(b.real));
        return !nan && sp_number_order(a, b) == 0;
    }
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case SP_V_TEXT:
        if (a.len != b.len || !sp_heap_charge(heap, a.len / 16)) return false;
        return a.len == 0 || memcmp(a.text, b.text, a.len) == 0;
    case SP_V_LIST:
        if ((a.shape == SP_SHAPE_TUPLE) != (b.shape == SP_SHAPE_TUPLE)) return false;
        return a.list == b.list || equal_lists(heap, a.list, b.list, depth);
    case SP_V_DICT:
        return equal_dicts(heap, a.dict, b.dict, depth);
    case SP_V_OBJECT:
        return a.object == b.object;
    default:
        return true;
    }
}

bool sp_value_equal(struct sp_heap *heap, struct sp_value a, struct sp_value b)
{
    return equal_at(heap, a, b, 0);
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

static struct sp_value from_json_at(struct sp_heap *heap, const struct sp_json *json, int depth)
{
    struct sp_json_iter it = {0};
    struct sp_value v = sp_value_none();
    const char *text;
    double d = 0;
    uint64_t natural;
    bool b = false;
    size_t len;

    if (!sp_heap_may_nest(heap, depth)) return v;
    switch (sp_json_kind(json)) {
    case SP_JSON_NULL:
        break;
    case SP_JSON_BOOL:
        return sp_value_bool(sp_json_to_bool(json, &b) && b);
    case SP_JSON_INT:
        v = sp_value_int(0);
        if (!sp_json_to_i64(json, &v.integer) && sp_json_to_u64(json, &natural))
            v = sp_value_natural(natural);
        break;
    case SP_JSON_DOUBLE:
        return sp_value_float(sp_json_to_double(json, &d) ? d : 0);
    case SP_JSON_STRING:
        text = sp_json_to_string(json, &len);
        return sp_value_copy_text(heap, text, len);
    case SP_JSON_ARRAY:
        len = sp_json_len(json);
        v = sp_value_list(heap, SP_SHAPE_PLAIN, len);
        for (size_t i = 0; i < len && !heap->status; i++)
            sp_list_push(heap, v.list, from_json_at(heap, sp_json_at(json, i), depth + 1));
        break;
    case SP_JSON_OBJECT:
        v = sp_value_dict(heap);
        while (!heap->status && sp_json_next(json, &it)) {
            struct sp_value key = sp_value_copy_text(heap, it.key, strlen(it.key));
            sp_dict_set(heap, v.dict, key, from_json_at(heap, it.value, depth + 1));
        }
        break;
    }
    return v;
}

struct sp_value sp_value_from_json(struct sp_heap *heap, const struct sp_json *json)
{
    return from_json_at(heap, json, 0);
}
