/* format/base/unicode.h: every well-formed sequence is a character, every ill-formed one is found
 * where Unicode says it is, and control characters are hidden. */
#include "format/base/unicode.h"
#include "tests/support/unit_test.h"

/* An ill-formed text: its valid prefix, and the lengths of the errors and characters after it that
 * the Unicode Standard's "maximal subparts" give (section 3.9, tables 3-8 to 3-11). */
struct bad {
    const char *text;
    size_t valid;
    const char *lengths; /* a digit each: of an error; 'c': a character of one byte */
};

static const struct bad bads[] = {
    {"\x80", 0, "1"},
    {"\xBF\x80", 0, "11"},
    {"ab\xFE", 2, "1"},
    {"\xFF\xFE", 0, "11"},
    {"\xC0\xAF", 0, "11"},                     /* overlong '/' */
    {"\xC1\xBF", 0, "11"},                     /* overlong DEL */
    {"\xE0\x80\xAF", 0, "111"},                /* overlong '/' */
    {"\xE0\x9F\xBF", 0, "111"},                /* overlong U+07FF */
    {"\xF0\x80\x80\xAF", 0, "1111"},           /* overlong '/' */
    {"\xF0\x8F\xBF\xBF", 0, "1111"},           /* overlong U+FFFF */
    {"\xC0\x80", 0, "11"},                     /* "modified UTF-8" NUL */
    {"\xED\xA0\x80", 0, "111"},                /* U+D800 */
    {"\xED\xBF\xBF", 0, "111"},                /* U+DFFF */
    {"\xED\xA0\xBD\xED\xB8\x80", 0, "111111"}, /* CESU-8 pair */
    {"\xF4\x90\x80\x80", 0, "1111"},           /* U+110000 */
    {"\xF5\x80\x80\x80", 0, "1111"},           /* U+140000 */
    {"\xF8\x88\x80\x80\x80", 0, "11111"},      /* five bytes */
    {"\xFC\x84\x80\x80\x80\x80", 0, "111111"}, /* six bytes */
    {"\xC2"
     "a",
     0, "1c"}, /* cut short */
    {"\xE2\x82"
     "a",
     0, "2c"},
    {"\xF0\x9F\x91"
     "a",
     0, "3c"},
    {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
     "A",
     0, "2132c"}, /* table 3-11 */
    {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
     "A",
     0, "11111111c"}, /* table 3-8 */
    {"\xF4\x91\x92\x93\xFF"
     "A\x80\xBF"
     "B",
     0, "11111c11c"}, /* table 3-10 */
};

TEST(ill_formed_sequences_are_found)
{
    for (size_t k = 0; k < sizeof bads / sizeof *bads; k++) {
        const char *text = bads[k].text, *want = bads[k].lengths;
        size_t len = strlen(text), at = bads[k].valid, n;
        assert_int_equal(sp_utf8_valid(text, len), bads[k].valid);
        for (; *want; want++, at += n) {
            enum sp_utf8 kind = sp_utf8_scan(text + at, len - at, &n);
            assert_int_equal(kind, *want == 'c' ? SP_UTF8_CHAR : SP_UTF8_BAD);
            assert_int_equal(n, *want == 'c' ? 1 : *want - '0');
        }
        assert_int_equal(at, len);
    }
}

/* Prefixes of characters are not errors yet. */
TEST(prefixes_wait_for_more)
{
    static const char *const whole[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x91\x8B"};
    size_t n;

    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) {
        for (size_t len = 1; len < strlen(whole[k]); len++) {
            assert_int_equal(sp_utf8_scan(whole[k], len, &n), SP_UTF8_PARTIAL);
            assert_int_equal(n, len);
            assert_int_equal(sp_utf8_valid(whole[k], len), 0);
        }
    }
}

TEST(every_character_is_read_back)
{
    for (uint32_t c = 1; c <= 0x10FFFF; c++) {
        char text[SP_UTF8_MAX];
        size_t at = 0, n;
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        n = sp_utf8_put(text, c);
        if (sp_utf8_valid(text, n) != n || sp_utf8_next(text, n, &at) != c || at != n)
            fail_msg("U+%04X", (unsigned)c);
    }
}

/* All sequences of three bytes against the bounds of table 3-7, written another way: the number of
 * valid ones is that of the characters, alone and side by side. */
TEST(no_other_sequence_is_valid)
{
    size_t n_valid = 0;
    const size_t one = 128, two = 0x800 - 128, three = 0x10000 - 0x800 - 2048;

    for (uint32_t v = 0; v < 1 << 24; v++) {
        const char text[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        n_valid += sp_utf8_valid(text, 3) == 3;
    }
    assert_int_equal(n_valid, one * one * one + 2 * one * two + three);
}

TEST(controls_are_hidden)
{
    char text[] = "a\x1b[31m\nb\t\x7f\xC2\x9B"
                  "c\xC2\xA0\xFF\xE2\x82\xAC\xE2\x82";

    sp_utf8_hide_controls(text, sizeof text - 1, "\n\t");
    assert_string_equal(text, "a?[31m\nb\t???c\xC2\xA0?\xE2\x82\xAC??");
    sp_utf8_hide_controls(text, sizeof text - 1, "");
    assert_string_equal(text, "a?[31m?b????c\xC2\xA0?\xE2\x82\xAC??");
}
