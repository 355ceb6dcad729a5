#include "runtime/model/rope.h"

#include "runtime/vector/fmath.h"

#include <assert.h>

#define PI 0x1.921fb54442d18p+1

/* base^(2 i / dims), every step rounded to float. */
static float power(double base, size_t i, unsigned dims)
{
    float exponent = (float)(2 * i) / (float)dims;

    return (float)sp_pow((double)(float)base, (double)exponent);
}

static void default_frequencies(float *freq, double base, unsigned dims, size_t n)
{
    for (size_t i = 0; i < n; i++)
        freq[i] = 1.0f / power(base, i, dims);
}

/* Llama 3.1: long waves are slowed by `factor`, short ones kept, those between interpolated. */
static void llama3_frequencies(float *freq, const struct sp_rope *rope, size_t n)
{
    float factor = (float)rope->factor, original = (float)rope->original_positions;
    float low = (float)rope->low_freq_factor;
    float span = (float)(rope->high_freq_factor - rope->low_freq_factor);
    float longest = (float)(rope->original_positions / rope->low_freq_factor);
    float shortest = (float)(rope->original_positions / rope->high_freq_factor);

    for (size_t i = 0; i < n; i++) {
        float f = freq[i], wave = (float)(2 * PI) / f;
        if (wave < shortest) continue;
        if (wave > longest) {
            freq[i] = f / factor;
            continue;
        }
        float smooth = (original / wave - low) / span;
        freq[i] = (1.0f - smooth) * f / factor + smooth * f;
    }
}

/* The pair that rotates `rotations` times within the original context (YaRN, section 3.2). */
static double yarn_pair(const struct sp_rope *rope, double rotations)
{
    double wave = rope->original_positions / (rotations * 2 * PI);

    return rope->n_rot * sp_log(wave) / (2 * sp_log(rope->theta));
}

static double floor_of(double x)
{
    double whole = (double)(long)x;

    return whole > x ? whole - 1 : whole;
}

/* YaRN: pairs below `low` keep their frequency, pairs above `high` are slowed by `factor`. */
static void yarn_frequencies(float *freq, const struct sp_rope *rope, size_t n)
{
    double low = yarn_pair(rope, rope->beta_fast), high = yarn_pair(rope, rope->beta_slow);

    if (rope->truncate) {
        low = floor_of(low);
        high = -floor_of(-high);
    }
    if (low < 0) low = 0;
    if (high > rope->n_rot - 1) high = rope->n_rot - 1;
    if (low == high) high += 0.001;
    for (size_t i = 0; i < n; i++) {
        float p = power(rope->theta, i, rope->n_rot);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
        float keep = 1.0f - ramp;
        freq[i] = 1.0f / ((float)rope->factor * p) * (1.0f - keep) + 1.0f / p * keep;
    }
}

static void longrope_frequencies(float *freq, const struct sp_rope *rope, size_t n, size_t total)
{
    bool is_long = (double)total > rope->original_positions;
    const float *factors = is_long ? rope->long_factors : rope->short_factors;

    for (size_t i = 0; i < n; i++)
        freq[i] = 1.0f / (factors[i] * power(rope->theta, i, rope->n_rot));
}

/* The base that makes the slowest pair `stretch` times as slow and keeps the fastest. */
static double stretched_base(const struct sp_rope *rope, double stretch)
{
    double dims = rope->n_rot;

    return rope->theta * sp_pow(stretch, dims / (dims - 2));
}

/* The base that keeps the slowest pair within the trained angles for a context of `total`. */
static double dynamic_base(const struct sp_rope *rope, size_t total)
{
    double trained = rope->original_positions;

    if ((double)total <= trained) return rope->theta;
    return stretched_base(rope, rope->factor * (double)total / trained - (rope->factor - 1));
}

void sp_rope_frequencies(float *freq, const struct sp_rope *rope, size_t total_positions)
{
    size_t n = rope->n_rot / 2;

    switch (rope->kind) {
    case SP_ROPE_YARN:
        yarn_frequencies(freq, rope, n);
        return;
    case SP_ROPE_LONGROPE:
        longrope_frequencies(freq, rope, n, total_positions);
        return;
    case SP_ROPE_DYNAMIC:
        default_frequencies(freq, dynamic_base(rope, total_positions), rope->n_rot, n);
        return;
    case SP_ROPE_NTK_ALPHA:
        default_frequencies(freq, stretched_base(rope, rope->factor), rope->n_rot, n);
        return;
    case SP_ROPE_DEFAULT:
    case SP_ROPE_LINEAR:
    case SP_ROPE_LLAMA3:
    case SP_ROPE_PROPORTIONAL:
        break;
    }
    default_frequencies(freq, rope->theta, rope->n_rot, n);
    if (rope->kind == SP_ROPE_LLAMA3)
        llama3_frequencies(freq, rope, n);
    else if (rope->kind != SP_ROPE_DEFAULT)
        for (size_t i = 0; i < n; i++)
            freq[i] /= (float)rope->factor;
    if (rope->kind == SP_ROPE_PROPORTIONAL) {
        assert(rope->n_rotated <= n);
        for (size_t i = rope->n_rotated; i < n; i++)
            freq[i] = 0;
    }
}

void sp_rope_row(float *cos, float *sin, const float *freq, size_t n, double amplitude, size_t pos)
{
    for (size_t i = 0; i < n; i++) {
        float angle = (float)pos * freq[i];
        double s, c;
        sp_sin_cos(&s, &c, (double)angle);
        cos[i] = (float)(c * amplitude);
        sin[i] = (float)(s * amplitude);
    }
}
