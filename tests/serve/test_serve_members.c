/* Tests that a null member of a request is the same as no member, and that the response and the log
 * name the members that have no effect. */
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#define MESSAGES                                                                                   \
    "'messages': [{'role': 'user', 'content': 'Hi', 'name': null, 'tool_calls': null, 'refusal': " \
    "null, 'images': null}]"

/* Members that a client may send as null, with blanks between them. */
static const struct {
    const char *path, *body, *nulls;
} rows[] = {
    {"/v1/chat/completions", MESSAGES ", 'max_tokens': 1",
     "model frequency_penalty presence_penalty logit_bias logprobs top_logprobs "
     "max_completion_tokens n response_format seed stop stream stream_options temperature top_p "
     "tools tool_choice parallel_tool_calls user reasoning_effort store metadata modalities audio "
     "prediction service_tier functions function_call verbosity web_search_options "
     "safety_identifier prompt_cache_key top_k min_p chat_template_kwargs continue_final_message "
     "add_generation_prompt grammar json_schema thinking_budget_tokens thinking_token_budget "
     "dry_sequence_breakers draft_num_predict keep_alive echo ignore_eos"},
    {"/v1/chat/completions",
     MESSAGES ", 'max_tokens': 1, 'stream_options': {'include_usage': null, 'include_drafted': "
              "null}, 'response_format': {'type': 'json_object', 'schema': null}",
     "stream"},
    {"/v1/completions", "'prompt': 'a', 'max_tokens': 1",
     "best_of echo frequency_penalty logit_bias logprobs n presence_penalty seed stop stream "
     "stream_options suffix temperature top_p user"},
    {"/v1/responses", "'input': 'a', 'max_output_tokens': 1",
     "background include instructions max_tool_calls metadata model parallel_tool_calls "
     "previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier store "
     "stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user "
     "conversation context_management moderation"},
    {"/v1/responses",
     "'input': [{'type': 'message', 'role': 'user', 'id': null, 'status': null, 'content': "
     "[{'type': 'input_text', 'text': 'a', 'annotations': null}]}], 'max_output_tokens': 1, "
     "'reasoning': {'effort': null, 'summary': null}, 'text': {'format': null, 'verbosity': null}",
     "store"},
    {"/v1/messages", MESSAGES ", 'max_tokens': 1",
     "container context_management mcp_servers metadata output_config output_format service_tier "
     "stop_sequences stream system temperature thinking tool_choice tools top_k top_p "
     "cache_control thread"},
    {"/v1/messages",
     MESSAGES
     ", 'max_tokens': 1, 'output_config': {'effort': null, 'format': null}, 'context_management': "
     "{'edits': null}, 'thinking': {'type': 'disabled', 'budget_tokens': null, 'display': null}, "
     "'tool_choice': {'type': 'auto', 'disable_parallel_tool_use': null}",
     "stream"},
    {"/api/chat",
     MESSAGES ", 'stream': false, 'options': {'num_predict': 1, 'temperature': null, 'stop': null, "
              "'seed': null, 'num_ctx': null, 'mirostat': null}",
     "format think tools keep_alive logprobs top_logprobs"},
    {"/api/generate", "'prompt': 'a', 'options': {'num_predict': 1}",
     "stream suffix system template context raw format think images keep_alive"},
};

TEST(test_nulls)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[4096];
        size_t len = (size_t)snprintf(body, sizeof body, "{%s", rows[i].body), n;

        for (const char *name = rows[i].nulls; *name; name += n + (name[n] == ' ')) {
            n = strcspn(name, " ");
            len += (size_t)snprintf(body + len, sizeof body - len, ", '%.*s': null", (int)n, name);
        }
        snprintf(body + len, sizeof body - len, "}");
        struct http_reply r = server_request(&tiny_server, "POST", rows[i].path, body);
        if (r.status != 200) fail_msg("%s: %s", rows[i].path, r.body);
        assert_null(strstr(r.head, "X-Ignored-Members"));
    }
}

static void check_header(const struct server *s, const char *path, const char *body,
                         const char *header)
{
    struct http_reply r = server_request(s, "POST", path, body);

    if (r.status != 200) fail_msg("%s: %s", path, r.body);
    if (strstr(r.head, keep_format("\r\n%s\r\n", header)) == NULL)
        fail_msg("%s: expected %s in %s", path, header, r.head);
}

static void check_ignored(const struct server *s, const char *path, const char *body,
                          const char *names)
{
    check_header(s, path, body, keep_format("X-Ignored-Members: %s", names));
}

/* A schema that cannot be enforced is relaxed where it need not be strict. */
TEST(test_relaxed_schemas)
{
    check_header(&tiny_server, "/v1/chat/completions",
                 "{" MESSAGES
                 ", \"max_tokens\": 1, \"response_format\": {\"type\": \"json_schema\", "
                 "\"json_schema\": {\"schema\": {\"type\": \"array\", \"uniqueItems\": true}}}}",
                 "X-Changes: relaxed response_format.json_schema.schema: #/uniqueItems: only "
                 "supported for an enum of at most 10 values");
}

TEST(test_compressed_bodies)
{
    struct http_reply r = server_request_with(&tiny_server, "Content-Encoding: gzip\r\n", "POST",
                                              "/v1/completions", "{\"prompt\": \"a\"}");

    assert_non_null(strstr(r.body, "Content-Encoding is gzip, expected none"));
    assert_int_equal(r.status, 415);
}

#define MANY                                                                                       \
    "{\"type\": \"a123456789012345678901234567890\"}, "                                            \
    "{\"type\": \"b123456789012345678901234567890\"}, "                                            \
    "{\"type\": \"c123456789012345678901234567890\"}, "

/* Tools that cannot be offered are left out, and named. */
TEST(test_tools_of_other_types)
{
    check_header(&tiny_server, "/v1/responses",
                 "{\"input\": [{\"type\": \"additional_tools\", \"tools\": []}, {\"role\": "
                 "\"user\", \"content\": \"a\"}], \"max_output_tokens\": 1, \"store\": true, "
                 "\"tools\": [{\"type\": \"web_search\"}, {\"type\": \"namespace\", \"name\": "
                 "\"mcp\", \"tools\": []}]}",
                 "X-Changes: tool web_search left out, tool namespace left out, "
                 "tool additional_tools left out");
    check_header(&tiny_server, "/v1/chat/completions",
                 "{" MESSAGES ", \"max_tokens\": 1, \"stream\": true, \"tools\": "
                 "[{\"type\": \"custom\"}]}",
                 "X-Changes: tool custom left out");
    check_header(&tiny_server, "/v1/messages",
                 "{" MESSAGES ", \"max_tokens\": 1, \"tools\": [{\"type\": "
                 "\"web_search_20250305\", \"name\": \"web_search\"}]}",
                 "X-Changes: tool web_search_20250305 left out");
    /* What does not fit is left out, and said to be. */
    check_header(&tiny_server, "/v1/chat/completions",
                 "{" MESSAGES ", \"max_tokens\": 1, \"tools\": [" MANY MANY
                 "{\"type\": \"last\"}]}",
                 "X-Changes: tool a123456789012345678901234567890 left out, "
                 "tool b123456789012345678901234567890 left out, "
                 "tool c123456789012345678901234567890 left out, "
                 "tool a123456789012345678901234567890 left out, "
                 "tool b123456789012345678901234567890 left out, ...");
}

TEST(test_unknown)
{
    static const char chat[] =
        "{" MESSAGES
        ", 'max_tokens': 1, 'stream': %s, 'verbosity': 'low', 'user': 'u', 'top_a\\r': 0.2}";
    struct server s =
        server_start(served_file, (const char *const[]){"--log-format", "json", NULL});
    char body[1024];

    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body, chat, i ? "true" : "false");
        check_ignored(&tiny_server, "/v1/chat/completions", body, "verbosity, top_a?");
        check_ignored(&s, "/v1/chat/completions", body, "verbosity, top_a?");
    }
    server_await_log(&tiny_server, ", length, ignored: verbosity, top_a?", 2);
    server_await_log(&s, "\"stop\": \"length\", \"ignored\": \"verbosity, top_a?\"}", 2);
    check_ignored(&tiny_server, "/v1/responses",
                  "{'input': 'a', 'max_output_tokens': 1, 'stop': 'x'}", "stop");
    check_ignored(&tiny_server, "/v1/messages",
                  "{" MESSAGES ", 'max_tokens': 1, 'min_p': 0.1, 'n': 1}", "min_p, n");
    check_ignored(&tiny_server, "/api/chat",
                  "{" MESSAGES
                  ", 'shift': true, 'options': {'num_predict': 1, 'num_ctx': 99, 'mirostat': 2}}",
                  "shift, options.mirostat");
    /* Names beyond the length of the header are cut off. */
    memset(body, 'x', 900);
    snprintf(body + 900, sizeof body - 900, "': 1, 'prompt': 'a', 'max_tokens': 1}");
    memcpy(body, "{'", 2);
    check_ignored(&tiny_server, "/v1/completions", body, "...");
}

GROUP_FIXTURE(served_setup, served_teardown);
