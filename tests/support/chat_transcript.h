/* Answers read by the parser piece by piece, and what is told of them, written down. All failures
 * fail the test. */
#ifndef SP_TESTS_SUPPORT_CHAT_TRANSCRIPT_H
#define SP_TESTS_SUPPORT_CHAT_TRANSCRIPT_H

#include "format/base/json.h"
#include "format/base/strbuf.h"
#include "runtime/chat/chat_parser.h"

#include <stdbool.h>
#include <stddef.h>

/* The tools of all tests: get_weather, with a parameter of each type, and now, without any. */
extern struct sp_json *transcript_tools;

/* Set-up and teardown of a group of tests. */
int transcript_setup(void **state);
int transcript_teardown(void **state);

/* "T(thought)C(content)F(name arguments)": neighbours of a kind are one. */
struct transcript {
    struct sp_strbuf text;
    int last; /* kind, -1: none */
};
void transcript_append(struct sp_strbuf *text, const char *more, size_t size);
/* A reading's `piece`; its context is a transcript. The last bracket stays open. */
void transcript_record(void *context, const struct sp_chat_part *piece);

struct answer {
    const struct sp_chat_format *format;
    bool no_tools, in_reasoning;
    const char *text;
    size_t size;
};
/* The bytes from..to-1. */
void transcript_feed(struct sp_chat_parser *parser, const struct answer *a, size_t from, size_t to);
/* The transcript, the same however the answer is cut in two, or into bytes; owned (free). */
char *transcript_read(const struct answer *a);

#endif
