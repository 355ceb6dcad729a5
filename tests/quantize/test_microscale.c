/* Tests q2 to q6: decoding and q4's fitting against values computed in Python, every instruction
 * set against the scalar one, the quantization error beside that of an exact search, and zeros,
 * tiny numbers, huge numbers and outliers. */
#include "format/base/bytes.h"
#include "format/dtype.h"
#include "quantize/codec.h"
#include "quantize/kernels/kernels.h"
#include "quantize/policy.h"
#include "quantize/types/microscale.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"

#include <math.h>

enum { COLS = 1024, N_ROWS = 64 };

/* Limits of the relative rms error on Gaussian rows of COLS weights, and of the bits per weight.
 * `excess` limits the error relative to that with the best of all scale bytes. */
static const struct goal {
    enum sp_dtype dtype;
    double error, bits, excess;
} goals[] = {
    {SP_Q2, 0.27, 2.55, 1.007},  {SP_Q3, 0.125, 3.55, 1.007},  {SP_Q4, 0.060, 4.55, 1.006},
    {SP_Q5, 0.031, 5.55, 1.010}, {SP_Q6, 0.0165, 6.55, 1.007},
};
enum { N_TYPES = sizeof goals / sizeof *goals };

static uint64_t seed = 20240901;

static double uniform(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static float gaussian(void)
{
    return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

/* Codebook t's entries ascend, are never 0 where the encoder divides by their squares, and as
 * unsigned bytes are at most 128. */
static void check_codebook(const struct sp_microscale *type, uint8_t t)
{
    const unsigned n = 1u << type->code_bits;

    for (unsigned i = 0; i < n; i++) {
        int entry = sp_microscale_entry(type, t, i);
        assert_in_range(entry + 64, 0, 128);
        if (i > 0) assert_true(entry > sp_microscale_entry(type, t, i - 1));
        if (type->offsets == NULL)
            assert_int_equal(entry, -sp_microscale_entry(type, t ^ 1, n - 1 - i));
    }
}

TEST(test_codebooks)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct sp_microscale *type = sp_microscale_of(goals[i].dtype);
        for (unsigned t = 0; t < type->n_codebooks; t++)
            check_codebook(type, (uint8_t)t);
    }
}

/* Stores half block h in lane `row` of a block's bytes, in the layout of format/dtype.h. */
static void put_half(uint8_t *block, size_t h, size_t row, uint8_t byte, const uint64_t *nibbles)
{
    for (size_t k = 0; k < 8; k++)
        block[128 * h + 64 * (k / 4) + 4 * row + k % 4] =
            (uint8_t)(nibbles[k] | nibbles[k + 8] << 4);
    block[256 + 16 * h + row] = byte;
}

/* A case: bits of a code, row, row scale, the bytes of a block as words, the row's weights. */
TEST(test_decode)
{
    enum { WORDS = 104, PER_LINE = 3 + WORDS + 32 };
    static const enum sp_dtype of_bits[] = {[2] = SP_Q2, SP_Q3, SP_Q4, SP_Q5, SP_Q6};
    size_t n_lines;
    uint64_t *lines = vector_file_read("microscale_decode.txt", PER_LINE, &n_lines);

    for (size_t i = 0; i < n_lines; i++) {
        const uint64_t *line = lines + PER_LINE * i, *weights = line + 3 + WORDS;
        const struct sp_microscale *type = sp_microscale_of(of_bits[line[0]]);
        uint8_t panel[SP_MICROSCALE_HEAD + 4 * WORDS] = {0};
        float out[32];
        sp_put32(panel + 4 * line[1], (uint32_t)line[2]);
        for (size_t w = 0; w < WORDS; w++)
            sp_put32(panel + SP_MICROSCALE_HEAD + 4 * w, (uint32_t)line[3 + w]);
        sp_microscale_decode_row(out, type, panel, 32, (size_t)line[1]);
        for (size_t k = 0; k < 32; k++)
            assert_true(out[k] == sp_float_of_bits((uint32_t)weights[k]));
    }
}

TEST(test_fit)
{
    size_t n_lines;
    uint64_t *lines = vector_file_read("q4_fit.txt", 33, &n_lines);
    struct sp_q4_tables tables;

    sp_q4_tables_init(&tables);
    for (size_t i = 0; i < n_lines; i++) {
        const uint64_t *line = lines + 33 * i;
        size_t row = i % 16, h = i / 16 % 2;
        _Alignas(64) int16_t v[512] = {0};
        uint8_t block[SP_Q4_BLOCK_SIZE], expected[SP_Q4_BLOCK_SIZE] = {0};

        for (size_t k = 0; k < 16; k++)
            v[sp_q4_place(row, 16 * h + k)] = (int16_t)(uint16_t)line[k];
        put_half(expected, h, row, (uint8_t)line[16], line + 17);
        sp_q4_fit_ref(block, v, &tables);
        assert_memory_equal(block, expected, sizeof block);
    }
}

/* Fills v with weights of many magnitudes, including zeros and extremes. */
static void random_weights(int16_t *v)
{
    for (size_t row = 0; row < 16; row++) {
        double size = exp(uniform() * 11);
        for (size_t k = 0; k < 32; k++) {
            double w = size * (double)gaussian();
            if (uniform() < 0.02) w = uniform() < 0.5 ? 16320 : -16320;
            if (uniform() < 0.02) w = 0;
            v[sp_q4_place(row, k)] = (int16_t)fmax(-16320, fmin(16320, w));
        }
    }
}

TEST(test_instruction_sets_agree)
{
    struct sp_q4_tables tables;

    sp_q4_tables_init(&tables);
    for (size_t i = 0; i < 300; i++) {
        _Alignas(64) int16_t v[512];
        uint8_t expected[SP_Q4_BLOCK_SIZE], block[SP_Q4_BLOCK_SIZE];

        random_weights(v);
        sp_q4_fit_ref(expected, v, &tables);
        for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
            if (!sp_kernels_supported(*k)) continue;
            memset(block, 0xaa, sizeof block);
            (*k)->tile->fit_q4(block, v, &tables);
            assert_memory_equal(block, expected, sizeof block);
        }
    }
}

/* The squared error of x[16] with scale byte b, each weight being the nearest entry. */
static double error_with(const struct sp_microscale *type, const float *x, float row_scale,
                         uint8_t b)
{
    double sum = 0;

    for (size_t k = 0; k < 16; k++) {
        double near = INFINITY;
        for (unsigned i = 0; i < 1u << type->code_bits; i++) {
            int weight = b * sp_microscale_entry(type, b, i);
            near = fmin(near, fabs((double)x[k] - (double)row_scale * weight));
        }
        sum += near * near;
    }
    return sum;
}

/* Returns the least squared error of x[16] over all scale bytes, found by trying each. */
static double exact_error(const struct sp_microscale *type, const float *x, float row_scale)
{
    double least = INFINITY;

    for (unsigned b = 0; b < 256; b++)
        least = fmin(least, error_with(type, x, row_scale, (uint8_t)b));
    return least;
}

static uint8_t *encode_rows(enum sp_dtype dtype, const float *rows, size_t n_rows, size_t cols,
                            size_t *size)
{
    struct sp_encoder encoder;

    assert_true(sp_panel_size(size, dtype, cols));
    uint8_t *panel = calloc(*size, 1);
    assert_non_null(panel);
    sp_encoder_init(&encoder);
    assert_ok(sp_panel_encode(panel, dtype, &encoder, rows, n_rows, cols, 0, NULL, NULL, NULL));
    return keep(panel);
}

/* Sums of squares over encoded numbers: of the originals, and of the differences. */
struct error {
    double reference, difference;
};

static void add_error(struct error *e, const float *want, const float *got, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double diff = (double)got[i] - (double)want[i];
        e->reference += (double)want[i] * (double)want[i];
        e->difference += diff * diff;
    }
}

static double relative_rms(const struct error *e)
{
    return e->difference > 0 ? sqrt(e->difference) / sqrt(e->reference) : 0;
}

static void check_quality(const struct goal *goal)
{
    static float rows[16 * COLS], back[16 * COLS];
    const struct sp_microscale *type = sp_microscale_of(goal->dtype);
    struct error measure = {0};
    double exact = 0, error, bits;
    size_t size = 0;

    for (size_t p = 0; p < N_ROWS / 16; p++) {
        for (size_t i = 0; i < 16 * COLS; i++)
            rows[i] = gaussian();
        uint8_t *panel = encode_rows(goal->dtype, rows, 16, COLS, &size);
        sp_panel_decode(back, goal->dtype, panel, 16, COLS, &sp_tile_ref);
        add_error(&measure, rows, back, 16 * COLS);
        for (size_t i = 0; i < 16 * COLS; i += 16)
            exact +=
                exact_error(type, rows + i, sp_float_of_bits(sp_get32(panel + 4 * (i / COLS))));
    }
    error = relative_rms(&measure);
    exact = sqrt(exact / measure.reference);
    bits = 8.0 * (double)size / (16 * COLS);
    print_message("%s: relative rms error %.5f (exact search %.5f), %.3f bits per weight\n",
                  sp_dtype_info(goal->dtype)->name, error, exact, bits);
    assert_true(error <= goal->error && bits <= goal->bits);
    assert_true(error <= goal->excess * exact);
    assert_true(fabs(sqrt(sp_policy_error(goal->dtype)) / error - 1) < 0.02);
}

TEST(test_quality)
{
    for (size_t i = 0; i < N_TYPES; i++)
        check_quality(goals + i);
}

static void check_zero_rows(enum sp_dtype dtype)
{
    static float rows[16 * 64], back[16 * 64];
    size_t size;

    for (size_t i = 0; i < 64; i++)
        rows[5 * 64 + i] = i < 32 ? 0 : gaussian(); /* a block of zeros within a row */
    uint8_t *panel = encode_rows(dtype, rows, 16, 64, &size);
    sp_panel_decode(back, dtype, panel, 16, 64, &sp_tile_ref);
    for (size_t i = 0; i < 16 * 64; i++) {
        bool filled = i >= 5 * 64 + 32 && i < 6 * 64;
        assert_true(filled || back[i] == 0);
        assert_true(!filled || fabsf(back[i] - rows[i]) < (dtype == SP_Q2 ? 1.5f : 0.5f));
    }
}

TEST(test_zero_rows)
{
    for (size_t i = 0; i < N_TYPES; i++)
        check_zero_rows(goals[i].dtype);
}

static double error_of_row(enum sp_dtype dtype, const float *row, size_t cols)
{
    float *back = calloc(cols, sizeof *back);
    struct error measure = {0};
    size_t size;
    uint8_t *panel = encode_rows(dtype, row, 1, cols, &size);

    assert_non_null(back);
    sp_panel_decode(back, dtype, panel, 1, cols, &sp_tile_ref);
    for (size_t k = 0; k < cols; k++)
        assert_true(isfinite(back[k]));
    add_error(&measure, row, back, cols);
    free(back);
    return relative_rms(&measure);
}

static void check_magnitudes(const struct goal *goal)
{
    static const float sizes[] = {1e-30f, 1e-6f, 1, 1e6f, 1e30f, 6e37f};
    float row[256];

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t k = 0; k < 256; k++)
            row[k] = sizes[s] * gaussian();
        assert_true(error_of_row(goal->dtype, row, 256) < 1.16 * goal->error);
    }
    for (size_t k = 0; k < 256; k++)
        row[k] = 1e-40f; /* smaller than any row scale */
    assert_true(error_of_row(goal->dtype, row, 256) == 1);
    for (size_t k = 0; k < 256; k++)
        row[k] = k % 2 ? 3.4028234e38f : -3.4028234e38f;
    assert_true(error_of_row(goal->dtype, row, 256) < (goal->dtype == SP_Q4 ? 0.2 : 0.6));
}

TEST(test_magnitudes)
{
    for (size_t i = 0; i < N_TYPES; i++)
        check_magnitudes(goals + i);
}

/* Rows of 96 uniform weights, whose largest weights have both signs in one half block: the row
 * scale must let a codebook reach them. */
TEST(test_uniform_rows)
{
    float row[96];

    for (size_t i = 0; i < N_TYPES; i++) {
        for (size_t n = 0; n < 100; n++) {
            for (size_t k = 0; k < 96; k++)
                row[k] = (float)(2 * uniform() - 1);
            assert_true(error_of_row(goals[i].dtype, row, 96) < 1.3 * goals[i].error);
        }
    }
}

/* A weight that is many times larger than the others affects only its own half block. The error of
 * the rest of the row is at most doubled. */
static void check_outlier(const struct goal *goal, float outlier)
{
    static float row[COLS];
    float back[COLS];
    struct error rest = {0};
    size_t size;

    for (size_t k = 0; k < COLS; k++)
        row[k] = gaussian();
    row[17] = outlier;
    uint8_t *panel = encode_rows(goal->dtype, row, 1, COLS, &size);
    sp_panel_decode(back, goal->dtype, panel, 1, COLS, &sp_tile_ref);
    assert_true(fabs((double)(back[17] - outlier)) < fmax(0.05, goal->error / 2) * (double)outlier);
    add_error(&rest, row + 32, back + 32, COLS - 32);
    print_message("%s: outlier of %g sigma, rest of its row %.4f\n",
                  sp_dtype_info(goal->dtype)->name, (double)outlier, relative_rms(&rest));
    assert_true(relative_rms(&rest) < 2 * goal->error);
}

TEST(test_outlier)
{
    for (size_t i = 0; i < N_TYPES; i++)
        for (float outlier = 8; outlier <= 64; outlier *= 2)
            check_outlier(goals + i, outlier);
}
