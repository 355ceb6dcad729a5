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

/* ---- answer_grammar_mark.c ---- */

/* Blanks that may be there. */
uint32_t sp_chat_grammar_whitespace(struct sp_chat_grammar_builder *b, uint32_t next);

/* A mark; an empty one is nothing. Where it holds a token that ends answers, the answer ends. */
uint32_t sp_chat_grammar_tag(struct sp_chat_grammar_builder *b, const char *tag, uint32_t next);

/* The same with blanks behind it, or before it. */
uint32_t sp_chat_grammar_open_tag(struct sp_chat_grammar_builder *b, const char *tag,
                                  uint32_t next);
uint32_t sp_chat_grammar_close_tag(struct sp_chat_grammar_builder *b, const char *tag,
                                   uint32_t next);

/* A text up to one of at most SP_STOP_TAGS marks, none of which is in it. */
enum { SP_STOP_TAGS = 2 };
struct sp_stop_tag {
    const char *tag; /* not empty */
    uint32_t next;   /* behind it */
};
struct sp_free_text {
    struct sp_stop_tag stops[SP_STOP_TAGS];
    size_t n_stops;
    const char *not_first; /* what its first byte but for blanks is none of; NULL: anything */
    uint32_t end;          /* where the text may end without a mark, or SP_GRAMMAR_NEVER */
};
uint32_t sp_chat_grammar_free_text(struct sp_chat_grammar_builder *b,
                                   const struct sp_free_text *text);

/* ---- answer_grammar_call.c ---- */

/* All calls of an answer, up to its end: with their marks, behind the first mark or two of them,
 * and without. */
struct sp_chat_grammar_calls {
    uint32_t all, behind_all_open, behind_open, bare;
};
struct sp_chat_grammar_calls sp_chat_grammar_calls(struct sp_chat_grammar_builder *b);

/* ---- answer_grammar_arguments.c ---- */

/* The arguments of a function: a JSON object, */
uint32_t sp_chat_grammar_object(struct sp_chat_grammar_builder *b, const struct sp_json *function,
                                uint32_t next);

/* or one by one. */
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
