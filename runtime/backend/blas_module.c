/* The module that calls OpenBLAS. */
#include "runtime/backend/reference.h"

#include <cblas.h>

void sp_blas_multiply(float *y, size_t ldy, const float *x, const float *w, size_t n, size_t rows,
                      size_t cols)
{
    openblas_set_num_threads(1);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)rows, (blasint)cols,
                1, x, (blasint)cols, w, (blasint)cols, 0, y, (blasint)ldy);
}
