/* The processors of a rank: nodes are dealt to ranks in order, so that ranks that share a node, or
 * nodes that share a rank, are neighbours. */
#include "format/system/cpus.h"
#include "runtime/ranks/forked_ranks.h"

#include <numa.h>

/* The usable nodes, in order. The mask is owned by libnuma. */
static unsigned usable_nodes(unsigned nodes[SP_RANKS_MAX])
{
    unsigned n = 0;

    if (numa_available() < 0) return 0;
    for (unsigned i = 0; i <= (unsigned)numa_max_node() && n < SP_RANKS_MAX; i++)
        if (numa_bitmask_isbitset(numa_all_nodes_ptr, i)) nodes[n++] = i;
    return n;
}

unsigned sp_numa_nodes(void)
{
    unsigned nodes[SP_RANKS_MAX], n = usable_nodes(nodes);

    return n ? n : 1;
}

unsigned sp_rank_threads(unsigned rank, unsigned n_ranks)
{
    unsigned n = sp_usable_cpus(), first = n * rank / n_ranks, last = n * (rank + 1) / n_ranks;

    return last > first ? last - first : 1;
}

void sp_rank_bind(unsigned rank, unsigned n_ranks)
{
    unsigned nodes[SP_RANKS_MAX], n = usable_nodes(nodes);
    unsigned first = n * rank / n_ranks, last = n * (rank + 1) / n_ranks;
    struct bitmask *mask;

    if (n < 2 || (mask = numa_allocate_nodemask()) == NULL) return;
    if (last == first) last = first + 1;
    for (unsigned i = first; i < last; i++)
        numa_bitmask_setbit(mask, nodes[i]);
    /* A processor set that forbids it leaves the rank where it is, which is slower but right. */
    if (numa_run_on_node_mask(mask) == 0) numa_set_localalloc();
    numa_bitmask_free(mask);
}
