/* Tests the scores of rerankers: equal to those of sentence-transformers, and, in Qwen3-Reranker's
 * own prompt, to those by the code of its model card. */
#include "format/json/json.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <math.h>
#include <unistd.h>

#define MODEL TESTDATA "/embeddings/qwen3_reranker"

/* Packs the model with further lines of a Modelfile. */
static struct sp_package *open_model(const char *from, const char *lines)
{
    const char *text = keep_format("FROM %s\n%s", from, lines);
    const char *modelfile = scratch_write("Modelfile.rerank", text, strlen(text));

    return keep_package(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE), NULL);
}

/* Returns the scores; kept. */
static float *rank(struct sp_package *package, const struct sp_rerank_request *request)
{
    float *scores = NULL;
    size_t n_tokens = 0;

    assert_ok(sp_package_rerank(package, request, &scores, &n_tokens, why));
    assert_true(n_tokens >= request->n_documents);
    return keep(scores);
}

/* Every pair by itself, then all documents of a query together: the same bits. */
static void check_cases(struct sp_package *package, const struct sp_json *cases, bool any_model)
{
    struct sp_rerank_document documents[16];
    struct sp_rerank_request all = {
        .size = sizeof all, .documents = documents, .any_model = any_model};
    float alone[16];

    assert_in_range(sp_json_len(cases), 1, 16);
    for (size_t i = 0; i < sp_json_len(cases); i++) {
        const struct sp_json *one = sp_json_at(cases, i);
        struct sp_rerank_request q = {
            .size = sizeof q, .documents = &documents[i], .n_documents = 1, .any_model = any_model};
        double want = NAN;
        q.query = sp_json_get_text(one, "query");
        q.instruction = sp_json_get_text(one, "instruction");
        documents[i].text = sp_json_to_string(sp_json_get(one, "document"), &documents[i].size);
        alone[i] = *rank(package, &q);
        assert_true(sp_json_to_double(sp_json_get(one, "score"), &want));
        if (fabs(want - (double)alone[i]) > 1e-5)
            fail_msg("case %zu: %.9g, expected %.9g", i, (double)alone[i], want);
    }
    /* The cases of the first query without an instruction. */
    all.query = sp_json_get_text(sp_json_at(cases, 0), "query");
    for (size_t i = 0; i < sp_json_len(cases); i++) {
        if (strcmp(sp_json_get_text(sp_json_at(cases, i), "query"), all.query) != 0 ||
            sp_json_get_text(sp_json_at(cases, i), "instruction"))
            continue;
        documents[all.n_documents] = documents[i];
        alone[all.n_documents++] = alone[i];
    }
    assert_true(all.n_documents > 1);
    assert_memory_equal(rank(package, &all), alone, all.n_documents * sizeof *alone);
}

TEST(equals_sentence_transformers)
{
    struct sp_package *package = open_model(MODEL, "");
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_json *golden = golden_json(MODEL "/golden.json");

    sp_package_describe(package, &info);
    assert_true(info.pooling == SP_POOLING_RANK && info.generates && info.n_embedding == 1);
    check_cases(package, sp_json_get(golden, "cases"), false);
}

/* Qwen3-Reranker as it is published: without sentence-transformers' files, and with a template that
 * lacks the roles. */
TEST(equals_model_card)
{
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    struct sp_json *golden = golden_json(MODEL "/golden.json");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(symlink(keep_format(MODEL "/%s", names[i]), scratch_path(names[i])), 0);
    check_cases(open_model(".", "TEMPLATE \"{{ .Prompt }}\"\n"), sp_json_get(golden, "card"), true);
}

/* ---- classification heads ---- */

#define CLASSIFIERS TESTDATA "/classifiers/"

/* Each pair has as many tokens as transformers gives it. */
static void check_tokens(struct sp_package *package, const struct sp_json *cases)
{
    for (size_t i = 0; i < sp_json_len(cases); i++) {
        struct sp_rerank_document d;
        struct sp_rerank_request q = {.size = sizeof q, .documents = &d, .n_documents = 1};
        float *scores = NULL;
        size_t n_tokens = 0;
        int64_t want = 0;
        q.query = sp_json_get_text(sp_json_at(cases, i), "query");
        d.text = sp_json_to_string(sp_json_get(sp_json_at(cases, i), "document"), &d.size);
        assert_ok(sp_package_rerank(package, &q, &scores, &n_tokens, why));
        assert_true(sp_json_to_i64(sp_json_get(sp_json_at(cases, i), "tokens"), &want));
        assert_int_equal(n_tokens, want);
        free(scores);
    }
}

static void check_classifier(const char *path, const char *folder)
{
    const struct sp_json *cases =
        sp_json_get(golden_json(keep_format("%s/golden.json", folder)), "cases");
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_package *package = open_model(path, "");

    sp_package_describe(package, &info);
    assert_true(info.pooling == SP_POOLING_RANK && !info.generates);
    check_cases(package, cases, false);
    check_tokens(package, cases);
}

/* The scores of a reranker with a classification head are those of transformers, and the same bits
 * for documents that share passes. */
static void classifier_equals_transformers(void **state)
{
    const char *folder = keep_format(CLASSIFIERS "%s", (const char *)*state);

    check_classifier(folder, folder);
}

/* A GGUF file of llama.cpp's converter has the scores and the tokens of its folder. */
static void gguf_equals_transformers(void **state)
{
    const char *name = *state;

    check_classifier(keep_format(TESTDATA "/gguf/%s.gguf", name),
                     keep_format(CLASSIFIERS "%.*s", (int)(strstr(name, "_rerank") - name), name));
}

static void check_refusal(struct sp_package *package, const struct sp_rerank_request *request,
                          enum sp_status st, const char *message)
{
    float *scores = NULL;
    size_t n_tokens;

    assert_fails(sp_package_rerank(package, request, &scores, &n_tokens, why), st, message);
    assert_null(scores);
}

TEST(refusals)
{
    static char text[3000];
    struct sp_rerank_document document = {"a", 1};
    struct sp_rerank_request q = {
        .size = sizeof q, .query = "x", .documents = &document, .n_documents = 1};
    struct sp_package *package = open_model(TESTDATA "/tiny/target", "");

    check_refusal(package, &q, SP_E_UNSUPPORTED, "not a reranker: its checkpoint had no modules");
    q.any_model = true;
    check_refusal(package, &q, SP_E_UNSUPPORTED, "");
    package = open_model(MODEL, "TEMPLATE \"{{ .Prompt }}\"\n");
    memset(text, 'x', sizeof text - 1);
    document = (struct sp_rerank_document){text, sizeof text - 1};
    check_refusal(package, &q, SP_E_USAGE,
                  "tokens with its query, but the model reads at most 512");
    q.truncate = true;
    rank(package, &q);
    document.size = 1;
    check_refusal(package, &q, SP_E_INPUT, "document 0 has a NUL character");
}

TEST(classifier_refusals)
{
    static char text[3000];
    struct sp_rerank_document document = {text, sizeof text - 1};
    struct sp_rerank_request q = {
        .size = sizeof q, .query = "the cat", .documents = &document, .n_documents = 1};
    struct sp_package *package = open_model(CLASSIFIERS "bert", "");
    uint32_t id = 5;
    const struct sp_embedding_text one = {&id, 1};
    const struct sp_embedding_request embedding = {
        .size = sizeof embedding, .texts = &one, .n_texts = 1};
    float *scores = NULL;
    size_t width;

    memset(text, 'x', sizeof text - 1);
    for (size_t i = 1; i < sizeof text - 1; i += 2)
        text[i] = ' ';
    check_refusal(package, &q, SP_E_USAGE, "tokens with its query, but the model reads at most 64");
    q.truncate = true;
    rank(package, &q);
    q.instruction = "find it";
    check_refusal(package, &q, SP_E_UNSUPPORTED, "a classification head reads none");
    assert_fails(sp_package_embed(package, &embedding, &scores, &width, why), SP_E_UNSUPPORTED, "");
}

static const char *const classifier_files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                               "tokenizer_config.json"};
enum { N_CLASSIFIER_FILES = 4 };

/* Makes a folder of the model's files, in one of which `from` is replaced by `to`. */
static const char *edit_classifier(const char *model, const char *file, const char *from,
                                   const char *to)
{
    const char *folder = scratch_folder();

    for (size_t k = 0; k < N_CLASSIFIER_FILES; k++) {
        const char *path = keep_format(CLASSIFIERS "%s/%s", model, classifier_files[k]);
        unlink(scratch_path(classifier_files[k]));
        if (strcmp(classifier_files[k], file) != 0) {
            assert_int_equal(symlink(path, scratch_path(classifier_files[k])), 0);
            continue;
        }
        size_t size;
        char *text = scratch_read(path, &size), *at = strstr(text, from);
        if (at == NULL) fail_msg("%s lacks %s", path, from);
        char *edited = keep(malloc(size + strlen(to) + 1));
        int n = sprintf(edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
        scratch_write(file, edited, (size_t)n);
    }
    return folder;
}

/* The scores of a checkpoint that names the identity are the logits. */
TEST(classifier_activations)
{
    static const char *const members[] = {
        "\"sbert_ce_default_activation_function\": \"torch.nn.modules.linear.Identity\", ",
        "\"sentence_transformers\": {\"activation_fn\": \"torch.nn.modules.linear.Identity\"}, "};

    for (size_t i = 0; i < 2; i++) {
        struct sp_rerank_document d = {"a dog ran over the hill", 23};
        struct sp_rerank_request q = {
            .size = sizeof q, .query = "the cat", .documents = &d, .n_documents = 1};
        const char *to = keep_format("%s\"hidden_act\"", members[i]);
        float score = *rank(open_model(CLASSIFIERS "bert", ""), &q);
        float logit =
            *rank(open_model(edit_classifier("bert", "config.json", "\"hidden_act\"", to), ""), &q);
        assert_true(fabs(1 / (1 + exp(-(double)logit)) - (double)score) < 1e-6);
    }
}

/* A checkpoint whose config.json or tokenizer.json says otherwise is refused by name. */
TEST(unsupported_classifiers)
{
    static const struct {
        const char *model, *file, *from, *to, *says;
    } rows[] = {
        {"bert", "config.json", "\"0\": \"LABEL_0\"", "\"0\": \"A\", \"1\": \"B\"",
         "BertForSequenceClassification has 2 labels (id2label): only rerankers"},
        {"bert", "config.json", "BertForSeq", "RobertaForSeq",
         "RobertaForSequenceClassification\" is not supported"},
        {"modernbert", "config.json", "\"classifier_pooling\": \"mean\"",
         "\"classifier_pooling\": \"last\"", "classifier_pooling \"last\" is not supported"},
        {"modernbert", "config.json", "\"classifier_activation\": \"gelu\"",
         "\"classifier_activation\": \"silu\"", "classifier_activation \"silu\""},
        {"bert", "tokenizer.json", "\"BertProcessing\"", "\"OtherProcessing\"",
         "post_processor \"OtherProcessing\" is not supported"},
        {"xlm_roberta", "tokenizer.json", "\"id\": \"B\"", "\"id\": \"A\"",
         "this form of pairs is not supported"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *folder = edit_classifier(rows[i].model, rows[i].file, rows[i].from, rows[i].to);
        char said[2048] = "";
        scratch_write("Modelfile", "FROM .\n", 7);
        FILE *f =
            popen(keep_format("%s create -f %s/Modelfile --dry-run 2>&1", SPECTOOL, folder), "r");
        assert_non_null(f);
        said[fread(said, 1, sizeof said - 1, f)] = '\0';
        assert_int_not_equal(pclose(f), 0);
        if (strstr(said, rows[i].says) == NULL) fail_msg("%s, expected %s", said, rows[i].says);
    }
}

CASES(classifier_equals_transformers, "bert", "xlm_roberta", "modernbert", "qwen3");
CASES(gguf_equals_transformers, "xlm_roberta_reranker", "bert_reranker_pooled");
GROUP_FIXTURE(packed_setup, packed_teardown);
TEST_FIXTURE(NULL, scratch_teardown);
