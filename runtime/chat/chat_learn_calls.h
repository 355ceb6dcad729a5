/* Learning how a template writes tool calls; a part of sp_chat_format_learn. */
#ifndef SP_RUNTIME_CHAT_CHAT_LEARN_CALLS_H
#define SP_RUNTIME_CHAT_CHAT_LEARN_CALLS_H

#include "runtime/chat/chat_format.h"

/* Sets the format of tool calls in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_calls(struct sp_chat_format *out,
                                                 const struct sp_template *t, struct sp_err *err);

#endif
