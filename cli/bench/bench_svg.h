/* Writes the figures as a chart. */
#ifndef SP_CLI_BENCH_BENCH_SVG_H
#define SP_CLI_BENCH_BENCH_SVG_H

#include "cli/bench/bench.h"

/* Checks that a chart can be written to the path. An existing chart may be replaced, any other
 * file may not. */
SP_MUST_CHECK enum sp_status sp_bench_check_svg(const char *path, struct sp_err *err);

/* Writes the chart: the cost of passes by rows, and rates with and without drafting. */
SP_MUST_CHECK enum sp_status sp_bench_write_svg(const struct sp_bench *bench, const char *path,
                                                struct sp_err *err);

#endif
