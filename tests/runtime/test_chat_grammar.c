/* Tests grammars of whole responses. The independent values are calls and reasoning in the
 * published formats of models, renderings of their templates, and the chat parser: it parses every
 * text that a grammar allows as the requested calls and nothing else. */
#include "runtime/grammar/grammar_matcher.h"
#include "runtime/chat/chat_grammar.h"
#include "tests/support/chat_transcript.h"
#include "tests/support/keep.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

/* ---- chat formats, as the templates of these models define them -------------------------------
 */

#define THINK "<think>", "</think>"

static const struct sp_chat_format hermes = {THINK,
                                             {.style = SP_TOOL_CALL_OBJECT,
                                              .open = "<tool_call>",
                                              .close = "</tool_call>",
                                              .name_key = "name",
                                              .arguments_key = "arguments"}},
                                   llama = {"",
                                            "",
                                            {.style = SP_TOOL_CALL_OBJECT,
                                             .name_key = "name",
                                             .arguments_key = "parameters"}},
                                   mistral = {"",
                                              "",
                                              {.style = SP_TOOL_CALL_OBJECT,
                                               .open = "[TOOL_CALLS]",
                                               .name_key = "name",
                                               .arguments_key = "arguments"}},
                                   apertus = {"",
                                              "",
                                              {.style = SP_TOOL_CALL_OBJECT,
                                               .open = "<|tools_prefix|>",
                                               .close = "<|tools_suffix|>"}},
                                   deepseek = {THINK,
                                               {.style = SP_TOOL_CALL_NAMED,
                                                .all_open = "<calls>",
                                                .all_close = "</calls>",
                                                .open = "<call>function<sep>",
                                                .close = "```</call>",
                                                .before_arguments = "```json"}},
                                   kimi = {"",
                                           "",
                                           {.style = SP_TOOL_CALL_NAMED,
                                            .all_open = "<|section|>",
                                            .all_close = "<|/section|>",
                                            .open = "<|call|>functions.",
                                            .close = "<|end|>",
                                            .before_arguments = ":\x01<|argument|>"}},
                                   coder = {"",
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
                                             .value_tail = "\n"}},
                                   glm = {THINK,
                                          {.style = SP_TOOL_CALL_TAGGED,
                                           .open = "<tool_call>",
                                           .close = "</tool_call>",
                                           .before_key = "<arg_key>",
                                           .before_text = "</arg_key>\n<arg_value>",
                                           .before_value = "</arg_key>\n<arg_value>",
                                           .after_value = "</arg_value>"}},
                                   gemma = {"",
                                            "",
                                            {.style = SP_TOOL_CALL_BARE,
                                             .open = "<|tool_call>call:",
                                             .close = "<tool_call|>",
                                             .quote = "<|\"|>"}},
                                   lfm = {"",
                                          "",
                                          {.style = SP_TOOL_CALL_PYTHON,
                                           .open = "<|tool_call_start|>",
                                           .close = "<|tool_call_end|>"}},
                                   silent = {THINK, {.style = SP_TOOL_CALL_UNKNOWN}};

static const struct sp_chat_format *const formats_with_calls[] = {
    &hermes, &llama, &mistral, &apertus, &deepseek, &kimi, &coder, &glm, &gemma, &lfm};
enum { N_FORMATS = sizeof formats_with_calls / sizeof *formats_with_calls };

/* ---- allowed and refused texts --------------------------------------------------------------- */

static struct sp_grammar *make(const struct sp_chat_grammar_options *options)
{
    struct sp_grammar *g = NULL;
    struct sp_err err = {0};

    if (sp_chat_grammar(&g, options, &err)) fail_msg("%s", err.text);
    return g;
}

/* Returns whether the whole text may be a response. */
static bool allows(const struct sp_grammar *g, const char *text)
{
    struct sp_grammar_matcher *a = NULL;
    uint32_t state = SP_STATE_START;
    bool whole;

    assert_int_equal(sp_grammar_matcher_open(&a, g, NULL), SP_OK);
    assert_int_equal(sp_grammar_matcher_read(a, &state, text, strlen(text), NULL), SP_OK);
    whole = state != SP_STATE_DEAD && sp_grammar_matcher_may_end(a, state);
    sp_grammar_matcher_close(a);
    return whole;
}

struct sample {
    const struct sp_chat_format *format;
    bool allowed;
    const char *text;
};

static void check_samples(const struct sample *samples, size_t n,
                          struct sp_chat_grammar_options options)
{
    for (size_t i = 0; i < n; i++) {
        struct sp_grammar *g;
        options.format = samples[i].format;
        g = make(&options);
        if (allows(g, samples[i].text) != samples[i].allowed)
            fail_msg("%s: %s", samples[i].allowed ? "not allowed" : "allowed", samples[i].text);
        sp_grammar_close(g);
    }
}

/* Calls of get_weather, whose city is required, and of now, which has no parameters. */
TEST(calls_follow_schemas)
{
    static const struct sample samples[] = {
        {&hermes, true,
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
         "</tool_call>"},
        {&hermes, true,
         "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
         "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\\\"\", \"days\": 3}}\n"
         "</tool_call>"},
        {&hermes, false, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n"},
        {&hermes, false,
         "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": 3}}</tool_call>"},
        {&hermes, false,
         "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"P\", \"days\": \"3\"}}"
         "</tool_call>"},
        {&hermes, false, "<tool_call>{\"name\": \"then\", \"arguments\": {}}</tool_call>"},
        {&hermes, false, "<tool_call>{\"name\": \"now\", \"arguments\": {}}"},
        {&hermes, false, "Well. <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"},
        {&hermes, false, ""},
        {&llama, true, "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}"},
        {&llama, false, "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}"},
        {&mistral, true,
         "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"get_weather\", "
         "\"arguments\": {\"city\": \"Paris\", \"hours\": [1, null]}}]"},
        {&apertus, true, "<|tools_prefix|>[{\"get_weather\": {\"city\": \"P\"}}]<|tools_suffix|>"},
        {&apertus, false, "<|tools_prefix|>[{\"get_weather\": {\"town\": \"P\"}}]<|tools_suffix|>"},
        {&deepseek, true,
         "<calls><call>function<sep>get_weather\n```json\n{\"city\": \"Paris\"}\n```</call>\n"
         "<call>function<sep>now\n```json\n{}\n```</call></calls>"},
        {&deepseek, false, "<calls><call>function<sep>now\n```json\n{}\n```</call>"},
        {&kimi, true,
         "<|section|><|call|>functions.get_weather:0<|argument|>{\"city\": \"P\"}<|end|>"
         "<|call|>functions.now:1<|argument|>{}<|end|><|/section|>"},
        {&coder, true,
         "<tool_call>\n<function=get_weather>\n<parameter=city>\nSan\n<b>Jos\xc3\xa9</b>\n</"
         "parameter>\n"
         "<parameter=days>\n3\n</parameter>\n<parameter=where>\n{\"k\": [1]}\n</parameter>\n"
         "</function>\n</tool_call>"},
        {&coder, true, "<tool_call>\n<function=now>\n</function>\n</tool_call>"},
        {&coder, false,
         "<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>\n"
         "</tool_call>"},
        {&coder, false,
         "<tool_call>\n<function=get_weather>\n<parameter=city>\nP\n</parameter>\n"
         "<parameter=days>\nthree\n</parameter>\n</function>\n</tool_call>"},
        {&glm, true,
         "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</arg_value>\n"
         "<arg_key>detailed</arg_key>\n<arg_value>true</arg_value>\n</tool_call>"},
        {&glm, false,
         "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</arg_value>\n"
         "<arg_key>detailed</arg_key>\n<arg_value>yes</arg_value>\n</tool_call>"},
        {&gemma, true,
         "<|tool_call>call:get_weather{city:<|\"|>San \"J\"<|\"|>,limit:1.5}<tool_call|>"},
        {&gemma, false, "<|tool_call>call:get_weather{city:Paris}<tool_call|>"},
        {&lfm, true, "<|tool_call_start|>[get_weather(city=\"Paris\", days=2)]<|tool_call_end|>"},
        {&lfm, true, "<|tool_call_start|>[now(), now()]<|tool_call_end|>"},
        {&lfm, false, "<|tool_call_start|>[get_weather(days=2)]<|tool_call_end|>"},
    };
    const struct sp_chat_grammar_options options = {.tools = transcript_tools, .must_call = true};

    check_samples(samples, sizeof samples / sizeof *samples, options);
}

TEST(one_call_of_one_function)
{
    static const struct sample samples[] = {
        {&hermes, true, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
        {&hermes, false,
         "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
         "{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
        {&hermes, false,
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"P\"}}\n"
         "</tool_call>"},
        {&mistral, true, "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]"},
        {&mistral, false,
         "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", \"arguments\": "
         "{}}]"},
        {&lfm, false, "<|tool_call_start|>[now(), now()]<|tool_call_end|>"},
    };
    const struct sp_chat_grammar_options options = {
        .tools = transcript_tools, .must_call = true, .one_call = true, .function = "now"};

    check_samples(samples, sizeof samples / sizeof *samples, options);
}

/* Content is unconstrained. Text that is parsed as a call must follow a schema. */
TEST(content_or_calls)
{
    static const struct sample samples[] = {
        {&hermes, true, ""},
        {&hermes, true, "It is < 3 </tool_call> degrees {\"a\": 1}."},
        {&hermes, true,
         " I look.\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
        {&hermes, true, "{\"name\": \"now\", \"arguments\": {}}"},
        {&hermes, false, "{\"name\": \"now\", \"arguments\": {\"a\": 1}}"},
        {&hermes, false, "I look. <tool_call>"},
        {&hermes, false, "<<tool_call>\n{\"name\": \"then\", \"arguments\": {}}\n</tool_call>"},
        {&llama, true, "No call."},
        {&llama, true, "{\"name\": \"now\", \"parameters\": {}}"},
        {&llama, false, "{\"name\": \"then\", \"parameters\": {}}"},
        {&deepseek, true, "Now:<calls><call>function<sep>now\n```json\n{}\n```</call></calls>"},
        {&deepseek, false, "Now:<calls>"},
        {&deepseek, false, "Now:<call>function<sep>then\n```json\n{}\n```</call></calls>"},
        {&coder, true, "{1}"},
        {&coder, true, "The mark <tool_call> is spoken of."},
        {&coder, false, "The mark <tool_call> \n<function= is not."},
    };
    const struct sp_chat_grammar_options options = {.tools = transcript_tools};

    check_samples(samples, sizeof samples / sizeof *samples, options);
}

TEST(schemas_follow_reasoning)
{
    static const char gbnf[] = "root ::= \"yes\" | \"no\"";
    static const struct sample opened[] =
        {
            {&silent, true, "Is it? {\"a\n</think>\n\nyes"},
            {&silent, true, "</think>no"},
            {&silent, false, "Is it? yes"},
            {&silent, false, "Is it?</think>maybe"},
            {&silent, false, "Is it?</think>"},
            {&silent, false, "yes"},
        },
                               perhaps[] =
                                   {
                                       {&silent, true, "yes"},
                                       {&silent, true, "<think>\nyes</thin k></think>\nno"},
                                       {&silent, false, "<think>yes"},
                                       {&silent, false, "Is it?</think>yes"},
                                   },
                               never[] = {
                                   {&silent, true, "yes"},
                                   {&silent, false, "<think></think>yes"},
                               };
    struct sp_grammar *content = NULL;
    struct sp_chat_grammar_options options = {.thinking = SP_REASONING_OPEN};

    assert_int_equal(sp_grammar_of_gbnf(&content, gbnf, strlen(gbnf), NULL), SP_OK);
    options.content = content;
    check_samples(opened, sizeof opened / sizeof *opened, options);
    options.thinking = SP_REASONING_OPTIONAL;
    check_samples(perhaps, sizeof perhaps / sizeof *perhaps, options);
    options.thinking = SP_REASONING_NONE;
    check_samples(never, sizeof never / sizeof *never, options);
    sp_grammar_close(content);
}

/* The response is a text of the schema, or tool calls. */
TEST(schema_or_calls)
{
    static const char gbnf[] = "root ::= \"yes\" | \"no\"";
    static const struct sample samples[] = {
        {&hermes, true, "yes"},
        {&hermes, true,
         "Hm.</think>\n\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"},
        {&hermes, false, "Hm.</think>Hm."},
        {&hermes, false,
         "Hm.</think>yes<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"},
    };
    struct sp_grammar *content = NULL;
    struct sp_chat_grammar_options options = {.tools = transcript_tools};

    assert_int_equal(sp_grammar_of_gbnf(&content, gbnf, strlen(gbnf), NULL), SP_OK);
    options.content = content;
    check_samples(samples, 1, options);
    options.thinking = SP_REASONING_OPEN;
    check_samples(samples + 1, sizeof samples / sizeof *samples - 1, options);
    sp_grammar_close(content);
}

/* ---- allowed texts are parsed ---------------------------------------------------------------- */

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
        assert_int_equal(sp_grammar_matcher_step(a, &to, (uint8_t)byte, NULL), SP_OK);
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
            assert_int_equal(sp_grammar_matcher_read(a, &to, more, strlen(more), NULL), SP_OK);
        else
            to = SP_STATE_DEAD;
        if (to == SP_STATE_DEAD) more = one;
        if (len + strlen(more) >= cap) return false;
        assert_int_equal(sp_grammar_matcher_read(a, &state, more, strlen(more), NULL), SP_OK);
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

    assert_int_equal(sp_chat_parser_open(&parser, &reading, NULL), SP_OK);
    assert_int_equal(sp_chat_parser_feed(parser, text, strlen(text), false, NULL), SP_OK);
    assert_int_equal(sp_chat_parser_finish(parser, NULL), SP_OK);
    sp_chat_parser_close(parser);
    return r;
}

/* Returns how many random walks ended in a complete response. */
static unsigned check_texts(const struct sp_chat_grammar_options *options, unsigned n,
                            uint64_t seed)
{
    struct sp_grammar *g = make(options);
    struct sp_grammar_matcher *a = NULL;
    unsigned n_whole = 0;
    char text[4000];

    assert_int_equal(sp_grammar_matcher_open(&a, g, NULL), SP_OK);
    for (unsigned i = 0; i < n; i++) {
        struct reading r;
        if (!write_text(text, sizeof text, a, options->format, &seed)) continue;
        n_whole++;
        r = read_back(options, text);
        if (r.fault) fail_msg("%s: %s", r.fault, text);
        if (options->must_call && (r.n_calls == 0 || r.content)) fail_msg("no call: %s", text);
        if (options->one_call && r.n_calls > 1) fail_msg("%u calls: %s", r.n_calls, text);
    }
    sp_grammar_matcher_close(a);
    sp_grammar_close(g);
    return n_whole;
}

TEST(allowed_outputs_are_parsed)
{
    enum { N = 60 };

    for (size_t i = 0; i < N_FORMATS; i++) {
        struct sp_chat_grammar_options options = {.format = formats_with_calls[i],
                                                  .tools = transcript_tools};
        for (unsigned k = 0; k < 4; k++) {
            options.must_call = k & 1;
            options.one_call = k & 2;
            options.thinking = SP_REASONING_NONE;
            assert_in_range(check_texts(&options, N, 7 + k), N / 3, N);
            if (!*formats_with_calls[i]->reasoning_close) continue;
            options.thinking = SP_REASONING_OPEN;
            assert_in_range(check_texts(&options, N, 17 + k), N / 3, N);
        }
    }
}

/* ---- partial calls --------------------------------------------------------------------------- */

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

    assert_int_equal(sp_chat_parser_open(&parser, &reading, NULL), SP_OK);
    for (size_t i = 0; i < size; i += step) {
        size_t n = size - i < step ? size - i : step;
        assert_int_equal(sp_chat_parser_feed(parser, text + i, n, false, NULL), SP_OK);
    }
    assert_int_equal(sp_chat_parser_finish(parser, NULL), SP_OK);
    sp_chat_parser_close(parser);
    transcript_append(&transcript, "", 1);
    return keep(transcript.at);
}

/* However the text is cut, name and arguments are reported as they arrive, and nothing beyond them
 * if the response ends inside a call. */
TEST(calls_are_reported_as_they_arrive)
{
    static const struct {
        const struct sp_chat_format *format;
        const char *text, *transcript;
    } cases[] = {
        {&hermes,
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a}\\\"\"}}\n"
         "</tool_call> <tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>",
         "get_weather({\"city\": \"a}\\\"\"})now({})"},
        {&hermes, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa",
         "get_weather({\"city\": \"Pa"},
        {&llama, "{\"name\": \"now\", \"parameters\": { }}", "now({ })"},
        {&mistral,
         "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", "
         "\"arguments\": {}}]",
         "now({})now({})"},
        {&apertus, "<|tools_prefix|>[{\"get_weather\": {\"city\": \"P\"}}]<|tools_suffix|>",
         "get_weather({\"city\": \"P\"})"},
        {&deepseek,
         "<calls><call>function<sep>get_weather\n```json\n{\"city\": \"P\"}\n```</call></calls>",
         "get_weather({\"city\": \"P\"})"},
        {&kimi, "<|section|><|call|>functions.now:0<|argument|>{}<|end|><|/section|>", "now({})"},
        /* A call that is not JSON is reported when it is complete or cut. */
        {&glm, "<tool_call>now\n</tool_call>", ")"},
        {&glm,
         "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
         "<arg_key>days</arg_key>\n<arg_value>1",
         "get_weather({\"city\": \"Rome\", \"days\": 1"},
        {&coder, "<tool_call>\n<function=get_weather>\n<parameter=city>\nA \"<b>\"\nRo\n</param",
         "get_weather({\"city\": \"A \\\"<b>\\\"\\nRo"},
        {&coder, "<tool_call>\n<function=get_weather>\n<param", "get_weather({"},
        {&coder, "<tool_call>\n<function=get_weather>\n", "get_weather({"},
        {&coder, "<tool_call>\n<function=get_wea", ""},
        {&coder, "<tool_call>\n<fun", ""},
        {&coder, "<", ""},
        {&gemma, "<|tool_call>call:get_weather{city:<|\"|>A \"b\"<|",
         "get_weather({\"city\":\"A \\\"b\\\""},
        {&lfm, "<|tool_call_start|>[now(), get_weather(days=2, city='Ro",
         ")get_weather({\"days\":2,\"city\":\"Ro"},
    };
    static const char content[] = "a <",
                      fence[] = "```\n{\"name\": \"now\", \"arguments\": {}}\n```";
    char *fenced;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].text);
        for (size_t step = 1; step <= size; step++) {
            char *transcript = read_parts(cases[i].format, cases[i].text, size, step);
            assert_string_equal(transcript, cases[i].transcript);
        }
    }
    assert_string_equal(read_parts(&coder, content, 3, 3), "!!");
    /* No call that a grammar constrains stands in a fence. */
    fenced = read_parts(&hermes, fence, sizeof fence - 1, 1);
    assert_null(strchr(fenced, ')'));
}

/* ---- relaxed schemas --------------------------------------------------------------------------
 */

#define TOOL(more, properties)                                                                     \
    "{\"name\": \"f\"" more ", \"parameters\": {\"properties\": {" properties "}}}"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* The schema of a tool that is not strict keeps what can be enforced. */
TEST(schemas_are_relaxed)
{
    static const struct {
        const struct sp_chat_format *format;
        const char *tool, *changes, *allowed, *forbidden;
    } cases[] = {
        {&hermes,
         TOOL("", "\"a\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}, "
                  "\"uniqueItems\": true}, \"b\": {\"pattern\": \"^(?=a)\"}"),
         "x, schema of f relaxed: #/properties/a/uniqueItems",
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 1], \"b\": \"c\"}}</tool_call>",
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [\"1\"]}}</tool_call>"},
        /* The largest part of the schema is too large. */
        {&hermes, TOOL("", "\"a\": {\"pattern\": \"^(a|b)*a(a|b){14}$\", \"maxLength\": 9999}"),
         "x, schema of f relaxed: #/properties/a/pattern",
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"b\": 1}}</tool_call>",
         "<tool_call>{\"name\": \"g\", \"arguments\": {\"b\": 1}}</tool_call>"},
        {&coder,
         TOOL("", "\"a\": {\"type\": \"string\", \"maxLength\": 1}, \"b>\": {}, \"c\": {\"type\": "
                  "\"integer\"}"),
         "x, schema of f relaxed: #/properties/b>",
         "<tool_call>\n<function=f>\n<parameter=a>\nbc\n</parameter>\n<parameter=c>\n3\n</"
         "parameter>\n</function>\n</tool_call>",
         "<tool_call>\n<function=f>\n<parameter=c>\nx\n</parameter>\n</function>\n</tool_call>"},
        {&hermes, TOOL(", \"strict\": true", "\"a\": {\"uniqueItems\": true}"), NULL, NULL, NULL},
        {&hermes, TOOL("", "\"" A64 A64 A64 A64 A64 "\": {\"uniqueItems\": true}"),
         "x, schema of f relaxed: #/properties/" A64 "aaaaaaaaaaaaaaaaaaaaaaa",
         "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char changes[320] = "x", text[512];
        struct sp_chat_grammar_options options = {.format = cases[i].format,
                                                  .must_call = true,
                                                  .changes = changes,
                                                  .changes_size = sizeof changes};
        struct sp_grammar *g = NULL;
        snprintf(text, sizeof text, "[{\"type\": \"function\", \"function\": %s}]", cases[i].tool);
        options.tools = keep_parsed(text, strlen(text), SP_JSON_STRICT);
        if (cases[i].changes == NULL) {
            assert_int_equal(sp_chat_grammar(&g, &options, NULL), SP_E_UNSUPPORTED);
            continue;
        }
        g = make(&options);
        assert_string_equal(changes, cases[i].changes);
        assert_true(allows(g, cases[i].allowed));
        assert_false(allows(g, cases[i].forbidden));
        sp_grammar_close(g);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------
 */

TEST(unsupported_constraints_are_refused)
{
    static const struct {
        const struct sp_chat_format *format;
        enum sp_status status;
        const char *tool, *sentence;
    } cases[] = {
        {&silent, SP_E_UNSUPPORTED, "{\"name\": \"f\"}",
         "the model's chat template does not show how it writes tool calls, so they cannot be "
         "constrained"},
        {&hermes, SP_E_UNSUPPORTED,
         "{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"$dynamicRef\": \"#\"}}}}",
         "the parameters of f: #/properties/a/$dynamicRef: this keyword is not supported"},
        {&hermes, SP_E_INPUT, "{\"name\": \"f\", \"parameters\": {\"type\": \"string\"}}",
         "the parameters of f: no finite text can match"},
        {&hermes, SP_E_INPUT, "{\"nam\": \"f\"}", "tools[0]: expected a function with a name"},
        {&hermes, SP_E_INPUT, "{\"name\": \"f g\"}",
         "tools[0]: this name cannot be used in a tool call"},
        {&coder, SP_E_UNSUPPORTED,
         "{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"string\", "
         "\"maxLength\": 3}}}}",
         "the parameters of f: #/properties/a: strings are unquoted in this model's tool calls: "
         "only enum and const are supported"},
        {&coder, SP_E_UNSUPPORTED,
         "{\"name\": \"f\", \"parameters\": {\"properties\": {\"a>\": {\"type\": \"string\"}}}}",
         "the parameters of f: #/properties/a>: the model cannot write this name"},
        {&coder, SP_E_UNSUPPORTED,
         "{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"string\", "
         "\"enum\": [\"b</parameter>\"]}}}}",
         "the parameters of f: #/properties/a: the model cannot write one of these values"},
        {&lfm, SP_E_UNSUPPORTED,
         "{\"name\": \"f\", \"parameters\": {\"properties\": {\"a b\": {\"type\": \"string\"}}}}",
         "the parameters of f: #/properties/a b: the model cannot write this name"},
        {&lfm, SP_E_UNSUPPORTED, "{\"name\": \"f\", \"parameters\": {\"anyOf\": [{}, {}]}}",
         "the parameters of f: #: a choice between schemas is not supported for models that write "
         "arguments one by one"},
        {&coder, SP_E_UNSUPPORTED, "{\"name\": \"f\", \"parameters\": {\"maxProperties\": 1}}",
         "the parameters of f: #/maxProperties: not supported for models that write arguments one "
         "by one"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_chat_grammar_options options = {.format = cases[i].format, .must_call = true};
        struct sp_grammar *g = NULL;
        struct sp_json *tools = NULL;
        struct sp_err err = {0};
        char text[512];
        snprintf(text, sizeof text, "[{\"type\": \"function\", \"function\": %s}]", cases[i].tool);
        tools = keep_parsed(text, strlen(text), SP_JSON_STRICT);
        options.tools = tools;
        assert_int_equal(sp_chat_grammar(&g, &options, &err), cases[i].status);
        assert_string_equal(err.text, cases[i].sentence);
    }
}

GROUP_FIXTURE(transcript_setup, transcript_teardown);
