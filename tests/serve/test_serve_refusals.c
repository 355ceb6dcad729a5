/* Tests which requests `spectool serve` refuses, and with which error. */
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <sys/socket.h>

#define MESSAGES_AND "'messages': [{'role': 'user', 'content': 'Hi'}"
#define MESSAGES MESSAGES_AND "]"

/* Requests with more members. */
#define CHAT(members) "POST", "/v1/chat/completions", "{" MESSAGES members "}"
#define OLLAMA(members) "POST", "/api/chat", "{" MESSAGES members "}"
#define TEXT(members) "POST", "/v1/completions", "{'prompt': 'a'" members "}"

/* A request, its status, and a part of the error message. */
static const struct refusal {
    const char *method, *path, *body;
    int status;
    const char *says;
} refusals[] = {
    {"GET", "/nothing", NULL, 404, "not found"},
    {"GET", "/api/nothing", NULL, 404, "not found"},
    {"POST", "/v1/chat/completion", "{}", 404, "not found, did you mean /v1/chat/completions?"},
    {"POST", "/chat/completoins", "{}", 404, "not found, did you mean /v1/chat/completions?"},
    {"POST", "/api/emded", "{}", 404, "not found, did you mean /api/embed?"},
    {"GET", "/v1/models/other", NULL, 404, "model 'other' not found, this server has 'tiny'"},
    {"GET", "/v1/chat/completions", NULL, 405, "method not allowed"},
    {"POST", "/api/tags", "{}", 405, "method not allowed"},
    {"OPTIONS", "/api/chat", NULL, 405, "method not allowed"},
    {"GET", "/v1/responses", NULL, 405, "method not allowed"},
    {"GET", "/v1/responses/resp_1", NULL, 501, "/v1/responses/resp_1 is not supported"},
    {"POST", "/v1/embeddings", "{}", 400, "input: expected a string or an array"},
    {"POST", "/v1/embeddings", "{'input': 'a'}", 400, "not an embedding model: its"},
    {"POST", "/api/embed", "{'input': 'a'}", 400, "not an embedding model"},
    {"POST", "/api/pull", "{}", 501, "not supported"},
    {"DELETE", "/api/delete", "{}", 501, "not supported"},
    {"POST", "/v1/chat/completions", "", 400, "not valid JSON"},
    {"POST", "/v1/chat/completions", "[]", 400, "not a JSON object"},
    {"POST", "/v1/chat/completions", "{" MESSAGES "} x", 400, "not valid JSON at byte"},
    {"POST", "/v1/chat/completions", "{'a': 1, 'a': 2}", 400, "key \"a\" occurs twice"},
    {"POST", "/v1/chat/completions", "{'model': 3}", 400, "model is 3"},
    {"POST", "/v1/chat/completions", "{'model': 'gpt-4'}", 404,
     "'gpt-4' not found, this server has 'tiny'"},
    {"POST", "/api/show", "{'model': 'gpt-4'}", 404, "'gpt-4' not found, this server has 'tiny'"},
    {"POST", "/v1/chat/completions", "{}", 400, "messages is missing"},
    {"POST", "/v1/chat/completions", "{'messages': []}", 400, "messages is empty"},
    {"POST", "/v1/chat/completions", "{'messages': [1]}", 400, "messages[0]: is not an object"},
    {"POST", "/v1/chat/completions", "{'messages': [{'content': 'a'}]}", 400,
     "messages[0]: has no role"},
    {"POST", "/v1/chat/completions", "{'messages': [{'role': 'usr', 'content': 'a'}]}", 400,
     "messages[0]: role is usr, expected system, user, assistant or tool"},
    {"POST", "/api/chat", "{" MESSAGES_AND ", {'role': 'usr', 'content': 'a'}]}", 400,
     "messages[1]: role is usr"},
    {"POST", "/v1/completions", "{'prompt': []}", 400, "prompt is an empty array, expected a"},
    {TEXT(", 'dry_base': 0"), 400, "dry_base is 0, expected a number 1..100"},
    {TEXT(", 'dry_sequence_breakers': ':'"), 400,
     "dry_sequence_breakers is string, expected an array of strings"},
    {"POST", "/api/generate", "{'prompt': 'a', 'options': {'xtc_threshold': 2}}", 400,
     "options: xtc_threshold is 2, expected a number 0..1"},
    {"POST", "/v1/chat/completions", "{'messages': [{'role': 'user'}]}", 400,
     "messages[0]: has no content"},
    {"POST", "/api/chat", "{'messages': [{'role': 'assistant'}]}", 400,
     "messages[0]: has no content"},
    {CHAT(", 'reasoning_effort': 'huge'"), 400, "reasoning_effort is huge, expected none, "},
    {CHAT(", 'thinking_budget_tokens': 9"), 400,
     "thinking_budget_tokens: the reasoning of this model cannot be limited"},
    {CHAT(", 'thinking_token_budget': '9'"), 400,
     "thinking_token_budget is string, expected number"},
    {OLLAMA(", 'options': {'reasoning_budget': 9}"), 400,
     "options: reasoning_budget: the reasoning of this model cannot be limited"},
    {OLLAMA(", 'think': 'huge'"), 400, "think is huge"},
    {OLLAMA(", 'think': ''"), 400, "think is empty, expected none, "},
    {CHAT(", 'reasoning_effort': ''"), 400, "reasoning_effort is empty, expected none, "},
    {CHAT(", 'continue_final_message': true"), 400,
     "continue_final_message: the last message is not text of the assistant"},
    {CHAT(", 'add_generation_prompt': false"), 400,
     "add_generation_prompt is false, but the last message is complete"},
    {"POST", "/v1/chat/completions",
     "{" MESSAGES_AND
     ", {'role': 'assistant', 'content': 'a'}], 'response_format': {'type': 'json_object'}}",
     400, "a response format cannot be combined with a partial answer"},
    {OLLAMA(", 'tools': [{'type': 'function'}]"), 400, "tools[0]: function.name is missing"},
    {OLLAMA(", 'tools': [{'function': {'name': 'f'}}]"), 400,
     "tools: this model does not support tools, since its chat template has none"},
    {"POST", "/v1/chat/completions",
     "{'messages': [{'role': 'user', 'content': [{'type': 'image_url'}]}]}", 400,
     "content of type image_url"},
    {CHAT(", 'stream_options': ['include_usage']"), 400,
     "stream_options is array, expected an object"},
    {CHAT(", 'n': 0"), 400, "n is 0, expected an integer 1..128"},
    {CHAT(", 'n': 129"), 400, "n is 129"},
    {CHAT(", 'response_format': {'type': 'xml'}"), 400, "response_format.type: "},
    {CHAT(", 'response_format': {'type': 'json_schema'}"), 400,
     "response_format.json_schema.schema is missing"},
    {CHAT(", 'response_format': {'type': 'json_schema', 'json_schema': {'strict': true, "
          "'schema': {'items': {'$dynamicRef': '#'}}}}"),
     400, "response_format.json_schema.schema: #/items/$dynamicRef: this keyword is not supported"},
    {TEXT(", 'grammar': 'root ::= a'"), 400, "grammar: 1:10: this rule is not defined"},
    {TEXT(", 'grammar': 'root ::= [a]', 'json_schema': {'type': 'null'}"), 400,
     "json_schema: the request has another response format already"},
    {TEXT(", 'json_schema': '{}'"), 400,
     "json_schema: #: a schema is an object or a boolean, not string"},
    {CHAT(", 'tools': [{}, 3]"), 400, "tools[1] is integer, expected an object"},
    {OLLAMA(", 'tools': ['f']"), 400, "tools[0] is string, expected an object"},
    {CHAT(", 'temperature': 'hot'"), 400, "temperature is string, expected number"},
    {CHAT(", 'temperature': 101"), 400, "temperature is 101, expected a number 0..100"},
    {CHAT(", 'max_tokens': 0"), 400, "max_tokens is 0"},
    {CHAT(", 'max_tokens': 1.5"), 400, "max_tokens is 1.5, expected an integer"},
    {CHAT(", 'stream': 1"), 400, "stream is 1"},
    {CHAT(", 'stop': ['']"), 400, "stop is empty"},
    {CHAT(", 'stop': {}"), 400, "stop is object"},
    {CHAT(", 'logit_bias': {'x': 1}"), 400, "logit_bias: \"x\""},
    {CHAT(", 'logit_bias': {'1600': 1}"), 400, "1600"},
    {CHAT(", 'top_logprobs': 2"), 400, "requires"},
    {CHAT(", 'logprobs': true, 'top_logprobs': 21"), 400,
     "top_logprobs is 21, expected an integer 0..20"},
    {CHAT(", 'tools': {}"), 400, "tools is object"},
    {CHAT(", 'tool_choice': 'required'"), 400, "tool_choice: "},
    {"POST", "/v1/completions", "{}", 400, "prompt is missing"},
    {"POST", "/v1/completions", "{'prompt': ''}", 400, "prompt is empty"},
    {"POST", "/v1/completions", "{'prompt': ['a', 3]}", 400,
     "prompt is integer, expected a string or token IDs"},
    {"POST", "/v1/completions", "{'prompt': ['a', 'b'], 'n': 65}", 400,
     "n is 65 for 2 prompts, expected at most 128 answers in total"},
    {TEXT(", 'best_of': 2"), 400, "best_of: "},
    {TEXT(", 'lora': [{'id': 0, 'scale': 1}]"), 400,
     "lora[0]: the server has no adapters (--adapter)"},
    {"POST", "/v1/chat/completions",
     "{'messages': [{'role': 'user', 'content': 'a'}], 'lora': [{'id': 0}]}", 400,
     "lora[0]: expected an object with id and scale"},
    {TEXT(", 'lora': 1"), 400, "lora is integer, expected an array"},
    {"POST", "/lora-adapters", "[]", 501, "scales of adapters are set by each request"},
    {"POST", "/v1/completions", "{'prompt': [1600]}", 400, "token ID 1600"},
    {"POST", "/v1/completions", "{'prompt': [1, 'a']}", 400, "prompt: "},
    {TEXT(", 'echo': 'yes'"), 400, "echo is "},
    {TEXT(", 'max_tokens': 0"), 400, "max_tokens is 0"},
    {TEXT(", 'echo': true, 'suffix': 'b'"), 400, "echo and suffix cannot be combined"},
    {TEXT(", 'suffix': 'b'"), 400,
     "suffix: the tokenizer of tiny has no tokens for filling a gap (fill-in-the-middle)"},
    {"POST", "/infill", "{'input_prefix': 'a', 'input_suffix': 'b'}", 400,
     "/infill: the tokenizer of tiny has no tokens for filling a gap"},
    {OLLAMA(", 'format': 'xml'"), 400, "format: "},
    {"POST", "/api/generate", "{'prompt': 'a', 'format': {'type': 'strin'}}", 400,
     "format: #/type: expected null"},
    {OLLAMA(", 'options': 1"), 400, "options is integer"},
    {OLLAMA(", 'options': {'min_p': -1}"), 400, "options: min_p is -1"},
    {OLLAMA(", 'think': 1"), 400, "think is integer"},
    {OLLAMA(", 'think': true"), 400, "\"tiny\" does not support thinking"},
    {"POST", "/api/generate", "{'prompt': 'a', 'think': 'high'}", 400,
     "\"tiny\" does not support thinking"},
    {"POST", "/api/chat", "{'messages': [{'role': 'user', 'content': 'a', 'images': ['x']}]}", 400,
     "images: "},
    {"POST", "/api/chat", "{'messages': {}}", 400, "expected an array of messages"},
    {"POST", "/api/chat", "{'messages': true}", 400, "expected an array of messages"},
    {"POST", "/api/generate", "{'prompt': 1}", 400, "prompt is integer, expected a string"},
    {"POST", "/api/generate", "{'prompt': 'a', 'images': ['x']}", 400, "images: "},
    {"POST", "/api/generate", "{'prompt': 'a', 'context': [1]}", 400, "context: "},
    {"POST", "/api/generate", "{'prompt': 'a', 'raw': true, 'system': 'b'}", 400,
     "raw mode does not support"},
    {"POST", "/api/generate", "{'prompt': 'a', 'template': '{{ if }}'}", 400,
     "template: template:1: "},
};

TEST(test_refusals)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *q = &refusals[i];
        bool ollama = strncmp(q->path, "/api/", 5) == 0;
        struct http_reply r = server_request(&tiny_server, q->method, q->path, q->body);

        if (q->status == 405) assert_non_null(strstr(r.head, "\r\nAllow: "));
        struct sp_json *json = http_reply_json(r, q->status);
        const char *says = json_text(json, ollama ? "error" : "error.message");
        if (strstr(says, q->says) == NULL)
            fail_msg("%s %s: \"%s\", expected \"%s\"", q->path, q->body, says, q->says);
        if (!ollama) {
            assert_string_equal(json_text(json, "error.type"),
                                q->status < 500 ? "invalid_request_error" : "server_error");
        }
    }
}

/* OpenAI's codes, by which clients decide what to do. */
TEST(test_codes)
{
    static const char chat[] = "/v1/chat/completions";
    static const struct {
        const char *path, *body, *code, *param;
    } rows[] = {
        {chat, "{}", "missing_required_parameter", "messages"},
        {chat, "{'messages': 1}", "invalid_type", "messages"},
        {chat, "{'messages': []}", "empty_array", "messages"},
        {chat, "{'messages': [1]}", "invalid_type", "messages[0]"},
        {chat, "{'messages': [{'content': 'a'}]}", "missing_required_parameter",
         "messages[0].role"},
        {chat, "{" MESSAGES_AND ", {'role': 'usr', 'content': 'a'}]}", "invalid_value",
         "messages[1].role"},
        {chat, "{'messages': [{'role': 'user'}]}", "missing_required_parameter",
         "messages[0].content"},
        {chat, "{" MESSAGES ", 'tools': [{'function': {'name': 'f'}}]}", "unsupported_parameter",
         "tools"},
        {chat, "{" MESSAGES ", 'reasoning_effort': 'huge'}", "invalid_value", "reasoning_effort"},
        {chat, "{" MESSAGES ", 'temperature': 'hot'}", "invalid_type", "temperature"},
        {chat, "{" MESSAGES ", 'top_p': 2}", "invalid_value", "top_p"},
        {chat, "{" MESSAGES ", 'max_completion_tokens': 0}", "invalid_value",
         "max_completion_tokens"},
        {"/v1/responses", "{'input': 'a', 'max_output_tokens': 1.5}", "invalid_value",
         "max_output_tokens"},
        {"/v1/completions", "{}", "missing_required_parameter", "prompt"},
        {"/v1/responses", "{}", "missing_required_parameter", "input"},
        {"/v1/responses", "{'input': [{'role': 'usr', 'content': 'a'}]}", "invalid_value",
         "input[0].role"},
        {"/apply-template", "{}", "missing_required_parameter", "messages"},
    };
    static const char *const small[] = {"--num-ctx", "8", NULL};
    struct server s = server_start(served_file, small);

    struct sp_json *json =
        server_post(&s, "/v1/completions", "{'prompt': 'a b c d e f g h i j k'}", 400);
    assert_string_equal(json_text(json, "error.code"), "context_length_exceeded");
    server_await_log(&s, "POST /v1/completions 400: the prompt has ", 1);
    assert_int_equal(server_stop(&s), 0);
    json = server_post(&tiny_server, "/v1/completions", "{'model': 'gpt-4'}", 404);
    assert_string_equal(json_text(json, "error.code"), "model_not_found");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json = server_post(&tiny_server, rows[i].path, rows[i].body, 400);
        assert_string_equal(json_text(json, "error.code"), rows[i].code);
        assert_string_equal(json_text(json, "error.param"), rows[i].param);
    }
}

/* An error without a code names its member, too, with the path in it. */
TEST(test_members_of_errors)
{
    static const struct {
        const char *member, *param;
    } rows[] = {
        {"'stop': ''", "stop"},
        {"'n': 0", "n"},
        {"'logit_bias': {'x': 1}", "logit_bias"},
        {"'logit_bias': {'1600': 1}", "logit_bias"},
        {"'logit_bias': {'5': 101}", "logit_bias"},
        {"'logprobs': true, 'top_logprobs': 99", "top_logprobs"},
        {"'response_format': {'type': 'x'}", "response_format.type"},
        {"'min_tokens': -1", "min_tokens"},
        {"'tools': [{'type': 'function', 'function': {}}]", "tools[0]"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sp_json *json = server_post(&tiny_server, "/v1/chat/completions",
                                           keep_format("{" MESSAGES ", %s}", rows[i].member), 400);
        assert_string_equal(json_text(json, "error.param"), rows[i].param);
    }
    struct sp_json *json = server_post(&tiny_server, "/v1/chat/completions", "[]", 400);
    assert_int_equal(sp_json_kind(sp_json_get(sp_json_get(json, "error"), "param")), SP_JSON_NULL);
}

/* What turns reasoning off is accepted by models without it, and efforts are left out. */
TEST(test_no_reasoning)
{
    static const struct {
        const char *path, *body, *changes;
    } left_out[] = {
        {"/v1/chat/completions", "{" MESSAGES ", 'reasoning_effort': 'low', 'max_tokens': 1}",
         "\r\nX-Changes: reasoning_effort left out\r\n"},
        {"/v1/chat/completions", "{" MESSAGES ", 'reasoning_effort': 9, 'max_tokens': 1}",
         "\r\nX-Changes: reasoning_effort left out\r\n"},
        {"/v1/responses", "{'input': 'a', 'reasoning': {'effort': 'high'}, 'max_output_tokens': 1}",
         "\r\nX-Changes: effort left out\r\n"},
    };

    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        struct http_reply r =
            server_request(&tiny_server, "POST", left_out[i].path, left_out[i].body);
        assert_int_equal(r.status, 200);
        assert_non_null(strstr(r.head, left_out[i].changes));
    }
    served_post("/api/chat",
                "{" MESSAGES ", 'think': false, 'stream': false, 'options': {'num_predict': 1}}");
    served_post("/v1/chat/completions",
                "{" MESSAGES ", 'reasoning_effort': 'none', 'max_tokens': 1}");
    served_post("/v1/messages",
                "{" MESSAGES ", 'max_tokens': 1, 'thinking': {'type': 'disabled'}}");
}

/* A body of more than 16 MiB is refused, and JSON that needs more memory than a request may use. */
TEST(test_large)
{
    size_t size = (16 << 20) + 1;
    char *body = keep(malloc(size + 1));

    assert_non_null(body);
    memset(body, ' ', size);
    body[size] = '\0';
    server_post(&tiny_server, "/api/chat", body, 413);
    for (size_t i = 0; i + 3 <= size; i += 3)
        memcpy(body + i, "{},", 3);
    memcpy(body, "[  ", 3);
    strcpy(body + size - 4, "{}]");
    server_post(&tiny_server, "/api/chat", body, 400);
    memset(body, '[', 100);
    body[100] = '\0';
    server_post(&tiny_server, "/api/chat", body, 400);
}

/* Bytes that are not HTTP get an error or no response, and the server continues. */
TEST(test_malformed_requests)
{
    static const char *const bytes[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"mess",
    };

    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        int fd = client_connect(&tiny_server);

        client_send(fd, bytes[i], strlen(bytes[i]));
        shutdown(fd, SHUT_WR);
        struct http_reply r = client_receive(fd);
        assert_true(r.status == 0 || (r.status >= 400 && r.status < 506));
    }
    server_get(&tiny_server, "/%1b[2J%0aPOST", 404);
    server_await_log(&tiny_server, "GET /?[2J?POST 404: not found",
                     1); /* control characters do not reach a terminal */
    served_get("/health");
}

/* Sends a Host, which may be that of someone else and resolve to this machine. */
static void check_host(const struct server *s, const char *host, int status)
{
    char request[128];
    int fd = client_connect(s);

    snprintf(request, sizeof request, "GET /health HTTP/1.0\r\nHost: %s\r\n\r\n", host);
    client_send(fd, request, strlen(request));
    struct http_reply r = client_receive(fd);
    assert_int_equal(r.status, status);
    if (status == 403) assert_non_null(strstr(r.body, "start the server with --cors http://HOST"));
}

TEST(test_browsers)
{
    static const char *const options[] = {"--cors",  "http://first.example:81,http://app.example",
                                          "--cors",  "https://app.example",
                                          "--quiet", NULL};
    static const char origin[] = "Origin: http://app.example\r\n",
                      part[] = "Origin: http://app.exam\r\n",
                      other[] = "Origin: http://evil.example\r\n";
    struct server s = server_start(served_file, options);

    struct http_reply r = server_request_with(&s, origin, "OPTIONS", "/v1/chat/completions", NULL);
    assert_int_equal(r.status, 204);
    assert_non_null(strstr(r.head, "\r\nAccess-Control-Allow-Origin: http://app.example\r\n"));
    assert_non_null(
        strstr(r.head, "\r\nAccess-Control-Allow-Headers: Authorization, Content-Type, *\r\n"));
    r = server_request_with(&s, origin, "GET", "/health", NULL);
    assert_int_equal(r.status, 200);
    http_reply_json(server_request_with(&s, other, "GET", "/health", NULL), 403);
    http_reply_json(server_request_with(&s, part, "GET", "/health", NULL), 403);
    check_host(&s, "first.example", 200);
    check_host(&s, "APP.example:8080", 200);
    check_host(&s, "app.example.evil", 403);
    check_host(&s, "app.exam", 403);
    assert_int_equal(server_stop(&s), 0);
    s = server_start(served_file, (const char *const[]){"--cors", "*", "--quiet", NULL});
    check_host(&s, "evil.example", 200);
    assert_int_equal(server_stop(&s), 0);

    r = server_request(&tiny_server, "GET", "/health", NULL);
    assert_null(strstr(r.head, "Access-Control"));
    http_reply_json(server_request_with(&tiny_server, origin, "GET", "/health", NULL), 403);
    check_host(&tiny_server, "evil.example", 403);
}

GROUP_FIXTURE(served_setup, served_teardown);
