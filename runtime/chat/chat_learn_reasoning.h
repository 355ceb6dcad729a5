/* Learning how a template writes reasoning; a part of sp_chat_format_learn. */
#ifndef SP_RUNTIME_CHAT_CHAT_LEARN_REASONING_H
#define SP_RUNTIME_CHAT_CHAT_LEARN_REASONING_H

#include "runtime/chat/chat_format.h"

/* Sets the tags around reasoning in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_reasoning(struct sp_chat_format *out,
                                                     const struct sp_template *t,
                                                     struct sp_err *err);

#endif
