/* What the system says about this machine. */
#ifndef SP_CLI_BENCH_MACHINE_FACTS_H
#define SP_CLI_BENCH_MACHINE_FACTS_H

#include <stdint.h>

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
