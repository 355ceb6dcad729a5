/* Products of floats with AVX2. There are 16 registers, of which 8 rows fill all with sums. */
#include "quantize/simd/simd_avx2.h"
#define FLOATS sp_floats_avx2
#define MAX_ROWS 8
#define WIDE(n_rows) 1
#define PREFETCHES 0
#include "quantize/kernels/kernels_float_loops.h"
