/* Parses an answer as it comes into content, reasoning and tool calls.
 *
 * Text arrives in parts that may be divided anywhere; text that may still become a tag is held
 * back. The parser emits the same text in the same order, without the tags and the whitespace next
 * to them. A tool call is emitted when it is complete; text that begins like a call but is none is
 * emitted as content with its tag, so that nothing is lost. The division of the input only affects
 * where content and reasoning are divided. */
#ifndef SP_RUNTIME_CHAT_CHAT_PARSER_H
#define SP_RUNTIME_CHAT_CHAT_PARSER_H

#include "runtime/chat/chat_format.h"
#include "runtime/spectool.h"

typedef void sp_chat_part_fn(void *context, const struct sp_chat_part *part);

struct sp_chat_parser_options {
    const struct sp_chat_format *format; /* borrowed while the parser lives */
    const struct sp_json *tools; /* tools as in OpenAI's API, for the types of arguments; borrowed.
                                    NULL: calls are not parsed */
    bool in_reasoning;           /* the prompt opens the reasoning */
    bool constrained; /* a grammar constrains the answer (chat_grammar.h): text that begins like a
                  call is one, and is emitted as it comes */
    bool tagged_only; /* with `constrained`: only text that begins with a tag is a call */
    sp_chat_part_fn *part;
    void *context;
};

struct sp_chat_parser; /* opaque */

SP_MUST_CHECK enum sp_status sp_chat_parser_open(struct sp_chat_parser **out,
                                                 const struct sp_chat_parser_options *reading,
                                                 struct sp_err *err);
void sp_chat_parser_close(struct sp_chat_parser *parser); /* NULL is fine */

/* Feeds text. `special`: the text of a special token, which only counts in tags and is never
 * emitted. SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_chat_parser_feed(struct sp_chat_parser *parser, const char *text,
                                                 size_t size, bool special, struct sp_err *err);
/* Ends the answer. A call that only lacks its closing tag is complete. */
SP_MUST_CHECK enum sp_status sp_chat_parser_finish(struct sp_chat_parser *parser,
                                                   struct sp_err *err);

#endif
