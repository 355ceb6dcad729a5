/* How a token is chosen from a row of logits: the one place where greedy and sampled generation
 * differ. Target and draft ask the same chooser, so that with position-keyed noise a draft is right
 * exactly where it would have drawn the same token. */
#ifndef SP_RUNTIME_CHOOSER_H
#define SP_RUNTIME_CHOOSER_H

#include "format/err.h"

#include <stddef.h>
#include <stdint.h>

struct sp_chooser {
    /* *id = the token for position `pos`, given every token before it: ids[0..pos-1]. A non-finite
     * logit is SP_E_INPUT. Must not change state: the same call gives the same answer. */
    enum sp_status (*choose)(void *state, uint32_t *id, const float *logits, size_t n_vocab,
                             const uint32_t *ids, size_t pos, struct sp_err *err);
    void *state; /* borrowed */
};

#endif
