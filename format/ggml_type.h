/* The types of tensors in GGUF files: their numbers, names and block sizes, as in ggml.h and in
 * gguf/constants.py of llama.cpp. A row consists of whole blocks.
 *
 * Types that this program does not read are listed as well, so that a message can name them. */
#ifndef SP_FORMAT_GGML_TYPE_H
#define SP_FORMAT_GGML_TYPE_H

#include <stdbool.h>
#include <stdint.h>

enum sp_ggml_type {
    SP_GGML_F32 = 0,
    SP_GGML_F16 = 1,
    SP_GGML_Q4_0 = 2,
    SP_GGML_Q4_1 = 3,
    SP_GGML_Q5_0 = 6,
    SP_GGML_Q5_1 = 7,
    SP_GGML_Q8_0 = 8,
    SP_GGML_Q2_K = 10,
    SP_GGML_Q3_K = 11,
    SP_GGML_Q4_K = 12,
    SP_GGML_Q5_K = 13,
    SP_GGML_Q6_K = 14,
    SP_GGML_IQ2_XXS = 16,
    SP_GGML_IQ2_XS = 17,
    SP_GGML_IQ3_XXS = 18,
    SP_GGML_IQ1_S = 19,
    SP_GGML_IQ4_NL = 20,
    SP_GGML_IQ3_S = 21,
    SP_GGML_IQ2_S = 22,
    SP_GGML_IQ4_XS = 23,
    SP_GGML_IQ1_M = 29,
    SP_GGML_BF16 = 30,
    SP_GGML_TQ1_0 = 34,
    SP_GGML_TQ2_0 = 35,
    SP_GGML_MXFP4 = 39,
    SP_GGML_NVFP4 = 40,
    SP_GGML_Q1_0 = 41,
    SP_GGML_Q2_0 = 42,
    SP_GGML_N_TYPES = 43, /* numbers from here on have no name */
};

enum { SP_GGML_MAX_BLOCK = 256 }; /* elements of the longest block */

struct sp_ggml_type_info {
    const char *name;   /* "q4_k"; NULL: no type has this number; static */
    unsigned block;     /* elements of a block; 0: the type is not read */
    unsigned size;      /* bytes of a block */
    unsigned code_bits; /* bits of a weight without its scales; 0: a plain float */
};

/* The row of a type; one without a name if the number is unknown. */
const struct sp_ggml_type_info *sp_ggml_type_info(uint32_t type);

/* Bytes of `rows` rows of `cols` elements; false if the type is not read, if `cols` is not a
 * multiple of its block, or on overflow. */
bool sp_ggml_size(uint64_t *out, uint32_t type, uint64_t rows, uint64_t cols);

#endif
