/* struct sp_vector_kv for f32 and f16 stores with 8 lanes: keys in scores, dims in weigh.
 *
 * A tile of several queries is held in registers, so that a key or value is loaded and widened once
 * for all of them. The tile functions are inlined with constant sizes: their loops unroll and the
 * accumulators stay in registers. */
#include "runtime/vector/vector_avx2.h"
#include "runtime/vector/vector_kv.h"

/* ---- stored numbers ---- */

static void store_row_f16(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d += LANES) {
        size_t n = head_dim - d < LANES ? head_dim - d : LANES;
        __m128i halves = _mm256_cvtps_ph(load8(v + d, n), _MM_FROUND_TO_NEAREST_INT);
        memcpy(row + 2 * d, &halves, 2 * n);
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

/* A key block is two halves of 8 keys; a tile is nq queries times nh halves, with 8
 * accumulators. */
enum { SCORE_QUERIES = 8 };

INLINE __m256 load_keys(const uint8_t *p, enum sp_cache_type type)
{
    if (type == SP_CACHE_F16) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
    return _mm256_loadu_ps((const float *)(const void *)p);
}

/* The half blocks of a cache, in order of positions. */
struct halves {
    const uint8_t *blocks;
    size_t block_size, width; /* width: bytes of a half's row of keys */
};

INLINE const uint8_t *half_at(struct halves keys, size_t h)
{
    return keys.blocks + h / 2 * keys.block_size + h % 2 * keys.width;
}

TILE void scores_tile(float *scores, size_t ld, const float *q, size_t ldq, struct halves keys,
                      size_t h, size_t head_dim, float factor, enum sp_cache_type type,
                      const int nq, const int nh)
{
    const size_t nb = (size_t)(nh + 1) / 2, ahead = nb * 2 * keys.width;
    __m256 acc[SCORE_QUERIES][4];
    const uint8_t *at[4];

    for (int j = 0; j < nh; j++)
        at[j] = half_at(keys, h + (size_t)j);
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < nh; j++)
            acc[i][j] = _mm256_setzero_ps();
    for (size_t d = 0; d < head_dim; d++) {
        __m256 k[4];
        prefetch(keys.blocks, (h / 2 + nb) * keys.block_size + d * ahead, ahead);
        for (int j = 0; j < nh; j++)
            k[j] = load_keys(at[j] + d * 2 * keys.width, type);
        for (int i = 0; i < nq; i++) {
            __m256 x = _mm256_broadcast_ss(q + (size_t)i * ldq + d);
            for (int j = 0; j < nh; j++)
                acc[i][j] = _mm256_fmadd_ps(x, k[j], acc[i][j]);
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int j = 0; j < nh; j++) {
            _mm256_storeu_ps(scores + (size_t)i * ld + (h + (size_t)j) * LANES,
                             _mm256_mul_ps(acc[i][j], _mm256_set1_ps(factor)));
        }
    }
}

/* Scores of nq queries for all keys. */
TILE void scores_queries(float *scores, size_t ld, const float *q, size_t ldq, struct halves keys,
                         size_t n_halves, size_t head_dim, float factor, enum sp_cache_type type,
                         const int nq)
{
    const int nh = nq <= 2 ? 4 : nq <= 4 ? 2 : 1;
    size_t h = 0;

    for (; h + (size_t)nh <= n_halves; h += (size_t)nh)
        scores_tile(scores, ld, q, ldq, keys, h, head_dim, factor, type, nq, nh);
    for (; h < n_halves; h++)
        scores_tile(scores, ld, q, ldq, keys, h, head_dim, factor, type, nq, 1);
}

INLINE void scores_float(float *s, size_t ld, const uint8_t *queries, size_t n_queries,
                         const uint8_t *blocks, size_t n_blocks, size_t dim, float factor,
                         enum sp_cache_type type)
{
    const float *q = (const float *)(const void *)queries;
    size_t ldq = sp_query_size(dim) / sizeof *q, n_halves = 2 * n_blocks;
    struct halves keys = {blocks, sp_key_block_size(type, dim), type == SP_CACHE_F16 ? 16 : 32};

    for (size_t n; n_queries > 0; n_queries -= n, s += n * ld, q += n * ldq) {
        n = n_queries >= 8 ? 8 : n_queries >= 4 ? 4 : n_queries >= 2 ? 2 : 1;
        switch (n) {
        case 1:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 1);
            break;
        case 2:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 2);
            break;
        case 4:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 4);
            break;
        default:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 8);
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

/* Loads n dims of a row from dim d on (8 if n >= 8). */
INLINE __m256 load_value(const uint8_t *row, size_t d, size_t n, enum sp_cache_type type)
{
    __m128i bytes = _mm_setzero_si128();

    switch (type) {
    case SP_CACHE_F16:
        if (n >= LANES)
            bytes = _mm_loadu_si128((const __m128i *)(row + 2 * d));
        else
            memcpy(&bytes, row + 2 * d, 2 * n);
        return _mm256_cvtph_ps(bytes);
    default:
        return load8((const float *)(const void *)(row + 4 * d), n);
    }
}

enum { WEIGH_QUERIES = 4, VALUES_AHEAD = 4096 };

/* out_i[d..] += sum of p_i[j] v_j[d..] over j = from..to-1, for nq queries and nv vectors of dims;
 * dims: number of dims of the last vector, 8 unless nv is 1. */
TILE void weigh_tile(float *out, size_t ld_out, const float *p, size_t ldp, size_t from, size_t to,
                     struct sp_value_rows values, size_t d, size_t dims, enum sp_cache_type type,
                     const int nq, const int nv)
{
    __m256 acc[WEIGH_QUERIES][8];

    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++)
            acc[i][v] = load8(out + (size_t)i * ld_out + d + v * LANES, dims);
    for (size_t j = from; j < to; j++) {
        const uint8_t *row = values.rows + j * values.row_size;
        __m256 x[8];
        if (d == 0) prefetch(row, VALUES_AHEAD, values.row_size);
        for (int v = 0; v < nv; v++)
            x[v] = load_value(row, d + (size_t)v * LANES, dims, type);
        for (int i = 0; i < nq; i++) {
            __m256 w = _mm256_broadcast_ss(p + (size_t)i * ldp + j);
            for (int v = 0; v < nv; v++)
                acc[i][v] = _mm256_fmadd_ps(w, x[v], acc[i][v]);
        }
    }
    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++)
            store8(out + (size_t)i * ld_out + d + v * LANES, dims, acc[i][v]);
}

/* Weighs all dims, as many vectors at a time as the registers can accumulate. */
TILE void weigh_rows(float *out, size_t ld_out, const float *p, size_t ldp, size_t from, size_t to,
                     struct sp_value_rows values, enum sp_cache_type type, const int nq)
{
    size_t d = 0, dim = values.head_dim;

    if (from >= to) return;
    for (; nq == 1 && d + 8 * LANES <= dim; d += 8 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 8);
    for (; nq <= 2 && d + 4 * LANES <= dim; d += 4 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 4);
    for (; d + 2 * LANES <= dim; d += 2 * LANES)
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 2);
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

const struct sp_vector_kv sp_kv_f32_avx2 = {
    .store_key = store_key_f32,
    .store_value = store_value_f32,
    .prepare = prepare_floats,
    .scores = scores_f32,
    .weigh = weigh_f32,
};

const struct sp_vector_kv sp_kv_f16_avx2 = {
    .store_key = store_key_f16,
    .store_value = store_value_f16,
    .prepare = prepare_floats,
    .scores = scores_f16,
    .weigh = weigh_f16,
};
