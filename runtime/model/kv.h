/* Keys and values of one attention layer, stored by position.
 *
 * A store knows no length: position p lives in slot p % n_slots until p + n_slots is written. The
 * owner keeps the length; rolling back is forgetting positions, and what is written next overwrites
 * them. A full layer has a slot for every position of the context. A layer with a window of W keys
 * has W + (most rows of one pass), rounded up, so that a rejected draft never evicts a key that the
 * accepted prefix still sees. n_slots is a multiple of SP_SPAN, so a span never wraps. The heads of
 * a span lie together: a short sequence touches, and costs, the first pages only. */
#ifndef SP_RUNTIME_MODEL_KV_H
#define SP_RUNTIME_MODEL_KV_H

#include "runtime/model/session_file.h"
#include "runtime/vector/vector.h"

struct sp_kv {
    enum sp_kv_type type;
    unsigned n_heads, head_dim, value_dim; /* of a key, of a value */
    size_t n_slots;
    size_t key_block_size, value_block_size;
    uint8_t *keys;   /* [n_slots / 256][n_heads][256 / 16] key blocks, owned */
    uint8_t *values; /* the same of value blocks, owned */
    void *memory[2]; /* what keys and values lie in */
};

/* What a store holds of each position: of every head a key of head_dim dims and a value of as many,
 * or of value_dim where that is not 0. */
struct sp_kv_shape {
    unsigned n_heads, head_dim, value_dim;
};

/* window 0: n_positions slots; else min(n_positions, window + max_rows); rounded up to SP_SPAN. */
SP_MUST_CHECK enum sp_status sp_kv_init(struct sp_kv *kv, enum sp_kv_type type,
                                        struct sp_kv_shape shape, size_t n_positions, size_t window,
                                        size_t max_rows, struct sp_err *err);
void sp_kv_release(struct sp_kv *kv);
size_t sp_kv_size(const struct sp_kv *kv); /* bytes */

/* Stores n rows at positions pos..pos+n-1. k, v: [n][ld], heads side by side. */
void sp_kv_put(struct sp_kv *kv, const struct sp_vector *vector, size_t pos, size_t n,
               const float *k, const float *v, size_t ld);

/* The same for one head; k, v: its [n][ld]. Heads may be stored at the same time. */
void sp_kv_put_head(struct sp_kv *kv, const struct sp_vector *vector, size_t head, size_t pos,
                    size_t n, const float *k, const float *v, size_t ld);

/* The key block and the value block that hold position `pos` of a head (lane pos % SP_KV_BLOCK).
 * What follows, to the end of the span, is the same head's next positions. */
static inline size_t sp_kv_block(const struct sp_kv *kv, size_t head, size_t pos)
{
    size_t slot = pos % kv->n_slots, per_span = SP_SPAN / SP_KV_BLOCK;

    return (slot / SP_SPAN * kv->n_heads + head) * per_span + slot % SP_SPAN / SP_KV_BLOCK;
}

static inline uint8_t *sp_kv_keys(const struct sp_kv *kv, size_t head, size_t pos)
{
    return kv->keys + sp_kv_block(kv, head, pos) * kv->key_block_size;
}

static inline uint8_t *sp_kv_values(const struct sp_kv *kv, size_t head, size_t pos)
{
    return kv->values + sp_kv_block(kv, head, pos) * kv->value_block_size;
}

/* What positions 0..len-1 left, of these what is still there. Read: into a store of the same type
 * and heads, which are not checked; SP_E_INPUT where slots lie elsewhere. */
SP_MUST_CHECK enum sp_status sp_kv_state(struct sp_kv *kv, struct sp_state *state, size_t len,
                                         struct sp_err *err);

/* Digest of positions first..last-1 as stored (test mode: equality of caches). */
uint64_t sp_kv_digest(const struct sp_kv *kv, size_t first, size_t last);

#endif
