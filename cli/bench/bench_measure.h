/* Measures prompt processing, forward passes, and generation with and without a draft. */
#ifndef SP_CLI_BENCH_BENCH_MEASURE_H
#define SP_CLI_BENCH_BENCH_MEASURE_H

#include "cli/bench/bench.h"

/* Fills *bench, except its names, with measurements of a package. SP_E_CHECK if the tokens with
 * and without drafting differ. sp_bench_release must be called in any case. */
SP_MUST_CHECK enum sp_status sp_bench_measure(struct sp_bench *bench, struct sp_package *package,
                                              const struct sp_bench_options *options,
                                              struct sp_err *err);

#endif
