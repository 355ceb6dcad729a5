/* An answer, read as it comes: content, thoughts, calls of tools.
 *
 * Text goes in by pieces, cut anywhere; what may still become a mark waits. Out come the same
 * texts in the same order, without the marks and the blanks next to them. A call comes out when it
 * is complete; what begins like one and is none comes out as content, mark and all, so that
 * nothing is lost. How the text was cut does not change what comes out, but for where content and
 * thoughts are cut. */
#ifndef SP_RUNTIME_CHAT_CHAT_PARSER_H
#define SP_RUNTIME_CHAT_CHAT_PARSER_H

#include "runtime/chat/chat_format.h"
#include "runtime/spectool.h"

typedef void sp_chat_part_fn(void *context, const struct sp_chat_part *piece);

struct sp_chat_parser_options {
    const struct sp_chat_format *format; /* borrowed while the parser lives */
    const struct sp_json *tools; /* as an API has them, for the types of arguments; borrowed. NULL:
                                  * calls are not looked for */
    bool in_reasoning;           /* the prompt has opened one */
    bool held; /* what begins like a call is one (answer_grammar.h): it is told as it comes */
    sp_chat_part_fn *piece;
    void *context;
};

struct sp_chat_parser; /* opaque */

SP_MUST_CHECK enum sp_status sp_chat_parser_open(struct sp_chat_parser **out,
                                                 const struct sp_chat_parser_options *reading,
                                                 struct sp_err *err);
void sp_chat_parser_close(struct sp_chat_parser *parser); /* NULL is fine */

/* special: what a special token stands for, which counts in marks alone: no content, thought or
 * call shows it. Failures are of memory. */
SP_MUST_CHECK enum sp_status sp_chat_parser_feed(struct sp_chat_parser *parser, const char *text,
                                                 size_t size, bool special, struct sp_err *err);
/* The answer ends here. A call that lacks only its closing mark is complete. */
SP_MUST_CHECK enum sp_status sp_chat_parser_finish(struct sp_chat_parser *parser,
                                                   struct sp_err *err);

#endif
