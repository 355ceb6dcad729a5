/* Tests Anthropic's Messages API: responses have the members and events of its reference
 * (https://platform.claude.com/docs/en/api/messages, the source of the quotation, and .../build-
 * with-claude/streaming). */
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#define ASK "{'max_tokens': 200, 'messages': [{'role': 'user', 'content': 'Tell me a story.'}]"

/* The events of a stream, each with the name of its type. */
struct events {
    struct sp_json *at[512];
    size_t n;
};

static struct events stream(const struct server *s, const char *body)
{
    struct http_reply r = server_request(s, "POST", "/v1/messages", body);
    struct events e = {.n = 0};
    char *rest = NULL, name[64] = "";

    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
    for (char *line = strtok_r(r.body, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "event: %63s", name) == 1) continue;
        assert_int_equal(strncmp(line, "data: ", 6), 0);
        assert_true(e.n < sizeof e.at / sizeof *e.at);
        e.at[e.n] = keep_parsed(line + 6, strlen(line + 6), SP_JSON_STRICT);
        assert_string_equal(json_text(e.at[e.n], "type"), name);
        e.n++;
    }
    return e;
}

static bool is(const struct sp_json *event, const char *type)
{
    return strcmp(json_text(event, "type"), type) == 0;
}

/* Checks the order of the reference: a start and a stop around the deltas of each block, and
 * blocks one after the other by index. Returns the last event but one, message_delta. *n_blocks:
 * number of blocks. */
static const struct sp_json *check_order(const struct events *e, size_t *n_blocks)
{
    bool open = false;

    *n_blocks = 0;
    assert_true(e->n >= 3);
    assert_true(is(e->at[0], "message_start"));
    assert_string_equal(json_text(e->at[0], "message.type"), "message");
    assert_string_equal(json_text(e->at[0], "message.role"), "assistant");
    assert_int_equal(sp_json_len(json_at(e->at[0], "message.content")), 0);
    assert_null(json_at(e->at[0], "message.stop_reason"));
    for (size_t i = 1; i + 2 < e->n; i++) {
        if (is(e->at[i], "ping")) continue;
        assert_int_equal(json_number(e->at[i], "index"), *n_blocks);
        if (is(e->at[i], "content_block_start")) {
            assert_false(open);
            open = true;
        } else if (is(e->at[i], "content_block_stop")) {
            assert_true(open);
            open = false;
            ++*n_blocks;
        } else {
            assert_true(is(e->at[i], "content_block_delta"));
            assert_true(open);
        }
    }
    assert_false(open);
    assert_true(is(e->at[e->n - 2], "message_delta"));
    assert_true(is(e->at[e->n - 1], "message_stop"));
    return e->at[e->n - 2];
}

/* Joins the texts at `path` of the block's deltas of this type; owned (free). */
static char *joined(const struct events *e, int64_t block, const char *type, const char *path)
{
    char *text = keep(calloc(1, 1 << 14));

    assert_non_null(text);
    for (size_t i = 0; i < e->n; i++) {
        if (!is(e->at[i], "content_block_delta")) continue;
        if (json_number(e->at[i], "index") != block) continue;
        if (strcmp(json_text(e->at[i], "delta.type"), type) != 0) continue;
        strcat(text, json_text(e->at[i], path));
        assert_true(strlen(text) < (1 << 13));
    }
    return text;
}

static struct sp_json *request(const struct server *s, const char *body)
{
    return server_post(s, "/v1/messages", body, 200);
}

/* A message has the same content as a whole and as a stream. */
TEST(test_message)
{
    struct sp_json *json = request(&tiny_server, ASK "}");
    struct events e = stream(&tiny_server, ASK ", 'stream': true}");
    size_t n_blocks;
    char *text = joined(&e, 0, "text_delta", "delta.text");
    int64_t n = json_number(json, "usage.output_tokens");

    assert_int_equal(strncmp(json_text(json, "id"), "msg_", 4), 0);
    json_expect(json, "{'type': 'message', 'role': 'assistant', 'model': 'tiny'}");
    assert_int_equal(sp_json_len(json_at(json, "content")), 1);
    json_expect(json, "{'content.0.type': 'text', 'stop_reason': 'end_turn'}");
    assert_null(json_at(json, "stop_sequence"));
    const struct sp_json *last = check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 1);
    assert_string_equal(text, json_text(json, "content.0.text"));
    assert_string_equal(json_text(last, "delta.stop_reason"), "end_turn");
    assert_int_equal(json_number(last, "usage.output_tokens"), n);
}

/* "Total input tokens in a request is the summation": the second request reads all but its last
 * token from the cache, which is reported before the response begins. */
TEST(test_usage)
{
    struct server s = server_start(served_file, (const char *const[]){"--sessions", "1", NULL});
    struct sp_json *count = server_post(&s, "/v1/messages/count_tokens", ASK "}", 200);
    int64_t n = json_number(count, "input_tokens");

    assert_true(n > 4);
    for (int i = 0; i < 2; i++) {
        struct events e = stream(&s, ASK ", 'stream': true}");
        const struct sp_json *usages[] = {json_at(e.at[0], "message.usage"),
                                          json_at(e.at[e.n - 2], "usage")};
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(json_number(usages[k], "input_tokens"), i ? 1 : n);
            assert_int_equal(json_number(usages[k], "cache_creation_input_tokens"), 0);
            assert_int_equal(json_number(usages[k], "cache_read_input_tokens"), i ? n - 1 : 0);
        }
    }
}

TEST(test_stops)
{
    struct sp_json *json =
        request(&tiny_server,
                "{'max_tokens': 3, 'messages': [{'role': 'user', 'content': 'Tell me a story.'}]}");

    json_expect(json, "{'stop_reason': 'max_tokens', 'usage.output_tokens': 3}");
    json = request(&tiny_server, ASK ", 'stop_sequences': ['whale', 'once', ' a']}");
    json_expect(json, "{'stop_reason': 'stop_sequence', 'stop_sequence': 'once', 'content.0.text': "
                      "'There was '}");
    /* Without any text the content is an empty array, not an empty block. */
    json = request(&tiny_server, ASK ", 'stop_sequences': ['There']}");
    assert_int_equal(sp_json_len(json_at(json, "content")), 0);
}

/* A stop text of the file is reported as the end of the turn. */
TEST(test_stop_of_the_file)
{
    struct server s = server_start(served_pack(SERVED_CHATML "PARAMETER stop once\n"), NULL);
    struct sp_json *json = request(&s, ASK ", 'stop_sequences': ['hungry']}");

    assert_string_equal(json_text(json, "stop_reason"), "end_turn");
    assert_null(json_at(json, "stop_sequence"));
}

/* A message whose beginning the client gives is continued to its end. */
TEST(test_partial_message)
{
    struct sp_json *json = request(&tiny_server, ASK "}"), *rest;
    const char *text = json_text(json, "content.0.text");

    const char *body = keep_format(
        "{'max_tokens': 200, 'messages': [{'role': 'user', 'content': 'Tell me a story.'}, "
        "{'role': 'assistant', 'content': '%.14s'}]}",
        text);
    assert_non_null(strstr(body, "'There was once'}"));
    rest = request(&tiny_server, body);
    assert_string_equal(json_text(rest, "content.0.text"), text + 14);
}

/* The tool call tags of Hermes and Qwen; a grammar constrains the tiny model to them. */
static const char caller[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}\"\"\"\n";

#define TOOLS                                                                                      \
    ", 'tools': [{'name': 'paint', 'description': 'Paints.', 'input_schema': {'type': 'object', "  \
    "'properties': {'colour': {'enum': ['red', 'blue']}}, 'required': ['colour'], "                \
    "'additionalProperties': false}}, {'type': 'custom', 'name': 'wait', 'input_schema': "         \
    "{'type': 'object'}}]"
#define PAINT ", 'tool_choice': {'type': 'tool', 'name': 'paint'}"

static void assert_colour(const char *colour)
{
    assert_true(strcmp(colour, "red") == 0 || strcmp(colour, "blue") == 0);
}

TEST(test_tools)
{
    struct server s = server_start(served_pack(caller), NULL);
    struct sp_json *json = request(&s, ASK TOOLS PAINT "}"), *input = NULL;
    size_t n_blocks;

    assert_string_equal(json_text(json, "stop_reason"), "tool_use");
    assert_int_equal(sp_json_len(json_at(json, "content")), 1);
    json_expect(json, "{'content.0.type': 'tool_use', 'content.0.name': 'paint'}");
    assert_int_equal(strlen(json_text(json, "content.0.id")), 9);
    assert_colour(json_text(json, "content.0.input.colour"));

    struct events e = stream(&s, ASK TOOLS PAINT ", 'stream': true}");
    const struct sp_json *last = check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 1);
    assert_string_equal(json_text(last, "delta.stop_reason"), "tool_use");
    char *text = joined(&e, 0, "input_json_delta", "delta.partial_json");
    input = keep_parsed(text, strlen(text), SP_JSON_STRICT);
    assert_colour(json_text(input, "colour"));
    for (size_t i = 0; i < e.n; i++) {
        if (!is(e.at[i], "content_block_start")) continue;
        assert_string_equal(json_text(e.at[i], "content_block.name"), "paint");
        assert_int_equal(sp_json_len(json_at(e.at[i], "content_block.input")), 0);
    }

    json = request(&s, ASK TOOLS
                   ", 'tool_choice': {'type': 'any', 'disable_parallel_tool_use': true}}");
    assert_int_equal(sp_json_len(json_at(json, "content")), 1);
    assert_string_equal(json_text(json, "content.0.type"), "tool_use");
    json = request(&s, ASK TOOLS ", 'tool_choice': {'type': 'none'}}");
    json_expect(json, "{'content.0.type': 'text', 'stop_reason': 'end_turn'}");
}

/* Under this template the story of the tiny model begins with reasoning: "There was once a
 * hungry". */
static const char thinker[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.thinking %}There {{ m.thinking }} a hungry {% endif %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking %}There{% endif %}{% if reasoning_effort %} was{% endif %}"
    "{% endif %}\"\"\"\n";

TEST(test_reasoning)
{
    struct server s = server_start(served_pack(thinker), NULL);
    struct sp_json *json = request(&s, ASK "}");
    size_t n_blocks;

    json_expect(json, "{'content.0.type': 'thinking', 'content.0.thinking': 'was once'}");
    assert_int_equal(strncmp(json_text(json, "content.0.signature"), "sp-", 3), 0);
    assert_string_equal(json_text(json, "content.1.type"), "text");
    assert_true(json_number(json, "usage.output_tokens_details.thinking_tokens") > 0);

    struct events e = stream(&s, ASK ", 'stream': true}");
    (void)check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 2);
    char *text = joined(&e, 0, "thinking_delta", "delta.thinking");
    assert_string_equal(text, "was once");
    text = joined(&e, 0, "signature_delta", "delta.signature");
    assert_string_equal(text, json_text(json, "content.0.signature"));
    text = joined(&e, 1, "text_delta", "delta.text");
    assert_string_equal(text, json_text(json, "content.1.text"));

    /* The template's switch decides whether the prompt opens the reasoning. */
    json = request(&s, ASK ", 'thinking': {'type': 'enabled', 'budget_tokens': 1024}}");
    assert_string_equal(json_text(json, "content.0.thinking"), "was once");
    /* After the budget the closing tag follows, whatever the model would choose. */
    json = request(&s, ASK ", 'thinking': {'type': 'enabled', 'budget_tokens': 1}}");
    json_expect(json,
                "{'content.0.thinking': 'was', 'usage.output_tokens_details.thinking_tokens': 1}");
    json = server_post(&s, "/v1/messages/count_tokens", ASK ", 'thinking': {'type': 'disabled'}}",
                       200);
    n_blocks = (size_t)json_number(json, "input_tokens");
    json = server_post(
        &s, "/v1/messages/count_tokens",
        ASK ", 'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'low'}}", 200);
    assert_true((size_t)json_number(json, "input_tokens") > n_blocks + 1);
    json = request(&s, ASK ", 'thinking': {'type': 'adaptive', 'display': 'omitted'}}");
    assert_string_equal(json_text(json, "content.0.thinking"), "");
    e = stream(&s, ASK ", 'stream': true, 'thinking': {'type': 'adaptive', 'display': 'omitted'}}");
    (void)check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 2);
    text = joined(&e, 0, "thinking_delta", "delta.thinking");
    assert_string_equal(text, "");
    /* The client cannot begin the response if the prompt opens the reasoning. */
    json = server_post(&s, "/v1/messages",
                       "{'max_tokens': 9, 'thinking': {'type': 'enabled'}, 'messages': [{'role': "
                       "'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]}",
                       400);
    assert_string_equal(json_text(json, "error.message"),
                        "thinking cannot be combined with a partial answer as the last message");
}

/* A template whose prompts always open the reasoning. */
TEST(test_open_reasoning)
{
    static const char always[] =
        "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.thinking %}There {{ m.thinking }} a hungry {% endif %}{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\nThere{% endif %}\"\"\"\n";
    struct server s = server_start(served_pack(always), NULL);
    struct sp_json *json = server_post(&s, "/v1/messages",
                                       "{'max_tokens': 9, 'messages': [{'role': 'user', 'content': "
                                       "'a'}, {'role': 'assistant', 'content': 'b'}]}",
                                       400);

    assert_string_equal(json_text(json, "error.message"),
                        "the last message is a partial answer, which a model that always reasons "
                        "first cannot continue");
}

TEST(test_structured_output)
{
    struct sp_json *json = request(
        &tiny_server, ASK
        ", 'output_config': {'format': {'type': 'json_schema', 'schema': {'const': 'whale'}}}}");

    assert_string_equal(json_text(json, "content.0.text"), "\"whale\"");
}

GROUP_FIXTURE(served_setup, served_teardown);
