/* The facts of a calibration file that `show` prints as text or JSON. */
#ifndef SP_CLI_BASE_CALIBRATION_FACTS_H
#define SP_CLI_BASE_CALIBRATION_FACTS_H

#include "format/base/json_write.h"
#include "format/packfile.h"

struct sp_calibration_facts {
    int64_t n_tokens;  /* of the texts that were read */
    size_t n_matrices; /* whose inputs were observed */
    size_t n_smoothed; /* norms */
    size_t n_groups;   /* whose sensitivities were measured */
};

SP_MUST_CHECK enum sp_status sp_calibration_facts_read(struct sp_calibration_facts *out,
                                                       const struct sp_pack *pack,
                                                       struct sp_err *err);
/* `name` is what the user calls the file. */
SP_MUST_CHECK enum sp_status sp_calibration_facts_print(const struct sp_calibration_facts *facts,
                                                        const char *name,
                                                        const struct sp_pack *pack,
                                                        struct sp_err *err);
/* Writes the facts as a member of an object that the caller has begun. */
void sp_calibration_facts_to_json(struct sp_json_out *out,
                                  const struct sp_calibration_facts *facts);

#endif
