/* struct sp_vector_kv for f32 and f16 stores with 16 lanes: keys in scores, dims in weigh.
 *
 * A tile of several queries is held in registers, so that a key or value is loaded and widened once
 * for all of them. The tile functions are inlined with constant sizes: their loops unroll and the
 * accumulators stay in registers. */
#include "runtime/vector/vector_avx512.h"
#include "runtime/vector/vector_kv.h"

/* ---- stored numbers ---- */

static void store_row_f16(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d += LANES) {
        __mmask16 m = lanes(head_dim - d);
        __m512 x = _mm512_maskz_loadu_ps(m, v + d);
        _mm256_mask_storeu_epi16(row + 2 * d, m, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
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

/* ---- scores ---- */

enum { SCORE_QUERIES = 8 };

/* Loads 16 keys (or dims of a value) as floats. */
INLINE __m512 load16(const uint8_t *p, enum sp_cache_type type)
{
    if (type == SP_CACHE_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_loadu_ps(p);
}

TILE void scores_tile(float *scores, size_t ld, const float *q, size_t ldq, const uint8_t *blocks,
                      size_t block_size, size_t head_dim, float factor, enum sp_cache_type type,
                      const int nq, const int nb)
{
    size_t width = type == SP_CACHE_F16 ? 32 : 64;
    __m512 acc[SCORE_QUERIES][2];

    for (int i = 0; i < nq; i++)
        for (int b = 0; b < nb; b++)
            acc[i][b] = _mm512_setzero_ps();
    for (size_t d = 0; d < head_dim; d++) {
        __m512 k[2];
        prefetch(blocks, (size_t)nb * (block_size + d * width), (size_t)nb * width);
        for (int b = 0; b < nb; b++)
            k[b] = load16(blocks + (size_t)b * block_size + d * width, type);
        for (int i = 0; i < nq; i++) {
            __m512 x = _mm512_set1_ps(q[(size_t)i * ldq + d]);
            for (int b = 0; b < nb; b++)
                acc[i][b] = _mm512_fmadd_ps(x, k[b], acc[i][b]);
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int b = 0; b < nb; b++) {
            _mm512_storeu_ps(scores + (size_t)i * ld + b * LANES,
                             _mm512_mul_ps(acc[i][b], _mm512_set1_ps(factor)));
        }
    }
}

/* Scores of nq queries for all key blocks, two blocks at a time. */
TILE void scores_queries(float *scores, size_t ld, const float *q, size_t ldq,
                         const uint8_t *blocks, size_t n_blocks, size_t head_dim, float factor,
                         enum sp_cache_type type, const int nq)
{
    size_t size = sp_key_block_size(type, head_dim), b = 0;

    for (; b + 2 <= n_blocks; b += 2) {
        scores_tile(scores + b * LANES, ld, q, ldq, blocks + b * size, size, head_dim, factor, type,
                    nq, 2);
    }
    if (b < n_blocks) {
        scores_tile(scores + b * LANES, ld, q, ldq, blocks + b * size, size, head_dim, factor, type,
                    nq, 1);
    }
}

INLINE void scores_float(float *s, size_t ld, const uint8_t *queries, size_t n_queries,
                         const uint8_t *keys, size_t n_blocks, size_t dim, float factor,
                         enum sp_cache_type type)
{
    const float *q = (const float *)(const void *)queries;
    size_t ldq = sp_query_size(dim) / sizeof *q;

    for (size_t n; n_queries > 0; n_queries -= n, s += n * ld, q += n * ldq) {
        n = n_queries < SCORE_QUERIES ? n_queries : SCORE_QUERIES;
        switch (n) {
        case 1:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 1);
            break;
        case 2:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 2);
            break;
        case 3:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 3);
            break;
        case 4:
        case 5:
            n = 4;
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 4);
            break;
        case 6:
        case 7:
            n = 6;
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 6);
            break;
        default:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 8);
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

INLINE __m512 load_value(const uint8_t *row, size_t d, __mmask16 m, enum sp_cache_type type)
{
    switch (type) {
    case SP_CACHE_F16:
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, row + 2 * d));
    default:
        return _mm512_maskz_loadu_ps(m, row + 4 * d);
    }
}

enum { WEIGH_QUERIES = 8, VALUES_AHEAD = 4096 };

/* out_i[d..] += sum of p_i[j] v_j[d..] over j = from..to-1, for nq queries and nv vectors of dims;
 * m: the lanes of the last vector. */
TILE void weigh_tile(float *out, size_t ld_out, const float *p, size_t ldp, size_t from, size_t to,
                     struct sp_value_rows values, size_t d, __mmask16 m, enum sp_cache_type type,
                     const int nq, const int nv)
{
    __m512 acc[WEIGH_QUERIES][8];

    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++)
            acc[i][v] = _mm512_maskz_loadu_ps(m, out + (size_t)i * ld_out + d + v * LANES);
    for (size_t j = from; j < to; j++) {
        const uint8_t *row = values.rows + j * values.row_size;
        __m512 x[8];
        if (d == 0) prefetch(row, VALUES_AHEAD, values.row_size);
        for (int v = 0; v < nv; v++)
            x[v] = load_value(row, d + (size_t)v * LANES, m, type);
        for (int i = 0; i < nq; i++) {
            __m512 w = _mm512_set1_ps(p[(size_t)i * ldp + j]);
            for (int v = 0; v < nv; v++)
                acc[i][v] = _mm512_fmadd_ps(w, x[v], acc[i][v]);
        }
    }
    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++)
            _mm512_mask_storeu_ps(out + (size_t)i * ld_out + d + v * LANES, m, acc[i][v]);
}

/* Weighs all dims, as many vectors at a time as the registers can accumulate. */
TILE void weigh_rows(float *out, size_t ld_out, const float *p, size_t ldp, size_t from, size_t to,
                     struct sp_value_rows values, enum sp_cache_type type, const int nq)
{
    size_t d = 0, dim = values.head_dim;

    if (from >= to) return;
    for (; nq <= 3 && d + 8 * LANES <= dim; d += 8 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, 0xffff, type, nq, 8);
    for (; nq <= 4 && d + 4 * LANES <= dim; d += 4 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, 0xffff, type, nq, 4);
    for (; d + 2 * LANES <= dim; d += 2 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, 0xffff, type, nq, 2);
    for (; d < dim; d += LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, lanes(dim - d), type, nq, 1);
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

const struct sp_vector_kv sp_kv_f32_avx512 = {
    .store_key = store_key_f32,
    .store_value = store_value_f32,
    .prepare = prepare_floats,
    .scores = scores_f32,
    .weigh = weigh_f32,
};

const struct sp_vector_kv sp_kv_f16_avx512 = {
    .store_key = store_key_f16,
    .store_value = store_value_f16,
    .prepare = prepare_floats,
    .scores = scores_f16,
    .weigh = weigh_f16,
};
