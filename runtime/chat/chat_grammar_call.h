/* The grammar of a chat format: tool calls. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_CALL_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_CALL_H

#include "runtime/chat/chat_grammar_parts.h"

/* All calls of an answer, up to its end: with their marks, behind the first mark or two of them,
 * and without. */
struct sp_chat_grammar_calls {
    uint32_t all, behind_all_open, behind_open, bare;
};
struct sp_chat_grammar_calls sp_chat_grammar_calls(struct sp_chat_grammar_builder *b);

#endif
