/* Tests grammars of whole responses. The independent values are calls and reasoning in the
 * published formats of models, renderings of their templates, and the chat parser: it parses every
 * text that a grammar allows as the requested calls and nothing else. */
#include "runtime/chat/chat_grammar.h"
#include "tests/support/chat_transcript.h"
#include "tests/support/golden.h"
#include "tests/support/grammar_checks.h"
#include "tests/support/keep.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

/* ---- chat formats, as the templates of these models define them ---- */

#define THINK "<think>", "</think>"

static const struct {
    const char *name;
    struct sp_chat_format format;
} formats[] = {
    {"hermes",
     {THINK,
      {.style = SP_TOOL_CALL_OBJECT,
       .open = "<tool_call>",
       .close = "</tool_call>",
       .name_key = "name",
       .arguments_key = "arguments"}}},
    {"llama",
     {"", "", {.style = SP_TOOL_CALL_OBJECT, .name_key = "name", .arguments_key = "parameters"}}},
    {"mistral",
     {"",
      "",
      {.style = SP_TOOL_CALL_OBJECT,
       .open = "[TOOL_CALLS]",
       .name_key = "name",
       .arguments_key = "arguments"}}},
    {"apertus",
     {"",
      "",
      {.style = SP_TOOL_CALL_OBJECT, .open = "<|tools_prefix|>", .close = "<|tools_suffix|>"}}},
    {"deepseek",
     {THINK,
      {.style = SP_TOOL_CALL_NAMED,
       .all_open = "<calls>",
       .all_close = "</calls>",
       .open = "<call>function<sep>",
       .close = "```</call>",
       .before_arguments = "```json"}}},
    {"kimi",
     {"",
      "",
      {.style = SP_TOOL_CALL_NAMED,
       .all_open = "<|section|>",
       .all_close = "<|/section|>",
       .open = "<|call|>functions.",
       .close = "<|end|>",
       .before_arguments = ":\x01<|argument|>"}}},
    {"coder",
     {"",
      "",
      {.style = SP_TOOL_CALL_TAGGED,
       .open = "<tool_call>\n<function=",
       .close = "</function>\n</tool_call>",
       .after_name = ">",
       .before_key = "<parameter=",
       .before_text = ">",
       .before_value = ">",
       .after_value = "</parameter>",
       .value_lead = "\n",
       .value_tail = "\n"}}},
    {"glm",
     {THINK,
      {.style = SP_TOOL_CALL_TAGGED,
       .open = "<tool_call>",
       .close = "</tool_call>",
       .before_key = "<arg_key>",
       .before_text = "</arg_key>\n<arg_value>",
       .before_value = "</arg_key>\n<arg_value>",
       .after_value = "</arg_value>"}}},
    {"gemma",
     {"",
      "",
      {.style = SP_TOOL_CALL_BARE,
       .open = "<|tool_call>call:",
       .close = "<tool_call|>",
       .quote = "<|\"|>"}}},
    {"lfm",
     {"",
      "",
      {.style = SP_TOOL_CALL_PYTHON, .open = "<|tool_call_start|>", .close = "<|tool_call_end|>"}}},
    {"silent", {THINK, {.style = SP_TOOL_CALL_UNKNOWN}}},
};

enum { N_FORMATS = sizeof formats / sizeof *formats, N_WITH_CALLS = N_FORMATS - 1 };

static const struct sp_chat_format *format_of(const char *name)
{
    size_t i = 0;

    while (i < N_FORMATS && strcmp(formats[i].name, name) != 0)
        i++;
    assert_true(i < N_FORMATS);
    return &formats[i].format;
}

/* ---- allowed and refused texts ---- */

static void close_grammar(void *grammar)
{
    sp_grammar_close(grammar);
}

/* Kept. */
static struct sp_grammar *make(const struct sp_chat_grammar_options *options)
{
    struct sp_grammar *g = NULL;

    assert_ok(sp_chat_grammar(&g, options, why));
    return keep_with(g, close_grammar);
}

/* The groups of grammars.jsonl that say of texts whether they are allowed. Their tools are
 * get_weather, whose city is required, and now, which has no parameters. Where there are no
 * schemas, content is unconstrained, but text that is parsed as a call must follow one. */
static const struct {
    const char *name;
    bool has_tools, has_content; /* content: yes or no */
    struct sp_chat_grammar_options options;
} groups[] = {
    {"calls_follow_schemas", true, false, {.must_call = true}},
    {"one_call_of_one_function",
     true,
     false,
     {.must_call = true, .one_call = true, .function = "now"}},
    {"content_or_calls", true, false, {.must_call = false}},
    {"reasoning_opened", false, true, {.thinking = SP_REASONING_OPEN}},
    {"reasoning_perhaps", false, true, {.thinking = SP_REASONING_OPTIONAL}},
    {"reasoning_never", false, true, {.thinking = SP_REASONING_NONE}},
    {"schema_or_calls", true, true, {.must_call = false}},
    {"schema_or_calls_opened", true, true, {.thinking = SP_REASONING_OPEN}},
};

TEST(samples)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/chat/grammars.jsonl");
    const struct sp_grammar *content = keep_gbnf("root ::= \"yes\" | \"no\"");
    size_t n = 0;

    for (; *line; line++) {
        const char *group = sp_json_get_text(*line, "group"),
                   *text = sp_json_get_text(*line, "text");
        bool allowed = false;
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            if (strcmp(groups[i].name, group) != 0) continue;
            struct sp_chat_grammar_options options = groups[i].options;
            options.format = format_of(sp_json_get_text(*line, "format"));
            if (groups[i].has_tools) options.tools = transcript_tools;
            if (groups[i].has_content) options.content = content;
            assert_true(sp_json_to_bool(sp_json_get(*line, "allowed"), &allowed));
            if (grammar_allows(make(&options), text) != allowed)
                fail_msg("%s, %s: %s", group, allowed ? "not allowed" : "allowed", text);
            n++;
        }
    }
    assert_int_equal(n, 66);
}

/* ---- allowed texts are parsed ---- */

/* Finds the ends of texts and strings, which a random walk would hardly produce. */
static size_t find_ends(const char *ends[8], const struct sp_chat_format *s)
{
    const char *const all[] = {"\"",          s->reasoning_close, s->calls.after_value,
                               s->calls.open, s->calls.all_open,  s->calls.quote};
    size_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (*all[i]) ends[n++] = all[i];
    return n;
}

/* Returns one of the *n allowed bytes, each with the same probability. */
static char random_byte(struct sp_grammar_matcher *a, uint32_t state, uint64_t *seed, unsigned *n)
{
    char bytes[256];

    *n = 0;
    for (unsigned byte = 0; byte < 0x7F; byte++) {
        uint32_t to = state;
        if (byte < ' ' && byte != '\n') continue;
        assert_ok(sp_grammar_matcher_step(a, &to, (uint8_t)byte, why));
        if (to != SP_STATE_DEAD) bytes[(*n)++] = (char)byte;
    }
    return *n ? bytes[next(seed) % *n] : '\0';
}

/* Writes a text that the grammar allows. Returns false if the text becomes too long. */
static bool write_text(char *text, size_t cap, struct sp_grammar_matcher *a,
                       const struct sp_chat_format *s, uint64_t *seed)
{
    const char *ends[8];
    size_t n_ends = find_ends(ends, s), len = 0;
    uint32_t state = SP_STATE_START;

    for (;;) {
        char one[2] = {0};
        const char *more = ends[next(seed) % n_ends];
        bool whole = sp_grammar_matcher_may_end(a, state);
        uint32_t to = state;
        unsigned n;
        one[0] = random_byte(a, state, seed, &n);
        if (n == 0 || (whole && next(seed) % 2)) {
            text[len] = '\0';
            return whole;
        }
        if (n > 40 && next(seed) % 4 == 0)
            assert_ok(sp_grammar_matcher_read(a, &to, more, strlen(more), why));
        else
            to = SP_STATE_DEAD;
        if (to == SP_STATE_DEAD) more = one;
        if (len + strlen(more) >= cap) return false;
        assert_ok(sp_grammar_matcher_read(a, &state, more, strlen(more), why));
        memcpy(text + len, more, strlen(more));
        len += strlen(more);
    }
}

/* Returns what is wrong with a call, or NULL. */
static const char *find_error(const char *name, const struct sp_json *arguments)
{
    static const struct {
        const char *key;
        unsigned kinds;
    } wanted[] = {
        {"city", 1u << SP_JSON_STRING},
        {"days", 1u << SP_JSON_INT},
        {"limit", 1u << SP_JSON_INT | 1u << SP_JSON_DOUBLE},
        {"detailed", 1u << SP_JSON_BOOL},
        {"where", 1u << SP_JSON_OBJECT},
        {"hours", 1u << SP_JSON_ARRAY},
        {"note", 1u << SP_JSON_STRING | 1u << SP_JSON_NULL},
    };
    size_t n_known = 0;

    if (strcmp(name, "now") == 0) return sp_json_len(arguments) ? "an argument" : NULL;
    if (strcmp(name, "get_weather") != 0) return "the name";
    if (!sp_json_has(arguments, "city")) return "no city";
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!sp_json_has(arguments, wanted[i].key)) continue;
        n_known++;
        if (!(wanted[i].kinds >> sp_json_kind(sp_json_get(arguments, wanted[i].key)) & 1))
            return wanted[i].key;
    }
    return n_known == sp_json_len(arguments) ? NULL : "an argument more";
}

struct reading {
    unsigned n_calls;
    bool content;
    const char *fault;
};

static void check_part(void *context, const struct sp_chat_part *part)
{
    struct reading *r = context;
    struct sp_json *arguments = NULL;

    if (part->kind == SP_CHAT_CONTENT) r->content = true;
    if (part->kind != SP_CHAT_TOOL_CALL) return;
    r->n_calls++;
    if (sp_json_parse(&arguments, part->text, part->size, SP_JSON_STRICT, NULL))
        r->fault = "no JSON";
    else if (r->fault == NULL)
        r->fault = find_error(part->name, arguments);
    sp_json_free(arguments);
}

static struct reading read_back(const struct sp_chat_grammar_options *options, const char *text)
{
    struct reading r = {0};
    const struct sp_chat_parser_options reading = {.format = options->format,
                                                   .tools = options->tools,
                                                   .in_reasoning =
                                                       options->thinking == SP_REASONING_OPEN,
                                                   .part = check_part,
                                                   .context = &r};
    struct sp_chat_parser *parser = NULL;

    assert_ok(sp_chat_parser_open(&parser, &reading, why));
    assert_ok(sp_chat_parser_feed(parser, text, strlen(text), false, why));
    assert_ok(sp_chat_parser_finish(parser, why));
    sp_chat_parser_close(parser);
    return r;
}

/* Returns how many random walks ended in a complete response. */
static unsigned check_texts(const struct sp_chat_grammar_options *options, unsigned n,
                            uint64_t seed)
{
    struct sp_grammar_matcher *a = keep_matcher(make(options));
    unsigned n_whole = 0;
    char text[4000];

    for (unsigned i = 0; i < n; i++) {
        struct reading r;
        if (!write_text(text, sizeof text, a, options->format, &seed)) continue;
        n_whole++;
        r = read_back(options, text);
        if (r.fault) fail_msg("%s: %s", r.fault, text);
        if (options->must_call && (r.n_calls == 0 || r.content)) fail_msg("no call: %s", text);
        if (options->one_call && r.n_calls > 1) fail_msg("%u calls: %s", r.n_calls, text);
    }
    return n_whole;
}

TEST(allowed_outputs_are_parsed)
{
    enum { N = 60 };

    for (size_t i = 0; i < N_WITH_CALLS; i++) {
        struct sp_chat_grammar_options options = {.format = &formats[i].format,
                                                  .tools = transcript_tools};
        for (unsigned k = 0; k < 4; k++) {
            options.must_call = k & 1;
            options.one_call = k & 2;
            options.thinking = SP_REASONING_NONE;
            assert_in_range(check_texts(&options, N, 7 + k), N / 3, N);
            if (!*formats[i].format.reasoning_close) continue;
            options.thinking = SP_REASONING_OPEN;
            assert_in_range(check_texts(&options, N, 17 + k), N / 3, N);
        }
    }
}

/* ---- partial calls ---- */

/* Writes "name(arguments)" for each call, with the closing bracket if the call is complete, and "!"
 * for content. */
static void note_parts(void *context, const struct sp_chat_part *part)
{
    struct sp_strbuf *text = context;

    if (part->kind == SP_CHAT_TOOL_CALL_START) {
        transcript_append(text, part->name, strlen(part->name));
        transcript_append(text, "(", 1);
    }
    if (part->kind == SP_CHAT_TOOL_CALL_ARGUMENTS) transcript_append(text, part->text, part->size);
    if (part->kind == SP_CHAT_TOOL_CALL) transcript_append(text, ")", 1);
    if (part->kind == SP_CHAT_CONTENT) transcript_append(text, "!", 1);
}

static char *read_parts(const struct sp_chat_format *format, const char *text, size_t size,
                        size_t step)
{
    struct sp_strbuf transcript = {0};
    const struct sp_chat_parser_options reading = {.format = format,
                                                   .tools = transcript_tools,
                                                   .constrained = true,
                                                   .part = note_parts,
                                                   .context = &transcript};
    struct sp_chat_parser *parser = NULL;

    assert_ok(sp_chat_parser_open(&parser, &reading, why));
    for (size_t i = 0; i < size; i += step) {
        size_t n = size - i < step ? size - i : step;
        assert_ok(sp_chat_parser_feed(parser, text + i, n, false, why));
    }
    assert_ok(sp_chat_parser_finish(parser, why));
    sp_chat_parser_close(parser);
    transcript_append(&transcript, "", 1);
    return keep(transcript.at);
}

/* However the text is cut, name and arguments are reported as they arrive, and nothing beyond them
 * if the response ends inside a call. */
TEST(calls_are_reported_as_they_arrive)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/chat/grammars.jsonl");
    static const char content[] = "a <",
                      fence[] = "```\n{\"name\": \"now\", \"arguments\": {}}\n```";
    size_t n = 0, size;

    for (; *line; line++) {
        if (strcmp(sp_json_get_text(*line, "group"), "parts") != 0) continue;
        const struct sp_chat_format *format = format_of(sp_json_get_text(*line, "format"));
        const char *text = sp_json_to_string(sp_json_get(*line, "text"), &size);
        for (size_t step = 1; step <= size; step++)
            assert_string_equal(read_parts(format, text, size, step),
                                sp_json_get_text(*line, "read"));
        n++;
    }
    assert_int_equal(n, 17);
    assert_string_equal(read_parts(format_of("coder"), content, 3, 3), "!!");
    /* No call that a grammar constrains stands in a fence. */
    assert_null(strchr(read_parts(format_of("hermes"), fence, sizeof fence - 1, 1), ')'));
}

/* ---- relaxed schemas ---- */

#define TOOL(more, properties)                                                                     \
    "{\"name\": \"f\"" more ", \"parameters\": {\"properties\": {" properties "}}}"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* A list of one function; kept. */
static const struct sp_json *tools_of(const char *function)
{
    const char *text = keep_format("[{\"type\": \"function\", \"function\": %s}]", function);

    return keep_parsed(text, strlen(text), SP_JSON_STRICT);
}

/* The schema of a tool that is not strict keeps what can be enforced. */
TEST(schemas_are_relaxed)
{
    static const struct {
        const char *format, *tool, *changes, *allowed, *forbidden;
    } cases[] = {
        {"hermes",
         TOOL("", "\"a\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}, "
                  "\"uniqueItems\": true}, \"b\": {\"pattern\": \"^(?=a)\"}"),
         "x, schema of f relaxed: #/properties/a/uniqueItems",
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 1], \"b\": \"c\"}}</tool_call>",
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [\"1\"]}}</tool_call>"},
        /* The largest part of the schema is too large. */
        {"hermes", TOOL("", "\"a\": {\"pattern\": \"^(a|b)*a(a|b){14}$\", \"maxLength\": 9999}"),
         "x, schema of f relaxed: #/properties/a/pattern",
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"b\": 1}}</tool_call>",
         "<tool_call>{\"name\": \"g\", \"arguments\": {\"b\": 1}}</tool_call>"},
        {"coder",
         TOOL("", "\"a\": {\"type\": \"string\", \"maxLength\": 1}, \"b>\": {}, \"c\": {\"type\": "
                  "\"integer\"}"),
         "x, schema of f relaxed: #/properties/b>",
         "<tool_call>\n<function=f>\n<parameter=a>\nbc\n</parameter>\n<parameter=c>\n3\n</"
         "parameter>\n</function>\n</tool_call>",
         "<tool_call>\n<function=f>\n<parameter=c>\nx\n</parameter>\n</function>\n</tool_call>"},
        {"hermes", TOOL(", \"strict\": true", "\"a\": {\"uniqueItems\": true}"), NULL, NULL, NULL},
        {"hermes", TOOL("", "\"" A64 A64 A64 A64 A64 "\": {\"uniqueItems\": true}"),
         "x, schema of f relaxed: #/properties/" A64 "aaaaaaaaaaaaaaaaaaaaaaa",
         "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char changes[320] = "x";
        struct sp_chat_grammar_options options = {.format = format_of(cases[i].format),
                                                  .must_call = true,
                                                  .changes = changes,
                                                  .changes_size = sizeof changes};
        struct sp_grammar *g = NULL;
        options.tools = tools_of(cases[i].tool);
        if (cases[i].changes == NULL) {
            assert_int_equal(sp_chat_grammar(&g, &options, NULL), SP_E_UNSUPPORTED);
            continue;
        }
        g = make(&options);
        assert_string_equal(changes, cases[i].changes);
        assert_true(grammar_allows(g, cases[i].allowed));
        assert_false(grammar_allows(g, cases[i].forbidden));
    }
}

/* ---- refusals ---- */

TEST(unsupported_constraints_are_refused)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/chat/grammars.jsonl");
    size_t n = 0;

    for (; *line; line++) {
        int64_t status;
        if (!sp_json_to_i64(sp_json_get(*line, "status"), &status)) continue;
        const struct sp_chat_grammar_options options = {
            .format = format_of(sp_json_get_text(*line, "format")),
            .must_call = true,
            .tools = tools_of(keep_printed(sp_json_get(*line, "tool")))};
        struct sp_grammar *g = NULL;
        assert_fails_as(sp_chat_grammar(&g, &options, why), status,
                        sp_json_get_text(*line, "sentence"));
        n++;
    }
    assert_int_equal(n, 11);
}

GROUP_FIXTURE(transcript_setup, transcript_teardown);
