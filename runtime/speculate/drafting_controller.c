#include "runtime/speculate/drafting_controller.h"

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
static const double tolerance = 0.95;  /* drafting pauses below this ratio to the plain rate */
static const double resumed_tolerance = 0.9; /* the same for an earlier text: the acceptance of
                                              * another one differs, and drafting that does not pay
                                              * pauses soon, but a paused draft shows nothing */
static const double least_saving = 0.05;  /* part of the plain time that drafting may always save */
static const double first_answer = 128;   /* tokens of an answer */
static const double answer_weight = 0.25; /* of an answer in the mean of their lengths */
static const double longest_wait = 1e9;   /* passes of a pause */

enum {
    FIRST_GAP = 8,    /* plain steps of a pause before its first probe */
    LONGEST_GAP = 64, /* plain steps between probes */
    FIRST_PLAIN = 16, /* number of the first round that is a plain step, to time one */
    SECOND_PLAIN = 40,
    PLAIN_EVERY = 320, /* rounds between plain steps that are timed */
    FIRST_TIMED = 4,   /* passes of the target that are timed before the draft processes more than
                        * FIRST_UNREAD tokens */
    FIRST_UNREAD = 64,
    TIMED_UNREAD = 16, /* tokens whose processing is timed: fewer take longer each */
};

void sp_drafting_controller_init(struct sp_drafting_controller *c, size_t max, bool stepwise)
{
    *c = (struct sp_drafting_controller){
        .max = max,
        .stepwise = stepwise,
        .verify = {.shape = 0.08, .steepest = 1},
        .draft = {.shape = stepwise ? 4 : 0.02, .steepest = 1e3},
        .gap = FIRST_GAP,
        .n_drafting = 1,
        .answer_len = first_answer,
    };
    sp_calibrated_confidence_init(&c->confidence);
}

/* ---- costs ---- */

/* Seconds of a target pass in which every drafting sequence has n draft tokens. */
static double verify_cost(const struct sp_drafting_controller *c, size_t n)
{
    size_t rows = c->n_others + c->n_drafting * n;

    return sp_cost_model_at(&c->verify, rows < SP_COST_LENGTHS ? rows : SP_COST_LENGTHS - 1);
}

static double draft_cost(const struct sp_drafting_controller *c, size_t n)
{
    double unknown = c->stepwise ? draft_prior_step * (double)n : draft_prior_block;

    if (n == 0) return 0;
    if (c->draft.n_timings == 0) return unknown * verify_cost(c, 0);
    return sp_cost_model_at(&c->draft, n);
}

/* Expected seconds of rounds of up to `max` draft tokens; more tokens never take less. */
static void find_costs(struct sp_drafting_controller *c)
{
    c->verify_seconds[0] = verify_cost(c, 0);
    c->draft_seconds[0] = 0;
    for (size_t i = 1; i <= c->max; i++) {
        c->verify_seconds[i] = fmax(verify_cost(c, i), c->verify_seconds[i - 1]);
        c->draft_seconds[i] = fmax(draft_cost(c, i), c->draft_seconds[i - 1]);
    }
}

double sp_drafting_controller_verify_step(const struct sp_drafting_controller *c, size_t n)
{
    return c->verify_seconds[n] - c->verify_seconds[n - 1];
}

/* If each of N sequences drafts token n with probability q, and K of the other sequences do, the
 * mean part of the pass that falls to one of them is E[1 / (1 + K)] = (1 - (1 - q)^N) / (N q). */
double sp_drafting_controller_draft_step(const struct sp_drafting_controller *c, size_t n)
{
    double all = (double)c->n_drafting;
    double q = (c->made[n] + made_weight) / (c->made[1] + made_weight);
    double part = c->n_drafting > 1 ? (1 - pow(1 - q, all)) / (all * q) : 1;

    return all * part * (c->draft_seconds[n] - c->draft_seconds[n - 1]);
}

/* ---- rates ---- */

double sp_drafting_controller_tokens_each(const struct sp_drafting_controller *c, double n)
{
    double n_all = (double)c->n_others + 1, n_drafting = (double)c->n_drafting;

    return (n_all - n_drafting + n_drafting * n) / n_all;
}

static double plain_rate(const struct sp_drafting_controller *c)
{
    return 1 / verify_cost(c, 0);
}

/* Computes the mean acceptance at each position, with that of the position before as the prior. */
static void find_acceptances(struct sp_drafting_controller *c)
{
    double tried = 0, accepted = 0, p;

    for (size_t i = 1; i <= c->max; i++) {
        tried += c->tried[i];
        accepted += c->accepted[i];
    }
    p = (accepted + first_weight * first_acceptance) / (tried + first_weight);
    for (size_t i = 1; i <= c->max; i++) {
        p = (c->accepted[i] + position_weight * p) / (c->tried[i] + position_weight);
        c->acceptance[i] = p;
    }
}

/* The highest rate of any fixed draft length, predicted from costs and mean acceptances. */
static double predicted_rate(const struct sp_drafting_controller *c)
{
    double best = 0, tokens = 1, all_accepted = 1;

    for (size_t i = 1; i <= c->max; i++) {
        all_accepted *= c->acceptance[i];
        tokens += all_accepted;
        best = fmax(best, sp_drafting_controller_tokens_each(c, tokens) /
                              (c->draft_seconds[i] + c->verify_seconds[i]));
    }
    return best;
}

static double drafted_rate(const struct sp_drafting_controller *c, double predicted)
{
    return (c->tokens + rate_weight) / (c->seconds + rate_weight / predicted);
}

double sp_drafting_controller_rate(const struct sp_drafting_controller *c)
{
    double plain = plain_rate(c);

    return c->paused ? plain : drafted_rate(c, plain);
}

/* ---- counting a pass ---- */

/* Returns true if drafting is about as fast as plain steps, judged by recent rounds and by the rate
 * that is predicted for the best fixed draft length. */
static bool may_pay(struct sp_drafting_controller *c)
{
    find_costs(c);
    find_acceptances(c);
    return drafted_rate(c, predicted_rate(c)) > tolerance * plain_rate(c);
}

static void pause(struct sp_drafting_controller *c)
{
    double probe = draft_cost(c, 1) + sp_drafting_controller_verify_step(c, 1);
    double wait = (double)c->gap * fmax(probe * plain_rate(c), 1);

    c->paused = true;
    c->tokens = c->seconds = 0;
    c->wait = (size_t)fmin(wait, longest_wait);
    if (2 * c->gap <= LONGEST_GAP) c->gap *= 2;
}

bool sp_drafting_controller_pays_to_catch_up(const struct sp_drafting_controller *c,
                                             const struct sp_draft_outlook *o)
{
    double each = c->caught_up > 0 ? c->catch_up_seconds / c->caught_up : o->row_seconds;
    double saving = fmax(1 - plain_rate(c) / c->drafted, least_saving);
    double expected = fmin(fmax((double)o->n_written, c->answer_len), (double)o->n_left);

    if (c->verify.n_timings < FIRST_TIMED) return o->n_unread <= FIRST_UNREAD;
    return (double)o->n_unread * each <= expected * saving / plain_rate(c);
}

void sp_drafting_controller_end_answer(struct sp_drafting_controller *c, size_t n)
{
    c->answer_len += answer_weight * ((double)n - c->answer_len);
}

static void add_round(struct sp_drafting_controller *c, double tokens, double seconds)
{
    c->tokens = forget * c->tokens + tokens;
    c->seconds = forget * c->seconds + seconds;
}

/* Begins, prolongs or ends a pause after a recorded pass. A pass that also processed a prompt says
 * nothing about drafting, because the prompt prolonged it; a very large one's cost is unknown. */
static void count_pass(struct sp_drafting_controller *c)
{
    struct sp_recorded_pass pass = c->last;
    double tokens, seconds;

    c->last.n_seqs = 0;
    if (pass.n_choosing == 0 || pass.rows >= SP_COST_LENGTHS) return;
    if (pass.beside_prompt) {
        if (pass.is_probe) c->wait = FIRST_GAP;
        return;
    }
    c->n_others = pass.n_seqs - 1;
    c->n_drafting = pass.n_choosing;
    if (pass.longest == 0) return;
    if (pass.is_probe) {
        if (pass.accepted == 0 || !may_pay(c)) {
            pause(c);
            return;
        }
        c->paused = false;
        c->loss = greatest_loss - 1;
        return;
    }
    tokens =
        sp_drafting_controller_tokens_each(c, 1 + (double)pass.accepted / (double)pass.n_choosing);
    seconds = draft_cost(c, pass.longest) + sp_cost_model_at(&c->verify, pass.rows);
    add_round(c, tokens, seconds);
    c->loss = fmax(c->loss + seconds * plain_rate(c) - tokens, 0);
    if (c->loss == 0) c->gap = FIRST_GAP;
    if (c->loss <= greatest_loss) return;
    if (may_pay(c))
        c->loss = greatest_loss; /* the loss was chance: drafting goes on */
    else
        pause(c);
}

void sp_drafting_controller_resume(struct sp_drafting_controller *c, bool retry)
{
    c->resumed = true;
    find_costs(c);
    find_acceptances(c);
    if (retry || drafted_rate(c, predicted_rate(c)) > resumed_tolerance * plain_rate(c)) return;
    c->gap = LONGEST_GAP;
    pause(c);
}

/* ---- planning ---- */

/* Rounds 16, 40 and every 320th are plain steps, with whose time everything else is compared. */
static enum sp_round_reason choose_plan(struct sp_drafting_controller *c)
{
    if ((c->n_rounds == FIRST_PLAIN && !c->resumed) || c->n_rounds == SECOND_PLAIN ||
        c->n_rounds % PLAIN_EVERY == 0)
        return SP_ROUND_MEASURE;
    if (!c->paused) return SP_ROUND_LIMIT;
    if (c->wait <= 1) return SP_ROUND_PROBE; /* also if the last probe was not recorded */
    c->wait--;
    return SP_ROUND_PAUSE;
}

bool sp_drafting_controller_is_plain(const struct sp_drafting_controller *c)
{
    return c->plan == SP_ROUND_MEASURE || c->plan == SP_ROUND_PAUSE;
}

void sp_drafting_controller_plan(struct sp_drafting_controller *c, size_t pass)
{
    if (pass <= c->planned && c->n_rounds > 0) return;
    if (c->last.n_seqs > 0 && c->last.pass < pass) count_pass(c);
    c->planned = pass;
    c->n_rounds++;
    c->plan = choose_plan(c);
    if (sp_drafting_controller_is_plain(c)) return;
    find_costs(c);
    find_acceptances(c);
    c->drafted = drafted_rate(c, predicted_rate(c));
    c->rate = fmax(c->drafted, plain_rate(c)) * (double)(c->n_others + 1) / (double)c->n_drafting;
}

/* ---- recording ---- */

void sp_drafting_controller_count(struct sp_drafting_controller *c, size_t i, double confidence,
                                  double accepted)
{
    double keep = c->paused ? forget_paused : forget;

    c->tried[i] = keep * c->tried[i] + 1;
    c->accepted[i] = keep * c->accepted[i] + accepted;
    if (confidence >= 0) sp_calibrated_confidence_record(&c->confidence, confidence, accepted > 0);
}

/* Starts to record a pass, at the first of its rounds. */
static void begin_pass(struct sp_drafting_controller *c, const struct sp_round *r)
{
    if (c->last.n_seqs > 0) count_pass(c);
    c->last = (struct sp_recorded_pass){
        .pass = r->pass,
        .n_seqs = r->n_others + 1,
        .rows = r->drafted + r->other_rows,
        .beside_prompt = r->beside_prompt,
    };
    if (c->last.rows < SP_COST_LENGTHS)
        sp_cost_model_record(&c->verify, c->last.rows, r->verify_seconds);
    for (size_t i = 1; i <= c->max; i++)
        c->made[i] *= forget;
}

/* The first pass of a draft reads its weights from the file, which may take many times as long as
 * later passes: such a time is not evidence. */
void sp_drafting_controller_record(struct sp_drafting_controller *c, const struct sp_round *r,
                                   bool chose, bool is_probe)
{
    size_t n = c->stepwise ? r->made : r->asked;
    struct sp_recorded_pass *last = &c->last;

    if (last->n_seqs == 0 || r->pass != last->pass) begin_pass(c, r);
    for (size_t i = 1; i <= r->made; i++)
        c->made[i]++;
    if (n > 0 && (c->n_drafted++ > 0 || r->draft_seconds <= first_pass * draft_cost(c, n)))
        sp_cost_model_record(&c->draft, n, r->draft_seconds);
    if (r->n_caught_up >= TIMED_UNREAD) {
        c->caught_up = forget_catch_up * c->caught_up + (double)r->n_caught_up;
        c->catch_up_seconds = forget_catch_up * c->catch_up_seconds + r->catch_up_seconds;
    }
    last->n_recorded++;
    if (chose) {
        last->n_choosing++;
        last->accepted += r->accepted;
        last->is_probe |= is_probe;
        if (n > last->longest) last->longest = n;
    }
    if (last->n_recorded == last->n_seqs) count_pass(c);
}

void sp_drafting_controller_add_round(struct sp_drafting_controller *c, const struct sp_round *r)
{
    size_t rows = r->drafted + r->other_rows;

    if (rows >= SP_COST_LENGTHS) return;
    add_round(c, sp_drafting_controller_tokens_each(c, (double)r->emitted),
              r->draft_seconds + sp_cost_model_at(&c->verify, rows));
}
