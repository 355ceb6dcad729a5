/* Tests the codes of quantized checkpoints: every code of the small float types against its
 * definition, and rows and zero points against sums computed by hand. */
#include "quantize/checkpoint_codes.h"
#include "tests/support/unit_test.h"

#include <math.h>

static void assert_same(float got, double expected, unsigned code)
{
    if (isnan(expected) ? isnan(got)
                        : (double)got == expected && !signbit(got) == !signbit(expected))
        return;
    fail_msg("code 0x%02x is %.9g, expected %.9g", code, (double)got, expected);
}

/* Decodes sign, exponent and mantissa as IEEE 754 defines them. The caller handles the largest
 * exponent. */
static double definition(unsigned code, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int e = (int)(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double m = (code & ((1u << mantissa_bits) - 1)) / ldexp(1, mantissa_bits);
    double v = e ? ldexp(1 + m, e - bias) : ldexp(m, 1 - bias);

    return code >> (exponent_bits + mantissa_bits) & 1 ? -v : v;
}

TEST(every_e4m3)
{
    for (unsigned c = 0; c < 256; c++) {
        double expected = (c & 127) == 127 ? (double)NAN : definition(c, 4, 3);
        assert_same(sp_f32_of_e4m3((uint8_t)c), expected, c);
    }
    assert_same(sp_f32_of_e4m3(0x7e), 448, 0x7e);
    assert_same(sp_f32_of_e4m3(0x01), 0.001953125, 0x01);
}

TEST(every_e5m2)
{
    for (unsigned c = 0; c < 256; c++) {
        double expected = definition(c, 5, 2);
        if ((c & 0x7c) == 0x7c) expected = c & 3 ? (double)NAN : c & 128 ? -INFINITY : INFINITY;
        assert_same(sp_f32_of_e5m2((uint8_t)c), expected, c);
    }
    assert_same(sp_f32_of_e5m2(0x7b), 57344, 0x7b);
}

TEST(every_e8m0)
{
    for (unsigned c = 0; c < 255; c++)
        assert_same(sp_f32_of_e8m0((uint8_t)c), ldexp(1, (int)c - 127), c);
    assert_same(sp_f32_of_e8m0(255), (double)NAN, 255);
}

TEST(every_e2m1)
{
    for (unsigned c = 0; c < 16; c++)
        assert_same(sp_f32_of_e2m1(c), definition(c, 2, 1), c);
    assert_same(sp_f32_of_e2m1(7), 6, 7);
}

/* Decodes packed codes, lowest bits first. */
static void decode(float *out, enum sp_code code, unsigned bits, const uint8_t *packed, size_t cols,
                   struct sp_code_groups groups)
{
    float values[256];
    uint8_t codes[64];

    sp_checkpoint_codes_values(values, code, bits);
    sp_checkpoint_codes_unpack(codes, packed, 0, bits, false, cols);
    sp_checkpoint_codes_decode_row(out, values, codes, cols, &groups);
}

/* Decodes one code with scale 1 and without a zero point. */
static float decode_one(enum sp_code code, unsigned bits, uint8_t byte)
{
    float scale = 1, out;

    decode(&out, code, bits, &byte, 1, (struct sp_code_groups){.scales = &scale, .size = 1});
    return out;
}

TEST(every_code_in_a_row)
{
    for (unsigned c = 0; c < 256; c++) {
        uint8_t byte = (uint8_t)c;
        assert_same(decode_one(SP_CODE_SIGNED, 8, byte), c < 128 ? c : c - 256.0, c);
        assert_same(decode_one(SP_CODE_CENTERED, 8, byte), c - 128.0, c);
        assert_same(decode_one(SP_CODE_CENTERED, 4, byte), (c & 15) - 8.0, c);
        assert_same(decode_one(SP_CODE_UNSIGNED, 8, byte), c, c);
        assert_same(decode_one(SP_CODE_UNSIGNED, 3, byte), c & 7, c);
        assert_same(decode_one(SP_CODE_E2M1, 4, byte), definition(c & 15, 2, 1), c);
        if ((c & 127) != 127)
            assert_same(decode_one(SP_CODE_E4M3, 8, byte), definition(c, 4, 3), c);
    }
}

/* The low half of a byte comes first. The last group is shorter. */
TEST(rows)
{
    static const uint8_t nibbles[] = {0x1f, 0x80, 0x07};
    static const uint8_t bytes[] = {0xff, 0x80, 0x7f};
    static const float scales[] = {2, -0.5f, 4}, zeros[] = {3, 0, -1};
    static const float four[] = {14, -14, 4, -0.0f, -4}, with_zeros[] = {8, -20, 4, -0.0f, 0};
    static const float with_biases[] = {17, -11, 4, 0, -5}, later[] = {14, 3.5f, 4, 0, -4};
    static const float indexed[] = {7 * 4 + 4, -14 - 6, 4, 0, 0.5f};
    static const uint32_t index[] = {2, 0, 1, 1, 1};
    static const float fp4[] = {-12, 1, 0, 0, 24};
    static const float eight[] = {-0.5f, -64, 63.5f};
    struct sp_code_groups groups = {.scales = scales, .size = 2};
    float out[5];

    decode(out, SP_CODE_CENTERED, 4, nibbles, 5, groups);
    assert_memory_equal(out, four, sizeof four);
    groups.zeros = zeros;
    decode(out, SP_CODE_CENTERED, 4, nibbles, 5, groups);
    assert_memory_equal(out, with_zeros, sizeof with_zeros);
    groups.biases = true;
    decode(out, SP_CODE_CENTERED, 4, nibbles, 5, groups);
    for (size_t i = 0; i < 5; i++)
        assert_true(out[i] == with_biases[i]);
    groups = (struct sp_code_groups){.scales = scales, .zeros = zeros, .size = 2, .index = index};
    decode(out, SP_CODE_CENTERED, 4, nibbles, 5, groups);
    for (size_t i = 0; i < 5; i++)
        assert_true(out[i] == indexed[i]);
    groups = (struct sp_code_groups){.scales = scales, .size = 2, .first = 1};
    decode(out, SP_CODE_CENTERED, 4, nibbles, 5, groups);
    for (size_t i = 0; i < 5; i++)
        assert_true(out[i] == later[i]);
    groups = (struct sp_code_groups){.scales = scales, .size = 2};
    decode(out, SP_CODE_E2M1, 4, nibbles, 5, groups);
    for (size_t i = 0; i < 5; i++)
        assert_true(out[i] == fp4[i]);
    groups = (struct sp_code_groups){.scales = (float[]){0.5f}, .size = 3};
    decode(out, SP_CODE_SIGNED, 8, bytes, 3, groups);
    assert_memory_equal(out, eight, sizeof eight);
}

/* Every width, from every bit of a byte on, against single bits. No byte beyond the last code is
 * read. */
TEST(unpacking)
{
    static const uint8_t bytes[] = {0x1b, 0xc5, 0x72, 0x9e, 0x03, 0xf8, 0x64, 0xad, 0x31, 0x5c};
    uint8_t codes[64];

    for (unsigned bits = 2; bits <= 8; bits++) {
        for (unsigned first = 0; first < 2; first++) {
            size_t bit = first * bits, n = (8 * sizeof bytes - bit) / bits;
            sp_checkpoint_codes_unpack(codes, bytes, bit, bits, false, n);
            for (size_t i = 0; i < n; i++) {
                unsigned want = 0;
                for (unsigned b = 0; b < bits; b++) {
                    size_t at = bit + i * bits + b;
                    want |= (unsigned)(bytes[at / 8] >> at % 8 & 1) << b;
                }
                assert_int_equal(codes[i], want);
            }
        }
    }
    sp_checkpoint_codes_unpack(codes, bytes, 4, 4, true, 3);
    assert_memory_equal(codes, ((uint8_t[]){0xb, 0xc, 0x5}), 3);
    sp_checkpoint_codes_unpack(codes, bytes, 0, 4, true, 3);
    assert_memory_equal(codes, ((uint8_t[]){0x1, 0xb, 0xc}), 3);
}

/* 1, -1.5 or the nearest representable number in every type. */
TEST(numbers)
{
    static const struct {
        enum sp_dtype dtype;
        uint8_t bytes[8];
        float values[2];
    } cases[] = {
        {SP_F32, {0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0xbf}, {1, -1.5f}},
        {SP_F16, {0, 0x3c, 0, 0xbe}, {1, -1.5f}},
        {SP_BF16, {0x80, 0x3f, 0xc0, 0xbf}, {1, -1.5f}},
        {SP_F8_E4M3, {0x38, 0xbc}, {1, -1.5f}},
        {SP_F8_E5M2, {0x3c, 0xbe}, {1, -1.5f}},
        {SP_F8_E8M0, {127, 120}, {1, 0.0078125f}},
        {SP_I8, {1, 0xfe}, {1, -2}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float out[2];
        assert_int_equal(sp_checkpoint_codes_can_read(cases[i].dtype, false),
                         cases[i].dtype != SP_I8);
        assert_int_equal(sp_checkpoint_codes_can_read(cases[i].dtype, true),
                         cases[i].dtype != SP_F8_E8M0);
        sp_checkpoint_codes_read(out, cases[i].dtype, cases[i].bytes, 2);
        assert_memory_equal(out, cases[i].values, sizeof out);
    }
    assert_false(sp_checkpoint_codes_can_read(SP_F64, false));
    assert_false(sp_checkpoint_codes_can_read(SP_I32, true));
}
