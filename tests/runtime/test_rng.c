/* Tests Philox against the known answers of Random123, and the independence of keys. */
#include "runtime/vector/rng.h"
#include "tests/support/unit_test.h"

TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        sp_philox(out, cases[i].counter, cases[i].key);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

/* Seed, position and purpose each change the key. */
TEST(keys_differ)
{
    uint64_t key = sp_rng_key(7, 9, SP_PURPOSE_TOKEN);

    assert_int_equal(key, sp_rng_key(7, 9, SP_PURPOSE_TOKEN));
    assert_int_not_equal(key, sp_rng_key(8, 9, SP_PURPOSE_TOKEN));
    assert_int_not_equal(key, sp_rng_key(7, 10, SP_PURPOSE_TOKEN));
    assert_int_not_equal(key, sp_rng_key(7, 9, SP_PURPOSE_ACCEPT));
    assert_int_not_equal(key, sp_rng_key(7 | UINT64_C(1) << 40, 9, SP_PURPOSE_TOKEN));
    assert_int_not_equal(key, sp_rng_key(7, 9 | UINT64_C(1) << 40, SP_PURPOSE_TOKEN));
}

/* 10^6 numbers over 1000 positions in 100 cells: chi-square with 99 degrees of freedom exceeds 180
 * with a probability below 10^-6. */
TEST(uniform_cells)
{
    double counts[100] = {0}, chi = 0;

    for (uint64_t pos = 0; pos < 1000; pos++) {
        uint64_t key = sp_rng_key(1, pos, SP_PURPOSE_TOKEN);
        for (uint64_t i = 0; i < 1000; i++) {
            double u = sp_rng_uniform(key, i);
            assert_true(u > 0 && u < 1);
            counts[(size_t)(u * 100)]++;
        }
    }
    for (size_t i = 0; i < 100; i++)
        chi += (counts[i] - 1e4) * (counts[i] - 1e4) / 1e4;
    assert_true(chi < 180);
    assert_true(chi > 40);
}
