/* Tests the sampler: each transform against cases computed by hand, slots, and distributions by
 * chi-square, plain and with each kind of drafting. The same test must reject a deliberately broken
 * sampler. */
#include "runtime/sampling/logit_transforms.h"
#include "quantize/kernels/kernels.h"
#include "runtime/sampling/chooser.h"
#include "runtime/sampling/sampling_chooser.h"
#include "tests/support/unit_test.h"

#include <math.h>

static struct sp_sampling defaults(void)
{
    struct sp_sampling s = SP_SAMPLING_INIT;

    return s;
}

static const struct sp_vector *vector(void)
{
    return sp_vector_find("scalar");
}

/* Returns the distribution of a row with a history; released by the caller. */
static struct sp_distribution distribution(const struct sp_sampling *s, const float *logits,
                                           size_t n, const uint32_t *history, size_t n_history)
{
    struct sp_distribution d = {0};
    struct sp_sampler_scratch *scratch = NULL;
    struct sp_history h = {.older = history, .n_older = n_history};
    struct sp_logits row = sp_logits_of(vector(), logits, n);

    assert_ok(sp_sampler_scratch_new(&scratch, n, vector(), NULL, why));
    assert_ok(sp_sampler_distribution(&d, scratch, s, &row, &h, 7, why));
    sp_sampler_scratch_free(scratch);
    return d;
}

static void assert_distribution(const struct sp_sampling *s, const float *logits, size_t n,
                                const uint32_t *history, size_t n_history, const double *want)
{
    struct sp_distribution d = distribution(s, logits, n, history, n_history);
    size_t n_want = 0;

    for (size_t i = 0; i < n; i++) {
        double p = sp_distribution_at(&d, (uint32_t)i);
        n_want += want[i] > 0;
        if (!(fabs(p - want[i]) < 1e-6)) fail_msg("p(%zu) = %.9f, expected %.9f", i, p, want[i]);
    }
    assert_int_equal(d.n, n_want);
    sp_distribution_release(&d);
}

/* Natural logarithms of 8, 4, 2, 1, 1: probabilities 1/2, 1/4, 1/8, 1/16, 1/16. */
static const float halves[5] = {2.0794415416798357f, 1.3862943611198906f, 0.6931471805599453f, 0,
                                0};

/* Several threads share the exponentials of a vocabulary whose parts are long enough. */
TEST(large_vocabulary_by_threads)
{
    enum { N = 20011 };
    static float logits[N];
    struct sp_sampling s = defaults();
    struct sp_logits row = sp_logits_of(vector(), logits, N);
    double sum = 0;

    s.temperature = 0.5F;
    s.top_k = 0;
    s.top_p = 1;
    s.min_p = 0;
    for (size_t i = 0; i < N; i++) {
        logits[i] = logf(1 + (float)(i % 7));
        sum += (double)((1 + i % 7) * (1 + i % 7));
    }
    for (unsigned n_threads = 1; n_threads <= 3; n_threads++) {
        struct sp_distribution d = {0};
        struct sp_sampler_scratch *scratch = NULL;
        struct sp_pool *pool = NULL;
        assert_ok(sp_pool_open(&pool, n_threads, why));
        assert_ok(sp_sampler_scratch_new(&scratch, N, vector(), pool, why));
        assert_ok(sp_sampler_distribution(&d, scratch, &s, &row, &(struct sp_history){0}, 7, why));
        for (uint32_t i = 0; i < N; i++)
            assert_true(
                fabs(sp_distribution_at(&d, i) * sum - (double)((1 + i % 7) * (1 + i % 7))) < 1e-4);
        sp_distribution_release(&d);
        sp_sampler_scratch_free(scratch);
        sp_pool_close(pool);
    }
}

TEST(temperatures)
{
    struct sp_sampling s = defaults();

    assert_distribution(&s, halves, 5, NULL, 0, (double[]){1, 0, 0, 0, 0});
    s.temperature = 1;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){.5, .25, .125, .0625, .0625});
    /* Halving the temperature squares the weights: 64 16 4 1 1. */
    s.temperature = .5f;
    assert_distribution(&s, halves, 5, NULL, 0,
                        (double[]){64. / 86, 16. / 86, 4. / 86, 1. / 86, 1. / 86});
}

TEST(ties_take_the_lowest_id)
{
    struct sp_sampling s = defaults();

    assert_distribution(&s, (float[]){1, 3, 3, 2}, 4, NULL, 0, (double[]){0, 1, 0, 0});
    s.temperature = 1;
    s.top_k = 2;
    assert_distribution(&s, (float[]){1, 1, 1, 1}, 4, NULL, 0, (double[]){.5, .5, 0, 0});
}

TEST(truncations)
{
    struct sp_sampling s = defaults();

    s.temperature = 1;
    s.top_k = 3;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){4. / 7, 2. / 7, 1. / 7, 0, 0});
    s.top_k = 0;
    /* The cumulative probability before the third token is .75: with top_p .76 the token is kept,
     * with .75 it is not. */
    s.top_p = .76f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){4. / 7, 2. / 7, 1. / 7, 0, 0});
    s.top_p = .75f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){2. / 3, 1. / 3, 0, 0, 0});
    s.top_p = 1e-6f; /* the best token is always kept */
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){1, 0, 0, 0, 0});
    s.top_p = 0;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){1, 0, 0, 0, 0});
    s.top_p = 1;
    s.min_p = .2f; /* the limit is a fifth of .5, which is .1 */
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){4. / 7, 2. / 7, 1. / 7, 0, 0});
    s.min_p = 0;
    /* The entropy is 1.875 bits. The surprisals 1 2 3 4 4 differ from it by .875 .125 1.125 2.125
     * 2.125, so the second token comes first, then the first. */
    s.typical_p = .2f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){0, 1, 0, 0, 0});
    s.typical_p = 0;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){0, 1, 0, 0, 0});
    s.typical_p = .3f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){2. / 3, 1. / 3, 0, 0, 0});
}

/* top-k precedes softmax, top-p uses what top-k keeps, and min-p uses what top-p keeps. */
TEST(order_of_truncations)
{
    struct sp_sampling s = defaults();

    s.temperature = 1;
    s.top_k = 2; /* 2/3, 1/3: the cumulative probability before the second token is .667 */
    s.top_p = .6f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){1, 0, 0, 0, 0});
    s.top_p = .7f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){2. / 3, 1. / 3, 0, 0, 0});
    s.min_p = .6f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){1, 0, 0, 0, 0});
    s = defaults();
    s.temperature = 1;
    s.typical_p = .2f; /* only the second token is kept, which the other truncations then see */
    s.top_p = 0;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){0, 1, 0, 0, 0});
    s.top_p = .5f;
    s.min_p = .9f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){0, 1, 0, 0, 0});
    s.min_p = 0;
    s.typical_p = .8f; /* second, first, third: 2/7, 4/7, 1/7 of the kept probability */
    s.top_p = .86f;
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){4. / 7, 2. / 7, 1. / 7, 0, 0});
    s.top_p = .85f; /* the cumulative probability before the third token is 6/7 */
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){2. / 3, 1. / 3, 0, 0, 0});
    s.top_p = .57f; /* before the second token it is 4/7 */
    assert_distribution(&s, halves, 5, NULL, 0, (double[]){1, 0, 0, 0, 0});
}

/* top-p keeps one token, also if the sum of equal probabilities is rounded up. */
TEST(top_p_of_equals)
{
    struct sp_sampling s = defaults();
    float logits[1000] = {0};

    s.temperature = 1;
    s.top_p = 0;
    s.typical_p = .999f;
    for (size_t n = 1; n <= 1000; n++) {
        struct sp_distribution d = distribution(&s, logits, n, NULL, 0);
        assert_int_equal(d.n, 1);
        assert_int_equal(d.ids[0], 0);
        sp_distribution_release(&d);
    }
}

TEST(penalties)
{
    struct sp_sampling s = defaults();
    const uint32_t history[] = {0, 2, 0};
    const float logits[] = {2, 1, -1};

    s.temperature = 1;
    s.repeat_penalty = 2; /* 2 -> 1, -1 -> -2 */
    assert_distribution(&s, logits, 3, history, 3,
                        (double[]){0.4878555511603684, 0.4878555511603684, 0.024288897679263180});
    s.repeat_penalty = 1;
    s.presence_penalty = 1; /* 2 -> 1, -1 -> -2 once each */
    assert_distribution(&s, logits, 3, history, 3,
                        (double[]){0.4878555511603684, 0.4878555511603684, 0.024288897679263180});
    s.presence_penalty = 0;
    s.frequency_penalty = .5f; /* twice: 2 -> 1; once: -1 -> -1.5 */
    assert_distribution(&s, logits, 3, history, 3,
                        (double[]){0.4802877888, 0.4802877888, 0.0394244225});
    s.temperature = 0; /* penalties precede the choice of the largest logit */
    s.frequency_penalty = .75f;
    assert_distribution(&s, logits, 3, history, 3, (double[]){0, 1, 0});
    s.repeat_last_n = 0; /* the penalty is disabled */
    assert_distribution(&s, logits, 3, history, 3, (double[]){1, 0, 0});
}

TEST(biases)
{
    struct sp_sampling s = defaults();
    const struct sp_logit_bias bias[] = {{4, 2.0794415416798357f}, {0, -2.0794415416798357f}};

    s.temperature = 1;
    s.biases = bias;
    s.n_biases = 2; /* weights 1 4 2 1 8 */
    assert_distribution(&s, halves, 5, NULL, 0,
                        (double[]){1. / 16, 4. / 16, 2. / 16, 1. / 16, 8. / 16});
}

TEST(refusals)
{
    struct sp_sampling s = defaults();
    const struct sp_logit_bias bias[] = {{9, 1}};

    s.top_p = 1.5f;
    assert_fails_as(sp_sampling_check(&s, 5, why), SP_E_USAGE, "top_p is 1.5, expected 0 to 1");
    s = defaults();
    s.temperature = -1;
    assert_fails_as(sp_sampling_check(&s, 5, why), SP_E_USAGE,
                    "temperature is -1, expected 0 to 100");
    s = (struct sp_sampling){.size = sizeof(struct sp_sampling), .top_p = 1, .typical_p = 1};
    assert_fails_as(sp_sampling_check(&s, 5, why), SP_E_USAGE,
                    "repeat_penalty is 0, expected 0.01 to 100");
    s = defaults();
    s.biases = bias;
    s.n_biases = 1;
    assert_fails_as(sp_sampling_check(&s, 5, why), SP_E_USAGE,
                    "logit_bias: token ID 9: the vocabulary has 5 tokens");
}

TEST(non_finite_logits)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < 3; i++) {
        struct sp_sampling s = defaults();
        struct sp_sampler_scratch *scratch = NULL;
        struct sp_distribution d = {0};
        const float logits[] = {1, bad[i], 2};
        struct sp_logits row = sp_logits_of(vector(), logits, 3);
        s.temperature = (float)i;
        assert_ok(sp_sampler_scratch_new(&scratch, 3, vector(), NULL, why));
        assert_fails_as(
            sp_sampler_distribution(&d, scratch, &s, &row, &(struct sp_history){0}, 41, why),
            SP_E_INPUT, "a logit for position 41 is not finite");
        sp_sampler_scratch_free(scratch);
        sp_distribution_release(&d);
    }
}

/* ---- slots ---- */

static uint32_t sample(struct sp_sampler *sampler, size_t slot, const float *logits,
                       const uint32_t *drafts, size_t n_drafts)
{
    struct sp_sampler_row row = {slot, logits, drafts, n_drafts};
    uint32_t id;

    assert_ok(sp_sampler_sample(sampler, &id, &row, 1, why));
    return id;
}

/* The history is a ring of three tokens. A token that was overwritten is no longer penalized. */
TEST(ring_wraps)
{
    struct sp_sampling s = defaults();
    struct sp_sampler *sampler = NULL;
    const uint32_t prior[] = {0, 1, 2, 3, 0};
    const float logits[] = {5, 4, 3, 2};
    size_t slot;

    s.repeat_last_n = 3;
    s.presence_penalty = 10;
    assert_ok(sp_sampler_open(&sampler, 4, 100, NULL));
    assert_ok(sp_sampler_add(sampler, &slot, &s, prior, 5, NULL));
    assert_int_equal(sample(sampler, slot, logits, NULL, 0), 1); /* the history is 2 3 0 */
    assert_ok(sp_sampler_commit(sampler, slot, (uint32_t[]){1}, 1, NULL));
    assert_int_equal(sample(sampler, slot, logits, NULL, 0), 2); /* 3 0 1 */
    assert_ok(sp_sampler_commit(sampler, slot, (uint32_t[]){2, 3}, 2, NULL));
    assert_int_equal(sample(sampler, slot, logits, NULL, 0), 0); /* 1 2 3 */
    assert_ok(sp_sampler_reset(sampler, slot, prior, 1, NULL));
    assert_int_equal(sample(sampler, slot, logits, NULL, 0), 1); /* 0 */
    sp_sampler_close(sampler);
}

/* The distribution of a row after draft tokens equals that after committing them, and computing it
 * changes nothing. */
TEST(drafts_equal_committed_tokens)
{
    struct sp_sampling s = defaults();
    struct sp_sampler *a = NULL, *b = NULL;
    const uint32_t tokens[] = {3, 1, 0, 2, 2, 1, 3, 0};
    const float logits[] = {1, 1.5f, .5f, 1.2f};
    size_t slot_a, slot_b;

    s.temperature = 1;
    s.repeat_last_n = 3;
    s.repeat_penalty = 1.7f;
    s.frequency_penalty = .3f;
    for (s.seed = 0; s.seed < 50; s.seed++) {
        assert_ok(sp_sampler_open(&a, 4, 100, NULL));
        assert_ok(sp_sampler_open(&b, 4, 100, NULL));
        assert_ok(sp_sampler_add(a, &slot_a, &s, tokens, 2, NULL));
        assert_ok(sp_sampler_add(b, &slot_b, &s, tokens, 2, NULL));
        for (size_t n = 0; n <= 6; n++) {
            uint32_t overlaid = sample(a, slot_a, logits, tokens + 2, n);
            assert_int_equal(overlaid, sample(b, slot_b, logits, NULL, 0));
            if (n < 6) assert_ok(sp_sampler_commit(b, slot_b, tokens + 2 + n, 1, NULL));
        }
        sp_sampler_close(a);
        sp_sampler_close(b);
    }
}

/* A slot does not depend on the other slots of the batch. */
TEST(slots_are_isolated)
{
    struct sp_sampler *alone = NULL, *crowd = NULL;
    float logits[3][6];
    size_t slots[3], single[3];

    assert_ok(sp_sampler_open(&alone, 6, 100, NULL));
    assert_ok(sp_sampler_open(&crowd, 6, 100, NULL));
    for (size_t i = 0; i < 3; i++) {
        struct sp_sampling s = defaults();
        s.temperature = 1 + (float)i;
        s.seed = 100 + i;
        s.top_k = (int)i;
        s.presence_penalty = (float)i;
        assert_ok(sp_sampler_add(crowd, &slots[i], &s, (uint32_t[]){1, 2}, 2, NULL));
        assert_ok(sp_sampler_add(alone, &single[i], &s, (uint32_t[]){1, 2}, 2, NULL));
    }
    for (size_t step = 0; step < 40; step++) {
        struct sp_sampler_row rows[3];
        uint32_t together[3];
        for (size_t i = 0; i < 3; i++) {
            for (size_t j = 0; j < 6; j++)
                logits[i][j] = (float)((step * 7 + i * 3 + j * 5) % 11) / 4;
            rows[i] = (struct sp_sampler_row){slots[i], logits[i], NULL, 0};
        }
        assert_ok(sp_sampler_sample(crowd, together, rows, 3, NULL));
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(together[i], sample(alone, single[i], logits[i], NULL, 0));
            assert_ok(sp_sampler_commit(crowd, slots[i], &together[i], 1, NULL));
            assert_ok(sp_sampler_commit(alone, single[i], &together[i], 1, NULL));
        }
    }
    sp_sampler_remove(crowd, slots[1]);
    assert_int_equal(sp_sampler_commit(crowd, slots[1], (uint32_t[]){1}, 1, NULL), SP_E_USAGE);
    sp_sampler_close(alone);
    sp_sampler_close(crowd);
}

/* Slots that share the pass over a row draw the same tokens as alone, in any order. Slots with
 * different options do not share, nor slots with different histories if penalties apply. */
TEST(equal_slots_share_a_pass)
{
    enum { N_SLOTS = 24, N_TOKENS = 7 };
    const float logits[2][N_TOKENS] = {{1, 1.2f, .8f, 1.1f, .9f, 1, .7f},
                                       {.5f, 1, 1.4f, .2f, 1.3f, .9f, 1}};
    const uint32_t priors[2][3] = {{1, 2, 3}, {4, 1, 1}}, drafts[] = {5, 6};
    const struct sp_logit_bias bias[] = {{3, 2}};
    struct sp_sampler *alone = NULL, *crowd = NULL;
    size_t slots[N_SLOTS], single[N_SLOTS], n_equal = 0;
    struct sp_sampler_row rows[N_SLOTS];
    uint32_t together[N_SLOTS];

    assert_ok(sp_sampler_open(&alone, N_TOKENS, 100, NULL));
    assert_ok(sp_sampler_open(&crowd, N_TOKENS, 100, NULL));
    for (size_t i = 0; i < N_SLOTS; i++) {
        struct sp_sampling s = defaults();
        s.temperature = i % 12 == 7 ? 0 : i % 12 == 8 ? .6f : 1;
        s.seed = i / 2; /* some seeds are equal */
        if (i % 4 == 3) s.presence_penalty = 3;
        if (i % 12 == 9) s.top_k = 3;
        if (i % 12 == 10) s.biases = bias;
        if (i % 12 == 10) s.n_biases = 1;
        assert_ok(sp_sampler_add(crowd, &slots[i], &s, priors[i % 2], 3, NULL));
        assert_ok(sp_sampler_add(alone, &single[i], &s, priors[i % 2], 3, NULL));
    }
    for (size_t step = 0; step < 30; step++) {
        for (size_t k = 0; k < N_SLOTS; k++) {
            size_t i = (k * 5 + step) % N_SLOTS; /* another order in every step */
            rows[k] = (struct sp_sampler_row){slots[i], logits[i / 6 % 2], drafts, i % 3};
        }
        assert_ok(sp_sampler_sample(crowd, together, rows, N_SLOTS, NULL));
        for (size_t k = 0; k < N_SLOTS; k++) {
            size_t i = (k * 5 + step) % N_SLOTS;
            uint32_t want = sample(alone, single[i], logits[i / 6 % 2], drafts, i % 3);
            assert_int_equal(together[k], want);
            n_equal += together[k] == together[0];
            assert_ok(sp_sampler_commit(crowd, slots[i], &want, 1, NULL));
            assert_ok(sp_sampler_commit(alone, single[i], &want, 1, NULL));
        }
    }
    assert_true(n_equal < 30 * N_SLOTS / 2); /* the seeds differ, and so do the tokens */
    assert_ok(sp_sampler_sample(crowd, together, rows, 0, NULL));
    sp_sampler_remove(crowd, slots[2]);
    assert_int_equal(sp_sampler_sample(crowd, together, rows, N_SLOTS, NULL), SP_E_USAGE);
    sp_sampler_close(alone);
    sp_sampler_close(crowd);
}

/* ---- distributions of drafted sequences ---- */

enum { V = 4, LENGTH = 3, CELLS = V * V * V };

/* Handmade logits of a target and a draft that depend on the last token. The draft's are the
 * target's with a disturbance. */
static void model_logits(float out[V], const uint32_t *ids, size_t pos, bool draft)
{
    uint32_t last = pos ? ids[pos - 1] : 0;

    for (uint32_t i = 0; i < V; i++) {
        out[i] = (float)((last * 5 + i * 3 + 2) % 7) / 2;
        if (draft) out[i] += (float)((last * 3 + i * 11 + 1) % 5) / 3;
    }
}

/* Sampling at temperature 0 and a greedy choice have the same confidence in a draft token. */
TEST(confidence_at_temperature_0)
{
    const struct sp_sampling sampling = {.size = sizeof sampling, .repeat_penalty = 1, .top_p = 1};
    struct sp_chooser greedy = sp_greedy_chooser(vector()), chooser;
    struct sp_sampler *sampler = NULL;
    struct sp_sampling_chooser *sampled = NULL;

    assert_ok(sp_sampler_open(&sampler, V, 0, NULL));
    assert_ok(sp_sampling_chooser_new(&sampled, sampler, &sampling, 2, NULL));
    chooser = sp_sampling_chooser_of(sampled);
    for (uint32_t last = 0; last < 8; last++) {
        float logits[V];
        double expected = 0, confidence = 0;
        uint32_t id, same;
        struct sp_logits row;
        model_logits(logits, &last, 1, true);
        row = sp_logits_of(vector(), logits, V);
        assert_ok(greedy.propose(greedy.state, &id, &expected, &row, &last, 1, NULL));
        assert_ok(chooser.propose(chooser.state, &same, &confidence, &row, &last, 1, NULL));
        assert_int_equal(id, same);
        assert_true(expected > 0 && expected < 1);
        assert_true(fabs(confidence - expected) < 1e-12);
    }
    sp_sampling_chooser_free(sampled);
    sp_sampler_close(sampler);
}

enum method { PLAIN, COUPLED, REJECTION, BROKEN };

/* Generates LENGTH tokens after the token 0, with two draft tokens per round. */
static void generate(uint32_t ids[LENGTH + 4], const struct sp_sampling *s, enum method method)
{
    struct sp_sampler *sampler = NULL;
    struct sp_sampling_chooser *state = NULL;
    struct sp_chooser chooser;
    size_t n = 1;

    assert_ok(sp_sampler_open(&sampler, V, 0, NULL));
    assert_ok(sp_sampling_chooser_new(&state, sampler, s, 2, NULL));
    chooser = sp_sampling_chooser_of(state);
    ids[0] = 0;
    while (n <= LENGTH) {
        size_t n_drafted = method == PLAIN ? 0 : 2;
        uint32_t round[LENGTH + 4];
        float logits[V];
        struct sp_logits row;
        memcpy(round, ids, n * sizeof *ids);
        for (size_t i = 0; i < n_drafted; i++) {
            model_logits(logits, round, n + i, true);
            row = sp_logits_of(vector(), logits, V);
            assert_ok(
                chooser.propose(chooser.state, &round[n + i], NULL, &row, round, n + i, NULL));
        }
        for (size_t i = 0; i <= n_drafted && n <= LENGTH; i++) {
            uint32_t draft_token = i < n_drafted ? round[n] : SP_NO_DRAFT_TOKEN, id;
            model_logits(logits, ids, n, false);
            row = sp_logits_of(vector(), logits, V);
            assert_ok(chooser.choose(chooser.state, &id, &row, ids, n, draft_token, NULL));
            if (method == BROKEN && draft_token != SP_NO_DRAFT_TOKEN) id = draft_token;
            ids[n++] = id;
            if (id != draft_token) break;
        }
    }
    sp_sampling_chooser_free(state);
    sp_sampler_close(sampler);
}

static void exact_cells(double cells[CELLS], const struct sp_sampling *s)
{
    for (uint32_t c = 0; c < CELLS; c++) {
        uint32_t ids[LENGTH + 1] = {0, c / (V * V), c / V % V, c % V};
        cells[c] = 1;
        for (size_t pos = 1; pos <= LENGTH; pos++) {
            float logits[V];
            struct sp_distribution d;
            size_t n = s->repeat_last_n < 0 || (size_t)s->repeat_last_n > pos
                           ? pos
                           : (size_t)s->repeat_last_n;
            model_logits(logits, ids, pos, false);
            d = distribution(s, logits, V, ids + pos - n, n);
            cells[c] *= sp_distribution_at(&d, ids[pos]);
            sp_distribution_release(&d);
        }
    }
}

/* Returns the chi-square of n_runs sequences against the enumerated distribution. Cells of
 * probability 0 must stay empty. */
static double chi_square(const struct sp_sampling *options, enum method method, size_t n_runs)
{
    double cells[CELLS], counts[CELLS] = {0}, chi = 0;
    struct sp_sampling s = *options;

    s.accept = method == REJECTION || method == BROKEN ? SP_ACCEPT_REJECTION : SP_ACCEPT_COUPLED;
    exact_cells(cells, &s);
    for (s.seed = 1; s.seed <= n_runs; s.seed++) {
        uint32_t ids[LENGTH + 4];
        generate(ids, &s, method);
        counts[ids[1] * V * V + ids[2] * V + ids[3]]++;
    }
    for (size_t c = 0; c < CELLS; c++) {
        double want = cells[c] * (double)n_runs;
        if (want <= 0 && counts[c] > 0) return HUGE_VAL;
        if (want > 0) chi += (counts[c] - want) * (counts[c] - want) / want;
    }
    return chi;
}

/* 63 degrees of freedom: chance exceeds 130 once in a million, the broken sampler by thousands. */
TEST(drafted_distributions)
{
    enum { RUNS = 20000 };
    struct sp_sampling s[3] = {defaults(), defaults(), defaults()};

    s[0].temperature = 1;
    s[1].temperature = .7f;
    s[1].top_k = 3;
    s[1].top_p = .9f;
    s[2].temperature = 1.5f;
    s[2].repeat_penalty = 1.4f;
    s[2].frequency_penalty = .4f;
    for (size_t i = 0; i < 3; i++) {
        assert_true(chi_square(&s[i], PLAIN, RUNS) < 130);
        assert_true(chi_square(&s[i], COUPLED, RUNS) < 130);
        assert_true(chi_square(&s[i], REJECTION, RUNS) < 130);
        assert_true(chi_square(&s[i], BROKEN, RUNS) > 1000);
    }
}

/* Coupled sampling gives exactly the sequence of plain sampling with the same seed. */
TEST(coupled_equals_plain)
{
    struct sp_sampling s = defaults();
    size_t other = 0;

    s.temperature = 1.2f;
    for (s.seed = 0; s.seed < 3000; s.seed++) {
        uint32_t plain[LENGTH + 4], coupled[LENGTH + 4], rejected[LENGTH + 4];
        s.accept = SP_ACCEPT_COUPLED;
        generate(plain, &s, PLAIN);
        generate(coupled, &s, COUPLED);
        assert_memory_equal(plain, coupled, (LENGTH + 1) * sizeof *plain);
        s.accept = SP_ACCEPT_REJECTION;
        generate(rejected, &s, REJECTION);
        other += memcmp(plain, rejected, (LENGTH + 1) * sizeof *plain) != 0;
    }
    assert_true(other >
                100); /* rejection sampling gives other sequences of the same distribution */
}
