/* Tokenizers made from the metadata of GGUF files: the ids are those of the tokenizers library with
 * the tokenizer.json that the vocabulary was taken from, and of sentencepiece. */
#include "convert/gguf/gguf_tokenizer.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

static void open_tokenizer(struct tokenizer_case *out, const char *path)
{
    struct sp_gguf *file = NULL;
    char *json = NULL, *config = NULL;
    size_t size = 0, config_size = 0;
    struct sp_err err = {0};

    if (sp_gguf_open(&file, path, &err) || sp_gguf_tokenizer_text(&json, &size, file, &err) ||
        sp_gguf_tokenizer_config_text(&config, &config_size, file, &err))
        fail_msg("%s", err.text);
    tokenizer_case_open(out, json, size, config);
    free(json);
    free(config);
    sp_gguf_close(file);
}

/* A case: [text, ids, ids with added special tokens]. */
static void check_line(const struct tokenizer_case *t, const char *name, const char *line)
{
    static const unsigned flags[] = {SP_ENCODE_PARSE_SPECIAL,
                                     SP_ENCODE_PARSE_SPECIAL | SP_ENCODE_ADD_SPECIAL};
    const struct sp_json *row = keep_parsed(line, strlen(line), SP_JSON_LENIENT);
    const char *text;
    size_t size, n;

    text = sp_json_to_string(sp_json_at(row, 0), &size);
    assert_non_null(text);
    for (size_t i = 0; i < 2; i++) {
        uint32_t *ids = golden_ids(sp_json_at(row, 1 + i), &n);
        char where[400];
        snprintf(where, sizeof where, "%s: \"%.200s\"", name, text);
        expect_ids(t, where, text, size, flags[i], ids, n);
    }
}

TEST(ids_equal)
{
    static const char *const names[] = {"gpt-2",
                                        "smollm",
                                        "qwen2",
                                        "qwen35",
                                        "deepseek-v3",
                                        "gemma4",
                                        "llama-bpe",
                                        "gpt-4o",
                                        "tekken",
                                        "pieces",
                                        "pieces-bare",
                                        "unigram",
                                        "wordpiece",
                                        "wordpiece-cased",
                                        "deepseek-coder",
                                        "kimi-k2",
                                        "afmoe",
                                        "exaone-moe",
                                        "bailingmoe",
                                        "tiny_aya",
                                        "default",
                                        "falcon",
                                        "jais-2",
                                        "ufakzeka",
                                        "poro-chat",
                                        "viking",
                                        "chameleon",
                                        "superbpe",
                                        "granite-embed-multi-311m"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer_case t;
        char path[400], *text, *at, *line;
        size_t size, n = 0;
        snprintf(path, sizeof path, TESTDATA "/gguf/tokenizers/%s.gguf", names[i]);
        open_tokenizer(&t, path);
        snprintf(path, sizeof path, TESTDATA "/gguf/tokenizers/%s.jsonl", names[i]);
        at = text = golden_file(path, &size);
        assert_non_null(text);
        while ((line = next_line(&at)) != NULL) {
            check_line(&t, names[i], line);
            n++;
        }
        assert_true(n > 30);
        tokenizer_case_close(&t);
    }
}
