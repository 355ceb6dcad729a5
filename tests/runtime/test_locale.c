/* The library reads and writes numbers with a decimal point, also in a program whose locale uses a
 * comma. localedef creates such a locale here; without localedef the tests are skipped. */
#include "format/json/json_write.h"
#include "format/modelfile/modelfile_check.h"
#include "tests/support/grammar_checks.h"
#include "tests/support/create_files.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

#include <locale.h>

static int begin(void **state)
{
    static const char numbers[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                                  "grouping 3;3\nEND LC_NUMERIC\n";

    if (create_setup(state)) return 1;
    scratch_write("numbers", numbers, strlen(numbers));
    const char *command =
        keep_format("cd '%s' && localedef -c -i numbers ./comma >log 2>&1", scratch_folder());
    (void)!system(command); /* localedef warns about missing categories */
    return 0;
}

static int end(void **state)
{
    setlocale(LC_NUMERIC, "C");
    return create_teardown(state);
}

static void set_comma(void)
{
    const char *name;

    assert_int_equal(setenv("LOCPATH", scratch_folder(), 1), 0);
    name = setlocale(LC_NUMERIC, "comma");
    unsetenv("LOCPATH"); /* with LOCPATH glibc's newlocale, which json-c calls, leaks memory */
    if (name == NULL) skip();
    const char *text = keep_format("%.1f", 0.5);
    assert_string_equal(text, "0,5");
}

TEST(numbers)
{
    const struct sp_parameter *temperature = sp_parameter_find("temperature");
    struct sp_json *json = NULL;
    struct sp_err err = {0};
    char *text = NULL;
    double x;

    set_comma();
    json = keep_parsed("[0.5,-2.5e-3]", 13, SP_JSON_STRICT);
    assert_true(sp_json_to_double(sp_json_at(json, 1), &x));
    assert_true(x == -0.0025);
    text = keep_printed(json);
    assert_string_equal(text, "[0.5,-2.5e-3]");
    assert_ok(sp_parameter_number(&x, temperature, "0.75", why));
    assert_true(x == 0.75);
    assert_int_equal(sp_parameter_number(&x, temperature, "0,75", &err), SP_E_INPUT);
    err = (struct sp_err){0};
    (void)sp_fail(&err, SP_E_INPUT, "%g", 0.5);
    sp_context(&err, "%.2f", 1234.5);
    assert_string_equal(err.text, "1234.50: 0.5");
    assert_string_equal(localeconv()->decimal_point, ","); /* the program's locale is unchanged */
}

TEST(templates)
{
    struct template_cases what = {.lines = TESTDATA "/templates/jinja.jsonl",
                                  .variables = TESTDATA "/templates/variables.json",
                                  .language = SP_TEMPLATE_JINJA};

    set_comma();
    template_cases_check(&what, 300);
    what = (struct template_cases){.lines = TESTDATA "/templates/go.jsonl",
                                   .variables = TESTDATA "/templates/variables.json",
                                   .language = SP_TEMPLATE_GO};
    template_cases_check(&what, 100);
}

TEST(schemas)
{
    static const char schema[] = "{\"type\":\"number\",\"minimum\":0.25,\"maximum\":1.5}";

    set_comma();
    const struct sp_grammar *g = keep_schema(schema);
    assert_true(grammar_allows(g, "0.25"));
    assert_true(grammar_allows(g, "1.5"));
    assert_false(grammar_allows(g, "0.24"));
    assert_false(grammar_allows(g, "1.51"));
}

/* A packed file has the same bytes: config, pairing, parameters. */
TEST(packed_files)
{
    static const char lines[] = "FROM @/target\nDRAFT @/ar\nPARAMETER temperature 0.75\n";
    const char *modelfile = create_modelfile(lines);

    setlocale(LC_NUMERIC, "C");
    create_pack(modelfile, create_path("point.bin"), SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    set_comma();
    create_pack(modelfile, create_path("comma.bin"), SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    assert_same_file(create_path("point.bin"), create_path("comma.bin"));
    create_open(create_path("comma.bin"));
}

GROUP_FIXTURE(begin, end);
