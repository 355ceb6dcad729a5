/* Keys and values of one attention layer, stored by position.
 *
 * A cache stores no length: position p is in slot p % n_slots until p + n_slots is written. The
 * owner keeps the length; a rollback shortens it, and later positions are overwritten. A full layer
 * has a slot for every position of the context. A layer with a window of W keys has W + (most rows
 * of one pass) slots, rounded up, so that a rejected draft never evicts a key that the accepted
 * prefix still needs. n_slots is a multiple of SP_SPAN, so a span never wraps. The heads of a span
 * are contiguous, so the first slots of all heads lie in front: address space is reserved for all
 * slots, and memory for as many as the sequence has needed so far. */
#ifndef SP_RUNTIME_BACKEND_KV_H
#define SP_RUNTIME_BACKEND_KV_H

#include "format/base/region.h"
#include "runtime/backend/cache_file.h"
#include "runtime/vector/vector.h"

struct sp_remote;

struct sp_kv {
    enum sp_cache_type type;
    unsigned n_heads, head_dim, value_dim; /* head_dim: of a key; value_dim: of a value */
    size_t n_slots;
    size_t stride;  /* tokens of a position: 1, or more of a cache whose keys are made of several */
    bool is_window; /* later positions take the slots of earlier ones */
    size_t key_block_size, value_block_size;
    uint8_t *keys;               /* [n_slots / 256][n_heads][256 / 16] key blocks, in a region */
    uint8_t *values;             /* [n_slots / 256][n_heads][256 / 16] value blocks, in a region */
    size_t n_ready;              /* slots 0..n_ready-1 have memory */
    struct sp_region regions[2]; /* of keys and values */
    struct sp_remote *remote; /* has the other heads of the layer; borrowed; NULL: there are none */
    uint64_t number;          /* of the cache, for `remote` */
    unsigned n_all_heads,
        n_heads_here; /* n_heads, and those of others; of these, on this machine */
};

/* Sizes of a position: a head has a key of head_dim and a value of value_dim dims (0: head_dim). */
struct sp_kv_shape {
    unsigned n_heads, head_dim, value_dim;
};

/* Reserves n_positions slots or, with a window, min(n_positions, window + max_rows); rounded up to
 * SP_SPAN. None has memory yet. */
SP_MUST_CHECK enum sp_status sp_kv_init(struct sp_kv *kv, enum sp_cache_type type,
                                        struct sp_kv_shape shape, size_t n_positions, size_t window,
                                        size_t max_rows, struct sp_err *err);
void sp_kv_release(struct sp_kv *kv);

struct sp_kv_options {
    enum sp_cache_type type;
    struct sp_kv_shape shape;
    unsigned n_query_heads; /* of the layer; a multiple of shape.n_heads */
    size_t n_inputs;        /* columns of the rows that the layer's heads are made of */
    size_t n_positions, window, max_rows;
};

/* As sp_kv_init. remote: processes that may take a part of the heads; NULL: none. The functions
 * below act on the heads of all processes; SP_E_IO: one is lost. */
SP_MUST_CHECK enum sp_status sp_kv_open(struct sp_kv *kv, struct sp_remote *remote,
                                        const struct sp_kv_options *options, struct sp_err *err);

/* The bytes of the slots that a sequence of n tokens uses; all slots if n is SIZE_MAX. */
size_t sp_kv_size(const struct sp_kv *kv, size_t n);
/* The same, of the heads that all processes have on this machine. */
size_t sp_kv_size_here(const struct sp_kv *kv, size_t n);
/* Gives memory to the slots that a sequence of n tokens uses; none is stored without memory. */
SP_MUST_CHECK enum sp_status sp_kv_grow(struct sp_kv *kv, size_t n, struct sp_err *err);
/* Returns the memory of the slots that a sequence of n tokens does not use. */
void sp_kv_shrink(struct sp_kv *kv, size_t n);

/* Stores n rows of one head at positions pos..pos+n-1; k, v: [n][ld] from the head's first dim on.
 * [heads concurrently] */
void sp_kv_put_head(struct sp_kv *kv, const struct sp_vector *vector, size_t head, size_t pos,
                    size_t n, const float *k, const float *v, size_t ld);

/* Copies the key and value of a head at one position; both caches have the same type and shape. */
void sp_kv_copy(struct sp_kv *to, size_t to_pos, const struct sp_kv *from, size_t from_pos,
                size_t head);

/* Index of the block that contains position `pos` of a head, in lane pos % SP_KV_BLOCK. The
 * following blocks, to the end of the span, contain the next positions of the same head. */
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

/* Number i of the key, or of the value, that head 0 has at a position; not of 8-bit caches. */
float sp_kv_number(const struct sp_kv *kv, size_t pos, bool is_value, size_t i);

/* The keys, or the values, of all heads in one span: *size bytes; NULL of none. */
uint8_t *sp_kv_span(const struct sp_kv *kv, size_t span, bool is_value, size_t *size);

/* Writes or reads the positions of one span of tokens, from span * SP_SPAN on, which have memory.
 * With a stride, positions around them may come along. Reading requires a cache of the same type
 * and shape, which is not checked. */
SP_MUST_CHECK enum sp_status sp_kv_transfer(struct sp_kv *kv, struct sp_cache_file *file,
                                            size_t span, struct sp_err *err);

#endif
