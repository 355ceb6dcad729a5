/* Products of the types that keep the codes of a source with AMX over emulated tiles. */
#include <immintrin.h>

#include "tests/quantize/emulated_amx.h"
#define sp_groupwise_amx emulated_groupwise_amx
#include "quantize/kernels/kernels_groupwise_amx.c"
