/* Tests lossless drafting: for every draft, draft length, number of threads and kernel set, tokens
 * and logit bits equal those of plain generation. The accepted lengths of rounds equal those of
 * z-lab's decoder. */
#include "quantize/kernels/kernels.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

#include <math.h>

/* ThreadSanitizer makes every memory access slow. A single thread cannot race, so two threads are
 * tested there. */
enum { LEAST_THREADS = RACES_ONLY ? 2 : 1 };

static const uint32_t story[] = {582, 580, 258, 421};
static const uint32_t question[] = {1597, 342, 10, 1091, 960, 32,   51,  281, 32,
                                    49,   53,  46, 1598, 10,  1597, 343, 10};

/* Checks the counts of a response that ended by its token budget: each emitted token is the
 * prompt's, an accepted draft token, or the last token of a round. */
static void assert_counts(const struct sp_result *r)
{
    size_t n = 1, drafted = 0, accepted = 0, all = 0, mismatches = 0, plain = 0;

    for (size_t i = 0; i < r->n_rounds; i++) {
        const struct sp_round_count *round = &r->rounds[i];
        n += round->accepted + 1u;
        drafted += round->drafted;
        accepted += round->accepted;
        plain += round->drafted == 0;
        all += round->drafted > 0 && round->accepted == round->drafted;
        mismatches += round->accepted < round->drafted;
    }
    assert_int_equal(r->n_ids, n);
    assert_int_equal(r->drafted, drafted);
    assert_int_equal(r->accepted, accepted);
    assert_int_equal(r->plain_rounds, plain);
    assert_int_equal(r->all_accepted, all);
    assert_int_equal(r->mismatches, mismatches);
}

/* A fixed draft length is used in full in every round. */
static void assert_draft_length(const struct sp_result *r, size_t draft_len)
{
    size_t left = r->n_ids - 1;

    for (size_t i = 0; i < r->n_rounds; i++) {
        size_t most = draft_len < left - 1 ? draft_len : left - 1;
        assert_int_equal(r->rounds[i].drafted, most);
        left -= r->rounds[i].accepted + 1u;
    }
    assert_int_equal(r->n_proposed, r->drafted);
}

/* Races can occur between two threads only. */
static bool is_thread_count_tested(unsigned threads, size_t place)
{
    return RACES_ONLY || threads == generate_threads(place);
}

/* Scalar kernels are slow, and the reference was computed with them, so each number of threads is
 * tested with one draft length. */
static bool is_tried(const struct sp_kernels *kernels, unsigned threads, int draft_len,
                     size_t place)
{
    if (kernels == &sp_kernels_ref) return draft_len == (threads == 1 ? 3 : 10);
    return is_thread_count_tested(threads, place + (size_t)(draft_len - PLAIN)) &&
           (!FEW_LENGTHS || draft_len == PLAIN || draft_len == SP_DRAFT_LENGTH_AUTO ||
            draft_len == 7 || draft_len == 15);
}

/* Compares all draft lengths, numbers of threads and kernel sets of one file with its plain scalar
 * run. place: index of the file, for generate_threads. */
static void check_file(const char *path, size_t place)
{
    enum { max_tokens = 40 };
    struct generate_fixture o = generate_open(path, generate_reference, 1, NULL);
    struct sp_result plain = generate_run(o.session, story, 4, max_tokens, PLAIN, true);
    struct sp_result asked = generate_run(o.session, question, 17, max_tokens, PLAIN, false);

    assert_int_equal(plain.n_ids, max_tokens);
    assert_int_equal(plain.n_rounds, max_tokens - 1);
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        for (unsigned threads = LEAST_THREADS; threads <= 2; threads++) {
            o = generate_open(path, (*k)->name, threads, NULL);
            for (int draft_len = PLAIN; draft_len <= 15; draft_len++) {
                if (!is_tried(*k, threads, draft_len, place)) continue;
                struct sp_result r = generate_run(o.session, story, 4, max_tokens, draft_len, true);
                generate_assert_same(&r, &plain);
                assert_counts(&r);
                if (draft_len > 0) assert_draft_length(&r, (size_t)draft_len);
                r = generate_run(o.session, question, 17, max_tokens, draft_len, false);
                generate_assert_same(&r, &asked);
            }
        }
        place++;
    }
}

TEST(dflash_q4)
{
    check_file(packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q4), 0);
}

TEST(types_dflash_q8)
{
    check_file(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_DTYPE_NONE), 1);
}

TEST(types_dflash_bf16)
{
    check_file(packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_Q8), 2);
}

TEST(autoregressive_q4)
{
    check_file(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q8), 0);
}

TEST(types_few_bits)
{
    check_file(packed_file(TESTDATA "/tiny/Modelfile", SP_Q6, SP_Q3), 0);
    check_file(packed_file(TESTDATA "/tiny/Modelfile", SP_Q3, SP_Q5), 1);
    check_file(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q5, SP_Q2), 2);
    check_file(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q2, SP_Q6), 0);
}

TEST(types_autoregressive_bf16)
{
    check_file(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_DTYPE_NONE, SP_DTYPE_NONE), 1);
}

/* Every round is planned anew: the 16th is a plain step to time one, and the others draft. */
TEST(rounds_are_planned)
{
    struct generate_fixture o =
        generate_open(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q8), NULL, 1, NULL);
    struct sp_result r = generate_run(o.session, story, 4, 160, SP_DRAFT_LENGTH_AUTO, true);
    size_t n_timed = 0;

    assert_true(r.n_rounds >= 20);
    for (size_t i = 0; i < 20; i++)
        n_timed += r.rounds[i].reason == SP_ROUND_MEASURE;
    assert_int_equal(n_timed, 1);
    assert_int_equal(r.rounds[15].reason, SP_ROUND_MEASURE);
}

/* The target drafts for itself: every draft token is accepted, and every round ends with a bonus
 * token. */
TEST(self_draft)
{
    const char *path = packed_file(
        packed_modelfile(TESTDATA "/tiny/target", TESTDATA "/tiny/target"), SP_Q8, SP_Q8);
    struct generate_fixture o = generate_open(path, NULL, 1, NULL);
    struct sp_result plain = generate_run(o.session, story, 4, 61, PLAIN, true);
    struct sp_result r = generate_run(o.session, story, 4, 61, 5, true);

    generate_assert_same(&r, &plain);
    assert_int_equal(r.n_rounds, 10);
    assert_int_equal(r.accepted, r.drafted);
    assert_int_equal(r.all_accepted, 10);
    assert_int_equal(r.mismatches, 0);
}

/* Drafts by n-gram lookup, alone and combined with the file's draft. A repetitive text has accepted
 * draft tokens and does not change. */
static void check_lookup(const char *path, enum sp_draft_by by, const char *name, size_t place)
{
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture o = generate_open(path, generate_reference, 1, &options);
    uint32_t prompt[60];
    size_t most;

    for (size_t i = 0; i < 60; i++)
        prompt[i] = question[i % 17];
    struct sp_result plain = generate_run(o.session, prompt, 60, 50, PLAIN, true);
    assert_string_equal(sp_package_draft_name(o.package, by, &most), name);
    assert_int_equal(most, 15);
    options.draft_by = by;
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        for (unsigned threads = LEAST_THREADS; threads <= 2; threads++) {
            o = generate_open(path, (*k)->name, threads, &options);
            for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= 15;
                 draft_len += 8) { /* auto, 7, 15 */
                bool scalar = *k == &sp_kernels_ref;
                if (scalar && draft_len != (threads == 1 ? 7 : 15)) continue;
                if (!scalar && !is_thread_count_tested(
                                   threads, place + (size_t)(draft_len - SP_DRAFT_LENGTH_AUTO) / 8))
                    continue;
                struct sp_result r = generate_run(o.session, prompt, 60, 50, draft_len, true);
                generate_assert_same(&r, &plain);
                assert_counts(&r);
                if (draft_len > 0) {
                    assert_true(r.ngram_accepted > 0 && r.ngram_accepted <= r.ngram_drafted);
                    assert_true(r.n_rounds < plain.n_rounds);
                }
                if (by == SP_DRAFT_BY_NGRAM) {
                    assert_int_equal(r.ngram_drafted, r.drafted);
                    assert_int_equal(r.ngram_accepted, r.accepted);
                }
            }
        }
        place++;
    }
}

TEST(ngram)
{
    const char *pair = packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q8);

    check_lookup(packed_alone(TESTDATA "/tiny/target", SP_Q4), SP_DRAFT_BY_DEFAULT, "lookup", 0);
    check_lookup(pair, SP_DRAFT_BY_NGRAM, "lookup", 1);
    check_lookup(pair, SP_DRAFT_BY_BOTH, "lookup and dflash", 2);
}

/* By default n-grams help a draft model, but not with a given draft length. */
TEST(default_of_a_pair)
{
    const char *pair = packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q8);
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture o = generate_open(pair, NULL, 1, &options);
    struct sp_result plain, given, automatic;
    uint32_t prompt[340];

    for (size_t i = 0; i < 340; i++)
        prompt[i] = question[i % 17];
    plain = generate_run(o.session, prompt, 340, 100, PLAIN, true);
    options.draft_by = SP_DRAFT_BY_DEFAULT;
    o = generate_open(pair, NULL, 1, &options);
    given = generate_run(o.session, prompt, 340, 100, 7, true);
    generate_assert_same(&given, &plain);
    assert_true(given.drafted > 0);
    assert_int_equal(given.ngram_drafted, 0);
    automatic = generate_run(o.session, prompt, 340, 100, SP_DRAFT_LENGTH_AUTO, true);
    generate_assert_same(&automatic, &plain);
}

/* The source of the draft tokens depends on the file and the option. */
TEST(draft_by)
{
    struct sp_package *plain = keep_package(packed_alone(TESTDATA "/tiny/target", SP_Q4), NULL);
    struct sp_package *pair =
        keep_package(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q8), NULL);
    size_t most;

    assert_null(sp_package_draft_name(plain, SP_DRAFT_BY_MODEL, &most));
    assert_int_equal(most, 0);
    assert_string_equal(sp_package_draft_name(plain, SP_DRAFT_BY_BOTH, &most), "lookup");
    assert_string_equal(sp_package_draft_name(pair, SP_DRAFT_BY_DEFAULT, &most), "autoregressive");
    assert_string_equal(sp_package_draft_name(pair, SP_DRAFT_BY_NGRAM, &most), "lookup");
    assert_int_equal(most, 15);
}

/* Token budgets, contexts and prompts at their limits give the same tokens as the plain run. */
TEST(budgets_and_contexts_at_their_limits)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_session_options options = {.size = sizeof options, .n_context = 40};
    struct generate_fixture o = generate_open(path, NULL, 2, &options);

    for (size_t budget = 1; budget <= 20; budget++) {
        struct sp_result plain = generate_run(o.session, story, 4, budget, PLAIN, true);
        struct sp_result r = generate_run(o.session, story, 4, budget, 15, true);
        assert_int_equal(plain.n_ids, budget);
        assert_int_equal(plain.stop, SP_STOP_LENGTH);
        generate_assert_same(&r, &plain);
    }
    for (size_t n = 1; n <= 4; n++) {
        struct sp_result plain = generate_run(o.session, story, n, 0, PLAIN, true);
        struct sp_result r = generate_run(o.session, story, n, 0, 15, true);
        assert_int_equal(plain.stop, SP_STOP_CONTEXT);
        assert_int_equal(plain.n_ids, 40 - n + 1);
        generate_assert_same(&r, &plain);
    }
}

/* The response depends neither on the prompt chunk size nor on the session's earlier use. */
TEST(chunks_and_reuse)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q8);
    uint32_t prompt[200];
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct generate_fixture o = generate_open(path, NULL, 1, &options);

    for (size_t i = 0; i < 200; i++)
        prompt[i] = story[i % 4] + (uint32_t)(i / 4 % 7);
    struct sp_result want = generate_run(o.session, prompt, 200, 30, PLAIN, true);
    for (size_t rows = 1; rows <= 256; rows = rows * 3 + 1) {
        options.rows_per_pass = rows;
        o = generate_open(path, NULL, 2, &options);
        for (size_t first = 0; first < 200; first += 67)
            generate_run(o.session, prompt + first, 200 - first, 20, 7, true);
        generate_run(o.session, prompt, 150, 20, 7, true);
        struct sp_result r = generate_run(o.session, prompt, 200, 30, 7, true);
        generate_assert_same(&r, &want);
        assert_true(r.n_reused >= 150);
    }
}

static int record_progress(void *context, size_t done, size_t total)
{
    size_t *passes = context;

    assert_int_equal(total, 11);
    assert_int_equal(done, 3 * *passes);
    ++*passes;
    return 0;
}

/* Returns the number of passes for a prompt of 11 tokens. */
static size_t count_passes(size_t rows_per_pass)
{
    struct sp_session_options options = {.size = sizeof options, .rows_per_pass = rows_per_pass};
    struct generate_fixture o =
        generate_open(packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q8), NULL, 1, &options);
    size_t passes = 0;
    uint32_t prompt[11];
    struct sp_request request = {ANSWER_TO(prompt, 11, 1), .context = &passes,
                                 .prompt_progress = record_progress};

    for (size_t i = 0; i < 11; i++)
        prompt[i] = story[i % 4];
    keep_answer(o.session, &request);
    return passes;
}

/* A prompt pass has the requested number of rows, also if a block has more. A number larger than
 * the context needs no additional memory. */
TEST(rows_per_pass)
{
    assert_int_equal(count_passes(3), 4);
    assert_int_equal(count_passes(SIZE_MAX), 1);
}

/* Invalid requests are refused with a message. */
TEST(invalid_requests_are_refused)
{
    /* The second prompt would end a response inside a character. */
    static const char *const stops[] = {"x", ""}, *const bytes[] = {"x", "\xA9"};
    static const struct sp_simulation low = {-.1, 1}, high = {1.1, 1}, none = {NAN, 1};
    static const struct {
        struct sp_request request;
        const char *error;
    } cases[] = {
        {{.draft_len = -2}, "draft depth -2: expected 0 or more, or auto"},
        {{.stops = stops, .n_stops = 2}, "a stop text is empty"},
        {{.stops = bytes, .n_stops = 2}, "a stop text is not valid UTF-8"},
        {{.simulation = &low}, "simulated acceptance -0.1: expected 0..1"},
        {{.simulation = &high}, "simulated acceptance 1.1: expected 0..1"},
        {{.simulation = &none}, "simulated acceptance nan: expected 0..1"},
    };
    struct generate_fixture o =
        generate_open(packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q8), NULL, 1, NULL);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_request request = cases[i].request;
        struct sp_result result = SP_RESULT_INIT;
        request.size = sizeof request;
        request.prompt = story;
        request.n_prompt = 4;
        request.max_tokens = 1;
        assert_fails_as(sp_session_generate(o.session, &request, &result, why), SP_E_USAGE,
                        cases[i].error);
    }
}

/* Tests cache types other than f16, with a prompt longer than a span: plain decoding on one thread
 * with scalar kernels against other threads, kernel sets, draft lengths, prompt chunk sizes. */
static void check_cache(enum sp_cache_type cache, size_t place)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q8);
    struct sp_session_options options = {.size = sizeof options, .cache = cache};
    struct generate_fixture o = generate_open(path, generate_reference, 1, &options);
    uint32_t prompt[270];

    for (size_t i = 0; i < 270; i++)
        prompt[i] = story[i % 4] + (uint32_t)(i / 4 % 7);
    struct sp_result want = generate_run(o.session, prompt, 270, 30, PLAIN, true);
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        for (unsigned threads = LEAST_THREADS; threads <= 2; threads++) {
            options.rows_per_pass = threads == 1 ? 0 : 37;
            o = generate_open(path, (*k)->name, threads, &options);
            int step = *k == &sp_kernels_ref ? 9 : 6;
            for (int draft_len = PLAIN + RACES_ONLY * step; draft_len <= 15; draft_len += step) {
                if (!is_thread_count_tested(threads, place + (size_t)((draft_len - PLAIN) / step)))
                    continue;
                struct sp_result r = generate_run(o.session, prompt, 270, 30, draft_len, true);
                generate_assert_same(&r, &want);
                /* so that no token is reused */
                r = generate_run(o.session, prompt, 11, 9, draft_len, true);
            }
        }
        place++;
    }
}

TEST(q8_caches)
{
    check_cache(SP_CACHE_Q8, 0);
}

TEST(q4_caches)
{
    check_cache(SP_CACHE_Q4, 0);
}

TEST(f32_caches)
{
    check_cache(SP_CACHE_F32, 1);
}

/* ../shared/models/tiny/README.md: rounds of z-lab's decoder at block 16, with bf16 weights in
 * float32 arithmetic. Rounds are compared while a whole block of budget remains and the deciding
 * logits are not nearly equal. */
TEST(golden_rounds)
{
    struct sp_json *root = golden_json(TESTDATA "/tiny/golden_dflash.json");
    struct sp_session_options options = {.size = sizeof options, .cache = SP_CACHE_F32};
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_DTYPE_NONE);
    struct generate_fixture o = generate_open(path, NULL, 2, &options);
    size_t compared = 0;

    assert_true(sp_json_len(root) >= 12);
    for (size_t i = 0; i < sp_json_len(root); i++) {
        const struct sp_json *c = sp_json_at(root, i), *rounds = sp_json_get(c, "rounds");
        size_t n, n_want, emitted = 1;
        uint32_t *ids = golden_ids(sp_json_get(c, "ids"), &n);
        uint32_t *want = golden_ids(sp_json_get(c, "output"), &n_want);
        struct sp_result r = generate_run(o.session, ids, n, 128, 15, true);
        for (size_t k = 0; k < r.n_rounds && k < sp_json_len(rounds) && emitted + 16 <= 128; k++) {
            const struct sp_json *round = sp_json_at(rounds, k);
            double gap = 0;
            int64_t accepted = -1;
            assert_true(sp_json_to_double(sp_json_get(round, "gap"), &gap));
            assert_true(sp_json_to_i64(sp_json_get(round, "accepted"), &accepted));
            if (gap < 1e-3) break;
            assert_int_equal(r.rounds[k].drafted, 15);
            assert_int_equal(r.rounds[k].accepted, accepted);
            emitted += (size_t)accepted + 1;
            assert_memory_equal(r.ids, want, (emitted < n_want ? emitted : n_want) * sizeof *want);
            compared++;
        }
    }
    assert_true(compared > 100);
}

/* Coupled sampling with any draft gives the text of undrafted sampling with the same seed. */
TEST(sampled)
{
    const char *const files[] = {
        packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q4),
        packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q8, SP_Q8),
    };
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = {ANSWER_TO(story, 4, 150), .ignore_eos = true, .digest = true,
                                 .sampling = &sampling};

    for (sampling.seed = 1; sampling.seed <= 4; sampling.seed++) {
        struct generate_fixture o = generate_open(files[0], NULL, 1, &options);
        sampling.temperature = .5f + .25f * (float)sampling.seed;
        sampling.top_k = sampling.seed % 2 ? 40 : 0;
        sampling.top_p = sampling.seed % 3 ? .95f : 1;
        sampling.repeat_penalty = sampling.seed == 4 ? 1.2f : 1;
        request.draft_len = 0;
        struct sp_result plain = keep_answer(o.session, &request);
        for (size_t file = 0; file < 3; file++) {
            options.draft_by = file == 2 ? SP_DRAFT_BY_BOTH : SP_DRAFT_BY_DEFAULT;
            o = generate_open(files[file % 2], NULL, 2, &options);
            for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= 15;
                 draft_len += FEW_LENGTHS ? 8 : 4) {
                request.draft_len = draft_len;
                struct sp_result r = keep_answer(o.session, &request);
                generate_assert_same(&r, &plain);
                if (draft_len > 0) assert_true(r.accepted > 10);
            }
        }
        options.draft_by = SP_DRAFT_BY_DEFAULT;
    }
}

/* What the callbacks received. at: positions of the special tokens in the text. */
struct received {
    uint32_t special;
    char text[4096];
    size_t size;
    size_t at[64], n_at;
    size_t n_calls, last_call; /* the callback with number last_call cancels; 0: none */
};

static int is_last(struct received *received)
{
    assert_true(received->last_call == 0 || received->n_calls < received->last_call);
    return ++received->n_calls == received->last_call;
}

static int keep_text(void *context, const char *text, size_t size, bool drafted)
{
    struct received *received = context;

    (void)drafted;
    assert_true(received->size + size <= sizeof received->text);
    memcpy(received->text + received->size, text, size);
    received->size += size;
    return is_last(received);
}

static int keep_special(void *context, uint32_t id)
{
    struct received *received = context;

    assert_int_equal(id, received->special);
    assert_true(received->n_at < sizeof received->at / sizeof *received->at);
    received->at[received->n_at++] = received->size;
    return is_last(received);
}

/* Each callback can cancel. It is then the last call, and the text so far is a prefix of the
 * complete text. */
static void check_cancelled(struct sp_session *session, struct sp_request *request,
                            const struct received *all)
{
    assert_true(all->n_calls > 40);
    for (size_t last = 1; last <= 40; last++) {
        struct received received = {.special = all->special, .last_call = last};

        request->context = &received;
        struct sp_result r = keep_answer(session, request);
        assert_int_equal(received.n_calls, last);
        assert_int_equal(r.stop, SP_STOP_CANCELLED);
        assert_memory_equal(received.text, all->text, received.size);
        assert_memory_equal(received.at, all->at, received.n_at * sizeof *received.at);
        assert_true(r.text_size >= received.size);
    }
}

/* The end token comes where it would, or after min_tokens tokens, with any draft. What is chosen
 * before the natural end is the same. */
TEST(min_tokens)
{
    static const int lengths[] = {0, 5, SP_DRAFT_LENGTH_AUTO};
    struct sp_sampling hot = SP_SAMPLING_INIT;
    struct generate_fixture o =
        generate_open(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q4), NULL, 1, NULL);
    const struct sp_sampling *const samplings[] = {NULL, &hot};
    const uint32_t stop = 258; /* one more end token */

    hot.temperature = 1.5f;
    hot.seed = 7;
    for (size_t k = 0; k < 2; k++) {
        struct sp_request request = {ANSWER_TO(question, 17, 200), .end_ids = &stop, .n_end_ids = 1,
                                     .digest = true, .sampling = samplings[k]};
        struct sp_result natural = keep_answer(o.session, &request), first = SP_RESULT_INIT;
        const uint32_t end = natural.ids[natural.n_ids - 1];

        assert_int_equal(natural.stop, SP_STOP_EOS);
        request.min_tokens = natural.n_ids - 1;
        first = keep_answer(o.session, &request);
        generate_assert_same(&natural, &first);
        request.min_tokens = natural.n_ids + 20;
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            request.draft_len = lengths[i];
            struct sp_result r = keep_answer(o.session, &request);
            assert_true(r.n_ids > natural.n_ids + 20 || r.stop != SP_STOP_EOS);
            assert_memory_equal(r.ids, natural.ids, (natural.n_ids - 1) * sizeof *r.ids);
            for (size_t t = 0; t < request.min_tokens; t++)
                assert_true(r.ids[t] != end && r.ids[t] != stop);
            if (i == 0) first = r;
            generate_assert_same(&first, &r);
        }
    }
}

static int keep_whether_drafted(void *context, const struct sp_token *token)
{
    *(bool *)context = token->drafted;
    return 0;
}

/* No token is drafted after one that ends the answer by the request. */
TEST(drafts_end_with_the_answer)
{
    struct generate_fixture o =
        generate_open(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q4), NULL, 1, NULL);
    bool drafted;
    struct sp_request request = {ANSWER_TO(story, 4, 60), .ignore_eos = true, .draft_len = 5,
                                 .token = keep_whether_drafted, .context = &drafted};
    struct sp_result natural = keep_answer(o.session, &request);
    size_t n = 0;

    request.n_end_ids = 1;
    for (size_t i = 1; i < natural.n_ids; i++) {
        request.end_ids = &natural.ids[i];
        struct sp_result r = keep_answer(o.session, &request);
        assert_int_equal(r.stop, SP_STOP_EOS);
        if (!drafted) continue;
        assert_int_equal(r.rounds[r.n_rounds - 1].drafted, r.rounds[r.n_rounds - 1].accepted);
        n++;
    }
    assert_true(n > 20);
}

/* A special token is reported at its position in the text, while a stop text may hold text back.
 * The position is the length of the decoded ids before it, and the text does not change. */
TEST(special_tokens)
{
    static const char *const stops[] = {"e~", " the~"};
    const struct sp_logit_bias bias = {question[0], 9};
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct generate_fixture o =
        generate_open(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q4), NULL, 1, NULL);
    struct received received = {.special = bias.id};
    struct sp_request request = {ANSWER_TO(story, 4, 120),
                                 .ignore_eos = true,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO,
                                 .sampling = &sampling,
                                 .stops = stops,
                                 .n_stops = 2,
                                 .special_ids = &received.special,
                                 .n_special_ids = 1,
                                 .context = &received,
                                 .text = keep_text,
                                 .special = keep_special};
    size_t n = 0;

    sampling.temperature = 1;
    sampling.biases = &bias;
    sampling.n_biases = 1;
    struct sp_result r = keep_answer(o.session, &request);
    for (size_t i = 0; i < r.n_ids; i++) {
        char *before = NULL;
        size_t size;

        if (r.ids[i] != received.special) continue;
        assert_ok(sp_tokenizer_decode(sp_package_tokenizer(o.package), r.ids, i, true, &before,
                                      &size, NULL));
        assert_true(n < received.n_at);
        assert_int_equal(received.at[n++], size);
        assert_memory_equal(received.text, before, size);
        free(before);
    }
    assert_int_equal(n, received.n_at);
    assert_true(n > 5 && n < r.n_ids / 2);
    assert_int_equal(received.size, r.text_size);
    assert_memory_equal(received.text, r.text, r.text_size);
    check_cancelled(o.session, &request, &received);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
