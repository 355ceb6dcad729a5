/* Tests edits of JSON text: the edited member changes, and every other byte stays. */
#include "format/json/json_edit.h"
#include "format/json/json.h"
#include "tests/support/unit_test.h"

static struct sp_strbuf text_of(const char *s)
{
    struct sp_strbuf text = {0};

    assert_ok(sp_strbuf_append(&text, s, strlen(s), NULL));
    return text;
}

/* Checks that the text equals `want` and is JSON, and releases it. */
static void assert_text(struct sp_strbuf *text, const char *want)
{
    struct sp_json *json = NULL;

    assert_ok(sp_strbuf_append(text, "", 1, NULL));
    assert_string_equal(text->at, want);
    assert_ok(sp_json_parse(&json, text->at, text->len - 1, SP_JSON_LENIENT, why));
    sp_json_free(json);
    sp_strbuf_release(text);
}

struct edit {
    const char *from, *key, *value, *to; /* value NULL: the member is removed */
};

static const struct edit edits[] = {
    {"{\"a\": 1, \"b\": 2}", "a", "[3]", "{\"a\": [3], \"b\": 2}"},
    {"{\"a\": 1,\n  \"b\" : {\"a\": 2}\n}\n", "b", "null", "{\"a\": 1,\n  \"b\" : null\n}\n"},
    {"{\n  \"a\": 1\n}", "b", "\"x\"", "{\n  \"b\": \"x\",\n  \"a\": 1\n}"},
    {"{}", "b", "1", "{\"b\": 1}"},
    {" {\"a\":[{\"b\":1}]}", "b", "2", " {\"b\": 2,\"a\":[{\"b\":1}]}"},
    {"{\"a\": 1, \"a\": 2}", "a", "3", "{\"a\": 1, \"a\": 3}"},
    {"{\"\\u0061\": 1}", "a", "3", "{\"a\": 3,\"\\u0061\": 1}"},
    {"{\"a\": 1, \"b\": 2, \"c\": 3}", "a", NULL, "{\"b\": 2, \"c\": 3}"},
    {"{\"a\": 1, \"b\": 2, \"c\": 3}", "b", NULL, "{\"a\": 1, \"c\": 3}"},
    {"{\"a\": 1, \"b\": 2, \"c\": 3 }", "c", NULL, "{\"a\": 1, \"b\": 2 }"},
    {"{\n  \"a\": {\"x\": [1, \"}\"]},\n  \"b\": 2\n}", "a", NULL, "{\n  \"b\": 2\n}"},
    {"{ \"a\": 1 }", "a", NULL, "{  }"},
    {"{\"a\": 1, \"b\": 2, \"a\": 3}", "a", NULL, "{\"b\": 2}"},
    {"{\"a\": 1}", "b", NULL, "{\"a\": 1}"},
    {"{\"a\": NaN, \"b\": -Infinity}", "a", "1", "{\"a\": 1, \"b\": -Infinity}"},
};

TEST(members)
{
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const struct edit *e = &edits[i];
        struct sp_strbuf text = text_of(e->from);
        print_message("%s\n", e->from);
        if (e->value)
            assert_ok(sp_json_set(&text, e->key, e->value, strlen(e->value), NULL));
        else
            assert_ok(sp_json_remove(&text, e->key, NULL));
        assert_text(&text, e->to);
    }
}

TEST(nested_object_is_lifted)
{
    static const char from[] = "{\n  \"a\": 1,\n  \"inner\": {\n    \"x\": [\n      1\n    ],\n"
                               "    \"s\": \"\\n  y\"\n  }\n}\n";
    struct sp_strbuf text = text_of(from), flat = text_of("{\"inner\": {\"x\":\n  1}}");
    struct sp_json_member m;
    bool found;

    assert_ok(sp_json_find_member(&found, &m, &text, "inner", NULL));
    assert_true(found);
    assert_ok(sp_json_lift(&text, &m, NULL));
    assert_text(&text, "{\n  \"x\": [\n    1\n  ],\n  \"s\": \"\\n  y\"\n}");
    assert_ok(sp_json_find_member(&found, &m, &flat, "inner", NULL));
    assert_ok(sp_json_lift(&flat, &m, NULL));
    assert_text(&flat, "{\"x\":\n  1}");
}

static bool is_short(const char *key, size_t len)
{
    (void)key;
    return len == 1;
}

TEST(objects_are_merged)
{
    struct sp_strbuf text = text_of("{\n  \"b\": 1\n}"), empty = text_of("{ }");
    struct sp_strbuf from = text_of("{\"a\": {\"y\": 2}, \"b\": 3, \"long\": 4, \"c\": 5}");

    assert_ok(sp_json_merge(&text, &from, is_short, NULL));
    assert_text(&text, "{\n  \"a\": {\"y\": 2},\n  \"c\": 5,\n  \"b\": 1\n}");
    assert_ok(sp_json_merge(&empty, &from, is_short, NULL));
    assert_text(&empty, "{\"a\": {\"y\": 2},\"b\": 3,\"c\": 5 }");
    sp_strbuf_release(&from);
}

TEST(invalid_edits_are_refused)
{
    struct sp_strbuf list = text_of("[1]"), many = text_of("{\"a\": 0");
    struct sp_json_member *members;
    size_t n;

    assert_fails_as(sp_json_set(&list, "a", "1", 1, why), SP_E_INPUT, "no JSON object at byte 0");
    sp_strbuf_release(&list);
    for (int i = 0; i < SP_JSON_MAX_MEMBERS; i++)
        assert_ok(sp_strbuf_append(&many, ",\"a\":0", 6, NULL));
    assert_ok(sp_strbuf_append(&many, "}", 1, NULL));
    assert_int_equal(sp_json_members(&members, &n, &many, 0, NULL), SP_E_UNSUPPORTED);
    sp_strbuf_release(&many);
}
