/* Tests how sentence-transformers' files become the pooling section: what they may say, and what is
 * refused, each with its message. */
#include "convert/source/pooling_files.h"
#include "format/base/mem.h"
#include "format/config/pooling.h"
#include "tests/support/create_files.h"
#include "tests/support/scratch.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <sys/stat.h>

#define TYPE(class) "\"type\": \"sentence_transformers.models." class "\""
#define TRANSFORMER "{\"path\": \"\", " TYPE("Transformer") "}"
#define POOLING "{\"path\": \"p\", " TYPE("Pooling") "}"
#define DENSE "{\"path\": \"d\", " TYPE("Dense") "}"
#define NORMALIZE "{\"path\": \"n\", " TYPE("Normalize") "}"
#define SCORE "{\"path\": \"p\", " TYPE("LogitScore") "}"
#define MEAN "{\"word_embedding_dimension\": 8, \"pooling_mode_mean_tokens\": true}"
#define IDENTITY "\"activation_function\": \"torch.nn.modules.linear.Identity\""

struct case_ {
    const char *modules, *pooling, *dense, *prompts;
    enum sp_status status;
    const char *expected; /* the record, or a part of the message */
};

static const struct case_ cases[] = {
    {"[" TRANSFORMER "," POOLING "]", MEAN, "{}", "{}", SP_OK,
     "{\"pooling\":\"mean\",\"normalize\":false,\"max_tokens\":512}"},
    {"[" TRANSFORMER "," POOLING "," NORMALIZE "]",
     "{\"embedding_dimension\": 8, \"pooling_mode\": \"lasttoken\", \"include_prompt\": true}",
     "{}",
     "{\"prompts\": {\"a\": \"say \\\"it\\\" \", \"b\": \"\"}, \"default_prompt_name\": \"b\"}",
     SP_OK,
     "{\"pooling\":\"last\",\"normalize\":true,\"max_tokens\":512,"
     "\"prompts\":{\"a\":\"say \\\"it\\\" \",\"b\":\"\"},\"default_prompt\":\"b\"}"},
    {"[" TRANSFORMER "," POOLING "," DENSE "]", "{\"pooling_mode_cls_token\": true}",
     "{\"in_features\": 8, \"out_features\": 4}", "{}", SP_OK,
     "{\"pooling\":\"cls\",\"normalize\":false,\"max_tokens\":512,"
     "\"dense\":[{\"in\":8,\"out\":4,\"bias\":true,\"activation\":\"tanh\"}]}"},
    {"[" TRANSFORMER "," SCORE "]", "{\"true_token_id\": 5, \"false_token_id\": 4}", "{}", "{}",
     SP_OK,
     "{\"pooling\":\"rank\",\"normalize\":false,\"max_tokens\":512,\"true_token\":5,"
     "\"false_token\":4,\"activation\":\"sigmoid\"}"},
    {"[" TRANSFORMER "," SCORE "]", "{\"true_token_id\": 5, \"false_token_id\": null}", "{}",
     "{\"activation_fn\": \"torch.nn.modules.linear.Identity\"}", SP_OK,
     "{\"pooling\":\"rank\",\"normalize\":false,\"max_tokens\":512,\"true_token\":5,"
     "\"activation\":\"identity\"}"},
    {"[" TRANSFORMER "," SCORE "]", "{}", "{}", "{}", SP_E_INPUT, "true_token_id is missing"},
    {"[" TRANSFORMER "," SCORE "]", "{\"true_token_id\": 5, \"module_input_name\": \"x\"}", "{}",
     "{}", SP_E_UNSUPPORTED, "module_input_name \"x\""},
    {"[" TRANSFORMER "," SCORE "]", "{\"true_token_id\": 5}", "{}",
     "{\"activation_fn\": \"torch.nn.Tanh\"}", SP_E_UNSUPPORTED, "activation_fn \"torch.nn.Tanh\""},
    {"[" TRANSFORMER "," SCORE "," NORMALIZE "]", "{\"true_token_id\": 5}", "{}", "{}",
     SP_E_UNSUPPORTED, "module Normalize at position 2"},
    {"[", MEAN, "{}", "{}", SP_E_INPUT, "modules.json: "},
    {"{}", MEAN, "{}", "{}", SP_E_INPUT, "not a list of at most"},
    {"[{\"path\": \"\"}]", MEAN, "{}", "{}", SP_E_INPUT, "a module has no type"},
    {"[" TRANSFORMER ",{\"path\": \"../p\"," TYPE("Pooling") "}]", MEAN, "{}", "{}", SP_E_INPUT,
     "outside the folder"},
    {"[" TRANSFORMER "," POOLING ",{" TYPE("LSTM") "}]", MEAN, "{}", "{}", SP_E_UNSUPPORTED,
     "module LSTM is not supported"},
    {"[" POOLING "]", MEAN, "{}", "{}", SP_E_UNSUPPORTED, "module Pooling at position 0"},
    {"[" TRANSFORMER "," POOLING "," NORMALIZE "," DENSE "]", MEAN, "{}", "{}", SP_E_UNSUPPORTED,
     "module Dense at position 3"},
    {"[" TRANSFORMER "]", MEAN, "{}", "{}", SP_E_UNSUPPORTED, "a model without Pooling"},
    {"[{\"path\": \"0_T\"," TYPE("Transformer") "}]", MEAN, "{}", "{}", SP_E_UNSUPPORTED,
     "the transformer is in "},
    {"[" TRANSFORMER ",{\"path\": \"q\"," TYPE("Pooling") "}]", MEAN, "{}", "{}", SP_E_INPUT,
     "q/config.json: file is missing"},
    {"[" TRANSFORMER "," POOLING "]", "{\"word_embedding_dimension\": 9}", "{}", "{}", SP_E_INPUT,
     "embedding_dimension 9, but the hidden size is 8"},
    {"[" TRANSFORMER "," POOLING "]", "{\"include_prompt\": false}", "{}", "{}", SP_E_UNSUPPORTED,
     "include_prompt false"},
    {"[" TRANSFORMER "," POOLING "]", "{\"pooling_mode\": \"max\"}", "{}", "{}", SP_E_UNSUPPORTED,
     "pooling mode max is not supported"},
    {"[" TRANSFORMER "," POOLING "]", "{\"pooling_mode\": \"best\"}", "{}", "{}", SP_E_UNSUPPORTED,
     "pooling mode best is not supported"},
    {"[" TRANSFORMER "," POOLING "]",
     "{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true}", "{}", "{}",
     SP_E_UNSUPPORTED, "pooling mode of several kinds"},
    {"[" TRANSFORMER "," POOLING "]", "{\"pooling_mode\": [\"cls\", \"mean\"]}", "{}", "{}",
     SP_E_UNSUPPORTED, "several modes"},
    {"[" TRANSFORMER "," POOLING "," DENSE "]", MEAN, "{\"in_features\": 7, \"out_features\": 4}",
     "{}", SP_E_INPUT, "dense[0]: 7 inputs and 4 outputs, but the input has 8 numbers"},
    {"[" TRANSFORMER "," POOLING "," DENSE "]", MEAN,
     "{\"in_features\": 8, \"out_features\": 4, "
     "\"activation_function\": \"torch.nn.modules.activation.GELU\"}",
     "{}", SP_E_UNSUPPORTED, "activation_function \"torch.nn.modules.activation.GELU\""},
    {"[" TRANSFORMER "," POOLING "," DENSE "]", MEAN,
     "{\"in_features\": 8, \"out_features\": 4, \"use_residual\": true, " IDENTITY "}", "{}",
     SP_E_UNSUPPORTED, "use_residual true"},
    {"[" TRANSFORMER "," POOLING "," DENSE "]", MEAN,
     "{\"in_features\": 8, \"out_features\": 4, \"module_input_name\": \"token_embeddings\"}", "{}",
     SP_E_UNSUPPORTED, "anything but sentence_embedding"},
    {"[" TRANSFORMER "," POOLING "]", MEAN, "{}", "{\"prompts\": {\"a\": 1}}", SP_E_INPUT,
     "prompt \"a\" is not a string"},
    {"[" TRANSFORMER "," POOLING "]", MEAN, "{}", "{\"default_prompt_name\": \"a\"}", SP_E_INPUT,
     "default_prompt_name \"a\" is not one of the prompts"},
};

static void write_file(const char *folder, const char *name, const char *text)
{
    FILE *f = fopen(keep_format("%s/%s", folder, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void check_case(const char *folder, const struct case_ *c)
{
    struct sp_pooling_config config = {0}, again = {0};
    struct sp_text record;

    write_file(folder, "modules.json", c->modules);
    write_file(folder, "p/config.json", c->pooling);
    write_file(folder, "d/config.json", c->dense);
    write_file(folder, "config_sentence_transformers.json", c->prompts);
    assert_fails(sp_pooling_files_read(&record, &config, folder, 8, 512, why), c->status,
                 c->status ? c->expected : "");
    if (c->status) {
        assert_null(record.at);
        return;
    }
    assert_string_equal(keep(record.at), c->expected);
    assert_ok(sp_pooling_read(&again, NULL, &record, 8, why));
    assert_memory_equal(&again, &config, sizeof config);
}

TEST(files)
{
    const char *folder = create_path("st");
    char path[512];

    assert_int_equal(mkdir(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/p", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/d", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(folder, &cases[i]);
    write_file(folder, "sentence_bert_config.json", "{\"modality_config\": {\"message\": {}}}");
    check_case(folder, &(struct case_){cases[0].modules, MEAN, "{}", "{}", SP_E_UNSUPPORTED,
                                       "modality_config has message"});
    write_file(folder, "sentence_bert_config.json",
               "{\"do_lower_case\": true, \"max_seq_length\": 64}");
    check_case(folder, &(struct case_){cases[0].modules, MEAN, "{}", "{}", SP_E_UNSUPPORTED,
                                       "do_lower_case true is not supported"});
    write_file(folder, "tokenizer.json",
               "{\"normalizer\": {\"type\": \"BertNormalizer\", \"lowercase\": true}}");
    check_case(folder,
               &(struct case_){cases[0].modules, MEAN, "{}", "{}", SP_OK,
                               "{\"pooling\":\"mean\",\"normalize\":false,\"max_tokens\":64}"});
}

/* Records that no `create` writes. */
TEST(records)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"{}", "expected last, mean, cls, rank or score"},
        {"{\"pooling\":\"none\"}", "expected last, mean, cls, rank or score"},
        {"{\"pooling\":\"mean\",\"max_tokens\":0}", "max_tokens is 0"},
        {"{\"pooling\":\"mean\",\"normalize\":1}", "normalize"},
        {"{\"pooling\":\"mean\",\"dense\":{}}", "dense is not a list of 1 to 8 layers"},
        {"{\"pooling\":\"score\",\"states\":\"rank\",\"activation\":\"sigmoid\",\"pair\":[[],[],[]]"
         ",\"dense\":[{\"in\":8,\"out\":1,\"activation\":\"gelu\"}]}",
         "states \"rank\": expected last, mean or cls"},
        {"{\"pooling\":\"score\",\"states\":\"cls\",\"activation\":\"tanh\",\"pair\":[[],[],[]],"
         "\"dense\":[{\"in\":8,\"out\":1,\"activation\":\"gelu\"}]}",
         "activation \"tanh\": expected identity or sigmoid"},
        {"{\"pooling\":\"score\",\"states\":\"cls\",\"activation\":\"sigmoid\",\"pair\":[[],[]],"
         "\"dense\":[{\"in\":8,\"out\":1,\"activation\":\"gelu\"}]}",
         "pair is not three lists of at most 4 token IDs"},
        {"{\"pooling\":\"score\",\"states\":\"cls\",\"activation\":\"sigmoid\",\"pair\":[[],[1,2,3,"
         "4,5],[]],\"dense\":[{\"in\":8,\"out\":1,\"activation\":\"gelu\"}]}",
         "pair is not three lists"},
        {"{\"pooling\":\"score\",\"states\":\"cls\",\"activation\":\"sigmoid\",\"pair\":[[],[-1],[]"
         "],\"dense\":[{\"in\":8,\"out\":1,\"activation\":\"gelu\"}]}",
         "pair[1][0] is not a token ID"},
        {"{\"pooling\":\"score\",\"states\":\"cls\",\"activation\":\"sigmoid\",\"pair\":[[],[],[]]"
         "}",
         "dense is not a list of 1 to 8 layers"},
        {"{\"pooling\":\"score\",\"states\":\"cls\",\"activation\":\"sigmoid\",\"pair\":[[],[],[]],"
         "\"dense\":[{\"in\":8,\"out\":2,\"activation\":\"gelu\"}]}",
         "the last dense layer of a score has more than one output"},
        {"{\"pooling\":\"mean\",\"dense\":[{\"in\":8,\"out\":4,\"activation\":\"relu\"}]}",
         "activation \"relu\""},
        {"{\"pooling\":\"mean\",\"dense\":[{\"in\":8,\"activation\":\"tanh\"}]}", "0 outputs"},
        {"{\"pooling\":\"rank\",\"activation\":\"sigmoid\"}", "true_token is missing"},
        {"{\"pooling\":\"rank\",\"true_token\":1}",
         "activation \"\": expected identity or sigmoid"},
        {"{\"pooling\":\"rank\",\"true_token\":-1}", "true_token is -1"},
        {"{\"pooling\":\"rank\",\"true_token\":1,\"activation\":\"sigmoid\",\"dense\":[]}",
         "a score has no dense layers"},
        {"{\"pooling\":\"mean\",\"prompts\":[]}", "prompts is not an object"},
        {"{\"pooling\":\"mean\",\"prompts\":{\"a\":1}}", "prompt \"a\" is not a string"},
        {"{\"pooling\":\"mean\",\"default_prompt\":\"a\"}", "default_prompt \"a\""},
    };
    struct sp_pooling_config config;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct sp_text text = whole_text(bad[i].text);
        assert_fails(sp_pooling_read(&config, NULL, &text, 8, why), SP_E_INPUT, bad[i].message);
    }
}

/* A packed file keeps the section when it is quantized or packed again, and a draft has none. */
TEST(kept)
{
    const char *first = create_path("first.bin"), *second = create_path("second.bin");
    struct sp_pack *packs[2];
    struct sp_text texts[2];

    create_pack(create_modelfile("FROM " TESTDATA "/embeddings/gemma3\n"), first, SP_DTYPE_NONE,
                SP_DTYPE_NONE, 1);
    create_requantize(first, second, SP_Q8, SP_DTYPE_NONE);
    for (size_t i = 0; i < 2; i++) {
        packs[i] = create_open(i ? second : first);
        assert_ok(
            sp_pack_read_section(packs[i], SP_PART_TARGET, SP_SECTION_POOLING, &texts[i], NULL));
        assert_non_null(sp_pack_find(packs[i], SP_PART_TARGET, "dense.1.weight"));
    }
    assert_string_equal(texts[0].at, texts[1].at);
    for (size_t i = 0; i < 2; i++)
        free(texts[i].at);
    create_pack(create_modelfile("FROM " TESTDATA "/embeddings/qwen3\nDRAFT " TESTDATA
                                 "/embeddings/qwen3\n"),
                second, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    packs[0] = create_open(second);
    assert_null(sp_pack_find_section(packs[0], SP_PART_DRAFT, SP_SECTION_POOLING));
}

TEST_FIXTURE(create_setup, create_teardown);
