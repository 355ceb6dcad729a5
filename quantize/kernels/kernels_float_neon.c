/* Products of floats with NEON: four rows have 16 sums. */
#include "quantize/simd/simd_neon.h"
#define FLOATS sp_floats_neon
#define MAX_ROWS 4
#define WIDE(n_rows) 1
#define PREFETCHES 1
#include "quantize/kernels/kernels_float_loops.h"
