/* The parts of `spectool bench`: measuring, and showing what was measured as table, JSON, chart. */
#ifndef SP_CLI_BENCH_H
#define SP_CLI_BENCH_H

#include "cli/bandwidth.h"
#include "cli/engine_opts.h"
#include "cli/ids.h"

enum {
    SP_BENCH_ROW_COUNTS = 6,
    SP_BENCH_MAX_DEPTHS = 16,
    SP_BENCH_MAX_PROMPTS = 32,
    SP_BENCH_MAX_ROWS = 16,
};
extern const size_t sp_bench_row_counts[SP_BENCH_ROW_COUNTS]; /* ascending, from 1 */

struct sp_bench_options {
    struct sp_opt_list prompts; /* texts of ids; empty: built-in prompts */
    const char *depths;         /* text of ids; NULL: built-in depths, those that fit */
    size_t n_predict, n_repeat;
    double acceptance; /* to be simulated; negative: the draft's own */
    struct sp_engine_opts engine;
};

/* Passes behind n_before tokens. */
struct sp_bench_depth {
    size_t n_before;
    uint64_t read_size;                         /* bytes that one row must read */
    double verify_seconds[SP_BENCH_ROW_COUNTS]; /* a pass, with all rows' logits */
    double draft_seconds[SP_BENCH_ROW_COUNTS];  /* a proposal of one guess less; 0: none */
    double bandwidth[SP_BENCH_ROW_COUNTS];      /* of the machine meanwhile, bytes a second */
};

/* The same prompt, plain and drafted. */
struct sp_bench_prompt {
    struct sp_ids ids; /* owned */
    size_t n_generated;
    double plain_rate, draft_rate; /* tokens a second behind the first; draft_rate 0: no draft */
    double acceptance, per_pass;   /* of all runs: accepted / drafted; tokens a target pass */
    uint64_t read_size;            /* bytes of a plain step, on average */
    double bandwidth;
};

struct sp_bench {
    const struct sp_bench_options *options;
    const char *name, *synthetic; /* what was measured; its shape, or NULL: a file as it is */
    struct sp_package_info info;
    size_t n_prefill;
    double prefill_seconds, prefill_bandwidth;
    struct sp_bench_depth depths[SP_BENCH_MAX_DEPTHS]; /* ascending */
    size_t n_depths;
    struct sp_bench_prompt prompts[SP_BENCH_MAX_PROMPTS];
    size_t n_prompts;
};

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
double sp_bench_speed_up(const struct sp_bench_prompt *prompt);

SP_MUST_CHECK enum sp_status sp_bench_print_table(const struct sp_bench *bench, struct sp_err *err);
void sp_bench_print_json(const struct sp_bench *bench);
/* A chart: cost by rows, and plain beside drafted. An existing file is replaced. */
SP_MUST_CHECK enum sp_status sp_bench_write_svg(const struct sp_bench *bench, const char *path,
                                                struct sp_err *err);

#endif
