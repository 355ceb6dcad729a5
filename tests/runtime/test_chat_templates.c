/* Tests published templates: the format of tool calls is learned from each, and its renderings are
 * parsed back. */
#include "format/base/file.h"
#include "format/json/json.h"
#include "runtime/chat/chat_grammar.h"
#include "runtime/chat/tool_call.h"
#include "runtime/grammar/grammar_matcher.h"
#include "tests/support/chat_transcript.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

#define FOLDER SHARED "/chat_templates"

/* Messages with two calls and with one, with arguments of all types, in the format of the APIs. */
static const char arguments[] = "{\"city\": \"Par\\\"is\\\" \\u00e9 <b> \\\\ x\\ny\", \"days\": 3, "
                                "\"limit\": -1.5, \"detailed\": true, \"where\": {\"k\": \"v\", "
                                "\"l\": [1, {\"m\": false}]}, \"hours\": [\"a\", 2, null]}";

static char *print_escaped(const char *text)
{
    struct sp_json_out out = {0};

    sp_tool_value_string(&out, text, strlen(text));
    sp_json_out_bytes(&out, "", 1);
    return keep(out.text.at);
}

static char *render(const struct sp_template *t, const struct sp_chat_format *s, unsigned n_calls)
{
    struct sp_template_input in = {.tools = transcript_tools,
                                   .generation_prompt = n_calls == 0,
                                   .now = {2025, 6, 15, 12, 0, 0}};
    char *escaped = print_escaped(arguments), *text = NULL, json[4096];
    struct sp_json *messages = NULL;
    int n = snprintf(json, sizeof json, "[{\"role\": \"user\", \"content\": \"Go.\"}");
    size_t size;

    if (n_calls > 0) {
        n += snprintf(json + n, sizeof json - (size_t)n,
                      ", {\"role\": \"assistant\", \"content\": %s, \"tool_calls\": ["
                      "{\"id\": \"abcdefghi\", \"type\": \"function\", \"function\": {\"name\": "
                      "\"get_weather\", \"arguments\": %s}}%s%s%s]}",
                      s->calls.null_content ? "null" : "\"\"",
                      s->calls.text_arguments ? escaped : arguments,
                      n_calls < 2 ? ""
                                  : ", {\"id\": \"bcdefghij\", \"type\": \"function\", "
                                    "\"function\": {\"name\": \"now\", \"arguments\": ",
                      n_calls < 2               ? ""
                      : s->calls.text_arguments ? "\"{}\""
                                                : "{}",
                      n_calls < 2 ? "" : "}}");
    }
    snprintf(json + n, sizeof json - (size_t)n, "]");
    messages = keep_parsed(json, strlen(json), SP_JSON_STRICT);
    in.messages = messages;
    if (sp_template_render(&text, &size, t, &in, NULL)) text = NULL;
    return keep(text);
}

/* The calls that were parsed. */
struct calls {
    unsigned n, n_right;
    const struct sp_json *wanted;
};

static void count_call(void *context, const struct sp_chat_part *part)
{
    struct calls *c = context;
    struct sp_json *got = NULL;
    bool equal = false;

    if (part->kind != SP_CHAT_TOOL_CALL) return;
    got = keep_parsed(part->text, part->size, SP_JSON_STRICT);
    assert_ok(sp_json_equal(&equal, got, c->wanted, NULL));
    if (c->n == 0)
        c->n_right += strcmp(part->name, "get_weather") == 0 && equal;
    else
        c->n_right += strcmp(part->name, "now") == 0 && sp_json_len(got) == 0;
    c->n++;
}

static struct calls read_calls(const struct answer *a, size_t cut)
{
    struct calls calls = {0, 0, NULL};
    const struct sp_chat_parser_options reading = {.format = a->format,
                                                   .tools = transcript_tools,
                                                   .in_reasoning = a->in_reasoning,
                                                   .part = count_call,
                                                   .context = &calls};
    struct sp_chat_parser *parser = NULL;
    struct sp_json *wanted = keep_parsed(arguments, strlen(arguments), SP_JSON_STRICT);

    calls.wanted = wanted;
    assert_ok(sp_chat_parser_open(&parser, &reading, NULL));
    transcript_feed(parser, a, 0, cut);
    transcript_feed(parser, a, cut, a->size);
    assert_ok(sp_chat_parser_finish(parser, NULL));
    sp_chat_parser_close(parser);
    return calls;
}

/* Checks that the rendering of the template is allowed by the grammar of answers constrained to
 * calls: the longest prefix of the rendering that the grammar allows contains all calls. */
static void check_grammar(const char *path, const struct answer *a, unsigned n_calls)
{
    const struct sp_chat_grammar_options options = {
        .format = a->format,
        .tools = transcript_tools,
        .must_call = true,
        .thinking =
            a->in_reasoning ? SP_REASONING_OPEN : sp_reasoning_mode_of(a->format, "", 0, true),
    };
    struct answer longest = *a;
    struct sp_grammar *g = NULL;
    struct sp_grammar_matcher *matcher = NULL;
    uint32_t state = SP_STATE_START;
    struct sp_err err = {0};
    struct calls calls;

    /* Formats that cannot be constrained are skipped, as are templates that write values in a
     * notation other than JSON, or ids, which are not learned. Go templates sort arguments. */
    if (a->format->calls.style == SP_TOOL_CALL_HARMONY ||
        a->format->calls.style == SP_TOOL_CALL_BARE || strstr(path, "qwen3-coder.jinja") ||
        strstr(path, "mistral_nemo.jinja") || strstr(path, "/go/"))
        return;
    if (sp_chat_grammar(&g, &options, &err)) fail_msg("%s: %s", path, err.text);
    assert_ok(sp_grammar_matcher_open(&matcher, g, NULL));
    longest.size = 0;
    for (size_t i = 0; i < a->size && state != SP_STATE_DEAD; i++) {
        assert_ok(sp_grammar_matcher_read(matcher, &state, a->text + i, 1, NULL));
        if (state != SP_STATE_DEAD && sp_grammar_matcher_may_end(matcher, state))
            longest.size = i + 1;
    }
    calls = read_calls(&longest, longest.size);
    if (calls.n != n_calls || calls.n_right != n_calls)
        fail_msg("%s: %u of %u calls are allowed: %s", path, calls.n_right, n_calls, a->text);
    sp_grammar_matcher_close(matcher);
    sp_grammar_close(g);
}

/* Checks that the rendering is parsed back, wherever it is cut. */
static void round_trip(const char *path, const struct sp_template *t,
                       const struct sp_chat_format *s, unsigned n_calls)
{
    char *prompt = render(t, s, 0), *text = render(t, s, n_calls);
    size_t same = 0;

    if (text == NULL && n_calls == 2) { /* the template renders one call at a time */
        round_trip(path, t, s, 1);
        return;
    }
    if (prompt == NULL || text == NULL) fail_msg("%s does not render", path);
    while (prompt[same] && prompt[same] == text[same])
        same++;
    if (prompt[same])
        while (same > 0 && text[same] != '<')
            same--;
    const struct answer a = {s, false, sp_chat_format_opens_reasoning(s, text, same), text + same,
                             strlen(text + same)};
    check_grammar(path, &a, n_calls);
    for (size_t cut = 0; cut <= a.size; cut++) {
        struct calls calls = read_calls(&a, cut);
        if (calls.n != n_calls || calls.n_right != n_calls) {
            fail_msg("%s: %u of %u calls, cut at %zu: %s", path, calls.n_right, n_calls, cut,
                     a.text);
        }
    }
}

static bool check_template(const char *path)
{
    static const char tokens[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";
    const struct sp_text text = whole_text(tokens);
    size_t size;
    struct sp_template *t = keep_template(
        scratch_read(path, &size), strstr(path, "/go/") ? SP_TEMPLATE_GO : SP_TEMPLATE_JINJA);
    struct sp_chat_format format;
    bool known;

    assert_ok(sp_template_read_tokens(t, &text, NULL));
    assert_ok(sp_chat_format_learn(&format, t, NULL, NULL));
    known = format.calls.style != SP_TOOL_CALL_UNKNOWN;
    /* A known format that the template's text names, although no rendering shows it. */
    if (known && strstr(path, "granite3_3.jinja") == NULL)
        round_trip(path, t, &format, format.calls.style == SP_TOOL_CALL_HARMONY ? 1 : 2);
    return known;
}

/* The expected numbers of templates with calls were counted by hand. */
TEST(published_templates)
{
    static const struct {
        const char *folder;
        unsigned n;
    } folders[] = {{FOLDER "/jinja", 11}, {FOLDER "/jinja_snapshot", 8}, {FOLDER "/go", 13}};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        unsigned n = 0;
        if (!golden_exists(folders[i].folder)) skip();
        for (const char *const *name = folder_names(folders[i].folder); *name; name++)
            n += check_template(keep_format("%s/%s", folders[i].folder, *name));
        assert_int_equal(n, folders[i].n);
    }
}

/* Learning ends at the first probe that exceeds a limit of work or memory. */
TEST(exhausting_templates)
{
    static const char *const texts[] = {
        "{{ 'a' * 10000000000 }}",
        "{% for i in range(100000) %}{{ messages|tojson|tojson|tojson }}{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct sp_template *t = keep_template(texts[i], SP_TEMPLATE_JINJA);
        struct sp_chat_format format;
        assert_int_equal(sp_chat_format_learn(&format, t, NULL, NULL), SP_E_CHECK);
    }
}

GROUP_FIXTURE(transcript_setup, transcript_teardown);
