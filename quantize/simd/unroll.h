/* Functions that are inlined and loops that are unrolled, for kernels. */
#ifndef SP_QUANTIZE_SIMD_UNROLL_H
#define SP_QUANTIZE_SIMD_UNROLL_H

#define INLINE static inline __attribute__((always_inline))

/* A function inlined with constant sizes, so that its loops unroll. With sanitizers, unrolled tiles
 * take minutes to compile: SP_ROLLED compiles the same functions with variable sizes. */
#if defined(SP_ROLLED)
#define TILE static
#define UNROLL
#else
#define TILE INLINE
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16") /* -O2 alone would keep accumulators in memory */
#endif
#endif

#endif
