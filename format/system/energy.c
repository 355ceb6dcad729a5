#include "format/system/energy.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the first line of an entry of zone i. */
static bool read_entry(char line[64], const char *root, unsigned i, const char *entry)
{
    char path[PATH_MAX];
    bool done;
    FILE *f;

    snprintf(path, sizeof path, "%s/intel-rapl:%u/%s", root, i, entry);
    if ((f = fopen(path, "r")) == NULL) return false;
    done = fgets(line, 64, f) != NULL;
    fclose(f);
    return done;
}

static uint64_t read_microjoules(const char *root, unsigned i, const char *entry)
{
    char line[64];

    return read_entry(line, root, i, entry) ? strtoull(line, NULL, 10) : UINT64_MAX;
}

/* A zone is a package, or all of a laptop ("psys"), which contains it. Processors of AMD have these
 * zones too. */
void sp_energy_start(struct sp_energy *energy, const char *root)
{
    static const char package[] = "package-";
    char name[64];

    *energy = (struct sp_energy){.root = root ? root : "/sys/class/powercap"};
    for (unsigned i = 0; i < SP_ENERGY_ZONES; i++) {
        bool counted = read_entry(name, energy->root, i, "name") &&
                       strncmp(name, package, strlen(package)) == 0;
        energy->last[i] = counted ? read_microjoules(energy->root, i, "energy_uj") : UINT64_MAX;
    }
}

double sp_energy_joules(struct sp_energy *energy)
{
    if (energy->root == NULL) return 0;
    for (unsigned i = 0; i < SP_ENERGY_ZONES; i++) {
        uint64_t last = energy->last[i], now, overflow = 0;
        if (last == UINT64_MAX) continue;
        now = read_microjoules(energy->root, i, "energy_uj");
        if (now < last) overflow = read_microjoules(energy->root, i, "max_energy_range_uj");
        if (now == UINT64_MAX || overflow == UINT64_MAX) continue;
        if (now + overflow >= last) energy->joules += (double)(now + overflow - last) * 1e-6;
        energy->last[i] = now;
    }
    return energy->joules;
}

void sp_energy_keep_up(struct sp_energy *energy, double now)
{
    static const double seconds = 30;

    if (now - energy->read_at < seconds) return;
    energy->read_at = now;
    (void)sp_energy_joules(energy);
}
