/* Lossless drafting on every family: each golden checkpoint drafts for itself, in another type,
 * over contexts that wrap its windows many times; plain and drafted runs give the same bits. */
#include "tests/golden.h"
#include "tests/packed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOKENS = 72, PLAIN = -2 };

static struct sp_result generate(const char *path, const char *kernels, unsigned n_threads,
                                 enum sp_cache_type cache, size_t rows_per_pass, int depth)
{
    uint32_t prompt[24];
    struct sp_package *package = NULL;
    struct sp_session *session = NULL;
    struct sp_package_options options = {.kernels = kernels, .n_threads = n_threads};
    struct sp_session_options session_options = {.cache = cache, .rows_per_pass = rows_per_pass};
    struct sp_request request = {
        .prompt = prompt,
        .n_prompt = 24,
        .max_tokens = N_TOKENS,
        .ignore_eos = true,
        .plain = depth == PLAIN,
        .depth = depth,
        .digest = true,
    };
    struct sp_result result = {0};
    struct sp_err err = {0};

    for (uint32_t i = 0; i < 24; i++)
        prompt[i] = 5 + i * 7 % 60;
    if (sp_package_open(&package, path, &options, &err) ||
        sp_session_open(&session, package, &session_options, &err) ||
        sp_session_generate(session, &request, &result, &err)) {
        fail_msg("%s: %s", path, err.text);
    }
    sp_session_close(session);
    sp_package_close(package);
    return result;
}

static void assert_same(struct sp_result a, const struct sp_result *b)
{
    assert_int_equal(a.n_ids, b->n_ids);
    assert_memory_equal(a.ids, b->ids, a.n_ids * sizeof *a.ids);
    assert_int_equal(a.logits_digest, b->logits_digest);
    sp_result_release(&a);
}

/* Draft on and off, depths, threads, kernels, chunks of the prompt. */
static void check_pair(const char *path, enum sp_cache_type cache)
{
    struct sp_result plain = generate(path, NULL, 1, cache, 0, PLAIN);
    static const int depths[] = {1, 2, 5, 9, SP_DEPTH_AUTO};

    assert_int_equal(plain.n_ids, N_TOKENS);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        assert_same(generate(path, NULL, 1 + i % 2, cache, 1 + 5 * i, depths[i]), &plain);
    }
    assert_same(generate(path, "scalar", 1, cache, 7, 3), &plain);
    sp_result_release(&plain);
}

static void self_drafted(void **state)
{
    char folder[400];

    snprintf(folder, sizeof folder, SHARED "/oracle/targets/%s", (const char *)*state);
    if (!golden_exists(folder)) skip();
    check_pair(packed_file(packed_modelfile(folder, folder), SP_DTYPE_NONE, SP_Q8), SP_CACHE_F16);
    check_pair(packed_file(packed_modelfile(folder, folder), SP_Q8, SP_Q4), SP_CACHE_F32);
}

/* A draft made for its target, with random weights: it is almost never right. */
static void random_draft(void **state)
{
    char modelfile[400];

    snprintf(modelfile, sizeof modelfile, SHARED "/oracle/drafts/%s/Modelfile",
             (const char *)*state);
    if (!golden_exists(modelfile)) skip();
    check_pair(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE), SP_CACHE_F16);
}

static int begin(void **state)
{
    (void)state;
    packed_begin();
    return 0;
}

static int finish(void **state)
{
    (void)state;
    packed_end();
    return 0;
}

#define CASE(fn, folder)                                                                           \
    {                                                                                              \
#fn " " folder, fn, NULL, NULL, (void *)(uintptr_t)(folder)                                \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(self_drafted, "gemma2"),
        CASE(self_drafted, "gemma3"),
        CASE(self_drafted, "gemma4_31b"),
        CASE(self_drafted, "gemma4_e2b"),
        CASE(self_drafted, "gemma4_moe"),
        CASE(self_drafted, "gpt_oss"),
        CASE(self_drafted, "llama_gqa_tied"),
        CASE(self_drafted, "llama_mha_bias"),
        CASE(self_drafted, "ministral3"),
        CASE(self_drafted, "mistral_window"),
        CASE(self_drafted, "phi3"),
        CASE(self_drafted, "phi3_partial"),
        CASE(self_drafted, "qwen2_window"),
        CASE(self_drafted, "qwen3"),
        CASE(self_drafted, "qwen3_5"),
        CASE(self_drafted, "qwen3_5_moe"),
        CASE(self_drafted, "qwen3_5_tied"),
        CASE(self_drafted, "qwen3_moe_sparse"),
        CASE(self_drafted, "smollm3"),
        CASE(random_draft, "dflash_qwen3"),
        CASE(random_draft, "dflash_sliding"),
        CASE(random_draft, "dflash_sliding_bidirectional"),
        CASE(random_draft, "dflash_gpt_oss"),
        CASE(random_draft, "dflash_llama_bias"),
        CASE(random_draft, "dflash_gemma4"),
        CASE(random_draft, "dflash_qwen3_5"),
        CASE(random_draft, "dflash2_qwen3"),
        CASE(random_draft, "dflash2_scaled"),
        CASE(random_draft, "assistant_centroids"),
        CASE(random_draft, "assistant_dense"),
        CASE(random_draft, "assistant_shared"),
    };

    return cmocka_run_group_tests(tests, begin, finish);
}
