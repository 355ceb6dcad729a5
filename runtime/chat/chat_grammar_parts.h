/* The parts of an answer's grammar: for answer_grammar*.c alone. As everywhere in grammars, a
 * function takes the node that follows and returns the one to begin at. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_PARTS_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_PARTS_H

#include "runtime/chat/chat_grammar.h"
#include "runtime/grammar/json_grammar.h"

struct sp_chat_grammar_builder {
    const struct sp_chat_grammar_options *form;
    struct sp_grammar *g;
    struct sp_json_grammar json;
    uint32_t word;                /* a rule: what stands for SP_TAG_ANY */
    struct sp_json *no_arguments; /* schemas: of an object without members, */
    struct sp_json *object;       /* and of any; owned */
};

#endif
