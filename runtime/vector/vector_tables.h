/* The tables that sp_vector_find chooses from, one per instruction set, the tables they point to,
 * and code for all of their files. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_TABLES_H
#define SP_RUNTIME_VECTOR_VECTOR_TABLES_H

#include "quantize/simd/simd.h"
#include "runtime/vector/vector.h"

/* Magnitudes are compared as bits: those of a NaN are above SP_INFINITY_BITS. SP_NAN_BITS is the
 * NaN that all instruction sets use. */
#define SP_INFINITY_BITS 0x7f800000u
#define SP_NAN_BITS 0x7fc00000u

/* Prefetches n bytes, `ahead` bytes after p, possibly beyond the cache's memory. The processor's
 * own prefetch stops at the end of every page, and a tile would otherwise wait for memory. */
INLINE void prefetch(const uint8_t *p, size_t ahead, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)p + ahead + i));
}

/* The initializer of a table: the static functions of the file that defines it, each of which has
 * the name of its member, except that fma is a name of the C library, and its array of caches. */
#define SP_VECTOR_TABLE(set_name, caches)                                                          \
    {                                                                                              \
        .name = set_name, .fma = fma_row, .rms_norm = rms_norm, .add = add, .scale = scale,        \
        .mul = mul, .gates = gates, .silu = silu, .mul_add = mul_add, .exp_mul = exp_mul,          \
        .softcap = softcap, .sigmoid_mul = sigmoid_mul, .swiglu_clamped = swiglu_clamped,          \
        .l2_norm = l2_norm, .rope = rope, .softmax = softmax, .delta_step = delta_step,            \
        .state_step = state_step, .state_replay = state_replay, .argmax = argmax,                  \
        .soften = soften, .uniform = uniform, .kv = caches,                                        \
    }

/* sp_vector_kv.restore of q4, whose values are rotated. All instruction sets use the same code. */
void sp_restore_q4(float *out, size_t head_dim);

/* Defines a function of struct sp_vector_kv that calls another one with blocks of a type, which the
 * compiler then knows. */
#define SP_KV_FUNCTION(name, function, of_type)                                                    \
    static void name(const struct sp_kv_rows *rows)                                                \
    {                                                                                              \
        struct sp_kv_rows a = *rows;                                                               \
        a.type = of_type;                                                                          \
        function(&a);                                                                              \
    }

/* The initializer of the array of caches likewise, by the types of keys and values. */
#define SP_KV_TABLE(keys, values, prepare_fn, restore_fn)                                          \
    {                                                                                              \
        .store_key = store_key_##keys, .store_value = store_value_##values, .prepare = prepare_fn, \
        .scores = scores_##keys, .weigh = weigh_##values, .restore = restore_fn                    \
    }
#define SP_KV_TABLES                                                                               \
    {                                                                                              \
        [SP_CACHE_F16] = SP_KV_TABLE(f16, f16, prepare_floats, NULL),                              \
        [SP_CACHE_F32] = SP_KV_TABLE(f32, f32, prepare_floats, NULL),                              \
        [SP_CACHE_Q8] = SP_KV_TABLE(q8, q8, prepare_codes, NULL),                                  \
        [SP_CACHE_Q8_Q4] = SP_KV_TABLE(q8, q4, prepare_codes, sp_restore_q4),                      \
        [SP_CACHE_Q4] = SP_KV_TABLE(q4, q4, prepare_codes, sp_restore_q4),                         \
        [SP_CACHE_F16_Q8] = SP_KV_TABLE(f16, q8, prepare_floats, NULL),                            \
        [SP_CACHE_F16_Q4] = SP_KV_TABLE(f16, q4, prepare_floats, sp_restore_q4),                   \
    }

extern const struct sp_vector sp_vector_ref;
extern const struct sp_vector_kv sp_kv_ref[SP_N_CACHE_TYPES];
#if defined(__x86_64__)
extern const struct sp_vector sp_vector_avx2, sp_vector_avx512;
#elif defined(__aarch64__)
extern const struct sp_vector sp_vector_neon;
#endif

#endif
