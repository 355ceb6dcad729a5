/* Tests the conversion of conversations that clients send back to template messages. The members
 * are those of the APIs' descriptions (OpenAI's chat completions, ollama's docs/api.md) and of the
 * templates of published models. */
#include "cli/serve/jobs/serve.h"
#include "cli/serve/request/serve_request.h"
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

static void assert_converted(const struct sp_chat_info *chat, const char *sent, const char *wanted)
{
    struct sp_conversation conversation = {.chat_info = *chat};
    static const char whole[] = "{\"continue_final_message\": false}";
    struct sp_serve_request request = {.messages = NULL};
    struct sp_json *from = NULL;
    struct sp_err err = {0};
    char *text = NULL;

    assert_ok(sp_json_parse(&request.body, whole, strlen(whole), SP_JSON_STRICT, &err));
    from = keep_parsed(sent, strlen(sent), SP_JSON_STRICT);
    if (sp_serve_read_messages(&request, &conversation, from, &err)) {
        assert_string_equal(err.text, wanted);
    } else {
        text = keep_printed(request.messages);
        assert_string_equal(text, keep_quoted(wanted));
    }
    sp_serve_request_release(&request);
}

#define ARGUMENTS_TEXT "'{\\'city\\': \\'Paris\\'}'"

TEST(calls)
{
    static const struct sp_chat_info objects = {.has_tool_calls = true},
                                     texts = {.text_arguments = true, .null_content = true};

    /* OpenAI: arguments as text, null content, a result by its id. */
    assert_converted(&objects,
                     "[{'role': 'assistant', 'content': null, 'tool_calls': [{'id': 'a1', 'type': "
                     "'function', 'function': {'name': 'f', 'arguments': " ARGUMENTS_TEXT
                     "}}]}, {'role': 'tool', 'tool_call_id': 'a1', 'content': '17'}]",
                     "[{'role':'assistant','content':'','tool_calls':[{'id':'a1','type':'function',"
                     "'function':{'name':'f','arguments':{'city':'Paris'}}}]},{'role':'tool','"
                     "content':'17','tool_call_id':'a1','name':'f','tool_name':'f'}]");
    /* ollama: arguments as objects, no ids, results in order, one of them with a name. */
    assert_converted(&objects,
                     "[{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', "
                     "'arguments': {}}}, {'function': {'name': 'g', 'arguments': {}}}]}, {'role': "
                     "'tool', 'content': '1'}, {'role': 'tool', 'tool_name': 'h', 'content': '2'}]",
                     "[{'role':'assistant','content':'','tool_calls':[{'id':'call00000','type':'"
                     "function','function':{'name':'f','arguments':{}}},{'id':'call00001','type':'"
                     "function','function':{'name':'g','arguments':{}}}]},{'role':'tool','content':"
                     "'1','tool_call_id':'call00000','name':'f','tool_name':'f'},{'role':'tool','"
                     "content':'2','tool_call_id':'call00001','name':'h','tool_name':'h'}]");
    /* OpenAI before it had tools. */
    assert_converted(
        &objects,
        "[{'role': 'assistant', 'content': null, 'function_call': {'name': 'f', "
        "'arguments': " ARGUMENTS_TEXT "}}, {'role': 'function', 'name': 'f', "
        "'content': '17'}]",
        "[{'role':'assistant','content':'','tool_calls':[{'id':'call00000','type':'"
        "function','function':{'name':'f','arguments':{'city':'Paris'}}}]},{'role':'"
        "tool','content':'17','tool_call_id':'call00000','name':'f','tool_name':'f'}]");
    /* Templates that accept only text, and no content in a message with calls. */
    assert_converted(&texts,
                     "[{'role': 'assistant', 'content': '', 'tool_calls': [{'id': 'a', 'type': "
                     "'function', 'function': {'name': 'f', 'arguments': {'a': 1}}}, {'id': 'b', "
                     "'type': 'function', 'function': {'name': 'f', 'arguments': '{}'}}]}]",
                     "[{'role':'assistant','content':null,'tool_calls':[{'id':'a','type':'function'"
                     ",'function':{'name':'f','arguments':'{\\'a\\':1}'}},{'id':'b','type':'"
                     "function','function':{'name':'f','arguments':'{}'}}]}]");
    assert_converted(&objects, "[{'role': 'assistant', 'content': 'x', 'tool_calls': []}]",
                     "[{'role':'assistant','content':'x'}]");
    assert_converted(&objects, "[{'role': 'assistant', 'tool_calls': 3}]",
                     "messages[0]: tool_calls is integer, expected an array");
    assert_converted(&objects, "[{'role': 'assistant', 'tool_calls': [{}, 'f']}]",
                     "messages[0]: tool_calls[1] is string, expected an object");
    assert_converted(&objects, "[{'role': 'assistant', 'function_call': 'f'}]",
                     "messages[0]: function_call: expected an object");
    assert_converted(&objects, "[{'role': 'tool', 'content': '1'}]",
                     "[{'role':'tool','content':'1'}]");
}

static enum sp_status take_memory(void *memory, size_t size, struct sp_err *err)
{
    size_t *left = memory;

    if (size > *left) return sp_fail(err, SP_E_NOMEM, "memory");
    *left -= size;
    return SP_OK;
}

/* Half a megabyte of arguments as text becomes a tree of 27 MB, which the conversion and the
 * template each have. Text that would become more than 64 MB stays as it came. */
TEST(memory_of_arguments)
{
    static const char before[] = "[{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', "
                                 "'arguments': '{\\'a\\': [",
                      after[] = "0]}\"}}]}]";
    enum { N = 500000 };
    static const struct {
        size_t n, left;
        enum sp_status status;
        enum sp_json_kind kind;
    } rows[] = {
        {N / 3, (size_t)40 << 20, SP_E_NOMEM, SP_JSON_NULL},
        {N / 3, (size_t)80 << 20, SP_OK, SP_JSON_OBJECT},
        {N, (size_t)80 << 20, SP_OK, SP_JSON_STRING},
    };
    struct sp_conversation conversation = {.chat_info = {.has_tool_calls = true}};
    char *sent = keep(malloc(sizeof before + 3 * N + sizeof after));

    assert_non_null(sent);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t left = rows[i].left, len = sizeof before - 1;
        struct sp_serve_request request = {.take_memory = take_memory, .memory = &left};
        struct sp_json *from = NULL;
        memcpy(sent, before, len);
        for (size_t k = 0; k < rows[i].n; k++, len += 3)
            memcpy(sent + len, "[],", 3);
        memcpy(sent + len, after, sizeof after);
        from = keep_parsed(sent, strlen(sent), SP_JSON_STRICT);
        assert_fails(sp_serve_read_messages(&request, &conversation, from, why), rows[i].status,
                     "");
        const struct sp_json *call =
            sp_json_at(sp_json_get(sp_json_at(request.messages, 0), "tool_calls"), 0);
        assert_int_equal(sp_json_kind(sp_json_get(sp_json_get(call, "function"), "arguments")),
                         rows[i].kind);
        assert_true(rows[i].kind != SP_JSON_OBJECT || rows[i].left - left > (size_t)50 << 20);
        sp_serve_request_release(&request);
    }
}

/* The names of reasoning in llama-server, vLLM and ollama. */
TEST(reasoning)
{
    static const struct sp_chat_info none = {.has_tool_calls = false},
                                     harmony = {.no_content_with_reasoning = true};
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *sent =
            keep_format("[{'role': 'assistant', '%s': 'Hm.', 'content': 'x'}]", names[i]);
        assert_converted(
            &none, sent,
            "[{'role':'assistant','content':'x','reasoning_content':'Hm.','thinking':'Hm.'}]");
    }
    assert_converted(&none, "[{'role': 'assistant', 'reasoning_content': '', 'content': 'x'}]",
                     "[{'role':'assistant','content':'x'}]");
    /* The template of gpt-oss refuses content in a message with reasoning and calls. */
    assert_converted(&harmony,
                     "[{'role': 'assistant', 'thinking': 'Hm.', 'content': 'x', 'tool_calls': "
                     "[{'id': 'a', 'function': {'name': 'f'}}]}]",
                     "[{'role':'assistant','content':'','reasoning_content':'Hm.','thinking':'Hm.',"
                     "'tool_calls':[{'id':'a','type':'function','function':{'name':'f'}}]}]");
}

/* What a stream sends while the prompt is read has no text: a comment, or an empty part. */
TEST(keep_alive)
{
    static const struct {
        const struct sp_serve_api *api;
        const char *begins, *has;
    } all[] = {
        {&sp_serve_openai_chat, ": ", "\n\n"},
        {&sp_serve_openai_text, ": ", "\n\n"},
        {&sp_serve_anthropic, "event: ping\n", "{'type': 'ping'}"},
        {&sp_serve_ollama_chat, "{'model': 'm'", "'content': ''}, 'done': false}"},
        {&sp_serve_ollama_text, "{'model': 'm'", "'response': '', 'done': false}"},
    };
    const char *name = "m";
    const struct sp_serve_model model = {.names = &name, .n_names = 1};
    const struct sp_serve serve = {.host = "localhost"};
    const struct sp_serve_request request = {.model = &model, .stream = true};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sp_serve_response response = {
            .serve = &serve, .request = &request, .api = all[i].api};
        struct sp_text text;
        all[i].api->keep_alive(&response);
        assert_ok(sp_json_out_take(&text, &response.out, NULL));
        assert_int_equal(strncmp(text.at, keep_quoted(all[i].begins), strlen(all[i].begins)), 0);
        assert_non_null(strstr(text.at, keep_quoted(all[i].has)));
        free(text.at);
    }
}

/* llama-server and vLLM join the parts of a content by line ends. */
TEST(parts)
{
    static const struct sp_chat_info chat = {.has_tool_calls = true};

    assert_converted(&chat,
                     "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"A\"}, "
                     "{\"type\": \"text\", \"text\": \"B\"}]}]",
                     "[{\"role\":\"user\",\"content\":\"A\\nB\"}]");
}
