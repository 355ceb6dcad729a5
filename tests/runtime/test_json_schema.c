/* runtime/grammar/json_schema.h against the JSON Schema Test Suite, whose outcomes are the expected
 * values (tests/oracle/schema_cases.py): the grammar accepts no text that its schema forbids. It
 * accepts every allowed text except for the deviations that the header lists, which are counted. A
 * schema that cannot be enforced is refused. Bounds are compared with every number near them, names
 * with every other name. */
#include "format/json/json_write.h"
#include "tests/support/golden.h"
#include "tests/support/grammar_checks.h"
#include "tests/support/keep.h"
#include "tests/support/random.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

/* ---- the suite ---- */

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
        bool valid = false, accepted = grammar_allows(g, instance);
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
    struct sp_json *const *line = golden_lines(TESTDATA "/grammars/schemas.jsonl");
    struct suite_counts suite_counts = {0};

    for (; *line; line++)
        group(*line, &suite_counts);
    /* SHOW=1 lists the allowed texts that are not accepted, and the refused schemas. */
    assert_int_equal(suite_counts.rejected, 530);
    assert_int_equal(suite_counts.accepted, 397);
    assert_int_equal(suite_counts.left_out, 252);
    assert_int_equal(suite_counts.refused, 35);
}

/* ---- bounds ---- */

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
                size_t n_kept = kept_count();
                if (ends[i] == ends[k] && kind > 1) continue;
                if (whole && ends[k] - ends[i] == 1 && kind > 1) continue;
                snprintf(text, sizeof text, "{\"type\":\"%s\",\"%s\":%d,\"%s\":%d}",
                         whole ? "integer" : "number", open_low ? "exclusiveMinimum" : "minimum",
                         ends[i], open_high ? "exclusiveMaximum" : "maximum", ends[k]);
                struct sp_grammar_matcher *a = keep_matcher(keep_schema(text));
                for (int tenths = -13000; tenths <= 13000; tenths += whole ? 10 : 1) {
                    bool above = open_low ? tenths > 10 * ends[i] : tenths >= 10 * ends[i];
                    bool below = open_high ? tenths < 10 * ends[k] : tenths <= 10 * ends[k];
                    if (abs(tenths - 10 * ends[i]) > 300 && abs(tenths - 10 * ends[k]) > 300)
                        continue;
                    snprintf(number, sizeof number, "%s%d", tenths < 0 ? "-" : "",
                             abs(tenths) / 10);
                    if (tenths % 10) snprintf(number + strlen(number), 8, ".%d", abs(tenths) % 10);
                    if (matcher_allows(a, number, strlen(number)) != (above && below))
                        fail_msg("%s: %s", text, number);
                }
                kept_release(n_kept);
            }
        }
    }
}

/* ---- outcomes ---- */

/* A schema of outcomes.jsonl with texts that it allows and texts that it forbids, or with the
 * sentence that refuses it. */
static void check_outcome(const struct sp_json *line)
{
    const char *text = sp_json_get_text(line, "text");
    const struct sp_json *allowed = sp_json_get(line, "allowed");
    const struct sp_json *forbidden = sp_json_get(line, "forbidden");
    struct sp_grammar *g = NULL;
    int64_t status;

    if (text == NULL) text = keep_printed(sp_json_get(line, "schema"));
    if (sp_json_to_i64(sp_json_get(line, "status"), &status)) {
        const char *sentence = sp_json_get_text(line, "sentence");
        enum sp_status st = sp_grammar_of_schema(&g, text, strlen(text), why);
        if (sentence)
            assert_fails_as(st, status, sentence);
        else
            assert_fails(st, status, "");
        assert_null(g);
        return;
    }
    g = keep_schema(text);
    for (size_t i = 0; i < sp_json_len(allowed); i++) {
        const char *one = sp_json_to_string(sp_json_at(allowed, i), NULL);
        if (!grammar_allows(g, one)) fail_msg("%s: %s is rejected", text, one);
    }
    for (size_t i = 0; i < sp_json_len(forbidden); i++) {
        const char *one = sp_json_to_string(sp_json_at(forbidden, i), NULL);
        if (grammar_allows(g, one)) fail_msg("%s: %s is accepted", text, one);
    }
}

/* The groups: bounds with fractions, one-sided bounds, and invalid spellings of numbers; strings;
 * arrays, objects and combinations; keywords that are said in others, and those that need an
 * automaton of their own, whose texts were checked with Python's jsonschema; schemas as zod,
 * pydantic and other libraries write them; refusals. */
TEST(outcomes)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/grammars/outcomes.jsonl");
    size_t n = 0;

    for (; line[n]; n++)
        check_outcome(line[n]);
    assert_int_equal(n, 108);
}

/* An overlong form, a lone surrogate, and a number above U+10FFFF. */
TEST(invalid_utf8)
{
    const struct sp_grammar *g =
        keep_schema("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}");

    assert_false(grammar_allows(g, "\"a\xC0\x80\""));
    assert_false(grammar_allows(g, "\"a\xED\xA0\x80\""));
    assert_false(grammar_allows(g, "\"\xF4\x90\x80\x80-\""));
}

/* A pair of surrogates in a pattern is one character. What \n parts is no pair, and no text has
 * half of one. */
TEST(surrogates_of_patterns)
{
    const struct sp_grammar *g =
        keep_schema("{\"type\":\"string\",\"pattern\":\"^(\\\\uD83D\\\\uDE00|\\\\uD83D\\\\nDC41|"
                    "\\\\uD83D\\\\u0062|b)$\"}");

    assert_true(grammar_allows(g, "\"\xF0\x9F\x98\x80\""));
    assert_true(grammar_allows(g, "\"b\""));
    assert_false(grammar_allows(g, "\"\xF0\x9F\x91\x81\""));
    assert_false(grammar_allows(g, "\"\xF0\x9F\x91\xA2\""));
}

/* ---- ends ---- */

/* The forms of random schemas, in which @ stands for a digit and % for a schema. */
struct forms {
    const char *simple[32], *compound[32];
    size_t n_simple, n_compound;
};

static void read_forms(struct forms *forms)
{
    size_t size;
    char *next = golden_file(TESTDATA "/grammars/forms.txt", &size), *line;

    assert_non_null(next);
    while ((line = next_line(&next))) {
        assert_true(forms->n_simple < 32 && forms->n_compound < 32);
        if (strchr(line, '%'))
            forms->compound[forms->n_compound++] = line;
        else
            forms->simple[forms->n_simple++] = line;
    }
}

/* Appends a random schema to `to`. */
static void put_schema(struct sp_strbuf *to, const struct forms *forms, uint64_t *seed,
                       unsigned depth)
{
    bool is_simple = depth == 0 || next(seed) % 3 == 0;
    const char *form = is_simple ? forms->simple[next(seed) % forms->n_simple]
                                 : forms->compound[next(seed) % forms->n_compound];

    for (; *form; form++) {
        char c = *form == '@' ? (char)('1' + next(seed) % 9) : *form;
        if (c == '%')
            put_schema(to, forms, seed, depth - 1);
        else
            assert_ok(sp_strbuf_append(to, &c, 1, why));
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
            assert_ok(sp_grammar_matcher_step(matcher, &to, (uint8_t)byte, why));
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
    struct sp_grammar_matcher *matcher = keep_matcher(g);
    uint32_t state = SP_STATE_START;
    size_t n_text = 0, length = next(seed) % 60;
    char text[60];

    for (; n_text < length; n_text++) {
        struct sp_byte_set bytes = {0};
        uint8_t byte = (uint8_t)next(seed);
        size_t n = 0;
        assert_ok(sp_grammar_matcher_bytes(matcher, state, &bytes, &n, 256, why));
        if (n == 0) break;
        while (!sp_byte_set_has(&bytes, byte))
            byte++;
        assert_ok(sp_grammar_matcher_step(matcher, &state, byte, why));
        text[n_text] = (char)byte;
    }
    if (!can_end(matcher, state)) fail_msg("%s: %.*s", schema, (int)n_text, text);
}

/* Every prefix that a grammar allows can be completed. */
TEST(every_prefix_ends)
{
    struct forms forms = {.n_simple = 0};
    uint64_t seed = 7;
    size_t n = 0;

    read_forms(&forms);
    for (unsigned i = 0; i < 300; i++) {
        size_t n_kept = kept_count();
        struct sp_strbuf text = {0};
        struct sp_grammar *g = NULL;
        put_schema(&text, &forms, &seed, 3);
        assert_ok(sp_strbuf_append(&text, "", 1, why));
        if (sp_grammar_of_schema(&g, text.at, text.len - 1, NULL) == SP_OK) {
            for (unsigned k = 0; k < 5; k++)
                walk(text.at, g, &seed);
            n++;
        }
        kept_release(n_kept);
        sp_grammar_close(g);
        sp_strbuf_release(&text);
    }
    assert_true(n > 150);
}

/* A client's long schema must not take long to compile, so pairwise comparisons are limited. */
TEST(bounds_of_size)
{
    enum { ROOM = 1 << 20, MANY = 30000 };
    char *text = keep(malloc(ROOM)), *at = text;
    struct sp_grammar *g = NULL;

    assert_non_null(text);
    at += sprintf(at, "{\"enum\":[0");
    for (int i = 1; i < MANY; i++)
        at += sprintf(at, ",%d", i);
    sprintf(at, "]}");
    assert_fails_as(sp_grammar_of_schema(&g, text, strlen(text), why), SP_E_UNSUPPORTED,
                    "#/enum: more than 2000 are not taken");
    at = text + sprintf(text, "{\"properties\":{");
    for (int i = 0; i < MANY; i++)
        at += sprintf(at, "%s\"%d\":true", i ? "," : "", i);
    sprintf(at, "}}");
    assert_fails_as(sp_grammar_of_schema(&g, text, strlen(text), why), SP_E_UNSUPPORTED,
                    "an object of more than 2000 properties");
    memset(text, ' ', ROOM);
    assert_fails_as(sp_grammar_of_schema(&g, text, ROOM, why), SP_E_UNSUPPORTED,
                    "the schema has more than 524288 bytes");
}
