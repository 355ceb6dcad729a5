#include "runtime/chat/chat_tag.h"

size_t sp_whitespace_run(const char *text, size_t size)
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

bool sp_tag_is_any(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

enum sp_tag_match sp_tag_match(const char *tag, const char *text, size_t size, size_t *len)
{
    size_t at = 0;

    for (; *tag; tag++) {
        if (sp_is_whitespace(*tag))
            at += sp_whitespace_run(text + at, size - at);
        else if (*tag == SP_TAG_ANY)
            while (at < size && sp_tag_is_any(text[at]))
                at++;
        else if (at == size)
            return SP_TAG_MAYBE;
        else if (text[at++] != *tag)
            return SP_TAG_NO;
    }
    *len = at;
    return SP_TAG_YES;
}

enum sp_tag_match sp_tag_find(const char *tag, const char *text, size_t size, size_t *at,
                              size_t *len)
{
    for (; *at < size; ++*at) {
        enum sp_tag_match match = sp_tag_match(tag, text + *at, size - *at, len);
        if (match != SP_TAG_NO) return match;
    }
    return SP_TAG_NO;
}
