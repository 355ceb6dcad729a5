#include "runtime/backend/cache_budget.h"

#include "format/system/free_memory.h"
#include "format/base/mem.h"

#include <stdlib.h>

/* The bytes that are left while the caches hold `used`: without a limit, free memory without what
 * the weights will use. Weights that do not fit into memory are read from the disk again and again:
 * the caches may then use an eighth. */
static size_t left_beside(const struct sp_cache_budget *budget, size_t used)
{
    uint64_t all, mapped, left;

    if (budget->limit) return budget->limit > used ? budget->limit - used : 0;
    all = sp_free_memory();
    mapped = atomic_load(&budget->mapped);
    left = all > mapped ? all - mapped : 0;
    if (left < all / 8) left = all / 8;
    return left < SIZE_MAX ? (size_t)left : SIZE_MAX;
}

/* Takes the bytes if they are left; *left = the bytes that were left before. */
static bool try_take(struct sp_cache_budget *budget, size_t size, size_t *left)
{
    size_t used = atomic_load(&budget->used);

    do {
        *left = left_beside(budget, used);
        if (size > *left) return false;
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + size));
    return true;
}

enum sp_status sp_cache_budget_take(struct sp_cache_budget *budget, size_t size, size_t n_positions,
                                    struct sp_err *err)
{
    bool is_possible = budget->limit == 0 || size <= budget->limit;
    size_t left;

    while (!try_take(budget, size, &left)) {
        if (is_possible && budget->reclaim && budget->reclaim(budget->context)) continue;
        return sp_fail_about(err, SP_E_NOMEM, SP_TOPIC_CACHES,
                             "out of memory: KV caches for %zu tokens need %.1f MB more, and %.1f "
                             "MB of %s are left",
                             n_positions, (double)size / 1e6, (double)left / 1e6,
                             budget->limit ? "the limit" : "free memory");
    }
    return SP_OK;
}

void sp_cache_budget_give(struct sp_cache_budget *budget, size_t size)
{
    atomic_fetch_sub(&budget->used, size);
}

/* ---- a budget of several packages ---- */

enum sp_status sp_cache_budget_new(struct sp_cache_budget **out,
                                   const struct sp_cache_budget_options *options,
                                   struct sp_err *err)
{
    struct sp_cache_budget_options o = {0};
    struct sp_cache_budget *budget = NULL;
    enum sp_status st;

    if ((st = sp_copy_in(&o, sizeof o, options, "sp_cache_budget_options", err))) return st;
    if ((st = sp_new(&budget, 1, sizeof *budget, err))) return st;
    budget->limit = o.limit;
    budget->reclaim = o.reclaim;
    budget->context = o.context;
    *out = budget;
    return SP_OK;
}

void sp_cache_budget_close(struct sp_cache_budget *budget)
{
    free(budget);
}

size_t sp_cache_budget_used(const struct sp_cache_budget *budget)
{
    return atomic_load(&budget->used);
}
