#include "format/base/unicode.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* The bounds of the second byte after each kind of first byte (Unicode, table 3-7). */
static size_t lead(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    if (first < 0xE0) return 2;
    if (first < 0xF0) {
        if (first == 0xE0) *low = 0xA0;
        if (first == 0xED) *high = 0x9F;
        return 3;
    }
    if (first > 0xF4) return 0;
    if (first == 0xF0) *low = 0x90;
    if (first == 0xF4) *high = 0x8F;
    return 4;
}

enum sp_utf8 sp_utf8_scan(const char *text, size_t len, size_t *n)
{
    uint8_t low, high;
    size_t want = lead((uint8_t)text[0], &low, &high);

    if (want == 0) {
        *n = 1;
        return SP_UTF8_BAD;
    }
    for (size_t i = 1; i < want; i++) {
        *n = i;
        if (i == len) return SP_UTF8_PARTIAL;
        uint8_t c = (uint8_t)text[i];
        if (c < low || c > high) return SP_UTF8_BAD;
        low = 0x80;
        high = 0xBF;
    }
    *n = want;
    return SP_UTF8_CHAR;
}

size_t sp_utf8_valid(const char *text, size_t len)
{
    size_t i = 0, n;

    while (i < len) {
        uint64_t word;
        if (len - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if ((word & 0x8080808080808080U) == 0) {
                i += sizeof word;
                continue;
            }
        }
        if (sp_utf8_scan(text + i, len - i, &n) != SP_UTF8_CHAR) return i;
        i += n;
    }
    return len;
}

uint32_t sp_utf8_next(const char *text, size_t len, size_t *pos)
{
    const uint8_t *s = (const uint8_t *)text + *pos;
    size_t n;

    if (s[0] < 0x80) {
        (*pos)++;
        return s[0];
    }
    if (sp_utf8_scan(text + *pos, len - *pos, &n) != SP_UTF8_CHAR) {
        (*pos)++;
        return 0xFFFD;
    }
    *pos += n;
    if (n == 2) return (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3F);
    if (n == 3) return (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3F);
    return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 |
           (uint32_t)(s[2] & 0x3F) << 6 | (s[3] & 0x3F);
}

size_t sp_utf8_put(char out[SP_UTF8_MAX], uint32_t c)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

size_t sp_utf8_prev(const char *text, size_t pos)
{
    do {
        pos--;
    } while (pos > 0 && ((uint8_t)text[pos] & 0xC0) == 0x80);
    return pos;
}

void sp_utf8_hide_controls(char *text, size_t size, const char *kept)
{
    for (size_t i = 0, n; i < size; i += n) {
        bool whole = sp_utf8_scan(text + i, size - i, &n) == SP_UTF8_CHAR;
        size_t at = i;
        uint32_t c = whole ? sp_utf8_next(text, size, &at) : 0;
        if (c >= 0xA0 || (c >= 0x20 && c < 0x7F)) continue;
        if (c && c < 0x20 && strchr(kept, (int)c) != NULL) continue;
        memset(text + i, '?', n);
    }
}

size_t sp_grapheme_end(const char *text, size_t len, size_t begin)
{
    size_t end = begin;
    utf8proc_int32_t state = 0, last = (utf8proc_int32_t)sp_utf8_next(text, len, &end);

    while (end < len) {
        size_t next = end;
        utf8proc_int32_t c = (utf8proc_int32_t)sp_utf8_next(text, len, &next);
        if (utf8proc_grapheme_break_stateful(last, c, &state)) break;
        last = c;
        end = next;
    }
    return end;
}

bool sp_char_is_space(uint32_t c)
{
    if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || c == ' ';
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool sp_char_is_word(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) return true;
    if (category == UTF8PROC_CATEGORY_PC) return true;
    /* joiners, and symbols that are Alphabetic: circled and squared letters */
    return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
           (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
           (c >= 0x1F170 && c <= 0x1F189);
}

bool sp_char_is_mark(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

void sp_unicode_library(char *text, size_t size)
{
    snprintf(text, size, "utf8proc %s", utf8proc_version());
}
