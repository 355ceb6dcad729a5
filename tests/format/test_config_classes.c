/* format/config/config.h: the defaults of a family's configuration class for a config.json that
 * states nothing (testdata/config/class_defaults.txt, written by tests/oracle/class_defaults.py),
 * and the keys that distinguish a family, as its modeling file in transformers 5.23 reads them. */
#include "format/config/config.h"

#include <math.h>

#include "format/family/config_parse.h"
#include "tests/support/config_checks.h"
#include "tests/support/unit_test.h"

static void check_class(const char *line)
{
    unsigned vocab, hidden, ffn, layers, heads, kv, dim, positions, tied;
    char family[64], json[160];
    double eps, theta;

    assert_int_equal(sscanf(line, "%63s %u %u %u %u %u %u %u %u %lf %lf %u", family, &vocab,
                            &hidden, &ffn, &layers, &heads, &kv, &dim, &positions, &eps, &theta,
                            &tied),
                     12);
    print_message("%s\n", family);
    /* A dense model where the family allows it, since the width of experts is a separate number. */
    snprintf(json, sizeof json, "{\"model_type\": \"%s\", \"num_experts\": 0}", family);
    if (strncmp(family, "granitemoe", strlen("granitemoe")) == 0)
        snprintf(json, sizeof json, "{\"model_type\": \"%s\", \"num_local_experts\": 0}", family);
    struct sp_config *c = config_parsed(json);
    const struct sp_layer_config *l = &c->layers[sp_config_first_layer(c, SP_MIXER_ATTENTION)];
    config_assert_numbers(c->n_vocab, vocab, c->n_hidden, hidden, c->layers[0].n_ffn, ffn,
                          c->n_layers, layers);
    assert_int_equal(l->n_heads, heads);
    assert_int_equal(l->n_kv_heads, kv);
    assert_int_equal(l->head_dim, dim);
    config_assert_numbers(c->max_positions, positions, c->norm_eps, eps, c->ropes[0].theta, theta,
                          c->tied, tied);
}

TEST(class_defaults)
{
    FILE *f = fopen(TESTDATA "/config/class_defaults.txt", "r");
    char line[256];
    unsigned n = 0;

    assert_non_null(f);
    for (; fgets(line, sizeof line, f); n++)
        check_class(line);
    assert_true(n > 10);
    fclose(f);
}

#define SMALL                                                                                      \
    "\"vocab_size\": 96, \"hidden_size\": 48, \"intermediate_size\": 64, "                         \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "

TEST(windows)
{
    struct sp_config *c = config_parsed("{\"model_type\": \"cwm\", " SMALL
                                        "\"num_hidden_layers\": 6, \"sliding_window\": 7}");

    config_assert_windows(c, "0,7,7,7,0,7");
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_LLAMA3, c->ropes[0].factor, 16);

    c = config_parsed(
        "{\"model_type\": \"qwen2_moe\", " SMALL "\"num_hidden_layers\": 6, "
        "\"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 4}");
    config_assert_windows(c, "7,0,7,0,0,0");
    assert_true(c->qkv_bias && !c->o_bias && c->shared_gate && !c->routing.norm);
    assert_int_equal(c->layers[0].n_shared_ffn, 5632);

    c = config_parsed("{\"model_type\": \"mellum\", " SMALL "\"num_hidden_layers\": 2}");
    config_assert_windows(c, "0,0");
    config_assert_numbers(c->n_ropes, 2, c->ropes[1].theta, 1e4);

    c = config_parsed(
        "{\"model_type\": \"afmoe\", " SMALL "\"num_hidden_layers\": 4, "
        "\"global_attn_every_n_layers\": 2, \"mup_enabled\": true, \"route_scale\": 2.5}");
    config_assert_windows(c, "1024,0,1024,0");
    assert_int_equal(c->layers[1].rope, -1); /* layers with full attention do not rotate */
    config_assert_numbers(c->layers[2].rope, 0, c->layers[0].n_experts, 0,
                          c->layers[1].n_shared_ffn, 2 * 1408, c->embedding_scale, sqrt(48),
                          c->routing.scale, 2.5);
}

static void assert_refused(const char *json, const char *message)
{
    struct sp_config c;

    assert_fails(sp_config_parse(&c, json, strlen(json), NULL, why), SP_E_UNSUPPORTED, message);
}

/* A number that no unsigned has is refused, not converted. */
TEST(gemma3n_width)
{
    static const char json[] = "{\"model_type\": \"gemma3n_text\", \"num_hidden_layers\": 4, "
                               "\"intermediate_size\": [1e30, 16, 16, 16]}";
    struct sp_config c;

    assert_fails(sp_config_parse(&c, json, strlen(json), NULL, why), SP_E_INPUT,
                 "intermediate_size: layer 0 has no number");
}

/* Two patterns of windows: that of the dense layers, and that of those behind them. */
#define COHERE2_MOE                                                                                \
    "{\"model_type\": \"cohere2_moe\", \"num_hidden_layers\": 6, \"first_k_dense_replace\": 2, "   \
    "\"prefix_dense_intermediate_size\": 96, \"sliding_window_pattern\": 3, "                      \
    "\"num_shared_experts\": 3, \"intermediate_size\": 64, "

TEST(cohere2_moe)
{
    struct sp_config *c = config_parsed(COHERE2_MOE "\"prefix_dense_sliding_window_pattern\": 2}");

    config_assert_windows(c, "4096,0,4096,4096,0,4096");
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(c->layers[i].rope, c->layers[i].window ? 0 : -1);
    config_assert_numbers(c->layers[1].n_ffn, 96, c->layers[1].n_experts, 0, c->layers[2].n_ffn, 64,
                          c->layers[2].n_experts, 8, c->layers[2].n_shared_ffn, 3 * 64,
                          c->routing.law, SP_ROUTE_SOFTMAX_CHOSEN);
    assert_true(!c->routing.norm && c->routing.shared_half && c->norm_centered);
    config_assert_near(c->routing.scale, 0.5);

    /* By default the dense layers have no window and rotate all the same. */
    c = config_parsed(COHERE2_MOE "\"rms_norm_eps\": 1e-3, \"expert_selection_fn\": \"sigmoid\", "
                                  "\"shared_expert_combination_strategy\": \"sum\"}");
    config_assert_windows(c, "0,0,4096,4096,0,4096");
    config_assert_numbers(c->layers[1].rope, 0, c->layers[4].rope, -1, c->routing.law,
                          SP_ROUTE_SIGMOID_CHOSEN);
    assert_true(c->routing.norm && !c->routing.shared_half && !c->norm_centered);
    config_assert_near(c->norm_eps, 1e-3);

    assert_refused(COHERE2_MOE "\"expert_selection_fn\": \"relu\"}",
                   "expert_selection_fn \"relu\"");
    assert_refused(COHERE2_MOE "\"shared_expert_combination_strategy\": \"max\"}",
                   "shared_expert_combination_strategy \"max\"");
}

/* Nomic's own configurations state variants of the block that no class of transformers has. */
TEST(nomic_bert)
{
    struct sp_config *c = config_parsed(
        "{\"model_type\": \"nomic_bert\", \"prenorm\": false, \"rotary_emb_base\": 5000}");

    assert_true(c->bidirectional && c->normed_input && c->norm_bias && !c->plain_mlp &&
                !c->qkv_bias);
    config_assert_numbers(c->n_token_types, 2, c->n_positions_table, 0, c->ropes[0].theta, 5000);
    assert_refused("{\"model_type\": \"nomic_bert\", \"prenorm\": true}", "prenorm true");
    assert_refused("{\"model_type\": \"nomic_bert\", \"moe_every_n_layers\": 2}",
                   "moe_every_n_layers is not supported");
    assert_refused("{\"model_type\": \"nomic_bert\", \"n_head\": 16}",
                   "n_head is 16, supported is 12");
    assert_refused("{\"model_type\": \"nomic_bert\", \"activation_function\": \"geglu\"}",
                   "activation_function geglu with rotary_emb_fraction 1 is not supported");
}

TEST(alternative_spellings)
{
    struct sp_config *c =
        config_parsed("{\"model_type\": \"gemma\", " SMALL "\"hidden_act\": \"gelu\"}");

    assert_int_equal(c->activation, SP_GELU_TANH);
    assert_true(c->norm_shifted && c->tied);

    /* The released spelling, and the spelling that transformers saves. */
    c = config_parsed(
        "{\"model_type\": \"internlm3\", \"architectures\": [\"InternLM3ForCausalLM\"], " SMALL
        "\"qkv_bias\": true, \"bias\": true, \"rope_scaling\": {\"rope_type\": \"dynamic\", "
        "\"factor\": 6.0}}");
    assert_true(c->qkv_bias && c->o_bias && c->mlp_bias);
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_DYNAMIC, c->ropes[0].original_positions, 32768);
    c = config_parsed(
        "{\"model_type\": \"internlm3\", \"architectures\": [\"LlamaForCausalLM\"], " SMALL
        "\"attention_bias\": true}");
    assert_true(c->qkv_bias && c->o_bias && !c->mlp_bias);

    /* Without alpha the rotation is dynamic as in other families. */
    c = config_parsed("{\"model_type\": \"hunyuan_v1_dense\", " SMALL
                      "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}");
    assert_int_equal(c->ropes[0].kind, SP_ROPE_DYNAMIC);

    c = config_parsed("{\"model_type\": \"hyperclovax\", " SMALL "\"logits_scaling\": 0.125}");
    config_assert_near(c->logit_scale, 0.125); /* this family multiplies by the scale */
    config_assert_numbers(c->attention_scale, 1 / sqrt(12), c->norms, SP_NORM_SANDWICH);

    c = config_parsed("{\"model_type\": \"hunyuan_v1_moe\", " SMALL "\"num_hidden_layers\": 2, "
                      "\"num_experts\": 16, \"moe_topk\": [8, 8], \"use_qk_norm\": true}");
    config_assert_numbers(c->layers[1].n_experts_used, 8, c->layers[1].n_shared_ffn, 64);

    c = config_parsed("{\"model_type\": \"exaone_moe\", " SMALL "\"num_hidden_layers\": 3, "
                      "\"mlp_layer_types\": [\"sparse\", \"dense\", \"sparse\"]}");
    config_assert_numbers(c->layers[0].n_experts, 64, c->layers[1].n_experts, 0, c->routing.scale,
                          2.5);
}

TEST(norms)
{
    struct sp_config *c = config_parsed("{\"model_type\": \"olmo\", " SMALL
                                        "\"clip_qkv\": 8, \"rms_norm_eps\": 0.5}");

    assert_true(c->norm_weightless && c->norm_centered && !c->norm_bias);
    config_assert_near(c->qkv_limit, 8);
    config_assert_near(c->norm_eps, 1e-5); /* the family has a fixed eps */

    c = config_parsed("{\"model_type\": \"nanochat\", " SMALL "\"final_logit_softcapping\": null}");
    assert_true(c->norm_weightless && c->embedding_normed && c->logit_cap == 0);

    c = config_parsed("{\"model_type\": \"stablelm\", " SMALL "\"qk_layernorm\": true, "
                      "\"use_parallel_residual\": true, \"use_qkv_bias\": true, "
                      "\"partial_rotary_factor\": 0.5}");
    config_assert_numbers(c->norms, SP_NORM_PARALLEL, c->qk_norm, SP_QK_OWN);
    assert_true(c->qkv_bias && !c->o_bias && !c->mlp_bias);
    c = config_parsed("{\"model_type\": \"stablelm\", " SMALL "\"num_hidden_layers\": 1, "
                      "\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}");
    config_assert_numbers(c->norms, SP_NORM_PRE, c->qk_norm, SP_QK_PLAIN);
    assert_false(c->qkv_bias);
}

/* A layer_rope_theta of 0 disables the rotation of the layer. */
TEST(thetas)
{
    struct sp_config *c =
        config_parsed("{\"model_type\": \"granite_swa\", " SMALL "\"num_hidden_layers\": 5, "
                      "\"layer_rope_theta\": [0, 500, 10000, 500, 0]}");

    config_assert_windows(c, "0,128,128,128,0");
    config_assert_numbers(c->n_ropes, 2, c->ropes[0].theta, 500, c->ropes[1].theta, 10000,
                          c->layers[0].rope, -1, c->layers[1].rope, 0, c->layers[2].rope, 1,
                          c->layers[3].rope, 0);
    assert_true(c->attention_sinks);

    c = config_parsed("{\"model_type\": \"granite_swa\", " SMALL "\"num_hidden_layers\": 2, "
                      "\"rope_parameters\": {\"rope_theta\": 700}}");
    config_assert_numbers(c->n_ropes, 1, c->layers[1].rope, 0, c->ropes[0].theta, 700);
}

/* Convolutions, windows and rotations of LFM3 by class default: C C F C S C F C. */
TEST(lfm3)
{
    struct sp_config *c = config_parsed("{\"model_type\": \"lfm3\", \"num_hidden_layers\": 8}");

    config_assert_windows(c, "0,0,0,0,256,0,0,0");
    for (unsigned i = 0; i < 8; i++) {
        bool conv = i != 2 && i != 4 && i != 6;
        config_assert_numbers(c->layers[i].mixers, conv ? SP_MIXER_SHORT_CONV : SP_MIXER_ATTENTION,
                              c->layers[i].rope, conv ? -1 : i == 4);
    }
    config_assert_numbers(c->ropes[0].kind, SP_ROPE_PROPORTIONAL, c->ropes[0].n_rotated, 32,
                          c->ropes[1].theta, 1e4, c->short_conv.kernel, 7);
    assert_true(c->layers[2].head_gate && !c->layers[2].output_gate && c->tied);
    assert_int_equal(c->norms, SP_NORM_SANDWICH);
}

TEST(refusals)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"model_type\": \"iquestcoder\", \"use_sliding_window\": true}",
         "use_sliding_window is not supported for iquestcoder"},
        {"{\"model_type\": \"iquestcoder\", \"clip_qkv\": 8}",
         "clip_qkv is not supported for iquestcoder"},
        {"{\"model_type\": \"iquestcoder\", \"architectures\": [\"Qwen2ForCausalLM\"]}",
         "model_type \"iquestcoder\" contradicts architecture \"Qwen2ForCausalLM\""},
        {"{\"model_type\": \"qwen3_5_mtp\"}",
         "model_type \"qwen3_5_mtp\" is not supported: a prediction head drafts only as a part of "
         "its model's checkpoint"},
        {"{\"model_type\": \"llama\", \"architectures\": [\"MyForTokenClassification\"]}",
         "architecture \"MyForTokenClassification\" is not supported"},
        {"{\"model_type\": \"llama\", \"architectures\": [\"MyLlamaForCausalLM\"], \"auto_map\": "
         "{}}",
         "architecture \"MyLlamaForCausalLM\" is not supported: code of its own (auto_map) may "
         "compute otherwise than model_type \"llama\""},
        {"{\"model_type\": \"hyperclovax\", \"use_post_norm\": false}",
         "use_post_norm is not supported for hyperclovax"},
        {"{\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 4, \"moe_topk\": [1, 2]}",
         "moe_topk that differs from layer to layer is not supported"},
        {"{\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 4, \"moe_topk\": [-1]}",
         "moe_topk[0] is not a number from 1 to 16384"},
        {"{\"model_type\": \"mellum\", \"num_hidden_layers\": 1, \"mlp_layer_types\": [\"odd\"]}",
         "mlp_layer_types[0] is neither \"dense\" nor \"sparse\""},
        {"{\"model_type\": \"dots1\", \"n_routed_experts\": 4}",
         "num_experts_per_tok is missing, which dots1 needs"},
        {"{\"model_type\": \"internlm3\", \"rope_scaling\": {\"rope_type\": \"dynamic\"}}",
         "rope type \"dynamic\" needs factor"},
        {"{\"model_type\": \"granite_swa\", \"num_hidden_layers\": 3, "
         "\"layer_rope_theta\": [10, 20, 30]}",
         "more than two values in layer_rope_theta are not supported"},
        {"{\"model_type\": \"granite_swa\", \"layer_rope_theta\": [10, 20]}",
         "layer_rope_theta has 2 values, expected 24"},
        {"{\"model_type\": \"granite_swa\", \"num_hidden_layers\": 1, \"layer_rope_theta\": [-1]}",
         "layer_rope_theta[0] is neither 0 nor a theta"},
        {"{\"model_type\": \"llama\", \"hidden_act\": \"xielu\"}",
         "hidden_act \"xielu\" is not supported"},
        {"{\"model_type\": \"lfm3\", \"use_attention_gate\": false}",
         "use_attention_gate is not supported for lfm3"},
        {"{\"model_type\": \"lfm3\", \"use_sandwich_norm\": false}",
         "use_sandwich_norm is not supported for lfm3"},
        {"{\"model_type\": \"phi\", \"qk_layernorm\": true}",
         "qk_layernorm is not supported for phi"},
        {"{\"model_type\": \"afmoe\", \"sliding_window\": null}",
         "sliding_window is missing, which afmoe needs"},
        {"{\"model_type\": \"hrm_text\", \"L_cycles\": 64, \"H_cycles\": 64}",
         "66560 layers with those that repeat, expected 1..4096"},
        {"{\"model_type\": \"deepseek_v4\", \"qk_rope_head_dim\": 8, \"rope_scaling\": "
         "{\"type\": \"longrope\", \"short_factor\": [1]}}",
         "short_factor has 1 values, expected 4"},
        {"{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 1, \"layer_types\": "
         "[\"full_attention\"]}",
         "layer_types[0] is not a kind of DeepSeek-V4's layers"},
        {"{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 1, \"mlp_layer_types\": "
         "[\"dense\"]}",
         "mlp_layer_types[0] is neither \"moe\" nor \"hash_moe\""},
        {"{\"model_type\": \"dots3_note_text\", \"use_dsa\": false}",
         "use_dsa false is not supported for dots3_note_text"},
        {"{\"model_type\": \"dots3_note_text\", \"rope_scaling\": {\"rope_theta\": 1e4}}",
         "one rotation of all layers, or a scaled one, is not supported for dots3_note_text"},
        {"{\"model_type\": \"dots3_note_text\", \"per_layer_config\": {\"0\": {}}}",
         "the sizes of layer 2 are not supported for dots3_note_text"},
        {"{\"model_type\": \"dots3_note_text\", \"num_hidden_layers\": 3, \"qk_nope_head_dim\": "
         "192, "
         "\"per_layer_config\": {\"0\": {}, \"2\": {}}}",
         "per_layer_config of layers without a window is not supported"},
        {"{\"model_type\": \"dots3_note_text\", \"num_hidden_layers\": 4, \"qk_nope_head_dim\": "
         "192, "
         "\"per_layer_config\": {\"2\": {}, \"3\": {\"q_lora_rank\": 8}}}",
         "layers with a window differ in their sizes"},
        {"{\"model_type\": \"mistral_large4_text\", \"kv_source_layers\": [0]}",
         "kv_source_layers has 1 values, expected 72"},
        {"{\"model_type\": \"mistral_large4_text\", \"num_hidden_layers\": 4, "
         "\"kv_source_layers\": [0, 1, 1, 0]}",
         "kv_source_layers[3] is not the last layer of its kind that others name"},
        {"{\"model_type\": \"mistral_large4_text\", \"num_hidden_layers\": 4, "
         "\"kv_source_layers\": [0, 1, 1, 1]}",
         "kv_source_layers[3] is not the last layer of its kind that others name"},
        {"{\"model_type\": \"mistral_large4_text\", \"num_hidden_layers\": 2, "
         "\"kv_source_layers\": [1, 1]}",
         "kv_source_layers[0] is not the last layer of its kind that others name"},
        {"{\"model_type\": \"qwen4_exp_text\", \"indexer_n_heads\": 4}",
         "one of indexer_n_heads, indexer_kv_heads, indexer_head_dim, indexer_budget and "
         "indexer_compress_ratio is missing, or the fourth no multiple of the last"},
        {"{\"model_type\": \"qwen4_exp_text\", \"ple_layer_ids\": [4]}",
         "ple_layer_ids[0] is not the next of up to 16 linear_attention layers"},
        {"{\"model_type\": \"qwen4_exp_text\", \"ple_layer_ids\": [3]}",
         "eos_token_id is not a token, which ple_layer_ids needs"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_config c;
        struct sp_err err = {0};
        assert_int_not_equal(sp_config_parse(&c, cases[i].json, strlen(cases[i].json), NULL, &err),
                             SP_OK);
        assert_string_equal(err.text, cases[i].text);
    }
}

/* Keys that some classes read and others ignore, and null where it means false. */
TEST(keys_of_some_classes)
{
    struct sp_config *c = config_parsed(
        "{\"model_type\": \"qwen3_moe\", \"decoder_sparse_step\": 2, \"mlp_only_layers\": [1]}");

    config_assert_numbers(c->layers[0].n_experts, 0, c->layers[1].n_experts, 0,
                          c->layers[3].n_experts, 128);
    c = config_parsed(
        "{\"model_type\": \"olmoe\", \"decoder_sparse_step\": 2, \"mlp_only_layers\": [1]}");
    config_assert_numbers(c->layers[0].n_experts, 64, c->layers[1].n_experts, 64);
    c = config_parsed("{\"model_type\": \"qwen3_next\", \"norm_topk_prob\": null}");
    assert_false(c->routing.norm);
    c = config_parsed("{\"model_type\": \"mixtral\", \"norm_topk_prob\": null}");
    assert_true(c->routing.norm);
    c = config_parsed("{\"model_type\": \"deepseek_v3\", \"rope_interleave\": null}");
    assert_false(c->latent.rows_paired);
}

/* Heads of an odd size whose rotating part is even, or that do not rotate. */
TEST(odd_heads)
{
    struct sp_config *c = config_parsed("{\"model_type\": \"phi\", \"hidden_size\": 36, "
                                        "\"num_attention_heads\": 4, \"num_key_value_heads\": 4}");

    config_assert_numbers(c->layers[0].head_dim, 9, c->ropes[0].n_rot, 4);
    c = config_parsed("{\"model_type\": \"nemotron_h\", \"head_dim\": 9}");
    c = config_parsed(
        "{\"model_type\": \"granitemoehybrid\", \"hidden_size\": 36, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"mamba_n_heads\": 4}");
}
