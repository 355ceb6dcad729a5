/* Tests casts and q8 against values computed in Python, panels of every type against the layout
 * that format/dtype.h states, for all row counts, refusals, and error sums against sums computed by
 * hand. */
#include "format/base/bytes.h"
#include "quantize/codec.h"
#include "quantize/kernels/kernels.h"
#include "quantize/types/q8.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/microscale.h"
#include "tests/support/microscale_bytes.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"

#include <float.h>
#include <math.h>

static const enum sp_dtype types[] = {SP_F32, SP_F16, SP_BF16, SP_Q8, SP_Q4,
                                      SP_Q2,  SP_Q3,  SP_Q5,   SP_Q6};

enum { N_TYPES = sizeof types / sizeof *types };

static uint32_t random_state = 1;

/* Returns a number between -1 and 1. */
static float noise(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(int32_t)random_state * 0x1p-31f;
}

TEST(test_casts)
{
    size_t n;
    uint64_t *lines = vector_file_read("casts.txt", 3, &n);

    for (size_t i = 0; i < n; i++) {
        float f = sp_float_of_bits((uint32_t)lines[3 * i]);
        assert_int_equal(sp_f16_of_f32(f), lines[3 * i + 1]);
        assert_int_equal(sp_bf16_of_f32(f), lines[3 * i + 2]);
    }
    lines = vector_file_read("f64.txt", 2, &n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sp_bits_of_float(sp_f32_of_f64(lines[2 * i])), lines[2 * i + 1]);
}

/* Decodes every f16 and bf16 by its formula, and encodes it back to the same bits. */
TEST(test_all_halves)
{
    for (uint32_t h = 0; h < 65536; h++) {
        int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
        float sign = h & 0x8000 ? -1.0f : 1.0f, f = sp_f32_of_f16((uint16_t)h);
        uint16_t b = (uint16_t)h;
        if (exponent == 31)
            assert_true(fraction ? isnan(f) : f == sign * INFINITY);
        else if (exponent == 0)
            assert_true(f == sign * ldexpf((float)fraction, -24));
        else
            assert_true(f == sign * ldexpf((float)(1024 + fraction), exponent - 25));
        assert_int_equal(signbit(f) != 0, h >> 15);
        assert_int_equal(sp_f16_of_f32(f), isnan(f) ? h | 0x200 : h);
        f = sp_f32_of_bf16(b);
        assert_int_equal(sp_bf16_of_f32(f), isnan(f) ? h | 0x40 : h);
    }
}

TEST(test_unaligned_sources)
{
    static const double want[] = {1, -2.5, 0, 0.25, 1024, -3, 7};
    static const uint8_t integers[3][8] = {
        {7}, {0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 1}};
    uint8_t bytes[8 * 7 + 8];
    float out[7], x[7];

    for (size_t i = 0; i < 7; i++)
        x[i] = (float)want[i];
    for (size_t shift = 0; shift < 8; shift++) {
        assert_ok(sp_encode_floats(bytes + shift, SP_F32, x, 7, 0, NULL));
        sp_decode_floats(out, SP_F32, bytes + shift, 7);
        assert_memory_equal(out, x, sizeof x);
        assert_ok(sp_encode_floats(bytes + shift, SP_F16, x, 7, 0, NULL));
        assert_int_equal(sp_get16(bytes + shift + 2), 0xc100); /* -2.5 */
        sp_decode_floats(out, SP_F16, bytes + shift, 7);
        assert_memory_equal(out, x, sizeof x);
        assert_ok(sp_encode_floats(bytes + shift, SP_BF16, x, 7, 0, NULL));
        assert_int_equal(sp_get16(bytes + shift + 2), 0xc020);
        sp_decode_floats(out, SP_BF16, bytes + shift, 7);
        assert_memory_equal(out, x, sizeof x);
        memcpy(bytes + shift, want, sizeof want);
        sp_decode_floats(out, SP_F64, bytes + shift, 7);
        assert_memory_equal(out, x, sizeof x);
    }
    for (size_t i = 0; i < 3; i++) /* little-endian 7, -3, 2^24 */
        memcpy(bytes + 1 + 8 * i, integers[i], 8);
    sp_decode_floats(out, SP_I64, bytes + 1, 3);
    assert_true(out[0] == 7 && out[1] == -3 && out[2] == 16777216);
    assert_true(sp_can_decode_floats(SP_F64) && sp_can_decode_floats(SP_BF16));
    assert_false(sp_can_decode_floats(SP_Q4) || sp_can_decode_floats(SP_I8));
}

TEST(test_q8)
{
    size_t n;
    uint64_t *lines = vector_file_read("q8.txt", 65, &n);

    for (size_t i = 0; i < n; i++) {
        const uint64_t *line = lines + 65 * i;
        size_t row = i % 16;
        float tile[512] = {0}, out[32];
        uint8_t block[SP_Q8_BLOCK_SIZE];
        for (size_t k = 0; k < 32; k++)
            tile[32 * row + k] = sp_float_of_bits((uint32_t)line[k]);
        sp_q8_encode_block(block, tile);
        assert_int_equal(sp_get16(block + 512 + 2 * row), line[32]);
        sp_q8_decode_row(out, block, 32, row);
        for (size_t k = 0; k < 32; k++) {
            assert_int_equal(block[64 * (k / 4) + 4 * row + k % 4], line[33 + k]);
            assert_true(out[k] == ((float)line[33 + k] - 128) * sp_f32_of_bf16((uint16_t)line[32]));
        }
    }
}

/* Decodes the weight of (row, k) from a panel by the layout that format/dtype.h states. */
static float weight_at(enum sp_dtype dtype, const uint8_t *panel, size_t row, size_t k)
{
    const uint8_t *block;
    size_t i = k % 32;
    int byte, entry;

    switch (dtype) {
    case SP_F32:
        return sp_float_of_bits(sp_get32(panel + 4 * (16 * k + row)));
    case SP_F16:
        return sp_f32_of_f16(sp_get16(panel + 2 * (16 * k + row)));
    case SP_BF16:
        return sp_f32_of_bf16(sp_get16(panel + 2 * (16 * k + row)));
    case SP_Q8:
        block = panel + k / 32 * 544;
        return (float)(block[64 * (i / 4) + 4 * row + i % 4] - 128) *
               sp_f32_of_bf16(sp_get16(block + 512 + 2 * row));
    default:
        entry = microscale_code(&byte, sp_dtype_code_bits(dtype), panel, row, k);
        return sp_float_of_bits(sp_get32(panel + 4 * row)) * (float)(byte * entry);
    }
}

static void check_panel(enum sp_dtype dtype, const struct sp_encoder *encoder, size_t n_rows,
                        size_t cols)
{
    /* The largest error of one weight, relative to the largest weight in a row of noise. */
    static const float tolerance[] = {
        [SP_F32] = 0,         [SP_F16] = 0x1p-11f, [SP_BF16] = 0x1p-8f,
        [SP_Q8] = 0.5f / 126, [SP_Q4] = 0.2f,      [SP_Q2] = 0.8f,
        [SP_Q3] = 0.4f,       [SP_Q5] = 0.1f,      [SP_Q6] = 0.05f};
    float rows[16 * 96], back[16 * 96], one[96];
    uint8_t panel[16 * 96 * 4 + 64];
    size_t size = 0;

    for (size_t i = 0; i < n_rows * cols; i++)
        rows[i] = noise();
    assert_true(sp_panel_size(&size, dtype, cols) && size <= sizeof panel);
    memset(panel, 0xaa, sizeof panel);
    assert_ok(sp_panel_encode(panel, dtype, encoder, rows, n_rows, cols, 0, NULL, NULL, NULL));
    for (size_t i = size; i < sizeof panel; i++)
        assert_int_equal(panel[i], 0xaa);
    sp_panel_decode(back, dtype, panel, n_rows, cols, encoder->kernels);
    for (size_t row = 0; row < 16; row++) {
        sp_panel_row(one, dtype, panel, cols, row);
        for (size_t k = 0; k < cols; k++) {
            float want = row < n_rows ? rows[row * cols + k] : 0;
            assert_true(fabsf(one[k] - want) <= tolerance[dtype]);
            assert_true(one[k] == weight_at(dtype, panel, row, k));
            if (row < n_rows) assert_true(one[k] == back[row * cols + k]);
        }
    }
}

TEST(test_panels)
{
    struct sp_encoder encoder;

    sp_encoder_init(&encoder);
    for (size_t t = 0; t < N_TYPES; t++) {
        bool blocks = !sp_dtype_is_float(types[t]);
        for (size_t n_rows = 1; n_rows <= 16; n_rows++)
            for (size_t cols = blocks ? 32 : 1; cols <= 96; cols += blocks ? 32 : 19)
                check_panel(types[t], &encoder, n_rows, cols);
    }
}

/* The bytes between the last column and the panel's end are zero. */
TEST(test_padding)
{
    struct sp_encoder encoder;
    float rows[16 * 3];
    uint8_t panel[128];
    size_t size = 0;

    sp_encoder_init(&encoder);
    for (size_t i = 0; i < 16 * 3; i++)
        rows[i] = 1 + noise();
    assert_true(sp_panel_size(&size, SP_BF16, 3) && size == 128);
    memset(panel, 0xaa, sizeof panel);
    assert_ok(sp_panel_encode(panel, SP_BF16, &encoder, rows, 16, 3, 0, NULL, NULL, NULL));
    for (size_t i = 96; i < 128; i++)
        assert_int_equal(panel[i], 0);
}

/* bf16 and f16 weights keep their bits in a panel. */
TEST(test_lossless)
{
    static const enum sp_dtype halves[] = {SP_F16, SP_BF16};
    struct sp_encoder encoder;
    uint8_t source[16 * 32 * 2], panel[16 * 32 * 2];
    float rows[16 * 32];

    sp_encoder_init(&encoder);
    for (size_t t = 0; t < 2; t++) {
        uint32_t infinity = halves[t] == SP_F16 ? 0x7c00 : 0x7f80;
        for (uint32_t h = 0; h < 65536; h += 16 * 32) {
            for (uint32_t i = 0; i < 16 * 32; i++)
                sp_put16(source + 2 * i, (uint16_t)(((h + i) & 0x7fff) < infinity ? h + i : 0));
            sp_decode_floats(rows, halves[t], source, 16 * 32);
            assert_ok(
                sp_panel_encode(panel, halves[t], &encoder, rows, 16, 32, 0, NULL, NULL, NULL));
            for (size_t row = 0; row < 16; row++)
                for (size_t k = 0; k < 32; k++)
                    assert_memory_equal(panel + 2 * (16 * k + row), source + 2 * (32 * row + k), 2);
        }
    }
}

static void check_refusal(enum sp_dtype dtype, float value, const char *message)
{
    struct sp_encoder encoder;
    float rows[3 * 320] = {0};
    uint8_t panel[16 * 320 * 4 + 64];

    sp_encoder_init(&encoder);
    rows[2 * 320 + 300] = value;
    assert_fails_as(sp_panel_encode(panel, dtype, &encoder, rows, 3, 320, 160, NULL, NULL, why),
                    SP_E_INPUT, message);
}

TEST(test_refusals)
{
    float x[] = {1, 65519.996f, 65520, 1};
    uint8_t out[16];

    for (size_t t = 0; t < N_TYPES; t++) {
        check_refusal(types[t], NAN, "row 162, column 300: NaN where a number is expected");
        check_refusal(types[t], -INFINITY,
                      "row 162, column 300: infinity where a number is expected");
    }
    check_refusal(SP_F16, 70000, "row 162, column 300: 70000 does not fit in f16");
    check_refusal(SP_BF16, FLT_MAX, "row 162, column 300: 3.40282347e+38 does not fit in bf16");
    assert_fails_as(sp_encode_floats(out, SP_F16, x, 4, 10, why), SP_E_INPUT,
                    "element 12: 65520 does not fit in f16");
    assert_ok(sp_encode_floats(out, SP_F16, x, 2, 10, NULL));
    assert_int_equal(sp_get16(out + 2), 0x7bff);
}

/* Encoding decoded q8 weights gives the same codes and scales. */
TEST(test_q8_is_stable)
{
    struct sp_encoder encoder;
    float rows[16 * 64];
    uint8_t first[2 * SP_Q8_BLOCK_SIZE], second[2 * SP_Q8_BLOCK_SIZE];

    sp_encoder_init(&encoder);
    for (size_t i = 0; i < 16 * 64; i++)
        rows[i] = noise() * noise();
    assert_ok(sp_panel_encode(first, SP_Q8, &encoder, rows, 16, 64, 0, NULL, NULL, NULL));
    sp_panel_decode(rows, SP_Q8, first, 16, 64, encoder.kernels);
    assert_ok(sp_panel_encode(second, SP_Q8, &encoder, rows, 16, 64, 0, NULL, NULL, NULL));
    assert_memory_equal(first, second, sizeof first);
}

/* Fills a tile with rows of different sizes: zeros, numbers too small or too large for a scale, and
 * numbers halfway between two codes. */
static void fill_tile(float *tile, unsigned seed)
{
    static const float sizes[] = {0, 1e-45f, 1e-38f, 2e-36f, 1e-3f, 1, 63.5f, 3e38f, FLT_MAX};
    uint32_t random = seed * 2654435761u + 1;

    for (size_t i = 0; i < 512; i++) {
        size_t row = i / 32;
        random = random * 1664525 + 1013904223;
        float whole = (float)((int)(random >> 24) - 128) / 128;
        tile[i] = whole * sizes[(row + seed) % (sizeof sizes / sizeof *sizes)];
        if (i % 32 == 7) tile[i] = -sizes[(row + seed) % (sizeof sizes / sizeof *sizes)];
    }
}

static void check_tile(const struct sp_tile_kernels *kernels, const float *tile)
{
    uint8_t expected[SP_Q8_BLOCK_SIZE], block[SP_Q8_BLOCK_SIZE];
    _Alignas(64) int16_t v[512], w[512];
    float inverse[16], columns[512], rope[512];

    sp_q8_encode_block(expected, tile);
    memset(block, 0xaa, sizeof block);
    kernels->encode_q8(block, tile);
    assert_memory_equal(block, expected, sizeof block);

    for (size_t row = 0; row < 16; row++) {
        float max = sp_float_of_bits(sp_tile_ref.max_bits(tile + 32 * row, 32));
        inverse[row] = max > 1e-30f ? 24735.0f / max : 0;
    }
    sp_tile_ref.whole_q4(v, tile, inverse);
    kernels->whole_q4(w, tile, inverse);
    assert_memory_equal(v, w, sizeof v);

    for (size_t n = 0; n < 512; n += n < 70 ? 1 : 37) {
        const float *x = tile + (512 - n) / 2;
        assert_int_equal(kernels->max_bits(x, n), sp_tile_ref.max_bits(x, n));
    }
    for (size_t k = 0; k < 32; k += 16)
        kernels->transpose(columns + 16 * k, 16, tile + k, 32);
    for (size_t i = 0; i < 512; i++)
        assert_true(columns[16 * (i % 32) + i / 32] == tile[i]);
    for (size_t k = 0; k < 32; k += 16)
        kernels->transpose(rope + k, 32, columns + 16 * k, 16);
    assert_memory_equal(rope, tile, sizeof rope);
}

TEST(test_tile_kernels_agree)
{
    float tile[512];

    for (unsigned seed = 0; seed < 200; seed++) {
        fill_tile(tile, seed);
        for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++)
            if (sp_kernels_supported(*k)) check_tile((*k)->tile, tile);
    }
    tile[300] = NAN;
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!sp_kernels_supported(*k)) continue;
        assert_true((*k)->tile->max_bits(tile, 512) > 0x7f800000u);
    }
}
