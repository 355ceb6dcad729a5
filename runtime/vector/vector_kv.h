/* Code for the caches of all instruction sets except the reference: the layout of stored numbers,
 * and the passes of queries over values. An instruction set passes its own inner functions (tiles,
 * rounding) as arguments. Everything here is inlined, with these functions and the sizes of tiles
 * constant, so that calls are direct and loops unroll. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_KV_H
#define SP_RUNTIME_VECTOR_VECTOR_KV_H

#include "runtime/vector/rotation.h"
#include "runtime/vector/vector_tables.h"

#include <assert.h>
#include <string.h>

/* ---- f32 and f16: stored numbers ---- */

/* Writes n numbers as f16. */
typedef void sp_store_row_fn(uint8_t *row, const float *x, size_t n);

INLINE void store_key_f32(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        memcpy(block + 4 * (d * SP_KV_BLOCK + lane), k + d, sizeof *k);
}

INLINE void store_value_f32(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    memcpy(block + lane * head_dim * sizeof *v, v, head_dim * sizeof *v);
}

INLINE void store_halves_of_key(uint8_t *block, size_t lane, const float *k, size_t head_dim,
                                sp_store_row_fn *store_row)
{
    enum { AT_ONCE = 16 };

    for (size_t d = 0; d < head_dim; d += AT_ONCE) {
        uint16_t halves[AT_ONCE];
        size_t n = head_dim - d < AT_ONCE ? head_dim - d : AT_ONCE;
        store_row((uint8_t *)halves, k + d, n);
        for (size_t i = 0; i < n; i++)
            memcpy(block + 2 * ((d + i) * SP_KV_BLOCK + lane), halves + i, sizeof *halves);
    }
}

INLINE void prepare_floats(uint8_t *query, const float *q, size_t head_dim)
{
    memcpy(query, q, head_dim * sizeof *q);
}

/* ---- f32 and f16: weighted sums ---- */

/* The values of consecutive positions, one row each. */
struct sp_value_rows {
    const uint8_t *rows;
    size_t row_size, head_dim;
};

/* out_i += sum of p_i[j] v_j over j = from..to-1, for nq queries and all dims. */
typedef void sp_weigh_rows_fn(float *out, size_t ld_out, const float *p, size_t ldp, size_t from,
                              size_t to, struct sp_value_rows values, enum sp_cache_type type,
                              int nq);

/* Weighs the keys that all nq queries attend to for all of them at once, and the keys before and
 * after these query by query. */
INLINE void weigh_queries(float *out, size_t ld_out, const float *p, size_t ldp,
                          const size_t *first, const size_t *last, struct sp_value_rows values,
                          enum sp_cache_type type, sp_weigh_rows_fn *weigh_rows, const int nq)
{
    size_t from = first[0], to = last[0];

    for (int i = 1; i < nq; i++) {
        if (first[i] > from) from = first[i];
        if (last[i] < to) to = last[i];
    }
    if (to < from) to = from;
    for (size_t i = 0; i < (size_t)nq; i++) {
        size_t end = last[i] < from ? last[i] : from;
        memset(out + i * ld_out, 0, values.head_dim * sizeof *out);
        weigh_rows(out + i * ld_out, ld_out, p + i * ldp, ldp, first[i], end, values, type, 1);
    }
    weigh_rows(out, ld_out, p, ldp, from, to, values, type, nq);
    for (size_t i = 0; i < (size_t)nq; i++) {
        size_t start = first[i] > to ? first[i] : to;
        weigh_rows(out + i * ld_out, ld_out, p + i * ldp, ldp, start, last[i], values, type, 1);
    }
}

/* sp_vector_kv.weigh for `max_queries` queries at a time; the remaining ones in groups of at most
 * four. */
INLINE void weigh_floats(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                         const size_t *last, size_t n_queries, const uint8_t *rows, size_t dim,
                         enum sp_cache_type type, sp_weigh_rows_fn *weigh_rows,
                         const int max_queries)
{
    const struct sp_value_rows values = {rows, sp_value_block_size(type, dim) / SP_KV_BLOCK, dim};

    for (size_t i = 0, n; i < n_queries; i += n) {
        float *o = out + i * ld_out;
        const float *w = p + i * ldp;
        const size_t *f = first + i, *l = last + i;
        n = n_queries - i;
        n = n >= (size_t)max_queries ? (size_t)max_queries : n >= 4 ? 4 : n;
        switch (n) {
        case 1:
            weigh_queries(o, ld_out, w, ldp, f, l, values, type, weigh_rows, 1);
            break;
        case 2:
            weigh_queries(o, ld_out, w, ldp, f, l, values, type, weigh_rows, 2);
            break;
        case 3:
            weigh_queries(o, ld_out, w, ldp, f, l, values, type, weigh_rows, 3);
            break;
        case 4:
            weigh_queries(o, ld_out, w, ldp, f, l, values, type, weigh_rows, 4);
            break;
        default:
            weigh_queries(o, ld_out, w, ldp, f, l, values, type, weigh_rows, max_queries);
        }
    }
}

/* ---- q8: stored numbers ---- */

/* Computes the codes of n numbers, a multiple of SP_KV_GROUP; returns their scale. */
typedef float sp_quantize_fn(int8_t *codes, const float *x, size_t n);

INLINE void store_codes_of_key(uint8_t *block, size_t lane, const float *k, size_t head_dim,
                               sp_quantize_fn *quantize)
{
    uint8_t *scales = block + head_dim * SP_KV_BLOCK;

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        float rotated[SP_KV_GROUP];
        int8_t codes[SP_KV_GROUP];
        sp_rotate_group(rotated, k + g * SP_KV_GROUP);
        float s = quantize(codes, rotated, SP_KV_GROUP);
        memcpy(scales + 4 * (g * SP_KV_BLOCK + lane), &s, sizeof s);
        for (size_t i = 0; i < SP_KV_GROUP / 4; i++) {
            size_t row = g * SP_KV_GROUP / 4 + i;
            uint32_t four;
            memcpy(&four, codes + 4 * i, sizeof four);
            four ^= 0x80808080; /* adds 128 to each byte */
            memcpy(block + (row * SP_KV_BLOCK + lane) * 4, &four, sizeof four);
        }
    }
}

INLINE void store_codes_of_value(uint8_t *block, size_t lane, const float *v, size_t head_dim,
                                 sp_quantize_fn *quantize)
{
    uint8_t *to = block + 4 * SP_KV_BLOCK + lane / 4 * 4 * head_dim + lane % 4;
    int8_t codes[SP_MAX_HEAD_DIM];
    float s;

    assert(head_dim <= SP_MAX_HEAD_DIM);
    s = quantize(codes, v, head_dim);
    memcpy(block + 4 * lane, &s, sizeof s);
    for (size_t d = 0; d < head_dim; d++)
        to[4 * d] = (uint8_t)codes[d];
}

/* ---- q8: queries ---- */

/* The codes of 32 dims of a prepared query, which is an array of these groups. */
struct sp_query_group {
    int8_t codes[SP_KV_GROUP];
    float scale;
    int32_t start; /* initial value of a sum of products */
};

/* Prepares a q8 query. offset: the surplus of key codes, which the initial value of the sums
 * subtracts. */
INLINE void prepare_codes(uint8_t *query, const float *q, size_t head_dim, sp_quantize_fn *quantize,
                          const int32_t offset)
{
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        struct sp_query_group group;
        int32_t sum = 0;
        float rotated[SP_KV_GROUP];
        sp_rotate_group(rotated, q + g * SP_KV_GROUP);
        group.scale = quantize(group.codes, rotated, SP_KV_GROUP) * SP_ROTATION_FACTOR;
        for (size_t i = 0; i < SP_KV_GROUP; i++)
            sum += group.codes[i];
        group.start = -offset * sum;
        memcpy(query + g * sizeof group, &group, sizeof group);
    }
}

/* ---- q8: weighted sums ---- */

enum { WEIGH_BATCH = 16 }; /* queries whose weights become integers before the values are read */

struct sp_value_weights; /* the weights of a batch of queries, in the layout of an instruction set's
                            tile */

/* sp_vector_kv.weigh for at most WEIGH_BATCH queries. */
typedef void sp_weigh_batch_fn(float *out, size_t ld_out, const float *p, size_t ldp,
                               const size_t *first, const size_t *last, size_t n,
                               const uint8_t *blocks, size_t head_dim);

/* Weighs nv vectors of dims, from dim d on, for queries i..i+nq-1 of w. */
typedef void sp_weigh_codes_fn(float *out, size_t ld_out, const struct sp_value_weights *w,
                               size_t i, const uint8_t *blocks, size_t head_dim, size_t d, int nq,
                               int nv);

INLINE void weigh_batches(float *out, size_t ld_out, const float *p, size_t ldp,
                          const size_t *first, const size_t *last, size_t n_queries,
                          const uint8_t *blocks, size_t head_dim, sp_weigh_batch_fn *weigh_batch)
{
    for (size_t i = 0, n; i < n_queries; i += n) {
        n = n_queries - i < WEIGH_BATCH ? n_queries - i : WEIGH_BATCH;
        weigh_batch(out + i * ld_out, ld_out, p + i * ldp, ldp, first + i, last + i, n, blocks,
                    head_dim);
    }
}

/* Sets the blocks *from..*to-1 that any of n queries attends to. */
INLINE void attended_blocks(size_t *from, size_t *to, const size_t *first, const size_t *last,
                            size_t n)
{
    *from = first[0] / SP_KV_BLOCK;
    *to = 0;
    for (size_t i = 0; i < n; i++) {
        size_t start = first[i] / SP_KV_BLOCK, end = (last[i] + SP_KV_BLOCK - 1) / SP_KV_BLOCK;
        assert(last[i] <= SP_SPAN);
        if (start < *from) *from = start;
        if (end > *to) *to = end;
    }
}

/* Weighs nv vectors of dims for all n queries of w, four, two or one at a time. */
INLINE void weigh_dims(float *out, size_t ld_out, const struct sp_value_weights *w, size_t n,
                       const uint8_t *blocks, size_t head_dim, size_t d, sp_weigh_codes_fn *tile,
                       const int nv)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        tile(out, ld_out, w, i, blocks, head_dim, d, 4, nv);
    for (; i + 2 <= n; i += 2)
        tile(out, ld_out, w, i, blocks, head_dim, d, 2, nv);
    if (i < n) tile(out, ld_out, w, i, blocks, head_dim, d, 1, nv);
}

#endif
