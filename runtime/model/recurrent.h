/* The state of the layers whose memory is not keys and values: head states (head_state.h) and the
 * rows before convolutions. A decoder owns one of each per layer. And what gated delta-rule layers
 * and Mamba layers have in common: they convolve rows of `channels` numbers and then update head
 * states. */
#ifndef SP_RUNTIME_MODEL_RECURRENT_H
#define SP_RUNTIME_MODEL_RECURRENT_H

#include "quantize/kernels/kernels.h"
#include "runtime/backend/backend.h"
#include "runtime/model/head_state.h"
#include "runtime/model/model.h"

struct sp_decoder;   /* runtime/model/decoder.h */
struct sp_workspace; /* runtime/model/workspace.h */

/* ---- the history of a convolution ---- */

/* The rows before a causal convolution: the last committed ones, and after them the rows of the
 * last pass that may yet be rejected.
 *
 * A pass copies the history before its own rows, convolves, and stores the last rows again; a
 * commit drops as many rows from the front as it adds. A history therefore equals, bit for bit,
 * that of a sequence without the rejected rows. */
struct sp_conv_history {
    float *rows;     /* [n_before + max_logged][width], oldest first */
    size_t n_before; /* rows before its own that a convolution reads */
    size_t max_logged, width;
};

/* y = row t of the pass convolved: taps[0] * row t of input + ... + taps[n_before] * row t +
 * n_before, per channel, in that order. taps: [n_before + 1][width]. */
void sp_conv_history_convolve(const struct sp_conv_history *h, const struct sp_vector *vector,
                              float *y, const float *taps, const float *input, size_t ld, size_t t);
/* Runs `row` for the rows of each sequence of the pass, by history `which` of a layer; *first = the
 * first of them. input: [n_before + rows of the pass][ld], the rows to convolve from row n_before
 * on. Row i of a sequence reads rows *first + i to *first + i + n_before, of which the first ones
 * may be its history. That overwrites the last rows of the sequence before. */
void sp_conv_history_run(const struct sp_workspace *ws, unsigned layer, unsigned which,
                         float *input, size_t ld, sp_row_fn *row, void *job, size_t *first);

/* ---- the states of a decoder ---- */

enum { SP_NGRAMS_HISTORY = 1 };

struct sp_state_span {
    float *floats;
    size_t n;
};

/* State of one layer with a recurrent mixer. */
struct sp_recurrent {
    struct sp_head_state heads; /* of gated delta-rule and Mamba layers; else zero */
    /* Inputs of the convolution, or of k, v and the outputs of mixer and MLP, in that order, which
     * the layer convolves (sp_config.n_residual_taps); or of n-grams (ngrams.c). */
    struct sp_conv_history histories[SP_LAYER_CONVS];
};

/* Allocates the states of all layers in the decoder's memory, and checkpoints if its options ask
 * for them; needs its workspace. */
void sp_recurrent_open(struct sp_decoder *d);
/* Begins a new sequence: all states become zero. */
void sp_recurrent_reset(struct sp_decoder *d);

/* ---- layers with head states ---- */

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

/* The buffers for the rows of a workspace and a convolution over `kernel` rows, in its memory. */
struct sp_recurrent_scratch *sp_recurrent_scratch_new(struct sp_workspace *ws,
                                                      const struct sp_head_sizes *sizes,
                                                      size_t kernel, bool has_strengths);

/* One pass of a layer. */
struct sp_recurrent_job {
    struct sp_workspace *ws;
    const struct sp_recurrent_scratch *scratch;
    const void *weights; /* of the layer */
    /* Makes row i of the current sequence after the convolution, and its decays. */
    sp_row_fn *mix_row;
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
