#include "runtime/grammar/whitespace_style.h"
#include "format/base/unicode_case.h"

#include <stdint.h>
#include <string.h>

enum { MOST_DEPTH = 32 }; /* levels of brackets that are distinguished */

/* The last place before text[end - 1] with the same byte, outside strings and inside the same
 * number of brackets; SIZE_MAX: none. */
static size_t find_same_context(const char *text, size_t end)
{
    size_t at[MOST_DEPTH], depth = 0, last = end - 1;
    bool quoted = false;

    for (size_t i = 0; i < MOST_DEPTH; i++)
        at[i] = SIZE_MAX;
    for (size_t i = 0; i <= last; i++) {
        char c = text[i];
        if (quoted && c == '\\') i++;
        if (c == '"') quoted = !quoted;
        if (quoted) continue;
        if (strchr("{[", c) && c && depth + 1 < MOST_DEPTH) depth++;
        if (strchr("}]", c) && c && depth > 0) depth--;
        if (i == last) return at[depth];
        if (c == text[last]) at[depth] = i;
    }
    return SIZE_MAX;
}

bool sp_whitespace_style_next(char *next, const char *text, size_t len)
{
    size_t n = 0, at;

    while (n < len && sp_is_whitespace(text[len - 1 - n]))
        n++;
    if (n == len) return false;
    at = find_same_context(text, len - n);
    if (at == SIZE_MAX || memcmp(text + at + 1, text + len - n, n) != 0) return false;
    *next = text[at + 1 + n];
    return true;
}
