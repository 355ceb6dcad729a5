/* Tests lossless drafting on every family. Each golden checkpoint drafts for itself in another
 * type, over contexts that wrap its windows many times. Plain and drafted responses have the same
 * bits. */
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"

enum { N_TOKENS = 72, MOST_GIVEN = 300 };

static struct sp_result answer(const char *path, const char *kernels, unsigned n_threads,
                               const struct sp_session_options *options, size_t n_prompt,
                               size_t n_tokens, int draft_len)
{
    uint32_t prompt[MOST_GIVEN];
    struct generate_fixture g = generate_open(path, kernels, n_threads, options);

    for (uint32_t i = 0; i < n_prompt; i++)
        prompt[i] = 5 + i * 7 % 60;
    return generate_run(g.session, prompt, n_prompt, n_tokens, draft_len, true);
}

static struct sp_result generate(const char *path, const char *kernels, unsigned n_threads,
                                 enum sp_cache_type cache, size_t rows_per_pass, int draft_len)
{
    struct sp_session_options options = {
        .size = sizeof options, .cache = cache, .rows_per_pass = rows_per_pass};

    return answer(path, kernels, n_threads, &options, 24, N_TOKENS, draft_len);
}

static void assert_same_response(struct sp_result r, const struct sp_result *plain)
{
    generate_assert_same(&r, plain);
}

/* Runs with and without the draft, with several draft lengths, numbers of threads and prompt chunk
 * sizes. Returns the response without. */
static struct sp_result check_pair(const char *path, enum sp_cache_type cache)
{
    struct sp_result plain = generate(path, NULL, 1, cache, 0, PLAIN);
    static const int depths[] = {5, SP_DRAFT_LENGTH_AUTO, 1, 2, 9};
    const size_t n = FEW_LENGTHS ? 2 : sizeof depths / sizeof *depths;

    assert_int_equal(plain.n_ids, N_TOKENS);
    for (size_t i = 0; i < n; i++)
        assert_same_response(generate(path, NULL, 1 + i % 2, cache, 1 + 5 * i, depths[i]), &plain);
    return plain;
}

/* Adds scalar kernels, which are slow. One file per family suffices, since test_kernels and
 * test_attention compare every type of weights and caches with them; with sanitizers none. */
static void check_with_scalar(const char *path, enum sp_cache_type cache)
{
    struct sp_result plain = check_pair(path, cache);

    if (!IS_SANITIZED) assert_same_response(generate(path, "scalar", 1, cache, 7, 3), &plain);
}

static void self_drafted(void **state)
{
    const char *folder = keep_format(SHARED "/oracle/targets/%s", (const char *)*state);

    if (!golden_exists(folder)) skip();
    check_pair(packed_file(packed_modelfile(folder, folder), SP_DTYPE_NONE, SP_Q8), SP_CACHE_F16);
    check_with_scalar(packed_file(packed_modelfile(folder, folder), SP_Q8, SP_Q4), SP_CACHE_F32);
}

/* Drafts of testdata/families: a block draft of LFM2, and the built-in head of Qwen3-Next. */
static void family_draft(void **state)
{
    const char *modelfile = keep_format(TESTDATA "/families/%s/Modelfile", (const char *)*state);

    check_pair(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE), SP_CACHE_F16);
    check_with_scalar(packed_file(modelfile, SP_Q4, SP_Q8), SP_CACHE_F32);
}

/* The length of a long prompt that leaves room for an answer of 8 tokens. */
static size_t longest_prompt(const char *path)
{
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;

    sp_package_describe(keep_package(path, NULL), &info);
    return info.max_positions < 158 ? info.max_positions - 8 : 150;
}

/* A folder as draft of itself, with prompt passes of several lengths. */
static void check_family(const char *folder)
{
    struct sp_session_options options = {.size = sizeof options, .rows_per_pass = 1};

    print_message("%s\n", folder);
    check_pair(packed_file(packed_modelfile(folder, folder), SP_Q8, SP_Q4), SP_CACHE_F32);
    const char *path = packed_file(packed_modelfile(folder, folder), SP_Q4, SP_Q8);
    check_with_scalar(path, SP_CACHE_F16);
    size_t n = longest_prompt(path);
    struct sp_result single = answer(path, NULL, 1, &options, n, 8, PLAIN);
    for (options.rows_per_pass = 2; options.rows_per_pass < n; options.rows_per_pass *= 8)
        assert_same_response(answer(path, NULL, 1, &options, n, 8, PLAIN), &single);
}

TEST(families)
{
    for (const char *const *name = golden_families(); *name; name++) {
        size_t n_kept = kept_count();
        check_family(keep_format(TESTDATA "/families/%s", *name));
        kept_release(n_kept);
    }
}

TEST(newer_families)
{
    for (const char *const *name = golden_newer(); *name; name++) {
        const char *folder = keep_format(SHARED "/oracle/newer/%s", *name);
        if (golden_exists(keep_format("%s/golden.json", folder)) && packed_is_supported(folder))
            check_family(folder);
    }
}

/* A prompt with more rows than one expert batch, and single rows, which are processed by separate
 * code. */
static void long_prompt(void **state)
{
    static const size_t rows_per_pass[] = {0, 3, 40, 200, 300};
    struct sp_session_options options = {.size = sizeof options, .rows_per_pass = 1};
    const char *folder = keep_format(SHARED "/oracle/targets/%s", (const char *)*state);

    if (!golden_exists(folder)) skip();
    const char *path = packed_alone(folder, SP_Q4);
    struct sp_result single = answer(path, NULL, 1, &options, MOST_GIVEN, 8, PLAIN);
    assert_int_equal(single.n_ids, 8);
    for (size_t i = 0; i < sizeof rows_per_pass / sizeof *rows_per_pass; i++) {
        options.rows_per_pass = rows_per_pass[i];
        assert_same_response(answer(path, NULL, 1 + i % 2, &options, MOST_GIVEN, 8, PLAIN),
                             &single);
    }
}

/* A draft with random weights made for its target, so that it is hardly ever accepted. */
static void random_draft(void **state)
{
    const char *modelfile = keep_format(SHARED "/oracle/drafts/%s/Modelfile", (const char *)*state);

    if (!golden_exists(modelfile)) skip();
    check_with_scalar(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE), SP_CACHE_F16);
}

CASES(family_draft, "glm4_moe", "glm4_moe_lite", "deepseek_v3", "deepseek_v32_head", "hy_v3",
      "exaone_moe_head", "mellum_head", "mimo_head", "ernie_head", "bailing_head", "glm5_head",
      "hy_v4_head", "minimax_m3_head", "nemotron_h_head", "qwen3_moe_head", "laguna/dflash",
      "lfm2/dspark", "muse_glimmer/assistant", "qwen3_next");
CASES(self_drafted, "gemma2", "gemma3", "gemma4_31b", "gemma4_e2b", "gemma4_moe", "gpt_oss",
      "llama_gqa_tied", "llama_mha_bias", "ministral3", "mistral_window", "phi3", "phi3_partial",
      "qwen2_window", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_5_tied", "qwen3_moe_sparse",
      "smollm3");
CASES(random_draft, "dflash_qwen3", "dflash_sliding", "dflash_sliding_bidirectional",
      "dflash_gpt_oss", "dflash_llama_bias", "dflash_gemma4", "dflash_qwen3_5", "dflash2_qwen3",
      "dflash2_scaled", "assistant_centroids", "assistant_dense", "assistant_shared");
CASES(long_prompt, "gemma4_moe", "gpt_oss", "qwen3_5_moe", "qwen3_moe_sparse");
GROUP_FIXTURE(packed_setup, packed_teardown);
