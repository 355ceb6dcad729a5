/* GPTQ's loops compiled for any machine: kernels_gptq.h. */
#include "quantize/kernels/kernels_gptq.h"

const struct sp_gptq_kernels sp_gptq_ref = {accumulate, decompose, encode};
