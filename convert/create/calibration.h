/* A calibration file: statistics of the inputs of the matrices of a target and its draft, measured
 * by `spectool calibrate` and used to quantize the matrices (quantize/types/gptq.h). The file is a
 * packed file (spectool-pack(5)), or an importance matrix of llama.cpp for the target
 * (importance.h).
 *
 * Opening the file checks everything: digests, names, sizes and every number. */
#ifndef SP_CONVERT_CREATE_CALIBRATION_H
#define SP_CONVERT_CREATE_CALIBRATION_H

#include "convert/create/plan.h"
#include "format/weights/sensitivity.h"
#include "format/weights/smoothing.h"

struct sp_calibration_file; /* opaque */

SP_MUST_CHECK enum sp_status sp_calibration_open(struct sp_calibration_file **out, const char *path,
                                                 struct sp_err *err);
/* Opens the calibration in a packed file that is open already; the file is closed with the
 * calibration, or on failure. */
SP_MUST_CHECK enum sp_status sp_calibration_take(struct sp_calibration_file **out,
                                                 struct sp_pack *pack, struct sp_err *err);
/* Reads a file that is not packed: an importance matrix. To be called once, before all below. */
SP_MUST_CHECK enum sp_status sp_calibration_name(struct sp_calibration_file *file,
                                                 const struct sp_source *target,
                                                 struct sp_err *err);
void sp_calibration_close(struct sp_calibration_file *file); /* NULL is fine */

/* The measured sensitivities of the target's groups, borrowed; n is 0 if none were measured. */
const struct sp_sensitivities *sp_calibration_sensitivities(const struct sp_calibration_file *file);

/* Tokens of the calibration's texts, on which a choice of types can be checked; borrowed; *n is 0
 * in a file that has none. */
const uint32_t *sp_calibration_check(const struct sp_calibration_file *file, size_t *n);

/* How the target's norms are smoothed, borrowed; n is 0 in a file that does not state it. */
const struct sp_smoothing *sp_calibration_smoothing(const struct sp_calibration_file *file);

/* True if the file has statistics of a matrix of a part. */
bool sp_calibration_names(const struct sp_calibration_file *file, enum sp_part part,
                          const char *matrix);
/* True if the file has statistics of a part. */
bool sp_calibration_has(const struct sp_calibration_file *file, enum sp_part part);

/* Sets the weights of each plan item of a part that becomes q2 to q6, borrowed from the file.
 * Returns SP_E_INPUT if the file names a matrix of this part that `source` does not have, or that
 * has another width; a draft of which nothing becomes q2 to q6 may be another one. *n_used and
 * *n_without count the part's matrices that become q2 to q6 with and without calibration; an
 * embedding that is not the output matrix needs none. */
SP_MUST_CHECK enum sp_status sp_calibration_apply(const struct sp_calibration_file *file,
                                                  struct sp_plan *plan,
                                                  const struct sp_source *source, enum sp_part part,
                                                  size_t *n_used, size_t *n_without,
                                                  struct sp_err *err);

#endif
