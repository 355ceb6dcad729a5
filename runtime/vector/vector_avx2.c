/* struct sp_vector and its caches with AVX2: the primitives and the loops over them. */
#include "quantize/simd/simd_avx2.h"
#include "runtime/vector/vector_loops.h"
#include "runtime/vector/vector_q8_loops.h"

const struct sp_vector sp_vector_avx2 = SP_VECTOR_TABLE("avx2", kv_tables);
