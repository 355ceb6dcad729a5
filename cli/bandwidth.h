/* How fast memory can be read right now, by as many threads as decode uses: what a figure of bench
 * is held against. A machine's bandwidth changes by the minute, so it is sampled beside each. */
#ifndef SP_CLI_BANDWIDTH_H
#define SP_CLI_BANDWIDTH_H

#include "format/err.h"

struct sp_bandwidth; /* a buffer larger than the caches, and threads that read it */

SP_MUST_CHECK enum sp_status sp_bandwidth_open(struct sp_bandwidth **out, unsigned n_threads,
                                               struct sp_err *err);
void sp_bandwidth_close(struct sp_bandwidth *bandwidth); /* NULL is fine */

/* Bytes per second: the best of three reads of the buffer, fewer where they take long. */
double sp_bandwidth_sample(struct sp_bandwidth *bandwidth);

#endif
