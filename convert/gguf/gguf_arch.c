/* Names as in gguf/constants.py and gguf/tensor_mapping.py of llama.cpp; what is done to rows and
 * norms, as in its converter. */
#include "convert/gguf/gguf_arch.h"

#include <string.h>

/* ---- names ---- */

static const struct sp_gguf_name usual[] = {
    {"attn_norm", "input_layernorm", false},
    {"attn_q", "self_attn.q_proj", false},
    {"attn_k", "self_attn.k_proj", false},
    {"attn_v", "self_attn.v_proj", false},
    {"attn_qkv", "self_attn.qkv_proj", false},
    {"attn_output", "self_attn.o_proj", false},
    {"attn_q_norm", "self_attn.q_norm", false},
    {"attn_k_norm", "self_attn.k_norm", false},
    {"ffn_norm", "post_attention_layernorm", false},
    {"ffn_gate", "mlp.gate_proj", false},
    {"ffn_up", "mlp.up_proj", false},
    {"ffn_down", "mlp.down_proj", false},
    {"ffn_gate_inp", "mlp.gate", false},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj", false},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj", false},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj", false},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj", false},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj", false},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj", false},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", false},
    {NULL, NULL, false},
};

/* Norms on both sides of attention and MLP. */
static const struct sp_gguf_name sandwich[] = {
    {"post_attention_norm", "post_attention_layernorm", false},
    {"ffn_norm", "pre_feedforward_layernorm", false},
    {"post_ffw_norm", "post_feedforward_layernorm", false},
    {NULL, NULL, false},
};

static const struct sp_gguf_name phi3[] = {
    {"ffn_up", "mlp.gate_up_proj", false},
    {NULL, NULL, false},
};

/* ffn_up is gate and up; both sublayers have a norm on each side. */
static const struct sp_gguf_name glm4[] = {
    {"ffn_up", "mlp.gate_up_proj", false},
    {"post_attention_norm", "post_self_attn_layernorm", false},
    {"post_ffw_norm", "post_mlp_layernorm", false},
    {NULL, NULL, false},
};

/* The prediction head is one more layer. */
static const struct sp_gguf_name glm4_moe[] = {
    {"post_attention_norm", "post_attention_layernorm", false},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias", true},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj", false},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj", false},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj", false},
    {"nextn.eh_proj", "eh_proj", false},
    {"nextn.enorm", "enorm", false},
    {"nextn.hnorm", "hnorm", false},
    {"nextn.embed_tokens", "embed_tokens", false},
    {"nextn.shared_head_head", "shared_head.head", false},
    {"nextn.shared_head_norm", "shared_head.norm", false},
    {NULL, NULL, false},
};

static const struct sp_gguf_name granite_moe[] = {
    {"ffn_gate_inp", "block_sparse_moe.router.layer", false},
    {"ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj", false},
    {"ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj", false},
    {"ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj", false},
    {NULL, NULL, false},
};

static const struct sp_gguf_name seed_oss[] = {
    {"post_attention_norm", "post_attention_layernorm", false},
    {NULL, NULL, false},
};

static const struct sp_gguf_name gpt_oss[] = {
    {"attn_sinks", "self_attn.sinks", true},
    {"post_attention_norm", "post_attention_layernorm", false},
    {"ffn_gate_inp", "mlp.router", false},
    {"ffn_gate_exps", "mlp.experts.gate_proj", false},
    {"ffn_up_exps", "mlp.experts.up_proj", false},
    {"ffn_down_exps", "mlp.experts.down_proj", false},
    {NULL, NULL, false},
};

/* ---- architectures ---- */

static const struct sp_gguf_arch archs[] = {
    {"llama", "llama", "LlamaForCausalLM", NULL, true, false, false},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", NULL, false, false, false},
    {"qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM", NULL, false, false, false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", NULL, false, false, false},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", NULL, false, false, false},
    {"gemma", "gemma", "GemmaForCausalLM", NULL, false, true, true},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", sandwich, false, true, true},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", sandwich, false, true, true},
    {"phi3", "phi3", "Phi3ForCausalLM", phi3, false, false, false},
    {"smollm3", "smollm3", "SmolLM3ForCausalLM", NULL, true, false, false},
    {"granite", "granite", "GraniteForCausalLM", NULL, true, false, false},
    {"olmo2", "olmo2", "Olmo2ForCausalLM", sandwich, false, false, false},
    {"olmoe", "olmoe", "OlmoeForCausalLM", NULL, false, false, false},
    {"ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM", NULL, false, false, false},
    {"exaone4", "exaone4", "Exaone4ForCausalLM", sandwich, false, false, false},
    {"arcee", "arcee", "ArceeForCausalLM", NULL, true, false, false},
    {"glm4", "glm4", "Glm4ForCausalLM", glm4, false, false, false},
    {"glm4moe", "glm4_moe", "Glm4MoeForCausalLM", glm4_moe, false, false, false},
    {"granitemoe", "granitemoe", "GraniteMoeForCausalLM", granite_moe, true, false, false},
    {"seed_oss", "seed_oss", "SeedOssForCausalLM", seed_oss, false, false, false},
    {"gpt-oss", "gpt_oss", "GptOssForCausalLM", gpt_oss, false, false, false},
};

const struct sp_gguf_arch *sp_gguf_arch_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    }
    return NULL;
}

/* The name of a family stands in front of "For": Gemma3ForCausalLM, Gemma3ForConditionalGeneration.
 */
static bool is_family(const char *class, const char *family, size_t len)
{
    return strncmp(class, family, len) == 0 && strncmp(class + len, "For", 3) == 0;
}

bool sp_gguf_arch_has_class(const struct sp_gguf_arch *arch, const char *name)
{
    const char *end = strstr(arch->architecture, "For");

    if (is_family(name, arch->architecture, (size_t)(end - arch->architecture))) return true;
    if (strcmp(arch->name, "olmo2") == 0) return is_family(name, "Olmo3", 5);
    return strcmp(arch->name, "llama") == 0 &&
           (is_family(name, "Mistral", 7) || is_family(name, "Mixtral", 7));
}

static const struct sp_gguf_name *find(const struct sp_gguf_name *list, const char *ggml,
                                       size_t len)
{
    for (; list && list->ggml; list++) {
        if (strlen(list->ggml) == len && memcmp(list->ggml, ggml, len) == 0) return list;
    }
    return NULL;
}

const struct sp_gguf_name *sp_gguf_arch_name(const struct sp_gguf_arch *arch, const char *ggml,
                                             size_t len)
{
    const struct sp_gguf_name *own = find(arch->names, ggml, len);

    return own ? own : find(usual, ggml, len);
}
