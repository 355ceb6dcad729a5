/* Tests the forward pass against independent implementations: logits and greedy continuations of
 * transformers, and block rows of z-lab's DFlash code, with float weights and an f32 cache. */
#include "quantize/kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

#include <math.h>

/* max |a - b| / max |b| */
static const double tolerance = 1e-4, close_tolerance = 1e-5;

static double relative_error(const float *a, const float *b, size_t n)
{
    double worst = 0, largest = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]), m = fabs((double)b[i]);
        if (!(d <= worst)) worst = d;
        if (m > largest) largest = m;
    }
    return worst / largest;
}

static void check_rows(const struct logit_rows *rows, const char *npy, double most)
{
    size_t n, width;
    float *golden = golden_npy(npy, &n, &width);
    double e;

    assert_int_equal(rows->n, n);
    assert_int_equal(rows->width, width);
    e = relative_error(rows->values, golden, n * width);
    if (!(e < most)) fail_msg("%s: relative error %g", npy, e);
}

/* The context is short, so that longrope uses its short factors, as transformers does there. */
static struct sp_session *open_file(const char *path)
{
    struct sp_session_options options = {
        .size = sizeof options, .cache = SP_CACHE_F32, .n_context = 256};
    struct sp_package *package = keep_package(path, NULL);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;

    sp_package_describe(package, &info);
    if (options.n_context > info.max_positions) options.n_context = info.max_positions;
    return keep_session(package, &options);
}

/* If the two best logits nearly tie, another implementation may choose either. */
static bool near_tie(struct sp_session *session, const uint32_t *ids, size_t n)
{
    struct logit_rows rows = keep_logits(session, ids, n);
    float best = -INFINITY, second = -INFINITY, largest = 0;
    const float *row = rows.values + (n - 1) * rows.width;

    for (size_t i = 0; i < rows.width; i++) {
        if (fabsf(row[i]) > largest) largest = fabsf(row[i]);
        if (row[i] > best) {
            second = best;
            best = row[i];
        } else if (row[i] > second) {
            second = row[i];
        }
    }
    return best - second < 2e-4f * largest;
}

static void check_greedy(struct sp_session *session, const uint32_t *prompt, size_t n,
                         const struct sp_json *golden)
{
    size_t n_want;
    uint32_t *want = golden_ids(golden, &n_want), *all = keep(calloc(n + n_want, sizeof *all));
    struct sp_request request = {ANSWER_TO(prompt, n, n_want), .ignore_eos = true,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO};
    struct sp_result result = keep_answer(session, &request);

    memcpy(all, prompt, n * sizeof *all);
    memcpy(all + n, want, n_want * sizeof *all);
    for (size_t i = 0; i < n_want; i++) {
        if (i < result.n_ids && result.ids[i] == want[i]) continue;
        if (i < result.n_ids && near_tie(session, all, n + i)) break;
        fail_msg("greedy id %zu is not the golden one", i);
    }
}

static void check_prompts(const char *checkpoint, const char *golden, const char *npy_prefix,
                          enum sp_dtype type)
{
    struct sp_session *session = open_file(packed_alone(checkpoint, type));
    struct sp_json *root = golden_json(golden);
    const struct sp_json *prompts = sp_json_get(root, "prompts");
    const struct sp_json *greedy = sp_json_get(root, "greedy");

    assert_true(sp_json_len(prompts) > 0);
    for (size_t i = 0; i < sp_json_len(prompts); i++) {
        size_t n;
        uint32_t *ids = golden_ids(sp_json_at(prompts, i), &n);
        struct logit_rows rows = keep_logits(session, ids, n);
        check_rows(&rows, keep_format("%s_%zu.npy", npy_prefix, i), tolerance);
        check_greedy(session, ids, n, sp_json_get(sp_json_at(greedy, i), "ids"));
    }
}

/* Checks a checkpoint, a folder or a file, against a folder as ../shared/oracle/README.md describes
 * it: golden.json and logits_K.npy. False if it is not there. */
static bool check_target(const char *checkpoint, const char *folder, enum sp_dtype type)
{
    const char *golden = keep_format("%s/golden.json", folder);

    if (!golden_exists(golden)) return false;
    check_prompts(checkpoint, golden, keep_format("%s/logits", folder), type);
    return true;
}

TEST(tiny_target)
{
    check_prompts(TESTDATA "/tiny/target", TESTDATA "/tiny/golden_target.json",
                  TESTDATA "/tiny/target_logits", SP_DTYPE_NONE);
}

TEST(tiny_small_draft)
{
    check_prompts(TESTDATA "/tiny/ar", TESTDATA "/tiny/golden_ar.json", TESTDATA "/tiny/ar_logits",
                  SP_DTYPE_NONE);
}

static void check_oracle(const char *kind, const char *name, enum sp_dtype type)
{
    const char *folder = keep_format(SHARED "/oracle/%s/%s", kind, name);

    if (!check_target(folder, folder, type)) skip();
}

/* Each kernel set and each prompt chunk size gives the golden rows, all with the same bits. */
static void check_rows_of_family(const char *path, const char *npy, double most,
                                 const uint32_t *ids, size_t n)
{
    struct logit_rows first = {0};

    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        for (size_t rows_per_pass = 0; rows_per_pass <= 3; rows_per_pass++) {
            struct sp_session_options options = {
                .size = sizeof options, .cache = SP_CACHE_F32, .rows_per_pass = rows_per_pass};
            struct generate_fixture o = generate_open(path, (*k)->name, 1, &options);
            struct logit_rows rows = keep_logits(o.session, ids, n);
            if (first.values == NULL) {
                check_rows(&rows, npy, most);
                first = rows;
                continue;
            }
            assert_memory_equal(rows.values, first.values, n * rows.width * sizeof(float));
        }
    }
}

/* The folders of testdata/families. A golden.json may say how far its model amplifies rounding. */
TEST(families)
{
    for (const char *const *name = golden_families(); *name; name++) {
        size_t n_kept = kept_count();
        double most = close_tolerance;
        print_message("%s\n", *name);
        const char *folder = keep_format(TESTDATA "/families/%s", *name);
        assert_true(check_target(folder, folder, SP_DTYPE_NONE));
        const char *path = packed_alone(folder, SP_DTYPE_NONE);
        const struct sp_json *root = golden_json(keep_format("%s/golden.json", folder));
        const struct sp_json *prompts = sp_json_get(root, "prompts");
        (void)sp_json_to_double(sp_json_get(root, "shaken"), &most);
        if (most < close_tolerance) most = close_tolerance;
        for (size_t i = 0; i < sp_json_len(prompts); i++) {
            size_t n;
            uint32_t *ids = golden_ids(sp_json_at(prompts, i), &n);
            check_rows_of_family(path, keep_format("%s/logits_%zu.npy", folder, i), most, ids, n);
        }
        kept_release(n_kept);
    }
}

TEST(newer_families)
{
    for (const char *const *name = golden_newer(); *name; name++) {
        const char *folder = keep_format(SHARED "/oracle/newer/%s", *name);
        if (golden_exists(keep_format("%s/golden.json", folder)) && packed_is_supported(folder))
            check_target(folder, folder, SP_DTYPE_NONE);
    }
}

static void oracle_target(void **state)
{
    check_oracle("targets", *state, SP_DTYPE_NONE);
}

static void oracle_prequantized(void **state)
{
    check_oracle("prequantized", *state, SP_F32);
}

/* Checkpoints that other programs quantized. */
static void oracle_source(void **state)
{
    check_oracle("sources", *state, SP_F32);
}

/* Files that llama.cpp's programs wrote, with logits of the exactly dequantized weights. */
static void oracle_gguf(void **state)
{
    const char *folder = keep_format(SHARED "/oracle/sources/%s", (const char *)*state);
    const char *file = keep_format("%s/model.gguf", folder);

    if (!golden_exists(file)) file = keep_format("%s/model-00001-of-00003.gguf", folder);
    if (!check_target(file, folder, SP_F32)) skip();
}

/* A checkpoint that llama.cpp's converter turned into a GGUF file has the checkpoint's logits. */
static void converted_gguf(void **state)
{
    const char *name = *state, *joined = strstr(name, "_joined");
    size_t family = joined ? (size_t)(joined - name) : strlen(name);
    const char *folder = keep_format(TESTDATA "/families/%.*s", (int)family, name);

    if (!golden_exists(folder)) folder = keep_format(SHARED "/oracle/targets/%s", name);
    if (!check_target(keep_format(TESTDATA "/gguf/%s.gguf", name), folder, SP_F32)) skip();
}

/* Compares the proposal after the last n ids with the golden one. */
static void check_proposals(const struct sp_session *session, size_t n,
                            const struct sp_json *golden)
{
    size_t n_want;
    uint32_t *want = golden_ids(golden, &n_want);

    for (size_t i = 0; i < n_want; i++)
        assert_int_equal(session->speculator->ids[n + i], want[i]);
}

/* Tokens that a clustered output matrix omits have a logit that means "never"; transformers writes
 * the smallest selected logit minus 1. */
static void fill_unselected(struct logit_rows *rows)
{
    for (size_t t = 0; t < rows->n; t++) {
        float *row = rows->values + t * rows->width, lowest = INFINITY;
        for (size_t i = 0; i < rows->width; i++)
            if (row[i] > -1e29f && row[i] < lowest) lowest = row[i];
        for (size_t i = 0; i < rows->width; i++)
            if (row[i] <= -1e29f) row[i] = lowest - 1;
    }
}

/* The last id is the anchor. A DFlash draft gives block_size - 1 rows, a prediction head several
 * greedy steps. */
static void check_draft(const char *folder, const char *golden)
{
    struct sp_session *session =
        open_file(packed_file(keep_format("%s/Modelfile", folder), SP_DTYPE_NONE, SP_DTYPE_NONE));
    const struct sp_json *root = golden_json(keep_format("%s/%s", folder, golden));
    const struct sp_json *cases = sp_json_get(root, "ids");

    for (size_t i = 0; i < sp_json_len(cases); i++) {
        size_t n, n_steps, width;
        uint32_t *ids = golden_ids(sp_json_at(cases, i), &n);
        const char *npy = keep_format("%s/draft_logits_%zu.npy", folder, i);
        golden_npy(npy, &n_steps, &width);
        struct logit_rows rows = keep_draft_logits(session, ids, n, n_steps);
        fill_unselected(&rows);
        check_rows(&rows, npy, tolerance);
        check_proposals(session, n, sp_json_at(sp_json_get(root, "greedy"), i));
    }
}

static void oracle_draft(void **state)
{
    const char *folder = keep_format(SHARED "/oracle/drafts/%s", (const char *)*state);
    if (!golden_exists(folder)) skip();
    check_draft(folder, "golden.json");
}

/* Drafts that the speculators library trained, saved and ran. */
static void speculators_draft(void **state)
{
    const char *folder = keep_format(TESTDATA "/speculators/%s", (const char *)*state);
    check_draft(folder, "golden.json");
}

/* Drafts of the models of testdata/families, built into their checkpoints or in separate ones. */
static void family_draft(void **state)
{
    const char *folder = keep_format(TESTDATA "/families/%s", (const char *)*state);
    check_draft(folder, "golden_draft.json");
}

/* A published Llama checkpoint: the first 16 logits of the last row, and greedy ids. */
TEST(tinystories)
{
    static const char folder[] = SHARED "/models/real/tinystories-656K";
    const struct sp_json *root = golden_json(keep_format("%s/golden.json", folder));

    if (root == NULL) skip();
    struct sp_session *session = open_file(packed_alone(folder, SP_DTYPE_NONE));
    const struct sp_json *cases =
        sp_json_kind(root) == SP_JSON_ARRAY ? root : sp_json_get(root, "cases");
    assert_true(sp_json_len(cases) > 0);
    for (size_t i = 0; i < sp_json_len(cases); i++) {
        const struct sp_json *c = sp_json_at(cases, i);
        const struct sp_json *first = sp_json_get(c, "last_logits_first16");
        float want[16];
        size_t n;
        uint32_t *ids = golden_ids(sp_json_get(c, "ids"), &n);
        struct logit_rows rows = keep_logits(session, ids, n);
        for (size_t j = 0; j < 16; j++) {
            double v = NAN;
            assert_true(sp_json_to_double(sp_json_at(first, j), &v));
            want[j] = (float)v;
        }
        if (!(relative_error(rows.values + (n - 1) * rows.width, want, 16) < tolerance))
            fail_msg("case %zu: logits differ", i);
        check_greedy(session, ids, n, sp_json_get(c, "greedy"));
    }
}

CASES(oracle_target, "gemma2", "gemma3", "gemma3_wrapped", "gemma4_31b", "gemma4_e2b", "gemma4_moe",
      "gpt_oss", "llama_gqa_tied", "llama_linear_rope", "llama_mha_bias", "ministral3",
      "mistral_full", "mistral_window", "phi3", "phi3_partial", "qwen2", "qwen2_window", "qwen3",
      "qwen3_5", "qwen3_5_moe", "qwen3_5_tied", "qwen3_moe", "qwen3_moe_sparse", "qwen3_yarn",
      "smollm3");
CASES(oracle_prequantized, "fp8_blocks", "fp8_channel", "fp8_scalar", "fp8_tensor", "int4_group",
      "int4_group_zero", "int8_channel", "mxfp4", "nvfp4");
CASES(oracle_source, "autoround_asym", "autoround_low", "autoround_sym", "awq_gemm",
      "awq_gemm_bias", "awq_gemm_row", "awq_gemv", "awq_gemv_wide", "awq_moe", "bnb_fp4",
      "bnb_int8", "bnb_nf4", "bnb_nf4_nested", "ct_fp8_block", "ct_int4_actorder",
      "ct_int4_channel", "ct_int8_packed", "ct_mxfp4", "fp8_kv_b", "gptq_2", "gptq_3", "gptq_4",
      "gptq_4_asym", "gptq_4_desc_act", "gptq_8", "gptq_dynamic_head", "gptq_moe", "gptq_no_g_idx",
      "gptq_v2", "mlx_affine2_f32", "mlx_affine3", "mlx_affine4", "mlx_affine5", "mlx_affine6",
      "mlx_affine8_tied", "mlx_deepseek_v3", "mlx_gemma3", "mlx_mixtral", "mlx_mxfp4", "mlx_mxfp8",
      "mlx_nvfp4", "mlx_overrides", "mlx_qwen3_5", "mlx_qwen3_moe", "mlx_recipe");
CASES(oracle_gguf, "gguf_bf16", "gguf_f16", "gguf_iq4_nl", "gguf_iq4_xs", "gguf_moe", "gguf_q2_k",
      "gguf_q3_k", "gguf_q4_0", "gguf_q4_1", "gguf_q4_k", "gguf_q5_0", "gguf_q5_1", "gguf_q5_k",
      "gguf_q6_k", "gguf_q8_0", "gguf_split", "gguf_spm");
CASES(converted_gguf, "mixtral", "olmo2", "granite", "gemma", "olmoe", "ernie4_5", "exaone4",
      "exaone4_full", "arcee", "glm4", "seed_oss", "granitemoe", "glm4_moe", "olmo3", "qwen3_next",
      "qwen3_5_experts", "gemma4_shared", "deepseek_v2", "youtu", "lfm2", "mamba2",
      "granitemoeshared", "granite4_h", "falcon_h1_head", "nemotron_h_even", "ministral3_small",
      "hunyuan_unscaled", "deepseek_v2_joined", "apertus", "jais2", "nemotron_bias", "olmo",
      "olmo_unclipped", "stablelm", "stablelm_parallel", "starcoder2", "hunyuan_moe_unscaled",
      "mellum_sparse", "granite_swa_nope", "granitemoe_swa", "cohere2", "cohere2_moe",
      "cohere_qk_norm", "ernie4_5_moe", "exaone_moe", "gpt_oss", "phi3_partial", "smollm3");
CASES(speculators_draft, "anchored", "pruned", "dflash2", "dflash2_anchored", "dspark",
      "dspark_anchored", "peagle", "peagle_sliding");
CASES(family_draft, "qwen3_next", "glm4_moe", "glm4_moe_lite", "deepseek_v3", "deepseek_v32_head",
      "hy_v3", "exaone_moe_head", "mellum_head", "mimo_head", "ernie_head", "bailing_head",
      "glm5_head", "hy_v4_head", "minimax_m3_head", "nemotron_h_head", "qwen3_moe_head",
      "laguna/dflash", "lfm2/dspark", "muse_glimmer/assistant");
CASES(oracle_draft, "dflash_default_taps", "dflash_gpt_oss", "dflash_llama_bias", "dflash_qwen3",
      "dflash_qwen3_5", "dflash_qwen3_moe", "dflash_sliding", "dflash_sliding_bidirectional",
      "dflash2_qwen3", "dflash2_scaled", "dspark_gated", "dspark_rnn", "dspark_vanilla",
      "assistant_centroids", "assistant_dense", "assistant_shared", "eagle3_full_vocab",
      "eagle3_llama", "eagle3_midlayer", "eagle3_qwen3_before", "mtp_qwen3_5", "mtp_qwen3_5_moe",
      "mtp_qwen3_5_wrapped");
GROUP_FIXTURE(packed_setup, packed_teardown);
