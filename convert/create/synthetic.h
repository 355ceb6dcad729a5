/* Packed files of random weights in the shape of a known model, so that speed can be measured
 * without downloading one: time does not depend on the numbers, and only bytes and shapes matter.
 *
 * Everything but the weights is as create would make it: the same names, types by the same policy
 * (as if the source were bf16), sections and digests. There is no tokenizer. The bytes depend on
 * the shape and the types alone. Weights are scaled so that activations stay near 1 in magnitude;
 * what such a model says, and how often its draft is right, means nothing. */
#ifndef SP_CONVERT_CREATE_SYNTHETIC_H
#define SP_CONVERT_CREATE_SYNTHETIC_H

#include "convert/create/create.h"

struct sp_synthetic_options {
    const char *shape;         /* a name of sp_synthetic_targets */
    const char *draft;         /* a name of sp_synthetic_drafts; NULL: no draft */
    enum sp_dtype target_type; /* SP_DTYPE_NONE: bf16 */
    enum sp_dtype draft_type;
    enum sp_dtype output_type; /* the target's embedding and head; NONE: as the policy chooses */
    bool force;                /* replace an existing file */
    struct sp_create_callbacks callbacks;
};

/* Names, then NULL. A language model can be a draft as well; "dflash" stands for the block draft of
 * the target's own shape. */
extern const char *const sp_synthetic_targets[], *const sp_synthetic_drafts[];

/* Writes `path`, whole or not at all, in bounded memory. SP_E_USAGE for a name that is not known
 * and a draft whose vocabulary is not the target's. */
SP_MUST_CHECK enum sp_status sp_synthetic_write(const char *path,
                                                const struct sp_synthetic_options *options,
                                                struct sp_err *err);

#endif
