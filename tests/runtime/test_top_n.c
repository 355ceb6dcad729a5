/* Tests the n largest keys against the C library's sort. */
#include "runtime/sampling/logit_transforms.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

enum { MOST = 5000 };

/* Compares by key, and equal keys by position. */
static int compare(const void *a, const void *b)
{
    const struct sp_top_n *x = a, *y = b;

    if (x->key != y->key) return x->key > y->key ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sorts n keys of 64 random bits, masked with `mask`. */
static void assert_sorted(size_t n, uint64_t mask)
{
    static struct sp_top_n ranks[MOST], spare[MOST], want[MOST];
    uint64_t seed = n ^ mask;

    for (size_t i = 0; i < n; i++) {
        uint64_t key = (uint64_t)next(&seed) << 32 | next(&seed);
        want[i] = ranks[i] = (struct sp_top_n){.key = key & mask, .at = (uint32_t)i};
    }
    qsort(want, n, sizeof *want, compare);
    sp_top_n_sort(ranks, spare, n);
    for (size_t i = 0; i < n; i++) {
        if (ranks[i].key == want[i].key && ranks[i].at == want[i].at) continue;
        fail_msg("rank %zu of %zu, mask %llx: key %llx of %u, expected %llx of %u", i, n,
                 (unsigned long long)mask, (unsigned long long)ranks[i].key, (unsigned)ranks[i].at,
                 (unsigned long long)want[i].key, (unsigned)want[i].at);
    }
}

TEST(sorted)
{
    static const size_t sizes[] = {0, 1, 2, 3, 17, 256, MOST};
    static const uint64_t masks[] = {
        UINT64_MAX,         /* all keys differ */
        0,                  /* all keys are equal */
        0xff,               /* one digit: an odd number of moves */
        0xff00000000000000, /* the most significant byte */
        0x0100000000000001, /* few values, of two digits */
        0x7ff0000000000fff, /* like doubles of few magnitudes */
        0x00ff00ff00ff00ff, /* every other digit */
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof masks / sizeof *masks; j++)
            assert_sorted(sizes[i], masks[j]);
}
