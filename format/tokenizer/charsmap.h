/* The character map of SentencePiece's normalizers (the component Precompiled of tokenizer.json):
 * replacements of short byte sequences, found by a double-array trie.
 *
 * The map is base64 of a little-endian u32, the trie's size in bytes; the trie's units, u32 each;
 * and the replacements, each of which ends in a zero byte. Layout of the units: Darts-clone, which
 * SentencePiece uses. */
#ifndef SP_FORMAT_TOKENIZER_CHARSMAP_H
#define SP_FORMAT_TOKENIZER_CHARSMAP_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes whole groups of four digits, of which the last may end in one or two '='. `out` has room
 * for len / 4 * 3 bytes. False: other characters. */
bool sp_base64_decode(uint8_t *out, size_t *out_len, const char *text, size_t len);

struct sp_charsmap; /* immutable: any number of threads may use it */

/* SP_E_INPUT if the text is not base64 or the sizes are wrong. */
SP_MUST_CHECK enum sp_status sp_charsmap_open(struct sp_charsmap **out, const char *base64,
                                              size_t len, struct sp_err *err);
void sp_charsmap_close(struct sp_charsmap *map); /* NULL is fine */

/* The replacement of the shortest key that text[0..len-1] begins with; *replacement is borrowed
 * from the map. Returns false if there is none. */
bool sp_charsmap_find(const struct sp_charsmap *map, const char *text, size_t len,
                      const char **replacement, size_t *replacement_len);

#endif
