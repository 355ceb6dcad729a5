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
    bool is_relaxed, takes_any;   /* the schema of the current function is relaxed, or ignored */
    struct sp_err relaxed;        /* its first keyword without an effect */
};

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

/* Optional whitespace. */
uint32_t sp_chat_grammar_whitespace(struct sp_chat_grammar_builder *b, uint32_t next);

/* A tag; an empty one is nothing. Where the tag has a token that ends answers, the answer ends. */
uint32_t sp_chat_grammar_tag(struct sp_chat_grammar_builder *b, const char *tag, uint32_t next);

/* A tag with whitespace before it; an empty tag is nothing. */
uint32_t sp_chat_grammar_close_tag(struct sp_chat_grammar_builder *b, const char *tag,
                                   uint32_t next);

/* A text up to one of at most SP_STOP_TAGS tags; the text contains none of them. */
enum { SP_STOP_TAGS = 2 };
struct sp_stop_tag {
    const char *tag; /* not empty */
    uint32_t next;   /* node after the tag */
};
struct sp_free_text {
    struct sp_stop_tag stops[SP_STOP_TAGS];
    size_t n_stops;
    const char *not_first; /* bytes with which no text begins after whitespace; NULL: none */
    uint32_t end;          /* node at which the text may end without a tag, or SP_GRAMMAR_NEVER */
};
uint32_t sp_chat_grammar_free_text(struct sp_chat_grammar_builder *b,
                                   const struct sp_free_text *text);

#endif
