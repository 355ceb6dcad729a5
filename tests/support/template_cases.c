#include "tests/support/template_cases.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

enum { SHOWN = 10 };

static void close_template(void *t)
{
    sp_template_close(t);
}

struct sp_template *keep_template(const char *text, enum sp_template_language language)
{
    struct sp_template *t = NULL;

    assert_case_ok(text, sp_template_compile(&t, text, strlen(text), language, why));
    return keep_with(t, close_template);
}

char *keep_rendered(const struct sp_template *t, const struct sp_template_input *in)
{
    char *text = NULL;
    size_t len;

    assert_ok(sp_template_render(&text, &len, t, in, NULL));
    assert_int_equal(len, strlen(text));
    return keep(text);
}

/* Restores two known numbers: the shared variables were written by a program that only has
 * doubles. */
static void repair(char *text)
{
    char *big = strstr(text, "12345678901234567000"), *fl = strstr(text, "\"fl\": 1,\n");

    if (big != NULL) memcpy(big, "12345678901234567890", 20);
    if (fl != NULL) memcpy(fl, "\"fl\":1.0,", 9);
}

static enum sp_status compile(struct sp_template **out, const struct template_cases *what,
                              const struct sp_json *line, struct sp_err *err)
{
    size_t size = 0;
    const char *text = sp_json_to_string(sp_json_get(line, "template"), &size);

    if (what->folder != NULL) {
        text = golden_file(keep_format("%s/%s%s", what->folder, text ? text : "", what->suffix),
                           &size);
    }
    if (text == NULL) abort();
    return sp_template_compile(out, text, size, what->language, err);
}

static bool passes(const struct template_cases *what, const struct sp_json *vars,
                   const struct sp_json *line)
{
    struct sp_err err = {0};
    struct sp_template *t = NULL;
    struct sp_template_input in = {.vars = vars, .now = {2025, 6, 15, 12, 0, 0}};
    const char *wanted, *error;
    char *text = NULL;
    size_t len = 0, size = 0;
    bool good;

    in.messages = sp_json_get(line, "messages");
    in.tools = sp_json_get(line, "tools");
    in.kwargs = sp_json_get(line, "kwargs");
    in.prompt = sp_json_get(line, "prompt");
    in.suffix = sp_json_get(line, "suffix");
    (void)sp_json_to_bool(sp_json_get(line, "think"), &in.think);
    (void)sp_json_to_bool(sp_json_get(line, "is_think_set"), &in.is_think_set);
    enum sp_status st = compile(&t, what, line, &err);
    if (!st) st = sp_template_render(&text, &len, t, &in, &err);
    wanted = sp_json_to_string(sp_json_get(line, "rendered"), &size);
    error = sp_json_to_string(sp_json_get(line, "error"), &(size_t){0});
    if (wanted != NULL) {
        good = !st && len == size && memcmp(text, wanted, len) == 0;
    } else {
        /* A template file raises errors of its own, whose text must appear in the message. Other
         * messages are worded by spectool and are not compared. */
        good = st && strncmp(err.text, "template", 8) == 0 && error != NULL &&
               (what->folder == NULL || strstr(err.text, error) != NULL);
    }
    if (!good) printf("found: %s\n", st ? err.text : text);
    free(text);
    sp_template_close(t);
    return good;
}

/* Returns the number of failing lines. *n: the number of lines, 0 if the file does not exist. */
static size_t count_failures(size_t *n, const struct template_cases *what)
{
    size_t n_vars, failures = 0;
    char *variables = what->variables ? golden_file(what->variables, &n_vars) : NULL;
    struct sp_json *vars = NULL, *const *line = golden_lines(what->lines);

    if (variables != NULL) {
        repair(variables);
        vars = keep_parsed(variables, n_vars, SP_JSON_LENIENT);
    }
    for (*n = 0; line[*n]; ++*n)
        if (!passes(what, vars, line[*n]) && failures++ < SHOWN)
            printf("line %zu: %.1500s\n", *n + 1, keep_printed(line[*n]));
    return failures;
}

void template_cases_check(const struct template_cases *what, size_t at_least)
{
    size_t n;

    assert_int_equal(count_failures(&n, what), 0);
    if (n == 0 && at_least == 0) skip();
    assert_true(n >= at_least);
}

void template_refusals_check(const char *path, message_fn *message_of, size_t n)
{
    struct sp_json *const *line = golden_lines(path);
    struct sp_err err;
    size_t i = 0;

    for (; line[i]; i++) {
        int64_t status = SP_OK;
        enum sp_status st =
            message_of(&err, sp_json_get_text(line[i], "template"), 1 << 20, 1 << 20);
        assert_string_equal(err.text, sp_json_get_text(line[i], "message"));
        assert_int_not_equal(st, SP_OK);
        if (sp_json_to_i64(sp_json_get(line[i], "status"), &status)) assert_int_equal(st, status);
    }
    assert_int_equal(i, n);
}
