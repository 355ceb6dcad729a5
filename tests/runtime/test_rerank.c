/* Tests the scores of rerankers: equal to those of sentence-transformers, and, in Qwen3-Reranker's
 * own prompt, to those by the code of its model card. */
#include "format/base/json.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL TESTDATA "/embeddings/qwen3_reranker"

/* Packs the model with further lines of a Modelfile. */
static struct sp_package *open_model(const char *from, const char *lines)
{
    struct sp_package_options options = SP_PACKAGE_OPTIONS_INIT;
    struct sp_package *package = NULL;
    struct sp_err err = {0};
    const char *modelfile = packed_path("Modelfile.rerank");
    FILE *f = fopen(modelfile, "w");

    assert_non_null(f);
    fprintf(f, "FROM %s\n%s", from, lines);
    assert_int_equal(fclose(f), 0);
    if (sp_package_open(&package, packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE), &options,
                        &err)) {
        fail_msg("%s", err.text);
    }
    return package;
}

static struct sp_json *golden_read(void)
{
    struct sp_json *json = NULL;
    size_t size;
    char *text = scratch_read(MODEL "/golden.json", &size);

    assert_int_equal(sp_json_parse(&json, text, size, SP_JSON_STRICT, NULL), SP_OK);
    free(text);
    return json;
}

static enum sp_status rank(struct sp_package *package, const struct sp_rerank_request *request,
                           float **scores, struct sp_err *err)
{
    size_t n_tokens = 0;
    enum sp_status st = sp_package_rerank(package, request, scores, &n_tokens, err);

    if (!st) assert_true(n_tokens >= request->n_documents);
    return st;
}

/* Every pair by itself, then all documents of a query together: the same bits. */
static void check_cases(struct sp_package *package, const struct sp_json *cases, bool any_model)
{
    struct sp_rerank_document documents[16];
    struct sp_rerank_request all = {
        .size = sizeof all, .documents = documents, .any_model = any_model};
    float alone[16], *scores = NULL;
    struct sp_err err = {0};

    assert_in_range(sp_json_len(cases), 1, 16);
    for (size_t i = 0; i < sp_json_len(cases); i++) {
        const struct sp_json *one = sp_json_at(cases, i);
        struct sp_rerank_request q = {
            .size = sizeof q, .documents = &documents[i], .n_documents = 1, .any_model = any_model};
        double want = NAN;
        q.query = sp_json_get_text(one, "query");
        q.instruction = sp_json_get_text(one, "instruction");
        documents[i].text = sp_json_to_string(sp_json_get(one, "document"), &documents[i].size);
        if (rank(package, &q, &scores, &err)) fail_msg("%s", err.text);
        assert_true(sp_json_to_double(sp_json_get(one, "score"), &want));
        if (fabs(want - (double)*scores) > 1e-5)
            fail_msg("case %zu: %.9g, expected %.9g", i, (double)*scores, want);
        alone[i] = *scores;
        free(scores);
        scores = NULL;
    }
    /* Cases 0 and 2 have the same query and no instruction. */
    documents[1] = documents[2];
    all.query = sp_json_get_text(sp_json_at(cases, 0), "query");
    all.n_documents = 2;
    assert_int_equal(rank(package, &all, &scores, &err), SP_OK);
    assert_true(scores[0] == alone[0] && scores[1] == alone[2]);
    free(scores);
}

static void equals_sentence_transformers(void **state)
{
    struct sp_package *package = open_model(MODEL, "");
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_json *golden = golden_read();

    (void)state;
    sp_package_describe(package, &info);
    assert_true(info.pooling == SP_POOLING_RANK && info.generates && info.n_embedding == 1);
    check_cases(package, sp_json_get(golden, "cases"), false);
    sp_json_free(golden);
    sp_package_close(package);
}

/* Qwen3-Reranker as it is published: without sentence-transformers' files, and with a template that
 * lacks the roles. */
static void equals_model_card(void **state)
{
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    struct sp_json *golden = golden_read();
    const char *folder = scratch_folder();
    struct sp_package *package;
    char from[400];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(from, sizeof from, MODEL "/%s", names[i]);
        assert_int_equal(symlink(from, scratch_path(names[i])), 0);
    }
    package = open_model(folder, "TEMPLATE \"{{ .Prompt }}\"\n");
    check_cases(package, sp_json_get(golden, "card"), true);
    sp_json_free(golden);
    sp_package_close(package);
    scratch_remove();
}

static void check_refusal(struct sp_package *package, const struct sp_rerank_request *request,
                          enum sp_status st, const char *message)
{
    struct sp_err err = {0};
    float *scores = NULL;

    assert_int_equal(rank(package, request, &scores, &err), st);
    if (strstr(err.text, message) == NULL) fail_msg("%s", err.text);
    assert_null(scores);
}

static void refusals(void **state)
{
    static char text[3000];
    struct sp_rerank_document document = {"a", 1};
    struct sp_rerank_request q = {
        .size = sizeof q, .query = "x", .documents = &document, .n_documents = 1};
    struct sp_package *package = open_model(TESTDATA "/tiny/target", "");
    struct sp_err err = {0};
    float *scores = NULL;

    (void)state;
    check_refusal(package, &q, SP_E_UNSUPPORTED, "not a reranker: its checkpoint had no modules");
    q.any_model = true;
    check_refusal(package, &q, SP_E_UNSUPPORTED, "");
    sp_package_close(package);
    package = open_model(MODEL, "TEMPLATE \"{{ .Prompt }}\"\n");
    memset(text, 'x', sizeof text - 1);
    document = (struct sp_rerank_document){text, sizeof text - 1};
    check_refusal(package, &q, SP_E_USAGE,
                  "tokens with its query, but the model reads at most 512");
    q.truncate = true;
    assert_int_equal(rank(package, &q, &scores, &err), SP_OK);
    free(scores);
    document.size = 1;
    check_refusal(package, &q, SP_E_INPUT, "document 0 has a NUL character");
    sp_package_close(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_sentence_transformers),
        cmocka_unit_test(equals_model_card),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, packed_setup, packed_teardown);
}
