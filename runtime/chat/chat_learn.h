/* What probes of a chat template show of the format of its answers. */
#ifndef SP_RUNTIME_CHAT_CHAT_LEARN_H
#define SP_RUNTIME_CHAT_CHAT_LEARN_H

#include "runtime/chat/chat_format.h"

/* Learns which conversations a template does not take, by rendering short ones of known words: a
 * conversation is taken if it is rendered and all of its words are in the text. */

/* *refused = the changes (enum sp_chat_change) that conversations need. Learning nothing is not an
 * error. SP_E_CHECK: the template exceeds a limit of work or memory. */
SP_MUST_CHECK enum sp_status sp_chat_learn_refusals(unsigned *refused, const struct sp_template *t,
                                                    const struct sp_chat_format *format,
                                                    struct sp_err *err);

/* Sets the format of tool calls in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_calls(struct sp_chat_format *out,
                                                 const struct sp_template *t, struct sp_err *err);

/* Sets the tags around reasoning in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_reasoning(struct sp_chat_format *out,
                                                     const struct sp_template *t,
                                                     struct sp_err *err);

#endif
