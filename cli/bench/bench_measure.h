/* Measuring: prompt processing, forward passes, and generation with and without a draft. */
#ifndef SP_CLI_BENCH_BENCH_MEASURE_H
#define SP_CLI_BENCH_BENCH_MEASURE_H

#include "cli/bench/bench.h"

/* Fills *bench, apart from its names, from a package. SP_E_CHECK when plain and drafted tokens
 * differ. Release in any case. */
SP_MUST_CHECK enum sp_status sp_bench_measure(struct sp_bench *bench, struct sp_package *package,
                                              const struct sp_bench_options *options,
                                              struct sp_err *err);

#endif
