/* Ranks on systems whose semaphores are not shared between processes, and without libnuma. */
#include "format/system/cpus.h"
#include "runtime/ranks/forked_ranks.h"

enum sp_status sp_ranks_fork(struct sp_transport **out, unsigned n_ranks, sp_rank_fn *fn,
                             void *context, struct sp_err *err)
{
    (void)out;
    (void)fn;
    (void)context;
    return sp_fail(err, SP_E_UNSUPPORTED, "%u ranks: this system has no ranks, only Linux",
                   n_ranks);
}

unsigned sp_numa_nodes(void)
{
    return 1;
}

unsigned sp_rank_threads(unsigned rank, unsigned n_ranks)
{
    (void)rank;
    (void)n_ranks;
    return sp_usable_cpus();
}

void sp_rank_bind(unsigned rank, unsigned n_ranks)
{
    (void)rank;
    (void)n_ranks;
}
