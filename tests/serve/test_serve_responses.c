/* Tests OpenAI's Responses API of `spectool serve` against its reference
 * (https://platform.openai.com/docs/api-reference/responses): the items of a response, the events
 * of a stream, and refusals. */
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <signal.h>
#include <sys/socket.h>

static struct sp_json *parse(const char *text)
{
    return keep_parsed(text, strlen(text), SP_JSON_STRICT);
}

/* ---- answers ---- */

static void assert_begins(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)) != 0) fail_msg("%s does not begin with %s", text, with);
}

/* A response has the text of a chat completion, and all members that the reference requires. */
TEST(test_whole)
{
    struct sp_json *chat =
        served_post("/v1/chat/completions",
                    "{'messages': [{'role': 'user', 'content': 'What is 7 plus 8?'}], 'seed': 1}");
    struct sp_json *json =
        served_post("/v1/responses", "{'model': 'tiny', 'input': 'What is 7 plus 8?', 'seed': 1, "
                                     "'metadata': {'a': 'b'}, 'user': 'me'}");
    static const char *const nulls[] = {"error", "incomplete_details", "instructions",
                                        "max_output_tokens", "previous_response_id"};

    assert_begins(json_text(json, "id"), "resp_");
    json_expect(json, "{'object': 'response', 'status': 'completed', 'model': 'tiny'}");
    assert_int_equal(sp_json_len(json_at(json, "output")), 1);
    json_expect(json, "{'output.0.type': 'message', 'output.0.role': 'assistant', "
                      "'output.0.status': 'completed'}");
    assert_begins(json_text(json, "output.0.id"), "msg_");
    assert_string_equal(json_text(json, "output.0.content.0.type"), "output_text");
    assert_int_equal(sp_json_kind(json_at(json, "output.0.content.0.annotations")), SP_JSON_ARRAY);
    assert_string_equal(json_text(json, "output.0.content.0.text"),
                        json_text(chat, "choices.0.message.content"));
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
        assert_true(sp_json_has(json, nulls[i]));
        assert_null(sp_json_get(json, nulls[i]));
    }
    assert_string_equal(json_text(json, "tool_choice"), "auto");
    assert_int_equal(sp_json_kind(json_at(json, "tools")), SP_JSON_ARRAY);
    json_expect(
        json,
        "{'text.format.type': 'text', 'truncation': 'disabled', 'metadata.a': 'b', 'user': 'me'}");
    assert_int_equal(json_number(json, "usage.input_tokens"),
                     json_number(chat, "usage.prompt_tokens"));
    assert_int_equal(json_number(json, "usage.output_tokens"),
                     json_number(chat, "usage.completion_tokens"));
    assert_int_equal(json_number(json, "usage.total_tokens"),
                     json_number(chat, "usage.total_tokens"));
    /* The chat request cached all of the prompt but its last token, which this request reads. */
    assert_int_equal(json_number(json, "usage.input_tokens_details.cached_tokens"),
                     json_number(chat, "usage.prompt_tokens") - 1);
    assert_int_equal(json_number(json, "usage.output_tokens_details.reasoning_tokens"), 0);
}

TEST(test_incomplete)
{
    struct sp_json *json =
        served_post("/v1/responses",
                    "{'input': 'Tell me a story.', 'instructions': 'i', 'max_output_tokens': 3, "
                    "'text': {'format': {'type': 'json_object'}}, 'reasoning': {'effort': 'none'}, "
                    "'include': ['message.output_text.logprobs'], 'top_logprobs': 2}");

    json_expect(json, "{'status': 'incomplete', 'incomplete_details.reason': 'max_output_tokens', "
                      "'output.0.status': 'incomplete'}");
    assert_int_equal(json_text(json, "output.0.content.0.text")[0], '{');
    json_expect(json, "{'max_output_tokens': 3, 'instructions': 'i', 'text.format.type': "
                      "'json_object', 'reasoning.effort': 'none'}");
    assert_int_equal(sp_json_len(json_at(json, "output.0.content.0.logprobs")), 3);
    assert_int_equal(sp_json_len(json_at(json, "output.0.content.0.logprobs.2.top_logprobs")), 2);
}

TEST(test_schema)
{
    struct sp_json *json =
        served_post("/v1/responses", "{'input': 'Tell me a story.', 'text': {'format': {'type': "
                                     "'json_schema', 'name': 'a', 'schema': {'const': 'whale'}}}}");

    assert_string_equal(json_text(json, "output.0.content.0.text"), "\"whale\"");
}

/* ---- items ---- */

#define STORY                                                                                      \
    "'input': 'Tell me a story.', 'max_output_tokens': 31, 'tools': [{'type': 'function', "        \
    "'name': 'Finn', 'parameters': {'type': 'object', 'properties': {'a cave': {'type': "          \
    "'string'}}}}]"

static struct sp_json *request_story(const struct server *s, const char *more)
{
    return server_post(s, "/v1/responses", keep_format("{" STORY "%s}", more), 200);
}

static void check_items(const struct sp_json *json)
{
    assert_string_equal(json_text(json, "output.0.type"), "reasoning");
    assert_begins(json_text(json, "output.0.id"), "rs_");
    json_expect(json, "{'output.1.type': 'message', 'output.1.content.0.text': 'turtle', "
                      "'output.2.type': 'function_call'}");
    assert_begins(json_text(json, "output.2.id"), "fc_");
    assert_int_equal(strlen(json_text(json, "output.2.call_id")), 9);
    assert_string_equal(json_text(json, "output.2.name"), "Finn");
    assert_string_equal(json_text(json, "output.2.arguments"), "{\"a cave\": \"the sea\"}");
    json_expect(json, "{'output.2.status': 'completed', 'output.3.type': 'message'}");
    assert_begins(json_text(json, "output.3.content.0.text"), "named Maya.");
}

/* Items have the order in which they were generated, with reasoning if it was requested. */
TEST(test_items)
{
    struct server s = server_start(served_pack(served_tool_template), NULL);
    struct sp_json *json = request_story(&s, "");

    check_items(json);
    json_expect(
        json,
        "{'output.0.content.0.type': 'reasoning_text', 'output.0.content.0.text': 'was once'}");
    assert_int_equal(sp_json_len(json_at(json, "output.0.summary")), 0);
    assert_null(json_at(json, "output.0.encrypted_content"));
    /* "was", "once" and the words of the tags. */
    assert_in_range(json_number(json, "usage.output_tokens_details.reasoning_tokens"), 2, 8);

    json = request_story(
        &s, ", 'reasoning': {'summary': 'auto'}, 'include': ['reasoning.encrypted_content']");
    check_items(json);
    json_expect(
        json, "{'output.0.summary.0.type': 'summary_text', 'output.0.summary.0.text': 'was once'}");
    assert_int_equal(sp_json_len(json_at(json, "output.0.content")), 0);
    assert_string_equal(json_text(json, "output.0.encrypted_content"), "spectool:was once");
}

/* ---- streams ---- */

/* Returns the names of a stream's events, each with its own sequence number; repeated neighbors
 * are omitted. *last: the JSON of the last event. */
static char *event_names(const struct http_reply *r, struct sp_json **last)
{
    char *copy = keep(malloc(r->size + 1)), *names = keep(calloc(1, r->size + 1)), *rest = NULL;
    const char *before = "";
    int64_t n = 0;

    assert_non_null(copy);
    assert_non_null(names);
    memcpy(copy, r->body, r->size + 1);
    *last = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        assert_begins(line, "event: ");
        if (strcmp(line + 7, before) != 0) strcat(strcat(names, line + 7), "\n");
        before = line + 7;
        line = strtok_r(NULL, "\n", &rest);
        assert_non_null(line);
        assert_begins(line, "data: ");
        *last = parse(line + 6);
        assert_string_equal(json_text(*last, "type"), before);
        assert_int_equal(json_number(*last, "sequence_number"), n++);
    }
    return names;
}

#define MESSAGE_EVENTS                                                                             \
    "response.output_item.added\nresponse.content_part.added\nresponse.output_text.delta\n"        \
    "response.output_text.done\nresponse.content_part.done\nresponse.output_item.done\n"
#define STORY_EVENTS(thought)                                                                      \
    "response.created\nresponse.in_progress\n"                                                     \
    "response.output_item.added\n" thought "response.output_item.done\n" MESSAGE_EVENTS            \
    "response.output_item.added\nresponse.function_call_arguments.delta\n"                         \
    "response.function_call_arguments.done\nresponse.output_item.done\n" MESSAGE_EVENTS            \
    "response.incomplete\n"

static void check_stream(const struct server *s, const char *more, const char *wanted)
{
    struct sp_json *whole = request_story(s, more), *last;
    char body[1024], *names, *text, *joined;
    size_t n;

    snprintf(body, sizeof body, "{" STORY ", 'stream': true%s}", more);
    struct http_reply r = server_request(s, "POST", "/v1/responses", body);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
    names = event_names(&r, &last);
    assert_string_equal(names, wanted);
    check_items(json_at(last, "response"));
    json_expect(last,
                "{'response.status': 'incomplete', 'response.output.3.status': 'incomplete'}");
    assert_int_equal(json_number(last, "response.usage.output_tokens"),
                     json_number(whole, "usage.output_tokens"));
    /* Reasoning, content, arguments, content. */
    joined = stream_text(&r, "delta", &n);
    text = keep(calloc(1, 1 << 10));
    assert_non_null(text);
    strcat(strcat(strcat(text, "was once"), "turtle"), "{\"a cave\": \"the sea\"}");
    strcat(text, json_text(whole, "output.3.content.0.text"));
    assert_string_equal(joined, text);
}

TEST(test_stream)
{
    struct server s = server_start(served_pack(served_tool_template), NULL);

    check_stream(&s, "",
                 STORY_EVENTS("response.content_part.added\nresponse.reasoning_text.delta\n"
                              "response.reasoning_text.done\nresponse.content_part.done\n"));
    check_stream(&s, ", 'reasoning': {'summary': 'detailed'}",
                 STORY_EVENTS("response.reasoning_summary_part.added\n"
                              "response.reasoning_summary_text.delta\n"
                              "response.reasoning_summary_text.done\n"
                              "response.reasoning_summary_part.done\n"));
}

/* Log-probabilities accompany the text, in parts and as a whole. */
TEST(test_stream_logprobs)
{
    struct http_reply r = server_request(&tiny_server, "POST", "/v1/responses",
                                         "{'input': 'What is 7 plus 8?', 'stream': true, "
                                         "'include': ['message.output_text.logprobs']}");
    struct sp_json *last;
    char *names = event_names(&r, &last), text[256] = "";
    const struct sp_json *all = json_at(last, "response.output.0.content.0.logprobs");
    size_t n;

    assert_string_equal(names, "response.created\nresponse.in_progress\n" MESSAGE_EVENTS
                               "response.completed\n");
    for (size_t i = 0; i < sp_json_len(all); i++)
        strcat(text, json_text(sp_json_at(all, i), "token"));
    assert_string_equal(text, json_text(last, "response.output.0.content.0.text"));
    stream_text(&r, "logprobs.0.token", &n);
    assert_true(n > 2);
}

/* A response that the server's shutdown cuts off: in its text, or in the reading of its prompt. */
TEST(test_failed)
{
    const char *const options[] = {SERVED_SLOW_OPTIONS, "--shutdown-timeout", "0", NULL};
    char body[8192], head[64];
    struct sp_json *last;

    for (int words = 1; words <= 1000; words += 999) {
        struct server s = server_start(served_file, options);
        int n = snprintf(body, sizeof body, "{'input': '");
        for (int i = 0; i < words; i++)
            n += snprintf(body + n, sizeof body - (size_t)n, "story ");
        snprintf(body + n, sizeof body - (size_t)n,
                 "', 'stream': true, 'text': {'format': {'type': 'json_schema', "
                 "'schema': {'type': 'string', 'minLength': 100000}}}}");
        int fd = server_begin_request(&s, "/v1/responses", body);

        /* Peeks at the beginning of the response, which is read again with the rest. */
        assert_true(recv(fd, head, sizeof head, MSG_PEEK) > 0);
        kill(s.pid, SIGTERM);
        struct http_reply r = client_receive(fd);
        assert_int_equal(server_wait(&s), 0);
        assert_int_equal(r.status, 200);
        char *names = event_names(&r, &last);
        assert_begins(names, "response.created\nresponse.in_progress\n");
        json_expect(last, "{'type': 'response.failed', 'response.status': 'failed', "
                          "'response.error.message': 'the server is shutting down'}");
    }
}

/* ---- refusals ---- */

TEST(test_refusals)
{
    static const struct {
        const char *body, *sentence;
    } all[] = {
        {"'previous_response_id': 'resp_1'", "previous_response_id: responses are not stored"},
        {"'conversation': 'c'", "conversation: responses are not stored"},
        {"'background': true", "background: "},
        {"'prompt': {'id': 'p'}", "prompt: stored prompts are not supported"},
        {"'truncation': 'auto'", "truncation: not supported"},
        {"'max_output_tokens': 0", "max_output_tokens is 0"},
        {"'temperature': -1", "temperature is -1"},
        {"'stream': 1", "stream is 1"},
        {"'reasoning': 'low'", "reasoning is string, expected an object"},
        {"'reasoning': {'effort': -1}", "reasoning: effort is negative"},
        {"'reasoning': {'effort': []}", "reasoning: effort is array"},
        {"'reasoning': {'summary': 'concise'}", "reasoning.summary: expected"},
        {"'reasoning': {'mode': 'pro'}", "reasoning: mode: "},
        {"'text': {'verbosity': 'high'}", "text: verbosity: "},
        {"'text': {'format': {'type': 'json_schema'}}", "text.format.schema is missing"},
        {"'text': {'format': {'type': 'grammar'}}", "text.format.type: expected text"},
        {"'include': 'x'", "include is string, expected an array"},
        {"'include': ['file_search_call.results']", "include[0]: expected message.output_text"},
        {"'top_logprobs': 2", "top_logprobs requires"},
        {"'metadata': [1]", "metadata is array, expected an object"},
        {"'user': 3", "user is 3, expected a string"},
        {"'prompt_cache_key': {}", "prompt_cache_key is "},
        {"'safety_identifier': true", "safety_identifier is true"},
        {"'max_tool_calls': 0", "max_tool_calls is 0, expected an integer 1.."},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sp_json *json = server_post(&tiny_server, "/v1/responses",
                                           keep_format("{'input': 'a', %s}", all[i].body), 400);
        assert_begins(json_text(json, "error.message"), all[i].sentence);
    }
}

GROUP_FIXTURE(served_setup, served_teardown);
