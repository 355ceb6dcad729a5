/* Products of the types that keep the codes of a source with AVX-VNNI. */
#include "quantize/simd/simd_avx2.h"

INLINE ints dot4(ints sum, bytes w, query_codes q, size_t i)
{
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, (__m256i)splat_four(q + 4 * i));
}

#define DOT4 dot4
#define GROUPWISE sp_groupwise_avxvnni
#define PEAK sp_peak_avxvnni
#include "quantize/kernels/kernels_groupwise_loops.h"
