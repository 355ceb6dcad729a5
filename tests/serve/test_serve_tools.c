/* Tests responses of `spectool serve` that are constrained to tool calls, and structured output
 * after reasoning: OpenAI's tool_choice, parallel_tool_calls and strict, as its API reference
 * describes them. */
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

/* The tags of Hermes and Qwen. The tiny model was not trained on them, so only the grammar makes it
 * write valid calls. */
static const char template_with_calls[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}\"\"\"\n";

#define REQUEST "{'messages': [{'role': 'user', 'content': 'Tell me a story.'}]"
#define PAINT(more)                                                                                \
    "{'type': 'function', 'function': {'name': 'paint', " more                                     \
    "'parameters': {'type': 'object', 'properties': {'colour': {'enum': ['red', 'blue']}, "        \
    "'coats': {'type': 'integer', 'minimum': 1, 'maximum': 3}}, 'required': ['colour', 'coats'], " \
    "'additionalProperties': false}}}"
#define WAIT "{'type': 'function', 'function': {'name': 'wait'}}"
#define ALLOWED(mode, name)                                                                        \
    ", 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': {'mode': '" mode                  \
    "', 'tools': [{'type': 'function', 'function': {'name': '" name "'}}]}}"
#define TOOLS ", 'tools': [" PAINT("") ", " WAIT "]"

/* Checks that the arguments match the schema of paint. */
static void assert_paints(const char *text)
{
    struct sp_json *arguments = NULL;
    int64_t coats = 0;
    const char *colour;

    assert_non_null(text);
    arguments = keep_parsed(text, strlen(text), SP_JSON_STRICT);
    colour = json_text(arguments, "colour");
    assert_true(strcmp(colour, "red") == 0 || strcmp(colour, "blue") == 0);
    assert_true(sp_json_to_i64(json_at(arguments, "coats"), &coats));
    assert_in_range(coats, 1, 3);
    assert_int_equal(sp_json_len(arguments), 2);
}

/* Checks that all calls are valid and that there are at least `least`. Returns their number. */
static size_t check_calls(const struct sp_json *json, size_t least)
{
    const struct sp_json *calls = json_at(json, "choices.0.message.tool_calls");

    for (size_t i = 0; i < sp_json_len(calls); i++) {
        const struct sp_json *call = sp_json_at(calls, i);
        if (strcmp(json_text(call, "function.name"), "wait") == 0) {
            const char *text = json_text(call, "function.arguments");
            assert_int_equal(sp_json_len(keep_parsed(text, strlen(text), SP_JSON_STRICT)), 0);
        } else {
            assert_string_equal(json_text(call, "function.name"), "paint");
            assert_paints(json_text(call, "function.arguments"));
        }
    }
    assert_true(sp_json_len(calls) >= least);
    return sp_json_len(calls);
}

static struct sp_json *request(const struct server *s, const char *body)
{
    return server_post(s, "/v1/chat/completions", body, 200);
}

TEST(test_choice)
{
    struct server s = server_start(served_pack(template_with_calls), NULL);
    static const char *const bodies[] = {
        REQUEST TOOLS ", 'max_tokens': 200, 'tool_choice': 'required'}",
        REQUEST TOOLS
        ", 'max_tokens': 200, 'tool_choice': 'required', 'temperature': 1.5, 'seed': 4}",
        REQUEST TOOLS ", 'tool_choice': 'required', 'parallel_tool_calls': false}",
        REQUEST TOOLS
        ", 'tool_choice': 'required', 'parallel_tool_calls': false, 'temperature': 2, 'seed': 1}",
        REQUEST TOOLS ", 'tool_choice': {'type': 'function', 'function': {'name': 'paint'}}}",
        REQUEST TOOLS ", 'tool_choice': {'type': 'function', 'function': {'name': 'wait'}}}",
    };
    struct sp_json *json;

    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        json = request(&s, bodies[i]);
        size_t n = check_calls(json, 1);
        if (i >= 2) {
            assert_int_equal(n, 1);
            assert_null(json_at(json, "choices.0.message.content"));
            assert_string_equal(json_text(json, "choices.0.finish_reason"), "tool_calls");
        }
        if (i >= 4) {
            assert_string_equal(json_text(json, "choices.0.message.tool_calls.0.function.name"),
                                i == 4 ? "paint" : "wait");
        }
    }
    /* A call that is cut off is a call, streamed or not. */
    json = request(&s, REQUEST TOOLS ", 'max_tokens': 70, 'tool_choice': {'type': 'function', "
                                     "'function': {'name': 'paint'}}}");
    assert_string_equal(json_text(json, "choices.0.finish_reason"), "length");
    assert_null(json_at(json, "choices.0.message.content"));
    assert_string_equal(json_text(json, "choices.0.message.tool_calls.0.function.name"), "paint");
    /* A schema that cannot be enforced is relaxed, for its tool alone. */
    struct http_reply r = server_request(
        &s, "POST", "/v1/chat/completions",
        REQUEST
        ", 'tool_choice': 'required', 'parallel_tool_calls': false, "
        "'tools': [" PAINT("") ", {'function': {'name': 'list', "
                               "'parameters': {'properties': {'a': {'uniqueItems': true}}}}}]}");
    assert_int_equal(r.status, 200);
    assert_non_null(
        strstr(r.head, "\r\nX-Changes: schema of list relaxed: #/properties/a/uniqueItems\r\n"));
    /* Without tool_choice the model, which was not trained on tools, writes its story. */
    json = request(&s, REQUEST TOOLS ", 'max_tokens': 8, 'tool_choice': 'none'}");
    assert_int_equal(check_calls(json, 0), 0);
    /* Content is unconstrained where a call may follow. A response format may take its place. */
    json = request(&s, REQUEST ", 'max_tokens': 8, 'tools': [" PAINT("'strict': true, ") "]}");
    assert_int_equal(check_calls(json, 0), 0);
    assert_true(strlen(json_text(json, "choices.0.message.content")) > 8);
    json = request(&s, REQUEST ", 'grammar': 'root ::= \\'There\\'', 'tools': [" PAINT(
                           "'strict': true, ") "]}");
    assert_string_equal(json_text(json, "choices.0.message.content"), "There");
}

/* Of the tools those are called that are allowed, whichever they are. */
TEST(test_allowed_tools)
{
    static const char *const bodies[] = {
        REQUEST TOOLS
        ", 'max_tokens': 200, 'temperature': 1.5, 'seed': 4" ALLOWED("required", "paint") "}",
        REQUEST TOOLS
        ", 'max_tokens': 200, 'temperature': 1.5, 'seed': 4" ALLOWED("required", "wait") "}",
    };
    struct server s = server_start(served_pack(template_with_calls), NULL);
    struct sp_json *json;

    for (size_t i = 0; i < 2; i++) {
        json = request(&s, bodies[i]);
        assert_true(check_calls(json, 1) >= 1);
        const struct sp_json *calls = json_at(json, "choices.0.message.tool_calls");
        for (size_t k = 0; k < sp_json_len(calls); k++) {
            assert_string_equal(json_text(sp_json_at(calls, k), "function.name"),
                                i == 0 ? "paint" : "wait");
        }
    }
    json = request(&s, REQUEST TOOLS ", 'max_tokens': 8" ALLOWED("auto", "wait") "}");
    assert_int_equal(check_calls(json, 0), 0);
}

/* A stream has the same call as the whole response. */
TEST(test_stream)
{
    struct server s = server_start(served_pack(template_with_calls), NULL);
    struct http_reply r = server_request(
        &s, "POST", "/v1/chat/completions",
        REQUEST TOOLS
        ", 'stream': true, 'tool_choice': {'type': 'function', 'function': {'name': 'paint'}}}");
    size_t n;

    assert_int_equal(r.status, 200);
    char *text = stream_text(&r, "choices.0.delta.tool_calls.0.function.name", &n);
    assert_string_equal(text, "paint");
    text = stream_text(&r, "choices.0.delta.tool_calls.0.function.arguments", &n);
    assert_paints(text);
    assert_true(n > 3); /* several events */
    text = stream_text(&r, "choices.0.delta.tool_calls.0.id", &n);
    assert_int_equal(strlen(text), 9);
    text = stream_text(&r, "choices.0.delta.content", &n);
    assert_string_equal(text, "");
}

/* In a stream of the Responses API the joined deltas equal the complete arguments. */
TEST(test_responses_stream)
{
    struct server s = server_start(served_pack(template_with_calls), NULL);
    struct http_reply r = server_request(
        &s, "POST", "/v1/responses",
        "{'input': 'Tell me a story.', 'stream': true, 'tools': [{'type': 'function', 'name': "
        "'paint', 'parameters': {'type': 'object', 'properties': {'colour': {'enum': ['red', "
        "'blue']}, 'coats': {'type': 'integer', 'minimum': 1, 'maximum': 3}}, 'required': "
        "['colour', 'coats'], 'additionalProperties': false}}], 'tool_choice': {'type': "
        "'function', 'name': 'paint'}}");
    size_t n;

    assert_int_equal(r.status, 200);
    char *deltas = stream_text(&r, "delta", &n);
    assert_paints(deltas);
    assert_true(n > 3); /* several events */
    char *text = stream_text(&r, "arguments", &n);
    assert_string_equal(text, deltas);
    text = stream_text(&r, "response.output.0.arguments", &n);
    assert_string_equal(text, deltas);
}

/* A turn of Claude Code as it is published: a system prompt in blocks, cached tools and a tool of
 * the server, results with a text after them, a system message, thinking, an effort. */
TEST(test_claude_code)
{
    static const char body[] =
        "'system': [{'type': 'text', 'text': 'You are an agent.', "
        "'cache_control': {'type': 'ephemeral', 'ttl': '1h'}}], 'messages': [{'role': 'user', "
        "'content': [{'type': 'text', 'text': '<system-reminder>a</system-reminder>'}, {'type': "
        "'text', 'text': 'Paint it.', 'cache_control': {'type': 'ephemeral'}}]}, {'role': "
        "'assistant', 'content': [{'type': 'thinking', 'thinking': 'Hm.', 'signature': 'x'}, "
        "{'type': 'tool_use', 'id': 'toolu_01A', 'name': 'Bash', 'input': {'command': 'ls'}}, "
        "{'type': 'tool_use', 'id': 'toolu_01B', 'name': 'Bash', 'input': {'command': 'a'}}]}, "
        "{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'toolu_01A', "
        "'content': 'a.py'}, {'type': 'tool_result', 'tool_use_id': 'toolu_01B', 'content': "
        "[{'type': 'text', 'text': 'no'}], 'is_error': true}, {'type': 'text', 'text': 'b'}]}, "
        "{'role': 'system', 'content': 'c'}], 'tools': [{'name': 'Bash', 'description': 'Runs.', "
        "'input_schema': {'$schema': 'https://json-schema.org/draft/2020-12/schema', 'type': "
        "'object', 'properties': {'command': {'enum': ['ls', 'cat']}, 'timeout': {'type': "
        "'integer', 'exclusiveMinimum': 0, 'maximum': 9}}, 'required': ['command'], "
        "'additionalProperties': false}, 'cache_control': {'type': 'ephemeral'}}, {'type': "
        "'web_search_20250305', 'name': 'web_search', 'max_uses': 8}]";
    static const char more[] =
        ", 'max_tokens': 200, 'metadata': {'user_id': 'a'}, 'stream': true, 'temperature': 1, "
        "'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'medium'}, "
        "'context_management': {'edits': [{'type': 'clear_thinking_20251015', 'keep': 'all'}]}, "
        "'tool_choice': {'type': 'tool', 'name': 'Bash', 'disable_parallel_tool_use': true}";
    struct server s = server_start(served_pack(template_with_calls), NULL);
    struct http_reply r =
        server_request(&s, "POST", "/v1/messages?beta=true", keep_format("{%s%s}", body, more));
    size_t n;

    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "tool web_search_20250305 left out"));
    assert_non_null(strstr(r.head, "thinking left out"));
    assert_non_null(strstr(r.head, "effort left out"));
    char *text = stream_text(&r, "content_block.name", &n);
    assert_string_equal(text, "Bash");
    text = stream_text(&r, "delta.partial_json", &n);
    assert_non_null(json_text(keep_parsed(text, strlen(text), SP_JSON_STRICT), "command"));
    text = stream_text(&r, "delta.stop_reason", &n);
    assert_string_equal(text, "tool_use");
    struct sp_json *json =
        server_post(&s, "/v1/messages/count_tokens?beta=true", keep_format("{%s}", body), 200);
    assert_true(json_number(json, "input_tokens") > 50);
}

/* A turn of Codex as it is published: developer messages, tools of all types, a reasoning item,
 * calls and their outputs, members that stay without an effect. */
TEST(test_codex)
{
    struct server s = server_start(served_pack(template_with_calls), NULL);
    struct http_reply r = server_request(
        &s, "POST", "/v1/responses",
        "{'instructions': 'You are an agent.', 'input': [{'type': 'message', "
        "'role': 'developer', 'content': [{'type': 'input_text', 'text': 'a'}]}, {'type': "
        "'message', 'role': 'user', 'content': [{'type': 'input_text', 'text': 'b'}, {'type': "
        "'input_text', 'text': 'c'}]}, {'type': 'reasoning', 'id': 'rs_1', 'summary': [{'type': "
        "'summary_text', 'text': 'd'}], 'content': null, 'encrypted_content': null}, {'type': "
        "'message', 'role': 'assistant', 'id': null, 'content': [{'type': 'output_text', 'text': "
        "'e'}], 'phase': 'commentary'}, {'type': 'function_call', 'name': 'shell', 'arguments': "
        "'{}', 'call_id': 'call_1'}, {'type': 'function_call_output', 'call_id': 'call_1', "
        "'output': [{'type': 'input_text', 'text': 'f'}]}, {'type': 'message', 'role': "
        "'developer', 'content': [{'type': 'input_text', 'text': 'g'}]}], 'tools': [{'type': "
        "'function', 'name': 'shell', 'description': 'Runs.', 'strict': false, 'parameters': "
        "{'type': 'object', 'properties': {'command': {'type': 'array', 'items': {'enum': ['ls', "
        "'a']}, 'maxItems': 2, 'minItems': 1}}, 'required': ['command'], 'additionalProperties': "
        "false}}, {'type': 'custom', 'name': 'apply_patch', 'format': {'type': 'grammar', "
        "'syntax': 'lark', 'definition': 'start: a'}}, {'type': 'local_shell'}, {'type': "
        "'web_search', 'external_web_access': false}, {'type': 'namespace', 'name': 'm', 'tools': "
        "[]}], 'tool_choice': 'required', 'parallel_tool_calls': false, 'reasoning': null, "
        "'store': false, 'stream': true, 'include': ['reasoning.encrypted_content'], "
        "'prompt_cache_key': 'x', 'service_tier': null, 'text': {'verbosity': 'medium'}, "
        "'client_metadata': {'y': 'z'}}");
    size_t n;

    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "X-Changes: tool custom left out, tool local_shell left out, "
                                   "tool web_search left out, tool namespace left out\r\n"));
    char *deltas = stream_text(&r, "delta", &n);
    assert_true(
        sp_json_len(json_at(keep_parsed(deltas, strlen(deltas), SP_JSON_STRICT), "command")) > 0);
    char *text = stream_text(&r, "response.output.0.arguments", &n);
    assert_string_equal(text, deltas);
    text = stream_text(&r, "response.output.0.name", &n);
    assert_string_equal(text, "shell");
}

TEST(test_refusals)
{
    static const struct {
        const char *body, *sentence;
    } all[] = {
        {REQUEST ", 'tool_choice': 'required'}", "tool_choice: the request has no tools"},
        {REQUEST TOOLS ", 'tool_choice': 'often'}", "tool_choice: expected \"auto\""},
        {REQUEST TOOLS ", 'tool_choice': {'type': 'function', 'function': {'name': 'f'}}}",
         "tool_choice: there is no tool named f"},
        {REQUEST TOOLS ", 'tool_choice': {'type': 'allowed_tools'}}",
         "tool_choice: allowed_tools has no array tools"},
        {REQUEST TOOLS ALLOWED("auto", "f") "}", "tool_choice: there is no tool named f"},
        {REQUEST TOOLS ALLOWED("often", "wait") "}", "tool_choice: expected \"auto\""},
        {REQUEST TOOLS ", 'parallel_tool_calls': 1}", "parallel_tool_calls is 1"},
        {REQUEST ", 'tools': [{'function': {'name': 'f', 'strict': 'yes'}}]}",
         "tools[0]: strict is \"yes\""},
        {REQUEST ", 'tool_choice': 'required', 'tools': [{'function': {'name': 'f', "
                 "'strict': true, 'parameters': {'$dynamicRef': '#'}}}]}",
         "tool_choice: the parameters of f: #/$dynamicRef: this keyword is not supported"},
    };
    struct server s = server_start(served_pack(template_with_calls), NULL);
    struct sp_json *json;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        json = server_post(&s, "/v1/chat/completions", all[i].body, 400);
        if (strstr(json_text(json, "error.message"), all[i].sentence) != NULL) continue;
        fail_msg("%s: %s", all[i].body, json_text(json, "error.message"));
    }
    assert_int_equal(server_stop(&s), 0);
    /* The template of the other tests has no tools. */
    json = server_post(&tiny_server, "/v1/chat/completions", REQUEST TOOLS "}", 400);
    assert_string_equal(
        json_text(json, "error.message"),
        "tools: this model does not support tools, since its chat template has none");
    /* A template that shows tools, but no calls. */
    s = server_start(
        served_pack("TEMPLATE \"\"\"{{ range .Tools }}{{ . }}{{ end }}{{ .Prompt }}\"\"\"\n"),
        NULL);
    json =
        server_post(&s, "/v1/chat/completions", REQUEST TOOLS ", 'tool_choice': 'required'}", 400);
    assert_string_equal(json_text(json, "error.message"),
                        "tool_choice: the model's chat template does not show how it writes tool "
                        "calls, so they cannot be constrained");
}

/* Under this template the tiny model's story begins with reasoning: "There was once a hungry". */
static const char thinker[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.thinking %}There {{ m.thinking }} a hungry {% endif %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if think %}There{% endif %}{% endif %}\"\"\"\n";

#define ONE_WORD                                                                                   \
    ", 'response_format': {'type': 'json_schema', 'json_schema': {'name': 'a', 'schema': "         \
    "{'const': 'whale'}}}"

TEST(test_reasoning)
{
    struct server s = server_start(served_pack(thinker), NULL);

    /* The model opens its reasoning. */
    struct sp_json *json = request(&s, REQUEST ONE_WORD "}");
    assert_string_equal(json_text(json, "choices.0.message.reasoning_content"), "was once");
    assert_string_equal(json_text(json, "choices.0.message.content"), "\"whale\"");
    assert_string_equal(json_text(json, "choices.0.finish_reason"), "stop");
    /* The prompt opens the reasoning. */
    json = request(&s, REQUEST ONE_WORD ", 'chat_template_kwargs': {'think': true}}");
    assert_string_equal(json_text(json, "choices.0.message.content"), "\"whale\"");
    assert_true(strlen(json_text(json, "choices.0.message.reasoning_content")) > 0);
    /* The reasoning is ended after a number of tokens. */
    json = request(&s, REQUEST ONE_WORD ", 'reasoning_effort': 1}");
    assert_string_equal(json_text(json, "choices.0.message.reasoning_content"), "was");
    assert_string_equal(json_text(json, "choices.0.message.content"), "\"whale\"");
    json = request(&s, REQUEST ONE_WORD ", 'thinking_budget_tokens': 0}");
    assert_null(json_at(json, "choices.0.message.reasoning_content"));
    assert_string_equal(json_text(json, "choices.0.message.content"), "\"whale\"");
    json = server_post(
        &s, "/api/chat",
        REQUEST ", 'stream': false, 'format': {'const': 7}, 'options': {'reasoning_budget': 1}}",
        200);
    json_expect(json, "{'message.thinking': 'was', 'message.content': '7'}");
    /* There is no reasoning. */
    json = request(&s, REQUEST ONE_WORD ", 'reasoning_effort': 'none'}");
    assert_null(json_at(json, "choices.0.message.reasoning_content"));
    assert_string_equal(json_text(json, "choices.0.message.content"), "\"whale\"");
    json = server_post(&s, "/api/chat", REQUEST ", 'stream': false, 'format': {'const': 7}}", 200);
    json_expect(json, "{'message.thinking': 'was once', 'message.content': '7'}");
}

/* Short texts of arguments become large JSON. A request that would take more memory than all
 * requests may have is refused for good. */
TEST(test_memory)
{
    enum { N_CALLS = 3, N_ELEMENTS = 160000 };
    struct server s = server_start(served_pack(template_with_calls), NULL);
    char *body = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&body, &size);

    assert_non_null(f);
    fputs("{'messages': [{'role': 'assistant', 'tool_calls': [", f);
    for (size_t i = 0; i < N_CALLS; i++) {
        fprintf(f, "%s{'function': {'name': 'f', 'arguments': '{\\'a\\': [", i ? ", " : "");
        for (size_t k = 1; k < N_ELEMENTS; k++)
            fputs("[],", f);
        fputs("[]]}'}}", f);
    }
    fputs("]}]}", f);
    assert_int_equal(fclose(f), 0);
    struct http_reply r = server_request(&s, "POST", "/v1/chat/completions", body);
    assert_null(strstr(r.head, "Retry-After"));
    assert_non_null(strstr(json_text(http_reply_json(r, 400), "error.message"),
                           "takes more memory than the 128 MiB that the server has"));
    free(body);
}

GROUP_FIXTURE(served_setup, served_teardown);
