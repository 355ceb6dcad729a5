/* Code that the AVX2 set shares with the sets that extend it. It is empty unless the including file
 * is compiled for AVX2. */
#ifndef SP_QUANTIZE_KERNELS_AVX2_H
#define SP_QUANTIZE_KERNELS_AVX2_H

#include "quantize/kernels.h"
#include "quantize/microscale.h"

#include <immintrin.h>

#ifdef __AVX2__

sp_matmul_fn sp_avx2_matmul_f32, sp_avx2_matmul_f16, sp_avx2_matmul_bf16;
void sp_avx2_quantize_row(const struct sp_acts *acts, size_t t);

enum { PREFETCH_AHEAD = 4096 };

/* Prefetches the block that begins PREFETCH_AHEAD bytes later. Prefetches past the end of the
 * weights do not fault. */
static inline void prefetch(const uint8_t *block, size_t size)
{
    uintptr_t ahead = (uintptr_t)block + PREFETCH_AHEAD;

    for (size_t i = 0; i < size; i += 64)
        _mm_prefetch((const char *)(ahead + i), _MM_HINT_T0);
}

static inline __m256 widen_bf16(const uint8_t *bytes)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)bytes));

    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* Codebook entries + 64, unsigned. Codebook 2 * i + 1 is 2 * i reversed and negated: two tables
 * serve all four. */
struct sp_avx2_q4_tables {
    __m256i first, second; /* codebooks 0 and 2, in both 128-bit halves */
};

static inline struct sp_avx2_q4_tables sp_avx2_q4_tables(void)
{
    const __m256i offset = _mm256_set1_epi8(64);
    __m128i first = _mm_loadu_si128((const void *)sp_q4_codebooks);
    __m128i second = _mm_loadu_si128((const void *)(sp_q4_codebooks + 32));

    return (struct sp_avx2_q4_tables){_mm256_add_epi8(_mm256_broadcastsi128_si256(first), offset),
                                      _mm256_add_epi8(_mm256_broadcastsi128_si256(second), offset)};
}

/* Looks up entries. The sign bit of each byte of `second` is set if the codebook is 2 or 3. */
static inline __m256i sp_avx2_q4_look_up(struct sp_avx2_q4_tables tables, __m256i nibbles,
                                         __m256i second)
{
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(tables.first, nibbles),
                              _mm256_shuffle_epi8(tables.second, nibbles), second);
}

#endif
#endif
