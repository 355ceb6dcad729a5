/* Matrix products with AVX-512 (F, BW, DQ, VL, VNNI, VBMI): one 512-bit register is one panel's 16
 * lanes.
 *
 * Each number of activation rows, 1 to 16, has code of its own: the tile functions are inlined with
 * a constant n_rows and unrolled, so that n_rows accumulators, the eight vectors of a decoded block
 * and its scales stay in the 32 registers. Activations are operands broadcast from memory.
 *
 * VPDPBUSD multiplies unsigned bytes (entries + 64 of q2 to q6, q8 codes + 128) by signed ones
 * (activation codes). The surplus, 64 or 128 times the sum of the activation codes, is in the
 * accumulator's first value (acts->start_q4, start_q8) and costs nothing.
 *
 *   lane        0              1        ...       15
 *   register    row 0, k..k+3  row 1, k..k+3      row 15, k..k+3        four bytes each
 */
#define MAX_ROWS 16
#include "quantize/kernels_product.h"
#include "format/base/mem.h"
#include "quantize/types/microscale.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

/* Returns i + w . q for four columns of each lane's row. GCC 12 broadcasts q in a separate
 * instruction; the assembly uses the form with a memory operand (6 % faster at 8 rows). */
#if defined(__clang__)
INLINE __m512i dot4(__m512i i, __m512i w, const int8_t *q)
{
    int32_t bytes;

    memcpy(&bytes, q, sizeof bytes);
    return _mm512_dpbusd_epi32(i, w, _mm512_set1_epi32(bytes));
}
#else
struct four {
    int8_t q[4];
};

INLINE __m512i dot4(__m512i i, __m512i w, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(i) : "v"(w), "m"(*(const struct four *)q));
    return i;
}
#endif

enum { LANES = SP_PANEL_ROWS, N_GROUPS = SP_BLOCK / 4 };

INLINE __m512 widen_bf16(const uint8_t *bytes)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)bytes));

    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* i[h] += the sum over half h of a block of weights times row t. */
INLINE void dot_row(__m512i i[2], const __m512i w[N_GROUPS], const struct sp_act_block *at,
                    size_t t)
{
    const int8_t *q = at->q + t * at->ld;

    UNROLL
    for (size_t g = 0; g < 4; g++) {
        i[0] = dot4(i[0], w[g], q + 4 * g);
        i[1] = dot4(i[1], w[g + 4], q + SP_BLOCK / 2 + 4 * g);
    }
}

/* ---- q2 to q6 ---- */

struct tables {
    __m512i entries;       /* by code, of tables of several codebooks by codebook and code */
    __m512i offsets;       /* by the low bits of a scale byte; for types with offsets */
    __m512i low;           /* the bits of a code in the first plane, in each byte */
    __m512i next;          /* q3: the bit of a code in the second plane */
    __m512i first, second; /* indices that put byte r, byte 16 + r into all four bytes of lane r */
    __m512i both;          /* indices that put byte r and byte 16 + r into its 16-bit halves */
};

INLINE struct tables microscale_tables(enum sp_dtype dtype)
{
    __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i first =
        _mm512_shuffle_epi8(lane, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
    struct tables tables = {
        .low = _mm512_set1_epi8(dtype == SP_Q2 || dtype == SP_Q3 ? 0x03 : 0x0f),
        .next = _mm512_set1_epi8(0x04),
        .first = first,
        .second = _mm512_add_epi8(first, _mm512_set1_epi8(LANES)),
        .both = _mm512_add_epi8(first, _mm512_set1_epi32(LANES << 16)),
    };
    const __m512i surplus = _mm512_set1_epi8(64);
    int64_t offsets;

    switch (dtype) {
    case SP_Q2:
        tables.entries = _mm512_add_epi8(_mm512_loadu_si512(sp_q2_codebooks), surplus);
        return tables;
    case SP_Q3:
        tables.entries = _mm512_add_epi8(_mm512_loadu_si512(sp_q3_codebooks), surplus);
        return tables;
    case SP_Q5: /* twice, so that the lookup ignores bit 5 */
        tables.entries = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)sp_q5_entries));
        memcpy(&offsets, sp_q5_offsets, sizeof offsets);
        break;
    case SP_Q6:
        tables.entries = _mm512_loadu_si512(sp_q6_entries);
        memcpy(&offsets, sp_q6_offsets, sizeof offsets);
        break;
    default:
        tables.entries = _mm512_add_epi8(_mm512_loadu_si512(sp_q4_codebooks), surplus);
        return tables;
    }
    tables.offsets = _mm512_add_epi8(_mm512_set1_epi64(offsets), surplus);
    return tables;
}

typedef uint16_t words __attribute__((vector_size(64)));

/* Moves bits of bytes to the right, to the left if n < 0. Bits of other bytes that arrive are not
 * used. */
INLINE __m512i move_right(__m512i bytes, int n)
{
    return n < 0 ? (__m512i)((words)bytes << -n) : (__m512i)((words)bytes >> n);
}

/* Selects bits of a where the mask is set, of b elsewhere. */
INLINE __m512i select_bits(__m512i mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(mask, a, b, 0xca);
}

/* The bits of the codes of group g of half h in one plane, from bit `to` on; other bits vary. */
INLINE __m512i plane_bits(const uint8_t *plane, int n_bits, int h, int g, int to)
{
    if (n_bits == 1) return move_right(_mm512_loadu_si512(plane), 4 * h + g - to);
    if (n_bits == 2) return move_right(_mm512_loadu_si512(plane + 64 * h), 2 * g - to);
    return move_right(_mm512_loadu_si512(plane + 128 * h + 64 * (g % 2)), 4 * (g / 2) - to);
}

/* Decodes the entries + 64 of half a block. bytes: each row's scale byte in all four bytes of its
 * lane. The lookup uses the low six bits of an index. */
INLINE void microscale_decode(__m512i w[4], enum sp_dtype dtype, const uint8_t *block, int h,
                              __m512i bytes, const struct tables *tables)
{
    __m512i offsets = dtype == SP_Q5 || dtype == SP_Q6
                          ? _mm512_permutexvar_epi8(bytes, tables->offsets)
                          : _mm512_setzero_si512();

    UNROLL
    for (int g = 0; g < 4; g++) {
        __m512i i;

        switch (dtype) {
        case SP_Q2:
            i = select_bits(tables->low, plane_bits(block, 2, h, g, 0), move_right(bytes, -2));
            break;
        case SP_Q3:
            i = select_bits(tables->next, plane_bits(block + 128, 1, h, g, 2),
                            move_right(bytes, -3));
            i = select_bits(tables->low, plane_bits(block, 2, h, g, 0), i);
            break;
        case SP_Q5:
            i = select_bits(tables->low, plane_bits(block, 4, h, g, 0),
                            plane_bits(block + 256, 1, h, g, 4));
            break;
        case SP_Q6:
            i = select_bits(tables->low, plane_bits(block, 4, h, g, 0),
                            plane_bits(block + 256, 2, h, g, 4));
            break;
        default:
            i = select_bits(tables->low, plane_bits(block, 4, h, g, 0), move_right(bytes, -4));
            break;
        }
        w[g] = _mm512_permutexvar_epi8(i, tables->entries);
        if (dtype == SP_Q5 || dtype == SP_Q6) w[g] = _mm512_add_epi8(w[g], offsets);
    }
}

/* Returns acc + a block of weights times row t. */
INLINE __m512 microscale_row(__m512 acc, const __m512i w[N_GROUPS], __m512i scales,
                             const struct sp_act_block *at, size_t t)
{
    const int32_t *start = at->start_q4 + t * at->ld_block * 2;
    __m512i i[2] = {_mm512_set1_epi32(start[0]), _mm512_set1_epi32(start[1])};

    dot_row(i, w, at, t);
    /* Interleaves the quarters of both halves, multiplies them by their scales and adds pairs. Two
     * shifts and a blend leave the pipes of the multipliers free; a multishift does not. */
    __m512i quarters = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(i[0], 2),
                                               _mm512_slli_epi32(i[1], 14));
    __m512 u = _mm512_cvtepi32_ps(_mm512_madd_epi16(quarters, scales));
    return _mm512_fmadd_ps(u, _mm512_set1_ps(at->scale[t * at->ld_block]), acc);
}

INLINE void microscale_tile(enum sp_dtype dtype, unsigned code_bits, const struct sp_matmul *m,
                            size_t n_rows)
{
    const struct tables tables = microscale_tables(dtype);
    const size_t n_blocks = m->acts->cols / SP_BLOCK, size = sp_microscale_block_size(code_bits);
    const uint8_t *block = m->panels;

    for (size_t p = 0; p < m->n_panels; p++) {
        struct sp_act_block at = sp_act_block_first(m->acts, m->first);
        const __m512 row_scale =
            _mm512_mul_ps(_mm512_set1_ps(4), _mm512_loadu_ps((const void *)block));
        __m512 acc[SP_TILE_ROWS];

        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[t] = _mm512_setzero_ps();
        block += SP_MICROSCALE_HEAD;
        for (size_t b = 0; b < n_blocks; b++) {
            __m512i bytes = _mm512_castsi256_si512(
                _mm256_loadu_si256((const void *)(block + size - 2 * LANES)));
            __m512i scales = _mm512_maskz_permutexvar_epi8(0x5555555555555555, tables.both, bytes);
            __m512i w[N_GROUPS];

            prefetch(block, size);
            microscale_decode(w, dtype, block, 0, _mm512_permutexvar_epi8(tables.first, bytes),
                              &tables);
            microscale_decode(w + 4, dtype, block, 1, _mm512_permutexvar_epi8(tables.second, bytes),
                              &tables);
            UNROLL
            for (size_t t = 0; t < n_rows; t++)
                acc[t] = microscale_row(acc[t], w, scales, &at, t);
            block += size;
            sp_act_block_next(&at);
        }
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            _mm512_storeu_ps(m->y + t * m->ldy + p * LANES, _mm512_mul_ps(acc[t], row_scale));
        block += n_blocks % 2 * (size % 64); /* panels start on a cache line */
    }
}

/* ---- q8 ---- */

/* Returns acc + a block of weights times row t. */
INLINE __m512 q8_row(__m512 acc, const __m512i w[N_GROUPS], __m512 w_scale,
                     const struct sp_act_block *at, size_t t)
{
    __m512i i[2] = {_mm512_set1_epi32(at->start_q8[t * at->ld_block]), _mm512_setzero_si512()};

    dot_row(i, w, at, t);
    __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(i[0], i[1]));
    __m512 scale = _mm512_mul_ps(w_scale, _mm512_set1_ps(at->scale[t * at->ld_block]));
    return _mm512_fmadd_ps(sum, scale, acc);
}

INLINE void q8_tile(const struct sp_matmul *m, size_t n_rows)
{
    const size_t n_blocks = m->acts->cols / SP_BLOCK;
    const uint8_t *block = m->panels;

    for (size_t p = 0; p < m->n_panels; p++) {
        struct sp_act_block at = sp_act_block_first(m->acts, m->first);
        __m512 acc[SP_TILE_ROWS];

        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[t] = _mm512_setzero_ps();
        for (size_t b = 0; b < n_blocks; b++) {
            __m512 w_scale = widen_bf16(block + LANES * SP_BLOCK);
            __m512i w[N_GROUPS];

            prefetch(block, SP_Q8_BLOCK_SIZE);
            UNROLL
            for (size_t g = 0; g < N_GROUPS; g++) {
                w[g] = _mm512_loadu_si512(block + 64 * g);
                __asm__("" : "+v"(w[g])); /* GCC 12 would load it again for each of 2 and 3 rows */
            }
            UNROLL
            for (size_t t = 0; t < n_rows; t++)
                acc[t] = q8_row(acc[t], w, w_scale, &at, t);
            block += SP_Q8_BLOCK_SIZE;
            sp_act_block_next(&at);
        }
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            _mm512_storeu_ps(m->y + t * m->ldy + p * LANES, acc[t]);
        block += n_blocks % 2 * (SP_Q8_BLOCK_SIZE % 64); /* panels start on a cache line */
    }
}

/* ---- f32, f16, bf16 ---- */

/* The weights of one column. */
INLINE __m512 float_weights(enum sp_dtype dtype, const uint8_t *bytes)
{
    if (dtype == SP_F32) return _mm512_loadu_ps((const void *)bytes);
    if (dtype == SP_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)bytes));
    return widen_bf16(bytes);
}

/* Computes n_wide panels from `first_panel` on together: with few rows, one panel has too few
 * independent chains of additions to keep the multipliers busy. */
INLINE void float_panels(enum sp_dtype dtype, const struct sp_matmul *m, size_t first_panel,
                         size_t n_wide, size_t n_rows)
{
    const size_t column = LANES * (dtype == SP_F32 ? 4 : 2);
    const size_t cols = m->acts->cols, ld = m->acts->ld;
    const size_t size = sp_round_up(cols * column, 64);
    const uint8_t *w = m->panels + first_panel * size;
    const float *x = m->acts->x + m->first * ld;
    __m512 acc[4][SP_TILE_ROWS];

    UNROLL
    for (size_t i = 0; i < n_wide; i++) {
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[i][t] = _mm512_setzero_ps();
    }
    for (size_t k = 0; k < cols; k++, w += column) {
        UNROLL
        for (size_t i = 0; i < n_wide; i++) {
            __m512 column_weights = float_weights(dtype, w + i * size);
            UNROLL
            for (size_t t = 0; t < n_rows; t++) {
                acc[i][t] =
                    _mm512_fmadd_ps(column_weights, _mm512_set1_ps(x[t * ld + k]), acc[i][t]);
            }
        }
    }
    UNROLL
    for (size_t i = 0; i < n_wide; i++) {
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            _mm512_storeu_ps(m->y + t * m->ldy + (first_panel + i) * LANES, acc[i][t]);
    }
}

INLINE void float_tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    const size_t n_wide = n_rows == 1 ? 4 : n_rows <= 4 ? 2 : 1;
    size_t p = 0;

    for (; p + n_wide <= m->n_panels; p += n_wide)
        float_panels(dtype, m, p, n_wide, n_rows);
    for (; p < m->n_panels; p++)
        float_panels(dtype, m, p, 1, n_rows);
}

/* ---- choice of the tile ---- */

INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    switch (dtype) {
    case SP_Q2:
        microscale_tile(dtype, 2, m, n_rows);
        break;
    case SP_Q3:
        microscale_tile(dtype, 3, m, n_rows);
        break;
    case SP_Q4:
        microscale_tile(dtype, 4, m, n_rows);
        break;
    case SP_Q5:
        microscale_tile(dtype, 5, m, n_rows);
        break;
    case SP_Q6:
        microscale_tile(dtype, 6, m, n_rows);
        break;
    case SP_Q8:
        q8_tile(m, n_rows);
        break;
    default:
        float_tile(dtype, m, n_rows);
        break;
    }
}

PRODUCT(static void matmul_f32, multiply(SP_F32, *m))
PRODUCT(static void matmul_f16, multiply(SP_F16, *m))
PRODUCT(static void matmul_bf16, multiply(SP_BF16, *m))
PRODUCT(static void matmul_q8, multiply(SP_Q8, *m))
PRODUCT(static void matmul_q2, multiply(SP_Q2, *m))
PRODUCT(static void matmul_q3, multiply(SP_Q3, *m))
PRODUCT(static void matmul_q4, multiply(SP_Q4, *m))
PRODUCT(static void matmul_q5, multiply(SP_Q5, *m))
PRODUCT(static void matmul_q6, multiply(SP_Q6, *m))

/* ---- activations ---- */

static void quantize_row(const struct sp_acts *acts, size_t t)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const float *x = acts->x + t * acts->ld;
    int8_t *q = acts->q + t * acts->ld;
    float *scale = acts->scale + t * acts->ld_block;
    int32_t *start_q4 = acts->start_q4 + t * acts->ld_block * 2;
    int32_t *start_q8 = acts->start_q8 + t * acts->ld_block;

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, x += SP_BLOCK, q += SP_BLOCK) {
        __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + LANES);
        __m512i m0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude);
        __m512i m1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
        /* Magnitudes are compared as integers, so that a NaN is the largest. */
        int32_t bits = _mm512_reduce_max_epi32(_mm512_max_epi32(m0, m1));
        float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
        float inverse = 127.0f / max;
        __mmask16 keep = inverse > 0 && !isinf(inverse) ? 0xffff : 0;
        __m512 factor = _mm512_set1_ps(inverse);
        __m512i q0 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x0, factor));
        __m512i q1 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x1, factor));

        scale[b] = isinf(inverse) ? 0.0f : max / 127.0f;
        start_q4[2 * b] = 2 - 64 * _mm512_reduce_add_epi32(q0);
        start_q4[2 * b + 1] = 2 - 64 * _mm512_reduce_add_epi32(q1);
        start_q8[b] = 2 * (start_q4[2 * b] + start_q4[2 * b + 1] - 4);
        _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((void *)(q + LANES), _mm512_cvtepi32_epi8(q1));
    }
    sp_acts_set_sums(acts, t);
}

const struct sp_kernels sp_kernels_avx512 = {
    .name = "avx512",
    .quantize_row = quantize_row,
    .matmul = SP_MATMULS(matmul_f32, matmul_f16, matmul_bf16),
    .groupwise = sp_groupwise_avx512,
    .peak = sp_peak_avx512,
    .tile = &sp_tile_avx512,
};
