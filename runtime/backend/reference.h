/* The products of the reference decoder, which the kernels are held against: weights decoded to
 * float32 and multiplied by OpenBLAS. All else of such a backend is the scalar set, on one thread.
 * OpenBLAS adds in an order of its own, so results depend on the number of rows, which those of
 * kernels never do. */
#ifndef SP_RUNTIME_BACKEND_REFERENCE_H
#define SP_RUNTIME_BACKEND_REFERENCE_H

#include "format/packfile.h"
#include "quantize/kernels/kernels.h"
#include "runtime/spectool_measure.h"

struct sp_reference;

/* Loads the module below, found as dlopen(3) finds a library, and allocates for the
 * matrices of a file. SP_E_UNSUPPORTED: the module or OpenBLAS is missing. */
SP_MUST_CHECK enum sp_status sp_reference_new(struct sp_reference **out, const char *module,
                                              const struct sp_pack *pack,
                                              enum sp_reference_mode mode, struct sp_err *err);
void sp_reference_free(struct sp_reference *reference); /* NULL is fine */

/* True if products with weights of this type read the codes of activations. */
bool sp_reference_wants_codes(const struct sp_reference *reference, enum sp_dtype dtype);

/* Computes a product of any number of rows. kernels: those that SP_REFERENCE_CHECKED checks. [one
 * thread] */
void sp_reference_multiply(struct sp_reference *reference, const struct sp_kernels *kernels,
                           const struct sp_matmul *m);

/* The largest error of the products of SP_REFERENCE_CHECKED so far (struct sp_reference_check), and
 * whether all errors are as small as rounding makes them. */
void sp_reference_products(const struct sp_reference *reference, double *error, bool *agree);

/* ---- the module that calls OpenBLAS (blas_module.c) ----
 *
 * The program loads it when the reference decoder is asked for, so it needs no BLAS otherwise:
 * linking it would add some ten milliseconds to every start. */

/* y[n][ldy] = x[n][cols] times the transpose of w[rows][cols], in float32 on one thread. */
typedef void sp_blas_multiply_fn(float *y, size_t ldy, const float *x, const float *w, size_t n,
                                 size_t rows, size_t cols);
#define SP_BLAS_MULTIPLY "sp_blas_multiply"
SP_API sp_blas_multiply_fn sp_blas_multiply;

#endif
