/* format/config/config.h: models. Every expected number is read by hand from a config.json and the
 * documented rules of its family, or computed by hand from a formula. None comes from the code
 * under test. */
#include "format/config/config.h"

#include <unistd.h>

#include "format/family/config_parse.h"
#include "format/family/family_table.h"
#include "tests/support/config_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

static void assert_ropes(const struct sp_config *c, const char *expected)
{
    char text[256] = "";

    for (unsigned i = 0; i < c->n_layers; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%d" : "%d",
                 c->layers[i].rope);
    }
    assert_string_equal(text, expected);
}

static void assert_shape(const struct sp_config *c, unsigned n_heads, unsigned n_kv_heads,
                         unsigned head_dim, unsigned n_ffn)
{
    config_assert_numbers(c->layers[0].n_heads, n_heads, c->layers[0].n_kv_heads, n_kv_heads,
                          c->layers[0].head_dim, head_dim, c->layers[0].n_ffn, n_ffn);
}

/* One line of testdata/config/goldens.txt. */
struct golden {
    char name[64], family[32], architecture[64], windows[64], ropes[64], kind[16], traits[64];
    unsigned n_layers, n_heads, n_kv_heads, head_dim, n_ffn, max_positions, n_rot;
    double theta, factor, original, amplitude, eps;
};

static bool read_golden(struct golden *g, const char *line)
{
    return sscanf(
               line, "%63s %31s %63s %u %u %u %u %u %u %63s %63s %15s %lf %lf %lf %lf %u %lf %63s",
               g->name, g->family, g->architecture, &g->n_layers, &g->n_heads, &g->n_kv_heads,
               &g->head_dim, &g->n_ffn, &g->max_positions, g->windows, g->ropes, g->kind, &g->theta,
               &g->factor, &g->original, &g->amplitude, &g->n_rot, &g->eps, g->traits) == 19;
}

static bool has_trait(const struct golden *g, const char *trait)
{
    const char *list = keep_format(",%s,", g->traits);
    return strstr(list, keep_format(",%s,", trait)) != NULL;
}

static void check_golden(const struct golden *g)
{
    static const char *const kinds[] = {"default", "linear", "llama3", "yarn"};
    bool gemma = has_trait(g, "gemma");

    print_message("%s\n", g->name);
    struct sp_config *c = config_read(keep_format(SHARED "/oracle/%s/config.json", g->name), NULL);
    const struct sp_rope *r = &c->ropes[0];
    assert_string_equal(c->family, g->family);
    assert_string_equal(c->architecture, g->architecture);
    config_assert_numbers(c->n_vocab, 512, c->n_hidden, 64, c->n_layers, g->n_layers,
                          c->max_positions, g->max_positions);
    assert_shape(c, g->n_heads, g->n_kv_heads, g->head_dim, g->n_ffn);
    config_assert_windows(c, g->windows);
    assert_ropes(c, g->ropes);
    assert_true((size_t)r->kind < sizeof kinds / sizeof kinds[0]);
    assert_string_equal(kinds[r->kind], g->kind);
    assert_int_equal(r->n_rot, g->n_rot);
    config_assert_near(r->theta, g->theta);
    config_assert_near(r->factor, g->factor);
    config_assert_near(r->original_positions, g->original);
    config_assert_near(r->amplitude, g->amplitude);
    config_assert_near(c->norm_eps, g->eps);
    assert_int_equal(c->tied, has_trait(g, "tied"));
    assert_int_equal(c->qk_norm, has_trait(g, "qk_norm"));
    assert_int_equal(c->qkv_bias, has_trait(g, "qkv_bias"));
    assert_int_equal(c->o_bias, has_trait(g, "o_bias"));
    assert_int_equal(c->mlp_bias, has_trait(g, "mlp_bias"));
    config_assert_numbers(c->norm_shifted, gemma, c->norms, gemma ? SP_NORM_SANDWICH : SP_NORM_PRE);
    config_assert_near(c->embedding_scale, gemma ? 8 : 1); /* sqrt(64) */
}

TEST(golden_checkpoints)
{
    char *text, *line, *rest;
    size_t size, n = 0;

    if (access(SHARED "/oracle/targets", R_OK) != 0) skip();
    text = scratch_read(TESTDATA "/config/goldens.txt", &size);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct golden g;
        if (line[0] == '#') continue;
        assert_true(read_golden(&g, line));
        check_golden(&g);
        n++;
    }
    assert_true(n >= 22);
}

/* Numbers that only one family's golden config has. */
TEST(golden_special_values)
{
    if (access(SHARED "/oracle/targets", R_OK) != 0) skip();
    struct sp_config *c = config_read(SHARED "/oracle/targets/gemma2/config.json", NULL);
    config_assert_numbers(c->attention_cap, 50, c->logit_cap, 30);
    config_assert_near(c->attention_scale, 0.204124145232); /* 24^-1/2 */
    assert_int_equal(c->activation, SP_GELU_TANH);

    c = config_read(SHARED "/oracle/targets/gemma3/config.json", NULL);
    config_assert_numbers(c->n_ropes, 2, c->ropes[1].theta, 10000, c->attention_cap, 0,
                          c->logit_cap, 0);
    config_assert_near(c->attention_scale, 0.158113883008); /* 40^-1/2 */

    c = config_read(SHARED "/oracle/targets/gpt_oss/config.json", NULL);
    config_assert_numbers(c->activation, SP_SWIGLU_CLAMPED, c->layers[0].limits[0], 7);
    assert_true(c->attention_sinks && c->routing.biased && !c->routing.norm);
    assert_false(c->ropes[0].truncate);
    config_assert_numbers(c->layers[3].n_experts, 4, c->layers[3].n_experts_used, 2);

    c = config_read(SHARED "/oracle/targets/qwen3_moe/config.json", NULL);
    assert_true(c->routing.norm);
    assert_int_equal(c->layers[0].n_experts, 6);
    assert_int_equal(c->layers[1].n_experts, 0); /* mlp_only_layers */
    config_assert_numbers(c->layers[1].n_ffn, 96, c->layers[2].n_experts_used, 2);

    c = config_read(SHARED "/oracle/targets/ministral3/config.json", NULL);
    config_assert_numbers(c->query_growth.beta, 0.5, c->query_growth.from, 64);
}

/* The expected numbers are read by hand from the config.json files. */
TEST(golden_gemma4)
{
    if (access(SHARED "/oracle/targets", R_OK) != 0) skip();
    struct sp_config *c = config_read(SHARED "/oracle/targets/gemma4_e2b/config.json", NULL);
    config_assert_numbers(c->n_per_layer, 32, c->n_per_layer_vocab, 512, c->attention_scale, 1,
                          c->logit_cap, 3);
    assert_true(c->v_norm && c->norms == SP_NORM_SANDWICH && c->qk_norm && !c->norm_shifted);
    config_assert_numbers(c->layers[0].head_dim, 16, c->layers[0].window, 5, c->layers[2].head_dim,
                          32, c->layers[2].window, 0, c->layers[4].kv_source, 4);
    assert_int_equal(c->layers[5].kv_source, 3); /* the last sliding layer below layer 5 */
    config_assert_numbers(c->layers[7].kv_source, 4, c->layers[4].n_ffn, 96);
    assert_int_equal(c->layers[5].n_ffn, 192); /* twice as wide where keys are shared */
    assert_int_equal(c->ropes[0].n_rot, 32);
    assert_int_equal(c->ropes[0].n_rotated, 4); /* 0.25 * 32 / 2 */
    assert_int_equal(c->ropes[1].n_rot, 16);

    c = config_read(SHARED "/oracle/targets/gemma4_moe/config.json", NULL);
    config_assert_numbers(c->logit_cap, 0, c->layers[0].n_experts, 6, c->layers[0].n_experts_used,
                          2, c->layers[0].n_ffn, 32, c->layers[0].n_shared_ffn, 96,
                          c->layers[0].n_kv_heads, 4, c->layers[5].n_kv_heads, 2);
    assert_true(c->layers[5].v_from_k && !c->layers[0].v_from_k);
}

TEST(llama)
{
    char *warnings = NULL;
    struct sp_config *c = config_read_testdata("llama_bias", NULL);

    assert_true(c->qkv_bias && c->o_bias && c->mlp_bias && !c->tied && c->tied_stated);
    assert_int_equal(c->activation, SP_SILU); /* "swish" */
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_LINEAR, c->ropes[0].factor, 2);
    assert_shape(c, 6, 2, 8, 88);
    config_assert_near(c->attention_scale, 0.353553390593); /* 8^-1/2 */

    c = config_read_testdata("llama3_tied", NULL);
    assert_true(c->tied && c->tied_stated);
    config_assert_near(c->ropes[0].theta, 10001); /* the nested value precedes the class default */
    config_assert_numbers(c->ropes[0].low_freq_factor, 1, c->ropes[0].high_freq_factor, 4,
                          c->ropes[0].original_positions, 32);
    assert_int_equal(c->max_positions, 256); /* written as 256.0 */

    /* Class defaults apply. A window, which transformers' Llama does not support, causes a warning.
     */
    c = config_read_testdata("llama_sparse", &warnings);
    config_assert_numbers(c->n_vocab, 32000, c->n_hidden, 4096, c->n_layers, 32, c->max_positions,
                          2048);
    assert_shape(c, 32, 32, 128, 11008);
    config_assert_numbers(c->norm_eps, 1e-6, c->ropes[0].theta, 500000);
    assert_false(c->tied || c->tied_stated || c->qkv_bias || c->mlp_bias);
    assert_int_equal(c->layers[0].window, 0);
    assert_string_equal(warnings, "sliding_window has no effect in family llama");

    /* null means absent, NaN is accepted as in files written by Python, and the last value of a
     * repeated key counts. */
    c = config_read_testdata("null_and_nan", NULL);
    assert_int_equal(c->n_layers, 2);
    assert_shape(c, 4, 4, 16, 11008);
}

TEST(mistral)
{
    struct sp_config *c = config_read_testdata("mistral_nemo", NULL);

    assert_shape(c, 4, 1, 16, 56);
    assert_int_equal(c->n_hidden, 40);
    config_assert_windows(c, "5,5,5");
    config_assert_near(c->ropes[0].theta, 1e6);

    c = config_read_testdata("mistral_default_window", NULL);
    config_assert_windows(c, "4096,4096");
    assert_shape(c, 32, 8, 128, 14336);

    c = config_read_testdata("ministral_mix", NULL);
    assert_string_equal(c->family, "ministral");
    config_assert_windows(c, "0,4,4");

    c = config_read_testdata("ministral3_wrap", NULL);
    assert_string_equal(c->family, "ministral3");
    config_assert_near(c->ropes[0].theta, 1e4); /* the dict does not state theta */
    assert_int_equal(c->ropes[0].kind, SP_ROPE_YARN);
    config_assert_near(c->ropes[0].amplitude, 1); /* mscale equals mscale_all_dim */
    config_assert_numbers(c->query_growth.beta, 0.5, c->query_growth.from, 64);
    assert_false(c->tied_stated);

    /* All values come from the class, including the rotation. The text_config's tie_word_embeddings
     * precedes that of the root. */
    c = config_read_testdata("ministral3_sparse", NULL);
    assert_int_equal(c->n_vocab, 131072);
    assert_shape(c, 32, 8, 128, 14336);
    config_assert_windows(c, "0,0");
    config_assert_near(c->norm_eps, 1e-5);
    config_assert_near(c->ropes[0].theta,
                       1e6); /* the default dict precedes the member outside of it */
    config_assert_numbers(c->ropes[0].factor, 16, c->ropes[0].original_positions, 16384,
                          c->ropes[0].beta_fast, 32, c->ropes[0].beta_slow, 1);
    assert_true(c->ropes[0].truncate);
    config_assert_numbers(c->query_growth.beta, 0.1, c->query_growth.from, 16384);
    assert_true(c->tied_stated && !c->tied);
}

/* Every layer has experts, whose width is intermediate_size. */
TEST(mixtral)
{
    struct sp_config *c = config_read_testdata("mixtral", NULL);

    config_assert_windows(c, "0,0");
    assert_shape(c, 5, 1, 8, 56);
    assert_int_equal(c->layers[1].n_experts, 6);
    assert_int_equal(c->layers[1].n_experts_used, 2); /* class default */
    assert_int_equal(c->layers[1].n_shared_ffn, 0);
    assert_true(c->routing.norm && !c->routing.biased && !c->shared_gate && !c->qk_norm);
}

TEST(qwen)
{
    struct sp_config *c = config_read_testdata("qwen2_swa", NULL);

    config_assert_windows(c, "0,0,4,4");
    assert_true(c->qkv_bias && !c->o_bias && !c->mlp_bias && !c->qk_norm && c->tied);

    c = config_read_testdata("qwen2_window_off", NULL);
    config_assert_windows(c, "0,0,0,0");
    assert_shape(c, 32, 32, 128, 22016);

    /* beta_fast null and beta_slow 0 select the defaults. */
    c = config_read_testdata("qwen3_yarn", NULL);
    config_assert_numbers(c->ropes[0].theta, 1e6, c->ropes[0].factor, 4, c->ropes[0].beta_fast, 32,
                          c->ropes[0].beta_slow, 1);
    config_assert_near(c->ropes[0].amplitude, 1.138629436112); /* 0.1 ln 4 + 1 */
    assert_int_equal(c->ropes[0].n_rot, 16);
    assert_true(c->qk_norm && !c->qkv_bias);

    /* The factor follows from the lengths, and the attention factor is given. */
    c = config_read_testdata("qwen3_yarn_lengths", NULL);
    config_assert_numbers(c->ropes[0].theta, 5e6, c->ropes[0].factor, 4, c->ropes[0].amplitude,
                          1.5);
    assert_shape(c, 32, 32, 128, 22016);

    /* rope_scaling is used, but theta comes from the other dict. */
    c = config_read_testdata("unused_dict_theta", NULL);
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_LINEAR, c->ropes[0].theta, 123456);

    c = config_read_testdata("qwen3_moe", NULL);
    for (unsigned i = 0; i < 5; i++) {
        config_assert_numbers(c->layers[i].n_experts, i == 1 ? 6 : 0, c->layers[i].n_experts_used,
                              i == 1 ? 2 : 0, c->layers[i].n_ffn, i == 1 ? 24 : 40);
    }
    assert_true(c->routing.norm);

    /* In both families either all layers or none have a window, and layer_types is not read. */
    c = config_read_testdata("qwen3_moe_listed", NULL);
    config_assert_windows(c, "7,7");
    c = config_read_testdata("mixtral_listed", NULL);
    config_assert_windows(c, "7,7");
}

/* Compares the mixers of the layers: A attention, D delta, C short convolution. */
static void assert_mixers(const struct sp_config *c, const char *expected)
{
    static const char letters[] = {[SP_MIXER_ATTENTION] = 'A',
                                   [SP_MIXER_DELTA_NET] = 'D',
                                   [SP_MIXER_SHORT_CONV] = 'C',
                                   [SP_MIXER_MAMBA] = 'M'};
    char text[64] = "";

    for (unsigned i = 0; i < c->n_layers; i++)
        text[i] = letters[c->layers[i].mixers];
    assert_string_equal(text, expected);
}

TEST(lfm2)
{
    /* The released spelling: block_ff_dim and tie_embedding are used. */
    struct sp_config *c = config_read_testdata("lfm2_released", NULL);
    assert_mixers(c, "CCACAC");
    assert_true(sp_config_is_recurrent(c));
    assert_int_equal(c->short_conv.kernel, 4);
    assert_false(c->short_conv.bias || c->qkv_bias || c->o_bias);
    assert_true(c->tied && c->tied_stated && c->qk_norm && !c->norm_shifted);
    config_assert_numbers(c->norm_eps, 1e-5, c->ropes[0].theta, 1e6, c->ropes[0].n_rot, 12);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(c->layers[i].n_ffn,
                         208); /* 200 * 2 / 3 = 133, * 1.5 = 199, rounded up to a multiple of 16 */
    config_assert_numbers(c->layers[0].rope, -1, c->layers[2].n_heads, 4, c->layers[0].n_heads, 0);

    /* The list of layer types is used. Without a multiplier the width is not rounded. */
    c = config_read_testdata("lfm2_sparse", NULL);
    assert_mixers(c, "CAC");
    config_assert_numbers(c->n_hidden, 2560, c->short_conv.kernel, 3);
    assert_int_equal(c->layers[1].n_ffn, 8192); /* 12288 * 2 / 3 */
    assert_true(c->tied && !c->tied_stated);
}

TEST(qwen3_5)
{
    /* A text model at the root: layers are listed, and all sizes are given. */
    struct sp_config *c = config_read_testdata("qwen3_5_text", NULL);
    assert_mixers(c, "DDAD");
    config_assert_numbers(c->delta.n_key_heads, 2, c->delta.n_value_heads, 4, c->delta.key_dim, 8,
                          c->delta.value_dim, 12, c->delta.kernel, 3);
    assert_true(c->norm_shifted && c->qk_norm && !c->qkv_bias && !c->tied);
    assert_true(c->layers[2].output_gate && !c->layers[1].output_gate);
    config_assert_numbers(c->layers[1].rope, -1, c->layers[2].rope, 0);
    assert_int_equal(c->ropes[0].n_rot, 4); /* a quarter of 16, the default of the class */
    assert_int_equal(c->n_mtp_layers, 1);

    /* A wrapped model with experts: layers follow an interval, and the sizes of the delta heads are
     * the defaults. */
    c = config_read_testdata("qwen3_5_moe", NULL);
    assert_mixers(c, "DADADA");
    config_assert_numbers(c->delta.n_value_heads, 32, c->delta.kernel, 4);
    assert_true(c->tied && c->routing.norm && c->shared_gate);
    for (unsigned i = 0; i < 6; i++) {
        config_assert_numbers(c->layers[i].n_experts, 4, c->layers[i].n_experts_used, 2,
                              c->layers[i].n_ffn, 16, c->layers[i].n_shared_ffn, 24);
    }
}

TEST(qwen3_next)
{
    struct sp_config *c = config_read_testdata("qwen3_next", NULL);

    assert_mixers(c, "DDADDA");
    config_assert_numbers(c->delta.n_key_heads, 3, c->delta.n_value_heads, 6, c->delta.key_dim, 8,
                          c->delta.value_dim, 4, c->delta.kernel, 4);
    assert_true(c->norm_shifted && c->qk_norm && c->shared_gate && !c->routing.norm && !c->tied);
    assert_true(c->layers[2].output_gate);
    assert_int_equal(c->ropes[0].n_rot, 8);
    for (unsigned i = 0; i < 6; i++) {
        config_assert_numbers(c->layers[i].n_experts, i == 1 ? 0 : 5, c->layers[i].n_ffn,
                              i == 1 ? 40 : 16, c->layers[i].n_shared_ffn, i == 1 ? 0 : 24);
    }
}

/* Experts in some layers, and their routing. */
TEST(routing)
{
    struct sp_config *c = config_read_testdata("lfm2_moe", NULL);

    assert_mixers(c, "CCAC");
    assert_int_equal(c->routing.law, SP_ROUTE_SIGMOID);
    assert_true(c->routing.corrected && c->routing.norm && !c->routing.biased && !c->tied);
    config_assert_numbers(c->routing.norm_eps, 1e-6, c->routing.scale, 1.5);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(c->layers[i].n_experts, i < 3 ? 0 : 6);
        assert_int_equal(c->layers[i].n_ffn, i < 3 ? 72 : 24); /* not changed by the multiplier */
    }

    c = config_read_testdata("olmoe", NULL);
    assert_int_equal(c->routing.law, SP_ROUTE_SOFTMAX);
    assert_true(!c->routing.corrected && !c->routing.norm);
    config_assert_numbers(c->qk_norm, SP_QK_WHOLE, c->routing.scale, 1, c->layers[0].n_experts, 6,
                          c->layers[0].n_ffn, 24, c->layers[0].n_shared_ffn, 0);

    c = config_read_testdata("glm4_moe", NULL);
    assert_int_equal(c->routing.law, SP_ROUTE_SIGMOID);
    assert_true(c->routing.corrected && c->routing.norm && !c->shared_gate);
    config_assert_numbers(c->routing.norm_eps, 1e-20, c->routing.scale, 2.5, c->n_mtp_layers, 1,
                          c->routing.n_groups, 4, c->routing.n_groups_used, 2, c->qk_norm,
                          SP_QK_HEADS);
    assert_true(c->qkv_bias && !c->o_bias && !c->mlp_bias);
    assert_int_equal(c->ropes[0].n_rot, 8);
    for (unsigned i = 0; i < 4; i++) {
        config_assert_numbers(c->layers[i].n_experts, i < 2 ? 0 : 8, c->layers[i].n_experts_used,
                              i < 2 ? 0 : 3, c->layers[i].n_ffn, i < 2 ? 72 : 24,
                              c->layers[i].n_shared_ffn, i < 2 ? 0 : 72);
    }
}

TEST(routing_of_other_families)
{
    struct sp_config *c = config_read_testdata("granitemoe", NULL);

    assert_int_equal(c->routing.law, SP_ROUTE_SOFTMAX_CHOSEN);
    assert_true(!c->routing.biased && !c->routing.corrected && !c->routing.norm && c->tied);
    config_assert_numbers(c->layers[0].n_experts, 6, c->layers[0].n_experts_used, 3,
                          c->layers[0].n_ffn, 24, c->attention_scale, 0.015625);

    c = config_read_testdata("ernie4_5_moe", NULL);
    assert_int_equal(c->routing.law, SP_ROUTE_SOFTMAX);
    assert_true(c->routing.corrected && c->routing.norm && c->tied && !c->shared_gate);
    for (unsigned i = 0; i < 8; i++) {
        bool sparse = i == 3 || i == 5; /* the odd layers of 2..5 */
        config_assert_numbers(c->layers[i].n_experts, sparse ? 6 : 0, c->layers[i].n_experts_used,
                              sparse ? 3 : 0, c->layers[i].n_ffn, sparse ? 20 : 72,
                              c->layers[i].n_shared_ffn, sparse ? 60 : 0);
    }
}

TEST(gemma)
{
    struct sp_config *c = config_read_testdata("gemma2_caps", NULL), *d, same;

    config_assert_numbers(c->attention_cap, 2, c->logit_cap, 3);
    config_assert_near(c->attention_scale, 0.223606797750); /* 20^-1/2 */
    config_assert_near(c->embedding_scale, 6.9375);         /* sqrt(48) in bfloat16 */
    assert_int_equal(c->activation, SP_GELU_TANH);          /* hidden_act is not read */
    config_assert_windows(c, "4,0,4,0");
    assert_true(c->tied && !c->tied_stated);

    c = config_read_testdata("gemma2_no_caps", NULL);
    config_assert_numbers(c->attention_cap, 0, c->logit_cap, 0);
    config_assert_near(c->embedding_scale, 48); /* sqrt(2304) */
    assert_shape(c, 8, 4, 256, 9216);
    config_assert_windows(c, "4096");

    /* A config that states only differences from the class, and the same model written in full in
     * the newer notation. */
    c = config_read_testdata("gemma3_sparse", NULL);
    d = config_read_testdata("gemma3_nested", NULL);
    config_assert_windows(c, "4,4,4,4,4,0,4");
    assert_ropes(c, "1,1,1,1,1,0,1");
    assert_shape(c, 8, 4, 256, 96);
    config_assert_numbers(c->max_positions, 131072, c->ropes[0].theta, 1e6, c->ropes[0].factor, 8,
                          c->ropes[0].kind, SP_ROPE_LINEAR, c->ropes[1].theta, 1e4,
                          c->ropes[1].kind, SP_ROPE_DEFAULT);
    config_assert_near(c->attention_scale, 0.0625); /* 256^-1/2 */
    config_assert_near(c->embedding_scale, 8);
    assert_memory_equal(c->layers, d->layers, 7 * sizeof *c->layers);
    memcpy(&same, d, sizeof same);
    same.layers = c->layers;
    assert_memory_equal(c, &same, sizeof same);
}

TEST(gemma4)
{
    struct sp_config *c = config_read_testdata("gemma4_sparse", NULL);

    config_assert_windows(
        c, "4,0,4,0"); /* the last layer has full attention, whatever the list states */
    assert_ropes(c, "1,0,1,0");
    config_assert_numbers(c->layers[0].head_dim, 256, c->layers[1].head_dim, 512, c->n_per_layer,
                          256, c->n_per_layer_vocab, 262144, c->logit_cap, 0, c->ropes[0].kind,
                          SP_ROPE_PROPORTIONAL);
    assert_int_equal(c->ropes[0].n_rotated,
                     64); /* a quarter: the value inside the dict precedes the one outside */
    config_assert_numbers(c->ropes[0].theta, 1e6, c->ropes[1].n_rot, 256, c->ropes[1].theta, 1e4);

    c = config_read_testdata("gemma4_ropes", NULL);
    config_assert_windows(c, "4,0");
    config_assert_numbers(c->n_per_layer, 0, c->layers[1].head_dim, 32, c->ropes[0].n_rot, 32);
    assert_int_equal(c->ropes[0].n_rotated,
                     16); /* without partial_rotary_factor all pairs rotate */
    config_assert_near(c->ropes[0].theta, 5e5);
}

TEST(smollm_phi_oss)
{
    char *warnings = NULL;
    struct sp_config *c = config_read_testdata("smollm3", NULL);

    assert_ropes(c, "0,0,0,-1,0");
    config_assert_windows(c, "0,0,0,0,0");
    config_assert_near(c->ropes[0].theta, 2e6);
    assert_true(c->tied);

    c = config_read_testdata("smollm3_window", NULL);
    assert_ropes(c, "0,-1,0,0,-1");
    config_assert_windows(c, "0,3,0,0,3");

    c = config_read_testdata("phi3_long", &warnings);
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_LONGROPE, c->ropes[0].n_rot, 12,
                          c->ropes[0].short_factors[5], 2.25, c->ropes[0].long_factors[0], 2,
                          c->ropes[0].factor, 4, c->ropes[0].original_positions, 16);
    config_assert_near(c->ropes[0].amplitude,
                       1.224744871392); /* sqrt(1 + ln 4 / ln 16) = sqrt(1.5) */
    config_assert_windows(c, "7,7");
    assert_string_equal(warnings, "auto_map: custom code is not run, the model is taken as phi3");

    /* The class's original length precedes the dict's, and layer_types is not read. */
    c = config_read_testdata("phi3_class_original", NULL);
    config_assert_numbers(c->ropes[0].original_positions, 4096, c->ropes[0].factor, 16);
    config_assert_near(c->ropes[0].amplitude, 1.154700538379); /* sqrt(1 + ln 16 / ln 4096) */
    config_assert_windows(c, "7,7");

    c = config_read_testdata("phi3_yarn_means_longrope", NULL);
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_LONGROPE, c->ropes[0].factor, 32);
    config_assert_near(c->ropes[0].amplitude,
                       1.190238071238); /* sqrt(1 + ln 32 / ln 4096) = sqrt(17/12) */

    c = config_read_testdata("gpt_oss_sparse", NULL);
    config_assert_windows(c, "128,0,128");
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_YARN, c->ropes[0].theta, 150000,
                          c->ropes[0].factor, 32, c->ropes[0].original_positions, 4096);
    assert_false(c->ropes[0].truncate);
    config_assert_near(c->ropes[0].amplitude, 1.346573590280); /* 0.1 ln 32 + 1 */
    assert_true(c->qkv_bias && c->o_bias && c->mlp_bias);
    config_assert_numbers(c->layers[2].n_experts, 4, c->layers[2].n_experts_used, 2);
    assert_shape(c, 4, 2, 64, 32);

    c = config_read_testdata("gpt_oss_unscaled", NULL);
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_DEFAULT, c->ropes[0].theta, 150000);
}

TEST(refusals)
{
    static const char folder[] = TESTDATA "/corrupt/config/";
    char path[512], *cases, *line, *rest;
    size_t size, n = 0;

    snprintf(path, sizeof path, "%scases.txt", folder);
    cases = scratch_read(path, &size);
    for (line = strtok_r(cases, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
        struct sp_config c, zero = {0};
        struct sp_err err = {0};
        char *code = strchr(line, '\t'), *sentence = strchr(code + 1, '\t');
        *code++ = *sentence++ = '\0';
        snprintf(path, sizeof path, "%s%s.json", folder, line);
        enum sp_status st = config_parse_file(&c, path, NULL, &err);
        if ((int)st != atoi(code) || (strcmp(sentence, "*") && strcmp(err.text, sentence)))
            fail_msg("%s: %d \"%s\", expected %s \"%s\"", line, (int)st, err.text, code, sentence);
        assert_true(err.text[0] != '\0');
        assert_memory_equal(&c, &zero, sizeof c);
    }
    assert_true(n > 100);
}

static void assert_no_note(const char *path)
{
    size_t size;
    char *text = golden_file(path, &size), *warnings = NULL;
    struct sp_config c;

    assert_case_ok(path, sp_config_parse(&c, text, size, &warnings, why));
    if (warnings && strstr(warnings, "not known")) fail_msg("%s: %s", path, warnings);
    sp_config_release(&c);
    free(warnings);
}

static char *notes_of(const char *text)
{
    char *warnings = NULL;
    struct sp_config c;

    assert_ok(sp_config_parse(&c, text, strlen(text), &warnings, why));
    sp_config_release(&c);
    return keep(warnings);
}

/* A key that no reader asks for is named, unless it is one of keys_without_effect.txt. */
TEST(unread_keys)
{
    static const char begin[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":"
                                "\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                                "\"intermediate_size\":64,\"num_attention_heads\":1,"
                                "\"vocab_size\":100,\"rms_norm_eps\":1e-5";
    char text[1000];

    for (const char *const *name = golden_families(); *name; name++) {
        snprintf(text, sizeof text, TESTDATA "/families/%s/config.json", *name);
        assert_no_note(text);
    }
    snprintf(text, sizeof text, "%s,\"new_scale\":2,\"none\":null,\"empty\":{}}", begin);
    assert_string_equal(notes_of(text), "config.json: new_scale is not known and has no effect");
    snprintf(text, sizeof text, "%s,\"embd_pdrop\":0.1,\"initializer_range\":1,\"dtype\":\"x\"}",
             begin);
    assert_null(notes_of(text));
    snprintf(text, sizeof text, "%s,\"pdrop\":0.1,\"_dropout_rate\":1,\"dtypes\":1}", begin);
    assert_non_null(strstr(notes_of(text), "config.json: pdrop is not known"));
    assert_non_null(strstr(notes_of(text), "config.json: _dropout_rate is not known"));
    assert_non_null(strstr(notes_of(text), "config.json: dtypes is not known"));
    assert_non_null(strstr(
        notes_of("{\"architectures\":[\"Mistral3ForConditionalGeneration\"],"
                 "\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":"
                 "\"mistral\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                 "\"intermediate_size\":64,\"num_attention_heads\":1,\"num_key_value_heads\":1,"
                 "\"vocab_size\":100,\"rms_norm_eps\":1e-5,\"new_scale\":2}}"),
        "new_scale is not known"));
}

TEST(end_ids)
{
    static const struct {
        const char *config, *generation, *ids, *error;
    } cases[] = {
        {"{\"eos_token_id\": 2}", NULL, "2", NULL},
        {"{\"eos_token_id\": 151645}", "{\"eos_token_id\": [151645, 151643]}", "151645 151643",
         NULL},
        {"{\"eos_token_id\": 7}", "{\"do_sample\": true}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": null}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": []}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": 0}", "0", NULL},
        {"{\"text_config\": {\"eos_token_id\": 1}}", NULL, "1", NULL},
        {"{\"eos_token_id\": [1, 106], \"text_config\": {\"eos_token_id\": 1}}", NULL, "1 106",
         NULL},
        {"{\"eos_token_id\": null}", NULL, "", NULL},
        {"{}", "{}", "", NULL},
        {"{\"eos_token_id\": [3, 3, 3]}", NULL, "3", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": -1}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": [3, null]}", "3", NULL},
        {"{\"eos_token_id\": -2}", NULL, NULL, "config.json: eos_token_id holds no token ID"},
        {"{\"eos_token_id\": 1}", "{\"eos_token_id\": [\"a\"]}", NULL,
         "generation_config.json: eos_token_id holds no token ID"},
        {"{\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", NULL, NULL,
         "config.json: eos_token_id has more than 16 ids"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sp_text config = whole_text(cases[i].config),
                             g = whole_text(cases[i].generation);
        uint32_t ids[SP_MAX_EOS];
        char text[128] = "";
        struct sp_err err = {0};
        size_t n;
        enum sp_status st = sp_config_eos(ids, &n, &config, &g, &err);
        if (cases[i].error) {
            assert_int_not_equal(st, SP_OK);
            assert_string_equal(err.text, cases[i].error);
            continue;
        }
        if (st) fail_msg("case %zu: %s", i, err.text);
        for (size_t k = 0; k < n; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), k ? " %u" : "%u", ids[k]);
        assert_string_equal(text, cases[i].ids);
    }
}

/* MODELS.md has a row for every family, with the GGUF architectures that are read as this family,
 * and names every multimodal config. */
TEST(documented)
{
    size_t size;
    const char *models = scratch_read(TESTDATA "/../MODELS.md", &size);
    char cells[256];

    for (size_t i = 0; sp_family_at(i); i++) {
        const struct sp_family *row = sp_family_at(i);
        char name[64];
        snprintf(cells, sizeof cells, "| `%s` |", row->name);
        for (const struct sp_gguf_arch *a = row->gguf.archs; a->name; a++) {
            snprintf(name, sizeof name, " `%s`", a->name);
            if (strstr(strchr(cells + 3, '|'), name)) continue;
            if (a > row->gguf.archs) strcat(cells, ",");
            strcat(cells, name);
        }
        strcat(cells, " |");
        if (strstr(row->name, "_assistant")) /* a draft */
            snprintf(cells, sizeof cells, "`%s`", row->name);
        if (strstr(row->name, "_dflash")) snprintf(cells, sizeof cells, "`%s`", row->architecture);
        if (strstr(models, cells) == NULL) fail_msg("MODELS.md has no row with %s", cells);
    }
    for (const struct sp_wrapper *w = sp_wrappers; w->name; w++) {
        snprintf(cells, sizeof cells, "`%s`", w->name);
        if (strstr(models, cells) == NULL) fail_msg("MODELS.md does not name %s", cells);
    }
}

/* Every row of the family table yields a valid model from its defaults and its required keys, and
 * is found by both of its names. */
TEST(family_table)
{
    for (size_t i = 0; sp_family_at(i); i++) {
        const struct sp_family *row = sp_family_at(i), *f;
        struct sp_family family;
        struct sp_config c;
        const struct sp_sizes *s = &family.sizes;
        sp_family_resolve(&family, row);
        f = &family;
        bool has_head_dim = s->head_dim || s->n_hidden % s->n_heads ==
                                               0; /* whether the head size follows from n_hidden;
                                                     otherwise the config must state it */
        bool counts = !f->reads.experts || f->n_experts_used;
        assert_ptr_equal(sp_family_by_type(f->name), row);
        if (!f->run_as || strcmp(f->run_as, f->architecture) != 0)
            assert_ptr_equal(sp_family_by_architecture(f->architecture), row);
        const char *text = keep_format("{\"model_type\": \"%s\"%s%s%s}", f->name,
                                       f->theta == 0 ? ", \"rope_theta\": 1e6" : "",
                                       has_head_dim ? "" : ", \"head_dim\": 128",
                                       counts ? "" : ", \"num_experts_per_tok\": 3");
        assert_case_ok(f->name, sp_config_parse(&c, text, strlen(text), NULL, why));
        assert_string_equal(c.family, f->name);
        if (!sp_config_joins(&c) && !c.n_looped) assert_int_equal(c.n_layers, f->sizes.n_layers);
        assert_int_equal(c.tied, f->tied);
        sp_config_release(&c);
    }
}
