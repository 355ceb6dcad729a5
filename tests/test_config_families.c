/* format/config.h: families beyond those of test_config.c. Every expected number is read by hand
 * from a config.json, or from the family's configuration class in transformers 5.23. */
#include "format/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/configs.h"

static void granite(void **state)
{
    struct sp_config c;

    (void)state;
    configs_own(&c, "granite_3_1", NULL);
    configs_assert_near(c.attention_scale, 0.015625); /* in place of 16^-1/2 */
    configs_assert_near(c.embedding_scale, 12);
    configs_assert_near(c.residual_scale, 0.22);
    configs_assert_near(c.logit_scale, 0.125); /* logits_scaling divides */
    configs_assert_near(c.ropes[0].theta, 5e6);
    assert_true(c.tied && !c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.post_norms);
    sp_config_release(&c);

    configs_own(&c, "granite_sparse", NULL);
    configs_assert_near(c.attention_scale, 1);
    configs_assert_near(c.embedding_scale, 1);
    configs_assert_near(c.residual_scale, 1);
    configs_assert_near(c.logit_scale, 1);
    configs_assert_near(c.norm_eps, 1e-6);
    configs_assert_near(c.ropes[0].theta, 1e4);
    assert_int_equal(c.layers[0].n_kv_heads, 32);
    assert_false(c.tied);
    sp_config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(granite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
