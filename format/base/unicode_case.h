/* Upper and lower case, and the character classes of Python's str methods.
 *
 * The case mappings are Unicode's simple ones and those that turn one letter into several (such as
 * sharp s), as in Python's str.upper. */
#ifndef SP_FORMAT_BASE_UNICODE_CASE_H
#define SP_FORMAT_BASE_UNICODE_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SP_CASE_FOLD_MAX = 3 }; /* code points that one can become */

/* Write the mapped code points, return their number (1..SP_CASE_FOLD_MAX). */
size_t sp_unicode_upper(uint32_t out[SP_CASE_FOLD_MAX], uint32_t c);
size_t sp_unicode_lower(uint32_t out[SP_CASE_FOLD_MAX], uint32_t c);
size_t sp_unicode_title(uint32_t out[SP_CASE_FOLD_MAX], uint32_t c);

bool sp_unicode_is_upper(uint32_t c);
bool sp_unicode_is_lower(uint32_t c);
bool sp_unicode_is_cased(uint32_t c); /* upper, lower or title case */
bool sp_unicode_is_alpha(uint32_t c); /* a letter: L* */
bool sp_unicode_is_decimal(uint32_t c);
bool sp_unicode_is_numeric(uint32_t c);   /* N* */
bool sp_unicode_is_printable(uint32_t c); /* Python's str.isprintable */
bool sp_unicode_is_space(uint32_t c);     /* Python's str.isspace */
/* Returns true if both are equal except for the case of ASCII letters. */
bool sp_equal_ignoring_case(const char *a, const char *b);
bool sp_is_whitespace(char c); /* ' ', '\t', '\n' or '\r': JSON's whitespace */
/* How far a character may stand in an identifier. */
bool sp_unicode_begins_name(uint32_t c);
bool sp_unicode_continues_name(uint32_t c);

#endif
