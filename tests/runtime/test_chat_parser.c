/* Tests the chat parser: the formats detected in templates, one template per format, and the
 * parsing of model outputs. The independent values are outputs of models in the tests of vLLM and
 * llama.cpp. */
#include "tests/support/chat_transcript.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

/* ---- small templates, one per format ----------------------------------------------------------
 */

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

enum template_index {
    HERMES,
    NEMO,
    MISTRAL,
    LLAMA,
    DEEPSEEK,
    KIMI,
    CODER,
    GLM,
    DSML,
    GEMMA,
    LFM,
    COHERE,
    APERTUS,
    HARMONY,
    SILENT,
    N_TEMPLATES
};

static const struct {
    const char *template, *calls;
} templates[N_TEMPLATES] = {
    [HERMES] = {CALLS("",
                      "\n<tool_call>\n{\"name\": \"" NAME "\", \"arguments\": " JSON
                      "}\n</tool_call>",
                      ""),
                "<tool_call>{\"name\": NAME, \"arguments\": {...}}</tool_call>"},
    [NEMO] = {CALLS("[TOOL_CALLS][",
                    COMMA "{\"name\": \"" NAME "\", \"arguments\": " JSON
                          ", \"id\": \"{{ c.id }}\"}",
                    "]"),
              "[TOOL_CALLS]{\"name\": NAME, \"arguments\": {...}}"},
    [MISTRAL] = {CALLS("", "[TOOL_CALLS]" NAME "[CALL_ID]{{ c.id }}[ARGS]" JSON, ""),
                 "[TOOL_CALLS]NAME[CALL_ID]*[ARGS]{...}"},
    [LLAMA] = {CALLS("{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}",
                     "{\"name\": \"" NAME "\", \"parameters\": " JSON "}", ""),
               "{\"name\": NAME, \"parameters\": {...}}"},
    [DEEPSEEK] = {CALLS("<calls>", "<call>function<sep>" NAME "\n```json\n" JSON "\n```</call>\n",
                        "</calls>"),
                  "<calls><call>function<sep>NAME```json{...}```</call></calls>"},
    [KIMI] = {CALLS("<|section|>",
                    "<|call|>functions." NAME ":{{ loop.index0 }}<|argument|>" JSON "<|end|>",
                    "<|/section|>"),
              "<|section|><|call|>functions.NAME:*<|argument|>{...}<|end|><|/section|>"},
    [CODER] = {CALLS("",
                     "\n<tool_call>\n<function=" NAME
                     ">\n" ITEMS("<parameter={{ k }}>\n{{ v }}\n</parameter>\n") "</function>\n"
                                                                                 "</tool_call>",
                     ""),
               "<tool_call> <function=NAME><parameter=KEY>VALUE</parameter></function> "
               "</tool_call>"},
    [GLM] = {CALLS("",
                   "\n<tool_call>" NAME "\n" ITEMS(
                       "<arg_key>{{ k }}</arg_key>\n<arg_value>"
                       "{{ v if v is string else v | tojson }}</arg_value>\n") "</tool_call>",
                   ""),
             "<tool_call>NAME<arg_key>KEY</arg_key> <arg_value>VALUE</arg_value></tool_call>"},
    [DSML] = {CALLS("\n\n<d:calls>\n",
                    "<d:invoke name=\"" NAME "\">\n" ITEMS(
                        "<d:parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else "
                        "'false' }}\">{{ v if v is string else v | tojson }}</d:parameter>"
                        "\n") "</d:invoke>\n",
                    "</d:calls>"),
              "<d:calls><d:invoke name=\"NAME\"> <d:parameter name=\"KEY\" "
              "string=\"true\">VALUE</d:parameter> </d:invoke></d:calls>"},
    [GEMMA] = {CALLS("",
                     "<|tool_call>call:" NAME "{{ '{' }}" ITEMS(
                         "{% if not loop.first %},{% endif %}{{ k }}:{% if v is string %}<|\"|>{{ "
                         "v }}<|\"|>{% else %}{{ v | tojson }}{% endif %}") "{{ '}' }}<tool_call|>",
                     ""),
               "<|tool_call>call:NAME{...}<tool_call|>"},
    [LFM] = {CALLS("<|tool_call_start|>[",
                   COMMA NAME "(" ITEMS(COMMA "{{ k }}={% if v is string %}'{{ v }}'{% else %}"
                                              "{{ v }}{% endif %}") ")",
                   "]<|tool_call_end|>"),
             "<|tool_call_start|>[NAME(KEY=VALUE, ...)]<|tool_call_end|>"},
    [COHERE] = {CALLS("<|START_ACTION|>[",
                      "\n    {\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": \"" NAME
                      "\", \"parameters\": " JSON "}{% if not loop.last %},{% endif %}",
                      "\n]<|END_ACTION|>"),
                "<|START_ACTION|>{\"tool_name\": NAME, \"parameters\": {...}}<|END_ACTION|>"},
    [APERTUS] = {CALLS("<|tools_prefix|>[", COMMA "{\"" NAME "\": " JSON "}", "]<|tools_suffix|>"),
                 "<|tools_prefix|>{NAME: {...}}<|tools_suffix|>"},
    [HARMONY] = {CALLS("",
                       " to=functions." NAME "<|channel|>commentary json<|message|>" JSON
                       "<|call|>",
                       ""),
                 "<|channel|>commentary to=functions.NAME<|message|>{...}<|call|>"},
    [SILENT] = {BEFORE AFTER, "none found in the template"},
};

static struct sp_chat_format learn(enum template_index template_index)
{
    const struct sp_template *t =
        keep_template(templates[template_index].template, SP_TEMPLATE_JINJA);
    struct sp_chat_format format;

    assert_ok(sp_chat_format_learn(&format, t, NULL, NULL));
    return format;
}

TEST(formats_are_detected)
{
    char text[SP_CHAT_FORMAT_TEXT];

    for (enum template_index f = 0; f < N_TEMPLATES; f++) {
        struct sp_chat_format s = learn(f);
        assert_string_equal(sp_chat_format_describe_calls(text, &s), templates[f].calls);
        assert_string_equal(sp_chat_format_describe_reasoning(text, &s),
                            f == HARMONY ? "<|channel|>analysis<|message|>...<|end|>"
                                         : "<think>...</think>");
    }
}

/* ---- outputs ----------------------------------------------------------------------------------
 */

struct output {
    enum template_index template_index;
    const char *text, *read;
    bool in_reasoning, no_tools;
};

static void check(const struct output *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct output *o = &outputs[i];
        struct sp_chat_format s = learn(o->template_index);
        const struct answer a = {&s, o->no_tools, o->in_reasoning, o->text, strlen(o->text)};
        char *read = transcript_read(&a);
        assert_string_equal(read, o->read);
        free(read);
    }
}

#define CHECK(outputs) check(outputs, sizeof(outputs) / sizeof *(outputs))

/* vLLM's tests/tool_use and tests/tool_parsers (hermes, mistral, llama3_json, deepseekv3, kimi_k2,
 * qwen3coder, glm4_moe, pythonic), llama.cpp's tests/test-chat.cpp (the same and Gemma 4, DeepSeek
 * V3.2, Command R7B, Apertus, LFM2, gpt-oss): the words are others, the tags and blanks theirs. */
TEST(outputs_are_read)
{
    static const struct output outputs[] = {
        {HERMES, "Hello, world!\nWhat's up?", "C(Hello, world!\nWhat's up?)", false, false},
        {HERMES, "<think>\nI'm\nthinking\n</think>\n\nHello!\n", "T(I'm\nthinking)C(Hello!\n)",
         false, false},
        {HERMES, "I'm\nthinking\n</think>\n\nHello!", "T(I'm\nthinking)C(Hello!)", true, false},
        {HERMES, "</think>\n\nHello!", "C(Hello!)", false, false},
        {HERMES,
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
         "</tool_call>",
         "F(get_weather {\"city\":\"Paris\"})", false, false},
        {HERMES,
         "Let me see.\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n"
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 2}}\n</tool_call>\n",
         "C(Let me see.)F(now {})F(get_weather {\"days\":2})", false, false},
        /* Numbers keep their digits, and a key that comes twice has its last value. */
        {HERMES,
         "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 19.99, \"a\": 0.10}}</tool_call>",
         "F(now {\"a\":0.10})", false, false},
        {HERMES,
         "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"No\\\" I\", \"a\": "
         "\"In\"}}</tool_call>",
         "F(now {\"a\":\"In\"})", false, false},
        {HERMES, "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": NaN}}</tool_call>",
         "C(<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": NaN}}</tool_call>)", false,
         false},
        /* Qwen2.5 writes a brace too many. */
        {HERMES, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}}\n</tool_call>", "F(now {})",
         false, false},
        /* Qwen2.5 with ollama's template: several objects in one pair of tags. */
        {HERMES,
         "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"now\"}\n</tool_call>",
         "F(now {})F(now {})", false, false},
        {HERMES, "<tool_call>\n{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}",
         "F(now {\"a\":1})", false, false},
        {HERMES,
         "I might <tool_call> later.\n</think>\n<tool_call>{\"name\": \"now\", \"arguments\": {}}"
         "</tool_call>",
         "T(I might <tool_call> later.)F(now {})", true, false},
        {HERMES,
         "Hi<tool_call>{\"name\": \"now\"}</tool_call>\n<think>\nWhat now?\n</think>\nBye <think>",
         "C(Hi)F(now {})T(What now?)C(Bye <think>)", false, false},
        {HERMES, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool", "F(now {})", false,
         false},
        /* Small models of Qwen2.5 omit the tags. */
        {HERMES, "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}",
         "F(get_weather {\"city\":\"Paris\"})", false, false},
        /* Qwen2.5-Coder writes calls into code fences. */
        {HERMES, "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n```",
         "F(get_weather {\"city\":\"Rome\"})", false, false},
        {HERMES,
         "I call it:\n```\n[{\"name\": \"now\", \"arguments\": {}},\n {\"name\": \"now\", "
         "\"arguments\": {}}]\n```\n```tool_call\n{\"name\": \"now\", \"arguments\": "
         "{}}\n```\nDone",
         "C(I call it:)F(now {})F(now {})F(now {})C(Done)", false, false},
        {HERMES, "```json\n{\"name\": \"other\", \"arguments\": {}}\n```\n```c\n{ f(); }\n```",
         "C(```json\n{\"name\": \"other\", \"arguments\": {}}\n```\n```c\n{ f(); }\n```)", false,
         false},
        {HERMES,
         "<tool_call>{\"name\": \"now\"}</tool_call>\n```json\n{\"name\": \"now\", \"arguments\": "
         "{}}\n```",
         "F(now {})C(```json\n{\"name\": \"now\", \"arguments\": {}}\n```)", false, false},
        {NEMO,
         "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\":{\"city\": \"San Francisco\"}}, "
         "{\"name\": \"now\", \"arguments\": {}, \"id\": \"bbc5b7ede\"}]",
         "F(get_weather {\"city\":\"San Francisco\"})F(now {})", false, false},
        {MISTRAL, "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]now[ARGS]{}",
         "C([TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]now[ARGS]{})", false,
         false},
        {MISTRAL,
         "Hi[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{\"city\": \"Paris\"}"
         "[TOOL_CALLS]now[CALL_ID]000000001[ARGS]{}",
         "C(Hi)F(get_weather {\"city\": \"Paris\"})F(now {})", false, false},
        {LLAMA, "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
         "F(get_weather {\"city\":\"Paris\"})", false, false},
        {LLAMA, "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}",
         "F(now {})F(now {})", false, false},
        {LLAMA, "{\"name\": \"other\", \"parameters\": {}}",
         "C({\"name\": \"other\", \"parameters\": {}})", false, false},
        {LLAMA, "See: {\"name\": \"now\", \"parameters\": {}}",
         "C(See: {\"name\": \"now\", \"parameters\": {}})", false, false},
        {DEEPSEEK,
         "<calls><call>function<sep>get_weather\n```json\n{\"city\": \"Tokyo\"}\n```</call>\n"
         "<call>function<sep>now\n```json\n{}\n```</call></calls>",
         "F(get_weather {\"city\": \"Tokyo\"})F(now {})", false, false},
        {KIMI,
         "I'll check.  <|section|> <|call|>functions.get_weather:0<|argument|> {\"city\": "
         "\"Beijing\"} <|end|> <|call|>functions.now:1<|argument|>{}<|end|> <|/section|>",
         "C(I'll check.)F(get_weather {\"city\": \"Beijing\"})F(now {})", false, false},
        {CODER,
         "<tool_call>\n<function=get_weather>\n<parameter=city>\nDallas\n</parameter>\n"
         "<parameter=days>\n3\n</parameter>\n<parameter=detailed>\nTrue\n</parameter>\n"
         "<parameter=where>\n{'k': [1, None, \"it's\"]}\n</parameter>\n</function>\n</tool_call>",
         "F(get_weather {\"city\": \"Dallas\", \"days\": 3, \"detailed\": true, \"where\": "
         "{\"k\":[1,null,\"it's\"]}})",
         false, false},
        {CODER,
         "<tool_call>\n<function=get_weather>\n<parameter=city>\ndef f():\n    print(\"<b>\")\n\n"
         "f()\n</parameter>\n</function>\n</tool_call>",
         "F(get_weather {\"city\": \"def f():\\n    print(\\\"<b>\\\")\\n\\nf()\"})", false, false},
        {CODER, "<tool_call>\n<function=now>\n</function>\n</tool_call>", "F(now {})", false,
         false},
        {CODER, "<tool_call>\n<function=now>\n</function>", "F(now {})", false, false},
        {GLM,
         "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</arg_value>\n"
         "<arg_key>days</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
         "F(get_weather {\"city\": \"Beijing\", \"days\": 1})", false, false},
        {GLM,
         "<tool_call>get_weather<arg_key>city</arg_key><arg_value>7</arg_value></tool_call>"
         "<tool_call>now</tool_call>",
         "F(get_weather {\"city\": \"7\"})F(now {})", false, false},
        {DSML,
         "</think>\n\n<d:calls>\n<d:invoke name=\"get_weather\">\n<d:parameter name=\"city\" "
         "string=\"true\">12</d:parameter>\n<d:parameter name=\"hours\" string=\"false\">[1, 2]"
         "</d:parameter>\n</d:invoke>\n</d:calls>",
         "F(get_weather {\"city\": \"12\", \"hours\": [1, 2]})", true, false},
        {GEMMA, "<|tool_call>call:get_weather{city:<|\"|>San \"Francisco\"<|\"|>}<tool_call|>",
         "F(get_weather {\"city\":\"San \\\"Francisco\\\"\"})", false, false},
        {GEMMA,
         "What's up?<|tool_call>call:get_weather{where:{theme:<|\"|>dark<|\"|>,count:-7},"
         "hours:[<|\"|>a<|\"|>,1.5e10,true,null]}<tool_call|><|tool_call>call:now{}<tool_call|>",
         "C(What's up?)F(get_weather {\"where\":{\"theme\":\"dark\",\"count\":-7},"
         "\"hours\":[\"a\",1.5e10,true,null]})F(now {})",
         false, false},
        {LFM,
         "<think>I need it</think>Let me check.<|tool_call_start|>[get_weather(city=\"Paris\", "
         "days=2, detailed=True, hours=[1, 'b'], where={'a': None}), now()]<|tool_call_end|>Done",
         "T(I need it)C(Let me check.)F(get_weather {\"city\":\"Paris\",\"days\":2,\"detailed\":"
         "true,\"hours\":[1,\"b\"],\"where\":{\"a\":null}})F(now {})C(Done)",
         false, false},
        {LFM, "<|tool_call_start|>[get_weather(city=\"a\\n    print('hey')\")]<|tool_call_end|>",
         "F(get_weather {\"city\":\"a\\n    print('hey')\"})", false, false},
        {LFM, "<|tool_call_start|>[{\"name\": \"now\", \"arguments\": {}}]<|tool_call_end|>",
         "F(now {})", false, false},
        {COHERE,
         "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
         "\"parameters\": {\"city\": \"x\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": "
         "\"now\", \"parameters\": {}}\n]<|END_ACTION|>",
         "F(get_weather {\"city\":\"x\"})F(now {})", false, false},
        {APERTUS,
         "<|tools_prefix|>[{\"get_weather\": {\"city\": \"x\"}}, {\"now\": {}}]<|tools_suffix|>",
         "F(get_weather {\"city\":\"x\"})F(now {})", false, false},
        {HARMONY,
         "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary "
         "to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Tokyo\"}<|call|>",
         "T(Need it.)F(get_weather {\"city\":\"Tokyo\"})", false, false},
        {HARMONY,
         "<|channel|>commentary<|message|>First:<|end|><|start|>assistant to=functions.now"
         "<|channel|>commentary json<|message|>{}",
         "C(First:)F(now {})", false, false},
        {HARMONY, "<|channel|>final<|message|>2 < 3", "C(2 < 3)", false, false},
        {HARMONY, "Just text", "C(Just text)", false, false},
    };

    CHECK(outputs);
}

/* Text that is not a call is content, without losing a byte. */
TEST(no_byte_is_lost)
{
    static const struct output outputs[] = {
        {HERMES, "<tool_call>\n{\"name\": 3}\n</tool_call>\n",
         "C(<tool_call>\n{\"name\": 3}\n</tool_call>\n)", false, false},
        {HERMES, "a <tool_call> is a mark", "C(a <tool_call> is a mark)", false, false},
        {HERMES, "<tool_call>{\"name\": \"now\", \"arguments\": [1]}",
         "C(<tool_call>{\"name\": \"now\", \"arguments\": [1]})", false, false},
        {HERMES, "<tool_call>{\"name\": \"now\", \"arg", "C(<tool_call>{\"name\": \"now\", \"arg)",
         false, false},
        {HERMES, "<tool_c", "C(<tool_c)", false, false},
        {HERMES, "x \n", "C(x \n)", false, false},
        {HERMES, " \n", "C( \n)", false, false},
        {HERMES, "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call> and more",
         "F(now {})C(and more)", false, false},
        {HERMES, "<tool_call>{\"name\": \"now\", \"arguments\": {}}{bad}</tool_call>",
         "F(now {})C({bad}</tool_call>)", false, false},
        {HERMES, "{\"name\": \"get_weather\"} is a name",
         "C({\"name\": \"get_weather\"} is a name)", false, false},
        {HERMES, " \n{\"name\": \"you\", \"arguments\": {}}",
         "C( \n{\"name\": \"you\", \"arguments\": {}})", false, false},
        {HERMES, "So: {\"name\": \"now\", \"arguments\": {}}",
         "C(So: {\"name\": \"now\", \"arguments\": {}})", false, false},
        {HERMES, "Say <think>a</think>", "C(Say <think>a</think>)", false, false},
        {HERMES, "<think>endless", "T(endless)", false, false},
        {HERMES, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
         "C(<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>)", false, true},
        {SILENT, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
         "C(<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>)", false, false},
        {CODER, "<tool_call>\n<function=now>\n<parameter=a>\n1\n</function>\n</tool_call>",
         "C(<tool_call>\n<function=now>\n<parameter=a>\n1\n</function>\n</tool_call>)", false,
         false},
        {CODER,
         "<tool_call>\n<function=now>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n"
         "</parameter>\n</function>\n</tool_call>",
         "C(<tool_call>\n<function=now>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n"
         "</parameter>\n</function>\n</tool_call>)",
         false, false},
        {MISTRAL, "[TOOL_CALLS]now[CALL_ID]1[ARGS]{a: 1}",
         "C([TOOL_CALLS]now[CALL_ID]1[ARGS]{a: 1})", false, false},
        {LLAMA, "{\"a\": 1} is JSON", "C({\"a\": 1} is JSON)", false, false},
        {LLAMA, "[1, 2]", "C([1, 2])", false, false},
        {GEMMA, "<|tool_call>call:now{a:b:c}<tool_call|>",
         "C(<|tool_call>call:now{a:b:c}<tool_call|>)", false, false},
        {LFM, "<|tool_call_start|>[now(a=b)]<|tool_call_end|>",
         "C(<|tool_call_start|>[now(a=b)]<|tool_call_end|>)", false, false},
        {HARMONY, "<|channel|>commentary to=functions.now<|message|>[1]<|call|>", "C([1])", false,
         false},
    };

    CHECK(outputs);
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
    const struct sp_chat_format format = learn(MISTRAL);
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
    const struct sp_chat_format format = learn(HERMES);
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

/* ---- prompts ----------------------------------------------------------------------------------
 */

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
    const struct sp_chat_format s = learn(HERMES);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *p = cases[i].prompt;
        assert_int_equal(sp_chat_format_opens_reasoning(&s, p, strlen(p)), cases[i].thinks);
    }
}

GROUP_FIXTURE(transcript_setup, transcript_teardown);
