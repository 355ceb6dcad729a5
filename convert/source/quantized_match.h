/* Matching the tensors of a quantized checkpoint with the formats of its weights: what
 * quantized_*.c share. No other file includes this header. */
#ifndef SP_CONVERT_SOURCE_QUANTIZED_MATCH_H
#define SP_CONVERT_SOURCE_QUANTIZED_MATCH_H

#include "convert/source/quantized_weights.h"

struct sp_weight_match {
    struct sp_quantized_weights *out;
    const struct sp_safetensors *checkpoint;
    const struct sp_safetensor *tensors; /* [n], sorted by name */
    size_t n;
    const struct sp_prequantized *stated;
    struct sp_err *err;
};

/* Returns true if `name` ends with `end` and is longer; then *len is the length of what precedes
 * it. */
bool sp_name_ends_with(const char *name, const char *end, size_t *len);

/* The tensor named base[0..len-1] and `end`; NULL: there is none. */
const struct sp_safetensor *sp_match_find(const struct sp_weight_match *m, const char *base,
                                          size_t len, const char *end);
/* sp_match_find, but SP_E_INPUT if there is none; `t` is the tensor that needs it. */
SP_MUST_CHECK enum sp_status sp_match_need(const struct sp_safetensor **out,
                                           const struct sp_weight_match *m,
                                           const struct sp_safetensor *t, size_t len,
                                           const char *what, const char *end);

uint64_t sp_divide_up(uint64_t a, uint64_t b);
bool sp_has_shape(const struct sp_safetensor *t, const uint64_t *shape, unsigned rank);
SP_MUST_CHECK enum sp_status sp_match_shape(const struct sp_weight_match *m,
                                            const struct sp_safetensor *t, uint64_t rows,
                                            uint64_t cols);

/* Determines tile.rows and tile.cols from grid_rows and grid_cols: the tile of `group` columns, or
 * if that is 0, a whole row, a whole matrix or a stated tile. */
SP_MUST_CHECK enum sp_status sp_match_fit_tile(struct sp_weight_match *m, struct sp_weight *w,
                                               uint64_t group);

/* Checks the group of each column, if the weight has such an index. Groups of neighbors need none:
 * then index becomes NULL and tile.cols their size. */
SP_MUST_CHECK enum sp_status sp_match_index(struct sp_weight_match *m, struct sp_weight *w);

/* Adds a complete weight, named by name[0..len-1] and `end`, and takes its parts. */
SP_MUST_CHECK enum sp_status sp_match_add(struct sp_weight_match *m, struct sp_weight w,
                                          const char *name, size_t len, const char *end);
void sp_match_take(struct sp_weight_match *m, const struct sp_safetensor *t);

/* Adds the weight that this tensor holds the codes of, if it is one of these formats. */
typedef enum sp_status sp_match_fn(struct sp_weight_match *m, const struct sp_safetensor *t);
sp_match_fn sp_match_scaled; /* X_scale and its kin */
sp_match_fn sp_match_mlx;
sp_match_fn sp_match_words; /* GPTQ and AWQ */
sp_match_fn sp_match_bitsandbytes;

#endif
