/* struct sp_vector_kv for q8 and q4 caches with the primitives of quantize/simd/simd.h: products of
 * bytes, four at a time, in lanes of int32. Codes of q4 become those of q8 in registers. Lanes are
 * keys in scores, dims in weigh. The tiles are like those of vector_kv_loops.h. An instruction set
 * adds these primitives:
 *
 *   store_codes(codes, c)       32 numbers of c as bytes
 *   KEY_SURPLUS, keys_of(codes) LANES keys' codes of four dims + 128, with a surplus over the codes
 *   load_query(codes)           16 codes of a query: the type query_codes
 *   dot_keys(sum, keys, q, i)   sum + keys . codes 4i..4i+3 of q
 *   struct weights              the weights of 16 positions, whole numbers of 15 bits
 *   store_weights(w, c)         sets them from numbers
 *   hold_weights(w)             as the operand of products, the type held_weights
 *   values_of(codes)            LANES dims' codes of four positions: the type value_codes
 *   weigh(sum, x, w, i)         sum += x . weights 4i..4i+3
 *   weighed_sum(sum)            the sum as a number */
#ifndef SP_RUNTIME_VECTOR_VECTOR_Q8_LOOPS_H
#define SP_RUNTIME_VECTOR_VECTOR_Q8_LOOPS_H

#include "runtime/vector/rotation.h"
#include "runtime/vector/vector_kv_loops.h"
#include "runtime/vector/vector_loops.h"

#ifdef REGISTER

/* ---- stored numbers ---- */

/* Computes the codes of n numbers, a multiple of 32, from -limit to limit; returns their scale. A
 * NaN is the largest magnitude, and its code the limit, as in vector_kv_ref.c. */
INLINE float quantize(int8_t *codes, const float *x, size_t n, float limit)
{
    uints m = {0};

    for (size_t i = 0; i < n; i += LANES)
        m = larger_bits(m, (uints)magnitude(load(x + i, LANES)));
    uint32_t bits = largest_of(m);
    float max = sp_float_of_bits(bits > SP_INFINITY_BITS ? SP_NAN_BITS : bits);
    float inverse = max == 0.0f ? 0.0f : limit / max;
    for (size_t i = 0; i < n; i += 32) {
        ints c[32 / LANES];
        UNROLL
        for (size_t g = 0; g < 32 / LANES; g++) {
            floats v = load(x + i + LANES * g, LANES) * inverse;
            c[g] = to_ints(number_at_least(number_at_most(v, limit), -limit));
        }
        store_codes(codes + i, c);
    }
    return max / limit;
}

INLINE uint32_t four_codes(const int8_t *codes)
{
    uint32_t four;

    memcpy(&four, codes, sizeof four);
    return four;
}

/* Four codes + 128 of q8, or + 8 of q4 with those of 16 dims later in the upper halves. */
INLINE uint32_t key_word(const int8_t *codes, enum sp_cache_type type)
{
    if (type == SP_CACHE_Q8) return four_codes(codes) ^ 0x80808080;
    uint32_t low = four_codes(codes), high = four_codes(codes + SP_KV_GROUP / 2);
    return ((low & 0x0f0f0f0f) | (high & 0x0f0f0f0f) << 4) ^ 0x88888888;
}

INLINE void store_key_codes(uint8_t *block, size_t lane, const float *k, size_t head_dim,
                            enum sp_cache_type type)
{
    const size_t n_words = type == SP_CACHE_Q8 ? SP_KV_GROUP / 4 : SP_KV_GROUP / 8;
    uint8_t *scales = block + head_dim / SP_KV_GROUP * n_words * 4 * SP_KV_BLOCK;

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        float rotated[SP_KV_GROUP];
        int8_t codes[SP_KV_GROUP];
        sp_rotate_group(rotated, k + g * SP_KV_GROUP);
        float s = quantize(codes, rotated, SP_KV_GROUP, type == SP_CACHE_Q8 ? 127 : 7);
        memcpy(scales + 4 * (g * SP_KV_BLOCK + lane), &s, sizeof s);
        for (size_t i = 0; i < n_words; i++) {
            uint32_t word = key_word(codes + 4 * i, type);
            memcpy(block + ((g * n_words + i) * SP_KV_BLOCK + lane) * 4, &word, sizeof word);
        }
    }
}

static void store_key_q8(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    store_key_codes(block, lane, k, head_dim, SP_CACHE_Q8);
}

static void store_key_q4(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    store_key_codes(block, lane, k, head_dim, SP_CACHE_Q4);
}

static void store_value_q8(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    uint8_t *to = block + 4 * SP_KV_BLOCK + lane / 4 * 4 * head_dim + lane % 4;
    int8_t codes[SP_MAX_HEAD_DIM];
    float s;

    assert(head_dim <= SP_MAX_HEAD_DIM);
    s = quantize(codes, v, head_dim, 127);
    memcpy(block + 4 * lane, &s, sizeof s);
    for (size_t d = 0; d < head_dim; d++)
        to[4 * d] = (uint8_t)codes[d];
}

static void store_value_q4(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    uint8_t *to = block + 4 * SP_KV_BLOCK + lane / 4 % 2 * 4 * head_dim + lane % 4;
    float rotated[SP_MAX_HEAD_DIM], s;
    int8_t codes[SP_MAX_HEAD_DIM];

    assert(head_dim <= SP_MAX_HEAD_DIM);
    sp_rotate_groups(rotated, v, head_dim);
    s = quantize(codes, rotated, head_dim, 7);
    memcpy(block + 4 * lane, &s, sizeof s);
    for (size_t d = 0; d < head_dim; d++) {
        uint8_t code = (uint8_t)(codes[d] + 8);
        to[4 * d] =
            (uint8_t)(lane < 8 ? (to[4 * d] & 0xf0) | code : (to[4 * d] & 0x0f) | code << 4);
    }
}

/* The lower halves of bytes, or the upper halves: codes + 8 of q4. */
INLINE bytes halves_of(bytes x, bool upper)
{
    return upper ? (bytes)((uints)x >> 4) & 0x0f : x & 0x0f;
}

/* ---- queries ---- */

/* The codes of 32 dims of a prepared query, which is an array of these groups. */
struct sp_query_group {
    int8_t codes[SP_KV_GROUP];
    float scale;
    int32_t start; /* initial value of a sum of products, which subtracts the keys' surplus */
};

static void prepare_codes(uint8_t *query, const float *q, size_t head_dim)
{
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        struct sp_query_group group;
        int32_t sum = 0;
        float rotated[SP_KV_GROUP];
        sp_rotate_group(rotated, q + g * SP_KV_GROUP);
        group.scale = quantize(group.codes, rotated, SP_KV_GROUP, 127) * SP_ROTATION_FACTOR;
        for (size_t i = 0; i < SP_KV_GROUP; i++)
            sum += group.codes[i];
        group.start = -KEY_SURPLUS * sum;
        memcpy(query + g * sizeof group, &group, sizeof group);
    }
}

/* ---- scores ---- */

/* sum_k[b] = the dot products of group g of nq queries with LANES keys of each of nb blocks. */
INLINE void dot_groups(ints sum[][CODE_BLOCKS], const struct sp_query_group *const *q,
                       const uint8_t *keys, enum sp_cache_type type, size_t size, const int nq,
                       const int nb)
{
    UNROLL
    for (int k = 0; k < nq; k++) {
        UNROLL
        for (int b = 0; b < nb; b++)
            sum[k][b] = KEY_SURPLUS ? splat_int(q[k]->start) : (ints){0};
    }
    UNROLL
    for (size_t half = 0; half < 2; half++) {
        query_codes codes[MOST_QUERIES];
        UNROLL
        for (int k = 0; k < nq; k++)
            codes[k] = load_query(q[k]->codes + 16 * half);
        UNROLL
        for (size_t i = 0; i < 4; i++) {
            bytes x[CODE_BLOCKS];
            UNROLL
            for (int b = 0; b < nb; b++) {
                const uint8_t *at = keys + (size_t)b * size + 4 * SP_KV_BLOCK * i;
                x[b] = type == SP_CACHE_Q8 ? load_bytes(at + 16 * SP_KV_BLOCK * half)
                                           : (halves_of(load_bytes(at), half) - 8) ^ -128;
                x[b] = keys_of(x[b]);
            }
            UNROLL
            for (int k = 0; k < nq; k++) {
                UNROLL
                for (int b = 0; b < nb; b++)
                    sum[k][b] = dot_keys(sum[k][b], x[b], codes[k], i);
            }
        }
    }
}

/* Scores of queries i..i+nq-1 for LANES keys, from `part` on, of each of nb blocks. */
INLINE void score_codes(const struct sp_kv_rows *a, size_t i, size_t part, const int nq,
                        const int nb)
{
    const size_t size = sp_key_block_size(a->type, a->head_dim);
    const size_t query_size = sp_query_size(a->head_dim);
    const size_t group_size =
        (a->type == SP_CACHE_Q8 ? SP_KV_GROUP : SP_KV_GROUP / 2) * SP_KV_BLOCK;
    const uint8_t *keys = a->blocks + 4 * part;
    const uint8_t *scales = keys + a->head_dim / SP_KV_GROUP * group_size;
    floats acc[MOST_QUERIES][CODE_BLOCKS];

    UNROLL
    for (int k = 0; k < nq; k++) {
        UNROLL
        for (int b = 0; b < nb; b++)
            acc[k][b] = splat(0);
    }
    for (size_t g = 0; g < a->head_dim / SP_KV_GROUP; g++) {
        const struct sp_query_group *q[MOST_QUERIES];
        ints sum[MOST_QUERIES][CODE_BLOCKS];
        UNROLL
        for (int k = 0; k < nq; k++) {
            const uint8_t *query = a->queries + (i + (size_t)k) * query_size;
            q[k] = (const struct sp_query_group *)(const void *)query + g;
        }
        dot_groups(sum, q, keys + g * group_size, a->type, size, nq, nb);
        UNROLL
        for (int b = 0; b < nb; b++) {
            const uint8_t *at = scales + (size_t)b * size + g * SP_KV_BLOCK * sizeof(float);
            floats k_scale = (floats)load_bytes(at);
            UNROLL
            for (int k = 0; k < nq; k++)
                acc[k][b] = fmadd(to_floats(sum[k][b]), k_scale * q[k]->scale, acc[k][b]);
        }
    }
    UNROLL
    for (int k = 0; k < nq; k++) {
        float *to = a->out + (i + (size_t)k) * a->ld_out + part;
        UNROLL
        for (int b = 0; b < nb; b++)
            store(to + b * SP_KV_BLOCK, LANES, acc[k][b] * a->scale);
    }
}

TILE void score_blocks(const struct sp_kv_rows *a, size_t i, const int nq, const int nb)
{
    for (size_t part = 0; part < SP_KV_BLOCK; part += LANES)
        score_codes(a, i, part, nq, nb);
}

INLINE void scores_of_codes(const struct sp_kv_rows *rows)
{
    const size_t size = sp_key_block_size(rows->type, rows->head_dim);
    struct sp_kv_rows a = *rows;

    for (size_t left = a.n_blocks, n; left > 0; left -= n) {
        n = left < CODE_BLOCKS ? 1 : CODE_BLOCKS;
        if (n == CODE_BLOCKS)
            do_tiles(SCORES_OF_BLOCKS, &a, CODE_QUERIES);
        else
            do_tiles(SCORES_OF_CODES, &a, CODE_QUERIES);
        a.out += n * SP_KV_BLOCK;
        a.blocks += n * size;
    }
}

SP_KV_FUNCTION(scores_q8, scores_of_codes, SP_CACHE_Q8)
SP_KV_FUNCTION(scores_q4, scores_of_codes, SP_CACHE_Q4)

/* ---- weighted sums ---- */

enum { WEIGH_BATCH = 16 }; /* queries whose weights become whole numbers before values are read */

/* The weights of a batch of queries and the factors of their sums. Positions that a query does not
 * attend to have weight 0, whatever the cache contains. */
struct batch {
    struct weights weights[WEIGH_BATCH][SP_SPAN / SP_KV_BLOCK];
    float scale[WEIGH_BATCH];
    size_t first, last; /* blocks that any query attends to */
};

/* p times the scale of its value, for LANES positions from j on; 0 outside first..last-1. */
INLINE floats scaled(const float *p, const uint8_t *blocks, size_t block_size, size_t j,
                     size_t first, size_t last)
{
    const uint8_t *scales = blocks + j / SP_KV_BLOCK * block_size + j % SP_KV_BLOCK * sizeof(float);

    if (j >= last) return splat(0);
    floats x = load(p + j, LANES) * (floats)load_bytes(scales);
    return select(lanes_between(j, first, last), x, splat(0));
}

/* Sets query i of the batch for its blocks. */
static void quantize_weights(struct batch *batch, size_t i, const float *p, size_t first,
                             size_t last, const uint8_t *blocks, size_t block_size)
{
    float w[SP_SPAN];
    uints m = {0};

    for (size_t j = batch->first * SP_KV_BLOCK; j < batch->last * SP_KV_BLOCK; j += LANES) {
        floats x = scaled(p, blocks, block_size, j, first, last);
        store(w + j, LANES, x);
        m = larger_bits(m, (uints)magnitude(x));
    }
    float max = sp_float_of_bits(largest_of(m));
    float inverse = max < 0x1p-100f ? 0.0f : 32767.0f / max;
    for (size_t b = batch->first; b < batch->last; b++) {
        ints c[PARTS];
        UNROLL
        for (size_t g = 0; g < PARTS; g++) {
            floats x = load(w + b * SP_KV_BLOCK + LANES * g, LANES) * inverse;
            c[g] = to_ints(number_at_most(x, 32767));
        }
        store_weights(&batch->weights[i][b], c);
    }
    batch->scale[i] = max / 32767.0f;
}

/* The codes of positions 4 four.. of a block of values for LANES dims from d on. */
INLINE bytes load_value_codes(const struct sp_kv_rows *a, const uint8_t *codes, size_t four,
                              size_t d)
{
    const uint8_t *dims = codes + 4 * d, *at = dims + 4 * a->head_dim * (four % 2);

    if (a->type == SP_CACHE_Q8) return load_bytes(dims + 4 * a->head_dim * four);
    return halves_of(load_bytes(at), four >= 2) - 8;
}

/* Weighs nv registers of dims, from dim d on, for queries i..i+nq-1 of the batch. */
TILE void weigh_codes(const struct sp_kv_rows *a, const struct batch *batch, size_t i, size_t d,
                      const int nq, const int nv)
{
    const size_t size = sp_value_block_size(a->type, a->head_dim);
    struct weighed acc[4][CODE_VECTORS] = {0};

    for (size_t b = batch->first; b < batch->last; b++) {
        const uint8_t *codes = a->blocks + b * size + 4 * SP_KV_BLOCK;
        held_weights w[4];
        UNROLL
        for (int k = 0; k < nq; k++)
            w[k] = hold_weights(&batch->weights[i + (size_t)k][b]);
        UNROLL
        for (size_t four = 0; four < SP_KV_BLOCK / 4; four++) {
            value_codes x[CODE_VECTORS];
            UNROLL
            for (int v = 0; v < nv; v++)
                x[v] = values_of(load_value_codes(a, codes, four, d + (size_t)v * LANES));
            UNROLL
            for (int k = 0; k < nq; k++) {
                UNROLL
                for (int v = 0; v < nv; v++)
                    weigh(&acc[k][v], x[v], w[k], four);
            }
        }
    }
    UNROLL
    for (int k = 0; k < nq; k++) {
        float *to = a->out + (i + (size_t)k) * a->ld_out + d;
        UNROLL
        for (int v = 0; v < nv; v++) {
            floats sum = to_floats(weighed_sum(&acc[k][v]));
            store(to + v * LANES, LANES, sum * batch->scale[i + (size_t)k]);
        }
    }
}

/* Weighs nv registers of dims for n queries, 4, 2 or 1 at a time: more queries, fewer dims. */
INLINE void weigh_group(const struct sp_kv_rows *a, const struct batch *batch, size_t n, size_t d,
                        const size_t nv)
{
    const size_t four = nv < 4 ? nv : 4;
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (size_t v = 0; v < nv; v += 2)
            weigh_codes(a, batch, i, d + v * LANES, 4, 2);
    for (; i + 2 <= n; i += 2)
        for (size_t v = 0; v < nv; v += four)
            weigh_codes(a, batch, i, d + v * LANES, 2, (int)four);
    if (i < n) weigh_codes(a, batch, i, d, 1, (int)nv);
}

/* Sets the blocks that any of n queries attends to. */
static void set_blocks(struct batch *batch, const size_t *first, const size_t *last, size_t n)
{
    batch->first = first[0] / SP_KV_BLOCK;
    batch->last = 0;
    for (size_t i = 0; i < n; i++) {
        size_t start = first[i] / SP_KV_BLOCK, end = (last[i] + SP_KV_BLOCK - 1) / SP_KV_BLOCK;
        assert(last[i] <= SP_SPAN);
        if (start < batch->first) batch->first = start;
        if (end > batch->last) batch->last = end;
    }
}

INLINE void weigh_batch(const struct sp_kv_rows *a, size_t n)
{
    const size_t size = sp_value_block_size(a->type, a->head_dim);
    struct batch batch;
    size_t d = 0;

    set_blocks(&batch, a->first, a->last, n);
    for (size_t i = 0; i < n; i++)
        quantize_weights(&batch, i, a->p + i * a->ldp, a->first[i], a->last[i], a->blocks, size);
    for (; d + CODE_VECTORS * LANES <= a->head_dim; d += CODE_VECTORS * LANES)
        weigh_group(a, &batch, n, d, CODE_VECTORS);
    for (; d < a->head_dim; d += 2 * LANES)
        weigh_group(a, &batch, n, d, 2);
}

INLINE void weigh_values(const struct sp_kv_rows *rows)
{
    struct sp_kv_rows a = *rows;

    for (size_t n; a.n_queries > 0; a.n_queries -= n) {
        n = a.n_queries < WEIGH_BATCH ? a.n_queries : WEIGH_BATCH;
        weigh_batch(&a, n);
        a.out += n * a.ld_out;
        a.p += n * a.ldp;
        a.first += n;
        a.last += n;
    }
}

SP_KV_FUNCTION(weigh_q8, weigh_values, SP_CACHE_Q8)
SP_KV_FUNCTION(weigh_q4, weigh_values, SP_CACHE_Q4)

static const struct sp_vector_kv kv_tables[SP_N_CACHE_TYPES] = SP_KV_TABLES;

#endif

#endif
