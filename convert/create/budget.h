/* The best types for a number of bytes: of all choices of one type for each group of matrices
 * (format/weights/tensor_group.h) the one with the smallest sum of sensitivity times relative
 * squared error that fits.
 *
 * The sum approximates the KL divergence of the output, because small errors of different groups
 * add up. It is only as good as the sensitivities: errors of equal size cost tens of times more in
 * some groups than in others, so that without sensitivities a smaller sum can mean a larger
 * divergence; and where few positions make up the mean, the errors of groups do not add up. The
 * commands therefore measure the choice (cli/create_check.h).
 *
 * The result depends on the numbers given alone. */
#ifndef SP_CONVERT_CREATE_BUDGET_H
#define SP_CONVERT_CREATE_BUDGET_H

#include "convert/create/plan.h"
#include "format/weights/sensitivity.h"

struct sp_budget_request {
    const struct sp_plan *plan; /* begins with the target's tensors, in their stored types */
    size_t n_target;            /* the number of these */
    bool keep_output;           /* embedding and output matrix keep the types of the plan */
    uint64_t most;              /* bytes for all tensors of the target */
    const struct sp_sensitivities *sensitivities; /* n 0: a table of kinds is used */
};

/* What is known of the choice that was made, or why none was. */
struct sp_budget_result {
    uint64_t least,
        largest; /* bytes of the target's tensors with q2 and with q8 for all matrices */
    size_t n_groups, n_measured; /* groups whose type was chosen, and those with a sensitivity */
};

/* Sets choices[0..n_target-1] of the matrices that can have any type and have no choice yet. If
 * `most` is below result->least, nothing is set and *fits is false. */
SP_MUST_CHECK enum sp_status sp_budget_choose(struct sp_plan_choice *choices, bool *fits,
                                              struct sp_budget_result *result,
                                              const struct sp_budget_request *request,
                                              struct sp_err *err);

#endif
