/* Anthropic's Messages API: what it is asked becomes what templates take, and its answers have the
 * members and events that its reference describes
 * (https://platform.claude.com/docs/en/api/messages, and .../build-with-claude/streaming). */
#include "cli/serve_anthropic.h"
#include "tests/served.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers ----------------------------------------------------------------------------------
 */

#define ASK                                                                                        \
    "{\"max_tokens\": 200, \"messages\": [{\"role\": \"user\", \"content\": \"Tell me a "          \
    "story.\"}]"

/* A stream's events, each of them with the name of its type. */
struct events {
    struct sp_json *at[512];
    size_t n;
};

static struct events stream(const struct serving *s, const char *body)
{
    struct serving_reply r = serving_ask(s, "POST", "/v1/messages", body);
    struct events e = {.n = 0};
    char *rest = NULL, name[64] = "";

    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
    for (char *line = strtok_r(r.body, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "event: %63s", name) == 1) continue;
        assert_int_equal(strncmp(line, "data: ", 6), 0);
        assert_true(e.n < sizeof e.at / sizeof *e.at);
        assert_int_equal(
            sp_json_parse(&e.at[e.n], line + 6, strlen(line + 6), SP_JSON_STRICT, NULL), SP_OK);
        assert_string_equal(served_text(e.at[e.n], "type"), name);
        e.n++;
    }
    serving_release(&r);
    return e;
}

static void release(struct events *e)
{
    while (e->n > 0)
        sp_json_free(e->at[--e->n]);
}

static bool is(const struct sp_json *event, const char *type)
{
    return strcmp(served_text(event, "type"), type) == 0;
}

/* Their order is that of the reference: a start and a stop around the deltas of each block, blocks
 * by their index, one after the other. Returns the last but one, message_delta; *n_blocks: how many
 * blocks. */
static const struct sp_json *check_order(const struct events *e, size_t *n_blocks)
{
    bool open = false;

    *n_blocks = 0;
    assert_true(e->n >= 3);
    assert_true(is(e->at[0], "message_start"));
    assert_string_equal(served_text(e->at[0], "message.type"), "message");
    assert_string_equal(served_text(e->at[0], "message.role"), "assistant");
    assert_int_equal(sp_json_len(served_at(e->at[0], "message.content")), 0);
    assert_null(served_at(e->at[0], "message.stop_reason"));
    for (size_t i = 1; i + 2 < e->n; i++) {
        if (is(e->at[i], "ping")) continue;
        assert_int_equal(served_number(e->at[i], "index"), *n_blocks);
        if (is(e->at[i], "content_block_start")) {
            assert_false(open);
            open = true;
        } else if (is(e->at[i], "content_block_stop")) {
            assert_true(open);
            open = false;
            ++*n_blocks;
        } else {
            assert_true(is(e->at[i], "content_block_delta"));
            assert_true(open);
        }
    }
    assert_false(open);
    assert_true(is(e->at[e->n - 2], "message_delta"));
    assert_true(is(e->at[e->n - 1], "message_stop"));
    return e->at[e->n - 2];
}

/* The texts at `path` of the block's deltas of this type, joined (free). */
static char *joined(const struct events *e, int64_t block, const char *type, const char *path)
{
    char *text = calloc(1, 1 << 14);

    assert_non_null(text);
    for (size_t i = 0; i < e->n; i++) {
        if (!is(e->at[i], "content_block_delta")) continue;
        if (served_number(e->at[i], "index") != block) continue;
        if (strcmp(served_text(e->at[i], "delta.type"), type) != 0) continue;
        strcat(text, served_text(e->at[i], path));
        assert_true(strlen(text) < (1 << 13));
    }
    return text;
}

static struct sp_json *ask(const struct serving *s, const char *body)
{
    return serving_json(serving_ask(s, "POST", "/v1/messages", body), 200);
}

/* A message, and the same as a stream. */
static void test_message(void **state)
{
    struct sp_json *json = ask(&served, ASK "}");
    struct events e = stream(&served, ASK ", \"stream\": true}");
    const struct sp_json *last;
    size_t n_blocks;
    char *text = joined(&e, 0, "text_delta", "delta.text");
    int64_t n = served_number(json, "usage.output_tokens");

    (void)state;
    assert_int_equal(strncmp(served_text(json, "id"), "msg_", 4), 0);
    assert_string_equal(served_text(json, "type"), "message");
    assert_string_equal(served_text(json, "role"), "assistant");
    assert_string_equal(served_text(json, "model"), "tiny");
    assert_int_equal(sp_json_len(served_at(json, "content")), 1);
    assert_string_equal(served_text(json, "content.0.type"), "text");
    assert_string_equal(served_text(json, "stop_reason"), "end_turn");
    assert_null(served_at(json, "stop_sequence"));
    last = check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 1);
    assert_string_equal(text, served_text(json, "content.0.text"));
    assert_string_equal(served_text(last, "delta.stop_reason"), "end_turn");
    assert_int_equal(served_number(last, "usage.output_tokens"), n);
    sp_json_free(json);
    free(text);
    release(&e);
}

/* "Total input tokens in a request is the summation": the second time all but the last token come
 * out of the cache, which is known before the answer begins. */
static void test_usage(void **state)
{
    struct serving s = serving_start(served_file, (const char *const[]){"--sessions", "1", NULL});
    struct sp_json *count =
        serving_json(serving_ask(&s, "POST", "/v1/messages/count_tokens", ASK "}"), 200);
    int64_t n = served_number(count, "input_tokens");

    (void)state;
    assert_true(n > 4);
    for (int i = 0; i < 2; i++) {
        struct events e = stream(&s, ASK ", \"stream\": true}");
        const struct sp_json *usages[] = {served_at(e.at[0], "message.usage"),
                                          served_at(e.at[e.n - 2], "usage")};

        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(served_number(usages[k], "input_tokens"), i ? 1 : n);
            assert_int_equal(served_number(usages[k], "cache_creation_input_tokens"), 0);
            assert_int_equal(served_number(usages[k], "cache_read_input_tokens"), i ? n - 1 : 0);
        }
        release(&e);
    }
    sp_json_free(count);
    assert_int_equal(serving_stop(&s), 0);
}

static void test_stops(void **state)
{
    struct sp_json *json = ask(&served, "{\"max_tokens\": 3, \"messages\": [{\"role\": \"user\", "
                                        "\"content\": \"Tell me a story.\"}]}");

    (void)state;
    assert_string_equal(served_text(json, "stop_reason"), "max_tokens");
    assert_int_equal(served_number(json, "usage.output_tokens"), 3);
    sp_json_free(json);
    json = ask(&served, ASK ", \"stop_sequences\": [\"whale\", \"once\", \" a\"]}");
    assert_string_equal(served_text(json, "stop_reason"), "stop_sequence");
    assert_string_equal(served_text(json, "stop_sequence"), "once");
    assert_string_equal(served_text(json, "content.0.text"), "There was ");
    sp_json_free(json);
    /* No content at all is none, not an empty one. */
    json = ask(&served, ASK ", \"stop_sequences\": [\"There\"]}");
    assert_int_equal(sp_json_len(served_at(json, "content")), 0);
    sp_json_free(json);
}

/* A stop text of the file is the end of a turn. */
static void test_own_stop(void **state)
{
    struct serving s = serving_start(served_pack(SERVED_CHATML "PARAMETER stop once\n"), NULL);
    struct sp_json *json = ask(&s, ASK ", \"stop_sequences\": [\"hungry\"]}");

    (void)state;
    assert_string_equal(served_text(json, "stop_reason"), "end_turn");
    assert_null(served_at(json, "stop_sequence"));
    sp_json_free(json);
    assert_int_equal(serving_stop(&s), 0);
}

/* What is begun with the beginning of an answer is gone on with to its end. */
static void test_begun(void **state)
{
    struct sp_json *json = ask(&served, ASK "}"), *rest;
    const char *text = served_text(json, "content.0.text");
    char body[512];

    (void)state;
    snprintf(body, sizeof body,
             "{\"max_tokens\": 200, \"messages\": [{\"role\": \"user\", \"content\": \"Tell me a "
             "story.\"}, {\"role\": \"assistant\", \"content\": \"%.14s\"}]}",
             text);
    assert_non_null(strstr(body, "\"There was once\"}"));
    rest = ask(&served, body);
    assert_string_equal(served_text(rest, "content.0.text"), text + 14);
    sp_json_free(rest);
    sp_json_free(json);
}

/* The marks of Hermes and Qwen, which the tiny model is held to. */
static const char caller[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}\"\"\"\n";

#define TOOLS                                                                                      \
    ", \"tools\": [{\"name\": \"paint\", \"description\": \"Paints.\", \"input_schema\": "         \
    "{\"type\": \"object\", \"properties\": {\"colour\": {\"enum\": [\"red\", \"blue\"]}}, "       \
    "\"required\": [\"colour\"], \"additionalProperties\": false}}, {\"type\": \"custom\", "       \
    "\"name\": \"wait\", \"input_schema\": {\"type\": \"object\"}}]"
#define PAINT ", \"tool_choice\": {\"type\": \"tool\", \"name\": \"paint\"}"

static void assert_colour(const char *colour)
{
    assert_true(strcmp(colour, "red") == 0 || strcmp(colour, "blue") == 0);
}

static void test_tools(void **state)
{
    struct serving s = serving_start(served_pack(caller), NULL);
    struct sp_json *json = ask(&s, ASK TOOLS PAINT "}"), *input = NULL;
    struct events e;
    const struct sp_json *last;
    size_t n_blocks;
    char *text;

    (void)state;
    assert_string_equal(served_text(json, "stop_reason"), "tool_use");
    assert_int_equal(sp_json_len(served_at(json, "content")), 1);
    assert_string_equal(served_text(json, "content.0.type"), "tool_use");
    assert_string_equal(served_text(json, "content.0.name"), "paint");
    assert_int_equal(strlen(served_text(json, "content.0.id")), 9);
    assert_colour(served_text(json, "content.0.input.colour"));
    sp_json_free(json);

    e = stream(&s, ASK TOOLS PAINT ", \"stream\": true}");
    last = check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 1);
    assert_string_equal(served_text(last, "delta.stop_reason"), "tool_use");
    text = joined(&e, 0, "input_json_delta", "delta.partial_json");
    assert_int_equal(sp_json_parse(&input, text, strlen(text), SP_JSON_STRICT, NULL), SP_OK);
    assert_colour(served_text(input, "colour"));
    for (size_t i = 0; i < e.n; i++) {
        if (!is(e.at[i], "content_block_start")) continue;
        assert_string_equal(served_text(e.at[i], "content_block.name"), "paint");
        assert_int_equal(sp_json_len(served_at(e.at[i], "content_block.input")), 0);
    }
    free(text);
    sp_json_free(input);
    release(&e);

    json =
        ask(&s, ASK TOOLS ", \"tool_choice\": {\"type\": \"any\", \"disable_parallel_tool_use\": "
                          "true}}");
    assert_int_equal(sp_json_len(served_at(json, "content")), 1);
    assert_string_equal(served_text(json, "content.0.type"), "tool_use");
    sp_json_free(json);
    json = ask(&s, ASK TOOLS ", \"tool_choice\": {\"type\": \"none\"}}");
    assert_string_equal(served_text(json, "content.0.type"), "text");
    assert_string_equal(served_text(json, "stop_reason"), "end_turn");
    sp_json_free(json);
    assert_int_equal(serving_stop(&s), 0);
}

/* To this template the story that the tiny model tells begins with a thought: "There was once a
 * hungry". */
static const char thinker[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.thinking %}There {{ m.thinking }} a hungry {% endif %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking %}There{% endif %}{% if reasoning_effort %} was{% endif %}"
    "{% endif %}\"\"\"\n";

static void test_thoughts(void **state)
{
    struct serving s = serving_start(served_pack(thinker), NULL);
    struct sp_json *json = ask(&s, ASK "}");
    struct events e;
    size_t n_blocks;
    char *text;

    (void)state;
    assert_string_equal(served_text(json, "content.0.type"), "thinking");
    assert_string_equal(served_text(json, "content.0.thinking"), "was once");
    assert_int_equal(strncmp(served_text(json, "content.0.signature"), "sp-", 3), 0);
    assert_string_equal(served_text(json, "content.1.type"), "text");
    assert_true(served_number(json, "usage.output_tokens_details.thinking_tokens") > 0);

    e = stream(&s, ASK ", \"stream\": true}");
    (void)check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 2);
    text = joined(&e, 0, "thinking_delta", "delta.thinking");
    assert_string_equal(text, "was once");
    free(text);
    text = joined(&e, 0, "signature_delta", "delta.signature");
    assert_string_equal(text, served_text(json, "content.0.signature"));
    free(text);
    text = joined(&e, 1, "text_delta", "delta.text");
    assert_string_equal(text, served_text(json, "content.1.text"));
    free(text);
    release(&e);
    sp_json_free(json);

    /* The switch of the template: the prompt has opened the thought, or not. */
    json = ask(&s, ASK ", \"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 1024}}");
    assert_string_equal(served_text(json, "content.0.thinking"), "was once");
    sp_json_free(json);
    json = serving_json(serving_ask(&s, "POST", "/v1/messages/count_tokens",
                                    ASK ", \"thinking\": {\"type\": \"disabled\"}}"),
                        200);
    n_blocks = (size_t)served_number(json, "input_tokens");
    sp_json_free(json);
    json = serving_json(serving_ask(&s, "POST", "/v1/messages/count_tokens",
                                    ASK ", \"thinking\": {\"type\": \"adaptive\"}, "
                                        "\"output_config\": {\"effort\": \"low\"}}"),
                        200);
    assert_true((size_t)served_number(json, "input_tokens") > n_blocks + 1);
    sp_json_free(json);
    json = ask(&s, ASK ", \"thinking\": {\"type\": \"adaptive\", \"display\": \"omitted\"}}");
    assert_string_equal(served_text(json, "content.0.thinking"), "");
    sp_json_free(json);
    e = stream(&s, ASK ", \"stream\": true, \"thinking\": {\"type\": \"adaptive\", \"display\": "
                       "\"omitted\"}}");
    (void)check_order(&e, &n_blocks);
    assert_int_equal(n_blocks, 2);
    text = joined(&e, 0, "thinking_delta", "delta.thinking");
    assert_string_equal(text, "");
    free(text);
    release(&e);
    /* An answer cannot be begun behind thoughts that the prompt opens. */
    json = serving_json(serving_ask(&s, "POST", "/v1/messages",
                                    "{\"max_tokens\": 9, \"thinking\": {\"type\": \"enabled\"}, "
                                    "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                                    "{\"role\": \"assistant\", \"content\": \"b\"}]}"),
                        400);
    assert_string_equal(served_text(json, "error.message"),
                        "thinking: the last message has begun the answer already");
    sp_json_free(json);
    assert_int_equal(serving_stop(&s), 0);
}

static void test_form(void **state)
{
    struct sp_json *json =
        ask(&served, ASK ", \"output_config\": {\"format\": {\"type\": \"json_schema\", "
                         "\"schema\": {\"const\": \"whale\"}}}}");

    (void)state;
    assert_string_equal(served_text(json, "content.0.text"), "\"whale\"");
    sp_json_free(json);
}

/* ---- errors and lists -------------------------------------------------------------------------
 */

#define HI "\"max_tokens\": 4, \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]"

static void test_errors(void **state)
{
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *type, *says;
    } all[] = {
        {"POST", "/v1/messages", "{", 400, "invalid_request_error", "not valid JSON"},
        {"POST", "/v1/messages", "{" HI ", \"model\": \"claude\"}", 404, "not_found_error",
         "model 'claude' not found: 'tiny' is served here"},
        {"GET", "/v1/messages", NULL, 405, "invalid_request_error", "another method"},
        {"POST", "/v1/messages/batches", "{}", 501, "api_error", "/v1/messages/batches is not"},
        {"POST", "/v1/messages/other", "{}", 404, "not_found_error", "nothing at this path"},
        {"POST", "/v1/messages", "{\"messages\": []}", 400, "invalid_request_error",
         "max_tokens is missing, expected a number"},
        {"POST", "/v1/messages", "{\"max_tokens\": 0}", 400, "invalid_request_error",
         "max_tokens is 0, expected 1 or more"},
        {"POST", "/v1/messages", "{\"max_tokens\": \"9\"}", 400, "invalid_request_error",
         "max_tokens is string, expected number"},
        {"POST", "/v1/messages", "{" HI ", \"temperature\": -1}", 400, "invalid_request_error",
         "temperature is -1"},
        {"POST", "/v1/messages", "{" HI ", \"stop_sequences\": [\"\"]}", 400,
         "invalid_request_error", "stop_sequences: stop is empty"},
        {"POST", "/v1/messages", "{" HI ", \"mcp_servers\": [{}]}", 400, "invalid_request_error",
         "mcp_servers: "},
        {"POST", "/v1/messages", "{" HI ", \"container\": \"c\"}", 400, "invalid_request_error",
         "container: "},
        {"POST", "/v1/messages",
         "{" HI
         ", \"context_management\": {\"edits\": [{\"type\": \"clear_tool_uses_20250919\"}]}}",
         400, "invalid_request_error", "context_management: clear_tool_uses_20250919: "},
        {"POST", "/v1/messages", "{" HI ", \"thinking\": {\"type\": \"between_tools\"}}", 400,
         "invalid_request_error", "thinking.type is between_tools"},
        {"POST", "/v1/messages", "{" HI ", \"tools\": {}}", 400, "invalid_request_error",
         "tools is object, expected an array"},
        {"POST", "/v1/messages", "{" HI ", \"tools\": [{\"name\": \"f\"}]}", 400,
         "invalid_request_error", "tools[0]: input_schema is missing, expected an object"},
        {"POST", "/v1/messages",
         "{" HI ", \"tools\": [{\"type\": \"web_search_20250305\", \"name\": \"web_search\"}]}",
         400, "invalid_request_error", "tools[0]: tools of type web_search_20250305 are not known"},
        {"POST", "/v1/messages",
         "{" HI ", \"tools\": [{\"name\": \"f\", \"input_schema\": {}, \"defer_loading\": true}]}",
         400, "invalid_request_error", "tools[0]: defer_loading: "},
        {"POST", "/v1/messages", "{" HI ", \"tool_choice\": {\"type\": \"any\"}}", 400,
         "invalid_request_error", "tool_choice: there are no tools"},
        {"POST", "/v1/messages", "{" HI ", \"tool_choice\": \"any\"}", 400, "invalid_request_error",
         "tool_choice.type: expected auto, any, tool, or none"},
        {"POST", "/v1/messages/count_tokens",
         "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}", 400,
         "invalid_request_error", "messages[0]: content[0]: type image: only text"},
        {"POST", "/v1/messages",
         "{\"max_tokens\": 4, \"output_config\": {\"format\": {\"type\": \"json_schema\", "
         "\"schema\": {}}}, \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
         "\"assistant\", \"content\": \"b\"}]}",
         400, "invalid_request_error", "output_config: the last message has begun the answer"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sp_json *json = serving_json(
            serving_ask(&served, all[i].method, all[i].path, all[i].body), all[i].status);

        assert_string_equal(served_text(json, "type"), "error");
        assert_string_equal(served_text(json, "error.type"), all[i].type);
        if (strstr(served_text(json, "error.message"), all[i].says) == NULL) {
            fail_msg("%s: \"%s\", expected \"%s\"", all[i].body, served_text(json, "error.message"),
                     all[i].says);
        }
        sp_json_free(json);
    }
}

/* Client libraries that keep their conversations at the server look for this code, and go on
 * without. */
static void test_thread(void **state)
{
    struct sp_json *json = serving_json(serving_ask(&served, "POST", "/v1/messages",
                                                    "{" HI ", \"thread\": {\"type\": \"create\"}}"),
                                        400);

    (void)state;
    assert_string_equal(served_text(json, "error.type"), "invalid_request_error");
    assert_string_equal(served_text(json, "error.details.error_code"),
                        "thread_unsupported_request");
    sp_json_free(json);
}

/* Members that are hints, or another server's affair, have no effect. */
static void test_hints(void **state)
{
    struct sp_json *json =
        ask(&served, "{" HI ", \"metadata\": {\"user_id\": \"u\"}, \"service_tier\": \"auto\", "
                     "\"cache_control\": {\"type\": \"ephemeral\"}, \"mcp_servers\": [], "
                     "\"container\": null, \"context_management\": {\"edits\": [{\"type\": "
                     "\"clear_thinking_20251015\", \"keep\": \"all\"}]}, \"inference_geo\": "
                     "\"eu\"}");

    (void)state;
    assert_int_equal(served_number(json, "usage.output_tokens"), 4);
    sp_json_free(json);
}

/* Clients know by these words that a conversation has to be made shorter. */
static void test_too_long(void **state)
{
    struct serving s = serving_start(served_file, (const char *const[]){"--num-ctx", "16", NULL});
    struct sp_json *json = ask(&s, ASK "}");

    (void)state;
    assert_string_equal(served_text(json, "stop_reason"), "model_context_window_exceeded");
    sp_json_free(json);
    json = serving_json(serving_ask(&s, "POST", "/v1/messages",
                                    "{\"max_tokens\": 4, \"messages\": [{\"role\": \"user\", "
                                    "\"content\": \"Tell me a story about a lonely owl.\"}]}"),
                        400);
    assert_int_equal(strncmp(served_text(json, "error.message"), "prompt is too long: ", 20), 0);
    sp_json_free(json);
    assert_int_equal(serving_stop(&s), 0);
}

/* OpenAI's paths speak Anthropic's words to who has its header. */
static void test_models(void **state)
{
    static const char header[] = "anthropic-version: 2023-06-01\r\n";
    struct sp_json *json =
        serving_json(serving_ask_with(&served, header, "GET", "/v1/models", NULL), 200);

    (void)state;
    assert_string_equal(served_text(json, "data.0.id"), "tiny");
    assert_string_equal(served_text(json, "data.0.type"), "model");
    assert_string_equal(served_text(json, "data.0.display_name"), "tiny");
    assert_int_equal(strlen(served_text(json, "data.0.created_at")), 27);
    assert_string_equal(served_text(json, "first_id"), "tiny");
    assert_string_equal(served_text(json, "last_id"), "tiny");
    sp_json_free(json);
    json = serving_json(serving_ask_with(&served, header, "GET", "/v1/models/tiny", NULL), 200);
    assert_string_equal(served_text(json, "id"), "tiny");
    sp_json_free(json);
    json = serving_json(serving_ask_with(&served, header, "GET", "/v1/models/other", NULL), 404);
    assert_string_equal(served_text(json, "error.type"), "not_found_error");
    sp_json_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message),  cmocka_unit_test(test_usage),
        cmocka_unit_test(test_stops),    cmocka_unit_test(test_own_stop),
        cmocka_unit_test(test_begun),    cmocka_unit_test(test_tools),
        cmocka_unit_test(test_thoughts), cmocka_unit_test(test_form),
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_thread),
        cmocka_unit_test(test_hints),    cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_models),
    };

    return cmocka_run_group_tests(tests, served_begin, served_end);
}
