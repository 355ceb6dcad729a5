/* Converts plain text to the ids of a prompt, and finds the special tokens among the stop texts. */
#ifndef SP_CLI_CHAT_PROMPT_H
#define SP_CLI_CHAT_PROMPT_H

#include "cli/base/ids.h"
#include "cli/base/settings.h"
#include "runtime/spectool.h"

/* Tokenizes a text without a template. Special tokens in it are recognized; `first` adds what the
 * post-processor puts around a text. *ids is owned by the caller. */
SP_MUST_CHECK enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package,
                                           const char *text, size_t size, bool first,
                                           struct sp_err *err);

/* Writes the ids of the stop texts that are special tokens, since the text of an answer never
 * contains such a token. Returns their number. */
size_t sp_prompt_stop_ids(uint32_t ids[SP_MAX_STOPS], const struct sp_package *package,
                          const struct sp_settings *settings);

/* Limits the reasoning of the answer as the settings say. */
void sp_prompt_limit_reasoning(struct sp_chat_request *request, const struct sp_settings *settings);

#endif
