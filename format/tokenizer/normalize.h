/* Unicode normalization forms. Together with unicode.c the only user of utf8proc, of which it takes
 * the tables: the library's own reordering of marks is quadratic in the length of a run. */
#ifndef SP_FORMAT_TOKENIZER_NORMALIZE_H
#define SP_FORMAT_TOKENIZER_NORMALIZE_H

#include "format/base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum sp_normal_form { SP_NFC, SP_NFD, SP_NFKC, SP_NFKD };

/* Appends the normal form of `text` (valid UTF-8) to *out. *changed false: it is text itself, and
 * nothing was appended. */
SP_MUST_CHECK enum sp_status sp_normalize(struct sp_strbuf *out, bool *changed,
                                          enum sp_normal_form form, const char *text, size_t len,
                                          struct sp_err *err);

/* Returns true if normalization can change this character in Unicode 9, the version that models
 * were trained with; combining marks of later versions do not count as such. */
bool sp_normal_knows(uint32_t c);

/* Appends text in lower case, character by character, as Rust's char::to_lowercase. */
SP_MUST_CHECK enum sp_status sp_lowercase(struct sp_strbuf *out, const char *text, size_t len,
                                          struct sp_err *err);

#endif
