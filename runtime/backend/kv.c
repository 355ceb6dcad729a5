#include "runtime/backend/kv.h"

#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "quantize/types/float_cast.h"
#include "runtime/backend/remote.h"

#include <assert.h>
#include <string.h>

/* Slots of a cache as kv.h defines them; false on overflow. */
static bool count_slots(size_t *out, size_t n_positions, size_t window, size_t max_rows)
{
    size_t n = n_positions, n_window, rounded;

    if (window && sp_add(&n_window, window, max_rows) && n_window < n) n = n_window;
    if (!sp_add(&rounded, n, SP_SPAN - 1)) return false;
    *out = n ? rounded / SP_SPAN * SP_SPAN : SP_SPAN;
    return true;
}

static enum sp_status check_dim(enum sp_cache_type type, unsigned dim, struct sp_err *err)
{
    static const char *const names[SP_N_CACHE_TYPES] = {SP_CACHE_TYPE_NAMES};

    if ((unsigned)type >= SP_N_CACHE_TYPES)
        return sp_fail(err, SP_E_USAGE, "cache type %u does not exist", (unsigned)type);
    if (dim == 0 || dim > SP_MAX_HEAD_DIM) {
        return sp_fail(err, SP_E_UNSUPPORTED, "heads of %u dims: caches hold 1 to %d", dim,
                       SP_MAX_HEAD_DIM);
    }
    if (sp_cache_bits[type].value < 16 && dim % SP_KV_GROUP) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s cache: heads of %u dims are not a multiple of %d; use f16 or f32",
                       names[type], dim, SP_KV_GROUP);
    }
    return SP_OK;
}

enum sp_status sp_kv_init(struct sp_kv *kv, enum sp_cache_type type, struct sp_kv_shape shape,
                          size_t n_positions, size_t window, size_t max_rows, struct sp_err *err)
{
    unsigned n_heads = shape.n_heads, value_dim = shape.value_dim;
    struct sp_kv new = {.type = type,
                        .n_heads = n_heads,
                        .head_dim = shape.head_dim,
                        .stride = 1,
                        .is_window = window != 0,
                        .n_all_heads = n_heads,
                        .n_heads_here = n_heads};
    enum sp_status st;
    size_t n, key_bytes, value_bytes;

    new.value_dim = value_dim ? value_dim : shape.head_dim;
    if ((st = check_dim(type, new.head_dim, err))) return st;
    if ((st = check_dim(type, new.value_dim, err))) return st;
    new.key_block_size = sp_key_block_size(type, new.head_dim);
    new.value_block_size = sp_value_block_size(type, new.value_dim);
    if (!count_slots(&new.n_slots, n_positions, window, max_rows) ||
        !sp_mul(&n, new.n_slots / SP_KV_BLOCK, n_heads) ||
        !sp_mul(&key_bytes, n, new.key_block_size) ||
        !sp_mul(&value_bytes, n, new.value_block_size))
        return sp_fail(err, SP_E_NOMEM, "out of memory: a cache of %zu positions", n_positions);
    if ((st = sp_region_open(&new.regions[0], key_bytes, err))) goto done;
    if ((st = sp_region_open(&new.regions[1], value_bytes, err))) goto done;
    new.keys = new.regions[0].at;
    new.values = new.regions[1].at;
    *kv = new;
    new = (struct sp_kv){0};
done:
    sp_kv_release(&new);
    return st;
}

enum sp_status sp_kv_open(struct sp_kv *kv, struct sp_remote *remote, const struct sp_kv_options *o,
                          struct sp_err *err)
{
    if (remote) return remote->ops->open_cache(remote, kv, o, err);
    return sp_kv_init(kv, o->type, o->shape, o->n_positions, o->window, o->max_rows, err);
}

static enum sp_status change_remote(const struct sp_kv *kv, enum sp_cache_change change, size_t n,
                                    struct sp_err *err)
{
    return kv->remote ? kv->remote->ops->change_cache(kv, change, n, err) : SP_OK;
}

void sp_kv_release(struct sp_kv *kv)
{
    (void)change_remote(kv, SP_CACHE_CLOSES, 0, NULL);
    sp_region_close(&kv->regions[0]);
    sp_region_close(&kv->regions[1]);
    *kv = (struct sp_kv){0};
}

/* The slots that n positions use, rounded up to SP_SPAN. */
static size_t slots_of(const struct sp_kv *kv, size_t n)
{
    return n < kv->n_slots ? sp_round_up(n, SP_SPAN) : kv->n_slots;
}

/* The same of a sequence of n tokens. */
static size_t used_slots(const struct sp_kv *kv, size_t n)
{
    return slots_of(kv, n / kv->stride + (n % kv->stride != 0));
}

size_t sp_kv_size(const struct sp_kv *kv, size_t n)
{
    return used_slots(kv, n) / SP_KV_BLOCK * (kv->key_block_size + kv->value_block_size) *
           kv->n_heads;
}

size_t sp_kv_size_here(const struct sp_kv *kv, size_t n)
{
    return kv->n_heads ? sp_kv_size(kv, n) / kv->n_heads * kv->n_heads_here : 0;
}

enum sp_status sp_kv_grow(struct sp_kv *kv, size_t n, struct sp_err *err)
{
    size_t n_slots = used_slots(kv, n), n_blocks = n_slots / SP_KV_BLOCK * kv->n_heads;
    enum sp_status st;

    if (n_slots > kv->n_ready) {
        if ((st = sp_region_grow(&kv->regions[0], n_blocks * kv->key_block_size, err))) return st;
        if ((st = sp_region_grow(&kv->regions[1], n_blocks * kv->value_block_size, err))) return st;
        kv->n_ready = n_slots;
    }
    return change_remote(kv, SP_CACHE_GROWS, n, err);
}

void sp_kv_shrink(struct sp_kv *kv, size_t n)
{
    size_t n_slots = used_slots(kv, n), n_blocks = n_slots / SP_KV_BLOCK * kv->n_heads;

    if (n_slots < kv->n_ready) {
        sp_region_shrink(&kv->regions[0], n_blocks * kv->key_block_size);
        sp_region_shrink(&kv->regions[1], n_blocks * kv->value_block_size);
        kv->n_ready = n_slots;
    }
    (void)change_remote(kv, SP_CACHE_SHRINKS, n, NULL);
}

void sp_kv_put_head(struct sp_kv *kv, const struct sp_vector *vector, size_t head, size_t pos,
                    size_t n, const float *k, const float *v, size_t ld)
{
    const struct sp_vector_kv *type = &vector->kv[kv->type];

    assert(n <= kv->n_slots && slots_of(kv, pos + n) <= kv->n_ready);
    for (size_t t = 0; t < n; t++) {
        size_t lane = (pos + t) % SP_KV_BLOCK;
        type->store_key(sp_kv_keys(kv, head, pos + t), lane, k + t * ld, kv->head_dim);
        type->store_value(sp_kv_values(kv, head, pos + t), lane, v + t * ld, kv->value_dim);
    }
}

/* Copies lane `from_lane` of n rows of lanes of `width` bytes. */
static void copy_lane(uint8_t *to, size_t to_lane, const uint8_t *from, size_t from_lane, size_t n,
                      size_t width)
{
    for (size_t i = 0; i < n; i++, to += SP_KV_BLOCK * width, from += SP_KV_BLOCK * width)
        memcpy(to + to_lane * width, from + from_lane * width, width);
}

/* Copies the value codes of lane `from_lane`: bytes, or halves of bytes that two lanes share. */
static void copy_value_codes(uint8_t *to, size_t to_lane, const uint8_t *from, size_t from_lane,
                             size_t n, bool are_halves)
{
    const size_t n_rows = are_halves ? 2 : 4;
    const unsigned up = to_lane / 4 >= n_rows ? 4 : 0, down = from_lane / 4 >= n_rows ? 4 : 0;
    const unsigned mask = are_halves ? 0x0f : 0xff;

    to += to_lane / 4 % n_rows * 4 * n + to_lane % 4;
    from += from_lane / 4 % n_rows * 4 * n + from_lane % 4;
    for (size_t d = 0; d < n; d++)
        to[4 * d] = (uint8_t)((to[4 * d] & ~(mask << up)) | (from[4 * d] >> down & mask) << up);
}

void sp_kv_copy(struct sp_kv *to, size_t to_pos, const struct sp_kv *from, size_t from_pos,
                size_t head)
{
    size_t a = to_pos % SP_KV_BLOCK, b = from_pos % SP_KV_BLOCK;
    /* Bytes of a lane of a key block, of which the last rows may be padding, and rows of lanes. */
    size_t width = sp_cache_bits[from->type].key == 16 ? 2 : 4;
    size_t n = from->key_block_size / (SP_KV_BLOCK * width);
    size_t size = from->value_block_size / SP_KV_BLOCK;
    uint8_t *values = sp_kv_values(to, head, to_pos);
    const uint8_t *others = sp_kv_values(from, head, from_pos);

    assert(to->type == from->type && to->head_dim == from->head_dim &&
           to->value_dim == from->value_dim);
    copy_lane(sp_kv_keys(to, head, to_pos), a, sp_kv_keys(from, head, from_pos), b, n, width);
    if (sp_cache_bits[from->type].value >= 16) {
        memcpy(values + a * size, others + b * size, size);
        return;
    }
    memcpy(values + 4 * a, others + 4 * b, 4);
    copy_value_codes(values + 4 * SP_KV_BLOCK, a, others + 4 * SP_KV_BLOCK, b, to->value_dim,
                     sp_cache_bits[from->type].value == 4);
}

float sp_kv_number(const struct sp_kv *kv, size_t pos, bool is_value, size_t i)
{
    const uint8_t *block = is_value ? sp_kv_values(kv, 0, pos) : sp_kv_keys(kv, 0, pos);
    size_t lane = pos % SP_KV_BLOCK,
           at = is_value ? lane * kv->value_dim + i : i * SP_KV_BLOCK + lane;
    float x;

    if (kv->type == SP_CACHE_F16) return sp_f32_of_f16(sp_get16(block + 2 * at));
    memcpy(&x, block + 4 * at, sizeof x);
    return x;
}

uint8_t *sp_kv_span(const struct sp_kv *kv, size_t span, bool is_value, size_t *size)
{
    size_t block_size = is_value ? kv->value_block_size : kv->key_block_size;
    size_t n = SP_SPAN / SP_KV_BLOCK * kv->n_heads, first;

    *size = 0;
    if (n * block_size == 0) return NULL; /* heads of other ranks, or keys alone */
    first = span * n / kv->stride;
    n = ((span + 1) * n + kv->stride - 1) / kv->stride - first;
    assert((first + n) * SP_KV_BLOCK <= kv->n_ready * kv->n_heads);
    *size = n * block_size;
    return (is_value ? kv->values : kv->keys) + first * block_size;
}

enum sp_status sp_kv_transfer(struct sp_kv *kv, struct sp_cache_file *file, size_t span,
                              struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (kv->stride == 1) span %= kv->n_slots / SP_SPAN;
    if (kv->remote) return kv->remote->ops->transfer_cache(kv, file, span, err);
    for (int i = 0; i < 2 && !st; i++) {
        size_t size;
        uint8_t *bytes = sp_kv_span(kv, span, i == 1, &size);
        st = sp_cache_file_bytes(file, bytes, size, err);
    }
    return st;
}
