/* Tests that `spectool run --batch` answers requests of OpenAI's and Anthropic's APIs as `spectool
 * serve` does. */
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#define HELLO "{'role': 'user', 'content': 'Hello'}"
#define WEATHER                                                                                    \
    "{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object', "             \
    "'properties': {'a': {'enum': [1, 2]}}, 'required': ['a'], 'additionalProperties': false}}}"

/* A request and the members of its response that do not depend on time and caches. */
static const struct request {
    const char *url, *body;
    const char *members[3];
} requests[] = {
    {"/v1/chat/completions",
     "{'messages': [" HELLO "], 'max_tokens': 12}",
     {"choices", "usage.total_tokens"}},
    {"/v1/chat/completions",
     "{'messages': [{'role': 'system', 'content': 'Be kind.'}, " HELLO
     "], 'seed': 7, 'temperature': 1.1, 'n': 3, 'max_tokens': 12, 'logprobs': true, "
     "'top_logprobs': 2}",
     {"choices", "usage.total_tokens"}},
    {"/v1/chat/completions",
     "{'messages': [" HELLO "], 'response_format': {'type': 'json_schema', 'json_schema': {'name': "
     "'x', 'schema': {'enum': ['caf\\u00e9', 'tea']}}}}",
     {"choices"}},
    {"/v1/chat/completions",
     "{'messages': [" HELLO "], 'tools': [" WEATHER "], 'tool_choice': 'required'}",
     {"choices.0.message.tool_calls.0.function", "error"}},
    {"/v1/chat/completions", "{'messages': []}", {"error"}},
    {"/v1/chat/completions", "{'messages': [" HELLO "], 'top_p': 3}", {"error"}},
    {"/v1/completions",
     "{'prompt': ['Once upon a time', 'The duck'], 'max_tokens': 9, 'echo': false}",
     {"choices", "usage.total_tokens"}},
    {"/v1/completions",
     "{'prompt': [582, 580, 258, 421], 'max_tokens': 24, 'stop': [' the']}",
     {"choices"}},
    {"/v1/responses",
     "{'input': 'Hello', 'instructions': 'Be kind.', 'max_output_tokens': 16}",
     {"output.0.content", "status", "incomplete_details"}},
    {"/v1/responses", "{'input': 4}", {"error"}},
    {"/v1/messages",
     "{'messages': [" HELLO "], 'max_tokens': 12, 'stop_sequences': [',']}",
     {"content", "stop_reason", "stop_sequence"}},
    {"/v1/messages", "{'messages': [" HELLO "]}", {"error"}},
};

enum { N_REQUESTS = sizeof requests / sizeof *requests };

static bool is_anthropic(size_t i)
{
    return strcmp(requests[i].url, "/v1/messages") == 0;
}

static void write_lines(FILE *f)
{
    for (size_t i = 0; i < N_REQUESTS; i++) {
        const char *url = requests[i].url, *body = requests[i].body;
        char line[2048];
        if (is_anthropic(i)) {
            snprintf(line, sizeof line, "{'custom_id': '%zu', 'params': %s}", i, body);
        } else {
            snprintf(line, sizeof line,
                     "{'custom_id': '%zu', 'method': 'POST', 'url': '%s', 'body': %s}", i, url,
                     body);
        }
        fprintf(f, "%s\n", keep_quoted(line));
    }
}

static void assert_same_value(const struct sp_json *batch, const struct sp_json *served,
                              const char *member, size_t i)
{
    char *one = NULL, *other = NULL;

    one = keep_printed(json_at(batch, member));
    other = keep_printed(json_at(served, member));
    if (strcmp(one, other) != 0) fail_msg("request %zu: %s: %s, served %s", i, member, one, other);
}

/* Compares a line of the output with the response of the server. */
static void check_line(const struct sp_json *line, size_t i)
{
    struct http_reply reply =
        server_request(&tiny_server, "POST", requests[i].url, requests[i].body);
    int status = reply.status;
    struct sp_json *served = http_reply_json(reply, status);
    const struct sp_json *body = json_at(line, "response.body");

    const char *id = keep_format("%zu", i);
    assert_string_equal(json_text(line, "custom_id"), id);
    if (is_anthropic(i)) {
        assert_string_equal(json_text(line, "result.type"),
                            status == 200 ? "succeeded" : "errored");
        body = json_at(line, status == 200 ? "result.message" : "result.error");
    } else {
        assert_int_equal(json_number(line, "response.status_code"), status);
        assert_true(sp_json_has(line, "error") && sp_json_get(line, "error") == NULL);
        assert_non_null(json_text(line, "id"));
        assert_non_null(json_text(line, "response.request_id"));
    }
    assert_non_null(body);
    for (size_t m = 0; m < 3 && requests[i].members[m]; m++)
        assert_same_value(body, served, requests[i].members[m], i);
}

TEST(same_as_served)
{
    static const char *const counts[] = {"1", "5"};
    char lines[] = "/tmp/spectool-batch-XXXXXX", command[4096];
    int fd = mkstemp(lines);
    FILE *f = fdopen(fd, "w");
    char *line = NULL;
    size_t cap = 0;

    assert_non_null(f);
    write_lines(f);
    assert_int_equal(fclose(f), 0);
    for (size_t c = 0; c < 2; c++) {
        snprintf(command, sizeof command,
                 "%s run %s --batch --kv-type f32 --sessions %s <%s 2>/dev/null", SPECTOOL,
                 served_file, counts[c], lines);
        f = popen(command, "r");
        assert_non_null(f);
        for (size_t i = 0; i < N_REQUESTS; i++) {
            ssize_t size = getline(&line, &cap, f);
            assert_true(size > 0);
            check_line(keep_parsed(line, (size_t)size, SP_JSON_STRICT), i);
        }
        assert_true(getline(&line, &cap, f) < 0);
        assert_int_equal(pclose(f), 256); /* some lines have errors: status 1 */
    }
    free(line);
    remove(lines);
}

GROUP_FIXTURE(served_setup, served_teardown);
