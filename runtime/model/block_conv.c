/* The grouped dynamic convolutions of DFlash2 around a sublayer f: conv_1(f(conv_0(x))), over the
 * rows of one block.
 *
 *   conv_s(u)_t = sum over taps of (base[s][tap] + dyn_t[s][tap]) * u_(t - tap)
 *
 * dyn_t has one number per tap, side and group of adjacent channels; it is a projection of x_t, the
 * sublayer's normed input. Rows before the block count as zero: a block has no state. */
#include "runtime/model/sublayers.h"

#include <string.h>

struct sp_block_conv_scratch {
    size_t n_groups, ld;
    float *dynamic; /* [max_rows][ld]: [2 sides][taps][n_groups] */
    float *row;     /* [H] */
};

void sp_block_conv_open(struct sp_workspace *ws)
{
    const struct sp_config *c = &ws->model->config;
    struct sp_block_conv_scratch *s;

    if (c->n_conv_taps == 0) return;
    if ((s = ws->block_conv = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->n_groups = c->n_hidden / c->conv_group;
    s->ld = sp_matrix_ld(2 * c->n_conv_taps * s->n_groups);
    s->dynamic = sp_arena_rows(&ws->memory, ws->max_rows, s->ld);
    s->row = sp_arena_rows(&ws->memory, 1, c->n_hidden);
}

/* Convolves in place the n rows of u that begin with the pass's row `first_row`, from the last to
 * the first, so that the rows that a row reads are unchanged. */
static void convolve_block(struct sp_workspace *ws, const struct sp_conv_weights *w, unsigned side,
                           float *u, size_t ld, size_t first_row, size_t n)
{
    const struct sp_config *c = &ws->model->config;
    const struct sp_vector *vector = ws->backend->vector;
    struct sp_block_conv_scratch *s = ws->block_conv;
    size_t h = c->n_hidden;

    for (size_t t = n; t-- > 0;) {
        memset(s->row, 0, h * sizeof *s->row);
        for (size_t tap = 0; tap < c->n_conv_taps && tap <= t; tap++) {
            size_t k = side * c->n_conv_taps + tap;
            const float *from = u + (t - tap) * ld;
            const float *dynamic = s->dynamic + (first_row + t) * s->ld + k * s->n_groups;
            vector->mul_add(s->row, w->base + k * h, from, h);
            for (size_t g = 0; g < s->n_groups; g++) {
                size_t first = g * c->conv_group;
                vector->fma(s->row + first, from + first, dynamic[g], c->conv_group);
            }
        }
        memcpy(u + t * ld, s->row, h * sizeof *s->row);
    }
}

static void convolve(struct sp_workspace *ws, const struct sp_conv_weights *w, unsigned side,
                     float *u, size_t ld)
{
    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        convolve_block(ws, w, side, u + first * ld, ld, first, ws->seqs[i].n);
}

void sp_block_conv_before(struct sp_workspace *ws, const struct sp_conv_weights *w, size_t n)
{
    if (w->base == NULL) return;
    sp_backend_product(ws->backend, ws->block_conv->dynamic, ws->block_conv->ld, &w->dynamic, NULL,
                       &ws->hidden, n);
    convolve(ws, w, 0, ws->hidden.x, ws->hidden.ld);
}

void sp_block_conv_after(struct sp_workspace *ws, const struct sp_conv_weights *w)
{
    if (w->base) convolve(ws, w, 1, ws->y, ws->ld_x);
}
