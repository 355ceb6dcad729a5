/* Tags: the fixed texts that a model writes around reasoning and tool calls.
 *
 * Models are less exact about whitespace than their templates: where a tag has whitespace, a text
 * may have other whitespace or none. The place of an id or an index matches any word. */
#ifndef SP_RUNTIME_CHAT_CHAT_TAG_H
#define SP_RUNTIME_CHAT_CHAT_TAG_H

#include "format/base/unicode_case.h"

#include <stdbool.h>
#include <stddef.h>

enum { SP_TAG_SIZE = 160 }; /* bytes of a tag and its NUL; a longer one is not learned */

/* In a tag: any word, or none, of letters, digits, '_', '-' and '.'. */
#define SP_TAG_ANY '\x01'

enum sp_tag_match { SP_TAG_NO, SP_TAG_MAYBE, SP_TAG_YES }; /* MAYBE: the text is too short */

/* Matches a tag, which is not empty and has no whitespace at its ends, at the beginning of a text.
 * *len: the bytes of the match. */
enum sp_tag_match sp_tag_match(const char *tag, const char *text, size_t size, size_t *len);

/* Finds the first place from `at` on where the text has the tag (YES) or may turn out to have it
 * (MAYBE); NO and *at = size if there is none. */
enum sp_tag_match sp_tag_find(const char *tag, const char *text, size_t size, size_t *at,
                              size_t *len);

bool sp_tag_is_any(char c); /* true for the characters of SP_TAG_ANY */
/* The bytes of whitespace at the beginning of the text. */
size_t sp_whitespace_run(const char *text, size_t size);
size_t sp_trim_whitespace(const char *text, size_t size);

#endif
