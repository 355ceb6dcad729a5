/* Tests what all APIs of `spectool serve` have in common: the lists of models, texts equal to
 * those of `spectool run`, and the settings of the packed file. */
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

/* Each script and style sheet that the page names is served, and the page names nothing else. */
TEST(test_page_files)
{
    struct http_reply page =
        server_request_with(&tiny_server, "Accept: text/html\r\n", "GET", "/", NULL);
    size_t n = 0;

    assert_int_equal(page.status, 200);
    for (const char *at = page.body; (at = strpbrk(at, "=")) != NULL; at++) {
        char path[64];

        if (strncmp(at - 4, " src=\"", 6) != 0 && strncmp(at - 5, " href=\"", 7) != 0) continue;
        if (strncmp(at + 2, "data:", 5) == 0) continue;
        snprintf(path, sizeof path, "/%.*s", (int)strcspn(at + 2, "\""), at + 2);
        struct http_reply r = server_request(&tiny_server, "GET", path, NULL);
        assert_int_equal(r.status, 200);
        assert_non_null(strstr(r.head, strstr(path, ".css")
                                           ? "\r\nContent-Type: text/css;"
                                           : "\r\nContent-Type: text/javascript;"));
        n++;
    }
    assert_int_equal(n, 8);
}

TEST(test_lists)
{
    int64_t n;

    struct http_reply r = server_request(&tiny_server, "GET", "/", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "spectool is running");
    r = server_request_with(&tiny_server, "Accept: text/html,*/*\r\n", "GET", "/", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/html; charset=utf-8\r\n"));
    assert_non_null(strstr(r.head, "\r\nContent-Security-Policy: frame-ancestors 'none'\r\n"));
    assert_non_null(strstr(r.head, "\r\nX-Frame-Options: DENY\r\n"));
    assert_int_equal(strncmp(r.body, "<!DOCTYPE html>\n", 16), 0);
    assert_int_equal(strcmp(r.body + r.size - 8, "</html>\n"), 0);
    r = server_request(&tiny_server, "GET", "/page.js", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/javascript; charset=utf-8\r\n"));
    r = server_request(&tiny_server, "HEAD", "/", NULL);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.size, 0);

    struct sp_json *json = served_get("/health");
    assert_string_equal(json_text(json, "status"), "ok");
    json = served_get("/v1/models");
    assert_string_equal(json_text(json, "object"), "list");
    assert_string_equal(json_text(json, "data.0.id"), "tiny");
    assert_string_equal(json_text(json, "data.0.object"), "model");
    json = served_get("/v1/models/tiny");
    assert_string_equal(json_text(json, "id"), "tiny");
    json = served_get("/api/version");
    assert_string_equal(json_text(json, "version"), "0.13.4");
    assert_true(strlen(json_text(json, "spectool")) >= 5);
    json = served_get("/api/tags");
    assert_string_equal(json_text(json, "models.0.name"), "tiny");
    assert_string_equal(json_text(json, "models.0.details.family"), "qwen3");
    assert_string_equal(json_text(json, "models.0.details.quantization_level"), "bf16");
    json = served_get("/api/ps");
    assert_int_equal(json_number(json, "models.0.size_vram"), 0);
    json = served_post("/api/show", "{'model': 'tiny:latest'}");
    assert_non_null(strstr(json_text(json, "modelfile"), "TEMPLATE"));
    assert_non_null(strstr(json_text(json, "template"), "<|im_start|>"));
    assert_true(
        sp_json_to_i64(sp_json_get(json_at(json, "model_info"), "general.parameter_count"), &n));
    assert_in_range(n, 2600000, 2700000);
}

/* With a seed every API returns the text of `run`, streamed or not, with or without a draft. */
TEST(test_seed)
{
    char *expected =
        served_run(served_file, "'Tell me a story about a lonely owl.' --kv-type f32 --num-predict "
                                "60 --temperature 1.5 --seed 7 --no-draft");

    assert_true(strlen(expected) > 60);
    for (size_t i = 0; i < N_SERVED_APIS; i++) {
        char body[512], *text;
        size_t n;

        snprintf(body, sizeof body, "%sfalse}", served_apis[i].body);
        assert_string_equal(json_text(served_post(served_apis[i].path, body), served_apis[i].whole),
                            expected);
        snprintf(body, sizeof body, "%strue}", served_apis[i].body);
        struct http_reply r = server_request(&tiny_server, "POST", served_apis[i].path, body);
        assert_int_equal(r.status, 200);
        assert_true(r.chunked);
        text = stream_text(&r, served_apis[i].piece, &n);
        assert_string_equal(text, expected);
        assert_true(n > 20);
    }
}

#define STORY "'role': 'user', 'content': 'Tell me a story about a lonely owl.'"
#define BEGUN "'role': 'assistant', 'content': 'Once upon a time there was a'"
#define STORY_BEGUN "[{" STORY "}, {" BEGUN "}]"

/* A last message of the assistant is continued by every API. */
TEST(test_continuation)
{
    static const struct {
        const char *path, *body, *text;
    } all[] = {
        {"/v1/messages", "{'messages': " STORY_BEGUN ", 'max_tokens': 20}", "content.0.text"},
        {"/v1/chat/completions", "{'messages': " STORY_BEGUN ", 'max_tokens': 20}",
         "choices.0.message.content"},
        {"/v1/chat/completions",
         "{'messages': " STORY_BEGUN
         ", 'max_tokens': 20, 'continue_final_message': true, 'add_generation_prompt': false}",
         "choices.0.message.content"},
        {"/v1/responses", "{'input': " STORY_BEGUN ", 'max_output_tokens': 20}",
         "output.0.content.0.text"},
        {"/api/chat",
         "{'messages': " STORY_BEGUN ", 'options': {'num_predict': 20}, 'stream': false}",
         "message.content"},
    };
    struct sp_json *first = served_post(all[0].path, all[0].body), *json;

    assert_true(strlen(json_text(first, all[0].text)) > 10);
    for (size_t i = 1; i < sizeof all / sizeof *all; i++) {
        json = served_post(all[i].path, all[i].body);
        assert_string_equal(json_text(json, all[i].text), json_text(first, all[0].text));
    }
}

/* Responses name the model as the request does, and paths work without /v1, too. */
TEST(test_names)
{
    static const char *const paths[] = {"/v1/completions", "/completions"};
    struct sp_json *json;

    for (size_t i = 0; i < 2; i++) {
        json = served_post(paths[i], "{'model': 'tiny:latest', 'prompt': [582], 'max_tokens': 1}");
        assert_string_equal(json_text(json, "model"), "tiny:latest");
    }
    json = served_get("/models");
    assert_string_equal(json_text(json, "data.0.id"), "tiny");
    served_get("/models/tiny");
}

/* Without a seed every request gets a seed of its own. */
TEST(test_no_seed)
{
    static const char body[] = "{" GOLDEN_PROMPT ", 'temperature': 2}";
    struct sp_json *a = served_post("/v1/completions", body),
                   *b = served_post("/v1/completions", body);

    assert_string_not_equal(json_text(a, "choices.0.text"), json_text(b, "choices.0.text"));
}

/* At this temperature any token may come, including parts of characters: no event of a stream ends
 * inside a character. */
TEST(test_characters)
{
    static const char body[] = "{'prompt': 'a', 'raw': true, 'options': {'temperature': 100, "
                               "'seed': %d, 'num_predict': 200}, 'stream': %s}";
    size_t n_strange = 0;

    for (int seed = 0; seed < 5; seed++) {
        char text[256], *streamed;
        size_t n;

        snprintf(text, sizeof text, body, seed, "true");
        struct http_reply r = server_request(&tiny_server, "POST", "/api/generate", text);
        streamed = stream_text(&r, "response", &n);
        snprintf(text, sizeof text, body, seed, "false");
        assert_string_equal(streamed, json_text(served_post("/api/generate", text), "response"));
        for (const char *p = streamed; *p; p++)
            n_strange += (unsigned char)*p >= 0x80;
    }
    assert_true(n_strange > 0);
}

/* A continued conversation reuses the cached prompt, and its responses equal those of a server
 * that reads all of it. */
TEST(test_reuse)
{
    static const char
        first[] = "{'messages': [{'role': 'user', 'content': 'What is 7 plus 8?'}], 'max_tokens': "
                  "20, 'logprobs': true, 'seed': 3, 'temperature': 0.9}",
        next[] =
            "{'messages': [{'role': 'user', 'content': 'What is 7 plus 8?'}, {'role': 'assistant', "
            "'content': '%s'}, {'role': 'user', 'content': 'Tell me a story.'}], 'max_tokens': 40, "
            "'logprobs': true, 'top_logprobs': 5, 'seed': 3, 'temperature': 0.9}";
    static const char *const options[] = {"--kv-type", "f32", "--name", "tiny",
                                          "--threads", "1",   NULL};
    char body[1024];

    struct sp_json *a = served_post("/v1/chat/completions", first);
    snprintf(body, sizeof body, next, json_text(a, "choices.0.message.content"));
    a = served_post("/v1/chat/completions", body);
    assert_true(json_number(a, "usage.prompt_tokens_details.cached_tokens") > 10);
    assert_int_equal(json_number(a, "timings.cache_n") + json_number(a, "timings.prompt_n"),
                     json_number(a, "usage.prompt_tokens"));
    struct server fresh = server_start(served_file, options);
    struct sp_json *b = server_post(&fresh, "/v1/chat/completions", body, 200);
    assert_int_equal(json_number(b, "usage.prompt_tokens_details.cached_tokens"), 0);
    assert_string_equal(json_text(a, "choices.0.message.content"),
                        json_text(b, "choices.0.message.content"));
    /* Compares every digit of the log-probabilities. */
    {
        char *x = NULL, *y = NULL;
        x = keep_printed(json_at(a, "choices.0.logprobs"));
        y = keep_printed(json_at(b, "choices.0.logprobs"));
        assert_string_equal(x, y);
    }
    assert_int_equal(server_stop(&fresh), 0);
}

/* A stream tells how much of its prompt is processed if the request asks for it, and the header how
 * long an earlier prompt lets expect. */
TEST(test_prompt_progress)
{
    char prompt[4096] = "", question[4400];
    const char *at;
    int n = 0;

    for (int i = 0; i < 600; i++)
        snprintf(prompt + strlen(prompt), 8, "%s%d", i ? "," : "", 5 + i * 37 % 1000);
    snprintf(question, sizeof question,
             "{\"prompt\": [%s], \"max_tokens\": 2, \"stream\": true, \"return_progress\": true}",
             prompt);
    served_post("/v1/completions", "{'prompt': 'Once upon a time', 'max_tokens': 2}");
    struct http_reply r = server_request(&tiny_server, "POST", "/v1/completions", question);
    assert_int_equal(r.status, 200);
    for (at = r.body; (at = strstr(at, "\"prompt_progress\": {\"total\": 600, \"cache\": ")); n++) {
        unsigned cache = 0, processed = 0;
        assert_int_equal(sscanf(strchr(at, '{'),
                                "{\"total\": 600, \"cache\": %u, \"processed\": %u, \"time_ms\": ",
                                &cache, &processed),
                         2);
        assert_true(cache <= processed && processed < 600);
        at++;
    }
    assert_in_range(n, 2, 600);
    snprintf(question, sizeof question, "{\"prompt\": [7,%s], \"max_tokens\": 2, \"stream\": true}",
             prompt);
    r = server_request(&tiny_server, "POST", "/v1/completions", question);
    assert_null(strstr(r.body, "prompt_progress"));
    at = strstr(r.head, "X-Prompt-Seconds: ");
    assert_non_null(at);
    assert_true(strtod(at + strlen("X-Prompt-Seconds: "), NULL) < 60);
}

/* A prompt that several requests have is processed once, and not again by a later server. */
TEST(test_prompt_cache)
{
    char prompt[2048] = "", question[2600];
    const char *cache = packed_path("pages");
    const char *const options[] = {"--cache-dir", cache, "--kv-type", "f32",
                                   "--sessions",  "3",   NULL};

    for (int i = 0; i < 300; i++)
        snprintf(prompt + strlen(prompt), 8, "%s%d", i ? "," : "", 5 + i * 31 % 1000);
    snprintf(question, sizeof question, "{'prompt': [%s,7,8], 'max_tokens': 12, 'seed': 1}",
             prompt);
    struct sp_json *want = served_post("/v1/completions", question);
    for (int i = 0; i < 2; i++) {
        struct server s = server_start(served_file, options);
        int requests[3], n_cached = 0;
        for (int k = 0; k < 3; k++)
            requests[k] = server_begin_request(&s, "/v1/completions", question);
        for (int k = 0; k < 3; k++) {
            struct sp_json *json = http_reply_json(client_receive(requests[k]), 200);
            n_cached += (int)json_number(json, "usage.prompt_tokens_details.cached_tokens");
            assert_string_equal(json_text(json, "choices.0.text"),
                                json_text(want, "choices.0.text"));
        }
        assert_int_equal(n_cached, (2 + i) * 256);
        assert_int_equal(server_stop(&s), 0);
    }
}

/* The file's SYSTEM begins a conversation that has no system message, its PARAMETER records and
 * the command line give the defaults of a request, and `run` builds the same prompt. */
TEST(test_records)
{
    const char *packed =
        served_pack(SERVED_CHATML "SYSTEM You are an owl.\nPARAMETER num_predict 9\n"
                                  "PARAMETER stop zzz\nMESSAGE user Hi\nMESSAGE assistant Hello\n");

    struct server s =
        server_start(packed, (const char *const[]){"--kv-type", "f32", "--no-draft", NULL});
    char *expected = served_run(packed, "'Tell me a story.' --kv-type f32");
    struct sp_json *json =
        server_post(&s, "/api/generate", "{'prompt': 'Tell me a story.', 'stream': false}", 200);
    assert_string_equal(json_text(json, "response"), expected);
    assert_int_equal(json_number(json, "eval_count"), 9);
    assert_string_equal(json_text(json, "done_reason"), "length");
    assert_int_equal(json_number(json, "draft_count"), 0);
    expected = served_run(packed,
                          "'Tell me a story.' --kv-type f32 --system 'Be a cat.' --num-predict 12");
    json = server_post(&s, "/v1/chat/completions",
                       "{'messages': [{'role': 'developer', 'content': 'Be a cat.'}, {'role': "
                       "'user', 'content': 'Tell me a story.'}], 'max_tokens': 12}",
                       200);
    assert_string_equal(json_text(json, "choices.0.message.content"), expected);
    json = server_post(&s, "/api/generate", "{'model': ''}", 404);
    json = server_post(&s, "/api/generate", "{'keep_alive': 0}", 200);
    assert_string_equal(json_text(json, "done_reason"), "unload");
    assert_int_equal(server_stop(&s), 0);
}

GROUP_FIXTURE(served_setup, served_teardown);
