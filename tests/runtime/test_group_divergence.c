/* Tests the measurement of sensitivities: divergences of rounded groups against transformers and
 * against evaluation, groups of every family, sensitivities of a record, and continuing after an
 * interruption. */
#include "runtime/measure/group_divergence.h"
#include "convert/create/create.h"
#include "format/weights/sensitivity.h"
#include "format/pack_contents.h"
#include "quantize/kernels/kernels.h"
#include "quantize/policy.h"
#include "tests/support/create_files.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"
#include "runtime/spectool_measure.h"

#include <math.h>

enum { N_IDS = 600 };

static uint32_t ids[N_IDS];
static struct sp_calibration_text text = {ids, N_IDS};

/* The ids of tests/oracle/group_divergence.py, below n_vocab. */
static void fill_ids(uint32_t n_vocab)
{
    for (uint32_t i = 0; i < N_IDS; i++)
        ids[i] = (i * i * 7 + 13 * i) % n_vocab;
}

static struct sp_package *open_model(const char *from, enum sp_dtype dtype, const char *kernels,
                                     unsigned n_threads)
{
    const char *file = create_path("model.bin"), *line = keep_format("FROM @/%s\n", from);

    create_pack(create_modelfile(line), file, dtype, SP_DTYPE_NONE, 2);
    return keep_package_with(file, kernels, n_threads);
}

static void close_divergence(void *d)
{
    sp_group_divergence_close(d);
}

/* Kept. */
static struct sp_group_divergence *open_divergence(struct sp_package *package)
{
    struct sp_group_divergence *d = NULL;

    assert_ok(sp_group_divergence_open(&d, package, NULL, &text, 1, why));
    return keep_with(d, close_divergence);
}

static double measure(struct sp_group_divergence *d, size_t first, size_t n, enum sp_dtype dtype)
{
    double nats = -1;

    assert_ok(sp_group_divergence_measure(d, &nats, first, n, dtype, why));
    return nats;
}

static size_t find_group(const struct sp_group_divergence *d, struct sp_tensor_group group)
{
    size_t n;
    const struct sp_matrix_group *groups = sp_group_divergence_groups(d, &n);

    for (size_t i = 0; i < n; i++)
        if (sp_tensor_group_compare(groups[i].group, group) == 0) return i;
    fail_msg("no group %s of layer %d", sp_group_kind_name(group.kind), group.layer);
    return 0;
}

/* The products of rounded matrices read activations of 8 bits, which the oracle does not round. */
TEST(test_transformers)
{
    enum { KIND, LAYER, DTYPE, NATS, PER_LINE };
    struct sp_package *package = open_model("target", SP_DTYPE_NONE, NULL, 2);
    struct sp_group_divergence *d;
    size_t n;
    uint64_t *lines = vector_file_read("group_divergence.txt", PER_LINE, &n);

    fill_ids(1500);
    d = open_divergence(package);
    for (size_t i = 0; i < n; i++) {
        const uint64_t *line = lines + i * PER_LINE;
        struct sp_tensor_group group = {(enum sp_group_kind)line[KIND], (int)line[LAYER] - 1};
        double expected, nats = measure(d, find_group(d, group), 1, (enum sp_dtype)line[DTYPE]);
        memcpy(&expected, &line[NATS], sizeof expected);
        print_message("%s %d: %.6f, expected %.6f\n", sp_group_kind_name(group.kind), group.layer,
                      nats, expected);
        assert_true(fabs(nats / expected - 1) < 0.03);
    }
}

static double measure_cache(struct sp_group_divergence *d, unsigned layer, enum sp_cache_type type)
{
    double nats = -1;

    assert_ok(sp_group_divergence_measure_cache(d, &nats, layer, type, why));
    return nats;
}

/* The divergences of narrow caches, and that f16 costs nothing. */
TEST(test_caches)
{
    enum { LAYER, TYPE, NATS, PER_LINE };
    struct sp_package *package = open_model("target", SP_DTYPE_NONE, NULL, 2);
    struct sp_group_divergence *d;
    size_t n;
    uint64_t *lines = vector_file_read("cache_divergence.txt", PER_LINE, &n);

    fill_ids(1500);
    d = open_divergence(package);
    for (size_t i = 0; i < n; i++) {
        const uint64_t *line = lines + i * PER_LINE;
        double nats = measure_cache(d, (unsigned)line[LAYER], (enum sp_cache_type)line[TYPE]);
        double expected;
        memcpy(&expected, &line[NATS], sizeof expected);
        print_message("layer %u, type %u: %.7f, expected %.7f\n", (unsigned)line[LAYER],
                      (unsigned)line[TYPE], nats, expected);
        assert_true(fabs(nats - expected) < 0.03 * expected + 2e-6);
    }
    assert_true(measure_cache(d, 5, SP_CACHE_F16) < 2e-6);
}

/* The same numbers for any threads and kernels; and the model is as before afterwards. */
TEST(test_threads_and_kernels)
{
    double first[2] = {-1, -1};

    fill_ids(1500);
    text.n = SP_DIVERGENCE_WINDOW;
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        struct sp_package *package =
            open_model("target", SP_Q8, (*k)->name, *k == sp_kernels_best() ? 3 : 1);
        size_t n_kept = kept_count();
        struct sp_group_divergence *d = open_divergence(package);
        for (size_t i = 0; i < 2; i++) {
            double nats = measure(d, 6 * i + 1, 1, SP_Q3);
            if (first[i] < 0) first[i] = nats;
            assert_true(nats > 0 && nats == first[i]);
        }
        kept_release(n_kept);
        assert_true(measure(open_divergence(package), 7, 1, SP_Q3) == first[1]);
    }
    text.n = N_IDS;
}

/* ---- records ---- */

static int interrupt_after; /* calls of the callback; -1: never */
static size_t n_calls, n_reported;

static int count(void *context, size_t done, size_t total)
{
    (void)context;
    assert_true(done <= total);
    n_reported = total - done;
    return interrupt_after >= 0 && ++n_calls > (size_t)interrupt_after;
}

static enum sp_status calibrate(struct sp_package *package, const char *out,
                                struct sp_calibration *made)
{
    struct sp_calibration_request request = {.size = sizeof request,
                                             .texts = &text,
                                             .n_texts = 1,
                                             .path = out,
                                             .force = true,
                                             .sensitivity = true,
                                             .layer_progress = count};

    n_calls = 0;
    *made = (struct sp_calibration)SP_CALIBRATION_INIT;
    return sp_package_calibrate(package, &request, made, why);
}

/* The record of a calibration file; kept. */
static struct sp_json *read_record(const char *path)
{
    struct sp_text section;
    struct sp_json *record = NULL;

    assert_ok(sp_pack_read_section(create_open(path), SP_PART_FILE, SP_SECTION_CALIBRATION,
                                   &section, why));
    assert_ok(sp_json_parse_within(&record, section.at, section.size, SP_JSON_STRICT,
                                   SP_JSON_SETTINGS, why));
    free(section.at);
    return keep_json(record);
}

/* The sensitivities of a calibration file; the caller releases them. */
static struct sp_sensitivities read_sensitivities(const char *path)
{
    struct sp_sensitivities s = {0};

    assert_ok(sp_sensitivities_read(&s, read_record(path), why));
    return s;
}

/* Every group of every family is measured, and the sum of sensitivity times error predicts the
 * divergence within an order of magnitude. The text has two windows; with sanitizers one, since
 * each is computed by the same code. */
static void check_family(const char *name)
{
    const char *out = create_path("calibration.bin");
    struct sp_package *package = open_model(keep_format("../families/%s", name), SP_F32, NULL, 2);
    size_t n, n_kept = kept_count();
    struct sp_calibration made;
    double sum = 0;

    fill_ids(package->target->config.n_vocab);
    sp_group_divergence_groups(open_divergence(package), &n);
    kept_release(n_kept);
    interrupt_after = -1;
    assert_case_ok(name, calibrate(package, out, &made));
    struct sp_sensitivities s = read_sensitivities(out);
    if (s.n != n || made.n_groups != n) fail_msg("%s: %zu of %zu groups", name, s.n, n);
    for (size_t i = 0; i < s.n; i++)
        sum += s.entries[i].kl_per_error;
    if (n && !(sum > 0)) fail_msg("%s: no group matters", name);
    sp_sensitivities_release(&s);
}

TEST(test_families)
{
    text.n = (IS_SANITIZED ? 1 : 2) * SP_DIVERGENCE_WINDOW;
    for (const char *const *name = golden_families(); *name; name++) {
        create_setup(state);
        check_family(*name);
        create_teardown(state);
    }
    text.n = N_IDS;
}

/* Calibrates with two texts; returns their tokens in the statistics. */
static size_t calibrate_two(struct sp_package *package, const char *out, const uint32_t *first,
                            size_t n_first, const uint32_t *second, size_t n_second,
                            bool sensitivity)
{
    const struct sp_calibration_text texts[] = {{first, n_first}, {second, n_second}};
    struct sp_calibration_request request = {.size = sizeof request,
                                             .texts = texts,
                                             .n_texts = 2,
                                             .path = out,
                                             .sensitivity = sensitivity};
    struct sp_calibration made = SP_CALIBRATION_INIT;

    assert_ok(sp_package_calibrate(package, &request, &made, why));
    return made.n_tokens;
}

static void assert_same_tensors(const char *path, const char *other)
{
    struct sp_pack *a = create_open(path), *b = create_open(other);

    assert_int_equal(sp_pack_n_tensors(a), sp_pack_n_tensors(b));
    for (size_t i = 0; i < sp_pack_n_tensors(a); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(a, i);
        assert_memory_equal(t->data, sp_pack_tensor(b, i)->data, t->size);
    }
}

/* With sensitivities the file has the first 512 tokens of each fourth of the n tokens. */
static void assert_check(const char *path, const uint32_t *tokens, size_t n)
{
    const struct sp_json *check = sp_json_get(read_record(path), "check");
    int64_t id;

    assert_int_equal(sp_json_len(check), 4 * 512);
    for (size_t i = 0; i < 4 * 512; i++) {
        assert_true(sp_json_to_i64(sp_json_at(check, i), &id));
        assert_int_equal(id, tokens[i / 512 * (n / 4) + i % 512]);
    }
}

/* The statistics of long texts are those of the texts without the four windows of 128 tokens around
 * their eighths 1, 3, 5 and 7; those of shorter texts of the whole. */
TEST(test_windows_are_not_in_the_statistics)
{
    enum { FIRST = 3000, SECOND = 1500, CUT = 128 };
    static const size_t places[] = {562, 1687, 2812, 3937};
    static uint32_t all[FIRST + SECOND], cut[FIRST + SECOND - 4 * CUT];
    const char *with = create_path("with.bin"), *without = create_path("without.bin");
    struct sp_package *package = open_model("../experts", SP_F32, NULL, 2);
    size_t n = 0;

    for (uint32_t i = 0; i < FIRST + SECOND; i++)
        all[i] = (i * i * 7 + 13 * i + i / 128) % 128;
    for (size_t i = 0, k = 0; i < FIRST + SECOND; i++) {
        if (k < 4 && i == places[k] + CUT / 2) k++;
        if (k < 4 && i >= places[k] - CUT / 2) continue;
        cut[n++] = all[i];
    }
    assert_int_equal(n, FIRST + SECOND - 4 * CUT);
    assert_int_equal(calibrate_two(package, with, all, FIRST, all + FIRST, SECOND, true), n);
    assert_int_equal(calibrate_two(package, without, cut, FIRST - 3 * CUT, cut + FIRST - 3 * CUT,
                                   SECOND - CUT, false),
                     n);
    assert_same_tensors(with, without);
    assert_check(with, cut, n);
    with = create_path("with_short.bin");
    without = create_path("without_short.bin");
    assert_int_equal(calibrate_two(package, with, all, FIRST, all + FIRST, 1000, true), 4000);
    assert_int_equal(calibrate_two(package, without, all, FIRST, all + FIRST, 1000, false), 4000);
    assert_same_tensors(with, without);
}

/* An interrupted measurement continues, and the file is that of one run. */
TEST(test_continuing)
{
    const char *whole = create_path("whole.bin"), *parts = create_path("parts.bin");
    const char *beside = create_path("parts.bin.sensitivity");
    struct sp_package *package = open_model("target", SP_Q8, NULL, 2);
    struct sp_calibration made;
    size_t n_files;

    fill_ids(1500);
    interrupt_after = -1;
    assert_ok(calibrate(package, whole, &made));
    assert_int_equal(made.n_groups, 6 * 4 + 1);
    assert_int_equal(n_reported, 0);
    n_files = create_count_files();
    interrupt_after = 14; /* in the groups of the second layer */
    assert_fails_as(calibrate(package, parts, &made), SP_E_CANCELLED, "interrupted");
    assert_int_equal(create_count_files(), n_files + 1);
    assert_true(golden_exists(beside));
    interrupt_after = 9 + 5 + 1; /* in the caches of the third; one layer is not measured again */
    assert_fails(calibrate(package, parts, &made), SP_E_CANCELLED, "");
    interrupt_after = 4 + 3 * 9; /* in the choice of caches, after what was left of the layers */
    assert_fails(calibrate(package, parts, &made), SP_E_CANCELLED, "");
    interrupt_after = -1;
    assert_ok(calibrate(package, parts, &made));
    assert_int_equal(n_reported, 0);
    assert_same_file(whole, parts);
    assert_int_equal(create_count_files(), n_files + 1);
}

/* What another request has measured is not used; a foreign file is refused and stays. */
TEST(test_files_beside_the_output)
{
    static const char other[] = "{\"measured_with\":\"0123456789abcdef\",\"sensitivity\":[{"
                                "\"group\":\"embedding\",\"kl_per_error\":7}]}";
    const char *out = create_path("out.bin");
    struct sp_package *package = open_model("target", SP_Q8, NULL, 2);
    struct sp_calibration made;

    fill_ids(1500);
    interrupt_after = -1;
    scratch_write("out.bin.sensitivity", "{}", 2);
    assert_fails(calibrate(package, out, &made), SP_E_INPUT,
                 "out.bin.sensitivity: it does not hold sensitivities");
    assert_true(golden_exists(create_path("out.bin.sensitivity")));
    scratch_write("out.bin.sensitivity", other, sizeof other - 1);
    assert_ok(calibrate(package, out, &made));
    struct sp_sensitivities s = read_sensitivities(out);
    assert_true(s.entries[0].group.kind == SP_GROUP_EMBEDDING && s.entries[0].kl_per_error != 7);
    sp_sensitivities_release(&s);
}

TEST_FIXTURE(create_setup, create_teardown);
