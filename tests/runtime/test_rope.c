/* Tests the frequencies of every kind of rotation against numbers checked by hand (double
 * precision, eight places), rotations against examples, and sines against the C library's. */
#include "runtime/model/rope.h"
#include "runtime/vector/vector.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { MAX_PAIRS = 256 };

/* Float arithmetic may be off by a few units in the last place. */
static void assert_near(float got, double want)
{
    if (fabs((double)got - want) > 4e-7 * fabs(want))
        fail_msg("%.9g instead of %.9g", (double)got, want);
}

TEST(test_default_and_linear)
{
    struct sp_rope rope = {.theta = 1e4, .n_rot = 128, .factor = 4};
    float plain[MAX_PAIRS], slow[MAX_PAIRS];

    sp_rope_frequencies(plain, &rope, 0);
    rope.kind = SP_ROPE_LINEAR;
    sp_rope_frequencies(slow, &rope, 0);
    for (size_t i = 0; i < 64; i++) {
        assert_near(plain[i], pow(1e4, -(double)i / 64));
        assert_true(slow[i] == plain[i] / 4);
    }
    assert_true(plain[0] == 1);
}

TEST(test_llama3)
{
    struct sp_rope rope = {.kind = SP_ROPE_LLAMA3,
                           .theta = 5e5,
                           .n_rot = 128,
                           .factor = 8,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_positions = 8192};
    float f[MAX_PAIRS];

    sp_rope_frequencies(f, &rope, 0);
    assert_near(f[28], pow(5e5, -28.0 / 64));
    assert_near(f[29], 0.00216657076);
    assert_near(f[32], 0.000524846161);
    assert_near(f[34], 0.000178507813);
    assert_near(f[35], pow(5e5, -35.0 / 64) / 8);
    assert_near(f[63], 3.06892599e-7);
    rope.n_rot = 64;
    rope.factor = 32;
    sp_rope_frequencies(f, &rope, 0);
    assert_near(f[14], pow(5e5, -14.0 / 32));
    assert_near(f[15], 0.00129054793);
    assert_near(f[17], 9.7082878e-5);
    assert_near(f[18], pow(5e5, -18.0 / 32) / 32);
}

TEST(test_yarn)
{
    struct sp_rope rope = {.kind = SP_ROPE_YARN,
                           .theta = 150000,
                           .n_rot = 64,
                           .factor = 32,
                           .original_positions = 4096,
                           .beta_fast = 32,
                           .beta_slow = 1};
    float f[MAX_PAIRS];

    sp_rope_frequencies(f, &rope, 0);
    assert_near(f[8], 0.050813275);
    assert_near(f[16], 4.5648392e-4);
    assert_near(f[31], 3.0235114e-7);
    rope = (struct sp_rope){.kind = SP_ROPE_YARN,
                            .theta = 1e6,
                            .n_rot = 128,
                            .factor = 4,
                            .original_positions = 32768,
                            .beta_fast = 32,
                            .beta_slow = 1,
                            .truncate = true};
    sp_rope_frequencies(f, &rope, 0);
    assert_near(f[32], 6.0294118e-4);
    assert_near(f[23], pow(1e6, -23.0 / 64));
    assert_near(f[40], pow(1e6, -40.0 / 64) / 4);
    rope.factor = 16;
    rope.original_positions = 16384;
    sp_rope_frequencies(f, &rope, 0);
    assert_near(f[32], 3.3823529e-4);
}

TEST(test_longrope_chooses_by_length)
{
    float brief[4] = {1, 1.5f, 2, 3}, lengthy[4] = {1, 10, 20, 40}, f[4];
    struct sp_rope rope = {.kind = SP_ROPE_LONGROPE,
                           .theta = 1e4,
                           .n_rot = 8,
                           .original_positions = 4096,
                           .short_factors = brief,
                           .long_factors = lengthy};

    sp_rope_frequencies(f, &rope, 4096);
    for (size_t i = 0; i < 4; i++)
        assert_near(f[i], pow(10, -(double)i) / (double)brief[i]);
    sp_rope_frequencies(f, &rope, 4097);
    for (size_t i = 0; i < 4; i++)
        assert_near(f[i], pow(10, -(double)i) / (double)lengthy[i]);
}

TEST(test_dynamic)
{
    struct sp_rope rope = {.kind = SP_ROPE_DYNAMIC,
                           .theta = 1e4,
                           .n_rot = 128,
                           .factor = 4,
                           .original_positions = 4096};
    float f[MAX_PAIRS];

    sp_rope_frequencies(f, &rope, 4096);
    assert_near(f[1], pow(1e4, -1.0 / 64));
    sp_rope_frequencies(f, &rope, 8192);
    assert_near(f[1], pow(51293.787, -1.0 / 64));
    assert_near(f[63], pow(51293.787, -63.0 / 64));
}

/* The frequency base for any length: 1e4 * 1000^(128/126). */
TEST(test_stretched)
{
    struct sp_rope rope = {.kind = SP_ROPE_NTK_ALPHA, .theta = 1e4, .n_rot = 128, .factor = 1000};
    float f[MAX_PAIRS];

    for (size_t total = 1; total < 1000000; total *= 1000) {
        sp_rope_frequencies(f, &rope, total);
        assert_near(f[0], 1);
        assert_near(f[1], pow(11158839.925077, -1.0 / 64));
        assert_near(f[63], pow(11158839.925077, -63.0 / 64));
    }
}

/* Rotates x[0..n-1] as one head at `pos` with the scalar kernels. */
static void rotate(float *x, const struct sp_rope *rope, size_t pos)
{
    float f[MAX_PAIRS], c[MAX_PAIRS], s[MAX_PAIRS];

    sp_rope_frequencies(f, rope, 0);
    sp_rope_row(c, s, f, rope->n_rot / 2, rope->amplitude, pos);
    sp_vector_find("scalar")->rope(x, c, s, rope->n_rot);
}

static void check_rotation(const struct sp_rope *rope, size_t pos, size_t n, const double *want)
{
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};

    rotate(x, rope, pos);
    for (size_t i = 0; i < n; i++)
        assert_true(fabs((double)x[i] - want[i]) < 2e-6);
}

TEST(test_rotations)
{
    struct sp_rope rope = {.theta = 1e4, .n_rot = 4, .factor = 1, .amplitude = 1};

    check_rotation(&rope, 1, 4, (const double[]){-1.9841106, 1.9599007, 2.4623779, 4.0197997});
    check_rotation(&rope, 0, 8, (const double[]){1, 2, 3, 4, 5, 6, 7, 8});
    /* The first 4 of 8 dims rotate, and the rest is copied. */
    check_rotation(&rope, 3, 8,
                   (const double[]){-1.4133525, 1.8791181, -2.8288575, 4.0581911, 5, 6, 7, 8});
    /* Pairs over the whole head of 8, half of which do not rotate. */
    rope.kind = SP_ROPE_PROPORTIONAL;
    rope.n_rot = 8;
    rope.n_rotated = 2;
    check_rotation(&rope, 3, 8,
                   (const double[]){-1.6955925, .1375517, 3, 4, -4.8088425, 6.3230593, 7, 8});
}

TEST(test_amplitude_scales_rotated_dims)
{
    struct sp_rope rope = {.theta = 1e4, .n_rot = 4, .factor = 1, .amplitude = 2};

    check_rotation(&rope, 1, 8,
                   (const double[]){-3.9682212, 3.9198014, 4.9247558, 8.0395994, 5, 6, 7, 8});
}

TEST(test_rows_are_those_of_the_float_angle)
{
    struct sp_rope rope = {.theta = 1e6, .n_rot = 128, .factor = 1, .amplitude = 1};
    float f[MAX_PAIRS], c[MAX_PAIRS], s[MAX_PAIRS];

    sp_rope_frequencies(f, &rope, 0);
    for (size_t pos = 0; pos < 131072; pos += 1021) {
        sp_rope_row(c, s, f, 64, 1, pos);
        for (size_t i = 0; i < 64; i++) {
            double angle = (double)((float)pos * f[i]);
            assert_true(c[i] == (float)cos(angle) && s[i] == (float)sin(angle));
        }
    }
}
