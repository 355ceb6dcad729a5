/* The grammar of a chat format: its tags, whitespace, and free text up to a tag. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_TAG_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_TAG_H

#include "runtime/chat/chat_grammar_parts.h"

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
    const char
        *not_first; /* bytes that the text must not begin with after whitespace; NULL: none */
    uint32_t end;   /* node at which the text may end without a tag, or SP_GRAMMAR_NEVER */
};
uint32_t sp_chat_grammar_free_text(struct sp_chat_grammar_builder *b,
                                   const struct sp_free_text *text);

#endif
