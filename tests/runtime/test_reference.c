/* Tests the reference decoder against numpy (tests/oracle/reference_logits.py), the kernels of all
 * families against the reference decoder, and that a wrong kernel is found. */
#include "format/base/bytes.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"

#include <math.h>

enum { N_LOGITS = 16, STEP = 100, N_MODES = SP_REFERENCE_CHECKED + 1, LINE = 2 + 2 * N_LOGITS };

static void close_package(void *package)
{
    sp_package_close(package);
}

static struct sp_package *open_reference(const char *path, enum sp_reference_mode mode)
{
    const struct sp_reference_options options = {
        .size = sizeof options, .module = SPECTOOL_BLAS, .mode = mode};
    struct sp_package *package = NULL;

    assert_case_ok(path, sp_package_open_reference(&package, path, &options, why));
    return keep_with(package, close_package);
}

static int keep_some(void *context, size_t row, const float *logits, size_t n_vocab)
{
    float *kept = context;

    (void)row; /* the last one stays */
    assert_int_equal(n_vocab, N_LOGITS * STEP);
    for (size_t i = 0; i < N_LOGITS; i++)
        kept[i] = logits[i * STEP];
    return 0;
}

static void check_logits(const char *path, enum sp_reference_mode mode, const uint32_t ids[2],
                         const uint64_t *expected)
{
    struct sp_session_options options = {.size = sizeof options, .cache = SP_CACHE_F32};
    struct sp_session *session = keep_session(open_reference(path, mode), &options);
    float kept[N_LOGITS];

    assert_ok(sp_session_logits(session, ids, 2, keep_some, kept, why));
    for (size_t i = 0; i < N_LOGITS; i++) {
        float e = sp_float_of_bits((uint32_t)expected[i]);
        if (!(fabsf(kept[i] - e) < 2e-5f)) fail_msg("%s: %g, expected %g", path, kept[i], e);
    }
}

TEST(emulation)
{
    static const enum sp_dtype types[] = {SP_Q8, SP_Q6, SP_Q5, SP_Q4, SP_Q3, SP_Q2};
    size_t n;
    uint64_t *lines = vector_file_read("reference_logits.txt", LINE, &n);

    assert_int_equal(n, sizeof types / sizeof *types);
    for (size_t i = 0; i < n; i++) {
        const char *path = packed_alone(TESTDATA "/tiny/ar", types[i]);
        const uint64_t *line = lines + i * LINE;
        const uint32_t ids[] = {(uint32_t)line[0], (uint32_t)line[1]};
        check_logits(path, SP_REFERENCE_FLOAT, ids, line + 2);
        check_logits(path, SP_REFERENCE_ROUNDED, ids, line + 2 + N_LOGITS);
    }
}

/* A file, opened by the kernels and in all modes. */
struct opened {
    struct sp_package *package, *modes[N_MODES];
};

static struct opened open_all(const char *path, const char *kernels)
{
    struct opened o = {.package = keep_package_with(path, kernels, 0)};

    for (unsigned mode = 0; mode < N_MODES; mode++)
        o.modes[mode] = open_reference(path, (enum sp_reference_mode)mode);
    return o;
}

static struct sp_reference_check check(const struct opened *o)
{
    static const uint32_t ids[] = {5, 17, 9, 33, 21, 40, 8, 60, 13, 25, 11, 7};
    const struct sp_reference_check_request request = {.size = sizeof request,
                                                       .references = o->modes,
                                                       .ids = ids,
                                                       .n = sizeof ids / sizeof *ids,
                                                       .n_rows = 4,
                                                       .cache = SP_CACHE_F32};
    struct sp_reference_check result = SP_REFERENCE_CHECK_INIT;

    assert_ok(sp_package_check_reference(o->package, &request, &result, why));
    assert_int_equal(result.n_rows, 4);
    return result;
}

TEST(families)
{
    for (const char *const *name = golden_families(); *name; name++) {
        size_t n_kept = kept_count();
        struct opened o = open_all(packed_family(*name, SP_DTYPE_NONE), NULL);
        struct sp_reference_check r = check(&o);
        if (!(r.error < 1e-4 && r.rounding_error == 0 && r.products_agree && r.n_equal == 4))
            fail_msg("%s: error %g of logits, %g of products", *name, r.error, r.product_error);
        kept_release(n_kept);
    }
}

static const struct sp_kernels *real;

/* A product with one wrong element, and otherwise that of `real`. */
static void wrong_q4(const struct sp_matmul *m)
{
    sp_kernels_matmul(real, SP_Q4)(m);
    m->y[m->n_panels * SP_PANEL_ROWS - 1] *= 1.25f;
}

TEST(wrong_kernels)
{
    const char *path = packed_alone(TESTDATA "/tiny/target", SP_Q4);

    for (const struct sp_kernels *const *set = sp_kernels_all(); *set; set++) {
        if (!sp_kernels_supported(*set)) continue;
        size_t n_kept = kept_count();
        struct opened o = open_all(path, (*set)->name);
        struct sp_backend *checked = &o.modes[SP_REFERENCE_CHECKED]->backend;
        struct sp_kernels wrong = **set;
        struct sp_reference_check r = check(&o);

        assert_true(r.products_agree && r.n_equal == 4 && r.error > 1e-4);
        assert_true(fabs(r.error - r.rounding_error) < r.error);
        real = *set;
        wrong.matmul[SP_Q4] = wrong_q4;
        o.package->backend.kernels = &wrong;
        r = check(&o);
        assert_true(r.products_agree && r.n_equal < 4);
        if (*set == &sp_kernels_ref) {
            checked->kernels = &wrong;
            assert_true(!check(&o).products_agree);
        }
        kept_release(n_kept);
    }
}

TEST(missing_module)
{
    const struct sp_reference_options options = {.size = sizeof options, .module = "none.so"};
    struct sp_package *package = NULL;

    assert_fails(sp_package_open_reference(&package, packed_alone(TESTDATA "/tiny/ar", SP_Q4),
                                           &options, why),
                 SP_E_UNSUPPORTED, "the module for OpenBLAS is missing: none.so");
}

GROUP_FIXTURE(packed_setup, packed_teardown);
