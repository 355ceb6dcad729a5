/* How a text begins and ends, whether it is one of some words, and the order of names. */
#ifndef SP_FORMAT_BASE_AFFIX_H
#define SP_FORMAT_BASE_AFFIX_H

#include <stdbool.h>
#include <string.h>

static inline bool sp_begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

static inline bool sp_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

/* True if text[len] is `word`. */
static inline bool sp_is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* True if the text is one of the words, which spaces separate. */
static inline bool sp_is_among(const char *text, const char *words)
{
    size_t n = strlen(text), len;

    for (; *words; words += len + (words[len] == ' ')) {
        len = strcspn(words, " ");
        if (len == n && memcmp(text, words, n) == 0) return true;
    }
    return false;
}

/* Compares two names, or structs that begin with a name, for qsort and bsearch. */
static inline int sp_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#endif
