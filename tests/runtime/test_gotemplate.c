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
    const struct sp_gotemplate *t;
    struct sp_heap tree, heap;
    struct sp_builder out = {.heap = &heap};
    struct sp_value data;
    enum sp_status st;

    memset(err, 0, sizeof *err);
    sp_heap_init(&tree, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, err);
    sp_heap_init(&heap, memory, work, err);
    t = sp_gotemplate_compile(&tree, text, strlen(text));
    st = tree.status;
    data = sp_value_dict(&heap);
    sp_dict_set_name(&heap, data.dict, "S", sp_value_name("text"));
    if (!st) st = sp_gotemplate_render(&out, t, data, SP_GOTEMPLATE_ALL, noon);
    sp_heap_release(&heap);
    sp_heap_release(&tree);
    return st;
}

/* The errors name the line and the construct, and what no published template uses is refused by
 * its name. */
TEST(refusals)
{
    struct sp_err err;

    template_refusals_check(TESTDATA "/templates/go_refused.jsonl", message_of, 32);
    assert_int_equal(message_of(&err, "\xff", 1 << 20, 1 << 20), SP_E_INPUT);
    assert_string_equal(err.text, "template:1: not valid UTF-8");
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
    const struct sp_gotemplate *t;
    struct sp_heap tree;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sp_heap_init(&tree, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, NULL);
        t = sp_gotemplate_compile(&tree, cases[i].text, strlen(cases[i].text));
        assert_int_equal(tree.status, SP_OK);
        assert_int_equal(sp_gotemplate_mentions(t, "messages"), cases[i].messages);
        assert_int_equal(sp_gotemplate_mentions(t, "response"), cases[i].response);
        sp_heap_release(&tree);
    }
}
