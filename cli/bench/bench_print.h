/* Prints the figures as tables or as JSON. */
#ifndef SP_CLI_BENCH_BENCH_PRINT_H
#define SP_CLI_BENCH_BENCH_PRINT_H

#include "cli/bench/bench.h"

SP_MUST_CHECK enum sp_status sp_bench_print_table(const struct sp_bench *bench, struct sp_err *err);
void sp_bench_print_json(const struct sp_bench *bench);

#endif
