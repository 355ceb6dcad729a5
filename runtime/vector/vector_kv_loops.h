/* struct sp_vector_kv for f32 and f16 caches with the primitives of quantize/simd/simd.h: lanes are
 * keys in scores, dims in weigh.
 *
 * A tile of several queries is held in registers, so that a key or value is loaded and widened once
 * for all of them. The tile functions are inlined with constant sizes: their loops unroll and the
 * accumulators stay in registers. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_KV_LOOPS_H
#define SP_RUNTIME_VECTOR_VECTOR_KV_LOOPS_H

#include "quantize/simd/simd.h"
#include "runtime/vector/vector_tables.h"

#ifdef REGISTER

/* The tiles of queries i..i+nq-1: all scores, all weighted sums, and scores for one block of q8
 * keys or for CODE_BLOCKS. */
enum tile { SCORES, WEIGHTED_SUMS, SCORES_OF_CODES, SCORES_OF_BLOCKS };
TILE void scores_queries(const struct sp_kv_rows *a, size_t i, int nq);
TILE void weigh_queries(const struct sp_kv_rows *a, size_t i, int nq);
TILE void score_blocks(const struct sp_kv_rows *a, size_t i, int nq, int nb);

INLINE void do_tile(enum tile tile, const struct sp_kv_rows *a, size_t i, const int nq)
{
    switch (tile) {
    case SCORES:
        scores_queries(a, i, nq);
        break;
    case WEIGHTED_SUMS:
        weigh_queries(a, i, nq);
        break;
    case SCORES_OF_CODES:
        score_blocks(a, i, nq, 1);
        break;
    case SCORES_OF_BLOCKS:
        score_blocks(a, i, nq, CODE_BLOCKS);
        break;
    }
}

/* Does tiles of all queries, at most `most` (4, 6 or 8) at a time. Functions are not passed as
 * pointers, and are inlined with constant numbers of queries: compilers then unroll their loops. */
INLINE void do_tiles(enum tile tile, const struct sp_kv_rows *a, const size_t most)
{
    for (size_t i = 0, n; i < a->n_queries; i += n) {
        n = a->n_queries - i;
        if (most >= 8 && n >= 8) {
            n = 8;
            do_tile(tile, a, i, 8);
        } else if (most >= 6 && n >= 6) {
            n = 6;
            do_tile(tile, a, i, 6);
        } else if (n >= 4) {
            n = 4;
            do_tile(tile, a, i, 4);
        } else if (n == 3) {
            do_tile(tile, a, i, 3);
        } else if (n == 2) {
            do_tile(tile, a, i, 2);
        } else {
            do_tile(tile, a, i, 1);
        }
    }
}

enum { MOST_QUERIES = 8, PARTS = SP_KV_BLOCK / LANES /* registers of a row of a key block */ };

/* ---- stored numbers ---- */

/* Loads n stored numbers, LANES if n is more. */
INLINE floats load_stored(const uint8_t *p, size_t n, enum sp_cache_type type)
{
    if (type == SP_CACHE_F16) return load_halves(p, n);
    return load((const float *)(const void *)p, n);
}

static void store_key_f32(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        memcpy(block + 4 * (d * SP_KV_BLOCK + lane), k + d, sizeof *k);
}

static void store_value_f32(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    memcpy(block + lane * head_dim * sizeof *v, v, head_dim * sizeof *v);
}

static void store_key_f16(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d += LANES) {
        uint16_t halves[LANES];
        size_t n = head_dim - d < LANES ? head_dim - d : LANES;
        store_halves(halves, n, load(k + d, n));
        for (size_t i = 0; i < n; i++)
            memcpy(block + 2 * ((d + i) * SP_KV_BLOCK + lane), halves + i, sizeof *halves);
    }
}

static void store_value_f16(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    uint8_t *row = block + lane * head_dim * sizeof(uint16_t);

    for (size_t d = 0; d < head_dim; d += LANES)
        store_halves(row + 2 * d, head_dim - d, load(v + d, head_dim - d));
}

static void prepare_floats(uint8_t *query, const float *q, size_t head_dim)
{
    memcpy(query, q, head_dim * sizeof *q);
}

/* ---- scores ---- */

/* Scores of nq queries for nv registers of keys from the v-th on. */
TILE void scores_tile(const struct sp_kv_rows *a, size_t i, size_t v, const int nq, const int nv)
{
    const size_t width = a->type == SP_CACHE_F16 ? 2 : 4, row = SP_KV_BLOCK * width;
    const size_t size = sp_key_block_size(a->type, a->head_dim);
    const size_t nb = ((size_t)nv + PARTS - 1) / PARTS, ahead = nb * row;
    const size_t ldq = sp_query_size(a->head_dim) / sizeof(float);
    const float *q = (const float *)(const void *)a->queries + i * ldq;
    const uint8_t *block = a->blocks + v / PARTS * size;
    const uint8_t *at = block + (nv < PARTS ? v % PARTS * LANES * width : 0);
    floats acc[MOST_QUERIES][MOST_QUERIES];

    UNROLL
    for (int k = 0; k < nq; k++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[k][j] = splat(0);
    }
    for (size_t d = 0; d < a->head_dim; d++, at += row) {
        floats keys[MOST_QUERIES];
        prefetch(block, nb * size + d * ahead, ahead);
        UNROLL
        for (size_t j = 0; j < (size_t)nv; j++) {
            const uint8_t *from = at + j / PARTS * size + j % PARTS * LANES * width;
            keys[j] = load_stored(from, LANES, a->type);
        }
        UNROLL
        for (int k = 0; k < nq; k++) {
            floats x = splat(q[(size_t)k * ldq + d]);
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[k][j] = fmadd(x, keys[j], acc[k][j]);
        }
    }
    UNROLL
    for (int k = 0; k < nq; k++) {
        float *to = a->out + (i + (size_t)k) * a->ld_out + v * LANES;
        UNROLL
        for (int j = 0; j < nv; j++)
            store(to + j * LANES, LANES, acc[k][j] * a->scale);
    }
}

/* Scores of nq queries for all keys, as many vectors at a time as fit the registers with their
 * accumulators. */
TILE void scores_queries(const struct sp_kv_rows *a, size_t i, const int nq)
{
    const int nv = (nq + 1) * SCORE_VECTORS <= SCORE_REGISTERS       ? SCORE_VECTORS
                   : (nq + 1) * SCORE_VECTORS / 2 <= SCORE_REGISTERS ? SCORE_VECTORS / 2
                                                                     : SCORE_VECTORS / 4;
    size_t n = a->n_blocks * PARTS, v = 0;

    for (; v + (size_t)nv <= n; v += (size_t)nv)
        scores_tile(a, i, v, nq, nv);
    for (; v < n; v += PARTS)
        scores_tile(a, i, v, nq, PARTS);
}

INLINE void scores_of_floats(const struct sp_kv_rows *a)
{
    do_tiles(SCORES, a, SCORE_QUERIES);
}

SP_KV_FUNCTION(scores_f32, scores_of_floats, SP_CACHE_F32)
SP_KV_FUNCTION(scores_f16, scores_of_floats, SP_CACHE_F16)

/* ---- weighted sums ---- */

enum { VALUES_AHEAD = 4096 };

/* Positions from..to-1, and dims from d on, of which the last register has n. */
struct range {
    size_t from, to, d, n;
};

/* out_i[d..] += the sum of p_i[j] v_j[d..] over the range, nq queries and nv registers of dims. */
TILE void weigh_tile(const struct sp_kv_rows *a, size_t i, struct range r, const int nq,
                     const int nv)
{
    const size_t width = a->type == SP_CACHE_F16 ? 2 : 4, row_size = a->head_dim * width;
    const uint8_t *row = a->blocks + r.from * row_size + r.d * width;
    const float *p = a->p + i * a->ldp;
    float *out = a->out + i * a->ld_out + r.d;
    floats acc[MOST_QUERIES][16];

    UNROLL
    for (int k = 0; k < nq; k++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            acc[k][v] = load(out + (size_t)k * a->ld_out + v * LANES, r.n);
    }
    for (size_t j = r.from; j < r.to; j++, row += row_size) {
        floats x[16];
        if (r.d == 0) prefetch(row, VALUES_AHEAD, row_size);
        UNROLL
        for (int v = 0; v < nv; v++)
            x[v] = load_stored(row + (size_t)v * LANES * width, r.n, a->type);
        UNROLL
        for (int k = 0; k < nq; k++) {
            floats w = splat(p[(size_t)k * a->ldp + j]);
            UNROLL
            for (int v = 0; v < nv; v++)
                acc[k][v] = fmadd(w, x[v], acc[k][v]);
        }
    }
    UNROLL
    for (int k = 0; k < nq; k++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            store(out + (size_t)k * a->ld_out + v * LANES, r.n, acc[k][v]);
    }
}

/* Weighs dims from *d on with nv registers at a time, if there are accumulators for these. */
INLINE void weigh_dims(const struct sp_kv_rows *a, size_t i, size_t from, size_t to, size_t *d,
                       const int nq, const int nv)
{
    if (nv > WEIGH_VECTORS || nq * nv > WEIGH_ACCUMULATORS) return;
    for (; *d + (size_t)nv * LANES <= a->head_dim; *d += (size_t)nv * LANES)
        weigh_tile(a, i, (struct range){from, to, *d, LANES}, nq, nv);
}

/* Weighs all dims of positions from..to-1, as many registers at a time as can accumulate. */
TILE void weigh_rows(const struct sp_kv_rows *a, size_t i, size_t from, size_t to, const int nq)
{
    size_t d = 0;

    if (from >= to) return;
    weigh_dims(a, i, from, to, &d, nq, 16);
    weigh_dims(a, i, from, to, &d, nq, 8);
    weigh_dims(a, i, from, to, &d, nq, 4);
    weigh_dims(a, i, from, to, &d, nq, 2);
    for (; d < a->head_dim; d += LANES)
        weigh_tile(a, i, (struct range){from, to, d, a->head_dim - d}, nq, 1);
}

/* Weighs the keys that all nq queries attend to for all of them at once, and the keys before and
 * after these query by query. */
TILE void weigh_queries(const struct sp_kv_rows *a, size_t i, const int nq)
{
    const size_t *first = a->first + i, *last = a->last + i;
    size_t from = first[0], to = last[0];

    for (int k = 1; k < nq; k++) {
        if (first[k] > from) from = first[k];
        if (last[k] < to) to = last[k];
    }
    if (to < from) to = from;
    for (size_t k = 0; k < (size_t)nq; k++) {
        memset(a->out + (i + k) * a->ld_out, 0, a->head_dim * sizeof *a->out);
        weigh_rows(a, i + k, first[k], last[k] < from ? last[k] : from, 1);
    }
    weigh_rows(a, i, from, to, nq);
    for (size_t k = 0; k < (size_t)nq; k++)
        weigh_rows(a, i + k, first[k] > to ? first[k] : to, last[k], 1);
}

INLINE void weigh_floats(const struct sp_kv_rows *a)
{
    do_tiles(WEIGHTED_SUMS, a, WEIGH_QUERIES);
}

SP_KV_FUNCTION(weigh_f32, weigh_floats, SP_CACHE_F32)
SP_KV_FUNCTION(weigh_f16, weigh_floats, SP_CACHE_F16)

#endif

#endif
