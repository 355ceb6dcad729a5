/* A mock chooser that accepts each draft token with a fixed probability, whatever the logits are.
 *
 * Proposing and verifying take the same work as with a greedy chooser, so a run measures the speed
 * with a draft of that acceptance rate. Its text is meaningless. */
#ifndef SP_RUNTIME_SAMPLING_SIMULATED_CHOOSER_H
#define SP_RUNTIME_SAMPLING_SIMULATED_CHOOSER_H

#include "runtime/sampling/chooser.h"
#include "runtime/spectool_measure.h"
#include "runtime/vector/vector.h"

struct sp_simulated_choice {
    struct sp_simulation simulation;
    const struct sp_vector *vector; /* borrowed */
};

/* The chooser borrows `choice`. */
struct sp_chooser sp_simulated_chooser(struct sp_simulated_choice *choice);

#endif
