/* Sorting of many keys, for choosing the tokens that a truncated distribution keeps. */
#ifndef SP_RUNTIME_SAMPLING_TOP_N_H
#define SP_RUNTIME_SAMPLING_TOP_N_H

#include <stddef.h>
#include <stdint.h>

struct sp_top_n {
    uint64_t key;
    uint32_t at; /* index of the ranked element in the caller's array */
};

/* Sorts by ascending key; equal keys keep their order. `spare` holds n elements of scratch. Linear
 * in n: a whole vocabulary takes one or two milliseconds, a comparison sort about thirty. */
void sp_top_n_sort(struct sp_top_n *ranks, struct sp_top_n *spare, size_t n);

#endif
