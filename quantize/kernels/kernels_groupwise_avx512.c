/* Products of the types that keep the codes of a source with AVX-512. */
#include "quantize/simd/simd_avx512.h"
#define DOT4 dot_keys
#define GROUPWISE sp_groupwise_avx512
#define PEAK sp_peak_avx512
#include "quantize/kernels/kernels_groupwise_loops.h"
