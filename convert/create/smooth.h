/* Applies the smoothing that a calibration states (format/weights/smoothing.h) to a plan: a norm is
 * smoothed if matrices of 5 to 8 bits read it, and all matrices that read it can be scaled exactly
 * and have no fewer bits. */
#ifndef SP_CONVERT_CREATE_SMOOTH_H
#define SP_CONVERT_CREATE_SMOOTH_H

#include "convert/create/plan.h"
#include "format/weights/smoothing.h"

/* Sets the exponents of the items of the target, borrowed from `smoothing`, and the type of norms
 * that their stored type could not hold exactly. The norms that are smoothed are added to *applied,
 * which the caller releases, on failure too. SP_E_INPUT: the smoothing is that of another model. */
SP_MUST_CHECK enum sp_status sp_plan_smooth(struct sp_smoothing *applied, struct sp_plan *plan,
                                            const struct sp_smoothing *smoothing,
                                            const struct sp_source *target, struct sp_err *err);

/* The most bytes by which sp_plan_smooth makes norms of the plan larger. */
uint64_t sp_plan_smooth_growth(const struct sp_plan *plan, const struct sp_smoothing *smoothing);

#endif
