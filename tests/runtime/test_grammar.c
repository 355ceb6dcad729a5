/* runtime/grammar/grammar.h, grammar_gbnf.c and grammar_matcher.h: characters against the
 * definition of UTF-8, GBNF against llama.cpp's grammars/README.md, and the limits. */
#include "format/base/unicode.h"
#include "runtime/grammar/grammar_sequence.h"
#include "runtime/grammar/grammar_matcher.h"
#include "tests/support/grammar_checks.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

static struct sp_grammar_matcher *gbnf(const char *text)
{
    return keep_matcher(keep_gbnf(text));
}

/* ---- characters ---- */

static bool is_in(uint32_t c, const struct sp_char_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

/* Tests every character, and every sequence of up to four bytes with the same first byte. */
TEST(characters)
{
    static const struct sp_char_range sets[][3] = {
        {{0, 0x10FFFF}, {1, 0}, {1, 0}},
        {{'a', 'z'}, {0x80, 0x10FFFF}, {1, 0}},
        {{0x7F, 0x801}, {0xD700, 0xE001}, {0xFFFF, 0x10001}},
        {{0x3B1, 0x3C9}, {0x4E12, 0x9ABC}, {0x1F601, 0x1F64E}},
        {{0x10FFFF, 0x10FFFF}, {0x800, 0x800}, {0x40, 0x40}},
    };

    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        size_t n = sets[k][1].first == 1 ? 1 : sets[k][2].first == 1 ? 2 : 3, n_kept = kept_count();
        struct sp_grammar *g = NULL;
        assert_ok(sp_grammar_new(&g, NULL));
        assert_ok(sp_grammar_finish(g, sp_grammar_chars(g, sets[k], n, SP_GRAMMAR_END), NULL));
        struct sp_grammar_matcher *a = keep_matcher(g);
        for (uint32_t c = 0; c <= 0x10FFFF; c++) {
            char bytes[SP_UTF8_MAX];
            size_t len = sp_utf8_put(bytes, c);
            bool wanted = is_in(c, sets[k], 3) && (c < 0xD800 || c > 0xDFFF);
            if (matcher_allows(a, bytes, len) != wanted)
                fail_msg("set %zu: U+%04X", k, (unsigned)c);
        }
        /* Invalid UTF-8: stray and missing continuation bytes, overlong forms, and values above
         * U+10FFFF. */
        for (unsigned lead = 0x80; lead < 256; lead++) {
            for (unsigned second = 0; second < 256; second++) {
                for (size_t len = 1; len <= 4; len++) {
                    char bytes[4] = {(char)lead, (char)second, (char)0x80, (char)0xBF};
                    size_t valid = sp_utf8_valid(bytes, len);
                    if (valid < len) assert_false(matcher_allows(a, bytes, len));
                }
            }
        }
        kept_release(n_kept);
        sp_grammar_close(g);
    }
}

/* ---- GBNF ---- */

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(notation)
{
    static const char chess[] =
        "# Specifies chess moves as a list in algebraic notation, using PGN conventions\n"
        "root   ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move "
        "\"\\n\")+\n"
        "move   ::= (pawn | nonpawn | castle) [+#]?\n"
        "# piece type, optional file/rank, optional capture, dest file & rank\n"
        "nonpawn ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
        "# optional file & capture, dest file & rank, optional promotion\n"
        "pawn    ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
        "castle  ::= \"O-O\" \"-O\"?\n";
    static const char braces[] = "root ::= \"ab\"{2} [c-e]{ 1 , 3 } (\"x\" | \"yz\"){1,}";
    static const char lines[] = "root ::= one |\n  two | (\n three\n four # five\n)\r\n\n"
                                "one::=\"1\"\ntwo ::= \"2\"\nthree ::= \"3\"\nfour ::= \"4\"";
    static const char escapes[] =
        "root ::= \"\\x41\\u00E9\\U0001F600\\\"\\\\\\n\\r\\t\" [\\]\\[^-] [^\\x00-\\x1F\"] .";
    static const char recursive[] = "root ::= \"(\" root \")\" root | \"\"";
    static const char empty[] = "root ::= a b? c*\na ::= \"\" | \"a\"\nb ::= a \"b\"\nc ::= b a";
    const struct {
        const char *grammar;
        const char *const *allowed, *const *forbidden; /* end with NULL */
    } all[] = {
        {chess, TEXTS("1. e4 e5\n2. Nf3 Nc6\n", "1. e4 e5\n2. exd5 O-O-O\n3. bxa8=Q+ Ke7#\n"),
         TEXTS("1. e4 e5\n", "1. e4 e9\n2. Nf3 Nc6\n")},
        {braces, TEXTS("ababcx", "ababcdeyzx"), TEXTS("ababc", "ababccccx", "abcx")},
        {lines, TEXTS("1", "2", "34"), TEXTS("3")},
        {escapes,
         TEXTS("A\xC3\xA9\xF0\x9F\x98\x80\"\\\n\r\t]a\n",
               "A\xC3\xA9\xF0\x9F\x98\x80\"\\\n\r\t-\xC3\xA9\xE2\x82\xAC"),
         TEXTS("A\xC3\xA9\xF0\x9F\x98\x80\"\\\n\r\t^\"a")},
        {recursive, TEXTS("", "(()())()"), TEXTS("(()")},
        {empty, TEXTS("", "aab", "ababba", "ba"), TEXTS("bc")},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct sp_grammar *g = keep_gbnf(all[i].grammar);
        for (const char *const *t = all[i].allowed; *t; t++)
            if (!grammar_allows(g, *t)) fail_msg("%s: \"%s\"", all[i].grammar, *t);
        for (const char *const *t = all[i].forbidden; *t; t++)
            if (grammar_allows(g, *t)) fail_msg("%s: \"%s\"", all[i].grammar, *t);
    }
}

TEST(invalid_grammars)
{
    static const struct {
        const char *text, *sentence;
        enum sp_status status;
    } all[] = {
        {"", "the grammar has no rule \"root\"", SP_E_INPUT},
        {"a ::= \"x\"", "the grammar has no rule \"root\"", SP_E_INPUT},
        {"root ::= a |\n  b\na ::= \"x\"", "2:3: this rule is not defined", SP_E_INPUT},
        {"root := \"x\"", "1:6: expected ::= after the name of the rule", SP_E_INPUT},
        {"root ::= \"x", "1:12: the text ends inside quotation marks or brackets", SP_E_INPUT},
        {"root ::= [a", "1:12: the text ends inside quotation marks or brackets", SP_E_INPUT},
        {"root ::= [b-a]", "1:11: a range that ends before it begins", SP_E_INPUT},
        {"root ::= (\"x\"\nb ::= \"y\"", "2:3: expected )", SP_E_INPUT},
        {"root ::= \"x\" )",
         "1:14: expected a text, characters in brackets, a group, the name of a "
         "rule or the end of the line",
         SP_E_INPUT},
        {"root ::= \"x\"**", "1:14: expected one repeat count, found a second", SP_E_INPUT},
        {"root ::= \"x\"{3,2}", "1:18: the maximum repeat count is below the minimum", SP_E_INPUT},
        {"root ::= \"x\"{a}", "1:14: expected a repeat count", SP_E_INPUT},
        {"root ::= \"\\q\"", "1:12: expected n, r, t, x, u, U, \", \\, [ or ] after a backslash",
         SP_E_INPUT},
        {"root ::= \"\\uD800\"", "1:17: not the number of a Unicode character", SP_E_INPUT},
        {"root ::= \"x\"\nroot ::= \"y\"", "2:1: this rule was defined before", SP_E_INPUT},
        {"root ::= <think>", "1:10: token references are not supported in grammars",
         SP_E_UNSUPPORTED},
        {"root ::= a \"x\"\na ::= \"y\"? b\nb ::= root | \"z\"",
         "root begins with itself (left recursion)", SP_E_INPUT},
        {"root ::= (\"\"* root \"a\")?", "root begins with itself (left recursion)", SP_E_INPUT},
        {"\xFF", "the grammar is not valid UTF-8", SP_E_INPUT},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sp_grammar *g = NULL;
        assert_fails_as(sp_grammar_of_gbnf(&g, all[i].text, strlen(all[i].text), why),
                        all[i].status, all[i].sentence);
        assert_null(g);
    }
}

/* ---- states ---- */

/* A loop returns to its own state, whatever was read, so a matcher has few states. */
TEST(loops_return_to_their_state)
{
    struct sp_grammar_matcher *a =
        gbnf("root ::= \"[\" (item (\",\" item)*)? \"]\"\nitem ::= [0-9]+ | root");
    uint32_t at = SP_STATE_START, inside;

    assert_ok(sp_grammar_matcher_read(a, &at, "[1,2", 4, NULL));
    inside = at;
    for (int i = 0; i < 1000; i++)
        assert_ok(sp_grammar_matcher_read(a, &at, "23,4", 4, NULL));
    assert_int_equal(at, inside);
    assert_true(sp_grammar_matcher_n_states(a) < 10);
    /* A deeply nested text returns to the initial state. */
    for (int i = 0; i < 5000; i++)
        assert_ok(sp_grammar_matcher_read(a, &at, ",[7", 3, NULL));
    for (int i = 0; i < 5000; i++)
        assert_ok(sp_grammar_matcher_read(a, &at, "]", 1, NULL));
    assert_false(sp_grammar_matcher_may_end(a, at));
    assert_ok(sp_grammar_matcher_read(a, &at, "]", 1, NULL));
    assert_true(sp_grammar_matcher_may_end(a, at));
    assert_ok(sp_grammar_matcher_forget(a, NULL));
    assert_true(matcher_allows(a, "[1,[2,3]]", 9));
}

TEST(grammar_draft)
{
    struct sp_grammar_matcher *a = gbnf("root ::= \"ab\" [cd] \"\xC3\xA9\" \"z\"?");
    static const char *const before[] = {"", "a", "ab", "abc", "abd\xC3", "abc\xC3\xA9"};
    static const int wanted[] = {'a', 'b', -1, 0xC3, 0xA9, -1};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        uint32_t at = SP_STATE_START;
        struct sp_byte_set bytes;
        size_t n;
        assert_ok(sp_grammar_matcher_read(a, &at, before[i], strlen(before[i]), NULL));
        assert_ok(sp_grammar_matcher_bytes(a, at, &bytes, &n, 9, NULL));
        assert_int_equal(n, wanted[i] >= 0 ? 1 : i == 2 ? 2 : 1);
        if (wanted[i] >= 0) assert_true(sp_byte_set_has(&bytes, (uint8_t)wanted[i]));
    }
}

/* Repetitions are counted, not expanded. Ambiguity is limited, with an error message. */
TEST(limits)
{
    struct sp_grammar_matcher *many = gbnf("root ::= [a-z]{100000,2000000}");
    struct sp_grammar_matcher *twice =
        gbnf("root ::= (a | b)*\na ::= \"x\" a | \"x\"\nb ::= \"x\" b \"x\" | \"x\"");
    struct sp_grammar_matcher *a = NULL;
    char text[4096], *at = text;
    uint32_t reached = SP_STATE_START;

    for (int i = 0; i < 99999; i++)
        assert_ok(sp_grammar_matcher_read(many, &reached, "q", 1, why));
    assert_false(sp_grammar_matcher_may_end(many, reached));
    assert_ok(sp_grammar_matcher_read(many, &reached, "q", 1, why));
    assert_true(sp_grammar_matcher_may_end(many, reached));
    assert_true(matcher_allows(twice, "xxxx", 4));

    /* 2^20 ambiguous derivations of the beginning. */
    at += sprintf(at, "root ::= r0\n");
    for (int i = 0; i < 20; i++)
        at += sprintf(at, "r%d ::= r%d \"a\" | r%d \"b\"\n", i, i + 1, i + 1);
    sprintf(at, "r20 ::= \"x\"\n");
    assert_fails_as(sp_grammar_matcher_open(&a, keep_gbnf(text), why), SP_E_INPUT,
                    "the grammar is too ambiguous: it can begin in more than 4096 ways");
}
