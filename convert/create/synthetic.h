/* Writes packed files of random weights in the shape of a known model, to measure speed without a
 * download: the time depends on bytes and shapes, not on the numbers.
 *
 * Everything but the weights is as create makes it: the names, the types (by the same policy, as
 * for a bf16 source), sections and digests. The file has no tokenizer. Its bytes depend on the
 * shape, its layers and the types alone. Weights are scaled so that activations stay near 1 in
 * magnitude. The text of such a model and the acceptance rate of its draft mean nothing. */
#ifndef SP_CONVERT_CREATE_SYNTHETIC_H
#define SP_CONVERT_CREATE_SYNTHETIC_H

#include "convert/create/create.h"

struct sp_synthetic_options {
    const char *shape;         /* a name of sp_synthetic_targets */
    const char *draft;         /* a name of sp_synthetic_drafts; NULL: no draft */
    unsigned n_layers;         /* of the target; 0: all */
    enum sp_dtype target_type; /* SP_DTYPE_NONE: bf16 */
    enum sp_dtype draft_type;
    enum sp_dtype output_type; /* the target's embedding and head; NONE: as the policy chooses */
    bool force;                /* replace an existing file */
    struct sp_create_callbacks callbacks;
};

/* Writes `path`, complete or not at all, in bounded memory. Returns SP_E_USAGE for an unknown
 * name, for a draft with another vocabulary than the target's, and for a number of layers that the
 * shape, or its block draft, does not have. */
SP_MUST_CHECK enum sp_status sp_synthetic_write(const char *path,
                                                const struct sp_synthetic_options *options,
                                                struct sp_err *err);

/* ---- shapes of known models (synthetic_shapes.c) ---- */

struct sp_synthetic_shape {
    const char *name;
    const char *target; /* of a block draft: the shape it belongs to; NULL: a language model */
    const char *config; /* text of config.json */
};

/* Lists of names that end with NULL. A language model can also be a draft; "dflash" is the block
 * draft of the target's own shape. */
extern const char *const sp_synthetic_targets[], *const sp_synthetic_drafts[];

/* Returns the language model with this name, or the block draft with this name for a target; NULL:
 * there is none. */
const struct sp_synthetic_shape *sp_synthetic_shape_find(const char *name, const char *target);

/* The config.json of a shape with n_layers layers; 0: all. Layers at the end that share keys stay
 * the same fraction. *text is owned by the caller (free). SP_E_USAGE: the shape has fewer. */
SP_MUST_CHECK enum sp_status sp_synthetic_shape_config(char **text,
                                                       const struct sp_synthetic_shape *shape,
                                                       unsigned n_layers, struct sp_err *err);

#endif
