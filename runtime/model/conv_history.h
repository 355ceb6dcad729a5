/* The rows before a causal convolution: the last committed ones, and after them the rows of the
 * last pass that may yet be rejected.
 *
 * A pass copies the history before its own rows, convolves, and stores the last rows again; a
 * commit drops as many rows from the front as it adds. A history therefore equals, bit for bit,
 * that of a sequence without the rejected rows. */
#ifndef SP_RUNTIME_MODEL_CONV_HISTORY_H
#define SP_RUNTIME_MODEL_CONV_HISTORY_H

#include "format/base/err.h"
#include "runtime/vector/vector.h"

#include <stddef.h>
#include <stdint.h>

struct sp_conv_history {
    float *rows;     /* [n_before + max_logged][width], oldest first, owned */
    size_t n_before; /* rows before its own that a convolution reads */
    size_t max_logged, width;
};

/* All rows are zero, as at the beginning of a sequence. */
SP_MUST_CHECK enum sp_status sp_conv_history_init(struct sp_conv_history *h, size_t n_before,
                                                  size_t max_logged, size_t width,
                                                  struct sp_err *err);
void sp_conv_history_release(struct sp_conv_history *h);
void sp_conv_history_reset(struct sp_conv_history *h);

/* Copies the history to rows 0..n_before-1 of input, [n_before + rows of the pass][ld]. */
void sp_conv_history_begin(const struct sp_conv_history *h, float *input, size_t ld);
/* y = row t of the pass convolved: taps[0] * row t of input + ... + taps[n_before] * row t +
 * n_before, per channel, in that order. taps: [n_before + 1][width]. */
void sp_conv_history_convolve(const struct sp_conv_history *h, const struct sp_vector *vector,
                              float *y, const float *taps, const float *input, size_t ld, size_t t);
/* Stores the history after a pass of n rows, the first n_committed of which are committed. */
void sp_conv_history_end(struct sp_conv_history *h, const float *input, size_t ld, size_t n,
                         size_t n_committed);
/* Commits n_more of the other rows. */
void sp_conv_history_commit(struct sp_conv_history *h, size_t n_more);

uint64_t sp_conv_history_digest(const struct sp_conv_history *h); /* of the committed rows */

#endif
