/* runtime/grammar/json_schema.h against the JSON Schema Test Suite, whose outcomes are the expected
 * values (tests/oracle/schema_cases.py): the grammar accepts no text that its schema forbids. It
 * accepts every allowed text except for the deviations that the header lists, which are counted. A
 * schema that cannot be enforced is refused. Bounds are compared with every number near them, names
 * with every other name. */
#include "format/json/json_write.h"
#include "runtime/grammar/grammar_matcher.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/random.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

static bool reads(struct sp_grammar_matcher *a, const char *text)
{
    struct sp_err err = {0};
    uint32_t state = SP_STATE_START;

    if (sp_grammar_matcher_read(a, &state, text, strlen(text), &err)) fail_msg("%s", err.text);
    return sp_grammar_matcher_may_end(a, state);
}

static bool accepts(const struct sp_grammar *g, const char *text)
{
    struct sp_grammar_matcher *a = NULL;
    bool end;

    if (sp_grammar_matcher_open(&a, g, NULL)) return false; /* a schema that allows no text */
    end = reads(a, text);
    sp_grammar_matcher_close(a);
    return end;
}

static struct sp_grammar *schema(const char *text)
{
    struct sp_grammar *g = NULL;
    struct sp_err err = {0};

    if (sp_grammar_of_schema(&g, text, strlen(text), &err)) fail_msg("%s: %s", text, err.text);
    return g;
}

/* ---- the suite --------------------------------------------------------------------------------
 */

struct suite_counts {
    size_t refused, accepted, rejected, left_out;
};

static void group(const struct sp_json *line, struct suite_counts *suite_counts)
{
    const struct sp_json *cases = sp_json_get(line, "cases");
    const char *name = sp_json_to_string(sp_json_get(line, "name"), NULL);
    struct sp_grammar *g = NULL;
    struct sp_err err = {0};
    char *text = keep_printed(sp_json_get(line, "schema"));

    if (sp_grammar_of_schema(&g, text, strlen(text), &err)) {
        if (getenv("SHOW")) printf("refused %s: %s\n", name, err.text);
        suite_counts->refused++;
    }
    for (size_t i = 0; g && i < sp_json_len(cases); i++) {
        const struct sp_json *one = sp_json_at(cases, i);
        const char *instance = sp_json_to_string(sp_json_at(one, 0), NULL);
        bool valid = false, accepted = accepts(g, instance);
        assert_true(sp_json_to_bool(sp_json_at(one, 1), &valid));
        if (accepted && !valid) fail_msg("%s: %s is accepted", name, instance);
        if (valid && !accepted && getenv("SHOW")) printf("left out %s: %s\n", name, instance);
        suite_counts->accepted += accepted;
        suite_counts->rejected += !valid;
        suite_counts->left_out += valid && !accepted;
    }
    sp_grammar_close(g);
}

TEST(suite)
{
    size_t size;
    char *text = golden_file(TESTDATA "/grammars/schemas.jsonl", &size), *next = text, *line;
    struct suite_counts suite_counts = {0};

    assert_non_null(text);
    while ((line = next_line(&next))) {
        struct sp_json *json = NULL;
        json = keep_parsed(line, strlen(line), SP_JSON_LENIENT);
        group(json, &suite_counts);
    }
    /* SHOW=1 lists the allowed texts that are not accepted, and the refused schemas. */
    assert_int_equal(suite_counts.rejected, 530);
    assert_int_equal(suite_counts.accepted, 397);
    assert_int_equal(suite_counts.left_out, 252);
    assert_int_equal(suite_counts.refused, 35);
}

/* ---- bounds -----------------------------------------------------------------------------------
 */

/* Tests every number near the bounds, in tenths, written as JSON and compared as a number. */
TEST(bounds)
{
    static const int ends[] = {-1234, -100, -99, -10, -7, -1, 0, 1, 5, 9, 10, 42, 100, 999, 1000};
    enum { N = sizeof ends / sizeof *ends };
    char text[256], number[32];

    for (size_t i = 0; i < N; i++) {
        for (size_t k = i; k < N; k += 2) {
            for (unsigned kind = 0; kind < 6; kind++) {
                bool whole = kind % 2, open_low = kind / 2 == 1, open_high = kind / 2 == 2;
                struct sp_grammar_matcher *a = NULL;
                struct sp_grammar *g;
                if (ends[i] == ends[k] && kind > 1) continue;
                if (whole && ends[k] - ends[i] == 1 && kind > 1) continue;
                snprintf(text, sizeof text, "{\"type\":\"%s\",\"%s\":%d,\"%s\":%d}",
                         whole ? "integer" : "number", open_low ? "exclusiveMinimum" : "minimum",
                         ends[i], open_high ? "exclusiveMaximum" : "maximum", ends[k]);
                g = schema(text);
                assert_int_equal(sp_grammar_matcher_open(&a, g, NULL), SP_OK);
                for (int tenths = -13000; tenths <= 13000; tenths += whole ? 10 : 1) {
                    bool above = open_low ? tenths > 10 * ends[i] : tenths >= 10 * ends[i];
                    bool below = open_high ? tenths < 10 * ends[k] : tenths <= 10 * ends[k];
                    if (abs(tenths - 10 * ends[i]) > 300 && abs(tenths - 10 * ends[k]) > 300)
                        continue;
                    snprintf(number, sizeof number, "%s%d", tenths < 0 ? "-" : "",
                             abs(tenths) / 10);
                    if (tenths % 10) snprintf(number + strlen(number), 8, ".%d", abs(tenths) % 10);
                    if (reads(a, number) != (above && below)) fail_msg("%s: %s", text, number);
                }
                sp_grammar_matcher_close(a);
                sp_grammar_close(g);
            }
        }
    }
}

/* A schema with texts that it allows and texts that it forbids; both end with NULL, or are NULL. */
struct outcome {
    const char *schema;
    const char *const *allowed, *const *forbidden;
};

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_outcomes(const struct outcome *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sp_grammar *g = schema(all[i].schema);
        for (const char *const *text = all[i].allowed; text && *text; text++)
            if (!accepts(g, *text)) fail_msg("%s: %s is rejected", all[i].schema, *text);
        for (const char *const *text = all[i].forbidden; text && *text; text++)
            if (accepts(g, *text)) fail_msg("%s: %s is accepted", all[i].schema, *text);
        sp_grammar_close(g);
    }
}

#define VERDICTS(all) check_outcomes(all, sizeof all / sizeof *all)

/* Bounds with fractions, one-sided bounds, and invalid spellings of numbers. */
TEST(numbers)
{
    static const char low[] = "{\"type\":\"number\",\"minimum\":0.5}";
    static const char high[] = "{\"type\":\"number\",\"exclusiveMaximum\":-0.25}";
    static const char any[] = "{\"type\":\"number\"}", whole[] = "{\"type\":\"integer\"}";
    const struct outcome all[] = {
        {low, TEXTS("0.5", "0.50", "7", "123456789.000001"),
         TEXTS("0.49", "0.499999999999999", "-1", "0")},
        {high, TEXTS("-0.250000000000001", "-1"), TEXTS("-0.25", "0", "-0.2")},
        {any, TEXTS("-0.5e-10", "1E+2", "1234567890123456"),
         TEXTS("01", "1.", ".5", "+1", "12345678901234567", "1e123")},
        {whole, TEXTS("-17"), TEXTS("1.0", "1e1")},
        {"{\"type\":\"number\",\"maximum\":1e20}", TEXTS("9999999999999999"), TEXTS("1e30")},
        {"{\"type\":\"integer\",\"minimum\":0.5}", TEXTS("1"), TEXTS("0")},
        {"{\"minimum\":15e-4,\"maximum\":0.012E1}", TEXTS("0.0015", "0.12"),
         TEXTS("0.0014", "0.121")},
        /* Neighbours of 2^53 that are the same double. */
        {"{\"type\":\"integer\",\"minimum\":9007199254740993}", TEXTS("9007199254740993"),
         TEXTS("9007199254740992")},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":-9007199254740993,\"maximum\":"
         "9007199254740992.5}",
         TEXTS("-9007199254740992", "9007199254740992"),
         TEXTS("-9007199254740993", "9007199254740993")},
        {"{\"not\":{\"enum\":[9007199254740993,9007199254740992]}}", TEXTS("9007199254740991"),
         TEXTS("9007199254740992", "9007199254740993")},
        {"{\"type\":\"integer\",\"minimum\":2,\"allOf\":[{\"minimum\":4},{\"maximum\":5}]}",
         TEXTS("4"), TEXTS("3")},
    };

    VERDICTS(all);
}

/* ---- strings ----------------------------------------------------------------------------------
 */

TEST(strings)
{
    static const char three[] = "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}";
    static const char quoted[] = "{\"type\":\"string\",\"pattern\":\"^a[\\\"-#\\\\\\\\]+\\n?$\"}";
    static const char middle[] = "{\"pattern\":\"b{2}|^c|d$\"}";
    static const char others[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"ab\":{\"type\":\"null\"},"
        "\"\xC3\xA9\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}";
    const struct outcome all[] = {
        {three,
         TEXTS("\"ab\"", "\"\xF0\x9F\x98\x80\xC3\xA9\"", "\"\\n\\u00e9\\\"\"", "\"a\x7F\"",
               "\"\xF4\x8F\xBF\xBF-\""),
         TEXTS("\"a\"", "\"abcd\"",
               "\"\\ud83d\\ude00\"" /* surrogate pairs are written as they are */, "\"a\nb\"",
               "\"a\xC0\x80\"" /* overlong form */, "\"a\xED\xA0\x80\"" /* a lone surrogate */,
               "\"\xF4\x90\x80\x80-\"")},
        {quoted, TEXTS("\"a\\\"#\\\\\"", "\"a#\\n\""), TEXTS("\"a\"\"", "\"a\"")},
        {middle, TEXTS("\"abba\"", "\"cx\"", "\"xd\""), TEXTS("\"xc\"", "\"dx\"")},
        {"{\"pattern\":\"^(?:[a-f\\\\d]{2}:){2,}x*?$\"}", TEXTS("\"a1:02:\""), TEXTS("\"a1:0g:\"")},
        {"{\"pattern\":\"^\\\\W.\\\\s$\"}", TEXTS("\"-\xC3\xA9 \""), TEXTS("\"_x \"")},
        {"{\"pattern\":\"^[^\\\\d\\\\s]$\"}", TEXTS("\"x\""), TEXTS("\"7\"")},
        {"{\"pattern\":\"^\\\\u{1F600}\\\\uD83D\\\\uDE01\\\\x41$\"}",
         TEXTS("\"\xF0\x9F\x98\x80\xF0\x9F\x98\x81"
               "A\""),
         NULL},
        {others,
         TEXTS("{\"a\":null,\"abc\":1}", "{\"\":1}", "{\"b\":1,\"aa\":2}", "{\"\xC3\xA8\":1}",
               "{\"\xC3\xA9\xC3\xA9\":1}"),
         TEXTS("{\"a\":1}", "{\"ab\":1}", "{\"b\":null}", "{\"\xC3\xA9\":1}", "{\"\\u0061\":1}")},
    };

    VERDICTS(all);
}

/* ---- arrays, objects, combinations --------------------------------------------------------------
 */

TEST(structures)
{
    static const char pair[] = "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},"
                               "{\"type\":\"string\"}],\"items\":false,\"minItems\":1}";
    static const char some[] =
        "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":4}";
    static const char object[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
        "\"integer\"},\"c\":{\"type\":\"integer\"}},\"required\":[\"b\"]}";
    static const char tree[] =
        "{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"v\":{"
        "\"type\":\"integer\"},\"n\":{\"type\":\"array\",\"items\":{\"$ref\":"
        "\"#/$defs/t\"}}},\"required\":[\"v\"]}},\"$ref\":\"#/$defs/t\"}";
    static const char tagged[] =
        "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"x\"},\"v\":{\"type\":"
        "\"integer\"}},\"required\":[\"k\",\"v\"]},{\"type\":\"object\",\"properties\":{\"k\":{"
        "\"const\":\"y\"}},\"required\":[\"k\"]}]}";
    static const char merged[] =
        "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":3}},\"required\":["
        "\"a\"]},"
        "{\"properties\":{\"a\":{\"type\":\"integer\",\"maximum\":5},\"b\":{\"type\":\"null\"}}}]}";
    /* Required properties after the optional ones. */
    static const char last[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{},"
        "\"f\":{},\"y\":{},\"z\":{}},\"required\":[\"y\",\"z\"],\"additionalProperties\":true}";
    static const char blanks[] = "{\"type\":\"array\",\"items\":{\"type\":\"null\"}}";
    const struct outcome all[] = {
        {pair, TEXTS("[1]", "[1,\"a\"]"), TEXTS("[]", "[1,\"a\",2]", "[\"a\"]")},
        {some, TEXTS("[1,2]", "[1,2,3,4]"), TEXTS("[1]", "[1,2,3,4,5]")},
        {last, TEXTS("{\"f\":1,\"y\":1,\"a\":1,\"z\":1,\"g\":1}"), TEXTS("{\"z\":1,\"y\":1}")},
        {object,
         TEXTS("{\"b\":1}", "{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":1,\"c\":1}", "{\"b\":1,\"c\":1}"),
         TEXTS("{\"a\":1,\"c\":1}", "{}", "{\"b\":1,\"a\":1}", "{,\"b\":1}", "{\"b\":1,}",
               "{\"b\":1,\"d\":1}")},
        {tree, TEXTS("{\"v\":1,\"n\":[{\"v\":2},{\"v\":3,\"n\":[{\"v\":4,\"n\":[]}]}]}"),
         TEXTS("{\"v\":1,\"n\":[{\"v\":2},{\"n\":[]}]}")},
        {tagged, TEXTS("{\"k\":\"x\",\"v\":1}", "{\"k\":\"y\"}"), TEXTS("{\"k\":\"y\",\"v\":1}")},
        {merged, TEXTS("{\"a\":4,\"b\":null}"),
         TEXTS("{\"a\":2}", "{\"a\":6}", "{\"a\":4.5}", "{\"b\":null}")},
        {blanks, TEXTS("[null, null]", "[\n  null,\n\tnull\n]", "[ ]"),
         TEXTS("[  null]", "[null ,null]", "[\n\nnull]", "[\n                     null]", " []",
               "[] ")},
        {"{\"type\":[\"string\",\"null\"]}", TEXTS("null"), NULL},
        {"{\"type\":\"string\",\"nullable\":true}", TEXTS("null"), NULL},
        {"{\"enum\":[\"a\\\"b\",1.50,null,{\"x\":[1]}]}",
         TEXTS("\"a\\\"b\"", "1.50", "{\"x\":[1]}"), TEXTS("1.5")},
        {"{\"const\":null}", TEXTS("null"), NULL},
        {"{\"const\":1.0,\"type\":\"integer\"}", TEXTS("1.0"), NULL},
        {"{\"enum\":[1,2],\"allOf\":[{\"enum\":[2.0,3]}]}", TEXTS("2"), TEXTS("1")},
        {"{\"enum\":[{\"a\":1,\"b\":2}],\"allOf\":[{\"const\":{\"b\":2e0,\"a\":1}}]}",
         TEXTS("{\"b\":2e0,\"a\":1}"), NULL},
        {"{\"oneOf\":[{\"const\":1},{\"const\":1.5}]}", TEXTS("1.5"), NULL},
        {"{\"enum\":[\"a\",\"b\",1],\"type\":\"string\",\"allOf\":[{\"enum\":[\"b\",1]}]}",
         TEXTS("\"b\""), TEXTS("\"a\"", "1")},
        {"{\"properties\":{\"a/b~\":{\"type\":\"null\"}},\"$defs\":{\"a/b~\":{}}}",
         TEXTS("{\"a/b~\":null}"), NULL},
        {"{\"$ref\":\"#/$defs/a~1b~0%20c\",\"$defs\":{\"a/b~ c\":{\"type\":\"null\"}}}",
         TEXTS("null"), NULL},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"minimum\":3}", TEXTS("null"),
         TEXTS("2")},
    };

    VERDICTS(all);
}

/* ---- refusals ---------------------------------------------------------------------------------
 */

TEST(refusals)
{
    static const struct {
        const char *schema;
        enum sp_status status;
        const char *sentence;
    } all[] = {
        {"{\"properties\":{\"a\":{\"not\":{\"uniqueItems\":true}}}}", SP_E_UNSUPPORTED,
         "#/properties/a/not: what these keywords forbid is not supported"},
        {"{\"properties\":{\"x/y\":{\"$dynamicRef\":\"#\"}}}", SP_E_UNSUPPORTED,
         "#/properties/x~1y/$dynamicRef: this keyword is not supported"},
        {"{\"type\":\"array\",\"uniqueItems\":true}", SP_E_UNSUPPORTED,
         "#/uniqueItems: only supported for an enum of at most 10 values"},
        {"{\"contains\":{},\"maxItems\":5}", SP_E_UNSUPPORTED,
         "#/contains: only supported once, without prefixItems, maxContains, and bounds beyond "
         "minContains"},
        {"{\"type\":\"integer\",\"multipleOf\":9973}", SP_E_UNSUPPORTED,
         "#/multipleOf: only one divisor of few digits is supported"},
        {"{\"oneOf\":[{\"properties\":{\"a\":{}},\"required\":[\"a\"]},{\"properties\":{"
         "\"b\":{}},\"required\":[\"b\"]}],\"unevaluatedProperties\":false}",
         SP_E_UNSUPPORTED,
         "#/unevaluatedProperties: only supported in a schema that all others are parts of"},
        {"{\"not\":{\"$ref\":\"#\"}}", SP_E_UNSUPPORTED, "#: no finite text can match"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#\"}}}", SP_E_INPUT,
         "#/$ref: refers to itself"},
        {"{\"multipleOf\":0}", SP_E_INPUT, "#/multipleOf: expected a number above 0"},
        {"{\"patternProperties\":{\"a(?=b)\":{}}}", SP_E_UNSUPPORTED,
         "#/patternProperties: character 4: of the groups that begin with (? only (?: is "
         "supported"},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", SP_E_UNSUPPORTED,
         "#: no finite text can match"},
        {"{\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}", SP_E_INPUT,
         "#: no finite text can match"},
        {"{\"pattern\":\"a{9}\",\"maxLength\":8}", SP_E_INPUT, "#: no finite text can match"},
        {"{\"additionalProperties\":{},\"minProperties\":2}", SP_E_UNSUPPORTED,
         "#/minProperties: not supported beside properties"},
        {"{\"properties\":{\"a\":{}},\"propertyNames\":{\"maxLength\":0}}", SP_E_UNSUPPORTED,
         "#/propertyNames: only strings, and no properties beside it"},
        {"{\"type\":\"strin\"}", SP_E_INPUT,
         "#/type: expected null, boolean, integer, number, string, array or object, or an array of "
         "them"},
        {"{\"$ref\":\"#/$defs/no\"}", SP_E_INPUT, "#/$ref: not found in the schema"},
        {"{\"$ref\":\"other.json\"}", SP_E_UNSUPPORTED,
         "#/$ref: only references into the same schema are followed: \"#\", \"#/...\" and anchors "
         "of "
         "$defs"},
        {"{\"items\":7}", SP_E_INPUT, "#/items: a schema is an object or a boolean, not integer"},
        {"{\"type\":\"string\",\"pattern\":\"a(?=b)\"}", SP_E_UNSUPPORTED,
         "#/pattern: character 4: of the groups that begin with (? only (?: is supported"},
        {"{\"type\":\"string\",\"pattern\":\"(a\"}", SP_E_INPUT,
         "#/pattern: character 3: a group is not closed by )"},
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", SP_E_INPUT,
         "#: no finite text can match"},
        {"{\"type\":\"integer\",\"minimum\":1e300}", SP_E_UNSUPPORTED,
         "#/minimum: expected a number below 1e16 with at most 15 digits after the point"},
        {"{\"type\":\"string\",\"minLength\":-1}", SP_E_INPUT,
         "#/minLength: expected an integer 0..16777216"},
        {"{\"const\":1.5,\"type\":\"integer\"}", SP_E_INPUT, "#: no finite text can match"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", SP_E_INPUT,
         "#: refers to itself through anyOf or oneOf"},
        {"[]", SP_E_INPUT, "#: a schema is an object or a boolean, not array"},
        {"{", SP_E_INPUT, NULL},
        {"false", SP_E_INPUT, "false: no finite text can match"},
        {"{\"const\":5,\"minimum\":10}", SP_E_INPUT, "#: no finite text can match"},
        {"{\"const\":[5],\"minItems\":1}", SP_E_UNSUPPORTED,
         "#/const: cannot be combined with keywords for the types of its values"},
        {"{\"const\":\"a\",\"allOf\":[{\"enum\":[\"b\",\"c\"]}]}", SP_E_INPUT,
         "#: no finite text can match"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sp_grammar *g = NULL;
        struct sp_err err = {0};
        enum sp_status st = sp_grammar_of_schema(&g, all[i].schema, strlen(all[i].schema), &err);
        if (st != all[i].status || (all[i].sentence && strcmp(err.text, all[i].sentence)))
            fail_msg("%s: %d %s", all[i].schema, st, err.text);
        assert_null(g);
    }
}

/* Keywords that are said in others, and those that need an automaton of their own. Other
 * validators decide what is allowed: each text was checked with Python's jsonschema. */
TEST(derived)
{
    const struct outcome all[] = {
        {"{\"type\":[\"string\",\"null\"],\"not\":{\"enum\":[\"a\",\"a.b\",null]}}",
         TEXTS("\"axb\"", "\"\"", "\"b\\n\""), TEXTS("\"a\"", "\"a.b\"", "null")},
        {"{\"type\":\"integer\",\"not\":{\"enum\":[3,7,8]},\"minimum\":0,\"maximum\":9}",
         TEXTS("0", "5", "9"), TEXTS("3", "7", "8", "10")},
        {"{\"type\":\"string\",\"not\":{\"pattern\":\"^[a-c]\"},\"maxLength\":2}",
         TEXTS("\"da\"", "\"\""), TEXTS("\"ad\"", "\"dad\"")},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"}},\"not\":{\"required\":[\"a\",\"b\"]}}",
         TEXTS("{\"a\":1}", "{\"b\":1}", "{}"), TEXTS("{\"a\":1,\"b\":1}", "{\"c\":1}")},
        {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"x\",\"y\"]},\"v\":{\"type\":"
         "\"integer\"}},\"required\":[\"k\"],\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}}},"
         "\"then\":{\"required\":[\"v\"]},\"else\":{\"properties\":{\"v\":false}}}",
         TEXTS("{\"k\":\"x\",\"v\":1}", "{\"k\":\"y\"}"),
         TEXTS("{\"k\":\"x\"}", "{\"k\":\"y\",\"v\":1}")},
        {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"dependentRequired\":{\"a\":["
         "\"b\"]}}",
         TEXTS("{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"), TEXTS("{\"a\":1}")},
        {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"dependentSchemas\":{\"a\":{"
         "\"properties\":{\"b\":{\"type\":\"null\"}}}}}",
         TEXTS("{\"b\":1}", "{\"a\":1,\"b\":null}"), TEXTS("{\"a\":1,\"b\":1}")},
        {"{\"oneOf\":[{\"type\":\"integer\",\"multipleOf\":3},{\"type\":\"integer\","
         "\"minimum\":10}]}",
         TEXTS("9", "-3"), TEXTS("12", "10.5")},
        {"{\"oneOf\":[{\"type\":\"string\",\"maxLength\":3},{\"type\":\"string\",\"pattern\":"
         "\"^a\"}]}",
         TEXTS("\"b\"", "\"abcd\""), TEXTS("\"ab\"", "\"bbbb\"")},
        {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":2}",
         TEXTS("[1,1]", "[\"a\",1,null,1,2]"), TEXTS("[1]", "[1,2,3]")},
        {"{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},\"uniqueItems\":true,"
         "\"minItems\":1}",
         TEXTS("[\"c\",\"a\"]", "[\"b\", \"a\", \"c\"]"), TEXTS("[]", "[\"a\",\"a\"]")},
        {"{\"type\":\"array\",\"items\":{\"enum\":[1,2,3,4,5,6,7,8,9,1.0]},\"uniqueItems\":true,"
         "\"maxItems\":2}",
         TEXTS("[1,9]", "[]"), TEXTS("[1,1]", "[1,1.0]", "[1,2,3]")},
        {"{\"type\":\"integer\",\"multipleOf\":7}", TEXTS("0", "-14", "7777777777"),
         TEXTS("1", "15", "7777777778")},
        {"{\"type\":\"number\",\"multipleOf\":0.05,\"minimum\":-1,\"exclusiveMaximum\":2}",
         TEXTS("0", "0.05", "1.9", "1.95", "-1", "-0.10"), TEXTS("0.01", "2", "1.951", "-1.05")},
        {"{\"type\":\"integer\",\"multipleOf\":1000}", TEXTS("3000", "0", "12000"),
         TEXTS("100", "6", "3006")},
        {"{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"integer\"},\"z$\":{"
         "\"type\":\"null\"}},\"properties\":{\"x-a\":{\"minimum\":5},\"b\":{\"type\":\"null\"}}}",
         TEXTS("{\"x-a\":5}", "{\"b\":null,\"x-q\":1}", "{\"qz\":null}"),
         TEXTS("{\"x-a\":1}", "{\"x-q\":null}", "{\"q\":1}", "{\"x-z\":1}")},
        {"{\"$ref\":\"#n\",\"$defs\":{\"a\":{\"$anchor\":\"n\",\"type\":\"null\"}}}", TEXTS("null"),
         TEXTS("1")},
        {"{\"enum\":[\"ab\",\"abc\",7,12],\"maxLength\":2,\"minimum\":10}", TEXTS("\"ab\"", "12"),
         TEXTS("\"abc\"", "7")},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"not\":{}},\"b\":{}}}", TEXTS("{\"b\":1}"),
         TEXTS("{\"a\":1}")},
    };

    VERDICTS(all);
}

/* Schemas as zod, pydantic and other libraries write them. */
TEST(libraries)
{
    static const char
        zod_int[] = "{\"type\":\"integer\",\"minimum\":-9007199254740991,"
                    "\"maximum\":9007199254740991}",
        record[] = "{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},"
                   "\"additionalProperties\":{\"type\":\"number\"}}",
        keys[] = "{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\",\"enum\":[\"a\","
                 "\"b\"]},\"additionalProperties\":{\"type\":\"number\"},\"required\":[\"a\"]}",
        email[] = "{\"type\":\"string\",\"format\":\"email\",\"pattern\":"
                  "\"^(?!\\\\.)(?!.*\\\\.\\\\.)([A-Za-z0-9_'+\\\\-\\\\.]*)"
                  "[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\\\-]*\\\\.)+[A-Za-z]{2,}$\"}",
        decimal[] = "{\"type\":\"string\",\"pattern\":\"^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\"}",
        url[] = "{\"type\":\"string\",\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083}",
        code[] = "{\"type\":\"string\",\"pattern\":\"^[a-z\\u00e9\\\"]+$\","
                 "\"minLength\":2,\"maxLength\":3}",
        both[] = "{\"pattern\":\"^a\",\"allOf\":[{\"pattern\":\"b$\"}]}",
        tuple[] = "{\"type\":\"array\",\"items\":[{\"type\":\"integer\"},"
                  "{\"type\":\"boolean\"}],\"additionalItems\":false,\"minItems\":2}",
        tagged[] = "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"const\":"
                   "\"a\"}}},{\"type\":\"object\",\"properties\":{\"t\":{\"const\":"
                   "\"b\"}}}],\"discriminator\":{\"propertyName\":\"t\"}}",
        open[] = "{\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
                 "\"integer\"},\"id\":{\"type\":\"integer\"}},\"required\":[\"id\"],"
                 "\"additionalProperties\":true}",
        hints[] = "{\"enumDescriptions\":[],\"$anchor\":\"a\",\"type\":\"object\","
                  "\"unevaluatedProperties\":false,\"format\":\"path\"}",
        one[] = "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},"
                "\"minProperties\":1,\"maxProperties\":2}",
        version[] = "{\"type\":\"string\",\"format\":\"uuid4\"}",
        unit[] = "{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}";
    const struct outcome all[] = {
        {zod_int, TEXTS("9007199254740991"), TEXTS("9007199254740992")},
        {record, TEXTS("{\"x\":1}"), TEXTS("{\"x\":\"1\"}")},
        {keys, TEXTS("{\"a\":1,\"b\":2}"), TEXTS("{\"a\":1,\"c\":2}", "{\"b\":1}")},
        {email, TEXTS("\"a.b@example.com\""), TEXTS("\"a..b@example.com\"")},
        {decimal, TEXTS("\"-1.50\""), TEXTS("\".\"")},
        {url, TEXTS("\"https://a.example/b?c=d#e\""), TEXTS("\"a.example\"")},
        {code, TEXTS("\"\\\"\xc3\xa9z\""), TEXTS("\"a\"", "\"abcd\"")},
        {both, TEXTS("\"axb\""), TEXTS("\"ax\"")},
        {tuple, TEXTS("[1,true]"), TEXTS("[1,true,2]", "[true,true]")},
        {tagged, TEXTS("{\"t\":\"b\"}"), TEXTS("{}")},
        {open,
         TEXTS("{\"age\":5,\"id\":1,\"name\":\"B\",\"x\":null}", "{\"id\":1,\"x\":null,\"age\":5}"),
         TEXTS("{\"id\":1,\"age\":5,\"age\":6}", "{\"age\":\"5\",\"id\":1}", "{\"age\":5}")},
        {version, TEXTS("\"5d28b9a2-5ddb-4b09-9cb9-ff3e6a1b6e4c\""),
         TEXTS("\"5d28b9a2-5ddb-1b09-9cb9-ff3e6a1b6e4c\"",
               "\"5d28b9a2-5ddb-4b09-7cb9-ff3e6a1b6e4c\"")},
        {hints, TEXTS("{}"), NULL},
        {one, TEXTS("{\"a\":1,\"b\":2}"), TEXTS("{}", "{\"a\":1,\"b\":2,\"c\":3}")},
        {unit, TEXTS("0.5"), TEXTS("1", "1.0", "0")},
    };

    VERDICTS(all);
}

/* ---- ends -------------------------------------------------------------------------------------
 */

/* Appends a random schema to `to`. In a form, @ stands for a digit and % for a schema. */
static void put_schema(struct sp_strbuf *to, uint64_t *seed, unsigned depth)
{
    static const char *const simple[] = {
        "{}",
        "{\"type\":\"number\",\"exclusiveMinimum\":-@,\"exclusiveMaximum\":@}",
        "{\"type\":\"number\",\"exclusiveMinimum\":@}",
        "{\"type\":\"number\",\"maximum\":-0.@}",
        "{\"type\":\"integer\",\"minimum\":@,\"exclusiveMaximum\":12345}",
        "{\"type\":\"integer\",\"multipleOf\":@,\"minimum\":-@,\"maximum\":@}",
        "{\"type\":\"number\",\"multipleOf\":0.@,\"exclusiveMinimum\":-@}",
        "{\"type\":\"string\",\"pattern\":\"^[ab]*c\",\"maxLength\":1@}",
        "{\"type\":\"string\",\"minLength\":@,\"pattern\":\"^(ab?|b)*$\",\"not\":{\"pattern\":"
        "\"bb\"}}",
        "{\"type\":\"string\",\"format\":\"date-time\"}",
        "{\"type\":\"string\",\"format\":\"duration\",\"nullable\":true}",
        "{\"type\":\"string\",\"maxLength\":@}",
        "{\"enum\":[1,\"a\",null,@.5]}",
        "{\"const\":{\"a\":[1.50,\"\\u00e9\\n\"]}}",
        "{\"not\":{\"enum\":[1,\"a\",null,{},@]}}",
        "{\"$ref\":\"#\"}",
        "{\"type\":\"array\",\"items\":{\"enum\":[@,\"b\",@]},\"uniqueItems\":true}",
        "{\"type\":\"array\",\"minItems\":@,\"maxItems\":9,\"items\":{\"type\":\"boolean\"}}",
        "{\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"@\":{}},\"minProperties\":1}",
        "{\"propertyNames\":{\"pattern\":\"^[ab]{1,@}$\"},\"minProperties\":1,"
        "\"additionalProperties\":{\"type\":\"null\"}}",
        "{\"propertyNames\":{\"enum\":[\"a\",\"ab\"]},\"required\":[\"ab\"],"
        "\"additionalProperties\":{\"const\":@}}",
        "{\"allOf\":[{\"minimum\":-@},{\"type\":[\"integer\",\"string\"]}],\"maximum\":@}",
        "false",
    };
    static const char *const compound[] = {
        "{\"properties\":{\"a\":%,\"ab\":%},\"required\":[\"ab\"]}",
        "{\"additionalProperties\":true,\"properties\":{\"a\":%,\"b\":%}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":%},\"required\":[\"a\",\"b\"],"
        "\"additionalProperties\":%}",
        "{\"type\":\"object\",\"additionalProperties\":%,\"maxProperties\":@}",
        "{\"properties\":{\"a\":{\"const\":1}},\"unevaluatedProperties\":false,\"anyOf\":[{"
        "\"properties\":{\"ab\":%}},{\"required\":[\"a\"]}]}",
        "{\"type\":\"object\",\"properties\":{\"a\":%,\"b\":{}},\"dependentSchemas\":{\"a\":{"
        "\"properties\":{\"b\":%}}},\"dependentRequired\":{\"a\":[\"b\"]}}",
        "{\"properties\":{\"a\":{},\"ab\":{}},\"not\":%,\"required\":[\"a\"],\"if\":false,\"else\":"
        "%}",
        "{\"anyOf\":[%,%]}",
        "{\"oneOf\":[%,%]}",
        "{\"allOf\":[%,%]}",
        "{\"oneOf\":[{\"properties\":{\"a\":{\"const\":1},\"b\":%}},{\"properties\":{\"a\":{"
        "\"const\":2},\"b\":%}}],\"discriminator\":{\"propertyName\":\"a\"}}",
        "{\"if\":%,\"then\":%}",
        "{\"if\":%,\"then\":%,\"else\":%}",
        "{\"prefixItems\":[%,%]}",
        "{\"minItems\":2,\"items\":[%,%]}",
        "{\"type\":\"array\",\"maxItems\":3,\"additionalItems\":false,\"items\":[%,%]}",
        "{\"minContains\":2,\"contains\":%,\"items\":%}",
    };
    bool is_simple = depth == 0 || next(seed) % 3 == 0;
    const char *form = is_simple ? simple[next(seed) % (sizeof simple / sizeof *simple)]
                                 : compound[next(seed) % (sizeof compound / sizeof *compound)];

    for (; *form; form++) {
        char c = *form == '@' ? (char)('1' + next(seed) % 9) : *form;
        if (c == '%')
            put_schema(to, seed, depth - 1);
        else
            assert_int_equal(sp_strbuf_append(to, &c, 1, NULL), SP_OK);
    }
}

/* Whether a text can end of which `state` is the state so far: the states that it leads to, those
 * after few bytes and open brackets first. */
static bool can_end(struct sp_grammar_matcher *matcher, uint32_t state)
{
    enum { MOST = 1 << 14, MOST_STATES = 1 << 20, BRACKET = 64 };
    static struct {
        uint32_t state;
        int cost;
    } found[MOST];
    static bool known[MOST_STATES];
    size_t n = 1;

    memset(known, 0, sizeof known);
    found[0].state = state;
    found[0].cost = 0;
    for (size_t done = 0; done < n; done++) {
        size_t best = done;
        for (size_t i = done; i < n; i++)
            if (found[i].cost < found[best].cost) best = i;
        const uint32_t from = found[best].state;
        const int cost = found[best].cost;
        found[best] = found[done];
        if (sp_grammar_matcher_may_end(matcher, from)) return true;
        for (unsigned byte = 0; byte < 256 && n < MOST; byte++) {
            uint32_t to = from;
            int brackets = (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
            assert_int_equal(sp_grammar_matcher_step(matcher, &to, (uint8_t)byte, NULL), SP_OK);
            assert_true(to < MOST_STATES);
            if (to == SP_STATE_DEAD || known[to]) continue;
            known[to] = true;
            found[n].state = to;
            found[n++].cost = cost + (byte <= ' ' ? BRACKET : 1) + BRACKET * brackets;
        }
    }
    return false;
}

/* Walks a random text of the grammar, and then to an end of it. */
static void walk(const char *schema, const struct sp_grammar *g, uint64_t *seed)
{
    struct sp_grammar_matcher *matcher = NULL;
    uint32_t state = SP_STATE_START;
    size_t n_text = 0, length;
    char text[60];

    assert_int_equal(sp_grammar_matcher_open(&matcher, g, NULL), SP_OK);
    for (length = next(seed) % sizeof text; n_text < length; n_text++) {
        struct sp_byte_set bytes = {0};
        uint8_t byte = (uint8_t)next(seed);
        size_t n = 0;
        assert_int_equal(sp_grammar_matcher_bytes(matcher, state, &bytes, &n, 256, NULL), SP_OK);
        if (n == 0) break;
        while (!sp_byte_set_has(&bytes, byte))
            byte++;
        assert_int_equal(sp_grammar_matcher_step(matcher, &state, byte, NULL), SP_OK);
        text[n_text] = (char)byte;
    }
    if (!can_end(matcher, state)) fail_msg("%s: %.*s", schema, (int)n_text, text);
    sp_grammar_matcher_close(matcher);
}

/* Every prefix that a grammar allows can be completed. */
TEST(every_prefix_ends)
{
    uint64_t seed = 7;
    size_t n = 0;

    for (unsigned i = 0; i < 300; i++) {
        struct sp_strbuf text = {0};
        struct sp_grammar *g = NULL;
        put_schema(&text, &seed, 3);
        assert_int_equal(sp_strbuf_append(&text, "", 1, NULL), SP_OK);
        if (sp_grammar_of_schema(&g, text.at, text.len - 1, NULL) == SP_OK) {
            for (unsigned k = 0; k < 5; k++)
                walk(text.at, g, &seed);
            n++;
        }
        sp_grammar_close(g);
        sp_strbuf_release(&text);
    }
    assert_true(n > 150);
}

/* A long schema from a client must not take long to compile, so pairwise comparisons are limited.
 */
TEST(bounds_of_size)
{
    enum { ROOM = 1 << 20, MANY = 30000 };
    char *text = keep(malloc(ROOM)), *at = text;
    struct sp_grammar *g = NULL;
    struct sp_err err = {0};

    assert_non_null(text);
    at += sprintf(at, "{\"enum\":[0");
    for (int i = 1; i < MANY; i++)
        at += sprintf(at, ",%d", i);
    sprintf(at, "]}");
    assert_int_equal(sp_grammar_of_schema(&g, text, strlen(text), &err), SP_E_UNSUPPORTED);
    assert_string_equal(err.text, "#/enum: more than 2000 are not taken");
    at = text + sprintf(text, "{\"properties\":{");
    for (int i = 0; i < MANY; i++)
        at += sprintf(at, "%s\"%d\":true", i ? "," : "", i);
    sprintf(at, "}}");
    err = (struct sp_err){0};
    assert_int_equal(sp_grammar_of_schema(&g, text, strlen(text), &err), SP_E_UNSUPPORTED);
    assert_string_equal(err.text, "an object of more than 2000 properties");
    memset(text, ' ', ROOM);
    err = (struct sp_err){0};
    assert_int_equal(sp_grammar_of_schema(&g, text, ROOM, &err), SP_E_UNSUPPORTED);
    assert_string_equal(err.text, "the schema has more than 524288 bytes");
}
