/* Dynamic convolutions around the sublayers of a block draft (DFlash2). */
#ifndef SP_RUNTIME_MODEL_BLOCK_CONV_H
#define SP_RUNTIME_MODEL_BLOCK_CONV_H

#include "format/base/err.h"

#include <stddef.h>

struct sp_conv_weights; /* runtime/model/model.h */
struct sp_workspace;    /* runtime/model/workspace.h */

struct sp_block_conv_scratch {
    size_t n_groups, ld;
    float *dynamic; /* [max_rows][ld]: [2 sides][taps][n_groups] */
    float *row;     /* [H] */
};

/* Allocates ws->block_conv; leaves it NULL if the model has no such convolutions. */
SP_MUST_CHECK enum sp_status sp_block_conv_open(struct sp_workspace *ws, struct sp_err *err);

/* Convolves the n rows of ws->hidden, the input of the sublayer that has the weights w. The rows of
 * each sequence are one block. Does nothing if w is empty. */
void sp_block_conv_before(struct sp_workspace *ws, const struct sp_conv_weights *w, size_t n);
/* Convolves the rows of ws->y, the output of the sublayer, after sp_block_conv_before. */
void sp_block_conv_after(struct sp_workspace *ws, const struct sp_conv_weights *w);

#endif
