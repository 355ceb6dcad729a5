/* Going back to an earlier position of a sequence.
 *
 * Keys and values stay where they are when a sequence goes on, recurrent states do not. A
 * checkpoint is a copy of the recurrent states at some position; a new prompt that shares a prefix
 * with the cached sequence continues from the newest checkpoint within that prefix. Layers with
 * sliding windows also limit how far a decoder can go back: their caches overwrite old keys. */
#ifndef SP_RUNTIME_MODEL_STATE_CHECKPOINT_H
#define SP_RUNTIME_MODEL_STATE_CHECKPOINT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct sp_decoder; /* runtime/model/decoder.h */

/* Recurrent states of all layers after len positions. */
enum { SP_STATE_CHECKPOINTS = 2 };
struct sp_state_checkpoint {
    size_t len;    /* 0: unused */
    float *floats; /* owned; NULL: the decoder keeps no checkpoints */
};

/* Allocates the decoder's checkpoints, if its options ask for them and it has recurrent layers. */
SP_MUST_CHECK enum sp_status sp_state_checkpoints_open(struct sp_decoder *d, struct sp_err *err);

/* True if no sliding window has overwritten keys that a pass at `to` reads, of len positions. */
bool sp_decoder_keeps_windows(const struct sp_decoder *d, size_t len, size_t to);

/* True if a decoder that stores positions 0..len-1, and up to max_rows draft tokens after them, can
 * continue after `to` <= len positions without a checkpoint: no sliding window has overwritten what
 * it would read, and no recurrent state is in the way. */
bool sp_decoder_can_rewind(const struct sp_decoder *d, size_t len, size_t to);

/* Saves a checkpoint after the len committed positions; all rows of the last run were committed.
 * The two newest checkpoints are kept. Does nothing if the decoder has no checkpoints. */
void sp_decoder_checkpoint(struct sp_decoder *d, size_t len);

/* The longest prefix of the len stored positions, at most `most`, from which the sequence can
 * continue: sliding windows allow it and, with recurrent layers, a checkpoint exists. */
size_t sp_decoder_rewind_point(const struct sp_decoder *d, size_t len, size_t most);

/* Goes back to a prefix that sp_decoder_rewind_point returned; drops later checkpoints. */
void sp_decoder_rewind(struct sp_decoder *d, size_t len, size_t to);

#endif
