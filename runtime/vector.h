/* The arithmetic of a decoder that is not a matrix product: norms, activations, rotations, and the
 * parts of attention. Same contract as quantize/kernels.h: vector_ref.c is the specification, every
 * other table gives identical bits for all lengths and alignments, and each row's result depends on
 * that row alone. Reductions along a vector use 16 running sums (element i goes to sum i % 16, in
 * ascending i, fused multiply-add), added as a fixed tree: 16 -> 8 (s[j] + s[j+8]) -> 4 -> 2 -> 1.
 * exp, tanh and their kin are runtime/fmath.h's, evaluated lane by lane. */
#ifndef SP_RUNTIME_VECTOR_H
#define SP_RUNTIME_VECTOR_H

#include "format/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sp_kv_type { SP_KV_F32, SP_KV_F16, SP_KV_Q8, SP_N_KV_TYPES };

/* Keys are stored so that one lane is one key: blocks of 16 positions, inside a block the head's
 * dims ascend:  f32, f16: [head_dim][16];  q8: [head_dim/4][16][4] u8 (code + 128), then
 * [head_dim/32][16] f32 scales. Values are rows: f32, f16: [head_dim]; q8: [head_dim] s8 codes,
 * then one f32 scale per 32 codes. q8 needs head_dim % 32 == 0. */
enum { SP_KEY_BLOCK = 16, SP_KV_GROUP = 32, SP_MAX_HEAD_DIM = 1024 };

size_t sp_key_block_size(enum sp_kv_type type, size_t head_dim); /* bytes, multiple of 64 */
size_t sp_value_row_size(enum sp_kv_type type, size_t head_dim); /* bytes */

struct sp_vector {
    const char *name; /* as in quantize/kernels.h */

    /* y = x * (1 / sqrt(mean(x^2) + eps)) * w; w NULL: no weight. y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *w, size_t n, float eps);
    void (*add)(float *y, const float *x, size_t n);            /* y += x */
    void (*scale)(float *y, float factor, size_t n);            /* y *= factor */
    void (*fma)(float *y, const float *x, float f, size_t n);   /* y = fmaf(x, f, y) */
    void (*mul)(float *y, const float *x, size_t n);            /* y *= x */
    void (*silu_mul)(float *y, const float *up, size_t n);      /* y = silu(y) * up */
    void (*gelu_tanh_mul)(float *y, const float *up, size_t n); /* y = gelu_tanh(y) * up */
    void (*gelu_erf_mul)(float *y, const float *up, size_t n);  /* y = gelu_erf(y) * up */
    /* gpt-oss: g = min(y, limit), u = clamp(up, -limit, limit); y = (u + 1) * g * sigmoid(1.702 g)
     */
    void (*swiglu_clamped)(float *y, const float *up, float limit, size_t n);
    void (*silu)(float *y, size_t n);                                    /* y = silu(y) */
    void (*sigmoid_mul)(float *y, const float *gate, size_t n);          /* y = y * sigmoid(gate) */
    void (*mul_add)(float *y, const float *a, const float *b, size_t n); /* y = fmaf(a, b, y) */
    /* y = x * (factor / sqrt(sum(x^2) + eps)), the sum as in rms_norm. y may be x. */
    void (*l2_norm)(float *y, const float *x, size_t n, float eps, float factor);
    /* One step of the gated delta rule on the state of one value head, [dv][dk], for each j < dv:
     *   S_j = S_j * decay;  d = (v_j - S_j . k) * beta;  S_j = fmaf(d, k, S_j);  out_j = S_j . q
     * dots over dk with the 16 sums. delta[dv] receives the d's. */
    void (*delta_step)(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv);
    /* What delta_step did to the state, again: S_j = fmaf(delta_j, k, S_j * decay). */
    void (*delta_replay)(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv);
    void (*softcap)(float *y, float cap, size_t n); /* y = cap * tanh(y / cap) */
    /* Rotates one head: pairs (i, i + n_rot/2): a' = a c - b s, b' = b c + a s, each as
     * fmaf(a, c, -(b * s)) and fmaf(b, c, a * s). */
    void (*rope)(float *head, const float *cos, const float *sin, size_t n_rot);

    /* Writes one position's key (lane = position % 16) into its block, and one value row. */
    void (*store_key[SP_N_KV_TYPES])(uint8_t *block, size_t lane, const float *k, size_t head_dim);
    void (*store_value[SP_N_KV_TYPES])(uint8_t *row, const float *v, size_t head_dim);

    /* scores[i][16 * b + j] = (q_i . k_j) * scale for n_queries queries (rows `ldq` floats apart)
     * and n_blocks key blocks; fmaf over ascending dims from +0, then one multiplication. q8: the
     * query is quantized to int8 blocks of 32 like activations, block sums are exact, and
     * acc = fmaf((float)isum, k_scale * q_scale, acc) over ascending blocks. */
    void (*scores[SP_N_KV_TYPES])(float *scores, size_t ld_scores, const float *q, size_t ldq,
                                  size_t n_queries, const uint8_t *key_blocks, size_t n_blocks,
                                  size_t head_dim, float scale);
    /* s[first..last) -> exp(s - m), m = their maximum; *max = m, *sum = their sum: 16 running sums
     * by index % 16 (plain additions), fixed tree. s is 64-byte aligned and has room up to the next
     * multiple of 16, which may be read and is not changed. */
    void (*softmax)(float *s, size_t first, size_t last, float *max, float *sum);
    /* out_i = sum_j p[i][j] v_j over j = first[i]..last[i]-1, ascending, one fmaf each, from +0
     * (q8: fmaf(p * v_scale, (float)code, acc)). values: rows of consecutive positions. */
    void (*weigh[SP_N_KV_TYPES])(float *out, size_t ld_out, const float *p, size_t ldp,
                                 const size_t *first, const size_t *last, size_t n_queries,
                                 const uint8_t *values, size_t head_dim);

    /* Index of the first maximum; SIZE_MAX when a value is NaN or infinite. */
    size_t (*argmax)(const float *x, size_t n);
};

/* The table whose name equals `kernels_name` (one of quantize/kernels.h's); never NULL for those.
 */
const struct sp_vector *sp_vector_find(const char *kernels_name);

#endif
