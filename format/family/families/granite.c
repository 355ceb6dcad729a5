/* Granite: dense, with experts, with sliding windows, and hybrid (Granite 4); and Bamba, whose
 * Mamba-2 layers are those of Granite 4. */
#include "format/family/families/families.h"

static const struct sp_mamba_family mamba_hybrid = {SP_MAMBA_HYBRID};

static const struct sp_alias expert_aliases[] = {
    {"mlp.router.weight", "block_sparse_moe.router.layer.weight", NULL, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "block_sparse_moe.input_linear.weight",
                     sp_layout_expert_gate_up),
    {"mlp.experts.down_proj.weight", "block_sparse_moe.output_linear.weight", NULL, 0},
    SP_ALIAS_MLP("mlp.experts", "block_sparse_moe.switch_mlp", NULL),
    {0},
};

static const struct sp_alias swa_expert_aliases[] = {
    {"mlp.router.weight", "block_sparse_moe.router.weight", NULL, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "block_sparse_moe.experts.gate_up_proj",
                     sp_layout_expert_gate_up),
    {"mlp.experts.down_proj.weight", "block_sparse_moe.experts.down_proj", NULL, 0},
    {0},
};

/* The dense MLP of a layer without experts, or the one in parallel to them. */
static const struct sp_alias shared_mlp_aliases[] = {
    SP_ALIAS_GATE_UP("mlp", "shared_mlp.input_linear.weight", sp_layout_gate_up),
    {"mlp.down_proj.weight", "shared_mlp.output_linear.weight", NULL, 0},
    {"mlp.gate_proj.weight", NULL, NULL, 0},
    {"mlp.up_proj.weight", NULL, NULL, 0},
    {"mlp.down_proj.weight", NULL, NULL, 0},
    SP_ALIAS_GATE_UP("mlp.shared_expert", "shared_mlp.input_linear.weight", sp_layout_gate_up),
    {"mlp.shared_expert.down_proj.weight", "shared_mlp.output_linear.weight", NULL, 0},
    {"mlp.shared_expert.*", NULL, NULL, 0},
    {0},
};

/* The beginning of the members of all Granites. */
#define GGUF_MULTIPLIERS                                                                           \
    {SP_PUT_FLOAT, "attention_multiplier", "attention.scale", NULL},                               \
        {SP_PUT_FLOAT, "embedding_multiplier", "embedding_scale", NULL},                           \
        {SP_PUT_FLOAT, "residual_multiplier", "residual_scale", NULL},                             \
        {SP_PUT_FLOAT, "logits_scaling", "logit_scale", NULL},                                     \
    {                                                                                              \
        SP_PUT_SIZE, "shared_intermediate_size", "expert_shared_feed_forward_length", NULL         \
    }

static const struct sp_gguf_member granite_members[] = {
    GGUF_MULTIPLIERS,
    {SP_PUT_SIZE, "num_local_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {0},
};

static const struct sp_gguf_member swa_members[] = {
    GGUF_MULTIPLIERS,
    {SP_PUT_SIZE, "num_local_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {SP_PUT_THETAS, NULL, NULL, NULL},
    {0},
};

static const struct sp_gguf_member hybrid_members[] = {
    {SP_PUT_ROTATES, NULL, NULL, NULL},
    {SP_PUT_BY_HEADS, "attention", NULL, "mamba"},
    {SP_PUT_MAMBA, "mamba_expand", NULL, NULL},
    GGUF_MULTIPLIERS,
    {SP_PUT_SIZE, "num_local_experts", "expert_count", "0"},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {0},
};

#define GRANITE_GGUF                                                                               \
    .members = granite_members, .permuted = SP_GGUF_PERMUTED, .sizes_per_layer = true
/* Gate and up of the shared MLP are one matrix. */
#define SWA_GGUF                                                                                   \
    .members = swa_members, .permuted = SP_GGUF_PERMUTED,                                          \
    .names = SP_ROWS(sp_gguf_name, {"ffn_up_shexp", "shared_mlp.input_linear", SP_GGUF_AS_IS})
#define SWA_LAYERS                                                                                 \
    .windows = SP_WINDOWS_SKIP_FIRST_OF_4, .window = 128, .needs_window = true, .sinks = true
#define MOE_LAYERS                                                                                 \
    .mlp_bias = SP_BIAS_NEVER, SP_EXPERT_SIZES(8, 2, 0, 0, 0),                                     \
    .routing = {.law = SP_ROUTE_SOFTMAX_CHOSEN}

const struct sp_family sp_families_granite[] = {
    {
        .name = "granite",
        .architecture = "GraniteForCausalLM",
        .reads = {.multipliers = true},
        .gguf = {.archs = {{.name = "granite"}}, GRANITE_GGUF},
    },
    {
        .name = "granite_swa",
        .architecture = "GraniteSWAForCausalLM",
        .sizes = {100352, 2560, 8192, 24, 20, 4, 0, 8192, 0},
        .norm_eps = 1e-5,
        SWA_LAYERS,
        .tied = true,
        .reads = {.layer_types = true, .multipliers = true, .layer_thetas = true},
        .gguf = {.archs = {{.name = "granite_swa"}}, SWA_GGUF},
    },
    {
        .name = "granitemoe",
        .architecture = "GraniteMoeForCausalLM",
        MOE_LAYERS,
        .reads = {.multipliers = true, .experts = true},
        .aliases = {expert_aliases, swa_expert_aliases},
        .gguf = {.archs = {{.name = "granitemoe"}}, GRANITE_GGUF},
    },
    {
        .name = "granitemoeshared",
        .architecture = "GraniteMoeSharedForCausalLM",
        MOE_LAYERS,
        .expert_keys = {.parallel_width = "shared_intermediate_size"},
        .reads = {.multipliers = true, .experts = true},
        .aliases = {expert_aliases, swa_expert_aliases, shared_mlp_aliases},
        .gguf = {.archs = {{.name = "granitemoe", .with = "expert_shared_feed_forward_length"}},
                 GRANITE_GGUF},
    },
    {
        .name = "granitemoe_swa",
        .architecture = "GraniteMoeSWAForCausalLM",
        MOE_LAYERS,
        SWA_LAYERS,
        .expert_keys = {.parallel_width = "shared_intermediate_size"},
        .reads = {.layer_types = true, .multipliers = true, .experts = true, .layer_thetas = true},
        .aliases = {swa_expert_aliases, shared_mlp_aliases},
        .gguf = {.archs = {{.name = "granite_swa", .with = "expert_count"}}, SWA_GGUF},
    },
    {
        .name = "granitemoehybrid",
        .architecture = "GraniteMoeHybridForCausalLM",
        .sizes = {32000, 4096, 1024, 32, 32, 0, 0, 2048, 0},
        .ffn_key = "shared_intermediate_size",
        .rotation_stated = true,
        .mamba = &mamba_hybrid,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.width = "intermediate_size"},
        SP_EXPERT_SIZES(8, 2, 11008, 0, 0),
        .parallel_ffn = true,
        .routing = {.law = SP_ROUTE_SOFTMAX_CHOSEN},
        .reads = {.layer_types = true, .multipliers = true, .experts = true},
        .aliases = {expert_aliases, swa_expert_aliases, shared_mlp_aliases, sp_aliases_mamba},
        .gguf = {.archs = {{.name = "granitehybrid"}},
                 .members = hybrid_members,
                 .permuted = SP_GGUF_PERMUTED,
                 .sizes_per_layer = true},
    },
    {
        .name = "bamba",
        .architecture = "BambaForCausalLM",
        .sizes = {128000, 4096, 14336, 32, 32, 8, 0, 262144, 0},
        .norm_eps = 1e-5,
        .partial_rotary = 0.5,
        .partial_inside = true,
        .attention_list = "attn_layer_indices",
        .mamba = &mamba_hybrid,
        .reads = {.layer_types = true},
        .aliases = {sp_aliases_mamba, sp_aliases_feed_forward},
    },
    {.name = NULL},
};
