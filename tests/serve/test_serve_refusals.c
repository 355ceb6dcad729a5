/* Tests which requests `spectool serve` refuses, and with which error. */
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <sys/socket.h>

#define MESSAGES "'messages': [{'role': 'user', 'content': 'Hi'}]"

/* A request of refusals.jsonl: its status, and what is stated of the error: a part of its message,
 * OpenAI's code, by which clients decide what to do, and the member that it names; and the type of
 * Anthropic's errors (https://platform.claude.com/docs/en/api/errors). */
static void check_refusal(const struct sp_json *line)
{
    const char *method = sp_json_get_text(line, "request"), *path = strchr(method, ' ') + 1;
    const char *body = sp_json_get_text(line, "body"), *says = sp_json_get_text(line, "says");
    const char *type = sp_json_get_text(line, "type");
    bool ollama = strncmp(path, "/api/", 5) == 0;
    int status = (int)json_number(line, "status");
    struct http_reply r = server_request(
        &tiny_server, keep_format("%.*s", (int)(path - method - 1), method), path, body);

    if (status == 405) assert_non_null(strstr(r.head, "\r\nAllow: "));
    const struct sp_json *json = http_reply_json(r, status);
    const char *said = json_text(json, ollama ? "error" : "error.message");
    if (says && strstr(said, says) == NULL)
        fail_msg("%s %s: \"%s\", expected \"%s\"", path, body, said, says);
    if (type) assert_string_equal(json_text(json, "type"), "error");
    if (!ollama) {
        if (type == NULL) type = status < 500 ? "invalid_request_error" : "server_error";
        assert_string_equal(json_text(json, "error.type"), type);
    }
    if (sp_json_get_text(line, "code"))
        assert_string_equal(json_text(json, "error.code"), sp_json_get_text(line, "code"));
    if (sp_json_get_text(line, "param"))
        assert_string_equal(json_text(json, "error.param"), sp_json_get_text(line, "param"));
}

TEST(test_refusals)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/serve/refusals.jsonl");
    size_t n = 0;

    for (; line[n]; n++)
        check_refusal(line[n]);
    assert_int_equal(n, 161);
}

TEST(test_codes)
{
    static const char *const small[] = {"--num-ctx", "8", NULL};
    struct server s = server_start(served_file, small);

    struct sp_json *json =
        server_post(&s, "/v1/completions", "{'prompt': 'a b c d e f g h i j k'}", 400);
    assert_string_equal(json_text(json, "error.code"), "context_length_exceeded");
    server_await_log(&s, "POST /v1/completions 400: the prompt has ", 1);
    assert_int_equal(server_stop(&s), 0);
    json = server_post(&tiny_server, "/v1/completions", "{'model': 'gpt-4'}", 404);
    assert_string_equal(json_text(json, "error.code"), "model_not_found");
    json = server_post(&tiny_server, "/v1/chat/completions", "[]", 400);
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
