/* Tests OpenAI's API of `spectool serve`: texts that transformers wrote, the exact bytes of
 * streams, stop texts and log-probabilities. */
#include "format/json/json.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <math.h>

/* The text that transformers wrote after the first golden prompt. */
static char *golden_text(size_t n)
{
    struct sp_json *golden = golden_json(TESTDATA "/tiny/golden_target.json");
    size_t n_ids, size;
    uint32_t *ids = golden_ids(json_at(golden, "greedy.0.ids"), &n_ids);
    char *text = NULL;

    assert_true(n <= n_ids);
    assert_int_equal(sp_tokenizer_decode(sp_package_tokenizer(keep_package(served_file, NULL)), ids,
                                         n, true, &text, &size, NULL),
                     0);
    return keep(text);
}

TEST(test_golden)
{
    char *golden = golden_text(24);
    struct sp_json *json = served_post("/v1/completions", "{'model': 'tiny', " GOLDEN_PROMPT "}");

    assert_string_equal(json_text(json, "choices.0.text"), golden);
    json_expect(
        json,
        "{'object': 'text_completion', 'choices.0.finish_reason': 'length', 'usage.prompt_tokens': "
        "4, 'usage.completion_tokens': 24, 'usage.total_tokens': 28, 'timings.predicted_n': 24}");
    assert_true(json_number(json, "timings.draft_n_accepted") > 0);
    assert_true(json_number(json, "timings.draft_n") >=
                json_number(json, "timings.draft_n_accepted"));
}

/* Replaces values that differ from call to call. */
static void mask(char *text, const char *key)
{
    for (char *p = text; (p = strstr(p, key)) != NULL;) {
        char *from = p + strlen(key), *to = from + strcspn(from, ",}");
        memmove(from, to, strlen(to) + 1);
        p = from;
    }
}

/* Compares the stream byte by byte with events rebuilt from their contents. */
TEST(test_stream_bytes)
{
    struct http_reply r = server_request(
        &tiny_server, "POST", "/v1/chat/completions",
        "{'messages': [{'role': 'user', 'content': 'What is 7 plus 8?'}], 'stream': true, "
        "'stream_options': {'include_usage': true}, 'max_tokens': 2, 'seed': 1}");
    static const char expected[] =
        "data: {'id': , 'object': 'chat.completion.chunk', 'created': , 'model': 'tiny', "
        "'system_fingerprint': , 'choices': [{'index': 0, 'delta': {'role': 'assistant', "
        "'content': ''}, 'logprobs': null, 'finish_reason': null}], 'usage': null}\n\n"
        "data: {'id': , 'object': 'chat.completion.chunk', 'created': , 'model': 'tiny', "
        "'system_fingerprint': , 'choices': [{'index': 0, 'delta': {'content': '7'}, 'logprobs': "
        "null, 'finish_reason': null}], 'usage': null}\n\n"
        "data: {'id': , 'object': 'chat.completion.chunk', 'created': , 'model': 'tiny', "
        "'system_fingerprint': , 'choices': [{'index': 0, 'delta': {'content': ' plus'}, "
        "'logprobs': null, 'finish_reason': null}], 'usage': null}\n\n"
        "data: {'id': , 'object': 'chat.completion.chunk', 'created': , 'model': 'tiny', "
        "'system_fingerprint': , 'choices': [{'index': 0, 'delta': {}, 'logprobs': null, "
        "'finish_reason': 'length'}], 'usage': null, 'timings': ";
    size_t n;

    assert_int_equal(r.status, 200);
    assert_true(r.chunked);
    assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
    char *text = stream_text(&r, "choices.0.delta.content", &n);
    assert_string_equal(text, "7 plus");
    assert_int_equal(n, 2);
    mask(r.body, "\"id\": ");
    mask(r.body, "\"created\": ");
    mask(r.body, "\"system_fingerprint\": ");
    if (strncmp(r.body, keep_quoted(expected), strlen(expected)) != 0) fail_msg("%s", r.body);
    assert_non_null(strstr(r.body, "\"choices\": [], \"usage\": {\"prompt_tokens\": "));
    assert_string_equal(r.body + r.size - strlen("}\n\ndata: [DONE]\n\n"), "}\n\ndata: [DONE]\n\n");
}

/* Streams an answer whose chunks say which tokens were drafted; counts them. Returns its text. */
static char *drafted_text(const char *depth, size_t *n_drafted, size_t *n_others)
{
    char request[256], *text;
    size_t n;

    snprintf(
        request, sizeof request,
        "{'messages': [{'role': 'user', 'content': 'What is 7 plus 8?'}], 'stream': true, "
        "'stream_options': {'include_drafted': true}, 'max_tokens': 12, 'draft_num_predict': %s}",
        depth);
    struct http_reply r = server_request(&tiny_server, "POST", "/v1/chat/completions", request);
    assert_int_equal(r.status, 200);
    text = stream_text(&r, "choices.0.delta.content", &n);
    *n_drafted = *n_others = 0;
    for (const char *p = r.body; (p = strstr(p, "\"drafted\": ")) != NULL; p++)
        ++*(strncmp(p, "\"drafted\": true", 15) == 0 ? n_drafted : n_others);
    return text;
}

/* A request chooses how much is drafted; the text stays the same. */
TEST(test_drafted_tokens)
{
    size_t n_drafted, n_others;
    char *drafted = drafted_text("4", &n_drafted, &n_others), *plain;

    assert_true(n_drafted > 0);
    assert_true(n_others > 0);
    plain = drafted_text("0", &n_drafted, &n_others);
    assert_int_equal(n_drafted, 0);
    assert_true(n_others > 4);
    assert_string_equal(plain, drafted);
}

/* An answer that ends by itself goes on with ignore_eos, with and without drafts. */
TEST(test_ignore_eos)
{
    static const char chat[] = "{'messages': [{'role': 'user', 'content': 'What is 7 plus 8?'}], "
                               "'max_tokens': 40, 'draft_num_predict': %d, 'ignore_eos': %s}";
    const char *text[2];
    char body[256];
    struct sp_json *json;

    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body, chat, 4 * i, "true");
        json = served_post("/v1/chat/completions", body);
        json_expect(json, "{'usage.completion_tokens': 40, 'choices.0.finish_reason': 'length'}");
        text[i] = json_text(json, "choices.0.message.content");
    }
    assert_string_equal(text[0], text[1]);
    snprintf(body, sizeof body, chat, 4, "false");
    json = served_post("/v1/chat/completions", body);
    assert_string_equal(json_text(json, "choices.0.finish_reason"), "stop");
    json = server_post(&tiny_server, "/v1/chat/completions",
                       "{'messages': [{'role': 'user', 'content': 'a'}], 'ignore_eos': true, "
                       "'response_format': {'type': 'json_object'}}",
                       400);
    assert_string_equal(json_text(json, "error.message"),
                        "ignore_eos cannot be combined with a grammar");
}

/* Returns the text of a completion or generation whose body ends in `options`; owned. */
static const char *sampled_text(const char *path, const char *options, const char *at)
{
    return json_text(
        served_post(
            path,
            keep_format(
                "{'prompt': 'Tell me a story about a river. Tell me a story', 'max_tokens': 32, "
                "'raw': true, 'stream': false, %s}",
                options)),
        at);
}

/* Each sampler changes the text of a seed, and drafting does not. Both APIs read the same names. */
TEST(test_samplers)
{
    static const char *const samplers[] = {
        ("'dry_multiplier': 8, 'dry_allowed_length': 1, 'dry_base': 2, 'dry_penalty_last_n': -1, "
         "'dry_sequence_breakers': []"),
        "'xtc_probability': 0.7, 'xtc_threshold': 0.05",
        "'top_n_sigma': 0.5",
    };
    char options[400];
    const char *plain =
        sampled_text("/v1/completions", "'seed': 5, 'temperature': 2", "choices.0.text");

    for (size_t i = 0; i < 3; i++) {
        snprintf(options, sizeof options, "'seed': 5, 'temperature': 2, %s", samplers[i]);
        const char *drafted = sampled_text("/v1/completions", options, "choices.0.text");
        snprintf(options, sizeof options, "'seed': 5, 'temperature': 2, 'draft_num_predict': 0, %s",
                 samplers[i]);
        const char *undrafted = sampled_text("/v1/completions", options, "choices.0.text");
        snprintf(options, sizeof options,
                 "'options': {'seed': 5, 'temperature': 2, 'num_predict': 32, %s}", samplers[i]);
        const char *ollama = sampled_text("/api/generate", options, "response");
        assert_string_equal(drafted, undrafted);
        assert_string_equal(drafted, ollama);
        assert_string_not_equal(drafted, plain);
    }
}

/* Integers may be written as 5.0, and a top_k below 0 is off. */
TEST(test_loose_integers)
{
    const char *plain =
        sampled_text("/v1/completions", "'seed': 5, 'temperature': 2", "choices.0.text");

    assert_string_equal(sampled_text("/v1/completions", "'seed': 5, 'temperature': 2, 'top_k': -1",
                                     "choices.0.text"),
                        plain);
    assert_string_equal(sampled_text("/api/generate",
                                     "'options': {'seed': 5.0, 'temperature': 2, 'num_predict': "
                                     "32.0, 'top_k': -1.0}",
                                     "response"),
                        plain);
}

/* A stop text and its tokens are cut off, wherever tokens and events begin. */
TEST(test_stop)
{
    static const char body[] =
        "{" GOLDEN_PROMPT ", 'stop': ['zzz', '%s'], 'logprobs': 0, 'stream': %s}";
    char *golden = golden_text(24), word[8] = {0}, text[256], *streamed;
    const char *cut = golden + 20, *found;
    size_t n, n_tokens, len = 0;

    memcpy(word, cut, 6);
    found = strstr(golden, word);
    assert_non_null(found);
    snprintf(text, sizeof text, body, word, "true");
    struct http_reply r = server_request(&tiny_server, "POST", "/v1/completions", text);
    streamed = stream_text(&r, "choices.0.text", &n);
    assert_int_equal(strlen(streamed), found - golden);
    assert_memory_equal(streamed, golden, strlen(streamed));
    assert_non_null(strstr(r.body, "\"finish_reason\": \"stop\""));

    snprintf(text, sizeof text, body, word, "false");
    struct sp_json *json = served_post("/v1/completions", text);
    assert_string_equal(json_text(json, "choices.0.text"), streamed);
    n_tokens = sp_json_len(json_at(json, "choices.0.logprobs.tokens"));
    assert_true(n_tokens > 0);
    for (size_t i = 0; i + 1 < n_tokens; i++)
        len += strlen(
            sp_json_to_string(sp_json_at(json_at(json, "choices.0.logprobs.tokens"), i), NULL));
    assert_true(len < strlen(streamed));
}

/* Log-probabilities are the log-softmax of the golden logits, whose rows transformers wrote. */
TEST(test_logprobs)
{
    struct sp_json *json = served_post(
        "/v1/completions", "{'prompt': [582, 580, 258, 421], 'max_tokens': 1, 'logprobs': 3}");
    size_t rows, cols;
    float *logits = golden_npy(TESTDATA "/tiny/target_logits_0.npy", &rows, &cols);
    const float *row = logits + 3 * cols;
    double sum = 0, max = -1e30, told;

    for (size_t i = 0; i < cols; i++)
        if ((double)row[i] > max) max = (double)row[i];
    for (size_t i = 0; i < cols; i++)
        sum += __builtin_exp((double)row[i] - max);
    assert_true(sp_json_to_double(json_at(json, "choices.0.logprobs.token_logprobs.0"), &told));
    assert_true(told <= 0 && told + __builtin_log(sum) < 2e-3 && told + __builtin_log(sum) > -2e-3);
    assert_int_equal(json_number(json, "choices.0.logprobs.text_offset.0"), 0);
    assert_int_equal(sp_json_len(json_at(json, "choices.0.logprobs.top_logprobs.0")), 3);
}

static double log_softmax(const float *row, size_t n, size_t id)
{
    double sum = 0, max = -1e30;

    for (size_t i = 0; i < n; i++)
        max = (double)row[i] > max ? (double)row[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return (double)row[id] - max - log(sum);
}

/* ollama's answers have the tokens of OpenAI's chats, in a stream those of its lines. */
TEST(test_ollama_logprobs)
{
    static const char body[] =
        "{'messages': [{'role': 'user', 'content': 'What is 7 plus 8?'}], 'logprobs': true, "
        "'top_logprobs': 2, 'max_tokens': 5, 'options': {'num_predict': 5}, 'stream': %s}";
    char text[256];
    size_t n = 0;
    bool same = false;

    snprintf(text, sizeof text, body, "false");
    struct sp_json *openai = served_post("/v1/chat/completions", text);
    struct sp_json *ollama = served_post("/api/chat", text);
    assert_int_equal(sp_json_len(json_at(ollama, "logprobs")), 5);
    assert_ok(sp_json_equal(&same, json_at(ollama, "logprobs"),
                            json_at(openai, "choices.0.logprobs.content"), NULL));
    assert_true(same);
    snprintf(text, sizeof text, body, "true");
    struct http_reply r = server_request(&tiny_server, "POST", "/api/chat", text);
    for (const char *at = r.body; (at = strstr(at, "\"top_logprobs\"")) != NULL; at++)
        n++;
    assert_int_equal(n, 5);
}

/* With echo all tokens of the prompt but the first have the log-probabilities of the golden logits,
 * whether more tokens follow or not. */
TEST(test_echo_logprobs)
{
    static const size_t ids[] = {582, 580, 258, 421};
    struct sp_json *alone = served_post(
        "/v1/completions",
        "{'prompt': [582, 580, 258, 421], 'max_tokens': 0, 'echo': true, 'logprobs': 2}");
    struct sp_json *both = served_post(
        "/v1/completions",
        "{'prompt': [582, 580, 258, 421], 'max_tokens': 3, 'echo': true, 'logprobs': 2}");
    struct sp_json *plain = served_post(
        "/v1/completions", "{'prompt': [582, 580, 258, 421], 'max_tokens': 3, 'logprobs': 2}");
    const struct sp_json *all = json_at(both, "choices.0.logprobs.token_logprobs");
    size_t rows, cols, n_echo = strlen(json_text(alone, "choices.0.text"));
    float *logits = golden_npy(TESTDATA "/tiny/target_logits_0.npy", &rows, &cols);
    char path[64];
    double a, b;

    assert_int_equal(sp_json_len(json_at(alone, "choices.0.logprobs.tokens")), 4);
    assert_int_equal(sp_json_kind(json_at(alone, "choices.0.logprobs.token_logprobs.0")),
                     SP_JSON_NULL);
    assert_int_equal(sp_json_kind(json_at(alone, "choices.0.logprobs.top_logprobs.0")),
                     SP_JSON_NULL);
    for (size_t i = 1; i < 4; i++) {
        snprintf(path, sizeof path, "choices.0.logprobs.token_logprobs.%zu", i);
        assert_true(sp_json_to_double(json_at(alone, path), &a));
        assert_true(fabs(a - log_softmax(logits + (i - 1) * cols, cols, ids[i])) < 1e-3);
        assert_true(sp_json_to_double(sp_json_at(all, i), &b));
        assert_true(a == b);
    }
    json_expect(alone, "{'choices.0.finish_reason': 'length', 'usage.prompt_tokens': 4, "
                       "'usage.completion_tokens': 0}");

    assert_int_equal(sp_json_len(all), 7);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "choices.0.logprobs.token_logprobs.%zu", i);
        assert_true(sp_json_to_double(json_at(plain, path), &a));
        assert_true(sp_json_to_double(sp_json_at(all, 4 + i), &b));
        assert_true(a == b);
    }
    assert_memory_equal(json_text(both, "choices.0.text"), json_text(alone, "choices.0.text"),
                        n_echo);
    assert_string_equal(json_text(both, "choices.0.text") + n_echo,
                        json_text(plain, "choices.0.text"));
    assert_int_equal(json_number(both, "choices.0.logprobs.text_offset.4"), n_echo);
}

/* A stream begins with the text of the prompt. */
TEST(test_echo_stream)
{
    static const char prompt[] = "Tell me a story";
    struct sp_json *plain = served_post(
        "/v1/completions", "{'prompt': 'Tell me a story', 'max_tokens': 8, 'stop': ['zz']}");
    char body[256], *text;
    struct http_reply r;
    size_t n;

    for (int logprobs = 0; logprobs < 2; logprobs++) {
        snprintf(
            body, sizeof body,
            "{'prompt': '%s', 'max_tokens': 8, 'stop': ['zz'], 'echo': true, 'stream': true%s}",
            prompt, logprobs ? ", 'logprobs': 1" : "");
        r = server_request(&tiny_server, "POST", "/v1/completions", body);
        text = stream_text(&r, "choices.0.text", &n);
        assert_memory_equal(text, prompt, strlen(prompt));
        assert_string_equal(text + strlen(prompt), json_text(plain, "choices.0.text"));
        assert_int_equal(strstr(r.body, "\"token_logprobs\": [null, ") != NULL, logprobs);
    }
}

/* The tokens together are as long as their text, in a chat's stream too, and `bytes` are those of
 * each token. */
TEST(test_chat_logprobs)
{
    struct sp_json *json =
        served_post("/v1/chat/completions",
                    "{'messages': [{'role': 'user', 'content': [{'type': 'text', "
                    "'text': 'What is 7 plus 8?'}]}], 'logprobs': true, 'top_logprobs': 2}");
    const struct sp_json *content = json_at(json, "choices.0.logprobs.content");
    char text[256] = "", bytes[256] = "";

    for (size_t i = 0; i < sp_json_len(content); i++) {
        const struct sp_json *token = sp_json_at(content, i), *b = sp_json_get(token, "bytes");
        double chosen, best;
        strcat(text, json_text(token, "token"));
        for (size_t k = 0; k < sp_json_len(b); k++) {
            int64_t byte = 0;
            assert_true(sp_json_to_i64(sp_json_at(b, k), &byte));
            bytes[strlen(bytes)] = (char)byte;
        }
        assert_int_equal(sp_json_len(sp_json_get(token, "top_logprobs")), 2);
        assert_true(sp_json_to_double(sp_json_get(token, "logprob"), &chosen));
        assert_true(sp_json_to_double(json_at(token, "top_logprobs.0.logprob"), &best));
        assert_true(chosen == best); /* the greedy choice */
    }
    assert_string_equal(text, json_text(json, "choices.0.message.content"));
    assert_string_equal(bytes, text);
    assert_non_null(strstr(text, "15"));
}

GROUP_FIXTURE(served_setup, served_teardown);
