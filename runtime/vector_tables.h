/* The tables behind sp_vector_find, one per instruction set. */
#ifndef SP_RUNTIME_VECTOR_TABLES_H
#define SP_RUNTIME_VECTOR_TABLES_H

#include "runtime/vector.h"

extern const struct sp_vector sp_vector_ref;
#if defined(__x86_64__)
extern const struct sp_vector sp_vector_avx2, sp_vector_avx512;
#endif

#endif
