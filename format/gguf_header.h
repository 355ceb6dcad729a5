/* The header of one GGUF file, checked. For gguf.c; others read whole models. */
#ifndef SP_FORMAT_GGUF_HEADER_H
#define SP_FORMAT_GGUF_HEADER_H

#include "format/base/file.h"
#include "format/gguf.h"

/* Valid when zeroed. */
struct sp_gguf_header {
    struct sp_gguf_value *values; /* [n_values], sorted by key; owned */
    size_t n_values;
    struct sp_gguf_tensor *tensors; /* [n_tensors], by offset; owned */
    size_t n_tensors;
    uint8_t *bytes; /* everything in front of the tensors' bytes; owned */
    char *names;    /* keys and names, each with a NUL; owned */
};

/* Reads and checks the header of `file`. Messages begin with its path. A failure zeroes *out. */
SP_MUST_CHECK enum sp_status sp_gguf_header_read(struct sp_gguf_header *out,
                                                 const struct sp_file *file, struct sp_err *err);
/* Frees the values and leaves the tensors. */
void sp_gguf_header_drop_values(struct sp_gguf_header *header);
void sp_gguf_header_release(struct sp_gguf_header *header);

#endif
