/* The energy that the processors use, where the kernel counts it and lets this process read it
 * (powercap, of RAPL: the kernel's Documentation/power/powercap). */
#ifndef SP_FORMAT_SYSTEM_ENERGY_H
#define SP_FORMAT_SYSTEM_ENERGY_H

#include <stdint.h>

enum { SP_ENERGY_ZONES = 16 };

struct sp_energy {
    const char *root;               /* borrowed: the folder of the zones */
    uint64_t last[SP_ENERGY_ZONES]; /* microjoules at the last reading; UINT64_MAX: not counted */
    double joules;
};

/* Begins to count. root: a folder like /sys/class/powercap, which NULL stands for. */
void sp_energy_start(struct sp_energy *energy, const char *root);

/* Returns the joules that all processor packages have used since the start, for whichever program;
 * 0: the machine does not tell, or `energy` is zeroed. The counters overflow after some minutes of
 * load at the earliest, in which this must be called once. One thread at a time. */
double sp_energy_joules(struct sp_energy *energy);

#endif
