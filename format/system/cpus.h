/* How many threads are of use to this process. */
#ifndef SP_FORMAT_SYSTEM_CPUS_H
#define SP_FORMAT_SYSTEM_CPUS_H

/* CPUs that this process may keep busy: those it may run on, or fewer where a control group has a
 * quota, as a container's does: threads beyond it are stopped together for a part of every period.
 * At least 1. */
unsigned sp_usable_cpus(void);

/* The smallest quota of the control groups that `list` names and of those around them, in CPUs,
 * rounded up; 0: there is none. list: /proc/self/cgroup as text (cgroups(7)); root: where the
 * groups' folders are, /sys/fs/cgroup. Versions 1 and 2. A file that cannot be read
 * means no quota. */
unsigned sp_quota_cpus(const char *list, const char *root);

/* Tells the CPU that this thread spins. */
static inline void sp_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
