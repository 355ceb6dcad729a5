#define _GNU_SOURCE /* sched_getaffinity: POSIX cannot ask which CPUs a process may use */
#include "format/system/cpus.h"
#include "format/system/control_group.h"
#include "format/system/macos.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>

/* The first number of a group's entry and, where it has one, the second. How many there are. */
static int read_numbers(const char *folder, const char *name, long long *first, long long *second)
{
    char path[PATH_MAX + 64];
    FILE *f;
    int n;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if ((f = fopen(path, "r")) == NULL) return 0;
    n = fscanf(f, "%lld %lld", first, second);
    fclose(f);
    return n;
}

/* "max 100000" or "150000 100000"; in version 1 a file for each, and -1 for no quota. */
static unsigned quota_of(const char *folder)
{
    long long quota = -1, period = 0, none;

    if (read_numbers(folder, "cpu.max", &quota, &period) < 2 &&
        (read_numbers(folder, "cpu.cfs_quota_us", &quota, &none) < 1 ||
         read_numbers(folder, "cpu.cfs_period_us", &period, &none) < 1))
        return 0;
    if (quota <= 0 || period <= 0) return 0;
    quota = quota / period + (quota % period != 0);
    return quota > UINT_MAX ? 0 : (unsigned)quota;
}

/* context: the smallest quota so far; 0: none. */
static void take_quota(void *context, const char *folder)
{
    unsigned *smallest = context, quota = quota_of(folder);

    if (*smallest == 0 || (quota != 0 && quota < *smallest)) *smallest = quota;
}

unsigned sp_quota_cpus(const char *list, const char *root)
{
    unsigned smallest = 0;

    sp_each_control_group(list, root, "cpu", take_quota, &smallest);
    return smallest;
}

static unsigned allowed_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return (unsigned)CPU_COUNT(&set);
}

unsigned sp_usable_cpus(void)
{
    unsigned n = allowed_cpus(), quota = 0;

    sp_each_own_control_group("cpu", take_quota, &quota);
    if (quota && quota < n) n = quota;
    return n ? n : 1;
}
