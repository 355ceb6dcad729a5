/* The chooser that takes the largest logit. */
#ifndef SP_RUNTIME_SAMPLING_GREEDY_CHOOSER_H
#define SP_RUNTIME_SAMPLING_GREEDY_CHOOSER_H

#include "runtime/sampling/chooser.h"
#include "runtime/spectool_measure.h"
#include "runtime/vector/vector.h"

/* Chooses the largest logit, ties to the lowest id; its softmax probability is the confidence.
 * Borrows `vector`. */
struct sp_chooser sp_greedy_chooser(const struct sp_vector *vector);

/* softmax(logits)[id] at temperature 1: how sure a draft is of the token that it chose greedily. */
double sp_greedy_confidence(const struct sp_vector *vector, const struct sp_logits *logits,
                            uint32_t id);

struct sp_simulated_choice {
    struct sp_simulation simulation;
    const struct sp_vector *vector; /* borrowed */
};

/* A mock chooser that accepts each draft token with a fixed probability, whatever the logits are.
 * Proposing and verifying take the same work as with a greedy chooser, so a run measures the speed
 * with a draft of that acceptance rate. Its text is meaningless. Borrows `choice`. */
struct sp_chooser sp_simulated_chooser(struct sp_simulated_choice *choice);

#endif
