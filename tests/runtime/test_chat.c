/* Tests the public chat functions on a template and a tokenizer without a model: prompts, their
 * grammars, and responses parsed into reasoning, content and tool calls. */
#include "runtime/chat/chat_reader.h"
#include "tests/support/keep.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

static const char hermes[] =
    "{% if tools %}<tools>{{ tools | tojson }}</tools>\n{% endif %}{% for m in messages "
    "%}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ "
    "m.content }}{% for c in m.tool_calls %}\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% "
    "endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}}}]";
static const char question[] = "[{\"role\": \"user\", \"content\": \"Is it raining in Oslo?\"}]";
static const struct sp_chat_message turn = {"user", "Is it raining in Oslo?", NULL};
static const char answer_text[] =
    "<think>\nI have to look.\n</think>\n\nA moment.\n<tool_call>\n{\"name\": \"weather\", "
    "\"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

static struct sp_template *template;
static struct sp_tokenizer *tokenizer;
static struct sp_chat *chat;

static int open_all(void **state)
{
    struct sp_chat_options options = {.size = sizeof options};
    struct sp_err err = {0};

    (void)state;
    if (sp_template_compile(&template, hermes, strlen(hermes), SP_TEMPLATE_UNKNOWN, &err) ||
        sp_tokenizer_open_file(&tokenizer, TESTDATA "/tiny/target", &err)) {
        puts(err.text);
        return 1;
    }
    options.chat_template = template;
    options.tokenizer = tokenizer;
    return sp_chat_open(&chat, NULL, &options, &err) != SP_OK;
}

static int close_all(void **state)
{
    (void)state;
    sp_chat_close(chat);
    sp_tokenizer_close(tokenizer);
    sp_template_close(template);
    return 0;
}

static struct sp_chat_prompt *prompt_of(const struct sp_chat_request *request)
{
    struct sp_chat_prompt *prompt = NULL;

    assert_ok(sp_chat_prompt_open(&prompt, chat, request, why));
    return prompt;
}

static void assert_refused(const struct sp_chat_request *request, enum sp_status status,
                           const char *text)
{
    struct sp_chat_prompt *prompt = NULL;

    assert_fails(sp_chat_prompt_open(&prompt, chat, request, why), status, text);
    assert_null(prompt);
}

TEST(describes_the_template)
{
    struct sp_chat_info info = {.size = sizeof info};
    struct sp_chat *none = NULL;

    sp_chat_describe(chat, &info);
    assert_true(info.has_reasoning);
    assert_true(info.has_tool_calls);
    assert_string_equal(info.reasoning, "<think>...</think>");
    assert_non_null(strstr(info.tool_calls, "<tool_call>"));
    assert_ptr_equal(info.chat_template, template);
    assert_int_equal(sp_chat_open(&none, NULL, NULL, NULL), SP_E_USAGE);
    assert_null(none);
}

TEST(builds_prompts)
{
    struct sp_chat_request request = {.size = sizeof request, .messages = question};
    struct sp_chat_prompt_info a = {.size = sizeof a}, b = {.size = sizeof b};
    struct sp_chat_prompt *json = prompt_of(&request), *texts;
    size_t n = 0;

    sp_chat_prompt_describe(json, &a);
    assert_string_equal(a.text, "<|im_start|>user\nIs it raining in Oslo?<|im_end|>\n"
                                "<|im_start|>assistant\n");
    assert_int_equal(a.text_size, strlen(a.text));
    assert_false(a.content_only);
    assert_ok(sp_chat_count_tokens(chat, &request, &n, NULL));
    assert_int_equal(n, a.n_ids);

    request.messages = NULL;
    request.turns = &turn;
    request.n_turns = 1;
    request.prefix = "It is";
    request.prefix_size = strlen(request.prefix);
    texts = prompt_of(&request);
    sp_chat_prompt_describe(texts, &b);
    assert_memory_equal(a.text, b.text, a.text_size);
    assert_string_equal(b.text + a.text_size, "It is");
    assert_true(b.n_ids > a.n_ids);
    sp_chat_prompt_close(texts);
    sp_chat_prompt_close(json);
}

/* ollama's tokenizer puts the beginning in front of what a Go template writes (addSpecials of its
 * model/vocabulary.go), as the one of the embedding model `llama` does, whose id 0 it is. A Jinja
 * template writes its own. */
TEST(beginning_of_go_templates)
{
    static const struct {
        const char *text, *folder;
        size_t n_begins;
    } cases[] = {
        {"{{ .Prompt }}", TESTDATA "/embeddings/llama", 1},
        {"<|begin|>{{ .Prompt }}", TESTDATA "/embeddings/llama", 1},
        {"{{ .Prompt }}", TESTDATA "/embeddings/gemma3", 1}, /* puts a token behind, too */
        {"{{ .Prompt }}", TESTDATA "/tiny/target", 0},
        {"{{ messages[0].content }}", TESTDATA "/embeddings/llama", 0},
    };
    struct sp_chat_request request = {.size = sizeof request, .messages = question};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_chat_options options = {.size = sizeof options};
        struct sp_chat_prompt_info info = {.size = sizeof info};
        struct sp_tokenizer *words = NULL;
        struct sp_chat *opened = NULL;
        struct sp_chat_prompt *prompt = NULL;
        uint32_t *plain = NULL;
        size_t n_plain = 0, n = cases[i].n_begins;
        assert_ok(sp_tokenizer_open_file(&words, cases[i].folder, NULL));
        options.chat_template = keep_template(cases[i].text, SP_TEMPLATE_UNKNOWN);
        options.tokenizer = words;
        assert_ok(sp_chat_open(&opened, NULL, &options, NULL));
        assert_ok(sp_chat_prompt_open(&prompt, opened, &request, NULL));
        sp_chat_prompt_describe(prompt, &info);
        assert_ok(sp_tokenizer_encode(words, turn.content, strlen(turn.content), 0, &plain,
                                      &n_plain, NULL));
        assert_int_equal(info.n_ids, n + n_plain);
        if (n) assert_int_equal(info.ids[0], 0);
        assert_memory_equal(info.ids + n, plain, n_plain * sizeof *plain);
        keep(plain);
        sp_chat_prompt_close(prompt);
        sp_chat_close(opened);
        sp_tokenizer_close(words);
    }
}

TEST(refuses_requests)
{
    struct sp_chat_request request = {.messages = question};

    assert_refused(&request, SP_E_USAGE, "sp_chat_request");
    request.size = sizeof request;
    request.messages = "[{]";
    assert_refused(&request, SP_E_INPUT, "messages: ");
    request.messages = "{}";
    assert_refused(&request, SP_E_INPUT, "messages is object, expected array");
    request.messages = question;
    request.tools = "[{\"type\": \"function\", \"function\": {}}]";
    request.calls = SP_CHAT_CALLS_REQUIRED;
    assert_refused(&request, SP_E_INPUT, "tool_choice: ");
}

TEST(constrains)
{
    struct sp_chat_request request = {.size = sizeof request, .messages = question};
    struct sp_chat_prompt_info info = {.size = sizeof info};
    struct sp_request generation = {.size = sizeof generation, .n_top = 0};
    struct sp_grammar *object = NULL;
    struct sp_chat_prompt *prompt;

    assert_ok(sp_grammar_of_json(&object, NULL));
    request.response_format = object;
    prompt = prompt_of(&request);
    sp_chat_prompt_apply(prompt, &generation);
    assert_non_null(generation.grammar);
    assert_ptr_not_equal(generation.grammar, object); /* reasoning may precede the object */
    sp_chat_prompt_close(prompt);

    request.is_think_set = true;
    prompt = prompt_of(&request);
    sp_chat_prompt_apply(prompt, &generation);
    sp_chat_prompt_describe(prompt, &info);
    assert_true(info.content_only);
    assert_ptr_equal(generation.grammar, object);
    assert_ptr_equal(generation.prompt, info.ids);
    sp_chat_prompt_close(prompt);

    request.response_format = NULL;
    request.tools = tools;
    prompt = prompt_of(&request);
    sp_chat_prompt_apply(prompt, &generation);
    assert_null(generation.grammar);
    sp_chat_prompt_close(prompt);

    request.calls = SP_CHAT_CALLS_REQUIRED;
    prompt = prompt_of(&request);
    sp_chat_prompt_apply(prompt, &generation);
    assert_non_null(generation.grammar);
    sp_chat_prompt_close(prompt);
    sp_grammar_close(object);
}

/* ---- readers ---- */

struct log {
    char text[4096];
    size_t len, n_parts, stop_at;
};

static int note(void *context, const struct sp_chat_part *part)
{
    static const char *const names[] = {"content", "reasoning", "call", "start", "arguments"};
    struct log *log = context;

    log->len += (size_t)snprintf(log->text + log->len, sizeof log->text - log->len, "%s %s[%.*s] ",
                                 names[part->kind], part->name ? part->name : "", (int)part->size,
                                 part->text);
    log->n_parts++;
    return log->n_parts == log->stop_at;
}

/* Feeds the response in slices of 7 bytes, one token each. */
static enum sp_status feed(struct sp_chat_reader *reader, struct sp_err *err)
{
    size_t size = strlen(answer_text);
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < size && !st; i += 7) {
        sp_chat_reader_count_token(reader);
        st = sp_chat_reader_text(reader, answer_text + i, size - i < 7 ? size - i : 7, err);
    }
    return st ? st : sp_chat_reader_finish(reader, err);
}

TEST(separates_parts)
{
    const struct sp_chat_request request = {
        .size = sizeof request, .messages = question, .tools = tools};
    struct sp_chat_prompt *prompt = prompt_of(&request);
    struct sp_chat_answer answer = {.size = sizeof answer};
    struct sp_chat_reader *reader = NULL;
    size_t n_tokens = 0;

    assert_ok(sp_chat_reader_open(&reader, prompt, NULL, NULL));
    sp_chat_reader_answer(reader, &answer);
    assert_string_equal(answer.content.at, "");
    assert_ok(feed(reader, NULL));
    sp_chat_reader_answer(reader, &answer);
    assert_string_equal(answer.reasoning.at, "I have to look.");
    assert_string_equal(answer.content.at, "A moment.");
    assert_int_equal(answer.n_calls, 1);
    assert_string_equal(answer.calls[0].name, "weather");
    assert_string_equal(answer.calls[0].arguments, "{\"city\":\"Oslo\"}");
    assert_int_equal(strlen(answer.calls[0].id), 9);
    assert_int_equal(answer.n_segments, 3);
    assert_int_equal(answer.segments[0].kind, SP_CHAT_REASONING);
    assert_int_equal(answer.segments[1].kind, SP_CHAT_CONTENT);
    assert_int_equal(answer.segments[2].kind, SP_CHAT_TOOL_CALL);
    for (size_t i = 0; i < answer.n_segments; i++)
        n_tokens += answer.segments[i].n_tokens;
    assert_true(n_tokens <= strlen(answer_text) / 7 + 1);
    assert_int_equal(answer.n_reasoning_tokens, answer.segments[0].n_tokens);
    assert_true(answer.n_reasoning_tokens > 0);
    sp_chat_reader_close(reader);
    sp_chat_prompt_close(prompt);
}

TEST(streams_calls)
{
    const struct sp_chat_request request = {.size = sizeof request,
                                            .messages = question,
                                            .tools = tools,
                                            .calls = SP_CHAT_CALLS_STRICT};
    struct log log = {.len = 0};
    const struct sp_chat_reader_options options = {
        .size = sizeof options, .stream_calls = true, .part = note, .context = &log};
    struct sp_chat_prompt *prompt = prompt_of(&request);
    struct sp_chat_answer answer = {.size = sizeof answer};
    struct sp_chat_reader *reader = NULL;

    assert_ok(sp_chat_reader_open(&reader, prompt, &options, NULL));
    assert_ok(feed(reader, NULL));
    assert_non_null(strstr(log.text, "start weather[] "));
    assert_non_null(strstr(log.text, "arguments [{"));
    assert_null(strstr(log.text, "call "));
    sp_chat_reader_answer(reader, &answer);
    assert_int_equal(answer.n_calls, 1);
    assert_string_equal(answer.calls[0].arguments, "{\"city\": \"Oslo\"}");
    sp_chat_reader_close(reader);
    sp_chat_prompt_close(prompt);
}

TEST(callback_cancels)
{
    struct log log = {.stop_at = 2};
    const struct sp_chat_reader_options options = {
        .size = sizeof options, .part = note, .context = &log};
    struct sp_chat_reader *reader = NULL;

    assert_ok(sp_chat_reader_open(&reader, NULL, &options, NULL));
    assert_fails_as(feed(reader, why), SP_E_CANCELLED, "interrupted");
    assert_int_equal(log.n_parts, 2);
    assert_string_equal(log.text, "content [<think>] content [\nI have] ");
    sp_chat_reader_close(reader);
}

GROUP_FIXTURE(open_all, close_all);
