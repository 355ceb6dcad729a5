/* Sizes of stored keys and values, operations without intrinsics, and the choice of a table. */
#include "runtime/vector/vector.h"

#include "format/base/mem.h"
#include "runtime/vector/fmath.h"
#include "runtime/vector/rotation.h"
#include "runtime/vector/vector_tables.h"

#include <string.h>

void sp_center(float *y, const float *x, size_t n)
{
    enum { SUMS = 16 };
    float sums[SUMS] = {0}, mean;
    size_t i = 0;

    for (; i + SUMS <= n; i += SUMS)
        for (size_t j = 0; j < SUMS; j++)
            sums[j] += x[i + j];
    for (size_t j = 0; i + j < n; j++)
        sums[j] += x[i + j];
    for (size_t half = SUMS / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            sums[j] += sums[j + half];
    mean = sums[0] / (float)n;
    for (i = 0; i < n; i++)
        y[i] = x[i] - mean;
}

void sp_shorten(float *x, float limit, size_t n)
{
    double sum = 0;
    float factor;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    factor = (float)(limit / (sqrt(sum) + 1e-6));
    for (size_t i = 0; factor < 1 && i < n; i++)
        x[i] *= factor;
}

void sp_clamp(float *y, float limit, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (y[i] > limit) y[i] = limit;
        if (y[i] < -limit) y[i] = -limit;
    }
}

/* Computes e^x - 1 as 2 t / (1 - t), t = tanh(x / 2), which has no cancellation near 0. */
void sp_xielu_row(float *y, const struct sp_xielu *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = y[i];
        if (x > 0) {
            y[i] = fmaf(w->positive * x, x, w->beta * x);
        } else {
            float t = sp_tanhf((x < w->eps ? x : w->eps) * 0.5f);
            y[i] = fmaf((t + t) / (1.0f - t) - x, w->negative, w->beta * x);
        }
    }
}

const struct sp_cache_bits sp_cache_bits[SP_N_CACHE_TYPES] = {
    [SP_CACHE_F16] = {16, 16},   [SP_CACHE_F32] = {32, 32}, [SP_CACHE_Q8] = {8, 8},
    [SP_CACHE_Q8_Q4] = {8, 4},   [SP_CACHE_Q4] = {4, 4},    [SP_CACHE_F16_Q8] = {16, 8},
    [SP_CACHE_F16_Q4] = {16, 4},
};

size_t sp_key_block_size(enum sp_cache_type type, size_t head_dim)
{
    unsigned bits = sp_cache_bits[type].key;
    size_t scales = bits < 16 ? head_dim / SP_KV_GROUP * sizeof(float) : 0;

    return sp_round_up((head_dim * bits / 8 + scales) * SP_KV_BLOCK, 64);
}

size_t sp_value_block_size(enum sp_cache_type type, size_t head_dim)
{
    unsigned bits = sp_cache_bits[type].value;
    size_t scale = bits < 16 ? sizeof(float) : 0;

    return (head_dim * bits / 8 + scale) * SP_KV_BLOCK;
}

void sp_restore_q4(float *out, size_t head_dim)
{
    for (size_t i = 0; i < head_dim; i += SP_KV_GROUP) {
        float group[SP_KV_GROUP];
        sp_rotate_group(group, out + i);
        for (size_t d = 0; d < SP_KV_GROUP; d++)
            out[i + d] = group[d] * SP_ROTATION_FACTOR;
    }
}

size_t sp_query_size(size_t head_dim)
{
    return sp_round_up(head_dim * sizeof(float), 64);
}

/* The vector table of each kernel set. AMX, neon-i8mm, and sets with VNNI but without the rest of
 * AVX-512 have matrix products of their own only. */
static const struct {
    const char *kernels_name;
    const struct sp_vector *vector;
} tables[] = {
#if defined(__x86_64__)
    {"avx512", &sp_vector_avx512}, {"amx", &sp_vector_avx512},      {"avxvnni", &sp_vector_avx2},
    {"avx2", &sp_vector_avx2},     {"avx512vnni", &sp_vector_avx2},
#elif defined(__aarch64__)
    {"neon", &sp_vector_neon},
    {"neon-i8mm", &sp_vector_neon},
#endif
    {"scalar", &sp_vector_ref},
};

const struct sp_vector *sp_vector_find(const char *kernels_name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strcmp(kernels_name, tables[i].kernels_name) == 0) return tables[i].vector;
    return NULL;
}
