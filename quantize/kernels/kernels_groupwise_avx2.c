/* Products of the types that keep the codes of a source with AVX2. */
#include "quantize/simd/simd_avx2.h"

/* Sums of products of pairs of columns are kept in 16 bits as long as they fit. Weights above 127
 * are multiplied less 128: the instruction multiplies sizes by codes with the weights' signs. */
INLINE ints dot16(const bytes w[4], query_codes q, int most, float q_sum)
{
    const int less = most > INT8_MAX ? 128 : 0, at_once = less ? 1 : INT16_MAX / (2 * 127 * most);
    __m256i sum = _mm256_set1_epi32(less * (int)q_sum), pairs = _mm256_setzero_si256();

#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) {
        __m256i x = (__m256i)splat_four(q + 4 * g), u = (__m256i)(w[g] ^ (int8_t)-less);

        if (less) x = _mm256_sign_epi8(x, u);
        if (less) u = _mm256_abs_epi8(u);
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(u, x));
        if (g == 3 || g % at_once == at_once - 1) {
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            pairs = _mm256_setzero_si256();
        }
    }
    return (ints)sum;
}

#define DOT4_SIGNED 1
#define GROUPWISE sp_groupwise_avx2
#define PEAK sp_peak_avx2
#include "quantize/kernels/kernels_groupwise_loops.h"
