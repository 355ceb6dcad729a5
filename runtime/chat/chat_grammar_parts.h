/* The builder that the files chat_grammar*.c share. As everywhere in grammars, a function takes
 * the node that follows and returns the node to begin at. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_PARTS_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_PARTS_H

#include "runtime/chat/chat_grammar.h"
#include "runtime/grammar/json_grammar.h"

struct sp_chat_grammar_builder {
    const struct sp_chat_grammar_options *options;
    struct sp_grammar *g;
    struct sp_json_grammar json;
    uint32_t word;                /* rule for SP_TAG_ANY */
    struct sp_json *no_arguments; /* schema of an object without members; owned */
    struct sp_json *object;       /* schema of any object; owned */
};

#endif
