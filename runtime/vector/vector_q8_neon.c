/* struct sp_vector_kv for q8 caches with NEON's dot products (FEAT_DotProd). Lanes are keys in
 * scores, dims in weigh, four in each register with four bytes each. The tiles are like those of
 * vector_kv_neon.c. */
#include "runtime/vector/vector_kv.h"
#include "runtime/vector/vector_neon.h"

/* Returns i + x . w for four bytes of each lane of x and of lane `at`, a constant, of w. */
INLINE int32x4_t dot4(int32x4_t i, int8x16_t x, int8x16_t w, size_t at)
{
    switch (at) {
    case 0:
        return vdotq_laneq_s32(i, x, w, 0);
    case 1:
        return vdotq_laneq_s32(i, x, w, 1);
    case 2:
        return vdotq_laneq_s32(i, x, w, 2);
    default:
        return vdotq_laneq_s32(i, x, w, 3);
    }
}

/* Combines the low halves of the lanes of two vectors. */
INLINE int16x8_t narrow(int32x4_t a, int32x4_t b)
{
    return vcombine_s16(vmovn_s32(a), vmovn_s32(b));
}

/* ---- stored numbers ---- */

/* Computes the codes of n numbers, a multiple of 32; returns their scale. vminnm returns the limit
 * if the other operand is a NaN, like vector_kv_ref.c. */
static float quantize(int8_t *codes, const float *x, size_t n)
{
    const float32x4_t top = vdupq_n_f32(127), bottom = vdupq_n_f32(-127);
    uint32x4_t m = vdupq_n_u32(0);

    for (size_t i = 0; i < n; i += LANES)
        m = vmaxq_u32(m, magnitude(vld1q_f32(x + i)));
    uint32_t bits = vmaxvq_u32(m);
    float max = sp_float_of_bits(bits > SP_INFINITY_BITS ? SP_NAN_BITS : bits);
    float inverse = max == 0.0f ? 0.0f : 127.0f / max;
    for (size_t i = 0; i < n; i += 16) {
        int32x4_t q[4];
        UNROLL
        for (size_t g = 0; g < 4; g++) {
            float32x4_t v = vmulq_n_f32(vld1q_f32(x + i + LANES * g), inverse);
            q[g] = vcvtnq_s32_f32(vmaxnmq_f32(vminnmq_f32(v, top), bottom));
        }
        int16x8_t low = narrow(q[0], q[1]), high = narrow(q[2], q[3]);
        vst1q_s8(codes + i, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
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

enum { SCORE_QUERIES = 8, FOURS = SP_KV_GROUP / 4 };

/* Scores of nq queries for four keys of a block, whose codes begin at `keys`. A group's codes fill
 * eight registers. */
INLINE void scores_tile(float *scores, size_t ld, const uint8_t *queries, const uint8_t *keys,
                        size_t head_dim, float factor, const int nq)
{
    const uint8_t *scales = keys + head_dim * SP_KV_BLOCK;
    const size_t query_size = sp_query_size(head_dim);
    float32x4_t acc[SCORE_QUERIES];

    UNROLL
    for (int i = 0; i < nq; i++)
        acc[i] = vdupq_n_f32(0);
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        const uint8_t *at = keys + g * SP_KV_GROUP * SP_KV_BLOCK;
        float32x4_t k_scale = vreinterpretq_f32_u8(vld1q_u8(scales + 64 * g));
        int8x16_t k[FOURS];
        UNROLL
        for (size_t v = 0; v < FOURS; v++)
            k[v] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(at + 64 * v), vdupq_n_u8(128)));
        UNROLL
        for (int i = 0; i < nq; i++) {
            const struct sp_query_group *q =
                (const struct sp_query_group *)(const void *)(queries + (size_t)i * query_size) + g;
            int8x16_t codes[2] = {vld1q_s8(q->codes), vld1q_s8(q->codes + 16)};
            int32x4_t sum = vdupq_n_s32(0);
            UNROLL
            for (size_t v = 0; v < FOURS; v++)
                sum = dot4(sum, k[v], codes[v / 4], v % 4);
            float32x4_t s = vmulq_n_f32(k_scale, q->scale);
            acc[i] = vfmaq_f32(acc[i], vcvtq_f32_s32(sum), s);
        }
    }
    UNROLL
    for (int i = 0; i < nq; i++)
        vst1q_f32(scores + (size_t)i * ld, vmulq_n_f32(acc[i], factor));
}

/* Scores of all queries for four keys. */
INLINE void scores_keys(float *scores, size_t ld, const uint8_t *queries, size_t n_queries,
                        const uint8_t *keys, size_t head_dim, float factor)
{
    const size_t size = sp_query_size(head_dim);

    for (size_t n; n_queries > 0; n_queries -= n, scores += n * ld, queries += n * size) {
        n = n_queries >= 8 ? 8 : n_queries >= 4 ? 4 : n_queries >= 2 ? 2 : 1;
        switch (n) {
        case 1:
            scores_tile(scores, ld, queries, keys, head_dim, factor, 1);
            break;
        case 2:
            scores_tile(scores, ld, queries, keys, head_dim, factor, 2);
            break;
        case 4:
            scores_tile(scores, ld, queries, keys, head_dim, factor, 4);
            break;
        default:
            scores_tile(scores, ld, queries, keys, head_dim, factor, 8);
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
        for (size_t key = 0; key < SP_KV_BLOCK; key += LANES) {
            scores_keys(scores + b * SP_KV_BLOCK + key, ld_scores, queries, n_queries,
                        block + 4 * key, head_dim, factor);
        }
    }
}

/* ---- weighted sums ---- */

enum { WEIGH_QUERIES = 4 };

/* The weights of several queries and the factors of their sums. A weight is an integer of 15 bits;
 * its negative has two signed bytes as digits, 256 * high + low. Positions that a query does not
 * attend to have weight 0, whatever the cache contains. */
struct sp_value_weights {
    int8_t low[WEIGH_BATCH][SP_SPAN], high[WEIGH_BATCH][SP_SPAN];
    float scale[WEIGH_BATCH];
    size_t first, last; /* blocks that any query attends to */
};

/* p times the scale of its value, for 4 positions from j on; 0 outside first..last-1. */
INLINE float32x4_t scaled(const float *p, const uint8_t *blocks, size_t block_size, size_t j,
                          size_t first, size_t last)
{
    const uint8_t *scales = blocks + j / SP_KV_BLOCK * block_size + j % SP_KV_BLOCK * sizeof(float);

    if (j >= last) return vdupq_n_f32(0);
    float32x4_t x = vmulq_f32(vld1q_f32(p + j), vreinterpretq_f32_u8(vld1q_u8(scales)));
    return vbslq_f32(lanes_between(j, first, last), x, vdupq_n_f32(0));
}

/* Sets query i of w for blocks w->first..w->last-1. */
static void quantize_weights(struct sp_value_weights *w, size_t i, const float *p, size_t first,
                             size_t last, const uint8_t *blocks, size_t block_size)
{
    const size_t start = w->first * SP_KV_BLOCK, end = w->last * SP_KV_BLOCK;
    uint32x4_t m = vdupq_n_u32(0);

    for (size_t j = start; j < end; j += LANES)
        m = vmaxq_u32(m, magnitude(scaled(p, blocks, block_size, j, first, last)));
    float max = sp_float_of_bits(vmaxvq_u32(m));
    float inverse = max < 0x1p-100f ? 0.0f : 32767.0f / max;
    for (size_t j = start; j < end; j += 2 * LANES) {
        int32x4_t c[2];
        UNROLL
        for (size_t g = 0; g < 2; g++) {
            float32x4_t x = scaled(p, blocks, block_size, j + LANES * g, first, last);
            x = vminnmq_f32(vmulq_n_f32(x, inverse), vdupq_n_f32(32767));
            c[g] = vcvtnq_s32_f32(x);
        }
        int16x8_t negative = vnegq_s16(narrow(c[0], c[1]));
        vst1_s8(w->low[i] + j, vmovn_s16(negative));
        vst1_s8(w->high[i] + j, vrshrn_n_s16(negative, 8));
    }
    w->scale[i] = max / 32767.0f;
}

/* Weighs nv vectors of 4 dims, from dim d on, for queries i..i+nq-1 of w. */
INLINE void weigh_tile(float *out, size_t ld_out, const struct sp_value_weights *w, size_t i,
                       const uint8_t *blocks, size_t head_dim, size_t d, const int nq, const int nv)
{
    const size_t size = sp_value_block_size(SP_CACHE_Q8, head_dim);
    int32x4_t low[WEIGH_QUERIES][8], high[WEIGH_QUERIES][8];

    UNROLL
    for (int q = 0; q < nq; q++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            low[q][v] = high[q][v] = vdupq_n_s32(0);
    }
    for (size_t b = w->first; b < w->last; b++) {
        const uint8_t *codes = blocks + b * size + SP_KV_BLOCK * sizeof(float) + 4 * d;
        int8x16_t l[WEIGH_QUERIES], h[WEIGH_QUERIES];
        UNROLL
        for (int q = 0; q < nq; q++) {
            l[q] = vld1q_s8(w->low[i + (size_t)q] + b * SP_KV_BLOCK);
            h[q] = vld1q_s8(w->high[i + (size_t)q] + b * SP_KV_BLOCK);
        }
        UNROLL
        for (size_t four = 0; four < SP_KV_BLOCK / 4; four++) {
            UNROLL
            for (int v = 0; v < nv; v++) {
                const uint8_t *from = codes + 4 * head_dim * four + 16 * v;
                int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(from));
                UNROLL
                for (int q = 0; q < nq; q++) {
                    low[q][v] = dot4(low[q][v], x, l[q], four);
                    high[q][v] = dot4(high[q][v], x, h[q], four);
                }
            }
        }
    }
    UNROLL
    for (int q = 0; q < nq; q++) {
        float *to = out + (i + (size_t)q) * ld_out + d;
        UNROLL
        for (int v = 0; v < nv; v++) {
            int32x4_t sum = vnegq_s32(vaddq_s32(vshlq_n_s32(high[q][v], 8), low[q][v]));
            vst1q_f32(to + v * LANES, vmulq_n_f32(vcvtq_f32_s32(sum), w->scale[i + (size_t)q]));
        }
    }
}

/* Weighs dims d..d+31 for all n queries of w. */
INLINE void weigh_group(float *out, size_t ld_out, const struct sp_value_weights *w, size_t n,
                        const uint8_t *blocks, size_t head_dim, size_t d)
{
    size_t i = 0;

    for (; i + WEIGH_QUERIES <= n; i += WEIGH_QUERIES)
        for (size_t part = 0; part < 32; part += 2 * LANES)
            weigh_tile(out, ld_out, w, i, blocks, head_dim, d + part, WEIGH_QUERIES, 2);
    for (; i + 2 <= n; i += 2)
        for (size_t part = 0; part < 32; part += 4 * LANES)
            weigh_tile(out, ld_out, w, i, blocks, head_dim, d + part, 2, 4);
    if (i < n) weigh_tile(out, ld_out, w, i, blocks, head_dim, d, 1, 8);
}

static void weigh_batch(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                        const size_t *last, size_t n, const uint8_t *blocks, size_t head_dim)
{
    const size_t size = sp_value_block_size(SP_CACHE_Q8, head_dim);
    struct sp_value_weights w;

    attended_blocks(&w.first, &w.last, first, last, n);
    for (size_t i = 0; i < n; i++)
        quantize_weights(&w, i, p + i * ldp, first[i], last[i], blocks, size);
    for (size_t d = 0; d < head_dim; d += 32)
        weigh_group(out, ld_out, &w, n, blocks, head_dim, d);
}

static void weigh(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                  const size_t *last, size_t n_queries, const uint8_t *value_blocks,
                  size_t head_dim)
{
    weigh_batches(out, ld_out, p, ldp, first, last, n_queries, value_blocks, head_dim, weigh_batch);
}

const struct sp_vector_kv sp_kv_q8_neon = {
    .store_key = store_key,
    .store_value = store_value,
    .prepare = prepare,
    .scores = scores,
    .weigh = weigh,
};
