/* How fast memory can be read right now, by as many threads as decode uses: what a figure of bench
 * is held against. A machine's bandwidth changes by the minute, so it is sampled beside each. */
#ifndef SP_CLI_BENCH_BANDWIDTH_H
#define SP_CLI_BENCH_BANDWIDTH_H

#include "format/base/err.h"

#include <stdint.h>

struct sp_bandwidth; /* a buffer, and threads that read it */

/* The buffer is larger than the caches, or, where that is less, four times what a pass reads
 * (read_size, in bytes): a model that small lies in the caches itself. */
SP_MUST_CHECK enum sp_status sp_bandwidth_open(struct sp_bandwidth **out, unsigned n_threads,
                                               uint64_t read_size, struct sp_err *err);
void sp_bandwidth_close(struct sp_bandwidth *bandwidth); /* NULL is fine */

/* Bytes per second: the best of three reads of the buffer, fewer where they take long. */
double sp_bandwidth_sample(struct sp_bandwidth *bandwidth);

#endif
