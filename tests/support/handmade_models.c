#include "tests/support/handmade_models.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "format/base/bytes.h"

#include <sys/stat.h>

enum {
    V = 160,
    H = 64,
    L = 4,
    I = 96,
    NQ = 4,
    NK = 2,
    D = 32,
    HK = 2,
    HV = 4,
    DK = 16,
    DV = 24,
    K = 3
};
_Static_assert((int)V == HANDMADE_TOKENS && (int)H == HANDMADE_WIDTH, "as the header says");
enum { CHANNELS = 2 * HK * DK + HV * DV, VALUES = HV * DV };

static const char qwen3_5[] =
    "{\"model_type\": \"qwen3_5_text\", \"vocab_size\": %u, \"hidden_size\": 64, "
    "\"num_hidden_layers\": 4, \"full_attention_interval\": 2, \"intermediate_size\": 96, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32, "
    "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 16, "
    "\"linear_value_head_dim\": 24, \"linear_conv_kernel_dim\": 3, \"eos_token_id\": 159, "
    "\"max_position_embeddings\": 1024, \"tie_word_embeddings\": true, "
    "\"rope_parameters\": {\"rope_theta\": 10000, \"partial_rotary_factor\": 0.25}}\n";

static const char eagle3[] =
    "{\"architectures\": [\"LlamaForCausalLMEagle3\"], \"model_type\": \"llama\", "
    "\"vocab_size\": 160, \"draft_vocab_size\": 80, \"hidden_size\": 64, "
    "\"num_hidden_layers\": 1, \"intermediate_size\": 96, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 32, \"max_position_embeddings\": 1024, "
    "\"eagle_config\": {\"eagle_aux_hidden_state_layer_ids\": [1, 4]}}\n";

/* A safetensors file under construction. */
struct writer {
    char header[1 << 16];
    size_t n_header;
    float *data;
    size_t n, cap;
    uint32_t seed;
};

/* Returns a uniform number in [-1, 1] from a portable generator. */
static float next(struct writer *w)
{
    w->seed = w->seed * 1664525u + 1013904223u;
    return (float)(int32_t)w->seed * 0x1p-31f;
}

/* Adds a tensor of n elements of 4 bytes. `shape` is text such as "4,8", copied into the header. */
static float *add_as(struct writer *w, const char *dtype, const char *name, const char *shape,
                     size_t n)
{
    w->n_header +=
        (size_t)snprintf(w->header + w->n_header, sizeof w->header - w->n_header,
                         "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                         w->n_header > 1 ? "," : "", name, dtype, shape, w->n * 4, (w->n + n) * 4);
    assert_true(w->n_header < sizeof w->header);
    if (w->n + n > w->cap) {
        w->cap = 2 * (w->n + n);
        w->data = realloc(w->data, w->cap * sizeof *w->data);
        assert_non_null(w->data);
    }
    w->n += n;
    return w->data + w->n - n;
}

static float *add(struct writer *w, const char *name, const char *shape, size_t n)
{
    return add_as(w, "F32", name, shape, n);
}

static float *matrix(struct writer *w, const char *prefix, const char *name, size_t rows,
                     size_t cols, float scale)
{
    char full[128], shape[32];

    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    snprintf(shape, sizeof shape, "%zu,%zu", rows, cols);
    float *x = add(w, full, shape, rows * cols);
    for (size_t i = 0; i < rows * cols; i++)
        x[i] = scale * next(w);
    return x;
}

static void vector(struct writer *w, const char *prefix, const char *name, size_t n, float center,
                   float scale)
{
    char full[128], shape[32];

    snprintf(full, sizeof full, "%s%s", prefix, name);
    snprintf(shape, sizeof shape, "%zu", n);
    float *x = add(w, full, shape, n);
    for (size_t i = 0; i < n; i++)
        x[i] = center + scale * next(w);
}

static void attention(struct writer *w, const char *prefix, float norm, float mixing)
{
    matrix(w, prefix, "self_attn.q_proj", 2 * NQ * D, H, 0.3f);
    matrix(w, prefix, "self_attn.k_proj", NK * D, H, 0.3f);
    matrix(w, prefix, "self_attn.v_proj", NK * D, H, 0.3f);
    matrix(w, prefix, "self_attn.o_proj", H, NQ * D, mixing);
    vector(w, prefix, "self_attn.q_norm.weight", D, norm, 0.25f);
    vector(w, prefix, "self_attn.k_norm.weight", D, norm, 0.25f);
}

static void delta(struct writer *w, const char *prefix, const struct handmade_options *how)
{
    matrix(w, prefix, "linear_attn.in_proj_qkv", CHANNELS, H, 0.3f);
    matrix(w, prefix, "linear_attn.in_proj_z", VALUES, H, 0.3f);
    matrix(w, prefix, "linear_attn.in_proj_b", HV, H, 0.2f);
    matrix(w, prefix, "linear_attn.in_proj_a", HV, H, 0.2f);
    matrix(w, prefix, "linear_attn.out_proj", H, VALUES, how->mixing);
    vector(w, prefix, "linear_attn.A_log", HV, -1, 0.5f);
    vector(w, prefix, "linear_attn.dt_bias", HV, 0, 0.5f);
    vector(w, prefix, "linear_attn.norm.weight", DV, 1, 0.25f);
    /* The taps of one channel are contiguous in both layouts. */
    float *conv = add(w, keep_format("%slinear_attn.conv1d.weight", prefix),
                      how->converted ? "160,3,1" : "160,1,3", CHANNELS * K);
    for (size_t i = 0; i < CHANNELS * K; i++)
        conv[i] = 0.6f * next(w);
}

/* Writes the rows of tokens 0, step, 2 step and so on. Their elements are 1 and -1 and they are
 * nearly orthogonal, so that each token's own logit is by far the largest. */
static void write_tokens(struct writer *w, const char *prefix, const char *name, size_t n_vocab,
                         size_t step)
{
    struct writer rows = {.seed = 7};
    float *out = matrix(w, prefix, name, n_vocab / step, H, 1);

    for (size_t i = 0; i < n_vocab; i++) {
        for (size_t k = 0; k < H; k++) {
            float sign = next(&rows) < 0 ? -1 : 1;
            if (i % step == 0) out[i / step * H + k] = sign;
        }
    }
}

static void mlp(struct writer *w, const char *prefix, float norm, float mixing)
{
    vector(w, prefix, "post_attention_layernorm.weight", H, norm, 0.25f);
    matrix(w, prefix, "mlp.gate_proj", I, H, 0.3f);
    matrix(w, prefix, "mlp.up_proj", I, H, 0.3f);
    matrix(w, prefix, "mlp.down_proj", H, I, mixing);
}

/* fc = [0, 1] passes the half that holds the hidden state. */
static void head(struct writer *w, const struct handmade_options *how)
{
    float scale = how->copies ? 0 : 0.3f, varied = how->copies ? 0 : 0.25f;
    float *fc = matrix(w, "mtp.", "fc", H, 2 * (size_t)H, scale);

    for (size_t i = 0; how->copies && i < H; i++)
        fc[i * 2 * H + H + i] = 1;
    vector(w, "mtp.", "pre_fc_norm_embedding.weight", H, 0, varied);
    vector(w, "mtp.", "pre_fc_norm_hidden.weight", H, 0, varied);
    vector(w, "mtp.", "norm.weight", H, 0, varied);
    vector(w, "mtp.layers.0.", "input_layernorm.weight", H, 0, varied);
    attention(w, "mtp.layers.0.", 0, scale);
    if (!how->no_ffn) mlp(w, "mtp.layers.0.", 0, scale);
    if (how->unknown) vector(w, "mtp.", "unknown.weight", H, 0, varied);
}

/* Writes a text, or the file under construction if `text` is NULL. */
static void write_file(const char *folder, const char *name, const struct writer *w,
                       const char *text)
{
    uint8_t size[8], bytes[4];

    FILE *f = fopen(keep_format("%s/%s", folder, name), "wb");
    assert_non_null(f);
    if (text) {
        fputs(text, f);
    } else {
        sp_put64(size, w->n_header);
        fwrite(size, 1, 8, f);
        fwrite(w->header, 1, w->n_header, f);
        for (size_t i = 0; i < w->n; i++) {
            sp_put32(bytes, sp_bits_of_float(w->data[i]));
            fwrite(bytes, 1, 4, f);
        }
    }
    assert_int_equal(fclose(f), 0);
}

static struct writer *begin(uint32_t seed)
{
    struct writer *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->seed = seed;
    w->header[w->n_header++] = '{';
    return w;
}

static void finish(struct writer *w, const char *folder, const char *config)
{
    w->header[w->n_header++] = '}';
    write_file(folder, "config.json", NULL, config);
    write_file(folder, "model.safetensors", w, NULL);
    free(w->data);
    free(w);
}

void handmade_qwen3_5(const char *folder, const struct handmade_options *how)
{
    struct writer *w = begin(20260101);
    float norm = how->converted ? 1 : 0;

    char config[sizeof qwen3_5 + 16];
    unsigned n_vocab = how->n_vocab ? how->n_vocab : V;

    write_tokens(w, "model.", "embed_tokens", n_vocab, 1);
    for (unsigned i = 0; i < L; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "model.layers.%u.", i);
        vector(w, prefix, "input_layernorm.weight", H, norm, 0.25f);
        if (i % 2)
            attention(w, prefix, norm, how->mixing);
        else
            delta(w, prefix, how);
        mlp(w, prefix, norm, how->mixing);
    }
    vector(w, "model.", "norm.weight", H, norm, 0.05f);
    if (!how->converted) head(w, how);
    snprintf(config, sizeof config, qwen3_5, n_vocab);
    finish(w, folder, config);
}

/* fc = [0, 1] passes the output of the target's last layer. */
void handmade_eagle3(const char *folder, const struct handmade_options *how)
{
    struct writer *w = begin(20260101);
    float scale = how->copies ? 0 : 0.3f, varied = how->copies ? 0 : 0.25f, *fc, *map, *marks;

    write_tokens(w, "", "lm_head", V, 2);
    fc = matrix(w, "", "fc", H, 2 * (size_t)H, scale);
    for (size_t i = 0; how->copies && i < H; i++)
        fc[i * 2 * H + H + i] = 1;
    map = add(w, "d2t", "80", V / 2);
    for (size_t i = 0; i < V / 2; i++)
        map[i] = (float)i;
    marks = add_as(w, "BOOL", "t2d", "160", V / 4);
    for (size_t i = 0; i < V / 4; i++)
        memcpy(&marks[i], how->marks_odd && i == 7 ? "\0\1\1" : "\1\0\1", 4);
    vector(w, "", "norm.weight", H, 1, varied);
    vector(w, "midlayer.", "input_layernorm.weight", H, 1, varied);
    vector(w, "midlayer.", "hidden_norm.weight", H, 1, varied);
    matrix(w, "midlayer.", "self_attn.q_proj", NQ * D, 2 * (size_t)H, 0.3f);
    matrix(w, "midlayer.", "self_attn.k_proj", NK * D, 2 * (size_t)H, 0.3f);
    matrix(w, "midlayer.", "self_attn.v_proj", NK * D, 2 * (size_t)H, 0.3f);
    matrix(w, "midlayer.", "self_attn.o_proj", H, NQ * D, scale);
    mlp(w, "midlayer.", 1, scale);
    finish(w, folder, eagle3);
}

static void block_layer(struct writer *w)
{
    static const char prefix[] = "layers.0.";

    vector(w, prefix, "input_layernorm.weight", H, 1, 0.25f);
    matrix(w, prefix, "self_attn.q_proj", NQ * D, H, 0.3f);
    matrix(w, prefix, "self_attn.k_proj", NK * D, H, 0.3f);
    matrix(w, prefix, "self_attn.v_proj", NK * D, H, 0.3f);
    matrix(w, prefix, "self_attn.o_proj", H, NQ * D, 0.2f);
    vector(w, prefix, "self_attn.q_norm.weight", D, 1, 0.25f);
    vector(w, prefix, "self_attn.k_norm.weight", D, 1, 0.25f);
    mlp(w, prefix, 1, 0.2f);
}

/* The rows hold 1 and -1, so that one element only of the correction W e is as large as rank. */
static void markov_head(struct writer *w, const struct handmade_dspark *how, size_t n_vocab)
{
    size_t n = n_vocab * how->rank, wide = H + (size_t)how->rank;
    float *w1 = malloc(n * sizeof *w1), *w2;

    assert_non_null(w1);
    memcpy(w1, matrix(w, "", "markov_head.markov_w1", n_vocab, how->rank, 1), n * sizeof *w1);
    w2 = matrix(w, "", "markov_head.markov_w2", n_vocab, how->rank, 1);
    for (size_t i = 0; how->repeats && i < n; i++)
        w2[i] = w1[i];
    free(w1);
    if (strcmp(how->markov, "gated") == 0) {
        matrix(w, "", "markov_head.gate_proj", how->rank, wide, 0.3f);
        vector(w, "", "markov_head.gate_proj.bias", how->rank, 0, 0.5f);
    }
    if (strcmp(how->markov, "rnn") == 0) {
        matrix(w, "", "markov_head.joint_proj", 3 * how->rank, wide + how->rank, 0.3f);
        vector(w, "", "markov_head.joint_proj.bias", 3 * how->rank, 0, 0.5f);
    }
}

static void dspark_tensors(struct writer *w, const struct handmade_dspark *how, size_t n_vocab)
{
    matrix(w, "", "embed_tokens", n_vocab, H, 1);
    float *head = matrix(w, "", "lm_head", n_vocab, H, 0.1f);
    for (size_t i = 0; i < H * H; i++)
        head[i] = i / H == i % H ? 1 : 0;
    matrix(w, "", "fc", H, 2 * H, 0.2f);
    vector(w, "", "hidden_norm.weight", H, 1, 0.25f);
    vector(w, "", "norm.weight", H, 1, 0.25f);
    block_layer(w);
    if (how->markov) markov_head(w, how, n_vocab);
    if (how->confidence) {
        matrix(w, "", "confidence_head.proj", 1, H + (how->confidence_markov ? how->rank : 0),
               0.3f);
        vector(w, "", "confidence_head.proj.bias", 1, 0, 0.5f);
    }
}

void handmade_dspark(const char *folder, const struct handmade_dspark *how)
{
    struct writer *w = begin(20260301);
    unsigned n_vocab = how->n_vocab ? how->n_vocab : V;
    char text[1024];

    dspark_tensors(w, how, n_vocab);
    snprintf(text, sizeof text,
             "{\"architectures\": [\"Qwen3DSparkModel\"], \"model_type\": \"qwen3\", "
             "\"vocab_size\": %u, \"hidden_size\": 64, \"num_hidden_layers\": 1, "
             "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32, "
             "\"intermediate_size\": 96, \"rope_theta\": 10000, \"tie_word_embeddings\": false, "
             "\"max_position_embeddings\": 1024, \"num_target_layers\": 4, "
             "\"target_layer_ids\": [-1, 2], \"mask_token_id\": 158, \"block_size\": %u, "
             "\"markov_rank\": %u, \"markov_head_type\": \"%s\", "
             "\"enable_confidence_head\": %s, \"confidence_head_with_markov\": %s}\n",
             n_vocab, how->block_size, how->markov ? how->rank : 0,
             how->markov ? how->markov : "vanilla", how->confidence ? "true" : "false",
             how->confidence_markov ? "true" : "false");
    finish(w, folder, text);
}

const char *handmade_modelfile(const struct handmade_options *how, const char *more)
{
    const char *text = keep_format("FROM .\n%s", more);

    handmade_qwen3_5(scratch_folder(), how);
    return scratch_write("Modelfile", text, strlen(text));
}

const char *handmade_eagle3_modelfile(const struct handmade_options *how)
{
    const char *modelfile = handmade_modelfile(how, "DRAFT ./draft\n");

    assert_int_equal(mkdir(scratch_path("draft"), 0777), 0);
    handmade_eagle3(scratch_path("draft"), how);
    return modelfile;
}

static const char *pack(const char *modelfile, enum sp_dtype target, enum sp_dtype draft)
{
    const char *path = packed_file(modelfile, target, draft);

    scratch_remove();
    return path;
}

const char *packed_handmade(const struct handmade_options *how, enum sp_dtype target,
                            enum sp_dtype draft)
{
    return pack(handmade_modelfile(how, ""), target, draft);
}

const char *packed_handmade_eagle3(const struct handmade_options *how, enum sp_dtype target,
                                   enum sp_dtype draft)
{
    return pack(handmade_eagle3_modelfile(how), target, draft);
}
