/* The memory that the caches of all sequences of a package, or of several packages, may hold
 * together. spectool.h declares the functions that make one for several packages. */
#ifndef SP_RUNTIME_BACKEND_CACHE_BUDGET_H
#define SP_RUNTIME_BACKEND_CACHE_BUDGET_H

#include "runtime/spectool.h"

#include <stdatomic.h>
#include <stddef.h>

struct sp_cache_budget {
    size_t limit;         /* bytes; 0: the memory that is free when a cache grows */
    atomic_size_t mapped; /* bytes of mapped weights, which stay in memory beside the caches; they
                             count as free memory until they are read */
    atomic_size_t used;   /* bytes that the caches hold */
    bool (*reclaim)(void *context); /* as in struct sp_cache_budget_options */
    void *context;
};

/* Takes `size` bytes for caches of n_positions. SP_E_NOMEM if there are not as many; the message
 * states the numbers. [any thread] */
SP_MUST_CHECK enum sp_status sp_cache_budget_take(struct sp_cache_budget *budget, size_t size,
                                                  size_t n_positions, struct sp_err *err);
void sp_cache_budget_give(struct sp_cache_budget *budget, size_t size);

#endif
