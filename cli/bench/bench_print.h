/* Prints the figures as tables, as they are measured, or as JSON. */
#ifndef SP_CLI_BENCH_BENCH_PRINT_H
#define SP_CLI_BENCH_BENCH_PRINT_H

#include "cli/bench/bench_measure.h"
#include "cli/base/out.h"

/* The tables of a measurement in progress; open with zero and `bench` set. */
struct sp_bench_printer {
    const struct sp_bench *bench; /* borrowed */
    struct sp_table table;        /* the one being printed; owned */
};

/* The function of a struct sp_bench_listener; its context is a struct sp_bench_printer. Prints to
 * stdout what the step measured. */
SP_MUST_CHECK enum sp_status sp_bench_print_step(void *printer, enum sp_bench_step step,
                                                 size_t index, struct sp_err *err);
void sp_bench_printer_release(struct sp_bench_printer *printer);

void sp_bench_print_json(const struct sp_bench *bench);

#endif
