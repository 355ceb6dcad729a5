/* The grammar of a chat format: the arguments of a tool call. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_ARGUMENTS_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_ARGUMENTS_H

#include "runtime/chat/chat_grammar_parts.h"

/* The arguments of a function as a JSON object. */
uint32_t sp_chat_grammar_object(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                                uint32_t next);

/* How a chat format writes the arguments of a call one by one. */
struct sp_argument_notation {
    const char *before_key, *after_key;
    const char *before_text,
        *after_text; /* around a string without quotes; NULL: all strings have quotes */
    const char *before_value, *after_value; /* around JSON */
    const char *lead, *tail;                /* whitespace inside before_text and after_text */
    const char *separator;                  /* between arguments */
    bool keys_are_words;                    /* keys are Python identifiers */
};

uint32_t sp_chat_grammar_arguments(struct sp_chat_grammar_builder *b,
                                   const struct sp_json *function,
                                   const struct sp_argument_notation *notation, uint32_t next);

#endif
