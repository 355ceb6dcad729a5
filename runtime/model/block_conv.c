/* The grouped dynamic convolutions of DFlash2 around a sublayer f: conv_1(f(conv_0(x))), over the
 * rows of one block.
 *
 *   conv_s(u)_t = sum over taps of (base[s][tap] + dyn_t[s][tap]) * u_(t - tap)
 *
 * dyn_t is one number for each group of neighbouring channels, a projection of x_t, the sublayer's
 * normed input, on both sides. Rows before the block are zero: a block has no memory. */
#include "runtime/model/decoder_internal.h"

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_conv_open(struct sp_workspace *r, struct sp_err *err)
{
    const struct sp_config *c = &r->model->config;
    struct sp_conv_scratch *s = NULL;
    size_t n;
    enum sp_status st;

    if (c->n_conv_taps == 0) return SP_OK;
    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    r->conv = s;
    s->n_groups = c->n_hidden / c->conv_group;
    s->ld = sp_matrix_ld(2 * c->n_conv_taps * s->n_groups);
    if (!sp_mul(&n, r->max_rows, s->ld)) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: rows overflow");
    }
    if ((st = sp_new_aligned(&s->dynamic, n, sizeof *s->dynamic, err))) return st;
    return sp_new_aligned(&s->row, c->n_hidden, sizeof *s->row, err);
}

void sp_conv_close(struct sp_workspace *r)
{
    if (r->conv == NULL) return;
    free(r->conv->dynamic);
    free(r->conv->row);
    free(r->conv);
}

/* The n rows of u that begin with the pass's row `first_row`, in place: from the last to the first,
 * so that what a row reads is still there. */
static void convolve_block(struct sp_workspace *r, const struct sp_conv_weights *w, unsigned side,
                           float *u, size_t ld, size_t first_row, size_t n)
{
    const struct sp_config *c = &r->model->config;
    const struct sp_vector *vector = r->backend->vector;
    struct sp_conv_scratch *s = r->conv;
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

static void convolve(struct sp_workspace *r, const struct sp_conv_weights *w, unsigned side,
                     float *u, size_t ld)
{
    for (size_t i = 0, first = 0; i < r->n_seqs; first += r->seqs[i++].n)
        convolve_block(r, w, side, u + first * ld, ld, first, r->seqs[i].n);
}

void sp_conv_before(struct sp_workspace *r, const struct sp_conv_weights *w, size_t n)
{
    if (w->base == NULL) return;
    struct sp_product dynamic = {.w = &w->dynamic, .y = r->conv->dynamic, .ldy = r->conv->ld};

    sp_backend_multiply(r->backend, &dynamic, 1, &r->hidden, n);
    convolve(r, w, 0, r->hidden.x, r->hidden.ld);
}

void sp_conv_after(struct sp_workspace *r, const struct sp_conv_weights *w)
{
    if (w->base) convolve(r, w, 1, r->y, r->ld_x);
}
