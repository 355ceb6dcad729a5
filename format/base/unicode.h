/* UTF-8, and the few properties of characters that tokenizers ask for. Together with normalize.c
 * the only user of utf8proc. */
#ifndef SP_FORMAT_BASE_UNICODE_H
#define SP_FORMAT_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SP_UTF8_MAX = 4 };

/* Bytes of the longest valid prefix of text; `len` when all of it is valid UTF-8. */
size_t sp_utf8_valid(const char *text, size_t len);

/* The kind of what begins at text[0], len > 0: a whole character of *n bytes; an ill-formed prefix
 * of *n bytes, which counts as one error (Unicode's "maximal subpart"); or *n == len bytes that
 * more input may complete. */
enum sp_utf8 { SP_UTF8_CHAR, SP_UTF8_BAD, SP_UTF8_PARTIAL };
enum sp_utf8 sp_utf8_scan(const char *text, size_t len, size_t *n);

/* Returns the character at text[*pos], *pos < len, and moves *pos after it. A byte that begins no
 * character counts as U+FFFD; nothing from `len` on is read. */
uint32_t sp_utf8_next(const char *text, size_t len, size_t *pos);
/* Writes a code point <= 0x10FFFF; returns the number of bytes. */
size_t sp_utf8_put(char out[SP_UTF8_MAX], uint32_t c);

/* The value of a hexadecimal digit; -1: it is none. */
static inline int sp_hex_digit(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Where the character that ends before text[pos], pos > 0, begins. */
size_t sp_utf8_prev(const char *text, size_t pos);

/* Replaces by '?' each byte of control characters (C0, DEL and C1), other than those in `kept`, and
 * of ill-formed sequences: texts of foreign files must not control a terminal. */
void sp_utf8_hide_controls(char *text, size_t size, const char *kept);

/* The end of the extended grapheme cluster (UAX #29) that begins at text[begin], begin < len. */
size_t sp_grapheme_end(const char *text, size_t len, size_t begin);

bool sp_char_is_space(uint32_t c); /* Unicode White_Space */
/* True for \w of Rust's regex crate: Alphabetic, mark, decimal digit, connector or joiner. */
bool sp_char_is_word(uint32_t c);
bool sp_char_is_mark(uint32_t c); /* Mn, Mc, Me */

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_unicode_library(char *text, size_t size);

#endif
