#include "runtime/sampling/logit_transforms.h"

#include <string.h>

enum { BITS = 8, N_DIGITS = 64 / BITS, N_VALUES = 1 << BITS };

static size_t digit_of(uint64_t key, size_t digit)
{
    return key >> (BITS * digit) & (N_VALUES - 1);
}

/* Radix sort from the least significant digit, each pass in the order of the last. A digit that is
 * equal in all keys is skipped. */
void sp_top_n_sort(struct sp_top_n *ranks, struct sp_top_n *spare, size_t n)
{
    size_t counts[N_DIGITS][N_VALUES] = {{0}};
    struct sp_top_n *from = ranks, *to = spare;

    for (size_t i = 0; i < n; i++)
        for (size_t digit = 0; digit < N_DIGITS; digit++)
            counts[digit][digit_of(ranks[i].key, digit)]++;
    for (size_t digit = 0; digit < N_DIGITS && n > 0; digit++) {
        struct sp_top_n *swap = from;
        if (counts[digit][digit_of(from[0].key, digit)] == n) continue;
        for (size_t i = 0, begin = 0; i < N_VALUES; i++) { /* counts become where each begins */
            size_t count = counts[digit][i];
            counts[digit][i] = begin;
            begin += count;
        }
        for (size_t i = 0; i < n; i++)
            to[counts[digit][digit_of(from[i].key, digit)]++] = from[i];
        from = to;
        to = swap;
    }
    if (from != ranks) memcpy(ranks, from, n * sizeof *ranks);
}
