/* The encoders' inner loops with AVX-512: the primitives and the loops over them. */
#include "quantize/simd/simd_avx512.h"
#include "quantize/kernels/kernels_fit_loops.h"
#include "quantize/kernels/kernels_tile_loops.h"

const struct sp_tile_kernels sp_tile_avx512 = SP_TILE_TABLE(sp_gptq_avx512);
