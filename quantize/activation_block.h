/* A kernel's position in the activations: one block of 32 columns of the rows of its tile. */
#ifndef SP_QUANTIZE_ACTIVATION_BLOCK_H
#define SP_QUANTIZE_ACTIVATION_BLOCK_H

#include "quantize/kernels.h"

/* Pointers to the block in the first row of the tile; the block in row t is t * ld codes and t *
 * ld_block blocks later. */
struct sp_act_block {
    const int8_t *q;
    const float *scale;
    const int32_t *start_q4, *start_q8;
    size_t ld, ld_block;
};

/* The first block of the tile that begins at row `first`. */
static inline struct sp_act_block sp_act_block_first(const struct sp_acts *acts, size_t first)
{
    return (struct sp_act_block){
        .q = acts->q + first * acts->ld,
        .scale = acts->scale + first * acts->ld_block,
        .start_q4 = acts->start_q4 + first * acts->ld_block * 2,
        .start_q8 = acts->start_q8 + first * acts->ld_block,
        .ld = acts->ld,
        .ld_block = acts->ld_block,
    };
}

static inline void sp_act_block_next(struct sp_act_block *at)
{
    at->q += SP_BLOCK;
    at->scale += 1;
    at->start_q4 += 2;
    at->start_q8 += 1;
}

#endif
