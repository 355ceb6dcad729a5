/* format/dtype.h: the table, and sizes computed by hand from the layouts that the header states. */
#include "format/dtype.h"
#include "tests/support/unit_test.h"

/* Every type name of the safetensors format (its README, "Format") with its number of bits. */
static const struct {
    const char *name;
    unsigned bits;
} safetensors[] = {
    {"BOOL", 8},        {"U8", 8},      {"I8", 8},      {"F4", 4},      {"F6_E2M3", 6},
    {"F6_E3M2", 6},     {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

TEST(table)
{
    unsigned n_packed = 0, n_source = 0;

    for (uint32_t d = 0; d <= SP_C64; d++) {
        if (d == SP_DTYPE_NONE || d == 5 || (d >= SP_N_PACKED_DTYPES && d < SP_F64)) continue;
        const struct sp_dtype_info *info = sp_dtype_info((enum sp_dtype)d);
        assert_int_equal(info->dtype, d);
        assert_int_equal(sp_dtype_is_packed(d), d < SP_N_PACKED_DTYPES);
        assert_int_equal(sp_dtype_is_groupwise((enum sp_dtype)d), d >= 11 && d < 42);
        assert_int_equal(sp_dtype_find(info->name), d <= SP_Q6 ? d : SP_DTYPE_NONE);
        if (info->alias) assert_int_equal(sp_dtype_find(info->alias), d);
        if (info->safetensors) assert_int_equal(sp_dtype_find_safetensors(info->safetensors), d);
        n_packed += sp_dtype_is_packed(d);
        n_source += info->safetensors != NULL;
    }
    assert_int_equal(n_packed, 40);
    assert_int_equal(n_source, sizeof safetensors / sizeof *safetensors);
    assert_int_equal(SP_F32, 1);
    assert_int_equal(SP_F16, 2);
    assert_int_equal(SP_BF16, 3);
    assert_int_equal(SP_Q8, 4);
    assert_int_equal(SP_Q4, 6);
    assert_int_equal(SP_Q2, 7);
    assert_int_equal(SP_Q3, 8);
    assert_int_equal(SP_Q5, 9);
    assert_int_equal(SP_Q6, 10);
    assert_int_equal(SP_I4G32, 11);
    assert_int_equal(SP_I2G256, 27);
    assert_int_equal(SP_IQ4_NL, 31);
    assert_int_equal(SP_B1G128, 37);
    assert_int_equal(SP_U2G128, 41);
}

TEST(names)
{
    assert_int_equal(sp_dtype_find("Q4"), SP_Q4);
    assert_int_equal(sp_dtype_find("int4"), SP_Q4);
    assert_int_equal(sp_dtype_find("INT8"), SP_Q8);
    assert_int_equal(sp_dtype_find("bf16"), SP_BF16);
    assert_int_equal(sp_dtype_find("f64"), SP_DTYPE_NONE);
    assert_int_equal(sp_dtype_find(""), SP_DTYPE_NONE);
    for (size_t i = 0; i < sizeof safetensors / sizeof *safetensors; i++) {
        enum sp_dtype d = sp_dtype_find_safetensors(safetensors[i].name);
        assert_int_not_equal(d, SP_DTYPE_NONE);
        assert_int_equal(sp_dtype_info(d)->bits, safetensors[i].bits);
    }
    assert_int_equal(sp_dtype_find_safetensors("f32"), SP_DTYPE_NONE);
    assert_int_equal(sp_dtype_find_safetensors("q4"), SP_DTYPE_NONE);
    assert_int_equal(sp_dtype_find_safetensors("F8"), SP_DTYPE_NONE);
    assert_true(sp_dtype_is_float(SP_BF16) && sp_dtype_is_float(SP_F16) &&
                sp_dtype_is_float(SP_F32));
    assert_false(sp_dtype_is_float(SP_F64) || sp_dtype_is_float(SP_Q8));
    assert_false(sp_dtype_is_packed(0) || sp_dtype_is_packed(5) || sp_dtype_is_packed(42));
    assert_false(sp_dtype_is_packed(UINT32_MAX));
}

TEST(panels)
{
    static const struct {
        enum sp_dtype dtype;
        size_t cols;
        bool possible;
        size_t size;
    } cases[] = {
        {SP_F32, 0, true, 0},
        {SP_F32, 1, true, 64},
        {SP_F32, 3, true, 192},
        {SP_F16, 1, true, 64},
        {SP_F16, 2, true, 64},
        {SP_BF16, 3, true, 128},
        {SP_Q8, 32, true, 576},
        {SP_Q8, 64, true, 1088},
        {SP_Q8, 16, false, 0},
        {SP_Q4, 32, true, 384},
        {SP_Q4, 64, true, 640},
        {SP_Q4, 1024, true, 9280},
        {SP_Q2, 32, true, 256},
        {SP_Q3, 32, true, 320},
        {SP_Q5, 32, true, 448},
        {SP_Q6, 64, true, 896},
        {SP_Q6, 48, false, 0},
        {SP_Q4, 33, false, 0},
        {SP_I4G32, 32, true, 64 + 320},
        {SP_U4G32, 64, true, 64 + 2 * 320},
        {SP_U4G64, 64, true, 64 + 576},
        {SP_U4G64, 96, false, 0},
        {SP_U4G128, 256, true, 64 + 2176},
        {SP_Q4_K, 256, true, 64 + 64 + 8 * 288},
        {SP_MXFP4, 64, true, 64 + 576},
        {SP_NVFP4, 32, true, 128 + 320},
        {SP_Q2_K, 256, true, 128 + 8 * 160},
        {SP_Q3_K, 256, true, 64 + 64 + 8 * 224},
        {SP_Q6_K, 256, true, 64 + 64 + 8 * 416},
        {SP_I2G256, 512, true, 64 + 2112},
        {SP_I8G32, 64, true, 64 + 1088},
        {SP_F64, 32, false, 0},
        {SP_I8, 32, false, 0},
        {SP_F32, SIZE_MAX / 64 + 1, false, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = 1;
        assert_int_equal(sp_panel_size(&size, cases[i].dtype, cases[i].cols), cases[i].possible);
        assert_int_equal(size, cases[i].possible ? cases[i].size : 1);
    }
}

TEST(tensors)
{
    static const struct {
        enum sp_dtype dtype;
        enum sp_layout layout;
        unsigned rank;
        uint64_t shape[4];
        bool possible;
        size_t size;
    } cases[] = {
        {SP_F32, SP_PLAIN, 0, {0}, true, 4},
        {SP_F32, SP_PLAIN, 1, {5}, true, 20},
        {SP_BF16, SP_PLAIN, 3, {2, 3, 5}, true, 60},
        {SP_F32, SP_PLAIN, 2, {0, 7}, true, 0},
        {SP_F32, SP_PLAIN, 3, {0, UINT64_C(1) << 63, 4}, true, 0},
        {SP_F32, SP_PLAIN, 3, {UINT64_C(1) << 63, 4, 0}, false, 0},
        {SP_F32, SP_PLAIN, 1, {UINT64_C(1) << 59}, false, 0},
        {SP_U8, SP_PLAIN, 1, {(UINT64_C(1) << 61) - 1}, true, (UINT64_C(1) << 61) - 1},
        {SP_U8, SP_PLAIN, 1, {UINT64_C(1) << 61}, false, 0},
        {SP_F4, SP_PLAIN, 2, {1, 3}, false, 0},
        {SP_F4, SP_PLAIN, 2, {2, 3}, true, 3},
        {SP_F6_E2M3, SP_PLAIN, 1, {4}, true, 3},
        {SP_Q4, SP_PLAIN, 1, {32}, false, 0},
        {SP_F32, SP_PANEL, 1, {16}, false, 0},
        {SP_F32, SP_PANEL, 2, {16, 3}, true, 192},
        {SP_F32, SP_PANEL, 2, {17, 3}, true, 384},
        {SP_Q8, SP_PANEL, 2, {1, 32}, true, 576},
        {SP_Q4, SP_PANEL, 3, {3, 17, 64}, true, 3840},
        {SP_Q4, SP_PANEL, 2, {17, 48}, false, 0},
        {SP_Q2, SP_PANEL, 2, {17, 64}, true, 768},
        {SP_Q5, SP_PLAIN, 1, {32}, false, 0},
        {SP_F64, SP_PANEL, 2, {16, 32}, false, 0},
        {SP_F32, SP_PANEL, 2, {UINT64_MAX, 1}, false, 0},
        {SP_F32, SP_PANEL, 2, {1, UINT64_MAX}, false, 0},
        {SP_F32, SP_PANEL, 3, {UINT64_MAX, 16, 1}, false, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = 1;
        bool ok =
            sp_tensor_size(&size, cases[i].dtype, cases[i].layout, cases[i].shape, cases[i].rank);
        assert_int_equal(ok, cases[i].possible);
        if (ok) assert_int_equal(size, cases[i].size);
    }
}

TEST(shapes)
{
    const uint64_t most[SP_MAX_RANK] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                        UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const uint64_t some[] = {3, 16, 0};
    char text[SP_SHAPE_TEXT];

    assert_string_equal(sp_shape_text(text, some, 0), "[]");
    assert_string_equal(sp_shape_text(text, some, 1), "[3]");
    assert_string_equal(sp_shape_text(text, some, 3), "[3, 16, 0]");
    assert_string_equal(sp_shape_text(text, most, SP_MAX_RANK),
                        "[18446744073709551615, 18446744073709551615, 18446744073709551615, "
                        "18446744073709551615, 18446744073709551615, 18446744073709551615, "
                        "18446744073709551615, 18446744073709551615]");
}
