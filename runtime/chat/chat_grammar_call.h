/* The grammar of a chat format: tool calls. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_CALL_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_CALL_H

#include "runtime/chat/chat_grammar_parts.h"

/* Grammar nodes that match all calls of an answer and what follows them, by the place where they
 * begin. */
struct sp_chat_grammar_calls {
    uint32_t all;            /* before the first tag */
    uint32_t after_all_open; /* after the tag that opens all calls */
    uint32_t after_open;     /* after the tag that opens one call */
    uint32_t bare;           /* calls without tags */
};
/* next: after the last call and its tags. */
struct sp_chat_grammar_calls sp_chat_grammar_calls(struct sp_chat_grammar_builder *b,
                                                   uint32_t next);

#endif
