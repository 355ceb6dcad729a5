/* struct sp_vector and its caches with AVX-512: the primitives and the loops over them. */
#include "quantize/simd/simd_avx512.h"
#include "runtime/vector/vector_loops.h"
#include "runtime/vector/vector_q8_loops.h"

const struct sp_vector sp_vector_avx512 = SP_VECTOR_TABLE("avx512", kv_tables);
