/* Writing a checkpoint's weights: model.safetensors, or shards and the index that names them.
 *
 *   sp_safetensors_writer_open    lays the files out, reserves them and writes their headers
 *   sp_safetensors_writer_put     bytes of a tensor: any order, any threads; a shard appears under
 *                                 its name, synced, with the last of its bytes
 *   sp_safetensors_writer_finish  the index: all is there
 *   sp_safetensors_writer_close   after finish frees; without finish removes what was begun
 *
 * The files are those that the safetensors crate and transformers write: header padded with spaces
 * to 8 bytes; in a file the types with the widest elements first, so that everything is aligned. */
#ifndef SP_FORMAT_SAFETENSORS_WRITE_H
#define SP_FORMAT_SAFETENSORS_WRITE_H

#include "format/safetensors.h"

struct sp_safetensors_writer; /* opaque */

/* Into `folder`, which is there. tensors: name, dtype, rank and shape are read, the rest ignored;
 * their order is that of the shards. Names are ASCII without quotes and backslashes. A shard holds
 * at most shard_size bytes of tensors, unless a single one is larger. */
SP_MUST_CHECK enum sp_status sp_safetensors_writer_open(struct sp_safetensors_writer **out,
                                                        const char *folder,
                                                        const struct sp_safetensor *tensors,
                                                        size_t n, uint64_t shard_size,
                                                        struct sp_err *err);

/* Bytes offset.. of tensor `i` (index into the array given to open). From any number of threads, on
 * ranges that do not overlap; together they cover every tensor. In about the order of the tensors,
 * only a few files are open at a time, but for the first 64. */
SP_MUST_CHECK enum sp_status sp_safetensors_writer_put(struct sp_safetensors_writer *w, size_t i,
                                                       uint64_t offset, const void *bytes,
                                                       size_t size, struct sp_err *err);

SP_MUST_CHECK enum sp_status sp_safetensors_writer_finish(struct sp_safetensors_writer *w,
                                                          struct sp_err *err);
void sp_safetensors_writer_close(struct sp_safetensors_writer *w); /* NULL is fine */

/* Returns true if `name` is that of a weights file or its index. */
bool sp_safetensors_is_weights_name(const char *name);

#endif
