/* A GGUF file, version 2 or 3, or the files of a split one: its metadata and its list of tensors.
 *
 * Opening reads and checks everything in front of the tensors' bytes: every length against the
 * file's, names for repetition, types, offsets for alignment and overlap. Later code may rely on
 * every range. Tensors are read in bounded pieces, so a file that shrinks is an error and not a
 * crash. The layout is that of ggml's docs/gguf.md. What keys and names mean is not known here. */
#ifndef SP_FORMAT_GGUF_H
#define SP_FORMAT_GGUF_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SP_GGUF_MAX_RANK = 4,
    SP_GGUF_SHOWN = 200, /* most bytes of a name, a key or a text of the file in a message */
};

enum sp_gguf_type {
    SP_GGUF_U8,
    SP_GGUF_I8,
    SP_GGUF_U16,
    SP_GGUF_I16,
    SP_GGUF_U32,
    SP_GGUF_I32,
    SP_GGUF_F32,
    SP_GGUF_BOOL,
    SP_GGUF_STRING,
    SP_GGUF_ARRAY,
    SP_GGUF_U64,
    SP_GGUF_I64,
    SP_GGUF_F64,
    SP_GGUF_N_TYPES
};

/* A value of the metadata; borrowed from the file. An array's type is that of its elements. */
struct sp_gguf_value {
    const char *key;
    enum sp_gguf_type type;
    bool is_array;
    uint64_t n;        /* elements; 1 if it is no array */
    const uint8_t *at; /* the first element */
};

struct sp_gguf_tensor {
    const char *name;                 /* borrowed from the file */
    uint32_t type;                    /* enum sp_ggml_type; one that sp_ggml_size accepts */
    unsigned rank;                    /* 1.. */
    const struct sp_file *file;       /* where it is; borrowed from the model */
    uint64_t shape[SP_GGUF_MAX_RANK]; /* [rank], rows before columns, as in safetensors */
    uint64_t offset;                  /* of its first byte in that file */
    uint64_t size;                    /* bytes */
};

struct sp_gguf; /* opaque */

/* True if a file begins as GGUF files do. */
bool sp_gguf_is_magic(const uint8_t bytes[4]);

/* `path` is the file, or the first one of a split file. SP_E_UNSUPPORTED names a tensor whose type
 * is not read, or a version. */
SP_MUST_CHECK enum sp_status sp_gguf_open(struct sp_gguf **out, const char *path,
                                          struct sp_err *err);
/* Opens a list of values in place of a file: sorted by key, borrowed, and in a form that
 * sp_gguf_open would accept. It has no tensors and no path. */
SP_MUST_CHECK enum sp_status sp_gguf_of_values(struct sp_gguf **out,
                                               const struct sp_gguf_value *values, size_t n,
                                               struct sp_err *err);
void sp_gguf_close(struct sp_gguf *file); /* NULL is fine */

/* The path of the first file, as given to open. */
const char *sp_gguf_path(const struct sp_gguf *file);

/* All tensors, and all values of the first file, sorted by name; borrowed. */
const struct sp_gguf_tensor *sp_gguf_tensors(const struct sp_gguf *file, size_t *n);
const struct sp_gguf_value *sp_gguf_values(const struct sp_gguf *file, size_t *n);
/* By binary search; NULL if there is none. */
const struct sp_gguf_tensor *sp_gguf_find_tensor(const struct sp_gguf *file, const char *name);
const struct sp_gguf_value *sp_gguf_find(const struct sp_gguf *file, const char *key);

/* Fills `buffer` with `size` bytes of the tensor from its byte `offset` on; the range must lie in
 * the tensor (else SP_E_BUG). From any number of threads. */
SP_MUST_CHECK enum sp_status sp_gguf_read(const struct sp_gguf_tensor *tensor, uint64_t offset,
                                          size_t size, void *buffer, struct sp_err *err);

/* Values with a type and a range. Absent: *out keeps its value and SP_OK is returned. A wrong type
 * or a number out of range is SP_E_INPUT and names the key. *text is not terminated. */
SP_MUST_CHECK enum sp_status sp_gguf_get_u64(const struct sp_gguf *file, const char *key,
                                             uint64_t max, uint64_t *out, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_gguf_get_float(const struct sp_gguf *file, const char *key,
                                               double *out, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_gguf_get_bool(const struct sp_gguf *file, const char *key,
                                              bool *out, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_gguf_get_text(const struct sp_gguf *file, const char *key,
                                              const char **text, size_t *len, struct sp_err *err);
/* An array whose elements have this type; *out is NULL if the key is absent. */
SP_MUST_CHECK enum sp_status sp_gguf_get_array(const struct sp_gguf *file, const char *key,
                                               enum sp_gguf_type type,
                                               const struct sp_gguf_value **out,
                                               struct sp_err *err);

/* An array of integers of any width, or of any numbers; *out is NULL if the key is absent. */
SP_MUST_CHECK enum sp_status sp_gguf_get_numbers(const struct sp_gguf *file, const char *key,
                                                 bool integers, const struct sp_gguf_value **out,
                                                 struct sp_err *err);

/* Element i < n of an array of integers or booleans, and of one of floats or integers. */
int64_t sp_gguf_integer_at(const struct sp_gguf_value *value, uint64_t i);
double sp_gguf_number_at(const struct sp_gguf_value *value, uint64_t i);

/* The next string of an array of strings: *at is value->at at first and is moved behind it. */
const char *sp_gguf_next_string(const uint8_t **at, size_t *len);

#endif
