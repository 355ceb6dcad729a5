/* format/tokenizer/vocab.h: the contents read from tokenizer.json, refusals with their messages,
 * and that compiling depends on the input alone. */
#include "format/tokenizer/older_files.h"
#include "format/base/mem.h"
#include "format/tokenizer/tokmap_write.h"
#include "format/tokenizer/vocab.h"
#include "tests/support/scratch.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#define WORDS "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<u>\":3}"
#define MODEL "\"model\":{\"type\":\"BPE\"," WORDS ",\"merges\":[\"a b\"]}"
#define WITH(part) "{" part "," MODEL "}"
#define REGEX(pattern)                                                                             \
    WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},"          \
         "\"behavior\":\"Isolated\"}")
#define SETTING(member) "{\"model\":{" member "," WORDS ",\"merges\":[]}}"
#define MERGES(list) "{\"model\":{" WORDS ",\"merges\":" list "}}"
#define UNIGRAM(list, unk)                                                                         \
    "{\"model\":{\"type\":\"Unigram\",\"vocab\":[" list "],\"unk_id\":" unk "}}"
#define ADDED(members) WITH("\"added_tokens\":[{" members "}]")
#define TEMPLATE(single, tokens)                                                                   \
    WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":" single                  \
         ",\"special_tokens\":" tokens "}")
#define CHARSMAP(base64)                                                                           \
    WITH("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"" base64 "\"}")
#define TEXT "{\"Sequence\":{\"id\":\"A\"}}"
#define MARK "{\"SpecialToken\":{\"id\":\"<u>\"}}"

/* Refused documents by the member that is wrong. */
static const struct {
    const char *json;
    enum sp_status status;
    const char *sentence;
} refused[] = {
    {"[", SP_E_INPUT, "byte 1"},
    {"[]", SP_E_INPUT, "model: expected an object, found null"},
    {"{\"model\":{\"vocab\":[]}}", SP_E_INPUT, "model.vocab: expected an object, found array"},
    {"{\"model\":{\"vocab\":{\"a\":\"0\"},\"merges\":[]}}", SP_E_INPUT,
     "model.vocab: the id of \"a\" is not a number"},
    {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", SP_E_INPUT,
     "model.vocab: the id of \"a\" is not a number"},
    {"{\"model\":{\"vocab\":{\"a\":5,\"b\":5},\"merges\":[]}}", SP_E_INPUT,
     "model.vocab: \"a\" and \"b\" have the same id 5"},
    {"{\"model\":{\"vocab\":{\"a\":4000000000},\"merges\":[]}}", SP_E_INPUT,
     "token ID 4000000000 is far beyond the 1 entries of the vocabulary"},
    {"{\"model\":{" WORDS "}}", SP_E_INPUT, "model.merges: expected a list, found null"},
    {SETTING("\"type\":\"WordLevel\""), SP_E_UNSUPPORTED,
     "model type WordLevel is not supported, only BPE, WordPiece and Unigram are"},
    {SETTING("\"type\":\"Unigram\""), SP_E_INPUT, "model.vocab: expected a list, found object"},
    {UNIGRAM("[\"a\",-1],[\"b\"]", "0"), SP_E_INPUT,
     "model.vocab[1]: expected a token and its score"},
    {UNIGRAM("[\"a\",-1],[\"a\",-2]", "0"), SP_E_UNSUPPORTED,
     "model.vocab[1]: \"a\" is there twice"},
    {UNIGRAM("[\"a\",-1]", "1"), SP_E_INPUT,
     "model.unk_id is not the id of a token, which Unigram needs"},
    {SETTING("\"dropout\":0.1"), SP_E_UNSUPPORTED, "model.dropout 0.1 is not supported"},
    {SETTING("\"continuing_subword_prefix\":\"##\""), SP_E_UNSUPPORTED,
     "model.continuing_subword_prefix \"##\" is not supported"},
    {SETTING("\"end_of_word_suffix\":\"</w>\""), SP_E_UNSUPPORTED,
     "model.end_of_word_suffix \"</w>\" is not supported"},
    {SETTING("\"unk_token\":\"<unk>\""), SP_E_INPUT,
     "model.unk_token \"<unk>\" is not in the vocabulary"},
    {MERGES("[\"ab\"]"), SP_E_INPUT,
     "model.merges[0]: expected two tokens, \"a b\" or [\"a\", \"b\"]"},
    {MERGES("[\"a b\",\"a b a\"]"), SP_E_INPUT, "model.merges[1]: expected two tokens"},
    {MERGES("[[\"a\"]]"), SP_E_INPUT, "model.merges[0]: expected two tokens"},
    {MERGES("[[\"a\",1]]"), SP_E_INPUT, "model.merges[0]: expected two tokens"},
    {MERGES("[\"a c\"]"), SP_E_INPUT, "model.merges[0]: \"c\" is not in the vocabulary"},
    {MERGES("[\"b a\"]"), SP_E_INPUT, "model.merges[0]: \"b\" + \"a\" is not in the vocabulary"},
    {WITH("\"added_tokens\":{}"), SP_E_INPUT, "added_tokens: expected a list, found object"},
    {ADDED("\"content\":\"x\""), SP_E_INPUT, "added_tokens[0]: id is missing or not a number"},
    {ADDED("\"id\":4"), SP_E_INPUT, "added_tokens[0]: content: expected a string"},
    {ADDED("\"id\":1,\"content\":\"x\""), SP_E_INPUT,
     "added_tokens[0]: id 1 of \"x\" is also the id of \"b\""},
    {WITH("\"normalizer\":{}"), SP_E_INPUT, "normalizer: expected an object with a \"type\""},
    {WITH("\"normalizer\":{\"type\":\"Nmt\"}"), SP_E_UNSUPPORTED,
     "normalizer type Nmt is not supported"},
    {WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
          "{\"type\":\"Precompiled\"}]}"),
     SP_E_INPUT, "normalizer Precompiled: precompiled_charsmap: expected a string"},
    {CHARSMAP("AAAA"), SP_E_INPUT,
     "normalizer: precompiled_charsmap is not base64 of a character map"},
    {CHARSMAP("AAA*AAAA"), SP_E_INPUT,
     "normalizer: precompiled_charsmap is not base64 of a character map"},
    {CHARSMAP("/////w=="), SP_E_INPUT,
     "normalizer: precompiled_charsmap: a trie of 4294967295 bytes in 4 bytes"},
    {CHARSMAP("AAAAAP8="), SP_E_INPUT,
     "normalizer: precompiled_charsmap: a replacement is not valid UTF-8"},
    {WITH("\"normalizer\":{\"type\":\"Sequence\"}"), SP_E_INPUT,
     "normalizer Sequence: normalizers: expected a list"},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"),
     SP_E_UNSUPPORTED, "normalizer Replace: an empty pattern is not supported"},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"), SP_E_INPUT,
     "normalizer Replace: content: expected a string"},
    {WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"), SP_E_UNSUPPORTED,
     "pre_tokenizer type UnicodeScripts is not supported"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
          "\"X\"}"),
     SP_E_UNSUPPORTED, "pre_tokenizer Split: behavior X is not supported"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), SP_E_INPUT,
     "pre_tokenizer Metaspace: replacement is \"ab\", expected one character"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
          "\"prepend_scheme\":\"last\"}"),
     SP_E_UNSUPPORTED, "pre_tokenizer Metaspace: prepend_scheme last is not supported"},
    {WITH("\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}"), SP_E_INPUT,
     "pre_tokenizer FixedLength: length is 0, expected at least 1"},
    {REGEX("(a"), SP_E_UNSUPPORTED, "pre_tokenizer: pattern \"(a\": missing closing parenthesis"},
    {REGEX("[a&&b]"), SP_E_UNSUPPORTED, "byte 2: an intersection of classes is not supported"},
    {REGEX("[a[b]]"), SP_E_UNSUPPORTED, "byte 2: a class inside a class is not supported"},
    {REGEX("a(?i)b"), SP_E_UNSUPPORTED, "an option amid the pattern is not supported"},
    {REGEX("(?~a)"), SP_E_UNSUPPORTED, "this kind of group is not supported"},
    {REGEX("(*FAIL)"), SP_E_UNSUPPORTED, "a verb is not supported"},
    {REGEX("\\\\xFF"), SP_E_UNSUPPORTED, "a byte that is not a character is not supported"},
    {REGEX("\\\\Qa"), SP_E_UNSUPPORTED, "byte 0: this escape is not supported"},
    {WITH("\"decoder\":{\"type\":\"CTC\"}"), SP_E_UNSUPPORTED, "decoder type CTC is not supported"},
    {WITH("\"post_processor\":{\"type\":\"RobertaProcessing\"}"), SP_E_INPUT,
     "post_processor RobertaProcessing: cls and sep: expected a token and its id"},
    {TEMPLATE("[" MARK "]", "{\"<u>\":{\"ids\":[3]}}"), SP_E_UNSUPPORTED,
     "post_processor TemplateProcessing: single: a template without the text is not supported"},
    {TEMPLATE("[" TEXT "," TEXT "]", "{}"), SP_E_UNSUPPORTED, "only one Sequence, \"A\""},
    {TEMPLATE("[" MARK "," TEXT "]", "{}"), SP_E_INPUT, "special_tokens: <u> has no list of ids"},
    {TEMPLATE("[" MARK "," TEXT "]", "{\"<u>\":{\"ids\":[77]}}"), SP_E_INPUT,
     "post_processor: id 77 names no token"},
};

TEST(refusals)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const struct sp_text text = whole_text(refused[i].json), none = {0};
        uint8_t *blob = NULL;
        size_t size;
        assert_fails(sp_vocab_compile(&blob, &size, &text, &none, NULL, why), refused[i].status,
                     refused[i].sentence);
        assert_null(blob);
    }
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
             "\"CharDelimiterSplit\",\"delimiter\":\",\"}]},\"decoder\":null"),
        NULL);
    const struct sp_step *at = vocab->splitter.at;

    assert_int_equal(vocab->splitter.n, 4);
    expect_step(&at[0], SP_STEP_REPLACE, 0, " ", "_");
    expect_step(&at[1], SP_STEP_PREFIX, SP_PREFIX_AT_START, "", "_");
    expect_step(&at[2], SP_STEP_SPLIT, SP_SPLIT_MERGED_WITH_NEXT, "_", "");
    expect_step(&at[3], SP_STEP_SPLIT, SP_SPLIT_REMOVED, ",", "");
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
