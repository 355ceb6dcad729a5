/* The energy that the processors use, where the kernel counts it and lets this process read it
 * (powercap, of RAPL: the kernel's Documentation/power/powercap). */
#ifndef SP_FORMAT_SYSTEM_ENERGY_H
#define SP_FORMAT_SYSTEM_ENERGY_H

#include <stdint.h>

enum { SP_ENERGY_ZONES = 16 };

struct sp_energy {
    const char *root;               /* borrowed: the folder of the zones */
    uint64_t last[SP_ENERGY_ZONES]; /* microjoules at the last reading; UINT64_MAX: not counted */
    double read_at;                 /* when sp_energy_keep_up has read them last */
    double joules;
};

/* Begins to count. root: a folder like /sys/class/powercap, which NULL stands for. */
void sp_energy_start(struct sp_energy *energy, const char *root);

/* Returns the joules that all processor packages have used since the start, for whichever program;
 * 0: the machine does not tell, or `energy` is zeroed. One thread at a time, as in the next. */
double sp_energy_joules(struct sp_energy *energy);

/* Keeps up with the counters, which overflow after some minutes of load at the earliest: reads them
 * if the last call to do so is half a minute ago. `now`: seconds of any clock. To be called every
 * minute or more often. */
void sp_energy_keep_up(struct sp_energy *energy, double now);

#endif
