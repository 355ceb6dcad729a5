/* GGUF files that the tests make, as sources: what their values and tensors mean, and what is
 * refused, with its sentence. Files of llama.cpp's converter are in test_gguf_checkpoints.c. */
#include "convert/create/plan.h"
#include "convert/gguf/gguf_model.h"
#include "format/tokenizer/gguf_tokenizer.h"
#include "convert/source/source.h"
#include "quantize/codec.h"
#include "format/base/bytes.h"
#include "format/ggml_type.h"
#include "format/gguf.h"
#include "quantize/types/groupwise.h"
#include "tests/support/keep.h"
#include "tests/support/made_gguf.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <sys/resource.h>
#include <unistd.h>

static void assert_refused(const char *path, enum sp_status status, const char *message)
{
    struct sp_source source;

    assert_fails(sp_source_open(&source, path, SP_PART_TARGET, NULL, why), status, message);
}

static void refuse(struct made_gguf *m, size_t data, enum sp_status status, const char *message)
{
    assert_refused(gguf_write(m, "made.gguf", data), status, message);
}

static void release_model(void *model)
{
    sp_gguf_model_release(model);
    free(model);
}

/* Opens the file with `data` zero bytes behind its header. The model and the warnings are kept. */
static struct sp_gguf_model *open_model(struct made_gguf *m, size_t data, char **warnings)
{
    struct sp_gguf_model *model = calloc(1, sizeof *model);

    assert_non_null(model);
    assert_ok(sp_gguf_model_open(model, gguf_write(m, "made.gguf", data), NULL, warnings, why));
    if (warnings) keep(*warnings);
    return keep_with(model, release_model);
}

struct size {
    const char *key; /* without the architecture */
    uint32_t value;
};

static void add_sizes(struct made_gguf *m, const char *arch, const struct size *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gguf_value_u32(m, keep_format("%s.%s", arch, sizes[i].key), sizes[i].value);
}

/* The metadata of a model of one layer. */
static void add_model_with(struct made_gguf *m, const char *arch, uint32_t context, bool epsilon)
{
    const struct size sizes[] = {{"block_count", 1},
                                 {"context_length", context},
                                 {"embedding_length", 32},
                                 {"feed_forward_length", 32},
                                 {"attention.head_count", 2}};

    gguf_value_string(m, "general.architecture", arch);
    add_sizes(m, arch, sizes, sizeof sizes / sizeof *sizes);
    if (epsilon)
        gguf_value_float(m, keep_format("%s.attention.layer_norm_rms_epsilon", arch), 1e-5f);
}

static void add_model(struct made_gguf *m, const char *arch)
{
    add_model_with(m, arch, 64, true);
}

static void add_list(struct made_gguf *m, const char *key, uint32_t type, uint64_t n)
{
    gguf_add_string(m, key);
    gguf_add_u32(m, SP_GGUF_ARRAY);
    gguf_add_u32(m, type);
    gguf_add_u64(m, n);
    m->n_values++;
}

static void add_strings(struct made_gguf *m, const char *key, const char *const *texts, uint64_t n)
{
    add_list(m, key, SP_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        gguf_add_string(m, texts[i]);
}

static void add_table(struct made_gguf *m)
{
    gguf_tensor(m, "token_embd.weight", 32, 32, SP_GGML_F32, 0);
}

static void add_llama(struct made_gguf *m)
{
    add_model(m, "llama");
}

static void add_llama_tensors(struct made_gguf *m)
{
    static const char *const matrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                           "ffn_gate", "ffn_up", "ffn_down"};
    uint64_t at = 0;

    gguf_tensor(m, "token_embd.weight", 32, 32, SP_GGML_Q8_0, at);
    at += 1088;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++, at += 576) {
        gguf_tensor(m, keep_format("blk.0.%s.weight", matrices[i]), 32, 32,
                    i == 2 ? SP_GGML_MXFP4 : SP_GGML_Q4_0, at);
    }
    gguf_tensor(m, "blk.0.attn_norm.weight", 32, 0, SP_GGML_F32, at);
    gguf_tensor(m, "blk.0.ffn_norm.weight", 32, 0, SP_GGML_F32, at + 128);
    gguf_tensor(m, "output_norm.weight", 32, 0, SP_GGML_F32, at + 256);
}

enum { LLAMA_DATA = 1088 + 7 * 576 + 3 * 128 };

/* The panels that keep the codes of a matrix of 32 rows decode to its numbers, bit for bit. */
static void check_kept(const struct sp_plan_item *item)
{
    struct sp_scratch scratch;
    struct sp_stored stored;
    float row[32], want[32 * 32];
    uint8_t panel[2 * 448];

    assert_ok(sp_scratch_open(&scratch, 1 << 16, NULL));
    assert_ok(sp_source_stored(&stored, item->source, item->spec, NULL));
    assert_true(stored.kept == item->to && item->keeps_codes);
    assert_ok(sp_source_read_rows(want, item->source, item->spec, 0, 32, &scratch, NULL));
    for (uint64_t first = 0; first < 32; first += 16) {
        assert_ok(sp_source_read_codes(panel, item->source, item->spec, &stored, first, 16,
                                       &scratch, NULL));
        for (size_t lane = 0; lane < 16; lane++) {
            sp_panel_row(row, item->to, panel, 32, lane);
            assert_memory_equal(row, want + (first + lane) * 32, sizeof row);
        }
    }
    sp_scratch_release(&scratch);
}

/* Without --quantize, codes and plain floats stay as they are. */
TEST(default_types)
{
    struct made_gguf m;
    struct sp_source source;
    struct sp_plan plan = {0};
    struct sp_policy_request request = {0};

    gguf_begin(&m);
    add_llama(&m);
    add_llama_tensors(&m);
    assert_ok(sp_source_open(&source, gguf_write(&m, "made.gguf", LLAMA_DATA), SP_PART_TARGET, NULL,
                             NULL));
    assert_true(source.config.tied);
    assert_ok(sp_plan_add(&plan, &source, SP_PART_TARGET, &request, NULL, false, NULL));
    assert_int_equal(plan.n_items, 11);
    for (size_t i = 0; i < plan.n_items; i++) {
        const struct sp_plan_item *item = &plan.items[i];
        const char *name = item->spec->name;
        bool norm = strstr(name, "norm") != NULL;
        assert_int_equal(item->to, norm                     ? SP_F32
                                   : strstr(name, "embed")  ? SP_I8G32
                                   : strstr(name, "v_proj") ? SP_MXFP4
                                                            : SP_I4G32);
        if (norm) continue;
        assert_string_equal(item->rule, "codes kept, nothing lost");
        check_kept(item);
    }
    sp_plan_release(&plan);
    sp_source_release(&source);
}

/* A scale that is no number, or with which a code is none, is refused as it is with --quantize. */
TEST(kept_scales_are_finite)
{
    static const struct {
        const char *name;
        size_t at;
        uint8_t bytes[2];
    } cases[] = {
        {"model.layers.0.mlp.up_proj.weight", 1088 + 5 * 576 + 5 * 18, {0, 0x7e}},
        {"model.layers.0.mlp.up_proj.weight", 1088 + 5 * 576 + 5 * 18, {0, 0xfc}},
        {"model.layers.0.self_attn.v_proj.weight", 1088 + 2 * 576 + 5 * 17, {252, 0x11}},
    };
    uint8_t panel[448];
    struct made_gguf m;

    gguf_begin(&m);
    add_llama(&m);
    add_llama_tensors(&m);
    (void)gguf_write(&m, "made.gguf", LLAMA_DATA);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t file[sizeof m.bytes + LLAMA_DATA] = {0}, bytes[64], flags;
        struct sp_gguf_model model;
        memcpy(file, m.bytes, m.size);
        memcpy(file + m.size + cases[i].at, cases[i].bytes, 2);
        scratch_write("made.gguf", file, m.size + LLAMA_DATA);
        assert_ok(sp_gguf_model_open(&model, scratch_path("made.gguf"), NULL, NULL, why));
        const struct sp_gguf_weight *w = sp_gguf_weight_find(&model, cases[i].name);
        sp_group_panel_init(panel, sp_gguf_weight_kept(&flags, w), 32, 0);
        assert_ok(sp_gguf_weight_put_row(panel, 0, w, 4, bytes, why));
        assert_fails_as(sp_gguf_weight_put_row(panel, 0, w, 5, bytes, why), SP_E_INPUT,
                        "row 5, column 0: a scale that gives numbers that are not finite");
        sp_gguf_model_release(&model);
    }
}

TEST(refused_headers)
{
    struct made_gguf m;

    gguf_begin(&m);
    const char *path = gguf_write(&m, "made.gguf", 0);
    assert_refused(path, SP_E_INPUT, "general.architecture is missing");
    sp_put32(m.bytes + 4, 1);
    scratch_write("made.gguf", m.bytes, m.size);
    assert_refused(path, SP_E_UNSUPPORTED, "GGUF version 1 is not supported, only 2 and 3");
    sp_put32(m.bytes + 4, 0x03000000);
    scratch_write("made.gguf", m.bytes, m.size);
    assert_refused(path, SP_E_UNSUPPORTED, "big-endian GGUF is not supported");
    scratch_write("made.gguf", "GGUF\3\0\0\0\0\0\0\0", 12);
    assert_refused(path, SP_E_INPUT, "12 bytes are too few for a GGUF file");
    gguf_begin(&m);
    m.n_tensors = UINT64_MAX;
    refuse(&m, 0, SP_E_INPUT, "tensors and 0 values do not fit 32 bytes");
    gguf_begin(&m);
    add_list(&m, "x", SP_GGUF_U64, UINT64_MAX / 8);
    refuse(&m, 0, SP_E_INPUT, "x: an array at byte");
    gguf_begin(&m);
    gguf_add_string(&m, "x");
    gguf_add_u32(&m, 99);
    m.n_values = 1;
    refuse(&m, 0, SP_E_INPUT, "x: its value has type 99, which is unknown");
    gguf_begin(&m);
    gguf_value_u32(&m, "x", 1);
    gguf_value_u32(&m, "x", 1);
    refuse(&m, 0, SP_E_INPUT, "x occurs twice");
    gguf_begin(&m);
    gguf_value_u32(&m, "general.alignment", 24);
    refuse(&m, 0, SP_E_INPUT, "general.alignment is not a power of two");
}

TEST(refused_tensors)
{
    static const struct {
        const char *name;
        uint64_t cols, rows;
        uint32_t type;
        uint64_t offset;
        enum sp_status status;
        const char *message;
    } cases[] = {
        {"a", 256, 1, 15, 0, SP_E_UNSUPPORTED, "tensor a: type q8_k (15) is not supported"},
        {"a", 128, 1, SP_GGML_IQ2_XXS, 0, SP_E_INPUT,
         "rows of 128 elements are no whole iq2_xxs blocks"},
        {"a", 256, 1, 777, 0, SP_E_INPUT, "tensor a: its type 777 is unknown"},
        {"a", 48, 1, SP_GGML_Q8_0, 0, SP_E_INPUT, "rows of 48 elements are no whole q8_0 blocks"},
        {"a", 0, 1, SP_GGML_F32, 0, SP_E_INPUT, "tensor a: dimension 0 is 0"},
        {"a", 1u << 31, UINT64_MAX / 8, SP_GGML_F32, 0, SP_E_INPUT, "dimensions are too large"},
        {"a", 64, 1, SP_GGML_F32, 0, SP_E_INPUT, "reach beyond the file's end"},
        {"a", 8, 1, SP_GGML_F32, 8, SP_E_INPUT, "offset 8 is not a multiple of 32"},
        {"blk.0.wrong.weight", 8, 1, SP_GGML_F32, 0, SP_E_UNSUPPORTED,
         "tensor blk.0.wrong.weight is not a tensor of llama models"},
    };
    struct made_gguf m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_begin(&m);
        add_llama(&m);
        gguf_tensor(&m, cases[i].name, cases[i].cols, cases[i].rows, cases[i].type,
                    cases[i].offset);
        refuse(&m, 64, cases[i].status, cases[i].message);
    }
    gguf_begin(&m);
    add_llama(&m);
    gguf_tensor(&m, "a", 16, 1, SP_GGML_F32, 0);
    gguf_tensor(&m, "b", 16, 1, SP_GGML_F32, 32);
    refuse(&m, 128, SP_E_INPUT, "tensors a and b overlap");
}

TEST(refused_models)
{
    static const struct {
        const char *key, *text;
        enum sp_status status;
        const char *message;
    } cases[] = {
        {"tokenizer.ggml.model", "rwkv", SP_E_UNSUPPORTED,
         "tokenizer.ggml.model \"rwkv\" is not supported"},
        {"tokenizer.ggml.model", "gpt2", SP_E_UNSUPPORTED, "tokenizer.ggml.pre is missing"},
        {"llama.rope.scaling.type", "odd", SP_E_UNSUPPORTED,
         "llama.rope.scaling.type \"odd\" is not supported"},
        {"llama.attention.key_length", "8", SP_E_INPUT,
         "llama.attention.key_length is not an integer"},
    };
    struct made_gguf m;

    gguf_begin(&m);
    gguf_value_string(&m, "general.architecture", "rwkv7");
    refuse(&m, 0, SP_E_UNSUPPORTED,
           "made.gguf: architecture \"rwkv7\" is not supported in GGUF files");
    gguf_begin(&m);
    add_llama(&m);
    refuse(&m, 0, SP_E_INPUT, "token_embd.weight is missing");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_begin(&m);
        add_llama(&m);
        gguf_value_string(&m, cases[i].key, cases[i].text);
        add_llama_tensors(&m);
        refuse(&m, LLAMA_DATA, cases[i].status, cases[i].message);
    }
    gguf_begin(&m);
    add_llama(&m);
    gguf_add_string(&m, "llama.rope.freq_base");
    gguf_add_u32(&m, SP_GGUF_F64);
    gguf_add_u32(&m, 0);
    gguf_add_u32(&m, 0x7e37e43c); /* 1e300 */
    m.n_values++;
    add_llama_tensors(&m);
    refuse(&m, LLAMA_DATA, SP_E_INPUT, "llama.rope.freq_base is 1e+300, out of range");
    gguf_begin(&m);
    add_model(&m, "mellum");
    gguf_value_string(&m, "mellum.rope.scaling.type", "linear");
    add_table(&m);
    refuse(&m, 4096, SP_E_UNSUPPORTED, "mellum.rope.scaling.type \"linear\" is not supported");
}

/* What config.json of a file without tensors but its table says; kept. warnings: NULL: none are
 * expected. */
static char *config_of(struct made_gguf *m, char **warnings)
{
    struct sp_text text;
    char *unexpected = NULL;

    add_table(m);
    assert_ok(sp_gguf_config_text(&text, open_model(m, 4864, NULL),
                                  warnings ? warnings : &unexpected, why));
    if (unexpected) fail_msg("%s", unexpected);
    if (warnings) keep(*warnings);
    return keep(text.at);
}

/* Keys of other converters mean what llama.cpp's do, by its loader and, for files of ollama's
 * converter, by ollama's table of differences (llama/compat). Scaling without a type is linear. */
TEST(keys_of_other_converters)
{
    static const struct {
        const char *arch, *other, *key;
        const char *type; /* of scaling, in both files; NULL: the other has none */
    } cases[] = {
        {"llama", "rope.scale_linear", "rope.scaling.factor", "linear"},
        {"llama", "rope.scaling.factor", "rope.scaling.factor", NULL},
        {"llama", "rope.scale_linear", "rope.scaling.factor", NULL},
        {"mistral3", "rope.scaling.beta_fast", "rope.scaling.yarn_beta_fast", "yarn"},
        {"mistral3", "rope.scaling.beta_slow", "rope.scaling.yarn_beta_slow", "yarn"},
        {"mistral3", "rope.scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier", "yarn"},
        {"mistral3", "rope.scaling_beta", "attention.temperature_scale", "yarn"},
        {"gemma3", "rope.global.freq_base", "rope.freq_base", "none"},
        {"gemma3", "rope.local.freq_base", "rope.freq_base_swa", "none"},
    };
    struct made_gguf m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text[2], key[80];
        for (unsigned common = 0; common < 2; common++) {
            gguf_begin(&m);
            add_model(&m, cases[i].arch);
            snprintf(key, sizeof key, "%s.attention.key_length", cases[i].arch);
            gguf_value_u32(&m, key, 16);
            snprintf(key, sizeof key, "%s.%s", cases[i].arch,
                     common ? cases[i].key : cases[i].other);
            gguf_value_float(&m, key, 5.5f);
            snprintf(key, sizeof key, "%s.rope.scaling.type", cases[i].arch);
            if (cases[i].type || common)
                gguf_value_string(&m, key, cases[i].type ? cases[i].type : "linear");
            text[common] = config_of(&m, NULL);
        }
        assert_string_equal(text[0], text[1]);
        assert_non_null(strstr(text[0], "5.5"));
    }
}

/* The layers of ollama's Qwen3-Next that have no heads for keys are recurrent, and its prediction
 * head keeps published names. */
TEST(layers_of_ollamas_qwen3_next)
{
    static const uint32_t heads[] = {0, 2, 0, 2};
    static const struct size sizes[] = {
        {"block_count", 4},           {"nextn_predict_layers", 1}, {"context_length", 64},
        {"embedding_length", 32},     {"feed_forward_length", 32}, {"attention.head_count", 4},
        {"attention.key_length", 16}, {"ssm.inner_size", 24},      {"ssm.time_step_rank", 6}};
    struct made_gguf m;

    gguf_begin(&m);
    gguf_value_string(&m, "general.architecture", "qwen3next");
    add_sizes(&m, "qwen3next", sizes, sizeof sizes / sizeof *sizes);
    gguf_value_float(&m, "qwen3next.attention.layer_norm_rms_epsilon", 1e-6f);
    add_list(&m, "qwen3next.attention.head_count_kv", SP_GGUF_U32, 4);
    for (size_t i = 0; i < 4; i++)
        gguf_add_u32(&m, heads[i]);
    gguf_tensor(&m, "mtp.fc.weight", 8, 8, SP_GGML_F32, 4096);
    char *text = config_of(&m, NULL);
    assert_non_null(strstr(text, "\"num_hidden_layers\": 4"));
    assert_non_null(strstr(text, "\"num_key_value_heads\": 2"));
    assert_non_null(strstr(text, "[\"linear_attention\", \"full_attention\", \"linear_attention\", "
                                 "\"full_attention\"]"));
}

/* ollama's LFM2 states the width of its feed-forward network before it is adjusted. */
TEST(width_of_ollamas_lfm2)
{
    struct made_gguf m;

    gguf_begin(&m);
    add_model(&m, "lfm2");
    gguf_tensor(&m, "blk.0.ffn_gate.weight", 8, 24, SP_GGML_F32, 4096);
    char *text = config_of(&m, NULL);
    assert_non_null(strstr(text, "\"intermediate_size\": 24"));
}

/* ollama's Llama 3 has "default" rules; a vocabulary whose token 128009 ends turns is Llama 3's. */
TEST(rules_of_ollamas_llama3)
{
    enum { EOT = 128009, ALIGNMENT = 32 };
    static const char eot[] = "<|eot_id|>";
    struct sp_gguf *file = NULL;
    struct made_gguf m;
    struct sp_text text;

    gguf_begin(&m);
    gguf_value_string(&m, "general.architecture", "llama");
    gguf_value_string(&m, "tokenizer.ggml.model", "gpt2");
    gguf_value_string(&m, "tokenizer.ggml.pre", "default");
    add_list(&m, "tokenizer.ggml.merges", SP_GGUF_STRING, 0);
    add_list(&m, "tokenizer.ggml.tokens", SP_GGUF_STRING, EOT + 1);
    size_t n = m.size;
    gguf_write(&m, "made.gguf", 0);
    size_t size = n + 8 * EOT + 8 + strlen(eot);
    uint8_t *bytes = keep(calloc(1, size + ALIGNMENT)); /* zeros are empty strings */
    assert_non_null(bytes);
    memcpy(bytes, m.bytes, n);
    sp_put64(bytes + size - strlen(eot) - 8, strlen(eot));
    memcpy(bytes + size - strlen(eot), eot, strlen(eot));
    assert_ok(sp_gguf_open(&file, scratch_write("made.gguf", bytes, size + ALIGNMENT), why));
    assert_ok(sp_gguf_tokenizer_text(&text, file, NULL, why));
    assert_non_null(strstr(text.at, "\\p{N}{1,3}"));
    assert_non_null(strstr(text.at, "\"ignore_merges\": true"));
    free(text.at);
    sp_gguf_close(file);
}

/* ollama's converter leaves out the scaling of Gemma 3's larger models, linear by 8 from a context
 * of 131072 on (handle_gemma3 of its llama/compat). A file of llama.cpp's converter has none. */
TEST(scaling_of_ollamas_gemma3)
{
    static const struct {
        uint32_t context;
        const char *mark; /* a key of ollama's */
        bool epsilon, scaled;
    } cases[] = {
        {131072, "tokenizer.ggml.add_padding_token", true, true},
        {131072, "gemma3.mm.tokens_per_image", true, true},
        {131072, NULL, false, true},
        {131072, NULL, true, false},
        {32768, "tokenizer.ggml.add_padding_token", true, false},
    };
    struct made_gguf m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *warnings = NULL;
        gguf_begin(&m);
        add_model_with(&m, "gemma3", cases[i].context, cases[i].epsilon);
        gguf_value_u32(&m, "gemma3.attention.key_length", 16);
        if (cases[i].mark) gguf_value_u32(&m, cases[i].mark, 1);
        assert_int_equal(strstr(config_of(&m, &warnings),
                                "{\"rope_type\": \"linear\", \"factor\": 8.0}") != NULL,
                         cases[i].scaled);
    }
}

/* The names of ollama's converter, by the same table. */
TEST(tensors_of_ollamas_converter)
{
    static const struct {
        const char *arch, *tensor, *published;
    } cases[] = {
        {"gptoss", "blk.0.attn_out.bias", "model.layers.0.self_attn.o_proj.bias"},
        {"gpt-oss", "blk.0.attn_out.bias", "model.layers.0.self_attn.o_proj.bias"},
        {"gptoss", "blk.0.attn_sinks", "model.layers.0.self_attn.sinks"},
        {"gptoss", "blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
        {"olmo3", "blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
        {"lfm2", "output_norm.weight", "model.embedding_norm.weight"},
        {"gemma4", "blk.0.ffn_gate_inp.per_expert_scale", "model.layers.0.router.per_expert_scale"},
        {"gemma3", "dense.0.weight", "dense.0.linear.weight"},
        {"gemma3", "dense.1.weight", "dense.1.linear.weight"},
    };
    struct made_gguf m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_begin(&m);
        add_model(&m, cases[i].arch);
        gguf_tensor(&m, cases[i].tensor, 32, 0, SP_GGML_F32, 0);
        gguf_tensor(&m, "model.vision_tower.x.weight", 32, 0, SP_GGML_F32, 128);
        const struct sp_gguf_model *model = open_model(&m, 256, NULL);
        if (sp_gguf_weight_find(model, cases[i].published) == NULL)
            fail_msg("%s: %s", cases[i].tensor, model->weights[0].name);
        assert_int_equal(model->n_skipped, 1);
        if (strcmp(cases[i].published, "dense.0.linear.weight") == 0)
            assert_true(model->arch->embeds);
    }
}

/* Values that the class of the architecture does not have. */
TEST(refused_values)
{
    static const struct {
        const char *arch, *key;
        uint32_t value;
        enum sp_status status;
        const char *message;
    } cases[] = {
        {"glm4moe", "glm4moe.expert_gating_func", 1, SP_E_UNSUPPORTED,
         "glm4moe.expert_gating_func is 1, expected 2 (sigmoid)"},
        {"glm4", "glm4.rope.dimension_count", 18, SP_E_INPUT,
         "glm4.rope.dimension_count is larger than a head"},
        {"deepseek2", "deepseek2.expert_gating_func", 2, SP_E_UNSUPPORTED,
         "deepseek2.expert_gating_func is 2, expected 1 (softmax, as nothing corrects its scores)"},
        {"deepseek2", "deepseek2.rope.dimension_count", 16, SP_E_INPUT,
         "deepseek2.rope.dimension_count is 16, but a head has 16 dims"},
        {"gemma4", "gemma4.rope.dimension_count_swa", 8, SP_E_UNSUPPORTED,
         "gemma4.rope.dimension_count_swa differs from the size of a head"},
    };
    struct made_gguf m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const struct size heads[] = {{"attention.key_length", 16},
                                            {"attention.value_length", 16}};
        gguf_begin(&m);
        add_model(&m, cases[i].arch);
        add_sizes(&m, cases[i].arch, heads, 2);
        if (strcmp(cases[i].key, "deepseek2.expert_gating_func") == 0) {
            gguf_value_u32(&m, "deepseek2.rope.dimension_count", 8);
            gguf_value_u32(&m, "deepseek2.expert_count", 2);
        }
        gguf_value_u32(&m, cases[i].key, cases[i].value);
        add_table(&m);
        refuse(&m, 4096, cases[i].status, cases[i].message);
    }
}

/* Apertus has the numbers of its activation in the metadata: one for all layers, or for each. */
TEST(values_of_layers)
{
    static const struct {
        uint64_t n; /* numbers of xielu.eps; 0: the key is missing */
        uint32_t type;
        const char *message;
    } cases[] = {
        {0, SP_GGUF_F32, "xielu.eps is missing"},
        {3, SP_GGUF_F32, "xielu.eps is not one number for each of 1 layers"},
        {1, SP_GGUF_STRING, "xielu.eps is not one number for each of 1 layers"},
        {1, SP_GGUF_F32, NULL},
    };
    static const char *const others[] = {"xielu.alpha_n", "xielu.alpha_p", "xielu.beta"};
    struct made_gguf m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float out = 0;
        gguf_begin(&m);
        add_model(&m, "apertus");
        for (size_t k = 0; k < 3; k++)
            gguf_value_float(&m, others[k], 0.5f);
        if (cases[i].n) add_list(&m, "xielu.eps", cases[i].type, cases[i].n);
        for (uint64_t k = 0; k < cases[i].n && cases[i].type == SP_GGUF_F32; k++)
            gguf_add_u32(&m, sp_bits_of_float(-0.25f));
        if (cases[i].type == SP_GGUF_STRING) gguf_add_string(&m, "a");
        add_table(&m);
        if (cases[i].message) {
            refuse(&m, 4096, SP_E_INPUT, cases[i].message);
            continue;
        }
        const struct sp_gguf_model *model = open_model(&m, 4096, NULL);
        assert_int_equal(model->n, 5);
        assert_ok(sp_gguf_weight_read(&out,
                                      sp_gguf_weight_find(model, "model.layers.0.mlp.act_fn.eps"),
                                      1, 0, 1, 1, NULL, 0, NULL));
        assert_true(out == -0.25f);
    }
    gguf_begin(&m);
    gguf_value_string(&m, "general.architecture", "apertus");
    gguf_value_u32(&m, "apertus.block_count", 90000);
    add_table(&m);
    refuse(&m, 4096, SP_E_INPUT, "apertus.block_count is 90000, but there are 1 tensors");
}

/* Sizes of the gated delta rule that contradict each other. */
TEST(refused_delta)
{
    static const struct {
        const char *tensor;
        uint32_t inner, cols, rows;
        const char *message;
    } cases[] = {
        {"blk.0.ssm_out.weight", 32, 16, 8,
         "tensor blk.0.ssm_out.weight: 16 columns, but 4 value heads need 32"},
        {"blk.0.attn_qkv.weight", 32, 8, 40,
         "tensor blk.0.attn_qkv.weight: 40 rows, but 4 value heads need 64"},
        {"blk.0.attn_gate.weight", 30, 8, 32,
         "qwen35.ssm.inner_size 30 is not divided into 4 value heads of 2 key heads"},
    };
    struct made_gguf m;
    uint8_t bytes[64];
    float out[4];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_begin(&m);
        add_model(&m, "qwen35");
        gguf_value_u32(&m, "qwen35.ssm.group_count", 2);
        gguf_value_u32(&m, "qwen35.ssm.time_step_rank", 4);
        gguf_value_u32(&m, "qwen35.ssm.state_size", 8);
        gguf_value_u32(&m, "qwen35.ssm.inner_size", cases[i].inner);
        gguf_tensor(&m, cases[i].tensor, cases[i].cols, cases[i].rows, SP_GGML_F32, 0);
        refuse(&m, 4096, SP_E_INPUT, cases[i].message);
    }
    gguf_begin(&m);
    add_model(&m, "qwen3next");
    gguf_tensor(&m, "blk.0.ssm_a", 4, 0, SP_GGML_F32, 0); /* zeros */
    const struct sp_gguf_model *model = open_model(&m, 64, NULL);
    const struct sp_gguf_weight *decay =
        sp_gguf_weight_find(model, "model.layers.0.linear_attn.A_log");
    assert_fails_as(sp_gguf_weight_read(out, decay, 4, 0, 1, 1, bytes, sizeof bytes, why),
                    SP_E_INPUT, "tensor blk.0.ssm_a: element 0 is not below 0");
}

/* Of a product in place of a tensor, the factor with its rows or columns has the value heads in the
 * stored order: heads 0, 2, 1, 3 of two key heads. */
TEST(adapter_of_delta)
{
#define ORDER 0, 1, 4, 5, 2, 3, 6, 7
    static const struct sp_config model_of = {
        .family = "qwen3_5_text",
        .delta = {.n_key_heads = 2, .n_value_heads = 4, .key_dim = 1, .value_dim = 2}};
    static const struct {
        const char *tensor, *name;
        uint64_t cols, rows;
        float want[8];
    } cases[] = {
        {"blk.0.ssm_alpha.weight.lora_b", "in_proj_a.weight.lora_b", 1, 4, {0, 2, 1, 3}},
        {"blk.0.ssm_beta.weight.lora_a", "in_proj_b.weight.lora_a", 1, 4, {0, 1, 2, 3}},
        {"blk.0.attn_gate.weight.lora_b", "in_proj_z.weight.lora_b", 1, 8, {ORDER}},
        {"blk.0.ssm_out.weight.lora_a", "out_proj.weight.lora_a", 8, 1, {ORDER}},
    };
#undef ORDER

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_gguf_model model;
        struct made_gguf m;
        uint8_t file[9000] = {0}, bytes[64];
        uint64_t n = cases[i].rows * cases[i].cols;
        float out[8];
        gguf_begin(&m);
        gguf_value_string(&m, "general.architecture", "qwen35");
        gguf_value_string(&m, "general.type", "adapter");
        gguf_value_string(&m, "adapter.type", "lora");
        gguf_tensor(&m, cases[i].tensor, cases[i].cols, cases[i].rows, SP_GGML_F32, 0);
        (void)gguf_write(&m, "made.gguf", 64);
        memcpy(file, m.bytes, m.size);
        for (size_t k = 0; k < n; k++)
            sp_put32(file + m.size + 4 * k, sp_bits_of_float((float)k));
        assert_ok(sp_gguf_model_open(&model, scratch_write("made.gguf", file, m.size + 64),
                                     &model_of, NULL, NULL));
        assert_non_null(sp_gguf_weight_find(
            &model, keep_format("model.layers.0.linear_attn.%s", cases[i].name)));
        assert_ok(sp_gguf_weight_read(out, model.weights, cases[i].cols, 0, 1, cases[i].rows, bytes,
                                      sizeof bytes, NULL));
        for (size_t k = 0; k < n; k++)
            assert_true(out[k] == cases[i].want[k]);
        sp_gguf_model_release(&model);
    }
}

/* X.scale multiplies X.weight, one number for each matrix; X.input_scale is of activations. */
TEST(scaled_tensors)
{
    static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8}, scales[] = {0.5f, -3};
    struct sp_gguf_model model;
    struct made_gguf m;
    uint8_t file[9000] = {0}, bytes[64];
    float out[8];

    gguf_begin(&m);
    add_model(&m, "qwen3moe");
    gguf_tensor(&m, "blk.0.ffn_up_exps.input_scale", 2, 0, SP_GGML_F32, 0);
    gguf_tensor(&m, "blk.0.ffn_up_exps.scale", 1, 0, SP_GGML_F32, 32);
    gguf_tensor(&m, "blk.0.ffn_up_exps.weight", 2, 4, SP_GGML_F32, 64);
    (void)gguf_write(&m, "made.gguf", 96);
    memcpy(file, m.bytes, m.size);
    for (size_t i = 0; i < 8; i++)
        sp_put32(file + m.size + 64 + 4 * i, sp_bits_of_float(numbers[i]));
    sp_put32(file + m.size + 32, sp_bits_of_float(scales[1]));
    assert_ok(
        sp_gguf_model_open(&model, scratch_write("made.gguf", file, m.size + 96), NULL, NULL, why));
    assert_int_equal(model.n, 1);
    const struct sp_gguf_weight *w = model.weights;
    assert_int_equal(sp_gguf_weight_float_type(w), SP_F32);
    assert_ok(sp_gguf_weight_read(out, w, 2, 0, 1, 4, bytes, sizeof bytes, why));
    for (size_t i = 0; i < 8; i++)
        assert_true(out[i] == numbers[i] * scales[1]);
    sp_gguf_model_release(&model);
    gguf_begin(&m);
    add_model(&m, "qwen3moe");
    gguf_tensor(&m, "blk.0.ffn_up_exps.scale", 3, 0, SP_GGML_F32, 0);
    gguf_tensor(&m, "blk.0.ffn_up_exps.weight", 2, 4, SP_GGML_F32, 32);
    refuse(&m, 96, SP_E_UNSUPPORTED,
           "tensor blk.0.ffn_up_exps.scale: not one f32 factor for each matrix of "
           "blk.0.ffn_up_exps.weight");
}

/* Gemma 4's converter states some control tokens as others, which end answers all the same. */
TEST(gemma4_tokens)
{
    static const char *const tokens[] = {"<eos>", "<turn|>", "<|tool_response>", "a", "<mine>"};
    static const uint32_t types[] = {3, 3, 4, 1, 4};
    struct made_gguf m;
    struct sp_text text;

    gguf_begin(&m);
    gguf_value_string(&m, "general.architecture", "gemma4");
    gguf_value_string(&m, "tokenizer.ggml.model", "gemma4");
    add_strings(&m, "tokenizer.ggml.tokens", tokens, 5);
    for (int list = 0; list < 2; list++) {
        add_list(&m, list ? "tokenizer.ggml.scores" : "tokenizer.ggml.token_type",
                 list ? SP_GGUF_F32 : SP_GGUF_I32, 5);
        for (size_t i = 0; i < 5; i++)
            gguf_add_u32(&m, list ? 0 : types[i]);
    }
    add_list(&m, "tokenizer.ggml.merges", SP_GGUF_STRING, 0);
    gguf_value_u32(&m, "tokenizer.ggml.eos_token_id", 0);
    const struct sp_gguf_model *model = open_model(&m, 0, NULL);
    assert_ok(sp_gguf_generation_text(&text, model, NULL));
    assert_non_null(strstr(keep(text.at), "\"eos_token_id\": [0, 1, 2]"));
    assert_ok(sp_gguf_tokenizer_text(&text, model->file, NULL, NULL));
    assert_non_null(strstr(keep(text.at),
                           "\"content\": \"<|tool_response>\", \"single_word\": false, "
                           "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                           "\"special\": true"));
    assert_non_null(strstr(text.at, "\"content\": \"<mine>\", \"single_word\": false, "
                                    "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                                    "\"special\": false"));
}

/* Ids without a token stand for none, types have any width, and of equal tokens the last one is
 * found, as in llama.cpp. */
TEST(loose_tokens)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "", "ab", ""};
    struct made_gguf m;
    struct sp_text text;
    char *warnings = NULL;

    gguf_begin(&m);
    add_llama(&m);
    gguf_value_string(&m, "tokenizer.ggml.model", "llama");
    add_strings(&m, "tokenizer.ggml.tokens", tokens, 9);
    add_list(&m, "tokenizer.ggml.token_type", SP_GGUF_I64, 9);
    for (size_t i = 0; i < 9; i++)
        gguf_add_u64(&m, i == 0 ? 2 : i < 3 ? 3 : 1);
    add_list(&m, "tokenizer.ggml.scores", SP_GGUF_F32, 9);
    for (size_t i = 0; i < 9; i++)
        gguf_add_u32(&m, 0);
    gguf_value_u32(&m, "tokenizer.ggml.bos_token_id", UINT32_MAX);
    gguf_value_u32(&m, "tokenizer.ggml.eos_token_id", 9);
    gguf_value_u32(&m, "tokenizer.ggml.padding_token_id", UINT32_MAX);
    gguf_value_u32(&m, "tokenizer.ggml.unknown_token_id", UINT32_MAX);
    gguf_tensor(&m, "token_embd.weight", 32, 32, SP_GGML_Q8_0, 0);
    const struct sp_gguf_model *model = open_model(&m, 1088, NULL);
    assert_ok(sp_gguf_config_text(&text, model, &warnings, NULL));
    assert_non_null(strstr(keep(text.at), "\"bos_token_id\": 1,\n  \"eos_token_id\": 2\n"));
    assert_non_null(strstr(keep(warnings),
                           "tokenizer.ggml.padding_token_id is 4294967295, but there are "
                           "9 tokens: it is ignored"));
    assert_ok(sp_gguf_tokenizer_text(&text, model->file, NULL, NULL));
    assert_non_null(strstr(keep(text.at), "\"merges\": [[\"a\",\"b\"]]"));
    assert_non_null(strstr(text.at, "\"<s>\": {\"id\": \"<s>\", \"ids\": [1]"));
}

/* What each key does that no reader takes: a key of the model or of its tokenizer may change the
 * result and is named, one that only describes the file is not. */
TEST(unread_keys)
{
    static const struct {
        const char *key;
        bool named;
    } cases[] = {
        {"llama.rope.scaling.odd", true},
        {"llama.attention.clamp_kqv", true},
        {"llama.use_parallel_residual", true},
        {"tokenizer.ggml.suppress_tokens", true},
        {"tokenizer.ggml.treat_whitespace_as_suffix", true},
        {"tokenizer.ggml.escape_whitespaces", true},
        {"tokenizer.ggml.add_sep_token", false},
        {"tokenizer.ggml.token_type_count", false},
        {"llama.vocab_size", false},
        {"general.name", false},
        {"general.quantization_version", false},
        {"quantize.imatrix.file", false},
        {"split.count", false},
    };
    struct made_gguf m;

    gguf_begin(&m);
    add_llama(&m);
    gguf_value_u32(&m, "llama.attention.clamp_kqv", 8);
    add_table(&m);
    refuse(&m, 4096, SP_E_UNSUPPORTED, "llama.attention.clamp_kqv 8 is not supported");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *warnings = NULL;
        gguf_begin(&m);
        add_llama(&m);
        gguf_value_u32(&m, cases[i].key, 0);
        config_of(&m, &warnings);
        if ((warnings && strstr(warnings, cases[i].key)) != cases[i].named)
            fail_msg("%s: \"%s\"", cases[i].key, warnings ? warnings : "");
    }
}

/* The layer of a prediction head that no reader of the family knows is left out with a note. */
TEST(unread_head)
{
    struct made_gguf m;
    char *warnings = NULL;

    gguf_begin(&m);
    add_llama(&m);
    gguf_value_u32(&m, "llama.nextn_predict_layers", 1);
    gguf_tensor(&m, "blk.0.attn_norm.weight", 8, 0, SP_GGML_F32, 0);
    assert_int_equal(open_model(&m, 64, NULL)->n, 1); /* one layer cannot be a head */
    gguf_begin(&m);
    gguf_value_string(&m, "general.architecture", "llama");
    gguf_value_u32(&m, "llama.block_count", 2);
    gguf_value_u32(&m, "llama.nextn_predict_layers", 1);
    gguf_tensor(&m, "blk.1.attn_norm.weight", 8, 0, SP_GGML_F32, 0);
    gguf_tensor(&m, "blk.1.nextn.wrong.weight", 8, 0, SP_GGML_F32, 32);
    assert_int_equal(open_model(&m, 64, &warnings)->n, 0);
    assert_non_null(strstr(warnings, "the prediction head, 2 tensors, is not supported for llama "
                                     "and is left out"));
}

/* Layers whose kind nothing states, and a window that LFM2 does not have. */
TEST(refused_hybrids)
{
    static const struct {
        const char *arch, *key;
        enum sp_status status;
        const char *message;
    } cases[] = {
        {"nemotron_h", "general.nothing", SP_E_INPUT,
         "layer 0 has neither ssm_in nor attn_q, ffn_gate_inp or ffn_up"},
        {"lfm2", "lfm2.attention.sliding_window", SP_E_UNSUPPORTED,
         "lfm2.attention.sliding_window is not supported"},
        {"mamba2", "general.nothing", SP_E_UNSUPPORTED,
         "mamba2.ssm.inner_size 40 does not fit 5 heads and an embedding_length of 32"},
    };
    struct made_gguf m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const struct size sizes[] = {{"ssm.inner_size", 40},
                                            {"ssm.time_step_rank", 5},
                                            {"ssm.group_count", 1},
                                            {"ssm.state_size", 8},
                                            {"ssm.conv_kernel", 4}};
        gguf_begin(&m);
        add_model(&m, cases[i].arch);
        add_sizes(&m, cases[i].arch, sizes, sizeof sizes / sizeof *sizes);
        gguf_value_u32(&m, cases[i].key, 16);
        add_table(&m);
        refuse(&m, 4096, cases[i].status, cases[i].message);
    }
}

TEST(unknown_pooling)
{
    struct made_gguf m;

    gguf_begin(&m);
    add_llama(&m);
    gguf_value_u32(&m, "llama.pooling_type", 4);
    add_llama_tensors(&m);
    refuse(&m, LLAMA_DATA, SP_E_UNSUPPORTED,
           "llama.pooling_type is 4, expected 0 (none), 1 (mean), 2 (cls) or 3 (last)");
}

/* Writes a copy of a file of testdata/gguf in which the bytes `from` are `to`. */
static const char *edit_gguf(const char *name, const char *from, const char *to, size_t n)
{
    size_t size, at = 0;
    const char *edited;

    char *bytes = scratch_read(keep_format(TESTDATA "/gguf/%s.gguf", name), &size);
    while (at + n <= size && memcmp(bytes + at, from, n) != 0)
        at++;
    assert_true(at + n <= size);
    memcpy(bytes + at, to, n);
    edited = scratch_write("edited.gguf", bytes, size);
    return edited;
}

/* A reranker's head that is not whole, or contradicts the pooling, is refused. */
TEST(classification_heads)
{
    assert_refused(TESTDATA "/gguf/bert_reranker.gguf", SP_E_UNSUPPORTED,
                   "tensor cls.weight is missing: a reranker's head has two layers");
    assert_refused(edit_gguf("xlm_roberta_reranker", "cls.output.weight", "cls.outpux.weight", 17),
                   SP_E_UNSUPPORTED, "tensor cls.outpux.weight is not a tensor of bert models");
    assert_refused(edit_gguf("xlm_roberta_reranker", "cls.output.bias", "cls.outpux.bias", 15),
                   SP_E_UNSUPPORTED, "tensor cls.outpux.bias is not a tensor of bert models");
    assert_refused(edit_gguf("xlm_roberta_reranker", "general.file_type", "bert.pooling_type", 17),
                   SP_E_UNSUPPORTED,
                   "bert.pooling_type is 32, but the file has a classification head, cls.output: "
                   "expected 4 (rank) or 2 (cls)");
    assert_refused(edit_gguf("modernbert_reranker", "cls.output.weight", "cls.outpux.weight", 17),
                   SP_E_UNSUPPORTED, "tensor cls.outpux.weight is not a tensor of modern-bert");
}

/* A tensor with another shape than its model needs is named once, with both shapes. */
TEST(wrong_shapes)
{
    static const struct {
        const char *file, *tensor;
        uint8_t cols, rows, made_cols, made_rows; /* rows 0: a vector */
        enum sp_status status;
        const char *message;
    } rows[] = {
        {"bert_fused", "blk.0.attn_qkv.weight", 32, 96, 96, 32, SP_E_INPUT,
         "self.qkv.weight\" has shape [32, 96], expected [96, 32]"},
        {"bert_fused", "blk.1.attn_qkv.bias", 96, 0, 95, 0, SP_E_INPUT,
         "self.qkv.bias\" has shape [95], expected [96]"},
        {"deepseek_v2_joined", "blk.0.attn_kv_b.weight", 24, 96, 96, 24, SP_E_INPUT,
         "kv_b_proj.weight\" has shape [24, 96], expected [96, 24]"},
        {"xlm_roberta_reranker", "cls.weight", 32, 32, 16, 64, SP_E_INPUT,
         "classifier.dense.weight\" has shape [64, 16], expected [32, 32]"},
        {"xlm_roberta_reranker", "cls.output.bias", 1, 0, 2, 0, SP_E_INPUT,
         "classifier.out_proj.bias\" has shape [2], expected [1]"},
        {"xlm_roberta_reranker", "cls.output.weight", 32, 1, 16, 2, SP_E_UNSUPPORTED,
         "has 2 labels"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].tensor), rank = 1u + (rows[i].rows > 0);
        char from[64] = "", to[64];
        struct sp_source source;
        struct sp_err err = {0};
        memcpy(from, rows[i].tensor, n);
        from[n] = (char)rank;
        memcpy(to, from, sizeof to);
        from[n + 4] = (char)rows[i].cols;
        to[n + 4] = (char)rows[i].made_cols;
        if (rank == 2) from[n + 12] = (char)rows[i].rows;
        if (rank == 2) to[n + 12] = (char)rows[i].made_rows;
        assert_int_equal(sp_source_open(&source,
                                        edit_gguf(rows[i].file, from, to, n + 4 + 8 * rank),
                                        SP_PART_TARGET, NULL, &err),
                         rows[i].status);
        if (strstr(err.text, rows[i].message) == NULL || strstr(err.text, "; "))
            fail_msg("\"%s\", expected \"%s\"", err.text, rows[i].message);
    }
}

/* Cut off anywhere, a file is refused and nothing is read behind its end. */
TEST(every_length)
{
    struct made_gguf m;

    gguf_begin(&m);
    add_llama(&m);
    add_llama_tensors(&m);
    (void)gguf_write(&m, "made.gguf", LLAMA_DATA);
    size_t size = m.size + LLAMA_DATA;
    for (size_t n = 4; n < size; n += n < m.size ? 1 : 101) {
        struct sp_source source;
        assert_fails(sp_source_open(&source, scratch_write("short.gguf", m.bytes, n),
                                    SP_PART_TARGET, NULL, why),
                     SP_E_INPUT, "");
    }
}

TEST(refused_parts)
{
    struct made_gguf m;

    gguf_begin(&m);
    gguf_value_u32(&m, "split.no", 1);
    gguf_value_u32(&m, "split.count", 3);
    refuse(&m, 0, SP_E_INPUT, "is part 2 of 3 of a split file");
    gguf_begin(&m);
    gguf_value_u32(&m, "split.no", 0);
    gguf_value_u32(&m, "split.count", 3);
    refuse(&m, 0, SP_E_INPUT, "should end with -00001-of-00003.gguf");
    gguf_begin(&m);
    gguf_value_u32(&m, "split.count", 65535);
    refuse(&m, 0, SP_E_UNSUPPORTED, "65535 parts, at most 4096 are supported");
}

#ifndef SP_SANITIZED /* whose memory counts as address space */
/* The metadata of the further parts is dropped when they are checked: 8 parts with 32 MiB each (a
 * hole of the file) are opened in 256 MiB. */
TEST(parts_keep_no_metadata)
{
    enum { N_PARTS = 8, HOLE = 32 << 20 };
    struct sp_gguf *gguf = NULL;
    struct rlimit limit, small;
    struct sp_err err = {0};
    char first[512];
    long pages = 0;
    FILE *statm;

    for (unsigned i = 0; i < N_PARTS; i++) {
        struct made_gguf m;
        gguf_begin(&m);
        gguf_value_u32(&m, "split.no", i);
        gguf_value_u32(&m, "split.count", N_PARTS);
        add_list(&m, "hole", SP_GGUF_U8, HOLE);
        snprintf(first, sizeof first, "%s",
                 gguf_write(&m, keep_format("hole-%05u-of-%05u.gguf", i + 1, N_PARTS), 0));
        assert_int_equal(truncate(first, (off_t)m.size + HOLE), 0);
    }
    snprintf(first, sizeof first, "%s", scratch_path("hole-00001-of-00008.gguf"));
    assert_non_null(statm = fopen("/proc/self/statm", "r"));
    assert_int_equal(fscanf(statm, "%ld", &pages), 1);
    fclose(statm);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    small = limit;
    small.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (256 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    enum sp_status st = sp_gguf_open(&gguf, first, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    if (st) fail_msg("%s", err.text);
    sp_gguf_close(gguf);
}
#endif

GROUP_FIXTURE(NULL, scratch_teardown);
