/* Tests both template languages through their common interface: recognition of the language, the
 * sources of templates, and whole conversations. */
#include "runtime/template/template.h"
#include "tests/support/keep.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

static const struct sp_template_time noon = {2025, 6, 15, 12, 0, 0};

TEST(recognizes_languages)
{
    static const struct {
        const char *text;
        enum sp_template_language language;
    } cases[] = {
        {"{{ .Prompt }}", SP_TEMPLATE_GO},
        {"{{- if .System }}x{{ end }}", SP_TEMPLATE_GO},
        {"{{ $x := 1 }}", SP_TEMPLATE_GO},
        {"{{- /* note */ -}}", SP_TEMPLATE_GO},
        {"{{ range $i, $m := .Messages }}{{ end }}", SP_TEMPLATE_GO},
        {"{{ \"\\n\" }}{{ .System }}", SP_TEMPLATE_GO},
        {"{{ json .Tools }}", SP_TEMPLATE_GO},
        {"{{ gt (len .Messages) 1 }}", SP_TEMPLATE_GO},
        {"Yesterday: {{ yesterdayDate }}", SP_TEMPLATE_GO},
        {"{% for m in messages %}{{ m.role }}{% endfor %}", SP_TEMPLATE_JINJA},
        {"{{ bos_token }}", SP_TEMPLATE_JINJA},
        {"{{ json.tools }}", SP_TEMPLATE_JINJA},
        {"{{- messages[0]['content'] }}", SP_TEMPLATE_JINJA},
        {"{# note #}{{ '' }}", SP_TEMPLATE_JINJA},
        {"plain text", SP_TEMPLATE_UNKNOWN},
        {"{{ 'text' }}", SP_TEMPLATE_UNKNOWN},
        {"{", SP_TEMPLATE_UNKNOWN},
        {"{{", SP_TEMPLATE_UNKNOWN},
        {"", SP_TEMPLATE_UNKNOWN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sp_template_recognize(cases[i].text, strlen(cases[i].text)),
                         cases[i].language);
    }
}

enum thinking { THINK_DEFAULT, THINK_ON, THINK_OFF };

struct conversation {
    const char *system; /* first message; NULL or empty: none */
    const struct sp_chat_message *messages;
    size_t n_messages;
    enum thinking thinking;
    const char *think_level;
    struct sp_template_time now;
};

static void assert_chat(const struct sp_template *t, const struct conversation *chat,
                        const char *wanted)
{
    struct sp_chat_message turns[8] = {{"system", chat->system, NULL}};
    size_t n = chat->system != NULL && *chat->system;
    const struct sp_chat_request request = {
        .size = sizeof request,
        .turns = turns,
        .n_turns = n + chat->n_messages,
        .is_think_set = chat->thinking != THINK_DEFAULT,
        .think = chat->thinking == THINK_ON,
        .think_level = chat->think_level,
        .now = &chat->now,
    };
    char *text = NULL;
    size_t len;

    assert_true(request.n_turns <= sizeof turns / sizeof *turns);
    memcpy(turns + n, chat->messages, chat->n_messages * sizeof *turns);
    assert_ok(sp_template_apply(&text, &len, t, &request, NULL));
    assert_string_equal(text, wanted);
    assert_int_equal(len, strlen(wanted));
    free(text);
}

static const struct sp_chat_message three[] = {
    {"user", "Hi \"you\"\n", NULL}, {"assistant", "Yo", NULL}, {"user", "Bye", NULL}};

TEST(chats_in_jinja)
{
    static const char text[] =
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
        "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}";
    static const char config[] = "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\","
                                 " \"pad_token\": null}";
    const struct sp_text tokens = whole_text(config);
    struct conversation chat = {
        .system = "Be \xc3\xa9", .messages = three, .n_messages = 3, .now = noon};
    struct sp_template *t = keep_template(text, SP_TEMPLATE_UNKNOWN);
    assert_int_equal(sp_template_language(t), SP_TEMPLATE_JINJA);
    assert_ok(sp_template_read_tokens(t, &tokens, NULL));
    assert_chat(t, &chat,
                "<s><system>Be \xc3\xa9</s><user>Hi \"you\"\n</s><assistant>Yo</s><user>Bye</s>"
                "<assistant>");
    chat.system = "";
    chat.n_messages = 1;
    chat.thinking = THINK_OFF;
    assert_chat(t, &chat, "<s><user>Hi \"you\"\n</s><assistant>False");
}

/* Reasoning is a separate member with either of two names. The level is a separate option. */
TEST(reasoning_is_rendered)
{
    static const char jinja[] =
        "{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.content }};"
        "{% endfor %}{{ enable_thinking }}{{ thinking }}{{ reasoning_effort }}";
    static const char go[] = "{{ range .Messages }}{{ .Thinking }}|{{ .Content }};{{ end }}"
                             "{{ .Think }}{{ .ThinkLevel }}";
    static const struct sp_chat_message messages[] = {{"user", "Q", NULL},
                                                      {"assistant", "A", "\"Hm\"\n"}};
    const struct conversation chat = {.messages = messages,
                                      .n_messages = 2,
                                      .thinking = THINK_ON,
                                      .think_level = "low",
                                      .now = noon};
    struct sp_template *t = keep_template(jinja, SP_TEMPLATE_JINJA);
    assert_chat(t, &chat, "||Q;\"Hm\"\n|\"Hm\"\n|A;TrueTruelow");
    t = keep_template(go, SP_TEMPLATE_GO);
    assert_chat(t, &chat, "|Q;\"Hm\"\n|A;truelow");
}

TEST(chats_in_go)
{
    static const char text[] = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
                               "{{ if .IsThinkSet }}{{ .Think }}{{ end }}";
    struct conversation chat = {
        .system = "S", .messages = three, .n_messages = 3, .thinking = THINK_ON, .now = noon};
    struct sp_template *t = keep_template(text, SP_TEMPLATE_UNKNOWN);
    assert_int_equal(sp_template_language(t), SP_TEMPLATE_GO);
    assert_chat(t, &chat, "<system>S<user>Hi \"you\"\n<assistant>Yo<user>Byetrue");
}

/* ollama's rules for templates that render a single turn; expected texts were derived by hand from
 * its source. */
TEST(turns_in_go)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"[{{ .System }}|{{ .Prompt }}|{{ .Response }}]", "[S|Hi \"you\"\n|Yo][|Bye|"},
        {"{{ .Prompt }};", "Hi \"you\"\n;YoBye;"},
        {"{{ if .System }}S:{{ .System }} {{ end }}{{ .Prompt }}>{{ .Response }}{{ if .Response }}!"
         "{{ end }}",
         "S:S Hi \"you\"\n>Yo!Bye>"},
    };
    const struct conversation chat = {
        .system = "S", .messages = three, .n_messages = 3, .now = noon};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_chat(keep_template(cases[i].text, SP_TEMPLATE_UNKNOWN), &chat, cases[i].wanted);
}

static void assert_source(const struct sp_template_texts *texts, const char *wanted)
{
    const struct conversation chat = {.messages = three, .n_messages = 1, .now = noon};
    struct sp_template *t = NULL;

    assert_ok(sp_template_open(&t, texts, NULL));
    if (wanted == NULL) {
        assert_null(t);
        return;
    }
    assert_non_null(t);
    assert_chat(t, &chat, wanted);
    sp_template_close(t);
}

TEST(sources_by_precedence)
{
    static const char modelfile[] = "{{ .Prompt }}",
                      jinja[] = "jinja{{ bos_token }}{{ my_token }}{{ tool_token }}",
                      json[] = "{\"chat_template\": \"json\"}",
                      config[] = "{\"bos_token\": \"B\", \"chat_template\": \"config\", "
                                 "\"add_bos_token\": true, \"my_token\": {\"content\": \"M\"}, "
                                 "\"extra_special_tokens\": {\"tool_token\": \"T\"}}";
    struct sp_template_texts texts = {whole_text(modelfile), whole_text(jinja), whole_text(json),
                                      whole_text(config)};

    assert_source(&texts, "Hi \"you\"\n");
    texts.modelfile.at = NULL;
    assert_source(&texts, "jinjaBMT");
    texts.jinja.at = NULL;
    assert_source(&texts, "json");
    texts.json.at = NULL;
    assert_source(&texts, "config");
    texts.config.at = NULL;
    assert_source(&texts, NULL);
}

TEST(named_templates)
{
    static const char config[] = "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": "
                                 "\"T\"}, {\"name\": \"default\", \"template\": \"D\"}]}";
    struct sp_template_texts texts = {.config = whole_text(config)};
    struct sp_template_input in = {.now = noon};
    struct sp_template *t = NULL;

    assert_ok(sp_template_open(&t, &texts, NULL));
    assert_string_equal(keep_rendered(t, &in), "D");
    in.tools = keep_parsed("[{}]", 4, SP_JSON_STRICT);
    assert_string_equal(keep_rendered(t, &in), "T");
    sp_template_close(t);
}

TEST(named_templates_without_default)
{
    static const char config[] = "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, "
                                 "{\"name\": \"tool_use\", \"template\": \"T\"}]}";
    struct sp_template_texts texts = {.config = whole_text(config)};
    struct sp_template *t = NULL;

    assert_fails(sp_template_open(&t, &texts, why), SP_E_INPUT,
                 "without a template named default (it has rag, tool_use)");
}

TEST(named_template_that_is_no_text)
{
    static const char config[] =
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}, "
        "{\"name\": \"tool_use\", \"template\": 7}]}";
    struct sp_template_texts texts = {.config = whole_text(config)};
    struct sp_template *t = NULL;

    assert_fails(
        sp_template_open(&t, &texts, why), SP_E_INPUT,
        "tokenizer_config.json: the template tool_use of chat_template is integer, expected "
        "a string");
}

/* encoding/json (Go 1.19) omits an interface{} that is nil, but none that holds an empty value. */
TEST(empty_values_in_go)
{
    static const char json[] =
        "[{\"type\": \"function\", \"items\": [], \"function\": {\"name\": \"f\", \"parameters\":"
        " {\"type\": \"object\", \"$defs\": false, \"items\": null, \"required\": [],"
        " \"properties\": {\"p\": {\"type\": \"array\", \"items\": {}, \"enum\": []}}}}}]";
    struct sp_template_input in = {.now = noon};
    struct sp_template *t =
        keep_template("{{ if .Messages }}{{ end }}{{ .Tools }}", SP_TEMPLATE_GO);

    in.messages = keep_parsed("[]", 2, SP_JSON_STRICT);
    in.tools = keep_parsed(json, strlen(json), SP_JSON_STRICT);
    assert_string_equal(keep_rendered(t, &in),
                        "[{\"type\":\"function\",\"items\":[],\"function\":{\"name\":\"f\","
                        "\"description\":\"\",\"parameters\":{\"type\":\"object\",\"$defs\":"
                        "false,\"properties\":{\"p\":{\"type\":\"array\",\"items\":{}}}}}}]");
}

TEST(non_conversations_are_refused)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{}", "messages is object, expected array"},
        {"[1]", "message 0: integer where an object with role, content, ... is expected"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]",
         "message 0: content: part 0 is not text"},
    };
    struct sp_template *t = keep_template("{{ .Messages }}", SP_TEMPLATE_UNKNOWN);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_template_input in = {.now = noon};
        struct sp_err err = {0};
        char *text = NULL;
        size_t len;
        in.messages = keep_parsed(cases[i].json, strlen(cases[i].json), SP_JSON_STRICT);
        assert_int_not_equal(sp_template_render(&text, &len, t, &in, &err), SP_OK);
        assert_string_equal(err.text, cases[i].message);
    }
}

/* One budget counts the values, the output, and the copy of it that the caller receives. */
TEST(the_text_counts_as_memory)
{
    static const char large[] = "{% set s = 'x' * 1024 %}{{ s * 4096 }}";
    static const char smaller[] = "{% set s = 'x' * 1024 %}{{ s * 3000 }}";
    const char *const texts[] = {smaller, large};
    bool exhausted = false;
    struct sp_template_input in = {.now = noon, .exhausted = &exhausted};

    for (int i = 0; i < 2; i++) {
        struct sp_template *t = NULL;
        struct sp_err err = {0};
        char *text = NULL;
        size_t len = 0;
        t = keep_template(texts[i], SP_TEMPLATE_JINJA);
        assert_int_equal(sp_template_render(&text, &len, t, &in, &err), i ? SP_E_INPUT : SP_OK);
        assert_int_equal(exhausted, i);
        if (i)
            assert_string_equal(err.text, "template needs more than 16777216 bytes of memory");
        else
            assert_int_equal(len, 3000 * 1024);
        free(text);
    }
}
