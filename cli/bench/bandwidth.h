/* Measures the read bandwidth of the memory with as many threads as generation uses, to compare
 * the figures of bench with. The bandwidth of a machine changes within minutes, so it is sampled
 * next to each figure. */
#ifndef SP_CLI_BENCH_BANDWIDTH_H
#define SP_CLI_BENCH_BANDWIDTH_H

#include "format/base/err.h"

#include <stdint.h>

struct sp_bandwidth; /* a buffer and the threads that read it */

/* Opens a buffer that is larger than the CPU caches or, if that is less, four times read_size, the
 * bytes that a pass reads: a small model is read from the caches itself. */
SP_MUST_CHECK enum sp_status sp_bandwidth_open(struct sp_bandwidth **out, unsigned n_threads,
                                               uint64_t read_size, struct sp_err *err);
void sp_bandwidth_close(struct sp_bandwidth *bandwidth); /* accepts NULL */

/* Returns bytes per second: the best of three reads of the buffer, or of fewer if they take long.
 */
double sp_bandwidth_sample(struct sp_bandwidth *bandwidth);

#endif
