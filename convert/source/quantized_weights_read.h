/* Reads rows of a quantized weight as floats. */
#ifndef SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_READ_H
#define SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_READ_H

#include "convert/source/quantized_weights.h"

/* Returns the smallest float type that always holds the values of a weight. */
enum sp_dtype sp_weight_float_type(const struct sp_weight *weight);
/* The type that keeps the codes of the matrix, and the flags of its panels; SP_DTYPE_NONE: none
 * does. Scales of f32 become bf16; groups of scattered columns have no such type. */
enum sp_dtype sp_weight_kept(uint8_t *flags, const struct sp_weight *weight);
/* Returns the number of rows over all leading dimensions. */
uint64_t sp_weight_rows(const struct sp_weight *weight);

/* The rows that were unpacked last, for one thread. Valid when zeroed. Its size does not depend on
 * that of the weights, only on the length of their rows. */
struct sp_weight_workspace {
    const struct sp_weight *weight; /* borrowed; NULL: none */
    uint64_t first, n;              /* its rows first..first+n-1 */
    uint8_t *codes;                 /* [n][cols] */
    float *scales, *zeros;          /* [rows of the grid][grid_cols] */
    uint64_t first_grid_row;
    uint32_t *index; /* [cols] */
    uint8_t *zero_codes;
    float *row;        /* of numbers */
    float values[256]; /* of the codes */
    float nested[256]; /* of the codes of nested scales */
    size_t caps[6];    /* elements of the arrays above */
    struct sp_code_buffer buffer;
    bool plain_scales; /* the scales are as stored, without their common factor */
};
void sp_weight_workspace_release(struct sp_weight_workspace *workspace);

/* out[n][cols] = rows first, first + step, ... */
SP_MUST_CHECK enum sp_status sp_weight_read(float *out, const struct sp_weight *weight,
                                            uint64_t first, uint64_t step, uint64_t n,
                                            struct sp_weight_workspace *workspace,
                                            struct sp_err *err);

/* Reads the groups of a row into lane `lane` of a panel of sp_weight_kept, which is initialized. */
SP_MUST_CHECK enum sp_status sp_weight_put_row(uint8_t *panel, size_t lane,
                                               const struct sp_weight *weight, uint64_t row,
                                               struct sp_weight_workspace *workspace,
                                               struct sp_err *err);

#endif
