/* Tests Go templates against text/template, with the cases of testdata and those of ../shared if
 * they are available. */
#include "runtime/template/go/gotemplate.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

TEST(renders_like_go)
{
    const struct template_cases what = {.lines = TESTDATA "/templates/go.jsonl",
                                        .variables = TESTDATA "/templates/variables.json",
                                        .language = SP_TEMPLATE_GO};

    template_cases_check(&what, 200);
}

TEST(shared_features)
{
    const struct template_cases what = {.lines = SHARED "/chat_templates/go_features.jsonl",
                                        .variables = SHARED "/chat_templates/go_features_data.json",
                                        .language = SP_TEMPLATE_GO};

    template_cases_check(&what, 0);
}

TEST(shared_templates)
{
    const struct template_cases what = {.lines = SHARED "/chat_templates/go_golden.jsonl",
                                        .folder = SHARED "/chat_templates",
                                        .suffix = ".gotmpl",
                                        .language = SP_TEMPLATE_GO};

    template_cases_check(&what, 0);
}

static enum sp_status message_of(struct sp_err *err, const char *text, size_t memory, uint64_t work)
{
    const struct sp_template_time noon = {2025, 6, 15, 12, 0, 0};
    struct sp_gotemplate *t = NULL;
    struct sp_heap heap;
    struct sp_builder out = {.heap = &heap};
    struct sp_value data;
    enum sp_status st;

    memset(err, 0, sizeof *err);
    sp_heap_init(&heap, memory, work, err);
    st = sp_gotemplate_compile(&t, text, strlen(text), err);
    data = sp_value_dict(&heap);
    sp_dict_set_name(&heap, data.dict, "S", sp_value_name("text"));
    if (!st) st = sp_gotemplate_render(&out, t, data, SP_GOTEMPLATE_ALL, noon, err);
    sp_heap_release(&heap);
    sp_gotemplate_free(t);
    return st;
}

TEST(errors_name_line_and_construct)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a\n  {{ .S.Foo }}", "template:2:5: at <.S.Foo>: can't evaluate field Foo in type string"},
        {"{{ len 3 }}", "template:1:3: at <len>: error calling len: len of type int"},
        {"{{ nosuch }}", "template:1: function \"nosuch\" is not supported"},
        {"\n{{ $x }}", "template:2: undefined variable \"$x\""},
        {"{{ if .S }}", "template:1: unexpected EOF"},
        {"{{ .S", "template:1: unclosed action"},
        {"{{ end }}", "template:1: unexpected {{end}}"},
        {"{{ break }}", "template:1: {{break}} outside {{range}}"},
        {"{{ template \"q\" }}", "template:1:3: at <template \"q\">: template \"q\" not defined"},
        {"{{ eq .S 1 }}",
         "template:1:3: at <eq>: error calling eq: incompatible types for comparison"},
        {"\xff", "template:1: not valid UTF-8"},
    };
    struct sp_err err;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(message_of(&err, cases[i].text, 1 << 20, 1 << 20), SP_E_INPUT);
        assert_string_equal(err.text, cases[i].message);
    }
}

/* What no published template uses is refused by its name. */
TEST(rare_features_are_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{{ html .S }}", "template:1: function \"html\" is not supported"},
        {"{{ js .S }}", "template:1: function \"js\" is not supported"},
        {"{{ urlquery .S }}", "template:1: function \"urlquery\" is not supported"},
        {"{{ call .S }}", "template:1: function \"call\" is not supported"},
        {"{{ 0x1F }}", "template:1: bad number syntax: \"0\""},
        {"{{ 017 }}", "template:1: bad number syntax: \"017\""},
        {"{{ 1_000 }}", "template:1: bad number syntax: \"1\""},
        {"{{ 2i }}", "template:1: bad number syntax: \"2\""},
        {"{{ \"\\101\" }}", "template:1: invalid escape in a string"},
        {"{{ printf \"%x\" 5 }}", "template:1: printf: %x is not supported"},
        {"{{ printf \"%5.1e\" 2.5 }}", "template:1: printf: %5.1e is not supported"},
        {"{{ printf \"%+d\" 5 }}", "template:1: printf: %+ is not supported"},
        {"{{ printf \"%#q\" .S }}", "template:1: printf: %# is not supported"},
        {"{{ printf \"%[1]d\" 5 }}", "template:1: printf: %[ is not supported"},
        {"{{ printf \"%\" }}", "template:1: printf: % is not supported"},
        {"{{ printf \"%d\" .S }}", "template:1: printf: %d of string is not supported"},
        {"{{ printf \"%s\" nil }}", "template:1: printf: %s of nil is not supported"},
        {"{{ printf \"%.2s\" .S }}", "template:1: printf: %s of string is not supported"},
        {"{{ printf \"%s\" }}", "template:1: printf: no argument for %s"},
        {"{{ printf \"%d\" 1 2 }}", "template:1: printf: more arguments than verbs"},
        {"{{ printf \"%*d\" \"x\" 5 }}", "template:1: printf: * needs an integer"},
        {"{{ printf \"%1000001d\" 5 }}", "template:1: printf: a width beyond 1000000"},
    };
    struct sp_err err;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_not_equal(message_of(&err, cases[i].text, 1 << 20, 1 << 20), SP_OK);
        assert_string_equal(err.text, cases[i].message);
    }
}

TEST(limits_hold)
{
    struct sp_err err;

    assert_int_equal(message_of(&err, "{{ printf \"%1000000d\" 1 }}{{ printf \"%1000000d\" 1 }}",
                                1 << 20, 1 << 30),
                     SP_E_INPUT);
    assert_non_null(strstr(err.text, "needs more than 1048576 bytes of memory"));
    assert_int_equal(
        message_of(&err, "{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\" }}",
                   1 << 24, 1 << 24),
        SP_E_INPUT);
    assert_non_null(strstr(err.text, "nested deeper than 600"));
    assert_int_equal(message_of(&err,
                                "{{ $s := printf \"%100000d\" 1 }}{{ define \"a\" }}{{ if lt . . }}"
                                "{{ end }}{{ end }}{{ define \"b\" }}{{ template \"a\" . }}"
                                "{{ template \"a\" . }}{{ template \"a\" . }}{{ end }}"
                                "{{ template \"b\" $s }}{{ template \"b\" $s }}",
                                1 << 24, 20000),
                     SP_E_INPUT);
    assert_non_null(strstr(err.text, "more than 20000 steps of work"));
}

TEST(mentions_fields)
{
    static const struct {
        const char *text;
        bool messages, response;
    } cases[] = {
        {"{{ range .Messages }}{{ end }}", true, false},
        {"{{ if $.messages }}{{ end }}{{ .Response }}", true, true},
        {"{{ if .A }}{{ else if .B }}{{ .X.Response }}{{ end }}", false, true},
        {"{{ define \"x\" }}{{ .Messages }}{{ end }}", true, false},
        {"{{ .Prompt }}", false, false},
        {"Messages Response", false, false},
    };
    struct sp_gotemplate *t;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sp_gotemplate_compile(&t, cases[i].text, strlen(cases[i].text), NULL), 0);
        assert_int_equal(sp_gotemplate_mentions(t, "messages"), cases[i].messages);
        assert_int_equal(sp_gotemplate_mentions(t, "response"), cases[i].response);
        sp_gotemplate_free(t);
    }
}
