/* Tests responses of `spectool serve` with structured output, or with reasoning, content and tool
 * calls. */
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

static void assert_structured(const char *path, const char *body, const char *at, const char *text)
{
    struct sp_json *json = served_post(path, body);

    assert_string_equal(json_text(json, at), text);
}

/* A schema may nest as deeply as with `run --format`. */
TEST(test_deep_schema)
{
    enum { DEEP = 250 };
    char body[1024] = "{'prompt': 'Once', 'stream': false, 'format': {'const': 12, 'examples': ";
    size_t n = strlen(body);

    memset(body + n, '[', DEEP);
    memset(body + n + DEEP, ']', DEEP);
    strcpy(body + n + 2 * (size_t)DEEP, "}}");
    assert_structured("/api/generate", body, "response", "12");
}

/* Each way to request a schema that allows one or two texts: the response is one of them, and
 * ends. */
TEST(test_structured_output)
{
#define CHAT "'messages': [{'role': 'user', 'content': 'Tell me a story'}], "
    static const char word[] = "\"Mia, \\\"Finn\\\"\"";
    static const struct {
        const char *path, *body, *at, *text;
    } all[] = {
        {"/v1/chat/completions",
         "{" CHAT "'response_format': {'type': 'json_schema', 'json_schema': {'name': 'a', "
         "'strict': true, 'schema': {'const': 'Mia, \\'Finn\\''}}}}",
         "choices.0.message.content", word},
        {"/v1/chat/completions",
         "{" CHAT "'response_format': {'type': 'json_object', 'schema': {'const': 'Mia, "
         "\\'Finn\\''}}, 'temperature': 2, 'seed': 7}",
         "choices.0.message.content", word},
        {"/v1/chat/completions", "{" CHAT "'json_schema': {'const': 'Mia, \\'Finn\\''}}",
         "choices.0.message.content", word},
        {"/v1/completions", "{'prompt': 'Once', 'grammar': 'root ::= \\'an \\' [o] \\'wl\\''}",
         "choices.0.text", "an owl"},
        {"/api/chat", "{" CHAT "'stream': false, 'format': {'const': 'Mia, \\'Finn\\''}}",
         "message.content", word},
        {"/api/generate", "{'prompt': 'Once', 'stream': false, 'format': {'enum': [12345]}}",
         "response", "12345"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_structured(all[i].path, all[i].body, all[i].at, all[i].text);
    struct sp_json *json =
        served_post("/v1/chat/completions",
                    "{" CHAT "'max_tokens': 3, 'response_format': {'type': 'json_object'}}");
    assert_int_equal(json_text(json, "choices.0.message.content")[0], '{');
    assert_string_equal(json_text(json, "choices.0.finish_reason"), "length");
    json = served_post(
        "/api/generate",
        "{'prompt': 'Once', 'stream': false, 'format': 'json', 'options': {'num_predict': 3}}");
    assert_int_equal(json_text(json, "response")[0], '{');
}

static const char story[] = "There was once a hungry turtle called Finn. Finn lived in a cave near "
                            "the sea with a mouse named Maya.";

#define STORY                                                                                      \
    "{'messages': [{'role': 'user', 'content': 'Tell me a story.'}], 'stop': ' Finn loved', "      \
    "'options': {'stop': [' Finn loved']}, 'stream': "
#define TOOLS                                                                                      \
    ", 'tools': [{'type': 'function', 'function': {'name': 'Finn', 'parameters': {'type': "        \
    "'object', 'properties': {'a cave': {'type': 'string'}}}}}]"

static const char arguments[] = "{\"a cave\": \"the sea\"}";

static void assert_id(const char *id)
{
    assert_int_equal(strlen(id), 9);
    assert_int_equal(strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                     9);
}

/* Compares the joined texts at `path` of a stream. */
static void assert_streamed(const struct http_reply *r, const char *path, const char *wanted)
{
    size_t n;
    char *text = stream_text(r, path, &n);

    assert_string_equal(text, wanted);
}

static void openai_calls(const struct server *s)
{
    size_t n;
    struct sp_json *json = server_post(s, "/v1/chat/completions", STORY "false" TOOLS "}", 200);

    json_expect(
        json,
        "{'choices.0.message.content': 'turtlenamed Maya.', 'choices.0.message.reasoning_content': "
        "'was once', 'choices.0.finish_reason': 'tool_calls'}");
    assert_int_equal(sp_json_len(json_at(json, "choices.0.message.tool_calls")), 1);
    assert_string_equal(json_text(json, "choices.0.message.tool_calls.0.type"), "function");
    assert_id(json_text(json, "choices.0.message.tool_calls.0.id"));
    assert_string_equal(json_text(json, "choices.0.message.tool_calls.0.function.name"), "Finn");
    assert_string_equal(json_text(json, "choices.0.message.tool_calls.0.function.arguments"),
                        arguments);
    struct http_reply r = server_request(s, "POST", "/v1/chat/completions", STORY "true" TOOLS "}");
    assert_streamed(&r, "choices.0.delta.content", "turtlenamed Maya.");
    assert_streamed(&r, "choices.0.delta.reasoning_content", "was once");
    /* The name and the id come first; the arguments follow. */
    char *text = stream_text(&r, "choices.0.delta.tool_calls.0.function.name", &n);
    assert_string_equal(text, "Finn");
    assert_int_equal(n, 1);
    text = stream_text(&r, "choices.0.delta.tool_calls.0.id", &n);
    assert_id(text);
    assert_streamed(&r, "choices.0.delta.tool_calls.0.function.arguments", arguments);
    assert_non_null(
        strstr(r.body, "\"delta\": {}, \"logprobs\": null, \"finish_reason\": \"tool_calls\"}"));
    assert_non_null(
        strstr(r.body, "\"tool_calls\": [{\"index\": 0, \"function\": {\"arguments\": "));
    /* A request without tools cannot lead to a tool call. */
    json = server_post(s, "/v1/chat/completions", STORY "false}", 200);
    assert_string_equal(json_text(json, "choices.0.message.content"), strstr(story, "turtle"));
    assert_string_equal(json_text(json, "choices.0.finish_reason"), "stop");
    assert_null(json_at(json, "choices.0.message.tool_calls"));
}

static void ollama_calls(const struct server *s)
{
    size_t n;
    struct sp_json *json = server_post(s, "/api/chat", STORY "false" TOOLS "}", 200);

    json_expect(json, "{'message.content': 'turtlenamed Maya.', 'message.thinking': 'was once', "
                      "'message.tool_calls.0.function.name': 'Finn'}");
    assert_string_equal(json_text(json, "message.tool_calls.0.function.arguments.a cave"),
                        "the sea");
    json_expect(json, "{'message.tool_calls.0.function.index': 0, 'done_reason': 'stop'}");
    struct http_reply r = server_request(s, "POST", "/api/chat", STORY "true" TOOLS "}");
    assert_streamed(&r, "message.content", "turtlenamed Maya.");
    assert_streamed(&r, "message.thinking", "was once");
    char *text = stream_text(&r, "message.tool_calls.0.function.arguments.a cave", &n);
    assert_string_equal(text, "the sea");
    assert_int_equal(n, 1);
    json = server_post(
        s, "/api/generate",
        "{'prompt': 'Tell me a story.', 'stream': false, 'options': {'stop': [' called']}}", 200);
    json_expect(json, "{'response': 'turtle', 'thinking': 'was once'}");
    json = server_post(s, "/api/show", "{}", 200);
    json_expect(json, "{'capabilities.1': 'tools', 'capabilities.2': 'thinking'}");
}

#define DEN(value)                                                                                 \
    ", 'tools': [{'type': 'function', 'function': {'name': 'Finn', 'parameters': {'type': "        \
    "'object', 'properties': {'a den': " value "}, 'required': ['a den']}}}]"

/* Once the model has written the tag, its call matches the schema, though nothing asks for one. */
static void constrained_calls(const struct server *s)
{
    static const char call[] = "choices.0.message.tool_calls.0.function.arguments";
    struct sp_json *json =
        server_post(s, "/v1/chat/completions",
                    STORY "false, 'max_tokens': 30" DEN("{'enum': ['the hill']}") "}", 200);

    assert_string_equal(json_text(json, call), "{\"a den\": \"the hill\"}");
    assert_string_equal(json_text(json, "choices.0.message.reasoning_content"), "was once");
    struct http_reply r =
        server_request(s, "POST", "/v1/chat/completions",
                       STORY "true, 'max_tokens': 30" DEN("{'enum': ['the hill']}") "}");
    assert_non_null(strstr(r.body, "{\\\"a den\\\": \\\"the hill\\\"}"));
    /* Of a schema that is not supported the names and types hold. */
    json = server_post(s, "/v1/chat/completions",
                       STORY "false" DEN("{'type': 'string', 'pattern': '^x'}") "}", 200);
    assert_ptr_equal(strstr(json_text(json, call), "{\"a den\": \""), json_text(json, call));
}

TEST(test_calls)
{
    const char *packed = served_pack(served_tool_template);
    struct server s =
        server_start(packed, (const char *const[]){"--kv-type", "f32", "--verbose", NULL});
    char *text = served_run(packed, "'Tell me a story.' --kv-type f32 --stop ' Finn loved'");

    assert_string_equal(text, story); /* the text equals that of `run` */
    openai_calls(&s);
    constrained_calls(&s);
    ollama_calls(&s);
    assert_int_equal(server_count_log(&s, "reasoning: There...a hungry"), 1);
    assert_int_equal(server_count_log(&s, "tool calls: called Finn.NAMElived"), 1);
}

GROUP_FIXTURE(served_setup, served_teardown);
