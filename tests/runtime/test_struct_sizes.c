/* Tests structs of callers that were compiled for an earlier version or did not set the size. */
#include "format/base/mem.h"
#include "tests/support/generate_checks.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

static const uint32_t story[] = {582, 580, 258, 421};

/* A struct as in version 1, and as in version 2. */
struct version_1 {
    size_t size;
    size_t a;
};
struct version_2 {
    size_t size;
    size_t a, b;
};

TEST(copies)
{
    const struct version_1 old = {sizeof old, 7};
    const struct version_2 all = {sizeof all, 1, 2};
    struct version_2 in = {0};
    struct {
        struct version_1 thing;
        size_t behind;
    } out = {{sizeof out.thing, 0}, 9};

    assert_ok(sp_copy_in(&in, sizeof in, &old, "thing", why));
    assert_true(in.a == 7 && in.b == 0);
    sp_copy_out(&out, &all);
    assert_true(out.thing.size == sizeof out.thing && out.thing.a == 1 && out.behind == 9);
}

TEST(bad_sizes)
{
    static const size_t bad[] = {0, 1, sizeof(size_t) + 1,
                                 sizeof(struct version_2) + sizeof(size_t), SIZE_MAX};
    const struct version_2 all = {sizeof all, 1, 2};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct version_2 thing = {bad[i], 3, 4}, in = {0};
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 "struct thing has the size %zu: expected its sizeof, which is 24 in this version",
                 bad[i]);
        assert_fails_as(sp_copy_in(&in, sizeof in, &thing, "thing", why), SP_E_USAGE, sentence);
        assert_true(in.size == 0 && in.a == 0 && in.b == 0);
        if (bad[i] > 0 && bad[i] < sizeof thing) continue;
        sp_copy_out(&thing, &all);
        assert_true(thing.size == bad[i] && thing.a == 3 && thing.b == 4);
    }
}

static struct generate_fixture open_tiny(void)
{
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;

    return generate_open(packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_DTYPE_NONE),
                         NULL, 1, &options);
}

/* Every function that can fail refuses each of its structs with a size of 0 or one that is too
 * large. */
TEST(refusals)
{
    struct generate_fixture o = open_tiny();

    for (int i = 0; i < 2; i++) {
        struct sp_cache_budget *budget = NULL;
        struct sp_package *package = NULL;
        struct sp_session *session = NULL;
        struct sp_sampler *sampler = NULL;
        struct sp_cache_budget_options sharing = SP_CACHE_BUDGET_OPTIONS_INIT;
        struct sp_package_options opening = SP_PACKAGE_OPTIONS_INIT;
        struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
        struct sp_sampling sampling = SP_SAMPLING_INIT;
        struct sp_request request = {ANSWER_TO(story, 4, 2)};
        struct sp_result result = SP_RESULT_INIT;
        struct sp_evaluation_request text = {.size = sizeof text, .ids = story, .n = 4};
        struct sp_evaluation evaluation = SP_EVALUATION_INIT;
        struct sp_calibration_request learning = SP_CALIBRATION_REQUEST_INIT;
        struct sp_calibration calibration = SP_CALIBRATION_INIT;
        struct sp_draft_eval_request trying = {
            .size = sizeof trying, .ids = story, .n = 4, .n_places = 1, .n_predict = 2};
        struct sp_draft_eval tried = SP_DRAFT_EVAL_INIT;
        size_t slot;
#define REFUSED(sized, call)                                                                       \
    do {                                                                                           \
        const size_t known = (sized).size;                                                         \
        (sized).size = i == 0 ? 0 : known + sizeof known;                                          \
        assert_int_equal(call, SP_E_USAGE);                                                        \
        (sized).size = known;                                                                      \
    } while (0)
        REFUSED(sharing, sp_cache_budget_new(&budget, &sharing, NULL));
        REFUSED(opening, sp_package_open(&package, "no file", &opening, NULL));
        REFUSED(options, sp_session_open(&session, o.package, &options, NULL));
        REFUSED(request, sp_session_generate(o.session, &request, &result, NULL));
        REFUSED(result, sp_session_generate(o.session, &request, &result, NULL));
        request.sampling = &sampling;
        REFUSED(sampling, sp_session_generate(o.session, &request, &result, NULL));
        assert_ok(sp_sampler_open(&sampler, 8, 8, why));
        REFUSED(sampling, sp_sampler_add(sampler, &slot, &sampling, NULL, 0, NULL));
        sp_sampler_close(sampler);
        REFUSED(text, sp_package_evaluate(o.package, &text, &evaluation, NULL));
        REFUSED(evaluation, sp_package_evaluate(o.package, &text, &evaluation, NULL));
        REFUSED(learning, sp_package_calibrate(o.package, &learning, &calibration, NULL));
        REFUSED(calibration, sp_package_calibrate(o.package, &learning, &calibration, NULL));
        REFUSED(trying, sp_session_eval_draft(o.session, &trying, &tried, NULL));
        REFUSED(tried, sp_session_eval_draft(o.session, &trying, &tried, NULL));
        assert_int_equal(result.n_ids, 0);
    }
}

/* A request that ends before its sampling options is greedy. A result that ends after its ids
 * receives them, and nothing else is allocated. */
TEST(older_structs_are_accepted)
{
    const size_t n = offsetof(struct sp_result, text);
    struct generate_fixture o = open_tiny();
    struct sp_sampling hot = SP_SAMPLING_INIT;
    struct sp_request request = {.size = offsetof(struct sp_request, sampling),
                                 .prompt = story,
                                 .n_prompt = 4,
                                 .max_tokens = 12,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO,
                                 .sampling = &hot,
                                 .n_top = 5};
    struct sp_result want = generate_run(o.session, story, 4, 12, PLAIN, false), got;
    struct sp_package_info info;
    struct sp_draft_eval_request trying = {
        .size = sizeof trying, .ids = story, .n = 4, .n_places = 1, .n_predict = 8, .draft_len = 3};
    struct sp_draft_eval tried;

    hot.temperature = 100;
    memset(&got, 0x55, sizeof got);
    got.size = n;
    assert_ok(sp_session_generate(o.session, &request, &got, why));
    assert_int_equal(got.size, n);
    assert_int_equal(got.n_ids, want.n_ids);
    assert_memory_equal(got.ids, want.ids, want.n_ids * sizeof *want.ids);
    sp_result_release(&got);
    assert_true(got.size == n && got.ids == NULL && got.n_ids == 0);
    for (size_t i = n; i < sizeof got; i++)
        assert_int_equal(((const unsigned char *)&got)[i], 0x55);

    memset(&info, 0x55, sizeof info);
    info.size = offsetof(struct sp_package_info, max_positions);
    sp_package_describe(o.package, &info);
    assert_int_equal(info.n_vocab, 1600);
    assert_true(info.max_positions > SIZE_MAX / 4);

    memset(&tried, 0x55, sizeof tried);
    tried.size = offsetof(struct sp_draft_eval, draft_positions);
    assert_ok(sp_session_eval_draft(o.session, &trying, &tried, why));
    assert_true(tried.draft_len == 3 && tried.drafted > 0);
    assert_true(tried.n_draft_positions > SIZE_MAX / 4);
    sp_draft_eval_release(&tried);
}

/* A program that begins with the macro drafts as the command line does. */
TEST(defaults)
{
    const struct sp_request request = SP_REQUEST_INIT;

    assert_int_equal(request.draft_len, SP_DRAFT_LENGTH_AUTO);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
