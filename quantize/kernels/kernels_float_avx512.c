/* Products of floats with AVX-512. */
#include "quantize/simd/simd_avx512.h"
#define FLOATS sp_floats_avx512
#define MAX_ROWS 16
#define WIDE(n_rows) ((n_rows) == 1 ? 4 : (n_rows) <= 4 ? 2 : 1)
#define PREFETCHES 0
#include "quantize/kernels/kernels_float_loops.h"
