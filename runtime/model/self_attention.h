/* The attention sublayer with keys and values per head. Its buffers are the workspace's own, since
 * latent attention uses them too. */
#ifndef SP_RUNTIME_MODEL_SELF_ATTENTION_H
#define SP_RUNTIME_MODEL_SELF_ATTENTION_H

#include "runtime/backend/attention.h"

struct sp_batch_seq;    /* runtime/model/decoder.h */
struct sp_layer_config; /* format/config/config.h */
struct sp_workspace;    /* runtime/model/workspace.h */

/* Stores the keys and values of the n rows of ws->hidden; sets ws->y to the output of the sublayer.
 */
void sp_self_attention_run(struct sp_workspace *ws, unsigned layer, size_t n);

/* Stores the layer's keys and values of the n rows of ws->hidden, and computes no attention. */
void sp_self_attention_store_keys(struct sp_workspace *ws, unsigned layer, size_t n);

/* Row t of ws->heads = the attention of row t of ws->q to the first n keys of a cache. */
void sp_self_attention_row(struct sp_workspace *ws, unsigned layer, size_t t,
                           const struct sp_kv *kv, size_t n);

/* Sets ranges[seq->n] to the keys that each row of the sequence attends to in a layer. */
void sp_self_attention_find_ranges(struct sp_key_range *ranges, const struct sp_layer_config *l,
                                   const struct sp_batch_seq *seq);

#endif
