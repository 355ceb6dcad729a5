#include "runtime/model/cache_budget.h"

#include "format/base/free_memory.h"

static double megabytes(size_t size)
{
    return (double)size / 1e6;
}

static enum sp_status refuse(struct sp_err *err, size_t n_positions, size_t size, size_t left,
                             const char *which)
{
    return sp_fail(err, SP_E_NOMEM,
                   "out of memory: KV caches for %zu tokens need %.1f MB more, and %.1f MB of %s "
                   "are left (--num-ctx, --memory and --kv-type bound them)",
                   n_positions, megabytes(size), megabytes(left), which);
}

/* Free memory without what the weights will use. Weights that do not fit into memory are read from
 * the disk again and again: the caches may then use an eighth. */
static size_t free_beside_weights(const struct sp_cache_budget *budget)
{
    uint64_t all = sp_free_memory(), least = all / 8;
    uint64_t left = all > budget->mapped ? all - budget->mapped : 0;

    if (left < least) left = least;
    return left < SIZE_MAX ? (size_t)left : SIZE_MAX;
}

enum sp_status sp_cache_budget_take(struct sp_cache_budget *budget, size_t size, size_t n_positions,
                                    struct sp_err *err)
{
    size_t before = atomic_fetch_add(&budget->used, size), left;

    if (budget->limit) {
        left = budget->limit > before ? budget->limit - before : 0;
    } else {
        left = free_beside_weights(budget);
    }
    if (size <= left) return SP_OK;
    sp_cache_budget_give(budget, size);
    return refuse(err, n_positions, size, left, budget->limit ? "--memory" : "free memory");
}

void sp_cache_budget_give(struct sp_cache_budget *budget, size_t size)
{
    atomic_fetch_sub(&budget->used, size);
}
