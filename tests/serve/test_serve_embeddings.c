/* Tests embeddings of `spectool serve` in the formats of OpenAI's and ollama's APIs. */
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <math.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server server;

static int setup(void **state)
{
    const char *const options[] = {"--name", "gemma", NULL};

    if (packed_setup(state)) return 1;
    server = server_start(packed_file(packed_modelfile(TESTDATA "/embeddings/gemma3", NULL),
                                      SP_DTYPE_NONE, SP_DTYPE_NONE),
                          options);
    return 0;
}

static struct sp_json *post(const char *path, const char *body, int status)
{
    return server_post(&server, path, body, status);
}

static double number_at(const struct sp_json *json, const char *path)
{
    double x = NAN;

    assert_true(sp_json_to_double(json_at(json, path), &x));
    return x;
}

/* "the cat" by sentence-transformers, golden.json. */
static const char golden_first[] = TESTDATA "/embeddings/gemma3/golden.json";

static double golden_number(size_t i)
{
    static double first[64];
    static bool is_read;
    struct sp_json *json = NULL;
    char text[1 << 16];
    size_t size;
    FILE *f;

    if (!is_read) {
        f = fopen(golden_first, "r");
        assert_non_null(f);
        size = fread(text, 1, sizeof text, f);
        fclose(f);
        json = keep_parsed(text, size, SP_JSON_STRICT);
        for (size_t k = 0; k < 64; k++) {
            assert_true(
                sp_json_to_double(sp_json_at(json_at(json, "cases.0.embedding"), k), &first[k]));
        }
        is_read = true;
    }
    return first[i];
}

TEST(openai)
{
    struct sp_json *json =
        post("/v1/embeddings", "{'model': 'gemma', 'input': ['the cat', 'a', [0, 32, 1]]}", 200);
    struct sp_json *one = post("/embeddings", "{'input': [0, 32, 1]}", 200);

    json_expect(
        json,
        "{'object': 'list', 'model': 'gemma', 'data.1.object': 'embedding', 'data.2.index': 2}");
    assert_int_equal(sp_json_len(json_at(json, "data")), 3);
    json_expect(json, "{'usage.prompt_tokens': 10, 'usage.total_tokens': 10}");
    assert_int_equal(sp_json_len(json_at(json, "data.0.embedding")), 64);
    assert_true(fabs(number_at(json, "data.0.embedding.5") - golden_number(5)) < 1e-5);
    assert_true(number_at(json, "data.2.embedding.7") == number_at(one, "data.0.embedding.7"));
    assert_int_equal(json_number(one, "usage.prompt_tokens"), 3);
}

static unsigned digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    return (unsigned)(strchr(digits, c) - digits);
}

/* base64 holds the float32 numbers whose decimal form the other format shows. */
TEST(base64)
{
    for (size_t n = 1; n <= 4; n++) {
        uint8_t bytes[16];
        char body[200];
        size_t len = 0;
        snprintf(body, sizeof body, "{'input': 'the cat', 'dimensions': %zu}", n);
        struct sp_json *plain = post("/v1/embeddings", body, 200);
        snprintf(body, sizeof body,
                 "{'input': 'the cat', 'encoding_format': 'base64', 'dimensions': %zu}", n);
        struct sp_json *json = post("/v1/embeddings", body, 200);
        const char *text = json_text(json, "data.0.embedding");
        assert_int_equal(strlen(text), (4 * n + 2) / 3 * 4);
        assert_int_equal(strcspn(text, "="), (16 * n + 2) / 3);
        for (uint32_t bits = 0, i = 0; text[i] && text[i] != '='; i++) {
            bits = bits << 6 | digit(text[i]);
            if (i % 4) bytes[len++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
        }
        assert_int_equal(len, 4 * n);
        for (size_t i = 0; i < n; i++) {
            float x;
            memcpy(&x, bytes + 4 * i, 4);
            assert_true((float)number_at(plain, keep_format("data.0.embedding.%zu", i)) == x);
        }
    }
}

TEST(ollama)
{
    struct sp_json *json = post("/api/embed", "{'input': ['the cat', 'a']}", 200);
    struct sp_json *old = post("/api/embeddings", "{'prompt': 'the cat'}", 200);
    struct sp_json *show = post("/api/show", "{}", 200);

    assert_int_equal(sp_json_len(json_at(json, "embeddings")), 2);
    assert_true(fabs(number_at(json, "embeddings.0.9") - golden_number(9)) < 1e-5);
    assert_int_equal(json_number(json, "prompt_eval_count"), 7);
    assert_true(json_number(json, "load_duration") > 0);
    assert_true(json_number(json, "total_duration") > json_number(json, "load_duration"));
    assert_true(number_at(old, "embedding.9") == number_at(json, "embeddings.0.9"));
    assert_string_equal(json_text(show, "capabilities.0"), "embedding");
    assert_int_equal(sp_json_len(json_at(show, "capabilities")), 1);
    json = post("/api/embed", "{'input': ''}", 200);
    assert_int_equal(sp_json_len(json_at(json, "embeddings")), 0);
    json = post("/api/embeddings", "{}", 200);
    assert_int_equal(sp_json_len(json_at(json, "embedding")), 0);
}

/* Fewer dimensions are the first ones of the whole embedding, with length 1 again. */
TEST(ollama_dimensions)
{
    enum { N = 3 };
    struct sp_json *json = post("/api/embed", "{'input': ['the cat', 'a'], 'dimensions': 3}", 200);
    double square = 0;

    assert_int_equal(sp_json_len(json_at(json, "embeddings.0")), N);
    assert_int_equal(sp_json_len(json_at(json, "embeddings.1")), N);
    for (size_t i = 0; i < N; i++)
        square += golden_number(i) * golden_number(i);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs(number_at(json, keep_format("embeddings.0.%zu", i)) -
                         golden_number(i) / sqrt(square)) < 1e-5);
    }
    json = post("/api/embed", "{'input': 'a', 'dimensions': 65}", 400);
    assert_string_equal(json_text(json, "error"), "65 dimensions: the model's embeddings have 64");
}

/* OpenAI's API refuses what ollama's shortens. */
TEST(long_texts)
{
    char body[1000], text[500];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(body, sizeof body, "{'input': '%s'}", text);
    struct sp_json *json = post("/v1/embeddings", body, 400);
    assert_string_equal(json_text(json, "error.code"), "context_length_exceeded");
    assert_non_null(strstr(json_text(json, "error.message"), "the model reads at most 64"));
    json = post("/api/embed", body, 200);
    assert_int_equal(json_number(json, "prompt_eval_count"), 64);
    snprintf(body, sizeof body, "{'input': '%s', 'truncate': false}", text);
    json = post("/api/embed", body, 400);
    assert_non_null(strstr(json_text(json, "error"), "the model reads at most 64"));
}

TEST(prompts)
{
    struct sp_json *named =
        post("/v1/embeddings", "{'input': 'the cat', 'prompt_name': 'document'}", 200);
    struct sp_json *written =
        post("/v1/embeddings", "{'input': 'title: none | text: the cat'}", 200);

    assert_true(number_at(named, "data.0.embedding.0") == number_at(written, "data.0.embedding.0"));
}

TEST(refusals)
{
    static const struct {
        const char *path, *body, *message;
    } rows[] = {
        {"/v1/embeddings", "{'input': []}", "input has no texts"},
        {"/v1/embeddings", "{'input': 3}", "input: expected a string or an array"},
        {"/v1/embeddings", "{'input': ['a', {}]}", "input: text 1 is neither a string nor"},
        {"/v1/embeddings", "{'input': [[]]}", "input: text 0 has no tokens"},
        {"/v1/embeddings", "{'input': [300]}", "token ID 300: the vocabulary has 300 tokens"},
        {"/v1/embeddings", "{'input': 'a', 'dimensions': 0}", "dimensions is 0"},
        {"/v1/embeddings", "{'input': 'a', 'dimensions': 65}", "65 dimensions: the model's"},
        {"/v1/embeddings", "{'input': 'a', 'encoding_format': 'hex'}",
         "encoding_format is \"hex\", expected float or base64"},
        {"/v1/embeddings", "{'input': 'a', 'prompt_name': 'x'}", "has no prompt \"x\""},
        {"/v1/chat/completions", "{" GOLDEN_PROMPT "}", "template"},
        {"/v1/completions", "{'prompt': 'a'}", "makes embeddings and does not generate"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sp_json *json = post(rows[i].path, rows[i].body, 400);
        const char *message = json_text(json, "error.message");
        if (strstr(message, rows[i].message) == NULL) fail_msg("%s: %s", rows[i].body, message);
    }
}

TEST(too_many)
{
    size_t n = 2049, size = 0;
    char *body = NULL;
    FILE *f = open_memstream(&body, &size);

    assert_non_null(f);
    fputs("{'input': ['a'", f);
    for (size_t i = 1; i < n; i++)
        fputs(", 'a'", f);
    fputs("]}", f);
    fclose(f);
    assert_string_equal(json_text(post("/v1/embeddings", body, 400), "error.message"),
                        "input has more than 2048 texts");
    free(body);
}

/* A short request waits for one group of texts of the long ones, however many of these wait: while
 * they are computed, about as many short requests are answered as they have groups. */
TEST(short_among_long)
{
    enum { N_LONG = 6, N_TEXTS = 300, N_GROUPS = N_LONG * N_TEXTS * 60 / 1024 };
    static const char words[] = ",'a b c d e f g h i j a b c d e f g h i j a b c d e f g h i j'";
    char *body = keep(malloc(32 + N_TEXTS * sizeof words)), *at = body, byte;
    size_t n_short = 0, n_done = 0;
    int longs[N_LONG];

    assert_non_null(body);
    at += sprintf(at, "{'input': ['a'");
    for (size_t i = 0; i < N_TEXTS; i++)
        at += sprintf(at, "%s", words);
    sprintf(at, "]}");
    for (size_t i = 0; i < N_LONG; i++)
        longs[i] = server_begin_request(&server, "/v1/embeddings", body);
    for (; n_done < N_LONG; n_short++) {
        post("/v1/embeddings", "{'input': 'a'}", 200);
        while (n_done < N_LONG && recv(longs[n_done], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1)
            close(longs[n_done++]);
    }
    assert_true(n_short > N_GROUPS / 2);
}

/* A model that generates embeds with --pooling, also while it generates. */
TEST(with_answers)
{
    const char *const options[] = {"--pooling", "mean", NULL};
    struct server s = server_start(
        packed_file(packed_modelfile(TESTDATA "/tiny/target", NULL), SP_DTYPE_NONE, SP_DTYPE_NONE),
        options);

    struct sp_json *json =
        server_post(&s, "/v1/embeddings", "{'input': [582, 580, 258, 421]}", 200);
    int answer = server_begin_request(&s, "/v1/completions", "{" GOLDEN_PROMPT "}");
    struct sp_json *again =
        server_post(&s, "/v1/embeddings", "{'input': [582, 580, 258, 421]}", 200);
    assert_true(number_at(json, "data.0.embedding.3") == number_at(again, "data.0.embedding.3"));
    struct http_reply r = client_receive(answer);
    assert_int_equal(r.status, 200);
}

/* The results are sorted by score, and top_n of them are shown. */
TEST(rerank)
{
    struct server s =
        server_start(packed_file(packed_modelfile(TESTDATA "/embeddings/qwen3_reranker", NULL),
                                 SP_DTYPE_NONE, SP_DTYPE_NONE),
                     (const char *const[]){"--name", "r", NULL});
    static const char body[] = "{'model': 'r', 'query': 'the cat', 'documents': ['a dog ran over "
                               "the hill', {'text': 'The cat sat on the mat.'}, 'y']%s}";
    static const struct {
        const char *body, *message;
    } bad[] = {
        {"{'documents': ['a']}", "query is missing"},
        {"{'query': 1, 'documents': ['a']}", "query is 1"},
        {"{'query': 'a', 'documents': []}", "documents: expected an array of texts"},
        {"{'query': 'a', 'documents': [{}]}", "documents[0] is not a text"},
        {"{'query': 'a', 'documents': ['a'], 'top_n': 0}", "top_n is 0"},
    };
    char text[400];

    snprintf(text, sizeof text, body, "");
    struct sp_json *json = server_post(&s, "/v1/rerank", text, 200);
    snprintf(text, sizeof text, body, ", 'top_n': 1, 'return_documents': true");
    struct sp_json *few = server_post(&s, "/rerank", text, 200);
    assert_string_equal(json_text(json, "model"), "r");
    assert_int_equal(sp_json_len(json_at(json, "results")), 3);
    assert_true(number_at(json, "results.0.relevance_score") >=
                number_at(json, "results.1.relevance_score"));
    assert_true(number_at(json, "results.1.relevance_score") >=
                number_at(json, "results.2.relevance_score"));
    assert_null(json_at(json, "results.0.document"));
    assert_int_equal(sp_json_len(json_at(few, "results")), 1);
    assert_int_equal(json_number(few, "results.0.index"), json_number(json, "results.0.index"));
    assert_non_null(json_text(few, "results.0.document.text"));
    assert_true(json_number(few, "usage.total_tokens") > 100);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json = server_post(&s, "/v2/rerank", bad[i].body, 400);
        if (strstr(json_text(json, "error.message"), bad[i].message) == NULL)
            fail_msg("%s", json_text(json, "error.message"));
    }
    json = server_post(&s, "/v1/embeddings", "{'input': 'a'}", 400);
    assert_non_null(strstr(json_text(json, "error.message"), "a reranker scores documents"));
    assert_int_equal(server_stop(&s), 0);
    json = post("/v1/rerank", "{'query': 'a', 'documents': ['a']}", 400);
    assert_non_null(strstr(json_text(json, "error.message"), "not a reranker"));
}

/* A document that is too long is cut to what the model reads, or to max_tokens_per_doc. */
TEST(rerank_long_documents)
{
    static const struct {
        const char *model;
        int most; /* tokens that the model reads */
    } rows[] = {{TESTDATA "/embeddings/qwen3_reranker", 512}, {TESTDATA "/classifiers/bert", 64}};
    static const char body[] = "{'query': 'the cat', 'documents': ['%s']%s}";
    static char x[2001], text[2200];

    for (size_t i = 0; i < sizeof x - 1; i++)
        x[i] = i % 2 ? ' ' : 'x';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct server s = server_start(
            packed_file(packed_modelfile(rows[i].model, NULL), SP_DTYPE_NONE, SP_DTYPE_NONE), NULL);
        snprintf(text, sizeof text, body, x, "");
        struct sp_json *json = server_post(&s, "/v2/rerank", text, 200);
        assert_int_equal(json_number(json, "usage.total_tokens"), rows[i].most);
        snprintf(text, sizeof text, body, x, ", 'truncate': false");
        server_post(&s, "/v2/rerank", text, 400);
        json = server_post(&s, "/tokenize", "{'content': 'x x x'}", 200);
        const char *limit =
            keep_format(", 'max_tokens_per_doc': %zu", sp_json_len(json_at(json, "tokens")));
        snprintf(text, sizeof text, body, x, limit);
        json = server_post(&s, "/v2/rerank", text, 200);
        snprintf(text, sizeof text, body, "x x x", "");
        struct sp_json *few = server_post(&s, "/v2/rerank", text, 200);
        assert_int_equal(json_number(json, "usage.total_tokens"),
                         json_number(few, "usage.total_tokens"));
        assert_true(number_at(json, "results.0.relevance_score") ==
                    number_at(few, "results.0.relevance_score"));
        assert_int_equal(server_stop(&s), 0);
    }
}

GROUP_FIXTURE(setup, packed_teardown);
