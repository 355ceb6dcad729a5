/* Attention of a sublayer's input to the states that blocks of layers left (Inkling 2). */
#ifndef SP_RUNTIME_MODEL_BLOCK_ATTENTION_H
#define SP_RUNTIME_MODEL_BLOCK_ATTENTION_H

#include "runtime/model/workspace.h"

struct sp_block_attention_scratch {
    float *blocks;   /* [most blocks][max_rows][ld_x] their states, the oldest first */
    size_t n_blocks; /* so far in the pass */
    float *states;   /* [threads][most blocks + 1][H] normed */
    float *scores;   /* [threads][ld_scores] */
    float *zeros;    /* [H, or most blocks + 1] */
    size_t ld_scores, ld_states;
    /* Of layers that repeat: the states of their last run, normed, [max_rows][n_last][H]. */
    float *last;
    size_t n_last;
    float *message, *forget, *gain; /* [max_rows][ld_x] */
    struct sp_acts pairs, low;      /* [max_rows][2 H], [max_rows][rank] */
    struct sp_acts inputs[2]; /* [max_rows][H] of k and v in layers where they differ from q's */
};

/* Allocates ws->block_attention; leaves it NULL if the model has none. */
SP_MUST_CHECK enum sp_status sp_block_attention_open(struct sp_workspace *ws, struct sp_err *err);

/* True if k and v of a layer read inputs of their own. */
static inline bool sp_layer_splits_inputs(const struct sp_layer *l)
{
    return l->config->own_kv_inputs || (l->messages[0].query && l->config->repeats);
}

/* Sets the inputs of a layer's mixer, normed; ws->x begins anew where a block does. */
void sp_block_attention_read_mixer(struct sp_workspace *ws, const struct sp_layer *l, size_t n);
/* Sets ws->hidden to the input of a layer's MLP, normed. */
void sp_block_attention_read_mlp(struct sp_workspace *ws, const struct sp_layer *l, size_t n);
/* Replaces ws->x by the input of the last norm. */
void sp_block_attention_end(struct sp_workspace *ws, size_t n);

#endif
