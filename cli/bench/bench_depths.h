/* The comparison of several draft lengths. */
#ifndef SP_CLI_BENCH_BENCH_DEPTHS_H
#define SP_CLI_BENCH_BENCH_DEPTHS_H

#include "cli/bench/bench.h"

/* The sum of all prompts: their tokens in the time that their median runs would take. */
struct sp_bench_prompt sp_bench_all_prompts(const struct sp_bench *bench);
/* The number of the fastest fixed draft length, or SP_BENCH_PLAIN where none is faster than plain
 * generation. Automatic lengths do not compete: they are compared with the best fixed one. */
size_t sp_bench_best_depth(const struct sp_bench *bench, const struct sp_bench_prompt *prompt);

/* Prints the comparison as a table for each prompt, and which length is the fastest. */
SP_MUST_CHECK enum sp_status sp_bench_print_draft_depths(const struct sp_bench *bench,
                                                         struct sp_err *err);

#endif
