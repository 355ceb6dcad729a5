/* The figures of `spectool bench` and the values computed from them. */
#ifndef SP_CLI_BENCH_BENCH_H
#define SP_CLI_BENCH_BENCH_H

#include "cli/base/backend_opts.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "format/base/err.h"
#include "runtime/spectool_measure.h"

#include <stdint.h>

enum {
    SP_BENCH_ROW_COUNTS = 6,
    SP_BENCH_MAX_DEPTHS = 16,
    SP_BENCH_MAX_PROMPTS = 32,
    SP_BENCH_MAX_ROWS = 16,
};
extern const size_t
    sp_bench_row_counts[SP_BENCH_ROW_COUNTS]; /* numbers of rows per pass, ascending from 1 */

struct sp_bench_options {
    /* Prompts: lists of ids, texts of a user message, and files with such texts. If all three are
     * empty the built-in prompts are used. */
    struct sp_opt_list ids, texts, files;
    const char *depths; /* numbers separated by commas; NULL: the built-in depths that fit */
    size_t n_predict, n_repeat;
    double acceptance; /* simulated acceptance; negative: use the draft's own proposals */
    struct sp_backend_opts backend;
};

/* The passes after n_before tokens of context. */
struct sp_bench_depth {
    size_t n_before;
    uint64_t read_size;                         /* bytes that a pass of one row reads */
    double verify_seconds[SP_BENCH_ROW_COUNTS]; /* time of a pass with the logits of all rows */
    double draft_seconds[SP_BENCH_ROW_COUNTS];  /* of a proposal of one token less; 0: none */
    double bandwidth[SP_BENCH_ROW_COUNTS]; /* memory bandwidth at that time, bytes per second */
    double row_products;                   /* multiply-adds of a row with its logits */
    double products[SP_BENCH_ROW_COUNTS];  /* that the CPU could do at that time, per second */
};

/* The runs of a prompt with or without drafting. Numbers of tokens exclude the first token, which
 * the prompt's pass generates. */
struct sp_bench_runs {
    double rate;                                  /* tokens per second of the median run */
    size_t n_tokens, n_passes, drafted, accepted; /* sums over all runs */
    double joules; /* of the processors in all runs, without prompts; 0: not told */
};

/* The runs of a prompt without drafting, and with it unless there is no draft. */
struct sp_bench_prompt {
    struct sp_ids ids; /* prompt; owned */
    size_t n_generated;
    struct sp_bench_runs plain, drafted;
    uint64_t read_size; /* average bytes read per step without drafting */
    double bandwidth;
};

/* What several ranks exchange in a pass of one row. */
struct sp_bench_exchange {
    double messages, sent,
        received; /* messages to each of the other ranks; bytes to and from all */
    double share; /* of the time: messages, and waiting for answers; 0..1 */
    double pass_seconds, product_seconds; /* of a pass; of its products, exchange included */
    struct sp_rank_link link;
};

struct sp_bench {
    const struct sp_bench_options *options;
    /* name of the model; shape of random weights, NULL: a real file */
    const char *name, *synthetic;
    size_t n_layers;             /* of random weights, if chosen; 0: all of the shape */
    struct sp_package_info info; /* draft: NULL also if drafting is turned off */
    size_t n_prefill;
    double prefill_seconds, prefill_bandwidth;
    double prefill_row_products, prefill_products;     /* as of a depth, without logits */
    struct sp_bench_exchange exchange;                 /* only of several ranks */
    struct sp_bench_depth depths[SP_BENCH_MAX_DEPTHS]; /* ascending */
    size_t n_depths;
    struct sp_bench_prompt prompts[SP_BENCH_MAX_PROMPTS];
    size_t n_prompts;
};

void sp_bench_release(struct sp_bench *bench);

/* True if the drafting in these figures is simulated. */
bool sp_bench_simulated(const struct sp_bench *bench);

/* ---- measuring prompt processing, passes, and generation with and without a draft ---- */

/* The steps of a measurement, in order. */
enum sp_bench_step {
    SP_BENCH_OPENED,   /* settings and prompts are known, nothing is measured */
    SP_BENCH_PREFILL,  /* prompt processing */
    SP_BENCH_PASSES,   /* the passes at the depth of an index */
    SP_BENCH_EXCHANGE, /* of several ranks only */
    SP_BENCH_PROMPT,   /* generation after the prompt of an index */
    SP_BENCH_COMPLETE,
};

struct sp_bench_printer;

/* Fills *bench, except its names, with measurements of a package, and prints each step; printer
 * NULL: prints nothing. SP_E_CHECK if the tokens with and without drafting differ. sp_bench_release
 * must be called in any case. */
SP_MUST_CHECK enum sp_status sp_bench_measure(struct sp_bench *bench, struct sp_package *package,
                                              const struct sp_bench_options *options,
                                              struct sp_bench_printer *printer, struct sp_err *err);

/* ---- printing, as tables while they are measured or as JSON, and as a chart ---- */

/* The tables of a measurement in progress; open with zero and `bench` set. */
struct sp_bench_printer {
    const struct sp_bench *bench; /* borrowed */
    struct sp_table table;        /* the one being printed; owned */
};

/* Prints to stdout what a step measured, that of the depth or the prompt of an index, else 0. */
SP_MUST_CHECK enum sp_status sp_bench_print_step(struct sp_bench_printer *printer,
                                                 enum sp_bench_step step, size_t index,
                                                 struct sp_err *err);

void sp_bench_print_json(const struct sp_bench *bench);

/* Checks that a chart can be written to the path, where only a chart may be replaced. */
SP_MUST_CHECK enum sp_status sp_bench_check_svg(const char *path, struct sp_err *err);

/* Writes the chart: the cost of passes by rows, and rates with and without drafting. */
SP_MUST_CHECK enum sp_status sp_bench_write_svg(const struct sp_bench *bench, const char *path,
                                                struct sp_err *err);

/* ---- the machine (machine_facts.c) ----
 *
 * What the system says about this machine. */

enum { SP_MACHINE_TEXT = 128 };

struct sp_machine_facts {
    char processor[SP_MACHINE_TEXT];  /* its name; "": not said */
    char huge_pages[SP_MACHINE_TEXT]; /* when memory is given huge pages: "always", "madvise" (to
                                       * those who ask) or "never"; "": not said */
    unsigned n_cpus;                  /* that are online; 0: not said */
    unsigned n_slow;                  /* of a second, slower kind; 0: all are alike */
    uint64_t memory;                  /* bytes; 0: not said */
};

/* root: "" or a folder with proc and sys below it. What cannot be read is not said.
 *
 * A CPU is slow if its capacity, or else its highest frequency, is below 85 percent of the best:
 * cores of one kind differ by less. */
void sp_machine_facts_read(struct sp_machine_facts *facts, const char *root);

#endif
