/* The shapes of published models as config.json texts without the members that do not matter here.
 * Lists of layer types are left out: the pattern of the family produces them for any number of
 * layers. */
#include "convert/create/synthetic.h"

#include "format/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QWEN3_COMMON                                                                               \
    "\"model_type\":\"qwen3\",\"vocab_size\":151936,\"max_position_embeddings\":40960,"            \
    "\"rms_norm_eps\":1e-06,\"rope_theta\":1000000,\"hidden_act\":\"silu\","                       \
    "\"attention_bias\":false,\"tie_word_embeddings\":true,\"use_sliding_window\":false,"          \
    "\"head_dim\":128,\"num_key_value_heads\":8,"
#define QWEN3_MODEL                                                                                \
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"eos_token_id\":151645," QWEN3_COMMON
#define QWEN3_DFLASH                                                                               \
    "{\"architectures\":[\"DFlashDraftModel\"],\"num_hidden_layers\":5,\"block_size\":"            \
    "16," QWEN3_COMMON
#define QWEN3_DSPARK                                                                               \
    "{\"architectures\":[\"Qwen3DSparkModel\"],\"num_hidden_layers\":5,\"block_size\":"            \
    "7,\"mask_token_id\":151669,\"markov_rank\":256,\"markov_head_type\":"                         \
    "\"vanilla\"," QWEN3_COMMON
#define QWEN3_0_6B_SIZES                                                                           \
    "\"hidden_size\":1024,\"intermediate_size\":3072,\"num_attention_heads\":16"
#define QWEN3_4B_SIZES "\"hidden_size\":2560,\"intermediate_size\":9728,\"num_attention_heads\":32"

static const struct sp_synthetic_shape shapes[] = {
    {"smollm2-135m", NULL,
     "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":49152,"
     "\"hidden_size\":576,\"intermediate_size\":1536,\"num_hidden_layers\":30,"
     "\"num_attention_heads\":9,\"num_key_value_heads\":3,\"max_position_embeddings\":8192,"
     "\"rms_norm_eps\":1e-05,\"rope_theta\":100000,\"hidden_act\":\"silu\","
     "\"attention_bias\":false,\"mlp_bias\":false,\"tie_word_embeddings\":true,"
     "\"eos_token_id\":0}"},
    {"qwen3-0.6b", NULL, QWEN3_MODEL QWEN3_0_6B_SIZES ",\"num_hidden_layers\":28}"},
    {"qwen3-4b", NULL, QWEN3_MODEL QWEN3_4B_SIZES ",\"num_hidden_layers\":36}"},
    {"qwen3-30b-a3b", NULL,
     "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\",\"vocab_size\":"
     "151936,"
     "\"hidden_size\":2048,\"intermediate_size\":6144,\"moe_intermediate_size\":768,"
     "\"num_hidden_layers\":48,\"num_attention_heads\":32,\"num_key_value_heads\":4,"
     "\"head_dim\":128,\"num_experts\":128,\"num_experts_per_tok\":8,\"norm_topk_prob\":true,"
     "\"decoder_sparse_step\":1,\"mlp_only_layers\":[],\"max_position_embeddings\":40960,"
     "\"rms_norm_eps\":1e-06,\"rope_theta\":1000000,\"hidden_act\":\"silu\","
     "\"attention_bias\":false,\"tie_word_embeddings\":false,\"use_sliding_window\":false,"
     "\"eos_token_id\":151645}"},
    {"gpt-oss-20b", NULL,
     "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\",\"vocab_size\":201088,"
     "\"hidden_size\":2880,\"intermediate_size\":2880,\"num_hidden_layers\":24,"
     "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":64,"
     "\"num_local_experts\":32,\"num_experts_per_tok\":4,\"sliding_window\":128,"
     "\"max_position_embeddings\":131072,\"rms_norm_eps\":1e-05,\"rope_theta\":150000,"
     "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":32.0,\"beta_fast\":32.0,\"beta_slow\":1."
     "0,"
     "\"truncate\":false,\"original_max_position_embeddings\":4096},\"hidden_act\":\"silu\","
     "\"swiglu_limit\":7.0,\"attention_bias\":true,\"tie_word_embeddings\":false,"
     "\"eos_token_id\":200002}"},
    {"qwen3.5-4b", NULL,
     "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5_text\",\"vocab_size\":"
     "248320,"
     "\"hidden_size\":2560,\"intermediate_size\":9216,\"num_hidden_layers\":32,"
     "\"full_attention_interval\":4,\"num_attention_heads\":16,\"num_key_value_heads\":4,"
     "\"head_dim\":256,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"
     "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":4,"
     "\"attn_output_gate\":true,\"mamba_ssm_dtype\":\"float32\",\"max_position_embeddings\":262144,"
     "\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":"
     "10000000,"
     "\"partial_rotary_factor\":0.25,\"mrope_section\":[11,11,10],\"mrope_interleaved\":true},"
     "\"hidden_act\":\"silu\",\"attention_bias\":false,\"tie_word_embeddings\":true,"
     "\"eos_token_id\":248044}"},
    {"gemma4-e4b", NULL,
     "{\"architectures\":[\"Gemma4ForCausalLM\"],\"model_type\":\"gemma4_text\",\"vocab_size\":"
     "262144,"
     "\"vocab_size_per_layer_input\":262144,\"hidden_size\":2560,"
     "\"hidden_size_per_layer_input\":256,\"intermediate_size\":10240,\"num_hidden_layers\":42,"
     "\"num_kv_shared_layers\":18,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
     "\"head_dim\":256,\"global_head_dim\":512,\"sliding_window\":512,"
     "\"use_double_wide_mlp\":false,\"attention_k_eq_v\":false,\"enable_moe_block\":false,"
     "\"max_position_embeddings\":131072,\"rms_norm_eps\":1e-06,\"final_logit_softcapping\":30.0,"
     "\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":10000.0}"
     ","
     "\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1000000.0,"
     "\"partial_rotary_factor\":0.25}},\"hidden_activation\":\"gelu_pytorch_tanh\","
     "\"attention_bias\":false,\"tie_word_embeddings\":true,\"eos_token_id\":[1,106]}"},
    {"dflash", "qwen3-0.6b",
     QWEN3_DFLASH QWEN3_0_6B_SIZES
     ",\"num_target_layers\":28,\"dflash_config\":"
     "{\"mask_token_id\":151669,\"target_layer_ids\":[1,7,13,19,25]}}"},
    {"dflash", "qwen3-4b",
     QWEN3_DFLASH QWEN3_4B_SIZES ",\"num_target_layers\":36,\"dflash_config\":"
                                 "{\"mask_token_id\":151669,\"target_layer_ids\":[1,9,17,25,33]}}"},
    {"dspark", "qwen3-0.6b",
     QWEN3_DSPARK QWEN3_0_6B_SIZES
     ",\"num_target_layers\":28,\"target_layer_ids\":[1,7,13,19,25]}"},
    {"dspark", "qwen3-4b",
     QWEN3_DSPARK QWEN3_4B_SIZES ",\"num_target_layers\":36,\"target_layer_ids\":[1,9,17,25,33]}"},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

const char *const sp_synthetic_targets[] = {"qwen3-0.6b",   "qwen3-4b",    "qwen3-30b-a3b",
                                            "qwen3.5-4b",   "gpt-oss-20b", "gemma4-e4b",
                                            "smollm2-135m", NULL};
const char *const sp_synthetic_drafts[] = {"dflash", "dspark", "qwen3-0.6b", "smollm2-135m", NULL};

const struct sp_synthetic_shape *sp_synthetic_shape_find(const char *name, const char *target)
{
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (strcmp(shapes[i].name, name) != 0) continue;
        if (shapes[i].target == NULL || (target && strcmp(shapes[i].target, target) == 0))
            return &shapes[i];
    }
    return NULL;
}

/* Returns the digits that follow a key, or NULL if the text has no such key. */
static char *digits_after(char *text, const char *key)
{
    char *at = strstr(text, key);

    return at ? at + strlen(key) : NULL;
}

/* Replaces a number by one that has at most as many digits; blanks fill the rest. */
static void replace_number(char *digits, unsigned value)
{
    char number[16];
    size_t size = strspn(digits, "0123456789"), n;

    n = (size_t)snprintf(number, sizeof number, "%u", value);
    memset(digits, ' ', size);
    memcpy(digits, number, n);
}

enum sp_status sp_synthetic_shape_config(char **out, const struct sp_synthetic_shape *shape,
                                         unsigned n_layers, struct sp_err *err)
{
    char *text, *layers, *shared;
    unsigned n_all, n_shared;
    enum sp_status st;

    if ((st = sp_copy_text(&text, shape->config, strlen(shape->config), err))) return st;
    layers = digits_after(text, "\"num_hidden_layers\":");
    shared = digits_after(text, "\"num_kv_shared_layers\":");
    n_all = (unsigned)strtoul(layers, NULL, 10);
    n_shared = shared ? (unsigned)strtoul(shared, NULL, 10) : 0;
    if (n_layers > n_all) {
        free(text);
        return sp_fail(err, SP_E_USAGE, "%s has %u layers, fewer than %u", shape->name, n_all,
                       n_layers);
    }
    if (n_layers) {
        replace_number(layers, n_layers);
        if (shared) replace_number(shared, n_shared * n_layers / n_all);
    }
    *out = text;
    return SP_OK;
}
