/* The primitives of simd.h that AVX2 and AVX-512 have alike. A set defines REGISTER, and
 * VECTOR, the type of whole numbers, and X86(operation), an intrinsic, before it includes this
 * file, which is empty otherwise. */
#ifndef SP_QUANTIZE_SIMD_SIMD_X86_H
#define SP_QUANTIZE_SIMD_SIMD_X86_H

#ifdef X86

#include "quantize/simd/simd.h"
#include "quantize/types/microscale_fit.h"

#include <immintrin.h>

INLINE floats fmadd(floats a, floats b, floats c)
{
    return X86(fmadd_ps)(a, b, c);
}

/* The instructions return the second operand unless the first is smaller, or larger. */
INLINE floats at_most(float limit, floats x)
{
    return X86(min_ps)(splat(limit), x);
}

INLINE floats at_least(float limit, floats x)
{
    return X86(max_ps)(splat(limit), x);
}

INLINE floats number_at_most(floats x, float limit)
{
    return X86(min_ps)(x, splat(limit));
}

INLINE floats number_at_least(floats x, float limit)
{
    return X86(max_ps)(x, splat(limit));
}

INLINE floats larger(floats a, floats b)
{
    return X86(max_ps)(a, b);
}

INLINE ints to_ints(floats x)
{
    return (ints)X86(cvtps_epi32)(x);
}

INLINE uints larger_bits(uints a, uints b)
{
    return (uints)X86(max_epu32)((VECTOR)a, (VECTOR)b);
}

/* 16 bytes in every 128 bits. */
INLINE VECTOR load_in_each(const void *table)
{
    __m128i x = _mm_loadu_si128((const __m128i *)table);

#if REGISTER == 64
    return _mm512_broadcast_i32x4(x);
#else
    return _mm256_broadcastsi128_si256(x);
#endif
}

/* ---- products: kernels_groupwise_loops.h ---- */

INLINE bytes load_table_16(const void *table)
{
    return (bytes)load_in_each(table);
}

INLINE bytes look_up_16(bytes table, bytes i)
{
    return (bytes)X86(shuffle_epi8)((VECTOR)table, (VECTOR)i);
}

/* ---- q8 caches: runtime/vector/vector_q8_loops.h ---- */

typedef const int8_t *query_codes;

INLINE query_codes load_query(const int8_t *codes)
{
    return codes;
}

struct weights;
typedef const struct weights *held_weights;

INLINE held_weights hold_weights(const struct weights *w)
{
    return w;
}

/* ---- encoders: kernels_tile_loops.h, kernels_fit_loops.h ---- */

INLINE void transpose_quads(floats x[4])
{
    floats a = X86(unpacklo_ps)(x[0], x[1]), b = X86(unpackhi_ps)(x[0], x[1]);
    floats c = X86(unpacklo_ps)(x[2], x[3]), d = X86(unpackhi_ps)(x[2], x[3]);

    x[0] = X86(shuffle_ps)(a, c, 0x44);
    x[1] = X86(shuffle_ps)(a, c, 0xee);
    x[2] = X86(shuffle_ps)(b, d, 0x44);
    x[3] = X86(shuffle_ps)(b, d, 0xee);
}

INLINE void spread_quads(floats x[4], floats y)
{
    x[0] = X86(permute_ps)(y, 0x00);
    x[1] = X86(permute_ps)(y, 0x55);
    x[2] = X86(permute_ps)(y, 0xaa);
    x[3] = X86(permute_ps)(y, 0xff);
}

INLINE words pack_words(ints a, ints b)
{
    return (words)X86(packs_epi32)((VECTOR)a, (VECTOR)b);
}

INLINE bytes pack_bytes(words a, words b)
{
    return (bytes)X86(packs_epi16)((VECTOR)a, (VECTOR)b);
}

INLINE bytes pack_unsigned(words a, words b)
{
    return (bytes)X86(packus_epi16)((VECTOR)a, (VECTOR)b);
}

INLINE words spread_a(ints rows)
{
    static const uint8_t order[16] = {0, 1, 0, 1, 0, 1, 0, 1, 4, 5, 4, 5, 4, 5, 4, 5};

    return (words)X86(shuffle_epi8)((VECTOR)rows, load_in_each(order));
}

INLINE words spread_b(ints rows)
{
    static const uint8_t order[16] = {8, 9, 8, 9, 8, 9, 8, 9, 12, 13, 12, 13, 12, 13, 12, 13};

    return (words)X86(shuffle_epi8)((VECTOR)rows, load_in_each(order));
}

INLINE words larger_words(words a, words b)
{
    return (words)X86(max_epi16)((VECTOR)a, (VECTOR)b);
}

INLINE words scale_words(words a, words m)
{
    return (words)X86(mulhrs_epi16)((VECTOR)a, (VECTOR)m);
}

INLINE floats max_words_of_rows(words a, words b)
{
    /* The larger of k and k + 2 of each row, then the larger of the two that remain. */
    words low = (words)X86(shuffle_ps)((floats)a, (floats)b, 0x88);
    words high = (words)X86(shuffle_ps)((floats)a, (floats)b, 0xdd);
    ints pairs = (ints)larger_words(low, high);

    return to_floats((ints)X86(max_epi32)((VECTOR)(pairs >> 16), (VECTOR)(pairs << 16 >> 16)));
}

INLINE ints select_sums(const int32_t sums[4], ints i)
{
    return (ints)X86(permutevar_ps)((floats)load_in_each(sums), (VECTOR)i);
}

INLINE ints multiply_lanes(ints a, ints b)
{
    return (ints)X86(madd_epi16)((VECTOR)a, (VECTOR)b);
}

#endif

#endif
