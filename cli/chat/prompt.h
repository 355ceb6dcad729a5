/* From text to the token ids that the model reads, and the special tokens that end an answer. */
#ifndef SP_CLI_CHAT_PROMPT_H
#define SP_CLI_CHAT_PROMPT_H

#include "cli/base/ids.h"
#include "runtime/spectool.h"
#include "runtime/template/template.h"

/* The text as it is: special tokens written in it are recognised, and with `first` what the
 * post-processor puts around a text is added. *ids owned by the caller. */
SP_MUST_CHECK enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package,
                                           const char *text, size_t size, bool first,
                                           struct sp_err *err);

/* Is the text, from its beginning to at most its end, a special token? Such tokens have no text in
 * an answer, so no stop text ever finds them. *size: of the token's text. */
bool sp_prompt_special(uint32_t *id, size_t *size, const struct sp_package *package,
                       const char *text);

/* The special token that a template puts behind an answer; false where there is none. */
bool sp_prompt_end_of_turn(uint32_t *id, const struct sp_package *package,
                           const struct sp_template *t);

#endif
