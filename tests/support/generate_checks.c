#include "tests/support/generate_checks.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

struct generate_fixture generate_open(const char *path, const char *kernels, unsigned n_threads,
                                      const struct sp_session_options *options)
{
    struct generate_fixture g = {0};
    struct sp_err err = {0};
    struct sp_package_options how = {.size = sizeof how,
                                     .kernels = kernels,
                                     .n_threads = n_threads,
                                     .huge_pages = n_threads > 1};

    if (sp_package_open(&g.package, path, &how, &err) ||
        sp_session_open(&g.session, g.package, options, &err))
        fail_msg("%s: %s", path, err.text);
    return g;
}

unsigned generate_threads(size_t place)
{
    return 1 + place % 2;
}

void generate_close(struct generate_fixture *g)
{
    sp_session_close(g->session);
    sp_package_close(g->package);
}

static void release_result(void *result)
{
    sp_result_release(result);
    free(result);
}

struct sp_result generate_run(struct sp_session *session, const uint32_t *prompt, size_t n,
                              size_t max_tokens, int draft_len, bool ignore_eos)
{
    struct sp_request request = {
        .size = sizeof request,
        .prompt = prompt,
        .n_prompt = n,
        .max_tokens = max_tokens,
        .draft_len = draft_len == PLAIN ? 0 : draft_len,
        .digest = true,
        .ignore_eos = ignore_eos,
    };
    struct sp_result result = SP_RESULT_INIT, *kept = malloc(sizeof *kept);
    struct sp_err err = {0};

    if (sp_session_generate(session, &request, &result, &err)) fail_msg("%s", err.text);
    assert_non_null(kept);
    *kept = result;
    keep_with(kept, release_result);
    return result;
}

void generate_assert_same(const struct sp_result *a, const struct sp_result *b)
{
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
    assert_int_equal(a->logits_digest, b->logits_digest);
    assert_int_equal(a->stop, b->stop);
    assert_int_equal(a->text == NULL, b->text == NULL); /* NULL without a tokenizer */
    if (a->text != NULL) assert_string_equal(a->text, b->text);
}

static int keep_row(void *context, size_t row, const float *logits, size_t width)
{
    float **rows = context;

    *rows = realloc(*rows, (row + 1) * width * sizeof **rows);
    assert_non_null(*rows);
    memcpy(*rows + row * width, logits, width * sizeof **rows);
    return 0;
}

void generate_assert_same_proposal(struct sp_session *used, struct sp_session *fresh,
                                   const uint32_t *ids, size_t n, size_t n_steps, size_t width)
{
    float *a = NULL, *b = NULL;
    struct sp_err err = {0};

    if (sp_session_draft_logits(used, ids, n + 1, n_steps, keep_row, &a, &err) ||
        sp_session_draft_logits(fresh, ids, n + 1, n_steps, keep_row, &b, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(a, b, n_steps * width * sizeof *a);
    free(a);
    free(b);
}
