/* `spectool serve` as clients see it: both APIs, their streams to the byte, what is refused, and
 * clients that come in crowds, hang up, dawdle or talk nonsense. The texts are those of an
 * independent implementation, or of `spectool run`. */
#include "format/unicode.h"
#include "tests/golden.h"
#include "tests/packed.h"
#include "tests/serving.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The format that the tiny model was trained on. */
static const char chatml[] =
    "TEMPLATE \"\"\"{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}"
    "<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n\"\"\"\n";

static const char *packed;  /* target and draft of testdata/tiny, with the template */
static struct serving tiny; /* it, served; keys and values in f32 */

static const char *pack(const char *records)
{
    const char *path = packed_modelfile(TESTDATA "/tiny/target", TESTDATA "/tiny/dflash");
    FILE *f = fopen(path, "a");

    assert_non_null(f);
    fputs(records, f);
    assert_int_equal(fclose(f), 0);
    return packed_file(path, SP_DTYPE_NONE, SP_DTYPE_NONE);
}

static int begin(void **state)
{
    const char *const options[] = {"--kv-type", "f32", "--name", "tiny", "--threads", "2", NULL};

    if (packed_begin(state)) return 1;
    packed = pack(chatml);
    tiny = serving_start(packed, options);
    return 0;
}

static int end(void **state)
{
    int code = serving_stop(&tiny);

    return packed_end(state) || code != 0;
}

/* Walks "a.0.b": members and elements. */
static const struct sp_json *at(const struct sp_json *json, const char *path)
{
    char word[64];

    while (*path != '\0' && json != NULL) {
        size_t len = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)len, path);
        path += len + (path[len] == '.');
        json = sp_json_kind(json) == SP_JSON_ARRAY ? sp_json_at(json, strtoul(word, NULL, 10))
                                                   : sp_json_get(json, word);
    }
    return json;
}

static const char *text_at(const struct sp_json *json, const char *path)
{
    const char *text = sp_json_to_string(at(json, path), NULL);

    if (text == NULL) fail_msg("no text at %s", path);
    return text;
}

static int64_t number_at(const struct sp_json *json, const char *path)
{
    int64_t n = -1;

    if (!sp_json_to_i64(at(json, path), &n)) fail_msg("no integer at %s", path);
    return n;
}

static struct sp_json *get(const char *path)
{
    return serving_json(serving_ask(&tiny, "GET", path, NULL), 200);
}

static struct sp_json *post(const char *path, const char *body)
{
    return serving_json(serving_ask(&tiny, "POST", path, body), 200);
}

/* ---- lists ------------------------------------------------------------------------------------
 */

static void test_lists(void **state)
{
    struct serving_reply r;
    struct sp_json *json;
    int64_t n;

    (void)state;
    r = serving_ask(&tiny, "GET", "/", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "spectool is running");
    serving_release(&r);
    r = serving_ask(&tiny, "HEAD", "/", NULL);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.size, 0);
    serving_release(&r);

    json = get("/health");
    assert_string_equal(text_at(json, "status"), "ok");
    sp_json_free(json);
    json = get("/v1/models");
    assert_string_equal(text_at(json, "object"), "list");
    assert_string_equal(text_at(json, "data.0.id"), "tiny");
    assert_string_equal(text_at(json, "data.0.object"), "model");
    sp_json_free(json);
    json = get("/v1/models/tiny");
    assert_string_equal(text_at(json, "id"), "tiny");
    sp_json_free(json);
    json = get("/api/version");
    assert_true(strlen(text_at(json, "version")) >= 5);
    sp_json_free(json);
    json = get("/api/tags");
    assert_string_equal(text_at(json, "models.0.name"), "tiny");
    assert_string_equal(text_at(json, "models.0.details.family"), "qwen3");
    assert_string_equal(text_at(json, "models.0.details.quantization_level"), "bf16");
    sp_json_free(json);
    json = get("/api/ps");
    assert_int_equal(number_at(json, "models.0.size_vram"), 0);
    sp_json_free(json);
    json = post("/api/show", "{\"model\": \"tiny:latest\"}");
    assert_non_null(strstr(text_at(json, "modelfile"), "TEMPLATE"));
    assert_non_null(strstr(text_at(json, "template"), "<|im_start|>"));
    assert_true(sp_json_to_i64(sp_json_get(at(json, "model_info"), "general.parameter_count"), &n));
    assert_in_range(n, 2600000, 2700000);
    sp_json_free(json);
}

/* ---- one answer -------------------------------------------------------------------------------
 */

/* What transformers wrote behind the first golden prompt, as text. */
static char *golden_text(size_t n)
{
    struct sp_json *golden = golden_json(TESTDATA "/tiny/golden_target.json");
    struct sp_package *package = NULL;
    struct sp_err err = {0};
    size_t n_ids, size;
    uint32_t *ids = golden_ids(at(golden, "greedy.0.ids"), &n_ids);
    char *text = NULL;

    assert_true(n <= n_ids);
    assert_int_equal(sp_package_open(&package, packed, &(struct sp_package_options){0}, &err), 0);
    assert_int_equal(sp_package_decode(package, ids, n, true, &text, &size, &err), 0);
    sp_package_close(package);
    sp_json_free(golden);
    free(ids);
    return text;
}

#define GOLDEN_PROMPT "\"prompt\": [582, 580, 258, 421], \"max_tokens\": 24"

static void test_golden(void **state)
{
    char *golden = golden_text(24);
    struct sp_json *json = post("/v1/completions", "{\"model\": \"tiny\", " GOLDEN_PROMPT "}");

    (void)state;
    assert_string_equal(text_at(json, "choices.0.text"), golden);
    assert_string_equal(text_at(json, "object"), "text_completion");
    assert_string_equal(text_at(json, "choices.0.finish_reason"), "length");
    assert_int_equal(number_at(json, "usage.prompt_tokens"), 4);
    assert_int_equal(number_at(json, "usage.completion_tokens"), 24);
    assert_int_equal(number_at(json, "usage.total_tokens"), 28);
    assert_int_equal(number_at(json, "timings.predicted_n"), 24);
    assert_true(number_at(json, "timings.draft_n_accepted") > 0);
    assert_true(number_at(json, "timings.draft_n") >= number_at(json, "timings.draft_n_accepted"));
    sp_json_free(json);
    free(golden);
}

/* ---- streams ----------------------------------------------------------------------------------
 */

/* Replaces what differs from call to call. */
static void mask(char *text, const char *key)
{
    for (char *p = text; (p = strstr(p, key)) != NULL;) {
        char *from = p + strlen(key), *to = from + strcspn(from, ",}");
        memmove(from, to, strlen(to) + 1);
        p = from;
    }
}

/* The stream's events to the byte, written anew from their contents. */
static void test_stream_bytes(void **state)
{
    struct serving_reply r =
        serving_ask(&tiny, "POST", "/v1/chat/completions",
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"What is 7 plus 8?\"}], "
                    "\"stream\": true, \"stream_options\": {\"include_usage\": true}, "
                    "\"max_tokens\": 2, \"seed\": 1}");
    static const char expected[] =
        "data: {\"id\": , \"object\": \"chat.completion.chunk\", \"created\": , \"model\": "
        "\"tiny\", \"system_fingerprint\": , \"choices\": [{\"index\": 0, \"delta\": {\"role\": "
        "\"assistant\", \"content\": \"\"}, \"logprobs\": null, \"finish_reason\": null}], "
        "\"usage\": null}\n\n"
        "data: {\"id\": , \"object\": \"chat.completion.chunk\", \"created\": , \"model\": "
        "\"tiny\", \"system_fingerprint\": , \"choices\": [{\"index\": 0, \"delta\": "
        "{\"content\": \"7\"}, \"logprobs\": null, \"finish_reason\": null}], \"usage\": null}\n\n"
        "data: {\"id\": , \"object\": \"chat.completion.chunk\", \"created\": , \"model\": "
        "\"tiny\", \"system_fingerprint\": , \"choices\": [{\"index\": 0, \"delta\": "
        "{\"content\": \" plus\"}, \"logprobs\": null, \"finish_reason\": null}], \"usage\": "
        "null}\n\n"
        "data: {\"id\": , \"object\": \"chat.completion.chunk\", \"created\": , \"model\": "
        "\"tiny\", \"system_fingerprint\": , \"choices\": [{\"index\": 0, \"delta\": {}, "
        "\"logprobs\": null, \"finish_reason\": \"length\"}], \"usage\": null, \"timings\": ";

    (void)state;
    assert_int_equal(r.status, 200);
    assert_true(r.chunked);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
    mask(r.body, "\"id\": ");
    mask(r.body, "\"created\": ");
    mask(r.body, "\"system_fingerprint\": ");
    if (strncmp(r.body, expected, strlen(expected)) != 0) fail_msg("%s", r.body);
    assert_non_null(strstr(r.body, "\"choices\": [], \"usage\": {\"prompt_tokens\": "));
    assert_string_equal(r.body + r.size - strlen("}\n\ndata: [DONE]\n\n"), "}\n\ndata: [DONE]\n\n");
    serving_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_stream_bytes),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, begin, end);
}
