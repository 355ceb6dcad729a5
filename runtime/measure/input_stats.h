/* Statistics of the inputs of a model's matrices, collected while texts run through it: for each
 * input the sums from which quantize/types/gptq.h computes its factors.
 *
 * Matrices that are multiplied together read the same input and share its sums, and so do the gate
 * and up projections of the experts of a layer. Where each matrix of a stack has an input of its
 * own - down projections of experts, the matrices of heads in latent attention - only the squares
 * of its columns are summed, for each matrix. Matrices that are never multiplied have no sums. The
 * sums depend on the passes alone, not on threads.
 *
 * In a draft that predicts from the target's features a matrix may read several inputs; there every
 * matrix has sums of its own. */
#ifndef SP_RUNTIME_MEASURE_INPUT_STATS_H
#define SP_RUNTIME_MEASURE_INPUT_STATS_H

#include "format/packfile.h"
#include "runtime/backend/backend.h"

struct sp_input_stats; /* opaque */

/* Opens statistics for the matrices of the pack's target and draft, whose names are borrowed.
 * Memory for sums is committed as inputs are observed. */
SP_MUST_CHECK enum sp_status sp_input_stats_open(struct sp_input_stats **out,
                                                 const struct sp_pack *pack, struct sp_err *err);
void sp_input_stats_close(struct sp_input_stats *stats); /* NULL is fine */

/* The observer that adds the inputs of products to `stats`, for sp_backend.observer. It observes
 * the matrices of one part. shared: those that are multiplied together share sums. */
struct sp_input_observer sp_input_stats_observer(struct sp_input_stats *stats, enum sp_part part,
                                                 bool shared);

/* out[0..n_cols-1] = for each column, the sum of squares of the inputs of the target's matrix of
 * this name. False if no input was observed. Before sp_input_stats_solve only. */
bool sp_input_stats_squares(float *out, const struct sp_input_stats *stats, const char *name);

/* Replaces all sums by factors. SP_E_INPUT if they are not finite. */
SP_MUST_CHECK enum sp_status sp_input_stats_solve(struct sp_input_stats *stats,
                                                  const struct sp_backend *backend,
                                                  struct sp_err *err);

/* How the errors of a matrix are weighed, after sp_input_stats_solve; nothing is set if none of its
 * inputs was observed. */
struct sp_gptq_weights sp_input_stats_weights(const struct sp_input_stats *stats,
                                              const struct sp_matrix *w);

/* Counts of the observed inputs and of the matrices that read them, and bytes of the factors. */
struct sp_input_stats_size {
    size_t n_inputs, n_matrices;
    uint64_t size;
};
struct sp_input_stats_size sp_input_stats_measure(const struct sp_input_stats *stats);

/* Writes a calibration file (spectool-pack(5)) of the observed inputs; `record` is its section. */
SP_MUST_CHECK enum sp_status sp_input_stats_write(const struct sp_input_stats *stats,
                                                  const char *path, bool force, const char *record,
                                                  size_t record_size, struct sp_err *err);

#endif
