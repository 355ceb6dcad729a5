/* The weights of a checkpoint that are quantized already: each is several tensors (numbers, scales,
 * maybe zero points), and reads as one matrix of floats.
 *
 * What is quantized is decided tensor by tensor, by its type and by the scale that stands beside
 * it. A weight without its scale, a scale without its weight, and shapes that do not go together
 * are refused by name when a checkpoint is opened; a scale that is not a number when it is read. */
#ifndef SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_H
#define SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_H

#include "convert/source/code_matrix.h"
#include "format/family/family.h"
#include "format/config/prequantized.h"
#include "format/safetensors.h"
#include "quantize/checkpoint_codes.h"

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
    bool flat; /* groups of tile.cols weights follow each other across the ends of rows */
    const struct sp_safetensor *index; /* the group of each column, or NULL */

    const struct sp_safetensor *scales;
    enum sp_dtype scale_type;           /* may differ from the type in the file's header */
    bool scales_transposed;             /* [groups, rows] */
    uint64_t scale_pitch;               /* elements of a stored row of scales */
    const struct sp_safetensor *global; /* a factor of all scales, or NULL */
    bool global_divides;
    float factor; /* the number in `global` */
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

#endif
