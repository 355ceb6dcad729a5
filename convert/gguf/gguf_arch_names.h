/* The lists of tensor names that the architectures refer to. For gguf_arch.c. */
#ifndef SP_CONVERT_GGUF_GGUF_ARCH_NAMES_H
#define SP_CONVERT_GGUF_GGUF_ARCH_NAMES_H

#include "convert/gguf/gguf_arch.h"

/* Each ends with a row of zeros. */
extern const struct sp_gguf_name sp_gguf_names_usual[];
extern const struct sp_gguf_name sp_gguf_names_sandwich[];
extern const struct sp_gguf_name sp_gguf_names_phi3[];
extern const struct sp_gguf_name sp_gguf_names_glm4[];
extern const struct sp_gguf_name sp_gguf_names_glm4_moe[];
extern const struct sp_gguf_name sp_gguf_names_granite_moe[];
extern const struct sp_gguf_name sp_gguf_names_seed_oss[];
extern const struct sp_gguf_name sp_gguf_names_gpt_oss[];
extern const struct sp_gguf_name sp_gguf_names_deepseek2[];
extern const struct sp_gguf_name sp_gguf_names_delta[];
extern const struct sp_gguf_name sp_gguf_names_gemma4[];
extern const struct sp_gguf_name sp_gguf_names_dots1[];
extern const struct sp_gguf_name sp_gguf_names_afmoe[];
extern const struct sp_gguf_name sp_gguf_names_exaone_moe[];
extern const struct sp_gguf_name sp_gguf_names_ernie_moe[];
extern const struct sp_gguf_name sp_gguf_names_hunyuan[];
extern const struct sp_gguf_name sp_gguf_names_hunyuan_moe[];
extern const struct sp_gguf_name sp_gguf_names_apertus[];
extern const struct sp_gguf_name sp_gguf_values_xielu[];
extern const struct sp_gguf_name sp_gguf_names_granite_swa[];
extern const struct sp_gguf_name sp_gguf_names_stablelm[];
extern const struct sp_gguf_name sp_gguf_names_starcoder2[];
extern const struct sp_gguf_name sp_gguf_names_lfm2[];
extern const struct sp_gguf_name sp_gguf_names_granite_hybrid[];
extern const struct sp_gguf_name sp_gguf_names_falcon_h1[];
extern const struct sp_gguf_name sp_gguf_names_mixer[];
extern const struct sp_gguf_name sp_gguf_names_bert[];
extern const struct sp_gguf_name sp_gguf_names_nomic_bert[];
extern const struct sp_gguf_name sp_gguf_names_modernbert[];

#endif
