#ifndef SP_TESTS_SUPPORT_KV_ROWS_H
#define SP_TESTS_SUPPORT_KV_ROWS_H

#include "runtime/backend/kv.h"

/* Stores n rows at positions pos..pos+n-1. k, v: [n][ld], the heads of a row are contiguous. */
static inline void put_rows(struct sp_kv *kv, const struct sp_vector *vector, size_t pos, size_t n,
                            const float *k, const float *v, size_t ld)
{
    for (size_t h = 0; h < kv->n_heads; h++)
        sp_kv_put_head(kv, vector, h, pos, n, k + h * kv->head_dim, v + h * kv->value_dim, ld);
}

#endif
