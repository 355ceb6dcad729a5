/* format/json/json.h: documents that RFC 8259 allows and forbids, the additions of lenient parsing,
 * and the typed getters. */
#include <math.h>

#include "format/json/json.h"
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

static struct sp_json *parse(const char *text, enum sp_json_strictness strictness)
{
    struct sp_json *root = NULL;

    assert_case_ok(text, sp_json_parse(&root, text, strlen(text), strictness, why));
    return root;
}

static void assert_refused(const char *text, size_t size, enum sp_json_strictness strictness,
                           const char *sentence)
{
    struct sp_json *root = NULL;

    assert_fails(sp_json_parse(&root, text, size, strictness, why), SP_E_INPUT, sentence);
    assert_null(root);
}

TEST(put)
{
    static const char *volatile none; /* the compiler refuses a NULL that it sees */
    struct sp_json_out out = {0};
    struct sp_text text;

    sp_json_out_put(&out, "{a:%s, b:null, c:[%zu, %u, %g], d.e:{'it: [x]', %d}, f:%s", "q\"",
                    (size_t)1 << 40, 7U, 0.5, true, none);
    sp_json_out_text(&out, "g", "");
    sp_json_out_put(&out, "h:{}, i:[]}\n{j:%g}", (double)INFINITY);
    assert_ok(sp_json_out_take(&text, &out, NULL));
    assert_string_equal(text.at, "{\"a\": \"q\\\"\", \"b\": null, \"c\": [1099511627776, 7, 0.5], "
                                 "\"d.e\": {\"it: [x]\", true}, \"f\": null, \"g\": \"\", "
                                 "\"h\": {}, \"i\": []}\n{\"j\": null}");
    free(text.at);
}

/* A document and how it is printed after strict and after lenient parsing; NULL: refused. */
TEST(documents)
{
    static const struct {
        const char *text, *strict, *lenient;
    } cases[] = {
        {"{}", "{}", "{}"},
        {" [ ] ", "[]", "[]"},
        {"\t\r\n null\n", "null", "null"},
        {"[true,false,null]", "[true,false,null]", "[true,false,null]"},
        {"[0,-1,12,-0]", "[0,-1,12,-0]", "[0,-1,12,-0.0]"},
        {"9223372036854775807", "9223372036854775807", "9223372036854775807"},
        {"18446744073709551615", "18446744073709551615", "18446744073709551615"},
        {"-9223372036854775808", "-9223372036854775808", "-9223372036854775808"},
        {"18446744073709551616", "18446744073709551616", "18446744073709551616.0"},
        {"-9223372036854775809", "-9223372036854775809", "-9223372036854775809.0"},
        {"[1.0,1e6,0.5,-2.5E-3]", "[1.0,1e6,0.5,-2.5E-3]", "[1.0,1e6,0.5,-2.5E-3]"},
        {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"a\\\"\\\\/\\b\\f\\n\\r\\t\"",
         "\"a\\\"\\\\/\\b\\f\\n\\r\\t\""},
        {"\"\\u00e9\\ud83d\\ude00\\u0000\"", "\"\xc3\xa9\xf0\x9f\x98\x80\\u0000\"",
         "\"\xc3\xa9\xf0\x9f\x98\x80\\u0000\""},
        {"{\"a\":{\"b\":[1,{\"c\":[]}]},\"d\":2}", "{\"a\":{\"b\":[1,{\"c\":[]}]},\"d\":2}",
         "{\"a\":{\"b\":[1,{\"c\":[]}]},\"d\":2}"},
        {"[NaN,Infinity,-Infinity]", NULL, "[NaN,Infinity,-Infinity]"},
        {"{\"a\":1,\"b\":2,\"\\u0061\":3}", NULL, "{\"a\":3,\"b\":2}"},
        {"{\"a\":1,\"a\":2,\"a\":{\"x\":0,\"x\":1}}", NULL, "{\"a\":{\"x\":1}}"},
        {"1e999", NULL, "1e999"},
        {"", NULL, NULL},
        {"  ", NULL, NULL},
        {"nul", NULL, NULL},
        {"True", NULL, NULL},
        {"nan", NULL, NULL},
        {"+1", NULL, NULL},
        {"01", NULL, NULL},
        {"-", NULL, NULL},
        {".5", NULL, NULL},
        {"1.", NULL, NULL},
        {"1.e3", NULL, NULL},
        {"1e", NULL, NULL},
        {"1e+", NULL, NULL},
        {"0x10", NULL, NULL},
        {"[1,]", NULL, NULL},
        {"[,1]", NULL, NULL},
        {"[1 2]", NULL, NULL},
        {"[1", NULL, NULL},
        {"]", NULL, NULL},
        {"[}", NULL, NULL},
        {"{\"a\"}", NULL, NULL},
        {"{\"a\":}", NULL, NULL},
        {"{\"a\":1,}", NULL, NULL},
        {"{a:1}", NULL, NULL},
        {"{1:1}", NULL, NULL},
        {"{'a':1}", NULL, NULL},
        {"{\"a\" 1}", NULL, NULL},
        {"{\"a\":1", NULL, NULL},
        {"{\"a\\u0000\":1}", NULL, NULL},
        {"// no\n1", NULL, NULL},
        {"[1]/**/", NULL, NULL},
        {"1 2", NULL, NULL},
        {"\"a", NULL, NULL},
        {"\"a\\", NULL, NULL},
        {"\"\\", NULL, NULL},
        {"\"\\x\"", NULL, NULL},
        {"\"\\u12\"", NULL, NULL},
        {"\"\\u12G4\"", NULL, NULL},
        {"\"\\ud800\"", NULL, NULL},
        {"\"\\ud800\\u0041\"", NULL, NULL},
        {"\"\\udc00\"", NULL, NULL},
        {"\"\\ud800x\"", NULL, NULL},
        {"\"a\nb\"", NULL, NULL},
        {"\"\x1f\"", NULL, NULL},
        {"\"\xff\"", NULL, NULL},
        {"\"\xc0\xaf\"", NULL, NULL},
        {"\"\xe0\x80\x80\"", NULL, NULL},
        {"\"\xed\xa0\x80\"", NULL, NULL},
        {"\"\xf0\x80\x80\x80\"", NULL, NULL},
        {"\"\xf4\x90\x80\x80\"", NULL, NULL},
        {"\"\xe2\x82\"", NULL, NULL},
        {"\xef\xbb\xbf{}", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int lenient = 0; lenient < 2; lenient++) {
            const char *expected = lenient ? cases[i].lenient : cases[i].strict;
            enum sp_json_strictness strictness = lenient ? SP_JSON_LENIENT : SP_JSON_STRICT;
            char *printed = NULL;
            if (expected == NULL) {
                assert_refused(cases[i].text, strlen(cases[i].text), strictness, "not valid JSON");
                continue;
            }
            struct sp_json *root = parse(cases[i].text, strictness);
            printed = keep_printed(root);
            assert_string_equal(printed, expected);
            sp_json_free(root);
        }
    }
}

TEST(no_integers)
{
    struct sp_json *list = parse("[NaN, Infinity, -Infinity, 1e30, 1.5]", SP_JSON_LENIENT);
    int64_t x;

    for (size_t i = 0; i < sp_json_len(list); i++)
        assert_false(sp_json_to_i64(sp_json_at(list, i), &x));
    sp_json_free(list);
}

TEST(errors_name_the_byte)
{
    assert_refused("{\"a\": tru}", 10, SP_JSON_STRICT, "at byte 9: boolean expected");
    assert_refused("[1, 2", 5, SP_JSON_STRICT, "at byte 5: the text ends too early");
    assert_refused("{} x", 4, SP_JSON_STRICT, "at byte 3: unexpected character");
    assert_refused("{}\0", 3, SP_JSON_STRICT, "at byte 2: unexpected character");
    assert_refused("[\"abc", 5, SP_JSON_STRICT, "at byte 1: unterminated string");
    assert_refused("{\"k\":1,\"k\":2}", 13, SP_JSON_STRICT, "at byte 7: key \"k\" occurs twice");
    assert_refused("12\0", 3, SP_JSON_STRICT, "at byte 2");
    assert_refused("[NaN]", 5, SP_JSON_STRICT, "at byte 1: NaN and Infinity are not JSON");
    assert_refused("[7,1e999]", 9, SP_JSON_STRICT, "the number 1e999 is too large");
    assert_refused("\xef\xbb\xbf{}", 5, SP_JSON_LENIENT, "at byte 0: a byte order mark");
}

TEST(depth_is_bounded)
{
    char text[2 * 257], *printed = NULL;
    struct sp_json *root = NULL;

    for (size_t i = 0; i < 2; i++) {
        enum sp_json_strictness strictness = i ? SP_JSON_LENIENT : SP_JSON_STRICT;
        size_t n = 256;
        memset(text, '[', n);
        memset(text + n, ']', n);
        assert_ok(sp_json_parse(&root, text, 2 * n, strictness, NULL));
        printed = keep_printed(root);
        assert_int_equal(strlen(printed), 2 * n);
        sp_json_free(root);
        memset(text, '[', n + 1);
        memset(text + n + 1, ']', n + 1);
        assert_refused(text, 2 * n + 2, strictness, "nested deeper than");
    }
}

/* Six million objects in 18 MB of text. */
TEST(memory_is_bounded)
{
    enum { N = 6000000 };
    char *text = keep(malloc(3 * N + 1));

    assert_non_null(text);
    for (size_t i = 0; i < N; i++)
        memcpy(text + 3 * i, i ? ",{}" : "[{}", 3);
    text[3 * N] = ']';
    assert_refused(text, 3 * N + 1, SP_JSON_LENIENT, "MB of memory, more than the 1024 allowed");
}

TEST(members_and_elements)
{
    struct sp_json *root =
        parse("{\"a\":1,\"n\":null,\"list\":[5,null,\"x\"],\"s\":\"a\\u0000b\"}", SP_JSON_STRICT);
    const struct sp_json *list = sp_json_get(root, "list");
    const char *keys[4];
    size_t n = 0, len;

    assert_int_equal(sp_json_len(root), 4);
    assert_int_equal(sp_json_kind(sp_json_get(root, "a")), SP_JSON_INT);
    assert_null(sp_json_get(root, "n"));
    assert_true(sp_json_has(root, "n"));
    assert_false(sp_json_has(root, "x"));
    assert_null(sp_json_get(list, "a"));
    assert_null(sp_json_get(NULL, "a"));
    assert_int_equal(sp_json_len(list), 3);
    assert_int_equal(sp_json_len(NULL), 0);
    assert_null(sp_json_at(list, 1));
    assert_null(sp_json_at(list, 3));
    assert_null(sp_json_at(root, 0));
    assert_string_equal(sp_json_to_string(sp_json_at(list, 2), NULL), "x");
    assert_memory_equal(sp_json_to_string(sp_json_get(root, "s"), &len), "a\0b", 3);
    assert_int_equal(len, 3);
    for (struct sp_json_iter it = {0}; sp_json_next(root, &it);)
        keys[n++] = it.key;
    assert_int_equal(n, 4);
    assert_string_equal(keys[0], "a");
    assert_string_equal(keys[1], "n");
    assert_string_equal(keys[3], "s");
    for (struct sp_json_iter it = {0}; sp_json_next(list, &it);)
        fail();
    sp_json_free(root);
    sp_json_free(NULL);
}

/* Large objects are searched with an index. Their keys share the first eight bytes. */
TEST(large_objects)
{
    enum { N = 5000 };
    char *text = keep(malloc(N * 64)), key[40];
    size_t len = 0;
    struct sp_json *root = NULL;
    int64_t v;
    int i = 0;

    assert_non_null(text);
    text[len++] = '{';
    for (int k = 0; k < N; k++) {
        len += (size_t)sprintf(text + len, "%s\"%s%d\":%d", k ? "," : "",
                               k % 2 ? "model.layers." : "", k * 7 % N, k);
    }
    text[len++] = '}';
    assert_ok(sp_json_parse(&root, text, len, SP_JSON_STRICT, NULL));
    assert_int_equal(sp_json_len(root), N);
    for (int k = 0; k < N; k++) {
        sprintf(key, "%s%d", k % 2 ? "model.layers." : "", k * 7 % N);
        assert_true(sp_json_to_i64(sp_json_get(root, key), &v));
        assert_int_equal(v, k);
    }
    assert_null(sp_json_get(root, "model.layers."));
    assert_null(sp_json_get(root, "model.layers.99999"));
    assert_null(sp_json_get(root, ""));
    for (struct sp_json_iter it = {0}; sp_json_next(root, &it); i++) {
        assert_true(sp_json_to_i64(it.value, &v));
        assert_int_equal(v, i);
    }
    sp_json_free(root);
    len = (size_t)(strrchr(text, '}') - text);
    len += (size_t)sprintf(text + len, ",\"0\":1}");
    assert_refused(text, len, SP_JSON_STRICT, "key \"0\" occurs twice");
    assert_ok(sp_json_parse(&root, text, len, SP_JSON_LENIENT, NULL));
    assert_int_equal(sp_json_len(root), N);
    assert_true(sp_json_to_i64(sp_json_get(root, "0"), &v));
    assert_int_equal(v, 1);
    sp_json_free(root);
}

TEST(numbers)
{
    static const struct {
        const char *text;
        bool i64, strict_i64, u64;
        int64_t value;
    } cases[] = {
        {"3", true, true, true, 3},
        {"-3", true, true, false, -3},
        {"3.0", true, false, true, 3},
        {"1e6", true, false, true, 1000000},
        {"-2.0", true, false, false, -2},
        {"3.5", false, false, false, 0},
        {"1e30", false, false, false, 0},
        {"9223372036854775807", true, true, true, INT64_MAX},
        {"-9223372036854775808", true, true, false, INT64_MIN},
        {"9223372036854775808", false, false, true, 0},
        {"9223372036854775808.0", false, false, false, 0},
        {"18446744073709551616", false, false, false, 0},
        {"\"3\"", false, false, false, 0},
        {"true", false, false, false, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_json *strict = parse(cases[i].text, SP_JSON_STRICT);
        struct sp_json *lenient = parse(cases[i].text, SP_JSON_LENIENT);
        int64_t v = 0;
        uint64_t u;
        assert_int_equal(sp_json_to_i64(strict, &v), cases[i].strict_i64);
        assert_int_equal(sp_json_to_i64(lenient, &v), cases[i].i64);
        assert_int_equal(v, cases[i].value);
        assert_int_equal(sp_json_to_u64(lenient, &u), cases[i].u64);
        sp_json_free(strict);
        sp_json_free(lenient);
    }
}

TEST(getters)
{
    struct sp_json *root = parse("{\"n\":64,\"big\":1e30,\"s\":\"text\",\"nul\":\"a\\u0000\",\"b\":"
                                 "true,\"x\":null,\"f\":0.5,\"nan\":NaN,\"list\":[1]}",
                                 SP_JSON_LENIENT);
    int64_t n = -7;
    double d = -7;
    bool b = false;
    const char *s = "unchanged";

    assert_ok(sp_json_get_i64(root, "absent", 0, 1, &n, why));
    assert_ok(sp_json_get_i64(root, "x", 0, 1, &n, why));
    assert_int_equal(n, -7);
    assert_ok(sp_json_get_i64(root, "n", 1, 64, &n, why));
    assert_int_equal(n, 64);
    assert_fails_as(sp_json_get_i64(root, "n", 1, 63, &n, why), SP_E_INPUT,
                    "n is 64, expected an integer 1..63");
    assert_fails_as(sp_json_get_i64(root, "s", 1, 65536, &n, why), SP_E_INPUT,
                    "s is \"text\", expected an integer 1..65536");
    assert_fails_as(sp_json_get_i64(root, "list", 1, 2, &n, why), SP_E_INPUT,
                    "list is an array, expected an integer 1..2");
    assert_int_equal(sp_json_get_i64(root, "big", 1, INT64_MAX, &n, NULL), SP_E_INPUT);
    assert_ok(sp_json_get_double(root, "n", 0, 100, &d, NULL));
    assert_true(d == 64);
    assert_ok(sp_json_get_double(root, "f", 0, 1, &d, NULL));
    assert_true(d == 0.5);
    assert_fails_as(sp_json_get_double(root, "nan", -INFINITY, INFINITY, &d, why), SP_E_INPUT,
                    "nan is NaN, expected a number -inf..inf");
    assert_ok(sp_json_get_bool(root, "b", &b, NULL));
    assert_true(b);
    assert_int_equal(sp_json_get_bool(root, "n", &b, NULL), SP_E_INPUT);
    assert_ok(sp_json_get_string(root, "s", &s, NULL));
    assert_string_equal(s, "text");
    assert_int_equal(sp_json_get_string(root, "nul", &s, NULL), SP_E_INPUT);
    assert_int_equal(sp_json_get_string(root, "b", &s, NULL), SP_E_INPUT);
    sp_json_free(root);
}

/* Equality as in section 4.2.2 of JSON Schema's core, with the numbers of RFC 8259. */
TEST(values_are_equal)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"1", "1.0", true},
        {"1", "10e-1", true},
        {"100", "1e2", true},
        {"0.001", "1E-3", true},
        {"12.340", "0.1234e+2", true},
        {"10", "1", false},
        {"1.05", "1.5", false},
        {"1.5", "15", false},
        {"0", "-0.0", true},
        {"0", "0e5", true},
        {"0", "1e-400", false},
        {"1e400", "1e401", false},
        {"1e400", "10e399", true},
        {"9007199254740993", "9007199254740992", false},
        {"9007199254740993", "9007199254740993.0", true},
        {"100000000000000000001", "100000000000000000000", false},
        {"1e99999999999999999999", "1e-99999999999999999999", false},
        {"1", "-1", false},
        {"1", "true", false},
        {"1", "\"1\"", false},
        {"true", "true", true},
        {"true", "false", false},
        {"null", "false", false},
        {"null", "null", true},
        {"\"\\u0061\"", "\"a\"", true},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
        {"\"a\"", "\"ab\"", false},
        {"[1,[2]]", "[1.0,[2e0]]", true},
        {"[1,2]", "[2,1]", false},
        {"[1]", "[1,1]", false},
        {"[]", "{}", false},
        {"{\"a\":1,\"b\":[null]}", "{\"b\":[null],\"a\":1.0}", true},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"{\"a\":null}", "{\"b\":null}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}", false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_json *a = parse(cases[i].a, SP_JSON_LENIENT);
        struct sp_json *b = parse(cases[i].b, SP_JSON_LENIENT);
        bool there = !cases[i].equal, back = there;
        assert_ok(sp_json_equal(&there, a, b, NULL));
        assert_ok(sp_json_equal(&back, b, a, NULL));
        if (there != cases[i].equal || back != there)
            fail_msg("%s and %s: %d %d", cases[i].a, cases[i].b, there, back);
        sp_json_free(a);
        sp_json_free(b);
    }
}
