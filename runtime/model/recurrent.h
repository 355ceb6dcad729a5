/* The state of the layers whose memory is not keys and values: head states and convolution
 * histories of gated delta-rule and Mamba-2 layers, and the histories of gated short
 * convolutions. A decoder owns one of each per layer (runtime/model/decoder_internal.h). */
#ifndef SP_RUNTIME_MODEL_RECURRENT_H
#define SP_RUNTIME_MODEL_RECURRENT_H

#include "format/config/config.h"
#include "runtime/model/conv_history.h"
#include "runtime/model/head_state.h"

struct sp_decoder; /* runtime/model/decoder_internal.h */

/* The mixers whose state is a struct sp_recurrent. */
enum { SP_RECURRENT_MIXERS = SP_MIXER_DELTA_NET | SP_MIXER_MAMBA };

/* State of one gated delta-rule or Mamba-2 layer. */
struct sp_recurrent {
    struct sp_head_state heads;
    struct sp_conv_history history; /* inputs of the convolution */
};

/* Allocates the states of all layers; needs the decoder's workspace. */
SP_MUST_CHECK enum sp_status sp_recurrent_open(struct sp_decoder *d, struct sp_err *err);
void sp_recurrent_close(struct sp_decoder *d);

/* Begins a new sequence: all states become zero. */
void sp_recurrent_reset(struct sp_decoder *d);

/* Commits the first n_committed rows of the last run to a layer's state. */
void sp_recurrent_commit(struct sp_decoder *d, unsigned layer, size_t n_committed);

/* Digest of a layer's committed state. */
uint64_t sp_recurrent_digest(struct sp_decoder *d, unsigned layer);

/* The committed state of a layer as spans of floats. */
enum { SP_MAX_STATE_SPANS = 3 };
struct sp_state_span {
    float *floats;
    size_t n;
};

/* Sets spans[0..n-1] for a layer with a head state or a convolution history; returns n. */
size_t sp_recurrent_spans(const struct sp_decoder *d, unsigned layer,
                          struct sp_state_span spans[SP_MAX_STATE_SPANS]);

#endif
