/* Gated short convolutions (LFM2), and those that add what they convolve (Inkling). */
#ifndef SP_RUNTIME_MODEL_SHORT_CONV_H
#define SP_RUNTIME_MODEL_SHORT_CONV_H

#include "runtime/model/model.h"

#include <stddef.h>

struct sp_workspace; /* runtime/model/workspace.h */

struct sp_short_conv_scratch {
    float *projected; /* [max_rows][ld]: b, c, x */
    float *input;     /* [kernel - 1 + max_rows][ld_x]: b * x, after the history */
    size_t ld;
};

/* Allocates ws->short_conv; leaves it NULL if the model has no such layers. */
SP_MUST_CHECK enum sp_status sp_short_conv_open(struct sp_workspace *ws, struct sp_err *err);

/* Sets ws->y to the output of the mixer for the n rows of ws->hidden. */
void sp_short_conv_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* Each row += its causal convolution, in a layer with `which`. rows: [n][ld] of the pass. */
void sp_residual_conv_run(struct sp_workspace *ws, unsigned layer, enum sp_layer_conv which,
                          float *rows, size_t ld, size_t n);

#endif
