/* Letters: upper and lower case, and the classes of characters that str methods ask about.
 *
 * Case mappings are Unicode's simple ones plus those that make one letter two (sharp s and its
 * kin), as Python's str.upper does. */
#ifndef SP_FORMAT_BASE_UNICODE_CASE_H
#define SP_FORMAT_BASE_UNICODE_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SP_LETTERS_MAX = 3 }; /* code points that one can become */

/* Write the mapped code points, return their number (1..SP_LETTERS_MAX). */
size_t sp_letter_upper(uint32_t out[SP_LETTERS_MAX], uint32_t c);
size_t sp_letter_lower(uint32_t out[SP_LETTERS_MAX], uint32_t c);
size_t sp_letter_title(uint32_t out[SP_LETTERS_MAX], uint32_t c);

bool sp_letter_is_upper(uint32_t c);
bool sp_letter_is_lower(uint32_t c);
bool sp_letter_is_cased(uint32_t c); /* upper, lower or title case */
bool sp_letter_is_alpha(uint32_t c); /* a letter: L* */
bool sp_letter_is_decimal(uint32_t c);
bool sp_letter_is_numeric(uint32_t c);   /* N* */
bool sp_letter_is_printable(uint32_t c); /* Python's str.isprintable */
bool sp_letter_is_space(uint32_t c);     /* Python's str.isspace */
/* The same but for the case of ASCII letters. */
bool sp_letters_alike(const char *a, const char *b);
/* How far a character may stand in an identifier. */
bool sp_letter_begins_name(uint32_t c);
bool sp_letter_continues_name(uint32_t c);

#endif
