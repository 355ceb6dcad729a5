/* What layers are made of. Each kind has a source of its own, which allocates its buffers of a
 * workspace (`open`, nothing for a model without such layers) and processes the n rows of a pass
 * (`run`); only the source knows the buffers. Memory that lacks is noticed when the workspace's
 * arena is checked. */
#ifndef SP_RUNTIME_MODEL_SUBLAYERS_H
#define SP_RUNTIME_MODEL_SUBLAYERS_H

#include "runtime/model/decoder_internal.h"

/* ---- a layer (layer.c) ---- */

/* Runs the n rows of ws->x through a layer. */
void sp_layer_run(struct sp_workspace *ws, unsigned layer, size_t n);
/* The rows of ws->hidden = the norm with this weight of those of ws->x; weight: as of a layer's
 * input. A stream_scale other than 0 makes ws->x the normed rows times it. */
void sp_layer_read(struct sp_workspace *ws, const float *weight, double stream_scale, size_t n);
/* out = the model's norm of a row of the width of the residual stream; out may be x. weight, bias:
 * NULL: none. */
void sp_norm_row(const struct sp_workspace *ws, float *out, const float *x, const float *weight,
                 const float *bias);
/* out = the final norm of row t of the pass's residual stream. */
void sp_final_norm(const struct sp_workspace *ws, float *out, size_t t);
/* x = (x + bias) scale, unless the map is empty. */
void sp_affine_row(const struct sp_workspace *ws, const struct sp_affine *a, float *x);
/* Sets the products that make the gated rows `into` of an MLP: gate and up, whose rows [ld_ffn] are
 * the factors, or up alone. Returns their number. Biases are not set. */
size_t sp_mlp_products(struct sp_product in[2], const struct sp_workspace *ws,
                       const struct sp_matrix *gate, const struct sp_matrix *up,
                       const struct sp_factor_limits *limits, const struct sp_acts *into,
                       float *factors);

/* ---- mixers: ws->y = their output for the rows of ws->hidden ---- */

/* Attention with keys and values per head, whose buffers are the workspace's own. */
void sp_self_attention_run(struct sp_workspace *ws, unsigned layer, size_t n);
/* Stores the layer's keys and values of the rows of ws->hidden, and computes no attention. */
void sp_self_attention_store_keys(struct sp_workspace *ws, unsigned layer, size_t n);
/* Row t of ws->heads = the attention of row t of ws->q to the first n keys of a cache. */
void sp_self_attention_row(struct sp_workspace *ws, unsigned layer, size_t t,
                           const struct sp_kv *kv, size_t n);
/* Sets ranges[seq->n] to the keys that each row of the sequence attends to in a layer. */
void sp_self_attention_find_ranges(struct sp_key_range *ranges, const struct sp_layer_config *l,
                                   const struct sp_batch_seq *seq);

/* Rotates the first dims at x by the angles of row t; rope: of a layer, -1: it has none. */
void sp_rotate_row(const struct sp_workspace *ws, int rope, size_t t, float *x);

/* Parts of rows that matrices of their own multiply: of part i of row t the copy is row i n + t of
 * `parts`, so that a matrix finds its rows together. */
struct sp_parts {
    float *parts; /* [n_parts * n][ld_parts] */
    size_t ld_parts;
    float *rows; /* [n][ld_rows], parts `step` apart */
    size_t ld_rows, step, width, n_parts, n;
    bool back; /* copies the parts to the rows */
};
void sp_move_parts(const struct sp_workspace *ws, struct sp_parts *parts);

/* Gates the heads of ws->heads, of `dim` numbers each, by ws->gate. */
void sp_output_gate_run(struct sp_workspace *ws, const struct sp_layer_config *l, size_t dim,
                        size_t n);

/* Multi-head latent attention (MLA). */
void sp_latent_attention_open(struct sp_workspace *ws);
void sp_latent_attention_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* Compressed attention (DeepSeek-V4), for decoders with caches of this type. */
SP_MUST_CHECK enum sp_status sp_compressed_attention_open(struct sp_workspace *ws,
                                                          enum sp_cache_type cache_type,
                                                          struct sp_err *err);
/* Caches of a decoder, in units of its layers. */
enum { SP_COMPRESSED_CACHES = 5 };
/* Opens the caches of a layer but for those of the window and of the index. */
SP_MUST_CHECK enum sp_status
sp_compressed_attention_open_caches(struct sp_decoder *d, unsigned layer, struct sp_err *err);
void sp_compressed_attention_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* Gated delta-rule layers; Mamba-2 and Mamba-1 (recurrent.h). */
void sp_delta_net_open(struct sp_workspace *ws);
void sp_delta_net_run(struct sp_workspace *ws, unsigned layer, size_t n);
void sp_mamba_open(struct sp_workspace *ws);
void sp_mamba_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* Gated short convolutions (LFM2). */
void sp_short_conv_open(struct sp_workspace *ws);
void sp_short_conv_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* ---- what surrounds mixers and MLPs ---- */

/* Each row += its causal convolution (Inkling), in a layer with `which`. rows: [n][ld]. */
void sp_residual_conv_run(struct sp_workspace *ws, unsigned layer, enum sp_layer_conv which,
                          float *rows, size_t ld, size_t n);

/* Compressed convolutional attention (ZAYA1): replaces the projections in the rows of ws->q and
 * ws->k, and completes those of ws->v. */
void sp_cca_open(struct sp_workspace *ws);
void sp_cca_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* Dynamic convolutions around the sublayers of a block draft (DFlash2): of the rows of ws->hidden,
 * the input of the sublayer that has the weights w, and of ws->y, its output. The rows of each
 * sequence are one block. They do nothing if w is empty. */
void sp_block_conv_open(struct sp_workspace *ws);
void sp_block_conv_before(struct sp_workspace *ws, const struct sp_conv_weights *w, size_t n);
void sp_block_conv_after(struct sp_workspace *ws, const struct sp_conv_weights *w);

/* Norms with a gate of low rank (A.X K2, Qwen4): gates rows of ws->hidden, or of all streams, which
 * are normed. Does nothing if w is empty. */
void sp_gated_norm_open(struct sp_workspace *ws);
void sp_gated_norm_run(struct sp_workspace *ws, struct sp_acts *rows,
                       const struct sp_norm_gate_weights *w, size_t n);
/* Norms inside of sublayers (BitNet): `cols` numbers of each row by this weight. Does nothing
 * without inner norms. */
void sp_inner_norm_run(struct sp_workspace *ws, const struct sp_acts *rows, const float *weight,
                       size_t cols, size_t n);

/* The mixture-of-experts MLP: ws->y = the output of the layer's experts and of its shared expert
 * for the rows of ws->hidden. With config.expert_norms it also reads ws->x. */
void sp_experts_open(struct sp_workspace *ws);
void sp_experts_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);
/* One row that experts are chosen for (routing.c). Choices: experts, and some that return their
 * input. */
struct sp_route {
    const struct sp_workspace *ws;
    const struct sp_layer *layer;
    const struct sp_layer_config *config; /* of the layer */
    const struct sp_routing *routing;     /* of the model */
    uint32_t id;                          /* token */
    float *scores;                        /* [choices] the router's logits; overwritten */
    /* Scratch: */
    float *selection;          /* [choices] */
    float *group_scores;       /* [routing->n_groups] */
    struct sp_top_logit *best; /* [config->n_experts_used] */
    /* Receive the experts of the row, ascending, and their weights: [config->n_experts_used] */
    unsigned *chosen;
    float *weights;
};
void sp_route(const struct sp_route *route);

/* Per-layer token embeddings (Gemma 4): those of all layers for ids[n], while ws->x holds the
 * scaled token embeddings; ws->y = a layer's output for the rows of ws->x and their embeddings. */
void sp_per_layer_open(struct sp_workspace *ws);
void sp_per_layer_embed(struct sp_workspace *ws, const uint32_t *ids, size_t n);
void sp_per_layer_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* ---- residual streams ---- */

/* AltUp: several streams, of which the layers read the first (Gemma 3n). begin and end: the streams
 * of the embeddings in ws->x, and ws->x of the streams. predict, before a layer: predicts all
 * streams, the first in ws->x; correct, after it: corrects them by ws->x, and adds the layer's
 * per-layer embedding to all but the first. */
void sp_altup_open(struct sp_workspace *ws);
void sp_altup_begin(struct sp_workspace *ws, size_t n);
void sp_altup_end(struct sp_workspace *ws, size_t n);
void sp_altup_predict(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);
void sp_altup_correct(struct sp_workspace *ws, unsigned layer, size_t n);
/* LAuReL of the rows of ws->hidden; adds row t of it to ws->x. */
void sp_laurel_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);
void sp_laurel_add(struct sp_workspace *ws, size_t t);
/* ws->ffn = the gated product of an MLP whose gates below the cutoff are 0. */
void sp_sparse_gate_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);

/* Hyper-connections: streams that each sublayer reads and writes by weights that depend on the row
 * (HY 4, GLM-5.3, Qwen4). begin: of the embeddings in ws->x. read: ws->x = what a sublayer with
 * these weights or the head reads. write: adds ws->y, the output of the sublayer that read last. */
void sp_hyper_open(struct sp_workspace *ws);
void sp_hyper_begin(struct sp_workspace *ws, size_t n);
void sp_hyper_read(struct sp_workspace *ws, const struct sp_hyper_weights *w, size_t n);
void sp_hyper_write(struct sp_workspace *ws, size_t n);
/* The streams of row t of the pass, [n_streams][H]. */
float *sp_hyper_streams(const struct sp_workspace *ws, size_t t);

/* Embeddings of n-grams (Qwen4): adds those that end with the pass's n tokens, ws->ids, to the
 * streams. */
void sp_ngrams_open(struct sp_workspace *ws);
void sp_ngrams_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* Attention of a sublayer's input to the states that blocks of layers left (Inkling 2). begin: of a
 * pass. */
void sp_block_attention_open(struct sp_workspace *ws);
void sp_block_attention_begin(struct sp_workspace *ws);
/* Sets the inputs of a layer's mixer, normed; ws->x begins anew where a block does. */
void sp_block_attention_read_mixer(struct sp_workspace *ws, const struct sp_layer *l, size_t n);
/* Sets ws->hidden to the input of a layer's MLP, normed. */
void sp_block_attention_read_mlp(struct sp_workspace *ws, const struct sp_layer *l, size_t n);
/* Replaces ws->x by the input of the last norm. */
void sp_block_attention_end(struct sp_workspace *ws, size_t n);

#endif
