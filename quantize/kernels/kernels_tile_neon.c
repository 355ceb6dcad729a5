/* The encoders' inner loops with NEON: the primitives and the loops over them. */
#include "quantize/simd/simd_neon.h"
#include "quantize/kernels/kernels_fit_loops.h"
#include "quantize/kernels/kernels_tile_loops.h"

const struct sp_tile_kernels sp_tile_neon = SP_TILE_TABLE(sp_gptq_ref);
