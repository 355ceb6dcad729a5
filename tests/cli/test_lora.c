/* Tests adapters that stay apart from the weights: against the logits of PEFT, mlx-lm and GGUF
 * adapters; and that each sequence of a batch has the bits that it has alone, whatever adapters the
 * others have, with all kernel sets, for float and for quantized weights. */
#include "cli/base/backend_opts.h"
#include "format/base/hash.h"
#include "quantize/kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/cache_digest.h"
#include "tests/support/create_files.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

#include <math.h>

#define ADAPTERS TESTDATA "/adapters"

enum { N_PROMPT = 20, N_VOCAB = 128 };

static const uint32_t prompt[N_PROMPT] = {7, 99, 3,  58, 121, 76, 20, 33, 91,  110,
                                          2, 45, 45, 17, 64,  80, 5,  28, 101, 9};

struct opened {
    struct sp_package *package;
    struct sp_lora *lora;
    struct sp_session *session;
};

static void close_all(struct opened *o)
{
    sp_session_close(o->session);
    sp_lora_close(o->lora);
    sp_package_close(o->package);
}

/* Packs the model of an adapter and opens both, without a session. */
static enum sp_status open_with(struct opened *o, const char *name, enum sp_dtype type,
                                const struct sp_package_options *options, struct sp_err *err)
{
    const char *packed = create_path("p.bin");
    char path[400], line[600], *base;
    size_t size;

    snprintf(path, sizeof path, ADAPTERS "/%s/base.txt", name);
    base = scratch_read(path, &size);
    base[strcspn(base, "\n")] = '\0';
    snprintf(line, sizeof line, "FROM " TESTDATA "/%s\n", base);
    create_pack(create_modelfile(line), packed, type, SP_DTYPE_NONE, 1);
    *o = (struct opened){0};
    if (sp_package_open(&o->package, packed, options, err)) fail_msg("%s", err->text);
    snprintf(path, sizeof path, ADAPTERS "/%s%s", name,
             strncmp(name, "gguf", 4) ? "" : "/adapter.gguf");
    return sp_lora_file_open(&o->lora, o->package, packed, path, "test", err);
}

static enum sp_status open_adapter(struct opened *o, const char *name, enum sp_dtype type,
                                   const char *kernels, unsigned n_threads, struct sp_err *err)
{
    const struct sp_package_options options = {
        .size = sizeof options, .kernels = kernels, .n_threads = n_threads};

    return open_with(o, name, type, &options, err);
}

/* ---- logits of other implementations ---- */

struct comparison {
    const float *golden; /* [N_PROMPT][N_VOCAB] */
    double worst, largest;
};

static int compare_row(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct comparison *c = context;

    assert_int_equal(n_vocab, N_VOCAB);
    for (size_t i = 0; i < n_vocab; i++) {
        double want = (double)c->golden[row * n_vocab + i], d = fabs((double)logits[i] - want);
        if (!(d <= c->worst)) c->worst = d;
        if (fabs(want) > c->largest) c->largest = fabs(want);
    }
    return 0;
}

static double distance(struct sp_session *session, const char *name)
{
    struct comparison c = {0};
    size_t n, width;

    float *golden = golden_npy(keep_format(ADAPTERS "/%s/logits.npy", name), &n, &width);
    assert_int_equal(n, N_PROMPT);
    c.golden = golden;
    assert_ok(sp_session_logits(session, prompt, N_PROMPT, compare_row, &c, why));
    return c.worst / c.largest;
}

TEST(test_logits_match_the_reference)
{
    static const char *const names[] = {"patterns", "phi3", "rslora", "mlx_lora", "gguf_q8_0"};
    const struct sp_session_options options = {.size = sizeof options, .cache = SP_CACHE_F32};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct opened o;
        assert_case_ok(names[i], open_adapter(&o, names[i], SP_F32, NULL, 2, why));
        assert_case_ok(names[i], sp_session_open(&o.session, o.package, &options, why));
        assert_true(distance(o.session, names[i]) > 0.1);
        assert_ok(sp_session_set_lora(o.session, o.lora, 1, why));
        double d = distance(o.session, names[i]);
        if (!(d < 1e-5)) fail_msg("%s: relative error %g", names[i], d);
        close_all(&o);
    }
}

/* ---- refusals ---- */

TEST(test_other_changes_are_refused)
{
    static const struct {
        const char *name, *sentence;
    } cases[] = {
        {"dora", "down_proj.lora_magnitude_vector\" is of DoRA"},
        {"mlx_dora", "up_proj.m\" is of DoRA"},
        {"rslora_biases", "down_proj.lora_B.bias\" changes a bias"},
        {"gguf_shift", "\"blk.0.ffn_norm.weight\" takes the place of the model's"},
        {"gguf", "\"token_embd.weight.lora_a\" changes the embedding or the output matrix"},
        {"tied_head", "changes the embedding or the output matrix"},
        {"mlx_experts", "down_proj.lora_a\" changes experts or other stacks of matrices"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        assert_fails(open_adapter(&o, cases[i].name, SP_F32, NULL, 1, why), SP_E_UNSUPPORTED,
                     cases[i].sentence);
        close_all(&o);
    }
}

TEST(test_products_are_checked)
{
    static const float numbers[4096], infinite[32] = {[31] = INFINITY};
    struct sp_lora_product p = SP_LORA_PRODUCT_INIT;
    struct opened o;

    assert_ok(open_adapter(&o, "patterns", SP_F32, NULL, 1, why));
    p.left = p.right = numbers;
    p.n_rows = p.n_cols = p.rank = 1;
    p.tensor = "layers.0.input_layernorm.weight";
    assert_fails(sp_lora_add(o.lora, &p, why), SP_E_UNSUPPORTED, "");
    p.tensor = "embed_tokens.weight";
    assert_fails(sp_lora_add(o.lora, &p, why), SP_E_UNSUPPORTED, "");
    p.tensor = "layers.0.self_attn.q_proj.weight";
    assert_fails(sp_lora_add(o.lora, &p, why), SP_E_INPUT, "");
    p.n_rows = p.n_cols = 32;
    assert_fails(sp_lora_add(o.lora, &p, why), SP_E_USAGE, "");
    sp_lora_close(o.lora);
    assert_ok(sp_lora_open(&o.lora, o.package, why));
    p.left = infinite;
    assert_fails(sp_lora_add(o.lora, &p, why), SP_E_INPUT, "not finite");
    p.left = numbers;
    assert_ok(sp_lora_add(o.lora, &p, why));
    close_all(&o);
}

/* ---- batches ---- */

enum { N_SEQS = 5 };

/* An adapter of the layer's `tensor` with numbers of its own, times `scale`. */
static struct sp_lora *make_adapter(struct sp_package *package, const char *tensor, size_t rank,
                                    float scale)
{
    struct sp_lora_product p = SP_LORA_PRODUCT_INIT;
    struct sp_lora *lora = NULL;
    float left[32 * 64], right[32 * 64];

    for (size_t i = 0; i < 32 * 64; i++) {
        left[i] = scale * ((float)(i * 37 % 101) / 400 - 0.125f);
        right[i] = (float)(i * 53 % 97) / 300 - 0.16f;
    }
    p.tensor = tensor;
    p.n_rows = p.n_cols = 32;
    p.rank = rank;
    p.left = left;
    p.right = right;
    assert_ok(sp_lora_open(&lora, package, why));
    assert_ok(sp_lora_add(lora, &p, why));
    return lora;
}

/* Runs sequences first..first+n-1 as one batch in two passes. digests[i]: of the logits and the
 * caches of the i-th of them. */
static void run_batch(uint64_t *digests, struct sp_session *const *sessions, size_t first, size_t n)
{
    struct sp_batch_seq seqs[N_SEQS];

    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            const struct sp_model *target = sessions[first + i]->package->target;
            size_t length = 3 + first + i, rows = pass ? 1 : length;
            seqs[i] = (struct sp_batch_seq){.decoder = sessions[first + i]->speculator->decoder,
                                            .embedder = target,
                                            .head = target,
                                            .ids = prompt + (pass ? 9 : 0),
                                            .n = rows,
                                            .pos = pass ? length : 0,
                                            .n_committed = rows,
                                            .first_logits = rows - 1,
                                            .n_logits = 1};
        }
        sp_batch_run(seqs, n);
        for (size_t i = 0; i < n; i++)
            sp_decoder_commit(seqs[i].decoder, seqs[i].n);
    }
    for (size_t i = 0; i < n; i++) {
        digests[i] = sp_hash64(sp_decoder_row(seqs[i].decoder, 0).row, N_VOCAB * sizeof(float));
        if (sessions[first + i]->package->ranks) continue; /* which have parts of caches */
        digests[i] ^= decoder_digest(seqs[i].decoder, seqs[i].pos + 1);
    }
}

/* Checks that sequences of two adapters and none have the same bits in a batch and alone. */
static void check_batches(uint64_t *digests, enum sp_dtype type,
                          const struct sp_package_options *package_options)
{
    const struct sp_session_options options = {
        .size = sizeof options, .n_context = 64, .max_batch = N_SEQS};
    struct sp_session *sessions[N_SEQS];
    struct opened o;

    assert_ok(open_with(&o, "patterns", type, package_options, why));
    struct sp_lora *other = make_adapter(o.package, "layers.1.self_attn.o_proj.weight", 17, 1);
    const struct sp_lora *const loras[N_SEQS] = {o.lora, NULL, other, o.lora, NULL};
    for (size_t i = 0; i < N_SEQS; i++) {
        assert_ok(i == 0 ? sp_session_open(&sessions[0], o.package, &options, why)
                         : sp_session_open_shared(&sessions[i], sessions[0], why));
        assert_ok(sp_session_set_lora(sessions[i], loras[i], 1, why));
        assert_ok(sp_speculator_grow(sessions[i]->speculator, 16, why));
    }
    run_batch(digests, sessions, 0, N_SEQS);
    for (size_t i = 0; i < N_SEQS; i++) {
        uint64_t alone;
        run_batch(&alone, sessions, i, 1);
        assert_true(alone == digests[i]);
        assert_ok(sp_session_set_lora(sessions[i], loras[(i + 1) % N_SEQS], 1, why));
        assert_ok(sp_speculator_grow(sessions[i]->speculator, 16, why));
        run_batch(&alone, sessions, i, 1);
        assert_true((alone == digests[i]) == (loras[i] == loras[(i + 1) % N_SEQS]));
    }
    for (size_t i = N_SEQS; i-- > 0;)
        sp_session_close(sessions[i]);
    sp_lora_close(other);
    close_all(&o);
}

/* A scale of 2 doubles sums without rounding, so it must have the bits of an adapter with doubled
 * factors, and rows of one adapter with two scales must not share one. */
TEST(test_scales)
{
    const struct sp_session_options options = {
        .size = sizeof options, .n_context = 64, .max_batch = N_SEQS};
    static const float scales[3] = {1, 2, 2};
    struct sp_session *sessions[3];
    struct sp_lora *loras[2];
    uint64_t digests[3], alone;
    struct opened o;

    assert_ok(open_adapter(&o, "patterns", SP_Q4, NULL, 2, why));
    for (size_t i = 0; i < 2; i++)
        loras[i] = make_adapter(o.package, "layers.1.self_attn.o_proj.weight", 17, 1 + (float)i);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(i == 0 ? sp_session_open(&sessions[0], o.package, &options, why)
                         : sp_session_open_shared(&sessions[i], sessions[0], why));
        assert_ok(sp_session_set_lora(sessions[i], loras[0], scales[i], why));
        assert_ok(sp_speculator_grow(sessions[i]->speculator, 16, why));
    }
    run_batch(digests, sessions, 0, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(sp_session_set_lora(sessions[i], loras[i > 0], 1, why));
        assert_ok(sp_speculator_grow(sessions[i]->speculator, 16, why));
        run_batch(&alone, sessions, i, 1);
        assert_true(alone == digests[i]);
    }
    assert_fails(sp_session_set_lora(sessions[0], loras[0], NAN, why), SP_E_USAGE, "");
    for (size_t i = 3; i-- > 0;)
        sp_session_close(sessions[i]);
    for (size_t i = 0; i < 2; i++)
        sp_lora_close(loras[i]);
    close_all(&o);
}

TEST(test_a_batch_has_the_bits_of_its_sequences)
{
    static const enum sp_dtype types[] = {SP_F32, SP_Q8, SP_Q4};
    const struct sp_kernels *const *sets = sp_kernels_all();

    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct sp_package_options options = SP_PACKAGE_OPTIONS_INIT;
        uint64_t first[N_SEQS], digests[N_SEQS];
        options.kernels = "scalar";
        options.n_threads = 1;
        check_batches(first, types[t], &options);
        options.n_ranks = 3;
        check_batches(digests, types[t], &options);
        options.n_ranks = 1;
        for (size_t k = 0; sets[k]; k++) {
            if (!generate_tests_set(sets[k])) continue;
            options.kernels = sets[k]->name;
            options.n_threads = (unsigned)(1 + k);
            check_batches(digests, types[t], &options);
            assert_memory_equal(digests, first, sizeof first);
        }
    }
}

/* A digest of all logits of an answer. */
static uint64_t answer_digest(const char *name, enum sp_dtype type, unsigned n_ranks,
                              bool has_adapter)
{
    const struct sp_package_options package_options = {
        .size = sizeof package_options, .n_threads = 1, .n_ranks = n_ranks};
    const struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_request request = SP_REQUEST_INIT;
    struct opened o;

    assert_case_ok(name, open_with(&o, name, type, &package_options, why));
    assert_case_ok(name, sp_session_open(&o.session, o.package, &options, why));
    assert_case_ok(name, sp_session_set_lora(o.session, has_adapter ? o.lora : NULL, 1, why));
    request.prompt = prompt;
    request.n_prompt = N_PROMPT;
    request.max_tokens = 6;
    request.ignore_eos = request.digest = true;
    uint64_t digest = keep_answer(o.session, &request).logits_digest;
    close_all(&o);
    return digest;
}

TEST(test_ranks_give_the_bits_of_one_process)
{
    static const char *const names[] = {"patterns", "phi3", "rslora", "mlx_lora"};
    static const enum sp_dtype types[] = {SP_F32, SP_Q4};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            uint64_t want = answer_digest(names[i], types[t], 1, true);
            assert_true(want != answer_digest(names[i], types[t], 1, false));
            for (unsigned n_ranks = 2; n_ranks <= 4; n_ranks++)
                assert_true(answer_digest(names[i], types[t], n_ranks, true) == want);
        }
    }
}

/* ---- sessions ---- */

/* The tokens of a prompt of more than a page that a new session, which has no times of pages and of
 * passes to compare, does not process with this adapter. */
static size_t n_reused_with(struct opened *o, const struct sp_session_options *options,
                            const struct sp_lora *lora, float scale)
{
    struct sp_session *session = NULL;
    uint32_t ids[300];
    struct sp_request request = {
        .size = sizeof request, .prompt = ids, .n_prompt = 300, .max_tokens = 1};
    struct sp_result result = SP_RESULT_INIT;

    for (size_t i = 0; i < 300; i++)
        ids[i] = prompt[i % N_PROMPT];
    assert_ok(sp_session_open(&session, o->package, options, why));
    assert_ok(sp_session_set_lora(session, lora, scale, NULL));
    assert_ok(sp_session_generate(session, &request, &result, NULL));
    size_t n_reused = result.n_reused;
    sp_result_release(&result);
    sp_session_close(session);
    return n_reused;
}

TEST(test_caches_belong_to_an_adapter)
{
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    const struct sp_prompt_cache_options where = {.size = sizeof where,
                                                  .folder = create_keep_path(create_path("pages"))};
    struct sp_request request = SP_REQUEST_INIT;
    struct sp_lora *late, *similar[2];
    struct opened o;

    assert_ok(open_adapter(&o, "patterns", SP_F32, NULL, 1, why));
    assert_ok(sp_session_open(&o.session, o.package, &options, why));
    assert_ok(sp_session_set_lora(o.session, o.lora, 1, why));
    request.prompt = prompt;
    request.n_prompt = N_PROMPT;
    request.max_tokens = 2;
    request.ignore_eos = true;
    keep_answer(o.session, &request);
    assert_true(sp_session_match_prefix(o.session, prompt, N_PROMPT) > 0);
    assert_ok(sp_session_set_lora(o.session, o.lora, 0.5f, why));
    assert_int_equal(sp_session_match_prefix(o.session, prompt, N_PROMPT), 0);
    /* Adapters that differ in their numbers alone. */
    for (size_t i = 0; i < 2; i++)
        similar[i] = make_adapter(o.package, "layers.0.self_attn.o_proj.weight", 2, 1 + (float)i);
    sp_session_close(o.session);
    o.package->target->config.max_positions = 512;
    assert_ok(sp_prompt_cache_open(&options.prompt_cache, &where, why));
    assert_ok(sp_session_open(&o.session, o.package, &options, why));
    for (size_t i = 0; i < 2; i++) {
        const size_t n = i * 256; /* the second round finds the pages of the first */
        assert_int_equal(n_reused_with(&o, &options, o.lora, 1), n);
        assert_int_equal(n_reused_with(&o, &options, o.lora, 0.5f), n);
        assert_int_equal(n_reused_with(&o, &options, NULL, 1), n);
        assert_int_equal(n_reused_with(&o, &options, similar[0], 1), n);
        assert_int_equal(n_reused_with(&o, &options, similar[1], 1), n);
    }
    assert_ok(sp_session_set_lora(o.session, o.lora, 1, why));
    for (size_t i = 0; i < 2; i++)
        sp_lora_close(similar[i]);
    late = make_adapter(o.package, "layers.0.self_attn.o_proj.weight", 30, 1);
    assert_fails(sp_session_set_lora(o.session, late, 1, why), SP_E_USAGE, "");
    assert_true(sp_session_has_lora(o.session, o.lora, 1));
    sp_lora_close(late);
    close_all(&o);
    sp_prompt_cache_close(options.prompt_cache);
}

GROUP_FIXTURE(create_setup, create_teardown);
