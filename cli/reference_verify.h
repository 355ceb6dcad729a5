/* spectool verify --reference: holds the logits of a generation against the reference decoder. */
#ifndef SP_CLI_REFERENCE_VERIFY_H
#define SP_CLI_REFERENCE_VERIFY_H

#include "cli/base/ids.h"
#include "cli/verify_prompts.h"

/* The file, opened for the reference decoder in each mode. A zeroed struct is closed. */
struct sp_reference_verify {
    struct sp_package *modes[SP_REFERENCE_CHECKED + 1]; /* owned */
};

SP_MUST_CHECK enum sp_status sp_reference_verify_open(struct sp_reference_verify *v,
                                                      const char *path, struct sp_err *err);
void sp_reference_verify_close(struct sp_reference_verify *v);

/* Compares the logits that chose the ids of `answer`, and prints a line. SP_E_CHECK: a
 * kernel computes something else. */
SP_MUST_CHECK enum sp_status
sp_reference_verify_prompt(const struct sp_reference_verify *v, struct sp_package *package,
                           const struct sp_verify_options *options, const struct sp_ids *ids,
                           const struct sp_result *answer, size_t prompt, struct sp_err *err);

#endif
