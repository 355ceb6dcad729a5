/* Matrix products with AVX2, FMA and F16C: one 256-bit register is half a panel's 16 lanes.
 *
 * q8 walks a panel once for few rows of activations, and twice, once for each half of its lanes,
 * for more; the second walk reads from the cache. There are 16 registers, so tiles of q8 and of
 * floats have 1 to 8 rows of activations, inlined with a constant number of rows; more rows are
 * several tiles per panel.
 *
 * VPMADDUBSW multiplies unsigned by signed bytes and adds pairs of products in 16 bits, which hold
 * two of 128 * 127. The entries + 64 of q2 to q6 are unsigned (kernels_microscale256.h); the sign
 * of q8's codes is moved to the activation.
 *
 *   lane        0              1        ...       7
 *   register    row 0, k..k+3  row 1, k..k+3      row 7, k..k+3        four bytes each */
#define MAX_ROWS 8
#include "quantize/kernels_avx2.h"

#include <math.h>
#include <string.h>

enum { LANES = SP_PANEL_ROWS, HALF_LANES = 8 };

/* Broadcasts four codes of a row to every lane. */
INLINE __m256i broadcast4(const int8_t *q)
{
    int32_t bytes;

    memcpy(&bytes, q, sizeof bytes);
    return _mm256_set1_epi32(bytes);
}

/* Returns i + u . q for four columns of each lane's row, u unsigned. Pairs of products are added in
 * 16 bits: 2 * 128 * 127 < 2^15. */
INLINE __m256i dot4(__m256i i, __m256i u, __m256i q)
{
    return _mm256_add_epi32(i, _mm256_madd_epi16(_mm256_maddubs_epi16(u, q), _mm256_set1_epi16(1)));
}

/* ---- q2 to q6 ---- */

INLINE __m256i dot4_at(__m256i i, __m256i u, const int8_t *q)
{
    return dot4(i, u, broadcast4(q));
}

#define DOT4 dot4_at
#include "quantize/kernels_microscale256.h"

/* ---- q8 ---- */

/* Multiplies half of a block's lanes by n_rows rows. */
INLINE void q8_half_block(__m256 acc[MAX_ROWS][2], const struct sp_act_block *at, size_t half,
                          const uint8_t *block, size_t n_rows)
{
    __m256 w_scale = widen_bf16(block + LANES * SP_BLOCK + 16 * half);
    __m256i i[MAX_ROWS];

    UNROLL
    for (size_t t = 0; t < n_rows; t++)
        i[t] = _mm256_setzero_si256();
    UNROLL
    for (size_t g = 0; g < SP_BLOCK / 4; g++) {
        __m256i stored = _mm256_loadu_si256((const void *)(block + 64 * g + 32 * half));
        __m256i w = _mm256_xor_si256(stored, _mm256_set1_epi8(-128));
        __m256i magnitude = _mm256_abs_epi8(w);
        UNROLL
        for (size_t t = 0; t < n_rows; t++) {
            __m256i q = broadcast4(at->q + t * at->ld + 4 * g);
            i[t] = dot4(i[t], magnitude, _mm256_sign_epi8(q, w));
            __asm__("" : "+x"(i[t])); /* no sums put off: GCC 12 would spill them */
        }
    }
    UNROLL
    for (size_t t = 0; t < n_rows; t++) {
        __m256 s = _mm256_mul_ps(w_scale, _mm256_set1_ps(at->scale[t * at->ld_block]));
        acc[t][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i[t]), s, acc[t][half]);
    }
}

/* Multiplies the halves `first` to `end` - 1 of a panel in one walk through its blocks. */
INLINE void q8_walk(const struct sp_matmul *m, size_t first, size_t end, size_t n_rows)
{
    const size_t n_blocks = m->acts->cols / SP_BLOCK;
    const uint8_t *block = m->panels;
    struct sp_act_block at = sp_act_block_first(m->acts, m->first);
    __m256 acc[MAX_ROWS][2];

    UNROLL
    for (size_t t = 0; t < n_rows; t++)
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++, block += SP_Q8_BLOCK_SIZE) {
        if (first == 0) prefetch(block, SP_Q8_BLOCK_SIZE);
        UNROLL
        for (size_t half = first; half < end; half++)
            q8_half_block(acc, &at, half, block, n_rows);
        sp_act_block_next(&at);
    }
    UNROLL
    for (size_t half = first; half < end; half++) {
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            _mm256_storeu_ps(m->y + t * m->ldy + HALF_LANES * half, acc[t][half]);
    }
}

/* Few rows wait for memory, which one walk keeps busy all the time; many rows need the registers
 * for the accumulators of one half. */
INLINE void q8_panel(const struct sp_matmul *m, size_t n_rows)
{
    enum { FEW = 3 };

    if (n_rows <= FEW) {
        q8_walk(m, 0, 2, n_rows);
    } else {
        q8_walk(m, 0, 1, n_rows);
        q8_walk(m, 1, 2, n_rows);
    }
}

/* ---- f32, f16, bf16 ---- */

/* The weights of one column for half of the rows. */
INLINE __m256 float_weights(enum sp_dtype dtype, const uint8_t *bytes, size_t half)
{
    switch (dtype) {
    case SP_F32:
        return _mm256_loadu_ps((const void *)(bytes + 32 * half));
    case SP_F16:
        return _mm256_cvtph_ps(_mm_loadu_si128((const void *)(bytes + 16 * half)));
    default:
        return widen_bf16(bytes + 16 * half);
    }
}

INLINE void float_panel(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    const size_t column = LANES * (dtype == SP_F32 ? 4 : 2);
    const size_t cols = m->acts->cols, ld = m->acts->ld;
    const uint8_t *w = m->panels;
    const float *x = m->acts->x + m->first * ld;
    __m256 acc[MAX_ROWS][2];

    UNROLL
    for (size_t t = 0; t < n_rows; t++)
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (size_t k = 0; k < cols; k++, w += column) {
        __m256 w0 = float_weights(dtype, w, 0), w1 = float_weights(dtype, w, 1);
        UNROLL
        for (size_t t = 0; t < n_rows; t++) {
            __m256 factor = _mm256_set1_ps(x[t * ld + k]);
            acc[t][0] = _mm256_fmadd_ps(w0, factor, acc[t][0]);
            acc[t][1] = _mm256_fmadd_ps(w1, factor, acc[t][1]);
        }
    }
    UNROLL
    for (size_t t = 0; t < n_rows; t++) {
        _mm256_storeu_ps(m->y + t * m->ldy, acc[t][0]);
        _mm256_storeu_ps(m->y + t * m->ldy + HALF_LANES, acc[t][1]);
    }
}

INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    if (dtype == SP_Q8)
        q8_panel(m, n_rows);
    else
        float_panel(dtype, m, n_rows);
}

PRODUCT(void sp_avx2_matmul_f32, multiply(SP_F32, *m))
PRODUCT(void sp_avx2_matmul_f16, multiply(SP_F16, *m))
PRODUCT(void sp_avx2_matmul_bf16, multiply(SP_BF16, *m))
PRODUCT(static void matmul_q8, multiply(SP_Q8, *m))

/* ---- activations ---- */

INLINE int32_t reduce_add(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* Largest absolute value of 32 numbers, compared as integers, so that a NaN is the largest. */
INLINE float block_max(const __m256 x[4])
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_setzero_si256();

    UNROLL
    for (size_t i = 0; i < 4; i++)
        m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude));
    __m128i s = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(s));
}

void sp_avx2_quantize_row(const struct sp_acts *acts, size_t t)
{
    /* The packs below interleave the 128-bit halves of the registers; this permutation restores the
     * order. */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const float *x = acts->x + t * acts->ld;
    int8_t *q = acts->q + t * acts->ld;
    float *scale = acts->scale + t * acts->ld_block;
    int32_t *start_q4 = acts->start_q4 + t * acts->ld_block * 2;
    int32_t *start_q8 = acts->start_q8 + t * acts->ld_block;

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, x += SP_BLOCK, q += SP_BLOCK) {
        __m256 in[4] = {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8), _mm256_loadu_ps(x + 16),
                        _mm256_loadu_ps(x + 24)};
        float max = block_max(in), inverse = 127.0f / max;
        __m256i keep = _mm256_set1_epi32(inverse > 0 && !isinf(inverse) ? -1 : 0), code[4];

        UNROLL
        for (size_t i = 0; i < 4; i++) {
            __m256i rounded = _mm256_cvtps_epi32(_mm256_mul_ps(in[i], _mm256_set1_ps(inverse)));
            code[i] = _mm256_and_si256(rounded, keep);
        }
        scale[b] = isinf(inverse) ? 0.0f : max / 127.0f;
        start_q4[2 * b] = 2 - 64 * reduce_add(_mm256_add_epi32(code[0], code[1]));
        start_q4[2 * b + 1] = 2 - 64 * reduce_add(_mm256_add_epi32(code[2], code[3]));
        start_q8[b] = 2 * (start_q4[2 * b] + start_q4[2 * b + 1] - 4);
        __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(code[0], code[1]),
                                            _mm256_packs_epi32(code[2], code[3]));
        _mm256_storeu_si256((void *)q, _mm256_permutevar8x32_epi32(packed, order));
    }
    sp_acts_set_sums(acts, t);
}

const struct sp_kernels sp_kernels_avx2 = {
    .name = "avx2",
    .quantize_row = sp_avx2_quantize_row,
    .matmul = SP_MATMULS(sp_avx2_matmul_f32, sp_avx2_matmul_f16, sp_avx2_matmul_bf16),
    .groupwise = sp_groupwise_avx2,
    .peak = sp_peak_avx2,
    .tile = &sp_tile_avx2,
};
