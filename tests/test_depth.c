/* The depth controller on simulated clocks: in every regime it comes close to the best fixed depth,
 * and is never much slower than not drafting. */
#include "runtime/depth.h"

#include "runtime/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdint.h>

enum { MAX = 15, ROUNDS = 4000, FIXED = -1 };

/* Costs in units of a plain step; acceptance of each guess. */
struct regime {
    const char *name;
    double per_row;   /* each row beyond the first */
    double draft;     /* a proposal, whatever its length */
    double per_guess; /* each guess of it */
    double accept;    /* of the first guess */
    double fade;      /* factor from guess to guess */
    double change;    /* acceptance after half of the rounds; < 0: the same */
};

static double uniform(uint64_t *state)
{
    return sp_rng_uniform(42, (*state)++);
}

/* Tokens a second over the simulated run; depth FIXED: the controller chooses. */
static double simulate(const struct regime *r, int depth)
{
    struct sp_depth d = {.max = MAX};
    uint64_t random = 0;
    double tokens = 0, seconds = 0;

    for (int round = 0; round < ROUNDS; round++) {
        double p = round > ROUNDS / 2 && r->change >= 0 ? r->change : r->accept;
        size_t n = depth == FIXED ? sp_depth_choose(&d, MAX) : (size_t)depth, accepted = 0;
        double noise = .9 + .2 * uniform(&random);
        double draft = n ? (r->draft + r->per_guess * (double)n) * noise : 0;
        double verify = (1 + r->per_row * (double)n) * noise;
        while (accepted < n && uniform(&random) < p) {
            accepted++;
            p *= r->fade;
        }
        sp_depth_record(&d, n, accepted, draft, verify);
        tokens += (double)accepted + 1;
        seconds += draft + verify;
    }
    return tokens / seconds;
}

static void check(const struct regime *r)
{
    double chosen = simulate(r, FIXED), plain = simulate(r, 0), best = plain;

    for (int n = 1; n <= MAX; n++) {
        double rate = simulate(r, n);
        if (rate > best) best = rate;
    }
    if (chosen < .95 * best) fail_msg("%s: %.3f of the best fixed depth", r->name, chosen / best);
    if (chosen < .97 * plain) fail_msg("%s: %.3f of plain", r->name, chosen / plain);
}

static void regimes(void **state)
{
    static const struct regime all[] = {
        {"block draft, good", .05, .2, .005, .85, .97, -1},
        {"block draft, perfect", .05, .2, .005, 1, 1, -1},
        {"block draft, poor", .05, .3, .005, .3, .9, -1},
        {"block draft, useless", .05, .3, .005, .02, .5, -1},
        {"dear rows", .5, .1, 0, .8, .95, -1},
        {"free rows", 0, .1, 0, .7, .95, -1},
        {"dear draft", .05, 3, 0, .6, .95, -1},
        {"one guess at a time, cheap", .06, 0, .05, .8, 1, -1},
        {"one guess at a time, dear", .06, 0, .6, .8, 1, -1},
        {"one guess at a time, useless", .06, 0, .3, .05, 1, -1},
        {"becomes useless", .05, .2, .005, .9, .97, .02},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(&all[i]);
}

/* Drafting that did not pay is tried again: when the text becomes easy, it is noticed. */
static void notices_easy_text(void **state)
{
    static const struct regime r = {"becomes easy", .05, .3, .005, .02, 1, .9};

    (void)state;
    assert_true(simulate(&r, FIXED) > 1.4 * simulate(&r, 0));
}

static void limits(void **state)
{
    struct sp_depth d = {.max = 7};

    (void)state;
    assert_int_equal(sp_depth_choose(&d, 0), 0);
    assert_int_equal(sp_depth_choose(&d, 3), 3); /* nothing is known yet */
    assert_int_equal(sp_depth_choose(&d, 30), 7);
    sp_depth_record(&d, 4, 4, .1, 2);
    assert_true(sp_depth_choose(&d, 2) <= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regimes),
        cmocka_unit_test(notices_easy_text),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
