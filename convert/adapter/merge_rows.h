/* Rows of a tensor with an adapter's changes added. */
#ifndef SP_CONVERT_ADAPTER_MERGE_ROWS_H
#define SP_CONVERT_ADAPTER_MERGE_ROWS_H

#include "convert/adapter/merge.h"

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
    uint8_t *bytes;
    size_t cap_bytes;
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

#endif
