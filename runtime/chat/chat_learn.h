/* What probes of a chat template show of the format of its answers. */
#ifndef SP_RUNTIME_CHAT_CHAT_LEARN_H
#define SP_RUNTIME_CHAT_CHAT_LEARN_H

#include "runtime/chat/chat_format.h"

/* Sets the format of tool calls in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_calls(struct sp_chat_format *out,
                                                 const struct sp_template *t, struct sp_err *err);

/* Sets the tags around reasoning in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_reasoning(struct sp_chat_format *out,
                                                     const struct sp_template *t,
                                                     struct sp_err *err);

#endif
