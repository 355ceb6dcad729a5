/* Tests what an operator of `spectool serve` uses: keys, metrics, readiness, the log, and the
 * endpoints that show the tokenizer, the template and the sessions. */
#include "cli/serve/http/serve_http.h"
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <sys/socket.h>
#include <unistd.h>

#define MESSAGES "'messages': [{'role': 'user', 'content': 'Hi'}]"

/* Writes a file in the tests' folder and returns its path. */
static const char *written(const char *name, const char *text)
{
    const char *path = packed_path(name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return path;
}

TEST(test_key_files)
{
    struct sp_serve_keys keys = {0};

    assert_true(sp_serve_keys_allow(&keys, NULL, NULL));
    assert_ok(sp_serve_keys_read(&keys, written("keys", "# ours\n\n one \r\ntwo"), "three", why));
    assert_int_equal(keys.n, 3);
    sp_serve_keys_release(&keys);
    assert_ok(sp_serve_keys_read(&keys, written("keys", "\xEF\xBB\xBFone"), NULL, why));
    assert_true(sp_serve_keys_allow(&keys, "Bearer one", NULL));
    sp_serve_keys_release(&keys);
    assert_fails(sp_serve_keys_read(&keys, scratch_write("keys", "one\0two", 7), NULL, why),
                 SP_E_INPUT, "byte 3 is NUL");
    assert_ok(sp_serve_keys_read(&keys, written("keys", "# ours\n\n one \r\ntwo"), "three", why));
    assert_true(sp_serve_keys_allow(&keys, "Bearer one", NULL));
    assert_true(sp_serve_keys_allow(&keys, "bearer  two", NULL));
    assert_true(sp_serve_keys_allow(&keys, NULL, "three"));
    assert_true(sp_serve_keys_allow(&keys, "Basic x", "three"));
    assert_false(sp_serve_keys_allow(&keys, "Bearer onetwo", NULL));
    assert_false(sp_serve_keys_allow(&keys, "Bearer oneone", NULL));
    assert_false(sp_serve_keys_allow(&keys, "Bearer on", NULL));
    assert_false(sp_serve_keys_allow(&keys, "Bearer ", ""));
    assert_false(sp_serve_keys_allow(&keys, "one", NULL));
    assert_false(sp_serve_keys_allow(&keys, NULL, NULL));
    sp_serve_keys_release(&keys);
    assert_fails(sp_serve_keys_read(&keys, written("none", "# nothing\n"), NULL, why), SP_E_INPUT,
                 "has no key");
}

/* With a key, only health and readiness are open. */
TEST(test_keys)
{
    static const char bearer[] = "Authorization: Bearer one\r\n", x[] = "x-api-key: two\r\n";
    const char *const options[] = {"--api-key-file", written("keys", "one\n"), NULL};

    setenv("SPECTOOL_API_KEY", "two", 1);
    struct server s = server_start(served_file, options);
    unsetenv("SPECTOOL_API_KEY");
    struct http_reply r = server_request(&s, "POST", "/v1/completions", "{" GOLDEN_PROMPT "}");
    assert_int_equal(r.status, 401);
    assert_non_null(strstr(r.head, "\r\nWWW-Authenticate: Bearer\r\n"));
    struct sp_json *json = server_get(&s, "/v1/models", 401);
    assert_string_equal(json_text(json, "error.code"), "invalid_api_key");
    assert_non_null(strstr(json_text(json, "error.message"), "needs an API key"));
    json = http_reply_json(
        server_request_with(&s, "Authorization: Bearer two_\r\n", "GET", "/v1/models", NULL), 401);
    assert_non_null(strstr(json_text(json, "error.message"), "API key is not valid"));
    json = http_reply_json(
        server_request_with(&s, "anthropic-version: 2023-06-01\r\n", "GET", "/v1/models", NULL),
        401);
    assert_string_equal(json_text(json, "error.type"), "authentication_error");
    server_get(&s, "/health", 200);
    server_get(&s, "/ready", 200);
    http_reply_json(server_request_with(&s, bearer, "GET", "/v1/models", NULL), 200);
    http_reply_json(server_request_with(&s, x, "POST", "/v1/completions", "{" GOLDEN_PROMPT "}"),
                    200);
    assert_int_equal(server_stop(&s), 0);
    s = server_start(served_file, (const char *const[]){"--quiet", NULL});
    assert_int_equal(server_count_log(&s, "--api-key-file"), 0);
}

/* Returns the value of a series; -1: there is none. */
static double series(const char *text, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ' ') return strtod(line + len, NULL);
    }
    return -1;
}

/* Every series has a help text and a type before its first value. */
static void check_format(const char *text)
{
    char name[128] = "";

    for (const char *line = text; line && line[1]; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (*line == '\0') break;
        if (strncmp(line, "# HELP ", 7) == 0) {
            size_t len = strcspn(line + 7, " ");
            snprintf(name, sizeof name, "%.*s", (int)len, line + 7);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(strncmp(line + 7, name, strlen(name)), 0);
        } else {
            assert_int_equal(strncmp(line, name, strlen(name)), 0);
        }
    }
}

/* Drafts in every round: left to itself, drafting pauses where other programs disturb its times. */
#define DRAFTED ", 'draft_num_predict': 4"

/* The label of a model whose name has characters that are escaped. */
#define NAMED "model=\"a\\\"b\\\\c\""

TEST(test_metrics)
{
    struct server s = server_start(
        served_file, (const char *const[]){"--name", "a\"b\\c", "--sessions", "1", NULL});

    for (int i = 0; i < 2; i++)
        server_post(&s, "/v1/completions", "{" GOLDEN_PROMPT DRAFTED "}", 200);
    server_get(&s, "/nothing", 404);
    server_await_log(&s, "/v1/completions 200", 2);
    server_await_log(&s, "/nothing 404", 1);
    struct http_reply r = server_request(&s, "GET", "/metrics", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "text/plain; version=0.0.4"));
    check_format(r.body);
    assert_true(series(r.body, "spectool_model_open{" NAMED "}") == 1);
    assert_true(series(r.body, "spectool_prompt_tokens_total{" NAMED "}") == 8);
    assert_true(series(r.body, "spectool_prompt_tokens_cached_total{" NAMED "}") == 3);
    assert_true(series(r.body, "spectool_generated_tokens_total{" NAMED "}") == 48);
    assert_true(series(r.body, "spectool_answers_total{" NAMED "}") == 2);
    assert_true(series(r.body, "spectool_time_to_first_token_seconds_count{" NAMED "}") == 2);
    assert_true(series(r.body, "spectool_inter_token_seconds_count{" NAMED "}") == 46);
    assert_true(series(r.body, "spectool_answer_seconds_bucket{" NAMED ",le=\"+Inf\"}") == 2);
    assert_true(series(r.body, "spectool_responses_total{code=\"200\"}") == 2);
    assert_true(series(r.body, "spectool_responses_total{code=\"404\"}") == 1);
    assert_true(series(r.body, "spectool_draft_tokens_total{" NAMED "}") > 0);
    assert_true(series(r.body, "spectool_draft_tokens_accepted_total{" NAMED "}") > 0);
    assert_true(series(r.body, "spectool_draft_position_accepted_total{" NAMED ",position=\"0\"}") >
                0);
    assert_true(series(r.body, "spectool_requests_waiting") == 0);
    assert_true(series(r.body, "spectool_request_memory_bytes") == 0);
}

/* The log line of a greedy answer says that the answer repeats itself without end; that of a
 * sampled one does not. Of several answers it counts those that do. */
TEST(test_loop)
{
    static const char body[] =
        "{'prompt': [582], 'max_tokens': 300, 'temperature': %d, 'logit_bias': {'258': 100}}";
    struct server s = server_start(served_file, NULL);
    char text[128];

    for (int temperature = 1; temperature >= 0; temperature--) {
        snprintf(text, sizeof text, body, temperature);
        server_post(&s, "/v1/completions", text, 200);
    }
    server_await_log(&s, "/v1/completions 200", 2);
    assert_int_equal(server_count_log(&s, ", repeats its last 1 token, length"), 1);
    snprintf(text, sizeof text, body, 0);
    strcpy(strrchr(text, '}'), ", 'n': 2}");
    server_post(&s, "/v1/completions", text, 200);
    server_await_log(&s, " in 2 answers, 2 of which repeat themselves", 1);
}

/* Serves the model, generates enough for the statistics of drafting, and returns their file; NULL:
 * none was kept. */
static const char *draft_and_stop(const char *const *options)
{
    struct server s = server_start(served_file, options);

    server_post(&s, "/v1/completions",
                "{'prompt': [582, 580, 258, 421], 'max_tokens': 240" DRAFTED
                ", 'logit_bias': {'1596': -100, '1598': -100}}",
                200);
    assert_int_equal(server_stop(&s), 0);
    const char *const *names = folder_names(scratch_path("spectool/drafting"));
    assert_true(!names[0] || !names[1]);
    return names[0] ? keep_format("%s/%s", scratch_path("spectool/drafting"), names[0]) : NULL;
}

/* What was learned of drafting is kept at the end, read at the start; --no-cache does neither. */
TEST(test_drafting_cache)
{
    static const char *const no_cache[] = {"--no-cache", NULL};
    const char *path, damaged[] = "{'version': 1}";

    setenv("XDG_CACHE_HOME", scratch_folder(), 1);
    assert_null(draft_and_stop(no_cache));
    path = draft_and_stop(NULL);
    assert_non_null(path);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(damaged, f) >= 0 && fclose(f) == 0);
    struct server s = server_start(served_file, no_cache);
    assert_int_equal(server_stop(&s), 0);
    assert_int_equal(access(path, F_OK), 0);
    s = server_start(served_file, NULL); /* it removes what it cannot read */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(server_stop(&s), 0);
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
}

/* A server whose queue is full is alive, but not ready. */
TEST(test_readiness)
{
    static const char *const options[] = {"--max-queue",       "1", "--sessions", "1",
                                          SERVED_SLOW_OPTIONS, NULL};
    struct server s = server_start(served_file, options);
    char body[256], byte;
    struct http_reply r;

    struct sp_json *json = server_get(&s, "/ready", 200);
    assert_string_equal(json_text(json, "status"), "ready");
    /* Requests for many answers, since one answer could end before the server is asked. */
    snprintf(body, sizeof body, SERVED_LONG_REQUEST, "true, 'n': 128");
    int running = server_begin_request(&s, "/v1/completions", body);
    assert_int_equal(recv(running, &byte, 1, 0), 1);
    json = server_get(&s, "/slots", 200);
    assert_string_equal(sp_json_kind_name(sp_json_kind(json_at(json, "0.is_processing"))),
                        "boolean");
    server_get(&s, "/slots?fail_on_no_slot=1", 503);
    int waiting = server_begin_request(&s, "/v1/completions", body);
    while ((r = server_request(&s, "GET", "/ready", NULL)).status == 200)
        continue;
    json = http_reply_json(r, 503);
    json_expect(json, "{'requests_waiting': 1, 'answers_running': 1}");
    server_get(&s, "/health", 200);
    close(waiting);
    close(running);
}

/* A line of the log is a JSON object with the figures of the request, or with its error. */
TEST(test_json_log)
{
    struct server s =
        server_start(served_file, (const char *const[]){"--log-format", "json", NULL});
    char line[1024] = "";
    struct sp_json *json = NULL;

    server_post(&s, "/v1/completions", "{" GOLDEN_PROMPT "}", 200);
    server_await_log(&s, "/v1/completions", 1);
    server_get(&s, "/\"x%c2%9b", 404);
    server_await_log(&s, "\"error\": \"not found\"", 1);
    FILE *f = fopen(s.log, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f)); /* the address */
    assert_non_null(fgets(line, sizeof line, f));
    json = keep_parsed(line, strlen(line), SP_JSON_STRICT);
    json_expect(json,
                "{'status': 200, 'prompt_tokens': 4, 'generated_tokens': 24, 'stop': 'length'}");
    assert_non_null(json_at(json, "prompt_seconds"));
    assert_int_equal(strlen(json_text(json, "time")), strlen("2025-01-01T00:00:00.000000Z"));
    assert_non_null(fgets(line, sizeof line, f));
    json = keep_parsed(line, strlen(line), SP_JSON_STRICT);
    assert_string_equal(json_text(json, "path"), "/\"x??");
    fclose(f);
}

TEST(test_tokenizer)
{
    struct sp_json *json = served_post("/tokenize", "{'content': 'Once<|im_end|>'}");
    const size_t n = sp_json_len(json_at(json, "tokens"));
    char *tokens = NULL, body[256];

    assert_true(n >= 2);
    tokens = keep_printed(json_at(json, "tokens"));
    snprintf(body, sizeof body, "{'tokens': %s}", tokens);
    json = served_post("/detokenize", body);
    assert_string_equal(json_text(json, "content"), "Once<|im_end|>");
    json = served_post("/tokenize", "{'content': '<|im_end|>', 'parse_special': false}");
    assert_true(sp_json_len(json_at(json, "tokens")) > 1);
    json = served_post("/tokenize", "{'content': '<|im_end|>', 'with_pieces': true}");
    assert_string_equal(json_text(json, "tokens.0.piece"), "<|im_end|>");
    json = server_post(&tiny_server, "/tokenize", "{}", 400);
    assert_string_equal(json_text(json, "error.message"), "content: expected a string");
    server_post(&tiny_server, "/detokenize", "{'tokens': ['a']}", 400);
}

TEST(test_template)
{
    struct sp_json *json = served_post("/apply-template", "{" MESSAGES "}");

    assert_string_equal(json_text(json, "prompt"),
                        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    server_post(&tiny_server, "/apply-template", "{}", 400);
    json = served_get("/props");
    assert_int_equal(json_number(json, "total_slots"), 4);
    assert_non_null(strstr(json_text(json, "chat_template"), "<|im_start|>"));
    assert_int_equal(json_number(json, "default_generation_settings.params.top_k"), 0);
}

GROUP_FIXTURE(served_setup, served_teardown);
