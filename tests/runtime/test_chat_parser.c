/* Tests the chat parser: the formats detected in templates, one template per format, and the
 * parsing of model outputs. The independent values are outputs of models in the tests of vLLM and
 * llama.cpp. */
#include "tests/support/chat_transcript.h"
#include "tests/support/golden.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

/* ---- small templates, one per format ---- */

#define BEFORE                                                                                     \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"                                            \
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"      \
    "{{ m.content }}{% if m.tool_calls %}"
#define AFTER                                                                                      \
    "{% endif %}<|im_end|>\n{% endfor %}"                                                          \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define CALLS(before, call, after)                                                                 \
    BEFORE before "{% for c in m.tool_calls %}" call "{% endfor %}" after AFTER
#define NAME "{{ c.function.name }}"
#define JSON "{{ c.function.arguments | tojson }}"
#define ITEMS(argument) "{% for k, v in c.function.arguments.items() %}" argument "{% endfor %}"
#define COMMA "{% if not loop.first %}, {% endif %}"

static const struct {
    const char *name, *template, *calls;
} templates[] = {
    {"hermes",
     CALLS("", "\n<tool_call>\n{\"name\": \"" NAME "\", \"arguments\": " JSON "}\n</tool_call>",
           ""),
     "<tool_call>{\"name\": NAME, \"arguments\": {...}}</tool_call>"},
    {"nemo",
     CALLS("[TOOL_CALLS][",
           COMMA "{\"name\": \"" NAME "\", \"arguments\": " JSON ", \"id\": \"{{ c.id }}\"}", "]"),
     "[TOOL_CALLS]{\"name\": NAME, \"arguments\": {...}}"},
    {"mistral", CALLS("", "[TOOL_CALLS]" NAME "[CALL_ID]{{ c.id }}[ARGS]" JSON, ""),
     "[TOOL_CALLS]NAME[CALL_ID]*[ARGS]{...}"},
    {"llama",
     CALLS("{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}",
           "{\"name\": \"" NAME "\", \"parameters\": " JSON "}", ""),
     "{\"name\": NAME, \"parameters\": {...}}"},
    {"deepseek",
     CALLS("<calls>", "<call>function<sep>" NAME "\n```json\n" JSON "\n```</call>\n", "</calls>"),
     "<calls><call>function<sep>NAME```json{...}```</call></calls>"},
    {"kimi",
     CALLS("<|section|>", "<|call|>functions." NAME ":{{ loop.index0 }}<|argument|>" JSON "<|end|>",
           "<|/section|>"),
     "<|section|><|call|>functions.NAME:*<|argument|>{...}<|end|><|/section|>"},
    {"coder",
     CALLS("",
           "\n<tool_call>\n<function=" NAME
           ">\n" ITEMS("<parameter={{ k }}>\n{{ v }}\n</parameter>\n") "</function>\n"
                                                                       "</tool_call>",
           ""),
     "<tool_call> <function=NAME><parameter=KEY>VALUE</parameter></function> "
     "</tool_call>"},
    {"glm",
     CALLS("",
           "\n<tool_call>" NAME
           "\n" ITEMS("<arg_key>{{ k }}</arg_key>\n<arg_value>"
                      "{{ v if v is string else v | tojson }}</arg_value>\n") "</tool_call>",
           ""),
     "<tool_call>NAME<arg_key>KEY</arg_key> <arg_value>VALUE</arg_value></tool_call>"},
    {"dsml",
     CALLS("\n\n<d:calls>\n",
           "<d:invoke name=\"" NAME
           "\">\n" ITEMS("<d:parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else "
                         "'false' }}\">{{ v if v is string else v | tojson }}</d:parameter>"
                         "\n") "</d:invoke>\n",
           "</d:calls>"),
     "<d:calls><d:invoke name=\"NAME\"> <d:parameter name=\"KEY\" "
     "string=\"true\">VALUE</d:parameter> </d:invoke></d:calls>"},
    {"gemma",
     CALLS("",
           "<|tool_call>call:" NAME "{{ '{' }}" ITEMS(
               "{% if not loop.first %},{% endif %}{{ k }}:{% if v is string %}<|\"|>{{ "
               "v }}<|\"|>{% else %}{{ v | tojson }}{% endif %}") "{{ '}' }}<tool_call|>",
           ""),
     "<|tool_call>call:NAME{...}<tool_call|>"},
    {"lfm",
     CALLS("<|tool_call_start|>[",
           COMMA NAME "(" ITEMS(COMMA "{{ k }}={% if v is string %}'{{ v }}'{% else %}"
                                      "{{ v }}{% endif %}") ")",
           "]<|tool_call_end|>"),
     "<|tool_call_start|>[NAME(KEY=VALUE, ...)]<|tool_call_end|>"},
    {"cohere",
     CALLS("<|START_ACTION|>[",
           "\n    {\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": \"" NAME
           "\", \"parameters\": " JSON "}{% if not loop.last %},{% endif %}",
           "\n]<|END_ACTION|>"),
     "<|START_ACTION|>{\"tool_name\": NAME, \"parameters\": {...}}<|END_ACTION|>"},
    {"apertus", CALLS("<|tools_prefix|>[", COMMA "{\"" NAME "\": " JSON "}", "]<|tools_suffix|>"),
     "<|tools_prefix|>{NAME: {...}}<|tools_suffix|>"},
    {"harmony",
     CALLS("", " to=functions." NAME "<|channel|>commentary json<|message|>" JSON "<|call|>", ""),
     "<|channel|>commentary to=functions.NAME<|message|>{...}<|call|>"},
    {"silent", BEFORE AFTER, "none found in the template"},
};

enum { N_TEMPLATES = sizeof templates / sizeof *templates };

static struct sp_chat_format learn(const char *name)
{
    struct sp_chat_format format;
    size_t i = 0;

    while (i < N_TEMPLATES && strcmp(templates[i].name, name) != 0)
        i++;
    assert_true(i < N_TEMPLATES);
    const struct sp_template *t = keep_template(templates[i].template, SP_TEMPLATE_JINJA);
    assert_ok(sp_chat_format_learn(&format, t, NULL, NULL));
    return format;
}

TEST(formats_are_detected)
{
    char text[SP_CHAT_FORMAT_TEXT];

    for (size_t f = 0; f < N_TEMPLATES; f++) {
        struct sp_chat_format s = learn(templates[f].name);
        assert_string_equal(sp_chat_format_describe_calls(text, &s), templates[f].calls);
        assert_string_equal(sp_chat_format_describe_reasoning(text, &s),
                            strcmp(templates[f].name, "harmony") == 0
                                ? "<|channel|>analysis<|message|>...<|end|>"
                                : "<think>...</think>");
    }
}

/* ---- outputs ---- */

/* The outputs of outputs.jsonl, and how they are read: those of vLLM's tests/tool_use and
 * tests/tool_parsers (hermes, mistral, llama3_json, deepseekv3, kimi_k2, qwen3coder, glm4_moe,
 * pythonic), and of llama.cpp's tests/test-chat.cpp (the same and Gemma 4, DeepSeek V3.2, Command
 * R7B, Apertus, LFM2, gpt-oss), of which the words are others, the tags and blanks theirs; then
 * texts that are no calls, and content without losing a byte. */
TEST(outputs_are_read)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/chat/outputs.jsonl");
    size_t n = 0;

    for (; line[n]; n++) {
        struct answer a = {.format = NULL};
        const struct sp_chat_format format = learn(sp_json_get_text(line[n], "format"));
        a.format = &format;
        a.text = sp_json_to_string(sp_json_get(line[n], "text"), &a.size);
        (void)sp_json_to_bool(sp_json_get(line[n], "in_reasoning"), &a.in_reasoning);
        (void)sp_json_to_bool(sp_json_get(line[n], "no_tools"), &a.no_tools);
        char *read = transcript_read(&a);
        assert_string_equal(read, sp_json_get_text(line[n], "read"));
        free(read);
    }
    assert_int_equal(n, 71);
}

static struct sp_chat_parser *open_noting(const struct sp_chat_format *format, struct transcript *t)
{
    const struct sp_chat_parser_options reading = {
        .format = format, .tools = transcript_tools, .part = transcript_record, .context = t};
    struct sp_chat_parser *parser = NULL;

    *t = (struct transcript){.last = -1};
    assert_ok(sp_chat_parser_open(&parser, &reading, NULL));
    return parser;
}

/* The text of a special token counts in tags and is never shown. */
TEST(special_tokens_are_not_shown)
{
    static const struct {
        const char *text;
        bool special;
    } pieces[] = {{"Hi", false},       {"[TOOL_CALLS]", true}, {"now", false},
                  {"[CALL_ID]", true}, {"1[ARGS]{}", false},   {"[TOOL_CALLS]", true},
                  {"no call", false}};
    const struct sp_chat_format format = learn("mistral");
    struct transcript t;
    struct sp_chat_parser *parser = open_noting(&format, &t);

    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        assert_ok(sp_chat_parser_feed(parser, pieces[i].text, strlen(pieces[i].text),
                                      pieces[i].special, NULL));
    }
    assert_ok(sp_chat_parser_finish(parser, NULL));
    sp_chat_parser_close(parser);
    transcript_append(&t.text, "", 1);
    assert_string_equal(t.text.at, "C(Hi)F(now {})C(no call");
    sp_strbuf_release(&t.text);
}

/* Content is reported as soon as it cannot be part of a tag. */
TEST(content_is_not_delayed)
{
    static const struct {
        const char *text, *reported;
    } pieces[] = {
        {"Hel", "C(Hel"},           {"lo <", "C(Hello"},
        {"tool", "C(Hello"},        {"ing", "C(Hello <tooling"},
        {"\n", "C(Hello <tooling"}, {".", "C(Hello <tooling\n."},
    };
    const struct sp_chat_format format = learn("hermes");
    struct transcript t;
    struct sp_chat_parser *parser = open_noting(&format, &t);

    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const char *text = pieces[i].text;
        assert_ok(sp_chat_parser_feed(parser, text, strlen(text), false, NULL));
        assert_int_equal(t.text.len, strlen(pieces[i].reported));
        assert_memory_equal(t.text.at, pieces[i].reported, t.text.len);
    }
    sp_chat_parser_close(parser);
    sp_strbuf_release(&t.text);
}

/* ---- prompts ---- */

TEST(prompts_open_reasoning)
{
    static const struct {
        const char *prompt;
        bool thinks;
    } cases[] = {{"<|im_start|>assistant\n<think>\n", true},
                 {"<think>", true},
                 {"<|im_start|>assistant\n<think>\n\n</think>\n\n", false},
                 {"<|im_start|>assistant\n", false},
                 {"think>", false},
                 {"", false}};
    const struct sp_chat_format s = learn("hermes");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *p = cases[i].prompt;
        assert_int_equal(sp_chat_format_opens_reasoning(&s, p, strlen(p)), cases[i].thinks);
    }
}

GROUP_FIXTURE(transcript_setup, transcript_teardown);
