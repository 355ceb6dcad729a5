/* How many tokens to draft in the next round: the number that brings the most tokens a second.
 *
 *   tokens(n)  = 1 + p1 + p1 p2 + ... + p1..pn      p_i: acceptance of guess i given those before
 * it seconds(n) = draft(n) + verify(n + 1)
 *
 * Acceptances are counted with slow forgetting, a position not yet tried borrowing from the one
 * before it. Costs are measured by the rounds themselves, the first of which try the whole range;
 * row counts not yet seen are interpolated. Depth 0 is allowed; then a round is drafted now and
 * then, ever more rarely, to notice when the text becomes easy. What is chosen never changes the
 * text. */
#ifndef SP_RUNTIME_DEPTH_H
#define SP_RUNTIME_DEPTH_H

#include <stddef.h>

enum { SP_DEPTH_MAX = 63 };

/* Valid when zeroed, apart from `max`. */
struct sp_depth {
    size_t max;                              /* deepest proposal, <= SP_DEPTH_MAX */
    double verify_seconds[SP_DEPTH_MAX + 2]; /* of n rows; 0: not measured */
    double draft_seconds[SP_DEPTH_MAX + 1];  /* of n guesses; 0: not measured */
    double tried[SP_DEPTH_MAX + 1];          /* decayed counts, by guess 1.. */
    double accepted[SP_DEPTH_MAX + 1];
    size_t plain_run;  /* rounds at depth 0 since the last probe */
    size_t plain_wait; /* ... that must pass before the next one */
};

/* Best depth <= limit. */
size_t sp_depth_choose(struct sp_depth *depth, size_t limit);

/* A round of `drafted` guesses, `accepted` of them right, and what it cost. */
void sp_depth_record(struct sp_depth *depth, size_t drafted, size_t accepted, double draft_seconds,
                     double verify_seconds);

/* Estimated seconds of a plain step; 0 when nothing is known. */
double sp_depth_plain_seconds(const struct sp_depth *depth);

#endif
