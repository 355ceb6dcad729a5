/* Tests the conversion of requests of OpenAI's Responses API: items and tools in the format of its
 * reference (https://platform.openai.com/docs/api-reference/responses/create) become those of chat
 * completions. */
#include "cli/serve/openai/serve_openai.h"
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* The caller owns the value. */
static struct sp_json *parse(const char *text)
{
    struct sp_json *json = NULL;

    text = keep_quoted(text);
    assert_ok(sp_json_parse(&json, text, strlen(text), SP_JSON_STRICT, NULL));
    return json;
}

/* Compares the messages, or the error message. */
static void assert_converted(const char *body, const char *wanted)
{
    struct sp_serve_request request = {.body = keep_json(parse(body))};
    struct sp_json *messages = NULL;
    struct sp_err err = {0};
    char *text = NULL;

    if (sp_serve_responses_read_input(&messages, &request, &err)) {
        assert_string_equal(err.text, wanted);
    } else {
        text = keep_printed(keep_json(messages));
        assert_string_equal(text, keep_quoted(wanted));
    }
}

#define MESSAGE(role, text) "{'role':'" role "','content':'" text "'}"
#define ANSWER(content, reasoning, calls)                                                          \
    "{'role':'assistant','content':'" content "','reasoning_content':'" reasoning                  \
    "','tool_calls':[" calls "]}"
#define CALL(id) "{'type':'function','id':'" id "','function':{'name':'f','arguments':'{}'}}"
#define CALL_ITEM(id)                                                                              \
    "{'type': 'function_call', 'call_id': '" id                                                    \
    "', 'name': 'f', 'arguments': '{}', 'id': 'fc_1', 'status': 'completed'}"

TEST(test_input)
{
    assert_converted("{'input': 'Hi'}", "[" MESSAGE("user", "Hi") "]");
    assert_converted("{'input': 'Hi', 'instructions': 'Be kind.'}",
                     "[" MESSAGE("system", "Be kind.") "," MESSAGE("user", "Hi") "]");
    /* The leading texts are joined into one system message. Later system messages stay in place. */
    assert_converted("{'instructions': 'A', 'input': [{'role': 'developer', 'content': 'B'}, "
                     "{'type': 'message', 'role': 'system', 'content': [{'type': 'input_text', "
                     "'text': 'C'}, {'type': 'input_text', 'text': 'D'}]}, {'role': 'user', "
                     "'content': 'Hi'}, {'role': 'developer', 'content': 'E'}]}",
                     "[" MESSAGE("system", "A\\n\\nB\\n\\nC\\nD") "," MESSAGE(
                         "user", "Hi") "," MESSAGE("developer", "E") "]");
    /* Reasoning, content and calls of one turn are one message, and each result is another. */
    assert_converted(
        "{'input': [{'role': 'user', 'content': 'Hi'}, {'type': 'reasoning', 'id': 'rs_1', "
        "'summary': [], 'content': [{'type': 'reasoning_text', 'text': 'Hm.'}]}, {'type': "
        "'message', 'id': 'msg_1', 'role': 'assistant', 'content': [{'type': 'output_text', "
        "'text': 'Wait.', 'annotations': []}, {'type': 'refusal', 'refusal': ' No.'}]}, " CALL_ITEM(
            "c1") ", " CALL_ITEM("c2") ", {'type': 'function_call_output', 'call_id': 'c1', "
                                       "'output': '17'}, {'type': 'function_call_output', "
                                       "'call_id': 'c2', 'output': [{'type': 'input_text', 'text': "
                                       "'18'}]}]}",
        "[" MESSAGE("user", "Hi") "," ANSWER(
            "Wait. No.", "Hm.",
            CALL("c1") "," CALL("c2")) ",{'role':'tool','tool_call_id':'c1','content':'17'},{'role'"
                                       ":'tool','tool_call_id':'c2','content':'18'}]");
    /* The text of a call of a custom tool is an argument. */
    assert_converted(
        "{'input': [{'type': 'custom_tool_call', 'call_id': 'c1', 'name': 'f', 'input': 'a'}, "
        "{'type': 'custom_tool_call_output', 'call_id': 'c1', 'output': '17'}]}",
        "[" ANSWER("", "",
                   "{'type':'function','id':'c1','function':{'name':'f','arguments':{'input'"
                   ":'a'}}}") ",{'role':'tool','tool_call_id':'c1','content':'17'}]");
    /* A second reasoning, or more content, begins another message. */
    assert_converted(
        "{'input': [" CALL_ITEM(
            "c1") ", {'type': 'reasoning', 'summary': [{'type': 'summary_text', 'text': 'S'}]}, "
                  "{'role': 'assistant', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]}",
        "[" ANSWER("", "", CALL("c1")) "," ANSWER("a", "S", "") "," ANSWER("b", "", "") "]");
    /* Reasoning with spectool's own tag is not encrypted and is read. Encrypted reasoning of other
     * servers is ignored. */
    assert_converted(
        "{'input': [{'type': 'reasoning', 'summary': [], 'encrypted_content': 'spectool:Hm.'}, "
        "{'type': 'reasoning', 'summary': [], 'content': null, 'encrypted_content': 'gAAAAABo'}]}",
        "[" ANSWER("", "Hm.\\n\\n", "") "]");
}

TEST(test_refused_input)
{
    assert_converted("{}", "input is missing, expected a string or an array of items");
    assert_converted("{'input': []}",
                     "input is empty or of another type, expected a string or an array of items");
    assert_converted("{'input': 'a', 'instructions': []}",
                     "instructions is array, expected a string");
    assert_converted("{'input': [3]}", "input[0]: is not an object");
    assert_converted("{'input': [{'content': 'a'}]}", "input[0]: has neither a type nor a role");
    assert_converted("{'input': [{'role': 'tool', 'content': 'a'}]}",
                     "input[0]: role: expected user, assistant, system or developer");
    assert_converted("{'input': [{'role': 'user', 'content': 'a'}, {'role': 'user', 'content': "
                     "[{'type': 'input_file', 'file_id': 'f'}]}]}",
                     "input[1]: content of type input_file is not supported, only text");
    assert_converted("{'input': [{'role': 'developer', 'content': [{'type': 'input_image'}]}]}",
                     "input[0]: content of type input_image is not supported, only text");
    assert_converted("{'input': [" CALL_ITEM(
                         "c") ", {'type': 'function_call', 'call_id': 'd', 'arguments': '{}'}]}",
                     "input[1]: function_call has no name");
    assert_converted("{'input': [{'type': 'function_call_output', 'output': '1'}]}",
                     "input[0]: has no call_id");
    assert_converted("{'input': [{'type': 'function_call_output', 'call_id': 'c'}]}",
                     "input[0]: has no output");
    assert_converted(
        "{'input': [{'type': 'additional_tools', 'tools': []}, {'role': 'user', 'content': 'a'}]}",
        "[" MESSAGE("user", "a") "]");
    assert_converted("{'input': [{'type': 'web_search_call', 'id': 'ws_1'}]}",
                     "input[0]: items of type web_search_call are not supported");
}

#define FUNCTION(name) "{'type': 'function', 'name': '" name "', 'parameters': {}}"
#define TAKEN(name) "{'type':'function','function':{'name':'" name "','parameters':{}}}"
#define ALLOWED(name)                                                                              \
    "{'tools': [" FUNCTION("f") ", " FUNCTION(                                                     \
        "g") "], 'tool_choice': {'type': 'allowed_tools', 'mode': 'required', 'tools': [{'type': " \
             "'function', 'name': '" name "'}]}}"

/* Compares the tools that the model is shown, and whether it must call one, or the error message.
 */
static void assert_tools(const char *body, const char *wanted, bool must)
{
    struct sp_serve_request request = {.body = parse(body)};
    struct sp_err err = {0};
    char *text = NULL;

    if (sp_serve_responses_read_tools(&request, &err)) {
        assert_string_equal(err.text, wanted);
    } else {
        text = keep_printed(request.tools);
        assert_string_equal(text, keep_quoted(wanted));
        assert_int_equal(request.must_call, must);
    }
    sp_serve_request_release(&request);
}

TEST(test_tools)
{
    assert_tools("{'tools': [" FUNCTION("f") ", " FUNCTION("g") "]}",
                 "[" TAKEN("f") "," TAKEN("g") "]", false);
    assert_tools("{'tools': [" FUNCTION("f") "], 'tool_choice': 'required'}", "[" TAKEN("f") "]",
                 true);
    assert_tools("{'tools': [" FUNCTION("f") "], 'tool_choice': {'type': 'function', 'name': 'f'}}",
                 "[" TAKEN("f") "]", true);
    assert_tools(ALLOWED("g"), "[" TAKEN("g") "]", true);
    assert_tools(ALLOWED("h"), "tool_choice: there is no tool named h", false);
    assert_tools("{'tools': [" FUNCTION("f") ", " FUNCTION(
                     "g") "], 'tool_choice': {'type': "
                          "'allowed_tools', 'tools': [{'type': 'web_search'}, " FUNCTION("g") "]}}",
                 "[" TAKEN("g") "]", false);
    assert_tools("{'tools': [" FUNCTION("f") "], 'tool_choice': {'type': 'allowed_tools', "
                                             "'mode': 'none', 'tools': [" FUNCTION("f") "]}}",
                 "null", false);
    assert_tools("{'tools': [" FUNCTION("f") ", {'type': 'web_search'}]}", "[" TAKEN("f") "]",
                 false);
    assert_tools("{'tools': [{'type': 'function', 'function': {'name': 'f'}}]}",
                 "tools[0]: has no name", false);
    assert_tools("{'tools': [" FUNCTION("f") "], 'tool_choice': {'type': 'mcp'}}",
                 "tool_choice: expected \"auto\", \"none\", \"required\", or an object of type "
                 "\"function\" that names one, or of type \"allowed_tools\"",
                 false);
}
