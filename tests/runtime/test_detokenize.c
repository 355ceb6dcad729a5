/* runtime/tokenizer/tokenizer.h: which text is emitted after each token. Expected texts follow by
 * hand from the rules of the `tokenizers` library's decoders; test_tokenizer compares whole
 * decodings with that library. */
#include "runtime/tokenizer/tokenizer.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

#define BAD "\xEF\xBF\xBD" /* U+FFFD */

/* Ids in the order of this list. The bytes of U+1F600 are F0 9F 98 80, which the byte alphabet
 * spells U+00F0, U+0141, U+013A, U+0122. */
static const char byte_level[] =
    "{\"added_tokens\":[{\"id\":7,\"content\":\"<s> "
    "\",\"special\":true}],\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":"
    "\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"merges\":[],\"vocab\":{\"a\":0,"
    "\"\xC4\xA0\":1,\"\xC3\xB0\":2,\"\xC5\x81\":3,\"\xC4\xBA\":4,\"\xC4\xA2\":5,\"\xC3\xBF\":6}}}";
enum { A, SPACE, F0, X9F, X98, X80, FF, SPECIAL, NOTHING };

#define FALLBACK(decoders)                                                                         \
    "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" decoders "]},\"model\":{\"merges\":[],"   \
    "\"vocab\":{\"a\":0,\"\xE2\x96\x81\":1,\"<0xF0>\":2,\"<0x9F>\":3,\"<0x98>\":4,\"<0x80>\":5,"   \
    "\"<0xFF>\":6,\"\xE2\x96\x81"                                                                  \
    "a\":7,\"<0x41>\":8}}}"
#define SPACES "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},"
#define BYTES "{\"type\":\"ByteFallback\"}"
#define FUSE ",{\"type\":\"Fuse\"}"
#define STRIP(start, stop)                                                                         \
    ",{\"type\":\"Strip\",\"content\":\" \",\"start\":" start ",\"stop\":" stop "}"
static const char llama[] = FALLBACK(SPACES BYTES FUSE STRIP("1", "0"));
static const char both_ends[] = FALLBACK(SPACES BYTES FUSE STRIP("2", "2"));
static const char each_token[] = FALLBACK(SPACES BYTES STRIP("1", "0"));
static const char late_replace[] =
    FALLBACK(BYTES FUSE ",{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"b\"}");
enum { S_A = 0, S, S_F0, S_9F, S_98, S_80, S_FF, S_SA, S_41 };

/* Checks the text that each id emits, followed by the text of flush. */
static void expect_parts(const char *json, bool skip_special, const uint32_t *ids, size_t n,
                         const char *const *parts)
{
    struct sp_detokenizer *detok = NULL;
    struct tokenizer_case t;
    const char *text;
    size_t size;

    tokenizer_case_open(&t, json, strlen(json), NULL);
    assert_ok(sp_detokenizer_open(&detok, t.tok, skip_special, why));
    for (int round = 0; round < 2; round++) { /* flush begins a new stream */
        for (size_t i = 0; i <= n; i++) {
            if (i < n) assert_int_equal(sp_detokenizer_feed(detok, ids[i], &text, &size, NULL), 0);
            if (i == n) assert_int_equal(sp_detokenizer_flush(detok, &text, &size, NULL), 0);
            if (size != strlen(parts[i]) || memcmp(text, parts[i], size) != 0)
                fail_msg("part %zu is \"%.*s\", expected \"%s\"", i, (int)size, text, parts[i]);
        }
    }
    sp_detokenizer_close(detok);
}

#define EXPECT(json, skip, ids, ...)                                                               \
    do {                                                                                           \
        static const char *const parts[] = {__VA_ARGS__};                                          \
        assert_int_equal(sizeof parts / sizeof parts[0], sizeof ids / sizeof ids[0] + 1);          \
        expect_parts(json, skip, ids, sizeof ids / sizeof ids[0], parts);                          \
    } while (0)

TEST(bytes)
{
    static const uint32_t whole[] = {F0, X9F, X98, X80, A};
    static const uint32_t cut[] = {A, F0, X9F, X98};
    static const uint32_t broken[] = {F0, X9F, A, X80, FF, FF};
    static const uint32_t restarted[] = {F0, F0, X9F, X98, X80};

    EXPECT(byte_level, false, whole, "", "", "", "\xF0\x9F\x98\x80", "a", "");
    EXPECT(byte_level, false, cut, "a", "", "", "", BAD);
    EXPECT(byte_level, false, broken, "", "", BAD "a", BAD, BAD, BAD, "");
    EXPECT(byte_level, false, restarted, "", BAD, "", "", "\xF0\x9F\x98\x80", "");
}

/* Special tokens and ids without a token do not interrupt an incomplete character. A token that
 * contains a character outside of the byte alphabet, here a space, is emitted unchanged. */
TEST(specials)
{
    static const uint32_t ids[] = {F0, X9F, SPECIAL, NOTHING, X98, X80, SPACE};

    EXPECT(byte_level, true, ids, "", "", "", "", "", "\xF0\x9F\x98\x80", " ", "");
    EXPECT(byte_level, false, ids, "", "", BAD "<s> ", "", BAD, BAD, " ", "");
}

/* A run of byte tokens is decoded byte by byte. The stream emits complete characters. */
TEST(fallback)
{
    static const uint32_t whole[] = {S_F0, S_9F, S_98, S_80, S_A};
    static const uint32_t cut[] = {S_A, S_F0, S_9F, S_98};
    static const uint32_t broken[] = {S_F0, S_9F, S_A, S_FF, S_41, S_A, S_41};

    EXPECT(llama, false, whole, "", "", "", "\xF0\x9F\x98\x80", "a", "");
    EXPECT(llama, false, cut, "a", "", "", "", BAD BAD BAD);
    EXPECT(llama, false, broken, "", "", BAD BAD "a", BAD, BAD, "a", "A", "");
}

TEST(strips)
{
    static const uint32_t spaces[] = {S, S, S_SA, S_SA};
    static const uint32_t ends[] = {S_SA, S, S, S, S_A, S, S};

    EXPECT(llama, false, spaces, "", " ", " a", " a", "");
    EXPECT(both_ends, false, ends, "a", "", "", " ", "  a", "", "", "");
    EXPECT(each_token, false, spaces, "", "", "a", "a", "");
}

/* A decoder step that needs the whole text delays the output until flush. */
TEST(steps_that_need_the_whole_text)
{
    static const uint32_t ids[] = {S_A, S_A, S_41, S_A};

    EXPECT(late_replace, false, ids, "", "", "", "", "bAb");
}

/* When decoding all ids at once, an invalid byte late in a run invalidates the whole run. */
TEST(invalid_byte_in_a_run)
{
    static const uint32_t ids[] = {S_41, S_41, S_FF, S_A};
    struct tokenizer_case t;

    tokenizer_case_open(&t, llama, strlen(llama), NULL);
    expect_text(&t, "a broken run", ids, 4, false, BAD BAD BAD "a", 10, false);
    EXPECT(llama, false, ids, "A", "A", BAD, "a", "");
}
