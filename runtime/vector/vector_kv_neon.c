/* struct sp_vector_kv for f32 and f16 stores with 4 lanes: keys in scores, dims in weigh.
 *
 * A tile of several queries is held in registers, so that a key or value is loaded and widened once
 * for all of them. The tile functions are inlined with constant sizes: their loops unroll and the
 * accumulators, at most 16, stay in registers. */
#include "runtime/vector/vector_kv.h"
#include "runtime/vector/vector_neon.h"

/* ---- stored numbers ---- */

static void store_row_f16(uint8_t *row, const float *x, size_t n)
{
    for (size_t d = 0; d < n; d += LANES) {
        size_t left = n - d;
        uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(load4(x + d, left)));
        memcpy(row + 2 * d, &halves, 2 * (left < LANES ? left : LANES));
    }
}

static void store_value_f16(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    store_row_f16(block + lane * head_dim * sizeof(uint16_t), v, head_dim);
}

static void store_key_f16(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    store_halves_of_key(block, lane, k, head_dim, store_row_f16);
}

/* Loads four stored numbers as floats. */
INLINE float32x4_t widen4(const uint8_t *p, enum sp_cache_type type)
{
    if (type == SP_CACHE_F16) return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

/* ---- scores ---- */

enum { SCORE_QUERIES = 4, QUARTERS = SP_KV_BLOCK / LANES };

/* The stored keys of one head. */
struct keys {
    const uint8_t *blocks;
    size_t block_size, width, head_dim; /* width: bytes of a number */
};

/* Scores of nq queries for the keys of nb blocks from the b-th on. */
TILE void scores_tile(float *scores, size_t ld, const float *q, size_t ldq, struct keys keys,
                      size_t b, float factor, enum sp_cache_type type, const int nq, const int nb)
{
    const size_t row = SP_KV_BLOCK * keys.width, ahead = (size_t)nb * row;
    const uint8_t *block = keys.blocks + b * keys.block_size;
    float32x4_t acc[SCORE_QUERIES][2 * QUARTERS];

    UNROLL
    for (int i = 0; i < nq; i++) {
        UNROLL
        for (int g = 0; g < nb * QUARTERS; g++)
            acc[i][g] = vdupq_n_f32(0);
    }
    for (size_t d = 0; d < keys.head_dim; d++) {
        float32x4_t k[2 * QUARTERS];
        prefetch(block, (size_t)nb * keys.block_size + d * ahead, ahead);
        UNROLL
        for (int g = 0; g < nb * QUARTERS; g++) {
            const uint8_t *from = block + (size_t)(g / QUARTERS) * keys.block_size + d * row;
            k[g] = widen4(from + (size_t)(g % QUARTERS * LANES) * keys.width, type);
        }
        UNROLL
        for (int i = 0; i < nq; i++) {
            float x = q[(size_t)i * ldq + d];
            UNROLL
            for (int g = 0; g < nb * QUARTERS; g++)
                acc[i][g] = vfmaq_n_f32(acc[i][g], k[g], x);
        }
    }
    UNROLL
    for (int i = 0; i < nq; i++) {
        float *to = scores + (size_t)i * ld + b * SP_KV_BLOCK;
        UNROLL
        for (int g = 0; g < nb * QUARTERS; g++)
            vst1q_f32(to + LANES * g, vmulq_n_f32(acc[i][g], factor));
    }
}

/* Scores of nq queries for all keys. */
TILE void scores_queries(float *scores, size_t ld, const float *q, size_t ldq, struct keys keys,
                         size_t n_blocks, float factor, enum sp_cache_type type, const int nq)
{
    const int nb = nq <= 2 ? 2 : 1;
    size_t b = 0;

    for (; b + (size_t)nb <= n_blocks; b += (size_t)nb)
        scores_tile(scores, ld, q, ldq, keys, b, factor, type, nq, nb);
    if (b < n_blocks) scores_tile(scores, ld, q, ldq, keys, b, factor, type, nq, 1);
}

INLINE void scores_float(float *s, size_t ld, const uint8_t *queries, size_t n_queries,
                         const uint8_t *blocks, size_t n_blocks, size_t dim, float factor,
                         enum sp_cache_type type)
{
    const float *q = (const float *)(const void *)queries;
    const size_t ldq = sp_query_size(dim) / sizeof *q;
    const struct keys keys = {blocks, sp_key_block_size(type, dim), type == SP_CACHE_F16 ? 2 : 4,
                              dim};

    for (size_t n; n_queries > 0; n_queries -= n, s += n * ld, q += n * ldq) {
        n = n_queries < SCORE_QUERIES ? n_queries : SCORE_QUERIES;
        switch (n) {
        case 1:
            scores_queries(s, ld, q, ldq, keys, n_blocks, factor, type, 1);
            break;
        case 2:
            scores_queries(s, ld, q, ldq, keys, n_blocks, factor, type, 2);
            break;
        case 3:
            scores_queries(s, ld, q, ldq, keys, n_blocks, factor, type, 3);
            break;
        default:
            scores_queries(s, ld, q, ldq, keys, n_blocks, factor, type, 4);
        }
    }
}

static void scores_f32(float *scores, size_t ld_scores, const uint8_t *queries, size_t n_queries,
                       const uint8_t *key_blocks, size_t n_blocks, size_t head_dim, float factor)
{
    scores_float(scores, ld_scores, queries, n_queries, key_blocks, n_blocks, head_dim, factor,
                 SP_CACHE_F32);
}

static void scores_f16(float *scores, size_t ld_scores, const uint8_t *queries, size_t n_queries,
                       const uint8_t *key_blocks, size_t n_blocks, size_t head_dim, float factor)
{
    scores_float(scores, ld_scores, queries, n_queries, key_blocks, n_blocks, head_dim, factor,
                 SP_CACHE_F16);
}

/* ---- weighted sums ---- */

/* Loads n dims of a row from dim d on (4 if n >= 4). */
INLINE float32x4_t load_value(const uint8_t *row, size_t d, size_t n, enum sp_cache_type type)
{
    const size_t width = type == SP_CACHE_F16 ? 2 : 4;
    uint8_t rest[LANES * sizeof(float)] = {0};

    if (n >= LANES) return widen4(row + width * d, type);
    memcpy(rest, row + width * d, width * n);
    return widen4(rest, type);
}

enum { WEIGH_QUERIES = 4, VALUES_AHEAD = 4096 };

/* out_i[d..] += sum of p_i[j] v_j[d..] over j = from..to-1, for nq queries and nv vectors of dims;
 * dims: number of dims of the last vector, 4 unless nv is 1. */
TILE void weigh_tile(float *out, size_t ld_out, const float *p, size_t ldp, size_t from, size_t to,
                     struct sp_value_rows values, size_t d, size_t dims, enum sp_cache_type type,
                     const int nq, const int nv)
{
    float32x4_t acc[WEIGH_QUERIES][16];

    UNROLL
    for (int i = 0; i < nq; i++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            acc[i][v] = load4(out + (size_t)i * ld_out + d + v * LANES, dims);
    }
    for (size_t j = from; j < to; j++) {
        const uint8_t *row = values.rows + j * values.row_size;
        if (d == 0) prefetch(row, VALUES_AHEAD, values.row_size);
        UNROLL
        for (int v = 0; v < nv; v++) {
            float32x4_t x = load_value(row, d + (size_t)v * LANES, dims, type);
            UNROLL
            for (int i = 0; i < nq; i++)
                acc[i][v] = vfmaq_n_f32(acc[i][v], x, p[(size_t)i * ldp + j]);
        }
    }
    UNROLL
    for (int i = 0; i < nq; i++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            store4(out + (size_t)i * ld_out + d + v * LANES, dims, acc[i][v]);
    }
}

/* Weighs all dims, as many vectors at a time as the registers can accumulate. */
TILE void weigh_rows(float *out, size_t ld_out, const float *p, size_t ldp, size_t from, size_t to,
                     struct sp_value_rows values, enum sp_cache_type type, const int nq)
{
    size_t d = 0, dim = values.head_dim;

    if (from >= to) return;
    for (; nq == 1 && d + 16 * LANES <= dim; d += 16 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 16);
    for (; nq == 2 && d + 8 * LANES <= dim; d += 8 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 8);
    for (; d + 4 * LANES <= dim; d += 4 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 4);
    for (; d < dim; d += LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, dim - d, type, nq, 1);
}

static void weigh_f32(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                      const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    weigh_floats(out, ld_out, p, ldp, first, last, n_queries, values, head_dim, SP_CACHE_F32,
                 weigh_rows, WEIGH_QUERIES);
}

static void weigh_f16(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                      const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    weigh_floats(out, ld_out, p, ldp, first, last, n_queries, values, head_dim, SP_CACHE_F16,
                 weigh_rows, WEIGH_QUERIES);
}

const struct sp_vector_kv sp_kv_f32_neon = {
    .store_key = store_key_f32,
    .store_value = store_value_f32,
    .prepare = prepare_floats,
    .scores = scores_f32,
    .weigh = weigh_f32,
};

const struct sp_vector_kv sp_kv_f16_neon = {
    .store_key = store_key_f16,
    .store_value = store_value_f16,
    .prepare = prepare_floats,
    .scores = scores_f16,
    .weigh = weigh_f16,
};
