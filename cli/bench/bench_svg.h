/* The figures as a chart. */
#ifndef SP_CLI_BENCH_BENCH_SVG_H
#define SP_CLI_BENCH_BENCH_SVG_H

#include "cli/bench/bench.h"

/* Can a chart be written there? An existing chart is replaced, no other file. */
SP_MUST_CHECK enum sp_status sp_bench_check_svg(const char *path, struct sp_err *err);
/* A chart: cost by rows, and plain beside drafted. */
SP_MUST_CHECK enum sp_status sp_bench_write_svg(const struct sp_bench *bench, const char *path,
                                                struct sp_err *err);

#endif
