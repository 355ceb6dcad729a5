/* Encoders, whose tokens see all tokens of a text: ModernBERT and EuroBERT. They have no output
 * matrix that text generation could use; sentence-transformers makes embeddings of them. */
#include "format/model/config_parts.h"
#include "format/model/families/families.h"

static void see_all_tokens(struct sp_config *c)
{
    c->bidirectional = true;
    for (unsigned i = 0; i < c->n_layers; i++)
        c->layers[i].causal = false;
}

static enum sp_status read_eurobert(struct sp_config *c, const struct sp_config_text *t,
                                    const struct sp_sizes *sizes, struct sp_err *err)
{
    (void)t;
    (void)sizes;
    (void)err;
    see_all_tokens(c);
    return SP_OK;
}

/* local_attention is the width of the window with both sides. Without layer_types every
 * global_attn_every_n_layers-th layer, the first included, has no window. The norm of the embedding
 * is also that of the first layer's attention. */
static enum sp_status read_modernbert(struct sp_config *c, const struct sp_config_text *t,
                                      const struct sp_sizes *sizes, struct sp_err *err)
{
    bool listed = sp_text_get(t, "layer_types") != NULL;
    unsigned every = 3, width = 128;
    enum sp_status st;

    (void)sizes;
    if ((st = sp_text_unsigned(t, "global_attn_every_n_layers", 1, SP_CAP_LAYERS, &every, err)) ||
        (st = sp_text_unsigned(t, "local_attention", 2, SP_CAP_POSITIONS, &width, err)) ||
        (st = sp_text_double(t, "global_rope_theta", 2, 1e15, &c->ropes[0].theta, err)) ||
        (st = sp_text_double(t, "local_rope_theta", 2, 1e15, &c->ropes[1].theta, err)) ||
        (st = sp_text_bool(t, "norm_bias", &c->norm_bias, err))) {
        return st;
    }
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        bool local = listed ? l->window != 0 : i % every != 0;
        l->window = local ? width / 2 + 1 : 0;
        l->rope = local ? 1 : 0;
    }
    c->normed_input = true;
    see_all_tokens(c);
    return SP_OK;
}

static const struct sp_alias modernbert_aliases[] = {
    {"embed_tokens.weight", "embeddings.tok_embeddings.weight", NULL, 0},
    {"embed_norm.*", "embeddings.norm.*", NULL, 0},
    {"norm.*", "final_norm.*", NULL, 0},
    {"input_layernorm.*", "attn_norm.*", NULL, 0},
    {"self_attn.q_proj.*", "attn.Wqkv.*", sp_layout_qkv, 0},
    {"self_attn.k_proj.*", "attn.Wqkv.*", sp_layout_qkv, 1},
    {"self_attn.v_proj.*", "attn.Wqkv.*", sp_layout_qkv, 2},
    {"self_attn.o_proj.*", "attn.Wo.*", NULL, 0},
    {"post_attention_layernorm.*", "mlp_norm.*", NULL, 0},
    {"mlp.gate_proj.*", "mlp.Wi.*", sp_layout_gate_up, 0},
    {"mlp.up_proj.*", "mlp.Wi.*", sp_layout_gate_up, 1},
    {"mlp.down_proj.*", "mlp.Wo.*", NULL, 0},
    {0},
};

const struct sp_family sp_families_encoders[] = {
    {
        .name = "modernbert",
        .architecture = "ModernBertModel",
        .sizes = {.n_vocab = 50368,
                  .n_hidden = 768,
                  .n_ffn = 1152,
                  .n_layers = 22,
                  .n_heads = 12,
                  .max_positions = 8192},
        .norm_eps = 1e-5,
        .norm_eps_key = "norm_eps",
        .norm_centered = true,
        .theta = 160000,
        .local_theta = 1e4,
        .windows = SP_WINDOWS_LISTED,
        .window = 128,
        .activation_key = "hidden_activation",
        .activation = "gelu",
        .tied = true,
        .reads = {.layer_types = true},
        .read_own = read_modernbert,
        .aliases = {modernbert_aliases},
        .prefix = "",
    },
    {
        .name = "eurobert",
        .architecture = "EuroBertModel",
        .sizes = {.n_vocab = 128256,
                  .n_hidden = 768,
                  .n_ffn = 3072,
                  .n_layers = 12,
                  .n_heads = 12,
                  .max_positions = 8192},
        .norm_eps = 1e-5,
        .read_own = read_eurobert,
        .prefix = "",
    },
    {.name = NULL},
};
