/* format/family/family.h: models. Small ones are listed tensor by tensor. The golden checkpoints
 * show that every row of every tensor is used exactly once. */
#include "format/family/config_parse.h"
#include "format/family/family.h"

#include <unistd.h>

#include "format/safetensors.h"
#include "tests/support/tensor_match.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#define BIASED "{\"model_type\": \"llama\", \"attention_bias\": true, " SIZES "}"
#define WHOLE EMBED ", " HEAD ", " BODY("model.")

TEST(plain_model)
{
    struct match *m = match_accepted(LLAMA, WHOLE);

    assert_int_equal(m->specs.n_specs, 12);
    assert_int_equal(m->n_skipped, 0);
    assert_false(m->compare_equal);
    assert_false(m->config.tied);
    for (size_t i = 1; i < m->specs.n_specs; i++)
        assert_true(strcmp(m->specs.specs[i - 1].name, m->specs.specs[i].name) < 0);
    match_assert_spans(m, "embed_tokens.weight", "model.embed_tokens.weight 0:1:8x4");
    match_assert_spans(m, "lm_head.weight", "lm_head.weight 0:1:8x4");
    match_assert_spans(m, "norm.weight", "model.norm.weight 0:1:1x4");
    match_assert_spans(m, "@mlp.down_proj.weight", "@mlp.down_proj.weight 0:1:4x6");
    assert_int_equal(sp_specs_find(&m->specs, "embed_tokens.weight")->role, SP_ROLE_EMBEDDING);
    assert_int_equal(sp_specs_find(&m->specs, "lm_head.weight")->role, SP_ROLE_HEAD);
    assert_null(sp_specs_find(&m->specs, "layers.1.mlp.down_proj.weight"));
}

/* Names that transformers writes with save_original_format=False, or mlx-lm; and a prediction head,
 * which is not counted as left out. */
TEST(other_names)
{
    struct match *m = match_accepted(
        "{\"model_type\": \"granitemoe\", \"num_local_experts\": 2, \"num_experts_per_tok\": 1, "
        "\"tie_word_embeddings\": false, " SIZES "}",
        EMBED
        ", " HEAD ", model.norm.weight 4, @input_layernorm.weight 4, @self_attn.q_proj.weight 4 4, "
        "@self_attn.k_proj.weight 2 4, @self_attn.v_proj.weight 2 4, @self_attn.o_proj.weight 4 4, "
        "@post_attention_layernorm.weight 4, @block_sparse_moe.router.weight 2 4, "
        "@block_sparse_moe.experts.gate_up_proj 2 12 4, @block_sparse_moe.experts.down_proj 2 4 6");

    match_assert_spans(m, "@mlp.experts.down_proj.weight",
                       "@block_sparse_moe.experts.down_proj 0:1:8x6");
    m = match_accepted(
        "{\"model_type\": \"mellum\", \"mlp_layer_types\": [\"dense\"], \"tie_word_embeddings\": "
        "false, " SIZES "}",
        WHOLE ", @self_attn.q_norm.weight 2, @self_attn.k_norm.weight 2, mtp.fc.weight 4 8");
    assert_int_equal(m->n_skipped, 0);
}

TEST(prefixes)
{
    static const char *const lists[] = {
        "embed_tokens.weight 8 4, " HEAD ", " BODY(""),
        "language_model.model.embed_tokens.weight 8 4, language_model.lm_head.weight 8 4, " BODY(
            "language_model.model."),
        "model.language_model.embed_tokens.weight 8 4, " HEAD ", " BODY("model.language_model."),
        "model.language_model.model.embed_tokens.weight 8 4, model.lm_head.weight 8 4, " BODY(
            "model.language_model.model."),
    };
    struct match *m;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        m = match_open(LLAMA, lists[i]);
        match_add_tensors(m, "vision_tower.layers.0.self_attn.q_proj.weight 9 9, "
                             "model.visual.patch_embed.weight 3, multi_modal_projector.linear 2 2, "
                             "model.vision_tower.std 8, @self_attn.rotary_emb.inv_freq 8");
        match_run(m);
        assert_string_equal(m->err.text, "");
        assert_int_equal(m->specs.n_specs, 12);
        assert_int_equal(m->n_skipped, 5);
    }
    match_assert_refused(LLAMA, WHOLE ", norm.weight 4", SP_E_INPUT,
                         "two text models, with tensors under \"\" and under \"model.\"");
    match_assert_refused(LLAMA, "bert.norm.weight 4", SP_E_INPUT,
                         "no text model: no tensor \"norm.weight\" under any known prefix");
    match_assert_refused(LLAMA, "embed_tokens.weight 8 4, " BODY(""), SP_E_INPUT,
                         "missing tensor \"lm_head.weight\": this is the export of a base model");
}

/* Combinations of the output matrix and the embedding in the file with the config's flag. */
TEST(tied_embeddings)
{
    static const char *const flags[] = {"", ", \"tie_word_embeddings\": false",
                                        ", \"tie_word_embeddings\": true"};
    /* Indexed by [flag][tensors in the file: embedding, head, both]. t: tied, u: untied, h: tied,
     * and the embedding is read from the head, c: the bytes decide, e: an error. */
    static const char *const expected[] = {"thu", "teu", "thc"};
    struct match *m;

    for (int flag = 0; flag < 3; flag++) {
        for (int what = 0; what < 3; what++) {
            char config[512], wanted = expected[flag][what];
            snprintf(config, sizeof config, "{\"model_type\": \"llama\", " SIZES "%s}",
                     flags[flag]);
            m = match_open(config, BODY("model."));
            if (what != 1) match_add_tensors(m, EMBED);
            if (what != 0) match_add_tensors(m, HEAD);
            match_run(m);
            if (wanted == 'e') {
                assert_string_equal(m->err.text, "missing tensor \"model.embed_tokens.weight\", "
                                                 "and tie_word_embeddings is false");
                continue;
            }
            assert_string_equal(m->err.text, "");
            assert_int_equal(m->config.tied, wanted == 't' || wanted == 'h');
            assert_int_equal(m->compare_equal, wanted == 'c');
            assert_int_equal(m->specs.n_specs, m->config.tied ? 11 : 12);
            if (wanted == 'h')
                match_assert_spans(m, "embed_tokens.weight", "lm_head.weight 0:1:8x4");
            if (wanted == 'c') {
                sp_specs_share_head(&m->specs, &m->config);
                assert_true(m->config.tied);
                assert_int_equal(m->specs.n_specs, 11);
                assert_null(sp_specs_find(&m->specs, "lm_head.weight"));
                assert_non_null(sp_specs_find(&m->specs, "norm.weight"));
            }
        }
    }
}

TEST(mismatches_are_reported)
{
    match_assert_refused(LLAMA, EMBED ", " HEAD ", model.norm.weight 5, " LAYER("model."),
                         SP_E_INPUT, "tensor \"model.norm.weight\" has shape [5], expected [4]");
    match_assert_refused(LLAMA, "model.embed_tokens.weight 9 4, " HEAD ", " BODY("model."),
                         SP_E_INPUT,
                         "tensor \"model.embed_tokens.weight\" has shape [9, 4], expected [8, 4]");
    match_assert_refused(
        LLAMA, WHOLE ", model.layers.1.mlp.up_proj.weight 6 4", SP_E_INPUT,
        "unexpected tensor \"model.layers.1.mlp.up_proj.weight\": the config has 1 layers");
    match_assert_refused(LLAMA, WHOLE ", @self_attn.q_norm.weight 2", SP_E_INPUT,
                         "unexpected tensor \"@self_attn.q_norm.weight\"");
    match_assert_refused(LLAMA, WHOLE ", lm_head.bias 8", SP_E_INPUT,
                         "unexpected tensor \"lm_head.bias\": the config has no such bias");
    match_assert_refused(
        LLAMA, WHOLE ", @self_attn.q_proj.bias 4", SP_E_INPUT,
        "unexpected tensor \"@self_attn.q_proj.bias\": the config has no such bias");
    match_assert_refused(
        BIASED, WHOLE, SP_E_INPUT,
        "missing tensor \"@self_attn.k_proj.bias\" [2]; missing tensor \"@self_attn.o_proj.bias\" "
        "[4]; missing tensor \"@self_attn.q_proj.bias\" [4]; missing tensor "
        "\"@self_attn.v_proj.bias\" [2]");
    match_assert_refused(LLAMA, WHOLE ", @mlp.up_proj.qweight 1 1", SP_E_INPUT,
                         "unexpected tensor \"@mlp.up_proj.qweight\"");
    match_assert_refused(LLAMA, WHOLE ", model.fc.weight 4 8", SP_E_INPUT,
                         "tensor \"fc.weight\" belongs to a draft, but architecture is \"\"");
}

/* The first mismatches are named, and the others are counted. */
TEST(many_findings)
{
    struct match *m = match_open("{\"model_type\": \"llama\"}", "model.norm.weight 4096, " EMBED);

    match_run(m);
    assert_int_equal(m->status, SP_E_INPUT);
    assert_memory_equal(m->err.text, "tensor \"model.embed_tokens.weight\" has shape [8, 4], ", 52);
    assert_non_null(
        strstr(m->err.text, "missing tensor \"model.layers.0.input_layernorm.weight\" [4096]; "));
    assert_non_null(strstr(m->err.text, "; and 279 more")); /* 1 + 32 * 9, ten are named */

    m = match_open(
        "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 4096, \"num_experts\": 16384}",
        "model.norm.weight 2048, model.embed_tokens.weight 151936 2048");
    match_run(m);
    assert_int_equal(m->status, SP_E_INPUT);
    assert_non_null(strstr(m->err.text, " at least"));
}

TEST(scalar)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 3, \"hidden_size\": 1, \"head_dim\": 2, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"intermediate_size\": 1, "
        "\"tie_word_embeddings\": true}";
    struct match *m = match_accepted(
        config,
        "model.embed_tokens.weight 3 1, model.norm.weight, @input_layernorm.weight 1, "
        "@post_attention_layernorm.weight, @self_attn.q_proj.weight 2 1, @self_attn.k_proj.weight "
        "2 1, @self_attn.v_proj.weight 2 1, @self_attn.o_proj.weight 1 2, @mlp.gate_proj.weight 1 "
        "1, @mlp.up_proj.weight 1 1, @mlp.down_proj.weight 1 1");

    match_assert_spans(m, "norm.weight", "model.norm.weight 0:1:1x1");
}

#define ATTENTION(p)                                                                               \
    p "input_layernorm.weight 4, " p "self_attn.q_proj.weight 4 4, " p                             \
      "self_attn.k_proj.weight 2 4, " p "self_attn.v_proj.weight 2 4, " p                          \
      "self_attn.o_proj.weight 4 4, " p "post_attention_layernorm.weight 4"

TEST(fused_rows)
{
    struct match *m = match_accepted(
        "{\"model_type\": \"phi3\", " SIZES "}",
        EMBED ", " HEAD
              ", model.norm.weight 4, @input_layernorm.weight 4, @post_attention_layernorm.weight "
              "4, @self_attn.qkv_proj.weight 8 4, @self_attn.o_proj.weight 4 4, "
              "@mlp.gate_up_proj.weight 12 4, @mlp.down_proj.weight 4 6");
    assert_int_equal(m->specs.n_specs, 12);
    match_assert_spans(m, "@self_attn.q_proj.weight", "@self_attn.qkv_proj.weight 0:1:4x4");
    match_assert_spans(m, "@self_attn.k_proj.weight", "@self_attn.qkv_proj.weight 4:1:2x4");
    match_assert_spans(m, "@self_attn.v_proj.weight", "@self_attn.qkv_proj.weight 6:1:2x4");
    match_assert_spans(m, "@mlp.gate_proj.weight", "@mlp.gate_up_proj.weight 0:1:6x4");
    match_assert_spans(m, "@mlp.up_proj.weight", "@mlp.gate_up_proj.weight 6:1:6x4");
}

/* Two heads of 8 on one key/value head. Half of each head rotates. */
#define PAIRED                                                                                     \
    "{\"model_type\": \"glm\", \"vocab_size\": 8, \"hidden_size\": 4, \"num_hidden_layers\": 1, "  \
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 8, "                    \
    "\"intermediate_size\": 6}"

TEST(paired_rows)
{
    struct match *m = match_accepted(
        PAIRED, EMBED
        ", " HEAD
        ", model.norm.weight 4, @input_layernorm.weight 4, @post_attention_layernorm.weight 4, "
        "@self_attn.q_proj.weight 16 4, @self_attn.k_proj.weight 8 4, @self_attn.v_proj.weight 8 "
        "4, @self_attn.q_proj.bias 16, @self_attn.k_proj.bias 8, @self_attn.v_proj.bias 8, "
        "@self_attn.o_proj.weight 4 16, @mlp.gate_up_proj.weight 12 4, @mlp.down_proj.weight 4 6");

    match_assert_spans(m, "@self_attn.q_proj.weight",
                       "@self_attn.q_proj.weight 0:2:2x4 1:2:2x4 4:1:4x4 8:2:2x4 9:2:2x4 12:1:4x4");
    match_assert_spans(m, "@self_attn.k_proj.bias",
                       "@self_attn.k_proj.bias 0:2:2x1 1:2:2x1 4:1:4x1");
    match_assert_spans(m, "@self_attn.v_proj.weight", "@self_attn.v_proj.weight 0:1:8x4");
}

#define MOE                                                                                        \
    "{\"model_type\": \"qwen3_moe\", \"num_experts\": 2, \"num_experts_per_tok\": 1, "             \
    "\"moe_intermediate_size\": 3, " SIZES "}"
#define MOE_REST                                                                                   \
    EMBED ", " HEAD ", model.norm.weight 4, " ATTENTION("@") ", @self_attn.q_norm.weight 2, "      \
                                                             "@self_attn.k_norm.weight 2, "        \
                                                             "@mlp.gate.weight 2 4, "

TEST(experts_stored_separately)
{
    struct match *m = match_accepted(
        MOE, MOE_REST "@mlp.experts.0.gate_proj.weight 3 4, @mlp.experts.0.up_proj.weight 3 4, "
                      "@mlp.experts.0.down_proj.weight 4 3, @mlp.experts.1.gate_proj.weight 3 4, "
                      "@mlp.experts.1.up_proj.weight 3 4, @mlp.experts.1.down_proj.weight 4 3");
    match_assert_spans(m, "@mlp.router.weight", "@mlp.gate.weight 0:1:2x4");
    match_assert_spans(
        m, "@mlp.experts.up_proj.weight",
        "@mlp.experts.0.up_proj.weight 0:1:3x4, @mlp.experts.1.up_proj.weight 0:1:3x4");
    assert_int_equal(sp_specs_find(&m->specs, "layers.0.mlp.experts.down_proj.weight")->rank, 3);
    assert_int_equal(sp_specs_find(&m->specs, "layers.0.mlp.router.weight")->role, SP_ROLE_ROUTER);

    match_assert_refused(MOE,
                         MOE_REST
                         "@mlp.experts.0.gate_proj.weight 3 4, @mlp.experts.0.up_proj.weight 3 4, "
                         "@mlp.experts.0.down_proj.weight 4 3, @mlp.experts.1.gate_proj.weight 3 "
                         "5, @mlp.experts.1.up_proj.weight 3 4",
                         SP_E_INPUT,
                         "missing tensor \"@mlp.experts.1.down_proj.weight\" [4, 3]; tensor "
                         "\"@mlp.experts.1.gate_proj.weight\" has shape [3, 5], expected [3, 4]");
}

TEST(experts_fused)
{
    struct match *m = match_accepted(
        MOE, MOE_REST "@mlp.experts.gate_up_proj 2 6 4, @mlp.experts.down_proj 2 4 3");

    match_assert_spans(m, "@mlp.experts.gate_proj.weight",
                       "@mlp.experts.gate_up_proj 0:1:3x4 6:1:3x4");
    match_assert_spans(m, "@mlp.experts.up_proj.weight",
                       "@mlp.experts.gate_up_proj 3:1:3x4 9:1:3x4");
    match_assert_spans(m, "@mlp.experts.down_proj.weight", "@mlp.experts.down_proj 0:1:8x3");
}

#define OSS                                                                                        \
    "{\"model_type\": \"gpt_oss\", \"num_local_experts\": 2, \"num_experts_per_tok\": 1, " SIZES "}"
#define OSS_REST                                                                                   \
    EMBED ", " HEAD                                                                                \
          ", model.norm.weight 4, " ATTENTION("@") ", @self_attn.q_proj.bias 4, "                  \
                                                   "@self_attn.k_proj.bias 2, "                    \
                                                   "@self_attn.v_proj.bias 2, "                    \
                                                   "@self_attn.o_proj.bias 4, "                    \
                                                   "@self_attn.sinks 2, @mlp.router.weight 2 "     \
                                                   "4, @mlp.router.bias 2, "

/* One full layer and one delta layer: 1 key head of 2, 2 value heads of 3, 2 taps; 10 channels. */
#define HYBRID                                                                                     \
    "{\"model_type\": \"qwen3_5_text\", \"rope_theta\": 1e4, \"vocab_size\": 8, \"hidden_size\": " \
    "4, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "        \
    "\"head_dim\": 8, \"intermediate_size\": 6, \"full_attention_interval\": 2, "                  \
    "\"linear_num_key_heads\": 1, \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 2, "     \
    "\"linear_value_head_dim\": 3, \"linear_conv_kernel_dim\": 2}"
#define NORMS(p) p "input_layernorm.weight 4, " p "post_attention_layernorm.weight 4, "
#define MLP(p)                                                                                     \
    p "mlp.gate_proj.weight 6 4, " p "mlp.up_proj.weight 6 4, " p "mlp.down_proj.weight 4 6"
#define GATED(p)                                                                                   \
    p "self_attn.q_proj.weight 32 4, " p "self_attn.k_proj.weight 8 4, " p                         \
      "self_attn.v_proj.weight 8 4, " p "self_attn.o_proj.weight 4 16, " p                         \
      "self_attn.q_norm.weight 8, " p "self_attn.k_norm.weight 8, "
#define DELTA(p, conv)                                                                             \
    p "linear_attn.in_proj_qkv.weight 10 4, " p "linear_attn.in_proj_z.weight 6 4, " p             \
      "linear_attn.in_proj_b.weight 2 4, " p "linear_attn.in_proj_a.weight 2 4, " p                \
      "linear_attn.conv1d.weight " conv ", " p "linear_attn.A_log 2, " p                           \
      "linear_attn.dt_bias 2, " p "linear_attn.norm.weight 3, " p                                  \
      "linear_attn.out_proj.weight 4 6, "
#define HYBRID_TENSORS(conv)                                                                       \
    EMBED ", " HEAD ", model.norm.weight 4, " NORMS("@") DELTA("@", conv)                          \
        MLP("@") ", " NORMS("model.layers.1.") GATED("model.layers.1.") MLP("model.layers.1.")
#define MTP_REST                                                                                   \
    "mtp.pre_fc_norm_embedding.weight 4, mtp.pre_fc_norm_hidden.weight 4, mtp.norm.weight 4, "     \
    "mtp.layers.0.input_layernorm.weight 4, " GATED("mtp.layers.0.")
#define MTP_MLP "mtp.layers.0.post_attention_layernorm.weight 4, " MLP("mtp.layers.0.")
#define MTP "mtp.fc.weight 4 8, " MTP_REST MTP_MLP

/* Queries and gates alternate head by head. The tensors of the prediction head are ignored here. */
TEST(hybrid)
{
    struct match *m =
        match_accepted(HYBRID, HYBRID_TENSORS("10 1 2") ", " MTP ", model.visual.x 3");
    assert_int_equal(m->n_skipped, 1);
    assert_true(m->config.norm_shifted);
    match_assert_spans(m, "layers.1.self_attn.q_proj.weight",
                       "model.layers.1.self_attn.q_proj.weight 0:1:8x4 16:1:8x4");
    match_assert_spans(m, "layers.1.self_attn.gate_proj.weight",
                       "model.layers.1.self_attn.q_proj.weight 8:1:8x4 24:1:8x4");
    match_assert_spans(m, "@linear_attn.A_log", "@linear_attn.A_log 0:1:1x2");
    assert_null(sp_specs_find(&m->specs, "layers.0.self_attn.q_proj.weight"));
    assert_null(sp_specs_find(&m->specs, "layers.1.linear_attn.A_log"));
    assert_true(sp_source_has_mtp(&m->config, m->tensors, m->n));

    m = match_accepted(HYBRID, HYBRID_TENSORS("10 2 1"));
    assert_false(m->config.norm_shifted);
    assert_false(sp_source_has_mtp(&m->config, m->tensors, m->n));

    match_assert_refused(
        HYBRID, HYBRID_TENSORS("10 1 3"), SP_E_INPUT,
        "tensor \"@linear_attn.conv1d.weight\" has shape [10, 1, 3], expected [10, 1, 2]");
}

/* Rows grouped by key head: 2 key heads with 2 value heads of 3 each have 2 2 6 6 rows of q k v z,
 * and 2 2 rows of b a. */
TEST(grouped_by_key_head)
{
    static const char config[] =
        "{\"model_type\": \"qwen3_next\", \"vocab_size\": 8, \"hidden_size\": 4, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
        "\"head_dim\": 8, \"intermediate_size\": 6, \"num_experts\": 0, \"linear_num_key_heads\": "
        "2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 2, \"linear_value_head_dim\": "
        "3, \"linear_conv_kernel_dim\": 2}";
#define GROUPED(rows)                                                                              \
    EMBED ", " HEAD ", model.norm.weight 4, " NORMS("@")                                           \
        MLP("@") ", @linear_attn.in_proj_qkvz.weight " rows " 4, "                                 \
                 "@linear_attn.in_proj_ba.weight 8 4, "                                            \
                 "@linear_attn.conv1d.weight 20 1 2, "                                             \
                 "@linear_attn.A_log 4, "                                                          \
                 "@linear_attn.dt_bias 4, "                                                        \
                 "@linear_attn.norm.weight 3, "                                                    \
                 "@linear_attn.out_proj.weight 4 12"
    struct match *m = match_accepted(config, GROUPED("32"));
    match_assert_spans(
        m, "@linear_attn.in_proj_qkv.weight",
        "@linear_attn.in_proj_qkvz.weight 0:1:2x4 16:1:2x4 2:1:2x4 18:1:2x4 4:1:6x4 20:1:6x4");
    match_assert_spans(m, "@linear_attn.in_proj_z.weight",
                       "@linear_attn.in_proj_qkvz.weight 10:1:6x4 26:1:6x4");
    match_assert_spans(m, "@linear_attn.in_proj_b.weight",
                       "@linear_attn.in_proj_ba.weight 0:1:2x4 4:1:2x4");
    match_assert_spans(m, "@linear_attn.in_proj_a.weight",
                       "@linear_attn.in_proj_ba.weight 2:1:2x4 6:1:2x4");
    match_assert_refused(
        config, GROUPED("28"), SP_E_INPUT,
        "tensor \"@linear_attn.in_proj_qkvz.weight\" has shape [28, 4], expected [32, 4]");
}

/* Tensors of prediction heads that are not supported are left out, other extra tensors are not. */
TEST(unused_prediction_heads)
{
#define GLM(more)                                                                                  \
    "{\"model_type\": \"glm4_moe\", \"partial_rotary_factor\": 1, "                                \
    "\"first_k_dense_replace\": 1, \"use_qk_norm\": false, " more SIZES "}"
    static const char ernie[] =
        "{\"model_type\": \"ernie4_5_moe\", \"tie_word_embeddings\": false, " SIZES "}";
    struct match *m = match_open(GLM(""), WHOLE);
    match_add_tensors(
        m, "model.layers.1.eh_proj.weight 4 8, model.layers.1.self_attn.q_proj.weight 9 9");
    match_run(m);
    assert_string_equal(m->err.text, "");
    assert_int_equal(m->n_skipped, 0);
    assert_true(sp_source_has_mtp(&m->config, m->tensors, m->n));
    m = match_accepted(GLM(""), WHOLE ", mtp.fc.weight 4 8");
    assert_int_equal(m->n_skipped, 1);
    assert_false(sp_source_has_mtp(&m->config, m->tensors, m->n));
    m = match_accepted(LLAMA, WHOLE ", mtp.fc.weight 4 8, model.mtp.norm.weight 4");
    assert_int_equal(m->n_skipped, 2);
    /* A layer behind those of the model is a head if it projects pairs. */
    m = match_accepted(LLAMA, WHOLE ", model.layers.1.eh_proj.weight 4 8, model.layers.1.x 4");
    assert_int_equal(m->n_skipped, 2);
    m = match_accepted(GLM("\"num_nextn_predict_layers\": 0, "),
                       WHOLE ", model.layers.1.eh_proj.weight 4 8");
    assert_int_equal(m->n_skipped, 1);
    assert_false(sp_source_has_mtp(&m->config, m->tensors, m->n));
    match_assert_refused(
        GLM(""), WHOLE ", model.layers.2.hnorm.weight 4, model.layers.3.eh_proj.weight 4 8",
        SP_E_INPUT, "unexpected tensor \"model.layers.2.hnorm.weight\": the config has 1 layers");

    m = match_accepted(ernie, WHOLE ", model.mtp_linear_proj.0.weight 4 8");
    assert_int_equal(m->n_skipped, 0);
    assert_true(sp_source_has_mtp(&m->config, m->tensors, m->n));
    match_assert_refused(LLAMA, WHOLE ", model.mtp_linear_proj.0.weight 4 8", SP_E_INPUT,
                         "unexpected tensor \"model.mtp_linear_proj.0.weight\"");
}

TEST(prediction_head)
{
    static const struct {
        const char *tensors, *error;
        size_t n_specs; /* number of specs of an accepted checkpoint */
    } cases[] = {
        {MTP, NULL, 16},
        /* A layer without an MLP has no norm before it. */
        {"mtp.fc.weight 4 8, " MTP_REST, NULL, 12},
        {"mtp.fc.weight 4 8, " MTP_REST
         "mtp.layers.0.post_attention_layernorm.weight 4, mtp.layers.0.mlp.gate_proj.weight 6 4, "
         "mtp.layers.0.mlp.up_proj.weight 6 4",
         "mtp: missing tensor \"mtp.layers.0.mlp.down_proj.weight\" [4, 6]", 0},
        {"mtp.fc.weight 4 12, " MTP_REST MTP_MLP, "mtp: fc is [.., 12], expected [4,8]", 0},
        {"mtp.fc.weight 3 8, " MTP_REST MTP_MLP,
         "mtp: tensor \"mtp.fc.weight\" has shape [3, 8], expected [4, 8]", 0},
        {MTP_REST MTP_MLP, "mtp: no matrix \"mtp.fc.weight\"", 0},
        {MTP ", mtp.layers.1.input_layernorm.weight 4", "mtp: 2 layers, only 1 supported", 0},
        {MTP ", mtp.embed_tokens.weight 8 4", "mtp: dedicated embeddings not supported", 0},
        {MTP ", mtp.fc_hidden.weight 4 4", "mtp: unexpected tensor \"mtp.fc_hidden.weight\"", 0},
        {MTP ", @linear_attn.conv1d.weight 10 2 1",
         "mtp: not supported in a checkpoint that mlx has converted "
         "(\"model.layers.0.linear_attn.conv1d.weight\")",
         0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct match *m = match_open(HYBRID, cases[i].tensors);
        m->status = sp_specs_of_mtp(&m->specs, &m->config, m->tensors, m->n, &m->err);
        assert_string_equal(m->err.text, cases[i].error ? cases[i].error : "");
        assert_int_equal(m->specs.n_specs, cases[i].n_specs);
        if (m->status == SP_OK) {
            assert_int_equal(m->config.draft.kind, SP_DRAFT_MTP);
            match_assert_spans(m, "fc.weight", "mtp.fc.weight 0:1:4x8");
            match_assert_spans(m, "@self_attn.gate_proj.weight",
                               "mtp.layers.0.self_attn.q_proj.weight 8:1:8x4 24:1:8x4");
        }
    }
}

TEST(experts_interleaved)
{
    struct match *m = match_accepted(
        OSS, OSS_REST "@mlp.experts.gate_up_proj 2 4 12, @mlp.experts.gate_up_proj_bias 2 12, "
                      "@mlp.experts.down_proj 2 6 4, @mlp.experts.down_proj_bias 2 4");
    match_assert_spans(m, "@mlp.experts.gate_proj.weight", "@mlp.experts.gate_up_proj 0:2:12x4T");
    match_assert_spans(m, "@mlp.experts.up_proj.weight", "@mlp.experts.gate_up_proj 1:2:12x4T");
    match_assert_spans(m, "@mlp.experts.down_proj.weight", "@mlp.experts.down_proj 0:1:8x6T");
    match_assert_spans(m, "@mlp.experts.gate_proj.bias", "@mlp.experts.gate_up_proj_bias 0:2:12x1");
    match_assert_spans(m, "@mlp.experts.up_proj.bias", "@mlp.experts.gate_up_proj_bias 1:2:12x1");
    match_assert_spans(m, "@mlp.experts.down_proj.bias", "@mlp.experts.down_proj_bias 0:1:2x4");
    assert_int_equal(sp_specs_find(&m->specs, "layers.0.self_attn.sinks")->role, SP_ROLE_SMALL);

    /* Dequantized blocks are not transposed. */
    m = match_accepted(OSS, OSS_REST
                       "@mlp.experts.gate_up_proj_blocks 2 12 4, @mlp.experts.gate_up_proj_bias 2 "
                       "12, @mlp.experts.down_proj_blocks 2 4 6, @mlp.experts.down_proj_bias 2 4");
    match_assert_spans(m, "@mlp.experts.gate_proj.weight",
                       "@mlp.experts.gate_up_proj_blocks 0:2:12x4");
    match_assert_spans(m, "@mlp.experts.up_proj.weight",
                       "@mlp.experts.gate_up_proj_blocks 1:2:12x4");
    match_assert_spans(m, "@mlp.experts.down_proj.weight", "@mlp.experts.down_proj_blocks 0:1:8x6");
}

#define LATENT(more)                                                                               \
    "{\"model_type\": \"youtu\", \"hidden_size\": 4, \"intermediate_size\": 6, "                   \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 2, "           \
    "\"vocab_size\": 8, \"q_lora_rank\": null, \"kv_lora_rank\": 3, \"qk_nope_head_dim\": 2, "     \
    "\"qk_rope_head_dim\": 4, \"v_head_dim\": 5, \"attention_bias\": true" more "}"
#define LATENT_TENSORS                                                                             \
    EMBED ", model.norm.weight 4, @input_layernorm.weight 4, "                                     \
          "@post_attention_layernorm.weight 4, "                                                   \
          "@mlp.gate_proj.weight 6 4, @mlp.up_proj.weight 6 4, "                                   \
          "@mlp.down_proj.weight 4 6, "                                                            \
          "@self_attn.q_proj.weight 12 4, "                                                        \
          "@self_attn.kv_a_proj_with_mqa.weight 7 4, "                                             \
          "@self_attn.kv_a_proj_with_mqa.bias 7, "                                                 \
          "@self_attn.kv_a_layernorm.weight 3, "                                                   \
          "@self_attn.o_proj.weight 4 10, @self_attn.o_proj.bias 4"

/* Two heads of 2 nope dims and 4 rope dims with values of 5, from a latent of 3. */
TEST(latents)
{
    static const char all[] = LATENT_TENSORS ", @self_attn.kv_b_proj.weight 14 3";
    struct match *m = match_accepted(LATENT(""), all);

    match_assert_spans(m, "@self_attn.q_proj.weight",
                       "@self_attn.q_proj.weight 0:1:2x4 2:2:2x4 3:2:2x4 6:1:2x4 8:2:2x4 9:2:2x4");
    match_assert_spans(m, "@self_attn.kv_a_proj_with_mqa.weight",
                       "@self_attn.kv_a_proj_with_mqa.weight 0:1:3x4 3:2:2x4 4:2:2x4");
    match_assert_spans(m, "@self_attn.kv_a_proj_with_mqa.bias",
                       "@self_attn.kv_a_proj_with_mqa.bias 0:1:3x1 3:2:2x1 4:2:2x1");
    match_assert_spans(m, "@self_attn.k_b_proj.weight", "@self_attn.kv_b_proj.weight 0:1:6x2T/7");
    match_assert_spans(m, "@self_attn.v_b_proj.weight",
                       "@self_attn.kv_b_proj.weight 2:1:5x3 9:1:5x3");

    /* The rows of a rotated pair are stored as in other families. */
    m = match_accepted(LATENT(", \"rope_interleave\": false"), all);
    match_assert_spans(m, "@self_attn.q_proj.weight", "@self_attn.q_proj.weight 0:1:12x4");
    match_assert_spans(m, "@self_attn.kv_a_proj_with_mqa.weight",
                       "@self_attn.kv_a_proj_with_mqa.weight 0:1:7x4");
    match_assert_refused(
        LATENT(""), LATENT_TENSORS ", @self_attn.kv_b_proj.weight 10 3", SP_E_INPUT,
        "tensor \"@self_attn.kv_b_proj.weight\" has shape [10, 3], expected [14, 3]");
}

/* Counts the rows that spans take. Every row of every used tensor must be taken exactly once. */
static void check_coverage(const struct sp_specs *specs, const struct sp_safetensor *tensors,
                           size_t n_tensors, size_t n_skipped)
{
    size_t n_unused = 0;

    for (size_t t = 0; t < n_tensors; t++) {
        uint64_t n = 1, taken = 0;
        for (unsigned i = 0; i < tensors[t].rank; i++)
            n *= tensors[t].shape[i];
        uint8_t *marks = calloc((size_t)n, 1);
        assert_non_null(marks);
        for (size_t i = 0; i < specs->n_spans; i++) {
            const struct sp_row_span *p = &specs->spans[i];
            if (strcmp(p->source, tensors[t].name) != 0) continue;
            for (uint64_t r = 0; r < p->n_rows; r++) {
                uint64_t row = p->first_row + r * p->step;
                uint64_t width = tensors[t].shape[tensors[t].rank - 1];
                for (uint64_t k = 0; k < p->n_cols; k++, taken++) {
                    uint64_t at = row * p->n_cols + k;
                    if (p->pitch) at = (row / width * p->pitch + k) * width + row % width;
                    assert_true(at < n);
                    assert_int_equal(marks[at]++, 0);
                }
            }
        }
        if (taken == 0) n_unused++;
        if (taken != 0 && taken != n) fail_msg("%s: not all taken", tensors[t].name);
        free(marks);
    }
    assert_int_equal(n_unused, n_skipped);
}

/* Checks that the checkpoint has this many canonical tensors and that each of its rows goes into
 * one of them. */
static void check_checkpoint(const char *folder, const char *name, size_t n_specs, size_t n_skipped)
{
    static struct sp_source_tensor tensors[4096];
    struct sp_safetensors *file = NULL;
    struct sp_config config;
    struct sp_specs specs = {0};
    char path[512], *text;
    size_t size, n, skipped;
    bool compare_equal;

    print_message("%s\n", name);
    snprintf(path, sizeof path, "%s/%s/config.json", folder, name);
    text = scratch_read(path, &size);
    assert_ok(sp_config_parse(&config, text, size, NULL, why));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(sp_safetensors_open(&file, path, NULL, why));
    const struct sp_safetensor *all = sp_safetensors_tensors(file, &n);
    assert_true(n <= sizeof tensors / sizeof tensors[0]);
    for (size_t k = 0; k < n; k++) {
        tensors[k].name = all[k].name;
        tensors[k].rank = all[k].rank;
        memcpy(tensors[k].shape, all[k].shape, sizeof tensors[k].shape);
    }
    assert_case_ok(name,
                   sp_specs_of_source(&specs, &config, tensors, n, &compare_equal, &skipped, why));
    assert_int_equal(specs.n_specs, n_specs);
    assert_int_equal(skipped, n_skipped);
    check_coverage(&specs, all, n, n_skipped);
    sp_specs_release(&specs);
    sp_config_release(&config);
    sp_safetensors_close(file);
}

TEST(golden_checkpoints)
{
    /* Tensors per layer as documented for the family, and embedding, norm and head. */
    static const struct {
        const char *name;
        size_t n_specs, n_skipped;
    } cases[] = {
        {"targets/llama_mha_bias", 3 * (9 + 4 + 3) + 3, 1},
        {"targets/llama_gqa_tied", 3 * 9 + 2, 0},
        {"targets/llama_linear_rope", 3 * 9 + 3, 0},
        {"targets/mistral_window", 3 * 9 + 3, 0},
        {"targets/ministral3", 3 * 9 + 3, 1},
        {"targets/qwen2", 3 * 12 + 2, 0},
        {"targets/qwen3", 3 * 11 + 3, 0},
        {"targets/qwen3_moe", 2 * (8 + 4) + 11 + 3, 0},
        {"targets/qwen3_moe_sparse", (8 + 4) + 4 * 11 + 3, 0},
        {"targets/qwen3_5", 3 * 14 + 12 + 3, 0},
        {"targets/qwen3_5_tied", 2 * 14 + 2 * 12 + 2, 1},
        {"targets/qwen3_5_moe", 3 * (11 + 8) + 9 + 8 + 3, 1},
        {"targets/gemma2", 4 * 11 + 2, 0},
        {"targets/gemma3", 7 * 13 + 2, 0},
        {"targets/gemma3_wrapped", 6 * 13 + 2, 1},
        {"targets/smollm3", 5 * 9 + 2, 0},
        {"targets/phi3", 3 * 9 + 3, 0},
        {"targets/gpt_oss", 4 * (6 + 4 + 1 + 2 + 6) + 3, 0},
        {"drafts/dflash_qwen3", 2 * 11 + 3, 0},
        {"drafts/dflash_gpt_oss", 2 * (11 + 4) + 3, 0},
        {"drafts/dflash_default_taps", 2 * 11 + 3, 0},
        {"drafts/eagle3_full_vocab", 10 + 5, 0},
        {"drafts/eagle3_llama", 10 + 5, 1},
        {"drafts/eagle3_midlayer", 10 + 4, 1},
        {"drafts/eagle3_qwen3_before", 12 + 6, 1},
        {"drafts/dspark_vanilla", 2 * 11 + 5 + 4, 0},
        {"drafts/dspark_gated", 2 * 11 + 5 + 6, 0},
        {"drafts/dspark_rnn", 2 * 11 + 5 + 6, 0},
    };

    if (access(SHARED "/oracle/targets", R_OK) != 0) skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_checkpoint(SHARED "/oracle", cases[i].name, cases[i].n_specs, cases[i].n_skipped);
}

TEST(families)
{
    static const struct {
        const char *name;
        size_t n_specs;
    } cases[] = {
        {"granite", 3 * (9 + 4 + 3) + 3},
        {"olmo2", 3 * (11 + 4) + 3},
        {"olmo3", 4 * 11 + 3},
        {"exaone4", 4 * 11 + 3},
        {"glm", 3 * (9 + 3) + 3},
        {"glm4", 3 * (11 + 3) + 3},
        {"helium", 3 * (9 + 3) + 3},
        {"granite4", 3 * 9 + 2},
        {"granite4_nope", 2 * (9 + 4) + 3},
        {"granite4_h", 4 * 5 + 4 + 3 * 10 + 2},
        {"granite4_h_moe", 2 * 9 + 4 + 13 + 3},
        {"falcon_h1", 3 * (9 + 10) + 2},
        {"falcon_h1_plain", 2 * (9 + 9) + 3},
        {"falcon_h1_normed", 2 * (9 + 10) + 3},
        {"mamba2", 4 * (1 + 10) + 3},
        {"mamba2_bias", 2 * (1 + 9 + 4) + 2},
        {"nemotron_h", 2 * (1 + 10 + 4) + 5 + 2 * 3 + 3},
        {"nemotron_h_moe", (1 + 10) + 5 + 2 * (1 + 2 + 2 + 2) + 3},
        {"bamba", 3 * 8 + 8 + 2 * 10 + 3},

        {"starcoder2", 3 * (8 + 4 + 2 + 2) + 3},

        {"hunyuan", 3 * 11 + 2},

        {"deepseek_v2", 3 * 13 + 3 + 2 * 7 + 3},
        {"deepseek_v2_lite", 2 * 8 + 3 + 7 + 3},
        {"glm4_moe_lite_plain", 2 * 8 + 3 + 8 + 3},
        {"youtu", 2 * (10 + 3) + 2},

        {"cohere", 3 * (8 + 4) + 2},
        {"cohere2", 5 * 8 + 2},
        {"cohere_qk_norm", 2 * 10 + 2},

        {"ernie4_5", 3 * (9 + 4 + 3) + 2},
        {"seed_oss", 3 * (9 + 3) + 3},
        {"seed_oss_biases", 2 * (9 + 1 + 3) + 3},
        {"exaone4_full", 2 * 11 + 2},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_checkpoint(TESTDATA "/families", cases[i].name, cases[i].n_specs, 0);
}

TEST(roles_have_names)
{
    for (int i = SP_ROLE_NORM; i <= SP_ROLE_CODEBOOK; i++)
        assert_non_null(sp_role_name((enum sp_role)i));
    assert_string_equal(sp_role_name(SP_ROLE_ROUTER), "router");
}
