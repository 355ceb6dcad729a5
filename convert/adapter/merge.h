/* An adapter's changes in their places: which rows of which of a model's tensors each of them
 * changes, and the changing of rows as they are read.
 *
 * Places are found by the names that a checkpoint has, whatever stands before "layers.", so that
 * fused and parted tensors change as they are stored. Every tensor of the adapter must find its
 * place and fit it. A merged row is a function of its row of W and the adapter alone, in float32:
 *
 *   W' = W + scale * (left right)     sums over the rank in ascending order
 * (quantize/kernels/kernels.h)
 *
 * and, where the adapter has magnitudes, W' times magnitude / length of the row, whose squares are
 * added up in double. */
#ifndef SP_CONVERT_ADAPTER_MERGE_H
#define SP_CONVERT_ADAPTER_MERGE_H

#include "convert/adapter/adapter.h"
#include "format/family/family.h"
#include "quantize/kernels/kernels.h"

/* The changes to the rows of a span, applied in this order; all borrowed from the adapter. */
struct sp_merge_change {
    const struct sp_adapter_tensor *whole;    /* takes the place of the tensor, or NULL */
    const struct sp_adapter_product *product; /* is added, or NULL */
    uint64_t expert;                          /* whose of a product by experts */
    const struct sp_adapter_product *bias;    /* whose bias is added, or NULL */
};

/* Opaque to all but convert/source*.c. */
struct sp_merge {
    struct sp_adapter adapter; /* owned */
    struct sp_specs specs; /* [n_specs] specs with spans, if the model's own list has none; owned */
    struct sp_merge_change *changes; /* changes by span; owned */
    size_t n_spans;
};

/* Assigns the adapter's changes to `spans`, which are merge->specs or the model's own list.
 * `tensors` are those that the spans are cut from; they are sorted here. Errors name the tensor. */
SP_MUST_CHECK enum sp_status sp_merge_place(struct sp_merge *merge, const struct sp_specs *spans,
                                            struct sp_source_tensor *tensors, size_t n,
                                            struct sp_err *err);
void sp_merge_release(struct sp_merge *merge);

/* Returns true if the adapter changes the embedding or the output matrix. */
bool sp_merge_touches_tables(const struct sp_adapter *adapter);

/* The spec of a tensor with its row spans: the given one, or that of merge->specs if there are
 * any. */
const struct sp_tensor_spec *sp_merge_spec(const struct sp_merge *merge,
                                           const struct sp_tensor_spec *spec);

/* Returns true if the adapter changes any row of the spec. */
bool sp_merge_changes(const struct sp_merge *merge, const struct sp_tensor_spec *spec);

/* ---- merged rows (merge_rows.c) ---- */

/* The workspace of one thread. Valid when zeroed. */
struct sp_merge_workspace {
    const struct sp_adapter_product *held; /* `panels` holds its right factor */
    uint64_t expert;                       /* of this expert */
    float *panels;                         /* [columns / 16][rank][16] */
    size_t cap_panels;
    struct sp_acts rows; /* [16][rank]: rows of the left factor */
    size_t rank;         /* capacity of `rows` */
    float *sums;         /* [16][columns], in whole panels */
    size_t cap_sums;
    struct sp_adapter_scratch scratch;
    float *numbers;
    size_t cap_numbers;
};
void sp_merge_workspace_release(struct sp_merge_workspace *workspace);

/* Merges the adapter into rows first.. of span number `index`: rows[0..n-1][span->n_cols], as they
 * are stored, become the merged ones. */
SP_MUST_CHECK enum sp_status sp_merge_rows(float *rows, const struct sp_merge *merge,
                                           const struct sp_row_span *span, size_t index,
                                           uint64_t first, uint64_t n,
                                           struct sp_merge_workspace *workspace,
                                           struct sp_err *err);

/* ---- products apart from the weights (low_rank.c) ----
 *
 * An adapter's low-rank products apart from the weights, for a runtime that adds them to the
 * products of the weights: by the model's tensors, however the adapter and its modules are stored.
 *
 * Only such products stay apart. What else an adapter may have is refused by the tensor's name:
 * tensors that take the place of the model's, biases, magnitudes (DoRA), products for experts, for
 * the embedding or for the output matrix. All of them can be merged. */

/* The product that belongs to a tensor W of the model: W' = W + left right. */
struct sp_low_rank {
    size_t n_rows, n_cols, rank; /* rank 0: the adapter does not change the tensor */
    float *left;                 /* [n_rows][rank], times the adapter's scale; owned */
    float *right;                /* [rank][n_cols]; owned */
};

/* Reads the product of a tensor. spec: one of the specs whose spans the adapter's changes were
 * assigned to. A tensor that consists of rows of several modules has the sum of their ranks. *out
 * is zeroed on failure. */
SP_MUST_CHECK enum sp_status sp_low_rank_read(struct sp_low_rank *out, const struct sp_merge *merge,
                                              const struct sp_specs *specs,
                                              const struct sp_tensor_spec *spec,
                                              struct sp_err *err);
void sp_low_rank_release(struct sp_low_rank *product);

/* ---- records (merge_record.c) ----
 *
 * The record of a merged adapter: shown to the user when it is merged, and stored in a section of
 * the packed file that spectool-pack(5) defines. It contains no paths. */

struct sp_merge_record {
    enum sp_adapter_format format;
    uint64_t digest;     /* XXH3-64 of the file of its tensors */
    uint64_t n_products; /* matrices that a low-rank product was added to */
    uint64_t rank[2];    /* the smallest and the largest; 0 where there are no products */
    double scale[2];
    bool has_magnitudes; /* DoRA */
    uint64_t n_wholes;   /* tensors that took the place of the model's */
};

struct sp_merge_record sp_merge_record_of(const struct sp_adapter *adapter);

/* In words, without the digest: "9 low-rank products of rank 4, scale 2". */
enum { SP_MERGE_WORDS = 256 };
void sp_merge_words(char text[SP_MERGE_WORDS], const struct sp_merge_record *record);
const char *sp_adapter_format_name(enum sp_adapter_format format); /* "peft", "mlx"; static */

/* The section's content with one more record at its end; `text` may be none. */
SP_MUST_CHECK enum sp_status sp_merge_records_add(struct sp_text *out, const struct sp_text *text,
                                                  const struct sp_merge_record *record,
                                                  struct sp_err *err);

/* The records of a section's content, in the order in which they were merged; *out owned by the
 * caller. SP_E_INPUT: damaged. */
SP_MUST_CHECK enum sp_status sp_merge_records_read(struct sp_merge_record **out, size_t *n,
                                                   const char *text, size_t size,
                                                   struct sp_err *err);

#endif
