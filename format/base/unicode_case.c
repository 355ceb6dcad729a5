/* Case mappings and character classes from utf8proc's tables, with Python's borders where they
 * differ: the separators 0x1c..0x1f are white space. */
#include "format/base/unicode_case.h"

#include <utf8proc.h>

/* Letters whose upper case is several letters (unconditional part of Unicode's SpecialCasing). */
static const struct {
    uint32_t from, upper[SP_CASE_FOLD_MAX], title[SP_CASE_FOLD_MAX];
} special[] = {
    {0x00df, {'S', 'S', 0}, {'S', 's', 0}},     {0x0149, {0x2bc, 'N', 0}, {0x2bc, 'N', 0}},
    {0x01f0, {'J', 0x30c, 0}, {'J', 0x30c, 0}}, {0x0587, {0x535, 0x552, 0}, {0x535, 0x582, 0}},
    {0x1e96, {'H', 0x331, 0}, {'H', 0x331, 0}}, {0x1e97, {'T', 0x308, 0}, {'T', 0x308, 0}},
    {0x1e98, {'W', 0x30a, 0}, {'W', 0x30a, 0}}, {0x1e99, {'Y', 0x30a, 0}, {'Y', 0x30a, 0}},
    {0x1e9a, {'A', 0x2be, 0}, {'A', 0x2be, 0}}, {0xfb00, {'F', 'F', 0}, {'F', 'f', 0}},
    {0xfb01, {'F', 'I', 0}, {'F', 'i', 0}},     {0xfb02, {'F', 'L', 0}, {'F', 'l', 0}},
    {0xfb03, {'F', 'F', 'I'}, {'F', 'f', 'i'}}, {0xfb04, {'F', 'F', 'L'}, {'F', 'f', 'l'}},
    {0xfb05, {'S', 'T', 0}, {'S', 't', 0}},     {0xfb06, {'S', 'T', 0}, {'S', 't', 0}},
};

static size_t copy(uint32_t out[SP_CASE_FOLD_MAX], const uint32_t from[SP_CASE_FOLD_MAX])
{
    size_t n = 0;

    while (n < SP_CASE_FOLD_MAX && from[n]) {
        out[n] = from[n];
        n++;
    }
    return n;
}

size_t sp_unicode_upper(uint32_t out[SP_CASE_FOLD_MAX], uint32_t c)
{
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if (special[i].from == c) return copy(out, special[i].upper);
    out[0] = (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
    return 1;
}

size_t sp_unicode_title(uint32_t out[SP_CASE_FOLD_MAX], uint32_t c)
{
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if (special[i].from == c) return copy(out, special[i].title);
    out[0] = (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
    return 1;
}

size_t sp_unicode_lower(uint32_t out[SP_CASE_FOLD_MAX], uint32_t c)
{
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool sp_unicode_is_upper(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216f) ||
           (c >= 0x24b6 && c <= 0x24cf);
}

bool sp_unicode_is_lower(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba ||
           (c >= 0x2170 && c <= 0x217f) || (c >= 0x24d0 && c <= 0x24e9) ||
           (c >= 0x2b0 && c <= 0x2b8);
}

bool sp_unicode_is_cased(uint32_t c)
{
    return sp_unicode_is_upper(c) || sp_unicode_is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

bool sp_unicode_is_alpha(uint32_t c)
{
    utf8proc_category_t cat = category(c);

    return cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO;
}

bool sp_unicode_is_decimal(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool sp_unicode_is_numeric(uint32_t c)
{
    utf8proc_category_t cat = category(c);

    return cat >= UTF8PROC_CATEGORY_ND && cat <= UTF8PROC_CATEGORY_NO;
}

bool sp_unicode_is_printable(uint32_t c)
{
    utf8proc_category_t cat = category(c);

    if (c == ' ') return true;
    return cat != UTF8PROC_CATEGORY_CN &&
           !(cat >= UTF8PROC_CATEGORY_ZS && cat <= UTF8PROC_CATEGORY_CO);
}

bool sp_unicode_is_space(uint32_t c)
{
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20);
    return c == 0x85 ||
           (category(c) >= UTF8PROC_CATEGORY_ZS && category(c) <= UTF8PROC_CATEGORY_ZP);
}

bool sp_unicode_begins_name(uint32_t c)
{
    return c == '_' || sp_unicode_is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool sp_unicode_continues_name(uint32_t c)
{
    utf8proc_category_t cat = category(c);

    return sp_unicode_begins_name(c) || sp_unicode_is_decimal(c) || cat == UTF8PROC_CATEGORY_MN ||
           cat == UTF8PROC_CATEGORY_MC || cat == UTF8PROC_CATEGORY_PC;
}

static int lower_ascii(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool sp_equal_ignoring_case(const char *a, const char *b)
{
    for (; *a && lower_ascii(*a) == lower_ascii(*b); a++)
        b++;
    return lower_ascii(*a) == lower_ascii(*b);
}

bool sp_is_whitespace(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
