/* Matrices of small codes in a checkpoint, read as bytes.
 *
 * Checkpoints pack codes of 2 to 8 bits along rows or down columns, and some store the transpose of
 * the matrix that they mean. Here all of them read as rows of one byte per code. */
#ifndef SP_CONVERT_SOURCE_CODE_MATRIX_H
#define SP_CONVERT_SOURCE_CODE_MATRIX_H

#include "format/safetensors.h"

enum sp_packing {
    SP_PACK_ALONG, /* a stored row is a stream of bits, lowest first */
    SP_PACK_AWQ,   /* along rows, 8 codes of a word in the order 0, 2, 4, 6, 1, 3, 5, 7 */
    SP_PACK_DOWN,  /* 32 rows are a stream of bits down `bits` rows of 32-bit words */
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
                                                 const struct sp_safetensors *checkpoint,
                                                 uint64_t first, size_t n,
                                                 struct sp_code_buffer *buffer, struct sp_err *err);

/* The sequence of stored rows of one range of columns, read in as few and as large pieces as the
 * buffer permits: `step` stored bytes between rows, `offset` to the first byte wanted, `want` bytes
 * of each row. */
struct sp_strip {
    const struct sp_safetensors *checkpoint;
    const struct sp_safetensor *tensor;
    uint64_t offset, step, n_rows;
    size_t want;
};

/* Reads rows first.. of a strip into the buffer, as many as fit. *rows points to the first,
 * *between is the distance of two rows in bytes, and *n is their number, at least 1. */
SP_MUST_CHECK enum sp_status sp_strip_read(const uint8_t **rows, size_t *between, size_t *n,
                                           const struct sp_strip *strip, uint64_t first,
                                           struct sp_code_buffer *buffer, struct sp_err *err);

#endif
