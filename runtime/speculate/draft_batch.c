#include "runtime/speculate/draft_batch.h"

#include <math.h>

/* Chosen by replaying recorded proposals of real pairs with noisy clocks
 * (tests/runtime/test_draft_replay.c); the results are flat around these values. */
static const double forget = 0.97;            /* decay of the counts per round */
static const double forget_catch_up = 0.5;    /* decay of the sums per catching up */
static const double forget_paused = 0.85;     /* decay of the counts per probe of a pause */
static const double first_acceptance = 0.8;   /* prior of the mean acceptance */
static const double first_weight = 8;         /* draft tokens that first_acceptance counts for */
static const double position_weight = 8;      /* draft tokens that the position before counts for */
static const double made_weight = 2;          /* prior proposals that reach every position */
static const double rate_weight = 8;          /* rounds that the predicted rate counts for */
static const double draft_prior_block = 0.25; /* plain steps that drafting a block takes */
static const double draft_prior_step = 0.25;  /* plain steps that drafting a token takes */
static const double first_pass = 4;           /* times its prior that the first drafting may take */
static const double greatest_loss = 3; /* plain steps that drafting may lose until it pauses */
static const double first_cost = 2;   /* slow start: plain steps that a round's drafting may take */
static const double tolerance = 0.95; /* drafting pauses below this ratio to the plain rate */
static const double resumed_tolerance = 0.9; /* the same for an earlier text: the acceptance of
                                              * another one differs, and drafting that does not pay
                                              * pauses soon, but a paused draft shows nothing */
static const double least_saving = 0.05; /* part of the plain time that drafting may always save */
static const double longest_wait = 1e9;  /* passes of a pause */

enum {
    FIRST_STEPS = 4,   /* draft length of the first round, if a pass drafts a token */
    LEAST_STEPS = 2,   /* minimum cap of the slow start */
    FIRST_GAP = 8,     /* plain steps of a pause before its first probe */
    LONGEST_GAP = 64,  /* plain steps between probes */
    FIRST_PLAIN = 8,   /* number of the first round that is a plain step, to time one */
    PLAIN_EVERY = 320, /* rounds between plain steps that are timed */
    FIRST_TIMED = 4,   /* passes of the target that are timed before the draft processes more than
                        * FIRST_UNREAD tokens */
    FIRST_UNREAD = 64,
    TIMED_UNREAD = 16, /* tokens whose processing is timed: fewer take longer each */
};

void sp_draft_batch_init(struct sp_draft_batch *b, size_t max, bool stepwise)
{
    *b = (struct sp_draft_batch){
        .max = max,
        .stepwise = stepwise,
        .verify = {.shape = 0.08, .steepest = 1},
        .draft = {.shape = stepwise ? 4 : 0.02, .steepest = 1e3},
        .gap = FIRST_GAP,
        .n_drafting = 1,
    };
    sp_calibrated_confidence_init(&b->confidence);
}

/* ---- costs ------------------------------------------------------------------------------------
 */

/* Seconds of a target pass in which every drafting sequence has n draft tokens. */
static double verify_cost(const struct sp_draft_batch *b, size_t n)
{
    size_t rows = b->n_others + b->n_drafting * n;

    return sp_cost_model_at(&b->verify, rows < SP_COST_LENGTHS ? rows : SP_COST_LENGTHS - 1);
}

static double draft_cost(const struct sp_draft_batch *b, size_t n)
{
    double unknown = b->stepwise ? draft_prior_step * (double)n : draft_prior_block;

    if (n == 0) return 0;
    if (b->draft.n_timings == 0) return unknown * verify_cost(b, 0);
    return sp_cost_model_at(&b->draft, n);
}

/* Expected seconds of rounds of up to `max` draft tokens; more tokens never take less. */
static void find_costs(struct sp_draft_batch *b)
{
    b->verify_seconds[0] = verify_cost(b, 0);
    b->draft_seconds[0] = 0;
    for (size_t i = 1; i <= b->max; i++) {
        b->verify_seconds[i] = fmax(verify_cost(b, i), b->verify_seconds[i - 1]);
        b->draft_seconds[i] = fmax(draft_cost(b, i), b->draft_seconds[i - 1]);
    }
}

double sp_draft_batch_verify_step(const struct sp_draft_batch *b, size_t n)
{
    return b->verify_seconds[n] - b->verify_seconds[n - 1];
}

/* If each of N sequences drafts token n with probability q, and K of the other sequences do, the
 * mean part of the pass that falls to one of them is E[1 / (1 + K)] = (1 - (1 - q)^N) / (N q). */
double sp_draft_batch_draft_step(const struct sp_draft_batch *b, size_t n)
{
    double all = (double)b->n_drafting;
    double q = (b->made[n] + made_weight) / (b->made[1] + made_weight);
    double part = b->n_drafting > 1 ? (1 - pow(1 - q, all)) / (all * q) : 1;

    return all * part * (b->draft_seconds[n] - b->draft_seconds[n - 1]);
}

size_t sp_draft_batch_first_steps(const struct sp_draft_batch *b)
{
    double n = FIRST_STEPS;

    if (!b->stepwise) return b->max;
    if (b->draft.n_timings > 0) n = first_cost * verify_cost(b, 0) * n / draft_cost(b, FIRST_STEPS);
    return n > (double)LEAST_STEPS ? (size_t)n : LEAST_STEPS;
}

/* ---- rates ------------------------------------------------------------------------------------
 */

double sp_draft_batch_tokens_each(const struct sp_draft_batch *b, double n)
{
    double n_all = (double)b->n_others + 1, n_drafting = (double)b->n_drafting;

    return (n_all - n_drafting + n_drafting * n) / n_all;
}

static double plain_rate(const struct sp_draft_batch *b)
{
    return 1 / verify_cost(b, 0);
}

/* Computes the mean acceptance at each position, with that of the position before as the prior. */
static void find_acceptances(struct sp_draft_batch *b)
{
    double tried = 0, accepted = 0, p;

    for (size_t i = 1; i <= b->max; i++) {
        tried += b->tried[i];
        accepted += b->accepted[i];
    }
    p = (accepted + first_weight * first_acceptance) / (tried + first_weight);
    for (size_t i = 1; i <= b->max; i++) {
        p = (b->accepted[i] + position_weight * p) / (b->tried[i] + position_weight);
        b->acceptance[i] = p;
    }
}

/* Returns the highest rate of any fixed draft length, predicted from the costs and the mean
 * acceptances. */
static double predicted_rate(const struct sp_draft_batch *b)
{
    double best = 0, tokens = 1, all_accepted = 1;

    for (size_t i = 1; i <= b->max; i++) {
        all_accepted *= b->acceptance[i];
        tokens += all_accepted;
        best = fmax(best, sp_draft_batch_tokens_each(b, tokens) /
                              (b->draft_seconds[i] + b->verify_seconds[i]));
    }
    return best;
}

static double drafted_rate(const struct sp_draft_batch *b, double predicted)
{
    return (b->tokens + rate_weight) / (b->seconds + rate_weight / predicted);
}

double sp_draft_batch_rate(const struct sp_draft_batch *b)
{
    double plain = plain_rate(b);

    return b->paused ? plain : drafted_rate(b, plain);
}

/* ---- counting a pass --------------------------------------------------------------------------
 */

/* Returns true if drafting is about as fast as plain steps, judged by recent rounds and by the rate
 * that is predicted for the best fixed draft length. */
static bool may_pay(struct sp_draft_batch *b)
{
    find_costs(b);
    find_acceptances(b);
    return drafted_rate(b, predicted_rate(b)) > tolerance * plain_rate(b);
}

static void pause(struct sp_draft_batch *b)
{
    double probe = draft_cost(b, 1) + sp_draft_batch_verify_step(b, 1);
    double wait = (double)b->gap * fmax(probe * plain_rate(b), 1);

    b->paused = true;
    b->tokens = b->seconds = 0;
    b->wait = (size_t)fmin(wait, longest_wait);
    if (2 * b->gap <= LONGEST_GAP) b->gap *= 2;
}

bool sp_draft_batch_pays_to_catch_up(const struct sp_draft_batch *b,
                                     const struct sp_draft_outlook *o)
{
    double each = b->caught_up > 0 ? b->catch_up_seconds / b->caught_up : o->row_seconds;
    double saving = fmax(1 - plain_rate(b) / b->drafted, least_saving);

    if (b->verify.n_timings < FIRST_TIMED) return o->n_unread <= FIRST_UNREAD;
    return (double)o->n_unread * each <= (double)o->n_expected * saving / plain_rate(b);
}

static void add_round(struct sp_draft_batch *b, double tokens, double seconds)
{
    b->tokens = forget * b->tokens + tokens;
    b->seconds = forget * b->seconds + seconds;
}

/* Begins, prolongs or ends a pause after a recorded pass. A pass that also processed a prompt says
 * nothing about drafting, because the prompt prolonged it; the cost of a very large one is not
 * known. */
static void count_pass(struct sp_draft_batch *b)
{
    struct sp_recorded_pass pass = b->last;
    double tokens, seconds;

    b->last.n_seqs = 0;
    if (pass.n_choosing == 0 || pass.rows >= SP_COST_LENGTHS) return;
    if (pass.beside_prompt) {
        if (pass.is_probe) b->wait = FIRST_GAP;
        return;
    }
    b->n_others = pass.n_seqs - 1;
    b->n_drafting = pass.n_choosing;
    if (pass.longest == 0) return;
    if (pass.is_probe) {
        if (pass.accepted == 0 || !may_pay(b)) {
            pause(b);
            return;
        }
        b->paused = false;
        b->loss = greatest_loss - 1;
        return;
    }
    tokens = sp_draft_batch_tokens_each(b, 1 + (double)pass.accepted / (double)pass.n_choosing);
    seconds = draft_cost(b, pass.longest) + sp_cost_model_at(&b->verify, pass.rows);
    add_round(b, tokens, seconds);
    b->loss = fmax(b->loss + seconds * plain_rate(b) - tokens, 0);
    if (b->loss == 0) b->gap = FIRST_GAP;
    if (b->loss <= greatest_loss) return;
    if (may_pay(b))
        b->loss = greatest_loss; /* the loss was chance: drafting goes on */
    else
        pause(b);
}

void sp_draft_batch_resume(struct sp_draft_batch *b, bool retry)
{
    b->resumed = true;
    find_costs(b);
    find_acceptances(b);
    if (retry || drafted_rate(b, predicted_rate(b)) > resumed_tolerance * plain_rate(b)) return;
    b->gap = LONGEST_GAP;
    pause(b);
}

/* ---- planning ---------------------------------------------------------------------------------
 */

/* Returns true if this round is a plain step, whose time everything else is compared with: rounds
 * 8, 40 and every 320th. */
static bool is_plain_due(const struct sp_draft_batch *b)
{
    return (b->n_rounds == FIRST_PLAIN && !b->resumed) || b->n_rounds == FIRST_PLAIN * 5 ||
           b->n_rounds % PLAIN_EVERY == 0;
}

static enum sp_round_reason choose_plan(struct sp_draft_batch *b)
{
    if (is_plain_due(b)) return SP_ROUND_MEASURE;
    if (!b->paused) return SP_ROUND_LIMIT;
    if (b->wait <= 1) return SP_ROUND_PROBE; /* also if the last probe was not recorded */
    b->wait--;
    return SP_ROUND_PAUSE;
}

bool sp_draft_batch_is_plain(const struct sp_draft_batch *b)
{
    return b->plan == SP_ROUND_MEASURE || b->plan == SP_ROUND_PAUSE;
}

void sp_draft_batch_plan(struct sp_draft_batch *b, size_t pass)
{
    if (pass <= b->planned && b->n_rounds > 0) return;
    if (b->last.n_seqs > 0 && b->last.pass < pass) count_pass(b);
    b->planned = pass;
    b->n_rounds++;
    b->plan = choose_plan(b);
    if (sp_draft_batch_is_plain(b)) return;
    find_costs(b);
    find_acceptances(b);
    b->drafted = drafted_rate(b, predicted_rate(b));
    b->rate = fmax(b->drafted, plain_rate(b)) * (double)(b->n_others + 1) / (double)b->n_drafting;
}

/* ---- recording --------------------------------------------------------------------------------
 */

static void count(struct sp_draft_batch *b, size_t i, double accepted)
{
    double keep = b->paused ? forget_paused : forget;

    b->tried[i] = keep * b->tried[i] + 1;
    b->accepted[i] = keep * b->accepted[i] + accepted;
}

void sp_draft_batch_count_unverified(struct sp_draft_batch *b, size_t i, double confidence)
{
    count(b, i, sp_calibrated_confidence_at(&b->confidence, confidence));
}

void sp_draft_batch_count(struct sp_draft_batch *b, size_t i, double confidence, bool accepted)
{
    count(b, i, accepted);
    if (confidence >= 0) sp_calibrated_confidence_record(&b->confidence, confidence, accepted);
}

/* Starts to record a pass, at the first of its rounds. */
static void begin_pass(struct sp_draft_batch *b, const struct sp_round *r)
{
    if (b->last.n_seqs > 0) count_pass(b);
    b->last = (struct sp_recorded_pass){
        .pass = r->pass,
        .n_seqs = r->n_others + 1,
        .rows = r->drafted + r->other_rows,
        .beside_prompt = r->beside_prompt,
    };
    if (b->last.rows < SP_COST_LENGTHS)
        sp_cost_model_record(&b->verify, b->last.rows, r->verify_seconds);
    for (size_t i = 1; i <= b->max; i++)
        b->made[i] *= forget;
}

/* The first pass of a draft reads its weights from the file, which may take many times as long as
 * later passes: such a time is not evidence. */
static void record_drafting(struct sp_draft_batch *b, size_t n, double seconds)
{
    bool first = b->n_drafted++ == 0;

    if (first && seconds > first_pass * draft_cost(b, n)) return;
    sp_cost_model_record(&b->draft, n, seconds);
}

void sp_draft_batch_record(struct sp_draft_batch *b, const struct sp_round *r, bool chose,
                           bool is_probe)
{
    size_t n = b->stepwise ? r->made : r->asked;
    struct sp_recorded_pass *last = &b->last;

    if (last->n_seqs == 0 || r->pass != last->pass) begin_pass(b, r);
    for (size_t i = 1; i <= r->made; i++)
        b->made[i]++;
    if (n > 0) record_drafting(b, n, r->draft_seconds);
    if (r->n_caught_up >= TIMED_UNREAD) {
        b->caught_up = forget_catch_up * b->caught_up + (double)r->n_caught_up;
        b->catch_up_seconds = forget_catch_up * b->catch_up_seconds + r->catch_up_seconds;
    }
    last->n_recorded++;
    if (chose) {
        last->n_choosing++;
        last->accepted += r->accepted;
        last->is_probe |= is_probe;
        if (n > last->longest) last->longest = n;
    }
    if (last->n_recorded == last->n_seqs) count_pass(b);
}

void sp_draft_batch_add_round(struct sp_draft_batch *b, const struct sp_round *r)
{
    size_t rows = r->drafted + r->other_rows;

    if (rows >= SP_COST_LENGTHS) return;
    add_round(b, sp_draft_batch_tokens_each(b, (double)r->emitted),
              r->draft_seconds + sp_cost_model_at(&b->verify, rows));
}
