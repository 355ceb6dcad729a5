/* Ranks on one machine: child processes that exchange messages with rank 0 through shared memory.
 *
 * On a machine with several NUMA nodes each rank runs on the processors of its own nodes, and so
 * touches the weights of its part, and its buffers, in memory of these nodes. */
#ifndef SP_RUNTIME_RANKS_FORKED_RANKS_H
#define SP_RUNTIME_RANKS_FORKED_RANKS_H

#include "runtime/ranks/transport.h"

enum { SP_RANKS_MAX = 64 };

/* What a child does with its end of the transport: it returns when `next` has returned NULL, or
 * with a failure, whose sentence rank 0 receives. */
typedef enum sp_status sp_rank_fn(struct sp_transport *transport, void *context,
                                  struct sp_err *err);

/* Starts ranks 1..n_ranks-1, n_ranks >= 2; each runs fn and ends. Children share the memory and the
 * mappings of the caller as they are now, and have no other file than stderr. They ignore SIGINT,
 * SIGTERM and SIGHUP, and end with their parent. The transport is owned by the caller until
 * ops->close. SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_ranks_fork(struct sp_transport **out, unsigned n_ranks,
                                           sp_rank_fn *fn, void *context, struct sp_err *err);

/* The number of NUMA nodes whose processors this process may use; at least 1. */
unsigned sp_numa_nodes(void);

/* Threads that a rank has by default: the processors of its nodes, divided among their ranks. */
unsigned sp_rank_threads(unsigned rank, unsigned n_ranks);

/* Binds the calling thread, and those that it starts, to a rank's nodes, if there are several. */
void sp_rank_bind(unsigned rank, unsigned n_ranks);

#endif
