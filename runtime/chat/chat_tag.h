/* Marks: the fixed texts that a model writes around its thoughts and its calls of tools.
 *
 * Models are less exact about blanks than their templates: where a mark has blanks, a text may have
 * others or none. What stands in the place of an id or an index matches any word. */
#ifndef SP_RUNTIME_CHAT_CHAT_TAG_H
#define SP_RUNTIME_CHAT_CHAT_TAG_H

#include "format/base/unicode_case.h"

#include <stdbool.h>
#include <stddef.h>

enum { SP_TAG_SIZE = 160 }; /* of a mark and its NUL; a longer one is not learned */

/* In a mark: a word, or none, of letters, digits, '_', '-' and '.'. */
#define SP_TAG_ANY '\x01'

enum sp_tag_match { SP_TAG_NO, SP_TAG_MAYBE, SP_TAG_YES }; /* MAYBE: the text is too short */

/* Does the text begin with the mark, which is not empty and begins and ends with no blank? *len: of
 * its bytes, where it does. */
enum sp_tag_match sp_tag_match(const char *tag, const char *text, size_t size, size_t *len);

/* The first place from `at` on where the text has the mark (YES), or may turn out to have it
 * (MAYBE); *at = size and NO where it has none. */
enum sp_tag_match sp_tag_find(const char *tag, const char *text, size_t size, size_t *at,
                              size_t *len);

bool sp_is_word(char c); /* what SP_TAG_ANY stands for */
/* Bytes of blanks that the text begins with; that it has without those at its end. */
size_t sp_whitespace_run(const char *text, size_t size);
size_t sp_trim_whitespace(const char *text, size_t size);

#endif
