/* Measures prompt processing, forward passes, and generation with and without a draft. A progress
 * bar shows how far each measurement is. */
#ifndef SP_CLI_BENCH_BENCH_MEASURE_H
#define SP_CLI_BENCH_BENCH_MEASURE_H

#include "cli/bench/bench.h"

/* The steps of a measurement, in order. */
enum sp_bench_step {
    SP_BENCH_OPENED,   /* settings and prompts are known, nothing is measured */
    SP_BENCH_PREFILL,  /* prompt processing */
    SP_BENCH_PASSES,   /* the passes at the depth of an index */
    SP_BENCH_EXCHANGE, /* of several ranks only */
    SP_BENCH_PROMPT,   /* generation after the prompt of an index */
    SP_BENCH_COMPLETE,
};

/* Called after each step, with the index of the depth or the prompt (else 0). A failure ends the
 * measurement. NULL as the function: none. */
struct sp_bench_listener {
    enum sp_status (*step)(void *context, enum sp_bench_step step, size_t index,
                           struct sp_err *err);
    void *context;
};

/* Fills *bench, except its names, with measurements of a package. SP_E_CHECK if the tokens with
 * and without drafting differ. sp_bench_release must be called in any case. */
SP_MUST_CHECK enum sp_status sp_bench_measure(struct sp_bench *bench, struct sp_package *package,
                                              const struct sp_bench_options *options,
                                              const struct sp_bench_listener *listener,
                                              struct sp_err *err);

#endif
