/* One tensor of a GGUF file as the checkpoint has it, and its rows. */
#ifndef SP_CONVERT_GGUF_GGUF_WEIGHT_H
#define SP_CONVERT_GGUF_GGUF_WEIGHT_H

#include "convert/gguf/gguf_order.h"
#include "format/dtype.h"
#include "format/gguf.h"

struct sp_gguf_model;

struct sp_gguf_weight {
    char *name; /* as published; owned */
    const struct sp_gguf_tensor *tensor;
    unsigned rank;
    uint64_t shape[SP_GGUF_MAX_RANK]; /* as published */
    struct sp_gguf_order rows, cols;
    const struct sp_gguf_tensor *scale; /* a factor of the tensor, or of each matrix; or NULL */
    float less;                         /* subtracted from every number */
    bool log;                           /* -e^x is stored for x */
    bool is_value;                      /* a number of the metadata; `tensor` has no bytes */
    float value;
};

/* The float type that holds the numbers exactly. */
enum sp_dtype sp_gguf_weight_float_type(const struct sp_gguf_weight *weight);

/* The type that keeps the codes of the tensor's rows, and the flags of its panels. SP_DTYPE_NONE:
 * none does, or what the converter did to the numbers cannot be undone with codes. */
enum sp_dtype sp_gguf_weight_kept(uint8_t *flags, const struct sp_gguf_weight *weight);

/* Reads the groups of row `row` into lane `lane` of a panel of that type, which is initialized.
 * `bytes` is scratch that holds a row. */
SP_MUST_CHECK enum sp_status sp_gguf_weight_put_row(uint8_t *panel, size_t lane,
                                                    const struct sp_gguf_model *model,
                                                    const struct sp_gguf_weight *weight,
                                                    uint64_t row, uint8_t *bytes,
                                                    struct sp_err *err);

/* Least scratch for rows of n_cols elements; false on overflow. */
bool sp_gguf_weight_scratch(size_t *out, const struct sp_gguf_weight *weight, uint64_t n_cols);

/* out[n][n_cols] = rows first, first + step, ... of a tensor seen as rows of n_cols elements, which
 * are whole rows or all elements of a vector or single elements of it. `bytes` is scratch of `size`
 * bytes, at least sp_gguf_weight_scratch. From any number of threads. */
SP_MUST_CHECK enum sp_status sp_gguf_weight_read(float *out, const struct sp_gguf_model *model,
                                                 const struct sp_gguf_weight *weight,
                                                 uint64_t n_cols, uint64_t first, uint64_t step,
                                                 uint64_t n, uint8_t *bytes, size_t size,
                                                 struct sp_err *err);

#endif
