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
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
    assert_string_equal(text_at(json, "version"), "0.9.0");
    assert_true(strlen(text_at(json, "spectool")) >= 5);
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

/* The texts of a stream's events or lines, joined; each of them whole characters. *n: how many. */
static char *joined(const struct serving_reply *r, const char *path, size_t *n)
{
    char *copy = malloc(r->size + 1), *text = calloc(1, r->size + 1), *rest = NULL;
    bool done = false;

    assert_non_null(copy);
    assert_non_null(text);
    memcpy(copy, r->body, r->size + 1);
    *n = 0;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct sp_json *json = NULL;
        const char *piece;
        size_t len;

        assert_false(done);
        if (strncmp(line, "data: ", 6) == 0) line += 6;
        if ((done = strcmp(line, "[DONE]") == 0)) continue;
        assert_int_equal(sp_json_parse(&json, line, strlen(line), SP_JSON_STRICT, NULL), SP_OK);
        piece = sp_json_to_string(at(json, path), &len);
        if (piece != NULL && len > 0) {
            assert_int_equal(sp_utf8_valid(piece, len), len);
            strcat(text, piece);
            ++*n;
        }
        sp_json_free(json);
    }
    free(copy);
    return text;
}

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
    char *text;
    size_t n;

    (void)state;
    assert_int_equal(r.status, 200);
    assert_true(r.chunked);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
    text = joined(&r, "choices.0.delta.content", &n);
    assert_string_equal(text, "7 plus");
    assert_int_equal(n, 2);
    free(text);
    mask(r.body, "\"id\": ");
    mask(r.body, "\"created\": ");
    mask(r.body, "\"system_fingerprint\": ");
    if (strncmp(r.body, expected, strlen(expected)) != 0) fail_msg("%s", r.body);
    assert_non_null(strstr(r.body, "\"choices\": [], \"usage\": {\"prompt_tokens\": "));
    assert_string_equal(r.body + r.size - strlen("}\n\ndata: [DONE]\n\n"), "}\n\ndata: [DONE]\n\n");
    serving_release(&r);
}

/* Each API's way to ask for the same answer. */
static const struct way {
    const char *path, *body; /* up to the value of `stream` */
    const char *whole, *piece;
} ways[] = {
    {"/v1/chat/completions",
     "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me a story about a lonely owl.\"}], "
     "\"max_tokens\": 60, \"temperature\": 1.5, \"seed\": 7, \"stream\": ",
     "choices.0.message.content", "choices.0.delta.content"},
    {"/v1/completions",
     "{\"prompt\": \"<|im_start|>user\\nTell me a story about a lonely owl.<|im_end|>\\n"
     "<|im_start|>assistant\\n\", \"max_completion_tokens\": 60, \"temperature\": 1.5, \"seed\": "
     "7, "
     "\"stream\": ",
     "choices.0.text", "choices.0.text"},
    {"/api/chat",
     "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me a story about a lonely owl.\"}], "
     "\"options\": {\"num_predict\": 60, \"temperature\": 1.5, \"seed\": 7}, \"stream\": ",
     "message.content", "message.content"},
    {"/api/generate",
     "{\"prompt\": \"Tell me a story about a lonely owl.\", "
     "\"options\": {\"num_predict\": 60, \"temperature\": 1.5, \"seed\": 7}, \"stream\": ",
     "response", "response"},
};

/* What `spectool run` prints, without its last line end. */
static char *run(const char *options)
{
    char command[1024], *text = calloc(1, 1 << 16);
    size_t size;
    FILE *f;

    assert_non_null(text);
    snprintf(command, sizeof command, "%s run %s %s 2>/dev/null </dev/null", SPECTOOL, packed,
             options);
    f = popen(command, "r");
    assert_non_null(f);
    size = fread(text, 1, (1 << 16) - 1, f);
    assert_int_equal(pclose(f), 0);
    assert_true(size > 0 && text[size - 1] == '\n');
    text[size - 1] = '\0';
    return text;
}

/* A seed is a text: that of `run`, in both APIs, streamed or not, drafted or not. */
static void test_seed(void **state)
{
    char *expected = run("'Tell me a story about a lonely owl.' --kv-type f32 --num-predict 60 "
                         "--temperature 1.5 --seed 7 --no-draft");

    (void)state;
    assert_true(strlen(expected) > 60);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct serving_reply r;
        struct sp_json *json;
        char body[512], *text;
        size_t n;

        snprintf(body, sizeof body, "%sfalse}", ways[i].body);
        json = post(ways[i].path, body);
        assert_string_equal(text_at(json, ways[i].whole), expected);
        sp_json_free(json);
        snprintf(body, sizeof body, "%strue}", ways[i].body);
        r = serving_ask(&tiny, "POST", ways[i].path, body);
        assert_int_equal(r.status, 200);
        assert_true(r.chunked);
        text = joined(&r, ways[i].piece, &n);
        assert_string_equal(text, expected);
        assert_true(n > 20);
        free(text);
        serving_release(&r);
    }
    free(expected);
}

/* Without a seed every request gets one of its own. */
static void test_no_seed(void **state)
{
    static const char body[] = "{" GOLDEN_PROMPT ", \"temperature\": 2}";
    struct sp_json *a = post("/v1/completions", body), *b = post("/v1/completions", body);

    (void)state;
    assert_string_not_equal(text_at(a, "choices.0.text"), text_at(b, "choices.0.text"));
    sp_json_free(a);
    sp_json_free(b);
}

/* At this temperature any token comes, parts of characters among them: no piece of a stream ends
 * within a character. */
static void test_characters(void **state)
{
    static const char body[] = "{\"prompt\": \"a\", \"raw\": true, \"options\": {\"temperature\": "
                               "100, \"seed\": %d, \"num_predict\": 200}, \"stream\": %s}";
    size_t n_strange = 0;

    (void)state;
    for (int seed = 0; seed < 5; seed++) {
        struct serving_reply r;
        struct sp_json *json;
        char text[256], *streamed;
        size_t n;

        snprintf(text, sizeof text, body, seed, "true");
        r = serving_ask(&tiny, "POST", "/api/generate", text);
        streamed = joined(&r, "response", &n);
        serving_release(&r);
        snprintf(text, sizeof text, body, seed, "false");
        json = post("/api/generate", text);
        assert_string_equal(streamed, text_at(json, "response"));
        for (const char *p = streamed; *p; p++)
            n_strange += (unsigned char)*p >= 0x80;
        sp_json_free(json);
        free(streamed);
    }
    assert_true(n_strange > 0);
}

/* ---- forms ------------------------------------------------------------------------------------
 */

/* Each way to ask for a form that one text has, or two: the answer is one of them, and ends. */
static void test_forms(void **state)
{
#define CHAT "\"messages\": [{\"role\": \"user\", \"content\": \"Tell me a story\"}], "
    static const char word[] = "\"Mia, \\\"Finn\\\"\"";
    static const struct {
        const char *path, *body, *at, *text;
    } all[] = {
        {"/v1/chat/completions",
         "{" CHAT
         "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"a\", "
         "\"strict\": true, \"schema\": {\"const\": \"Mia, \\\"Finn\\\"\"}}}}",
         "choices.0.message.content", word},
        {"/v1/chat/completions",
         "{" CHAT "\"response_format\": {\"type\": \"json_object\", \"schema\": {\"const\": \"Mia, "
         "\\\"Finn\\\"\"}}, \"temperature\": 2, \"seed\": 7}",
         "choices.0.message.content", word},
        {"/v1/chat/completions", "{" CHAT "\"json_schema\": {\"const\": \"Mia, \\\"Finn\\\"\"}}",
         "choices.0.message.content", word},
        {"/v1/completions",
         "{\"prompt\": \"Once\", \"grammar\": \"root ::= \\\"an \\\" [o] \\\"wl\\\"\"}",
         "choices.0.text", "an owl"},
        {"/api/chat", "{" CHAT "\"stream\": false, \"format\": {\"const\": \"Mia, \\\"Finn\\\"\"}}",
         "message.content", word},
        {"/api/generate",
         "{\"prompt\": \"Once\", \"stream\": false, \"format\": {\"enum\": [12345]}}", "response",
         "12345"},
    };
    struct sp_json *json;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        json = post(all[i].path, all[i].body);
        assert_string_equal(text_at(json, all[i].at), all[i].text);
        sp_json_free(json);
    }
    json = post("/v1/chat/completions",
                "{" CHAT "\"max_tokens\": 3, \"response_format\": {\"type\": \"json_object\"}}");
    assert_int_equal(text_at(json, "choices.0.message.content")[0], '{');
    assert_string_equal(text_at(json, "choices.0.finish_reason"), "length");
    sp_json_free(json);
    json = post("/api/generate", "{\"prompt\": \"Once\", \"stream\": false, \"format\": \"json\", "
                                 "\"options\": {\"num_predict\": 3}}");
    assert_int_equal(text_at(json, "response")[0], '{');
    sp_json_free(json);
}

/* ---- endings ----------------------------------------------------------------------------------
 */

/* A stop text is cut off, wherever tokens and pieces begin, and so are its tokens. */
static void test_stop(void **state)
{
    static const char body[] = "{" GOLDEN_PROMPT ", \"stop\": [\"zzz\", \"%s\"], \"logprobs\": 0, "
                               "\"stream\": %s}";
    char *golden = golden_text(24), word[8] = {0}, text[256], *streamed;
    const char *cut = golden + 20, *found;
    struct serving_reply r;
    struct sp_json *json;
    size_t n, n_tokens, len = 0;

    (void)state;
    memcpy(word, cut, 6);
    found = strstr(golden, word);
    assert_non_null(found);
    snprintf(text, sizeof text, body, word, "true");
    r = serving_ask(&tiny, "POST", "/v1/completions", text);
    streamed = joined(&r, "choices.0.text", &n);
    assert_int_equal(strlen(streamed), found - golden);
    assert_memory_equal(streamed, golden, strlen(streamed));
    assert_non_null(strstr(r.body, "\"finish_reason\": \"stop\""));
    serving_release(&r);

    snprintf(text, sizeof text, body, word, "false");
    json = post("/v1/completions", text);
    assert_string_equal(text_at(json, "choices.0.text"), streamed);
    n_tokens = sp_json_len(at(json, "choices.0.logprobs.tokens"));
    assert_true(n_tokens > 0);
    for (size_t i = 0; i + 1 < n_tokens; i++)
        len +=
            strlen(sp_json_to_string(sp_json_at(at(json, "choices.0.logprobs.tokens"), i), NULL));
    assert_true(len < strlen(streamed));
    sp_json_free(json);
    free(streamed);
    free(golden);
}

/* ---- log-probabilities ------------------------------------------------------------------------
 */

/* The log-softmax of the golden logits, rows of which transformers wrote. */
static void test_logprobs(void **state)
{
    struct sp_json *json =
        post("/v1/completions",
             "{\"prompt\": [582, 580, 258, 421], \"max_tokens\": 1, \"logprobs\": 3}");
    size_t rows, cols;
    float *logits = golden_npy(TESTDATA "/tiny/target_logits_0.npy", &rows, &cols);
    const float *row = logits + 3 * cols;
    double sum = 0, max = -1e30, told;

    (void)state;
    for (size_t i = 0; i < cols; i++)
        if ((double)row[i] > max) max = (double)row[i];
    for (size_t i = 0; i < cols; i++)
        sum += __builtin_exp((double)row[i] - max);
    assert_true(sp_json_to_double(at(json, "choices.0.logprobs.token_logprobs.0"), &told));
    assert_true(told <= 0 && told + __builtin_log(sum) < 2e-3 && told + __builtin_log(sum) > -2e-3);
    assert_int_equal(number_at(json, "choices.0.logprobs.text_offset.0"), 0);
    assert_int_equal(sp_json_len(at(json, "choices.0.logprobs.top_logprobs.0")), 3);
    sp_json_free(json);
    free(logits);
}

/* Tokens are as long as their text together, in a chat's stream, too; `bytes` are theirs. */
static void test_chat_logprobs(void **state)
{
    struct sp_json *json =
        post("/v1/chat/completions",
             "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
             "\"What is 7 \"}, {\"type\": \"text\", \"text\": \"plus 8?\"}]}], \"logprobs\": true, "
             "\"top_logprobs\": 2}");
    const struct sp_json *content = at(json, "choices.0.logprobs.content");
    char text[256] = "", bytes[256] = "";

    (void)state;
    for (size_t i = 0; i < sp_json_len(content); i++) {
        const struct sp_json *token = sp_json_at(content, i), *b = sp_json_get(token, "bytes");
        double chosen, best;

        strcat(text, text_at(token, "token"));
        for (size_t k = 0; k < sp_json_len(b); k++) {
            int64_t byte = 0;
            assert_true(sp_json_to_i64(sp_json_at(b, k), &byte));
            bytes[strlen(bytes)] = (char)byte;
        }
        assert_int_equal(sp_json_len(sp_json_get(token, "top_logprobs")), 2);
        assert_true(sp_json_to_double(sp_json_get(token, "logprob"), &chosen));
        assert_true(sp_json_to_double(at(token, "top_logprobs.0.logprob"), &best));
        assert_true(chosen == best); /* greedy */
    }
    assert_string_equal(text, text_at(json, "choices.0.message.content"));
    assert_string_equal(bytes, text);
    assert_non_null(strstr(text, "15"));
    sp_json_free(json);
}

/* ---- what is refused --------------------------------------------------------------------------
 */

#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]"

/* A request, its status, and what the error says among other things. */
static const struct refusal {
    const char *method, *path, *body;
    int status;
    const char *says;
} refusals[] = {
    {"GET", "/nothing", NULL, 404, "nothing at this path"},
    {"GET", "/api/nothing", NULL, 404, "nothing at this path"},
    {"GET", "/v1/models/other", NULL, 404, "no such model"},
    {"GET", "/v1/chat/completions", NULL, 405, "another method"},
    {"POST", "/api/tags", "{}", 405, "another method"},
    {"OPTIONS", "/api/chat", NULL, 405, "another method"},
    {"POST", "/v1/embeddings", "{}", 501, "/v1/embeddings is not supported"},
    {"POST", "/api/embed", "{}", 501, "/api/embed is not supported"},
    {"POST", "/api/pull", "{}", 501, "not supported"},
    {"DELETE", "/api/delete", "{}", 501, "not supported"},
    {"POST", "/v1/chat/completions", "", 400, "not valid JSON"},
    {"POST", "/v1/chat/completions", "[]", 400, "no JSON object"},
    {"POST", "/v1/chat/completions", "{" MESSAGES "} x", 400, "not valid JSON at byte"},
    {"POST", "/v1/chat/completions", "{\"a\": 1, \"a\": 2}", 400, "key \"a\" occurs twice"},
    {"POST", "/v1/chat/completions", "{\"model\": 3}", 400, "model is 3"},
    {"POST", "/v1/chat/completions", "{\"model\": \"gpt-4\"}", 404, "'gpt-4' not found: 'tiny'"},
    {"POST", "/api/show", "{\"model\": \"gpt-4\"}", 404, "'gpt-4' not found: 'tiny'"},
    {"POST", "/v1/chat/completions", "{}", 400, "messages is missing"},
    {"POST", "/v1/chat/completions", "{\"messages\": []}", 400, "messages is empty"},
    {"POST", "/v1/chat/completions", "{\"messages\": [1]}", 400, "messages[0]: is no object"},
    {"POST", "/v1/chat/completions", "{\"messages\": [{\"content\": \"a\"}]}", 400,
     "messages[0]: has no role"},
    {"POST", "/v1/chat/completions",
     "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}", 400,
     "content of type image_url"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"n\": 2}", 400, "n: one answer"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"response_format\": {\"type\": \"xml\"}}",
     400, "response_format.type: "},
    {"POST", "/v1/chat/completions",
     "{" MESSAGES ", \"response_format\": {\"type\": \"json_schema\"}}", 400,
     "response_format.json_schema.schema is missing"},
    {"POST", "/v1/chat/completions",
     "{" MESSAGES
     ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": "
     "{\"items\": {\"not\": {}}}}}}",
     400, "response_format.json_schema.schema: #/items/not: this keyword is not done here"},
    {"POST", "/v1/completions", "{\"prompt\": \"a\", \"grammar\": \"root ::= a\"}", 400,
     "grammar: 1:10: this rule is not defined"},
    {"POST", "/v1/completions",
     "{\"prompt\": \"a\", \"grammar\": \"root ::= [a]\", \"json_schema\": {\"type\": \"null\"}}",
     400, "json_schema: another member asks for a form already"},
    {"POST", "/v1/completions", "{\"prompt\": \"a\", \"json_schema\": \"{}\"}", 400,
     "json_schema: #: a schema is an object or a boolean, not string"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"tools\": [{}, 3]}", 400,
     "tools[1] is integer, expected an object"},
    {"POST", "/api/chat", "{" MESSAGES ", \"tools\": [\"f\"]}", 400,
     "tools[0] is string, expected an object"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"temperature\": \"hot\"}", 400,
     "temperature is string, expected number"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"temperature\": 101}", 400,
     "temperature is 101, expected a number 0..100"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"max_tokens\": 0}", 400, "max_tokens is 0"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"max_tokens\": 1.5}", 400,
     "max_tokens: num_predict is 1.5, expected an integer"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"stream\": 1}", 400, "stream is 1"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"stop\": [\"\"]}", 400, "stop is empty"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"stop\": {}}", 400, "stop is object"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"logit_bias\": {\"x\": 1}}", 400,
     "logit_bias: \"x\""},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"logit_bias\": {\"1600\": 1}}", 400, "1600"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"top_logprobs\": 2}", 400, "goes with"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"logprobs\": true, \"top_logprobs\": 21}",
     400, "top_logprobs is 21, expected an integer 0..20"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"tools\": {}}", 400, "tools is object"},
    {"POST", "/v1/chat/completions", "{" MESSAGES ", \"tool_choice\": \"required\"}", 400,
     "tool_choice: "},
    {"POST", "/v1/completions", "{}", 400, "prompt is missing"},
    {"POST", "/v1/completions", "{\"prompt\": \"\"}", 400, "prompt is empty"},
    {"POST", "/v1/completions", "{\"prompt\": [\"a\", \"b\"]}", 400, "prompt: one a request"},
    {"POST", "/v1/completions", "{\"prompt\": [1600]}", 400, "token id 1600"},
    {"POST", "/v1/completions", "{\"prompt\": [1, \"a\"]}", 400, "prompt: "},
    {"POST", "/v1/completions", "{\"prompt\": \"a\", \"echo\": true}", 400, "echo: "},
    {"POST", "/v1/completions", "{\"prompt\": \"a\", \"suffix\": \"b\"}", 400, "suffix: "},
    {"POST", "/api/chat", "{" MESSAGES ", \"format\": \"xml\"}", 400, "format: "},
    {"POST", "/api/generate", "{\"prompt\": \"a\", \"format\": {\"type\": \"strin\"}}", 400,
     "format: #/type: expected null"},
    {"POST", "/api/chat", "{" MESSAGES ", \"options\": 1}", 400, "options is integer"},
    {"POST", "/api/chat", "{" MESSAGES ", \"options\": {\"top_k\": -1}}", 400,
     "options: top_k is -1"},
    {"POST", "/api/chat", "{" MESSAGES ", \"think\": 1}", 400, "think is integer"},
    {"POST", "/api/chat",
     "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"images\": [\"x\"]}]}", 400,
     "images: "},
    {"POST", "/api/generate", "{\"prompt\": 1}", 400, "prompt is integer, expected a text"},
    {"POST", "/api/generate", "{\"prompt\": \"a\", \"images\": [\"x\"]}", 400, "images: "},
    {"POST", "/api/generate", "{\"prompt\": \"a\", \"context\": [1]}", 400, "context: "},
    {"POST", "/api/generate", "{\"prompt\": \"a\", \"raw\": true, \"system\": \"b\"}", 400,
     "raw mode does not support"},
    {"POST", "/api/generate", "{\"prompt\": \"a\", \"template\": \"{{ if }}\"}", 400,
     "template: template:1: "},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *q = &refusals[i];
        bool ollama = strncmp(q->path, "/api/", 5) == 0;
        struct serving_reply r = serving_ask(&tiny, q->method, q->path, q->body);
        struct sp_json *json;
        const char *says;

        if (q->status == 405) assert_non_null(strstr(r.head, "\r\nAllow: "));
        json = serving_json(r, q->status);
        says = text_at(json, ollama ? "error" : "error.message");
        if (strstr(says, q->says) == NULL) {
            fail_msg("%s %s: \"%s\", expected \"%s\"", q->path, q->body, says, q->says);
        }
        if (!ollama) {
            assert_string_equal(text_at(json, "error.type"),
                                q->status < 500 ? "invalid_request_error" : "server_error");
        }
        sp_json_free(json);
    }
}

/* More than 16 MiB of a body, and JSON that would take more memory than a request is worth. */
static void test_large(void **state)
{
    size_t size = (16 << 20) + 1;
    char *body = malloc(size + 1);

    (void)state;
    assert_non_null(body);
    memset(body, ' ', size);
    body[size] = '\0';
    sp_json_free(serving_json(serving_ask(&tiny, "POST", "/api/chat", body), 413));
    for (size_t i = 0; i + 3 <= size; i += 3)
        memcpy(body + i, "{},", 3);
    memcpy(body, "[  ", 3);
    strcpy(body + size - 4, "{}]");
    sp_json_free(serving_json(serving_ask(&tiny, "POST", "/api/chat", body), 400));
    memset(body, '[', 100);
    body[100] = '\0';
    sp_json_free(serving_json(serving_ask(&tiny, "POST", "/api/chat", body), 400));
    free(body);
}

/* What is no HTTP gets an error or nothing, and the server goes on. */
static void test_nonsense(void **state)
{
    static const char *const bytes[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"mess",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        int fd = serving_connect(&tiny);
        struct serving_reply r;

        serving_send(fd, bytes[i], strlen(bytes[i]));
        shutdown(fd, SHUT_WR);
        r = serving_receive(fd);
        assert_true(r.status == 0 || (r.status >= 400 && r.status < 506));
        serving_release(&r);
    }
    sp_json_free(serving_json(serving_ask(&tiny, "GET", "/%1b[2J%0aPOST", NULL), 404));
    serving_await(&tiny, "GET /?[2J?POST 404: there is nothing", 1); /* and nobody's terminal */
    sp_json_free(get("/health"));
}

/* ---- browsers ---------------------------------------------------------------------------------
 */

static void test_browsers(void **state)
{
    static const char *const options[] = {"--cors", "http://app.example", "--quiet", NULL};
    static const char origin[] = "Origin: http://app.example\r\n",
                      other[] = "Origin: http://evil.example\r\n";
    struct serving s = serving_start(packed, options);
    struct serving_reply r;
    int fd;

    (void)state;
    r = serving_ask_with(&s, origin, "OPTIONS", "/v1/chat/completions", NULL);
    assert_int_equal(r.status, 204);
    assert_non_null(strstr(r.head, "\r\nAccess-Control-Allow-Origin: http://app.example\r\n"));
    assert_non_null(
        strstr(r.head, "\r\nAccess-Control-Allow-Headers: Authorization, Content-Type"));
    serving_release(&r);
    r = serving_ask_with(&s, origin, "GET", "/health", NULL);
    assert_int_equal(r.status, 200);
    serving_release(&r);
    sp_json_free(serving_json(serving_ask_with(&s, other, "GET", "/health", NULL), 403));
    assert_int_equal(serving_stop(&s), 0);

    r = serving_ask(&tiny, "GET", "/health", NULL);
    assert_null(strstr(r.head, "Access-Control"));
    serving_release(&r);
    sp_json_free(serving_json(serving_ask_with(&tiny, origin, "GET", "/health", NULL), 403));
    /* A name that somebody else lets stand for this machine. */
    fd = serving_connect(&tiny);
    serving_send(fd, "GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n", 44);
    sp_json_free(serving_json(serving_receive(fd), 403));
}

/* ---- many clients -----------------------------------------------------------------------------
 */

/* An answer that takes long: its end is forbidden, and the server is slow. */
#define SLOWLY "--no-draft", "--kernels", "scalar", "--threads", "1", "--kv-type", "f32"
#define LONG                                                                                       \
    "{\"prompt\": [582, 580, 258, 421], \"max_tokens\": 4000, \"stream\": %s, "                    \
    "\"logit_bias\": {\"1596\": -1000, \"1598\": -1000}}"

static void *ask_way(void *context)
{
    const struct way *w = context;
    struct serving_reply r;
    char body[512], *text;
    size_t n;

    snprintf(body, sizeof body, "%strue}", w->body);
    r = serving_ask(&tiny, "POST", w->path, body);
    text = r.status == 200 ? joined(&r, w->piece, &n) : NULL;
    serving_release(&r);
    return text;
}

/* All at once, each gets its own answer whole. */
static void test_crowd(void **state)
{
    enum { EACH = 4, N_WAYS = sizeof ways / sizeof *ways };
    pthread_t threads[EACH * N_WAYS];
    char *first = ask_way((void *)(uintptr_t)&ways[0]);

    (void)state;
    for (size_t i = 0; i < EACH * N_WAYS; i++) {
        void *way = (void *)(uintptr_t)&ways[i % N_WAYS];
        assert_int_equal(pthread_create(&threads[i], NULL, ask_way, way), 0);
    }
    for (size_t i = 0; i < EACH * N_WAYS; i++) {
        void *text = NULL;
        assert_int_equal(pthread_join(threads[i], &text), 0);
        assert_non_null(text);
        assert_string_equal(text, first);
        free(text);
    }
    free(first);
}

/* One is answered, one waits, the third is turned away, and told so; those who hang up make room
 * at once, whether they stream or not. */
static void test_queue(void **state)
{
    static const char *const options[] = {"--max-queue", "1", SLOWLY, NULL};
    struct serving s = serving_start(packed, options);
    char streamed[256], whole[256];
    struct serving_reply r;

    (void)state;
    snprintf(streamed, sizeof streamed, LONG, "true");
    snprintf(whole, sizeof whole, LONG, "false");
    for (int i = 0; i < 2; i++) {
        int running = serving_begin(&s, "/v1/completions", streamed);
        struct pollfd rest[2] = {{.events = POLLIN}, {.events = POLLIN}};
        size_t away;
        char byte;

        assert_int_equal(recv(running, &byte, 1, 0), 1); /* its turn has come */
        for (size_t k = 0; k < 2; k++)
            rest[k].fd = serving_begin(&s, "/v1/completions", i ? whole : streamed);
        assert_true(poll(rest, 2, 10000) > 0);
        away = rest[0].revents ? 0 : 1;
        r = serving_receive(rest[away].fd);
        assert_int_equal(r.status, 503);
        assert_non_null(strstr(r.head, "\r\nRetry-After: 1\r\n"));
        assert_non_null(strstr(r.body, "too many requests wait"));
        serving_release(&r);
        close(rest[1 - away].fd);
        serving_await(&s, "the client left", (size_t)i + 1);
        close(running);
        sp_json_free(
            serving_json(serving_ask(&s, "POST", "/v1/completions", "{" GOLDEN_PROMPT "}"), 200));
    }
    serving_await(&s, "200: 4 (0 cached) + ", 1);
    serving_await(&s, "tokens/s, cancelled", 2);
    close(serving_begin(&s, "/v1/completions", whole)); /* whether its turn has come or not */
    serving_await(&s, "the client left", 3);
    assert_int_equal(serving_stop(&s), 0);
}

/* Who sends half a request, or reads nothing of an answer, keeps nobody else waiting. */
static void test_dawdlers(void **state)
{
    static const char half[] = "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Le";
    int slow[8], deaf;
    char body[256];

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        slow[i] = serving_connect(&tiny);
        serving_send(slow[i], half, strlen(half) - i);
    }
    snprintf(body, sizeof body, LONG, "true");
    memcpy(strstr(body, "4000"), " 400", 4);
    deaf = serving_begin(&tiny, "/v1/completions", body);
    sp_json_free(post("/v1/completions", "{" GOLDEN_PROMPT "}"));
    for (size_t i = 0; i < 8; i++)
        close(slow[i]);
    close(deaf);
}

/* ---- caches -----------------------------------------------------------------------------------
 */

/* A conversation goes on: its beginning is not read again, and its answers are those of a server
 * that has to read it all. */
static void test_reuse(void **state)
{
    static const char
        first[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"What is 7 plus "
                  "8?\"}], \"max_tokens\": 20, \"logprobs\": true, \"seed\": 3, "
                  "\"temperature\": 0.9}",
        next[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"What is 7 plus 8?\"}, "
                 "{\"role\": \"assistant\", \"content\": \"%s\"}, {\"role\": \"user\", "
                 "\"content\": \"Tell me a story.\"}], \"max_tokens\": 40, "
                 "\"logprobs\": true, \"top_logprobs\": 5, \"seed\": 3, "
                 "\"temperature\": 0.9}";
    static const char *const options[] = {"--kv-type", "f32", "--name", "tiny",
                                          "--threads", "1",   NULL};
    struct serving fresh;
    struct sp_json *a, *b;
    char body[1024];

    (void)state;
    a = post("/v1/chat/completions", first);
    snprintf(body, sizeof body, next, text_at(a, "choices.0.message.content"));
    sp_json_free(a);
    a = post("/v1/chat/completions", body);
    assert_true(number_at(a, "usage.prompt_tokens_details.cached_tokens") > 10);
    assert_int_equal(number_at(a, "timings.cache_n") + number_at(a, "timings.prompt_n"),
                     number_at(a, "usage.prompt_tokens"));
    fresh = serving_start(packed, options);
    b = serving_json(serving_ask(&fresh, "POST", "/v1/chat/completions", body), 200);
    assert_int_equal(number_at(b, "usage.prompt_tokens_details.cached_tokens"), 0);
    assert_string_equal(text_at(a, "choices.0.message.content"),
                        text_at(b, "choices.0.message.content"));
    /* Every digit of every logarithm. */
    {
        char *x = NULL, *y = NULL;
        assert_int_equal(sp_json_print(&x, at(a, "choices.0.logprobs"), NULL), SP_OK);
        assert_int_equal(sp_json_print(&y, at(b, "choices.0.logprobs"), NULL), SP_OK);
        assert_string_equal(x, y);
        free(x);
        free(y);
    }
    sp_json_free(a);
    sp_json_free(b);
    assert_int_equal(serving_stop(&fresh), 0);
}

/* ---- the file's records -----------------------------------------------------------------------
 */

/* The file's SYSTEM leads a conversation unless that brings its own, its PARAMETER and the command
 * line settle what a request leaves open, and `run` has the same prompt. */
static void test_records(void **state)
{
    static const char records[] = "SYSTEM You are an owl.\nPARAMETER num_predict 9\n"
                                  "PARAMETER stop zzz\nMESSAGE user Hi\nMESSAGE assistant Hello\n";
    const char *before = packed;
    char all[1024], *expected;
    struct serving s;
    struct sp_json *json;

    (void)state;
    snprintf(all, sizeof all, "%s%s", chatml, records);
    packed = pack(all);
    s = serving_start(packed, (const char *const[]){"--kv-type", "f32", "--no-draft", NULL});
    expected = run("'Tell me a story.' --kv-type f32");
    json = serving_json(serving_ask(&s, "POST", "/api/generate",
                                    "{\"prompt\": \"Tell me a story.\", \"stream\": false}"),
                        200);
    assert_string_equal(text_at(json, "response"), expected);
    assert_int_equal(number_at(json, "eval_count"), 9);
    assert_string_equal(text_at(json, "done_reason"), "length");
    assert_int_equal(number_at(json, "draft_count"), 0);
    sp_json_free(json);
    free(expected);
    expected = run("'Tell me a story.' --kv-type f32 --system 'Be a cat.' --num-predict 12");
    json = serving_json(
        serving_ask(&s, "POST", "/v1/chat/completions",
                    "{\"messages\": [{\"role\": \"developer\", \"content\": \"Be a cat.\"}, "
                    "{\"role\": \"user\", \"content\": \"Tell me a story.\"}], "
                    "\"max_tokens\": 12}"),
        200);
    assert_string_equal(text_at(json, "choices.0.message.content"), expected);
    sp_json_free(json);
    free(expected);
    json = serving_json(serving_ask(&s, "POST", "/api/generate", "{\"model\": \"\"}"), 404);
    sp_json_free(json);
    json = serving_json(serving_ask(&s, "POST", "/api/generate", "{\"keep_alive\": 0}"), 200);
    assert_string_equal(text_at(json, "done_reason"), "unload");
    sp_json_free(json);
    assert_int_equal(serving_stop(&s), 0);
    packed = before;
}

/* ---- thoughts and calls -----------------------------------------------------------------------
 */

/* The tiny model calls no tools. But to this template, which has common words for marks, the story
 * that it tells begins with a thought, and a call is in it. */
static const char storyteller[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.thinking %}There {{ m.thinking }} a hungry {% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}called Finn. {{ c.function.name }} lived "
    "{% for k, v in c.function.arguments.items() %}in {{ k }} near {{ v }} with {% endfor %}"
    "a mouse{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}\"\"\"\n";
static const char story[] = "There was once a hungry turtle called Finn. Finn lived in a cave near "
                            "the sea with a mouse named Maya.";

#define STORY                                                                                      \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me a story.\"}], "                   \
    "\"stop\": \" Finn loved\", \"options\": {\"stop\": [\" Finn loved\"]}, \"stream\": "
#define TOOLS                                                                                      \
    ", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"Finn\", \"parameters\": "   \
    "{\"type\": \"object\", \"properties\": {\"a cave\": {\"type\": \"string\"}}}}}]"

static const char arguments[] = "{\"a cave\": \"the sea\"}";

static void assert_id(const char *id)
{
    assert_int_equal(strlen(id), 9);
    assert_int_equal(strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                     9);
}

/* What the texts at `path` of a stream are, joined. */
static void assert_streamed(const struct serving_reply *r, const char *path, const char *wanted)
{
    size_t n;
    char *text = joined(r, path, &n);

    assert_string_equal(text, wanted);
    free(text);
}

static void openai_calls(const struct serving *s)
{
    struct sp_json *json;
    struct serving_reply r;
    char *text;
    size_t n;

    json =
        serving_json(serving_ask(s, "POST", "/v1/chat/completions", STORY "false" TOOLS "}"), 200);
    assert_string_equal(text_at(json, "choices.0.message.content"), "turtlenamed Maya.");
    assert_string_equal(text_at(json, "choices.0.message.reasoning_content"), "was once");
    assert_string_equal(text_at(json, "choices.0.finish_reason"), "tool_calls");
    assert_int_equal(sp_json_len(at(json, "choices.0.message.tool_calls")), 1);
    assert_string_equal(text_at(json, "choices.0.message.tool_calls.0.type"), "function");
    assert_id(text_at(json, "choices.0.message.tool_calls.0.id"));
    assert_string_equal(text_at(json, "choices.0.message.tool_calls.0.function.name"), "Finn");
    assert_string_equal(text_at(json, "choices.0.message.tool_calls.0.function.arguments"),
                        arguments);
    sp_json_free(json);
    r = serving_ask(s, "POST", "/v1/chat/completions", STORY "true" TOOLS "}");
    assert_streamed(&r, "choices.0.delta.content", "turtlenamed Maya.");
    assert_streamed(&r, "choices.0.delta.reasoning_content", "was once");
    /* The name comes first, with the id; the arguments follow. */
    text = joined(&r, "choices.0.delta.tool_calls.0.function.name", &n);
    assert_string_equal(text, "Finn");
    assert_int_equal(n, 1);
    free(text);
    text = joined(&r, "choices.0.delta.tool_calls.0.id", &n);
    assert_id(text);
    free(text);
    assert_streamed(&r, "choices.0.delta.tool_calls.0.function.arguments", arguments);
    assert_non_null(strstr(r.body, "\"delta\": {}, \"logprobs\": null, \"finish_reason\": "
                                   "\"tool_calls\"}"));
    assert_non_null(strstr(r.body, "\"tool_calls\": [{\"index\": 0, \"function\": "
                                   "{\"arguments\": "));
    serving_release(&r);
    /* Where no tools are there is nothing to call. */
    json = serving_json(serving_ask(s, "POST", "/v1/chat/completions", STORY "false}"), 200);
    assert_string_equal(text_at(json, "choices.0.message.content"), strstr(story, "turtle"));
    assert_string_equal(text_at(json, "choices.0.finish_reason"), "stop");
    assert_null(at(json, "choices.0.message.tool_calls"));
    sp_json_free(json);
}

static void ollama_calls(const struct serving *s)
{
    struct sp_json *json;
    struct serving_reply r;
    char *text;
    size_t n;

    json = serving_json(serving_ask(s, "POST", "/api/chat", STORY "false" TOOLS "}"), 200);
    assert_string_equal(text_at(json, "message.content"), "turtlenamed Maya.");
    assert_string_equal(text_at(json, "message.thinking"), "was once");
    assert_string_equal(text_at(json, "message.tool_calls.0.function.name"), "Finn");
    assert_string_equal(text_at(json, "message.tool_calls.0.function.arguments.a cave"), "the sea");
    assert_int_equal(number_at(json, "message.tool_calls.0.function.index"), 0);
    assert_string_equal(text_at(json, "done_reason"), "stop");
    sp_json_free(json);
    r = serving_ask(s, "POST", "/api/chat", STORY "true" TOOLS "}");
    assert_streamed(&r, "message.content", "turtlenamed Maya.");
    assert_streamed(&r, "message.thinking", "was once");
    text = joined(&r, "message.tool_calls.0.function.arguments.a cave", &n);
    assert_string_equal(text, "the sea");
    assert_int_equal(n, 1);
    free(text);
    serving_release(&r);
    json = serving_json(serving_ask(s, "POST", "/api/generate",
                                    "{\"prompt\": \"Tell me a story.\", \"stream\": false, "
                                    "\"options\": {\"stop\": [\" called\"]}}"),
                        200);
    assert_string_equal(text_at(json, "response"), "turtle");
    assert_string_equal(text_at(json, "thinking"), "was once");
    sp_json_free(json);
    json = serving_json(serving_ask(s, "POST", "/api/show", "{}"), 200);
    assert_string_equal(text_at(json, "capabilities.1"), "tools");
    assert_string_equal(text_at(json, "capabilities.2"), "thinking");
    sp_json_free(json);
}

static void test_calls(void **state)
{
    const char *before = packed;
    struct serving s;
    char *text;

    (void)state;
    packed = pack(storyteller);
    s = serving_start(packed, (const char *const[]){"--kv-type", "f32", "--verbose", NULL});
    text = run("'Tell me a story.' --kv-type f32 --stop ' Finn loved'");
    assert_string_equal(text, story); /* the words of `run` are whole */
    free(text);
    openai_calls(&s);
    ollama_calls(&s);
    assert_int_equal(serving_logged(&s, "thoughts of answers: There...a hungry"), 1);
    assert_int_equal(serving_logged(&s, "calls of tools: called Finn.NAMElived"), 1);
    assert_int_equal(serving_stop(&s), 0);
    packed = before;
}

/* ---- the end ----------------------------------------------------------------------------------
 */

/* An answer under way is cut off with an error, those that wait are turned away, and all is well.
 */
static void test_stopping(void **state)
{
    struct serving s = serving_start(packed, (const char *const[]){SLOWLY, NULL});
    char streamed[256], whole[256], byte;
    struct serving_reply r;
    int running, waiting;

    (void)state;
    snprintf(streamed, sizeof streamed, LONG, "true");
    snprintf(whole, sizeof whole, LONG, "false");
    running = serving_begin(&s, "/v1/completions", streamed);
    assert_int_equal(recv(running, &byte, 1, MSG_PEEK), 1);
    waiting = serving_begin(&s, "/v1/completions", whole);
    sp_json_free(serving_json(serving_ask(&s, "GET", "/health", NULL), 200));
    kill(s.pid, SIGTERM);
    r = serving_receive(running);
    assert_int_equal(r.status, 200);
    assert_true(r.chunked);
    assert_non_null(strstr(r.body, "data: {\"error\": {\"message\": \"the server is stopping\""));
    assert_null(strstr(r.body, "[DONE]"));
    serving_release(&r);
    r = serving_receive(waiting);
    assert_true(r.status == 503 || r.status == 0);
    serving_release(&r);
    assert_int_equal(serving_wait(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_stream_bytes), cmocka_unit_test(test_seed),
        cmocka_unit_test(test_no_seed),      cmocka_unit_test(test_characters),
        cmocka_unit_test(test_forms),        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_logprobs),     cmocka_unit_test(test_chat_logprobs),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_nonsense),     cmocka_unit_test(test_browsers),
        cmocka_unit_test(test_crowd),        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_dawdlers),     cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_records),      cmocka_unit_test(test_calls),
        cmocka_unit_test(test_stopping),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, begin, end);
}
