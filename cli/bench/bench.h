/* The figures of `spectool bench` and what is computed from them. */
#ifndef SP_CLI_BENCH_BENCH_H
#define SP_CLI_BENCH_BENCH_H

#include "cli/bench/bandwidth.h"
#include "cli/base/backend_opts.h"
#include "cli/base/ids.h"

enum {
    SP_BENCH_ROW_COUNTS = 6,
    SP_BENCH_MAX_DEPTHS = 16,
    SP_BENCH_MAX_PROMPTS = 32,
    SP_BENCH_MAX_ROWS = 16,
    SP_BENCH_MAX_DRAFT_DEPTHS = 16,
};
extern const size_t sp_bench_row_counts[SP_BENCH_ROW_COUNTS]; /* ascending, from 1 */

struct sp_bench_options {
    /* Prompts: lists of ids, texts of a user's message, and files with such texts; all three empty:
     * built-in prompts. */
    struct sp_opt_list ids, texts, files;
    const char *depths;       /* text of ids; NULL: built-in depths, those that fit */
    const char *draft_depths; /* "1,2,auto"; NULL: "auto" */
    size_t n_predict, n_repeat;
    double acceptance; /* to be simulated; negative: the draft's own */
    struct sp_backend_opts backend;
};

/* Passes behind n_before tokens. */
struct sp_bench_depth {
    size_t n_before;
    uint64_t read_size;                         /* bytes that one row must read */
    double verify_seconds[SP_BENCH_ROW_COUNTS]; /* a pass, with all rows' logits */
    double draft_seconds[SP_BENCH_ROW_COUNTS];  /* a proposal of one guess less; 0: none */
    double bandwidth[SP_BENCH_ROW_COUNTS];      /* of the machine meanwhile, bytes a second */
};

/* A prompt's runs of one way to generate. Tokens are those behind the first, which is the
 * prompt's. */
struct sp_bench_runs {
    double rate; /* tokens a second; the median run's */
    double slowest, fastest;
    size_t n_tokens, n_passes, drafted, accepted; /* of all runs, as what follows */
    double seconds, draft_seconds;
};

/* The same prompt, plain and drafted. */
struct sp_bench_prompt {
    struct sp_ids ids; /* owned */
    size_t n_generated;
    struct sp_bench_runs plain, drafted[SP_BENCH_MAX_DRAFT_DEPTHS]; /* by draft depth */
    uint64_t read_size; /* bytes of a plain step, on average */
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
    int draft_depths[SP_BENCH_MAX_DRAFT_DEPTHS]; /* ascending, then SP_DRAFT_LENGTH_AUTO */
    size_t n_draft_depths;                       /* 0: no draft; beyond 1: a comparison */
    struct sp_bench_prompt prompts[SP_BENCH_MAX_PROMPTS];
    size_t n_prompts;
};

/* Stands for plain generation where draft_depths are numbered. */
enum { SP_BENCH_PLAIN = SP_BENCH_MAX_DRAFT_DEPTHS };
enum { SP_BENCH_DEPTH_TEXT = 16 };

void sp_bench_release(struct sp_bench *bench);

/* Is the drafting in these figures a simulation? */
bool sp_bench_simulated(const struct sp_bench *bench);
double sp_bench_prefill_rate(const struct sp_bench *bench);
/* The share of the memory bandwidth that a pass of one row used: 0..1, or slightly more. */
double sp_bench_bus_share(const struct sp_bench_depth *depth);
double sp_bench_plain_share(const struct sp_bench_prompt *prompt);
double sp_bench_speed_up(const struct sp_bench_runs *drafted, const struct sp_bench_runs *plain);
double sp_bench_acceptance(const struct sp_bench_runs *runs);  /* accepted of the drafted, 0..1 */
double sp_bench_per_pass(const struct sp_bench_runs *runs);    /* tokens of a target pass */
double sp_bench_draft_share(const struct sp_bench_runs *runs); /* of the time, 0..1 */

/* Reads options->draft_depths into the bench. Depths that the draft cannot reach become the deepest
 * that it can; a note says so. Without a draft, or with 0 alone, there are none. */
SP_MUST_CHECK enum sp_status sp_bench_read_draft_depths(struct sp_bench *bench, struct sp_err *err);

/* The runs of draft length number `which`, or the plain ones for SP_BENCH_PLAIN. */
const struct sp_bench_runs *sp_bench_runs_of(const struct sp_bench_prompt *prompt, size_t which);
/* Writes "4", "auto" or "plain" and returns `text`. */
const char *sp_bench_depth_name(char text[SP_BENCH_DEPTH_TEXT], const struct sp_bench *bench,
                                size_t which);

#endif
