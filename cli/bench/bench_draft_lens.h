/* Compares several draft lengths. */
#ifndef SP_CLI_BENCH_BENCH_DRAFT_LENS_H
#define SP_CLI_BENCH_BENCH_DRAFT_LENS_H

#include "cli/bench/bench.h"

/* Returns the totals of all prompts: the rate is that of all tokens in the time of the median
 * runs. */
struct sp_bench_prompt sp_bench_all_prompts(const struct sp_bench *bench);
/* Returns the index of the fastest fixed draft length, or SP_BENCH_PLAIN if none is faster than no
 * drafting. The automatic length is not considered; it is compared with the best fixed one. */
size_t sp_bench_best_draft_len(const struct sp_bench *bench, const struct sp_bench_prompt *prompt);

/* Prints the comparison: a table with the rows of each prompt, and the fastest length. */
SP_MUST_CHECK enum sp_status sp_bench_print_draft_lens(const struct sp_bench *bench,
                                                       struct sp_err *err);

#endif
