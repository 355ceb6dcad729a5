/* How tokens are chosen from logits: the one place where greedy and sampled generation differ.
 *
 * The same chooser serves the draft and the target. Coupled (greedy, or sampling with the
 * position's own noise): both make the same choice from their own logits, and a draft is right
 * exactly where the target would have drawn the same token anyway. Rejection: the draft's choice is
 * accepted with probability min(1, p/q), else the target draws from the normalised max(p - q, 0)
 * (Leviathan et al. 2023). */
#ifndef SP_RUNTIME_SAMPLING_CHOOSER_H
#define SP_RUNTIME_SAMPLING_CHOOSER_H

#include "format/base/err.h"
#include "runtime/model/logits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_NO_DRAFT_TOKEN UINT32_MAX

struct sp_chooser {
    /* *id = the draft's token for position `pos`, given every token before it: ids[0..pos-1].
     * *confidence (NULL: not asked for) = how sure the draft is of it, 0..1: a hint, whose meaning
     * is learned from what is accepted. */
    enum sp_status (*propose)(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err);
    /* The draft's token for position `pos` is ids[pos], whatever anybody's logits say. *possible,
     * true before, becomes false where the target will never choose it. NULL: nothing to say. */
    enum sp_status (*adopt)(void *state, bool *possible, const uint32_t *ids, size_t pos,
                            struct sp_err *err);
    /* *id = the target's token for position `pos`; equal to `guess` (what propose gave there, or
     * SP_NO_DRAFT_TOKEN) means accepted. A non-finite logit is SP_E_INPUT. Which token comes out
     * depends on the arguments and the seed alone. */
    enum sp_status (*choose)(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err);
    void *state; /* borrowed */
};

#endif
