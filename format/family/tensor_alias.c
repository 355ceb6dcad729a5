#include "format/family/tensor_alias.h"

#include <stdio.h>
#include <string.h>

bool sp_alias_matches(const struct sp_alias *alias, const char *canonical)
{
    size_t n = strlen(alias->canonical);

    if (alias->canonical[n - 1] != '*') return strcmp(alias->canonical, canonical) == 0;
    return strncmp(alias->canonical, canonical, n - 1) == 0;
}

void sp_alias_source_name(char *out, size_t size, const char *prefix, const struct sp_alias *alias,
                          const char *canonical)
{
    size_t n = strlen(alias->canonical), k = alias->source ? strlen(alias->source) : 0;

    if (alias->source == NULL)
        snprintf(out, size, "%s%s", prefix, canonical);
    else if (alias->source[k - 1] != '*')
        snprintf(out, size, "%s%s", prefix, alias->source);
    else
        snprintf(out, size, "%s%.*s%s", prefix, (int)(k - 1), alias->source, canonical + n - 1);
}

bool sp_alias_stored_name(char *out, size_t size, const char *prefix,
                          const struct sp_family *family, const char *canonical,
                          sp_layout_fn *layout)
{
    const struct sp_alias *first = NULL;

    for (size_t i = 0; i < SP_MAX_ALIASES && family->aliases[i]; i++) {
        for (const struct sp_alias *a = family->aliases[i]; a->canonical; a++) {
            if (!sp_alias_matches(a, canonical) || (a->source && strchr(a->source, '%'))) continue;
            if (first == NULL) first = a;
            if (a->layout != layout && (layout || a->source)) continue;
            sp_alias_source_name(out, size, prefix, a, canonical);
            return true;
        }
    }
    if (first && layout == NULL)
        sp_alias_source_name(out, size, prefix, first, canonical);
    else
        snprintf(out, size, "%s%s", prefix, canonical);
    return layout == NULL;
}

const struct sp_alias sp_aliases_gate_up[] = {
    SP_ALIAS_GATE_UP("mlp", "mlp.gate_up_proj.weight", sp_layout_gate_up),
    {0},
};

const struct sp_alias sp_aliases_fc[] = {
    {"mlp.up_proj.*", "mlp.fc1.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.fc2.*", NULL, 0},
    {0},
};

const struct sp_alias sp_aliases_interleaved_heads[] = {
    {"self_attn.q_proj.*", NULL, sp_layout_interleaved_heads, 0},
    {"self_attn.k_proj.*", NULL, sp_layout_interleaved_heads, 0},
    {"self_attn.q_norm.weight", NULL, sp_layout_interleaved_heads, 0},
    {"self_attn.k_norm.weight", NULL, sp_layout_interleaved_heads, 0},
    {0},
};

const struct sp_alias sp_aliases_experts[] = {
    {"mlp.router.weight", "mlp.gate.weight", NULL, 0},
    SP_ALIAS_MLP("mlp.experts", "mlp.experts.%u", sp_layout_each_expert),
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj", sp_layout_expert_gate_up),
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj.weight", sp_layout_expert_gate_up),
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", NULL, 0},
    SP_ALIAS_MLP("mlp.experts", "mlp.switch_mlp", NULL),
    {"mlp.experts.*", NULL, NULL, 0},
    {0},
};

const struct sp_alias sp_aliases_block_sparse[] = {
    {"mlp.router.weight", "block_sparse_moe.gate.weight", NULL, 0},
    {"mlp.router.correction", "block_sparse_moe.e_score_correction_bias", NULL, 0},
    SP_ALIAS_W123("mlp.experts", "block_sparse_moe.experts.%u", sp_layout_each_expert),
    SP_ALIAS_MLP("mlp.experts", "block_sparse_moe.switch_mlp", NULL),
    {0},
};

const struct sp_alias sp_aliases_shared_experts[] = {
    {"mlp.router.correction", "mlp.gate.e_score_correction_bias", NULL, 0},
    {"mlp.shared_expert.*", "mlp.shared_experts.*", NULL, 0},
    {0},
};

const struct sp_alias sp_aliases_latent[] = {
    {"self_attn.k_b_proj.weight", "self_attn.kv_b_proj.weight", sp_layout_latent_keys, 0},
    {"self_attn.v_b_proj.weight", "self_attn.kv_b_proj.weight", sp_layout_latent_values, 0},
    {"self_attn.k_b_proj.weight", "self_attn.embed_q.weight", NULL, 0},
    {"self_attn.v_b_proj.weight", "self_attn.unembed_out.weight", NULL, 0},
    {"self_attn.q_proj.weight", NULL, sp_layout_query_tails, 0},
    {"self_attn.q_b_proj.weight", NULL, sp_layout_query_tails, 0},
    {"self_attn.kv_a_proj_with_mqa.*", NULL, sp_layout_key_tail, 0},
    {"self_attn.indexer.wq_b.weight", NULL, sp_layout_index_heads, 0},
    {"self_attn.indexer.wk.weight", NULL, sp_layout_index_heads, 0},
    {"self_attn.indexer.k_norm.*", NULL, sp_layout_index_heads, 0},
    {0},
};

const struct sp_alias sp_aliases_mamba[] = {
    {"mamba.in_proj_z.*", "mamba.in_proj.*", sp_layout_mamba_in_proj, 0},
    {"mamba.in_proj_xbc.*", "mamba.in_proj.*", sp_layout_mamba_in_proj, 1},
    {"mamba.in_proj_dt.*", "mamba.in_proj.*", sp_layout_mamba_in_proj, 2},
    {0},
};

const struct sp_alias sp_aliases_mixer[] = {
    {"embed_tokens.weight", "embeddings.weight", NULL, 0},
    {"embed_tokens.weight", NULL, NULL, 0},
    {"norm.weight", "norm_f.weight", NULL, 0},
    {"input_layernorm.weight", "norm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "norm.weight", NULL, 0},
    {"mamba.in_proj_z.*", "mixer.in_proj.*", sp_layout_mamba_in_proj, 0},
    {"mamba.in_proj_xbc.*", "mixer.in_proj.*", sp_layout_mamba_in_proj, 1},
    {"mamba.in_proj_dt.*", "mixer.in_proj.*", sp_layout_mamba_in_proj, 2},
    {"mamba.conv1d.*", "mixer.conv1d.*", NULL, 0},
    {"mamba.A_log", "mixer.A_log", NULL, 0},
    {"mamba.D", "mixer.D", NULL, 0},
    {"mamba.dt_bias", "mixer.dt_bias", NULL, 0},
    {"mamba.norm.weight", "mixer.norm.weight", NULL, 0},
    {"mamba.out_proj.*", "mixer.out_proj.*", NULL, 0},
    {"self_attn.*", "mixer.*", NULL, 0},
    {"mlp.up_proj.*", "mixer.up_proj.*", NULL, 0},
    {"mlp.down_proj.*", "mixer.down_proj.*", NULL, 0},
    {"mlp.router.weight", "mixer.gate.weight", NULL, 0},
    {"mlp.router.correction", "mixer.gate.e_score_correction_bias", NULL, 0},
    {"mlp.experts.up_proj.weight", "mixer.experts.%u.up_proj.weight", sp_layout_each_expert, 0},
    {"mlp.experts.up_proj.weight", "mixer.experts.up_proj", NULL, 0},
    {"mlp.experts.down_proj.weight", "mixer.experts.%u.down_proj.weight", sp_layout_each_expert, 0},
    {"mlp.experts.down_proj.weight", "mixer.experts.down_proj", NULL, 0},
    {"mlp.experts.up_proj.weight", "mixer.switch_mlp.fc1.weight", NULL, 0},
    {"mlp.experts.down_proj.weight", "mixer.switch_mlp.fc2.weight", NULL, 0},
    {"mlp.shared_expert.*", "mixer.shared_experts.*", NULL, 0},
    {"mlp.latent_in.weight", "mixer.fc1_latent_proj.weight", NULL, 0},
    {"mlp.latent_out.weight", "mixer.fc2_latent_proj.weight", NULL, 0},
    {0},
};

const struct sp_alias sp_aliases_feed_forward[] = {
    {"norm.weight", "final_layernorm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "pre_ff_layernorm.weight", NULL, 0},
    {"mlp.*", "feed_forward.*", NULL, 0},
    {0},
};

const struct sp_alias sp_aliases_next_layer[] = {
    {"fc.weight", "eh_proj.weight", NULL, 0},
    {"pre_fc_norm_embedding.weight", "enorm.weight", NULL, 0},
    {"pre_fc_norm_hidden.weight", "hnorm.weight", NULL, 0},
    {"norm.weight", "shared_head.norm.weight", NULL, 0},
    {"norm.weight", "transformer.shared_head.norm.weight", NULL, 0}, /* Step */
    {0},
};

const struct sp_alias sp_aliases_next_final[] = {
    {"fc.weight", "eh_proj.weight", NULL, 0},
    {"pre_fc_norm_embedding.weight", "enorm.weight", NULL, 0},
    {"pre_fc_norm_hidden.weight", "hnorm.weight", NULL, 0},
    {"norm.weight", "final_layernorm.weight", NULL, 0},
    {0},
};
