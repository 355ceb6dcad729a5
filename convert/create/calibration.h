/* A calibration file: what `spectool calibrate` learned about the inputs of a target's matrices, to
 * quantize them with (quantize/gptq.h). The file is a packed one (spectool-pack(5)).
 *
 * Everything is checked when it is opened: digests, names, sizes, and every number. */
#ifndef SP_CONVERT_CREATE_CALIBRATION_H
#define SP_CONVERT_CREATE_CALIBRATION_H

#include "convert/create/plan.h"

struct sp_calibration_file; /* opaque */

SP_MUST_CHECK enum sp_status sp_calibration_open(struct sp_calibration_file **out, const char *path,
                                                 struct sp_err *err);
/* Opens the calibration in a packed file that is open already; the file is closed with the
 * calibration, or on failure. */
SP_MUST_CHECK enum sp_status sp_calibration_take(struct sp_calibration_file **out,
                                                 struct sp_pack *pack, struct sp_err *err);
void sp_calibration_close(struct sp_calibration_file *file); /* NULL is fine */

/* Gives the plan's items that become q4 the numbers for their inputs, borrowed from the file.
 * SP_E_INPUT where a matrix that the file names is not in `target`, or is of another width. *n_used
 * and *n_without: matrices of the target that become q4 with numbers, and without. */
SP_MUST_CHECK enum sp_status sp_calibration_apply(const struct sp_calibration_file *file,
                                                  struct sp_plan *plan,
                                                  const struct sp_source *target, size_t *n_used,
                                                  size_t *n_without, struct sp_err *err);

#endif
