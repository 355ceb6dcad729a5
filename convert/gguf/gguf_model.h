/* A GGUF file presented as a checkpoint: tensors under the names, shapes and with the numbers that
 * transformers' checkpoints of the same family have.
 *
 * llama.cpp's converter renames tensors, reorders rows (gguf_order.h), adds 1 to the norms of some
 * families, takes exponentials and stores rotary scaling as a tensor. All of that is undone while
 * rows are read.
 * The texts of the checkpoint come from gguf_config.h and gguf_tokenizer.h. */
#ifndef SP_CONVERT_GGUF_GGUF_MODEL_H
#define SP_CONVERT_GGUF_GGUF_MODEL_H

#include "convert/gguf/gguf_arch.h"
#include "convert/gguf/gguf_order.h"
#include "format/dtype.h"
#include "format/gguf.h"

/* One tensor of the checkpoint. */
struct sp_gguf_weight {
    char *name; /* as published; owned */
    const struct sp_gguf_tensor *tensor;
    unsigned rank;
    uint64_t shape[SP_GGUF_MAX_RANK]; /* as published */
    struct sp_gguf_order rows, cols;
    const struct sp_gguf_tensor *scale; /* a factor of the tensor, or of each matrix; or NULL */
    float less;                         /* subtracted from every number */
    bool log;                           /* -e^x is stored for x */
};

/* Valid when zeroed. */
struct sp_gguf_model {
    struct sp_gguf *file; /* owned */
    const struct sp_gguf_arch *arch;
    uint64_t n_layers; /* without those of a prediction head, n_predicting */
    uint64_t n_predicting;
    bool is_adapter;                /* names may end with .lora_a or .lora_b */
    uint64_t head_dim;              /* adapters: rows of a head of the model's queries and keys */
    struct sp_gguf_weight *weights; /* [n], sorted by name; owned */
    size_t n;
    bool tied;        /* one matrix is embedding and head */
    size_t n_skipped; /* tensors of image and audio encoders, which are not listed */
};

/* Opens the file, finds its architecture and names its tensors. A tensor that no model of the
 * architecture has is refused by name. Zeroed on failure. */
SP_MUST_CHECK enum sp_status sp_gguf_model_open(struct sp_gguf_model *out, const char *path,
                                                char **warnings, struct sp_err *err);
/* Opens a LoRA adapter (general.type "adapter") the same way: NAME.lora_a and NAME.lora_b are named
 * and turned as NAME is. The file does not state the size of a head. */
SP_MUST_CHECK enum sp_status sp_gguf_adapter_open(struct sp_gguf_model *out, const char *path,
                                                  uint64_t head_dim, struct sp_err *err);
void sp_gguf_model_release(struct sp_gguf_model *model);

/* By binary search; NULL: there is none. */
const struct sp_gguf_weight *sp_gguf_weight_find(const struct sp_gguf_model *model,
                                                 const char *name);

/* The float type that holds the numbers exactly. */
enum sp_dtype sp_gguf_weight_float_type(const struct sp_gguf_weight *weight);
/* The name of the block type, for example "q4_k"; NULL: plain floats. */
const char *sp_gguf_weight_coding(const struct sp_gguf_weight *weight);

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
