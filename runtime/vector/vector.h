/* The arithmetic of a decoder that is not a matrix product: norms, activations, rotations, and the
 * parts of attention. vector_ref.c and vector_each.h are the specification; every other table gives
 * identical bits for all lengths and alignments, and each row's result depends on that row alone.
 * Reductions along a vector use 16 running sums (element i goes to sum i % 16, in ascending i,
 * fused multiply-add), added as a fixed tree: 16 -> 8 (s[j] + s[j+8]) -> 4 -> 2 -> 1. exp, tanh and
 * related functions are those of runtime/vector/fmath.h, evaluated lane by lane. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_H
#define SP_RUNTIME_VECTOR_VECTOR_H

#include "format/base/err.h"
#include "format/config/config.h"
#include "runtime/spectool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SP_N_CACHE_TYPES = SP_CACHE_AUTO };

/* Caches consist of blocks of 16 positions.
 *
 * Keys, one lane per position, dims ascending: f32, f16: [head_dim][16]. q8: [head_dim / 4][16][4]
 * u8 (code + 128), then [head_dim / 32][16] f32 scales, one for each 32 dims of a key.
 *
 * Values: f32, f16: a row for each position, [16][head_dim]. q8: [16] f32 scales, one for each
 * position, then s8 codes [4][head_dim][4]: groups of four positions, dims, positions of the group.
 *
 * q4 has two codes + 8 in a byte: of keys, [head_dim / 8][16][4], dims d and, in the upper half,
 * d + 16 of each 32; of values, [2][head_dim][4], positions j and j + 8. q8_q4 has the keys of q8
 * and the values of q4, f16_q8 and f16_q4 the keys of f16.
 *
 * q8 and q4 need head_dim % 32 == 0; their keys and q4's values are stored rotated (rotation.h). */
enum { SP_KV_BLOCK = 16, SP_KV_GROUP = 32, SP_MAX_HEAD_DIM = 1024 };
enum { SP_SPAN = 256 }; /* positions of a span, the unit in which attention walks its keys */

/* Bits of a number of a key, and of a value; below 16 they are codes, with scales beside them. */
struct sp_cache_bits {
    unsigned key, value;
};
extern const struct sp_cache_bits sp_cache_bits[SP_N_CACHE_TYPES];

size_t sp_key_block_size(enum sp_cache_type type, size_t head_dim);   /* bytes, multiple of 64 */
size_t sp_value_block_size(enum sp_cache_type type, size_t head_dim); /* bytes */
size_t sp_query_size(size_t head_dim); /* bytes of a prepared query, multiple of 64 */

/* Queries of one head, and blocks of its keys (scores) or of its values (weigh). */
struct sp_kv_rows {
    float *out; /* [n_queries][ld_out] scores, or weighted sums */
    size_t ld_out, n_queries;
    const uint8_t *blocks;
    size_t head_dim;
    enum sp_cache_type type; /* of the blocks */
    /* scores */
    const uint8_t *queries; /* prepared, one after another */
    size_t n_blocks;
    float scale;
    /* weigh */
    const float *p; /* [n_queries][ldp] weights */
    size_t ldp;
    const size_t *first, *last; /* [n_queries] positions first..last-1 */
};

/* Attention over caches of one type. A q8 code is round-to-even(x * (127 / m)) with scale m / 127,
 * where m is the largest |x| of the numbers that share the scale; a q4 code the same with 7. What
 * is said of q8 holds for q4, too. */
struct sp_vector_kv {
    /* Writes the key, or the value, of one position (lane = position % 16) into its block. */
    void (*store_key)(uint8_t *block, size_t lane, const float *k, size_t head_dim);
    void (*store_value)(uint8_t *block, size_t lane, const float *v, size_t head_dim);
    /* Converts a query to the input of `scores`: floats, or rotated q8 codes in groups of 32 dims,
     * whose q_scale is the scale of the codes / 32. */
    void (*prepare)(uint8_t *query, const float *q, size_t head_dim);
    /* out[i][16 * b + j] = (q_i . k_j) * scale; fmaf over ascending dims from +0, then one
     * multiplication. q8: sums of 32 products of codes are exact, and acc = fmaf((float)sum,
     * k_scale
     * * q_scale, acc) over ascending groups. */
    void (*scores)(const struct sp_kv_rows *rows);
    /* Turns a sum that weigh returned, possibly scaled, into one of values. NULL: it is one. */
    void (*restore)(float *out, size_t head_dim);
    /* out_i = sum_j p[i][j] v_j over j = first[i]..last[i]-1, ascending, one fmaf each, from +0.
     * q8: the weights of a query become integers of 15 bits, so that the sum is exact in 32:
     *
     *   w_j = p_j * v_scale_j;  m = max |w_j|;  c_j = round-to-even(min(w_j * (32767 / m), 32767))
     *   out = (float)(sum_j c_j code_j) * (m / 32767);  for m below 2^-100 all c_j are 0
     *
     * p is not negative; it and blocks start at a multiple of 16, last[i] <= SP_SPAN. */
    void (*weigh)(const struct sp_kv_rows *rows);
};

/* y = f(y) * up, f being SiLU, GELU (by tanh or erf), max(y, 0) or its square. */
typedef void sp_gate_fn(float *y, const float *up, size_t n);

struct sp_vector {
    const char *name; /* as in quantize/kernels/kernels.h */

    /* y = x * (1 / sqrt(mean(x^2) + eps)) * w; w NULL: no weight. y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *w, size_t n, float eps);
    void (*add)(float *y, const float *x, size_t n);          /* y += x */
    void (*scale)(float *y, float factor, size_t n);          /* y *= factor */
    void (*fma)(float *y, const float *x, float f, size_t n); /* y = fmaf(x, f, y) */
    void (*mul)(float *y, const float *x, size_t n);          /* y *= x */
    sp_gate_fn *const *gates; /* by enum sp_activation, of those without parameters; static */
    /* gpt-oss: y = (u + 1) g sigmoid(1.702 g), g = min(y, limit), u = clamp(up, -limit, limit). */
    void (*swiglu_clamped)(float *y, const float *up, float limit, size_t n);
    void (*silu)(float *y, size_t n);                                    /* y = silu(y) */
    void (*sigmoid_mul)(float *y, const float *gate, size_t n);          /* y = y * sigmoid(gate) */
    void (*mul_add)(float *y, const float *a, const float *b, size_t n); /* y = fmaf(a, b, y) */
    void (*exp_mul)(float *y, const float *x, float f, size_t n); /* y = y * sp_expf(x * f) */
    /* y = x * (factor / sqrt(sum(x^2) + eps)), the sum as in rms_norm. y may be x. */
    void (*l2_norm)(float *y, const float *x, size_t n, float eps, float factor);
    /* One step of the gated delta rule on the state of one value head, [dv][dk], for each j < dv:
     *   S_j = S_j * decay;  d = (v_j - S_j . k) * beta;  S_j = fmaf(d, k, S_j);  out_j = S_j . q
     * dots over dk with the 16 sums. delta[dv] receives the d's. */
    void (*delta_step)(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv);
    /* A step with known d's, for each j < dv:
     *
     *   S_j = fmaf(delta_j, k, S_j * decay);  out_j = S_j . q */
    void (*state_step)(float *state, float *out, const float *delta, const float *q, const float *k,
                       float decay, size_t dk, size_t dv);
    /* Repeats the state changes of delta_step or state_step. */
    void (*state_replay)(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv);
    void (*softcap)(float *y, float cap, size_t n); /* y = cap * tanh(y / cap) */
    /* Rotates one head: pairs (i, i + n_rot/2): a' = a c - b s, b' = b c + a s, each as
     * fmaf(a, c, -(b * s)) and fmaf(b, c, a * s). */
    void (*rope)(float *head, const float *cos, const float *sin, size_t n_rot);

    /* s[first..last) -> exp(s - m), m = their maximum; *max = m, *sum = their sum: 16 running sums
     * by index % 16 (plain additions), fixed tree. s is 64-byte aligned and has space up to the
     * next multiple of 16, which may be read and is not changed. */
    void (*softmax)(float *s, size_t first, size_t last, float *max, float *sum);
    const struct sp_vector_kv *kv; /* [SP_N_CACHE_TYPES] static */

    /* Sampling: soften: y = sp_exp((x - max) / temperature); uniform: y = sp_rng_uniform(key,
     * id). */
    void (*soften)(double *y, const float *x, size_t n, double max, double temperature);
    void (*uniform)(double *y, const uint32_t *ids, size_t n, uint64_t key);

    /* Index of the first maximum; SIZE_MAX when a value is NaN or infinite. */
    size_t (*argmax)(const float *x, size_t n);
};

/* y = x minus its mean: 16 running sums by index % 16 (plain additions), fixed tree. It is cheap,
 * so all instruction sets use the same code. y may be x. */
void sp_center(float *y, const float *x, size_t n);

/* Scales x down to the length `limit`, if it is longer: x * min(1, limit / (|x| + 1e-6)). All
 * instruction sets use the same code. */
void sp_shorten(float *x, float limit, size_t n);

/* Clamps each element to -limit..limit. All instruction sets use the same code. */
void sp_clamp(float *y, float limit, size_t n);

/* xIELU (arXiv 2411.13010) of each element. All instruction sets use the same code.
 *
 *   x > 0: positive x^2 + beta x;  else: (e^min(x, eps) - 1 - x) negative + beta x */
struct sp_xielu {
    float positive, negative, beta, eps; /* eps < 0 */
};

void sp_xielu_row(float *y, const struct sp_xielu *w, size_t n);

/* The table of a kernel set (quantize/kernels/kernels.h) by name; never NULL for a set's name. */
const struct sp_vector *sp_vector_find(const char *kernels_name);

#endif
