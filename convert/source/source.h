/* The source of a model, with one interface for three kinds: a checkpoint (a folder, or one
 * .safetensors file next to its config.json), a GGUF file, and one part of a packed file.
 *
 * Opening a source reads texts and headers, and the few numbers next to a quantized weight that
 * give its shape and common scale. An open source has everything that a plan needs: the config and
 * the list of tensors with their types and shapes. Weights are read in rows, on demand, from any
 * number of threads. */
#ifndef SP_CONVERT_SOURCE_SOURCE_H
#define SP_CONVERT_SOURCE_SOURCE_H

#include "convert/adapter/merge.h"
#include "convert/gguf/gguf_model.h"
#include "convert/source/quantized_weights.h"
#include "format/config/config.h"
#include "format/family/family.h"
#include "format/weights/smoothing.h"
#include "format/packfile.h"

/* An open source. Other modules may read the fields; only convert/source/ changes them. */
struct sp_source {
    char *path;                          /* owned */
    struct sp_safetensors *checkpoint;   /* owned; NULL for the other kinds */
    struct sp_quantized_weights weights; /* the checkpoint's quantized weights */
    struct sp_gguf_model *gguf;          /* owned; NULL for the other kinds */
    struct sp_merge *merge;              /* an adapter's changes; NULL: none; owned */
    struct sp_pack *pack;                /* owned; NULL for the other kinds */
    enum sp_part part;                   /* which part of the packed file; else the wanted one */
    struct sp_smoothing smoothing;       /* of the packed file's target, which reading undoes */
    /* By section, unchanged; owned. Of a packed file only what a plan needs: config.json,
     * generation_config.json, adapters and pooling (sp_source_read_text). */
    struct sp_text texts[SP_N_SECTIONS];
    struct sp_config config; /* settled by the tensors (sp_config_settle) */
    struct sp_specs specs;   /* the tensors, by canonical name */
    size_t n_skipped;        /* tensors of the checkpoint that are not used */
    bool compare_heads;      /* lm_head.weight may repeat the embedding (sp_source_share_head) */
    bool has_mtp;            /* the checkpoint also holds a built-in prediction head */
};

/* want: SP_PART_TARGET or SP_PART_DRAFT; the latter takes the draft of a packed file or, if it has
 * none, its target. Warnings are appended to *warnings, one sentence a line. On failure *out is
 * zeroed. */
SP_MUST_CHECK enum sp_status sp_source_open(struct sp_source *out, const char *path,
                                            enum sp_part want, char **warnings, struct sp_err *err);

/* Opens the built-in prediction head of a checkpoint, whose has_mtp is set, as a draft. The
 * draft's only text is the target's config.json. On failure *out is zeroed. */
SP_MUST_CHECK enum sp_status sp_source_open_mtp(struct sp_source *out,
                                                const struct sp_source *target, struct sp_err *err);
void sp_source_release(struct sp_source *source);

bool sp_source_has_text(const struct sp_source *source, enum sp_section section);

/* *out = a copy of a text of a source, that of a packed file included. */
SP_MUST_CHECK enum sp_status sp_source_read_text(struct sp_text *out,
                                                 const struct sp_source *source,
                                                 enum sp_section section, struct sp_err *err);

/* Lists the checkpoint's tensors as their headers state them; a quantized weight is listed as the
 * matrix that it represents. *tensors is owned by the caller. */
SP_MUST_CHECK enum sp_status sp_source_list(struct sp_source_tensor **tensors, size_t *n,
                                            const struct sp_source *source, struct sp_err *err);

/* Returns true if both read the same model. */
bool sp_source_same(const struct sp_source *a, const struct sp_source *b);

/* How a tensor is stored: type (f32 if its parts differ in type), layout and bytes. The type of a
 * checkpoint's tensor may be one that cannot be converted, which the policy reports. A weight that
 * is already quantized has the float type that its formula gives. */
struct sp_stored {
    enum sp_dtype dtype;
    enum sp_layout layout;
    uint64_t size;
    const uint8_t *data; /* the bytes where they are mapped (packed files), else NULL */
    const char *coding;  /* how a quantized source codes its numbers; NULL: not quantized; static */
    unsigned code_bits;  /* the most bits of a code; 0: a part is not quantized */
    enum sp_dtype kept;  /* the type that keeps the codes of all parts; SP_DTYPE_NONE: none does */
    uint8_t kept_flags;  /* those of its panels */
    bool rounds_scales;  /* the type has scales of bf16 for the source's of f32 */
    bool merged;         /* an adapter changes some of its numbers */
};
SP_MUST_CHECK enum sp_status sp_source_stored(struct sp_stored *out, const struct sp_source *source,
                                              const struct sp_tensor_spec *spec,
                                              struct sp_err *err);

/* The number of rows of a matrix over all leading dimensions, and its number of columns. */
uint64_t sp_spec_rows(const struct sp_tensor_spec *spec);
uint64_t sp_spec_cols(const struct sp_tensor_spec *spec);
uint64_t sp_spec_elements(const struct sp_tensor_spec *spec);

/* ---- generation_config.json (generation_config.c) ----
 *
 * Checks a checkpoint's generation_config.json before it is packed. */

/* Returns SP_E_INPUT if the target's file has a value that `run` could not read. Unsupported keys
 * that would change the text are reported as warnings. */
SP_MUST_CHECK enum sp_status sp_generation_check(const struct sp_source *target, char **warnings,
                                                 struct sp_err *err);

/* ---- merging an adapter (source_adapter.c) ---- */

/* Finds the places of the changes of the adapter at `path` in a target, as source->merge, and
 * leaves its texts as they are. At most once; on failure, too, the caller releases the source. */
SP_MUST_CHECK enum sp_status sp_source_place(struct sp_source *source, const char *path,
                                             char **warnings, struct sp_err *err);

/* Merges the adapter at `path` into a target: its weights are then the merged ones, and its texts
 * record the adapter. At most once, before anything is planned; the source is released by the
 * caller on failure, too. */
SP_MUST_CHECK enum sp_status sp_source_merge(struct sp_source *source, const char *path,
                                             char **warnings, struct sp_err *err);

/* ---- tables with a row or an entry for each token (token_tables.c) ----
 *
 * Tables with a row or an entry for each token: an output matrix equal to the embedding and a
 * draft's embedding equal to the target's are stored once; a model's tokens may take the order of
 * another vocabulary; and tables of token ids (the order that a clustered head scores by, the map
 * of an EAGLE-3 draft's vocabulary) are checked before anything is written. */

/* Leaves lm_head.weight out if its numbers equal those of the embedding; if they differ, a warning
 * says that lm_head.weight is used. Weights are compared only if source->compare_heads is set. */
SP_MUST_CHECK enum sp_status sp_source_share_head(struct sp_source *source, char **warnings,
                                                  struct sp_err *err);

/* Leaves a draft's embedding out if its numbers equal those of the target's embedding and the
 * draft can read the target's stored table. Compares the weights. */
SP_MUST_CHECK enum sp_status sp_source_share_embedding(struct sp_source *draft,
                                                       const struct sp_source *target,
                                                       char **warnings, struct sp_err *err);

/* Row id of embedding, output matrix and its bias becomes rows[id], a permutation of
 * 0..config.n_vocab-1, and the tokenizer becomes that of `target`. Returns SP_E_UNSUPPORTED for a
 * packed file, whose rows cannot be moved, and for a model with more tables than these. */
SP_MUST_CHECK enum sp_status sp_source_reorder_vocab(struct sp_source *source, const uint32_t *rows,
                                                     const struct sp_source *target,
                                                     struct sp_err *err);

/* SP_E_INPUT unless the tables of token ids that the source has are right: an order that holds each
 * id once, a map to ascending ids. Their type is one that can be read (the source has been
 * planned). */
SP_MUST_CHECK enum sp_status sp_token_tables_verify(const struct sp_source *source,
                                                    struct sp_err *err);

/* ---- rows and elements as floats (source_read.c) ---- */

/* The scratch memory of one reading thread, which grows to what a tensor needs. */
struct sp_scratch {
    uint8_t *bytes; /* owned */
    size_t size;
    float *floats;                         /* owned; of size / 2 elements */
    const struct sp_tile_kernels *kernels; /* that turn panels into rows */
    struct sp_weight_workspace weights;    /* rows of quantized weights */
    struct sp_merge_workspace merging;
};

/* Opens scratch of `size` bytes, by which rows are read at a time. *out is untouched on failure. */
SP_MUST_CHECK enum sp_status sp_scratch_open(struct sp_scratch *out, size_t size,
                                             struct sp_err *err);
void sp_scratch_release(struct sp_scratch *scratch);

/* out[0..n_rows-1][cols] = rows first_row.. of a matrix, as floats. Of a packed file's matrix,
 * first_row begins a panel and the range ends with a panel or a matrix. Of anything else, such as a
 * vector, all elements: first_row is 0, n_rows SP_ALL_ROWS. */
#define SP_ALL_ROWS UINT64_MAX
SP_MUST_CHECK enum sp_status sp_source_read_rows(float *out, const struct sp_source *source,
                                                 const struct sp_tensor_spec *spec,
                                                 uint64_t first_row, uint64_t n_rows,
                                                 struct sp_scratch *scratch, struct sp_err *err);

/* Writes a panel of the type that keeps the codes of a tensor (sp_stored), from rows first_row..
 * of one matrix. */
SP_MUST_CHECK enum sp_status sp_source_read_codes(uint8_t *panel, const struct sp_source *source,
                                                  const struct sp_tensor_spec *spec,
                                                  const struct sp_stored *stored,
                                                  uint64_t first_row, size_t n_rows,
                                                  struct sp_scratch *scratch, struct sp_err *err);

#endif
