/* From plain text to the token ids that the model reads, and the special tokens among stop texts.
 */
#ifndef SP_CLI_CHAT_PROMPT_H
#define SP_CLI_CHAT_PROMPT_H

#include "cli/base/ids.h"
#include "cli/base/settings.h"
#include "runtime/spectool.h"

/* The text as it is: special tokens written in it are recognised, and with `first` what the
 * post-processor puts around a text is added. *ids owned by the caller. */
SP_MUST_CHECK enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package,
                                           const char *text, size_t size, bool first,
                                           struct sp_err *err);

/* The ids of the stop texts that are special tokens: the text of an answer never shows such a
 * token. Returns how many there are. */
size_t sp_prompt_stop_ids(uint32_t ids[SP_MAX_STOPS], const struct sp_package *package,
                          const struct sp_settings *settings);

#endif
