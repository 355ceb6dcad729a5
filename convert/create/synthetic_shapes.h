/* The shapes of known models, for files of random weights. */
#ifndef SP_CONVERT_CREATE_SYNTHETIC_SHAPES_H
#define SP_CONVERT_CREATE_SYNTHETIC_SHAPES_H

#include "format/base/err.h"

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
