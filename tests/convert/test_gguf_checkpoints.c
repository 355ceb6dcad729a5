/* GGUF files that llama.cpp's converter made, as sources: the tensors are those of the checkpoint
 * that was converted, bit for bit. The logits of such files are in test_logits.c. */
#include "convert/source/source.h"
#include "format/base/bytes.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/stored_tensor.h"
#include "tests/support/unit_test.h"

static void assert_same_tensors(const struct sp_source *a, const struct sp_source *b)
{
    assert_int_equal(a->specs.n_specs, b->specs.n_specs);
    for (size_t i = 0; i < a->specs.n_specs; i++) {
        const struct sp_tensor_spec *s = &a->specs.specs[i], *t = &b->specs.specs[i];
        enum sp_dtype type;
        assert_string_equal(s->name, t->name);
        assert_true(sp_spec_elements(s) >= sp_spec_elements(t));
        float *x = stored_tensor_floats(a, s, &type);
        float *y = stored_tensor_floats(b, t, &type);
        for (size_t k = 0; k < sp_spec_elements(s); k++) {
            bool padded = k >= sp_spec_elements(t); /* the per-layer table of Gemma 3n, by zeros */
            if (padded) assert_int_equal(sp_bits_of_float(x[k]), 0);
            if (padded || sp_bits_of_float(x[k]) == sp_bits_of_float(y[k])) continue;
            fail_msg("%s: element %zu is %.9g, expected %.9g", s->name, k, (double)x[k],
                     (double)y[k]);
        }
    }
}

/* The prediction heads of two checkpoints. */
static void assert_same_heads(const struct sp_source *a, const struct sp_source *b)
{
    struct sp_source x, y;

    assert_ok(sp_source_open_mtp(&x, a, why));
    assert_ok(sp_source_open_mtp(&y, b, why));
    assert_same_tensors(&x, &y);
    sp_source_release(&x);
    sp_source_release(&y);
}

/* What llama.cpp's converter made of a checkpoint reads as that checkpoint. */
static void same_as_checkpoint(const char *name, const char *folder)
{
    struct sp_source *a = keep_source(keep_format(TESTDATA "/gguf/%s.gguf", name));
    struct sp_source *b = keep_source(folder);
    assert_string_equal(a->config.architecture, b->config.architecture);
    assert_int_equal(a->config.n_layers, b->config.n_layers);
    assert_int_equal(a->config.tied, b->config.tied);
    assert_same_tensors(a, b);
    /* The converter leaves this head out. */
    assert_int_equal(a->has_mtp, b->has_mtp && strcmp(name, "deepseek_v3") != 0);
    if (a->has_mtp) assert_same_heads(a, b);
}

static void family(void **state)
{
    same_as_checkpoint(*state, keep_format(TESTDATA "/families/%s", (const char *)*state));
}

/* Files of converters that did not split attn_kv_b, one half of which is read transposed. */
TEST(joined_latent)
{
    same_as_checkpoint("deepseek_v2_joined", TESTDATA "/families/deepseek_v2");
    same_as_checkpoint("deepseek_v2_lite_joined", TESTDATA "/families/deepseek_v2_lite");
}

/* cohere2moe's weights of the chosen experts are normalized only if the file says so, as in
 * llama.cpp. */
TEST(absent_norm)
{
    static const char path[] = TESTDATA "/gguf/cohere2_moe.gguf",
                      key[] = "cohere2moe.expert_weights_norm",
                      other[sizeof key] = "general.a_value_without_effect";
    size_t size, at = 0;
    char *bytes = scratch_read(path, &size);
    struct sp_source *source = keep_source(path);

    assert_true(source->config.routing.norm);
    while (at + sizeof key < size && memcmp(bytes + at, key, sizeof key - 1) != 0)
        at++;
    memcpy(bytes + at, other, sizeof key - 1);
    source = keep_source(scratch_write("made.gguf", bytes, size));
    assert_false(source->config.routing.norm);
}

static void oracle_target(void **state)
{
    const char *folder = keep_format(SHARED "/oracle/targets/%s", (const char *)*state);
    if (!golden_exists(folder))
        folder = keep_format(SHARED "/oracle/newer/%s", (const char *)*state);
    if (!golden_exists(folder)) skip();
    same_as_checkpoint(*state, folder);
}

/* A file of an embedding model has the pooling that sentence-transformers' files state. */
TEST(pooling)
{
    struct sp_source *a = keep_source(TESTDATA "/gguf/qwen3.gguf");
    struct sp_source *b = keep_source(TESTDATA "/embeddings/qwen3");

    assert_int_equal(a->config.pooling.mode, SP_POOL_LAST);
    assert_int_equal(a->config.pooling.mode, b->config.pooling.mode);
    assert_int_equal(a->config.pooling.normalize, b->config.pooling.normalize);
    assert_non_null(a->texts[SP_SECTION_POOLING].at);
    assert_same_tensors(a, b);
}

/* The head of ModernBERT: a layer with a norm, and the output. */
TEST(modernbert_head)
{
    struct sp_source *a = keep_source(TESTDATA "/gguf/modernbert_reranker.gguf");
    struct sp_source *b = keep_source(TESTDATA "/classifiers/modernbert");

    assert_string_equal(a->config.architecture, b->config.architecture);
    assert_non_null(sp_specs_find(&a->specs, "dense.0.norm.weight"));
    assert_same_tensors(a, b);
    assert_true(a->config.pooling.classifies && a->config.pooling.mode == b->config.pooling.mode);
    for (unsigned i = 0; i < 2; i++) {
        assert_memory_equal(&a->config.pooling.dense[i], &b->config.pooling.dense[i],
                            sizeof a->config.pooling.dense[i]);
    }
}

/* BERT with queries, keys and values in one matrix. */
TEST(fused_attention)
{
    struct sp_source *a = keep_source(TESTDATA "/gguf/bert_fused.gguf");
    struct sp_source *b = keep_source(TESTDATA "/embeddings/bert");

    assert_same_tensors(a, b);
}

CASES(family, "mixtral", "olmo2", "granite", "gemma", "olmoe", "ernie4_5", "exaone4",
      "exaone4_full", "arcee", "glm4", "seed_oss", "granitemoe", "glm4_moe", "olmo3", "qwen3_next",
      "qwen3_5_bias", "qwen3_5_experts", "gemma4_shared", "deepseek_v2", "deepseek_v2_lite",
      "deepseek_v3", "youtu", "lfm2", "lfm2_moe_plain", "mamba2", "granitemoeshared", "granite4_h",
      "granite4_h_moe", "nemotron_h_even", "ministral3_small", "hunyuan_unscaled", "cohere2",
      "cohere2_moe", "cohere_qk_norm", "ernie4_5_moe", "exaone_moe", "dots1", "afmoe_plain",
      "apertus", "jais2", "nemotron_bias", "olmo", "olmo_unclipped", "stablelm",
      "stablelm_parallel", "starcoder2", "hunyuan_moe_unscaled", "mellum_sparse",
      "granite_swa_nope", "granitemoe_swa", "gemma3n", "llama4", "gpt_neox", "jamba");
CASES(oracle_target, "gpt2", "gemma2", "gpt_oss", "phi3_partial", "smollm3");
GROUP_FIXTURE(NULL, scratch_teardown);
