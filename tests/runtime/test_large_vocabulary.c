/* Tests drafts with a vocabulary so large that their heads score a shortlist of it: a built-in
 * head, a language model and a block, on one process and on ranks. A repeated token that is not
 * among the frequent ones is drafted as soon as it has occurred in the text. */
#include "tests/support/generate_checks.h"
#include "tests/support/handmade_models.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

#include <sys/stat.h>

enum { N_VOCAB = 70000, N = 40, DRAFT_LEN = 4, N_ROUNDS = 8 };

/* In the part of the last of several ranks, and not among the frequent tokens. */
enum { FREQUENT_TOKEN = 32001, RARE_TOKEN = 50001 };

static const struct handmade_options target = {.mixing = 0.01f, .copies = true, .n_vocab = N_VOCAB};

static const char *make_file(const char *records)
{
    handmade_qwen3_5(scratch_folder(), &target);
    assert_int_equal(mkdir(scratch_path("draft"), 0777), 0);
    handmade_dspark(scratch_path("draft"), &(struct handmade_dspark){.markov = "vanilla",
                                                                     .rank = 64,
                                                                     .block_size = DRAFT_LEN,
                                                                     .n_vocab = N_VOCAB,
                                                                     .repeats = true});
    const char *path =
        packed_file(scratch_write("Modelfile", records, strlen(records)), SP_Q8, SP_Q4);
    scratch_remove();
    return path;
}

static struct generate_fixture open_ranks(const char *path, unsigned n_ranks)
{
    struct sp_package_options how = {
        .size = sizeof how, .n_threads = n_ranks > 1 ? 1 : 2, .n_ranks = n_ranks};
    struct sp_session_options options = {.size = sizeof options, .n_context = 200};
    struct generate_fixture g = {.package = keep_package(path, &how)};

    g.session = keep_session(g.package, &options);
    return g;
}

/* Every draft token is accepted but those of the first round if a rare token is not yet in the
 * text. */
static void check_token(const char *path, uint32_t token, unsigned n_ranks)
{
    struct generate_fixture g = open_ranks(path, n_ranks);
    size_t n_rejected = token == RARE_TOKEN ? DRAFT_LEN : 0;
    size_t n = 1 + N_ROUNDS * (DRAFT_LEN + 1) - n_rejected;
    uint32_t ids[N + 1];
    struct sp_result plain, r;

    for (uint32_t i = 0; i < N; i++)
        ids[i] = 100 + i;
    ids[N] = token;
    plain = generate_run(g.session, ids, N + 1, n, PLAIN, true);
    r = generate_run(g.session, ids, N + 1, n, DRAFT_LEN, true);
    generate_assert_same(&r, &plain);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(r.ids[i], token);
    assert_int_equal(r.n_rounds, N_ROUNDS);
    assert_int_equal(r.accepted, N_ROUNDS * DRAFT_LEN - n_rejected);
}

static void check(const char *records)
{
    const char *path = make_file(records);

    check_token(path, RARE_TOKEN, 1);
    check_token(path, FREQUENT_TOKEN, 1);
    check_token(path, RARE_TOKEN, 3);
    check_token(path, FREQUENT_TOKEN, 2);
}

static int count_missing(void *context, size_t row, const float *logits, size_t n_vocab)
{
    size_t *n_missing = context;

    (void)row;
    assert_int_equal(n_vocab, N_VOCAB);
    for (size_t i = 0; i < n_vocab; i++)
        *n_missing += logits[i] < -1e20f;
    return 0;
}

/* A draft's logits, which a caller asks for, are those of all tokens. */
TEST(draft_logits_are_whole)
{
    static const char *const records[] = {"FROM .\n", "FROM .\nDRAFT ./draft\n"};
    static const uint32_t ids[] = {100, 101, 102, 103};

    for (size_t k = 0; k < sizeof records / sizeof *records; k++) {
        struct sp_session_options options = {.size = sizeof options, .n_context = 200};
        struct generate_fixture g = generate_open(make_file(records[k]), NULL, 2, &options);
        size_t n_missing = 0;
        assert_ok(
            sp_session_draft_logits(g.session, ids, 4, DRAFT_LEN, count_missing, &n_missing, why));
        assert_int_equal(n_missing, 0);
    }
}

TEST(built_in_head)
{
    check("FROM .\n");
}

TEST(language_model)
{
    check("FROM .\nDRAFT .\n");
}

TEST(block)
{
    check("FROM .\nDRAFT ./draft\n");
}

GROUP_FIXTURE(packed_setup, packed_teardown);
