/* What a decoder is inside: what one sequence left in the layers. Opened in decoder.c, run in
 * forward.c. */
#ifndef SP_RUNTIME_MODEL_DECODER_INTERNAL_H
#define SP_RUNTIME_MODEL_DECODER_INTERNAL_H

#include "runtime/model/conv_history.h"
#include "runtime/model/workspace.h"

/* Mixers whose memory is a struct sp_recurrent. */
enum { SP_RECURRENT_MIXERS = SP_MIXER_DELTA_NET | SP_MIXER_MAMBA };

/* What all recurrent layers remembered behind len positions. */
enum { SP_STATE_CHECKPOINTS = 2 };
struct sp_state_checkpoint {
    size_t len;     /* 0: not in use */
    float *numbers; /* owned; NULL: there are no marks */
};

struct sp_decoder {
    const struct sp_model *model;
    const struct sp_backend *backend;
    struct sp_decoder_options options;
    struct sp_workspace *workspace; /* its own, or shared */
    struct sp_kv *caches;           /* [n_layers]; unused where the layer reads another layer's */
    const struct sp_kv **keys;      /* [n_layers]: what the layer reads, its own or not */
    float *frequencies[2];          /* [n_rot / 2] of each rotation */
    struct sp_recurrent *recurrent; /* [n_layers]; NULL: there are no such layers */
    struct sp_conv_history *short_histories; /* [n_layers] of b * x in gated short convolutions;
                                                NULL: none */
    struct sp_state_checkpoint checkpoints[SP_STATE_CHECKPOINTS];
    float *features;           /* [max_rows][n_taps * H] */
    size_t n_run, n_committed; /* rows of the last run, and how many the states hold */
    size_t logits_at;          /* its first row among the room's logits */
};

/* What one gated delta-rule or Mamba-2 layer remembers. */
struct sp_recurrent {
    struct sp_head_state heads;
    struct sp_conv_history history; /* inputs of the convolution */
};

/* What recurrent layers remember: states of heads, and the rows in front of a convolution. */
SP_MUST_CHECK enum sp_status sp_recurrent_open(struct sp_decoder *d, struct sp_err *err);
void sp_recurrent_close(struct sp_decoder *d);
size_t sp_recurrent_size(const struct sp_decoder *d,
                         unsigned layer); /* bytes, the log's included */
/* Forgets the sequence. */
void sp_recurrent_reset(struct sp_decoder *d);
/* The first n_kept rows of the last run became true. */
void sp_recurrent_commit(struct sp_decoder *d, unsigned layer, size_t n_kept);
/* Digest of a layer's committed state. */
uint64_t sp_recurrent_digest(struct sp_decoder *d, unsigned layer);

/* What a recurrent layer, or one with a short convolution, is sure of, piece by piece; returns how
 * many. */
enum { SP_MAX_STATE_SPANS = 3 };
struct sp_state_span {
    float *numbers;
    size_t n;
};
size_t sp_decoder_state_spans(const struct sp_decoder *d, unsigned layer,
                              struct sp_state_span spans[SP_MAX_STATE_SPANS]);

/* Room for marks; none without recurrent layers. */
SP_MUST_CHECK enum sp_status sp_state_checkpoints_open(struct sp_decoder *d, struct sp_err *err);
void sp_state_checkpoints_close(struct sp_decoder *d);
size_t sp_state_checkpoints_size(const struct sp_decoder *d); /* bytes */

/* Do the layers with windows still hold what a pass at `to` reads, len positions being stored? */
bool sp_decoder_keeps_windows(const struct sp_decoder *d, size_t len, size_t to);

#endif
