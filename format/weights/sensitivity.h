/* How much each group of a target's matrices matters to its output, as a calibration file states
 * it: `sensitivity` in its record (spectool-pack(5)). */
#ifndef SP_FORMAT_WEIGHTS_SENSITIVITY_H
#define SP_FORMAT_WEIGHTS_SENSITIVITY_H

#include "format/json/json.h"
#include "format/json/json_write.h"
#include "format/weights/tensor_group.h"

/* KL divergence of the output (nats per token) if the matrices of a group are rounded to a type of
 * few bits, divided by the error of that type (sp_policy_error in quantize/policy.h). */
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
/* Appends the member "sensitivity" of a record, which sp_sensitivities_read reads. */
void sp_sensitivities_print(struct sp_json_out *out, const struct sp_sensitivities *sensitivities);
/* Adds a group that has no entry. SP_E_INPUT if the number is not finite. */
SP_MUST_CHECK enum sp_status sp_sensitivities_add(struct sp_sensitivities *sensitivities,
                                                  struct sp_tensor_group group, double kl_per_error,
                                                  struct sp_err *err);
void sp_sensitivities_release(struct sp_sensitivities *sensitivities);

/* The entry of a group; NULL: it was not measured. */
const struct sp_sensitivity *sp_sensitivities_find(const struct sp_sensitivities *sensitivities,
                                                   struct sp_tensor_group group);

#endif
