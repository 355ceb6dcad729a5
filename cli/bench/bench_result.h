/* Reads results of `spectool bench --json`, to compare them. */
#ifndef SP_CLI_BENCH_BENCH_RESULT_H
#define SP_CLI_BENCH_BENCH_RESULT_H

#include "cli/bench/bench.h"
#include "format/base/json.h"

/* The figures of a file. Of the bench, only names, numbers of tokens, times of passes and rates
 * are set. */
struct sp_bench_result {
    const char *path;                /* borrowed */
    struct sp_json *json;            /* owned; the bench borrows its names */
    struct sp_bench_options options; /* of the bench */
    struct sp_bench bench;
};

/* Reads a file. SP_E_INPUT names what is missing or not as bench writes it. The caller calls
 * sp_bench_result_release also on failure. */
SP_MUST_CHECK enum sp_status sp_bench_result_read(struct sp_bench_result *result, const char *path,
                                                  struct sp_err *err);
/* sp_bench_result_read for a text in memory. */
SP_MUST_CHECK enum sp_status sp_bench_result_parse(struct sp_bench_result *result, const char *text,
                                                   size_t size, struct sp_err *err);
void sp_bench_result_release(struct sp_bench_result *result);

#endif
