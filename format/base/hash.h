/* Digests: XXH3, 64 bits, seed 0. The only user of xxHash. A digest is a number; where one is
 * stored it is little-endian like every other. */
#ifndef SP_FORMAT_BASE_HASH_H
#define SP_FORMAT_BASE_HASH_H

#include "format/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Digest of `size` bytes; `bytes` may be NULL when size is 0. */
uint64_t sp_hash64(const void *bytes, size_t size);

/* The 128-bit XXH3 digest (XXH128), most significant byte first, as 32 hexadecimal digits: the text
 * that `xxhsum -H2` prints. It names texts, no two of which may have the same digest by chance. */
enum { SP_HASH128_TEXT = 33 };
void sp_hash128_text(char out[SP_HASH128_TEXT], const void *bytes, size_t size);

/* Computes the digest of sp_hash64 from bytes that arrive in parts. */
struct sp_hash; /* opaque */

/* *out owned by the caller, released with sp_hash_free; SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_hash_new(struct sp_hash **out, struct sp_err *err);
void sp_hash_free(struct sp_hash *hash); /* NULL is fine */

/* Forgets what came so far. */
void sp_hash_reset(struct sp_hash *hash);
void sp_hash_update(struct sp_hash *hash, const void *bytes, size_t size);
/* Digest of everything since new or reset; more may follow. */
uint64_t sp_hash_digest(const struct sp_hash *hash);

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_hash_library(char *text, size_t size);

#endif
