/* The plan's tensors by group (format/weights/tensor_group.h): types, bytes, and what rounding is
 * predicted to cost. */
#ifndef SP_CONVERT_CREATE_PLAN_GROUPS_H
#define SP_CONVERT_CREATE_PLAN_GROUPS_H

#include "convert/create/plan.h"
#include "format/weights/sensitivity.h"
#include "format/weights/tensor_group.h"

/* *kl = the KL divergence that rounding the target's weights is predicted to cause, in nats per
 * token; NAN if a group that is rounded was not measured. */
SP_MUST_CHECK enum sp_status sp_plan_groups_predict(double *kl, const struct sp_plan *plan,
                                                    const struct sp_sensitivities *sensitivities,
                                                    struct sp_err *err);

/* *text = a table, without a last newline, owned by the caller: a line for each group, where
 * consecutive layers that agree are one line, and a line for the whole of each part. With measured
 * sensitivities (n > 0) it has a column for the predicted KL divergence, of the target. */
SP_MUST_CHECK enum sp_status sp_plan_groups_print(char **text, const struct sp_plan *plan,
                                                  const struct sp_sensitivities *sensitivities,
                                                  struct sp_err *err);

#endif
