#include "format/dtype.h"
#include "format/base/unicode_case.h"
#include "format/base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct sp_dtype_info dtypes[] = {
    {SP_F32, "f32", NULL, "F32", 32, 1, {0}},
    {SP_F16, "f16", NULL, "F16", 16, 1, {0}},
    {SP_BF16, "bf16", NULL, "BF16", 16, 1, {0}},
    {SP_Q8, "q8", "int8", NULL, 0, SP_BLOCK, {0}},
    {SP_Q4, "q4", "int4", NULL, 0, SP_BLOCK, {0}},
    {SP_Q2, "q2", NULL, NULL, 0, SP_BLOCK, {0}},
    {SP_Q3, "q3", NULL, NULL, 0, SP_BLOCK, {0}},
    {SP_Q5, "q5", NULL, NULL, 0, SP_BLOCK, {0}},
    {SP_Q6, "q6", NULL, NULL, 0, SP_BLOCK, {0}},
    {SP_I4G32, "i4g32", NULL, NULL, 0, 32, {SP_GROUP_SCALE, 4, 32, SP_LEVELS_NONE}},
    {SP_U4G32, "u4g32", NULL, NULL, 0, 32, {SP_GROUP_AFFINE, 4, 32, SP_LEVELS_NONE}},
    {SP_U4G64, "u4g64", NULL, NULL, 0, 64, {SP_GROUP_AFFINE, 4, 64, SP_LEVELS_NONE}},
    {SP_U4G128, "u4g128", NULL, NULL, 0, 128, {SP_GROUP_AFFINE, 4, 128, SP_LEVELS_NONE}},
    {SP_Q4_K, "q4_k", NULL, NULL, 0, 256, {SP_GROUP_SUPER, 4, 256, SP_LEVELS_NONE}},
    {SP_MXFP4, "mxfp4", NULL, NULL, 0, 32, {SP_GROUP_E8M0, 4, 32, SP_LEVELS_E2M1}},
    {SP_NVFP4, "nvfp4", NULL, NULL, 0, 32, {SP_GROUP_E4M3, 4, 32, SP_LEVELS_E2M1}},
    {SP_Q2_K, "q2_k", NULL, NULL, 0, 256, {SP_GROUP_DUAL, 2, 256, SP_LEVELS_NONE}},
    {SP_Q3_K, "q3_k", NULL, NULL, 0, 256, {SP_GROUP_HALVES, 3, 256, SP_LEVELS_NONE}},
    {SP_Q5_K, "q5_k", NULL, NULL, 0, 256, {SP_GROUP_SUPER, 5, 256, SP_LEVELS_NONE}},
    {SP_Q6_K, "q6_k", NULL, NULL, 0, 256, {SP_GROUP_HALVES, 6, 256, SP_LEVELS_NONE}},
    {SP_U2G64, "u2g64", NULL, NULL, 0, 64, {SP_GROUP_AFFINE, 2, 64, SP_LEVELS_NONE}},
    {SP_U3G64, "u3g64", NULL, NULL, 0, 64, {SP_GROUP_AFFINE, 3, 64, SP_LEVELS_NONE}},
    {SP_U5G32, "u5g32", NULL, NULL, 0, 32, {SP_GROUP_AFFINE, 5, 32, SP_LEVELS_NONE}},
    {SP_U6G64, "u6g64", NULL, NULL, 0, 64, {SP_GROUP_AFFINE, 6, 64, SP_LEVELS_NONE}},
    {SP_I2G64, "i2g64", NULL, NULL, 0, 64, {SP_GROUP_SCALE, 2, 64, SP_LEVELS_NONE}},
    {SP_I2G256, "i2g256", NULL, NULL, 0, 256, {SP_GROUP_SCALE, 2, 256, SP_LEVELS_NONE}},
    {SP_U2G32, "u2g32", NULL, NULL, 0, 32, {SP_GROUP_AFFINE, 2, 32, SP_LEVELS_NONE}},
    {SP_U3G32, "u3g32", NULL, NULL, 0, 32, {SP_GROUP_AFFINE, 3, 32, SP_LEVELS_NONE}},
    {SP_U6G32, "u6g32", NULL, NULL, 0, 32, {SP_GROUP_AFFINE, 6, 32, SP_LEVELS_NONE}},
    {SP_IQ4_NL, "iq4_nl", NULL, NULL, 0, 32, {SP_GROUP_SCALE, 4, 32, SP_LEVELS_IQ4}},
    {SP_IQ4_XS, "iq4_xs", NULL, NULL, 0, 256, {SP_GROUP_SIGNED, 4, 256, SP_LEVELS_IQ4}},
    {SP_IQ3_XXS, "iq3_xxs", NULL, NULL, 0, 256, {SP_GROUP_ODD, 4, 256, SP_LEVELS_IQ3_XXS}},
    {SP_IQ3_S, "iq3_s", NULL, NULL, 0, 256, {SP_GROUP_ODD, 4, 256, SP_LEVELS_IQ3_S}},
    {SP_IQ2, "iq2", NULL, NULL, 0, 256, {SP_GROUP_ODD, 3, 256, SP_LEVELS_IQ2}},
    {SP_IQ1, "iq1", NULL, NULL, 0, 256, {SP_GROUP_ODD, 3, 256, SP_LEVELS_IQ1}},
    {SP_B1G128, "b1g128", NULL, NULL, 0, 128, {SP_GROUP_SCALE, 1, 128, SP_LEVELS_SIGN}},
    {SP_I8G32, "i8g32", NULL, NULL, 0, 32, {SP_GROUP_SCALE, 8, 32, SP_LEVELS_NONE}},
    {SP_U8G64, "u8g64", NULL, NULL, 0, 64, {SP_GROUP_AFFINE, 8, 64, SP_LEVELS_NONE}},
    {SP_U8G32, "u8g32", NULL, NULL, 0, 32, {SP_GROUP_AFFINE, 8, 32, SP_LEVELS_NONE}},
    {SP_U2G128, "u2g128", NULL, NULL, 0, 128, {SP_GROUP_AFFINE, 2, 128, SP_LEVELS_NONE}},
    {SP_F64, "f64", NULL, "F64", 64, 0, {0}},
    {SP_I8, "i8", NULL, "I8", 8, 0, {0}},
    {SP_U8, "u8", NULL, "U8", 8, 0, {0}},
    {SP_I16, "i16", NULL, "I16", 16, 0, {0}},
    {SP_U16, "u16", NULL, "U16", 16, 0, {0}},
    {SP_I32, "i32", NULL, "I32", 32, 0, {0}},
    {SP_U32, "u32", NULL, "U32", 32, 0, {0}},
    {SP_I64, "i64", NULL, "I64", 64, 0, {0}},
    {SP_U64, "u64", NULL, "U64", 64, 0, {0}},
    {SP_BOOL, "bool", NULL, "BOOL", 8, 0, {0}},
    {SP_F8_E4M3, "f8_e4m3", NULL, "F8_E4M3", 8, 0, {0}},
    {SP_F8_E5M2, "f8_e5m2", NULL, "F8_E5M2", 8, 0, {0}},
    {SP_F8_E8M0, "f8_e8m0", NULL, "F8_E8M0", 8, 0, {0}},
    {SP_F8_E4M3FNUZ, "f8_e4m3fnuz", NULL, "F8_E4M3FNUZ", 8, 0, {0}},
    {SP_F8_E5M2FNUZ, "f8_e5m2fnuz", NULL, "F8_E5M2FNUZ", 8, 0, {0}},
    {SP_F4, "f4", NULL, "F4", 4, 0, {0}},
    {SP_F6_E2M3, "f6_e2m3", NULL, "F6_E2M3", 6, 0, {0}},
    {SP_F6_E3M2, "f6_e3m2", NULL, "F6_E3M2", 6, 0, {0}},
    {SP_C64, "c64", NULL, "C64", 64, 0, {0}},
};

const struct sp_block_dtype sp_block_dtypes[SP_N_BLOCK_DTYPES] = {
    {SP_Q8, 0.0054, "0.001", "0.005", "28 to 50"},
    {SP_Q6, 0.0155, "0.003", "0.012", "28"},
    {SP_Q5, 0.029, "0.006", "0.02", "18"},
    {SP_Q4, 0.060, "0.02", "0.07", "7 to 10"},
    {SP_Q3, 0.12, "0.08", "0.4", "5"},
    {SP_Q2, 0.25, "0.4", "2.6", "2"},
};

const struct sp_block_dtype *sp_block_dtype_find(enum sp_dtype dtype)
{
    for (size_t i = 0; i < SP_N_BLOCK_DTYPES; i++)
        if (sp_block_dtypes[i].dtype == dtype) return &sp_block_dtypes[i];
    return NULL;
}

enum { N_DTYPES = sizeof dtypes / sizeof *dtypes, PANEL_ALIGN = 64 };

static const struct sp_dtype_info *find(uint32_t dtype)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes + i;
    return NULL;
}

const struct sp_dtype_info *sp_dtype_info(enum sp_dtype dtype)
{
    const struct sp_dtype_info *info = find(dtype);

    assert(info != NULL);
    return info;
}

enum sp_dtype sp_dtype_find(const char *name)
{
    for (size_t i = 0; i < N_DTYPES; i++) {
        const struct sp_dtype_info *t = dtypes + i;
        if (!sp_dtype_is_packed(t->dtype) || t->groups.kind) continue;
        if (sp_equal_ignoring_case(t->name, name)) return t->dtype;
        if (t->alias != NULL && sp_equal_ignoring_case(t->alias, name)) return t->dtype;
    }
    return SP_DTYPE_NONE;
}

enum sp_dtype sp_dtype_find_safetensors(const char *name)
{
    for (size_t i = 0; i < N_DTYPES; i++) {
        const char *known = dtypes[i].safetensors;
        if (known != NULL && strcmp(known, name) == 0) return dtypes[i].dtype;
    }
    return SP_DTYPE_NONE;
}

bool sp_dtype_is_packed(uint32_t dtype)
{
    return dtype < SP_N_PACKED_DTYPES && find(dtype) != NULL;
}

bool sp_dtype_is_float(enum sp_dtype dtype)
{
    return dtype == SP_F32 || dtype == SP_F16 || dtype == SP_BF16;
}

bool sp_dtype_is_block(enum sp_dtype dtype)
{
    return dtype == SP_Q8 || sp_dtype_code_bits(dtype) != 0 || sp_dtype_is_groupwise(dtype);
}

bool sp_dtype_is_groupwise(enum sp_dtype dtype)
{
    return sp_dtype_info(dtype)->groups.kind != SP_GROUP_NONE;
}

size_t sp_group_head(const struct sp_groupwise *groups)
{
    return groups->kind == SP_GROUP_E4M3 ? 2 * PANEL_ALIGN : PANEL_ALIGN;
}

size_t sp_group_block_size(const struct sp_groupwise *groups)
{
    return SP_PANEL_ROWS * (SP_BLOCK / 8 * groups->code_bits + sp_group_scale_bytes(groups->kind));
}

size_t sp_group_size(const struct sp_groupwise *groups)
{
    return SP_PANEL_ROWS * sp_group_numbers(groups->kind) +
           groups->cols / SP_BLOCK * sp_group_block_size(groups);
}

bool sp_panel_size(size_t *out, enum sp_dtype dtype, size_t cols)
{
    const struct sp_dtype_info *info = find(dtype);
    const unsigned code_bits = sp_dtype_code_bits(dtype);
    size_t head, unit, size;

    if (info == NULL || info->block == 0 || cols % info->block != 0) return false;
    head = info->groups.kind ? sp_group_head(&info->groups) : code_bits ? SP_MICROSCALE_HEAD : 0;
    unit = info->groups.kind ? sp_group_size(&info->groups)
           : dtype == SP_Q8  ? SP_Q8_BLOCK_SIZE
           : code_bits       ? sp_microscale_block_size(code_bits)
                             : SP_PANEL_ROWS * (info->bits / 8);
    if (!sp_mul(&size, cols / info->block, unit)) return false;
    if (!sp_add(&size, size, head + PANEL_ALIGN - 1)) return false;
    *out = size / PANEL_ALIGN * PANEL_ALIGN;
    return true;
}

/* Product of the first n sizes, left to right. */
static bool product(size_t *out, const uint64_t *shape, unsigned n)
{
    size_t p = 1;

    for (unsigned i = 0; i < n; i++)
        if (shape[i] > SIZE_MAX || !sp_mul(&p, p, (size_t)shape[i])) return false;
    *out = p;
    return true;
}

static bool plain_size(size_t *out, const struct sp_dtype_info *info, const uint64_t *shape,
                       unsigned rank)
{
    size_t n, bits;

    if (info->bits == 0 || !product(&n, shape, rank)) return false;
    if (!sp_mul(&bits, n, info->bits) || bits % 8 != 0) return false;
    *out = bits / 8;
    return true;
}

static bool panels_size(size_t *out, enum sp_dtype dtype, const uint64_t *shape, unsigned rank)
{
    size_t n, rows, size;

    if (rank < 2 || shape[rank - 2] > SIZE_MAX - SP_PANEL_ROWS || shape[rank - 1] > SIZE_MAX)
        return false;
    rows = (size_t)shape[rank - 2];
    if (!product(&n, shape, rank - 2)) return false;
    if (!sp_mul(&n, n, (rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS)) return false;
    if (!sp_panel_size(&size, dtype, (size_t)shape[rank - 1])) return false;
    return sp_mul(out, n, size);
}

bool sp_tensor_size(size_t *out, enum sp_dtype dtype, enum sp_layout layout, const uint64_t *shape,
                    unsigned rank)
{
    const struct sp_dtype_info *info = find(dtype);

    if (info == NULL || rank > SP_MAX_RANK) return false;
    if (layout == SP_PLAIN) return plain_size(out, info, shape, rank);
    return layout == SP_PANEL && panels_size(out, dtype, shape, rank);
}

const char *sp_shape_text(char text[SP_SHAPE_TEXT], const uint64_t *shape, unsigned rank)
{
    size_t n = 0;

    assert(rank <= SP_MAX_RANK);
    text[n++] = '[';
    for (unsigned i = 0; i < rank; i++)
        n += (size_t)sprintf(text + n, i ? ", %" PRIu64 : "%" PRIu64, shape[i]);
    memcpy(text + n, "]", sizeof "]");
    return text;
}
