/* What a test reads, parses or runs is freed when the test ends, the last first; what a group's
 * setup keeps, when the group ends. So a test says what it checks, not what it frees. */
#ifndef SP_TESTS_SUPPORT_KEEP_H
#define SP_TESTS_SUPPORT_KEEP_H

#include "format/json/json.h"

#include <string.h>

/* Each returns its argument. */
void *keep(void *memory); /* of malloc */
struct sp_json *keep_json(struct sp_json *json);
void *keep_with(void *object, void (*release)(void *object));

/* Returns a text made as by printf; kept. */
__attribute__((format(printf, 1, 2))) const char *keep_format(const char *format, ...);

/* Returns JSON whose strings may stand between single quotes, so that C needs no escapes, with
 * double quotes; kept. */
const char *keep_quoted(const char *text);

/* The text as a whole; NULL is none. Borrowed. */
static inline struct sp_text whole_text(const char *text)
{
    return (struct sp_text){(char *)(uintptr_t)text, text ? strlen(text) : 0};
}

/* Parses the text, as by keep_quoted, and keeps the value; fails the test if it is refused. */
struct sp_json *keep_parsed(const char *text, size_t size, enum sp_json_strictness strictness);

/* Returns the value as text; kept. */
char *keep_printed(const struct sp_json *json);

/* For the program of the tests: the number of objects that are kept, and the release of all beyond
 * the first n. */
size_t kept_count(void);
void kept_release(size_t n);

#endif
