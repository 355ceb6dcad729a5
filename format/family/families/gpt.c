/* The families that came before Llama: GPT-2 and those built like it, with LayerNorm, biases and an
 * MLP without a gate. Their positions are learned, rotated, or ALiBi. Sources: their configuration
 * and modeling files in transformers 5.24. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <math.h>
#include <string.h>

/* ---- layouts ---- */

/* Columns of a matrix that is stored with inputs as rows; or elements of its bias. */
static enum sp_status take_columns(const struct sp_alias_source *s, uint64_t first, uint64_t n_all)
{
    bool matrix = s->spec->rank == 2;
    const uint64_t n_in = matrix ? s->spec->shape[1] : 1;
    const uint64_t shape[] = {matrix ? n_in : n_all, n_all};
    struct sp_row_span span = sp_rows(first, s->spec->shape[0], n_in);

    span.transposed = matrix;
    return sp_tensor_match_take(s, shape, s->spec->rank, span);
}

static enum sp_status layout_columns(const struct sp_alias_source *s)
{
    return take_columns(s, 0, s->spec->shape[0]);
}

/* q, k and v, of one width. */
static enum sp_status layout_qkv_columns(const struct sp_alias_source *s)
{
    uint64_t n = s->spec->shape[0];

    return take_columns(s, s->part * n, 3 * n);
}

/* q, v and k of four groups of heads, one group after another. In q and k, neighboring rows rotate
 * together. */
static enum sp_status layout_codegen(const struct sp_alias_source *s)
{
    const struct sp_tensor_spec *spec = s->spec;
    const struct sp_layer_config *l = s->layer;
    const uint64_t d = l->head_dim, n_cols = spec->shape[1], group = spec->shape[0] / 4;
    const uint64_t shape[] = {3 * spec->shape[0], n_cols};
    const uint64_t n_rot = s->part == 1 ? 0 : s->match->config->ropes[l->rope].n_rot;
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, s, shape, 2)) || !found) return st;
    for (uint64_t row = 0; st == SP_OK && row < spec->shape[0]; row += d) {
        uint64_t first = (row / group * 3 + s->part) * group + row % group;
        st = sp_layout_add_head(s, first, d, 0, n_rot);
    }
    return st;
}

/* ---- names ---- */

static const struct sp_alias gpt2_aliases[] = {
    SP_ALIAS_QKV(".*", "attn.c_attn.*", layout_qkv_columns),
    {"self_attn.o_proj.*", "attn.c_proj.*", layout_columns, 0},
    {"mlp.up_proj.*", "mlp.c_fc.*", layout_columns, 0},
    {"mlp.down_proj.*", "mlp.c_proj.*", layout_columns, 0},
    {0},
};

/* Of GGUF files, whose converter puts all queries before all keys, and outputs before inputs. */
static const struct sp_alias gguf_aliases[] = {
    SP_ALIAS_QKV(".*", "self_attn.qkv_proj.*", sp_layout_qkv),
    {"self_attn.o_proj.*", NULL, NULL, 0},
    {"mlp.*", NULL, NULL, 0},
    {0},
};

static const struct sp_alias bigcode_aliases[] = {
    SP_ALIAS_QKV(".*", "attn.c_attn.*", sp_layout_qkv),
    {"self_attn.o_proj.*", "attn.c_proj.*", NULL, 0},
    {"mlp.up_proj.*", "mlp.c_fc.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.c_proj.*", NULL, 0},
    {0},
};

static const struct sp_alias gptj_aliases[] = {
    {"self_attn.q_proj.*", "attn.q_proj.*", sp_layout_interleaved_heads, 0},
    {"self_attn.k_proj.*", "attn.k_proj.*", sp_layout_interleaved_heads, 0},
    {"self_attn.v_proj.*", "attn.v_proj.*", NULL, 0},
    {"self_attn.o_proj.*", "attn.out_proj.*", NULL, 0},
    {"mlp.up_proj.*", "mlp.fc_in.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.fc_out.*", NULL, 0},
    {0},
};

static const struct sp_alias neo_aliases[] = {
    {"self_attn.o_proj.*", "attn.attention.out_proj.*", NULL, 0},
    {"self_attn.*", "attn.attention.*", NULL, 0},
    {"mlp.up_proj.*", "mlp.c_fc.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.c_proj.*", NULL, 0},
    {0},
};

/* Outside of the sublayers. */
static const struct sp_alias outer_aliases[] = {
    {"embed_tokens.weight", "wte.weight", NULL, 0},
    {"embed_positions.weight", "wpe.weight", NULL, 0},
    {"norm.*", "ln_f.*", NULL, 0},
    {"input_layernorm.*", "ln_1.*", NULL, 0},
    {"post_attention_layernorm.*", "ln_2.*", NULL, 0},
    {0},
};

static const struct sp_alias persimmon_aliases[] = {
    {"norm.*", "final_layernorm.*", NULL, 0},
    SP_ALIAS_QKV(".*", "self_attn.query_key_value.*", sp_layout_grouped_qkv),
    {"self_attn.q_norm.*", "self_attn.q_layernorm.*", NULL, 0},
    {"self_attn.k_norm.*", "self_attn.k_layernorm.*", NULL, 0},
    {"self_attn.o_proj.*", "self_attn.dense.*", NULL, 0},
    {"mlp.up_proj.*", "mlp.dense_h_to_4h.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.dense_4h_to_h.*", NULL, 0},
    {0},
};

static const struct sp_alias neox_aliases[] = {
    {"embed_tokens.weight", "embed_in.weight", NULL, 0},
    {"norm.*", "final_layer_norm.*", NULL, 0},
    SP_ALIAS_QKV(".*", "attention.query_key_value.*", sp_layout_grouped_qkv),
    {"self_attn.o_proj.*", "attention.dense.*", NULL, 0},
    {"mlp.up_proj.*", "mlp.dense_h_to_4h.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.dense_4h_to_h.*", NULL, 0},
    {0},
};

/* Of layers with two norms side by side: ln_attn and ln_mlp. */
static const struct sp_alias falcon_aliases[] = {
    {"embed_tokens.weight", "word_embeddings.weight", NULL, 0},
    {"embed_norm.*", "word_embeddings_layernorm.*", NULL, 0},
    {"norm.*", "ln_f.*", NULL, 0},
    {"input_layernorm.*", NULL, NULL, 0},
    {"input_layernorm.*", "ln_attn.*", NULL, 0},
    {"post_attention_layernorm.*", NULL, NULL, 0},
    {"post_attention_layernorm.*", "ln_mlp.*", NULL, 0},
    SP_ALIAS_QKV(".*", "self_attention.query_key_value.*", sp_layout_grouped_qkv),
    {"self_attn.o_proj.*", "self_attention.dense.*", NULL, 0},
    {"mlp.up_proj.*", "mlp.dense_h_to_4h.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.dense_4h_to_h.*", NULL, 0},
    {0},
};

static const struct sp_alias mpt_aliases[] = {
    {"embed_tokens.weight", "wte.weight", NULL, 0},
    {"norm.*", "norm_f.*", NULL, 0},
    {"input_layernorm.*", "norm_1.*", NULL, 0},
    {"post_attention_layernorm.*", "norm_2.*", NULL, 0},
    SP_ALIAS_QKV(".*", "attn.Wqkv.*", sp_layout_qkv),
    {"self_attn.o_proj.*", "attn.out_proj.*", NULL, 0},
    {"mlp.*", "ffn.*", NULL, 0},
    {0},
};

static const struct sp_alias opt_aliases[] = {
    {"norm.*", "final_layer_norm.*", NULL, 0},
    {"norm.*", "layer_norm.*", NULL, 0},
    {"input_layernorm.*", "self_attn_layer_norm.*", NULL, 0},
    {"post_attention_layernorm.*", "final_layer_norm.*", NULL, 0},
    {"self_attn.o_proj.*", "self_attn.out_proj.*", NULL, 0},
    {"mlp.up_proj.*", "fc1.*", NULL, 0},
    {"mlp.down_proj.*", "fc2.*", NULL, 0},
    {0},
};

/* ---- keys ---- */

static const struct sp_key_name gpt_keys[] = {
    {"n_embd", "hidden_size"},
    {"n_embed", "hidden_size"},
    {"d_model", "hidden_size"},
    {"n_head", "num_attention_heads"},
    {"n_heads", "num_attention_heads"},
    {"num_heads", "num_attention_heads"},
    {"attention_heads", "num_attention_heads"},
    {"n_layer", "num_hidden_layers"},
    {"n_layers", "num_hidden_layers"},
    {"num_layers", "num_hidden_layers"},
    {"n_inner", "intermediate_size"},
    {"n_positions", "max_position_embeddings"},
    {"max_seq_len", "max_position_embeddings"},
    {"seq_length", "max_position_embeddings"},
    {"layer_norm_epsilon", "layer_norm_eps"},
    {"intermediate_size", "ffn_hidden_size"},
    {"rotary_pct", "partial_rotary_factor"},
    {"rotary_emb_base", "rope_theta"},
    {0},
};

/* Refuses a switch that is not as it must be; those of the first list must be off. */
static void read_switches(struct sp_config *c, const struct sp_config_text *t)
{
    static const char *const keys[][5] = {
        {"scale_attn_by_inverse_layer_idx", "add_cross_attention", "_remove_final_layer_norm",
         "apply_residual_connection_post_layernorm"},
        {"scale_attn_weights", "do_layer_norm_before", "enable_bias",
         "layer_norm_elementwise_affine", "no_bias"},
    };

    (void)c;
    for (size_t i = 0; i < 2 * 5; i++) {
        const char *key = keys[i / 5][i % 5];
        bool wanted = i / 5 != 0, on = wanted;
        if (key == NULL) continue;
        sp_text_bool(t, key, &on);
        if (on != wanted)
            SP_REFUSED(t, "%s %s is not supported for %s", key, on ? "true" : "false",
                       t->family->name);
    }
}

/* One K/V head for all query heads, or one for each. */
static void read_gpt2(struct sp_config *c, const struct sp_config_text *t)
{
    bool shared = t->sizes->n_kv_heads == 1, wanted = shared;

    sp_text_bool(t, "multi_query", &shared);
    c->n_positions_table = c->max_positions;
    if (shared != wanted) SP_REFUSED(t, "multi_query is not supported for %s", t->family->name);
    read_switches(c, t);
}

/* The first two rows of the table belong to padding. */
static void read_opt(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned width = t->sizes->n_hidden;

    sp_text_unsigned(t, "word_embed_proj_dim", 1, SP_CAP_WIDTH, &width);
    c->n_positions_table = c->max_positions + 2;
    c->first_position = 2;
    if (width != t->sizes->n_hidden)
        SP_REFUSED(t, "word_embed_proj_dim %u is not hidden_size %u", width, t->sizes->n_hidden);
    read_switches(c, t);
}

/* attention_types: [[["global", "local"], 12]], each list as often as the number says. Queries are
 * not scaled. */
static void read_neo(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *types = sp_text_get(t, "attention_types");
    unsigned window = 256, layer = 0;

    c->n_positions_table = c->max_positions;
    c->attention_scale = 1;
    c->qkv_bias = false;
    sp_text_unsigned(t, "window_size", 1, SP_CAP_POSITIONS, &window);
    for (size_t i = 0; i < sp_json_len(types); i++) {
        const struct sp_json *names = sp_json_at(sp_json_at(types, i), 0);
        uint64_t n = 0, len = sp_json_len(names);
        (void)sp_json_to_u64(sp_json_at(sp_json_at(types, i), 1), &n);
        for (uint64_t k = 0; layer < c->n_layers && n <= SP_CAP_LAYERS && k < n * len; k++) {
            if (strcmp(sp_text_at(names, k % len), "local") == 0) c->layers[layer].window = window;
            layer++;
        }
    }
    for (; types == NULL && layer < c->n_layers; layer++)
        if (layer % 2) c->layers[layer].window = window;
    if (layer != c->n_layers)
        SP_INVALID(t, "attention_types has %u layers, expected %u", layer, c->n_layers);
}

/* The positions are sines and cosines, whose first two rows belong to padding. */
static void read_xglm(struct sp_config *c, const struct sp_config_text *t)
{
    bool scaled = true;

    sp_text_bool(t, "scale_embedding", &scaled);
    c->sinusoidal = true;
    if (scaled) c->embedding_scale = sqrt(t->sizes->n_hidden);
    read_opt(c, t);
}

/* The biases of ALiBi are products of numbers in bfloat16, and are scaled as scores are. */
static void read_falcon(struct sp_config *c, const struct sp_config_text *t)
{
    bool grouped = false, one = true, alibi = false;
    unsigned n = t->sizes->n_heads, n_norms = 2;

    sp_text_bool(t, "new_decoder_architecture", &grouped);
    sp_text_bool(t, "multi_query", &one);
    sp_text_unsigned(t, "num_kv_heads", 1, t->sizes->n_heads, &n);
    sp_text_unsigned(t, "num_ln_in_parallel_attn", 1, 2, &n_norms);
    sp_text_bool(t, "alibi", &alibi);
    read_switches(c, t);
    c->alibi_rounded = alibi;
    if (alibi) c->alibi = 8;
    if (!grouped) n = one ? 1 : t->sizes->n_heads;
    if (t->sizes->n_heads % n != 0)
        SP_INVALID(t, "num_kv_heads %u does not divide %u", n, t->sizes->n_heads);
    if (grouped && c->norms == SP_NORM_PARALLEL && n_norms == 2) c->norms = SP_NORM_TWIN;
    for (unsigned i = 0; i < c->n_layers; i++) {
        c->layers[i].n_kv_heads = n;
        c->layers[i].norms = c->norms;
        if (alibi) c->layers[i].rope = -1;
    }
}

static void read_bloom(struct sp_config *c, const struct sp_config_text *t)
{
    c->alibi = 8;
    c->normed_input = true;
    read_switches(c, t);
}

/* alibi_bias_max is read as in MosaicML's own code; transformers does not. */
static void read_mpt(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *attention = sp_text_get(t, "attn_config");
    bool alibi = true, normed = false, prefix = false;
    const char *type = "multihead_attention";

    c->alibi = 8;
    sp_member_bool(t, attention, "alibi", &alibi);
    sp_member_bool(t, attention, "qk_ln", &normed);
    sp_member_bool(t, attention, "prefix_lm", &prefix);
    sp_member_string(t, attention, "attn_type", &type);
    sp_member_double(t, attention, "alibi_bias_max", 1e-3, 64, &c->alibi);
    sp_member_double(t, attention, "clip_qkv", 1e-6, 1e6, &c->qkv_limit);
    sp_member_double(t, attention, "softmax_scale", 1e-6, 1e6, &c->attention_scale);
    if (!alibi || normed || prefix || strcmp(type, "multihead_attention") != 0)
        SP_REFUSED(t, "attn_config is supported with alibi and without qk_ln, prefix_lm and "
                      "multi-query attention");
    read_switches(c, t);
}

#define GGUF(arch)                                                                                 \
    .gguf = {.archs = {{.name = (arch)}},                                                          \
             .members =                                                                            \
                 SP_ROWS(sp_gguf_member, {SP_PUT_NOTHING, NULL, "tensor_data_layout", NULL})}

/* LayerNorm, and an MLP of four times the width without a gate. */
#define GPT(family, class, read, ...)                                                              \
    {                                                                                              \
        .name = (family), .architecture = (class), .read_own = (read), .ffn_factor = 4,            \
        .norm_eps = 1e-5, .norm_eps_key = "layer_norm_eps", .norm_centered = true,                 \
        .plain_mlp = true, .key_names = gpt_keys, __VA_ARGS__                                      \
    }

#define BLOCKS .layers = "h.", .prefix = "transformer."
#define LEARNED .unrotated = true, .biases = SP_BIAS_ALWAYS, .norm_bias = true, .tied = true
#define NAMED .activation_key = "activation_function"
#define GPTJ                                                                                       \
    .sizes = {50400, 4096, 16384, 28, 16, 0, 0, 2048, 0}, .norms = SP_NORM_PARALLEL,               \
    .norm_bias = true, .partial_rotary = 0.25, .rotary_dim = true, .qkv_bias = SP_BIAS_NEVER,      \
    .o_bias = SP_BIAS_NEVER, .mlp_bias = SP_BIAS_ALWAYS, NAMED, .activation = "gelu_new",          \
    .head_bias = true, BLOCKS

const struct sp_family sp_families_gpt[] = {
    GPT("gpt2", "GPT2LMHeadModel", read_gpt2, .sizes = {50257, 768, 3072, 12, 12, 0, 0, 1024, 0},
        LEARNED, BLOCKS, NAMED, .activation = "gelu_new",
        .aliases = {gpt2_aliases, outer_aliases, gguf_aliases}, GGUF("gpt2")),
    GPT("gpt_bigcode", "GPTBigCodeForCausalLM", read_gpt2,
        .sizes = {50257, 768, 3072, 12, 12, 1, 0, 1024, 0}, LEARNED, BLOCKS, NAMED,
        .activation = "gelu_pytorch_tanh", .aliases = {bigcode_aliases, outer_aliases},
        GGUF("starcoder")),
    GPT("opt", "OPTForCausalLM", read_opt, .sizes = {50272, 768, 3072, 12, 12, 0, 0, 2048, 0},
        LEARNED, NAMED, .activation = "relu", .ffn_key = "ffn_dim", .aliases = {opt_aliases},
        .prefix = "model.decoder."),
    GPT("gpt_neo", "GPTNeoForCausalLM", read_neo,
        .sizes = {50257, 2048, 8192, 24, 16, 0, 0, 2048, 0}, LEARNED, BLOCKS, NAMED,
        .activation = "gelu_new", .aliases = {neo_aliases, outer_aliases}),
    GPT("xglm", "XGLMForCausalLM", read_xglm, .sizes = {256008, 1024, 4096, 24, 16, 0, 0, 2048, 0},
        LEARNED, NAMED, .activation = "gelu", .ffn_key = "ffn_dim", .aliases = {opt_aliases}),
    GPT("bloom", "BloomForCausalLM", read_bloom, .sizes = {250880, 64, 256, 2, 8, 0, 0, 2048, 0},
        LEARNED, BLOCKS, .activation_key = "", .activation = "gelu_pytorch_tanh",
        .aliases = {falcon_aliases, gguf_aliases}, GGUF("bloom")),
    GPT("mpt", "MptForCausalLM", read_mpt, .sizes = {50368, 2048, 8192, 24, 16, 0, 0, 2048, 0},
        .unrotated = true, .biases = SP_BIAS_NEVER, .tied = true, .activation_key = "",
        .activation = "gelu", .aliases = {mpt_aliases}, .layers = "blocks.",
        .prefix = "transformer."),
    GPT("gptj", "GPTJForCausalLM", read_switches, GPTJ, .aliases = {gptj_aliases, outer_aliases}),
    GPT("codegen", "CodeGenForCausalLM", read_switches, GPTJ,
        .aliases = {SP_ROWS(sp_alias,
                            {"self_attn.q_proj.weight", "attn.qkv_proj.weight", layout_codegen, 0},
                            {"self_attn.v_proj.weight", "attn.qkv_proj.weight", layout_codegen, 1},
                            {"self_attn.k_proj.weight", "attn.qkv_proj.weight", layout_codegen, 2}),
                    gptj_aliases, outer_aliases}),
    GPT("gpt_neox", "GPTNeoXForCausalLM", read_switches,
        .sizes = {50432, 6144, 24576, 44, 64, 0, 0, 2048, 0}, .norms = SP_NORM_TWIN,
        .norm_bias = true, .parallel_key = "use_parallel_residual", .partial_rotary = 0.25,
        .attention_bias = true, .mlp_bias = SP_BIAS_ALWAYS, .activation = "gelu",
        .aliases = {neox_aliases, gguf_aliases}, .prefix = "gpt_neox.", .head = "embed_out.weight",
        .gguf = {.archs = {{.name = "gptneox"}},
                 .members = SP_ROWS(
                     sp_gguf_member, {SP_PUT_ROTARY, NULL, NULL, "1"},
                     {SP_PUT_FLAG, "use_parallel_residual", "use_parallel_residual", "true"})}),
    GPT("persimmon", "PersimmonForCausalLM", read_switches,
        .sizes = {262144, 4096, 16384, 36, 64, 0, 0, 16384, 0}, .norm_bias = true,
        .qk_norm = SP_QK_SHARED, .qk_norm_key = "qk_layernorm", .qk_normed = true,
        .partial_rotary = 0.5, .biases = SP_BIAS_ALWAYS, .activation = "relu2",
        .aliases = {persimmon_aliases}),
    GPT("falcon", "FalconForCausalLM", read_falcon,
        .sizes = {65024, 4544, 18176, 32, 71, 0, 0, 2048, 0}, .norms = SP_NORM_PARALLEL,
        .norm_bias = true, .parallel_key = "parallel_attn", .ffn_key = "ffn_hidden_size",
        .bias_key = "bias", .activation_key = "activation", .activation = "gelu", .tied = true,
        .own_keys = "alibi", .aliases = {falcon_aliases, gguf_aliases}, BLOCKS, GGUF("falcon")),
    {.name = NULL},
};
