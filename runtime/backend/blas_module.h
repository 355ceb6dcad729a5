/* The one function of the module that calls OpenBLAS. The program loads the module when the
 * reference decoder is asked for, so it needs no BLAS otherwise: linking it would add some ten
 * milliseconds to every start. */
#ifndef SP_RUNTIME_BACKEND_BLAS_MODULE_H
#define SP_RUNTIME_BACKEND_BLAS_MODULE_H

#include "runtime/spectool.h"

#include <stddef.h>

/* y[n][ldy] = x[n][cols] times the transpose of w[rows][cols], in float32 on one thread. */
typedef void sp_blas_multiply_fn(float *y, size_t ldy, const float *x, const float *w, size_t n,
                                 size_t rows, size_t cols);
#define SP_BLAS_MULTIPLY "sp_blas_multiply"

SP_API sp_blas_multiply_fn sp_blas_multiply;

#endif
