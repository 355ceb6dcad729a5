/* The compressed attention sublayer (DeepSeek-V4). */
#ifndef SP_RUNTIME_MODEL_COMPRESSED_ATTENTION_H
#define SP_RUNTIME_MODEL_COMPRESSED_ATTENTION_H

#include "runtime/vector/vector.h"

struct sp_decoder;   /* runtime/model/decoder_internal.h */
struct sp_workspace; /* runtime/model/workspace.h */

/* Caches of a decoder, in units of its layers: keys of the window, keys of the index, entries, and
 * what entries and keys of the index are made of. */
enum { SP_COMPRESSED_CACHES = 5 };

/* Allocates ws->compressed for decoders with caches of this type; leaves it NULL if the model has
 * no such attention. */
SP_MUST_CHECK enum sp_status sp_compressed_attention_open(struct sp_workspace *ws,
                                                          enum sp_cache_type cache_type,
                                                          struct sp_err *err);
void sp_compressed_attention_close(struct sp_workspace *ws);

/* Opens the caches of a layer but for those of the window and of the index. */
SP_MUST_CHECK enum sp_status
sp_compressed_attention_open_caches(struct sp_decoder *d, unsigned layer, struct sp_err *err);

/* Stores what the n rows of ws->hidden leave in the caches; sets ws->y to the output of the
 * sublayer. */
void sp_compressed_attention_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
