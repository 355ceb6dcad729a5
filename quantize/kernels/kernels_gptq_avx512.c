/* GPTQ's loops compiled for AVX-512: kernels_gptq.h. */
#include "quantize/kernels/kernels_gptq.h"

const struct sp_gptq_kernels sp_gptq_avx512 = {accumulate, decompose, encode};
