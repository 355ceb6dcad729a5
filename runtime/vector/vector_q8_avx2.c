/* struct sp_vector_kv for q8 caches with 8 lanes of int32: keys in scores, dims in weigh. The tiles
 * are like those of vector_kv_avx2.c. */
#include "runtime/vector/vector_avx2.h"
#include "runtime/vector/vector_kv.h"

/* ---- stored numbers ---- */

static uint32_t max_of_lanes(__m256i v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));

    return (uint32_t)_mm_cvtsi128_si32(m);
}

INLINE __m256i magnitude(__m256 x)
{
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

/* Computes the codes of n numbers, a multiple of 32; returns their scale. As in vector_kv_ref.c the
 * order of operands decides the result for a NaN. */
static float quantize(int8_t *codes, const float *x, size_t n)
{
    __m256i m = _mm256_setzero_si256(), q[4];

    for (size_t i = 0; i < n; i += LANES)
        m = _mm256_max_epu32(m, magnitude(_mm256_loadu_ps(x + i)));
    uint32_t bits = max_of_lanes(m);
    float max = sp_float_of_bits(bits > SP_INFINITY_BITS ? SP_NAN_BITS : bits);
    __m256 inverse = _mm256_set1_ps(max == 0.0f ? 0.0f : 127.0f / max);
    for (size_t g = 0; g < n; g += 4 * LANES) {
        for (size_t i = 0; i < 4; i++) {
            __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + g + i * LANES), inverse);
            v = _mm256_max_ps(_mm256_min_ps(v, _mm256_set1_ps(127)), _mm256_set1_ps(-127));
            q[i] = _mm256_cvtps_epi32(v);
        }
        /* Packs work within 128-bit halves: dwords come out in the order 0 2 4 6 | 1 3 5 7. */
        __m256i words =
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        words = _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(codes + g), words);
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
    prepare_codes(query, q, head_dim, quantize, 0);
}

enum { SCORE_QUERIES = 4 };

/* Scores of one half block of 8 keys. The product of signed bytes is |k| times q with the sign of
 * k; two products of at most 127 * 127 fit 16 bits. */
INLINE void scores_tile(float *scores, size_t ld, const uint8_t *queries, const uint8_t *half,
                        size_t head_dim, float factor, const int nq)
{
    const uint8_t *scales = half + head_dim * SP_KV_BLOCK;
    const __m256i ones = _mm256_set1_epi16(1), offset = _mm256_set1_epi8(-128);
    const size_t query_size = sp_query_size(head_dim);
    __m256 acc[SCORE_QUERIES];

    for (int i = 0; i < nq; i++)
        acc[i] = _mm256_setzero_ps();
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        const struct sp_query_group *q[SCORE_QUERIES];
        __m256i sum[SCORE_QUERIES];
        for (int i = 0; i < nq; i++) {
            q[i] =
                (const struct sp_query_group *)(const void *)(queries + (size_t)i * query_size) + g;
            sum[i] = _mm256_setzero_si256();
        }
        for (int v = 0; v < SP_KV_GROUP / 4; v++) {
            const uint8_t *at = half + g * SP_KV_GROUP * SP_KV_BLOCK + 64 * v;
            __m256i k = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)at), offset);
            __m256i size = _mm256_abs_epi8(k);
            for (int i = 0; i < nq; i++) {
                int32_t four;
                memcpy(&four, q[i]->codes + 4 * v, sizeof four);
                __m256i x = _mm256_sign_epi8(_mm256_set1_epi32(four), k);
                __m256i pairs = _mm256_maddubs_epi16(size, x);
                sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
            }
        }
        __m256 k_scale = _mm256_loadu_ps((const float *)(const void *)(scales + 64 * g));
        for (int i = 0; i < nq; i++) {
            __m256 s = _mm256_mul_ps(k_scale, _mm256_broadcast_ss(&q[i]->scale));
            acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i]), s, acc[i]);
        }
    }
    for (int i = 0; i < nq; i++)
        _mm256_storeu_ps(scores + (size_t)i * ld, _mm256_mul_ps(acc[i], _mm256_set1_ps(factor)));
}

/* Scores of all queries for one half block. */
INLINE void scores_half(float *scores, size_t ld, const uint8_t *queries, size_t n_queries,
                        const uint8_t *half, size_t head_dim, float factor)
{
    const size_t size = sp_query_size(head_dim);

    for (size_t n; n_queries > 0; n_queries -= n, scores += n * ld, queries += n * size) {
        n = n_queries >= 4 ? 4 : n_queries >= 2 ? 2 : 1;
        switch (n) {
        case 1:
            scores_tile(scores, ld, queries, half, head_dim, factor, 1);
            break;
        case 2:
            scores_tile(scores, ld, queries, half, head_dim, factor, 2);
            break;
        default:
            scores_tile(scores, ld, queries, half, head_dim, factor, 4);
        }
    }
}

static void scores(float *scores, size_t ld_scores, const uint8_t *queries, size_t n_queries,
                   const uint8_t *key_blocks, size_t n_blocks, size_t head_dim, float factor)
{
    const size_t size = sp_key_block_size(SP_CACHE_Q8, head_dim);

    for (size_t b = 0; b < n_blocks; b++) {
        const uint8_t *block = key_blocks + b * size;
        prefetch(block, 2 * size, size);
        for (size_t half = 0; half < 2; half++) {
            scores_half(scores + b * SP_KV_BLOCK + half * LANES, ld_scores, queries, n_queries,
                        block + half * 32, head_dim, factor);
        }
    }
}

/* ---- weighted sums ---- */

enum { WEIGH_QUERIES = 4 };

/* The weights of several queries, as pairs of 16 bits for positions (0, 2) and (1, 3) of every
 * four, and the factors of their sums. Positions that a query does not attend to have weight 0,
 * whatever the cache contains. */
struct sp_value_weights {
    int32_t pairs[WEIGH_BATCH][SP_SPAN / 2];
    float scale[WEIGH_BATCH];
    size_t first, last; /* blocks that any query attends to */
};

/* p times the scale of its value, for 8 positions from j on; 0 outside first..last-1. */
INLINE __m256 scaled(const float *p, const uint8_t *blocks, size_t block_size, size_t j,
                     size_t first, size_t last)
{
    const uint8_t *scales = blocks + j / SP_KV_BLOCK * block_size + j % SP_KV_BLOCK * sizeof(float);

    if (j >= last) return _mm256_setzero_ps();
    __m256 x =
        _mm256_mul_ps(_mm256_loadu_ps(p + j), _mm256_loadu_ps((const float *)(const void *)scales));
    return _mm256_and_ps(x, lanes_between(j, first, last));
}

/* Sets query i of w for blocks w->first..w->last-1. */
static void quantize_weights(struct sp_value_weights *w, size_t i, const float *p, size_t first,
                             size_t last, const uint8_t *blocks, size_t block_size)
{
    const size_t start = w->first * SP_KV_BLOCK, end = w->last * SP_KV_BLOCK;
    __m256i m = _mm256_setzero_si256();

    for (size_t j = start; j < end; j += LANES)
        m = _mm256_max_epu32(m, magnitude(scaled(p, blocks, block_size, j, first, last)));
    float max = sp_float_of_bits(max_of_lanes(m));
    __m256 inverse = _mm256_set1_ps(max < 0x1p-100f ? 0.0f : 32767.0f / max);
    for (size_t j = start; j < end; j += LANES) {
        __m256 x = _mm256_mul_ps(scaled(p, blocks, block_size, j, first, last), inverse);
        __m256i c = _mm256_cvtps_epi32(_mm256_min_ps(x, _mm256_set1_ps(32767)));
        /* Combines c0 | c2 << 16 and c1 | c3 << 16 of each half; the other lanes are unused. */
        c = _mm256_or_si256(c, _mm256_slli_epi32(_mm256_srli_si256(c, 8), 16));
        c = _mm256_permute4x64_epi64(c, 0x08);
        _mm_storeu_si128((__m128i *)(w->pairs[i] + j / 2), _mm256_castsi256_si128(c));
    }
    w->scale[i] = max / 32767.0f;
}

/* Weighs nv vectors of 8 dims, from dim d on, for queries i..i+nq-1 of w. A vector of codes holds
 * four positions of each dim: its odd bytes, widened, are positions 1 and 3. */
INLINE void weigh_tile(float *out, size_t ld_out, const struct sp_value_weights *w, size_t i,
                       const uint8_t *blocks, size_t head_dim, size_t d, const int nq, const int nv)
{
    const size_t size = sp_value_block_size(SP_CACHE_Q8, head_dim);
    __m256i acc[WEIGH_QUERIES][4];

    for (int q = 0; q < nq; q++)
        for (int v = 0; v < nv; v++)
            acc[q][v] = _mm256_setzero_si256();
    for (size_t j = w->first * SP_KV_BLOCK; j < w->last * SP_KV_BLOCK; j += 4) {
        const uint8_t *codes = blocks + j / SP_KV_BLOCK * size + SP_KV_BLOCK * sizeof(float) +
                               (j % SP_KV_BLOCK * head_dim + 4 * d);
        __m256i even[4], odd[4];
        for (int v = 0; v < nv; v++) {
            __m256i x = _mm256_loadu_si256((const __m256i *)(codes + 32 * v));
            even[v] = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
            odd[v] = _mm256_srai_epi16(x, 8);
        }
        for (int q = 0; q < nq; q++) {
            const int32_t *pairs = w->pairs[i + (size_t)q] + j / 2;
            __m256i p02 = _mm256_set1_epi32(pairs[0]), p13 = _mm256_set1_epi32(pairs[1]);
            for (int v = 0; v < nv; v++) {
                __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(even[v], p02),
                                               _mm256_madd_epi16(odd[v], p13));
                acc[q][v] = _mm256_add_epi32(acc[q][v], sum);
            }
        }
    }
    for (int q = 0; q < nq; q++) {
        __m256 s = _mm256_broadcast_ss(&w->scale[i + (size_t)q]);
        float *to = out + (i + (size_t)q) * ld_out + d;
        for (int v = 0; v < nv; v++)
            _mm256_storeu_ps(to + v * LANES, _mm256_mul_ps(_mm256_cvtepi32_ps(acc[q][v]), s));
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

const struct sp_vector_kv sp_kv_q8_avx2 = {
    .store_key = store_key,
    .store_value = store_value,
    .prepare = prepare,
    .scores = scores,
    .weigh = weigh,
};
