/* From what a user says to the token ids that the model reads. */
#ifndef SP_CLI_PROMPT_H
#define SP_CLI_PROMPT_H

#include "cli/ids.h"
#include "runtime/spectool.h"

/* Does the file come with a chat template (its own, or the checkpoint's)? */
SP_MUST_CHECK enum sp_status sp_prompt_has_template(bool *out, const struct sp_package *package,
                                                    struct sp_err *err);

/* The text as it is: special tokens written in it are recognised, and with `first` what the
 * post-processor puts around a text is added. *ids owned by the caller. */
SP_MUST_CHECK enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package,
                                           const char *text, size_t size, bool first,
                                           struct sp_err *err);

#endif
