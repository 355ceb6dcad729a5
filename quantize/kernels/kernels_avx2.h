/* Code that the AVX2 set shares with the sets that extend it. It is empty unless the including file
 * is compiled for AVX2. */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_AVX2_H
#define SP_QUANTIZE_KERNELS_KERNELS_AVX2_H

#include "quantize/kernels/kernels_product.h"

#include <immintrin.h>

#ifdef __AVX2__

static inline __m256 widen_bf16(const uint8_t *bytes)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)bytes));

    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

#endif
#endif
