#include "runtime/speculate/draft_length.h"

#include <math.h>
#include <string.h>

/* Chosen by replaying recorded proposals of real pairs with noisy clocks
 * (tests/runtime/test_draft_replay.c); the results are flat around these values. */
static const double forget = 0.97;            /* decay of the counts per round */
static const double forget_paused = 0.85;     /* decay of the counts per probe of a pause */
static const double first_acceptance = 0.8;   /* prior of the mean acceptance */
static const double first_weight = 8;         /* draft tokens that first_acceptance counts for */
static const double position_weight = 8;      /* draft tokens that the position before counts for */
static const double rate_weight = 8;          /* rounds that the predicted rate counts for */
static const double draft_prior_block = 0.25; /* plain steps that drafting a block takes */
static const double draft_prior_step = 0.25;  /* plain steps that drafting a token takes */
static const double first_pass = 4;           /* times its prior that the first drafting may take */
static const double confidence_weight = 20;   /* prior curvature of the calibration */
static const double confidence_forget = 0.99; /* decay of the curvature per draft token */
static const double greatest_loss = 3;  /* plain steps that drafting may lose until it pauses */
static const double exploration = 0.75; /* part of its cost that one more draft token must
                                         * save: drafting it also yields its confidence */
static const double first_cost = 2; /* slow start: plain steps that a round's drafting may take */
static const double growth = 1.3;   /* slow start: growth of the cap after a round that filled it */
static const double tolerance = 0.95; /* drafting pauses below this ratio to the plain rate */

enum {
    FIRST_BLOCK = 8,   /* draft length of the first round, if a pass drafts a block */
    FIRST_STEPS = 4,   /* draft length of the first round, if a pass drafts a token */
    LEAST_STEPS = 2,   /* minimum cap of the slow start */
    FIRST_GAP = 8,     /* plain steps of a pause before its first probe */
    LONGEST_GAP = 64,  /* plain steps between probes */
    FIRST_PLAIN = 8,   /* number of the first round that is a plain step, to time one */
    PLAIN_EVERY = 320, /* rounds between plain steps that are timed */
};

void sp_draft_length_init(struct sp_draft_length *d, size_t max, bool stepwise)
{
    *d = (struct sp_draft_length){
        .max = max,
        .stepwise = stepwise,
        .verify = {.shape = 0.08, .steepest = 1},
        .draft = {.shape = stepwise ? 4 : 0.02, .steepest = 1e3},
        .confidence = {.b = 1, .h_aa = confidence_weight, .h_bb = confidence_weight},
        .cap = stepwise ? FIRST_STEPS : max,
        .gap = FIRST_GAP,
        .n_drafting = 1,
    };
}

static double at_least(double value, double least)
{
    return value > least ? value : least;
}

/* ---- confidence -------------------------------------------------------------------------------
 */

static double logit(double confidence)
{
    static const double least = 1e-4;

    confidence = fmin(fmax(confidence, least), 1 - least / 10);
    return log(confidence / (1 - confidence));
}

static double calibrated(const struct sp_calibrated_confidence *c, double x)
{
    return 1 / (1 + exp(-(c->a + c->b * x)));
}

/* A Newton step on the log-likelihood of one outcome. */
static void calibrate(struct sp_calibrated_confidence *c, double x, bool accepted)
{
    static const double least = 1e-3;
    double p = calibrated(c, x), g = (accepted ? 1 : 0) - p, h = p * (1 - p) + least, det;

    c->h_aa = confidence_weight + confidence_forget * (c->h_aa - confidence_weight) + h;
    c->h_ab = confidence_forget * c->h_ab + h * x;
    c->h_bb = confidence_weight + confidence_forget * (c->h_bb - confidence_weight) + h * x * x;
    det = c->h_aa * c->h_bb - c->h_ab * c->h_ab;
    c->a += (c->h_bb * g - c->h_ab * g * x) / det;
    c->b = at_least(c->b + (c->h_aa * g * x - c->h_ab * g) / det, 0);
}

/* ---- costs ------------------------------------------------------------------------------------
 */

/* Seconds of a target pass in which every drafting sequence has n draft tokens. */
static double verify_cost(const struct sp_draft_length *d, size_t n)
{
    size_t rows = d->n_others + (size_t)(d->n_drafting * (double)n + 0.5);

    return sp_cost_model_at(&d->verify, rows < SP_COST_LENGTHS ? rows : SP_COST_LENGTHS - 1);
}

static double draft_cost(const struct sp_draft_length *d, size_t n)
{
    double unknown = d->stepwise ? draft_prior_step * (double)n : draft_prior_block;

    if (n == 0) return 0;
    if (d->draft.n_timings == 0) return unknown * verify_cost(d, 0);
    return sp_cost_model_at(&d->draft, n);
}

/* Expected seconds of rounds of up to n draft tokens; more tokens never take less. */
static void find_costs(struct sp_draft_length *d, size_t n)
{
    d->verify_seconds[0] = verify_cost(d, 0);
    d->draft_seconds[0] = 0;
    for (size_t i = 1; i <= n; i++) {
        d->verify_seconds[i] = at_least(verify_cost(d, i), d->verify_seconds[i - 1]);
        d->draft_seconds[i] = at_least(draft_cost(d, i), d->draft_seconds[i - 1]);
    }
}

/* Seconds that verifying draft token n adds to a round. */
static double verify_step(const struct sp_draft_length *d, size_t n)
{
    return d->verify_seconds[n] - d->verify_seconds[n - 1];
}

/* Seconds that drafting token n adds to a round. */
static double draft_step(const struct sp_draft_length *d, size_t n)
{
    return d->draft_seconds[n] - d->draft_seconds[n - 1];
}

/* Expected number of sequences that share the draft's pass for token n: this one, and the others
 * that draft, each of which is assumed to reach token n as often as this one does. */
static double sharing(const struct sp_draft_length *d, size_t n)
{
    static const double weight = 2;

    return 1 + (d->n_drafting - 1) * (d->made[n] + weight) / (d->made[1] + weight);
}

/* ---- rates ------------------------------------------------------------------------------------
 */

/* Mean number of tokens per sequence in a round in which each drafting sequence gets n. */
static double tokens_each(const struct sp_draft_length *d, double n)
{
    double n_all = (double)d->n_others + 1;

    return (n_all - d->n_drafting + d->n_drafting * n) / n_all;
}

static double plain_rate(const struct sp_draft_length *d)
{
    return 1 / verify_cost(d, 0);
}

/* Computes the mean acceptance at each position, with that of the position before
 * as the prior. */
static void find_acceptances(struct sp_draft_length *d, size_t n)
{
    double tried = 0, accepted = 0, p;

    for (size_t i = 1; i <= d->max; i++) {
        tried += d->tried[i];
        accepted += d->accepted[i];
    }
    p = (accepted + first_weight * first_acceptance) / (tried + first_weight);
    for (size_t i = 1; i <= n; i++) {
        p = (d->accepted[i] + position_weight * p) / (d->tried[i] + position_weight);
        d->acceptance[i] = p;
    }
}

/* Returns the highest rate of any fixed draft length up to n, predicted from the costs and the mean
 * acceptances, and sets *length to that draft length. */
static double predicted_rate(const struct sp_draft_length *d, size_t n, size_t *length)
{
    double best = 0, tokens = 1, all_accepted = 1;

    for (size_t i = 1; i <= n; i++) {
        double rate;
        all_accepted *= d->acceptance[i];
        tokens += all_accepted;
        rate = tokens_each(d, tokens) / (d->draft_seconds[i] + d->verify_seconds[i]);
        if (rate <= best) continue;
        best = rate;
        *length = i;
    }
    return best;
}

static double drafted_rate(const struct sp_draft_length *d, double predicted)
{
    return (d->tokens + rate_weight) / (d->seconds + rate_weight / predicted);
}

/* ---- choosing ---------------------------------------------------------------------------------
 */

/* Returns true if this round is a plain step, whose time everything else is compared with: rounds
 * 8, 40 and every 320th. */
static bool is_plain_due(const struct sp_draft_length *d)
{
    return d->n_rounds == FIRST_PLAIN || d->n_rounds == FIRST_PLAIN * 5 ||
           d->n_rounds % PLAIN_EVERY == 0;
}

/* Returns the draft length of a block. All tokens of a block are drafted before the first of them
 * is considered, so the length is the one that pays most if only tokens worth verifying are
 * verified. */
static size_t block_length(const struct sp_draft_length *d, size_t limit)
{
    double all_accepted = 1, gain = 0, best_gain = -1;
    size_t best = 1;

    if (d->draft.n_timings == 0) return limit < FIRST_BLOCK ? limit : FIRST_BLOCK;
    for (size_t i = 1; i <= limit; i++) {
        all_accepted *= d->acceptance[i];
        gain +=
            at_least(all_accepted - d->rate * verify_step(d, i), 0) - d->rate * draft_step(d, i);
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = i;
    }
    return best;
}

size_t sp_draft_length_choose(struct sp_draft_length *d, size_t limit)
{
    size_t length = 1;
    double predicted, n_all = (double)d->n_others + 1;

    if (limit > d->max) limit = d->max;
    if (limit == 0) return 0;
    d->n_rounds++;
    d->reason = SP_ROUND_MEASURE;
    if (is_plain_due(d)) return 0;
    d->reason = SP_ROUND_PAUSE;
    if (d->paused && --d->wait > 0) return 0;
    d->reason = d->paused ? SP_ROUND_PROBE : SP_ROUND_LIMIT;
    find_costs(d, d->max);
    find_acceptances(d, d->max);
    predicted = predicted_rate(d, limit, &length);
    d->rate = at_least(drafted_rate(d, predicted), plain_rate(d)) * n_all / d->n_drafting;
    if (!d->stepwise) {
        d->n_asked = block_length(d, limit);
    } else if (d->paused) {
        d->n_asked = 1;
    } else {
        d->n_asked = limit < d->cap ? limit : d->cap;
    }
    d->n_made = d->n_verify = 0;
    d->all_accepted = 1;
    d->gain = 0;
    return d->n_asked;
}

bool sp_draft_length_consider(struct sp_draft_length *d, double confidence)
{
    size_t i = ++d->n_made;
    double p = calibrated(&d->confidence, logit(confidence)), cost;

    d->confidences[i] = confidence;
    d->all_accepted *= p;
    if (d->n_verify == i - 1 &&
        (d->all_accepted > d->rate * verify_step(d, i) || (d->paused && i == 1))) {
        d->n_verify = i;
        d->gain += d->all_accepted;
    }
    if (i >= d->n_asked) return false;
    /* The next draft token is estimated to be accepted with the mean of this token's confidence and
     * the acceptance at its position. */
    cost = d->rate * verify_step(d, i + 1);
    if (d->stepwise) {
        cost += d->rate * d->n_drafting / sharing(d, i + 1) * draft_step(d, i + 1);
    }
    if (d->n_verify == i && d->all_accepted * (p + d->acceptance[i + 1]) / 2 > exploration * cost) {
        return true;
    }
    if (!d->paused) d->reason = SP_ROUND_CONFIDENCE;
    return false;
}

size_t sp_draft_length_n_verify(const struct sp_draft_length *d)
{
    return d->n_verify;
}

/* ---- learning ---------------------------------------------------------------------------------
 */

static void add_round(struct sp_draft_length *d, double tokens, double seconds)
{
    d->tokens = forget * d->tokens + tokens;
    d->seconds = forget * d->seconds + seconds;
}

/* Counts the draft tokens up to the first rejected one; whether a later one would have been
 * accepted is not known. */
static void count_tokens(struct sp_draft_length *d, size_t drafted, size_t accepted)
{
    double keep = d->paused ? forget_paused : forget;

    for (size_t i = 1; i <= drafted && i <= accepted + 1; i++) {
        d->tried[i] = keep * d->tried[i] + 1;
        d->accepted[i] = keep * d->accepted[i] + (i <= accepted);
        if (i <= d->n_made) calibrate(&d->confidence, logit(d->confidences[i]), i <= accepted);
    }
}

/* Returns the draft length with which a slow start begins: as many tokens as can be drafted in the
 * time of first_cost plain steps. */
static size_t first_steps(const struct sp_draft_length *d)
{
    double n = FIRST_STEPS;

    if (!d->stepwise) return d->max;
    if (d->draft.n_timings > 0) n = first_cost * verify_cost(d, 0) * n / draft_cost(d, FIRST_STEPS);
    return n > (double)LEAST_STEPS ? (size_t)n : LEAST_STEPS;
}

static void slow_start(struct sp_draft_length *d, const struct sp_round *r)
{
    size_t least = first_steps(d);

    if (r->accepted == r->asked) {
        if (d->cap < d->max) d->cap = (size_t)(growth * (double)d->cap) + 1;
    } else if (r->accepted < r->drafted && d->cap > r->accepted + 1) {
        d->cap = r->accepted + 1;
    }
    if (d->cap < least) d->cap = least;
}

/* Returns true if drafting is about as fast as plain steps, judged by recent rounds and by the rate
 * that is predicted for the best fixed draft length. */
static bool may_pay(struct sp_draft_length *d)
{
    size_t length;

    find_costs(d, d->max);
    find_acceptances(d, d->max);
    return drafted_rate(d, predicted_rate(d, d->max, &length)) > tolerance * plain_rate(d);
}

/* Pauses drafting. A probe delays all sequences of a pass, so the interval grows with their
 * number. */
static void pause(struct sp_draft_length *d)
{
    double probe = draft_cost(d, 1) + verify_step(d, 1), plain = verify_cost(d, 0);

    d->paused = true;
    d->tokens = d->seconds = 0;
    d->wait = (size_t)((double)d->gap * at_least((double)(d->n_others + 1) * probe / plain, 1));
    if (2 * d->gap <= LONGEST_GAP) d->gap *= 2;
}

/* Begins, prolongs or ends a pause after a round whose length was chosen here. */
static void settle(struct sp_draft_length *d, const struct sp_round *r, size_t n)
{
    double tokens = tokens_each(d, (double)r->accepted + 1);
    double seconds = draft_cost(d, n) + sp_cost_model_at(&d->verify, r->drafted + r->other_rows);

    if (d->paused) {
        if (r->accepted == 0 || !may_pay(d)) {
            pause(d);
            return;
        }
        d->paused = false;
        d->loss = greatest_loss - 1;
        d->cap = first_steps(d);
        return;
    }
    add_round(d, tokens, seconds);
    slow_start(d, r);
    d->loss = at_least(d->loss + seconds * plain_rate(d) - tokens, 0);
    if (d->loss == 0) d->gap = FIRST_GAP;
    if (d->loss <= greatest_loss) return;
    if (may_pay(d)) {
        d->loss = greatest_loss; /* the loss was chance: drafting goes on */
    } else {
        pause(d);
    }
}

static void record_pass(struct sp_draft_length *d, const struct sp_round *r)
{
    static const double newest = 0.25;
    size_t rows = r->drafted + r->other_rows;
    double n_all = (double)r->n_others + 1;
    double n_drafting = fmin(1 + (double)r->other_drafts, n_all);

    d->n_others = r->n_others;
    d->n_drafting = fmin(d->n_drafting + newest * (n_drafting - d->n_drafting), n_all);
    if (rows < SP_COST_LENGTHS) sp_cost_model_record(&d->verify, rows, r->verify_seconds);
}

/* The first pass of a draft reads its weights from the file, which may take many times as long as
 * later passes: such a time is not evidence. */
static void record_drafting(struct sp_draft_length *d, size_t n, double seconds)
{
    bool first = !d->has_drafted;

    d->has_drafted = true;
    if (first && seconds > first_pass * draft_cost(d, n)) return;
    sp_cost_model_record(&d->draft, n, seconds);
}

void sp_draft_length_record(struct sp_draft_length *d, const struct sp_round *r)
{
    size_t n = d->stepwise ? r->made : r->asked;

    if (r->drafted > d->max || n > d->max) return;
    if (r->drafted + r->other_rows >= SP_COST_LENGTHS) return;
    count_tokens(d, r->drafted, r->accepted);
    record_pass(d, r);
    for (size_t i = 1; i <= d->max; i++)
        d->made[i] = forget * d->made[i] + (r->made >= i);
    if (n > 0) record_drafting(d, n, r->draft_seconds);
    if (d->n_asked > 0) settle(d, r, n);
    d->n_asked = d->n_made = 0;
}

void sp_draft_length_observe(struct sp_draft_length *d, const struct sp_round *r)
{
    record_pass(d, r);
    d->n_asked = d->n_made = 0;
}

void sp_draft_length_add_round(struct sp_draft_length *d, const struct sp_round *r)
{
    size_t rows = r->drafted + r->other_rows;

    if (rows >= SP_COST_LENGTHS) return;
    add_round(d, tokens_each(d, (double)r->emitted),
              r->draft_seconds + sp_cost_model_at(&d->verify, rows));
}

double sp_draft_length_expected_rate(const struct sp_draft_length *d)
{
    return tokens_each(d, 1 + d->gain) / d->verify_seconds[d->n_verify];
}

double sp_draft_length_rate(const struct sp_draft_length *d)
{
    double plain = plain_rate(d);

    return d->paused ? plain : drafted_rate(d, plain);
}
