/* Oniguruma's Ruby syntax to PCRE2; used by regex.c. */
#ifndef SP_FORMAT_TOKENIZER_REGEX_TRANSLATE_H
#define SP_FORMAT_TOKENIZER_REGEX_TRANSLATE_H

#include "format/base/err.h"

#include <stddef.h>

/* *out: a pattern for PCRE2 with UTF, UCP and MULTILINE, owned by the caller (free). What PCRE2 has
 * no equal for is SP_E_UNSUPPORTED. */
SP_MUST_CHECK enum sp_status sp_regex_translate(char **out, size_t *out_len, const char *pattern,
                                                size_t len, struct sp_err *err);

#endif
