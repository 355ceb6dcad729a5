/* Tests Jinja templates against Jinja2, with the cases of testdata and those of ../shared if they
 * are available. */
#include "runtime/template/jinja/jinja.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

TEST(renders_like_jinja2)
{
    const struct template_cases what = {.lines = TESTDATA "/templates/jinja.jsonl",
                                        .variables = TESTDATA "/templates/variables.json",
                                        .language = SP_TEMPLATE_JINJA};

    template_cases_check(&what, 300);
}

TEST(shared_features)
{
    const struct template_cases what = {.lines = SHARED "/chat_templates/jinja_features.jsonl",
                                        .variables =
                                            SHARED "/chat_templates/jinja_features_ctx.json",
                                        .language = SP_TEMPLATE_JINJA};

    template_cases_check(&what, 0);
}

TEST(shared_templates)
{
    const struct template_cases what = {.lines = SHARED "/chat_templates/jinja_golden.jsonl",
                                        .folder = SHARED "/chat_templates",
                                        .suffix = ".jinja",
                                        .language = SP_TEMPLATE_JINJA};

    template_cases_check(&what, 0);
}

/* Compiles and renders without variables. `err` receives the message of the step that fails. */
static enum sp_status message_of(struct sp_err *err, const char *text, size_t memory, uint64_t work)
{
    const struct sp_template_time noon = {2025, 6, 15, 12, 0, 0};
    const struct sp_jinja_node *body;
    struct sp_heap tree, heap;
    struct sp_builder out = {.heap = &heap};
    enum sp_status st;

    memset(err, 0, sizeof *err);
    sp_heap_init(&tree, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, err);
    sp_heap_init(&heap, memory, work, err);
    body = sp_jinja_compile(&tree, text, strlen(text));
    st = tree.status;
    if (!st) st = sp_jinja_render(&out, body, sp_value_dict(&heap), noon);
    sp_heap_release(&heap);
    sp_heap_release(&tree);
    return st;
}

/* The errors name the line and the construct, and what no published template uses is refused by
 * its name. */
TEST(refusals)
{
    struct sp_err err;

    template_refusals_check(TESTDATA "/templates/jinja_refused.jsonl", message_of, 94);
    assert_int_equal(message_of(&err, "a\xff", 1 << 20, 1 << 20), SP_E_INPUT);
    assert_string_equal(err.text, "template:1: not valid UTF-8");
}

TEST(limits_hold)
{
    struct sp_err err;

    assert_int_equal(message_of(&err, "{{ 'x' * 100000000 }}", 1 << 20, 1 << 30), SP_E_INPUT);
    assert_string_equal(err.text, "template:1: template needs more than 1048576 bytes of memory");
    assert_int_equal(message_of(&err,
                                "{% for i in range(1000) %}{% for j in range(1000) %}"
                                "{% endfor %}{% endfor %}",
                                1 << 28, 100000),
                     SP_E_INPUT);
    assert_string_equal(err.text, "template:1: template does more than 100000 steps of work");
    assert_int_equal(
        message_of(&err, "{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}", 1 << 24, 1 << 24),
        SP_E_INPUT);
    assert_string_equal(err.text, "template:1: calls and expressions nested deeper than 600");
    assert_int_equal(message_of(&err,
                                "{% set n = namespace(x=[]) %}{% for i in range(1000) %}"
                                "{% set n.x = [n.x] %}{% endfor %}\n{{ n.x }}",
                                1 << 24, 1 << 24),
                     SP_E_INPUT);
    assert_string_equal(err.text, "template:2: values nested deeper than 128");
}

/* Each step reads many bytes or items, for which it must be charged; 2000 of them are too many. */
TEST(reading_is_charged)
{
    static const char *const steps[] = {
        "s.startswith(s)",
        "'a'.startswith(t)",
        "s.removeprefix(s)",
        "s.count('')",
        "d[s]",
        "s in d",
        "s[-65536]",
        "n|sum",
        "n|reject|list",
        "[d]|sort(attribute=s)",
    };
    struct sp_err err;
    char text[512];

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        snprintf(text, sizeof text,
                 "{%% set s = 'a' * 65536 %%}{%% set t = ('b',) * 65536 %%}{%% set n = range(1, "
                 "65536) %%}{%% set d = {s: 1, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8} "
                 "%%}{%% for i in range(2000) %%}{%% set x = %s %%}{%% endfor %%}",
                 steps[i]);
        assert_int_equal(message_of(&err, text, 1 << 26, 1 << 20), SP_E_INPUT);
        if (!strstr(err.text, "steps of work")) fail_msg("%s: \"%s\"", steps[i], err.text);
    }
}

TEST(deep_nesting_is_refused)
{
    static const struct {
        const char *part, *end;
    } parts[] = {
        {"{% if a %}", ""}, {"{{ (", ""}, {"[", "{{ "}, {"-", "{{ "}, {"{% for x in y %}", ""}};
    struct sp_err err;
    char *text = malloc(200000);

    assert_non_null(text);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char *at = text + sprintf(text, "%s", parts[i].end);
        for (int k = 0; k < 10000; k++)
            at += sprintf(at, "%s", parts[i].part);
        assert_int_equal(message_of(&err, text, 1 << 26, 1 << 30), SP_E_INPUT);
    }
    free(text);
}
