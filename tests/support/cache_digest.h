/* Digests of what passes leave in the caches of a decoder, by which tests compare them. */
#ifndef SP_TESTS_SUPPORT_CACHE_DIGEST_H
#define SP_TESTS_SUPPORT_CACHE_DIGEST_H

#include "runtime/model/decoder.h"
#include "runtime/session/session.h"

/* The positions first..last-1 of this process's heads. */
uint64_t kv_digest(const struct sp_kv *kv, size_t first, size_t last);

/* Opens a decoder of a model of the package; kept (keep.h). Failures end the test. */
struct sp_decoder *keep_decoder(const struct sp_package *package, const struct sp_model *model,
                                const struct sp_decoder_options *options);

/* Everything that positions 0..len-1 left. */
uint64_t decoder_digest(struct sp_decoder *decoder, size_t len);

#endif
