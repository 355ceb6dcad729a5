/* The printable alphabet in which byte-level vocabularies spell bytes (from GPT-2): bytes that
 * print are themselves, the other 68 are U+0100 and up, in order. A space is U+0120. */
#ifndef SP_FORMAT_TOKENIZER_BYTE_LEVEL_H
#define SP_FORMAT_TOKENIZER_BYTE_LEVEL_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the bytes that `text` spells to out[len] and their number to *n; false, with out
 * undefined, when a character is not in the alphabet. out may be text. */
bool sp_byte_level_decode(char *out, size_t *n, const char *text, size_t len);

/* Writes bytes in the alphabet to out[2 * len]; returns the number of bytes written. */
size_t sp_byte_level_encode(char *out, const char *bytes, size_t len);

#endif
