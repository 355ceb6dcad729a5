/* Tests argument values in the notations of the chat formats. */
#include "runtime/chat/tool_call.h"
#include "tests/support/unit_test.h"

/* The expected text is printed by Python's json.dumps(ast.literal_eval(text), separators=(",",
 * ":")). */
TEST(values_in_python)
{
    static const struct sp_value_notation python = {"", true};
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"{'a': 1, 'b': [True, False, None]}", "{\"a\":1,\"b\":[true,false,null]}"},
        {"[\"it's\", 'a \"b\"', 'tab\\there', '\\x41\\u00e9\\\\']",
         "[\"it's\",\"a \\u0022b\\u0022\",\"tab\\there\",\"\\u0041\\u00e9\\\\\"]"},
        {"[1.5, -2, 1e3, (1, 2,), []]", "[1.5,-2,1e3,[1,2],[]]"},
        {"[0, -0.25, 123456789012345678, 9223372036854775807, 99999999999999999999]",
         "[0,-0.25,123456789012345678,9223372036854775807,99999999999999999999]"},
        {"{'k': {'n': {}}, }", "{\"k\":{\"n\":{}}}"},
        {"[f]", NULL},
        {"{'a' 1}", NULL},
        {"[1}", NULL},
        {"[01]", NULL},
        {"[-01.5]", NULL},
        {"[1.]", NULL},
        {"[-]", NULL},
        {"[1.2.3]", NULL},
        {"'a'", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_json_out out = {0};
        size_t end, size = strlen(cases[i].text);
        enum sp_value_read read = sp_tool_value_read(&out, &end, cases[i].text, size, &python);
        if (cases[i].json == NULL) {
            assert_int_equal(read, SP_VALUE_NONE);
        } else {
            assert_int_equal(read, SP_VALUE_READ);
            assert_int_equal(end, size);
            sp_json_out_bytes(&out, "", 1);
            assert_string_equal(out.text.at, cases[i].json);
        }
        sp_strbuf_release(&out.text);
        for (size_t n = 1; cases[i].json && n < size; n++) {
            out = (struct sp_json_out){0};
            read = sp_tool_value_read(&out, &end, cases[i].text, n, &python);
            assert_int_equal(read, SP_VALUE_MORE);
            sp_strbuf_release(&out.text);
        }
    }
}
