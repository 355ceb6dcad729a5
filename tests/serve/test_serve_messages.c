/* Tests the conversion of conversations that clients send back to template messages. The members
 * are those of the APIs' descriptions (OpenAI's chat completions and Responses API, Anthropic's
 * Messages API, ollama's docs/api.md) and of the templates of published models. */
#include "cli/serve/anthropic/serve_anthropic.h"
#include "cli/serve/jobs/serve.h"
#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/request/serve_request.h"
#include "format/json/json_write.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* Templates by what their models' chat templates take. */
static const struct {
    const char *api;
    struct sp_chat_info chat;
} chats[] = {
    {"chat_none", {.has_tool_calls = false}},
    {"chat_objects", {.has_tool_calls = true}},
    {"chat_texts", {.text_arguments = true, .null_content = true}},
    {"chat_harmony", {.no_content_with_reasoning = true}},
};

/* Converts what a request of this API sends, and returns the messages, or the tools. */
static enum sp_status convert(struct sp_serve_request *request, const struct sp_json **made,
                              const char *api, const struct sp_json *sent)
{
    struct sp_conversation conversation = {.system = NULL};
    bool is_chat = strncmp(api, "chat_", 5) == 0;
    const char *body = is_chat ? "{\"continue_final_message\": false}" : keep_printed(sent);
    struct sp_serve_member tools = {.request = request};
    enum sp_status st;

    request->conversation = &conversation;
    assert_ok(sp_json_parse(&request->body, body, strlen(body), SP_JSON_STRICT, why));
    if (strcmp(api, "responses") == 0) {
        st = sp_serve_responses_read_input(&request->messages, request, why);
    } else if (strcmp(api, "responses_tools") == 0) {
        tools.value = sp_json_get(tools.object = request->body, "tools");
        st = sp_serve_responses_read_tools(&tools, why);
        tools.value = sp_json_get(request->body, "tool_choice");
        if (!st) st = sp_serve_openai_read_tool_choice(&tools, why);
    } else if (strcmp(api, "anthropic") == 0) {
        st = sp_serve_anthropic_read_messages(request, why);
    } else {
        for (size_t i = 0; i < sizeof chats / sizeof *chats; i++)
            if (strcmp(chats[i].api, api) == 0) conversation.chat_info = chats[i].chat;
        st = sp_serve_read_messages(request, sent, why);
    }
    *made = strcmp(api, "responses_tools") == 0 ? request->tools : request->messages;
    return st;
}

/* A line of conversions.jsonl: what is sent in the format of an API, and the messages, the tools or
 * the error that come of it. Items, blocks and tools follow the references of OpenAI's Responses
 * API (https://platform.openai.com/docs/api-reference/responses/create) and of Anthropic's Messages
 * API (https://platform.claude.com/docs/en/api/messages), the source of the quotations. */
static void check_conversion(const struct sp_json *line)
{
    const char *error = sp_json_get_text(line, "error");
    const char *partial = sp_json_get_text(line, "partial");
    struct sp_serve_request request = {.messages = NULL};
    const struct sp_json *made = NULL;
    enum sp_status st =
        convert(&request, &made, sp_json_get_text(line, "api"), sp_json_get(line, "sent"));
    bool must_call = false;

    if (error) {
        assert_int_not_equal(st, SP_OK);
        assert_fails_as(st, st, error);
    } else {
        assert_case_ok(keep_printed(line), st);
        assert_string_equal(keep_printed(made), keep_printed(sp_json_get(line, "wanted")));
        (void)sp_json_to_bool(sp_json_get(line, "must_call"), &must_call);
        assert_int_equal(request.must_call, must_call);
        assert_int_equal(request.partial.len, partial ? strlen(partial) : 0);
        if (partial) assert_memory_equal(request.partial.at, partial, strlen(partial));
    }
    sp_serve_request_release(&request);
}

TEST(conversions)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/serve/conversions.jsonl");
    size_t n = 0;

    for (; line[n]; n++)
        check_conversion(line[n]);
    assert_int_equal(n, 76);
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
        struct sp_serve_request request = {
            .conversation = &conversation, .take_memory = take_memory, .memory = &left};
        struct sp_json *from = NULL;
        memcpy(sent, before, len);
        for (size_t k = 0; k < rows[i].n; k++, len += 3)
            memcpy(sent + len, "[],", 3);
        memcpy(sent + len, after, sizeof after);
        from = keep_parsed(sent, strlen(sent), SP_JSON_STRICT);
        assert_fails(sp_serve_read_messages(&request, from, why), rows[i].status, "");
        const struct sp_json *call =
            sp_json_at(sp_json_get(sp_json_at(request.messages, 0), "tool_calls"), 0);
        assert_int_equal(sp_json_kind(sp_json_get(sp_json_get(call, "function"), "arguments")),
                         rows[i].kind);
        assert_true(rows[i].kind != SP_JSON_OBJECT || rows[i].left - left > (size_t)50 << 20);
        sp_serve_request_release(&request);
    }
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
