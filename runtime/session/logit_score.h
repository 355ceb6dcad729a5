/* What a row of logits says about the token that came, and how far it is from another model's row.
 *
 * All in double, whatever the vocabulary: ln of the sum of e^logit is max + ln S, where S is the
 * sum of e^(logit - max) over ascending ids, with the exp and log of runtime/vector/fmath.h. One
 * order of additions, no libm: the numbers are the same on any machine. */
#ifndef SP_RUNTIME_SESSION_LOGIT_SCORE_H
#define SP_RUNTIME_SESSION_LOGIT_SCORE_H

#include "runtime/vector/vector.h"

struct sp_logit_score {
    size_t best;    /* the most likely token, ties to the lowest id */
    double log_sum; /* ln of the sum of e^logit */
    double logprob; /* ln of the token's probability: its logit - log_sum */
};

/* False when a logit is not finite. */
SP_MUST_CHECK bool sp_logit_score(struct sp_logit_score *out, const struct sp_vector *vector,
                                  const float *logits, size_t n, uint32_t token);

/* Scores the reference's row for the same token, and tells what is lost when `logits`, whose score
 * is known, stand for it: KL(reference || logits) = sum of p (reference - logits) - (its log_sum -
 * score->log_sum), p its probabilities, the sum taken as S is. Rounding below zero is zero. */
SP_MUST_CHECK bool sp_row_compare(struct sp_logit_score *out, double *divergence,
                                  const struct sp_vector *vector, const float *reference,
                                  const float *logits, const struct sp_logit_score *score, size_t n,
                                  uint32_t token);

#endif
