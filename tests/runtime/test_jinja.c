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
    struct sp_jinja *jinja = NULL;
    struct sp_heap heap;
    struct sp_builder out = {.heap = &heap};
    enum sp_status st;

    memset(err, 0, sizeof *err);
    sp_heap_init(&heap, memory, work, err);
    st = sp_jinja_compile(&jinja, text, strlen(text), err);
    if (!st) st = sp_jinja_render(&out, jinja, sp_value_dict(&heap), noon, err);
    sp_heap_release(&heap);
    sp_jinja_free(jinja);
    return st;
}

TEST(errors_name_line_and_construct)
{
    static const struct {
        const char *text, *message;
        enum sp_status status;
    } cases[] = {
        {"a\nb{{ x.y }}", "template:2: 'x' is undefined", SP_E_INPUT},
        {"\n\n{% foo %}", "template:3: unknown statement {% foo %}", SP_E_INPUT},
        {"{% include 'x' %}", "template:1: {% include %} is not supported", SP_E_UNSUPPORTED},
        {"{{ 1|nope }}", "template:1: filter nope is not supported", SP_E_UNSUPPORTED},
        {"{{ 1 is nope }}", "template:1: test nope is not supported", SP_E_UNSUPPORTED},
        {"{% if true %}{{ 1|nope }}{% endif %}", "template:1: filter nope is not supported",
         SP_E_UNSUPPORTED},
        {"{% if true %}\n", "template:1: {% if %} is not closed", SP_E_INPUT},
        {"{% for x in [] %}{% endif %}",
         "template:1: unexpected {% endif %}, {% for %} of line 1 is open", SP_E_INPUT},
        {"\n{{ 'a }}", "template:2: a string without its closing '", SP_E_INPUT},
        {"{{ a b }}", "template:1: unexpected b, expected }}", SP_E_INPUT},
        {"{{ raise_exception('no way') }}", "template:1: no way", SP_E_INPUT},
        {"{{ [].append(1) }}", "template:1: list.append() is not supported in templates",
         SP_E_UNSUPPORTED},
        {"{{ 'a'|indent(wide=2) }}",
         "template:1: indent() got an unexpected keyword argument, it takes (width= first= blank=)",
         SP_E_INPUT},
        {"a\xff", "template:1: not valid UTF-8", SP_E_INPUT},
        {"{{ 2 ** 64 }}", "template:1: the result of ** does not fit 64 bits", SP_E_UNSUPPORTED},
        {"{{ (-9223372036854775807 - 1) // -1 }}",
         "template:1: the result of // does not fit 64 bits", SP_E_UNSUPPORTED},
        {"{{ -9223372036854775808 }}", "template:1: the result of - does not fit 64 bits",
         SP_E_UNSUPPORTED},
        {"{{ 18446744073709551615 + 1 }}", "template:1: + of integers beyond 64 bits",
         SP_E_UNSUPPORTED},
        {"{{ 18446744073709551616 }}", "template:1: 18446744073709551616 exceeds 64 bits",
         SP_E_UNSUPPORTED},
        {"{{ ([)] }}", "template:1: unexpected ), expected an expression", SP_E_INPUT},
    };
    struct sp_err err;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum sp_status st = message_of(&err, cases[i].text, 1 << 20, 1 << 20);
        assert_string_equal(err.text, cases[i].message);
        assert_int_equal(st, cases[i].status);
    }
}

static void is_refused(const char *text, const char *message)
{
    struct sp_err err;

    assert_int_not_equal(message_of(&err, text, 1 << 20, 1 << 20), SP_OK);
    assert_string_equal(err.text, message);
}

/* What no published template uses is refused by its name. */
TEST(rare_features_are_refused)
{
    static const char *const filters[] = {"attr",   "center",    "filesizeformat", "forceescape",
                                          "format", "groupby",   "pprint",         "random",
                                          "slice",  "striptags", "truncate",       "urlencode",
                                          "urlize", "wordcount", "wordwrap",       "xmlattr"};
    static const char *const tests[] = {"escaped", "filter", "test"};
    static const char *const functions[] = {"cycler", "lipsum"};
    static const struct {
        const char *value, *type, *names; /* names separated by spaces */
    } methods[] = {
        {"'a'", "str",
         "casefold center encode expandtabs format_map isascii isdecimal isidentifier isnumeric "
         "isprintable istitle ljust maketrans rindex rjust swapcase translate zfill "},
        {"{}", "dict", "clear copy fromkeys pop popitem setdefault update "},
        {"[]", "list", "append clear copy count extend index insert pop remove reverse sort "},
    };
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{{ [1]|map('groupby')|list }}", "template:1: filter groupby is not supported"},
        {"{{ [1]|select('escaped')|list }}", "template:1: test escaped is not supported"},
        {"{{ 'a %s' % 1 }}", "template:1: the operator % of strings is not supported"},
        {"{{ '{:>5}'.format(1) }}",
         "template:1: format: no argument for field {:>5}, which may be {}, {0} or {name}"},
        {"{{ '{'.format(1) }}", "template:1: format: a single '{'"},
        {"{{ 'a'.find('a', 1) }}", "template:1: find() takes at most 1 arguments, not 2"},
        {"{{ '1'|int(base=2) }}",
         "template:1: int() got an unexpected keyword argument, it takes (default=)"},
        {"{{ 15|round(-1) }}", "template:1: round: a precision outside 0 to 300"},
        {"{{ [{}]|sort(attribute='a,b') }}", "template:1: sort by several attributes"},
        {"{% for x in [1] recursive %}{{ loop([]) }}{% endfor %}",
         "template:1: the call of loop is not supported"},
        {"{% for x in [1] %}{{ loop.changed(x) }}{% endfor %}",
         "template:1: loop method changed is not supported"},
        {"{{ {(1, 2): 3} }}", "template:1: a list or dictionary cannot be a key"},
        {"{{ '\\101' }}", "template:1: \\1 in a string is not supported"},
        {"{{ '\\N{DASH}' }}", "template:1: \\N in a string is not supported"},
        {"{{ 0x1f }}", "template:1: unexpected x1f, expected }}"},
        {"{{ strftime_now('%k') }}", "template:1: strftime_now: conversion %k"},
        {"{{ strftime_now('%s') }}", "template:1: strftime_now: conversion %s"},
        {"{{ strftime_now('%Ey') }}", "template:1: strftime_now: conversion %E"},
    };
    char text[200], message[200];

    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        snprintf(text, sizeof text, "{{ 'a'|%s }}", filters[i]);
        snprintf(message, sizeof message, "template:1: filter %s is not supported", filters[i]);
        is_refused(text, message);
    }
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        snprintf(text, sizeof text, "{{ 'a' is %s }}", tests[i]);
        snprintf(message, sizeof message, "template:1: test %s is not supported", tests[i]);
        is_refused(text, message);
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        snprintf(text, sizeof text, "{{ %s() }}", functions[i]);
        snprintf(message, sizeof message, "template:1: function %s is not supported", functions[i]);
        is_refused(text, message);
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        for (const char *at = methods[i].names, *end; *at; at = end + 1) {
            end = strchr(at, ' ');
            snprintf(text, sizeof text, "{{ %s.%.*s() }}", methods[i].value, (int)(end - at), at);
            snprintf(message, sizeof message, "template:1: %s.%.*s() is not supported in templates",
                     methods[i].type, (int)(end - at), at);
            is_refused(text, message);
        }
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_refused(cases[i].text, cases[i].message);
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
