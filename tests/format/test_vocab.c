/* format/tokenizer/vocab.h: the contents read from tokenizer.json, refusals with their messages,
 * and that compiling depends on the input alone. */
#include "format/tokenizer/older_files.h"
#include "format/base/mem.h"
#include "format/tokenizer/tokmap_write.h"
#include "format/tokenizer/vocab.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#define WORDS "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<u>\":3}"
#define MODEL "\"model\":{\"type\":\"BPE\"," WORDS ",\"merges\":[\"a b\"]}"
#define WITH(part) "{" part "," MODEL "}"
#define ADDED(members) WITH("\"added_tokens\":[{" members "}]")

/* Documents of refusals.jsonl, each by the member that is wrong. */
TEST(refusals)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/tokenizer/refusals.jsonl");
    size_t n = 0, size;

    for (; line[n]; n++) {
        const char *json = sp_json_get_text(line[n], "text");
        int64_t status;
        if (json == NULL) json = keep_printed(sp_json_get(line[n], "tokenizer"));
        const struct sp_text text = whole_text(json), none = {0};
        uint8_t *blob = NULL;
        assert_true(sp_json_to_i64(sp_json_get(line[n], "status"), &status));
        assert_fails(sp_vocab_compile(&blob, &size, &text, &none, NULL, why), status,
                     sp_json_get_text(line[n], "message"));
        assert_null(blob);
    }
    assert_int_equal(n, 56);
}

static struct sp_vocab *open_vocab(const char *json, const char *config)
{
    const struct sp_text texts[] = {whole_text(json), whole_text(config)};
    struct sp_vocab *vocab = NULL;

    assert_case_ok(json, sp_vocab_open(&vocab, &texts[0], &texts[1], why));
    return vocab;
}

/* tokenizer_config.json has tokens of its own and the last word on flags, as in AutoTokenizer of
 * transformers 5.24, whose ids these are. */
TEST(tokens_of_config)
{
#define TWO_WORDS "\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"b\":1}}"
#define FLAGS ",\"lstrip\":true,\"normalized\":false,\"special\":true"
    static const char json[] = "{\"added_tokens\":[{\"id\":2,\"content\":\"<e>\"}]," TWO_WORDS "}";
    static const struct {
        const char *config, *text;
        uint32_t id;
        unsigned flags;
    } cases[] = {
        {"{\"added_tokens_decoder\":{\"3\":{\"content\":\"<t>\"" FLAGS "}}}", "<t>", 3,
         SP_TOKEN_ADDED | SP_TOKEN_SPECIAL | SP_TOKEN_LSTRIP},
        {"{\"added_tokens_decoder\":{\"2\":{\"content\":\"<e>\"" FLAGS "}}}", "<e>", 2,
         SP_TOKEN_ADDED | SP_TOKEN_SPECIAL | SP_TOKEN_LSTRIP},
        {"{\"added_tokens_decoder\":{\"2\":{\"content\":\"<e>\",\"normalized\":true}},"
         "\"eos_token\":\"<e>\"}",
         "<e>", 2, SP_TOKEN_ADDED | SP_TOKEN_SPECIAL | SP_TOKEN_NORMALIZED},
        {"{\"additional_special_tokens\":[\"<e>\",\"<t>\"]}", "<t>", 3,
         SP_TOKEN_ADDED | SP_TOKEN_SPECIAL},
        {"{\"extra_special_tokens\":{\"tool_token\":\"<t>\"}}", "<t>", 3,
         SP_TOKEN_ADDED | SP_TOKEN_SPECIAL},
        {"{\"eos_token\":{\"content\":\"<t>\"},\"bos_token\":\"<s>\"}", "<t>", 4,
         SP_TOKEN_ADDED | SP_TOKEN_SPECIAL},
    };
    struct sp_vocab *vocab;
    static const char taken[] = "{\"added_tokens_decoder\":{\"1\":{\"content\":\"<t>\"}}}",
                      far[] = "{\"added_tokens_decoder\":{\"9999999\":{\"content\":\"<t>\"}}}";

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vocab = open_vocab(json, cases[i].config);
        if (cases[i].id >= vocab->n_ids) fail_msg("%s: %zu ids", cases[i].config, vocab->n_ids);
        const struct sp_vocab_token *token = &vocab->tokens[cases[i].id];
        assert_non_null(token->text);
        assert_string_equal(token->text, cases[i].text);
        assert_int_equal(token->flags, cases[i].flags);
        sp_vocab_close(vocab);
    }
    vocab = open_vocab(json, taken);
    assert_string_equal(vocab->tokens[1].text, "b");
    assert_string_equal(vocab->tokens[3].text, "<t>");
    assert_string_equal(vocab->warning, "tokenizer_config.json gives \"<t>\" id 1, which is that "
                                        "of \"b\" in tokenizer.json; it gets the next free one, 3");
    sp_vocab_close(vocab);
    const struct sp_text texts[] = {whole_text(json), whole_text(far)};
    assert_fails(sp_vocab_open(&vocab, &texts[0], &texts[1], why), SP_E_INPUT,
                 "token ID 9999999 is far beyond");
#undef FLAGS
#undef TWO_WORDS
}

/* GPT2Tokenizer takes add_prefix_space from its config. */
TEST(prefix_space_of_config)
{
    static const char with[] = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{"
                               "\"merges\":[],\"vocab\":{\"a\":0}}}",
                      without[] = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                                  "false},\"model\":{\"merges\":[],\"vocab\":{\"a\":0}}}";
    static const struct {
        const char *json, *config;
        bool prefixes;
    } cases[] = {
        {with, "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":false}", false},
        {without, "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}", true},
        {without, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_prefix_space\":true}",
         false},
        {with, "{\"tokenizer_class\":\"GPT2Tokenizer\"}", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_vocab *vocab = open_vocab(cases[i].json, cases[i].config);
        assert_int_equal(vocab->splitter.at[0].kind == SP_STEP_PREFIX, cases[i].prefixes);
        assert_int_equal(vocab->splitter.at[vocab->splitter.n - 1].kind, SP_STEP_BYTE_LEVEL);
        sp_vocab_close(vocab);
    }
}

/* Files of older checkpoints become members of tokenizer_config.json, without tokens that
 * tokenizer.json has. */
TEST(older_files)
{
    static const char json[] = "{\"added_tokens\":[{\"id\":2,\"content\":\"<e>\"}]}",
                      map[] = "{\"eos_token\":{\"content\":\"<s>\"},\"bos_token\":\"<b>\"}",
                      added[] = "{\"<e>\":2,\"<s>\":3,\"<t>\":4}";
    struct sp_text config = {0}, same = {.size = 28}, text = whole_text(json);
    struct sp_json *root = NULL;
    bool special = false;

    assert_non_null(scratch_folder());
    scratch_write("special_tokens_map.json", map, strlen(map));
    scratch_write("added_tokens.json", added, strlen(added));
    assert_ok(sp_older_files_add(&config, scratch_path("."), &text, NULL));
    assert_ok(sp_json_parse(&root, config.at, config.size, SP_JSON_STRICT, NULL));
    assert_string_equal(sp_json_get_text(root, "bos_token"), "<b>");
    const struct sp_json *decoder = sp_json_get(root, "added_tokens_decoder");
    assert_int_equal(sp_json_len(decoder), 2);
    assert_ok(sp_json_get_bool(sp_json_get(decoder, "3"), "special", &special, NULL));
    assert_true(special);
    assert_ok(sp_json_get_bool(sp_json_get(decoder, "4"), "special", &special, NULL));
    assert_false(special);
    sp_json_free(root);

    /* A newer file is complete. */
    assert_ok(sp_copy_text(&same.at, "{\"added_tokens_decoder\": {}}", 28, NULL));
    assert_ok(sp_older_files_add(&same, scratch_path("."), &text, NULL));
    assert_int_equal(same.size, 28);
    const struct sp_text list = whole_text("[]");
    struct sp_text copy = list;
    assert_fails(sp_older_files_add(&copy, scratch_path("."), &text, why), SP_E_INPUT,
                 "tokenizer_config.json: expected an object, found array");
    free(same.at);
    free(config.at);
    scratch_remove();
}

TEST(contents)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":6,\"content\":\"<e>\",\"special\":true,\"lstrip\":true},"
        "{\"id\":1,\"content\":\"b\",\"normalized\":true},{\"id\":7,\"content\":\"\"}],"
        "\"model\":{\"merges\":[\"#version: 0.2\",[\"a\",\"b\"],\"\\r a\"]," /* before the
                                                                                vocabulary */
        "\"vocab\":{\"ab\":2,\"a\":0,\"b\":1,\"\\r\":3,\"\\ra\":4},\"unk_token\":\"a\"}}";
    static const char config[] = "{\"bos_token\":{\"content\":\"<e>\"},\"eos_token\":\"b\"}";
    struct sp_vocab *vocab = open_vocab(json, config);

    assert_int_equal(vocab->n_ids, 8);
    assert_int_equal(vocab->n_model, 5);
    assert_int_equal(vocab->n_merges, 2);
    assert_int_equal(vocab->merges[0].left, 0);
    assert_int_equal(vocab->merges[0].right, 1);
    assert_int_equal(vocab->merges[0].merged, 2);
    assert_int_equal(vocab->merges[1].left, 3);
    assert_int_equal(vocab->merges[1].merged, 4);
    assert_int_equal(vocab->tokens[0].flags, SP_TOKEN_MODEL);
    assert_int_equal(vocab->tokens[1].flags, SP_TOKEN_MODEL | SP_TOKEN_ADDED | SP_TOKEN_NORMALIZED);
    assert_int_equal(vocab->tokens[6].flags, SP_TOKEN_ADDED | SP_TOKEN_SPECIAL | SP_TOKEN_LSTRIP);
    assert_null(vocab->tokens[5].text);
    assert_null(vocab->tokens[7].text); /* an empty added token is ignored */
    assert_int_equal(vocab->n_added, 2);
    assert_int_equal(vocab->added[0], 6);
    assert_int_equal(vocab->unk, 0);
    assert_int_equal(vocab->bos, 6);
    assert_int_equal(vocab->eos, 1);
    assert_int_equal(sp_vocab_find(vocab, "\ra", 2), 4);
    assert_int_equal(sp_vocab_find(vocab, "<e>", 3), SP_ID_NONE);
    assert_null(vocab->warning);
    sp_vocab_close(vocab);
}

/* The vocabulary's id precedes a different one in the list of added tokens. */
TEST(contradictory_ids)
{
    static const char json[] = ADDED("\"id\":9,\"content\":\"ab\"");
    struct sp_vocab *vocab = open_vocab(json, NULL);

    assert_int_equal(vocab->tokens[2].flags, SP_TOKEN_MODEL | SP_TOKEN_ADDED);
    assert_string_equal(vocab->warning,
                        "added token \"ab\" has id 9, but 2 in the vocabulary, which is used");
    sp_vocab_close(vocab);
}

static void expect_step(const struct sp_step *step, enum sp_step_kind kind, uint32_t a,
                        const char *pattern, const char *text)
{
    assert_int_equal(step->kind, kind);
    assert_int_equal(step->a, a);
    assert_int_equal(step->pattern_len, strlen(pattern));
    assert_memory_equal(step->pattern, pattern, strlen(pattern));
    assert_int_equal(step->text_len, strlen(text));
    assert_memory_equal(step->text, text, strlen(text));
}

/* Components become primitive steps, and nested Sequences one list. */
TEST(steps)
{
    struct sp_vocab *vocab = open_vocab(
        WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\","
             "\"pretokenizers\":[]},{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
             "\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}]},{\"type\":"
             "\"CharDelimiterSplit\",\"delimiter\":\",\"},{\"type\":\"FixedLength\"}]},\"decoder\":"
             "null"),
        NULL);
    const struct sp_step *at = vocab->splitter.at;

    assert_int_equal(vocab->splitter.n, 5);
    expect_step(&at[0], SP_STEP_REPLACE, 0, " ", "_");
    expect_step(&at[1], SP_STEP_PREFIX, SP_PREFIX_AT_START, "", "_");
    expect_step(&at[2], SP_STEP_SPLIT, SP_SPLIT_MERGED_WITH_NEXT, "_", "");
    expect_step(&at[3], SP_STEP_SPLIT, SP_SPLIT_REMOVED, ",", "");
    expect_step(&at[4], SP_STEP_FIXED_LENGTH, 5, "", "");
    assert_int_equal(vocab->decoder.n, 1);
    expect_step(&vocab->decoder.at[0], SP_STEP_JOIN, 0, "", " ");
    sp_vocab_close(vocab);
}

TEST(equal_data_gives_equal_bytes)
{
    /* The same data in another order, with both notations of merges. */
    static const char *const json[] = {
        "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"ba\":3},\"merges\":[\"a b\",\"b a\"]}}",
        " {\"normalizer\":null,\"model\":{\"merges\":[[\"a\",\"b\"],[\"b\",\"a\"]],"
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"ba\":3},\"dropout\":null}}\n",
    };
    uint8_t *blob[2] = {NULL, NULL};
    size_t size[2];

    for (int i = 0; i < 2; i++) {
        const struct sp_text text = whole_text(json[i]), none = {0};
        assert_ok(sp_vocab_compile(&blob[i], &size[i], &text, &none, NULL, NULL));
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(blob[0], blob[1], size[0]);
    free(blob[0]);
    free(blob[1]);
}
