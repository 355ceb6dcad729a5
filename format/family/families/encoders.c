/* Encoders, whose tokens see all tokens of a text: BERT, RoBERTa, XLM-RoBERTa, Nomic BERT,
 * ModernBERT and EuroBERT. They have no output matrix that text generation could use;
 * sentence-transformers makes embeddings of them. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <string.h>

static void see_all_tokens(struct sp_config *c)
{
    c->bidirectional = true;
    for (unsigned i = 0; i < c->n_layers; i++)
        c->layers[i].causal = false;
}

static void read_eurobert(struct sp_config *c, const struct sp_config_text *t)
{
    (void)t;
    see_all_tokens(c);
}

/* local_attention is the width of the window with both sides. Without layer_types every
 * global_attn_every_n_layers-th layer, the first included, has no window. The norm of the embedding
 * is also that of the first layer's attention. */
static void read_modernbert(struct sp_config *c, const struct sp_config_text *t)
{
    bool listed = sp_text_get(t, "layer_types") != NULL;
    unsigned every = 3, width = 128;

    sp_text_unsigned(t, "global_attn_every_n_layers", 1, SP_CAP_LAYERS, &every);
    sp_text_unsigned(t, "local_attention", 2, SP_CAP_POSITIONS, &width);
    sp_text_double(t, "global_rope_theta", 2, 1e15, &c->ropes[0].theta);
    sp_text_double(t, "local_rope_theta", 2, 1e15, &c->ropes[1].theta);
    sp_text_bool(t, "norm_bias", &c->norm_bias);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        bool local = listed ? l->window != 0 : i % every != 0;
        l->window = local ? width / 2 + 1 : 0;
        l->rope = local ? 1 : 0;
    }
    c->normed_input = c->first_unnormed = true;
    see_all_tokens(c);
}

/* A causal ModernBERT, which has a dense layer before its head. */
static void read_modernbert_decoder(struct sp_config *c, const struct sp_config_text *t)
{
    read_modernbert(c, t);
    c->head_dense = c->head_bias = true;
    c->bidirectional = c->headless = false;
    for (unsigned i = 0; i < c->n_layers; i++) {
        c->layers[i].causal = true;
        if (c->layers[i].window) c->layers[i].window--;
    }
    sp_text_bool(t, "decoder_bias", &c->head_bias);
}

/* Learned positions, of which RoBERTa's begin after the id of the padding. All tokens are of the
 * first type. */
static void read_table_sizes(struct sp_config *c, const struct sp_config_text *t,
                             unsigned first_position)
{
    const char *kind = "absolute";
    bool decoder = false;

    c->n_token_types = 2;
    sp_text_string(t, "position_embedding_type", &kind);
    sp_text_bool(t, "is_decoder", &decoder);
    sp_text_unsigned(t, "type_vocab_size", 1, SP_CAP_VOCAB, &c->n_token_types);
    if (strcmp(kind, "absolute") != 0)
        SP_REFUSED(t, "position_embedding_type \"%s\" is not supported", kind);
    if (decoder) SP_REFUSED(t, "is_decoder true is not supported");
    if (first_position >= c->max_positions) {
        SP_INVALID(t, "max_position_embeddings %u, of which the first %u are unused",
                   c->max_positions, first_position);
    }
    c->n_positions_table = c->max_positions;
    c->first_position = first_position;
    c->max_positions -= first_position;
    c->normed_input = true;
    see_all_tokens(c);
}

static void read_bert(struct sp_config *c, const struct sp_config_text *t)
{
    read_table_sizes(c, t, 0);
}

static void read_roberta(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned padding = 1;

    sp_text_unsigned(t, "pad_token_id", 0, SP_CAP_VOCAB, &padding);
    read_table_sizes(c, t, padding + 1);
}

/* The keys of nomic's own code state a theta, and variants of the block that transformers' class
 * does not have. */
static void read_nomic(struct sp_config *c, const struct sp_config_text *t)
{
    static const char *const variants[] = {
        "prenorm",      "qkv_proj_bias",          "mlp_fc1_bias", "mlp_fc2_bias",
        "use_rms_norm", "rotary_emb_interleaved", "causal",
    };
    const struct {
        const char *key;
        unsigned value;
    } own_sizes[] = {
        {"n_embd", t->sizes->n_hidden},
        {"n_head", t->sizes->n_heads},
        {"n_layer", t->sizes->n_layers},
        {"n_inner", t->sizes->n_ffn},
    };
    const char *activation = "swiglu";
    double rotated = 1;
    unsigned every = 0;

    for (size_t i = 0; i < sizeof own_sizes / sizeof *own_sizes; i++) {
        unsigned n = own_sizes[i].value;
        sp_text_unsigned(t, own_sizes[i].key, 0, UINT_MAX, &n);
        if (n != own_sizes[i].value)
            SP_REFUSED(t, "%s is %u, supported is %u", own_sizes[i].key, n, own_sizes[i].value);
    }
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        bool on = false;
        sp_text_bool(t, variants[i], &on);
        if (on) SP_REFUSED(t, "%s true is not supported", variants[i]);
    }
    sp_text_unsigned(t, "moe_every_n_layers", 0, SP_CAP_LAYERS, &every);
    if (every) SP_REFUSED(t, "moe_every_n_layers is not supported");
    sp_text_string(t, "activation_function", &activation);
    sp_text_double(t, "rotary_emb_fraction", 0, 1, &rotated);
    sp_text_double(t, "layer_norm_epsilon", 1e-30, 1, &c->norm_eps);
    if (strcmp(activation, "swiglu") != 0 || rotated < 1) {
        SP_REFUSED(t, "activation_function %s with rotary_emb_fraction %g is not supported",
                   activation, rotated);
    }
    c->n_token_types = 2;
    c->normed_input = true;
    see_all_tokens(c);
    sp_text_unsigned(t, "type_vocab_size", 1, SP_CAP_VOCAB, &c->n_token_types);
    sp_text_double(t, "rotary_emb_base", 2, 1e15, &c->ropes[0].theta);
}

static const struct sp_alias bert_aliases[] = {
    {"embed_tokens.weight", "embeddings.word_embeddings.weight", NULL, 0},
    {"embed_positions.weight", "embeddings.position_embeddings.weight", NULL, 0},
    {"embed_token_types.weight", "embeddings.token_type_embeddings.weight", NULL, 0},
    {"embed_norm.*", "embeddings.LayerNorm.*", NULL, 0},
    {"embed_norm.weight", "embeddings.LayerNorm.gamma", NULL, 0},
    {"embed_norm.bias", "embeddings.LayerNorm.beta", NULL, 0},
    {"self_attn.q_proj.*", "attention.self.query.*", NULL, 0},
    {"self_attn.k_proj.*", "attention.self.key.*", NULL, 0},
    {"self_attn.v_proj.*", "attention.self.value.*", NULL, 0},
    SP_ALIAS_QKV(".*", "attention.self.qkv.*", sp_layout_qkv), /* of GGUF files */
    {"self_attn.o_proj.*", "attention.output.dense.*", NULL, 0},
    {"post_attention_layernorm.*", "attention.output.LayerNorm.*", NULL, 0},
    {"post_attention_layernorm.weight", "attention.output.LayerNorm.gamma", NULL, 0},
    {"post_attention_layernorm.bias", "attention.output.LayerNorm.beta", NULL, 0},
    {"mlp.up_proj.*", "intermediate.dense.*", NULL, 0},
    {"mlp.down_proj.*", "output.dense.*", NULL, 0},
    {"post_feedforward_layernorm.*", "output.LayerNorm.*", NULL, 0},
    {"post_feedforward_layernorm.weight", "output.LayerNorm.gamma", NULL, 0},
    {"post_feedforward_layernorm.bias", "output.LayerNorm.beta", NULL, 0},
    {0},
};

/* The names of transformers, or those of nomic's own code. */
static const struct sp_alias nomic_aliases[] = {
    {"embed_tokens.weight", "embeddings.word_embeddings.weight", NULL, 0},
    {"embed_token_types.weight", "embeddings.token_type_embeddings.weight", NULL, 0},
    {"embed_norm.*", "embeddings.LayerNorm.*", NULL, 0},
    {"embed_norm.*", "emb_ln.*", NULL, 0},
    SP_ALIAS_QKV(".*", NULL, NULL),
    SP_ALIAS_QKV(".*", "attn.Wqkv.*", sp_layout_qkv),
    {"self_attn.o_proj.*", NULL, NULL, 0},
    {"self_attn.o_proj.*", "attn.out_proj.*", NULL, 0},
    {"post_attention_layernorm.*", NULL, NULL, 0},
    {"post_attention_layernorm.*", "norm1.*", NULL, 0},
    {"mlp.gate_proj.*", NULL, NULL, 0},
    {"mlp.gate_proj.*", "mlp.fc12.*", NULL, 0},
    {"mlp.up_proj.*", NULL, NULL, 0},
    {"mlp.up_proj.*", "mlp.fc11.*", NULL, 0},
    {"mlp.down_proj.*", NULL, NULL, 0},
    {"mlp.down_proj.*", "mlp.fc2.*", NULL, 0},
    {"post_feedforward_layernorm.*", "post_mlp_layernorm.*", NULL, 0},
    {"post_feedforward_layernorm.*", "norm2.*", NULL, 0},
    {0},
};

static const struct sp_alias modernbert_aliases[] = {
    {"embed_tokens.weight", "embeddings.tok_embeddings.weight", NULL, 0},
    {"embed_norm.*", "embeddings.norm.*", NULL, 0},
    {"norm.*", "final_norm.*", NULL, 0},
    {"input_layernorm.*", "attn_norm.*", NULL, 0},
    SP_ALIAS_QKV(".*", "attn.Wqkv.*", sp_layout_qkv),
    {"self_attn.o_proj.*", "attn.Wo.*", NULL, 0},
    {"post_attention_layernorm.*", "mlp_norm.*", NULL, 0},
    {"mlp.gate_proj.*", "mlp.Wi.*", sp_layout_gate_up, 0},
    {"mlp.up_proj.*", "mlp.Wi.*", sp_layout_gate_up, 1},
    {"mlp.down_proj.*", "mlp.Wo.*", NULL, 0},
    {0},
};

static const struct sp_gguf_member bert_members[] = {
    {SP_PUT_BERT, NULL, NULL, NULL},
    {0},
};

/* A reranker's head, as XLM-RoBERTa and ModernBERT have it. */
static const struct sp_gguf_name classifier_names[] = {
    {"cls", "classifier.dense", SP_GGUF_AS_IS},
    {"cls.norm", "head.norm", SP_GGUF_AS_IS},
    {"cls.output", "classifier.out_proj", SP_GGUF_ROWS},
    {0},
};

/* RoBERTa differs from BERT in its vocabulary and in where its table of positions begins, and
 * XLM-RoBERTa from RoBERTa in its vocabulary alone. */
#define BERT(family, class, vocabulary, read, arch)                                                \
    {                                                                                              \
        .name = (family), .architecture = (class),                                                 \
        .sizes = {(vocabulary), 768, 3072, 12, 12, 0, 0, 512, 0},                                  \
        SP_LAYER_NORM(1e-12, "layer_norm_eps"), .norms = SP_NORM_RESIDUAL, .unrotated = true,      \
        .biases = SP_BIAS_ALWAYS, .activation = "gelu", .plain_mlp = true, .tied = true,           \
        .read_own = (read), .aliases = {bert_aliases}, .layers = "encoder.layer.", .prefix = "",   \
        .unread = "pooler.",                                                                       \
        .gguf = {.archs = {{.name = (arch)}}, .members = bert_members, .names = classifier_names}, \
    }

#define MODERN_BERT                                                                                \
    .sizes = {50368, 768, 1152, 22, 12, 0, 0, 8192, 0}, .norm_eps = 1e-5,                          \
    .norm_eps_key = "norm_eps", .norm_centered = true, .theta = 160000, .local_theta = 1e4,        \
    .windows = SP_WINDOWS_LISTED, .window = 128, .activation_key = "hidden_activation",            \
    .activation = "gelu", .tied = true, .reads = {.layer_types = true}

const struct sp_family sp_families_encoders[] = {
    BERT("bert", "BertModel", 30522, read_bert, "bert"),
    BERT("roberta", "RobertaModel", 50265, read_roberta, NULL),
    BERT("xlm-roberta", "XLMRobertaModel", 250002, read_roberta, NULL),
    {
        .name = "nomic_bert",
        .architecture = "NomicBertModel",
        .sizes = {30528, 768, 3072, 12, 12, 0, 0, 2048, 0},
        SP_LAYER_NORM(1e-12, "layer_norm_eps"),
        .norms = SP_NORM_RESIDUAL,
        .theta = 1000,
        .biases = SP_BIAS_NEVER,
        .tied = true,
        .read_own = read_nomic,
        .aliases = {nomic_aliases},
        .old_layers = "encoder.layers.",
        .prefix = "",
        .unread = "pooler.",
        .gguf = {.archs = {{.name = "nomic-bert"}}, .members = bert_members},
    },
    {
        .name = "modernbert",
        .architecture = "ModernBertModel",
        MODERN_BERT,
        .read_own = read_modernbert,
        .aliases = {modernbert_aliases},
        .prefix = "",
        .gguf = {.archs = {{.name = "modern-bert"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_MODERNBERT, NULL, NULL, NULL}),
                 .names = classifier_names},
    },
    {
        .name = "modernbert-decoder",
        .architecture = "ModernBertDecoderForCausalLM",
        MODERN_BERT,
        .rope_by_type = true,
        .read_own = read_modernbert_decoder,
        .aliases = {SP_ROWS(sp_alias, {"self_attn.o_proj.*", "attn.Wo.*", NULL, 0},
                            {"self_attn.*", "attn.*", NULL, 0},
                            {"lm_head.bias", "decoder.bias", NULL, 0}),
                    modernbert_aliases},
        .head = "decoder.weight",
    },
    {
        .name = "eurobert",
        .architecture = "EuroBertModel",
        .sizes = {128256, 768, 3072, 12, 12, 0, 0, 8192, 0},
        .norm_eps = 1e-5,
        .read_own = read_eurobert,
        .prefix = "",
        .gguf = {.archs = {{.name = "eurobert"}}},
    },
    {.name = NULL},
};
