/* Tests that --memory holds over all models of a server: what is not in use makes way for a
 * request, and a request that cannot get its memory is refused for now. */
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <unistd.h>

/* Two models of the same weights, and the memory of the caches of a short conversation. */
static char files[2][320];
static long unit;

#define CACHE "spectool_cache_memory_bytes"

#define SHORT "{'model': '%s', 'prompt': [%d, 580, 258, 421], 'max_tokens': 24}"

/* Serves both models with --memory N, and further options. */
static struct server start(long memory, const char *const *further)
{
    const char *options[24] = {files[1], "--kv-type", "f32", "--no-draft"};
    size_t n = 4;

    const char *text = keep_format("%ld", memory);
    if (memory) {
        options[n++] = "--memory";
        options[n++] = text;
    }
    while (further && *further)
        options[n++] = *further++;
    return server_start(files[0], options);
}

/* Continues a short prompt that begins with a token. Returns the text; kept. */
static const char *complete(const struct server *s, const char *model, int first)
{
    return json_text(server_post(s, "/v1/completions", keep_format(SHORT, model, first), 200),
                     "choices.0.text");
}

static int setup(void **state)
{
    if (served_setup(state)) return 1;
    for (int i = 0; i < 2; i++) {
        char name[] = {(char)('a' + i), '.', 'b', 'i', 'n', '\0'};
        snprintf(files[i], sizeof files[i], "%s", packed_path(name));
        assert_int_equal(link(served_file, files[i]), 0);
    }
    struct server s = start(0, NULL);
    assert_int_equal(served_metric(&s, CACHE), 0);
    complete(&s, "a", 582);
    unit = served_metric(&s, CACHE);
    assert_true(unit > 0);
    complete(&s, "b", 582);
    assert_int_equal(served_metric(&s, CACHE), 2 * unit);
    assert_int_equal(server_stop(&s), 0);
    return 0;
}

/* Where the caches of one model fit, the idle model is closed for the other one. */
TEST(test_idle_models)
{
    struct server s = start(unit + unit / 2, NULL);
    const char *first = NULL;

    for (int i = 0; i < 6; i++) {
        const char *text = complete(&s, i % 2 ? "b" : "a", 582);
        if (first == NULL) first = text;
        assert_string_equal(text, first);
        assert_int_equal(served_metric(&s, CACHE), unit);
        assert_int_equal(served_count_open(&s), 1);
    }
}

/* The conversations of a model in use make way for others, too. */
TEST(test_idle_sessions)
{
    struct server s = start(unit + unit / 2, NULL);

    for (int i = 0; i < 4; i++) {
        complete(&s, "a", i % 2 ? 582 : 258);
        assert_int_equal(served_metric(&s, CACHE), unit);
    }
}

static void check_refusal(const struct server *s, const char *path, const char *member,
                          const char *before, const char *text, const char *after)
{
    static char body[16384];

    snprintf(body, sizeof body, "%s%s%s", before, text, after);
    struct http_reply r = server_request(s, "POST", path, body);
    assert_non_null(strstr(r.head, "Retry-After: 1"));
    struct sp_json *json = http_reply_json(r, 503);
    assert_non_null(strstr(json_text(json, member), "KV caches for "));
    assert_non_null(
        strstr(json_text(json, member), " MB of the limit are left (--num-ctx, --memory "));
}

/* A request that needs the memory of an answer that is being generated gets 503 and the numbers, as
 * a stream, too. */
TEST(test_memory_in_use)
{
    static const struct {
        const char *path, *member, *before, *after;
    } rows[] = {
        {"/v1/completions", "error.message", "{'model': 'b', 'prompt': '", "'}"},
        {"/v1/completions", "error.message", "{'model': 'b', 'stream': true, 'prompt': '", "'}"},
        {"/v1/completions", "error.message",
         "{'model': 'b', 'stream': true, 'echo': true, 'logprobs': 1, 'prompt': '",
         "', 'max_tokens': 0}"},
        {"/v1/messages", "error.message",
         "{'model': 'b', 'stream': true, 'max_tokens': 8, 'messages': [{'role': 'user', 'content': "
         "'",
         "'}]}"},
        {"/api/generate", "error", "{'model': 'b', 'prompt': '", "'}"},
        {"/v1/embeddings", "error.message", "{'model': 'b', 'input': '", "'}"},
    };
    static const char *const options[] = {SERVED_SLOW_OPTIONS, "--pooling", "mean", NULL};
    static const char busy[] = "{'model': 'a', 'prompt': [582, 580, 258, 421], 'max_tokens': 4000, "
                               "'stream': true, 'logit_bias': {'1596': -100, '1598': -100}}";
    struct server s = start(4 * unit + unit / 2, options);
    char text[8 * 900 + 1] = "", piece[1];

    for (size_t i = 0; i < 900; i++)
        memcpy(text + 8 * i, "owl owl ", 9);
    int fd = server_begin_request(&s, "/v1/completions", busy);
    assert_int_equal(read(fd, piece, 1), 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refusal(&s, rows[i].path, rows[i].member, rows[i].before, text, rows[i].after);
    assert_true(served_metric(&s, CACHE) <= 4 * unit + unit / 2);
    close(fd);
}

/* A prompt that --memory cannot hold while nothing else runs is refused for good, like one that is
 * longer than the context. */
TEST(test_never_fits)
{
    static const char *const options[] = {"--pooling", "mean", NULL};
    struct server s = start(unit + unit / 2, options);
    static char body[16384];
    char text[8 * 900 + 1];

    for (size_t i = 0; i < 900; i++)
        memcpy(text + 8 * i, "owl owl ", 9);
    snprintf(body, sizeof body, "{'model': 'b', 'prompt': '%s'}", text);
    struct http_reply r = server_request(&s, "POST", "/v1/completions", body);
    assert_null(strstr(r.head, "Retry-After"));
    struct sp_json *json = http_reply_json(r, 400);
    assert_string_equal(json_text(json, "error.code"), "context_length_exceeded");
    assert_non_null(strstr(json_text(json, "error.message"), "the KV caches for a prompt of "));
    snprintf(body, sizeof body,
             "{'model': 'b', 'stream': true, 'max_tokens': 8, 'messages': [{'role': 'user', "
             "'content': '%s'}]}",
             text);
    json = server_post(&s, "/v1/messages", body, 400);
    assert_int_equal(strncmp(json_text(json, "error.message"), "prompt is too long: ", 20), 0);
    snprintf(body, sizeof body, "{'model': 'b', 'input': ['owl', '%s']}", text);
    r = server_request(&s, "POST", "/v1/embeddings", body);
    assert_null(strstr(r.head, "Retry-After"));
    json = http_reply_json(r, 400);
    assert_non_null(strstr(json_text(json, "error.message"), "the KV caches for text 1, "));
    assert_non_null(strstr(json_text(json, "error.message"), " MB, and the limit is "));
    complete(&s, "a", 582);
}

GROUP_FIXTURE(setup, served_teardown);
