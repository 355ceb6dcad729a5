/* The grammar of a chat format: tool calls. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_CALL_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_CALL_H

#include "runtime/chat/chat_grammar_parts.h"

/* All calls of an answer, up to its end: from the first tag, after the tag of all calls, after the
 * tag of one call, and without tags. */
struct sp_chat_grammar_calls {
    uint32_t all, after_all_open, after_open, bare;
};
struct sp_chat_grammar_calls sp_chat_grammar_calls(struct sp_chat_grammar_builder *b);

#endif
