/* Error feedback for any machine: kernels_feedback.h. */
#include "quantize/kernels_gptq.h"

static void collect_group(float *sums, const float *x, size_t ld, size_t n_rows, size_t first,
                          size_t end)
{
    accumulate(sums, x, ld, n_rows, first, end);
}

static void encode_panel(uint8_t *blocks, const float *rows, size_t n_rows, size_t cols,
                         const float *row_scale, const float *numbers, float *room,
                         const struct sp_q4_tables *tables)
{
    encode(blocks, rows, n_rows, cols, row_scale, numbers, room, tables);
}

const struct sp_gptq_kernels sp_gptq_ref = {collect_group, encode_panel};
