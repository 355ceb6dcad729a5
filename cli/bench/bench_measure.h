/* Measuring: prompt processing, forward passes, and generation with and without a draft. */
#ifndef SP_CLI_BENCH_BENCH_MEASURE_H
#define SP_CLI_BENCH_BENCH_MEASURE_H

#include "cli/bench/bench.h"

/* Fills *bench, apart from its names, from a package. SP_E_CHECK when plain and drafted tokens
 * differ. Release in any case. */
SP_MUST_CHECK enum sp_status sp_bench_measure(struct sp_bench *bench, struct sp_package *package,
                                              const struct sp_bench_options *options,
                                              struct sp_err *err);
void sp_bench_release(struct sp_bench *bench);

/* Is the drafting in these figures a simulation? */
bool sp_bench_simulated(const struct sp_bench *bench);
double sp_bench_prefill_rate(const struct sp_bench *bench);
/* Share of the bandwidth that a pass of one row used, 0..1 and a little. */
double sp_bench_bus_share(const struct sp_bench_depth *depth);
double sp_bench_plain_share(const struct sp_bench_prompt *prompt);
double sp_bench_speed_up(const struct sp_bench_runs *drafted, const struct sp_bench_runs *plain);
double sp_bench_acceptance(const struct sp_bench_runs *runs);  /* accepted of the drafted, 0..1 */
double sp_bench_per_pass(const struct sp_bench_runs *runs);    /* tokens of a target pass */
double sp_bench_draft_share(const struct sp_bench_runs *runs); /* of the time, 0..1 */

#endif
