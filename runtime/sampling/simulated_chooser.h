/* A chooser that only pretends: guesses are right as often as a coin says, whatever the logits are.
 *
 * Proposing and verifying cost what they cost with the real choice, so a run answers "how fast
 * would this be with a draft of acceptance P". Its text means nothing. */
#ifndef SP_RUNTIME_SAMPLING_SIMULATED_CHOOSER_H
#define SP_RUNTIME_SAMPLING_SIMULATED_CHOOSER_H

#include "runtime/sampling/chooser.h"
#include "runtime/spectool.h"
#include "runtime/vector/vector.h"

struct sp_simulated_choice {
    struct sp_simulation simulation;
    const struct sp_vector *vector; /* borrowed */
};

/* The chooser borrows `choice`. */
struct sp_chooser sp_simulated_chooser(struct sp_simulated_choice *choice);

#endif
