/* How many tokens to draft in this round: as many as bring the most tokens a second.
 *
 * A round of n guesses costs draft(n) + verify(n) seconds, each learned as a curve from the rounds
 * themselves (runtime/speculate/cost_model.h), and brings 1 + c1 + c1 c2 + ... tokens, c_i being
 * the probability that guess i is right when those before it are. The draft's own confidence in a
 * guess says much about c_i, more than its place in the block: acceptance is counted by confidence.
 * Being paid by the second, one more guess is worth verifying while what it adds to the tokens is
 * more than what its time would bring at the rate of drafting so far (the optimal stopping of a
 * renewal process). So a round goes in three steps: choose   how many guesses to ask for at most,
 * from the average acceptance by place; judge    after each guess, with its confidence: are more
 * worth making? cut      how many of those made are worth verifying.
 *
 * Whether to draft at all is settled by a purse that is counted in plain steps: rounds pay in what
 * they save and take out what they waste, never more than a small fortune. Drafting pauses when it
 * is empty and the rounds that are remembered were slower than plain steps, all together: a run of
 * wrong guesses alone is bad luck. While it pauses every plain step puts an allowance in (less
 * where others have to wait for the bet), and the first full step of it is bet on drafting again.
 * Each lost bet halves the allowance. So what drafting can lose is bounded: the first loan, what it
 * won in the rounds remembered, and a share of the steps that shrinks.
 *
 * Everything is weighed against a plain step, so one round in 32 is one, the second to begin with.
 *
 * Where passes are shared with other sequences, one of the target costs what its rows cost, all of
 * them, and the time of one is that of all: tokens are counted as those that each got, the others
 * one a pass and those of their guesses that are right, as many as are here. A pass of the draft is
 * divided among those who guess at the same time; what others pay of it passes here too.
 *
 * What is chosen never changes the text. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_LENGTH_H
#define SP_RUNTIME_SPECULATE_DRAFT_LENGTH_H

#include "runtime/speculate/cost_model.h"

#include <stdbool.h>

enum { SP_DRAFT_LENGTH_MAX = 63, SP_DRAFT_LENGTH_CONFIDENCES = 13 };

struct sp_draft_length {
    size_t max;    /* deepest proposal, <= SP_DRAFT_LENGTH_MAX */
    bool stepwise; /* guesses are made one after the other: each costs when it is made */
    struct sp_cost_model verify, draft;
    double tried[SP_DRAFT_LENGTH_MAX + 1],
        accepted[SP_DRAFT_LENGTH_MAX + 1]; /* decayed, by guess 1.. */
    double judged[SP_DRAFT_LENGTH_CONFIDENCES], right[SP_DRAFT_LENGTH_CONFIDENCES];
    double tokens, seconds; /* of drafted rounds, decayed */
    double purse, allowance;
    bool paused;
    double verified, right_ones;               /* guesses, decayed */
    size_t n_plain;                            /* passes of one row that were timed */
    size_t other_rows, other_drafts, n_others; /* in the last pass */
    double
        shared_draft_seconds; /* that the guesses of others took in passes shared with this one's */

    /* The round under way, if its depth was chosen here: n_asked > 0. */
    size_t n_asked, n_made, n_cut;
    double confidence[SP_DRAFT_LENGTH_MAX + 1]; /* by guess 1.. */
    double verify_seconds[SP_DRAFT_LENGTH_MAX + 1],
        draft_seconds[SP_DRAFT_LENGTH_MAX + 1]; /* expected */
    double usual[SP_DRAFT_LENGTH_MAX + 1];      /* acceptance of guess 1.. on average */
    double rate;                                /* tokens a second that time is worth */
    double chain, gain, best_gain; /* all guesses so far are right; tokens of verifying them, net */
};

void sp_draft_length_init(struct sp_draft_length *draft_len, size_t max, bool stepwise);

/* Most guesses to ask for, <= limit; 0: a plain step. */
size_t sp_draft_length_choose(struct sp_draft_length *draft_len, size_t limit);

/* After a guess, with the draft's confidence in it (0..1): should there be more? */
bool sp_draft_length_consider(struct sp_draft_length *draft_len, double confidence);

/* Of the guesses judged, those worth verifying. */
size_t sp_draft_length_n_verify(const struct sp_draft_length *draft_len);

/* What one target pass did. Guesses: asked for, made, of these verified, of these right. */
struct sp_round {
    size_t asked, made, drafted, accepted;
    size_t emitted; /* tokens */
    double draft_seconds, verify_seconds;
    double draft_cost; /* of draft_seconds: passes that were shared are divided among the rows */
    double catch_up_seconds;     /* reading before the proposal: nothing that its length costs */
    size_t other_rows, n_others; /* what else the pass was for: rows, and how many sequences */
    size_t other_drafts;         /* of these rows */
    bool stopped;                /* no more tokens are wanted */
};

/* Of every round of this draft's, whether its depth was chosen here or not. */
void sp_draft_length_record(struct sp_draft_length *draft_len, const struct sp_round *round);

/* ---- beside another draft ----
 */

/* Tokens a second that the guesses worth verifying promise; after the last judgement. */
double sp_draft_length_expected_rate(const struct sp_draft_length *draft_len);

/* Tokens a second that this draft has brought so far, plain steps' where it pauses. */
double sp_draft_length_rate(const struct sp_draft_length *draft_len);

/* A round in which this draft's guesses, if there were any, were left aside: what the pass cost. */
void sp_draft_length_observe(struct sp_draft_length *draft_len, const struct sp_round *round);

/* What such a round brought counts for what time is worth: the choice was not this draft's. */
void sp_draft_length_add_round(struct sp_draft_length *draft_len, const struct sp_round *round);

#endif
