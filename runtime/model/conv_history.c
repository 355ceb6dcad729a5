#include "runtime/model/conv_history.h"

#include "format/base/hash.h"
#include "format/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_conv_history_init(struct sp_conv_history *h, size_t n_before, size_t max_logged,
                                    size_t width, struct sp_err *err)
{
    *h = (struct sp_conv_history){.n_before = n_before, .max_logged = max_logged, .width = width};
    return sp_new_rows(&h->rows, n_before + max_logged, width, err);
}

void sp_conv_history_release(struct sp_conv_history *h)
{
    free(h->rows);
    *h = (struct sp_conv_history){0};
}

void sp_conv_history_reset(struct sp_conv_history *h)
{
    memset(h->rows, 0, h->n_before * h->width * sizeof *h->rows);
}

void sp_conv_history_begin(const struct sp_conv_history *h, float *input, size_t ld)
{
    for (size_t i = 0; i < h->n_before; i++)
        memcpy(input + i * ld, h->rows + i * h->width, h->width * sizeof *input);
}

void sp_conv_history_convolve(const struct sp_conv_history *h, const struct sp_vector *vector,
                              float *y, const float *taps, const float *input, size_t ld, size_t t)
{
    memset(y, 0, h->width * sizeof *y);
    for (size_t i = 0; i <= h->n_before; i++)
        vector->mul_add(y, taps + i * h->width, input + (t + i) * ld, h->width);
}

void sp_conv_history_end(struct sp_conv_history *h, const float *input, size_t ld, size_t n,
                         size_t n_committed)
{
    assert(n >= n_committed && n - n_committed <= h->max_logged);
    for (size_t i = 0; i < h->n_before + n - n_committed; i++)
        memcpy(h->rows + i * h->width, input + (n_committed + i) * ld, h->width * sizeof *input);
}

void sp_conv_history_commit(struct sp_conv_history *h, size_t n_more)
{
    if (n_more == 0) return;
    memmove(h->rows, h->rows + n_more * h->width, h->n_before * h->width * sizeof *h->rows);
}

uint64_t sp_conv_history_digest(const struct sp_conv_history *h)
{
    return sp_hash64(h->rows, h->n_before * h->width * sizeof *h->rows);
}
