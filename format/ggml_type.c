/* The table of the types that GGUF files hold. */
#include "format/ggml_type.h"

#include <stddef.h>

static const struct sp_ggml_type_info types[SP_GGML_N_TYPES] = {
    [SP_GGML_F32] = {"f32", 1, 4, 0},
    [SP_GGML_F16] = {"f16", 1, 2, 0},
    [SP_GGML_Q4_0] = {"q4_0", 32, 18, 4},
    [SP_GGML_Q4_1] = {"q4_1", 32, 20, 4},
    [4] = {"q4_2", 0, 0, 0},
    [5] = {"q4_3", 0, 0, 0},
    [SP_GGML_Q5_0] = {"q5_0", 32, 22, 5},
    [SP_GGML_Q5_1] = {"q5_1", 32, 24, 5},
    [SP_GGML_Q8_0] = {"q8_0", 32, 34, 8},
    [9] = {"q8_1", 0, 0, 0},
    [SP_GGML_Q2_K] = {"q2_k", 256, 84, 2},
    [SP_GGML_Q3_K] = {"q3_k", 256, 110, 3},
    [SP_GGML_Q4_K] = {"q4_k", 256, 144, 4},
    [SP_GGML_Q5_K] = {"q5_k", 256, 176, 5},
    [SP_GGML_Q6_K] = {"q6_k", 256, 210, 6},
    [15] = {"q8_k", 0, 0, 0},
    [SP_GGML_IQ2_XXS] = {"iq2_xxs", 256, 66, 2},
    [SP_GGML_IQ2_XS] = {"iq2_xs", 256, 74, 2},
    [SP_GGML_IQ3_XXS] = {"iq3_xxs", 256, 98, 3},
    [SP_GGML_IQ1_S] = {"iq1_s", 256, 50, 2},
    [SP_GGML_IQ4_NL] = {"iq4_nl", 32, 18, 4},
    [SP_GGML_IQ3_S] = {"iq3_s", 256, 110, 3},
    [SP_GGML_IQ2_S] = {"iq2_s", 256, 82, 2},
    [SP_GGML_IQ4_XS] = {"iq4_xs", 256, 136, 4},
    [24] = {"i8", 0, 0, 0},
    [25] = {"i16", 0, 0, 0},
    [26] = {"i32", 0, 0, 0},
    [27] = {"i64", 0, 0, 0},
    [28] = {"f64", 0, 0, 0},
    [SP_GGML_IQ1_M] = {"iq1_m", 256, 56, 2},
    [SP_GGML_BF16] = {"bf16", 1, 2, 0},
    [31] = {"q4_0_4_4", 0, 0, 0},
    [32] = {"q4_0_4_8", 0, 0, 0},
    [33] = {"q4_0_8_8", 0, 0, 0},
    [SP_GGML_TQ1_0] = {"tq1_0", 256, 54, 2},
    [SP_GGML_TQ2_0] = {"tq2_0", 256, 66, 2},
    [36] = {"iq4_nl_4_4", 0, 0, 0},
    [37] = {"iq4_nl_4_8", 0, 0, 0},
    [38] = {"iq4_nl_8_8", 0, 0, 0},
    [SP_GGML_MXFP4] = {"mxfp4", 32, 17, 4},
    [SP_GGML_NVFP4] = {"nvfp4", 64, 36, 4},
    [SP_GGML_Q1_0] = {"q1_0", 128, 18, 1},
    [SP_GGML_Q2_0] = {"q2_0", 64, 18, 2},
};

const struct sp_ggml_type_info *sp_ggml_type_info(uint32_t type)
{
    static const struct sp_ggml_type_info unknown = {NULL, 0, 0, 0};

    return type < SP_GGML_N_TYPES ? &types[type] : &unknown;
}

bool sp_ggml_size(uint64_t *out, uint32_t type, uint64_t rows, uint64_t cols)
{
    const struct sp_ggml_type_info *info = sp_ggml_type_info(type);
    uint64_t blocks;

    if (info->block == 0 || cols % info->block) return false;
    blocks = cols / info->block;
    if (blocks && rows > UINT64_MAX / blocks) return false;
    if (rows * blocks > UINT64_MAX / info->size) return false;
    *out = rows * blocks * info->size;
    return true;
}
