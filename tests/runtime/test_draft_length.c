/* Tests the draft length controller on simulated clocks. In every regime it is close to the best
 * fixed length, or beats it if the draft knows when it is unsure, and is never much slower than
 * plain decoding. */
#include "runtime/speculate/draft_length.h"
#include "runtime/vector/rng.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { MAX = 15, ROUNDS = 4000, FIXED = -1 };

/* Costs in units of a plain step, and the acceptance of the draft tokens. */
struct regime {
    const char *name;
    double per_row; /* each row beyond the first */
    double draft;   /* cost of a block of any length; 0: the draft proposes token by token */
    double per_draft_token; /* cost of each draft token */
    double accept;          /* of the first draft token */
    double fade;            /* factor from one draft token to the next */
    double change;          /* acceptance after half of the rounds; < 0: unchanged */
    double calibration;     /* 0: all confidences are equal; 1: the draft knows what is right */
};

static uint64_t seed = 42;
static size_t
    n_others; /* other sequences in the passes; each has one row and gets one token per pass */

/* Records the next pass of one sequence. */
static void record(struct sp_draft_length *d, struct sp_round *round)
{
    round->pass = d->pass + 1;
    sp_draft_length_record(d, round);
}

static double uniform(uint64_t *state)
{
    return sp_rng_uniform(seed, (*state)++);
}

/* Decides whether a draft token of acceptance probability p is accepted, and with which
 * confidence. */
static bool draft_token(const struct regime *r, double p, uint64_t *random, double *confidence)
{
    bool right = uniform(random) < p;

    *confidence = (1 - r->calibration) * p + r->calibration * (right ? .98 : .1);
    return right;
}

/* Drafts the tokens of a round. Draft length FIXED: the controller chooses. */
static struct sp_round draft_round(struct sp_draft_length *d, const struct regime *r, double p,
                                   int draft_len, uint64_t *random)
{
    struct sp_round round = {.asked = draft_len == FIXED ? sp_draft_length_choose(d, MAX, NULL)
                                                         : (size_t)draft_len};
    size_t n_right = 0;
    bool more = true, right = true;
    double confidence;

    while (more && round.made < round.asked) {
        round.made++;
        right &= draft_token(r, p, random, &confidence);
        n_right += right;
        p *= r->fade;
        if (draft_len == FIXED) more = sp_draft_length_consider(d, confidence);
    }
    round.drafted = draft_len == FIXED && round.asked ? d->n_verify : round.made;
    round.accepted = n_right < round.drafted ? n_right : round.drafted;
    return round;
}

/* Plays a round with other sequences in the pass. */
static struct sp_round play(struct sp_draft_length *d, const struct regime *r, double p,
                            int draft_len, uint64_t *random)
{
    double noise = .9 + .2 * uniform(random);
    struct sp_round round = draft_round(d, r, p, draft_len, random);

    round.other_rows = round.n_others = n_others;
    if (round.asked)
        round.draft_cost = round.draft_seconds =
            (r->draft + r->per_draft_token * (double)round.made) * noise;
    round.verify_seconds = (1 + r->per_row * (double)(round.drafted + n_others)) * noise;
    record(d, &round);
    return round;
}

/* Returns the tokens per second of the simulated run, including those of other sequences. */
static double simulate(const struct regime *r, int draft_len, int n_rounds)
{
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    uint64_t random = 0;
    double tokens = 0, seconds = 0;

    sp_drafting_controller_init(&batch, MAX, r->draft <= 0);
    sp_draft_length_init(&d, &batch);
    for (int i = 0; i < n_rounds; i++) {
        double p = i > n_rounds / 2 && r->change >= 0 ? r->change : r->accept;
        struct sp_round round = play(&d, r, p, draft_len, &random);
        tokens += (double)(round.accepted + 1 + n_others);
        seconds += round.draft_cost + round.verify_seconds;
    }
    return tokens / seconds;
}

static double best_fixed(const struct regime *r)
{
    double best = 0;

    for (int n = 0; n <= MAX; n++) {
        double rate = simulate(r, n, ROUNDS);
        if (rate > best) best = rate;
    }
    return best;
}

static void check(const struct regime *r)
{
    double chosen = simulate(r, FIXED, ROUNDS), plain = simulate(r, 0, ROUNDS);
    double best = best_fixed(r);

    if (chosen < .95 * best) fail_msg("%s: %.3f of the best fixed length", r->name, chosen / best);
    if (chosen < .97 * plain) fail_msg("%s: %.3f of plain", r->name, chosen / plain);
    /* In a response of a hundred tokens, the exploration costs little. */
    chosen = simulate(r, FIXED, 100);
    if (chosen < .92 * plain) fail_msg("%s: %.3f of plain, at once", r->name, chosen / plain);
}

TEST(regimes)
{
    static const struct regime all[] = {
        {"block draft, good", .05, .2, .005, .85, .97, -1, 0},
        {"block draft, perfect", .05, .2, .005, 1, 1, -1, 0},
        {"block draft, poor", .05, .3, .005, .3, .9, -1, 0},
        {"block draft, useless", .05, .3, .005, .02, .5, -1, 0},
        {"block draft, useless and dear", .2, .8, .005, .02, .5, -1, 0},
        {"block draft, in its element", .2, .3, .005, .8, .97, -1, .5},
        {"dear rows", .5, .1, 0, .8, .95, -1, 0},
        {"free rows", 0, .1, 0, .7, .95, -1, 0},
        {"dear draft", .05, 3, 0, .6, .95, -1, 0},
        {"one draft token at a time, cheap", .06, 0, .05, .8, 1, -1, 0},
        {"one draft token at a time, costly", .06, 0, .6, .8, 1, -1, 0},
        {"one draft token at a time, useless", .06, 0, .3, .05, 1, -1, 0},
        {"becomes useless", .05, .2, .005, .9, .97, .02, 0},
        {"becomes useless, and knows it", .05, .2, .005, .9, .97, .02, .5},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(&all[i]);
}

/* A proposal delays the other sequences, and its rows are costly where theirs fill a pass. The
 * tokens of all sequences count. */
TEST(near_best_when_batched)
{
    static const struct regime all[] = {
        {"batched, good", .05, .2, .005, .85, .97, -1, 0},
        {"batched, costly rows", .3, .1, 0, .8, .95, -1, 0},
        {"batched, free rows", 0, .1, 0, .7, .95, -1, 0},
        {"batched, costly draft", .05, .8, 0, .6, .95, -1, 0},
        {"batched, useless", .05, .3, .005, .02, .5, -1, 0},
        {"batched, one guess at a time", .06, 0, .05, .8, 1, -1, 0},
    };

    for (n_others = 1; n_others <= 7; n_others += 3)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            check(&all[i]);
    n_others = 0;
}

/* ---- all sequences draft ---- */

enum { N_SEQUENCES = 8, BATCH_ROUNDS = 1500 };

/* The cost of a further row in a pass of the draft, relative to the first. */
static const double relative_row_cost = .1;

/* Charges a pass of the draft that n sequences share. */
static void add_draft_cost(struct sp_round *round, double alone, size_t n)
{
    double seconds = alone * (1 + relative_row_cost * (double)(n - 1));

    round->draft_seconds += seconds;
    round->draft_cost += seconds / (double)n;
}

/* Distributes the cost of the drafting: sequences whose proposals are equally long share their
 * passes. */
static void share_costs(const struct regime *r, struct sp_round *rounds)
{
    size_t n_drafting = 0;

    for (size_t i = 0; i < N_SEQUENCES; i++)
        n_drafting += rounds[i].asked > 0;
    for (size_t i = 0; i < N_SEQUENCES; i++)
        if (rounds[i].asked) add_draft_cost(&rounds[i], r->draft, n_drafting);
    for (size_t step = 1; step <= MAX && r->per_draft_token > 0; step++) {
        size_t n_at_step = 0;
        for (size_t i = 0; i < N_SEQUENCES; i++)
            n_at_step += rounds[i].made >= step;
        for (size_t i = 0; i < N_SEQUENCES; i++)
            if (rounds[i].made >= step) add_draft_cost(&rounds[i], r->per_draft_token, n_at_step);
    }
}

/* Returns the tokens per second of sequences that all draft, each with a draft length of its own
 * choice. */
static double simulate_batch(const struct regime *r, int draft_len)
{
    struct sp_drafting_controller batch;
    struct sp_draft_length d[N_SEQUENCES];
    struct sp_round rounds[N_SEQUENCES];
    uint64_t random = 0;
    double tokens = 0, seconds = 0;

    sp_drafting_controller_init(&batch, MAX, r->draft <= 0);
    for (size_t i = 0; i < N_SEQUENCES; i++)
        sp_draft_length_init(&d[i], &batch);
    for (int n = 0; n < BATCH_ROUNDS; n++) {
        double noise = .9 + .2 * uniform(&random), verify;
        size_t rows = 0;
        for (size_t i = 0; i < N_SEQUENCES; i++) {
            rounds[i] = draft_round(&d[i], r, r->accept, draft_len, &random);
            rows += 1 + rounds[i].drafted;
        }
        share_costs(r, rounds);
        verify = (1 + r->per_row * (double)(rows - 1)) * noise;
        seconds += verify;
        for (size_t i = 0; i < N_SEQUENCES; i++) {
            struct sp_round *round = &rounds[i];
            seconds += round->draft_cost;
            tokens += (double)round->accepted + 1;
            round->verify_seconds = verify;
            round->other_rows = rows - 1 - round->drafted;
            round->n_others = N_SEQUENCES - 1;
            record(&d[i], round);
        }
    }
    return tokens / seconds;
}

/* The length that all sequences reach is near the best common length. */
TEST(near_best_when_all_sessions_draft)
{
    static const struct regime all[] = {
        {"batch, good block", .02, .5, 0, .85, .97, -1, 0},
        {"batch, costly rows", .15, .3, 0, .8, .95, -1, 0},
        {"batch, useless block", .05, .3, 0, .02, .5, -1, 0},
        {"batch, one draft token at a time", .02, 0, .15, .8, 1, -1, 0},
        {"batch, one costly draft token at a time", .05, 0, .6, .8, 1, -1, 0},
        {"batch, nearly always right", .1, 0, .05, .95, 1, -1, 0},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double chosen = simulate_batch(&all[i], FIXED), best = 0;
        for (int n = 0; n <= MAX; n++) {
            double rate = simulate_batch(&all[i], n);
            if (rate > best) best = rate;
        }
        if (chosen < .87 * best) fail_msg("%s: %.3f of the best", all[i].name, chosen / best);
    }
}

/* A draft that knows when it is unsure beats every fixed length, in a block and step by step. */
TEST(confidence_pays)
{
    static const struct regime all[] = {
        {"block", .1, .2, .005, .7, 1, -1, .8},
        {"steps", .1, 0, .08, .7, 1, -1, .8},
    };

    for (size_t i = 0; i < 2; i++) {
        double gain = simulate(&all[i], FIXED, ROUNDS) / best_fixed(&all[i]);
        if (gain < 1.15) fail_msg("%s: only %.3f of the best fixed length", all[i].name, gain);
    }
}

/* Drafting that did not pay is tried again, so the controller notices that a text becomes easy. */
TEST(notices_easy_text)
{
    static const struct regime r = {"becomes easy", .05, .3, .005, .02, 1, .9, 0};

    assert_true(simulate(&r, FIXED, ROUNDS) > 1.4 * simulate(&r, 0, ROUNDS));
}

/* Returns the seconds per token over 60 responses of 100 rounds, each with a new controller. */
static double seconds_per_token_of_short_responses(const struct regime *r, int draft_len)
{
    double seconds = 0;

    for (seed = 0; seed < 60; seed++)
        seconds += 1 / simulate(r, draft_len, 100);
    seed = 42;
    return seconds / 60;
}

/* Where draft tokens are costly, an inevitable run of rejections must not end the drafting. */
TEST(recovers_from_early_rejections)
{
    static const struct regime all[] = {
        {"costly block", .107, .6, .035, .8, 1, -1, 0},
        {"costly block, good", .107, .6, .035, .9, 1, -1, 0},
        {"costly block, fair", .107, .6, .035, .7, 1, -1, 0},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double best = INFINITY, chosen = seconds_per_token_of_short_responses(&all[i], FIXED);
        for (int n = 0; n <= MAX; n++)
            best = fmin(best, seconds_per_token_of_short_responses(&all[i], n));
        if (best < .96 * chosen)
            fail_msg("%s: %.3f of the best fixed length", all[i].name, best / chosen);
    }
}

/* A case of ollama's draft length controller (../shared/reference/ollama.md, 7.1): a pass takes
 * base + per_row (1 + draft tokens) milliseconds, a proposal takes `draft`, and accept[i] is the
 * acceptance of draft token i. */
struct ollama_case {
    double base, per_row, draft, accept[6];
};

static struct sp_round play_ollama_case(struct sp_draft_length *d, const struct ollama_case *c,
                                        uint64_t *random)
{
    struct sp_round round = {.asked = sp_draft_length_choose(d, MAX, NULL)};
    bool more = true, right = true;
    size_t n_right = 0;

    while (more && round.made < round.asked) {
        double p = c->accept[round.made < 6 ? round.made : 5];
        round.made++;
        right = right && uniform(random) < p;
        n_right += right;
        more = sp_draft_length_consider(d, p);
    }
    if (round.asked) {
        round.drafted = d->n_verify;
        round.draft_cost = round.draft_seconds = c->draft;
    }
    round.accepted = n_right < round.drafted ? n_right : round.drafted;
    round.verify_seconds = c->base + c->per_row * (double)(round.drafted + 1);
    record(d, &round);
    return round;
}

/* Returns the mean draft length of the last 200 of 600 rounds. */
static double settled_length(const struct ollama_case *c)
{
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    uint64_t random = 0;
    size_t sum = 0;

    sp_drafting_controller_init(&batch, MAX, false);
    sp_draft_length_init(&d, &batch);
    for (int i = 0; i < 600; i++) {
        struct sp_round round = play_ollama_case(&d, c, &random);
        if (i >= 400) sum += round.drafted;
    }
    return (double)sum / 200;
}

TEST(settles_like_ollama)
{
    static const struct ollama_case flat = {210, 2.6, 20, {.9, .82, .72, .6, .48, .4}},
                                    steep = {30, 19, 3, {.9, .82, .72, .6, .48, .4}},
                                    poor = {30, 19, 3, {.3, .3, .3, .3, .3, .3}};

    assert_true(settled_length(&flat) >= 5);
    assert_true(settled_length(&steep) <= 4);
    assert_true(settled_length(&steep) >= 1);
    assert_true(settled_length(&poor) < .1);
}

/* Drafting that does not pay is tried ever more rarely, and a stall changes nothing. When it pays
 * again the controller notices. */
TEST(pauses_a_costly_draft)
{
    static const struct ollama_case dear = {1, 15, 2, {.6, .6, .6, .6, .6, .6}},
                                    cheap = {15.5, .5, 2, {.95, .95, .95, .95, .95, .95}};
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    uint64_t random = 0;
    size_t n_drafted = 0, n_rounds = 0;

    sp_drafting_controller_init(&batch, MAX, false);
    sp_draft_length_init(&d, &batch);
    for (int i = 0; i < 2000; i++)
        play_ollama_case(&d, &dear, &random);
    assert_true(batch.paused);
    record(&d, &(struct sp_round){.verify_seconds = 49, .emitted = 1});
    assert_true(batch.paused);
    for (int i = 0; i < 4096; i++)
        n_drafted += play_ollama_case(&d, &dear, &random).asked > 0;
    if (n_drafted > 82) fail_msg("%zu of 4096 rounds drafted", n_drafted);
    for (n_drafted = 0; n_drafted < 20 && n_rounds < 8192; n_rounds++)
        n_drafted = play_ollama_case(&d, &cheap, &random).asked ? n_drafted + 1 : 0;
    assert_int_equal(n_drafted, 20);
}

TEST(costs)
{
    struct sp_cost_model c = {.shape = .08, .steepest = 1};
    double before;

    assert_true(fabs(sp_cost_model_at(&c, 2) - 1.16) <
                1e-12); /* the prior, in units of a plain step */
    for (int i = 0; i < 20; i++)
        sp_cost_model_record(&c, 0, 16);
    before = sp_cost_model_at(&c, 0);
    assert_true(fabs(before - 16) < .01);
    assert_true(fabs(sp_cost_model_at(&c, 10) - 16 * 1.8) < .5); /* no other timing is known */
    sp_cost_model_record(&c, 0, 49);
    assert_true(sp_cost_model_at(&c, 0) < 1.075 * before);
    for (int i = 0; i < 60; i++)
        sp_cost_model_record(&c, 0, 32);
    assert_true(sp_cost_model_at(&c, 0) > 31 && sp_cost_model_at(&c, 0) < 33);
    for (int i = 0; i < 6; i++) /* shorter times are adopted at once */
        sp_cost_model_record(&c, 0, 16);
    assert_true(sp_cost_model_at(&c, 0) < 19);
}

/* A step in the cost that a line does not have is learned where it is timed. */
TEST(cost_steps)
{
    struct sp_cost_model c = {.shape = .08, .steepest = 1};

    for (size_t i = 0; i < 200; i++) {
        size_t n = i % 8;
        sp_cost_model_record(&c, n, n < 3 ? 1 + .1 * (double)n : 2 + .1 * (double)n);
    }
    assert_true(sp_cost_model_at(&c, 2) < 1.4 && sp_cost_model_at(&c, 3) > 2.1);
    for (size_t n = 0; n < 20; n++)
        assert_true(sp_cost_model_at(&c, n + 1) > sp_cost_model_at(&c, n));
}

/* The expected rate of a proposal is its tokens divided by its time. Before costs and confidences
 * are learned, this is 1 + c1 + c1 c2 + ... tokens in 1 + .08 n plain steps. */
TEST(expected_tokens_match_confidences)
{
    static const double confidence[] = {.9, .8, .85, .1};
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    double chain = 1, tokens = 1;
    size_t n;

    sp_drafting_controller_init(&batch, MAX, true);
    sp_draft_length_init(&d, &batch);
    assert_int_equal(sp_draft_length_choose(&d, MAX, NULL), MAX);
    for (size_t i = 0; i < 4; i++)
        sp_draft_length_consider(&d, confidence[i]);
    n = d.n_verify;
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++)
        tokens += chain *= confidence[i];
    assert_true(fabs(sp_draft_length_expected_rate(&d) - tokens / (1 + .08 * (double)n)) < 1e-9);
}

/* Returns the tokens per second if the draft proposes only in some rounds, as an n-gram draft does,
 * and the other rounds are plain steps. */
static double simulate_rare_proposals(double chance, double accept)
{
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    uint64_t random = 0;
    double tokens = 0, seconds = 0;

    sp_drafting_controller_init(&batch, MAX, true);
    sp_draft_length_init(&d, &batch);
    for (int i = 0; i < ROUNDS; i++) {
        struct sp_round round = {0};
        bool more = true, right = true;
        if (uniform(&random) < chance) round.asked = sp_draft_length_choose(&d, MAX, NULL);
        while (more && round.made < round.asked) {
            right = right && uniform(&random) < accept;
            round.accepted += right;
            round.made++;
            more = sp_draft_length_consider(
                &d, .7); /* equal confidence for right and wrong draft tokens */
        }
        if (round.asked) round.drafted = d.n_verify;
        if (round.accepted > round.drafted) round.accepted = round.drafted;
        round.emitted = round.accepted + 1;
        round.draft_cost = round.draft_seconds = 1e-6 * (double)round.made;
        round.verify_seconds = 1 + .1 * (double)round.drafted;
        tokens += (double)round.emitted;
        seconds += round.verify_seconds;
        round.pass = d.pass + 1;
        if (round.drafted) {
            sp_draft_length_record(&d, &round);
        } else {
            sp_draft_length_observe(&d, &round);
            sp_drafting_controller_add_round(&batch, &round);
        }
    }
    return tokens / seconds;
}

TEST(rare_proposals_still_pay)
{
    assert_true(simulate_rare_proposals(.3, .02) > .98);
    assert_true(simulate_rare_proposals(0, .5) == 1);
    /* One round in four may produce 1 + .95 + .95^2 + ... tokens at a cost of 2.5 instead of one
     * token at a cost of 1: 1.41 tokens per second at best. */
    assert_true(simulate_rare_proposals(.25, .95) > 1.3);
}

/* A probe whose pass also processed a prompt is not counted; others follow, eight rounds apart. */
TEST(probes_until_one_counts)
{
    size_t n_probes = 0;
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    struct sp_round round = {.emitted = 1, .verify_seconds = 1};

    sp_drafting_controller_init(&batch, MAX, true);
    sp_draft_length_init(&d, &batch);
    batch.paused = true;
    batch.wait = 3;
    assert_int_equal(sp_draft_length_choose(&d, MAX, NULL), 0);
    record(&d, &round);
    assert_int_equal(sp_draft_length_choose(&d, MAX, NULL), 0);
    record(&d, &round);
    round.beside_prompt = true;
    for (int i = 0; i < 24; i++) {
        n_probes += sp_draft_length_choose(&d, MAX, NULL);
        record(&d, &round);
    }
    assert_true(batch.paused);
    assert_int_equal(n_probes, 3);
}

/* The time of a pass with more rows than the cost model has is not known. */
TEST(huge_passes_do_not_count)
{
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    struct sp_round round = {.emitted = 1, .verify_seconds = 1, .other_rows = 10 * SP_COST_LENGTHS};

    sp_drafting_controller_init(&batch, MAX, true);
    sp_draft_length_init(&d, &batch);
    for (int i = 0; i < 3; i++) {
        round.asked = round.made = sp_draft_length_choose(&d, MAX, NULL);
        assert_true(round.made > 0);
        record(&d, &round);
    }
    assert_true(batch.seconds == 0);
}

TEST(limits)
{
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    struct sp_round round = {.asked = 4, .made = 4, .drafted = 4, .accepted = 4};

    sp_drafting_controller_init(&batch, 7, false);
    sp_draft_length_init(&d, &batch);
    assert_int_equal(sp_draft_length_choose(&d, 0, NULL), 0);
    assert_int_equal(sp_draft_length_choose(&d, 3, NULL), 3); /* no timing is known yet */
    assert_int_equal(sp_draft_length_choose(&d, 30, NULL), 7);
    round.draft_cost = round.draft_seconds = .1;
    round.verify_seconds = 2;
    record(&d, &round);
    assert_true(sp_draft_length_choose(&d, 2, NULL) <= 2);
    sp_draft_length_consider(&d, 1);
    assert_true(d.n_verify <= 1);
    sp_drafting_controller_init(&batch, 0, false); /* no draft */
    sp_draft_length_init(&d, &batch);
    assert_int_equal(sp_draft_length_choose(&d, 9, NULL), 0);
}
