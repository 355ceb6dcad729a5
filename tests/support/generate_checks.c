#include "tests/support/generate_checks.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"
#include "quantize/kernels/kernels.h"
#include "runtime/spectool_measure.h"

static void close_package(void *package)
{
    sp_package_close(package);
}

struct sp_package *keep_package(const char *path, const struct sp_package_options *options)
{
    struct sp_package *package = NULL;

    assert_case_ok(path, sp_package_open(&package, path, options, why));
    return keep_with(package, close_package);
}

struct sp_package *keep_package_with(const char *path, const char *kernels, unsigned n_threads)
{
    return keep_package(path,
                        &(struct sp_package_options){.size = sizeof(struct sp_package_options),
                                                     .kernels = kernels,
                                                     .n_threads = n_threads});
}

static void close_session(void *session)
{
    sp_session_close(session);
}

struct sp_session *keep_session(struct sp_package *package,
                                const struct sp_session_options *options)
{
    struct sp_session *session = NULL;

    assert_ok(sp_session_open(&session, package, options, why));
    return keep_with(session, close_session);
}

struct sp_session *keep_shared_session(const struct sp_session *shared_with)
{
    struct sp_session *session = NULL;

    assert_ok(sp_session_open_shared(&session, shared_with, why));
    return keep_with(session, close_session);
}

struct generate_fixture generate_open(const char *path, const char *kernels, unsigned n_threads,
                                      const struct sp_session_options *options)
{
    struct sp_package_options how = {.size = sizeof how,
                                     .kernels = kernels,
                                     .n_threads = n_threads,
                                     .huge_pages = n_threads > 1};
    struct sp_package *package = keep_package(path, &how);

    return (struct generate_fixture){package, keep_session(package, options)};
}

void generate_ids(uint32_t *ids, size_t n, uint32_t seed, size_t n_vocab)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (seed >> 8) % (uint32_t)n_vocab;
    }
}

unsigned generate_threads(size_t place)
{
    return 1 + place % 2;
}

const char *const generate_reference = IS_SANITIZED ? NULL : "scalar";

bool generate_tests_set(const struct sp_kernels *kernels)
{
    return sp_kernels_supported(kernels) && (!IS_SANITIZED || kernels == sp_kernels_best());
}

static void release_result(void *result)
{
    sp_result_release(result);
    free(result);
}

struct sp_result keep_answer(struct sp_session *session, const struct sp_request *request)
{
    struct sp_result result = SP_RESULT_INIT, *kept = malloc(sizeof *kept);

    assert_ok(sp_session_generate(session, request, &result, why));
    assert_non_null(kept);
    *kept = result;
    keep_with(kept, release_result);
    return result;
}

struct sp_result generate_run(struct sp_session *session, const uint32_t *prompt, size_t n,
                              size_t max_tokens, int draft_len, bool ignore_eos)
{
    return keep_answer(session,
                       &(struct sp_request){ANSWER_TO(prompt, n, max_tokens),
                                            .draft_len = draft_len == PLAIN ? 0 : draft_len,
                                            .digest = true, .ignore_eos = ignore_eos});
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

static int add_row(void *context, size_t row, const float *logits, size_t width)
{
    struct logit_rows *rows = context;

    rows->values = realloc(rows->values, (row + 1) * width * sizeof *logits);
    assert_non_null(rows->values);
    memcpy(rows->values + row * width, logits, width * sizeof *logits);
    rows->n = row + 1;
    rows->width = width;
    return 0;
}

struct logit_rows keep_logits(struct sp_session *session, const uint32_t *ids, size_t n)
{
    struct logit_rows rows = {0};

    assert_ok(sp_session_logits(session, ids, n, add_row, &rows, why));
    keep(rows.values);
    return rows;
}

struct logit_rows keep_draft_logits(struct sp_session *session, const uint32_t *ids, size_t n,
                                    size_t n_steps)
{
    struct logit_rows rows = {0};

    assert_ok(sp_session_draft_logits(session, ids, n, n_steps, add_row, &rows, why));
    keep(rows.values);
    return rows;
}

void generate_assert_same_proposal(struct sp_session *used, struct sp_session *fresh,
                                   const uint32_t *ids, size_t n, size_t n_steps, size_t width)
{
    assert_memory_equal(keep_draft_logits(used, ids, n + 1, n_steps).values,
                        keep_draft_logits(fresh, ids, n + 1, n_steps).values,
                        n_steps * width * sizeof(float));
}
