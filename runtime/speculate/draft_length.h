/* How many tokens to draft in a round: as many as bring the most tokens a second.
 *
 * A round that verifies n draft tokens takes draft(n) + verify(n) seconds and emits
 * 1 + p1 + p1 p2 + ... tokens, where p_i is the probability that draft token i is accepted when
 * those before it are. Rounds renew each other, so the best policy is a threshold (SpecDec++, Huang
 * et al. 2024; optimal stopping of a renewal process): one more draft token is worth its time while
 * the probability that all draft tokens so far and this one are accepted exceeds the tokens that
 * its time would bring at the mean rate. Three estimates feed that rule:
 *
 *   cost         runtime/speculate/cost_model.h: a curve for verifying and one for drafting
 *   acceptance   the draft's confidence in a token, calibrated by Platt scaling (Platt 1999),
 *                p = sigmoid(a + b logit(confidence)), learned online; for a token not
 *                drafted yet the mean acceptance at its position
 *   rate         tokens and seconds of recent drafted rounds, shrunk towards the rate that the
 *                costs and the mean acceptance predict.
 *
 * A draft that makes its tokens one by one starts slowly, as TCP does (RFC 5681): a round may draft
 * for two plain steps at most, a third longer after each round whose tokens were all accepted, and
 * after a rejection no longer than was accepted. A CUSUM of the plain steps that drafting lost
 * (Page 1954) detects that it does not pay: drafting pauses when the sum exceeds three and the
 * estimated rate is below that of plain steps. A pause ends by probes of one draft token (or a
 * block): the first after 8 plain steps, then after twice as many steps each time that a probe
 * fails, 64 at most.
 *
 * Several sequences in one pass: each controller assumes that the other sequences which draft do
 * what it does. One more draft token adds a row for each of them to the pass of the target; a pass
 * of the draft is divided by the number of them that get so far, since proposals end at different
 * lengths.
 *
 * No choice made here changes the text. A controller belongs to one session and its thread. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_LENGTH_H
#define SP_RUNTIME_SPECULATE_DRAFT_LENGTH_H

#include "runtime/speculate/cost_model.h"
#include "runtime/spectool.h"

#include <stdbool.h>

enum { SP_DRAFT_LENGTH_MAX = 63 };

/* Platt scaling, fitted by Newton steps: b and the curvature [[h_aa, h_ab], [h_ab, h_bb]] start
 * at a prior that trusts the confidence. */
struct sp_calibrated_confidence {
    double a, b;
    double h_aa, h_ab, h_bb;
};

struct sp_draft_length {
    size_t max;    /* longest proposal, <= SP_DRAFT_LENGTH_MAX */
    bool stepwise; /* each draft token costs a pass of the draft; else a block comes at once */

    /* Statistics of earlier rounds; counts decay from round to round. */
    struct sp_cost_model verify;           /* by rows of the pass beyond the first */
    struct sp_cost_model draft;            /* by draft tokens */
    bool has_drafted;                      /* the first pass of the draft is over, timed or not */
    double made[SP_DRAFT_LENGTH_MAX + 1];  /* [i]: rounds that made draft token i */
    double tried[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: times that draft token i >= 1 was reached */
    double accepted[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: times that draft token i was accepted */
    struct sp_calibrated_confidence confidence;
    double tokens, seconds; /* sums over drafted rounds */
    size_t n_rounds;        /* rounds whose length was chosen here */
    size_t cap;             /* slow start: maximum of draft tokens in the next round */
    double loss; /* CUSUM: plain steps that drafting lost minus those that it saved, >= 0 */
    bool paused;
    size_t wait; /* paused: rounds until the next probe */
    size_t gap;  /* paused: rounds between two probes */

    /* The other sequences in the last pass. */
    size_t n_others;
    double n_drafting; /* sequences that draft, this one included; smoothed */

    /* State of the current round; n_asked is 0 unless its length was chosen here. */
    size_t n_asked, n_made, n_verify;
    enum sp_round_reason reason;
    double confidences[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: the draft's confidence in draft token i */
    double acceptance[SP_DRAFT_LENGTH_MAX + 2];  /* [i]: mean acceptance of draft token i */
    double verify_seconds[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: expected time to verify i */
    double draft_seconds[SP_DRAFT_LENGTH_MAX + 1];  /* [i]: expected time to draft i tokens */
    double rate;         /* tokens per second that a draft token must reach to be worth its time */
    double all_accepted; /* probability that all draft tokens so far are accepted */
    double gain;         /* expected number of accepted tokens among the first n_verify */
};

void sp_draft_length_init(struct sp_draft_length *d, size_t max, bool stepwise);

/* Starts a round: returns the number of draft tokens to request, <= limit; 0: a plain step. */
size_t sp_draft_length_choose(struct sp_draft_length *d, size_t limit);

/* Called after each draft token, with the draft's confidence in it (0..1). Returns true if another
 * one is worth drafting. */
bool sp_draft_length_consider(struct sp_draft_length *d, double confidence);

/* Returns how many of the draft tokens considered are worth verifying. */
size_t sp_draft_length_n_verify(const struct sp_draft_length *d);

/* The outcome of one round. Numbers of draft tokens: requested (`asked`), proposed (`made`),
 * verified
 * (`drafted`) and accepted; each counts some of those before it. */
struct sp_round {
    size_t asked, made, drafted, accepted;
    size_t emitted; /* tokens added to the text */
    double draft_seconds, verify_seconds;
    double draft_cost;       /* draft_seconds with shared passes divided among their rows */
    double catch_up_seconds; /* the draft's processing of committed tokens before it proposes */
    size_t other_rows;       /* rows of other sequences in the target's pass */
    size_t n_others;         /* other sequences in the target's pass */
    size_t other_drafts;     /* other_rows that are draft tokens */
    bool stopped;            /* no more tokens are wanted */
    enum sp_round_reason reason;
};

/* Learns from a round of this drafter, whether its length was chosen here or given. */
void sp_draft_length_record(struct sp_draft_length *d, const struct sp_round *round);

/* Learns what a pass costs from a round in which this drafter's tokens were not verified. */
void sp_draft_length_observe(struct sp_draft_length *d, const struct sp_round *round);

/* Counts a round in which this drafter's tokens were not verified towards the measured rate, so
 * that it can be compared with the rates of other drafters. */
void sp_draft_length_add_round(struct sp_draft_length *d, const struct sp_round *round);

/* Returns the expected tokens per second of verifying the draft tokens that are worth it; the time
 * of drafting them is not counted. */
double sp_draft_length_expected_rate(const struct sp_draft_length *d);

/* Returns the tokens per second with this drafter, or of plain steps while it is paused. */
double sp_draft_length_rate(const struct sp_draft_length *d);

#endif
