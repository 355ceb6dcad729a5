/* struct sp_vector and its caches with NEON: the primitives and the loops over them. */
#include "quantize/simd/simd_neon.h"
#include "runtime/vector/vector_loops.h"
#include "runtime/vector/vector_q8_loops.h"

const struct sp_vector sp_vector_neon = SP_VECTOR_TABLE("neon", kv_tables);
