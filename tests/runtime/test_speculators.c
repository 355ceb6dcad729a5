/* Tests DFlash, DFlash2, DSpark and P-EAGLE drafts in the format of the speculators library: rounds
 * equal those of the library's model, and drafting is lossless. test_logits tests their logits. */
#include "format/base/bytes.h"
#include "format/safetensors.h"
#include "quantize/kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/create_files.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

enum { N_TOKENS = 90, N_PROMPT = 11 };

static const uint32_t prompt[N_PROMPT] = {90, 93, 0, 3, 6, 9, 12, 15, 18, 21, 24};

/* tests/oracle/speculators_*.py wrote the greedy response and the number of accepted draft tokens
 * of each round, up to the first nearly equal logits. */
static void golden_rounds(void **state)
{
    struct sp_session_options options = {.size = sizeof options, .cache = SP_CACHE_F32};
    const char *name = *state, *path = packed_speculator(name, SP_DTYPE_NONE, SP_DTYPE_NONE);
    struct generate_fixture o = generate_open(path, NULL, 2, &options);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    const struct sp_json *root =
        golden_json(keep_format(TESTDATA "/speculators/%s/golden.json", name));

    sp_package_describe(o.package, &info);
    assert_string_equal(info.draft, sp_json_get_text(root, "kind"));
    assert_int_equal(info.max_draft_len, 5);
    for (size_t i = 0; i < 3; i++) {
        size_t n, n_want, n_rounds;
        uint32_t *ids = golden_ids(sp_json_at(sp_json_get(root, "ids"), i), &n);
        uint32_t *want = golden_ids(sp_json_at(sp_json_get(root, "output"), i), &n_want);
        uint32_t *rounds = golden_ids(sp_json_at(sp_json_get(root, "rounds"), i), &n_rounds);
        struct sp_result r = generate_run(o.session, ids, n, 100, 5, true);
        assert_true(n_rounds >= 7 && r.n_rounds >= n_rounds && r.n_ids >= n_want);
        for (size_t k = 0; k < n_rounds; k++) {
            assert_int_equal(r.rounds[k].drafted, 5);
            assert_int_equal(r.rounds[k].accepted, rounds[k]);
        }
        assert_memory_equal(r.ids, want, n_want * sizeof *want);
    }
}

/* Seed 0 is greedy, and two other seeds sample. */
static struct sp_result answer(struct sp_session *session, uint64_t seed, int draft_len)
{
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = {ANSWER_TO(prompt, N_PROMPT, N_TOKENS), .ignore_eos = true,
                                 .digest = true, .draft_len = draft_len == PLAIN ? 0 : draft_len};

    sampling.seed = seed;
    sampling.temperature = .7f;
    sampling.top_k = seed == 2 ? 20 : 0;
    if (seed) request.sampling = &sampling;
    return keep_answer(session, &request);
}

/* Tests every draft length with every kernel set on one and two threads, spread over the seeds. */
static void check_file(const char *path)
{
    static const int depths[] = {PLAIN, 1, 3, 5, SP_DRAFT_LENGTH_AUTO};
    size_t place = 0;
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct generate_fixture o = generate_open(path, generate_reference, 1, &options);
    struct sp_result plain[3];

    for (uint64_t seed = 0; seed < 3; seed++) {
        plain[seed] = answer(o.session, seed, PLAIN);
        assert_int_equal(plain[seed].n_ids, N_TOKENS);
    }
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        size_t accepted = 0, mismatches = 0;
        for (unsigned threads = 1; threads <= 2; threads++) {
            options.rows_per_pass = threads == 1 ? 4 : 0;
            o = generate_open(path, (*k)->name, threads, &options);
            for (size_t i = 0; i < 3 * sizeof depths / sizeof *depths; i++) {
                /* Scalar kernels are slow, and the reference was computed with them. */
                if (*k == &sp_kernels_ref && depths[i / 3] != 5) continue;
                if (generate_threads(place + i % 3 + i / 3) != threads) continue;
                struct sp_result r = answer(o.session, i % 3, depths[i / 3]);
                generate_assert_same(&r, &plain[i % 3]);
                accepted += r.accepted;
                mismatches += r.mismatches;
            }
        }
        assert_true(*k == &sp_kernels_ref || (accepted > 50 && mismatches > 50));
        place++;
    }
}

static void lossless(void **state)
{
    check_file(packed_speculator(*state, SP_DTYPE_NONE, SP_DTYPE_NONE));
    check_file(packed_speculator(*state, SP_DTYPE_NONE, SP_Q8));
    check_file(packed_speculator(*state, SP_Q8, SP_Q4));
}

static void lossless_quantized(void **state)
{
    check_file(packed_speculator(*state, SP_Q8, SP_Q4));
}

/* Checks that the used session and a new one propose the same after ids[0..n-1] and the anchor
 * ids[n]. */
static void check_proposal(struct generate_fixture *used, const uint32_t *ids, size_t n,
                           size_t n_steps)
{
    generate_assert_same_proposal(used->session, keep_session(used->package, NULL), ids, n, n_steps,
                                  used->package->draft->head.rows);
}

/* After a response with any draft length, and after shorter and shorter prefixes of it with a
 * changed token at or near the end, a P-EAGLE draft proposes the same as with fresh caches. A draft
 * token does not depend on the requested number. */
static void rolled_back(void **state)
{
    static const size_t back[] = {0, 1, 4, 7, 30, N_TOKENS, N_TOKENS + 8};
    size_t n_wrong = 0;

    for (int draft_len = 1; draft_len <= 5; draft_len++) {
        struct generate_fixture used =
            generate_open(packed_speculator(*state, SP_Q8, SP_Q8), NULL, 1, NULL);
        uint32_t ids[N_PROMPT + N_TOKENS + 1] = {0};
        memcpy(ids, prompt, sizeof prompt);
        struct sp_result r = generate_run(used.session, ids, N_PROMPT, N_TOKENS, draft_len, true);
        n_wrong += r.mismatches;
        memcpy(ids + N_PROMPT, r.ids, N_TOKENS * sizeof *ids);
        for (size_t i = 0; i < sizeof back / sizeof *back; i++) {
            size_t n = N_PROMPT + N_TOKENS - back[i];
            ids[n] = (uint32_t)(40 + i);
            check_proposal(&used, ids, n, 5);
            ids[n - 2] = (uint32_t)(50 + i);
            check_proposal(&used, ids, n, 1 + i % 5);
        }
    }
    assert_true(n_wrong > 20);
}

static const char dflash_record[] =
    "{\"kind\":\"dflash\",\"block_size\":6,\"mask_token_id\":109,\"target_hidden_size\":64,"
    "\"num_target_layers\":0,\"target_layer_ids\":[-1,1,2],\"draft_vocab_size\":72,\"rope\":";
static const char peagle_record[] =
    "{\"kind\":\"peagle\",\"draft_vocab_size\":72,\"target_hidden_size\":64,\"block_size\":5,"
    "\"mask_token_id\":109,\"target_layer_ids\":[0,2],\"rope\":";

/* The pairing record of a packed file, and that packing its parts again drafts the same. */
static void pairing(void **state)
{
    const char *name = *state;
    const char *record = strcmp(name, "peagle") == 0 ? peagle_record : dflash_record;
    const char *path = packed_speculator(name, SP_DTYPE_NONE, SP_DTYPE_NONE);
    struct sp_result r[2];
    struct sp_text text;

    assert_ok(
        sp_pack_read_section(create_open(path), SP_PART_FILE, SP_SECTION_PAIRING, &text, why));
    assert_true(text.size > strlen(record));
    assert_memory_equal(text.at, record, strlen(record));
    free(text.at);
    for (int i = 0; i < 2; i++) {
        r[i] = answer(generate_open(path, NULL, 1, NULL).session, 0, 5);
        path = packed_file(packed_modelfile(path, path), SP_DTYPE_NONE, SP_DTYPE_NONE);
    }
    generate_assert_same(&r[1], &r[0]);
    assert_true(r[1].accepted > 5);
    assert_int_equal(r[1].accepted, r[0].accepted);
}

/* Writes a draft's checkpoint with a copy of the target's embedding. nearly: one bit of the copy
 * differs. */
static const char *copying_modelfile(const char *name, bool nearly)
{
    struct sp_safetensors *target = NULL;
    size_t size;
    char *text = scratch_read(keep_format(TESTDATA "/speculators/%s/config.json", name), &size);

    scratch_write("config.json", text, size);
    char *old =
        scratch_read(keep_format(TESTDATA "/speculators/%s/model.safetensors", name), &size);
    size_t n_header = (size_t)sp_get64((const uint8_t *)old), end = size - 8 - n_header;
    assert_ok(sp_safetensors_open(&target, TESTDATA "/speculators/target", NULL, why));
    const struct sp_safetensor *t = sp_safetensors_find(target, "model.embed_tokens.weight");
    assert_non_null(t);
    const char *entry = keep_format("{\"embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[112,"
                                    "64],\"data_offsets\":[%zu,%zu]},",
                                    end, end + (size_t)t->size);
    size_t n_entry = strlen(entry);
    char *new = keep(malloc(size + n_entry + t->size));
    assert_non_null(new);
    sp_put64((uint8_t *)new, n_header + n_entry - 1);
    memcpy(new + 8, entry, n_entry); /* replaces the first brace of the header */
    memcpy(new + 8 + n_entry, old + 9, size - 9);
    size += n_entry - 1;
    assert_ok(sp_safetensors_read(t, 0, t->size, new + size, why));
    size += t->size;
    if (nearly) new[size - 2] ^= 1;
    sp_safetensors_close(target);
    return packed_modelfile(TESTDATA "/speculators/target",
                            scratch_write("model.safetensors", new, size));
}

static bool stores_embedding(const char *path)
{
    return sp_pack_find(create_open(path), SP_PART_DRAFT, "embed_tokens.weight") != NULL;
}

/* A copy of the target's embedding is not stored, so the file equals that of the draft without it.
 * A different embedding is stored. */
TEST(shared_embedding)
{
    const char *shared = packed_file(copying_modelfile("pruned", false), SP_Q8, SP_DTYPE_NONE);

    assert_same_file(packed_speculator("pruned", SP_Q8, SP_DTYPE_NONE), shared);
    assert_false(stores_embedding(shared));
    assert_true(
        stores_embedding(packed_file(copying_modelfile("pruned", true), SP_Q8, SP_DTYPE_NONE)));
    assert_true(stores_embedding(packed_speculator("peagle", SP_DTYPE_NONE, SP_Q8)));
    assert_false(stores_embedding(packed_speculator("peagle_sliding", SP_DTYPE_NONE, SP_Q8)));
}

CASES(golden_rounds, "pruned", "anchored", "dflash2", "dflash2_anchored", "dspark",
      "dspark_anchored", "peagle", "peagle_sliding");
CASES(lossless, "pruned", "anchored", "dflash2", "dspark", "peagle");
CASES(lossless_quantized, "dflash2_anchored", "dspark_anchored", "peagle_sliding");
CASES(rolled_back, "peagle", "peagle_sliding");
CASES(pairing, "pruned", "peagle");
GROUP_FIXTURE(packed_setup, packed_teardown);
TEST_FIXTURE(NULL, scratch_teardown);
