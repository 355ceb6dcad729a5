/* Copies of matrices in a type of few bits, to measure what rounding a model's weights costs. */
#ifndef SP_RUNTIME_MEASURE_ROUNDED_MATRIX_H
#define SP_RUNTIME_MEASURE_ROUNDED_MATRIX_H

#include "format/base/pool.h"
#include "quantize/codec.h"
#include "runtime/backend/backend.h"

struct sp_rounded_matrix {
    struct sp_matrix w; /* its panels are in `memory` */
    void *memory;       /* owned */
};

struct sp_rounding {
    const struct sp_encoder *encoder;
    struct sp_pool *pool;
    enum sp_dtype dtype;            /* q2 to q6 */
    struct sp_gptq_weights weights; /* of the errors */
};

/* Rounds a stack of n_matrices matrices of w's shape, whose panels follow one another, as a
 * calibration with the weights has them rounded. w->cols is a multiple of 32. If used is not NULL,
 * only panels p with used[p] are made; the others are undefined. */
SP_MUST_CHECK enum sp_status sp_rounded_matrix_init(struct sp_rounded_matrix *out,
                                                    const struct sp_rounding *rounding,
                                                    const struct sp_matrix *w, size_t n_matrices,
                                                    const bool *used, struct sp_err *err);
void sp_rounded_matrix_release(struct sp_rounded_matrix *matrix); /* a zeroed one is fine */

#endif
