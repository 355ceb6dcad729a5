/* Tests recurrent models and their built-in prediction heads: after every verified round all states
 * have the bits of plain decoding, drafting is lossless, and packed files handle the head
 * correctly. */
#include "tests/support/cache_digest.h"
#include "tests/support/handmade_models.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "convert/create/create.h"
#include "quantize/kernels/kernels.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

enum { N_PROMPT = 21, N_TRUTH = 32, MAX_DRAFTED = 7 };

static const struct handmade_options varied = {.mixing = 0.4f};
static const struct handmade_options steady = {.mixing = 0.01f, .copies = true};

/* ---- rollback ---- */

/* A sequence, and the digest of all caches after each of its prefixes, decoded token by token. */
struct expected_states {
    uint32_t ids[N_PROMPT + N_TRUTH];
    uint64_t digests[N_PROMPT + N_TRUTH + 1];
};

static struct sp_decoder *open_decoder(const struct sp_package *package, size_t n_positions,
                                       size_t max_rows)
{
    return keep_decoder(package, package->target,
                        &(struct sp_decoder_options){.n_positions = n_positions,
                                                     .max_rows = max_rows,
                                                     .max_logit_rows = 16,
                                                     .cache_type = SP_CACHE_F16});
}

static void run(struct sp_decoder *decoder, const uint32_t *ids, size_t n, size_t pos,
                size_t n_committed, size_t n_kept)
{
    sp_decoder_run(decoder, ids, n, pos, n_committed);
    sp_decoder_commit(decoder, n_kept);
}

static void decode_expected_states(struct expected_states *expected_states,
                                   const struct sp_package *package)
{
    struct sp_decoder *decoder = open_decoder(package, 128, 64);

    generate_ids(expected_states->ids, N_PROMPT + N_TRUTH, 7, package->target->config.n_vocab);
    for (size_t i = 0; i < N_PROMPT + N_TRUTH; i++) {
        run(decoder, expected_states->ids + i, 1, i, 1, 1);
        expected_states->digests[i + 1] = decoder_digest(decoder, i + 1);
        if (i) assert_int_not_equal(expected_states->digests[i + 1], expected_states->digests[i]);
    }
}

/* Runs one round at position pos: the current token and n draft tokens, of which the first
 * `accepted` are right. */
static void verify_round(struct sp_decoder *decoder, const struct sp_package *package,
                         const struct expected_states *expected_states, size_t pos, size_t n,
                         size_t accepted)
{
    uint32_t rows[MAX_DRAFTED + 1];

    for (size_t i = 0; i <= n; i++) {
        uint32_t id = expected_states->ids[pos + i];
        rows[i] = i <= accepted ? id : (id + 1) % package->target->config.n_vocab;
    }
    run(decoder, rows, n + 1, pos, 1, accepted + 1);
    assert_int_equal(decoder_digest(decoder, pos + accepted + 1),
                     expected_states->digests[pos + accepted + 1]);
}

/* Of the rounds directly after the prompt one in n_places, beginning with `place`. */
static void check_rounds(const struct sp_package *package,
                         const struct expected_states *expected_states, size_t place,
                         size_t n_places)
{
    struct sp_decoder *decoder = open_decoder(package, 128, 64);
    size_t pos = N_PROMPT;
    uint32_t seed = 1;

    /* Every number of draft tokens and of accepted ones directly after the prompt. A rollback does
     * not depend on the kernels, so one kernel set and one number of threads are enough for each
     * combination. */
    for (size_t n = 0; n <= MAX_DRAFTED; n++) {
        for (size_t a = 0; a <= n; a++) {
            if ((n + a) % n_places != place % n_places) continue;
            run(decoder, expected_states->ids, N_PROMPT, 0, N_PROMPT, N_PROMPT);
            verify_round(decoder, package, expected_states, N_PROMPT, n, a);
        }
    }
    /* Consecutive rounds. */
    run(decoder, expected_states->ids, N_PROMPT, 0, N_PROMPT, N_PROMPT);
    while (pos + MAX_DRAFTED + 1 < N_PROMPT + N_TRUTH) {
        size_t n, a;
        seed = seed * 1664525u + 1013904223u;
        n = (seed >> 16) % (MAX_DRAFTED + 1);
        a = (seed >> 24) % (n + 1);
        /* A pass that is not committed leaves the caches unchanged. */
        sp_decoder_run(decoder, expected_states->ids, n + 1, pos, 0);
        verify_round(decoder, package, expected_states, pos, n, a);
        pos += a + 1;
    }
}

/* Chunks of all sizes; where a few suffice, of one size in n_places. */
static void check_chunks(const struct sp_package *package,
                         const struct expected_states *expected_states, size_t place,
                         size_t n_places)
{
    static const size_t chunks[] = {1, 2, 3, 20, 64};
    struct sp_decoder *decoder = open_decoder(package, 128, 64);

    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        if (FEW_LENGTHS && c % n_places != place % n_places) continue;
        for (size_t pos = 0; pos < N_PROMPT + N_TRUTH; pos += chunks[c]) {
            size_t left = N_PROMPT + N_TRUTH - pos, n = left < chunks[c] ? left : chunks[c];
            run(decoder, expected_states->ids + pos, n, pos, n, n);
            assert_int_equal(decoder_digest(decoder, pos + n), expected_states->digests[pos + n]);
        }
    }
}

/* Numbers of threads to be tested with a kernel set. Scalar kernels are slow. */
static unsigned most_threads(const struct sp_kernels *kernels)
{
    if (!generate_tests_set(kernels)) return 0;
    return kernels == &sp_kernels_ref ? 1 : 2;
}

/* place: index of the file, for check_rounds */
static void check_rollback(const char *path, size_t place)
{
    size_t n_kept = kept_count(), n_places = 0;
    struct sp_package *package = keep_package_with(path, generate_reference, 1);
    struct expected_states expected_states;

    decode_expected_states(&expected_states, package);
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++)
        n_places += most_threads(*k);
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        for (unsigned n_threads = 1; n_threads <= most_threads(*k); n_threads++) {
            package = keep_package_with(path, (*k)->name, n_threads);
            check_rounds(package, &expected_states, place, n_places);
            check_chunks(package, &expected_states, place++, n_places);
        }
    }
    kept_release(n_kept);
}

TEST(rollback_handmade)
{
    check_rollback(packed_handmade(&varied, SP_DTYPE_NONE, SP_DTYPE_NONE), 0);
    check_rollback(packed_handmade(&varied, SP_Q8, SP_Q8), 1);
}

static void rollback_oracle(void **state)
{
    const char *folder = keep_format(SHARED "/oracle/targets/%s", (const char *)*state);
    if (!golden_exists(folder)) skip();
    check_rollback(packed_alone(folder, SP_DTYPE_NONE), 0);
    check_rollback(packed_alone(folder, SP_Q4), 1);
}

/* Every family of testdata/families, with any kind of layer. */
TEST(rollback_families)
{
    size_t place = 0;

    for (const char *const *name = golden_families(); *name; name++) {
        print_message("%s\n", *name);
        check_rollback(packed_family(*name, SP_Q8), place++);
    }
}

static struct sp_package *open_compressed(void)
{
    return keep_package_with(packed_family("deepseek_v4", SP_Q8), "scalar", 1);
}

/* What entries of compressed attention are made of is there where the window is. */
TEST(entries_after_a_long_way_back)
{
    enum { N_ROWS = 8, TO = 347, N_ALL = 75 * N_ROWS };
    struct sp_package *package = open_compressed();
    struct sp_decoder *decoders[2];
    uint32_t ids[N_ALL];

    for (size_t i = 0; i < N_ALL; i++)
        ids[i] = (uint32_t)(i * i % 251);
    for (unsigned i = 0; i < package->target->config.n_layers; i++)
        package->target->config.layers[i].window = 250;
    for (size_t k = 0; k < 2; k++) {
        decoders[k] = open_decoder(package, 1024, 8);
        for (size_t n, pos = 0; pos < (k ? TO : N_ALL); pos += n) {
            n = k && TO - pos < N_ROWS ? TO - pos : N_ROWS;
            run(decoders[k], ids + pos, n, pos, n, n);
        }
    }
    assert_true(sp_decoder_can_rewind(decoders[0], N_ALL, TO));
    for (size_t k = 0; k < 2; k++)
        run(decoders[k], ids + TO, 1, TO, 1, 1);
    assert_int_equal(decoder_digest(decoders[0], TO + 1), decoder_digest(decoders[1], TO + 1));
}

/* Pages with entries of one block are read in their order. */
TEST(entries_of_several_pages)
{
    struct sp_package *package = open_compressed();

    assert_true(sp_decoder_keeps_all(open_decoder(package, 256, 8)));
    package->target->config.layers[0].rate = 6;
    assert_false(sp_decoder_keeps_all(open_decoder(package, 256, 8)));
}

/* A table that chooses an expert for a token twice. */
TEST(experts_of_a_token_differ)
{
    const struct sp_pack *pack = open_compressed()->pack;
    const struct sp_pack_tensor *t =
        sp_pack_find(pack, SP_PART_TARGET, "layers.0.mlp.router.token_experts");
    size_t size, at = (size_t)(t->data - sp_pack_bytes(pack));
    struct sp_package *package = NULL;
    char *bytes = scratch_read(packed_family("deepseek_v4", SP_Q8), &size);

    memcpy(bytes + at + sizeof(float), bytes + at, sizeof(float));
    assert_fails(sp_package_open(&package, scratch_write("twice.bin", bytes, size), NULL, why),
                 SP_E_INPUT, "layers.0.mlp.router.token_experts[1] is not an expert");
}

/* ---- drafting ---- */

static struct sp_session *open_session(struct sp_package *package, size_t rows_per_pass)
{
    struct sp_session_options options = {
        .size = sizeof options, .rows_per_pass = rows_per_pass, .n_context = 200};

    return keep_session(package, &options);
}

static const uint32_t prompt[] = {12, 40, 7, 99, 3, 58, 121, 76, 20, 33, 91, 150, 2};
enum { N_GIVEN = sizeof prompt / sizeof *prompt, N_TOKENS = 40 };

/* Every draft length, number of threads and kernel set, in sessions that continue their text.
 * place: index of the file, for generate_threads. */
static void check_lossless(const char *path, const char *kind, size_t place)
{
    static const int depths[] = {PLAIN, SP_DRAFT_LENGTH_AUTO, 1, 2, 3, 4, 7, 11, 16};
    struct sp_package *package = keep_package_with(path, generate_reference, 1);
    struct sp_session *session = open_session(package, 0);
    struct sp_result plain = generate_run(session, prompt, N_GIVEN, N_TOKENS, PLAIN, true);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    size_t rows = 3;

    sp_package_describe(package, &info);
    assert_string_equal(info.draft, kind);
    assert_int_equal(info.max_draft_len, 16);
    assert_int_equal(plain.n_ids, N_TOKENS);
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        for (unsigned n_threads = 1; n_threads <= 2; n_threads++) {
            package = keep_package_with(path, (*k)->name, n_threads);
            session = open_session(package, rows++);
            for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
                /* Scalar kernels are slow, and the reference was computed with them. */
                if (*k == &sp_kernels_ref && depths[i] != 3) continue;
                if (generate_threads(place + i) != n_threads) continue;
                struct sp_result r =
                    generate_run(session, prompt, N_GIVEN, N_TOKENS, depths[i], true);
                generate_assert_same(&r, &plain);
            }
        }
        place++;
    }
}

TEST(lossless_handmade)
{
    struct handmade_options no_ffn = varied;

    check_lossless(packed_handmade(&varied, SP_Q8, SP_Q4), "mtp", 0);
    check_lossless(packed_handmade(&varied, SP_DTYPE_NONE, SP_DTYPE_NONE), "mtp", 1);
    no_ffn.no_ffn = true;
    check_lossless(packed_handmade(&no_ffn, SP_Q8, SP_Q8), "mtp", 2);
}

static void lossless_oracle(void **state)
{
    const char *modelfile = keep_format(SHARED "/oracle/drafts/%s/Modelfile", (const char *)*state);
    if (!golden_exists(modelfile)) skip();
    check_lossless(packed_file(modelfile, SP_Q4, SP_Q8),
                   strncmp(*state, "mtp", 3) == 0 ? "mtp" : "eagle3", 0);
}

TEST(lossless_eagle3)
{
    check_lossless(packed_handmade_eagle3(&varied, SP_Q8, SP_Q4), "eagle3", 0);
    check_lossless(packed_handmade_eagle3(&varied, SP_DTYPE_NONE, SP_DTYPE_NONE), "eagle3", 1);
}

/* The head repeats the target's input, and the target repeats its last token, so every draft token
 * is accepted. */
TEST(always_right)
{
    struct sp_package *package =
        keep_package_with(packed_handmade(&steady, SP_DTYPE_NONE, SP_DTYPE_NONE), NULL, 2);

    for (int draft_len = 1; draft_len <= 16; draft_len += 3) {
        struct sp_session *session = open_session(package, 0);
        size_t n_rounds = 5, n = 1 + n_rounds * (size_t)(draft_len + 1);
        struct sp_result plain = generate_run(session, prompt, N_GIVEN, n, PLAIN, true);
        struct sp_result r = generate_run(session, prompt, N_GIVEN, n, draft_len, true);
        generate_assert_same(&r, &plain);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(r.ids[i], prompt[N_GIVEN - 1]);
        assert_int_equal(r.n_rounds, n_rounds);
        assert_int_equal(r.drafted, n_rounds * (size_t)draft_len);
        assert_int_equal(r.accepted, r.drafted);
    }
}

/* An EAGLE-3 draft repeats the token if its vocabulary contains it; otherwise no draft token is
 * accepted. */
TEST(eagle3_drafts_within_its_vocabulary)
{
    struct sp_package *package =
        keep_package_with(packed_handmade_eagle3(&steady, SP_DTYPE_NONE, SP_DTYPE_NONE), NULL, 2);

    for (uint32_t last = 40; last <= 41; last++) {
        uint32_t ids[] = {12, 99, last};
        struct sp_session *session = open_session(package, 0);
        struct sp_result r = generate_run(session, ids, 3, 25, 7, true);
        for (size_t i = 0; i < r.n_ids; i++)
            assert_int_equal(r.ids[i], last);
        assert_int_equal(r.n_rounds, last % 2 ? 24 : 3);
        assert_int_equal(r.accepted, last % 2 ? 0 : 21);
    }
}

/* After a long prompt, which is processed before the first proposal, a drafted response leaves the
 * same caches as in a fresh session, whose first proposal processes everything. */
static void check_catching_up(const char *path)
{
    enum { N_LONG = 60 };
    struct sp_package *package = keep_package_with(path, NULL, 1);
    struct sp_session *used = open_session(package, 0), *fresh = open_session(package, 0);
    uint32_t ids[N_LONG + N_TOKENS + 1];
    size_t n = N_LONG + N_TOKENS, own = package->draft->head.rows;

    for (uint32_t i = 0; i < N_LONG; i++)
        ids[i] = (7 * i + 3) % 150;
    struct sp_result r = generate_run(used, ids, N_LONG, N_TOKENS, 3, true);
    assert_int_equal(r.n_ids, N_TOKENS);
    memcpy(ids + N_LONG, r.ids, N_TOKENS * sizeof *ids);
    ids[n] = 5;
    generate_assert_same_proposal(used, fresh, ids, n, 4, own ? own : package->target->head.rows);
}

struct timed_tokens {
    const struct sp_speculator *speculator;
    uint32_t first[6];
    size_t n;
};

static int check_timed_tokens(void *context, size_t which, double verify_seconds,
                              double draft_seconds)
{
    struct timed_tokens *timed_tokens = context;
    const uint32_t *ids = timed_tokens->speculator->ids + timed_tokens->speculator->n_cached;
    size_t n_rows = which ? 16 : 4;

    assert_true(verify_seconds > 0 && draft_seconds > 0);
    for (size_t i = 0; i < n_rows; i++) {
        assert_true(ids[i] < HANDMADE_TOKENS);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(ids[i], ids[j]);
    }
    timed_tokens->first[timed_tokens->n++] = ids[0];
    return 0;
}

/* Equal tokens would all select the same experts and be cheaper than text, so a benchmark uses
 * different ones. */
TEST(timed_tokens_differ)
{
    static const size_t n_rows[] = {4, 16};
    const char *path = packed_handmade(&varied, SP_Q4, SP_Q4);
    struct sp_package *package = keep_package_with(path, NULL, 1);
    struct sp_session *session = open_session(package, 0);
    struct timed_tokens timed_tokens = {.speculator = session->speculator};

    assert_ok(
        sp_session_benchmark(session, 9, n_rows, 2, 3, check_timed_tokens, &timed_tokens, NULL));
    assert_int_equal(timed_tokens.n, 6);
    for (size_t i = 1; i < timed_tokens.n; i++)
        assert_int_not_equal(timed_tokens.first[i], timed_tokens.first[i - 1]);
}

TEST(drafts_that_read_pairs_catch_up)
{
    check_catching_up(packed_handmade(&varied, SP_DTYPE_NONE, SP_DTYPE_NONE));
    check_catching_up(packed_handmade_eagle3(&varied, SP_DTYPE_NONE, SP_DTYPE_NONE));
}

/* After a drafted response the head proposes the same as with a fresh cache. */
TEST(head_is_rolled_back)
{
    struct sp_package *package =
        keep_package_with(packed_handmade(&varied, SP_DTYPE_NONE, SP_DTYPE_NONE), NULL, 1);

    for (int draft_len = 0; draft_len <= 16; draft_len += 4) {
        struct sp_session *used = open_session(package, 5), *fresh = open_session(package, 0);
        struct sp_result r = generate_run(used, prompt, N_GIVEN, N_TOKENS, draft_len, true);
        uint32_t ids[N_GIVEN + N_TOKENS + 1];
        size_t n = N_GIVEN + N_TOKENS;
        memcpy(ids, prompt, sizeof prompt);
        memcpy(ids + N_GIVEN, r.ids, N_TOKENS * sizeof *ids);
        ids[n] = 5;
        generate_assert_same_proposal(used, fresh, ids, n, 4, package->target->config.n_vocab);
    }
}

/* ---- packed files ---- */

static char warnings[2048];

static void add_warning(void *context, const char *sentence)
{
    (void)context;
    snprintf(warnings + strlen(warnings), sizeof warnings - strlen(warnings), "%s\n", sentence);
}

/* Sets `warnings`. */
static enum sp_status create(const char *modelfile, enum sp_dtype draft,
                             struct sp_create_report *report)
{
    struct sp_create_options options = {
        .modelfile = modelfile,
        .output = packed_path("made.bin"),
        .force = true,
        .draft_type = draft,
        .callbacks = {.note = add_warning},
    };

    *warnings = '\0';
    return sp_create(report, &options, why);
}

/* The built-in head becomes the draft, quantized as one, unless a DRAFT record names another. */
TEST(head_becomes_draft)
{
    struct sp_create_report plain, quantized;
    const char *modelfile = handmade_modelfile(&varied, "");

    assert_ok(create(modelfile, SP_DTYPE_NONE, &plain));
    assert_non_null(strstr(warnings, "the built-in prediction head becomes the draft"));
    /* fc and 3 norms, 2 layer norms, q, gate, k, v, o, 2 head norms, 3 matrices of the MLP */
    assert_int_equal(plain.n_tensors[SP_PART_DRAFT], 16);
    assert_ok(create(modelfile, SP_Q8, &quantized));
    assert_true(quantized.size[SP_PART_DRAFT] < plain.size[SP_PART_DRAFT] / 3);
    assert_int_equal(quantized.size[SP_PART_TARGET], plain.size[SP_PART_TARGET]);
}

/* A head with a part that nobody knows is left out, unless a type is given for it. */
TEST(unknown_head)
{
    struct handmade_options odd = varied;
    struct sp_create_report report;

    odd.unknown = true;
    assert_ok(create(handmade_modelfile(&odd, ""), SP_DTYPE_NONE, &report));
    assert_int_equal(report.n_tensors[SP_PART_DRAFT], 0);
    assert_memory_equal(warnings, "the built-in prediction head is left out: /", 43);
    assert_null(strstr(warnings, "becomes the draft"));
    assert_fails(create(handmade_modelfile(&odd, ""), SP_Q8, &report), SP_E_INPUT,
                 "unexpected tensor \"mtp.unknown.weight\"");
}

/* Packing the parts of a packed file again gives the same bytes. */
TEST(head_from_packed_file)
{
    const char *packed = packed_handmade(&varied, SP_Q8, SP_Q8);

    assert_same_file(packed,
                     packed_file(packed_modelfile(packed, packed), SP_DTYPE_NONE, SP_DTYPE_NONE));
}

/* Packing an EAGLE-3 draft of a packed file again gives the same bytes. t2d is not stored, but must
 * not contradict d2t. */
TEST(eagle3_from_packed_file)
{
    struct handmade_options odd = varied;
    const char *packed = packed_handmade_eagle3(&varied, SP_Q8, SP_Q8);

    assert_same_file(packed,
                     packed_file(packed_modelfile(packed, packed), SP_DTYPE_NONE, SP_DTYPE_NONE));
    odd.marks_odd = true;
    assert_fails(create(handmade_eagle3_modelfile(&odd), SP_DTYPE_NONE, NULL), SP_E_INPUT,
                 "eagle3 t2d disagrees with d2t");
}

TEST(draft_record_replaces_head)
{
    static const char draft[] = "DRAFT " SHARED "/oracle/targets/qwen3\n";

    if (!golden_exists(SHARED "/oracle/targets/qwen3")) skip();
    assert_ok(create(handmade_modelfile(&varied, draft), SP_DTYPE_NONE, NULL));
    assert_non_null(
        strstr(warnings, "the draft that is named is used, and the built-in prediction head"));
}

/* A recurrent model as an autoregressive draft: its own target, so that every draft token is
 * accepted, or in q4, so that some are. Its state is rolled back exactly. */
TEST(recurrent_draft)
{
    static const enum sp_dtype types[] = {SP_DTYPE_NONE, SP_Q4};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *path =
            packed_file(handmade_modelfile(&varied, "DRAFT .\n"), SP_DTYPE_NONE, types[i]);
        struct sp_package *package = keep_package_with(path, NULL, 2);
        struct sp_session *session = open_session(package, 0);
        struct sp_result plain = generate_run(session, prompt, N_GIVEN, 61, PLAIN, true);
        assert_string_equal(sp_draft_kind_name(package->draft->config.draft.kind),
                            "autoregressive");
        for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= 14; draft_len++) {
            struct sp_result r = generate_run(session, prompt, N_GIVEN, 61, draft_len, true);
            generate_assert_same(&r, &plain);
            if (i == 0) assert_int_equal(r.accepted, r.drafted);
        }
    }
}

/* A model in mlx's storage format computes the same logits. */
TEST(mlx_storage_format)
{
    struct handmade_options how = varied;
    struct sp_result r[2];

    for (int i = 0; i < 2; i++) {
        how.converted = i == 1;
        const char *path = packed_handmade(&how, SP_DTYPE_NONE, SP_DTYPE_NONE);
        struct sp_package *package = keep_package_with(path, NULL, 1);
        if (how.converted) assert_null(package->draft);
        r[i] = generate_run(open_session(package, 0), prompt, N_GIVEN, N_TOKENS, PLAIN, true);
    }
    assert_int_equal(r[0].n_ids, r[1].n_ids);
    assert_memory_equal(r[0].ids, r[1].ids, r[1].n_ids * sizeof *r[1].ids);
}

CASES(rollback_oracle, "qwen3_5", "qwen3_5_moe", "qwen3_5_tied", "gemma3");
CASES(lossless_oracle, "mtp_qwen3_5", "mtp_qwen3_5_moe", "mtp_qwen3_5_wrapped", "eagle3_full_vocab",
      "eagle3_llama", "eagle3_midlayer", "eagle3_qwen3_before");
GROUP_FIXTURE(packed_setup, packed_teardown);
TEST_FIXTURE(NULL, scratch_teardown);
