/* Scores a row of logits for the token that came next, and its divergence from another model's row.
 *
 * Everything is in double for any vocabulary: ln of the sum of e^logit is max + ln S, where S is
 * the sum of e^(logit - max) over ascending ids, with exp and log of runtime/vector/fmath.h. With
 * one order of additions and no libm, the numbers are the same on any machine. */
#ifndef SP_RUNTIME_MEASURE_LOGIT_SCORE_H
#define SP_RUNTIME_MEASURE_LOGIT_SCORE_H

#include "runtime/vector/vector.h"

struct sp_logit_score {
    size_t best;    /* the most likely token, ties to the lowest id */
    double log_sum; /* ln of the sum of e^logit */
    double logprob; /* ln of the token's probability: its logit - log_sum */
};

/* Returns false if a logit is not finite. */
SP_MUST_CHECK bool sp_logit_score(struct sp_logit_score *out, const struct sp_vector *vector,
                                  const float *logits, size_t n, uint32_t token);

/* Scores the reference's row for the same token and computes what is lost when `logits`, whose
 * score is given, replace it: KL(reference || logits) = sum of p (reference - logits) - (its
 * log_sum - score->log_sum), where p are the reference's probabilities and the sum is taken in the
 * order of S. A rounding error below zero becomes zero. */
SP_MUST_CHECK bool sp_row_compare(struct sp_logit_score *out, double *divergence,
                                  const struct sp_vector *vector, const float *reference,
                                  const float *logits, const struct sp_logit_score *score, size_t n,
                                  uint32_t token);

#endif
