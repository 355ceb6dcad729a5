#include "runtime/chat/chat_tag.h"

bool sp_is_whitespace(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

size_t sp_blanks(const char *text, size_t size)
{
    size_t n = 0;

    while (n < size && sp_is_whitespace(text[n]))
        n++;
    return n;
}

size_t sp_trim_whitespace(const char *text, size_t size)
{
    while (size > 0 && sp_is_whitespace(text[size - 1]))
        size--;
    return size;
}

bool sp_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

enum sp_mark_match sp_mark_match(const char *mark, const char *text, size_t size, size_t *len)
{
    size_t at = 0;

    for (; *mark; mark++) {
        if (sp_is_whitespace(*mark)) {
            at += sp_blanks(text + at, size - at);
        } else if (*mark == SP_MARK_ANY) {
            while (at < size && sp_is_word(text[at]))
                at++;
        } else if (at == size) {
            return SP_MARK_MAYBE;
        } else if (text[at++] != *mark) {
            return SP_MARK_NO;
        }
    }
    *len = at;
    return SP_MARK_YES;
}

enum sp_mark_match sp_mark_find(const char *mark, const char *text, size_t size, size_t *at,
                                size_t *len)
{
    for (; *at < size; ++*at) {
        enum sp_mark_match match = sp_mark_match(mark, text + *at, size - *at, len);
        if (match != SP_MARK_NO) return match;
    }
    return SP_MARK_NO;
}
