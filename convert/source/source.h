/* Where a model comes from: a checkpoint (folder, or one .safetensors file beside its config.json)
 * or one part of a packed file. One interface over both.
 *
 * Opening reads texts and headers, and the few numbers beside a quantized weight that tell its
 * shape and common scale, and answers everything that a plan needs: the config, the list of tensors
 * with their types and shapes. Weights are read in rows, on demand, from any number of threads. */
#ifndef SP_CONVERT_SOURCE_SOURCE_H
#define SP_CONVERT_SOURCE_SOURCE_H

#include "convert/adapter/merge.h"
#include "convert/adapter/merge_rows.h"
#include "convert/source/quantized_weights.h"
#include "format/model/config.h"
#include "format/model/family.h"
#include "format/packfile.h"
#include "quantize/tile.h"

/* Open and readable, changed by this module only. */
struct sp_source {
    char *path;                          /* owned */
    struct sp_safetensors *checkpoint;   /* owned; NULL for a packed file */
    struct sp_quantized_weights weights; /* what the checkpoint holds quantized */
    struct sp_merge *merge;              /* an adapter's changes; NULL: none; owned */
    struct sp_pack *pack;                /* owned; NULL for a checkpoint */
    enum sp_part part;                   /* which part of the packed file */
    char *texts[SP_N_SECTIONS];          /* as read, by section; NULL: there is none; owned */
    size_t text_sizes[SP_N_SECTIONS];
    struct sp_config config; /* settled: as the tensors say */
    struct sp_specs specs;   /* what there is, by canonical name */
    size_t n_skipped;        /* tensors of the checkpoint that are not used */
    bool compare_heads;      /* lm_head.weight may repeat the embedding: sp_source_share_head */
    bool has_mtp;            /* a checkpoint that holds a built-in prediction head as well */
};

/* want: SP_PART_TARGET or SP_PART_DRAFT; the latter takes the draft of a packed file or, if it has
 * none, its target. Warnings are appended to *warnings, one sentence a line. On failure *out is
 * zeroed. */
SP_MUST_CHECK enum sp_status sp_source_open(struct sp_source *out, const char *path,
                                            enum sp_part want, char **warnings, struct sp_err *err);

/* The built-in prediction head of a checkpoint whose has_mtp is set, as a draft of its own. Its
 * only text is config.json, the target's. On failure *out is zeroed. */
SP_MUST_CHECK enum sp_status sp_source_open_mtp(struct sp_source *out,
                                                const struct sp_source *target, struct sp_err *err);
void sp_source_release(struct sp_source *source);

/* The checkpoint's tensors as their headers state them, a quantized weight as the matrix that it
 * stands for; *tensors owned by the caller. */
SP_MUST_CHECK enum sp_status sp_source_list(struct sp_source_tensor **tensors, size_t *n,
                                            const struct sp_source *source, struct sp_err *err);

/* Returns true if both read the same model. */
bool sp_source_same(const struct sp_source *a, const struct sp_source *b);

/* How a tensor is stored: its type (f32 where its pieces differ in type), layout and bytes. Of a
 * checkpoint the type may be one that cannot be converted; the policy says so. A weight that is
 * quantized already counts as the float type that its formula gives. */
struct sp_stored {
    enum sp_dtype dtype;
    enum sp_layout layout;
    uint64_t size;
    const uint8_t *data; /* the bytes where they are mapped (packed files), else NULL */
    const char *coding;  /* how numbers that are quantized already are coded, else NULL; static */
    bool small_codes;    /* 4-bit codes, which q8 holds exactly */
    bool merged;         /* an adapter changes some of its numbers */
};
SP_MUST_CHECK enum sp_status sp_source_stored(struct sp_stored *out, const struct sp_source *source,
                                              const struct sp_tensor_spec *spec,
                                              struct sp_err *err);

/* Rows of a matrix over all leading dimensions, and its columns. */
uint64_t sp_spec_rows(const struct sp_tensor_spec *spec);
uint64_t sp_spec_cols(const struct sp_tensor_spec *spec);
uint64_t sp_spec_elements(const struct sp_tensor_spec *spec);

#endif
