/* The raw log-probabilities of a row of logits: of one token, and of the most likely ones. */
#ifndef SP_RUNTIME_SESSION_LOGPROBS_H
#define SP_RUNTIME_SESSION_LOGPROBS_H

#include "runtime/spectool.h"
#include "runtime/vector/vector.h"

/* Sets token->logprob, and token->top to the n_top most likely tokens, best first, ties by lower
 * id, which are stored in top[n_top]. scratch: [n] floats. */
void sp_logprobs_fill(struct sp_token *token, struct sp_logprob *top, unsigned n_top,
                      float *scratch, const struct sp_vector *vector, const float *logits,
                      size_t n);

#endif
