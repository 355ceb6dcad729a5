/* Compares several draft lengths. */
#ifndef SP_CLI_BENCH_BENCH_DRAFT_LENS_H
#define SP_CLI_BENCH_BENCH_DRAFT_LENS_H

#include "cli/bench/bench.h"
#include "cli/base/out.h"

/* Returns the totals of all prompts: the rate is that of all tokens in the time of the median
 * runs. */
struct sp_bench_prompt sp_bench_all_prompts(const struct sp_bench *bench);
/* Returns the index of the fastest fixed draft length, or SP_BENCH_PLAIN if none is faster than no
 * drafting. The automatic length is not considered; it is compared with the best fixed one. */
size_t sp_bench_best_draft_len(const struct sp_bench *bench, const struct sp_bench_prompt *prompt);

/* The table of a comparison: one with headings alone, and the rows of the prompt with an index, or
 * of all prompts for bench->n_prompts. */
struct sp_table sp_bench_draft_lens_table(const struct sp_bench *bench, struct sp_err *err);
void sp_bench_add_draft_lens(struct sp_table *table, const struct sp_bench *bench, size_t prompt);
/* Prints which draft length to use. */
void sp_bench_print_advice(const struct sp_bench *bench);

#endif
