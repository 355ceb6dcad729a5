/* What becomes of a request to OpenAI's Responses API: its items and tools, as its reference has
 * them (https://platform.openai.com/docs/api-reference/responses/create), in the form of a chat's.
 */
#include "cli/serve/serve_responses_input.h"
#include "cli/serve/serve_responses_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sp_json *parse(const char *text)
{
    struct sp_json *json = NULL;

    assert_int_equal(sp_json_parse(&json, text, strlen(text), SP_JSON_STRICT, NULL), SP_OK);
    return json;
}

/* The messages, or the error. */
static void becomes(const char *body, const char *wanted)
{
    struct sp_json *from = parse(body), *messages = NULL;
    struct sp_err err = {0};
    char *text = NULL;

    if (sp_serve_responses_read_input(&messages, from, &err)) {
        assert_string_equal(err.text, wanted);
    } else {
        assert_int_equal(sp_json_print(&text, messages, &err), SP_OK);
        assert_string_equal(text, wanted);
    }
    free(text);
    sp_json_free(messages);
    sp_json_free(from);
}

#define SAID(role, text) "{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define ANSWER(content, thought, calls)                                                            \
    "{\"role\":\"assistant\",\"content\":\"" content "\",\"reasoning_content\":\"" thought         \
    "\",\"tool_calls\":[" calls "]}"
#define CALL(id)                                                                                   \
    "{\"type\":\"function\",\"id\":\"" id "\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}"
#define CALLED(id)                                                                                 \
    "{\"type\": \"function_call\", \"call_id\": \"" id "\", \"name\": \"f\", \"arguments\": "      \
    "\"{}\", \"id\": \"fc_1\", \"status\": \"completed\"}"

static void test_input(void **state)
{
    (void)state;
    becomes("{\"input\": \"Hi\"}", "[" SAID("user", "Hi") "]");
    becomes("{\"input\": \"Hi\", \"instructions\": \"Be kind.\"}",
            "[" SAID("system", "Be kind.") "," SAID("user", "Hi") "]");
    /* What leads is one system message; later ones stay where they are. */
    becomes("{\"instructions\": \"A\", \"input\": [{\"role\": \"developer\", \"content\": \"B\"}, "
            "{\"type\": \"message\", \"role\": \"system\", \"content\": [{\"type\": "
            "\"input_text\", \"text\": \"C\"}, {\"type\": \"input_text\", \"text\": \"D\"}]}, "
            "{\"role\": \"user\", \"content\": \"Hi\"}, "
            "{\"role\": \"developer\", \"content\": \"E\"}]}",
            "[" SAID("system", "A\\n\\nB\\n\\nCD") "," SAID("user", "Hi") "," SAID("developer",
                                                                                   "E") "]");
    /* Reasoning, content and calls of one turn are one message, each result another. */
    becomes(
        "{\"input\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
        "{\"type\": \"reasoning\", \"id\": \"rs_1\", \"summary\": [], \"content\": [{\"type\": "
        "\"reasoning_text\", \"text\": \"Hm.\"}]}, "
        "{\"type\": \"message\", \"id\": \"msg_1\", \"role\": \"assistant\", \"content\": "
        "[{\"type\": \"output_text\", \"text\": \"Wait.\", \"annotations\": []}, "
        "{\"type\": \"refusal\", \"refusal\": \" No.\"}]}, " CALLED("c1") ", " CALLED(
            "c2") ", "
                  "{\"type\": \"function_call_output\", \"call_id\": \"c1\", \"output\": \"17\"}, "
                  "{\"type\": \"function_call_output\", \"call_id\": \"c2\", \"output\": "
                  "[{\"type\": "
                  "\"input_text\", \"text\": \"18\"}]}]}",
        "[" SAID("user", "Hi") "," ANSWER(
            "Wait. No.", "Hm.",
            CALL("c1") "," CALL(
                "c2")) ","
                       "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"17\"},"
                       "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"18\"}]");
    /* Another reasoning, or more content, begins another message. */
    becomes("{\"input\": [" CALLED("c1") ", {\"type\": \"reasoning\", \"summary\": [{\"type\": "
                                         "\"summary_text\", \"text\": \"S\"}]}, {\"role\": "
                                         "\"assistant\", \"content\": \"a\"}, "
                                         "{\"role\": \"assistant\", \"content\": \"b\"}]}",
            "[" ANSWER("", "", CALL("c1")) "," ANSWER("a", "S", "") "," ANSWER("b", "", "") "]");
    /* Our own tag of what is not encrypted; what others encrypted is not read. */
    becomes("{\"input\": [{\"type\": \"reasoning\", \"summary\": [], \"encrypted_content\": "
            "\"spectool:Hm.\"}, {\"type\": \"reasoning\", \"summary\": [], \"content\": null, "
            "\"encrypted_content\": \"gAAAAABo\"}]}",
            "[" ANSWER("", "Hm.\\n\\n", "") "]");
}

static void test_refused_input(void **state)
{
    (void)state;
    becomes("{}", "input is missing, expected a string or an array of items");
    becomes("{\"input\": []}",
            "input is empty or of another type, expected a string or an array of "
            "items");
    becomes("{\"input\": \"a\", \"instructions\": []}", "instructions is array, expected a string");
    becomes("{\"input\": [3]}", "input[0]: is not an object");
    becomes("{\"input\": [{\"content\": \"a\"}]}", "input[0]: has neither a type nor a role");
    becomes("{\"input\": [{\"role\": \"tool\", \"content\": \"a\"}]}",
            "input[0]: role: expected user, assistant, system or developer");
    becomes("{\"input\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", "
            "\"content\": [{\"type\": \"input_file\", \"file_id\": \"f\"}]}]}",
            "input[1]: content of type input_file is not supported, only text");
    becomes("{\"input\": [{\"role\": \"developer\", \"content\": [{\"type\": \"input_image\"}]}]}",
            "input[0]: content of type input_image is not supported, only text");
    becomes("{\"input\": [" CALLED("c") ", {\"type\": \"function_call\", \"call_id\": \"d\", "
                                        "\"arguments\": \"{}\"}]}",
            "input[1]: function_call has no name");
    becomes("{\"input\": [{\"type\": \"function_call_output\", \"output\": \"1\"}]}",
            "input[0]: has no call_id");
    becomes("{\"input\": [{\"type\": \"function_call_output\", \"call_id\": \"c\"}]}",
            "input[0]: has no output");
    becomes("{\"input\": [{\"type\": \"web_search_call\", \"id\": \"ws_1\"}]}",
            "input[0]: items of type web_search_call are not supported");
}

#define FUNCTION(name) "{\"type\": \"function\", \"name\": \"" name "\", \"parameters\": {}}"
#define TAKEN(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":{}}}"
#define ALLOWED(name)                                                                              \
    "{\"tools\": [" FUNCTION("f") ", " FUNCTION(                                                   \
        "g") "], \"tool_choice\": {\"type\": "                                                     \
             "\"allowed_tools\", \"mode\": \"required\", \"tools\": [{\"type\": \"function\", "    \
             "\"name\": "                                                                          \
             "\"" name "\"}]}}"

/* Which tools the model is shown, and whether it must call one; or the error. */
static void shows(const char *body, const char *wanted, bool must)
{
    struct sp_serve_request request = {.body = parse(body)};
    struct sp_err err = {0};
    char *text = NULL;

    if (sp_serve_responses_read_tools(&request, &err)) {
        assert_string_equal(err.text, wanted);
    } else {
        assert_int_equal(sp_json_print(&text, request.tools, &err), SP_OK);
        assert_string_equal(text, wanted);
        assert_int_equal(request.must_call, must);
    }
    free(text);
    sp_serve_request_release(&request);
}

static void test_tools(void **state)
{
    (void)state;
    shows("{\"tools\": [" FUNCTION("f") ", " FUNCTION("g") "]}", "[" TAKEN("f") "," TAKEN("g") "]",
          false);
    shows("{\"tools\": [" FUNCTION("f") "], \"tool_choice\": \"required\"}", "[" TAKEN("f") "]",
          true);
    shows("{\"tools\": [" FUNCTION("f") "], \"tool_choice\": {\"type\": \"function\", \"name\": "
                                        "\"f\"}}",
          "[" TAKEN("f") "]", true);
    shows(ALLOWED("g"), "[" TAKEN("g") "]", true);
    shows(ALLOWED("h"), "tool_choice: there is no tool named h", false);
    shows("{\"tools\": [" FUNCTION("f") ", {\"type\": \"web_search\"}]}",
          "tools[1]: type web_search is not supported, only functions", false);
    shows("{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}",
          "tools[0]: has no name", false);
    shows("{\"tools\": [" FUNCTION("f") "], \"tool_choice\": {\"type\": \"mcp\"}}",
          "tool_choice: expected \"auto\", \"none\", \"required\", or an object of type "
          "\"function\" that names one",
          false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_refused_input),
        cmocka_unit_test(test_tools),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
