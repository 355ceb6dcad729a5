/* An adapter's changes in their places: which rows of which of a model's tensors each of them
 * changes, and the changing of rows as they are read.
 *
 * Places are found by the names that a checkpoint has, whatever stands before "layers.", so that
 * fused and parted tensors change as they are stored. Every tensor of the adapter must find its
 * place and fit it. A merged row is a function of its row of W and the adapter alone, in float32:
 *
 *   W' = W + scale * (left right)     sums over the rank in ascending order (quantize/kernels.h)
 *
 * and, where the adapter has magnitudes, W' times magnitude / length of the row, whose squares are
 * added up in double. */
#ifndef SP_CONVERT_ADAPTER_MERGE_H
#define SP_CONVERT_ADAPTER_MERGE_H

#include "convert/adapter/adapter.h"
#include "format/family/family.h"
#include "quantize/kernels.h"

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

#endif
