/* The tables behind sp_vector_find, one per instruction set, the parts they point to, and what
 * their files share whatever the set. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_TABLES_H
#define SP_RUNTIME_VECTOR_VECTOR_TABLES_H

#include "runtime/vector/vector.h"

#define INLINE static inline __attribute__((always_inline))

/* A function inlined with constant sizes, so that its loops unroll. SP_ROLLED: as in
 * quantize/kernels_avx512.c. */
#if defined(SP_ROLLED)
#define TILE static
#else
#define TILE INLINE
#endif

/* The largest magnitude of numbers, compared as bits, is a NaN above the first; as the second it is
 * the same one everywhere. */
#define SP_INFINITY_BITS 0x7f800000u
#define SP_NAN_BITS 0x7fc00000u

/* Asks for n bytes, `ahead` bytes past p, which may lie beyond the store: a tile's computing would
 * otherwise wait for memory, since the processor's own prefetch stops at the end of every page. */
INLINE void prefetch(const uint8_t *p, size_t ahead, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)p + ahead + i));
}

/* The initialiser of a table: the static functions of the file that defines it, each of which has
 * the name of its member, except that fma is a name of the C library. `set` is the suffix of the
 * sp_kv_ tables that belong to it. */
#define SP_VECTOR_TABLE(set_name, set)                                                             \
    {                                                                                              \
        .name = set_name, .fma = fma_row, .rms_norm = rms_norm, .add = add, .scale = scale,        \
        .mul = mul, .silu_mul = silu_mul, .gelu_tanh_mul = gelu_tanh_mul,                          \
        .gelu_erf_mul = gelu_erf_mul, .relu2_mul = relu2_mul, .silu = silu, .mul_add = mul_add,    \
        .softcap = softcap, .sigmoid_mul = sigmoid_mul, .swiglu_clamped = swiglu_clamped,          \
        .l2_norm = l2_norm, .rope = rope, .softmax = softmax, .delta_step = delta_step,            \
        .state_step = state_step, .state_replay = state_replay, .argmax = argmax,                  \
        .soften = soften, .uniform = uniform,                                                      \
        .kv = {&sp_kv_f32_##set, &sp_kv_f16_##set, &sp_kv_q8_##set},                               \
    }

extern const struct sp_vector sp_vector_ref;
extern const struct sp_vector_kv sp_kv_f32_ref, sp_kv_f16_ref, sp_kv_q8_ref;
#if defined(__x86_64__)
extern const struct sp_vector sp_vector_avx2, sp_vector_avx512;
extern const struct sp_vector_kv sp_kv_f32_avx2, sp_kv_f16_avx2, sp_kv_q8_avx2;
extern const struct sp_vector_kv sp_kv_f32_avx512, sp_kv_f16_avx512, sp_kv_q8_avx512;
#elif defined(__aarch64__)
extern const struct sp_vector sp_vector_neon;
extern const struct sp_vector_kv sp_kv_f32_neon, sp_kv_f16_neon, sp_kv_q8_neon;
#endif

#endif
