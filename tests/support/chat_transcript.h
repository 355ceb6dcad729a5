/* Feeds model output to the chat parser in parts and writes down what the parser reports. Every
 * failure fails the test. */
#ifndef SP_TESTS_SUPPORT_CHAT_TRANSCRIPT_H
#define SP_TESTS_SUPPORT_CHAT_TRANSCRIPT_H

#include "format/base/strbuf.h"
#include "format/json/json.h"
#include "runtime/chat/chat_parser.h"

#include <stdbool.h>
#include <stddef.h>

/* The tools of all tests: get_weather, with a parameter of each type, and now, which has no
 * parameters. Valid between transcript_setup and transcript_teardown. */
extern struct sp_json *transcript_tools;

/* Setup and teardown of a test group. */
int transcript_setup(void **state);
int transcript_teardown(void **state);

/* The reported parts as text, "T(reasoning)C(content)F(name arguments)"; adjacent parts of one
 * kind are joined. */
struct transcript {
    struct sp_strbuf text;
    int last; /* kind of the last part; -1: none */
};
void transcript_append(struct sp_strbuf *text, const char *more, size_t size);
/* Callback of the parser; context is a struct transcript. The last parenthesis stays open. */
void transcript_record(void *context, const struct sp_chat_part *part);

struct answer {
    const struct sp_chat_format *format;
    bool no_tools, in_reasoning;
    const char *text;
    size_t size;
};
/* Feeds the bytes from..to-1 of the text to the parser. */
void transcript_feed(struct sp_chat_parser *parser, const struct answer *a, size_t from, size_t to);
/* Returns the transcript; owned by the caller (free). Fails the test unless it is the same when
 * the text arrives as a whole, cut in two at every place, or byte by byte. */
char *transcript_read(const struct answer *a);

#endif
