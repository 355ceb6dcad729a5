/* Tests the errors of Anthropic's Messages API, with the format and types of its reference
 * (https://platform.claude.com/docs/en/api/errors), the members that have no effect, and its lists
 * of models. */
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#define ROOMY "{'max_tokens': 200, 'messages': [{'role': 'user', 'content': 'Tell me a story.'}]}"
#define HI "'max_tokens': 4, 'messages': [{'role': 'user', 'content': 'Hi'}]"

/* A request with more members, which is refused. */
#define REFUSED(members, says)                                                                     \
    "POST", "/v1/messages", "{" HI members "}", 400, "invalid_request_error", says

TEST(test_errors)
{
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *type, *says;
    } all[] = {
        {"POST", "/v1/messages", "{", 400, "invalid_request_error", "not valid JSON"},
        {"POST", "/v1/messages", "{" HI ", 'model': 'claude'}", 404, "not_found_error",
         "model 'claude' not found, this server has 'tiny'"},
        {"GET", "/v1/messages", NULL, 405, "invalid_request_error", "method not allowed"},
        {"POST", "/v1/messages/batches", "{}", 501, "api_error", "/v1/messages/batches is not"},
        {"POST", "/v1/messages/other", "{}", 404, "not_found_error", "not found"},
        {"POST", "/v1/messages", "{'messages': []}", 400, "invalid_request_error",
         "max_tokens is missing, expected a number"},
        {"POST", "/v1/messages", "{'max_tokens': 0}", 400, "invalid_request_error",
         "max_tokens is 0, expected 1 or more"},
        {"POST", "/v1/messages", "{'max_tokens': '9'}", 400, "invalid_request_error",
         "max_tokens is string, expected number"},
        {REFUSED(", 'temperature': -1", "temperature is -1")},
        {REFUSED(", 'stop_sequences': ['']", "stop_sequences: stop is empty")},
        {REFUSED(", 'mcp_servers': [{}]", "mcp_servers: ")},
        {REFUSED(", 'container': 'c'", "container: ")},
        {REFUSED(", 'context_management': {'edits': [{'type': 'clear_tool_uses_20250919'}]}",
                 "context_management: clear_tool_uses_20250919: ")},
        {REFUSED(", 'context_management': []", "context_management is array, expected an object")},
        {REFUSED(", 'context_management': {'edits': {}}",
                 "context_management.edits is object, expected an array")},
        {REFUSED(", 'output_config': 'high'", "output_config is string, expected an object")},
        {REFUSED(", 'output_config': {'effort': 'huge'}",
                 "output_config.effort is huge, expected low, medium, high, xhigh or max")},
        {REFUSED(", 'output_config': {'effort': 3}", "output_config.effort is integer")},
        {REFUSED(", 'thinking': {'type': 'between_tools'}", "thinking.type is between_tools")},
        {REFUSED(", 'stop_sequences': 'owl'", "stop_sequences is string, expected an array")},
        {REFUSED(", 'thinking': {'type': 'disabled', 'display': 3}",
                 "thinking: display is 3, expected a string")},
        {REFUSED(", 'thinking': {'type': 'enabled', 'budget_tokens': 0}",
                 "thinking.budget_tokens is 0, expected 1 or more")},
        {REFUSED(", 'thinking': {'type': 'adaptive', 'budget_tokens': 9}",
                 "thinking.budget_tokens requires")},
        {REFUSED(", 'tools': {}", "tools is object, expected an array")},
        {REFUSED(", 'tools': [{'name': 'f'}]",
                 "tools[0]: input_schema is missing, expected an object")},
        {REFUSED(", 'tools': [{'name': 'f', 'input_schema': {}, 'defer_loading': true}]",
                 "tools[0]: defer_loading: ")},
        {REFUSED(", 'tool_choice': {'type': 'any'}", "tool_choice: the request has no tools")},
        {REFUSED(", 'tool_choice': 'any'", "tool_choice.type: expected auto, any, tool or none")},
        {"POST", "/v1/messages/count_tokens",
         "{'messages': [{'role': 'user', 'content': [{'type': 'image'}]}]}", 400,
         "invalid_request_error",
         "messages[0]: content[0]: content of type image is not supported"},
        {"POST", "/v1/messages",
         "{'max_tokens': 4, 'output_config': {'format': {'type': 'json_schema', 'schema': {}}}, "
         "'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]}",
         400, "invalid_request_error", "output_config cannot be combined with a partial answer"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sp_json *json = http_reply_json(
            server_request(&tiny_server, all[i].method, all[i].path, all[i].body), all[i].status);
        assert_string_equal(json_text(json, "type"), "error");
        assert_string_equal(json_text(json, "error.type"), all[i].type);
        if (strstr(json_text(json, "error.message"), all[i].says) == NULL) {
            fail_msg("%s: \"%s\", expected \"%s\"", all[i].body, json_text(json, "error.message"),
                     all[i].says);
        }
    }
}

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
