/* Tests errors of Anthropic's Messages API that clients look for, the members that have no effect,
 * and its lists of models; test_serve_refusals.c has the other errors. */
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#define ROOMY "{'max_tokens': 200, 'messages': [{'role': 'user', 'content': 'Tell me a story.'}]}"
#define HI "'max_tokens': 4, 'messages': [{'role': 'user', 'content': 'Hi'}]"

/* Client libraries that keep conversations on the server look for this code and continue without
 * that feature. */
TEST(test_thread)
{
    struct sp_json *json =
        server_post(&tiny_server, "/v1/messages", "{" HI ", 'thread': {'type': 'create'}}", 400);

    json_expect(json, "{'error.type': 'invalid_request_error', 'error.details.error_code': "
                      "'thread_unsupported_request'}");
}

/* Members that are hints or concern another server have no effect. */
TEST(test_hints)
{
    struct sp_json *json = served_post(
        "/v1/messages",
        "{" HI ", 'metadata': {'user_id': 'u'}, 'service_tier': 'auto', 'cache_control': {'type': "
        "'ephemeral'}, 'mcp_servers': [], 'container': null, 'context_management': "
        "{'edits': [{'type': 'clear_thinking_20251015', 'keep': 'all'}]}, 'inference_geo': "
        "'eu', 'output_config': {'effort': 'high'}}");

    assert_int_equal(json_number(json, "usage.output_tokens"), 4);
}

/* Clients recognize by this sentence that a conversation must be shortened. */
TEST(test_too_long)
{
    struct server s = server_start(served_file, (const char *const[]){"--num-ctx", "16", NULL});
    struct sp_json *json = server_post(&s, "/v1/messages", ROOMY, 200);

    assert_string_equal(json_text(json, "stop_reason"), "model_context_window_exceeded");
    json = server_post(&s, "/v1/messages",
                       "{'max_tokens': 4, 'messages': [{'role': 'user', 'content': 'Tell me a "
                       "story about a lonely owl.'}]}",
                       400);
    assert_int_equal(strncmp(json_text(json, "error.message"), "prompt is too long: ", 20), 0);
}

/* OpenAI's paths respond in Anthropic's format to requests with its header. */
TEST(test_models)
{
    static const char header[] = "anthropic-version: 2023-06-01\r\n";
    struct sp_json *json =
        http_reply_json(server_request_with(&tiny_server, header, "GET", "/v1/models", NULL), 200);

    json_expect(json,
                "{'data.0.id': 'tiny', 'data.0.type': 'model', 'data.0.display_name': 'tiny'}");
    assert_int_equal(strlen(json_text(json, "data.0.created_at")), 27);
    json_expect(json, "{'first_id': 'tiny', 'last_id': 'tiny'}");
    json = http_reply_json(
        server_request_with(&tiny_server, header, "GET", "/v1/models/tiny", NULL), 200);
    assert_string_equal(json_text(json, "id"), "tiny");
    json = http_reply_json(
        server_request_with(&tiny_server, header, "GET", "/v1/models/other", NULL), 404);
    assert_string_equal(json_text(json, "error.type"), "not_found_error");
}

GROUP_FIXTURE(served_setup, served_teardown);
