/* A fixed set of threads that run one indexed job at a time.
 *
 * A run hands out items 0..n_items-1 to idle threads; which thread runs an item must not change any
 * result. The calling thread works too (as worker 0). A waiting worker spins a bounded time (tens
 * of microseconds) and then sleeps, so a busy neighbor or an idle session costs nothing. */
#ifndef SP_FORMAT_BASE_POOL_H
#define SP_FORMAT_BASE_POOL_H

#include "format/base/err.h"

#include <stddef.h>

struct sp_pool;

typedef void sp_pool_fn(void *context, size_t item, unsigned worker);

/* n_threads 0: as many as this process may run on. At most SP_POOL_MAX. */
enum { SP_POOL_MAX = 256 };
SP_MUST_CHECK enum sp_status sp_pool_open(struct sp_pool **out, unsigned n_threads,
                                          struct sp_err *err);
void sp_pool_close(struct sp_pool *pool); /* NULL is fine */

unsigned sp_pool_n_threads(const struct sp_pool *pool);

/* Returns when every item has run. Not reentrant: one caller at a time, never from inside a job. */
void sp_pool_run(struct sp_pool *pool, size_t n_items, sp_pool_fn *fn, void *context);

typedef void sp_pool_range_fn(void *context, size_t first, size_t n, unsigned worker);

/* Runs many small items: they are handed out in ranges first..first+n-1, each a share of the
 * remaining ones, so that few ranges are claimed and all threads still finish together; the last
 * ranges have about `least` items. The division into ranges must not change any result. */
void sp_pool_run_ranges(struct sp_pool *pool, size_t n_items, size_t least, sp_pool_range_fn *fn,
                        void *context);

#endif
