/* Tests the conversion of conversations from Anthropic's Messages API to template messages.
 * Blocks, roles and turns follow its reference (https://platform.claude.com/docs/en/api/messages),
 * the source of the quotations. */
#include "cli/serve/anthropic/serve_anthropic.h"
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* Compares the messages of the prompt, followed by "|" and the beginning of the response, or the
 * error message. */
static void assert_converted(const char *body, const char *wanted)
{
    struct sp_conversation conversation = {.system = NULL};
    struct sp_serve_request request = {.messages = NULL};
    struct sp_err err = {0};
    char *text = NULL, *all;

    body = keep_quoted(body);
    assert_ok(sp_json_parse(&request.body, body, strlen(body), SP_JSON_STRICT, &err));
    if (sp_serve_anthropic_read_messages(&request, &conversation, &err)) {
        assert_string_equal(err.text, wanted);
    } else {
        text = keep_printed(request.messages);
        all = keep(malloc(strlen(text) + request.partial.len + 2));
        assert_non_null(all);
        sprintf(all, "%s%s%.*s", text, request.partial.len ? "|" : "", (int)request.partial.len,
                request.partial.len ? request.partial.at : "");
        assert_string_equal(all, keep_quoted(wanted));
    }
    sp_serve_request_release(&request);
}

#define SAYS(content) "{'messages': [{'role': 'user', 'content': " content "}]}"

TEST(texts)
{
    static const char hello[] = "[{'role':'user','content':'Hello'}]";

    /* "The following input messages are equivalent" */
    assert_converted(SAYS("'Hello'"), hello);
    assert_converted(SAYS("[{'type': 'text', 'text': 'Hello'}]"), hello);
    assert_converted(SAYS("[{'type': 'text', 'text': 'a', 'cache_control': {'type': 'ephemeral'}}, "
                          "{'type': 'text', 'text': 'b'}]"),
                     "[{'role':'user','content':'a\\nb'}]");
    /* Texts that already end with a line end, as coding agents send them. */
    assert_converted(SAYS("[{'type': 'text', 'text': '<log>\\n'}, {'type': 'text', 'text': 'User: "
                          "Hi'}, {'type': 'text', 'text': '\\n</log>'}]"),
                     "[{'role':'user','content':'<log>\\nUser: Hi\\n</log>'}]");
    assert_converted("{'system': 'Be brief.', 'messages': [{'role': 'user', 'content': 'a'}]}",
                     "[{'role':'system','content':'Be brief.'},{'role':'user','content':'a'}]");
    assert_converted("{'system': [{'type': 'text', 'text': 'A'}, {'type': 'text', 'text': 'B'}], "
                     "'messages': [{'role': 'user', 'content': 'a'}, {'role': 'system', 'content': "
                     "'C'}, {'role': 'user', 'content': 'b'}]}",
                     "[{'role':'system','content':'A\\nB'},{'role':'user','content':'a'},{'role':'"
                     "system','content':'C'},{'role':'user','content':'b'}]");
    /* "Consecutive user or assistant turns in your request will be combined into a single turn." */
    assert_converted("{'messages': [{'role': 'user', 'content': 'a'}, {'role': 'user', 'content': "
                     "'b'}, {'role': 'assistant', 'content': [{'type': 'text', 'text': 'c'}, "
                     "{'type': 'text', 'text': 'd'}]}, {'role': 'user', 'content': 'e'}]}",
                     "[{'role':'user','content':'a\\nb'},{'role':'assistant','content':'cd'},{'"
                     "role':'user','content':'e'}]");
    /* "the response content will continue immediately from the content in that message" */
    assert_converted("{'messages': [{'role': 'user', 'content': 'Sun?'}, {'role': 'assistant', "
                     "'content': 'The best answer is ('}]}",
                     "[{'role':'user','content':'Sun?'}]|The best answer is (");
}

#define USE(id) "{'type': 'tool_use', 'id': '" id "', 'name': 'f', 'input': {'a': 1}}"
#define CALLED(id) "{'id':'" id "','type':'function','function':{'name':'f','arguments':{'a':1}}}"
#define RESULT(id, more) "{'type': 'tool_result', 'tool_use_id': '" id "'" more "}"
#define SAID(id, content, more)                                                                    \
    "{'role':'tool','content':'" content "','tool_call_id':'" id                                   \
    "','name':'f','tool_name':'f'" more "}"

TEST(blocks)
{
    assert_converted(
        "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': "
        "[{'type': 'thinking', 'thinking': 'Hm.', 'signature': 'x'}, {'type': 'redacted_thinking', "
        "'data': 'y'}, {'type': 'thinking', 'thinking': 'Ah.', 'signature': 'x'}, {'type': 'text', "
        "'text': 'Wait.'}, " USE("t1") ", " USE("t2") "]}, {'role': 'user', 'content': [" RESULT(
            "t2", ", 'content': '2'") ", " RESULT("t1", ", 'content': [{'type': 'text', 'text': "
                                                        "'1'}, {'type': 'text', 'text': '!'}], "
                                                        "'is_error': true") ", {'type': 'text', "
                                                                            "'text': 'Go on.'}]}]}",
        "[{'role':'user','content':'q'},{'role':'assistant','content':'Wait.','reasoning_content':'"
        "Hm.\\nAh.','thinking':'Hm.\\nAh.','tool_calls':[" CALLED("t1") "," CALLED("t2") "]}," SAID(
            "t2", "2", "") "," SAID("t1", "1\\n!",
                                    ",'is_error':true") ",{'role':'user','content':'Go on.'}]");
    assert_converted(
        "{'messages': [{'role': 'assistant', 'content': [" USE(
            "t") "]}, {'role': 'user', 'content': [" RESULT("t", "") "]}]}",
        "[{'role':'assistant','content':'','tool_calls':[" CALLED("t") "]}," SAID("t", "", "") "]");
}

TEST(refusals)
{
    assert_converted("{}", "messages is missing, expected an array of messages");
    assert_converted("{'messages': []}",
                     "messages is empty or of another type, expected an array of messages");
    assert_converted("{'messages': [1]}",
                     "messages[0]: role is missing, expected user or assistant");
    assert_converted("{'messages': [{'role': 'tool', 'content': 'a'}]}",
                     "messages[0]: role is tool, expected user or assistant");
    assert_converted("{'messages': [{'role': 'user'}]}",
                     "messages[0]: content is missing, expected a string or an array of blocks");
    assert_converted(SAYS("[{'text': 'a'}]"), "messages[0]: content[0]: missing type");
    assert_converted(SAYS("[{'type': 'text'}]"), "messages[0]: content[0]: missing text");
    assert_converted("{'messages': [{'role': 'assistant', 'content': [{'type': 'thinking'}]}]}",
                     "messages[0]: content[0]: missing text");
    assert_converted(
        "{'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': "
        "[{'type': 'thinking', 'thinking': 'Hm.'}]}]}",
        "the last message is a partial answer with thinking: only text can be continued");
    assert_converted(SAYS("[{'type': 'image', 'source': {}}]"),
                     "messages[0]: content[0]: content of type image is not supported, only text");
    assert_converted(
        SAYS("[{'type': 'document', 'source': {}}]"),
        "messages[0]: content[0]: content of type document is not supported, only text");
    assert_converted(
        SAYS("[" RESULT("t", ", 'content': [{'type': 'image'}]") "]"),
        "messages[0]: content[0]: content[0]: content of type image is not supported, only text");
    assert_converted(SAYS("[{'type': 'tool_result'}]"),
                     "messages[0]: content[0]: tool_result has no tool_use_id");
    assert_converted(SAYS("[" USE("t") "]"),
                     "messages[0]: content[0]: tool_use must have the role assistant, found user");
    assert_converted(
        "{'messages': [{'role': 'assistant', 'content': [" RESULT("t", "") "]}]}",
        "messages[0]: content[0]: content of type tool_result is not supported, only text");
    assert_converted("{'messages': [{'role': 'assistant', 'content': [{'type': 'tool_use', 'id': "
                     "'t', 'input': {}}]}]}",
                     "messages[0]: content[0]: tool_use has no name");
    assert_converted("{'messages': [{'role': 'assistant', 'content': [{'type': 'tool_use', 'id': "
                     "'t', 'name': 'f', 'input': '{}'}]}]}",
                     "messages[0]: content[0]: tool_use has no input object");
    assert_converted(
        "{'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': [" USE(
            "t") "]}]}",
        "the last message has tool calls without results");
    assert_converted(
        "{'system': [{'type': 'image'}], 'messages': [{'role': 'user', 'content': 'a'}]}",
        "system: content[0]: content of type image is not supported, only text");
}
