/* An adapter's low-rank products apart from the weights, for a runtime that adds them to the
 * products of the weights: by the model's tensors, however the adapter and its modules are stored.
 *
 * Only such products stay apart. What else an adapter may have is refused by the tensor's name:
 * tensors that take the place of the model's, biases, magnitudes (DoRA), products for experts, for
 * the embedding or for the output matrix. All of them can be merged (convert/adapter/merge.h). */
#ifndef SP_CONVERT_ADAPTER_LOW_RANK_H
#define SP_CONVERT_ADAPTER_LOW_RANK_H

#include "convert/adapter/merge.h"

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

#endif
