/* Tests conversations with recurrent models: a prompt that differs from the last one continues from
 * the nearest checkpoint of the state, and everything after it has the same bits as in a fresh
 * session. */
#include "runtime/sampling/chooser.h"
#include "tests/support/cache_digest.h"
#include "tests/support/handmade_models.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "runtime/session/session.h"

enum { N_CONTEXT = 256, N_TOKENS = 12, N_STEPS = 3, N_PROMPTS = 8 };

/* Makes ids whose first `common` elements equal those of `other`, while the next one differs. */
static void make_diverging_prompt(uint32_t *ids, const uint32_t *other, size_t common, size_t n,
                                  uint32_t seed, size_t n_vocab)
{
    memcpy(ids, other, common * sizeof *ids);
    generate_ids(ids + common, n - common, seed, n_vocab);
    ids[common] = (other[common] + 1) % (uint32_t)n_vocab;
}

static struct generate_fixture open_generating(const char *path)
{
    return generate_open(path, NULL, 1,
                         &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                                      .n_context = N_CONTEXT});
}

/* Checks that the draft proposes the same after a prompt and its response as in a fresh session. */
static void check_proposal(struct generate_fixture *used, struct generate_fixture *fresh,
                           const uint32_t *prompt, size_t n, const struct sp_result *r)
{
    const struct sp_model *draft = used->package->draft, *target = used->package->target;
    uint32_t ids[N_CONTEXT];

    memcpy(ids, prompt, n * sizeof *ids);
    memcpy(ids + n, r->ids, N_TOKENS * sizeof *ids);
    generate_assert_same_proposal(used->session, fresh->session, ids, n + N_TOKENS - 1, N_STEPS,
                                  draft->head.rows ? draft->head.rows : target->head.rows);
}

/* Checks that the session finds n_reused tokens of the prompt in its caches and responds as a fresh
 * one does. Comparing the caches changes them, because deferred draft tokens are then committed. */
static void check_prompt(struct generate_fixture *used, const char *path, const uint32_t *prompt,
                         size_t n, int draft_len, bool compare_caches, size_t n_reused)
{
    struct generate_fixture fresh = open_generating(path);
    struct sp_result r = generate_run(used->session, prompt, n, N_TOKENS, draft_len, true);
    struct sp_result want = generate_run(fresh.session, prompt, n, N_TOKENS, PLAIN, true);
    size_t len = n + N_TOKENS - 1;

    assert_int_equal(r.n_reused, n_reused);
    generate_assert_same(&r, &want);
    if (compare_caches) {
        assert_int_equal(decoder_digest(used->session->speculator->decoder, len),
                         decoder_digest(fresh.session->speculator->decoder, len));
    }
    if (compare_caches && used->package->draft) check_proposal(used, &fresh, prompt, n, &r);
}

/* Runs prompts with different common prefixes and checks how many tokens of each are reused. */
static void check_conversation(const char *path, int draft_len, bool compare_caches,
                               const size_t n_reused[N_PROMPTS])
{
    struct generate_fixture g = open_generating(path);
    size_t n_vocab = g.package->target->config.n_vocab;
    uint32_t first[100], second[220], third[140], early[90], late[240], last[235];

    generate_ids(first, 100, 1, n_vocab);
    make_diverging_prompt(second, first, 95, 220, 2, n_vocab);
    make_diverging_prompt(third, second, 120, 140, 3, n_vocab);
    make_diverging_prompt(early, first, 40, 90, 4, n_vocab);
    make_diverging_prompt(late, early, 89, 240, 5, n_vocab);
    make_diverging_prompt(last, late, 215, 235, 6, n_vocab);
    const struct {
        const uint32_t *ids;
        size_t n;
    } prompts[N_PROMPTS] = {
        {first, 100},  {second, 220}, /* differs before the end of the first */
        {second, 220},                /* repeated */
        {third, 140},                 /* differs before the checkpoint of the second */
        {early, 90},                  /* differs before the checkpoint of the first */
        {late, 240},                  /* differs after the new checkpoint */
        {last, 235},                  /* differs at the position of a checkpoint of the second */
        {first, 100},
    };

    for (size_t i = 0; i < N_PROMPTS; i++)
        check_prompt(&g, path, prompts[i].ids, prompts[i].n, draft_len, compare_caches,
                     n_reused[i]);
}

/* Reused tokens of recurrent models: checkpoints are 16 tokens before the end of a long prompt. */
static const size_t reused_from_checkpoints[N_PROMPTS] = {0, 84, 204, 84, 0, 74, 74, 0};

TEST(conversations)
{
    size_t n = 0;

    for (const char *const *name = golden_families(); *name; name++) {
        const char *path = packed_family(*name, SP_Q8);
        if (!sp_config_is_recurrent(&open_generating(path).package->target->config)) continue;
        print_message("%s\n", *name);
        check_conversation(path, PLAIN, true, reused_from_checkpoints);
        n++;
    }
    assert_true(n >= 8);
}

/* Drafts with the built-in head: rarely accepted, and always accepted. */
TEST(built_in_head)
{
    static const struct handmade_options ways[] = {{.mixing = 0.4f},
                                                   {.mixing = 0.01f, .copies = true}};

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *path = packed_handmade(&ways[i], SP_Q8, SP_Q8);
        check_conversation(path, 4, false, reused_from_checkpoints);
        check_conversation(path, 4, true, reused_from_checkpoints);
        check_conversation(path, SP_DRAFT_LENGTH_AUTO, false, reused_from_checkpoints);
    }
}

/* A greedy chooser that fails after `left` choices. */
struct failing_chooser {
    struct sp_chooser greedy;
    size_t left;
};

static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    const struct failing_chooser *f = state;

    return f->greedy.propose(f->greedy.state, id, confidence, logits, ids, pos, err);
}

static enum sp_status choose(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err)
{
    struct failing_chooser *f = state;

    if (f->left-- == 0) return sp_fail(err, SP_E_INPUT, "no choice");
    return f->greedy.choose(f->greedy.state, id, logits, ids, pos, draft_token, err);
}

struct emitted {
    uint32_t *ids;
    size_t n;
};

static int keep_id(void *context, uint32_t id, const struct sp_logits *logits, bool built_in_head)
{
    struct emitted *e = context;

    (void)logits;
    (void)built_in_head;
    e->ids[e->n++] = id;
    return 0;
}

/* Fails the choice n_right + 1 of a round, and continues with a prompt that begins with the tokens
 * emitted so far. */
static void check_failure(const char *path, size_t draft_len, size_t n_right)
{
    enum { N_PROMPT = 100, N_MORE = 5 };
    struct generate_fixture g = open_generating(path);
    struct sp_speculator *s = g.session->speculator;
    struct failing_chooser failing_chooser = {sp_greedy_chooser(g.package->backend.vector),
                                              n_right};
    const struct sp_chooser chooser = {
        .propose = propose, .choose = choose, .state = &failing_chooser};
    const struct sp_proposal proposal = {.chooser = &chooser};
    size_t n_vocab = g.package->target->config.n_vocab;
    uint32_t ids[N_CONTEXT];
    struct emitted emitted = {ids, N_PROMPT};
    struct sp_round round;

    generate_ids(ids, N_PROMPT, 1, n_vocab);
    struct sp_result r = generate_run(g.session, ids, N_PROMPT, N_TOKENS, (int)draft_len, true);
    for (size_t i = 0; i < r.n_ids; i++)
        ids[emitted.n++] = r.ids[i];
    sp_scheduler_acquire(s->scheduler);
    assert_int_equal(sp_speculator_round(s, draft_len, &proposal, keep_id, &emitted, &round, NULL),
                     SP_E_INPUT);
    sp_scheduler_release(s->scheduler);
    assert_int_equal(emitted.n, N_PROMPT + N_TOKENS + n_right);
    generate_ids(ids + emitted.n, N_MORE, 2, n_vocab);
    check_prompt(&g, path, ids, emitted.n + N_MORE, (int)draft_len, true, emitted.n);
}

TEST(failed_choices)
{
    const struct handmade_options copies = {.mixing = 0.01f, .copies = true};
    const char *path = packed_handmade(&copies, SP_Q8, SP_Q8);

    check_failure(packed_family("qwen3_next", SP_Q8), 0, 0);
    check_failure(path, 4, 0);
    check_failure(path, 4, 2);
}

static void check_attention_draft(const char *draft, const size_t n_reused[N_PROMPTS])
{
    check_conversation(packed_speculator(draft, SP_Q8, SP_Q8), 3, true, n_reused);
}

/* Without recurrent layers every common token is reused, as far back as the windows reach. */
TEST(block_draft)
{
    check_attention_draft("anchored", (const size_t[N_PROMPTS]){0, 95, 219, 120, 40, 89, 215, 0});
}

/* A draft that reads pairs processes one token more, because it needs the target's output for the
 * last common token. The caches of windows have a slot for every position here and reach back to
 * the start. */
TEST(draft_that_reads_pairs)
{
    check_attention_draft("peagle", (const size_t[N_PROMPTS]){0, 94, 218, 119, 39, 88, 214, 39});
}

GROUP_FIXTURE(packed_setup, packed_teardown);
