/* The header of one safetensors file, checked. For safetensors.c; others read whole checkpoints. */
#ifndef SP_FORMAT_SAFETENSORS_HEADER_H
#define SP_FORMAT_SAFETENSORS_HEADER_H

#include "format/base/file.h"
#include "format/dtype.h"

#include <stdint.h>

/* Tensors of one file, and of one checkpoint; Kimi K2 in NVFP4 has 280 000. */
enum { SP_SAFETENSORS_MAX_TENSORS = 1 << 19 };

struct sp_safetensor {
    const char *name;    /* borrowed from the checkpoint */
    enum sp_dtype dtype; /* any of enum sp_dtype that has a safetensors name */
    unsigned rank;
    const struct sp_file *file;  /* where it is; borrowed from the checkpoint */
    uint64_t shape[SP_MAX_RANK]; /* [rank], the rest 0 */
    uint64_t offset;             /* of its first byte in that file */
    uint64_t size;               /* bytes */
};

/* Tensors of one file, in no particular order. Valid when zeroed. */
struct sp_safetensors_header {
    struct sp_safetensor *tensors; /* [n], owned; names are in `names` */
    size_t n;
    char *names; /* owned */
};

/* Reads and checks the header of `file`. Messages begin with its path. A failure zeroes *out. */
SP_MUST_CHECK enum sp_status sp_safetensors_header_read(struct sp_safetensors_header *out,
                                                        const struct sp_file *file,
                                                        struct sp_err *err);
void sp_safetensors_header_release(struct sp_safetensors_header *header);

#endif
