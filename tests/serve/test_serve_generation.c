/* Tests several completions of one request: OpenAI's n, and several prompts of its text
 * completions. Each equals the completion of a separate request. */
#include "format/json/json.h"
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_ANSWERS = 8, MAX_TEXT = 1 << 12 };

/* The expected texts and token counts of a request. */
struct expected {
    char texts[MAX_ANSWERS][MAX_TEXT];
    size_t n;
    int64_t n_prompt, n_completion;
};

#define CHAT                                                                                       \
    "'messages': [{'role': 'user', 'content': 'Tell me a story.'}], 'max_tokens': 24, "            \
    "'temperature': 1.5"
#define TEXT "'max_tokens': 12, 'temperature': 1.5"

/* Adds the completion of a separate request. counted: its prompt tokens count, since no earlier
 * request had the same prompt. */
static void expect(struct expected *e, const char *path, const char *text, const char *body,
                   bool counted)
{
    struct sp_json *json = served_post(path, body);

    assert_true(e->n < MAX_ANSWERS && strlen(json_text(json, text)) < MAX_TEXT);
    strcpy(e->texts[e->n++], json_text(json, text));
    if (counted) e->n_prompt += json_number(json, "usage.prompt_tokens");
    e->n_completion += json_number(json, "usage.completion_tokens");
}

static void check_usage(const struct expected *e, const struct sp_json *json)
{
    assert_int_equal(json_number(json, "usage.prompt_tokens"), e->n_prompt);
    assert_int_equal(json_number(json, "usage.completion_tokens"), e->n_completion);
    assert_int_equal(json_number(json, "usage.total_tokens"), e->n_prompt + e->n_completion);
}

static void check_whole(const struct expected *e, const struct server *s, const char *path,
                        const char *text, const char *body)
{
    struct sp_json *json = server_post(s, path, body, 200);

    assert_int_equal(sp_json_len(json_at(json, "choices")), e->n);
    for (size_t i = 0; i < e->n; i++) {
        const struct sp_json *choice = sp_json_at(json_at(json, "choices"), i);
        assert_int_equal(json_number(choice, "index"), i);
        assert_string_equal(json_text(choice, text), e->texts[i]);
        assert_non_null(json_text(choice, "finish_reason"));
    }
    check_usage(e, json);
}

/* Checks that a stream has the same content: the first events in order, the parts of each
 * completion by its index, one end for each, and the usage and the end of the stream once, after
 * all of them. */
static void check_stream(const struct expected *e, const struct server *s, const char *path,
                         const char *piece, const char *body)
{
    struct http_reply r = server_request(s, "POST", path, body);
    char(*texts)[MAX_TEXT] = keep(calloc(MAX_ANSWERS, MAX_TEXT)), id[64] = "", *rest = NULL;
    size_t ends = 0, usages = 0, dones = 0, heads = 0;

    assert_non_null(texts);
    assert_int_equal(r.status, 200);
    for (char *line = strtok_r(r.body, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct sp_json *json = NULL;
        const struct sp_json *choice;
        assert_int_equal(strncmp(line, "data: ", 6), 0);
        if (strcmp(line, "data: [DONE]") == 0) {
            dones++;
            continue;
        }
        json = keep_parsed(line + 6, strlen(line + 6), SP_JSON_STRICT);
        if (*id == '\0') strcpy(id, json_text(json, "id"));
        assert_string_equal(json_text(json, "id"), id);
        if ((choice = json_at(json, "choices.0")) != NULL) {
            size_t at = (size_t)json_number(choice, "index");
            const char *text = sp_json_to_string(json_at(choice, piece), NULL);
            assert_true(at < e->n && usages == 0 && dones == 0);
            if (json_at(choice, "delta.role") != NULL) assert_int_equal(at, heads++);
            assert_true(json_at(choice, "delta") == NULL || at < heads);
            if (text != NULL) strcat(texts[at], text);
            ends += sp_json_get(choice, "finish_reason") != NULL;
        } else {
            check_usage(e, json);
            assert_int_equal(ends, e->n);
            assert_true(heads == 0 || heads == e->n);
            usages++;
        }
    }
    for (size_t i = 0; i < e->n; i++)
        assert_string_equal(texts[i], e->texts[i]);
    assert_int_equal(usages, 1);
    assert_int_equal(dones, 1);
}

#define STREAM ", 'stream': true, 'stream_options': {'include_usage': true}}"

/* Completion i is that of seed + i, whatever number is generated at a time. */
TEST(test_chat)
{
    static const char path[] = "/v1/chat/completions";
    struct server two = server_start(
        served_file, (const char *const[]){"--kv-type", "f32", "--sessions", "2", NULL});
    struct expected *e = keep(calloc(1, sizeof *e));

    assert_non_null(e);
    for (unsigned i = 0; i < 6; i++) {
        expect(e, path, "choices.0.message.content", keep_format("{" CHAT ", 'seed': %u}", 7 + i),
               i == 0);
    }
    assert_string_not_equal(e->texts[0], e->texts[1]);
    check_whole(e, &tiny_server, path, "message.content", "{" CHAT ", 'seed': 7, 'n': 6}");
    check_whole(e, &two, path, "message.content", "{" CHAT ", 'seed': 7, 'n': 6}");
    check_stream(e, &tiny_server, path, "delta.content", "{" CHAT ", 'seed': 7, 'n': 6" STREAM);
    check_stream(e, &two, path, "delta.content", "{" CHAT ", 'seed': 7, 'n': 6" STREAM);
}

/* The completions of one prompt are adjacent, and each prompt begins with the seed. */
TEST(test_prompts)
{
    static const char path[] = "/v1/completions",
                      several[] = "{'prompt': ['Once', 'There was'], 'n': 2, 'seed': 3, " TEXT;
    struct expected *e = keep(calloc(1, sizeof *e));
    char body[512];

    assert_non_null(e);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(body, sizeof body, "{'prompt': '%s', 'seed': %u, " TEXT "}",
                 i < 2 ? "Once" : "There was", 3 + i % 2);
        expect(e, path, "choices.0.text", body, i % 2 == 0);
    }
    snprintf(body, sizeof body, "%s}", several);
    check_whole(e, &tiny_server, path, "text", body);
    snprintf(body, sizeof body, "%s" STREAM, several);
    check_stream(e, &tiny_server, path, "text", body);
}

TEST(test_ids)
{
    struct sp_json
        *one = served_post("/v1/completions", "{" GOLDEN_PROMPT ", 'logprobs': 1}"),
        *two = served_post(
            "/v1/completions",
            "{'prompt': [[582], [582, 580, 258, 421]], 'max_tokens': 24, 'logprobs': 1}");
    bool same;

    assert_int_equal(sp_json_len(json_at(two, "choices")), 2);
    assert_string_equal(json_text(two, "choices.1.text"), json_text(one, "choices.0.text"));
    assert_ok(sp_json_equal(&same, json_at(two, "choices.1.logprobs"),
                            json_at(one, "choices.0.logprobs"), NULL));
    assert_true(same);
    assert_int_equal(json_number(two, "usage.prompt_tokens"), 5);
}

/* Checks that the response is one error, or ends with one. */
static void assert_cut(const struct http_reply *r)
{
    const char *error = strstr(r->body, "{\"error\": {\"message\": ");

    assert_non_null(error);
    assert_null(strstr(error + 1, "{\"error\": "));
    assert_null(strstr(r->body, "[DONE]"));
}

/* One refused prompt refuses the request once, and ends a stream that has begun. */
TEST(test_failure)
{
    struct server s =
        server_start(served_file, (const char *const[]){"--kv-type", "f32", "--num-ctx", "64",
                                                        "--sessions", "3", NULL});
    char *body = keep(calloc(1, 4096));

    assert_non_null(body);
    strcpy(body, "{'prompt': ['Once', 'Once', '");
    for (size_t i = 0; i < 200; i++)
        strcat(body, "word ");
    strcat(body, "', '', 'There'], 'stream': ");
    strcat(body, "false}");
    struct sp_json *json = server_post(&s, "/v1/completions", body, 400);
    assert_non_null(json_text(json, "error.message"));
    strcpy(body + strlen(body) - strlen("false}"), "true}");
    struct http_reply r = server_request(&s, "POST", "/v1/completions", body);
    assert_true(r.status == 200 || r.status == 400);
    assert_cut(&r);
    server_post(&s, "/v1/completions", "{'prompt': 'Once', 'n': 3}", 200);
}

/* A client that disconnects ends all of its completions, including waiting ones; a shutdown cuts
 * them off. */
TEST(test_end)
{
    const char *const options[] = {SERVED_SLOW_OPTIONS,  "--sessions", "2",
                                   "--shutdown-timeout", "0",          NULL};
    struct server s = server_start(served_file, options);
    char head[16];

    const char *body = keep_format(SERVED_LONG_REQUEST, "true, 'n': 5");
    int fd = server_begin_request(&s, "/v1/completions", body);
    assert_true(read(fd, head, sizeof head) > 0);
    close(fd);
    server_post(&s, "/v1/completions", "{" GOLDEN_PROMPT ", 'n': 2}", 200);
    fd = server_begin_request(&s, "/v1/completions", body);
    assert_true(recv(fd, head, sizeof head, MSG_PEEK) > 0);
    kill(s.pid, SIGTERM);
    struct http_reply r = client_receive(fd);
    assert_int_equal(server_wait(&s), 0);
    assert_cut(&r);
}

GROUP_FIXTURE(served_setup, served_teardown);
