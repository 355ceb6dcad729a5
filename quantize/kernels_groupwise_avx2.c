/* Products of the types that keep the codes of a source with AVX2. Pairs of products are added in
 * 16 bits: 2 * 127 * 127 < 2^15. */
#include "quantize/simd_avx2.h"

INLINE ints dot4(ints sum, bytes w, query_codes q, size_t i)
{
    __m256i pairs = _mm256_maddubs_epi16((__m256i)w, (__m256i)splat_four(q + 4 * i));

    return sum + (ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

#define DOT4 dot4
#define GROUPWISE sp_groupwise_avx2
#include "quantize/kernels_groupwise_loops.h"
