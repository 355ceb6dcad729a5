#include "format/family/families/families.h"

#include "format/family/family_table.h"

const struct sp_family *const sp_lineages[] = {
    sp_families_cohere,  sp_families_deepseek, sp_families_encoders,    sp_families_ernie,
    sp_families_exaone,  sp_families_falcon,   sp_families_gemma,       sp_families_gemma4,
    sp_families_gemma3n, sp_families_mimo,     sp_families_glm,         sp_families_gpt,
    sp_families_gpt_oss, sp_families_granite,  sp_families_hunyuan,     sp_families_indexed,
    sp_families_inkling, sp_families_kimi,     sp_families_lfm,         sp_families_llama,
    sp_families_llama4,  sp_families_longcat,  sp_families_mamba1,      sp_families_mamba2,
    sp_families_minimax, sp_families_mistral,  sp_families_nemotron,    sp_families_olmo,
    sp_families_phi,     sp_families_qwen,     sp_families_small,       sp_families_muse,
    sp_families_sparse,  sp_families_looped,   sp_families_deepseek_v4, NULL,
};
