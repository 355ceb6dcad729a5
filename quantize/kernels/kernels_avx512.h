/* Products of q2 to q6 and q8 on 512-bit registers, written once for the sets that multiply blocks
 * row by row (kernels_avx512.c) and all rows together (kernels_amx.c). A set defines, before it
 * includes this file,
 *
 *   struct products          the member w, the eight vectors of a decoded block, and what else it
 *                            needs
 *   multiply_rows(x, n, at)  multiplies the block by all rows, as n parts: 2 halves or 1 whole
 *   add_products(i, x, n, at, t)   i[h] += the sum over part h of the block times row t; with one
 *                            part, i[0] + i[1] is the sum
 *
 * The file is empty unless the including file is compiled for AVX-512. */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_AVX512_H
#define SP_QUANTIZE_KERNELS_KERNELS_AVX512_H

#ifdef __AVX512VBMI__

#include "quantize/kernels/kernels_product.h"
#include "quantize/types/microscale.h"

#include <immintrin.h>
#include <string.h>

enum { LANES = SP_PANEL_ROWS, N_GROUPS = SP_BLOCK / 4 };

INLINE __m512 widen_bf16(const uint8_t *bytes)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)bytes));

    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
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

INLINE bool has_offsets(enum sp_dtype dtype)
{
    return dtype == SP_Q5 || dtype == SP_Q6;
}

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
    const struct sp_microscale *type = sp_microscale_of(dtype);
    const __m512i surplus = _mm512_set1_epi8(64);
    int64_t offsets;

    if (dtype == SP_Q5) /* twice, so that the lookup ignores bit 5 */
        tables.entries = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)type->entries));
    else
        tables.entries = _mm512_loadu_si512(type->entries);
    if (has_offsets(dtype)) {
        memcpy(&offsets, type->offsets, sizeof offsets);
        tables.offsets = _mm512_add_epi8(_mm512_set1_epi64(offsets), surplus);
    } else {
        tables.entries = _mm512_add_epi8(tables.entries, surplus);
    }
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
    __m512i offsets = has_offsets(dtype) ? _mm512_permutexvar_epi8(bytes, tables->offsets)
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
        if (has_offsets(dtype)) w[g] = _mm512_add_epi8(w[g], offsets);
    }
}

/* Decodes a block whose scale bytes end it; returns those of both halves in 16-bit numbers. */
INLINE __m512i microscale_block(__m512i w[8], enum sp_dtype dtype, const uint8_t *block,
                                const struct tables *tables)
{
    const uint8_t *scale_bytes = block + sp_block_size(dtype) - 2 * LANES;
    __m512i bytes = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)scale_bytes));

    microscale_decode(w, dtype, block, 0, _mm512_permutexvar_epi8(tables->first, bytes), tables);
    microscale_decode(w + 4, dtype, block, 1, _mm512_permutexvar_epi8(tables->second, bytes),
                      tables);
    return _mm512_maskz_permutexvar_epi8(0x5555555555555555, tables->both, bytes);
}

/* Returns acc + a block of weights times row t. */
INLINE __m512 microscale_row(__m512 acc, const struct products *x, __m512i scales,
                             const struct sp_act_block *at, size_t t)
{
    const int32_t *start = at->start_q4 + t * at->ld_block * 2;
    __m512i i[2] = {_mm512_set1_epi32(start[0]), _mm512_set1_epi32(start[1])};

    add_products(i, x, 2, at, t);
    /* Interleaves the quarters of both halves, multiplies them by their scales and adds pairs. Two
     * shifts and a blend leave the pipes of the multipliers free; a multishift does not. */
    __m512i quarters = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(i[0], 2),
                                               _mm512_slli_epi32(i[1], 14));
    __m512 u = _mm512_cvtepi32_ps(_mm512_madd_epi16(quarters, scales));
    return _mm512_fmadd_ps(u, _mm512_set1_ps(at->scale[t * at->ld_block]), acc);
}

/* ---- q8 ---- */

/* Loads a block; returns the scales of its rows. */
INLINE __m512 q8_block(__m512i w[8], const uint8_t *block)
{
    UNROLL
    for (size_t g = 0; g < N_GROUPS; g++) {
        w[g] = _mm512_loadu_si512(block + 64 * g);
        __asm__("" : "+v"(w[g])); /* GCC 12 would load it again for each of 2 and 3 rows */
    }
    return widen_bf16(block + LANES * SP_BLOCK);
}

/* Returns acc + a block of weights times row t. */
INLINE __m512 q8_row(__m512 acc, const struct products *x, __m512 w_scale,
                     const struct sp_act_block *at, size_t t)
{
    __m512i i[2] = {_mm512_set1_epi32(at->start_q8[t * at->ld_block]), _mm512_setzero_si512()};

    add_products(i, x, 1, at, t);
    __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(i[0], i[1]));
    __m512 scale = _mm512_mul_ps(w_scale, _mm512_set1_ps(at->scale[t * at->ld_block]));
    return _mm512_fmadd_ps(sum, scale, acc);
}

/* ---- all types ---- */

INLINE void block_tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    const bool is_q8 = dtype == SP_Q8;
    const size_t n_blocks = m->acts->cols / SP_BLOCK, size = sp_block_size(dtype);
    const struct tables tables = is_q8 ? (struct tables){0} : microscale_tables(dtype);
    const uint8_t *block = m->panels;

    for (size_t p = 0; p < m->n_panels; p++) {
        struct sp_act_block at = sp_act_block_first(m->acts, m->first);
        const __m512 row_scale =
            _mm512_mul_ps(_mm512_set1_ps(4), _mm512_loadu_ps((const void *)block));
        __m512 acc[SP_TILE_ROWS];

        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[t] = _mm512_setzero_ps();
        if (!is_q8) block += SP_MICROSCALE_HEAD;
        for (size_t b = 0; b < n_blocks; b++, block += size) {
            struct products x;
            __m512i scales;

            prefetch(block, size);
            scales = is_q8 ? _mm512_castps_si512(q8_block(x.w, block))
                           : microscale_block(x.w, dtype, block, &tables);
            multiply_rows(&x, is_q8 ? 1 : 2, &at);
            UNROLL
            for (size_t t = 0; t < n_rows; t++) {
                acc[t] = is_q8 ? q8_row(acc[t], &x, _mm512_castsi512_ps(scales), &at, t)
                               : microscale_row(acc[t], &x, scales, &at, t);
            }
            sp_act_block_next(&at);
        }
        UNROLL
        for (size_t t = 0; t < n_rows; t++) {
            _mm512_storeu_ps(m->y + t * m->ldy + p * LANES,
                             is_q8 ? acc[t] : _mm512_mul_ps(acc[t], row_scale));
        }
        block += n_blocks % 2 * (size % 64); /* panels start on a cache line */
    }
}

PRODUCT(static void matmul_q8, multiply(SP_Q8, *m))
PRODUCT(static void matmul_q2, multiply(SP_Q2, *m))
PRODUCT(static void matmul_q3, multiply(SP_Q3, *m))
PRODUCT(static void matmul_q4, multiply(SP_Q4, *m))
PRODUCT(static void matmul_q5, multiply(SP_Q5, *m))
PRODUCT(static void matmul_q6, multiply(SP_Q6, *m))

/* The initializer of `matmul` of a set: these products, and one of floats. */
#define MATMULS(floats)                                                                            \
    {                                                                                              \
        [SP_F32] = floats, [SP_F16] = floats, [SP_BF16] = floats, [SP_Q8] = matmul_q8,             \
        [SP_Q6] = matmul_q6, [SP_Q5] = matmul_q5, [SP_Q4] = matmul_q4, [SP_Q3] = matmul_q3,        \
        [SP_Q2] = matmul_q2,                                                                       \
    }

#endif
#endif
