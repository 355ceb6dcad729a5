/* A checkpoint in safetensors files: one file, or the shards that an index names.
 *
 * Opening reads and checks headers only, with the rules of the safetensors crate and a few stricter
 * ones: no repeated key, no aliasing, no gap, no byte before, between or after the tensors that
 * the header does not account for. Later code may rely on every range. Data is read in bounded
 * pieces, so a file that shrinks is an error and not a crash. */
#ifndef SP_FORMAT_SAFETENSORS_H
#define SP_FORMAT_SAFETENSORS_H

#include "format/safetensors_header.h"
#include "format/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct sp_safetensors; /* opaque */

/* `path`: a folder (model.safetensors, else model.safetensors.index.json and its shards) or one
 * .safetensors file. Warnings are appended to *notes, one sentence a line, if notes is not NULL:
 * *notes is NULL or a string, owned by the caller. */
SP_MUST_CHECK enum sp_status sp_safetensors_open(struct sp_safetensors **out, const char *path,
                                                 char **warnings, struct sp_err *err);
/* Adds the tensors of one more file, with a prefix in front of their names. After a failure the
 * checkpoint can only be closed. */
SP_MUST_CHECK enum sp_status sp_safetensors_add(struct sp_safetensors *checkpoint, const char *path,
                                                const char *prefix, struct sp_err *err);
void sp_safetensors_close(struct sp_safetensors *checkpoint); /* NULL is fine */

/* All tensors, sorted by name; borrowed from the checkpoint. */
const struct sp_safetensor *sp_safetensors_tensors(const struct sp_safetensors *checkpoint,
                                                   size_t *n);
/* Binary search; NULL if there is none. */
const struct sp_safetensor *sp_safetensors_find(const struct sp_safetensors *checkpoint,
                                                const char *name);

size_t sp_safetensors_n_shards(const struct sp_safetensors *checkpoint);

/* Fills `buffer` with `size` bytes of the tensor from its byte `offset` on; the range must lie in
 * the tensor (else SP_E_BUG). From any number of threads. */
SP_MUST_CHECK enum sp_status sp_safetensors_read(const struct sp_safetensor *tensor,
                                                 uint64_t offset, size_t size, void *buffer,
                                                 struct sp_err *err);

#endif
