/* Matrix products with AVX-512 VNNI alone, for CPUs without VBMI (Cascade Lake, Cooper Lake): their
 * byte lookups are those of AVX2. */
#define DPBUSD _mm256_dpbusd_epi32
#include "quantize/kernels_vnni256.h"

const struct sp_kernels sp_kernels_avx512vnni = {
    .name = "avx512vnni",
    .quantize_row = sp_avx2_quantize_row,
    .matmul =
        {
            [SP_F32] = sp_avx2_matmul_f32,
            [SP_F16] = sp_avx2_matmul_f16,
            [SP_BF16] = sp_avx2_matmul_bf16,
            [SP_Q8] = matmul_q8,
            [SP_Q4] = matmul_q4,
            [SP_Q2] = matmul_q2,
            [SP_Q3] = matmul_q3,
            [SP_Q5] = matmul_q5,
            [SP_Q6] = matmul_q6,
        },
    .tile = &sp_tile_avx2,
};
