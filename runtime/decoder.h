/* What a decoder is inside; shared by the files that open it (decoder.c) and run its sublayers
 * (forward.c, self_attention.c, experts.c, ...). */
#ifndef SP_RUNTIME_DECODER_H
#define SP_RUNTIME_DECODER_H

#include "runtime/forward.h"
#include "runtime/conv_history.h"
#include "runtime/head_state.h"

/* cos and sin of one rotation for the rows of a pass. */
struct rotation {
    float *freq;      /* [n_rot / 2] */
    float *cos, *sin; /* [max_rows][n_rot / 2] */
};

/* Mixers whose memory is a struct sp_recurrent. */
enum { SP_RECURRENT_MIXERS = SP_MIXER_DELTA_NET | SP_MIXER_MAMBA };

/* Both side by side, their results added. */
enum { SP_MIXERS_BESIDE = SP_MIXER_ATTENTION | SP_MIXER_MAMBA };

/* What all recurrent layers remembered behind len positions. */
enum { SP_MARKS = 2 };
struct sp_mark {
    size_t len;     /* 0: not in use */
    float *numbers; /* owned; NULL: there are no marks */
};

struct sp_decoder {
    const struct sp_model *model;
    const struct sp_engine *engine;
    struct sp_decoder_options options;
    struct sp_kv *caches;      /* [n_layers]; unused where the layer reads another layer's */
    const struct sp_kv **keys; /* [n_layers]: what the layer reads, its own or not */
    struct sp_attention_scratch *attention;
    struct rotation rotations[2];
    struct sp_key_range *ranges;        /* [max_rows] */
    float *features;                    /* [max_rows][n_taps * H] */
    float *logits;                      /* [max_logit_rows][ld_logits] */
    size_t ld_logits, n_logits;         /* n_logits: of a row, in the last sp_decoder_logits */
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
    struct sp_recurrent *recurrent;    /* [n_layers]; NULL: there are no such layers */
    struct sp_delta_scratch *delta;    /* NULL: no gated delta-rule layers */
    struct sp_mamba_scratch *mamba;    /* NULL: no Mamba-2 layers */
    struct sp_short_conv_scratch *short_conv; /* NULL: no gated short convolutions */
    struct sp_per_layer_scratch *per_layer;   /* NULL: no per-layer embeddings */
    struct sp_conv_scratch *conv;             /* NULL: no convolutions around sublayers */
    float *gate;                              /* [max_rows][ld_q] output gates of attention */
    struct sp_mark marks[SP_MARKS];
    size_t n_run, n_certain; /* rows of the last run, and how many the states hold */
};

/* What one gated delta-rule or Mamba-2 layer remembers. */
struct sp_recurrent {
    struct sp_head_state heads;
    struct sp_conv_history history; /* inputs of the convolution */
};

/* Room for one gated delta-rule layer's pass. */
struct sp_delta_scratch {
    size_t channels, n_keys, n_values; /* 2 n_keys + n_values = channels */
    size_t ld, ld_heads;
    struct sp_head_sizes sizes;
    struct sp_head_room room;
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
    struct sp_head_room room;
    float *input;  /* [kernel - 1 + max_rows][ld] */
    float *mixed;  /* [max_rows][ld] after convolution: x, B, C */
    float *z;      /* [max_rows][ld_z] */
    float *values; /* [max_rows][ld_z] dt x */
    float *out;    /* [max_rows][ld_z] */
    float *dt;     /* [max_rows][ld_heads]: becomes the decay */
};

/* Gated short convolutions: what their layers remember, and room for one layer's pass. */
struct sp_short_conv_scratch {
    struct sp_conv_history *histories; /* [n_layers] of b * x */
    float *projected;                  /* [max_rows][ld]: b, c, x */
    float *input;                      /* [kernel - 1 + max_rows][ld_x]: b * x */
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
    float *share;                /* [max_rows][ld_share] its weight before the sigmoid */
    size_t ld_share;
};

/* out[cols of source's table] = the scaled embedding of a token, as this model takes it. */
void sp_decoder_embed_row(const struct sp_decoder *d, const struct sp_model *source, uint32_t id,
                          float *out);

/* The attention sublayer of a layer on rows at positions pos..pos+n-1: d->y = what it makes of the
 * n rows of d->hidden; their keys and values are stored. */
void sp_decoder_attend(struct sp_decoder *d, unsigned layer, size_t n, size_t pos);
/* Only stores the keys and values that the layer makes of the n rows of d->hidden. */
void sp_decoder_store_keys(struct sp_decoder *d, unsigned layer, size_t n, size_t pos);

/* Room for the experts of the decoder's layers; NULL where there are none. */
SP_MUST_CHECK enum sp_status sp_experts_open(struct sp_decoder *d, struct sp_err *err);
void sp_experts_close(struct sp_decoder *d);

/* The MLP of a layer with experts: d->y = what the experts, and the dense MLP beside them, make of
 * the n rows of d->hidden (and, with expert_norms, of d->x). */
void sp_experts_run(struct sp_decoder *d, const struct sp_layer *layer, size_t n);

/* What layers of this mixer remember: states of heads, and n_before rows of `channels` in front of
 * a convolution. */
SP_MUST_CHECK enum sp_status sp_recurrent_open(struct sp_decoder *d, enum sp_mixer mixer,
                                               const struct sp_head_sizes *sizes, size_t n_before,
                                               size_t channels, struct sp_err *err);
void sp_recurrent_close(struct sp_decoder *d);
size_t sp_recurrent_size(const struct sp_decoder *d,
                         unsigned layer); /* bytes, the log's included */
/* Forgets the sequence. */
void sp_recurrent_reset(struct sp_decoder *d);
/* The first n_kept rows of the last run became true. */
void sp_recurrent_commit(struct sp_decoder *d, unsigned layer, size_t n_kept);
/* Digest of a layer's committed state. */
uint64_t sp_recurrent_digest(struct sp_decoder *d, unsigned layer);

/* Gated delta-rule layers; nothing where there are none. */
SP_MUST_CHECK enum sp_status sp_delta_open(struct sp_decoder *d, struct sp_err *err);
void sp_delta_close(struct sp_decoder *d);
/* d->y = the mixer of the n rows of d->hidden. */
void sp_delta_run(struct sp_decoder *d, unsigned layer, size_t n);

/* Mamba-2 layers; the same. */
SP_MUST_CHECK enum sp_status sp_mamba_open(struct sp_decoder *d, struct sp_err *err);
void sp_mamba_close(struct sp_decoder *d);
void sp_mamba_run(struct sp_decoder *d, unsigned layer, size_t n);

/* Gated short convolutions, with a memory of their own. */
SP_MUST_CHECK enum sp_status sp_short_conv_open(struct sp_decoder *d, struct sp_err *err);
void sp_short_conv_close(struct sp_decoder *d);
void sp_short_conv_reset(struct sp_decoder *d);
void sp_short_conv_run(struct sp_decoder *d, unsigned layer, size_t n);
void sp_short_conv_commit(struct sp_decoder *d, unsigned layer, size_t n_kept);

/* What a recurrent layer, or one with a short convolution, is sure of, piece by piece; returns how
 * many. */
enum { SP_MAX_PIECES = 3 };
struct sp_piece {
    float *numbers;
    size_t n;
};
size_t sp_decoder_pieces(const struct sp_decoder *d, unsigned layer,
                         struct sp_piece pieces[SP_MAX_PIECES]);

/* Room for marks; none without recurrent layers. */
SP_MUST_CHECK enum sp_status sp_marks_open(struct sp_decoder *d, struct sp_err *err);
void sp_marks_close(struct sp_decoder *d);
size_t sp_marks_size(const struct sp_decoder *d); /* bytes */

/* Do the layers with windows still hold what a pass at `to` reads, len positions being stored? */
bool sp_decoder_keeps_windows(const struct sp_decoder *d, size_t len, size_t to);

/* Per-layer embeddings; NULL where there are none. */
SP_MUST_CHECK enum sp_status sp_per_layer_open(struct sp_decoder *d, struct sp_err *err);
void sp_per_layer_close(struct sp_decoder *d);
/* Looks up and mixes the rows of ids; d->x holds their (scaled) embeddings. */
void sp_per_layer_embed(struct sp_decoder *d, const uint32_t *ids, size_t n);
/* d->y = what the layer makes of its own embeddings and the n rows of d->x. */
void sp_per_layer_run(struct sp_decoder *d, unsigned layer, size_t n);

/* Convolutions around sublayers; NULL where there are none. */
SP_MUST_CHECK enum sp_status sp_conv_open(struct sp_decoder *d, struct sp_err *err);
void sp_conv_close(struct sp_decoder *d);
/* Convolves d->hidden, the input of the sublayer that w surrounds, and afterwards d->y, its
 * output. The n rows are one block. Without weights both do nothing. */
void sp_conv_before(struct sp_decoder *d, const struct sp_conv_weights *w, size_t n);
void sp_conv_after(struct sp_decoder *d, const struct sp_conv_weights *w, size_t n);

/* How the halves of a gated MLP are joined. */
enum sp_gate sp_gate_of(enum sp_activation activation);

#endif
