/* Tests fill-in-the-middle over HTTP: /infill, and `suffix` in the completions of OpenAI's and
 * ollama's APIs, with a tiny model whose tokenizer has the tokens for it. */
#include "format/base/strbuf.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/served_model.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

#include <unistd.h>

static struct server server;

/* Names three tokens of the tiny model, which has none to spare, as those of Qwen2.5-Coder. */
static char *renamed(char *text)
{
    static const char *const names[][2] = {{"<|im_start|>", "<|fim_prefix|>"},
                                           {"<|mask|>", "<|fim_suffix|>"},
                                           {"<|im_end|>", "<|fim_middle|>"}};

    for (size_t i = 0; i < 3; i++) {
        struct sp_strbuf out = {0};
        char *rest = text, *at;
        while ((at = strstr(rest, names[i][0])) != NULL) {
            assert_ok(sp_strbuf_append(&out, rest, (size_t)(at - rest), NULL));
            assert_ok(sp_strbuf_append(&out, names[i][1], strlen(names[i][1]), NULL));
            rest = at + strlen(names[i][0]);
        }
        assert_ok(sp_strbuf_append(&out, rest, strlen(rest) + 1, NULL));
        text = keep(out.at);
    }
    return text;
}

/* Packs the tiny model with the renamed tokens. */
static const char *pack(void)
{
    static const char *const linked[] = {"config.json", "model.safetensors",
                                         "generation_config.json"};
    const char *path = packed_path("tokenizer.json");
    char *text = renamed(golden_file(TESTDATA "/tiny/target/tokenizer.json", &(size_t){0}));
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            symlink(keep_format(TESTDATA "/tiny/target/%s", linked[i]), packed_path(linked[i])), 0);
    }
    return packed_file(
        packed_modelfile(keep_format("%.*s", (int)(strrchr(path, '/') - path), path), NULL),
        SP_DTYPE_NONE, SP_DTYPE_NONE);
}

static int setup(void **state)
{
    const char *const options[] = {"--kv-type", "f32", "--name", "tiny", "--num-ctx", "128", NULL};

    if (packed_setup(state)) return 1;
    server = server_start(pack(), options);
    return 0;
}

static struct sp_json *post(const char *path, const char *body, int status)
{
    return server_post(&server, path, body, status);
}

#define PREFIX "Tell me a story about"
#define SUFFIX " and a river.\\n"
/* The answer must not end at once. */
#define MORE "'logit_bias': {'1596': -100, '1598': -100}"

/* Appends the ids of a text, after one token. */
static size_t add_ids(char *list, size_t len, unsigned token, const char *text)
{
    struct sp_json *json = post("/tokenize", keep_format("{'content': '%s'}", text), 200);
    const struct sp_json *ids = sp_json_get(json, "tokens");
    len += (size_t)sprintf(list + len, "%s%u", len ? ", " : "", token);
    for (size_t i = 0; i < sp_json_len(ids); i++) {
        int64_t id = 0;
        assert_true(sp_json_to_i64(sp_json_at(ids, i), &id));
        len += (size_t)sprintf(list + len, ", %d", (int)id);
    }
    return len;
}

/* All APIs give the text that follows the prompt of Qwen2.5-Coder's form, in ids. */
TEST(test_apis_agree)
{
    char ids[1024] = "", body[2048];
    struct sp_json *plain, *json;
    size_t n = add_ids(ids, 0, 1597, PREFIX);

    n = add_ids(ids, n, 1599, SUFFIX);
    sprintf(ids + n, ", 1598");
    snprintf(body, sizeof body, "{'prompt': [%s], 'max_tokens': 12, " MORE "}", ids);
    plain = post("/v1/completions", body, 200);
    const char *want = json_text(plain, "choices.0.text");
    assert_true(strlen(want) > 10);

    json =
        post("/v1/completions",
             "{'prompt': '" PREFIX "', 'suffix': '" SUFFIX "', 'max_tokens': 12, " MORE "}", 200);
    assert_string_equal(json_text(json, "choices.0.text"), want);
    json = post("/infill",
                "{'input_prefix': '" PREFIX "', 'input_suffix': '" SUFFIX
                "', 'n_predict': 12, " MORE "}",
                200);
    assert_string_equal(json_text(json, "content"), want);
    json_expect(json, "{'stop_type': 'limit', 'tokens_predicted': 12}");
    assert_int_equal(json_number(json, "tokens_evaluated"),
                     json_number(plain, "usage.prompt_tokens"));
    struct http_reply r = server_request(
        &server, "POST", "/infill",
        "{'input_prefix': 'Tell me a story', 'prompt': ' about', 'input_suffix': '" SUFFIX
        "', 'n_predict': 12, 'stream': true, " MORE "}");
    char *streamed = stream_text(&r, "content", &n);
    assert_string_equal(streamed, want);

    /* A greedy answer ends at once where no bias forbids it, as in ollama's API, which has none. */
    json = post("/api/generate",
                "{'prompt': '" PREFIX "', 'suffix': '" SUFFIX
                "', 'stream': false, 'options': {'num_predict': 12}}",
                200);
    snprintf(body, sizeof body, "{'prompt': [%s], 'max_tokens': 12}", ids);
    plain = post("/v1/completions", body, 200);
    assert_string_equal(json_text(json, "response"), json_text(plain, "choices.0.text"));
    assert_int_equal(json_number(json, "prompt_eval_count"),
                     json_number(plain, "usage.prompt_tokens"));
}

/* A length of 0 reads the prompt for the next request; a long prompt is cut to the context. */
TEST(test_prompt_only)
{
    char body[4096], text[1500] = "";
    struct sp_json *json = post(
        "/infill", "{'input_prefix': 'The sea', 'input_suffix': ' is blue.', 'n_predict': 0}", 200);

    json_expect(json, "{'content': '', 'tokens_predicted': 0}");
    int64_t n = json_number(json, "tokens_evaluated");
    json = post("/infill",
                "{'input_prefix': 'The sea', 'input_suffix': ' is blue.', 'n_predict': 2}", 200);
    assert_int_equal(json_number(json, "tokens_cached"), n - 1);
    for (size_t i = 0; i < 100; i++)
        strcat(text, "a story ");
    snprintf(body, sizeof body,
             "{'input_prefix': '%s', 'input_suffix': '%s', 'n_predict': 28, 'input_extra': "
             "[{'filename': 'a', 'text': 'b'}]}",
             text, text);
    json = post("/infill", body, 200);
    assert_int_equal(json_number(json, "tokens_evaluated"), 100);
}

TEST(test_capability)
{
    struct sp_json *json = post("/api/show", "{'model': 'tiny'}", 200);
    const struct sp_json *all = sp_json_get(json, "capabilities");
    bool found = false;

    for (size_t i = 0; i < sp_json_len(all); i++)
        found = found || strcmp(sp_json_to_string(sp_json_at(all, i), NULL), "insert") == 0;
    assert_true(found);
}

TEST(test_refusals)
{
    static const struct {
        const char *path, *body, *says;
    } cases[] = {
        {"/infill", "{'input_suffix': 'a'}", "input_prefix is missing"},
        {"/infill", "{'input_prefix': 'a'}", "input_suffix is missing"},
        {"/infill", "{'input_prefix': 1, 'input_suffix': 'a'}", "input_prefix is integer"},
        {"/infill", "{'input_prefix': '', 'input_suffix': '', 'input_extra': [{}]}",
         "input_extra[0]: expected an object with text"},
        {"/infill", "{'input_prefix': '', 'input_suffix': '', 'input_extra': [{'text': 3}]}",
         "input_extra[0]: text is integer, expected a string"},
        {"/v1/completions", "{'prompt': [1], 'suffix': 'a'}",
         "suffix requires a prompt of text, not of token IDs"},
        {"/v1/completions", "{'prompt': 'a', 'suffix': 1}", "suffix is integer"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_json *json = post(cases[i].path, cases[i].body, 400);
        const char *says = json_text(json, "error.message");
        if (strstr(says, cases[i].says) == NULL) fail_msg("%s, not %s", says, cases[i].says);
    }
}

GROUP_FIXTURE(setup, packed_teardown);
