/* The specification of struct sp_vector: every function as the plain loop that vector.h describes.
 * The tables for instruction sets give identical bits; tests/test_vector.c holds them against this
 * one. Baseline C without libm, fmaf and sqrtf apart, which IEEE 754 defines to the bit. */
#include "runtime/fmath.h"
#include "runtime/vector_tables.h"

#include <assert.h>

enum { SUMS = 16 };

/* 16 -> 8 -> 4 -> 2 -> 1: s[j] + s[j + half]. */
static float tree_sum(float s[SUMS])
{
    for (size_t half = SUMS / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++)
            s[j] += s[j + half];
    }
    return s[0];
}

static float dot(const float *a, const float *b, size_t n)
{
    float s[SUMS] = {0};

    for (size_t i = 0; i < n; i++)
        s[i % SUMS] = fmaf(a[i], b[i], s[i % SUMS]);
    return tree_sum(s);
}

/* ---- rows -------------------------------------------------------------------------------------
 */

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float r = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);

    for (size_t i = 0; i < n; i++)
        y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void scale(float *y, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= factor;
}

static void fma_row(float *y, const float *x, float f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(x[i], f, y[i]);
}

static void mul(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void silu_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_siluf(y[i]) * up[i];
}

static void gelu_tanh_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_gelu_tanhf(y[i]) * up[i];
}

static void gelu_erf_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_gelu_erff(y[i]) * up[i];
}

static void silu(float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_siluf(y[i]);
}

static void mul_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a[i], b[i], y[i]);
}

static void softcap(float *y, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = cap * sp_tanhf(y[i] / cap);
}

static void sigmoid_mul(float *y, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= sp_sigmoidf(gate[i]);
}

static void swiglu_clamped(float *y, const float *up, float limit, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_swiglu_clampedf(y[i], up[i], limit);
}

static void l2_norm(float *y, const float *x, size_t n, float eps, float factor)
{
    float r = factor / sqrtf(dot(x, x, n) + eps);

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r;
}

static void rope(float *head, const float *cos, const float *sin, size_t n_rot)
{
    size_t half = n_rot / 2;

    for (size_t i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];
        head[i] = fmaf(a, cos[i], -(b * sin[i]));
        head[i + half] = fmaf(b, cos[i], a * sin[i]);
    }
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        for (size_t i = 0; i < dk; i++)
            s[i] *= decay;
        delta[j] = (v[j] - dot(s, k, dk)) * beta;
        for (size_t i = 0; i < dk; i++)
            s[i] = fmaf(delta[j], k[i], s[i]);
        out[j] = dot(s, q, dk);
    }
}

static void delta_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        for (size_t i = 0; i < dk; i++)
            s[i] = fmaf(delta[j], k[i], s[i] * decay);
    }
}

static size_t argmax(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(x[i]) < INFINITY)) return SIZE_MAX;
        if (x[i] > x[best]) best = i;
    }
    return n ? best : SIZE_MAX;
}

/* ---- stored numbers ---------------------------------------------------------------------------
 */

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

/* IEEE half to float; exact. */
static float get_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;

    if (magnitude > 0x7c00) return sp_float_of_bits(sign | 0x7fc00000 | magnitude << 13);
    if (magnitude == 0x7c00) return sp_float_of_bits(sign | 0x7f800000);
    /* Placing the bits 13 higher scales by 2^-112; denormals come out right as well. */
    float f = sp_float_of_bits(magnitude << 13) * 0x1p112f;
    return sp_float_of_bits(sp_bits_of_float(f) | sign);
}

/* Float to IEEE half, ties to even, infinity from 65520 on. */
static void put_f16(uint8_t *p, float f)
{
    uint32_t bits = sp_bits_of_float(f), magnitude = bits & 0x7fffffff, h;

    if (magnitude > 0x7f800000) {
        h = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x477ff000) {
        h = 0x7c00;
    } else if (magnitude >= 0x38800000) {
        h = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    } else {
        /* Denormal: adding 1/2 leaves multiples of 2^-24, rounded by the addition. */
        h = sp_bits_of_float(sp_float_of_bits(magnitude) + 0.5f) - 0x3f000000;
    }
    uint16_t out = (uint16_t)(h | (bits >> 16 & 0x8000));
    memcpy(p, &out, sizeof out);
}

/* One group of q8: m = max |x|, scale = m / 127, code = round-to-even(x * (127 / m)). Comparing the
 * bits of |x| lets a NaN win, so that it reaches the scale; limits are placed so that a NaN product
 * gives 127. */
static float quantize_group(int8_t *codes, const float *x)
{
    uint32_t m = 0;

    for (size_t i = 0; i < SP_KV_GROUP; i++) {
        uint32_t a = sp_bits_of_float(x[i]) & 0x7fffffff;
        if (a > m) m = a;
    }
    float max = sp_float_of_bits(m);
    float inverse = m == 0 ? 0.0f : 127.0f / max;
    for (size_t i = 0; i < SP_KV_GROUP; i++) {
        float v = x[i] * inverse;
        v = v < 127.0f ? v : 127.0f;
        v = v > -127.0f ? v : -127.0f;
        int32_t code = (int32_t)sp_bits_of_float(v + SP_EXP_ROUND) - (int32_t)SP_EXP_ROUND_BITS;
        codes[i] = (int8_t)code;
    }
    return max / 127.0f;
}

static void store_key_f32(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f32(block + 4 * (d * SP_KEY_BLOCK + lane), k[d]);
}

static void store_key_f16(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f16(block + 2 * (d * SP_KEY_BLOCK + lane), k[d]);
}

static void store_key_q8(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    uint8_t *scales = block + head_dim * SP_KEY_BLOCK;

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        int8_t codes[SP_KV_GROUP];
        float s = quantize_group(codes, k + g * SP_KV_GROUP);
        put_f32(scales + 4 * (g * SP_KEY_BLOCK + lane), s);
        for (size_t i = 0; i < SP_KV_GROUP; i++) {
            size_t d = g * SP_KV_GROUP + i;
            block[(d / 4 * SP_KEY_BLOCK + lane) * 4 + d % 4] = (uint8_t)(codes[i] + 128);
        }
    }
}

static void store_value_f32(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f32(row + 4 * d, v[d]);
}

static void store_value_f16(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        put_f16(row + 2 * d, v[d]);
}

static void store_value_q8(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        int8_t codes[SP_KV_GROUP];
        float s = quantize_group(codes, v + g * SP_KV_GROUP);
        memcpy(row + g * SP_KV_GROUP, codes, sizeof codes);
        put_f32(row + head_dim + 4 * g, s);
    }
}

/* ---- attention --------------------------------------------------------------------------------
 */

typedef float read_fn(const uint8_t *p);

static void scores_float(float *scores, size_t ld_scores, const float *q, size_t ldq,
                         size_t n_queries, const uint8_t *blocks, size_t n_blocks, size_t head_dim,
                         float factor, enum sp_kv_type type, read_fn *read, size_t width)
{
    size_t block_size = sp_key_block_size(type, head_dim);

    for (size_t i = 0; i < n_queries; i++) {
        for (size_t j = 0; j < n_blocks * SP_KEY_BLOCK; j++) {
            const uint8_t *key = blocks + j / SP_KEY_BLOCK * block_size + j % SP_KEY_BLOCK * width;
            float acc = 0;
            for (size_t d = 0; d < head_dim; d++) {
                acc = fmaf(q[i * ldq + d], read(key + d * SP_KEY_BLOCK * width), acc);
            }
            scores[i * ld_scores + j] = acc * factor;
        }
    }
}

static void scores_f32(float *scores, size_t ld_scores, const float *q, size_t ldq,
                       size_t n_queries, const uint8_t *key_blocks, size_t n_blocks,
                       size_t head_dim, float factor)
{
    scores_float(scores, ld_scores, q, ldq, n_queries, key_blocks, n_blocks, head_dim, factor,
                 SP_KV_F32, get_f32, sizeof(float));
}

static void scores_f16(float *scores, size_t ld_scores, const float *q, size_t ldq,
                       size_t n_queries, const uint8_t *key_blocks, size_t n_blocks,
                       size_t head_dim, float factor)
{
    scores_float(scores, ld_scores, q, ldq, n_queries, key_blocks, n_blocks, head_dim, factor,
                 SP_KV_F16, get_f16, sizeof(uint16_t));
}

/* One quantized query against key `lane` of a block. */
static float dot_q8(const int8_t *codes, const float *q_scales, const uint8_t *block, size_t lane,
                    size_t head_dim)
{
    float acc = 0;

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        int32_t sum = 0;
        for (size_t d = g * SP_KV_GROUP; d < (g + 1) * SP_KV_GROUP; d++) {
            sum += codes[d] * (block[(d / 4 * SP_KEY_BLOCK + lane) * 4 + d % 4] - 128);
        }
        float k_scale = get_f32(block + (head_dim + 4 * g) * SP_KEY_BLOCK + 4 * lane);
        acc = fmaf((float)sum, k_scale * q_scales[g], acc);
    }
    return acc;
}

static void scores_q8(float *scores, size_t ld_scores, const float *q, size_t ldq, size_t n_queries,
                      const uint8_t *key_blocks, size_t n_blocks, size_t head_dim, float factor)
{
    size_t block_size = sp_key_block_size(SP_KV_Q8, head_dim);
    int8_t codes[SP_MAX_HEAD_DIM];
    float q_scales[SP_MAX_HEAD_DIM / SP_KV_GROUP];

    assert(head_dim <= SP_MAX_HEAD_DIM);
    for (size_t i = 0; i < n_queries; i++) {
        for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
            size_t d = g * SP_KV_GROUP;
            q_scales[g] = quantize_group(codes + d, q + i * ldq + d);
        }
        for (size_t j = 0; j < n_blocks * SP_KEY_BLOCK; j++) {
            const uint8_t *block = key_blocks + j / SP_KEY_BLOCK * block_size;
            float acc = dot_q8(codes, q_scales, block, j % SP_KEY_BLOCK, head_dim);
            scores[i * ld_scores + j] = acc * factor;
        }
    }
}

static void softmax(float *s, size_t first, size_t last, float *max, float *sum)
{
    float sums[SUMS] = {0};
    float m = -INFINITY;

    for (size_t i = first; i < last; i++)
        m = s[i] > m ? s[i] : m;
    m += 0.0f; /* a maximum of -0 becomes +0, whichever zero came first */
    for (size_t i = first; i < last; i++) {
        s[i] = sp_expf(s[i] - m);
        sums[i % SUMS] += s[i];
    }
    *max = m;
    *sum = tree_sum(sums);
}

static void weigh_float(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                        const size_t *last, size_t n_queries, const uint8_t *values,
                        size_t head_dim, read_fn *read, size_t width)
{
    for (size_t i = 0; i < n_queries; i++) {
        for (size_t d = 0; d < head_dim; d++) {
            float acc = 0;
            for (size_t j = first[i]; j < last[i]; j++) {
                acc = fmaf(p[i * ldp + j], read(values + (j * head_dim + d) * width), acc);
            }
            out[i * ld_out + d] = acc;
        }
    }
}

static void weigh_f32(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                      const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    weigh_float(out, ld_out, p, ldp, first, last, n_queries, values, head_dim, get_f32,
                sizeof(float));
}

static void weigh_f16(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                      const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    weigh_float(out, ld_out, p, ldp, first, last, n_queries, values, head_dim, get_f16,
                sizeof(uint16_t));
}

static void weigh_q8(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                     const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    size_t row_size = sp_value_row_size(SP_KV_Q8, head_dim);

    for (size_t i = 0; i < n_queries; i++) {
        for (size_t d = 0; d < head_dim; d++) {
            float acc = 0;
            for (size_t j = first[i]; j < last[i]; j++) {
                const uint8_t *row = values + j * row_size;
                float v_scale = get_f32(row + head_dim + d / SP_KV_GROUP * 4);
                acc = fmaf(p[i * ldp + j] * v_scale, (float)(int8_t)row[d], acc);
            }
            out[i * ld_out + d] = acc;
        }
    }
}

const struct sp_vector sp_vector_ref = {
    .name = "scalar",
    .rms_norm = rms_norm,
    .add = add,
    .scale = scale,
    .fma = fma_row,
    .mul = mul,
    .silu_mul = silu_mul,
    .gelu_tanh_mul = gelu_tanh_mul,
    .gelu_erf_mul = gelu_erf_mul,
    .silu = silu,
    .mul_add = mul_add,
    .softcap = softcap,
    .sigmoid_mul = sigmoid_mul,
    .swiglu_clamped = swiglu_clamped,
    .l2_norm = l2_norm,
    .rope = rope,
    .store_key = {store_key_f32, store_key_f16, store_key_q8},
    .store_value = {store_value_f32, store_value_f16, store_value_q8},
    .scores = {scores_f32, scores_f16, scores_q8},
    .softmax = softmax,
    .weigh = {weigh_f32, weigh_f16, weigh_q8},
    .delta_step = delta_step,
    .delta_replay = delta_replay,
    .argmax = argmax,
};
