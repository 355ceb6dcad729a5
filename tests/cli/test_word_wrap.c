/* Tests that a growing text is broken between words: what a terminal shows in the end does not
 * depend on the pieces in which the text came. */
#include "cli/base/out.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <locale.h>

/* Returns what a terminal shows that received the bytes: the cursor moves left, the rest of a line
 * is erased. Wide characters are 3 bytes and 2 columns, combining ones 2 bytes and none, all others
 * ASCII. Owned. */
static char *screen_of(const char *bytes, size_t size)
{
    char *lines = calloc(1, size + 1);
    size_t len = 0;

    for (size_t i = 0; i < size; i++) {
        int columns = 0;
        if (bytes[i] != '\033') {
            lines[len++] = bytes[i];
            continue;
        }
        assert_int_equal(sscanf(bytes + i, "\033[%dD\033[K", &columns), 1);
        i = (size_t)(strchr(bytes + i, 'K') - bytes);
        while (columns > 0) {
            unsigned char c = (unsigned char)lines[--len];
            if (c < 0x80) columns--;
            if (c >= 0xE0) columns -= 2;
        }
    }
    lines[len] = '\0';
    return keep(lines);
}

/* Wraps the text, given in pieces of n characters of one to three bytes. */
static char *wrap_text(const char *text, int width, size_t n)
{
    struct sp_word_wrap wrap;
    char *bytes = NULL;
    size_t size = 0, len;
    FILE *f = tmpfile();

    assert_non_null(f);
    sp_word_wrap_begin(&wrap, f);
    wrap.width = width;
    while (*text) {
        len = 0;
        for (size_t i = 0; i < n && text[len]; i++) {
            len++;
            while (((unsigned char)text[len] & 0xC0) == 0x80)
                len++;
        }
        sp_word_wrap_text(&wrap, text, len);
        text += len;
    }
    size = (size_t)ftell(f);
    rewind(f);
    bytes = keep(malloc(size + 1));
    assert_int_equal(fread(bytes, 1, size, f), size);
    bytes[size] = '\0';
    fclose(f);
    return screen_of(bytes, size);
}

TEST(texts)
{
    static const struct {
        int width;
        const char *text, *shown;
    } cases[] = {
        {10, "one two three four", "one two \nthree four"},
        {10, "one two th\nree", "one two th\nree"},
        {10, "one two thr ee", "one two \nthr ee"},
        {7, "one two three", "one two\nthree"},
        {7, "one two  x", "one two\nx"},
        {4, "one seventeen two", "one \nseventeen\ntwo"},
        {10, "a-b-c-d-e-f-g-h", "a-b-c-d-e-f-g-h"},
        {10, "word\n\nnext line is long\n", "word\n\nnext line \nis long\n"},
        {10, "```c\nint a = 1, b = 2, c = 3;\n```\nand words again",
         "```c\nint a = 1, b = 2, c = 3;\n```\nand words \nagain"},
        {10, "  ~~~\n``` one two three four\n~~~\none two three",
         "  ~~~\n``` one two three four\n~~~\none two \nthree"},
        /* a fence with a text after it, or a shorter one, does not end code */
        {10, "````md\n```c\nint a = 1, b = 2;\n```\nx y z x y z x y z\n````\none two three",
         "````md\n```c\nint a = 1, b = 2;\n```\nx y z x y z x y z\n````\none two \nthree"},
        {10, "```\nint a = 1, b = 2;\n```c\nint a = 1, b = 2;\n```  \r\none two three",
         "```\nint a = 1, b = 2;\n```c\nint a = 1, b = 2;\n```  \r\none two \nthree"},
        {10, "use ``` in one two three", "use ``` in\none two \nthree"},
        {10, "``not code one two", "``not code\none two"},
        /* a wide character is a word of two columns, and a combining one has none */
        {5, "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "\xe6\x97\xa5\xe6\x9c\xac\n\xe8\xaa\x9e"},
        {6,
         "ab e\xcc\x81"
         "e\xcc\x81"
         "e\xcc\x81 x",
         "ab e\xcc\x81"
         "e\xcc\x81"
         "e\xcc\x81\nx"},
        {6,
         "abc e\xcc\x81"
         "ee",
         "abc \ne\xcc\x81"
         "ee"},
        {12, "a\tbcd efg", "a\tbcd \nefg"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t n = 1; n < 30; n++) {
            char *shown = wrap_text(cases[i].text, cases[i].width, n);
            assert_string_equal(shown, cases[i].shown);
        }
    }
}

/* Texts of random words, whose lines are filled word by word. */
TEST(random_words)
{
    unsigned random = 1;

    for (int run = 0; run < 500; run++) {
        char text[1024] = "", expected[2048] = "";
        int width = 12 + run % 60, column = 0;
        for (int i = 0; i < 40; i++) {
            char word[16] = "";
            random = random * 1103515245u + 12345u;
            int len = 1 + (int)(random >> 16) % 11;
            memset(word, 'a' + i % 26, (size_t)len);
            word[len] = '\0';
            if (i > 0) {
                strcat(text, " ");
                if (column < width) strcat(expected, " ");
                column++;
            }
            strcat(text, word);
            if (column + len > width) {
                strcat(expected, "\n");
                column = 0;
            }
            strcat(expected, word);
            column += len;
        }
        for (size_t n = 1; n < 9; n += 3)
            assert_string_equal(wrap_text(text, width, n), expected);
    }
}

/* A word longer than the buffer is left to the terminal. */
TEST(long_word)
{
    char text[4000], *shown;

    memset(text, 'x', sizeof text);
    memcpy(text + sizeof text - 7, " a bcd", 7);
    shown = wrap_text(text, 2000, 100);
    assert_string_equal(shown, text);
}

/* Words that are moved to the next line begin after the indent, in each line of the text. */
TEST(indent)
{
    static const char text[] = "  /set  one two three four\n  /x    five six";
    struct sp_word_wrap wrap;
    char bytes[200], *shown;
    FILE *f = tmpfile();

    assert_non_null(f);
    sp_word_wrap_begin(&wrap, f);
    wrap.width = 18;
    wrap.indent = 8;
    sp_word_wrap_text(&wrap, text, strlen(text));
    rewind(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    shown = screen_of(bytes, size);
    assert_string_equal(shown, "  /set  one two \n        three four\n  /x    five six");
}

static int use_utf8(void **state)
{
    (void)state;
    return setlocale(LC_CTYPE, "C.UTF-8") == NULL;
}

GROUP_FIXTURE(use_utf8, NULL);
