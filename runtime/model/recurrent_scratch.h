/* The buffers that gated delta-rule layers and Mamba-2 layers have in common. Both convolve rows of
 * `channels` numbers and then update head states (runtime/model/head_state.h). */
#ifndef SP_RUNTIME_MODEL_RECURRENT_SCRATCH_H
#define SP_RUNTIME_MODEL_RECURRENT_SCRATCH_H

#include "runtime/model/head_state.h"

struct sp_recurrent_scratch {
    struct sp_head_sizes sizes;
    size_t n_values, n_keys; /* floats of all heads' values, of all keys */
    size_t channels;         /* n_values + 2 * n_keys */
    size_t ld, ld_z, ld_heads;
    struct sp_head_workspace workspace;
    float *input; /* [kernel - 1 + max_rows][ld] rows to convolve, after the history */
    float *mixed; /* [max_rows][ld] rows after the convolution */
    float *z;     /* [max_rows][ld_z] output gate */
    float *out;   /* [max_rows][ld_z] outputs of the heads */
};

/* Allocates the buffers for max_rows rows and a convolution over `kernel` rows. A scratch that was
 * initialized in part is released like any other. */
SP_MUST_CHECK enum sp_status sp_recurrent_scratch_init(struct sp_recurrent_scratch *s,
                                                       const struct sp_head_sizes *sizes,
                                                       size_t kernel, size_t max_rows,
                                                       unsigned n_threads, struct sp_err *err);
void sp_recurrent_scratch_release(struct sp_recurrent_scratch *s);

#endif
