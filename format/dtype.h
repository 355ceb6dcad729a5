/* The types of stored numbers, and the two layouts that tensors have in a packed file.
 *
 * PLAIN: elements in row-major order, as in safetensors. Vectors (norms, biases) and everything
 * that is not a matrix product's weight.
 *
 * PANEL: matrices [rows][cols]. 16 consecutive rows form a panel; inside a panel the columns (k)
 * ascend, and the 16 rows lie side by side, so that one vector lane is one output row. Rows are
 * padded with zeros to a multiple of 16; every panel is padded with zero bytes to a multiple of 64.
 * Leading dimensions (experts) repeat the matrix. Per panel:
 *
 *   f32        [cols][16] f32
 *   f16, bf16  [cols][16] 16-bit
 *   q8         [cols/32] blocks of 544 bytes:
 *                 512 u8   code + 128; byte 64*(k/4) + 4*row + k%4, k = 0..31
 *                  32      bf16 scale of each row: w = (code) * scale, code in -127..127
 *   q4         64 bytes: f32 scale of each row, then [cols/32] blocks of 288 bytes:
 *                 256 u8   two halves h of 16 k: byte 128*h + 64*v + 4*row + j, v = 0..1, j = 0..3:
 *                          low nibble k = 16h + 4v + j, high nibble k = 16h + 8 + 4v + j
 *                  32 u8   scale byte of (h, row) at 16*h + row; see quantize/types/microscale.h
 *   q2, q3,    as q4, with blocks of 64 * bits + 32 bytes. The bits of a code lie in planes, the
 *   q5, q6     lowest bits first: q2: 2, q3: 2 + 1, q5: 4 + 1, q6: 4 + 2; then the scale bytes.
 *              A plane of 4 bits is that of q4; with g = k/4, in units of bytes and bits
 *                 8 bits   512 u8: byte 64*g + 4*row + k%4
 *                 2 bits   128 u8: byte 64*(g/4) + 4*row + k%4, from bit 2*(g%4)
 *                 1 bit    64 u8: byte 4*row + k%4, bit g
 *   the codes  a line that only its first byte, of flags, uses; of nvfp4 then a line of the f32
 *   of a       factor of each row. Then groups: first [16] of each of their numbers, then blocks of
 *   source     32 columns: the codes in planes as above, then [16] of each of their scale bytes.
 *              What these are: quantize/types/groupwise.h
 *
 * Block types need cols % 32 == 0, those with codes of a source whole groups of columns. The tables
 * of codebooks and scales: spectool-pack(5). */
#ifndef SP_FORMAT_DTYPE_H
#define SP_FORMAT_DTYPE_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are part of the packed file's format; 5 was a q4 with other codebooks, before the
 * first release. The second group occurs in sources only. */
enum sp_dtype {
    SP_DTYPE_NONE = 0,
    SP_F32 = 1,
    SP_F16 = 2,
    SP_BF16 = 3,
    SP_Q8 = 4,
    SP_Q4 = 6,
    SP_Q2 = 7,
    SP_Q3 = 8,
    SP_Q5 = 9,
    SP_Q6 = 10,
    SP_I4G32 = 11, /* from here on: types that keep the codes of a source */
    SP_U4G32,
    SP_U4G64,
    SP_U4G128,
    SP_Q4_K,
    SP_MXFP4,
    SP_NVFP4,
    SP_Q2_K,
    SP_Q3_K,
    SP_Q5_K,
    SP_Q6_K,
    SP_U2G64,
    SP_U3G64,
    SP_U5G32,
    SP_U6G64,
    SP_I2G64,
    SP_I2G256,
    SP_U2G32,
    SP_U3G32,
    SP_U6G32,
    SP_IQ4_NL,
    SP_IQ4_XS,
    SP_IQ3_XXS,
    SP_IQ3_S,
    SP_IQ2,
    SP_IQ1,
    SP_B1G128,
    SP_I8G32,
    SP_U8G64,
    SP_U8G32,
    SP_U2G128,
    SP_N_PACKED_DTYPES,
    SP_N_BLOCK_DTYPES = 6, /* those that weights are rounded to */

    SP_F64 = 64,
    SP_I8,
    SP_U8,
    SP_I16,
    SP_U16,
    SP_I32,
    SP_U32,
    SP_I64,
    SP_U64,
    SP_BOOL,
    SP_F8_E4M3,
    SP_F8_E5M2,
    SP_F8_E8M0,
    SP_F8_E4M3FNUZ,
    SP_F8_E5M2FNUZ,
    SP_F4,
    SP_F6_E2M3,
    SP_F6_E3M2,
    SP_C64,
};

/* The names and aliases of the types that weights can be converted to, in the order of lists. */
#define SP_DTYPE_NAMES "f32", "f16", "bf16", "q8", "q6", "q5", "q4", "q3", "q2", "int8", "int4"

enum sp_layout { SP_PLAIN = 0, SP_PANEL = 1 };

enum {
    SP_PANEL_ROWS = 16, /* rows of a panel */
    SP_BLOCK = 32,      /* weights of a block along k, and of an activation block */
    SP_Q8_BLOCK_SIZE = 544,
    SP_Q4_BLOCK_SIZE = 288,
    SP_MICROSCALE_HEAD = 64, /* bytes of the row scales that a panel of q2 to q6 begins with */
    SP_MAX_RANK = 8,
};

/* What the columns of a group share, in a type that keeps the codes of a source. */
enum sp_groupwise_kind {
    SP_GROUP_NONE,
    SP_GROUP_SCALE,  /* a 16-bit scale */
    SP_GROUP_AFFINE, /* a 16-bit scale, and a 16-bit zero point or bias */
    SP_GROUP_SUPER,  /* two f16; each block multiplies them by bytes: scale and minimum */
    SP_GROUP_HALVES, /* an f16; each half of a block multiplies it by a signed byte */
    SP_GROUP_DUAL,   /* two f16; each half of a block multiplies them by a half of a byte */
    SP_GROUP_SIGNED, /* an f16; each block multiplies it by a signed byte */
    SP_GROUP_ODD,    /* an f16; each half of a block multiplies it by an odd number below 32 */
    SP_GROUP_E8M0,   /* an exponent byte */
    SP_GROUP_E4M3,   /* a small float for each half of the only block */
};

/* What codes of at most 4 bits stand for, if not for themselves: quantize/types/groupwise.h. */
enum sp_levels {
    SP_LEVELS_NONE,
    SP_LEVELS_E2M1,
    SP_LEVELS_IQ4,
    SP_LEVELS_IQ3_XXS,
    SP_LEVELS_IQ3_S,
    SP_LEVELS_IQ2,
    SP_LEVELS_IQ1,
    SP_LEVELS_SIGN,
    SP_N_LEVELS
};

struct sp_groupwise {
    enum sp_groupwise_kind kind;
    unsigned code_bits, cols; /* of a code; of a group */
    enum sp_levels levels;
};

struct sp_dtype_info {
    enum sp_dtype dtype;
    const char *name;        /* spectool's: "f32", "q4"; static */
    const char *alias;       /* ollama's spelling ("int4") or NULL; static */
    const char *safetensors; /* name in a safetensors header or NULL; static */
    unsigned bits;           /* of one element in PLAIN layout; 0 for block types */
    unsigned block; /* cols must be a multiple of this in PANEL layout; 0: no PANEL layout */
    struct sp_groupwise groups; /* of kind SP_GROUP_NONE: the type has no codes of a source */
};

/* Bits of a code of q2 to q6 (quantize/types/microscale.h), constant where the type is; 0 for other
 * types. */
static inline unsigned sp_dtype_code_bits(enum sp_dtype dtype)
{
    switch (dtype) {
    case SP_Q2:
        return 2;
    case SP_Q3:
        return 3;
    case SP_Q4:
        return 4;
    case SP_Q5:
        return 5;
    case SP_Q6:
        return 6;
    default:
        return 0;
    }
}

/* Bytes per row of the numbers of a group, and of the scale bytes of a block. */
static inline size_t sp_group_numbers(enum sp_groupwise_kind kind)
{
    if (kind == SP_GROUP_E8M0) return 1;
    return kind == SP_GROUP_AFFINE || kind == SP_GROUP_SUPER || kind == SP_GROUP_DUAL ? 4 : 2;
}

static inline size_t sp_group_scale_bytes(enum sp_groupwise_kind kind)
{
    if (kind == SP_GROUP_SIGNED || kind == SP_GROUP_ODD) return 1;
    return kind == SP_GROUP_SUPER || kind == SP_GROUP_HALVES || kind == SP_GROUP_DUAL ? 2 : 0;
}
/* Bytes at the start of a panel, of a block of 32 columns, and of a group of a panel. */
size_t sp_group_head(const struct sp_groupwise *groups);
size_t sp_group_block_size(const struct sp_groupwise *groups);
size_t sp_group_size(const struct sp_groupwise *groups);

/* Bytes of a block of a type with codes of code_bits: 512 codes and 32 scale bytes. */
static inline size_t sp_microscale_block_size(unsigned code_bits)
{
    return (size_t)SP_PANEL_ROWS * SP_BLOCK / 8 * code_bits + 2 * SP_PANEL_ROWS;
}

/* What a block type costs. */
struct sp_block_dtype {
    enum sp_dtype dtype;
    double error; /* relative rms error on Gaussian weights */
    /* KL divergence (nats per token) that the type for all weights costs models of 0.1 to 0.5
     * billion weights, on prose and on source code (tests/bench/RESULTS.md). */
    const char *kl_from, *kl_to;
    /* The most likely token changes at one of this many places there: q8 and q4 as measured with
     * models of 135 and 494 million weights, the others by their divergence (BENCHMARKS.md). */
    const char *places;
};

/* All block types, from most to fewest bits. */
extern const struct sp_block_dtype sp_block_dtypes[SP_N_BLOCK_DTYPES];
/* The one of `dtype`; NULL if it is none of them. */
const struct sp_block_dtype *sp_block_dtype_find(enum sp_dtype dtype);

/* The row of `dtype`; asserts that it exists. */
const struct sp_dtype_info *sp_dtype_info(enum sp_dtype dtype);

/* By name or alias (case-insensitive) among the types that weights can be converted to, and by
 * safetensors name (case-sensitive). SP_DTYPE_NONE if unknown. */
enum sp_dtype sp_dtype_find(const char *name);
enum sp_dtype sp_dtype_find_safetensors(const char *name);

/* Returns true if a packed file can hold this type. */
bool sp_dtype_is_packed(uint32_t dtype);
/* Returns true for f32, f16 and bf16. */
bool sp_dtype_is_float(enum sp_dtype dtype);
/* Returns true for q8, q2 to q6 and the types that keep the codes of a source. */
bool sp_dtype_is_block(enum sp_dtype dtype);
/* Returns true for a type that keeps the codes of a source. */
bool sp_dtype_is_groupwise(enum sp_dtype dtype);

/* Bytes of one panel (16 rows) of `cols` columns, a multiple of 64; false on overflow or when the
 * type has no panels of that width. */
bool sp_panel_size(size_t *out, enum sp_dtype dtype, size_t cols);

/* Bytes of a whole tensor in `layout`. shape[0..rank-1]; PANEL needs rank >= 2: the last two are
 * rows and cols. false on overflow or an impossible combination. */
bool sp_tensor_size(size_t *out, enum sp_dtype dtype, enum sp_layout layout, const uint64_t *shape,
                    unsigned rank);

/* The product of the dimensions; 1 for rank 0. */
static inline uint64_t sp_n_elements(const uint64_t *shape, unsigned rank)
{
    uint64_t n = 1;

    for (unsigned i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

/* "[3, 16, 64]" in `text`, which it returns; rank <= SP_MAX_RANK. */
enum { SP_SHAPE_TEXT = SP_MAX_RANK * sizeof "18446744073709551615," + sizeof "[]" };
const char *sp_shape_text(char text[SP_SHAPE_TEXT], const uint64_t *shape, unsigned rank);

#endif
