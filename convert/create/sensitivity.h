/* How much each group of a target's matrices matters to its output, as a calibration file states
 * it: `sensitivity` in its record (spectool-pack(5)). */
#ifndef SP_CONVERT_CREATE_SENSITIVITY_H
#define SP_CONVERT_CREATE_SENSITIVITY_H

#include "format/base/err.h"
#include "format/base/json.h"
#include "format/model/tensor_group.h"

/* KL divergence of the output (nats per token) that errors in the weights of a group cause, divided
 * by their relative squared error: the sum of squared errors over the sum of squared weights, the
 * same in each matrix of the group. */
struct sp_sensitivity {
    struct sp_tensor_group group;
    double kl_per_error;
};

/* Valid when zeroed: nothing is measured. */
struct sp_sensitivities {
    struct sp_sensitivity *entries; /* sorted by group; owned */
    size_t n, cap;
};

/* Reads the measurements in the record of a calibration; none are there if it has no `sensitivity`.
 * SP_E_INPUT names what is malformed. */
SP_MUST_CHECK enum sp_status sp_sensitivities_read(struct sp_sensitivities *out,
                                                   const struct sp_json *record,
                                                   struct sp_err *err);
void sp_sensitivities_release(struct sp_sensitivities *sensitivities);

/* The entry of a group; NULL: it was not measured. */
const struct sp_sensitivity *sp_sensitivities_find(const struct sp_sensitivities *sensitivities,
                                                   struct sp_tensor_group group);

#endif
