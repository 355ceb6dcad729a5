/* The known parts of a tool call whose text is not complete. */
#ifndef SP_RUNTIME_CHAT_PARTIAL_CALL_H
#define SP_RUNTIME_CHAT_PARTIAL_CALL_H

#include "runtime/chat/tool_call.h"

/* The known parts of a call that a grammar guarantees to be one: places in the source's text. Only
 * for calls that are JSON with the name first. */
struct sp_partial_call {
    size_t name, n_name;
    size_t arguments, n_arguments; /* begin and known length of the arguments, if they have begun */
};
bool sp_partial_call_read(struct sp_partial_call *out, const struct sp_tool_call_source *source);

#endif
