/* How many tokens to draft in a round: as many as bring the most tokens a second.
 *
 * A round that verifies n draft tokens takes draft(n) + verify(n) seconds and emits
 * 1 + p1 + p1 p2 + ... tokens, where p_i is the probability that draft token i is accepted when
 * those before it are. Rounds renew each other, so the best policy is a threshold (SpecDec++, Huang
 * et al. 2024; optimal stopping of a renewal process): one more draft token is worth its time while
 * the probability that all draft tokens so far and this one are accepted exceeds the tokens that
 * its time would bring at the mean rate. The estimates of cost, acceptance and rate, and pauses of
 * drafting, are those of all sequences that draft with one model
 * (runtime/speculate/drafting_controller.h).
 *
 * A draft that makes its tokens one by one is asked for more as long as they are worth it. A block
 * comes at once: all its tokens are considered, and as many are verified as are worth most.
 *
 * No choice made here changes the text. A struct sp_draft_length belongs to one session and its
 * thread. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_LENGTH_H
#define SP_RUNTIME_SPECULATE_DRAFT_LENGTH_H

#include "runtime/speculate/drafting_controller.h"

struct sp_draft_length {
    struct sp_drafting_controller *controller; /* of all sequences with this draft; borrowed */
    size_t pass;                               /* number of the last recorded pass */

    /* State of the current round. */
    bool has_chosen; /* its length was chosen here */
    size_t n_asked, n_made;
    size_t n_verify; /* of the draft tokens considered, those that are worth verifying */
    enum sp_round_reason reason;
    double confidences[SP_DRAFT_LENGTH_MAX + 1]; /* [i]: the draft's confidence in token i */
    double all_accepted; /* probability that all draft tokens so far are accepted */
    double sum_accepted; /* how many of them are accepted on average */
    double gain;         /* expected number of accepted tokens among the first n_verify */
    double worth; /* gain minus the tokens that the time of verifying would bring elsewhere */
};

/* `controller` must outlive *d. */
void sp_draft_length_init(struct sp_draft_length *d, struct sp_drafting_controller *controller);

/* Starts a round: returns the number of draft tokens to request, <= limit; 0: a plain step.
 * `outlook` may be NULL: the draft has read all tokens. */
size_t sp_draft_length_choose(struct sp_draft_length *d, size_t limit,
                              const struct sp_draft_outlook *outlook);

/* Called after each draft token, with the draft's confidence in it (0..1). Returns true if another
 * one is worth drafting. */
bool sp_draft_length_consider(struct sp_draft_length *d, double confidence);

/* Learns from a round of this drafter, whether its length was chosen here or given. */
void sp_draft_length_record(struct sp_draft_length *d, const struct sp_round *round);

/* Learns what a pass costs from a round in which this drafter's tokens were not verified. */
void sp_draft_length_observe(struct sp_draft_length *d, const struct sp_round *round);

/* Returns the expected tokens per second of verifying the draft tokens that are worth it; the time
 * of drafting them is not counted. */
double sp_draft_length_expected_rate(const struct sp_draft_length *d);

#endif
