/* Measures the sensitivities of a target's groups of matrices (format/weights/sensitivity.h).
 *
 * In a layer each group is rounded to q2, and all groups together to q6. A group's divergence is
 *
 *   K = f + s E(q2);   of all of them with q6:   F = f + E(q6) sum of s
 *
 * with the sensitivity s, the error E of a type (sp_policy_error) and f, what any change costs
 * where activations are rounded to 8 bits: the roundings of the layers above come out differently,
 * by about as much for a small change as for a large one. The two equations give s and f. Matrices
 * outside of the layers, which matter more, are rounded to q3 instead of q2. */
#ifndef SP_RUNTIME_MEASURE_MEASURE_SENSITIVITY_H
#define SP_RUNTIME_MEASURE_MEASURE_SENSITIVITY_H

#include "format/weights/sensitivity.h"
#include "runtime/measure/input_stats.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

/* Measures with the texts, callback and output path of `request`. Matrices are rounded with the
 * weights of `stats`, as create rounds them with this calibration. What is measured is kept in a
 * file beside the output, and the same request continues from there; the caller removes that file
 * when it has written the output. SP_E_CANCELLED: the callback stopped. */
SP_MUST_CHECK enum sp_status sp_measure_sensitivity(struct sp_sensitivities *out,
                                                    struct sp_package *package,
                                                    const struct sp_input_stats *stats,
                                                    const struct sp_calibration_request *request,
                                                    struct sp_err *err);

/* *path = the file beside the output, owned by the caller. */
SP_MUST_CHECK enum sp_status sp_measure_sensitivity_path(char **path,
                                                         const struct sp_calibration_request *q,
                                                         struct sp_err *err);

#endif
