/* Products of the types that keep the codes of a source with NEON's dot products. */
#include "quantize/simd/simd_neon.h"
#define DOT4 dot_keys
#define DOT4_SIGNED 1
#define GROUPWISE sp_groupwise_neon
#define PEAK sp_peak_neon
#include "quantize/kernels/kernels_groupwise_loops.h"
