/* Products of blocks of q2 to q6 on 256-bit registers (kernels_halves.h): for the AVX2 set
 * and the two sets with VPDPBUSD. A set defines DOT4(i, w, q) before it includes this file, which
 * is empty otherwise: i + w . q for four columns of each lane's row, w unsigned and at most 128, q
 * the address of four activation codes.
 *
 * Entries are looked up in tables of 16 bytes. A codebook of q2 has four entries, so that a table
 * holds those of four lanes: the codebook of each lane is brought to the lane before any code is
 * looked up. A codebook of q3 is two such tables.
 *
 * In q4 codebook t + 1 is t reversed and negated if t is even, so the tables hold the even
 * codebooks alone. If the codebook is odd, codes are inverted, and the sum s over the half block is
 * the negative of the true one. Its quarter, (-s + 2) >> 2, is -((s + 1) >> 2): such a lane starts
 * at 1, not at 2, and its scale is negated.
 *
 *   lane        0              1        ...       7
 *   register    row 0, k..k+3  row 1, k..k+3      row 7, k..k+3        four bytes each */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_MICROSCALE256_H
#define SP_QUANTIZE_KERNELS_KERNELS_MICROSCALE256_H

#include "quantize/kernels/kernels_avx2.h"
#include "quantize/types/microscale.h"

#ifdef DOT4

struct sums {
    __m256 row[SP_TILE_ROWS][2]; /* of the halves of the lanes */
};

/* Entries + 64 of q2, q3, q4; entries of q5. */
struct tables {
    /* q2: codebooks 0 to 7 and 8 to 15, q3: entries 0 to 3 and 4 to 7 of all codebooks, one
     * codebook per lane. q4: the two even codebooks, q5: the two halves of the entries; both are in
     * both 128-bit halves. */
    __m256i first, second;
    __m256i offsets; /* q5, q6: offsets + 64 by the low bits of a scale byte */
};

INLINE __m256i twice(const int8_t *bytes)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)bytes));
}

/* Four entries + 64 of each of eight codebooks, the first at `entries`, the next `step` later. */
INLINE __m256i eight_codebooks(const int8_t *entries, size_t step)
{
    int8_t bytes[32];

    for (size_t i = 0; i < 32; i++)
        bytes[i] = (int8_t)(entries[i / 4 * step + i % 4] + 64);
    return _mm256_loadu_si256((const void *)bytes);
}

INLINE struct tables microscale_tables(enum sp_dtype dtype)
{
    const struct sp_microscale *type = sp_microscale_of(dtype);
    struct tables tables = {0};
    int8_t offsets[16];

    switch (dtype) {
    case SP_Q2:
        tables.first = eight_codebooks(type->entries, 4);
        tables.second = eight_codebooks(type->entries + 32, 4);
        return tables;
    case SP_Q3:
        tables.first = eight_codebooks(type->entries, 8);
        tables.second = eight_codebooks(type->entries + 4, 8);
        return tables;
    case SP_Q4:
        tables.first = _mm256_add_epi8(twice(type->entries), _mm256_set1_epi8(64));
        tables.second = _mm256_add_epi8(twice(type->entries + 32), _mm256_set1_epi8(64));
        return tables;
    default:
        break;
    }
    for (size_t i = 0; i < 16; i++)
        offsets[i] = (int8_t)(type->offsets[i % 8] + 64 + (dtype == SP_Q6 ? type->entries[0] : 0));
    tables.offsets = twice(offsets);
    tables.first = twice(type->entries);
    tables.second = twice(type->entries + 16);
    return tables;
}

typedef uint16_t words __attribute__((vector_size(32)));

/* Moves bits of bytes to the right, to the left if n < 0; bits of other bytes arrive as well. */
INLINE __m256i move_right(__m256i bytes, int n)
{
    return n < 0 ? (__m256i)((words)bytes << -n) : (__m256i)((words)bytes >> n);
}

/* The vector of group g of half h in a plane, xor'ed, with the group's bits moved to bit `to`. */
INLINE __m256i plane_bits(const uint8_t *plane, int n_bits, int h, int g, int to, __m256i inverted)
{
    const int vector = n_bits == 1 ? 0 : n_bits == 2 ? h : 2 * h + g % 2;
    const int bit = n_bits == 1 ? 4 * h + g : n_bits == 2 ? 2 * g : 4 * (g / 2);
    __m256i bytes = _mm256_loadu_si256((const void *)(plane + 64 * vector));

    return move_right(_mm256_xor_si256(bytes, inverted), bit - to);
}

/* 0, 4, 8, 12: four times the place of each lane in its 128-bit half. */
INLINE __m256i four_times(void)
{
    return _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4, 4, 4,
                            4, 8, 8, 8, 8, 12, 12, 12, 12);
}

INLINE void decode_q2_q3(__m256i w[4], enum sp_dtype dtype, const uint8_t *block, __m256i byte,
                         int h, const struct tables *tables)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i first = _mm256_permutevar8x32_epi32(tables->first, byte);
    __m256i second = _mm256_permutevar8x32_epi32(tables->second, byte);

    if (dtype == SP_Q2) {
        __m256 above_7 = _mm256_castsi256_ps(_mm256_slli_epi32(byte, 28)); /* in the sign bits */
        first = _mm256_castps_si256(
            _mm256_blendv_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second), above_7));
    }
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i code = _mm256_and_si256(plane_bits(block, 2, h, g, 0, zero), _mm256_set1_epi8(3));

        code = _mm256_or_si256(code, four_times());
        w[g] = _mm256_shuffle_epi8(first, code);
        if (dtype == SP_Q3) {
            w[g] = _mm256_blendv_epi8(w[g], _mm256_shuffle_epi8(second, code),
                                      plane_bits(block + 128, 1, h, g, 7, zero));
        }
    }
}

/* second: the sign bit of each byte is set where the codebook is in the second table; odd: all ones
 * where it is odd. */
INLINE void decode_q4(__m256i w[4], const uint8_t *block, int h, __m256i second, __m256i odd,
                      const struct tables *tables)
{
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i code = _mm256_and_si256(plane_bits(block, 4, h, g, 0, odd), _mm256_set1_epi8(15));

        w[g] = _mm256_blendv_epi8(_mm256_shuffle_epi8(tables->first, code),
                                  _mm256_shuffle_epi8(tables->second, code), second);
    }
}

INLINE void decode_q5_q6(__m256i w[4], enum sp_dtype dtype, const uint8_t *block, __m256i byte,
                         int h, const struct tables *tables)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i spread = _mm256_shuffle_epi8(byte, four_times());
    __m256i offsets =
        _mm256_shuffle_epi8(tables->offsets, _mm256_and_si256(spread, _mm256_set1_epi8(7)));

    UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i code = _mm256_and_si256(plane_bits(block, 4, h, g, 0, zero), _mm256_set1_epi8(15));
        __m256i entries;

        if (dtype == SP_Q6) {
            __m256i high = plane_bits(block + 256, 2, h, g, 4, zero);
            entries = _mm256_or_si256(code, _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
        } else {
            __m256i high = plane_bits(block + 256, 1, h, g, 7, zero);
            entries = _mm256_blendv_epi8(_mm256_shuffle_epi8(tables->first, code),
                                         _mm256_shuffle_epi8(tables->second, code), high);
        }
        w[g] = _mm256_add_epi8(entries, offsets);
    }
}

/* Half a block for 8 rows of a panel. */
struct half_weights {
    __m256i factor; /* the scale bytes, negated if the codebook is odd */
    __m256i odd;    /* all ones if the codebook is odd, of q4 only */
};

/* Decodes half h of a block to entries + 64, in q4 of the even codebook if there is an odd one.
 * block, scale_bytes: of these 8 rows. */
INLINE struct half_weights microscale_decode(__m256i w[4], enum sp_dtype dtype,
                                             const uint8_t *block, const uint8_t *scale_bytes,
                                             int h, const struct tables *tables)
{
    __m256i byte = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)scale_bytes)), odd, second;

    if (dtype == SP_Q4) {
        odd = _mm256_srai_epi32(_mm256_slli_epi32(byte, 31), 31);
        second = move_right(_mm256_shuffle_epi8(byte, four_times()), -6);
        decode_q4(w, block, h, second, odd, tables);
        return (struct half_weights){_mm256_sub_epi32(_mm256_xor_si256(byte, odd), odd), odd};
    }
    if (dtype == SP_Q2 || dtype == SP_Q3)
        decode_q2_q3(w, dtype, block, byte, h, tables);
    else
        decode_q5_q6(w, dtype, block, byte, h, tables);
    return (struct half_weights){byte, _mm256_setzero_si256()};
}

/* A block's weights for 8 rows of a panel. */
struct block_weights {
    __m256i w[8], odd[2]; /* of the groups, of the halves */
    __m256i factors;      /* of the first half in the low 16 bits, of the second in the high ones */
};

INLINE struct block_weights microscale_block(enum sp_dtype dtype, const uint8_t *block,
                                             const uint8_t *scale_bytes,
                                             const struct tables *tables)
{
    struct block_weights b;
    struct half_weights first, second;

    first = microscale_decode(b.w, dtype, block, scale_bytes, 0, tables);
    second = microscale_decode(b.w + 4, dtype, block, scale_bytes + SP_PANEL_ROWS, 1, tables);
    b.odd[0] = first.odd;
    b.odd[1] = second.odd;
    b.factors = _mm256_blend_epi16(first.factor, _mm256_slli_epi32(second.factor, 16), 0xaa);
    return b;
}

/* The quarters of both halves' sums with row t, interleaved. */
INLINE __m256i row_quarters(const struct block_weights *b, const struct sp_act_block *at, size_t t)
{
    const int32_t *start = at->start_q4 + t * at->ld_block * 2;
    const int8_t *q = at->q + t * at->ld;
    __m256i i0 = _mm256_add_epi32(_mm256_set1_epi32(start[0]), b->odd[0]);
    __m256i i1 = _mm256_add_epi32(_mm256_set1_epi32(start[1]), b->odd[1]);

    UNROLL
    for (size_t g = 0; g < 4; g++) {
        i0 = DOT4(i0, b->w[g], q + 4 * g);
        i1 = DOT4(i1, b->w[g + 4], q + SP_MICROSCALE_HALF + 4 * g);
    }
    return _mm256_blend_epi16(_mm256_srai_epi32(i0, 2), _mm256_slli_epi32(i1, 14), 0xaa);
}

/* Returns acc + the quarters times their scale bytes times the scale of row t. */
INLINE __m256 add_quarters(__m256 acc, const struct block_weights *b, __m256i quarters,
                           const struct sp_act_block *at, size_t t)
{
    __m256 u = _mm256_cvtepi32_ps(_mm256_madd_epi16(quarters, b->factors));

    return _mm256_fmadd_ps(u, _mm256_set1_ps(at->scale[t * at->ld_block]), acc);
}

/* Multiplies one block, for half of the lanes, by all rows. A row's quarters are added after the
 * next row's sums, which are independent: the processor then waits less for each. */
INLINE void microscale_half_block(struct sums *acc, enum sp_dtype dtype, size_t size, size_t half,
                                  const uint8_t *block, const struct sp_act_block *at,
                                  size_t n_rows, const struct tables *tables)
{
    const uint8_t *scale_bytes = block + size - 2 * SP_PANEL_ROWS + 8 * half;
    struct block_weights b = microscale_block(dtype, block + 32 * half, scale_bytes, tables);
    __m256i quarters = row_quarters(&b, at, 0);

    for (size_t t = 1; t < n_rows; t++) {
        __m256i before = quarters;

        quarters = row_quarters(&b, at, t);
        acc->row[t - 1][half] = add_quarters(acc->row[t - 1][half], &b, before, at, t - 1);
    }
    __m256 *last = &acc->row[n_rows - 1][half];
    *last = add_quarters(*last, &b, quarters, at, n_rows - 1);
}

INLINE void store_sums(float *y, size_t ldy, const struct sums *acc, const uint8_t *row_scales,
                       size_t n_rows)
{
    for (size_t half = 0; half < 2; half++) {
        __m256 scale = _mm256_set1_ps(row_scales ? 4 : 1);
        if (row_scales)
            scale = _mm256_mul_ps(scale, _mm256_loadu_ps((const void *)(row_scales + 32 * half)));
        for (size_t t = 0; t < n_rows; t++)
            _mm256_storeu_ps(y + t * ldy + 8 * half, _mm256_mul_ps(acc->row[t][half], scale));
    }
}

#endif
#endif
