/* The chooser that takes the largest logit. */
#ifndef SP_RUNTIME_SAMPLING_GREEDY_CHOOSER_H
#define SP_RUNTIME_SAMPLING_GREEDY_CHOOSER_H

#include "runtime/sampling/chooser.h"

/* Chooses the largest logit, ties to the lowest id; its softmax probability is the confidence.
 * Borrows `vector`. */
struct sp_chooser sp_greedy_chooser(const struct sp_vector *vector);

#endif
