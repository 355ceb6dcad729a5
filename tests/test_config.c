/* format/config.h. Every expected number is read by hand from a config.json and the documented
 * rules of its family, or computed by hand from a formula; none comes from the code under test. */
#include "format/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/family_table.h"
#include "tests/scratch.h"

static enum sp_status parse_file(struct sp_config *c, const char *path, char **notes,
                                 struct sp_err *err)
{
    size_t size;
    char *text = scratch_read(path, &size);
    enum sp_status st = sp_config_parse(c, text, size, notes, err);

    free(text);
    return st;
}

static void parse_ok(struct sp_config *c, const char *path, char **notes)
{
    struct sp_err err = {0};

    if (parse_file(c, path, notes, &err)) fail_msg("%s: %s", path, err.text);
}

/* One of testdata/config. */
static void parse_own(struct sp_config *c, const char *name, char **notes)
{
    char path[512];

    snprintf(path, sizeof path, TESTDATA "/config/%s.json", name);
    parse_ok(c, path, notes);
}

/* Numbers near each other to 9 digits: what a hand calculation gives. */
static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b)))) fail_msg("%.12g, expected %.12g", a, b);
}

/* Windows of the layers as text: "4,0,4". */
static void assert_windows(const struct sp_config *c, const char *expected)
{
    char text[256] = "";

    for (unsigned i = 0; i < c->n_layers; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%u" : "%u",
                 c->layers[i].window);
    }
    assert_string_equal(text, expected);
}

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
    assert_int_equal(c->layers[0].n_heads, n_heads);
    assert_int_equal(c->layers[0].n_kv_heads, n_kv_heads);
    assert_int_equal(c->layers[0].head_dim, head_dim);
    assert_int_equal(c->layers[0].n_ffn, n_ffn);
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
    char list[80], want[32];

    snprintf(list, sizeof list, ",%s,", g->traits);
    snprintf(want, sizeof want, ",%s,", trait);
    return strstr(list, want) != NULL;
}

static void check_golden(const struct golden *g)
{
    static const char *const kinds[] = {"default", "linear", "llama3", "yarn"};
    struct sp_config c;
    const struct sp_rope *r = &c.ropes[0];
    bool gemma = has_trait(g, "gemma");
    char path[512];

    print_message("%s\n", g->name);
    snprintf(path, sizeof path, SHARED "/oracle/%s/config.json", g->name);
    parse_ok(&c, path, NULL);
    assert_string_equal(c.family, g->family);
    assert_string_equal(c.architecture, g->architecture);
    assert_int_equal(c.n_vocab, 512);
    assert_int_equal(c.n_hidden, 64);
    assert_int_equal(c.n_layers, g->n_layers);
    assert_int_equal(c.max_positions, g->max_positions);
    assert_shape(&c, g->n_heads, g->n_kv_heads, g->head_dim, g->n_ffn);
    assert_windows(&c, g->windows);
    assert_ropes(&c, g->ropes);
    assert_true((size_t)r->kind < sizeof kinds / sizeof kinds[0]);
    assert_string_equal(kinds[r->kind], g->kind);
    assert_int_equal(r->n_rot, g->n_rot);
    assert_near(r->theta, g->theta);
    assert_near(r->factor, g->factor);
    assert_near(r->original_positions, g->original);
    assert_near(r->amplitude, g->amplitude);
    assert_near(c.norm_eps, g->eps);
    assert_int_equal(c.tied, has_trait(g, "tied"));
    assert_int_equal(c.qk_norm, has_trait(g, "qk_norm"));
    assert_int_equal(c.qkv_bias, has_trait(g, "qkv_bias"));
    assert_int_equal(c.o_bias, has_trait(g, "o_bias"));
    assert_int_equal(c.mlp_bias, has_trait(g, "mlp_bias"));
    assert_int_equal(c.norm_shifted, gemma);
    assert_int_equal(c.post_norms, gemma);
    assert_near(c.embedding_scale, gemma ? 8 : 1); /* sqrt(64) */
    sp_config_release(&c);
}

static void golden_checkpoints(void **state)
{
    char *text, *line, *rest;
    size_t size, n = 0;

    (void)state;
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
    free(text);
}

/* The numbers of golden configs that only one family has. */
static void golden_particulars(void **state)
{
    struct sp_config c;

    (void)state;
    if (access(SHARED "/oracle/targets", R_OK) != 0) skip();
    parse_ok(&c, SHARED "/oracle/targets/gemma2/config.json", NULL);
    assert_near(c.attention_cap, 50);
    assert_near(c.logit_cap, 30);
    assert_near(c.attention_scale, 0.204124145232); /* 24^-1/2 */
    assert_int_equal(c.activation, SP_GELU_TANH);
    sp_config_release(&c);

    parse_ok(&c, SHARED "/oracle/targets/gemma3/config.json", NULL);
    assert_int_equal(c.n_ropes, 2);
    assert_near(c.ropes[1].theta, 10000);
    assert_near(c.attention_cap, 0);
    assert_near(c.logit_cap, 0);
    assert_near(c.attention_scale, 0.158113883008); /* 40^-1/2 */
    sp_config_release(&c);

    parse_ok(&c, SHARED "/oracle/targets/gpt_oss/config.json", NULL);
    assert_int_equal(c.activation, SP_SWIGLU_CLAMPED);
    assert_near(c.swiglu_limit, 7);
    assert_true(c.attention_sinks && c.router_bias && !c.router_norm);
    assert_false(c.ropes[0].truncate);
    assert_int_equal(c.layers[3].n_experts, 4);
    assert_int_equal(c.layers[3].n_experts_used, 2);
    sp_config_release(&c);

    parse_ok(&c, SHARED "/oracle/targets/qwen3_moe/config.json", NULL);
    assert_true(c.router_norm);
    assert_int_equal(c.layers[0].n_experts, 6);
    assert_int_equal(c.layers[1].n_experts, 0); /* mlp_only_layers */
    assert_int_equal(c.layers[1].n_ffn, 96);
    assert_int_equal(c.layers[2].n_experts_used, 2);
    sp_config_release(&c);

    parse_ok(&c, SHARED "/oracle/targets/ministral3/config.json", NULL);
    assert_near(c.query_growth, 0.5);
    assert_near(c.query_growth_from, 64);
    sp_config_release(&c);
}

/* Values read off the folders' config.json by hand. */
static void golden_gemma4(void **state)
{
    struct sp_config c;

    (void)state;
    if (access(SHARED "/oracle/targets", R_OK) != 0) skip();
    parse_ok(&c, SHARED "/oracle/targets/gemma4_e2b/config.json", NULL);
    assert_int_equal(c.n_per_layer, 32);
    assert_int_equal(c.n_per_layer_vocab, 512);
    assert_near(c.attention_scale, 1);
    assert_near(c.logit_cap, 3);
    assert_true(c.v_norm && c.post_norms && c.qk_norm && !c.norm_shifted);
    assert_int_equal(c.layers[0].head_dim, 16);
    assert_int_equal(c.layers[0].window, 5);
    assert_int_equal(c.layers[2].head_dim, 32);
    assert_int_equal(c.layers[2].window, 0);
    assert_int_equal(c.layers[4].kv_source, 4);
    assert_int_equal(c.layers[5].kv_source, 3); /* the last sliding layer below layer 5 */
    assert_int_equal(c.layers[7].kv_source, 4);
    assert_int_equal(c.layers[4].n_ffn, 96);
    assert_int_equal(c.layers[5].n_ffn, 192); /* double wide where keys are shared */
    assert_int_equal(c.ropes[0].n_rot, 32);
    assert_int_equal(c.ropes[0].n_turning, 4); /* 0.25 * 32 / 2 */
    assert_int_equal(c.ropes[1].n_rot, 16);
    sp_config_release(&c);

    parse_ok(&c, SHARED "/oracle/targets/gemma4_moe/config.json", NULL);
    assert_near(c.logit_cap, 0);
    assert_int_equal(c.layers[0].n_experts, 6);
    assert_int_equal(c.layers[0].n_experts_used, 2);
    assert_int_equal(c.layers[0].n_ffn, 32);
    assert_int_equal(c.layers[0].n_shared_ffn, 96);
    assert_int_equal(c.layers[0].n_kv_heads, 4);
    assert_int_equal(c.layers[5].n_kv_heads, 2);
    assert_true(c.layers[5].v_from_k && !c.layers[0].v_from_k);
    sp_config_release(&c);
}

static void llama(void **state)
{
    struct sp_config c;
    char *notes = NULL;

    (void)state;
    parse_own(&c, "llama_bias", NULL);
    assert_true(c.qkv_bias && c.o_bias && c.mlp_bias && !c.tied && c.tied_stated);
    assert_int_equal(c.activation, SP_SILU); /* "swish" */
    assert_int_equal(c.ropes[0].kind, SP_ROPE_LINEAR);
    assert_near(c.ropes[0].factor, 2);
    assert_shape(&c, 6, 2, 8, 88);
    assert_near(c.attention_scale, 0.353553390593); /* 8^-1/2 */
    sp_config_release(&c);

    parse_own(&c, "llama3_tied", NULL);
    assert_true(c.tied && c.tied_stated);
    assert_near(c.ropes[0].theta, 10001); /* nested, not the class default */
    assert_near(c.ropes[0].low_freq_factor, 1);
    assert_near(c.ropes[0].high_freq_factor, 4);
    assert_near(c.ropes[0].original_positions, 32);
    assert_int_equal(c.max_positions, 256); /* written as 256.0 */
    sp_config_release(&c);

    /* Class defaults; a window, which transformers' Llama does not know, is mentioned. */
    parse_own(&c, "llama_sparse", &notes);
    assert_int_equal(c.n_vocab, 32000);
    assert_int_equal(c.n_hidden, 4096);
    assert_int_equal(c.n_layers, 32);
    assert_int_equal(c.max_positions, 2048);
    assert_shape(&c, 32, 32, 128, 11008);
    assert_near(c.norm_eps, 1e-6);
    assert_near(c.ropes[0].theta, 500000);
    assert_false(c.tied || c.tied_stated || c.qkv_bias || c.mlp_bias);
    assert_int_equal(c.layers[0].window, 0);
    assert_string_equal(notes, "sliding_window has no effect in family llama");
    free(notes);
    sp_config_release(&c);

    /* Null is absence, NaN is legal in files of Python, a repeated key's last value counts. */
    parse_own(&c, "null_and_nan", NULL);
    assert_int_equal(c.n_layers, 2);
    assert_shape(&c, 4, 4, 16, 11008);
    sp_config_release(&c);
}

static void mistral(void **state)
{
    struct sp_config c;

    (void)state;
    parse_own(&c, "mistral_nemo", NULL);
    assert_shape(&c, 4, 1, 16, 56);
    assert_int_equal(c.n_hidden, 40);
    assert_windows(&c, "5,5,5");
    assert_near(c.ropes[0].theta, 1e6);
    sp_config_release(&c);

    parse_own(&c, "mistral_default_window", NULL);
    assert_windows(&c, "4096,4096");
    assert_shape(&c, 32, 8, 128, 14336);
    sp_config_release(&c);

    parse_own(&c, "ministral_mix", NULL);
    assert_string_equal(c.family, "ministral");
    assert_windows(&c, "0,4,4");
    sp_config_release(&c);

    parse_own(&c, "ministral3_wrap", NULL);
    assert_string_equal(c.family, "ministral3");
    assert_int_equal(c.ropes[0].kind, SP_ROPE_YARN);
    assert_near(c.ropes[0].amplitude, 1); /* mscale equals mscale_all_dim */
    assert_near(c.query_growth, 0.5);
    assert_near(c.query_growth_from, 64);
    assert_false(c.tied_stated);
    sp_config_release(&c);

    /* Everything from the class, rotation included; text_config's tie counts before the root's. */
    parse_own(&c, "ministral3_sparse", NULL);
    assert_int_equal(c.n_vocab, 131072);
    assert_shape(&c, 32, 8, 128, 14336);
    assert_windows(&c, "0,0");
    assert_near(c.norm_eps, 1e-5);
    assert_near(c.ropes[0].theta, 1e6);
    assert_near(c.ropes[0].factor, 16);
    assert_near(c.ropes[0].original_positions, 16384);
    assert_near(c.ropes[0].beta_fast, 32);
    assert_near(c.ropes[0].beta_slow, 1);
    assert_true(c.ropes[0].truncate);
    assert_near(c.query_growth, 0.1);
    assert_near(c.query_growth_from, 16384);
    assert_true(c.tied_stated && !c.tied);
    sp_config_release(&c);
}

static void qwen(void **state)
{
    struct sp_config c;

    (void)state;
    parse_own(&c, "qwen2_swa", NULL);
    assert_windows(&c, "0,0,4,4");
    assert_true(c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm && c.tied);
    sp_config_release(&c);

    parse_own(&c, "qwen2_window_off", NULL);
    assert_windows(&c, "0,0,0,0");
    assert_shape(&c, 32, 32, 128, 22016);
    sp_config_release(&c);

    /* beta_fast null and beta_slow 0 mean the defaults. */
    parse_own(&c, "qwen3_yarn", NULL);
    assert_near(c.ropes[0].theta, 1e6);
    assert_near(c.ropes[0].factor, 4);
    assert_near(c.ropes[0].beta_fast, 32);
    assert_near(c.ropes[0].beta_slow, 1);
    assert_near(c.ropes[0].amplitude, 1.138629436112); /* 0.1 ln 4 + 1 */
    assert_int_equal(c.ropes[0].n_rot, 16);
    assert_true(c.qk_norm && !c.qkv_bias);
    sp_config_release(&c);

    /* factor from the lengths, A as given. */
    parse_own(&c, "qwen3_yarn_lengths", NULL);
    assert_near(c.ropes[0].theta, 5e6);
    assert_near(c.ropes[0].factor, 4);
    assert_near(c.ropes[0].amplitude, 1.5);
    assert_shape(&c, 32, 32, 128, 22016);
    sp_config_release(&c);

    /* rope_scaling counts, but the dict that does not knows theta. */
    parse_own(&c, "unused_dict_theta", NULL);
    assert_int_equal(c.ropes[0].kind, SP_ROPE_LINEAR);
    assert_near(c.ropes[0].theta, 123456);
    sp_config_release(&c);

    parse_own(&c, "qwen3_moe", NULL);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(c.layers[i].n_experts, i == 1 ? 6 : 0);
        assert_int_equal(c.layers[i].n_experts_used, i == 1 ? 2 : 0);
        assert_int_equal(c.layers[i].n_ffn, i == 1 ? 24 : 40);
    }
    assert_true(c.router_norm);
    sp_config_release(&c);
}

/* Which layers are attention, A, or delta, D. */
static void assert_mixers(const struct sp_config *c, const char *expected)
{
    char text[64] = "";

    for (unsigned i = 0; i < c->n_layers; i++) {
        strcat(text, c->layers[i].mixer == SP_MIXER_DELTA_NET ? "D" : "A");
    }
    assert_string_equal(text, expected);
}

static void qwen3_5(void **state)
{
    struct sp_config c;

    (void)state;
    /* Text model at the root, layers by list, sizes all given. */
    parse_own(&c, "qwen3_5_text", NULL);
    assert_mixers(&c, "DDAD");
    assert_int_equal(c.delta.n_key_heads, 2);
    assert_int_equal(c.delta.n_value_heads, 4);
    assert_int_equal(c.delta.key_dim, 8);
    assert_int_equal(c.delta.value_dim, 12);
    assert_int_equal(c.delta.kernel, 3);
    assert_true(c.norm_shifted && c.qk_norm && !c.qkv_bias && !c.tied);
    assert_true(c.layers[2].output_gate && !c.layers[1].output_gate);
    assert_int_equal(c.layers[1].rope, -1);
    assert_int_equal(c.layers[2].rope, 0);
    assert_int_equal(c.ropes[0].n_rot, 4); /* a quarter of 16 without being asked */
    assert_int_equal(c.n_mtp_layers, 1);
    sp_config_release(&c);

    /* Wrapped, experts, layers by interval, sizes of delta heads by default. */
    parse_own(&c, "qwen3_5_moe", NULL);
    assert_mixers(&c, "DADADA");
    assert_int_equal(c.delta.n_value_heads, 32);
    assert_int_equal(c.delta.kernel, 4);
    assert_true(c.tied && c.router_norm && c.shared_gate);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(c.layers[i].n_experts, 4);
        assert_int_equal(c.layers[i].n_experts_used, 2);
        assert_int_equal(c.layers[i].n_ffn, 16);
        assert_int_equal(c.layers[i].n_shared_ffn, 24);
    }
    sp_config_release(&c);
}

/* What tensors tell: mlx's norms, and a head that is one more attention layer. */
static void qwen3_5_settled(void **state)
{
    struct sp_tables found = {.embedding = true, .head = true, .conv_taps = 3};
    struct sp_config c;
    struct sp_err err = {0};

    (void)state;
    parse_own(&c, "qwen3_5_text", NULL);
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_OK);
    assert_true(c.norm_shifted && !c.delta.converted);
    found.conv_taps = 1;
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_OK);
    assert_true(!c.norm_shifted && c.delta.converted);
    sp_config_release(&c);

    parse_own(&c, "qwen3_5_text", NULL);
    found = (struct sp_tables){.fc_cols = 64, .mtp = true, .mtp_ffn = true};
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_OK);
    assert_int_equal(c.draft.kind, SP_DRAFT_MTP);
    assert_int_equal(c.n_layers, 1);
    assert_int_equal(c.layers[0].mixer, SP_MIXER_ATTENTION);
    assert_int_equal(c.layers[0].kv_source, 0);
    assert_int_equal(c.layers[0].n_ffn, 48);
    assert_true(c.draft.borrows_tables && c.layers[0].output_gate);
    sp_config_release(&c);

    parse_own(&c, "qwen3_5_text", NULL);
    found.mtp_ffn = false;
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_OK);
    assert_int_equal(c.layers[0].n_ffn, 0);
    sp_config_release(&c);

    parse_own(&c, "qwen3_5_text", NULL);
    found.fc_cols = 96;
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_E_INPUT);
    assert_string_equal(err.text, "mtp: fc is [.., 96], expected [32,64]");
    found.fc_cols = 64;
    found.embedding = true;
    err = (struct sp_err){0};
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_E_UNSUPPORTED);
    assert_string_equal(err.text, "mtp: dedicated embeddings not supported");
    sp_config_release(&c);

    /* The tensor of a head in a family that has none. */
    parse_own(&c, "qwen3_moe", NULL);
    found.embedding = false;
    err = (struct sp_err){0};
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_E_INPUT);
    sp_config_release(&c);
}

static void gemma(void **state)
{
    struct sp_config c, d;

    (void)state;
    parse_own(&c, "gemma2_caps", NULL);
    assert_near(c.attention_cap, 2);
    assert_near(c.logit_cap, 3);
    assert_near(c.attention_scale, 0.223606797750); /* 20^-1/2 */
    assert_near(c.embedding_scale, 6.9375);         /* sqrt(48) in bfloat16 */
    assert_int_equal(c.activation, SP_GELU_TANH);   /* hidden_act is not read */
    assert_windows(&c, "4,0,4,0");
    assert_true(c.tied && !c.tied_stated);
    sp_config_release(&c);

    parse_own(&c, "gemma2_no_caps", NULL);
    assert_near(c.attention_cap, 0);
    assert_near(c.logit_cap, 0);
    assert_near(c.embedding_scale, 48); /* sqrt(2304) */
    assert_shape(&c, 8, 4, 256, 9216);
    assert_windows(&c, "4096");
    sp_config_release(&c);

    /* A diff against the class, and the same model spelled out in the new way. */
    parse_own(&c, "gemma3_sparse", NULL);
    parse_own(&d, "gemma3_nested", NULL);
    assert_windows(&c, "4,4,4,4,4,0,4");
    assert_ropes(&c, "1,1,1,1,1,0,1");
    assert_shape(&c, 8, 4, 256, 96);
    assert_int_equal(c.max_positions, 131072);
    assert_near(c.ropes[0].theta, 1e6);
    assert_near(c.ropes[0].factor, 8);
    assert_int_equal(c.ropes[0].kind, SP_ROPE_LINEAR);
    assert_near(c.ropes[1].theta, 1e4);
    assert_int_equal(c.ropes[1].kind, SP_ROPE_DEFAULT);
    assert_near(c.attention_scale, 0.0625); /* 256^-1/2 */
    assert_near(c.embedding_scale, 8);
    assert_memory_equal(c.layers, d.layers, 7 * sizeof *c.layers);
    free(d.layers);
    d.layers = c.layers;
    assert_memory_equal(&c, &d, sizeof c);
    sp_config_release(&c);
}

static void gemma4(void **state)
{
    struct sp_config c;

    (void)state;
    parse_own(&c, "gemma4_sparse", NULL);
    assert_windows(&c, "4,0,4,0"); /* the last layer sees everything, whatever the list says */
    assert_ropes(&c, "1,0,1,0");
    assert_int_equal(c.layers[0].head_dim, 256);
    assert_int_equal(c.layers[1].head_dim, 512);
    assert_int_equal(c.n_per_layer, 256);
    assert_int_equal(c.n_per_layer_vocab, 262144);
    assert_near(c.logit_cap, 0);
    assert_int_equal(c.ropes[0].kind, SP_ROPE_PROPORTIONAL);
    assert_int_equal(c.ropes[0].n_turning, 64); /* a quarter: inside the dict before beside it */
    assert_near(c.ropes[0].theta, 1e6);
    assert_int_equal(c.ropes[1].n_rot, 256);
    assert_near(c.ropes[1].theta, 1e4);
    sp_config_release(&c);

    parse_own(&c, "gemma4_ropes", NULL);
    assert_windows(&c, "4,0");
    assert_int_equal(c.n_per_layer, 0);
    assert_int_equal(c.layers[1].head_dim, 32);
    assert_int_equal(c.ropes[0].n_rot, 32);
    assert_int_equal(c.ropes[0].n_turning, 16); /* without partial_rotary_factor all pairs turn */
    assert_near(c.ropes[0].theta, 5e5);
    sp_config_release(&c);
}

static void smollm_phi_oss(void **state)
{
    struct sp_config c;
    char *notes = NULL;

    (void)state;
    parse_own(&c, "smollm3", NULL);
    assert_ropes(&c, "0,0,0,-1,0");
    assert_windows(&c, "0,0,0,0,0");
    assert_near(c.ropes[0].theta, 2e6);
    assert_true(c.tied);
    sp_config_release(&c);

    parse_own(&c, "smollm3_window", NULL);
    assert_ropes(&c, "0,-1,0,0,-1");
    assert_windows(&c, "0,3,0,0,3");
    sp_config_release(&c);

    parse_own(&c, "phi3_long", &notes);
    assert_int_equal(c.ropes[0].kind, SP_ROPE_LONGROPE);
    assert_int_equal(c.ropes[0].n_rot, 12);
    assert_near(c.ropes[0].short_factors[5], 2.25);
    assert_near(c.ropes[0].long_factors[0], 2);
    assert_near(c.ropes[0].factor, 4);
    assert_near(c.ropes[0].original_positions, 16);
    assert_near(c.ropes[0].amplitude, 1.224744871392); /* sqrt(1 + ln 4 / ln 16) = sqrt(1.5) */
    assert_windows(&c, "7,7");
    assert_string_equal(notes, "auto_map: custom code is not run, the model is taken as phi3");
    free(notes);
    sp_config_release(&c);

    parse_own(&c, "phi3_yarn_means_longrope", NULL);
    assert_int_equal(c.ropes[0].kind, SP_ROPE_LONGROPE);
    assert_near(c.ropes[0].factor, 32);
    assert_near(c.ropes[0].amplitude, 1.190238071238); /* sqrt(1 + ln 32 / ln 4096) = sqrt(17/12) */
    sp_config_release(&c);

    parse_own(&c, "gpt_oss_sparse", NULL);
    assert_windows(&c, "128,0,128");
    assert_int_equal(c.ropes[0].kind, SP_ROPE_YARN);
    assert_near(c.ropes[0].theta, 150000);
    assert_near(c.ropes[0].factor, 32);
    assert_near(c.ropes[0].original_positions, 4096);
    assert_false(c.ropes[0].truncate);
    assert_near(c.ropes[0].amplitude, 1.346573590280); /* 0.1 ln 32 + 1 */
    assert_true(c.qkv_bias && c.o_bias && c.mlp_bias);
    assert_int_equal(c.layers[2].n_experts, 4);
    assert_int_equal(c.layers[2].n_experts_used, 2);
    assert_shape(&c, 4, 2, 64, 32);
    sp_config_release(&c);
}

static void dflash(void **state)
{
    struct sp_config c;
    char *notes = NULL;

    (void)state;
    parse_own(&c, "dflash_root", NULL);
    assert_int_equal(c.draft.kind, SP_DRAFT_DFLASH);
    assert_int_equal(c.draft.block_size, 8);
    assert_int_equal(c.draft.mask_token, 96);
    assert_int_equal(c.draft.n_taps, 3);
    assert_int_equal(c.draft.taps[1], 3);
    assert_int_equal(c.draft.n_target_layers, 6);
    assert_int_equal(c.draft.target_hidden, 32);
    assert_true(c.qk_norm && c.draft.borrows_tables);
    assert_false(c.layers[0].causal || c.layers[1].causal);
    sp_config_release(&c);

    /* The nested value counts; what is unknown and set is mentioned. */
    parse_own(&c, "dflash_nested", &notes);
    assert_int_equal(c.draft.block_size, 16);
    assert_int_equal(c.draft.n_target_layers, 6);
    assert_near(c.logit_cap, 20);
    assert_true(c.layers[0].causal && c.layers[1].causal);
    assert_string_equal(notes, "dflash_config.something_new has no effect");
    free(notes);
    sp_config_release(&c);

    parse_own(&c, "dflash_sliding", NULL);
    assert_windows(&c, "6,0");
    assert_true(c.layers[0].causal && !c.layers[1].causal);
    sp_config_release(&c);

    parse_own(&c, "dflash_is_causal", NULL);
    assert_false(c.layers[0].causal || c.layers[1].causal);
    sp_config_release(&c);
}

/* A block whose anchor guesses too, and two heads. */
static void dspark(void **state)
{
    struct sp_config c;
    char *notes = NULL;

    (void)state;
    parse_own(&c, "dspark_gated", NULL);
    assert_int_equal(c.draft.kind, SP_DRAFT_DSPARK);
    assert_int_equal(c.draft.block_size, 7);
    assert_int_equal(c.draft.first_row, 0);
    assert_int_equal(c.draft.n_taps, 3);
    assert_true(c.draft.taps[0] == SP_TAP_EMBEDDING);
    assert_int_equal(sp_tap_number(c.draft.taps[0]), -1);
    assert_int_equal(c.draft.taps[1], 2);
    assert_int_equal(c.draft.dspark.rank, 8);
    assert_int_equal(c.draft.dspark.markov, SP_MARKOV_GATED);
    assert_string_equal(sp_markov_name(&c.draft.dspark), "gated");
    assert_true(c.draft.dspark.confidence && c.draft.dspark.confidence_markov);
    assert_false(c.layers[0].causal || c.layers[1].causal);
    sp_config_release(&c);

    /* What DeepSpec calls dflash_*_block7. */
    parse_own(&c, "dspark_no_heads", NULL);
    assert_int_equal(c.draft.kind, SP_DRAFT_DSPARK);
    assert_int_equal(c.draft.block_size, 1);
    assert_int_equal(c.draft.dspark.rank, 0);
    assert_string_equal(sp_markov_name(&c.draft.dspark), "none");
    assert_false(c.draft.dspark.confidence || c.draft.dspark.confidence_markov);
    sp_config_release(&c);

    /* As SpecForge writes it. */
    parse_own(&c, "dspark_nested", &notes);
    assert_int_equal(c.draft.kind, SP_DRAFT_DSPARK);
    assert_int_equal(c.draft.mask_token, 95);
    assert_int_equal(c.draft.taps[1], 5);
    assert_int_equal(c.draft.dspark.rank, 12);
    assert_int_equal(c.draft.dspark.markov, SP_MARKOV_RNN);
    assert_true(c.draft.dspark.confidence);
    assert_false(c.draft.dspark.confidence_markov);
    assert_string_equal(notes, "dflash_config.attention_mode has no effect");
    free(notes);
    sp_config_release(&c);
}

static void eagle3(void **state)
{
    struct sp_config c;

    (void)state;
    /* Input of layer 0: the embeddings; of layer j: what layer j - 1 makes. */
    parse_own(&c, "eagle3_speculators", NULL);
    assert_int_equal(c.draft.kind, SP_DRAFT_EAGLE3);
    assert_string_equal(c.family, "qwen3");
    assert_true(c.qk_norm && c.layers[0].reads_pair);
    assert_int_equal(c.draft.n_head_rows, 40);
    assert_int_equal(c.n_vocab, 97);
    assert_int_equal(c.draft.target_hidden, 24);
    assert_int_equal(c.draft.n_taps, 3);
    assert_true(c.draft.taps[0] == SP_TAP_EMBEDDING);
    assert_int_equal(c.draft.taps[1], 1);
    assert_int_equal(c.draft.taps[2], 5);
    assert_true(c.draft.normed_residual && c.draft.taps_normed && c.draft.normed_output);
    assert_false(c.draft.features_normed);
    sp_config_release(&c);

    parse_own(&c, "eagle3_outputs", NULL);
    assert_int_equal(c.draft.n_taps, 5);
    assert_int_equal(c.draft.taps[0], 1);
    assert_int_equal(c.draft.taps[4], 9);
    sp_config_release(&c);
}

/* EAGLE-3's taps where the config does not list them: inputs of layers 2, N / 2 and N - 3. */
static void eagle3_default_taps(void **state)
{
    static const struct {
        unsigned n_layers, taps[3];
    } cases[] = {{32, {1, 15, 28}}, {28, {1, 13, 24}}, {7, {1, 2, 3}}};
    struct sp_tables found = {.head = true, .fc_cols = 96, .d2t = true};
    struct sp_err err = {0};
    struct sp_config c, target = {.n_layers = 5};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse_own(&c, "eagle3_root", NULL);
        assert_int_equal(c.draft.n_taps, 0);
        assert_int_equal(sp_config_settle(&c, &found, NULL), SP_OK);
        assert_int_equal(c.draft.n_taps, 3);
        assert_true(c.draft.borrows_tables && c.draft.maps_tokens);
        target.n_layers = cases[i].n_layers;
        assert_int_equal(sp_config_meet_target(&c, &target, NULL), SP_OK);
        assert_memory_equal(c.draft.taps, cases[i].taps, sizeof cases[i].taps);
        sp_config_release(&c);
    }
    parse_own(&c, "eagle3_root", NULL);
    assert_int_equal(sp_config_settle(&c, &found, NULL), SP_OK);
    target.n_layers = 5;
    assert_int_equal(sp_config_meet_target(&c, &target, &err), SP_E_INPUT);
    assert_string_equal(err.text,
                        "eagle3 fc reads 3 layers, which has no default for 5 target layers");
    sp_config_release(&c);

    memset(&err, 0, sizeof err);
    parse_own(&c, "eagle3_root", NULL);
    found.d2t = false;
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_E_INPUT);
    assert_string_equal(err.text, "eagle3 draft vocab 40 != target vocab 97 and no d2t");
    memset(&err, 0, sizeof err);
    found.fc_cols = 40;
    assert_int_equal(sp_config_settle(&c, &found, &err), SP_E_INPUT);
    assert_string_equal(err.text, "eagle3 fc input 40 != 1 ids * target hidden 32");
    sp_config_release(&c);
}

/* The taps of a draft whose config leaves them out, settled by fc's width. */
static void default_taps(void **state)
{
    static const struct {
        unsigned n_layers, n;
        const char *taps;
    } cases[] = {
        {11, 3, "1 4 8"},
        {14, 5, "1 4 6 8 11"},
        {28, 5, "1 7 13 19 25"},
        {32, 5, "1 8 15 22 29"},
        {36, 5, "1 9 17 25 33"},
        {40, 5, "1 10 19 28 37"},
        {48, 5, "1 12 23 34 45"},
        {52, 5, "1 13 25 37 49"},
        {60, 6, "1 12 23 35 46 57"},
        {64, 5, "1 16 31 46 61"},
        {28, 1, "14"},
        {5, 2, "1 2"},
    };
    struct sp_err err = {0};
    struct sp_config c;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64] = "";
        parse_own(&c, "dflash_default_taps", NULL);
        assert_int_equal(c.draft.n_taps, 0);
        c.draft.n_target_layers = cases[i].n_layers;
        assert_int_equal(
            sp_config_settle(&c, &(struct sp_tables){.fc_cols = 32 * cases[i].n}, NULL), SP_OK);
        for (unsigned k = 0; k < c.draft.n_taps; k++) {
            snprintf(text + strlen(text), sizeof text - strlen(text), k ? " %u" : "%u",
                     c.draft.taps[k]);
        }
        assert_string_equal(text, cases[i].taps);
        sp_config_release(&c);
    }
    parse_own(&c, "dflash_default_taps", NULL);
    assert_int_equal(sp_config_settle(&c, &(struct sp_tables){.fc_cols = 32 * 12}, &err),
                     SP_E_INPUT);
    assert_string_equal(err.text,
                        "dflash fc reads 12 layers, which has no default for 14 target layers");
    memset(&err, 0, sizeof err);
    assert_int_equal(sp_config_settle(&c, &(struct sp_tables){.fc_cols = 100}, &err), SP_E_INPUT);
    assert_string_equal(err.text, "dflash fc input 100 != 3 ids * target hidden 32");
    sp_config_release(&c);
}

static void refusals(void **state)
{
    static const char folder[] = TESTDATA "/corrupt/config/";
    char path[512], *cases, *line, *rest;
    size_t size, n = 0;

    (void)state;
    snprintf(path, sizeof path, "%scases.txt", folder);
    cases = scratch_read(path, &size);
    for (line = strtok_r(cases, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
        struct sp_config c, zero = {0};
        struct sp_err err = {0};
        char *code = strchr(line, '\t'), *sentence = strchr(code + 1, '\t');
        enum sp_status st;
        *code++ = *sentence++ = '\0';
        snprintf(path, sizeof path, "%s%s.json", folder, line);
        st = parse_file(&c, path, NULL, &err);
        if ((int)st != atoi(code) || (strcmp(sentence, "*") && strcmp(err.text, sentence))) {
            fail_msg("%s: %d \"%s\", expected %s \"%s\"", line, (int)st, err.text, code, sentence);
        }
        assert_true(err.text[0] != '\0');
        assert_memory_equal(&c, &zero, sizeof c);
    }
    assert_true(n > 100);
    free(cases);
}

static void end_ids(void **state)
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
        {"{\"eos_token_id\": -1}", NULL, NULL, "config.json: eos_token_id holds no token id"},
        {"{\"eos_token_id\": 1}", "{\"eos_token_id\": [\"a\"]}", NULL,
         "generation_config.json: eos_token_id holds no token id"},
        {"{\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", NULL, NULL,
         "config.json: eos_token_id has more than 16 ids"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *g = cases[i].generation;
        uint32_t ids[SP_MAX_EOS];
        char text[128] = "";
        struct sp_err err = {0};
        size_t n;
        enum sp_status st = sp_config_eos(ids, &n, cases[i].config, strlen(cases[i].config), g,
                                          g ? strlen(g) : 0, &err);
        if (cases[i].error) {
            assert_int_not_equal(st, SP_OK);
            assert_string_equal(err.text, cases[i].error);
            continue;
        }
        if (st) fail_msg("case %zu: %s", i, err.text);
        for (size_t k = 0; k < n; k++) {
            snprintf(text + strlen(text), sizeof text - strlen(text), k ? " %u" : "%u", ids[k]);
        }
        assert_string_equal(text, cases[i].ids);
    }
}

/* Every row of the table makes a model from its defaults alone, and finds itself by both names. */
static void family_table(void **state)
{
    (void)state;
    for (size_t i = 0; sp_family_at(i); i++) {
        const struct sp_family *f = sp_family_at(i);
        struct sp_err err = {0};
        struct sp_config c;
        char text[256];
        assert_ptr_equal(sp_family_by_type(f->name), f);
        assert_ptr_equal(sp_family_by_architecture(f->architecture), f);
        if (f->wrapper) assert_non_null(sp_wrapper_by_type(f->wrapper));
        snprintf(text, sizeof text, "{\"architectures\": [\"%s\"]%s}", f->architecture,
                 f->theta == 0 ? ", \"rope_theta\": 1e6" : "");
        if (sp_config_parse(&c, text, strlen(text), NULL, &err)) {
            fail_msg("%s: %s", f->name, err.text);
        }
        assert_string_equal(c.family, f->name);
        assert_int_equal(c.n_layers, f->sizes.n_layers);
        assert_int_equal(c.tied, f->tied);
        sp_config_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_checkpoints),
        cmocka_unit_test(golden_particulars),
        cmocka_unit_test(golden_gemma4),
        cmocka_unit_test(llama),
        cmocka_unit_test(mistral),
        cmocka_unit_test(qwen),
        cmocka_unit_test(gemma),
        cmocka_unit_test(gemma4),
        cmocka_unit_test(qwen3_5),
        cmocka_unit_test(qwen3_5_settled),
        cmocka_unit_test(smollm_phi_oss),
        cmocka_unit_test(dflash),
        cmocka_unit_test(dspark),
        cmocka_unit_test(default_taps),
        cmocka_unit_test(eagle3),
        cmocka_unit_test(eagle3_default_taps),
        cmocka_unit_test(refusals),
        cmocka_unit_test(end_ids),
        cmocka_unit_test(family_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
