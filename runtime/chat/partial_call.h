/* The known parts of a tool call whose text is not complete. */
#ifndef SP_RUNTIME_CHAT_PARTIAL_CALL_H
#define SP_RUNTIME_CHAT_PARTIAL_CALL_H

#include "runtime/chat/tool_call.h"

/* A call that is held to be one, as far as it is there: places in the source's text. Calls that are
 * JSON, the name first. */
struct sp_partial_call {
    size_t name, n_name;
    size_t arguments, n_arguments; /* of which something is there; n_arguments: all that is sure */
};
bool sp_partial_call_read(struct sp_partial_call *out, const struct sp_tool_call_source *source);

#endif
