/* What a pass needs that no sequence remembers: room for its rows on their way through the layers,
 * opened in room.c, and the sublayers that they go through (self_attention.c, experts.c, ...).
 *
 * A pass is of the rows of one sequence, or of several whose decoders share a room: products take
 * all rows at once, and what rows owe to earlier rows of their sequence goes share by share. */
#ifndef SP_RUNTIME_MODEL_WORKSPACE_H
#define SP_RUNTIME_MODEL_WORKSPACE_H

#include "runtime/model/decoder.h"
#include "runtime/model/head_state.h"

/* cos and sin of one rotation for the rows of a pass. */
struct rotation {
    float *cos, *sin; /* [max_rows][n_rot / 2] */
};

/* Both side by side, their results added. */
enum { SP_MIXERS_BESIDE = SP_MIXER_ATTENTION | SP_MIXER_MAMBA };

/* Room for a pass, and the pass under way: its rows, one after another, on their way through the
 * layers. What rows of one sequence owe to another row, they find in their share's decoder. */
struct sp_workspace {
    const struct sp_model *model;
    const struct sp_backend *backend;
    size_t n_users; /* decoders */
    size_t max_rows, max_logit_rows, n_positions;
    const struct sp_batch_seq *seqs; /* [n_shares] of the pass, in the order of their rows */
    size_t n_seqs;
    struct sp_batch_seq one; /* where there is one share */
    size_t *positions;       /* [max_rows] of the rows in their sequences */
    uint32_t *ids;           /* [max_rows] of a pass of several shares */
    struct rotation rotations[2];
    struct sp_attention_scratch *attention;
    struct sp_key_range *ranges;        /* [max_rows] */
    float *logits;                      /* [max_logit_rows][ld_logits] */
    void *logits_memory;                /* what they lie in */
    size_t ld_logits, n_logits;         /* n_logits: of a row, those of the last product */
    atomic_uint_least64_t *best_logits; /* [max_logit_rows] */
    /* Rows of numbers, [max_rows][ld] each. */
    float *x;      /* residual stream */
    float *y;      /* what a sublayer adds to it */
    float *beside; /* what Mamba-2 makes beside attention; NULL: no layer has both */
    float *q, *k, *v, *up;
    float *ones; /* [ld_ffn] what an MLP without a gate has in its place; NULL: all have gates */
    size_t ld_x, ld_q, ld_kv, ld_ffn;
    struct sp_acts hidden;             /* normed rows, inputs of q, k, v, gate, up, head */
    struct sp_acts pairs;              /* [embedding, hidden], normed: in place of hidden, input of
                                          q, k, v in a layer that reads pairs */
    struct sp_acts heads;              /* attention output, input of o */
    struct sp_acts ffn;                /* gated rows, input of down */
    struct sp_acts tapped;             /* drafts: features, input of fc */
    struct sp_expert_scratch *experts; /* NULL: no layer has experts */
    struct sp_latent_scratch *latent;  /* NULL: no latent attention */
    struct sp_delta_scratch *delta;    /* NULL: no gated delta-rule layers */
    struct sp_mamba_scratch *mamba;    /* NULL: no Mamba-2 layers */
    struct sp_short_conv_scratch *short_conv; /* NULL: no gated short convolutions */
    struct sp_per_layer_scratch *per_layer;   /* NULL: no per-layer embeddings */
    struct sp_conv_scratch *conv;             /* NULL: no convolutions around sublayers */
    float *gate;                              /* [max_rows][ld_q] output gates of attention */
};

/* Room for latent attention. Rows of a head lie one after another, heads by heads. */
struct sp_latent_scratch {
    struct sp_acts low;  /* [max_rows][q_rank] latents of queries, input of q_b */
    struct sp_acts nope; /* [heads * max_rows][nope_dim] input of k_b */
    float *queries;      /* [heads * max_rows][ld_queries] as they meet what is stored */
    struct sp_acts seen; /* [heads * max_rows][kv_rank] what attention makes, input of v_b */
    float *values;       /* [heads * max_rows][ld_values] */
    size_t ld_queries, ld_values;
    struct sp_row_group *groups; /* [heads] */
};

/* Room for one gated delta-rule layer's pass. */
struct sp_delta_scratch {
    size_t channels, n_keys, n_values; /* 2 n_keys + n_values = channels */
    size_t ld, ld_heads;
    struct sp_head_sizes sizes;
    struct sp_head_workspace workspace;
    float *input; /* [kernel - 1 + max_rows][ld] */
    float *mixed; /* [max_rows][ld] after convolution: q, k, v */
    float *z;     /* [max_rows][ld_z] */
    size_t ld_z;
    float *b, *a; /* [max_rows][ld_heads]: become strength and decay */
    float *out;   /* [max_rows][ld_z] */
};

/* The same of a Mamba-2 layer's. */
struct sp_mamba_scratch {
    size_t channels, n_values, n_keys; /* n_values + 2 n_keys = channels */
    size_t ld, ld_z, ld_heads;
    struct sp_head_sizes sizes;
    struct sp_head_workspace workspace;
    float *input;  /* [kernel - 1 + max_rows][ld] */
    float *mixed;  /* [max_rows][ld] after convolution: x, B, C */
    float *z;      /* [max_rows][ld_z] */
    float *values; /* [max_rows][ld_z] dt x */
    float *out;    /* [max_rows][ld_z] */
    float *dt;     /* [max_rows][ld_heads]: becomes the decay */
};

/* Room for one gated short convolution's pass. */
struct sp_short_conv_scratch {
    float *projected; /* [max_rows][ld]: b, c, x */
    float *input;     /* [kernel - 1 + max_rows][ld_x]: b * x */
    size_t ld;
};

/* Rows of per-layer embeddings. */
struct sp_per_layer_scratch {
    size_t width; /* n_layers * n_per_layer */
    size_t ld;
    float *mixed;         /* [max_rows][ld] */
    float *table;         /* [max_rows][ld] rows of the table */
    struct sp_acts x;     /* the residual stream, or the embeddings, as a product's input */
    struct sp_acts gated; /* [max_rows][n_per_layer] */
};

/* Convolutions around sublayers. */
struct sp_conv_scratch {
    size_t n_groups, ld;
    float *dynamic; /* [max_rows][ld]: [2 sides][taps][n_groups] */
    float *row;     /* [H] */
};

/* Which rows of a pass go to which expert, and room for one expert's rows. */
struct sp_expert_scratch {
    unsigned max_used;
    float *scores; /* [max_rows][ld_scores] router logits */
    float *merits; /* [max_rows][ld_scores] what the choice goes by, where it is not the scores */
    float *group_merits; /* [max_rows][n_groups] ... and of a group of experts */
    size_t ld_scores;
    unsigned *chosen; /* [max_rows][max_used] experts of a row, ascending */
    float *weights;   /* [max_rows][max_used] and their weights */
    size_t *places;   /* [max_rows][max_used] where they find the row, and leave what they make */
    size_t *n_rows;   /* [n_experts] rows that chose it, in the whole pass */
    size_t n_places;  /* rows of these, at least max_rows: */
    struct sp_acts input;        /* normed rows, gathered by expert */
    struct sp_acts ffn;          /* gated rows */
    float *up;                   /* [n_places][ld_ffn] */
    float *y;                    /* [n_places][ld_x] what the experts make of them */
    struct sp_row_group *groups; /* [n_places] the experts at work and their rows */
    struct sp_acts routed;       /* the router's own input, where it is not the experts' */
    float *shared;               /* [max_rows][ld_x] what the dense MLP beside them makes */
    float *shared_gate;          /* [max_rows][ld_shared_gate] its weight before the sigmoid */
    size_t ld_shared_gate;
};

struct sp_workspace_options {
    size_t max_rows, max_logit_rows, n_positions;
};

SP_MUST_CHECK enum sp_status sp_workspace_open(struct sp_workspace **out,
                                               const struct sp_model *model,
                                               const struct sp_backend *backend,
                                               const struct sp_workspace_options *options,
                                               struct sp_err *err);
/* One user less; the last one's room is freed. NULL is fine. */
void sp_workspace_unref(struct sp_workspace *workspace);

/* out[cols of source's table] = the scaled embedding of a token, as this model takes it. */
void sp_embed_row(const struct sp_workspace *r, const struct sp_model *source, uint32_t id,
                  float *out);

/* Fills the pass's n rows from pairs of its shares' tokens and hidden states. */
void sp_embed_pairs(struct sp_workspace *r, size_t n);

/* The attention sublayer of a layer: r->y = what it makes of the pass's n rows of r->hidden; their
 * keys and values are stored. */
void sp_attention_run(struct sp_workspace *r, unsigned layer, size_t n);
/* Only stores the keys and values that the layer makes of the n rows of r->hidden. */
void sp_attention_store_keys(struct sp_workspace *r, unsigned layer, size_t n);

/* Where attention is latent, the same as sp_attention_run; room for it, nothing where it is not. */
SP_MUST_CHECK enum sp_status sp_latent_open(struct sp_workspace *r, struct sp_err *err);
void sp_latent_close(struct sp_workspace *r);
void sp_latent_run(struct sp_workspace *r, unsigned layer, size_t n);

/* Which keys each row of a share sees, by its layer. ranges: [share->n]. */
void sp_attention_find_ranges(struct sp_key_range *ranges, const struct sp_layer_config *l,
                              const struct sp_batch_seq *seq);

/* Room for the experts of the model's layers; NULL where there are none. */
SP_MUST_CHECK enum sp_status sp_experts_open(struct sp_workspace *r, struct sp_err *err);
void sp_experts_close(struct sp_workspace *r);

/* The MLP of a layer with experts: r->y = what the experts, and the dense MLP beside them, make of
 * the n rows of r->hidden (and, with expert_norms, of r->x). */
void sp_experts_run(struct sp_workspace *r, const struct sp_layer *layer, size_t n);

/* Gated delta-rule layers; nothing where there are none. */
SP_MUST_CHECK enum sp_status sp_delta_open(struct sp_workspace *r, struct sp_err *err);
void sp_delta_close(struct sp_workspace *r);
/* r->y = the mixer of the n rows of r->hidden. */
void sp_delta_run(struct sp_workspace *r, unsigned layer, size_t n);

/* Mamba-2 layers; the same. */
SP_MUST_CHECK enum sp_status sp_mamba_open(struct sp_workspace *r, struct sp_err *err);
void sp_mamba_close(struct sp_workspace *r);
void sp_mamba_run(struct sp_workspace *r, unsigned layer, size_t n);

/* Gated short convolutions; the same. */
SP_MUST_CHECK enum sp_status sp_short_conv_open(struct sp_workspace *r, struct sp_err *err);
void sp_short_conv_close(struct sp_workspace *r);
void sp_short_conv_run(struct sp_workspace *r, unsigned layer, size_t n);

/* Per-layer embeddings; NULL where there are none. */
SP_MUST_CHECK enum sp_status sp_per_layer_open(struct sp_workspace *r, struct sp_err *err);
void sp_per_layer_close(struct sp_workspace *r);
/* Looks up and mixes the rows of ids; r->x holds their (scaled) embeddings. */
void sp_per_layer_embed(struct sp_workspace *r, const uint32_t *ids, size_t n);
/* r->y = what the layer makes of its own embeddings and the n rows of r->x. */
void sp_per_layer_run(struct sp_workspace *r, unsigned layer, size_t n);

/* Convolutions around sublayers; NULL where there are none. */
SP_MUST_CHECK enum sp_status sp_conv_open(struct sp_workspace *r, struct sp_err *err);
void sp_conv_close(struct sp_workspace *r);
/* Convolves r->hidden, the input of the sublayer that w surrounds, and afterwards r->y, its
 * output. Each share's rows are one block. Without weights both do nothing. */
void sp_conv_before(struct sp_workspace *r, const struct sp_conv_weights *w, size_t n);
void sp_conv_after(struct sp_workspace *r, const struct sp_conv_weights *w);

/* How the halves of a gated MLP are joined. */
enum sp_gate sp_gate_of(enum sp_activation activation);

#endif
