/* Tests drafts with a vocabulary so large that their heads score a shortlist of it: a built-in
 * head, a language model and a block. The repeated token is not among the frequent ones; it is
 * drafted as soon as it has occurred in the text. */
#include "tests/support/generate_checks.h"
#include "tests/support/handmade_models.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <string.h>
#include <sys/stat.h>

enum { N_VOCAB = 70000, N = 40, DRAFT_LEN = 4, N_ROUNDS = 8, RARE_TOKEN = 50001 };

static const struct handmade_options target = {.mixing = 0.01f, .copies = true, .n_vocab = N_VOCAB};

static const char *make_file(const char *records)
{
    const char *modelfile, *path;

    handmade_qwen3_5(scratch_folder(), &target);
    assert_int_equal(mkdir(scratch_path("draft"), 0777), 0);
    handmade_dspark(scratch_path("draft"), &(struct handmade_dspark){.markov = "vanilla",
                                                                     .rank = 64,
                                                                     .block_size = DRAFT_LEN,
                                                                     .n_vocab = N_VOCAB,
                                                                     .repeats = true});
    modelfile = scratch_write("Modelfile", records, strlen(records));
    path = packed_file(modelfile, SP_Q8, SP_Q4);
    scratch_remove();
    return path;
}

/* Every draft token is accepted but those of the first round, before the token was in the text. */
static void check(const char *records)
{
    struct sp_session_options options = {.size = sizeof options, .n_context = 200};
    struct generate_fixture g = generate_open(make_file(records), NULL, 2, &options);
    size_t n = 2 + (N_ROUNDS - 1) * (DRAFT_LEN + 1);
    uint32_t ids[N + 1];
    struct sp_result plain, r;

    for (uint32_t i = 0; i < N; i++)
        ids[i] = 100 + i;
    ids[N] = RARE_TOKEN;
    plain = generate_run(g.session, ids, N + 1, n, PLAIN, true);
    r = generate_run(g.session, ids, N + 1, n, DRAFT_LEN, true);
    generate_assert_same(&r, &plain);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(r.ids[i], RARE_TOKEN);
    assert_int_equal(r.n_rounds, N_ROUNDS);
    assert_int_equal(r.accepted, (N_ROUNDS - 1) * DRAFT_LEN);
    sp_result_release(&plain);
    sp_result_release(&r);
    generate_close(&g);
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
static void draft_logits_are_whole(void **state)
{
    static const char *const records[] = {"FROM .\n", "FROM .\nDRAFT ./draft\n"};
    static const uint32_t ids[] = {100, 101, 102, 103};

    (void)state;
    for (size_t k = 0; k < sizeof records / sizeof *records; k++) {
        struct sp_session_options options = {.size = sizeof options, .n_context = 200};
        struct generate_fixture g = generate_open(make_file(records[k]), NULL, 2, &options);
        size_t n_missing = 0;
        struct sp_err err = {0};
        if (sp_session_draft_logits(g.session, ids, 4, DRAFT_LEN, count_missing, &n_missing, &err))
            fail_msg("%s", err.text);
        assert_int_equal(n_missing, 0);
        generate_close(&g);
    }
}

static void built_in_head(void **state)
{
    (void)state;
    check("FROM .\n");
}

static void language_model(void **state)
{
    (void)state;
    check("FROM .\nDRAFT .\n");
}

static void block(void **state)
{
    (void)state;
    check("FROM .\nDRAFT ./draft\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_head),
        cmocka_unit_test(language_model),
        cmocka_unit_test(block),
        cmocka_unit_test(draft_logits_are_whole),
    };

    return cmocka_run_group_tests(tests, packed_setup, packed_teardown);
}
