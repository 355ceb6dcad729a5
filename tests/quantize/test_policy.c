/* Tests every rule of the type policy, with one line of the table each, and refusals. */
#include "quantize/policy.h"
#include "tests/support/unit_test.h"

struct policy_case {
    enum sp_role role;
    unsigned rank;
    uint64_t shape[3];
    enum sp_dtype stored, type, output_type;
    enum sp_dtype expected;
    enum sp_layout layout;
    const char *rule;
};

#define ROW(n)                                                                                     \
    1,                                                                                             \
    {                                                                                              \
        n                                                                                          \
    }
#define MATRIX(rows, cols)                                                                         \
    2,                                                                                             \
    {                                                                                              \
        rows, cols                                                                                 \
    }
#define BF16_MATRIX MATRIX(64, 64), SP_BF16
#define BF16_KEYS MATRIX(32, 64), SP_BF16
#define KEEP SP_DTYPE_NONE
#define AUTO SP_DTYPE_NONE

static const struct policy_case cases[] = {
    /* no type requested */
    {SP_ROLE_ATTENTION, BF16_MATRIX, KEEP, AUTO, SP_BF16, SP_PANEL, "as stored"},
    {SP_ROLE_MLP, MATRIX(64, 64), SP_F64, KEEP, AUTO, SP_F32, SP_PANEL, "f64 becomes f32"},
    {SP_ROLE_HEAD, MATRIX(64, 64), SP_Q4, KEEP, AUTO, SP_Q4, SP_PANEL, "as stored"},
    {SP_ROLE_NORM, ROW(64), SP_F32, KEEP, AUTO, SP_F32, SP_PLAIN, "norm stays float"},
    /* a requested type */
    {SP_ROLE_ATTENTION, BF16_MATRIX, SP_Q4, AUTO, SP_Q4, SP_PANEL, "requested"},
    {SP_ROLE_MLP, 3, {8, 64, 64}, SP_BF16, SP_Q8, AUTO, SP_Q8, SP_PANEL, "requested"},
    {SP_ROLE_MLP, MATRIX(64, 64), SP_F32, SP_F16, AUTO, SP_F16, SP_PANEL, "requested"},
    {SP_ROLE_MLP, MATRIX(33, 65), SP_F32, SP_BF16, AUTO, SP_BF16, SP_PANEL, "requested"},
    {SP_ROLE_MLP, MATRIX(64, 64), SP_Q8, SP_F32, AUTO, SP_F32, SP_PANEL, "requested"},
    /* embeddings and head */
    {SP_ROLE_EMBEDDING, BF16_MATRIX, SP_Q8, AUTO, SP_Q8, SP_PANEL, "requested"},
    {SP_ROLE_HEAD, BF16_MATRIX, SP_F16, AUTO, SP_F16, SP_PANEL, "requested"},
    {SP_ROLE_EMBEDDING, BF16_MATRIX, SP_Q4, AUTO, SP_Q8, SP_PANEL, "output matrix keeps 8 bits"},
    {SP_ROLE_EMBEDDING, BF16_MATRIX, SP_Q3, AUTO, SP_Q6, SP_PANEL, "output matrix keeps 6 bits"},
    {SP_ROLE_HEAD, BF16_MATRIX, SP_Q2, AUTO, SP_Q6, SP_PANEL, "output matrix keeps 6 bits"},
    {SP_ROLE_HEAD, BF16_MATRIX, SP_Q5, AUTO, SP_Q8, SP_PANEL, "output matrix keeps 8 bits"},
    {SP_ROLE_HEAD, BF16_MATRIX, SP_Q6, AUTO, SP_Q8, SP_PANEL, "output matrix keeps 8 bits"},
    {SP_ROLE_HEAD, BF16_MATRIX, SP_Q4, SP_Q4, SP_Q4, SP_PANEL, "output type requested"},
    {SP_ROLE_HEAD, BF16_MATRIX, SP_Q8, SP_BF16, SP_BF16, SP_PANEL, "output type requested"},
    {SP_ROLE_EMBEDDING, MATRIX(64, 64), SP_F32, KEEP, SP_Q8, SP_Q8, SP_PANEL,
     "output type requested"},
    {SP_ROLE_MLP, BF16_MATRIX, KEEP, SP_Q8, SP_BF16, SP_PANEL, "as stored"},
    /* keys and values of models with few heads */
    {SP_ROLE_KEY_VALUE, BF16_KEYS, SP_Q4, AUTO, SP_Q8, SP_PANEL, "keys and values keep 8 bits"},
    {SP_ROLE_KEY_VALUE, MATRIX(32, 64), SP_F32, SP_Q4, SP_BF16, SP_Q8, SP_PANEL,
     "keys and values keep 8 bits"},
    {SP_ROLE_KEY_VALUE, BF16_KEYS, SP_Q2, AUTO, SP_Q8, SP_PANEL, "keys and values keep 8 bits"},
    {SP_ROLE_KEY_VALUE, BF16_KEYS, SP_Q6, AUTO, SP_Q8, SP_PANEL, "keys and values keep 8 bits"},
    {SP_ROLE_KEY_VALUE, BF16_KEYS, SP_Q5, SP_Q5, SP_Q5, SP_PANEL, "requested"},
    {SP_ROLE_KEY_VALUE, MATRIX(33, 64), SP_BF16, SP_Q4, AUTO, SP_Q4, SP_PANEL, "requested"},
    {SP_ROLE_KEY_VALUE, BF16_KEYS, SP_Q4, SP_Q4, SP_Q4, SP_PANEL, "requested"},
    {SP_ROLE_KEY_VALUE, MATRIX(32, 64), SP_Q4, SP_Q4, AUTO, SP_Q4, SP_PANEL, "requested"},
    {SP_ROLE_KEY_VALUE, BF16_KEYS, SP_Q8, AUTO, SP_Q8, SP_PANEL, "requested"},
    {SP_ROLE_KEY_VALUE, BF16_KEYS, KEEP, AUTO, SP_BF16, SP_PANEL, "as stored"},
    /* roles that stay float for every requested type */
    {SP_ROLE_NORM, ROW(64), SP_BF16, SP_Q4, AUTO, SP_BF16, SP_PLAIN, "norm stays float"},
    {SP_ROLE_NORM, BF16_MATRIX, SP_Q4, AUTO, SP_BF16, SP_PLAIN, "norm stays float"},
    {SP_ROLE_BIAS, ROW(64), SP_F16, SP_Q8, AUTO, SP_F16, SP_PLAIN, "bias stays float"},
    {SP_ROLE_BIAS, ROW(64), SP_F64, SP_Q8, AUTO, SP_F32, SP_PLAIN, "f64 becomes f32"},
    {SP_ROLE_SMALL, ROW(64), SP_F32, SP_F16, AUTO, SP_F32, SP_PLAIN, "small tensor stays float"},
    {SP_ROLE_ATTENTION, ROW(4096), SP_F32, SP_Q8, AUTO, SP_F32, SP_PLAIN,
     "small tensor stays float"},
    {SP_ROLE_ROUTER, BF16_MATRIX, SP_Q4, AUTO, SP_BF16, SP_PANEL, "router stays float"},
    {SP_ROLE_ROUTER, MATRIX(64, 64), SP_F32, SP_BF16, AUTO, SP_F32, SP_PANEL, "router stays float"},
    {SP_ROLE_GATE, BF16_MATRIX, SP_Q4, AUTO, SP_BF16, SP_PANEL, "gate stays float"},
    /* shapes that blocks cannot hold or do not suit */
    {SP_ROLE_MLP, MATRIX(64, 65), SP_BF16, SP_Q4, AUTO, SP_BF16, SP_PANEL,
     "width is not a multiple of 32"},
    {SP_ROLE_MLP, MATRIX(64, 48), SP_F32, SP_Q8, AUTO, SP_F32, SP_PANEL,
     "width is not a multiple of 32"},
    {SP_ROLE_HEAD, MATRIX(64, 48), SP_F32, SP_Q4, AUTO, SP_F32, SP_PANEL,
     "width is not a multiple of 32"},
    {SP_ROLE_MLP, MATRIX(31, 32), SP_F32, SP_Q4, AUTO, SP_F32, SP_PANEL, "too small to quantize"},
    {SP_ROLE_MLP, MATRIX(32, 32), SP_F32, SP_Q4, AUTO, SP_Q4, SP_PANEL, "requested"},
    {SP_ROLE_MLP, 3, {2, 16, 32}, SP_F32, SP_Q4, AUTO, SP_Q4, SP_PANEL, "requested"},
    /* a draft's projection of the target's features */
    {SP_ROLE_FEATURE, MATRIX(64, 192), SP_BF16, SP_Q4, AUTO, SP_Q8, SP_PANEL,
     "feature projection keeps 8 bits"},
    {SP_ROLE_FEATURE, MATRIX(64, 192), SP_BF16, SP_Q3, AUTO, SP_Q8, SP_PANEL,
     "feature projection keeps 8 bits"},
    {SP_ROLE_FEATURE, MATRIX(64, 192), SP_BF16, SP_Q8, AUTO, SP_Q8, SP_PANEL, "requested"},
    /* a draft's tables by token, and integer tensors */
    {SP_ROLE_CODEBOOK, MATRIX(512, 64), SP_BF16, SP_Q4, AUTO, SP_BF16, SP_PANEL,
     "codebook stays float"},
    {SP_ROLE_INDEX, ROW(512), SP_I64, SP_Q4, AUTO, SP_F32, SP_PLAIN, "whole numbers stay exact"},
    {SP_ROLE_INDEX, ROW(512), SP_F32, SP_F16, AUTO, SP_F32, SP_PLAIN, "whole numbers stay exact"},
    {SP_ROLE_FEATURE, MATRIX(64, 100), SP_BF16, SP_Q4, AUTO, SP_BF16, SP_PANEL,
     "width is not a multiple of 32"},
};

TEST(test_rules)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct policy_case *c = cases + i;
        struct sp_policy_request request = {.type = c->type, .output_type = c->output_type};
        struct sp_tensor_spec spec = {.name = "x", .role = c->role, .rank = c->rank};
        struct sp_policy_tensor tensor = {.spec = &spec, .stored = c->stored};
        struct sp_policy_choice choice;
        memcpy(spec.shape, c->shape, c->rank * sizeof *c->shape);
        assert_ok(sp_policy_choose(&choice, &request, &tensor, NULL));
        if (choice.dtype != c->expected || choice.layout != c->layout ||
            strcmp(choice.rule, c->rule) != 0)
            fail_msg("case %zu: type %d, layout %d, \"%s\"; expected %d, %d, \"%s\"", i,
                     choice.dtype, choice.layout, choice.rule, c->expected, c->layout, c->rule);
    }
}

/* The key and value projections of a draft follow the same rules as other matrices. */
TEST(test_draft)
{
    struct sp_policy_request request = {.type = SP_Q4, .draft = true};
    const struct sp_tensor_spec spec = {
        .name = "x", .role = SP_ROLE_KEY_VALUE, .rank = 2, .shape = {32, 64}};
    struct sp_policy_tensor tensor = {.spec = &spec, .stored = SP_BF16};
    struct sp_policy_choice choice;

    assert_ok(sp_policy_choose(&choice, &request, &tensor, NULL));
    assert_int_equal(choice.dtype, SP_Q4);
}

static void check_refusal(enum sp_role role, enum sp_dtype stored, enum sp_dtype type,
                          enum sp_status status, const char *message)
{
    const struct sp_tensor_spec spec = {.name = "a.b", .role = role, .rank = 2, .shape = {64, 64}};
    struct sp_policy_request request = {.type = type};
    struct sp_policy_tensor tensor = {.spec = &spec, .stored = stored};
    struct sp_policy_choice choice;

    assert_fails_as(sp_policy_choose(&choice, &request, &tensor, why), status, message);
}

TEST(test_refusals)
{
    check_refusal(SP_ROLE_MLP, SP_I32, SP_Q4, SP_E_UNSUPPORTED,
                  "tensor a.b: numbers of type i32 cannot be converted, expected f32, f16, bf16 or "
                  "f64");
    check_refusal(SP_ROLE_NORM, SP_Q8, KEEP, SP_E_INPUT,
                  "tensor a.b: a norm cannot be stored as q8");
    check_refusal(
        SP_ROLE_MLP, SP_BF16, SP_F64, SP_E_UNSUPPORTED,
        "tensor a.b: the requested type cannot be written, expected f32, f16, bf16 or q2 to q8");
}

TEST(test_requantizing)
{
    assert_true(sp_policy_rounds_twice(SP_Q8, SP_Q4));
    assert_true(sp_policy_rounds_twice(SP_Q4, SP_Q8));
    assert_true(sp_policy_rounds_twice(SP_Q8, SP_BF16));
    assert_true(sp_policy_rounds_twice(SP_Q5, SP_Q3));
    assert_false(sp_policy_rounds_twice(SP_Q2, SP_F32));
    assert_false(sp_policy_rounds_twice(SP_Q8, SP_F32));
    assert_false(sp_policy_rounds_twice(SP_Q4, SP_Q4));
    assert_false(sp_policy_rounds_twice(SP_BF16, SP_Q4));
    assert_false(sp_policy_rounds_twice(SP_F32, SP_F16));
}

/* An output matrix whose errors are weighed needs fewer bits with q4 and q5. */
TEST(test_calibrated_output)
{
    static const struct {
        enum sp_dtype type, want;
    } calibrated[] = {{SP_Q2, SP_Q6}, {SP_Q3, SP_Q6}, {SP_Q4, SP_Q6},  {SP_Q5, SP_Q6},
                      {SP_Q6, SP_Q8}, {SP_Q8, SP_Q8}, {SP_F16, SP_F16}};
    const struct sp_tensor_spec spec = {
        .name = "lm_head.weight", .role = SP_ROLE_HEAD, .rank = 2, .shape = {64, 64}};
    struct sp_policy_tensor tensor = {.spec = &spec, .stored = SP_F32, .calibrated = true};

    for (size_t i = 0; i < sizeof calibrated / sizeof *calibrated; i++) {
        struct sp_policy_request request = {.type = calibrated[i].type};
        struct sp_policy_choice choice;
        assert_ok(sp_policy_choose(&choice, &request, &tensor, NULL));
        assert_int_equal(choice.dtype, calibrated[i].want);
        request.output_type = SP_Q4;
        assert_ok(sp_policy_choose(&choice, &request, &tensor, NULL));
        assert_int_equal(choice.dtype, SP_Q4);
    }
}
