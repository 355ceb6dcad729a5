/* The grammar of a chat format: the arguments of a tool call. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_ARGUMENTS_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_ARGUMENTS_H

#include "runtime/chat/chat_grammar_parts.h"

/* The arguments of a function as a JSON object. */
uint32_t sp_chat_grammar_object(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                                uint32_t next);

/* How a chat format writes the arguments of a call one by one. */
struct sp_argument_notation {
    const char *before_key, *behind_key;
    const char *before_text, *behind_text;   /* around a string that stands as it is; NULL: none
                                              * does */
    const char *before_value, *behind_value; /* around JSON */
    const char *lead, *tail;                 /* blanks inside the former two */
    const char *separator;                   /* between arguments */
    bool keys_are_words;                     /* as Python has them */
};

uint32_t sp_chat_grammar_arguments(struct sp_chat_grammar_builder *b,
                                   const struct sp_json *function,
                                   const struct sp_argument_notation *notation, uint32_t next);

#endif
