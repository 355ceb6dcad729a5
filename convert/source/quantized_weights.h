/* The weights of a checkpoint that are quantized already: each is several tensors (numbers, scales,
 * maybe zero points), and reads as one matrix of floats.
 *
 * What is quantized is decided tensor by tensor, by its type and by the scale that stands beside
 * it. A weight without its scale, a scale without its weight, and shapes that do not go together
 * are refused by name when a checkpoint is opened; a scale that is not a number when it is read. */
#ifndef SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_H
#define SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_H

#include "format/config/prequantized.h"
#include "format/family/family.h"
#include "format/safetensors.h"
#include "quantize/checkpoint_codes.h"

/* Matrices of small codes in a checkpoint, read as bytes.
 *
 * Checkpoints pack codes of 2 to 8 bits along rows or down columns, and some store the transpose of
 * the matrix that they mean. Here all of them read as rows of one byte per code. */

enum sp_packing {
    SP_PACK_ALONG,    /* a stored row is a stream of bits, lowest first */
    SP_PACK_AWQ,      /* along rows, 8 codes of a word in the order 0, 2, 4, 6, 1, 3, 5, 7 */
    SP_PACK_QUARTERS, /* 2 bits: a byte has those of a row and of rows n / 4, n / 2 ... behind it */
    SP_PACK_DOWN,     /* 32 rows are a stream of bits down `bits` rows of 32-bit words */
};

/* A tensor as a matrix of codes. Rows and columns are those that are read. */
struct sp_code_matrix {
    const struct sp_safetensor *tensor; /* borrowed from the checkpoint */
    enum sp_packing packing;
    bool transposed; /* the stored rows are columns of the matrix */
    bool high_first; /* 4 bits: the first code of a byte is in its high half */
    unsigned bits;
    uint32_t word_offset; /* added to each stored 32-bit word, which wraps */
    uint64_t rows;        /* over all leading dimensions */
    uint64_t cols;        /* codes wanted of a row; a stored row may be longer */
    uint64_t pitch;       /* bits of a stored row; SP_PACK_DOWN: of a row of words */
};

/* Buffer of sp_code_matrix_read: grows to what the longest row needs, and to a fixed size. */
struct sp_code_buffer {
    uint8_t *bytes; /* owned */
    size_t size;
    uint8_t *codes; /* owned */
    size_t n_codes;
};
void sp_code_buffer_release(struct sp_code_buffer *buffer);

/* codes[n][cols] = rows first..first+n-1, which exist. */
SP_MUST_CHECK enum sp_status sp_code_matrix_read(uint8_t *codes, const struct sp_code_matrix *m,
                                                 uint64_t first, size_t n,
                                                 struct sp_code_buffer *buffer, struct sp_err *err);

/* The sequence of stored rows of one range of columns, read in as few and as large pieces as the
 * buffer permits: `step` stored bytes between rows, `offset` to the first byte wanted, `want` bytes
 * of each row. */
struct sp_strip {
    const struct sp_safetensor *tensor;
    uint64_t offset, step, n_rows;
    size_t want;
    size_t between, n; /* of the rows that were read: bytes from one to the next, their number */
};

/* Reads rows first.. of a strip into the buffer, as many as fit, at least 1. */
SP_MUST_CHECK enum sp_status sp_strip_read(struct sp_strip *strip, uint64_t first,
                                           struct sp_code_buffer *buffer, struct sp_err *err);

/* One weight; the tensors are borrowed from the checkpoint. Over all its leading dimensions it has
 * rows of shape[rank - 1] columns; each of its matrices has a grid of scales, maybe with a zero
 * point or a bias for each scale (quantize/checkpoint_codes.h). */
struct sp_weight {
    char *name; /* X.weight, or as stored; owned */
    unsigned rank;
    uint64_t shape[SP_MAX_RANK];
    const char *coding; /* "f8", "i8", "i4", "nv4", "mx4", ...: what a plan shows; static */
    uint64_t size;      /* bytes of all parts */

    enum sp_code code;
    struct sp_code_matrix codes;
    const struct sp_safetensor *table; /* SP_CODE_TABLE: the values of the codes */

    struct sp_tile tile;           /* rows and columns that share a scale */
    uint64_t grid_rows, grid_cols; /* of one matrix; one scale for all matrices: grid_rows is 0 */
    bool flat; /* groups of tile.cols weights, each a row of the grid, cross the ends of rows */
    const struct sp_safetensor *index; /* the group of each column, or NULL */

    const struct sp_safetensor *scales;
    enum sp_dtype scale_type;           /* may differ from the type in the file's header */
    bool scales_transposed;             /* [groups, rows] */
    uint64_t scale_pitch;               /* elements of a stored row of scales */
    const struct sp_safetensor *global; /* a factor of all scales, or NULL */
    bool global_divides;
    bool scales_divide; /* codes are divided by the scales */
    float factor;       /* the number in `global` */
    struct sp_nested_scales {
        const struct sp_safetensor *scales, *table; /* NULL: scales are numbers themselves */
        uint64_t block;                             /* scales that share a nested scale */
        float offset;
    } nested; /* scale = table[code] * scales[i / block] + offset */

    const struct sp_safetensor *zeros; /* numbers laid out as the scales are, or NULL */
    struct sp_code_matrix zero_codes;  /* zeros as codes; its tensor is NULL: there are none */
    bool zeros_wrap;                   /* zero point: code + 1, without carry */
    bool biases;                       /* zeros are biases */

    float after;  /* a last factor of each weight; 0: none */
    bool to_bf16; /* the format's values are those rounded to bf16 */
};

struct sp_quantized_weights {
    struct sp_weight *all; /* sorted by name, owned */
    size_t n, cap;
    bool *taken; /* by index of the checkpoint's tensors: parts of weights; owned */
};

/* Puts the parts together. Zeroed on failure. */
SP_MUST_CHECK enum sp_status sp_quantized_weights_open(struct sp_quantized_weights *out,
                                                       const struct sp_safetensors *checkpoint,
                                                       const struct sp_prequantized *stated,
                                                       struct sp_err *err);
void sp_quantized_weights_release(struct sp_quantized_weights *weights);

/* By binary search; NULL: not quantized. */
const struct sp_weight *sp_quantized_weights_find(const struct sp_quantized_weights *weights,
                                                  const char *name);

/* ---- rows as floats (quantized_weights_read.c) ---- */

/* Returns the smallest float type that always holds the values of a weight. */
enum sp_dtype sp_weight_float_type(const struct sp_weight *weight);
/* The type that keeps the codes of the matrix, and the flags of its panels; SP_DTYPE_NONE: none
 * does. Scales of f32 become bf16; groups of scattered columns have no such type. */
enum sp_dtype sp_weight_kept(uint8_t *flags, const struct sp_weight *weight);

/* The rows that were unpacked last, for one thread. Valid when zeroed. Its size does not depend on
 * that of the weights, only on the length of their rows. */
struct sp_weight_workspace {
    const struct sp_weight *weight; /* borrowed; NULL: none */
    uint64_t first, n;              /* its rows first..first+n-1 */
    uint8_t *codes;                 /* [n][cols] */
    float *scales, *zeros;          /* [rows of the grid][grid_cols] */
    uint64_t first_grid_row;
    uint32_t *index; /* [cols] */
    uint8_t *zero_codes;
    float *row;        /* of numbers */
    float values[256]; /* of the codes */
    float nested[256]; /* of the codes of nested scales */
    size_t caps[6];    /* elements of the arrays above */
    struct sp_code_buffer buffer;
    bool plain_scales; /* the scales are as stored, without their common factor */
};
void sp_weight_workspace_release(struct sp_weight_workspace *workspace);

/* out[n][cols] = rows first, first + step, ... */
SP_MUST_CHECK enum sp_status sp_weight_read(float *out, const struct sp_weight *weight,
                                            uint64_t first, uint64_t step, uint64_t n,
                                            struct sp_weight_workspace *workspace,
                                            struct sp_err *err);

/* Reads the groups of a row into lane `lane` of a panel of sp_weight_kept, which is initialized. */
SP_MUST_CHECK enum sp_status sp_weight_put_row(uint8_t *panel, size_t lane,
                                               const struct sp_weight *weight, uint64_t row,
                                               struct sp_weight_workspace *workspace,
                                               struct sp_err *err);

#endif
