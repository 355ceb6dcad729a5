/* Ranking many numbers: what decides which tokens a truncated distribution keeps. */
#ifndef SP_RUNTIME_SAMPLING_TOP_N_H
#define SP_RUNTIME_SAMPLING_TOP_N_H

#include <stddef.h>
#include <stdint.h>

struct sp_top_n {
    uint64_t key;
    uint32_t at; /* what is ranked: an index of the caller's */
};

/* Ascending key; equal keys keep their order. `spare` has room for n as well. Linear in n: a
 * vocabulary takes a millisecond or two where comparisons would take thirty. */
void sp_top_n_sort(struct sp_top_n *ranks, struct sp_top_n *spare, size_t n);

#endif
