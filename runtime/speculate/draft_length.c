#include "runtime/speculate/draft_length.h"

#include <string.h>

/* Priors are worth a few rounds; memories reach back some dozens of them. Found by replaying
 * recorded guesses and confidences of trained pairs with noisy clocks; flat around these values. */
static const double forget = 0.97;            /* weight that a count keeps from round to round */
static const double forget_judged = 0.995;    /* ... from guess to guess of like confidence */
static const double first_prior = 0.7;        /* acceptance of the first guess */
static const double place_weight = 2;         /* rounds that a borrowed acceptance counts for */
static const double confidence_weight = 8;    /* guesses for which a confidence is believed */
static const double rate_prior = 1.3;         /* drafted to plain rate */
static const double rate_weight = 6;          /* plain steps that this counts for */
static const double draft_prior_block = 0.25; /* plain steps that a block costs to draft */
static const double draft_prior_step = 0.1;   /* ... a guess */
static const double loan = 3, fortune = 5, bet = 1; /* plain steps */
static const double first_allowance = 0.2, least_allowance = 0.002;

enum {
    FIRST_BLOCK = 8, /* asked for before anything is known */
    FIRST_STEPS = 4,
    PLAIN_EVERY = 32,
};

/* Upper ends of the classes of confidence. */
static const double classes[SP_DRAFT_LENGTH_CONFIDENCES - 1] = {.1, .2, .3, .4,  .5,  .6,
                                                                .7, .8, .9, .97, .99, .999};

void sp_draft_length_init(struct sp_draft_length *draft_len, size_t max, bool stepwise)
{
    *draft_len = (struct sp_draft_length){
        .max = max,
        .stepwise = stepwise,
        .verify = {.shape = 0.08, .steepest = 1},
        .draft = {.shape = stepwise ? 4 : 0.02, .steepest = 1e3},
        .purse = loan,
        .allowance = first_allowance,
    };
}

static size_t class_of(double confidence)
{
    size_t i = 0;

    while (i < SP_DRAFT_LENGTH_CONFIDENCES - 1 && confidence >= classes[i])
        i++;
    return i;
}

static double acceptance(const struct sp_draft_length *d, double confidence)
{
    size_t i = class_of(confidence);

    return (confidence_weight * confidence + d->right[i]) / (confidence_weight + d->judged[i]);
}

static double at_least(double value, double least)
{
    return value > least ? value : least;
}

/* Expected seconds of a pass with n guesses. */
static double pass_cost(const struct sp_draft_length *d, size_t n)
{
    size_t rows = n + d->other_rows;

    return sp_cost_model_at(&d->verify, rows < SP_COST_LENGTHS ? rows : SP_COST_LENGTHS - 1);
}

/* Expected costs and acceptances of up to n guesses; before the first round in plain steps. */
static void expect(struct sp_draft_length *d, size_t n)
{
    double p = first_prior;

    d->verify_seconds[0] = pass_cost(d, 0);
    d->draft_seconds[0] = 0;
    for (size_t i = 1; i <= n; i++) {
        double draft = d->stepwise ? draft_prior_step * (double)i : draft_prior_block;
        double verify = pass_cost(d, i);
        draft = d->draft.n_timings ? sp_cost_model_at(&d->draft, i) : draft * d->verify_seconds[0];
        d->verify_seconds[i] = at_least(verify, d->verify_seconds[i - 1]);
        d->draft_seconds[i] = at_least(draft, d->draft_seconds[i - 1]);
        p = (d->accepted[i] + place_weight * p) / (d->tried[i] + place_weight);
        d->usual[i] = p;
    }
}

/* What each sequence of a pass got when this one got n tokens: of the guesses of others as many are
 * right as of its own. */
static double tokens_each(const struct sp_draft_length *d, double n)
{
    double right = (d->right_ones + first_prior) / (d->verified + 1);

    return (n + (double)d->n_others + (double)d->other_drafts * right) / (double)(1 + d->n_others);
}

/* Seconds of a round without guesses of its own. */
static double plain_cost(const struct sp_draft_length *d)
{
    return pass_cost(d, 0) + d->shared_draft_seconds;
}

static double plain_rate(const struct sp_draft_length *d)
{
    return tokens_each(d, 1) / plain_cost(d);
}

/* Tokens a second of drafting so far. */
static double drafted_rate(const struct sp_draft_length *d)
{
    double prior_seconds = rate_weight / plain_rate(d);

    return (d->tokens + rate_prior * rate_weight) / (d->seconds + prior_seconds);
}

/* Tokens that the time of verifying guess i, or of making it, would bring otherwise. */
static double price_of_verifying(const struct sp_draft_length *d, size_t i)
{
    return d->rate * (d->verify_seconds[i] - d->verify_seconds[i - 1]);
}

static double price_of_making(const struct sp_draft_length *d, size_t i)
{
    return d->rate * (d->draft_seconds[i] - d->draft_seconds[i - 1]);
}

/* A block's guesses are all made before any is judged: as many as pay when only right ones are
 * verified. */
static size_t block_to_ask_for(const struct sp_draft_length *d, size_t limit)
{
    double chain = 1, gain = 0, best_gain = -1;
    size_t best = 1;

    for (size_t i = 1; i <= limit; i++) {
        chain *= d->usual[i];
        gain += at_least(chain * (1 - price_of_verifying(d, i)), 0) - price_of_making(d, i);
        if (gain > best_gain) {
            best_gain = gain;
            best = i;
        }
    }
    return best;
}

static size_t to_ask_for(const struct sp_draft_length *d, size_t limit)
{
    size_t first = d->stepwise ? FIRST_STEPS : FIRST_BLOCK;

    if (d->draft.n_timings == 0) return limit < first ? limit : first;
    return d->stepwise ? limit : block_to_ask_for(d, limit);
}

size_t sp_draft_length_choose(struct sp_draft_length *d, size_t limit)
{
    if (limit > d->max) limit = d->max;
    if (limit == 0 || d->n_plain * PLAIN_EVERY < d->verify.n_timings) return 0;
    if (d->paused) {
        d->purse += d->allowance / (double)(1 + d->n_others);
        if (d->purse < bet) return 0;
        d->paused = false;
    }
    expect(d, limit);
    d->rate = at_least(drafted_rate(d), plain_rate(d)) * (double)(d->n_others + 1);
    d->n_asked = to_ask_for(d, limit);
    d->n_made = d->n_cut = 0;
    d->chain = 1;
    d->gain = d->best_gain = 0;
    return d->n_asked;
}

/* Is there a longer proposal that can be expected to beat the best so far? */
static bool more_may_pay(const struct sp_draft_length *d)
{
    double chain = d->chain, gain = d->gain;

    for (size_t i = d->n_made + 1; i <= d->n_asked; i++) {
        chain *= d->usual[i];
        gain += chain - price_of_verifying(d, i);
        if (d->stepwise) gain -= price_of_making(d, i);
        if (gain > d->best_gain) return true;
    }
    return false;
}

bool sp_draft_length_consider(struct sp_draft_length *d, double confidence)
{
    size_t i = ++d->n_made;

    d->confidence[i] = confidence;
    d->chain *= acceptance(d, confidence);
    d->gain += d->chain - price_of_verifying(d, i);
    if (d->gain > d->best_gain) {
        d->best_gain = d->gain;
        d->n_cut = i;
    }
    return more_may_pay(d);
}

size_t sp_draft_length_n_verify(const struct sp_draft_length *d)
{
    return d->n_cut;
}

static void add_round(struct sp_draft_length *d, double tokens, double seconds)
{
    d->tokens = forget * d->tokens + tokens;
    d->seconds = forget * d->seconds + seconds;
}

/* What a round of n guesses that was chosen here has earned. */
static void settle(struct sp_draft_length *d, const struct sp_round *r, size_t n)
{
    double tokens = tokens_each(d, (double)r->accepted + 1);
    double seconds =
        sp_cost_model_at(&d->draft, n) + pass_cost(d, r->drafted) + d->shared_draft_seconds;

    add_round(d, tokens, seconds);
    d->purse += tokens / tokens_each(d, 1) - seconds / plain_cost(d);
    if (d->purse > fortune) d->purse = fortune;
    if (d->purse >= 2 * bet) d->allowance = first_allowance;
    if (d->purse > 0) return;
    if (drafted_rate(d) > plain_rate(d)) { /* bad luck */
        d->purse = 0;
        return;
    }
    d->paused = true;
    d->allowance = at_least(d->allowance / 2, least_allowance);
}

/* Guesses behind the first wrong one are not known to be right or wrong. */
static void count_guesses(struct sp_draft_length *d, size_t drafted, size_t accepted)
{
    d->verified = forget * d->verified + (double)drafted;
    d->right_ones = forget * d->right_ones + (double)accepted;
    for (size_t i = 1; i <= drafted && i <= accepted + 1; i++) {
        size_t class = class_of(d->confidence[i]);
        double right = i <= accepted ? 1 : 0;
        d->tried[i] = forget * d->tried[i] + 1;
        d->accepted[i] = forget * d->accepted[i] + right;
        if (i > d->n_made) continue; /* not judged */
        d->judged[class] = forget_judged * d->judged[class] + 1;
        d->right[class] = forget_judged * d->right[class] + right;
    }
}

static void record_pass(struct sp_draft_length *d, const struct sp_round *r)
{
    size_t n = r->drafted + r->other_rows;

    d->other_rows = r->other_rows;
    d->other_drafts = r->other_drafts;
    d->n_others = r->n_others;
    if (r->made) d->shared_draft_seconds = r->draft_seconds - r->draft_cost;
    if (r->other_drafts == 0) d->shared_draft_seconds = 0;
    if (n >= SP_COST_LENGTHS) return;
    sp_cost_model_record(&d->verify, n, r->verify_seconds);
    d->n_plain += r->drafted == 0;
}

void sp_draft_length_record(struct sp_draft_length *d, const struct sp_round *r)
{
    size_t n = d->stepwise ? r->made : r->asked;

    if (r->drafted > d->max || n > d->max) return;
    record_pass(d, r);
    if (n > 0) sp_cost_model_record(&d->draft, n, r->draft_cost);
    if (d->n_asked > 0) settle(d, r, n);
    count_guesses(d, r->drafted, r->accepted);
    d->n_asked = d->n_made = 0;
}

/* The prices of the guesses that are verified add up to what their rows cost, and their gain is
 * what is left of the tokens. */
double sp_draft_length_expected_rate(const struct sp_draft_length *d)
{
    double seconds = d->verify_seconds[d->n_cut];

    return tokens_each(d, 1 + d->best_gain + d->rate * (seconds - d->verify_seconds[0])) / seconds;
}

double sp_draft_length_rate(const struct sp_draft_length *d)
{
    return d->paused ? plain_rate(d) : drafted_rate(d);
}

void sp_draft_length_observe(struct sp_draft_length *d, const struct sp_round *r)
{
    record_pass(d, r);
    d->n_asked = d->n_made = 0;
}

void sp_draft_length_add_round(struct sp_draft_length *d, const struct sp_round *r)
{
    add_round(d, tokens_each(d, (double)r->emitted),
              r->draft_cost + pass_cost(d, r->drafted) + d->shared_draft_seconds);
}
