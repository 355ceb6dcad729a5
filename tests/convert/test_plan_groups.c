/* Tests groups of tensors: the group of a name, the table of a plan, and the sensitivities of a
 * calibration's record. */
#include "convert/create/plan.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <math.h>

#define TINY TESTDATA "/tiny"

TEST(test_groups_of_names)
{
    static const struct {
        const char *name;
        enum sp_role role;
        enum sp_group_kind kind;
        int layer;
    } cases[] = {
        {"embed_tokens.weight", SP_ROLE_EMBEDDING, SP_GROUP_EMBEDDING, SP_NO_LAYER},
        {"lm_head.weight", SP_ROLE_HEAD, SP_GROUP_OUTPUT, SP_NO_LAYER},
        {"layers.17.self_attn.o_proj.weight", SP_ROLE_ATTENTION, SP_GROUP_ATTENTION, 17},
        {"layers.0.self_attn.v_proj.weight", SP_ROLE_KEY_VALUE, SP_GROUP_KEY_VALUE, 0},
        {"layers.2.mlp.up_proj.weight", SP_ROLE_MLP, SP_GROUP_FEED_FORWARD, 2},
        {"layers.2.mlp.shared_expert.gate_proj.weight", SP_ROLE_MLP, SP_GROUP_FEED_FORWARD, 2},
        {"layers.2.mlp.shared_expert.down_proj.weight", SP_ROLE_MLP, SP_GROUP_DOWN, 2},
        {"layers.3.mlp.experts.up_proj.weight", SP_ROLE_MLP, SP_GROUP_EXPERTS, 3},
        {"layers.3.mlp.experts.down_proj.weight", SP_ROLE_MLP, SP_GROUP_EXPERTS_DOWN, 3},
        {"layers.3.mlp.router.weight", SP_ROLE_ROUTER, SP_GROUP_OTHER, SP_NO_LAYER},
        {"layers.3.input_layernorm.weight", SP_ROLE_NORM, SP_GROUP_OTHER, SP_NO_LAYER},
        {"fc.weight", SP_ROLE_FEATURE, SP_GROUP_OTHER, SP_NO_LAYER},
    };
    enum sp_group_kind kind;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_tensor_group g = sp_tensor_group_of(cases[i].name, cases[i].role);
        assert_int_equal(g.kind, cases[i].kind);
        assert_int_equal(g.layer, cases[i].layer);
        assert_true(sp_group_kind_find(&kind, sp_group_kind_name(g.kind)));
        assert_int_equal(kind, g.kind);
    }
    assert_false(sp_group_kind_find(&kind, "mlp"));
}

static enum sp_status read_record(struct sp_sensitivities *out, const char *text,
                                  struct sp_err *err)
{
    struct sp_json *record = keep_parsed(text, strlen(text), SP_JSON_STRICT);
    return sp_sensitivities_read(out, record, err);
}

TEST(test_malformed_sensitivities)
{
    static const char *const cases[][2] = {
        {"{\"sensitivity\":{}}", "sensitivity is not an array"},
        {"{\"sensitivity\":[{\"group\":\"mlp\",\"kl_per_error\":1}]}",
         "sensitivity[0]: group is \"mlp\", expected a group of matrices"},
        {"{\"sensitivity\":[7]}", "sensitivity[0]: group is \"\", expected a group of matrices"},
        {"{\"sensitivity\":[{\"group\":\"output\"}]}",
         "sensitivity[0]: kl_per_error of output is missing"},
        {"{\"sensitivity\":[{\"group\":\"output\",\"kl_per_error\":-1}]}",
         "sensitivity[0]: kl_per_error is -1, expected a number 0..1e+12"},
        {"{\"sensitivity\":[{\"group\":\"down\",\"layer\":1,\"kl_per_error\":1},"
         "{\"group\":\"down\",\"layer\":1,\"kl_per_error\":2}]}",
         "sensitivity: group down of layer 1 occurs twice"},
    };
    struct sp_sensitivities s;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fails_as(read_record(&s, cases[i][0], why), SP_E_INPUT, cases[i][1]);
        assert_int_equal(s.n, 0);
    }
    assert_ok(read_record(&s, "{\"block\":256}", NULL));
    assert_null(sp_sensitivities_find(&s, (struct sp_tensor_group){SP_GROUP_DOWN, 0}));
    sp_sensitivities_release(&s);
}

/* The table of the tiny target in q4, or with a tensor of every type; its predicted divergence. */
static char *print_table(const char *record, bool every_type, double *kl)
{
    struct sp_policy_request request = {.type = SP_Q4};
    struct sp_sensitivities s;
    struct sp_source source;
    struct sp_plan plan = {0};
    char *text = NULL;

    assert_ok(read_record(&s, record, NULL));
    assert_ok(sp_source_open(&source, TINY "/target", SP_PART_TARGET, NULL, NULL));
    assert_ok(sp_plan_add(&plan, &source, SP_PART_TARGET, &request, NULL, false, NULL));
    for (uint32_t i = 0, d = 1; every_type && d < SP_N_PACKED_DTYPES; d++)
        if (sp_dtype_is_packed(d)) plan.items[i++].to = d;
    assert_ok(sp_plan_groups_print(&text, &plan, &s, NULL));
    assert_ok(sp_plan_groups_predict(kl, &plan, &s, NULL));
    sp_plan_release(&plan);
    sp_source_release(&source);
    sp_sensitivities_release(&s);
    return text;
}

/* Layers 0 to 5 have equal sizes and types; 2.5 times 0.06 squared is 0.009. */
TEST(test_table)
{
    double kl;
    char *text = print_table("{\"sensitivity\":["
                             "{\"group\":\"down\",\"layer\":1,\"kl_per_error\":2},"
                             "{\"group\":\"down\",\"layer\":0,\"kl_per_error\":0.5},"
                             "{\"group\":\"down\",\"layer\":2,\"kl_per_error\":0},"
                             "{\"group\":\"down\",\"layer\":3,\"kl_per_error\":0},"
                             "{\"group\":\"down\",\"layer\":4,\"kl_per_error\":0},"
                             "{\"group\":\"down\",\"layer\":5,\"kl_per_error\":0}]}",
                             false, &kl);

    assert_string_equal(
        text, "part    group         layers        bytes   bits         KL  types\n"
              "target  embedding     -            326400   8.50    unknown  q8\n"
              "target  attention     0-5          258048   4.67    unknown  q4\n"
              "target  key-value     0-5          156672   8.50    unknown  q8\n"
              "target  feed-forward  0-5          688128   4.67    unknown  q4\n"
              "target  down          0-5          336384   4.56   0.009000  q4\n"
              "target  other         -              6528  16.00   0.000000  bf16\n"
              "target  all                       1772160   5.31    unknown  bf16, q8, q4");
    assert_true(isnan(kl));
    free(text);
}

/* As a file of mixed types has them. */
TEST(test_a_line_of_every_type)
{
    double kl;
    char *text = print_table("{\"sensitivity\":[]}", true, &kl), names[512] = "";

    for (uint32_t d = 1; d < SP_N_PACKED_DTYPES; d++)
        if (sp_dtype_is_packed(d))
            sprintf(names + strlen(names), "%s%s", *names ? ", " : "", sp_dtype_info(d)->name);
    assert_non_null(strstr(text, names));
    free(text);
}

/* All groups: 0.5 a layer, and 1 for the embedding, which is q8 as keys and values are. */
TEST(test_prediction)
{
    static const char *const kinds[] = {"attention", "key-value", "feed-forward", "down"};
    char record[4096] = "{\"sensitivity\":[{\"group\":\"embedding\",\"kl_per_error\":1}";
    double kl, expected = 0.0054 * 0.0054 + 6 * 0.5 * (3 * 0.06 * 0.06 + 0.0054 * 0.0054);

    for (int layer = 0; layer < 6; layer++) {
        for (int k = 0; k < 4; k++) {
            snprintf(record + strlen(record), sizeof record - strlen(record),
                     ",{\"group\":\"%s\",\"layer\":%d,\"kl_per_error\":0.5}", kinds[k], layer);
        }
    }
    strcat(record, "]}");
    free(print_table(record, false, &kl));
    assert_true(fabs(kl - expected) < 1e-9);
}
