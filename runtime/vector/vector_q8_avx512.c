/* struct sp_vector_kv for q8 caches: products of bytes, four at a time, in 16 lanes of int32. Lanes
 * are keys in scores, dims in weigh. The tiles are like those of vector_kv_avx512.c. */
#include "runtime/vector/vector_avx512.h"
#include "runtime/vector/vector_kv.h"

enum {
    GROUP_VECTORS = SP_KV_GROUP / 4
}; /* 64-byte vectors of 16 keys that a group of dims fills */

/* ---- stored numbers ---- */

/* The largest |x| as bits, so that a NaN is the largest. */
static uint32_t max_magnitude(const float *x, size_t n)
{
    __m512i m = _mm512_setzero_si512();

    for (size_t i = 0; i < n; i += LANES)
        m = _mm512_max_epu32(m, _mm512_castps_si512(_mm512_abs_ps(_mm512_loadu_ps(x + i))));
    return _mm512_reduce_max_epu32(m);
}

/* Computes the codes of n numbers, a multiple of 16; returns their scale. As in vector_kv_ref.c the
 * order of operands decides the result for a NaN. */
static float quantize(int8_t *codes, const float *x, size_t n)
{
    __m512 top = _mm512_set1_ps(127), bottom = _mm512_set1_ps(-127);
    uint32_t m = max_magnitude(x, n);
    float max = sp_float_of_bits(m > SP_INFINITY_BITS ? SP_NAN_BITS : m);
    __m512 inverse = _mm512_set1_ps(max == 0.0f ? 0.0f : 127.0f / max);

    for (size_t i = 0; i < n; i += LANES) {
        __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + i), inverse);
        v = _mm512_max_ps(_mm512_min_ps(v, top), bottom);
        _mm_storeu_si128((__m128i *)(codes + i), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
    }
    return max / 127.0f;
}

static void store_key(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    store_codes_of_key(block, lane, k, head_dim, quantize);
}

static void store_value(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    store_codes_of_value(block, lane, v, head_dim, quantize);
}

/* ---- scores ---- */

static void prepare(uint8_t *query, const float *q, size_t head_dim)
{
    prepare_codes(query, q, head_dim, quantize, 128);
}

enum { SCORE_QUERIES = 4, SCORE_BLOCKS = 2 };

INLINE void scores_tile(float *scores, size_t ld, const uint8_t *queries, const uint8_t *blocks,
                        size_t head_dim, float factor, const int nq, const int nb)
{
    const size_t size = sp_key_block_size(SP_CACHE_Q8, head_dim),
                 query_size = sp_query_size(head_dim);
    __m512 acc[SCORE_QUERIES][SCORE_BLOCKS];

    for (int i = 0; i < nq; i++)
        for (int b = 0; b < nb; b++)
            acc[i][b] = _mm512_setzero_ps();
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        const struct sp_query_group *q[SCORE_QUERIES];
        __m512i sum[SCORE_QUERIES][SCORE_BLOCKS];
        for (int i = 0; i < nq; i++) {
            q[i] =
                (const struct sp_query_group *)(const void *)(queries + (size_t)i * query_size) + g;
            for (int b = 0; b < nb; b++)
                sum[i][b] = _mm512_set1_epi32(q[i]->start);
        }
        for (size_t v = 0; v < GROUP_VECTORS; v++) {
            __m512i k[SCORE_BLOCKS];
            for (int b = 0; b < nb; b++) {
                const uint8_t *at = blocks + (size_t)b * size + (g * GROUP_VECTORS + v) * 64;
                k[b] = _mm512_loadu_si512(at);
            }
            for (int i = 0; i < nq; i++) {
                int32_t four;
                memcpy(&four, q[i]->codes + 4 * v, sizeof four);
                for (int b = 0; b < nb; b++)
                    sum[i][b] = _mm512_dpbusd_epi32(sum[i][b], k[b], _mm512_set1_epi32(four));
            }
        }
        for (int b = 0; b < nb; b++) {
            __m512 k_scale = _mm512_loadu_ps(blocks + (size_t)b * size + head_dim * SP_KV_BLOCK +
                                             g * SP_KV_BLOCK * sizeof(float));
            for (int i = 0; i < nq; i++) {
                __m512 s = _mm512_mul_ps(k_scale, _mm512_set1_ps(q[i]->scale));
                acc[i][b] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i][b]), s, acc[i][b]);
            }
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int b = 0; b < nb; b++) {
            _mm512_storeu_ps(scores + (size_t)i * ld + b * LANES,
                             _mm512_mul_ps(acc[i][b], _mm512_set1_ps(factor)));
        }
    }
}

/* Scores of all queries for nb key blocks. */
INLINE void scores_blocks(float *scores, size_t ld, const uint8_t *queries, size_t n_queries,
                          const uint8_t *blocks, size_t head_dim, float factor, const int nb)
{
    const size_t size = sp_query_size(head_dim);

    for (size_t n; n_queries > 0; n_queries -= n, scores += n * ld, queries += n * size) {
        n = n_queries < SCORE_QUERIES ? n_queries : SCORE_QUERIES;
        switch (n) {
        case 1:
            scores_tile(scores, ld, queries, blocks, head_dim, factor, 1, nb);
            break;
        case 2:
            scores_tile(scores, ld, queries, blocks, head_dim, factor, 2, nb);
            break;
        case 3:
            scores_tile(scores, ld, queries, blocks, head_dim, factor, 3, nb);
            break;
        default:
            scores_tile(scores, ld, queries, blocks, head_dim, factor, 4, nb);
        }
    }
}

static void scores(float *scores, size_t ld_scores, const uint8_t *queries, size_t n_queries,
                   const uint8_t *key_blocks, size_t n_blocks, size_t head_dim, float factor)
{
    const size_t size = sp_key_block_size(SP_CACHE_Q8, head_dim);
    size_t b = 0;

    for (; b + 2 <= n_blocks; b += 2) {
        prefetch(key_blocks + b * size, 2 * size, 2 * size);
        scores_blocks(scores + b * LANES, ld_scores, queries, n_queries, key_blocks + b * size,
                      head_dim, factor, 2);
    }
    if (b < n_blocks) {
        scores_blocks(scores + b * LANES, ld_scores, queries, n_queries, key_blocks + b * size,
                      head_dim, factor, 1);
    }
}

/* ---- weighted sums ---- */

enum { WEIGH_QUERIES = 4, AHEAD = 2 /* blocks */ };

/* The weights of several queries, in two bytes per position, and the factors of their sums.
 * Positions that a query does not attend to have weight 0, whatever the cache contains. */
struct sp_value_weights {
    uint8_t low[WEIGH_BATCH][SP_SPAN], high[WEIGH_BATCH][SP_SPAN];
    float scale[WEIGH_BATCH];
    size_t first, last; /* blocks that any query attends to */
};

/* p times the scale of its value, for 16 positions; 0 outside first..last-1. */
INLINE __m512 scaled(const float *p, const uint8_t *blocks, size_t block_size, size_t b,
                     size_t first, size_t last)
{
    __mmask16 m = b * LANES < last ? lanes_between(b * LANES, first, last) : 0;

    return _mm512_mul_ps(_mm512_maskz_loadu_ps(m, p + b * LANES),
                         _mm512_maskz_loadu_ps(m, blocks + b * block_size));
}

/* Sets query i of w for blocks w->first..w->last, rounded up to pairs. */
static void quantize_weights(struct sp_value_weights *w, size_t i, const float *p, size_t first,
                             size_t last, const uint8_t *blocks, size_t block_size)
{
    static const uint8_t split[64] = {
        0,  4,  8,  12, 16, 20, 24, 28, 32, 36,  40,  44,  48,  52,  56,  60,  /* low bytes */
        64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124, /* of two vectors */
        1,  5,  9,  13, 17, 21, 25, 29, 33, 37,  41,  45,  49,  53,  57,  61,  /* and high ones */
        65, 69, 73, 77, 81, 85, 89, 93, 97, 101, 105, 109, 113, 117, 121, 125};
    const __m512i to_planes = _mm512_loadu_si512(split);
    const size_t start = w->first - w->first % 2, end = w->last + w->last % 2;
    __m512i m = _mm512_setzero_si512();

    for (size_t b = start; b < end; b++) {
        __m512 x = scaled(p, blocks, block_size, b, first, last);
        m = _mm512_max_epu32(m, _mm512_castps_si512(_mm512_abs_ps(x)));
    }
    float max = sp_float_of_bits(_mm512_reduce_max_epu32(m));
    __m512 inverse = _mm512_set1_ps(max < 0x1p-100f ? 0.0f : 32767.0f / max);
    __m512 top = _mm512_set1_ps(32767);
    for (size_t b = start; b < end; b += 2) {
        __m512 x = scaled(p, blocks, block_size, b, first, last);
        __m512 y = scaled(p, blocks, block_size, b + 1, first, last);
        x = _mm512_min_ps(_mm512_mul_ps(x, inverse), top);
        y = _mm512_min_ps(_mm512_mul_ps(y, inverse), top);
        __m512i planes =
            _mm512_permutex2var_epi8(_mm512_cvtps_epi32(x), to_planes, _mm512_cvtps_epi32(y));
        _mm256_storeu_si256((__m256i *)(w->low[i] + b * LANES), _mm512_castsi512_si256(planes));
        _mm256_storeu_si256((__m256i *)(w->high[i] + b * LANES),
                            _mm512_extracti64x4_epi64(planes, 1));
    }
    w->scale[i] = max / 32767.0f;
}

INLINE __m512i four_weights(const uint8_t *plane, size_t j)
{
    int32_t four;

    memcpy(&four, plane + j, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Weighs nv vectors of 16 dims, from dim d on, for queries i..i+nq-1 of w. */
INLINE void weigh_tile(float *out, size_t ld_out, const struct sp_value_weights *w, size_t i,
                       const uint8_t *blocks, size_t head_dim, size_t d, const int nq, const int nv)
{
    const size_t size = sp_value_block_size(SP_CACHE_Q8, head_dim);
    __m512i low[WEIGH_QUERIES][4], high[WEIGH_QUERIES][4];

    for (int q = 0; q < nq; q++)
        for (int v = 0; v < nv; v++)
            low[q][v] = high[q][v] = _mm512_setzero_si512();
    for (size_t b = w->first; b < w->last; b++) {
        const uint8_t *codes = blocks + b * size + 4 * SP_KV_BLOCK + 4 * d;
        for (size_t four = 0; four < SP_KV_BLOCK / 4; four++, codes += 4 * head_dim) {
            __m512i x[4];
            for (int v = 0; v < nv; v++)
                x[v] = _mm512_loadu_si512(codes + 64 * v);
            for (int q = 0; q < nq; q++) {
                __m512i l = four_weights(w->low[i + (size_t)q], b * LANES + 4 * four);
                __m512i h = four_weights(w->high[i + (size_t)q], b * LANES + 4 * four);
                for (int v = 0; v < nv; v++) {
                    low[q][v] = _mm512_dpbusd_epi32(low[q][v], l, x[v]);
                    high[q][v] = _mm512_dpbusd_epi32(high[q][v], h, x[v]);
                }
            }
        }
    }
    for (int q = 0; q < nq; q++) {
        __m512 s = _mm512_set1_ps(w->scale[i + (size_t)q]);
        float *to = out + (i + (size_t)q) * ld_out + d;
        for (int v = 0; v < nv; v++) {
            __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[q][v], 8), low[q][v]);
            _mm512_storeu_ps(to + v * LANES, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), s));
        }
    }
}

static void weigh_batch(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                        const size_t *last, size_t n, const uint8_t *blocks, size_t head_dim)
{
    const size_t size = sp_value_block_size(SP_CACHE_Q8, head_dim);
    struct sp_value_weights w;
    size_t d = 0;

    attended_blocks(&w.first, &w.last, first, last, n);
    for (size_t i = 0; i < n; i++)
        quantize_weights(&w, i, p + i * ldp, first[i], last[i], blocks, size);
    for (; n < WEIGH_QUERIES && d + 4 * LANES <= head_dim; d += 4 * LANES)
        weigh_dims(out, ld_out, &w, n, blocks, head_dim, d, weigh_tile, 4);
    for (; d < head_dim; d += 2 * LANES)
        weigh_dims(out, ld_out, &w, n, blocks, head_dim, d, weigh_tile, 2);
}

static void weigh(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                  const size_t *last, size_t n_queries, const uint8_t *value_blocks,
                  size_t head_dim)
{
    weigh_batches(out, ld_out, p, ldp, first, last, n_queries, value_blocks, head_dim, weigh_batch);
}

const struct sp_vector_kv sp_kv_q8_avx512 = {
    .store_key = store_key,
    .store_value = store_value,
    .prepare = prepare,
    .scores = scores,
    .weigh = weigh,
};
