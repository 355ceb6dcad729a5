/* What gated delta-rule layers and Mamba-2 layers have in common: both convolve rows of `channels`
 * numbers and then update head states (runtime/model/head_state.h). */
#ifndef SP_RUNTIME_MODEL_RECURRENT_SCRATCH_H
#define SP_RUNTIME_MODEL_RECURRENT_SCRATCH_H

#include "format/base/pool.h"
#include "quantize/kernels.h"
#include "runtime/model/head_state.h"

struct sp_conv_history; /* runtime/model/decoder_internal.h */
struct sp_workspace;    /* runtime/model/workspace.h */

struct sp_recurrent_scratch {
    struct sp_head_sizes sizes;
    size_t n_values, n_keys; /* floats of all heads' values, of all keys */
    size_t channels;         /* n_values + 2 * n_keys */
    size_t n_convolved;      /* of these, the first ones: all, or n_values in Mamba-1 */
    size_t ld, ld_z, ld_heads, ld_decays;
    struct sp_head_workspace workspace;
    float *input;     /* [kernel - 1 + max_rows][ld] rows to convolve, after the history */
    float *mixed;     /* [max_rows][ld] rows after the convolution */
    float *z;         /* [max_rows][ld_z] output gate */
    float *out;       /* [max_rows][ld_z] outputs of the heads */
    float *decays;    /* [max_rows][ld_decays] */
    float *strengths; /* [max_rows][ld_heads] of the delta rule; NULL: there are `values` */
    float *values;    /* [max_rows][ld_z] of Mamba-2; NULL: they are in `mixed` */
    float *projected; /* [max_rows][ld_projected] of Mamba-1: dt, B, C; NULL: none */
    size_t ld_projected;
    /* [max_rows][low_rank] inputs of the last matrices that make z and the decays; or empty */
    struct sp_acts low_z, low_decays;
};

/* Allocates the buffers for the rows of a workspace and a convolution over `kernel` rows. */
SP_MUST_CHECK enum sp_status sp_recurrent_scratch_open(struct sp_recurrent_scratch **out,
                                                       struct sp_workspace *ws,
                                                       const struct sp_head_sizes *sizes,
                                                       size_t kernel, bool has_strengths,
                                                       struct sp_err *err);

/* One pass of a layer. */
struct sp_recurrent_job {
    struct sp_workspace *ws;
    const struct sp_recurrent_scratch *scratch;
    const void *weights; /* of the layer */
    /* Makes row i of the current sequence after the convolution, and its decays. */
    sp_pool_fn *mix_row;
    const float *q, *k, *v; /* of the first row, in `mixed`; v is in `values` if there are any */
    /* The current sequence. */
    const struct sp_conv_history *history; /* of any, for its sizes */
    size_t first;                          /* its first row */
};

/* Convolves row i of the current sequence. Returns the row, in `mixed`. */
float *sp_recurrent_convolve(const struct sp_recurrent_job *job, const float *taps, size_t i);

/* Runs the rows of each sequence through the convolution, from `input` to `mixed`, and then through
 * the recurrence, to `out`. */
void sp_recurrent_job_convolve(struct sp_recurrent_job *job, unsigned layer);
void sp_recurrent_job_scan(struct sp_recurrent_job *job, unsigned layer);

#endif
