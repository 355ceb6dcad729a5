/* The members of struct sp_decoder, the state of one sequence in all layers, and what the files
 * that compute a pass share. */
#ifndef SP_RUNTIME_MODEL_DECODER_INTERNAL_H
#define SP_RUNTIME_MODEL_DECODER_INTERNAL_H

#include "format/config/config.h"
#include "runtime/model/head_state.h"
#include "runtime/model/state_checkpoint.h"
#include "runtime/model/workspace.h"

/* The state of the layers whose memory is not keys and values: head states and convolution
 * histories of gated delta-rule and Mamba-2 layers, and the histories of gated short
 * convolutions. A decoder owns one of each per layer (runtime/model/decoder_internal.h). */

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

/* All rows, which the arena owns, are zero, as at the beginning of a sequence. */
SP_MUST_CHECK enum sp_status sp_conv_history_init(struct sp_conv_history *h, struct sp_arena *arena,
                                                  size_t n_before, size_t max_logged, size_t width,
                                                  struct sp_err *err);
void sp_conv_history_reset(struct sp_conv_history *h);

/* y = row t of the pass convolved: taps[0] * row t of input + ... + taps[n_before] * row t +
 * n_before, per channel, in that order. taps: [n_before + 1][width]. */
void sp_conv_history_convolve(const struct sp_conv_history *h, const struct sp_vector *vector,
                              float *y, const float *taps, const float *input, size_t ld, size_t t);
/* Runs `row` for the rows of each sequence of the pass, by history `which` of a layer; *first = the
 * first of them. input: [n_before + rows of the pass][ld], the rows to convolve from row n_before
 * on. Row i of a sequence reads rows *first + i to *first + i + n_before, of which the first ones
 * may be its history. That overwrites the last rows of the sequence before. */
void sp_conv_history_run(const struct sp_workspace *ws, unsigned layer, unsigned which,
                         float *input, size_t ld, sp_pool_fn *row, void *job, size_t *first);
/* Commits n_more of the other rows. */
void sp_conv_history_commit(struct sp_conv_history *h, size_t n_more);

enum { SP_NGRAMS_HISTORY = 1 };

/* State of one layer with a recurrent mixer. */
struct sp_recurrent {
    struct sp_head_state heads; /* of gated delta-rule and Mamba layers; else zero */
    /* Inputs of the convolution, or of k, v and the outputs of mixer and MLP, in that order, which
     * the layer convolves (sp_config.n_residual_taps); or of n-grams (ngrams.c). */
    struct sp_conv_history histories[SP_LAYER_CONVS];
};

/* Allocates the states of all layers in the decoder's memory; needs its workspace. */
SP_MUST_CHECK enum sp_status sp_recurrent_open(struct sp_decoder *d, struct sp_err *err);

/* Begins a new sequence: all states become zero. */
void sp_recurrent_reset(struct sp_decoder *d);

/* Commits the first n_committed rows of the last run to a layer's state. */
void sp_recurrent_commit(struct sp_decoder *d, unsigned layer, size_t n_committed);

/* The committed state of a layer as spans of floats. */
enum { SP_MAX_STATE_SPANS = 1 + SP_LAYER_CONVS };
struct sp_state_span {
    float *floats;
    size_t n;
};

/* Sets spans[0..n-1] for a layer with a head state or a convolution history; returns n. */
size_t sp_recurrent_spans(const struct sp_decoder *d, unsigned layer,
                          struct sp_state_span spans[SP_MAX_STATE_SPANS]);

struct sp_decoder {
    const struct sp_model *model;
    const struct sp_backend *backend;
    struct sp_decoder_options options;
    struct sp_arena memory;         /* of all below but the memory of caches */
    struct sp_workspace *workspace; /* its own, or shared; reference-counted */
    const struct sp_lora *lora;     /* the sequence's adapter; NULL: none */
    float lora_scale;               /* by which its products are multiplied */
    /* [n_caches]: of the layers, unused if a layer reads another one's; then, in a model with an
     * index, the index keys of the layers. */
    struct sp_kv *caches;
    unsigned n_caches;
    size_t n_ready;                 /* positions that the caches have memory for */
    struct sp_page_use *shared;     /* [spans of all positions] */
    struct sp_kv **keys;            /* [n_layers] the cache that the layer reads */
    float *frequencies[2];          /* [n_rot / 2] of each rotation */
    struct sp_recurrent *recurrent; /* [n_layers]; NULL: no recurrent layers */
    struct sp_state_checkpoint checkpoints[SP_STATE_CHECKPOINTS];
    float *features;     /* [max_rows][n_taps * H] */
    size_t n_run;        /* rows of the last run */
    size_t n_committed;  /* rows of the last run that the states include */
    size_t first_logits; /* row of the workspace's logits where the decoder's begin */
};

/* out = fc of n rows of features, [n][fc.cols], which a draft may norm first. out: rows of the
 * workspace, ld_x apart. */
void sp_project_features(struct sp_workspace *ws, float *out, const float *features, size_t n);
/* out = the final norm of row t of the pass's residual stream. */
void sp_final_norm(const struct sp_workspace *ws, float *out, size_t t);
/* Computes the logits that the sequences of the pass need, in the order of the sequences. */
void sp_workspace_logits(struct sp_workspace *ws);

/* Sets `out` to the embedding of a token, scaled as the workspace's model requires. out: as many
 * floats as the table of `source` has columns. */
void sp_embed_row(const struct sp_workspace *ws, const struct sp_model *source, uint32_t id,
                  float *out);

/* Sets the pass's n rows of ws->x from the tokens and hidden states of its sequences. */
void sp_embed_pairs(struct sp_workspace *ws, size_t n);

#endif
