/* The specification of struct sp_vector_kv: the layout of stored keys and values, and the products
 * of attention over them, as the plain loops that vector.h describes. */
#include "quantize/types/float_cast.h"
#include "runtime/vector/fmath.h"
#include "runtime/vector/rotation.h"
#include "runtime/vector/vector_tables.h"

#include <assert.h>

/* ---- stored numbers ---- */

static float get_f32(const uint8_t *p)
{
    float f;

    memcpy(&f, p, sizeof f);
    return f;
}

static void put_f32(uint8_t *p, float f)
{
    memcpy(p, &f, sizeof f);
}

static float get_f16(const uint8_t *p)
{
    return sp_f32_of_f16(sp_get16(p));
}

static void put_f16(uint8_t *p, float f)
{
    sp_put16(p, sp_f16_of_f32(f));
}

/* Rounds to the nearest integer, ties to even; |f| < 2^22. */
static int32_t round_even(float f)
{
    return (int32_t)sp_bits_of_float(f + SP_EXP_ROUND) - (int32_t)SP_EXP_ROUND_BITS;
}

/* Computes the codes of n numbers, -limit to limit; returns their scale. Magnitudes are compared as
 * bits, so that a NaN is the largest and reaches the scale, always as the same NaN; the limits are
 * written so that a NaN product gives the limit. */
static float quantize(int8_t *codes, const float *x, size_t n, float limit)
{
    uint32_t m = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t a = sp_bits_of_float(x[i]) & 0x7fffffff;
        if (a > m) m = a;
    }
    float max = sp_float_of_bits(m > SP_INFINITY_BITS ? SP_NAN_BITS : m);
    float inverse = m == 0 ? 0.0f : limit / max;
    for (size_t i = 0; i < n; i++) {
        float v = x[i] * inverse;
        v = v < limit ? v : limit;
        v = v > -limit ? v : -limit;
        codes[i] = (int8_t)round_even(v);
    }
    return max / limit;
}

/* Sets the lower or upper half of a byte to a code + 8. */
static void put_half(uint8_t *byte, bool upper, int code)
{
    unsigned half = (unsigned)(code + 8);

    *byte = (uint8_t)(upper ? (*byte & 0x0f) | half << 4 : (*byte & 0xf0) | half);
}

static int half_of(uint8_t byte, bool upper)
{
    return (upper ? byte >> 4 : byte & 0x0f) - 8;
}

static void store_key_f32(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f32(block + 4 * (d * SP_KV_BLOCK + lane), k[d]);
}

static void store_key_f16(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f16(block + 2 * (d * SP_KV_BLOCK + lane), k[d]);
}

/* Offset of the code of dim d of key `lane`; of q4, the byte of dims d and d + 16 of a group. */
static size_t key_code_at(size_t lane, size_t d, enum sp_cache_type type)
{
    if (type == SP_CACHE_Q4) d = d / SP_KV_GROUP * SP_KV_GROUP / 2 + d % (SP_KV_GROUP / 2);
    return (d / 4 * SP_KV_BLOCK + lane) * 4 + d % 4;
}

static bool is_upper(size_t d)
{
    return d % SP_KV_GROUP >= SP_KV_GROUP / 2;
}

/* Offset of the scale of group g. */
static size_t key_scale_at(size_t lane, size_t g, size_t head_dim, enum sp_cache_type type)
{
    return ((type == SP_CACHE_Q4 ? head_dim / 2 : head_dim) + 4 * g) * SP_KV_BLOCK + 4 * lane;
}

static void store_key_codes(uint8_t *block, size_t lane, const float *k, size_t head_dim,
                            enum sp_cache_type type)
{
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        float rotated[SP_KV_GROUP];
        int8_t codes[SP_KV_GROUP];
        sp_rotate_group(rotated, k + g * SP_KV_GROUP);
        float s = quantize(codes, rotated, SP_KV_GROUP, type == SP_CACHE_Q4 ? 7 : 127);
        put_f32(block + key_scale_at(lane, g, head_dim, type), s);
        for (size_t i = 0; i < SP_KV_GROUP; i++) {
            uint8_t *byte = block + key_code_at(lane, g * SP_KV_GROUP + i, type);
            if (type == SP_CACHE_Q4)
                put_half(byte, is_upper(i), codes[i]);
            else
                *byte = (uint8_t)(codes[i] + 128);
        }
    }
}

static void store_key_q8(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    store_key_codes(block, lane, k, head_dim, SP_CACHE_Q8);
}

static void store_key_q4(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    store_key_codes(block, lane, k, head_dim, SP_CACHE_Q4);
}

static void store_value_f32(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f32(block + 4 * (lane * head_dim + d), v[d]);
}

static void store_value_f16(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f16(block + 2 * (lane * head_dim + d), v[d]);
}

/* Offset of the code of dim d at position `lane`. */
static size_t value_code_at(size_t head_dim, size_t lane, size_t d)
{
    return SP_KV_BLOCK * sizeof(float) + (lane / 4 * head_dim + d) * 4 + lane % 4;
}

static void store_value_q8(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    int8_t codes[SP_MAX_HEAD_DIM];

    assert(head_dim <= SP_MAX_HEAD_DIM);
    put_f32(block + 4 * lane, quantize(codes, v, head_dim, 127));
    for (size_t d = 0; d < head_dim; d++)
        memcpy(block + value_code_at(head_dim, lane, d), codes + d, 1);
}

static void store_value_q4(uint8_t *block, size_t lane, const float *v, size_t head_dim)
{
    float rotated[SP_MAX_HEAD_DIM] = {0};
    int8_t codes[SP_MAX_HEAD_DIM];

    assert(head_dim <= SP_MAX_HEAD_DIM);
    sp_rotate_groups(rotated, v, head_dim);
    put_f32(block + 4 * lane, quantize(codes, rotated, head_dim, 7));
    for (size_t d = 0; d < head_dim; d++)
        put_half(block + value_code_at(head_dim, lane % 8, d), lane >= 8, codes[d]);
}

/* ---- queries ---- */

static void prepare_floats(uint8_t *query, const float *q, size_t head_dim)
{
    memcpy(query, q, head_dim * sizeof *q);
}

/* Prepares a query as [head_dim] codes, then a scale for each group. */
static void prepare_codes(uint8_t *query, const float *q, size_t head_dim)
{
    float rotated[SP_KV_GROUP];
    int8_t codes[SP_KV_GROUP];

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        sp_rotate_group(rotated, q + g * SP_KV_GROUP);
        float s = quantize(codes, rotated, SP_KV_GROUP, 127);
        put_f32(query + head_dim + 4 * g, s * SP_ROTATION_FACTOR);
        memcpy(query + g * SP_KV_GROUP, codes, sizeof codes);
    }
}

/* ---- attention ---- */

/* A stored number of f16 or f32, of 2 or 4 bytes. */
static float get_number(const uint8_t *p, size_t width)
{
    return width == 2 ? get_f16(p) : get_f32(p);
}

static void scores_of_floats(const struct sp_kv_rows *a)
{
    size_t block_size = sp_key_block_size(a->type, a->head_dim);
    size_t width = sp_cache_bits[a->type].key / 8;

    for (size_t i = 0; i < a->n_queries; i++) {
        const uint8_t *q = a->queries + i * sp_query_size(a->head_dim);
        for (size_t j = 0; j < a->n_blocks * SP_KV_BLOCK; j++) {
            const uint8_t *key = a->blocks + j / SP_KV_BLOCK * block_size + j % SP_KV_BLOCK * width;
            float acc = 0;
            for (size_t d = 0; d < a->head_dim; d++)
                acc =
                    fmaf(get_f32(q + 4 * d), get_number(key + d * SP_KV_BLOCK * width, width), acc);
            a->out[i * a->ld_out + j] = acc * a->scale;
        }
    }
}

SP_KV_FUNCTION(scores_f32, scores_of_floats, SP_CACHE_F32)
SP_KV_FUNCTION(scores_f16, scores_of_floats, SP_CACHE_F16)

/* The dot product of a prepared query and key `lane` of a block. */
static float dot_codes(const uint8_t *query, const uint8_t *block, size_t lane, size_t head_dim,
                       enum sp_cache_type type)
{
    float acc = 0;

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        int32_t sum = 0;
        for (size_t d = g * SP_KV_GROUP; d < (g + 1) * SP_KV_GROUP; d++) {
            uint8_t byte = block[key_code_at(lane, d, type)];
            sum +=
                (int8_t)query[d] * (type == SP_CACHE_Q4 ? half_of(byte, is_upper(d)) : byte - 128);
        }
        float k_scale = get_f32(block + key_scale_at(lane, g, head_dim, type));
        acc = fmaf((float)sum, k_scale * get_f32(query + head_dim + 4 * g), acc);
    }
    return acc;
}

static void scores_of_codes(const struct sp_kv_rows *a)
{
    size_t block_size = sp_key_block_size(a->type, a->head_dim);

    for (size_t i = 0; i < a->n_queries; i++) {
        const uint8_t *query = a->queries + i * sp_query_size(a->head_dim);
        for (size_t j = 0; j < a->n_blocks * SP_KV_BLOCK; j++) {
            const uint8_t *block = a->blocks + j / SP_KV_BLOCK * block_size;
            float dot = dot_codes(query, block, j % SP_KV_BLOCK, a->head_dim, a->type);
            a->out[i * a->ld_out + j] = dot * a->scale;
        }
    }
}

SP_KV_FUNCTION(scores_q8, scores_of_codes, SP_CACHE_Q8)
SP_KV_FUNCTION(scores_q4, scores_of_codes, SP_CACHE_Q4)

static void weigh_floats(const struct sp_kv_rows *a)
{
    size_t width = sp_cache_bits[a->type].value / 8;

    for (size_t i = 0; i < a->n_queries; i++) {
        for (size_t d = 0; d < a->head_dim; d++) {
            float acc = 0;
            for (size_t j = a->first[i]; j < a->last[i]; j++)
                acc = fmaf(a->p[i * a->ldp + j],
                           get_number(a->blocks + (j * a->head_dim + d) * width, width), acc);
            a->out[i * a->ld_out + d] = acc;
        }
    }
}

SP_KV_FUNCTION(weigh_f32, weigh_floats, SP_CACHE_F32)
SP_KV_FUNCTION(weigh_f16, weigh_floats, SP_CACHE_F16)

static int value_code(const uint8_t *block, size_t head_dim, size_t lane, size_t d,
                      enum sp_cache_type type)
{
    if (type == SP_CACHE_Q8) return (int8_t)block[value_code_at(head_dim, lane, d)];
    return half_of(block[value_code_at(head_dim, lane % 8, d)], lane >= 8);
}

/* Computes the integers of one query's weights; returns the factor of their sums. */
static float quantize_weights(int32_t *codes, const float *p, size_t first, size_t last,
                              const uint8_t *blocks, size_t block_size)
{
    float w[SP_SPAN];
    uint32_t m = 0;

    for (size_t j = first; j < last; j++) {
        w[j] = p[j] * get_f32(blocks + j / SP_KV_BLOCK * block_size + j % SP_KV_BLOCK * 4);
        uint32_t a = sp_bits_of_float(w[j]) & 0x7fffffff;
        if (a > m) m = a;
    }
    float max = sp_float_of_bits(m), inverse = max < 0x1p-100f ? 0.0f : 32767.0f / max;
    for (size_t j = first; j < last; j++) {
        float v = w[j] * inverse;
        codes[j] = round_even(v < 32767.0f ? v : 32767.0f);
    }
    return max / 32767.0f;
}

static void weigh_codes(const struct sp_kv_rows *a)
{
    size_t block_size = sp_value_block_size(a->type, a->head_dim);
    int32_t codes[SP_SPAN];

    for (size_t i = 0; i < a->n_queries; i++) {
        size_t first = a->first[i], last = a->last[i];
        assert(last <= SP_SPAN);
        float s = quantize_weights(codes, a->p + i * a->ldp, first, last, a->blocks, block_size);
        for (size_t d = 0; d < a->head_dim; d++) {
            int32_t sum = 0;
            for (size_t j = first; j < last; j++) {
                const uint8_t *block = a->blocks + j / SP_KV_BLOCK * block_size;
                sum += codes[j] * value_code(block, a->head_dim, j % SP_KV_BLOCK, d, a->type);
            }
            a->out[i * a->ld_out + d] = (float)sum * s;
        }
    }
}

SP_KV_FUNCTION(weigh_q8, weigh_codes, SP_CACHE_Q8)
SP_KV_FUNCTION(weigh_q4, weigh_codes, SP_CACHE_Q4)

const struct sp_vector_kv sp_kv_ref[SP_N_CACHE_TYPES] = SP_KV_TABLES;
