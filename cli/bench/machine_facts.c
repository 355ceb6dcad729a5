#include "cli/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reads the last line of root/path that begins with `key`, without its end; "": there is none.
 * Returns the number of such lines. */
static unsigned read_line(char found[SP_MACHINE_TEXT], const char *root, const char *path,
                          const char *key)
{
    char name[4096], line[SP_MACHINE_TEXT];
    unsigned n = 0;
    FILE *f;

    found[0] = '\0';
    snprintf(name, sizeof name, "%s%s", root, path);
    f = fopen(name, "r");
    if (f == NULL) return 0;
    /* A long line is read in pieces, of which only the first begins it. */
    for (const char *end = line; fgets(line, sizeof line, f); end = strchr(line, '\n')) {
        if (end == NULL || strncmp(line, key, strlen(key)) != 0) continue;
        snprintf(found, SP_MACHINE_TEXT, "%.*s", (int)strcspn(line, "\n"), line);
        n++;
    }
    fclose(f);
    return n;
}

static uint64_t speed_of(const char *root, unsigned cpu)
{
    static const char *const files[] = {"cpu_capacity", "cpufreq/cpuinfo_max_freq"};
    uint64_t speed = 0;

    for (size_t i = 0; i < sizeof files / sizeof *files && speed == 0; i++) {
        char path[96], line[SP_MACHINE_TEXT];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", cpu, files[i]);
        read_line(line, root, path, "");
        if (sscanf(line, "%" SCNu64, &speed) != 1) speed = 0;
    }
    return speed;
}

/* CPUs that are not online leave gaps between the numbers of the others. */
static unsigned count_slow(const char *root, unsigned n_cpus)
{
    const unsigned end = 4 * n_cpus;
    uint64_t best = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < end; i++) {
        uint64_t speed = speed_of(root, i);
        if (speed > best) best = speed;
    }
    for (unsigned i = 0; i < end; i++) {
        uint64_t speed = speed_of(root, i);
        n += speed > 0 && speed * 100 < best * 85;
    }
    return n;
}

void sp_machine_facts_read(struct sp_machine_facts *facts, const char *root)
{
    char line[SP_MACHINE_TEXT];
    const char *at;

    *facts =
        (struct sp_machine_facts){.n_cpus = read_line(line, root, "/proc/cpuinfo", "processor")};
    read_line(line, root, "/proc/cpuinfo", "model name");
    at = strchr(line, ':');
    if (at) strcpy(facts->processor, at + 1 + strspn(at + 1, " "));
    read_line(line, root, "/sys/kernel/mm/transparent_hugepage/enabled", "");
    at = strchr(line, '[');
    if (at) snprintf(facts->huge_pages, SP_MACHINE_TEXT, "%.*s", (int)strcspn(at + 1, "]"), at + 1);
    read_line(line, root, "/proc/meminfo", "MemTotal:");
    if (sscanf(line, "MemTotal: %" SCNu64 " kB", &facts->memory) == 1) facts->memory *= 1024;
    facts->n_slow = count_slow(root, facts->n_cpus);
}
