/* The tensors of an adapter's file, safetensors or GGUF, and their elements as floats. */
#ifndef SP_CONVERT_ADAPTER_ADAPTER_FILE_H
#define SP_CONVERT_ADAPTER_ADAPTER_FILE_H

#include "convert/gguf/gguf_model.h"
#include "format/safetensors.h"

struct sp_adapter_tensor {
    const char *name;      /* in the file; borrowed from it */
    const char *published; /* as a checkpoint would name it; differs in GGUF files; borrowed */
    enum sp_dtype dtype;   /* of a GGUF file the float type that holds the numbers */
    unsigned rank;
    uint64_t shape[SP_MAX_RANK];
    const struct sp_safetensor *plain;    /* borrowed; NULL in a GGUF file */
    const struct sp_gguf_weight *encoded; /* borrowed; NULL in a safetensors file */
};

/* Valid when zeroed. */
struct sp_adapter_file {
    struct sp_safetensors *safetensors; /* owned; one of the two */
    struct sp_gguf_model gguf;          /* owned */
    struct sp_adapter_tensor *tensors;  /* by their names in the file; owned */
    size_t n;
};

/* Opens a safetensors file, or a GGUF file if `is_gguf` of this model. Zeroed on
 * failure. */
SP_MUST_CHECK enum sp_status sp_adapter_file_open(struct sp_adapter_file *out, const char *path,
                                                  bool is_gguf, const struct sp_config *model,
                                                  struct sp_err *err);
void sp_adapter_file_close(struct sp_adapter_file *file);

/* Scratch that n elements of a tensor take; false on overflow. */
bool sp_adapter_file_scratch(size_t *out, const struct sp_adapter_tensor *tensor, size_t n);

/* out[n] = elements first.. of a tensor; of one in blocks of codes they are whole rows. `bytes` is
 * scratch of `size` bytes, at least sp_adapter_file_scratch. From any number of threads. */
SP_MUST_CHECK enum sp_status sp_adapter_file_read(float *out, const struct sp_adapter_file *file,
                                                  const struct sp_adapter_tensor *tensor,
                                                  uint64_t first, size_t n, uint8_t *bytes,
                                                  size_t size, struct sp_err *err);

#endif
