/* Tests the choice of types for a number of bytes against every possible choice, and what it leaves
 * alone. */
#include "convert/create/create_job.h"
#include "tests/support/unit_test.h"

static const enum sp_dtype types[] = {SP_Q2, SP_Q3, SP_Q4, SP_Q5, SP_Q6, SP_Q8};
enum { N_TYPES = 6, N_TENSORS = 7, N_GROUPS = 4 };

/* Layer 0 has two tensors in one group; the router and the norm are fixed. */
static const struct sp_tensor_spec specs[N_TENSORS] = {
    {"embed_tokens.weight", SP_ROLE_EMBEDDING, 2, {1000, 64}, 0, 0},
    {"layers.0.input_layernorm.weight", SP_ROLE_NORM, 1, {64}, 0, 0},
    {"layers.0.mlp.down_proj.weight", SP_ROLE_MLP, 2, {64, 256}, 0, 0},
    {"layers.0.mlp.gate_proj.weight", SP_ROLE_MLP, 2, {256, 64}, 0, 0},
    {"layers.0.mlp.router.weight", SP_ROLE_ROUTER, 2, {32, 64}, 0, 0},
    {"layers.0.mlp.up_proj.weight", SP_ROLE_MLP, 2, {256, 64}, 0, 0},
    {"layers.1.mlp.down_proj.weight", SP_ROLE_MLP, 2, {64, 256}, 0, 0},
};
enum { EMBEDDING, NORM, DOWN_0, GATE, ROUTER, UP, DOWN_1 };

static const int groups[N_GROUPS][2] = {{EMBEDDING, -1}, {DOWN_0, -1}, {DOWN_1, -1}, {GATE, UP}};

static struct sp_sensitivity entries[N_GROUPS] = {
    {{SP_GROUP_EMBEDDING, SP_NO_LAYER}, 3},
    {{SP_GROUP_FEED_FORWARD, 0}, 0.7},
    {{SP_GROUP_DOWN, 0}, 0.2},
    {{SP_GROUP_DOWN, 1}, 5},
};
static const int entry_of[N_GROUPS] = {0, 2, 3, 1}; /* in the order of `groups` */
static const struct sp_sensitivities measured = {entries, N_GROUPS, N_GROUPS};

static uint64_t size_as(int tensor, enum sp_dtype type)
{
    size_t size = 0;

    assert_true(sp_tensor_size(&size, type, SP_PANEL, specs[tensor].shape, specs[tensor].rank));
    return size;
}

static struct sp_plan_item items[N_TENSORS];

/* A plan that keeps the stored types: bf16, and `down_1` for the down projection of layer 1. */
static struct sp_plan make_plan(enum sp_dtype down_1)
{
    for (int i = 0; i < N_TENSORS; i++) {
        enum sp_dtype type = i == DOWN_1 ? down_1 : SP_BF16;
        enum sp_layout layout = i == NORM ? SP_PLAIN : SP_PANEL;
        size_t size = 0;
        assert_true(sp_tensor_size(&size, type, layout, specs[i].shape, specs[i].rank));
        items[i] = (struct sp_plan_item){.spec = &specs[i],
                                         .part = SP_PART_TARGET,
                                         .from = type,
                                         .to = type,
                                         .layout = layout,
                                         .source_size = size,
                                         .size = size};
    }
    return (struct sp_plan){items, N_TENSORS, N_TENSORS};
}

static uint64_t total_size(const struct sp_plan_choice *choices)
{
    uint64_t size = 0;

    for (int i = 0; i < N_TENSORS; i++)
        size += choices[i].type ? size_as(i, choices[i].type) : items[i].size;
    return size;
}

static double cost_of(const enum sp_dtype *chosen)
{
    double cost = 0;

    for (int g = 0; g < N_GROUPS; g++)
        cost += entries[entry_of[g]].kl_per_error * sp_policy_error(chosen[g]);
    return cost;
}

/* The least cost of all choices of at most `most` bytes. */
static double least_cost(uint64_t most)
{
    double least = 1e9;

    for (int code = 0; code < N_TYPES * N_TYPES * N_TYPES * N_TYPES; code++) {
        enum sp_dtype chosen[N_GROUPS];
        uint64_t size = items[NORM].size + items[ROUTER].size;
        for (int g = 0, rest = code; g < N_GROUPS; g++, rest /= N_TYPES) {
            chosen[g] = types[rest % N_TYPES];
            for (int k = 0; k < 2; k++)
                size += groups[g][k] < 0 ? 0 : size_as(groups[g][k], chosen[g]);
        }
        if (size <= most && cost_of(chosen) < least) least = cost_of(chosen);
    }
    return least;
}

static struct sp_budget_request request_for(const struct sp_plan *plan, uint64_t most)
{
    return (struct sp_budget_request){
        .plan = plan, .n_target = N_TENSORS, .most = most, .sensitivities = &measured};
}

TEST(test_no_choice_is_better)
{
    struct sp_plan plan = make_plan(SP_BF16);
    struct sp_budget_request request = request_for(&plan, 0);
    struct sp_budget_result result;
    struct sp_plan_choice none[N_TENSORS] = {{0}};
    bool fits;

    assert_ok(sp_budget_choose(none, &fits, &result, &request, NULL));
    assert_false(fits);
    assert_int_equal(none[EMBEDDING].type, SP_DTYPE_NONE);
    assert_int_equal(result.n_groups, N_GROUPS);
    assert_int_equal(result.n_measured, N_GROUPS);
    for (request.most = result.least; request.most < result.largest + 2000; request.most += 997) {
        struct sp_plan_choice choices[N_TENSORS] = {{0}};
        enum sp_dtype chosen[N_GROUPS];
        assert_ok(sp_budget_choose(choices, &fits, &result, &request, NULL));
        assert_true(fits);
        for (int g = 0; g < N_GROUPS; g++)
            chosen[g] = choices[groups[g][0]].type;
        assert_int_equal(choices[GATE].type, choices[UP].type);
        assert_int_equal(choices[NORM].type, SP_DTYPE_NONE);
        assert_int_equal(choices[ROUTER].type, SP_DTYPE_NONE);
        assert_string_equal(choices[GATE].rule, "chosen for the size");
        assert_true(total_size(choices) <= request.most);
        assert_true(cost_of(chosen) <= least_cost(request.most) * (1 + 1e-12));
    }
    assert_true(least_cost(result.least - 1) == 1e9);
}

TEST(test_what_is_chosen_already_stays)
{
    struct sp_plan plan = make_plan(SP_Q4);
    struct sp_budget_request request = request_for(&plan, UINT64_MAX);
    struct sp_plan_choice choices[N_TENSORS] = {[GATE] = {.type = SP_F16, .rule = "rule"}};
    struct sp_budget_result result;
    bool fits;

    request.keep_output = true;
    assert_ok(sp_budget_choose(choices, &fits, &result, &request, NULL));
    assert_true(fits);
    assert_int_equal(choices[GATE].type, SP_F16);
    assert_string_equal(choices[GATE].rule, "rule");
    assert_int_equal(choices[UP].type, SP_Q8);
    assert_int_equal(choices[EMBEDDING].type, SP_DTYPE_NONE);
    assert_int_equal(choices[DOWN_0].type, SP_Q8);
    assert_int_equal(choices[DOWN_1].type, SP_Q4); /* stored so: more bits would gain nothing */
    memset(choices, 0, sizeof choices);
    request.most = result.least - items[GATE].size + size_as(GATE, SP_Q2);
    assert_ok(sp_budget_choose(choices, &fits, &result, &request, NULL));
    assert_int_equal(choices[DOWN_1].type, SP_Q2);
}

/* Without measurements all kinds have typical sensitivities; with some, these set the scale. */
TEST(test_tables)
{
    struct sp_plan plan = make_plan(SP_BF16);
    struct sp_sensitivity large = {{SP_GROUP_DOWN, 1}, 1e6}, small = {{SP_GROUP_DOWN, 1}, 1e-6};
    struct sp_sensitivities one = {NULL, 0, 0};
    struct sp_budget_request request = request_for(&plan, 0);
    struct sp_plan_choice a[N_TENSORS] = {{0}}, b[N_TENSORS] = {{0}}, c[N_TENSORS] = {{0}};
    struct sp_budget_result result;
    bool fits;

    request.sensitivities = &one;
    assert_ok(sp_budget_choose(a, &fits, &result, &request, NULL));
    assert_int_equal(result.n_measured, 0);
    request.most = (result.least + result.largest) / 2;
    assert_ok(sp_budget_choose(a, &fits, &result, &request, NULL));
    for (int i = 0; i < N_TENSORS; i++)
        assert_int_equal(a[i].type != SP_DTYPE_NONE, i != NORM && i != ROUTER);
    one = (struct sp_sensitivities){&large, 1, 1};
    assert_ok(sp_budget_choose(b, &fits, &result, &request, NULL));
    assert_int_equal(result.n_measured, 1);
    one = (struct sp_sensitivities){&small, 1, 1};
    assert_ok(sp_budget_choose(c, &fits, &result, &request, NULL));
    for (int i = 0; i < N_TENSORS; i++) {
        assert_int_equal(a[i].type, b[i].type);
        assert_int_equal(a[i].type, c[i].type);
    }
}
