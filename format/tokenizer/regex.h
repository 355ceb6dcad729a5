/* The patterns of tokenizers: plain texts and regular expressions. The only user of PCRE2.
 *
 * tokenizer.json is written for Oniguruma with its Ruby syntax; a pattern is rewritten for PCRE2 so
 * that it means the same (regex_translate.c), or refused. A pattern is immutable and may be used by
 * several threads, each with its own matcher. */
#ifndef SP_FORMAT_TOKENIZER_REGEX_H
#define SP_FORMAT_TOKENIZER_REGEX_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Oniguruma's Ruby syntax to PCRE2; used by regex.c. */

/* *out: a pattern for PCRE2 with UTF, UCP and MULTILINE, owned by the caller (free). What PCRE2 has
 * no equal for is SP_E_UNSUPPORTED. */
SP_MUST_CHECK enum sp_status sp_regex_translate(char **out, size_t *out_len, const char *pattern,
                                                size_t len, struct sp_err *err);

struct sp_regex;
struct sp_regex_matcher;

enum { SP_REGEX_MAX_LEN = 1 << 16 };

/* is_regex: else `pattern` stands for itself. What cannot be rewritten or compiled is
 * SP_E_UNSUPPORTED. */
SP_MUST_CHECK enum sp_status sp_regex_open(struct sp_regex **out, const char *pattern, size_t len,
                                           bool is_regex, struct sp_err *err);
void sp_regex_close(struct sp_regex *regex); /* NULL is fine */

/* What one thread needs for matching, any pattern. */
SP_MUST_CHECK enum sp_status sp_regex_matcher_open(struct sp_regex_matcher **out,
                                                   struct sp_err *err);
void sp_regex_matcher_close(struct sp_regex_matcher *matcher); /* NULL is fine */

/* All matches in a text, from left to right, without overlap. An empty match at the end of the
 * match before it is passed over. */
struct sp_find {
    const struct sp_regex *regex;
    struct sp_regex_matcher *matcher;
    const char *text; /* valid UTF-8 */
    size_t len;
    size_t pos, last_end; /* zero at first */
    bool any;             /* false at first */
};

/* *found false: there are no more. SP_E_INPUT: the pattern needs too many steps on this text. */
SP_MUST_CHECK enum sp_status sp_find_next(struct sp_find *find, bool *found, size_t *start,
                                          size_t *end, struct sp_err *err);

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_regex_library(char *text, size_t size);

#endif
