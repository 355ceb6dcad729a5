/* Tokenizers made from the metadata of GGUF files: the ids are those of the tokenizers library with
 * the tokenizer.json that the vocabulary was taken from, and of sentencepiece. */
#define _GNU_SOURCE /* memmem */
#include "format/tokenizer/bpe_files.h"
#include "format/tokenizer/gguf_tokenizer.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

static void open_tokenizer(struct tokenizer_case *out, const char *path)
{
    struct sp_gguf *file = NULL;
    struct sp_text json, config;

    assert_ok(sp_gguf_open(&file, path, why));
    assert_ok(sp_gguf_tokenizer_text(&json, file, NULL, why));
    assert_ok(sp_gguf_tokenizer_config_text(&config, file, why));
    tokenizer_case_open(out, keep(json.at), json.size, keep(config.at));
    sp_gguf_close(file);
}

/* A case: [text, ids, ids with added special tokens]. */
static void check_line(const struct tokenizer_case *t, const char *name, const char *line)
{
    static const unsigned flags[] = {SP_ENCODE_PARSE_SPECIAL,
                                     SP_ENCODE_PARSE_SPECIAL | SP_ENCODE_ADD_SPECIAL};
    const struct sp_json *row = keep_parsed(line, strlen(line), SP_JSON_LENIENT);
    size_t size, n;

    const char *text = sp_json_to_string(sp_json_at(row, 0), &size);
    assert_non_null(text);
    for (size_t i = 0; i < 2; i++) {
        uint32_t *ids = golden_ids(sp_json_at(row, 1 + i), &n);
        expect_ids(t, keep_format("%s: \"%.200s\"", name, text), text, size, flags[i], ids, n);
    }
}

static size_t check_lines(const struct tokenizer_case *t, const char *path)
{
    size_t size, n = 0;
    char *at = golden_file(path, &size), *line;

    assert_non_null(at);
    for (; (line = next_line(&at)) != NULL; n++)
        check_line(t, path, line);
    return n;
}

static void ids_equal(void **state)
{
    const char *path = keep_format(TESTDATA "/gguf/tokenizers/%s", (const char *)*state);
    struct tokenizer_case t;

    open_tokenizer(&t, keep_format("%s.gguf", path));
    assert_true(check_lines(&t, keep_format("%s.jsonl", path)) > 30);
}

CASES(ids_equal, "gpt-2", "smollm", "qwen2", "qwen35", "deepseek-v3", "gemma4", "llama-bpe",
      "gpt-4o", "tekken", "pieces", "pieces-bare", "unigram", "wordpiece", "wordpiece-cased",
      "deepseek-coder", "kimi-k2", "afmoe", "exaone-moe", "bailingmoe", "tiny_aya", "default",
      "falcon", "jais-2", "ufakzeka", "poro-chat", "viking", "chameleon", "superbpe",
      "granite-embed-multi-311m");

/* As in llama.cpp, the kind "llama" begins texts with token 1 where the file does not say it. */
TEST(llama_without_bos_id)
{
    struct tokenizer_case t;
    size_t size;
    char *file = scratch_read(TESTDATA "/gguf/tokenizers/pieces.gguf", &size), *key;

    key = memmem(file, size, "ggml.bos_token_id", strlen("ggml.bos_token_id"));
    assert_non_null(key);
    key[strlen("ggml.")] = 'x';
    open_tokenizer(&t, scratch_write("pieces.gguf", file, size));
    assert_true(check_lines(&t, TESTDATA "/gguf/tokenizers/pieces.jsonl") > 30);
}

/* ---- tokenizer.model, tekken.json (tests/oracle/sentencepiece_files.py, tekken_files.py) ---- */

#define PIECES TESTDATA "/tokenizer/sentencepiece/"

static void pieces_equal(void **state)
{
    const char *name = *state;
    struct tokenizer_case t;
    char path[400], *config;
    struct sp_text json, text;

    snprintf(path, sizeof path, TESTDATA "/tokenizer/%s/tokenizer_config.json", name);
    config = golden_file(path, &text.size);
    text.at = config;
    *strrchr(path, '/') = '\0';
    assert_ok(sp_bpe_files_read(&json, path, &text, why));
    assert_non_null(json.at);
    tokenizer_case_open(&t, keep(json.at), json.size, config);
    strcat(path, "/cases.jsonl");
    assert_true(check_lines(&t, path) > 25);
}

/* Reads a tokenizer.model of these bytes; kept. NULL if it is refused. */
static const char *read_pieces(const char *config, const void *bytes, size_t size,
                               struct sp_err *err)
{
    const struct sp_text text = whole_text(config);
    struct sp_text made;

    scratch_write("tokenizer.model", bytes, size);
    (void)!sp_bpe_files_read(&made, scratch_folder(), &text, err);
    return keep(made.at);
}

static void assert_bytes_refused(const void *bytes, size_t size, const char *message)
{
    struct sp_err err = {0};

    assert_null(read_pieces("{}", bytes, size, &err));
    if (strstr(err.text, message) == NULL) fail_msg("\"%s\", expected \"%s\"", err.text, message);
}

/* JSON has no infinite numbers. */
TEST(infinite_score)
{
    static const uint8_t infinity[] = {0, 0, 0x80, 0x7f};
    size_t size;
    char *model = scratch_read(PIECES "unigram/tokenizer.model", &size);

    memcpy((char *)memchr(model, 2 << 3 | 5, size) + 1, infinity, sizeof infinity);
    assert_bytes_refused(model, size, "tokenizer.ggml.scores[0] is not a finite number");
}

TEST(damaged_pieces)
{
    size_t size;
    char *model = scratch_read(PIECES "unigram/tokenizer.model", &size);

    for (size_t i = 0; i < size; i += i < 300 ? 1 : 97) {
        struct sp_err err = {0};
        assert_true((read_pieces("{}", model, i, &err) == NULL) == (err.status != SP_OK));
        model[i] ^= 0x55;
        read_pieces("{}", model, size, NULL);
        model[i] ^= 0x55;
    }
}

static void assert_pieces_refused(const char *name, size_t at, char byte, const char *message)
{
    size_t size;
    char *model = scratch_read(keep_format(PIECES "%s/tokenizer.model", name), &size);

    model[at] = byte;
    assert_bytes_refused(model, size, message);
}

TEST(refused_pieces)
{
    enum { MODEL_TYPE = 7117, EXTRA_SPACES = 7143 }; /* where the file has a value, and a tag */

    assert_pieces_refused("llama", 1, 126, "tokenizer.model: piece 0 is damaged");
    assert_pieces_refused("llama", MODEL_TYPE, 3, "a model of words is not supported");
    assert_pieces_refused("llama", MODEL_TYPE, 4, "a model of characters is not supported");
    assert_pieces_refused("llama", EXTRA_SPACES, 5 << 3, "spaces that are not the beginning");
    assert_null(read_pieces("{\"tokenizer_class\": \"XLMRobertaTokenizer\"}", "", 0, why));
    assert_ok(why->status);
    assert_bytes_refused("", 0, "tokenizer.model: not a model of SentencePiece");
}

CASES(pieces_equal, "sentencepiece/llama", "sentencepiece/legacy", "sentencepiece/bare",
      "sentencepiece/mapped", "sentencepiece/unigram", "sentencepiece/bytes", "tekken/listed",
      "tekken/old");

/* Each text is one time in the file, and is replaced. */
TEST(refused_tekken)
{
    static const char *const cases[][3] = {
        {"\"pattern\"", "\"patern\"", "tekken.json: config.pattern is missing"},
        {"default_vocab_size", "x", "tekken.json: config.default_vocab_size is missing"},
        {"default_num_special", "x", "tekken.json: config.default_num_special_tokens is missing"},
        {"{\"rank\": 499,", "{\"rank\": 7,", "tekken.json: vocab[499] does not have rank 499"},
        {"{\"rank\": 6,", "{\"rank\": 7,", "special_tokens[6] does not have rank 6"},
        {"[/THINK]", "", "special_tokens[6] has no token_str"},
        {"AQ==", "A===", "vocab[1]: token_bytes is not base64 of a token"},
        {"AQ==", "", "vocab[1]: token_bytes is not base64 of a token"},
        {"AQ==", "AA==", "tokens 30 and 31 are equal"},
        {"<unk>", "<s>", "tokens 0 and 1 are equal"},
        {": 530,", ": 560,", "vocab has 509 tokens, config 530 and 30 special ones"},
        {": 30,", ": 531,", "default_num_special_tokens is 531"},
        {"\"special_tokens\": [", "\"special_tokens\": {}, \"x\": [", "special_tokens is no list"},
    };
    const struct sp_text config = whole_text("{}");
    size_t size;
    char *good = scratch_read(TESTDATA "/tokenizer/tekken/listed/tekken.json", &size);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = memmem(good, size, cases[i][0], strlen(cases[i][0]));
        struct sp_text json;
        if (i == 4) at = memmem(at + 1, size, cases[i][0], strlen(cases[i][0]));
        assert_non_null(at);
        const char *bad = keep_format("%.*s%s%.*s", (int)(at - good), good, cases[i][1],
                                      (int)(size - (size_t)(at - good) - strlen(cases[i][0])),
                                      at + strlen(cases[i][0]));
        scratch_write("tekken.json", bad, strlen(bad));
        assert_fails(sp_bpe_files_read(&json, scratch_folder(), &config, why), SP_E_INPUT,
                     cases[i][2]);
        assert_null(json.at);
    }
}
TEST_FIXTURE(NULL, scratch_teardown);
