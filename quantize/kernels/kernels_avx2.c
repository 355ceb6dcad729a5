/* Matrix products of block types with AVX2 and FMA: one 256-bit register is half a panel's 16
 * lanes.
 *
 * q8 walks a panel once for few rows of activations, and twice, once for each half of its lanes,
 * for more; the second walk reads from the cache. There are 16 registers, so tiles of q8 have 1 to
 * 8 rows of activations, inlined with a constant number of rows; more rows are several tiles per
 * panel.
 *
 * VPMADDUBSW multiplies unsigned by signed bytes and adds pairs of products in 16 bits, which hold
 * two of 128 * 127. The entries + 64 of q2 to q6 are unsigned (kernels_microscale256.h); the sign
 * of q8's codes is moved to the activation.
 *
 *   lane        0              1        ...       7
 *   register    row 0, k..k+3  row 1, k..k+3      row 7, k..k+3        four bytes each */
#define MAX_ROWS 8
#include "quantize/kernels/kernels_avx2.h"

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
#include "quantize/kernels/kernels_microscale256.h"
#define HALVES
#define half_block microscale_half_block
#include "quantize/kernels/kernels_halves.h"

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
INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    enum { FEW = 3 };

    (void)dtype;
    if (n_rows <= FEW) {
        q8_walk(m, 0, 2, n_rows);
    } else {
        q8_walk(m, 0, 1, n_rows);
        q8_walk(m, 1, 2, n_rows);
    }
}

PRODUCT(static void matmul_q8, multiply(SP_Q8, *m))

const struct sp_kernels sp_kernels_avx2 = {
    .name = "avx2",
    .matmul = MATMULS(sp_floats_avx2),
    .groupwise = sp_groupwise_avx2,
    .peak = sp_peak_avx2,
    .tile = &sp_tile_avx2,
};
