/* Whole buffers to zstd frames and back. The only user of zstd.
 *
 * One thread, one fixed level and the content's size and checksum in the frame, so equal content
 * gives equal bytes with one version of zstd. Meant for text sections; tensor data is never
 * compressed. */
#ifndef SP_FORMAT_BASE_COMPRESS_H
#define SP_FORMAT_BASE_COMPRESS_H

#include "format/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* *out owned by the caller (free), *out_size its length. */
SP_MUST_CHECK enum sp_status sp_compress(uint8_t **out, size_t *out_size, const void *content,
                                         size_t size, struct sp_err *err);

/* Fills `out` with the content of exactly one frame, which must be exactly `size` bytes long by its
 * own header and in fact; anything else is SP_E_INPUT. Never writes beyond `size`. */
SP_MUST_CHECK enum sp_status sp_decompress(void *out, size_t size, const uint8_t *frame,
                                           size_t frame_size, struct sp_err *err);

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_compress_library(char *text, size_t size);

#endif
