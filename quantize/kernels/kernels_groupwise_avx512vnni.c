/* Products of the types that keep the codes of a source with VPDPBUSD on 256-bit registers (AVX-512
 * VNNI). */
#include "quantize/simd/simd_avx2.h"

INLINE ints dot4(ints sum, bytes w, query_codes q, size_t i)
{
    return (ints)_mm256_dpbusd_epi32((__m256i)sum, (__m256i)w, (__m256i)splat_four(q + 4 * i));
}

#define DOT4 dot4
#define GROUPWISE sp_groupwise_avx512vnni
#define PEAK sp_peak_avx512vnni
#include "quantize/kernels/kernels_groupwise_loops.h"
