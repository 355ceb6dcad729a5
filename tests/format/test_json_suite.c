/* format/json/json.h against JSONTestSuite: what RFC 8259 allows is taken, what it forbids is
 * refused, and what it leaves open is decided as recorded here. */
#include "format/json/json.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

enum { LINE = 1 << 15 };

/* Parses a copy without a byte after it, so that a sanitizer notices a read beyond the end. */
static bool takes(const char *text, size_t size, enum sp_json_strictness strictness)
{
    struct sp_json *root = NULL;
    struct sp_err err = {0};
    char *copy = keep(malloc(size ? size : 1));

    assert_non_null(copy);
    memcpy(copy, text, size);
    enum sp_status st = sp_json_parse(&root, copy, size, strictness, &err);
    if (st != SP_OK) assert_int_equal(st, SP_E_INPUT);
    assert_int_equal(err.text[0] != '\0', st != SP_OK);
    sp_json_free(root);
    return st == SP_OK;
}

static bool is_among(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

/* Repeated keys are refused by strict parsing alone, and a key that holds NUL by both. */
static const char *const repeated[] = {"y_object_duplicated_key",
                                       "y_object_duplicated_key_and_value", NULL};
static const char *const never_taken[] = {"y_object_escaped_null_in_key", NULL};
/* Python writes these; they are taken by lenient parsing. */
static const char *const python_writes[] = {"n_number_NaN", "n_number_infinity",
                                            "n_number_minus_infinity", NULL};
/* What the suite leaves open: numbers that a double rounds are taken, those beyond its range by
 * lenient parsing alone; lone surrogates, ill-formed UTF-8, other encodings, byte order marks and
 * nesting beyond SP_JSON_DEPTH are refused. */
static const char *const rounded[] = {"i_number_double_huge_neg_exp",   "i_number_real_underflow",
                                      "i_number_too_big_neg_int",       "i_number_too_big_pos_int",
                                      "i_number_very_big_negative_int", NULL};
static const char *const beyond_doubles[] = {
    "i_number_huge_exp",          "i_number_neg_int_huge_exp",  "i_number_pos_double_huge_exp",
    "i_number_real_neg_overflow", "i_number_real_pos_overflow", NULL};

static void check_case(const char *name, const char *text, size_t size)
{
    bool strict = takes(text, size, SP_JSON_STRICT), lenient = takes(text, size, SP_JSON_LENIENT);
    bool allowed = *name == 'y' && !is_among(name, never_taken);
    bool want_strict = (allowed && !is_among(name, repeated)) || is_among(name, rounded);
    bool want_lenient =
        allowed || want_strict || is_among(name, python_writes) || is_among(name, beyond_doubles);

    if (strict == want_strict && lenient == want_lenient) return;
    fail_msg("%s: strict %s, lenient %s", name, strict ? "takes" : "refuses",
             lenient ? "takes" : "refuses");
}

static size_t read_hex(char *hex)
{
    size_t n = 0;

    for (; hex[2 * n] && hex[2 * n] != '\n'; n++) {
        const char digits[3] = {hex[2 * n], hex[2 * n + 1], '\0'};
        hex[n] = (char)strtol(digits, NULL, 16);
    }
    return n;
}

TEST(suite)
{
    FILE *file = fopen(TESTDATA "/json/suite.txt", "r");
    static char line[LINE];
    size_t n_cases = 0;

    assert_non_null(file);
    for (; fgets(line, sizeof line, file); n_cases++) {
        char *hex = strchr(line, ' ');
        assert_non_null(hex);
        *hex++ = '\0';
        check_case(line, hex, read_hex(hex));
    }
    fclose(file);
    assert_int_equal(n_cases, 316);
}

TEST(brackets_without_end_are_refused)
{
    enum { N = 100000 };
    char *text = keep(malloc(5 * N));

    assert_non_null(text);
    memset(text, '[', N);
    assert_false(takes(text, N, SP_JSON_STRICT));
    for (size_t i = 0; i < N; i++)
        memcpy(text + 5 * i, "[{\"\":", 5);
    assert_false(takes(text, 5 * N, SP_JSON_LENIENT));
}
