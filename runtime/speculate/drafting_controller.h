/* What the sequences that draft with one model learn and decide together: costs, acceptances, the
 * rate of drafting, and pauses.
 *
 * Three estimates:
 *
 *   cost         runtime/speculate/cost_model.c: a curve for verifying and one for drafting
 *   acceptance   by the draft's confidence (runtime/speculate/calibrated_confidence.c); for a token
 *                not drafted yet the mean acceptance at its position
 *   rate         tokens and seconds of recent drafted rounds, shrunk towards the rate that the
 *                costs and the mean acceptance predict
 *
 * A CUSUM of the plain steps that drafting lost (Page 1954) detects that it does not pay: drafting
 * pauses when the sum exceeds three and the estimated rate is below that of plain steps. A pause
 * ends by probes of one draft token (or a block): the first after 8 plain steps, then after twice
 * as many steps each time that a probe fails, 64 at most.
 *
 * Before a proposal the draft processes what it has not read: the prompt, or the output of plain
 * steps. That is worth its time if the rest of the answer is expected to save more. How long an
 * answer will be is not known; it is expected to go on as long as it is already, and at least like
 * earlier ones, so that at most about as much time is lost as drafting could have saved (ski
 * rental, Karlin et al. 1988).
 *
 * The sequences of a pass wait for each other, so one plan holds for all of them: whether the next
 * round drafts, probes or is a plain step. The first that chooses a length after a pass makes the
 * plan. A pass is counted once all its sequences have recorded it, or a later pass is planned.
 *
 * [held by one thread at a time: sequences that share a controller share a scheduler] */
#ifndef SP_RUNTIME_SPECULATE_DRAFTING_CONTROLLER_H
#define SP_RUNTIME_SPECULATE_DRAFTING_CONTROLLER_H

#include "format/base/strbuf.h"
#include "format/json/json.h"
#include "runtime/spectool.h"

/* The probability that a draft token is accepted, from the draft's confidence in it: Platt scaling
 * (Platt 1999), p = sigmoid(a + b logit(confidence)), learned online by Newton steps. */

/* b and the curvature [[h_aa, h_ab], [h_ab, h_bb]] start at a prior that trusts the confidence. */
struct sp_calibrated_confidence {
    double a, b;
    double h_aa, h_ab, h_bb;
};

void sp_calibrated_confidence_init(struct sp_calibrated_confidence *c);

/* The probability, 0..1. */
double sp_calibrated_confidence_at(const struct sp_calibrated_confidence *c, double confidence);

/* An upper bound of the probability, two standard deviations of the logit above it, which shrinks
 * as outcomes are recorded: what is tried for it is soon known (LinUCB, Li et al. 2010). */
double sp_calibrated_confidence_upper(const struct sp_calibrated_confidence *c, double confidence);

/* Learns from one outcome. */
void sp_calibrated_confidence_record(struct sp_calibrated_confidence *c, double confidence,
                                     bool accepted);

/* The cost in seconds of verifying or drafting n tokens, as a function of n, learned from noisy
 * timings.
 *
 * The model is a straight line through all timings, fitted by weighted least squares with a prior
 * for its shape, combined with the mean of the timings at n itself, which weighs more the more
 * there are: kernels have steps that a line does not. Noise of a shared machine only ever adds
 * time, so a mean follows shorter times quickly and longer ones slowly, and an outlier counts in
 * part. Passes that touch the pages of the weights for the first time take many times as long as
 * later ones: a time that is much shorter than expected discards all timings before it. */

enum { SP_COST_LENGTHS = 256 };

/* Valid when zeroed, except for `shape` and `steepest`. */
struct sp_cost_model {
    double shape;    /* prior of the slope, relative to the cost at n = 0 */
    double steepest; /* greatest slope, relative to the cost at n = 0 */
    double mean[SP_COST_LENGTHS], weight[SP_COST_LENGTHS];
    size_t n_timings;
    double base, slope; /* of the fitted line */
};

void sp_cost_model_record(struct sp_cost_model *cost, size_t n,
                          double seconds); /* n < SP_COST_LENGTHS */

/* Sets the mean of `weight` >= 0 earlier timings at n < SP_COST_LENGTHS. */
void sp_cost_model_set(struct sp_cost_model *cost, size_t n, double seconds, double weight);

/* Expected seconds; 1 + shape n before the first timing. */
double sp_cost_model_at(const struct sp_cost_model *cost, size_t n);

enum { SP_DRAFT_LENGTH_MAX = 63 };

/* The outcome of one round of a sequence. Numbers of draft tokens: requested (`asked`), proposed
 * (`made`), verified (`drafted`) and accepted; each is a part of the one before it. */
struct sp_round {
    size_t asked, made, drafted, accepted;
    size_t emitted; /* tokens added to the text */
    double draft_seconds, verify_seconds;
    double draft_cost;       /* draft_seconds with shared passes divided among their rows */
    double catch_up_seconds; /* the draft's processing of committed tokens before it proposes */
    size_t n_caught_up;      /* these tokens */
    size_t pass;             /* number of the target's pass, which grows from round to round */
    size_t n_others;         /* other sequences in it */
    size_t other_rows;       /* their rows */
    bool beside_prompt;      /* one of them processed a prompt */
    bool stopped;            /* no more tokens are wanted */
    enum sp_round_reason reason;
};

/* What a sequence knows before a round of what drafting would cost and could save. */
struct sp_draft_outlook {
    size_t n_unread;    /* committed tokens that the draft must process before it proposes */
    size_t n_written;   /* tokens of the answer */
    size_t n_left;      /* tokens that it can have yet */
    double row_seconds; /* expected of the draft for one of many rows in a pass; 0: not known */
};

/* A target pass whose rounds are being recorded. */
struct sp_recorded_pass {
    size_t pass, n_seqs, n_recorded;
    size_t n_choosing;        /* sequences whose length was chosen here */
    size_t rows;              /* beyond the first */
    size_t longest, accepted; /* draft tokens of sequences that chose: most made, all accepted */
    bool is_probe, beside_prompt;
};

struct sp_drafting_controller {
    size_t max;    /* longest proposal, <= SP_DRAFT_LENGTH_MAX */
    bool stepwise; /* each draft token costs a pass of the draft; else a block comes at once */

    /* Statistics of earlier rounds; counts decay from round to round. */
    struct sp_cost_model verify;          /* by rows of the pass beyond the first */
    struct sp_cost_model draft;           /* by draft tokens */
    size_t n_drafted;                     /* proposals of the draft in this process, timed or not */
    double made[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: proposals that made draft token i */
    double tried[SP_DRAFT_LENGTH_MAX + 1];    /* [i]: times that draft token i >= 1 was reached */
    double accepted[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: times that draft token i was accepted */
    struct sp_calibrated_confidence confidence;
    double tokens, seconds;             /* sums over drafted rounds, tokens per sequence */
    double caught_up, catch_up_seconds; /* sums over the draft's processing of committed tokens */
    double answer_len;                  /* mean of the answers' tokens */
    double loss; /* CUSUM: plain steps that drafting lost minus those that it saved, >= 0 */
    bool paused;
    size_t wait;                 /* paused: rounds until the next probe */
    size_t gap;                  /* paused: rounds between two probes */
    size_t n_others, n_drafting; /* in the last pass: sequences but one; sequences that chose */
    struct sp_recorded_pass last;

    /* The plan of the round under way. */
    size_t n_rounds;
    bool resumed;   /* a plain step was timed by an earlier process */
    size_t planned; /* the pass before it */
    enum sp_round_reason plan;
    double acceptance[SP_DRAFT_LENGTH_MAX + 2];     /* [i]: mean acceptance of draft token i */
    double verify_seconds[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: expected of i draft tokens each */
    double draft_seconds[SP_DRAFT_LENGTH_MAX + 1];
    double drafted; /* tokens per second and sequence expected of drafting */
    double rate;    /* tokens per second and drafting sequence that a draft token must reach to be
                     worth its time */
};

void sp_drafting_controller_init(struct sp_drafting_controller *controller, size_t max,
                                 bool stepwise);

/* Begins with statistics of an earlier process, which are set already: paused if drafting was
 * clearly slower than plain steps by them, unless `retry`. */
void sp_drafting_controller_resume(struct sp_drafting_controller *controller, bool retry);

/* Plans the round after pass number `pass`, unless that is planned. Sets the members above. */
void sp_drafting_controller_plan(struct sp_drafting_controller *controller, size_t pass);

/* Whether the planned round is a plain step of all sequences. */
bool sp_drafting_controller_is_plain(const struct sp_drafting_controller *controller);

/* Whether drafting is expected to save the time that the draft needs first for the tokens that it
 * has not read: a prompt, or the text since the last proposal. */
bool sp_drafting_controller_pays_to_catch_up(const struct sp_drafting_controller *controller,
                                             const struct sp_draft_outlook *outlook);

/* Learns how long an answer was, in tokens. */
void sp_drafting_controller_end_answer(struct sp_drafting_controller *controller, size_t n);

/* Seconds that draft token n of each drafting sequence adds to the target's pass. */
double sp_drafting_controller_verify_step(const struct sp_drafting_controller *controller,
                                          size_t n);

/* Seconds that drafting token n adds for one sequence: its part of a pass that all sequences which
 * draft that token share. */
double sp_drafting_controller_draft_step(const struct sp_drafting_controller *controller, size_t n);

/* Mean number of tokens per sequence in a round in which each drafting sequence gets n. */
double sp_drafting_controller_tokens_each(const struct sp_drafting_controller *controller,
                                          double n);

/* Returns the tokens per second and sequence with this drafter, or of plain steps while it is
 * paused. */
double sp_drafting_controller_rate(const struct sp_drafting_controller *controller);

/* Learns from draft token i: `accepted` is 1 or 0, or the probability if it was not worth
 * verifying. `confidence`: of the draft in a verified token; < 0: unknown. */
void sp_drafting_controller_count(struct sp_drafting_controller *controller, size_t i,
                                  double confidence, double accepted);

/* Learns from a round of one sequence. `chose`: the plan, a probe or not, chose its length. */
void sp_drafting_controller_record(struct sp_drafting_controller *controller,
                                   const struct sp_round *round, bool chose, bool is_probe);

/* Counts a round in which the tokens of another drafter were verified towards the measured rate, so
 * that it can be compared with the rates of other drafters. */
void sp_drafting_controller_add_round(struct sp_drafting_controller *controller,
                                      const struct sp_round *round);

/* ---- for the next process (drafting_controller_json.c) ----
 *
 * The statistics of drafting as JSON text, by which a process begins with what an earlier one
 * learned of the same pair on the same machine:
 *
 *   {"version": 1,
 *    "verify": [[rows, seconds, timings], ...], "draft": [[tokens, seconds, timings], ...],
 *    "catch_up": [tokens, seconds],
 *    "accepted": [[position, tried, accepted], ...],
 *    "confidence": [a, b, h_aa, h_ab, h_bb],
 *    "drafted": [tokens, seconds]}
 *
 * Rows are those of a pass beyond the first. Times change with the load of the machine and
 * acceptance with the text, so what is read counts no more than a few rounds. */

/* Whether enough was drafted since *c was initialized or read to be worth writing. */
bool sp_drafting_controller_json_is_new(const struct sp_drafting_controller *controller);

SP_MUST_CHECK enum sp_status sp_drafting_controller_json_write(
    struct sp_strbuf *out, const struct sp_drafting_controller *controller, struct sp_err *err);

/* Reads the statistics into a controller that has no rounds yet. If drafting did not pay by them it
 * begins paused, unless `retry`. On failure (SP_E_INPUT) the controller stays as it was. */
SP_MUST_CHECK enum sp_status
sp_drafting_controller_json_read(struct sp_drafting_controller *controller,
                                 const struct sp_json *statistics, bool retry, struct sp_err *err);

#endif
