/* format/config/config.h: families that test_config.c does not cover. Every expected number is read
 * by hand from a config.json or from the family's configuration class in transformers 5.23. */
#include "format/config/config.h"

#include <math.h>

#include "format/family/config_parse.h"
#include "tests/support/config_checks.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

TEST(granite)
{
    struct sp_config *c = config_read_testdata("granite_3_1", NULL);

    config_assert_near(c->attention_scale, 0.015625); /* replaces 16^-1/2 */
    config_assert_numbers(c->embedding_scale, 12, c->residual_scale, 0.22);
    config_assert_near(c->logit_scale, 0.125); /* logits_scaling divides */
    config_assert_near(c->ropes[0].theta, 5e6);
    assert_true(c->tied && !c->qkv_bias && !c->o_bias && !c->mlp_bias);
    assert_int_equal(c->norms, SP_NORM_PRE);

    c = config_read_testdata("granite_sparse", NULL);
    config_assert_numbers(c->attention_scale, 1, c->embedding_scale, 1, c->residual_scale, 1,
                          c->logit_scale, 1, c->norm_eps, 1e-6, c->ropes[0].theta, 1e4,
                          c->layers[0].n_kv_heads, 32);
    assert_false(c->tied);
}

TEST(inkling)
{
    struct sp_config *c = config_parsed(
        "{\"model_type\": \"inkling_text\", \"num_hidden_layers\": 7, \"local_layer_ids\": [1, 6], "
        "\"dense_mlp_idx\": 2, \"intermediate_size\": 40, \"dense_intermediate_size\": 96, "
        "\"unpadded_vocab_size\": 200058, \"n_shared_experts\": 3}");

    config_assert_windows(c, "0,512,0,0,0,0,512");
    config_assert_numbers(c->n_vocab, 200058, c->n_inputs, 201024, c->layers[1].n_ffn, 96,
                          c->layers[2].n_ffn, 40, c->layers[2].n_experts, 259,
                          c->layers[2].n_experts_used, 9, c->layers[1].n_kv_heads, 16,
                          c->layers[2].n_kv_heads, 8, c->layers[2].score_scale, 1.0 / 128);
    assert_true(c->routing.n_always == 3 && c->layers[1].n_experts == 0);
    assert_true(c->query_growth.beta == 0);

    c = config_parsed("{\"model_type\": \"inkling_text\", \"num_hidden_layers\": 7}");
    config_assert_windows(c, "512,512,512,512,512,0,512");
}

/* A config as transformers saves it, with one dict for each of the two rotations; the published one
 * is in testdata/families. */
TEST(deepseek_v4)
{
    struct sp_config *c = config_read_testdata("deepseek_v4_saved", NULL);

    config_assert_numbers(c->n_ropes, 2, c->ropes[0].kind, SP_ROPE_YARN, c->ropes[0].theta, 160000,
                          c->ropes[0].factor, 4, c->ropes[0].amplitude, 1.25, c->ropes[1].kind,
                          SP_ROPE_DEFAULT, c->ropes[1].theta, 1e4);
    config_assert_numbers(c->ropes[0].n_rot, 8, c->ropes[1].n_rot, 8, c->layers[0].rate, 8,
                          c->layers[1].rate, 8, c->layers[2].rate, 4, c->layers[3].rate, 0);
    assert_true(c->layers[2].overlaps && !c->layers[1].overlaps && !c->layers[3].overlaps);
    assert_true(c->layers[0].hashes && !c->layers[1].hashes);
    assert_true(c->layers[0].rope == 0 && c->layers[2].rope == 0 && c->layers[3].rope == 1);
}

/* A config as published, without text_config, layer_types and per_layer_config. */
TEST(dots3_note)
{
    struct sp_config *c = config_parsed(
        "{\"model_type\": \"dots3_note\", \"num_hidden_layers\": 6, \"swa_head_dim\": 200, "
        "\"swa_rope_theta\": 30000, \"moe_shared_expert_intermediate_size\": 100}");

    config_assert_windows(c, "0,0,512,512,512,0");
    config_assert_numbers(c->layers[1].n_heads, 128, c->layers[1].head_dim, 576,
                          c->layers[2].n_heads, 64, c->layers[2].head_dim, 1032,
                          c->layers[2].n_shared_ffn, 100, c->ropes[0].theta, 8e7);
    config_assert_numbers(c->ropes[1].theta, 3e4, c->ropes[1].n_rot, 8, c->latent.scale,
                          1 / sqrt(192), c->other_latent.scale, 1 / sqrt(200));
    assert_true(c->layers[2].unindexed && !c->layers[5].unindexed);
}

/* Tables of n-grams are numbered by layer; their parts have the primes from 40 on. */
TEST(qwen4_exp)
{
    unsigned rows[SP_MAX_NGRAM_PARTS];
    struct sp_config *c = config_parsed(
        "{\"model_type\": \"qwen4_exp_text\", \"eos_token_id\": [7, 8], \"heads_per_ngram\": 2, "
        "\"ngram_vocab_size_base\": 40, \"ple_layer_ids\": [1, 3], "
        "\"output_gate_type\": \"sigmoid\", \"make_ngram_vocab_size_divisible_by\": 16}");

    config_assert_numbers(c->layers[0].ngrams, 1, c->layers[1].ngrams, 0, c->layers[2].ngrams, 2,
                          c->ngrams.separator, 7);
    assert_int_equal(sp_ngram_rows(rows, &c->ngrams, 1), 192);
    assert_int_equal(sp_ngram_rows(rows, &c->ngrams, 2), 272);
    config_assert_numbers(rows[0], 59, rows[1], 61, rows[2], 67, rows[3], 71);
    assert_true(c->delta.sigmoid_gate && c->index.top_k == 0);
}

/* A config of the first releases, without layer_types and rope_parameters. */
TEST(modernbert)
{
    struct sp_config *c = config_read_testdata("modernbert_old", NULL);

    assert_true(c->bidirectional && c->normed_input && c->norm_centered && !c->norm_bias &&
                c->tied);
    config_assert_numbers(c->n_ropes, 2, c->ropes[0].theta, 80000, c->ropes[1].theta, 20000,
                          c->norm_eps, 1e-6, c->activation, SP_GELU_ERF);
    for (unsigned i = 0; i < 5; i++) {
        assert_false(c->layers[i].causal);
        assert_int_equal(c->layers[i].window, i % 2 ? 33 : 0); /* 32 on each side */
        assert_int_equal(c->layers[i].rope, i % 2);
    }
}

static void assert_rotations(const struct sp_config *c, const char *expected)
{
    char text[64] = "";

    for (unsigned i = 0; i < c->n_layers; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%d" : "%d",
                 c->layers[i].rope);
    }
    assert_string_equal(text, expected);
}

TEST(olmo)
{
    struct sp_config *c = config_read_testdata("olmo2_sparse", NULL);

    config_assert_numbers(c->norms, SP_NORM_POST, c->qk_norm, SP_QK_WHOLE, c->ropes[0].theta, 1e4,
                          c->norm_eps, 1e-5);
    config_assert_windows(c, "0,0");
    assert_int_equal(c->layers[0].n_kv_heads, 32);

    /* Only full layers are scaled, in both notations. */
    c = config_read_testdata("olmo3_7b", NULL);
    config_assert_numbers(c->norms, SP_NORM_POST, c->qk_norm, SP_QK_WHOLE);
    config_assert_windows(c, "4096,4096,4096,0,4096");
    assert_rotations(c, "1,1,1,0,1");
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_YARN, c->ropes[0].factor, 8, c->ropes[0].theta,
                          5e5, c->ropes[0].amplitude, 1.2079441541679836, c->ropes[1].kind,
                          SP_ROPE_DEFAULT, c->ropes[1].theta, 5e5, c->ropes[1].amplitude, 1);

    c = config_read_testdata("olmo3_sparse", NULL);
    config_assert_windows(c, "4096,4096,4096,0,4096,4096");
    config_assert_numbers(c->ropes[0].theta, 5e5, c->ropes[1].theta, 5e5, c->ropes[0].kind,
                          SP_ROPE_DEFAULT);

    /* A dict for full layers does not apply to sliding ones. */
    c = config_read_testdata("olmo3_full_only", NULL);
    config_assert_numbers(c->ropes[0].theta, 700, c->ropes[0].kind, SP_ROPE_LINEAR,
                          c->ropes[1].theta, 5e5, c->ropes[1].kind, SP_ROPE_DEFAULT);
}

TEST(exaone4)
{
    /* Full layers do not rotate. The pattern beside layer_types is text. */
    struct sp_config *c = config_read_testdata("exaone4_32b", NULL);
    config_assert_windows(c, "4096,4096,4096,0");
    assert_rotations(c, "0,0,0,-1");
    config_assert_numbers(c->n_ropes, 1, c->ropes[0].kind, SP_ROPE_LLAMA3, c->ropes[0].factor, 16,
                          c->ropes[0].theta, 1e6, c->norms, SP_NORM_POST, c->qk_norm, SP_QK_HEADS);
    assert_false(c->qkv_bias || c->tied);

    /* Without a window all layers rotate. */
    c = config_read_testdata("exaone4_1_2b", NULL);
    config_assert_windows(c, "0,0");
    assert_rotations(c, "0,0");
    assert_true(c->tied);

    c = config_read_testdata("exaone4_sparse", NULL);
    config_assert_windows(c, "4096,4096,4096,0,4096");
    assert_rotations(c, "0,0,0,-1,0");
}

TEST(glm)
{
    struct sp_config *c = config_read_testdata("glm4_0414", NULL);

    config_assert_numbers(c->norms, SP_NORM_SANDWICH, c->ropes[0].n_rot, 64, c->ropes[0].theta,
                          1e4);
    assert_true(!c->qkv_bias && !c->o_bias && !c->tied);

    c = config_read_testdata("glm_sparse", NULL);
    assert_int_equal(c->norms, SP_NORM_PRE);
    assert_int_equal(c->ropes[0].n_rot, 64); /* half of 128, the default of the class */
    config_assert_numbers(c->layers[0].n_kv_heads, 2, c->norm_eps, 1.5625e-7);
    assert_true(c->qkv_bias && !c->o_bias);
}

TEST(helium)
{
    struct sp_config *c = config_read_testdata("helium_sparse", NULL);

    config_assert_numbers(c->ropes[0].theta, 1e5, c->norm_eps, 1e-8, c->layers[0].head_dim, 128,
                          c->layers[0].n_kv_heads, 20);
    assert_true(!c->qkv_bias && !c->o_bias && !c->mlp_bias);
}

/* Which projections have biases, by the keys of each family. */
TEST(biases)
{
    struct sp_config *c = config_read_testdata("ernie4_5_0_3b", NULL);

    assert_true(!c->qkv_bias && !c->o_bias && !c->mlp_bias && c->tied);
    config_assert_numbers(c->ropes[0].theta, 5e5, c->ropes[0].n_rot, 128);

    c = config_read_testdata("ernie4_5_sparse", NULL);
    assert_true(c->qkv_bias && c->o_bias && c->mlp_bias && c->tied);
    config_assert_numbers(c->ropes[0].theta, 5e5, c->layers[0].n_kv_heads, 2);

    c = config_read_testdata("seed_oss_36b", NULL);
    assert_true(c->qkv_bias && !c->o_bias && !c->mlp_bias && !c->tied);
    config_assert_numbers(c->ropes[0].theta, 1e7, c->layers[0].head_dim, 128);

    c = config_read_testdata("seed_oss_sparse", NULL);
    assert_true(!c->qkv_bias && c->o_bias && !c->mlp_bias);
    config_assert_numbers(c->ropes[0].theta, 1e4, c->layers[0].n_heads, 80);
}

TEST(cohere)
{
    struct sp_config *c = config_read_testdata("cohere2_7b", NULL);

    assert_int_equal(c->norms, SP_NORM_PARALLEL);
    assert_true(c->norm_centered && c->tied && !c->qkv_bias && !c->o_bias);
    config_assert_numbers(c->norm_eps, 1e-5, c->logit_scale, 0.25, c->ropes[0].theta, 5e4);
    config_assert_windows(c, "4096,4096,4096,0,4096");
    assert_rotations(c, "0,0,0,-1,0");

    c = config_read_testdata("cohere_plus", NULL);
    assert_int_equal(c->qk_norm, SP_QK_OWN);

    c = config_read_testdata("cohere_sparse", NULL);
    config_assert_numbers(c->qk_norm, SP_QK_PLAIN, c->norms, SP_NORM_PARALLEL, c->norm_eps, 1e-5,
                          c->logit_scale, 0.0625, c->ropes[0].theta, 5e5);
    config_assert_windows(c, "0,0");
    assert_rotations(c, "0,0");
    assert_true(c->norm_centered && c->tied);

    c = config_read_testdata("cohere2_sparse", NULL);
    config_assert_numbers(c->logit_scale, 0.0625, c->ropes[0].theta, 1e4);
    config_assert_windows(c, "4096,4096,0,4096");
    assert_rotations(c, "0,0,-1,0");
}

TEST(hunyuan)
{
    struct sp_config *c = config_read_testdata("hunyuan_7b", NULL);

    config_assert_numbers(c->qk_norm, SP_QK_ROTATED, c->ropes[0].kind, SP_ROPE_NTK_ALPHA,
                          c->ropes[0].theta, 1e4);
    config_assert_near(c->ropes[0].factor, 1000); /* alpha; the dict's own factor is not used */
    config_assert_near(c->ropes[0].amplitude, 1);
    assert_true(!c->qkv_bias && !c->o_bias && !c->mlp_bias);

    c = config_read_testdata("hunyuan_sparse", NULL);
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_DEFAULT, c->layers[0].n_kv_heads, 32,
                          c->layers[0].head_dim, 128);
}

TEST(starcoder2)
{
    struct sp_config *c = config_read_testdata("starcoder2_3b", NULL);

    config_assert_windows(c, "4096,4096");
    config_assert_numbers(c->norm_eps, 1e-5, c->ropes[0].theta, 999999.4420358813, c->activation,
                          SP_GELU_TANH);
    assert_true(c->norm_centered && c->norm_bias && c->plain_mlp && c->tied);
    assert_true(c->qkv_bias && c->o_bias && c->mlp_bias);

    /* Norms have biases, whatever use_bias states. */
    c = config_read_testdata("starcoder2_sparse", NULL);
    config_assert_windows(c, "0,0");
    assert_true(c->norm_bias && !c->qkv_bias && !c->o_bias && !c->mlp_bias);
    assert_int_equal(c->layers[0].n_kv_heads, 2);
}

TEST(granite4)
{
    struct sp_config *c = config_read_testdata("granite4_micro", NULL);

    assert_int_equal(c->layers[0].n_ffn, 1024); /* width of the MLP; there are no experts */
    assert_int_equal(c->layers[0].n_experts, 0);
    assert_rotations(c, "0,0,0");
    config_assert_numbers(c->ropes[0].theta, 1e7, c->attention_scale, 0.015625, c->embedding_scale,
                          12, c->residual_scale, 0.22, c->logit_scale, 0.1);
    assert_true(c->tied);

    /* The released spelling. */
    c = config_read_testdata("granite4_h_tiny", NULL);
    assert_true(sp_config_is_recurrent(c) && !c->shared_gate && !c->routing.norm);
    assert_int_equal(c->routing.law, SP_ROUTE_SOFTMAX_CHOSEN);
    for (unsigned i = 0; i < 4; i++) {
        const struct sp_layer_config *l = &c->layers[i];
        assert_int_equal(l->mixers, i == 2 ? SP_MIXER_ATTENTION : SP_MIXER_MAMBA);
        assert_int_equal(l->n_experts, 64);
        assert_int_equal(l->n_experts_used, 6);
        assert_int_equal(l->n_ffn, 64);
        assert_int_equal(l->n_shared_ffn, 128);
    }
    assert_rotations(c, "-1,-1,-1,-1");
    config_assert_numbers(c->mamba.n_heads, 6, c->mamba.head_dim, 64, c->mamba.n_groups, 1,
                          c->mamba.state_dim, 128, c->mamba.kernel, 4);
    assert_true(c->mamba.conv_bias && !c->mamba.proj_bias);
    assert_true(c->mamba.min_step == 0 && c->mamba.max_step == INFINITY);

    /* Without a list all layers are Mamba-2 layers with default sizes. */
    c = config_read_testdata("granite4_h_sparse", NULL);
    config_assert_numbers(c->layers[1].mixers, SP_MIXER_MAMBA, c->layers[1].n_ffn, 1024,
                          c->mamba.n_heads, 128);
    assert_int_equal(c->mamba.head_dim, 64); /* 2 * 4096 / 128 */
    config_assert_numbers(c->mamba.state_dim, 256, c->mamba.min_step, 0.001);
    assert_true(c->mamba.max_step == INFINITY);

    c = config_read_testdata("granite4_sparse", NULL);
    assert_int_equal(c->layers[0].n_ffn, 1024);
    assert_rotations(c, "-1,-1");
    config_assert_near(c->attention_scale, 1);
}

TEST(bamba)
{
    struct sp_config *c = config_read_testdata("bamba_released", NULL);

    for (unsigned i = 0; i < 5; i++) {
        config_assert_numbers(c->layers[i].mixers, i % 2 ? SP_MIXER_ATTENTION : SP_MIXER_MAMBA,
                              c->layers[i].n_ffn, 448);
    }
    assert_rotations(c, "-1,0,-1,0,-1");
    assert_int_equal(c->ropes[0].n_rot, 64); /* half of 128 */
    config_assert_numbers(c->ropes[0].theta, 1e4, c->mamba.n_heads, 8, c->mamba.state_dim, 128);

    /* The class's default of one half precedes the member outside the dict. */
    c = config_read_testdata("bamba_partial_beside", NULL);
    assert_int_equal(c->ropes[0].n_rot, 64);
    c = config_read_testdata("bamba_partial_inside", NULL);
    assert_int_equal(c->ropes[0].n_rot, 32);
}

TEST(falcon_h1)
{
    struct sp_config *c = config_read_testdata("falcon_h1_released", NULL);

    for (unsigned i = 0; i < 2; i++) {
        config_assert_numbers(c->layers[i].mixers, SP_MIXER_ATTENTION | SP_MIXER_MAMBA,
                              c->layers[i].n_heads, 4, c->layers[i].n_ffn, 512);
    }
    assert_rotations(c, "0,0");
    config_assert_numbers(c->mamba.n_heads, 6, c->mamba.head_dim, 64, c->mamba.norm, SP_MAMBA_GATED,
                          c->ropes[0].theta, 1e11, c->embedding_scale, 5.656854249492381,
                          c->logit_scale, 0.0390625);
    config_assert_near(c->attention_scale,
                       0.125 * 0.25 * 0.25); /* 0.125 for heads of 64, times the key multiplier,
                                                times the input multiplier twice */
    config_assert_numbers(c->attention_out_scale, 0.375, c->mamba_out_scale, 0.3, c->ffn_in_scale,
                          0.8, c->ffn_out_scale, 0.25, c->residual_scale, 1, c->mamba.z_scale, 1,
                          c->mamba.x_scale, 0.5, c->mamba.key_scale, 0.25, c->mamba.query_scale,
                          1.5, c->mamba.step_scale, 0.75);

    /* Without its own width a Mamba layer is twice as wide as the model, with the norm before the
     * gate. */
    c = config_read_testdata("falcon_h1_sparse", NULL);
    assert_int_equal(c->mamba.head_dim, 64); /* 2 * 256 / 8 */
    config_assert_numbers(c->mamba.norm, SP_MAMBA_NORM_GATED, c->attention_scale, 0.125,
                          c->attention_out_scale, 1, c->ffn_out_scale, 1, c->mamba.step_scale, 1);

    c = config_read_testdata("falcon_h1_null_order", NULL);
    assert_int_equal(c->mamba.norm, SP_MAMBA_GATED_NORM);
}

TEST(mamba2)
{
    struct sp_config *c = config_read_testdata("mamba2_sparse", NULL);

    for (unsigned i = 0; i < 2; i++)
        config_assert_numbers(c->layers[i].mixers, SP_MIXER_MAMBA, c->layers[i].n_ffn, 0);
    config_assert_numbers(c->n_vocab, 32768, c->n_hidden, 4096, c->mamba.n_heads, 128,
                          c->mamba.head_dim, 64, c->mamba.n_groups, 4, c->mamba.state_dim, 128,
                          c->mamba.norm, SP_MAMBA_GATED_NORM);
    assert_true(c->mamba.conv_bias && !c->mamba.proj_bias && !c->tied);
    config_assert_near(c->norm_eps, 1e-5);
}

TEST(nemotron_h)
{
    static const unsigned mixers[] = {SP_MIXER_MAMBA, 0, SP_MIXER_MAMBA, SP_MIXER_ATTENTION, 0};

    struct sp_config *c = config_read_testdata("nemotron_3_nano", NULL);
    assert_int_equal(c->n_layers, 5);
    for (unsigned i = 0; i < 5; i++) {
        const struct sp_layer_config *l = &c->layers[i];
        assert_int_equal(l->mixers, mixers[i]);
        assert_int_equal(l->n_ffn, mixers[i] ? 0 : 176);
        assert_int_equal(l->n_experts, i == 1 ? 12 : 0);
        assert_int_equal(l->n_shared_ffn, i == 1 ? 352 : 0);
    }
    assert_rotations(c, "-1,-1,-1,-1,-1");
    config_assert_numbers(c->layers[3].head_dim, 128, c->activation, SP_RELU2);
    assert_true(c->plain_mlp && !c->mlp_bias && !c->qkv_bias);
    assert_int_equal(c->routing.law, SP_ROUTE_SIGMOID);
    assert_true(c->routing.corrected && c->routing.norm && !c->shared_gate);
    config_assert_numbers(c->routing.scale, 2.5, c->mamba.n_heads, 16, c->mamba.head_dim, 64,
                          c->mamba.n_groups, 8, c->mamba.min_step, 0.001);
    assert_true(c->mamba.max_step == INFINITY);

    /* The older name precedes time_step_min, and time_step_limit is not read. */
    c = config_read_testdata("nemotron_steps", NULL);
    config_assert_near(c->mamba.min_step, 0.5);
    assert_true(c->mamba.max_step == INFINITY);

    c = config_read_testdata("nemotron_default_steps", NULL);
    config_assert_near(c->mamba.min_step, 0.001);
}

/* The mixer of each layer: attention, gated delta rule, Mamba; '+' with experts, '=' attending to
 * what the index of the layer before chose. */
static void assert_layers(const char *json, const char *expected)
{
    const struct sp_config *c = config_parsed(json);
    char text[128] = "";

    for (unsigned i = 0; i < c->n_layers; i++) {
        const struct sp_layer_config *l = &c->layers[i];
        strcat(text, l->mixers == SP_MIXER_ATTENTION ? "a"
                     : l->mixers == SP_MIXER_MAMBA   ? "m"
                                                     : "d");
        if (l->n_experts) strcat(text, "+");
        if (l->shares_index) strcat(text, "=");
    }
    assert_string_equal(text, expected);
}

/* Lightning attention has no convolution, whatever its config.json says. */
TEST(lightning)
{
    const struct sp_config *c =
        config_parsed("{\"model_type\": \"minimax\", \"linear_conv_kernel_dim\": 4}");

    assert_int_equal(c->delta.kernel, 1);
}

/* Without a list of layer types, by the rules of the configuration classes in transformers 5.24. */
TEST(layers_by_rule)
{
    assert_layers("{\"model_type\": \"kimi_linear\", \"num_hidden_layers\": 9}",
                  "dd+d+d+a+d+d+d+a+");
    assert_layers("{\"model_type\": \"kimi_linear\", \"num_hidden_layers\": 3, "
                  "\"linear_attn_config\": {\"full_attn_layers\": [2], \"kda_layers\": [1, 3]}}",
                  "da+d+");
    assert_layers("{\"model_type\": \"bailing_hybrid\", \"layer_group_size\": 3, "
                  "\"num_hidden_layers\": 4}",
                  "dda+d+");
    assert_layers("{\"model_type\": \"minimax\", \"num_hidden_layers\": 4}", "a+d+a+d+");
    assert_layers("{\"model_type\": \"jamba\", \"num_hidden_layers\": 6}", "mm+mm+am+");
    assert_layers("{\"model_type\": \"jamba\", \"num_hidden_layers\": 3, \"num_experts\": 1, "
                  "\"attn_layer_period\": 2, \"attn_layer_offset\": 1}",
                  "mam");
    assert_layers("{\"model_type\": \"glm_moe_dsa\", \"num_hidden_layers\": 7, "
                  "\"first_k_dense_replace\": 7, \"index_topk_freq\": 4}",
                  "aaa=a=a=aa=");
    assert_layers("{\"model_type\": \"glm_moe_dsa\", \"num_hidden_layers\": 3, "
                  "\"first_k_dense_replace\": 3, \"index_topk_pattern\": \"FSF\"}",
                  "aa=a");
    assert_layers("{\"model_type\": \"longcat_flash\", \"num_layers\": 2}", "a+aa+a");
}

/* A layer that is hybrid_sliding has a window and a rotation of its own; a rope_type beside the
 * rotations has no effect. */
TEST(zaya)
{
    const struct sp_config *c = config_parsed(
        "{\"model_type\": \"zaya\", \"num_hidden_layers\": 2, \"sliding_window\": 7, "
        "\"layer_types\": [\"hybrid\", \"hybrid_sliding\"], \"rope_parameters\": {\"rope_type\": "
        "\"default\", \"hybrid\": {\"rope_theta\": 90}, \"hybrid_sliding\": {\"rope_theta\": "
        "50}}}");

    config_assert_numbers(c->layers[0].window, 0, c->layers[1].window, 7, c->ropes[0].theta, 90,
                          c->ropes[1].theta, 50, c->ropes[c->layers[1].rope].n_rot, 64);
    assert_true(sp_config_is_recurrent(c));
}

TEST(latent)
{
    struct sp_config *c = config_read_testdata("glm_4_7_flash", NULL);

    config_assert_numbers(c->latent.kv_rank, 512, c->latent.q_rank, 768, c->latent.nope_dim, 192,
                          c->latent.rope_dim, 64, c->latent.value_dim, 256);
    assert_true(c->latent.rows_paired && !c->qkv_bias);
    config_assert_numbers(c->ropes[0].n_rot, 64, c->ropes[0].theta, 1e6, c->latent.scale, 0.0625,
                          c->n_mtp_layers, 1, c->routing.law, SP_ROUTE_SIGMOID);
    assert_true(c->routing.corrected && c->routing.norm && !c->routing.groups_by_best);
    config_assert_near(c->routing.scale, 1.8);
    for (unsigned i = 0; i < 4; i++) {
        const struct sp_layer_config *l = &c->layers[i];
        assert_int_equal(l->n_heads, 20);
        assert_int_equal(l->n_kv_heads, 1);
        assert_int_equal(l->head_dim, 576);
        assert_int_equal(sp_config_value_dim(c, l), 512);
        assert_int_equal(l->n_experts, i == 0 ? 0 : 64);
        assert_int_equal(l->n_ffn, i == 0 ? 10240 : 1536);
        assert_int_equal(l->n_shared_ffn, i == 0 ? 0 : 1536);
    }

    c = config_read_testdata("deepseek_v2_lite", NULL);
    assert_int_equal(c->latent.q_rank, 0);
    assert_true(c->latent.rows_paired);
    config_assert_near(c->ropes[0].amplitude, 1);        /* mscale equals mscale_all_dim, */
    config_assert_near(c->latent.scale, 0.114721386793); /* which scales the scores by its square */
    assert_int_equal(c->routing.law, SP_ROUTE_SOFTMAX);
    assert_true(!c->routing.norm && !c->routing.corrected);
    assert_int_equal(c->routing.n_groups, 0); /* greedy routing ignores groups */
    config_assert_numbers(c->layers[0].n_experts, 0, c->layers[1].n_shared_ffn, 2 * 1408);

    c = config_read_testdata("deepseek_v2_grouped", NULL);
    assert_int_equal(c->latent.q_rank, 1536);
    assert_true(c->routing.groups_by_best);
    config_assert_numbers(c->routing.n_groups, 8, c->routing.n_groups_used, 3, c->routing.scale,
                          16);

    c = config_read_testdata("deepseek_v3_sparse", NULL);
    config_assert_numbers(c->latent.q_rank, 1536, c->latent.value_dim, 128, c->routing.n_groups, 8,
                          c->routing.n_groups_used, 4, c->routing.scale, 2.5, c->norm_eps, 1e-6,
                          c->layers[2].n_experts, 0, c->layers[3].n_experts, 256,
                          c->layers[3].n_experts_used, 8);
}

/* Text models inside of multimodal configs: of any family, or flat as the first releases are. */
TEST(wrapped)
{
    struct sp_config *c = config_parsed("{\"model_type\": \"internvl\", \"text_config\": "
                                        "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2}}");
    struct sp_config refused;
    static const char other[] =
        "{\"model_type\": \"qwen3_vl\", \"text_config\": {\"model_type\": \"qwen3\"}}";

    assert_string_equal(c->family, "qwen3");
    c = config_parsed("{\"architectures\": [\"Qwen2_5_VLForConditionalGeneration\"], "
                      "\"num_hidden_layers\": 2, \"num_attention_heads\": 16, "
                      "\"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [64, 96, 96]}}");
    assert_string_equal(c->family, "qwen2_5_vl_text");
    config_assert_numbers(c->n_layers, 2, c->layers[0].head_dim, 512);
    assert_fails(sp_config_parse(&refused, other, strlen(other), NULL, why), SP_E_UNSUPPORTED, "");
}

/* Keys under the names of a family's own configs; a shared name takes precedence. */
/* Falcon's K/V heads and norms by its switches: 7B, 40B, 11B, and one without parallel blocks. */
TEST(falcon)
{
    static const struct {
        const char *keys;
        unsigned n_kv;
        enum sp_norms norms;
    } cases[] = {
        {"", 1, SP_NORM_PARALLEL},
        {", \"new_decoder_architecture\": true, \"num_kv_heads\": 2", 2, SP_NORM_TWIN},
        {", \"new_decoder_architecture\": true, \"num_kv_heads\": 2, \"num_ln_in_parallel_attn\": "
         "1",
         2, SP_NORM_PARALLEL},
        {", \"multi_query\": false, \"parallel_attn\": false", 4, SP_NORM_PRE},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_config *c = config_parsed(keep_format(
            "{\"model_type\": \"falcon\", \"hidden_size\": 64, \"n_head\": 4, \"n_layer\": 2%s}",
            cases[i].keys));
        assert_int_equal(c->layers[1].n_kv_heads, cases[i].n_kv);
        assert_int_equal(c->layers[1].norms, cases[i].norms);
        assert_int_equal(c->layers[1].n_ffn, 256);
    }
}

/* Llama 4 rotates and chunks the same layers; gpt-neox may run its sublayers one after another. */
TEST(chunks)
{
    struct sp_config *c = config_parsed(
        "{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 4, \"no_rope_layers\": [], "
        "\"attention_chunk_size\": 9, \"attn_temperature_tuning\": 4, \"moe_layers\": [1]}");

    config_assert_windows(c, "9,9,9,0");
    assert_true(c->layers[2].chunked && !c->layers[3].chunked && c->layers[3].rope == -1);
    config_assert_near(c->query_growth.beta, 0.1);
    assert_int_equal(c->layers[0].n_experts, 0);
    assert_int_equal(c->layers[0].n_ffn, 16384);
    assert_int_equal(c->layers[1].n_ffn, 8192);
    c = config_parsed("{\"model_type\": \"gpt_neox\", \"use_parallel_residual\": false}");
    assert_int_equal(c->layers[0].norms, SP_NORM_PRE);
}

TEST(other_key_names)
{
    struct sp_config *c = config_parsed(
        "{\"model_type\": \"exaone\", \"num_layers\": 3, \"layer_norm_epsilon\": 0.25}");

    config_assert_numbers(c->n_layers, 3, c->norm_eps, 0.25);
    c = config_parsed("{\"model_type\": \"exaone\", \"num_layers\": 3, \"num_hidden_layers\": 2}");
    assert_int_equal(c->n_layers, 2);
}
