/* Compares results of bench: a table or JSON with the ratios of each row, and a chart. */
#ifndef SP_CLI_BENCH_BENCH_COMPARE_H
#define SP_CLI_BENCH_BENCH_COMPARE_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { SP_BENCH_MAX_RESULTS = 8 };

/* Reads the files, at most SP_BENCH_MAX_RESULTS, and prints the figures of all and the speed of
 * each in relation to the first; `svg`: path of a chart, or NULL. SP_E_INPUT if a file lacks a row
 * that another one has. */
SP_MUST_CHECK enum sp_status sp_bench_compare(char *const *paths, size_t n, bool json,
                                              const char *svg, struct sp_err *err);

#endif
