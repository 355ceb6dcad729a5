#include "format/system/free_memory.h"
#include "format/system/control_group.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Returns the number after `name` at the beginning of a line, the first number of the file if
 * `name` is empty, or `otherwise` if there is none, as with "max". */
static uint64_t read_number(const char *folder, const char *file, const char *name,
                            uint64_t otherwise)
{
    char path[PATH_MAX + 64], line[256], *end;
    size_t n = strlen(name);
    uint64_t value = otherwise;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    if ((f = fopen(path, "r")) == NULL) return otherwise;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, name, n) != 0) continue;
        uint64_t found = strtoull(line + n, &end, 10);
        if (end != line + n) value = found;
        break;
    }
    fclose(f);
    return value;
}

static uint64_t less_or_zero(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The names of the entries of a control group. Version 2 counts the files of groups below a group
 * without a prefix. */
struct entries {
    const char *limit, *usage, *inactive, *active;
};
static const struct entries versions[] = {
    {"memory.max", "memory.current", "inactive_file ", "active_file "},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
     "total_active_file "},
};

/* context: the least so far. */
static void take_least(void *context, const char *folder)
{
    uint64_t *least = context;

    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        const struct entries *e = &versions[i];
        uint64_t limit = read_number(folder, e->limit, "", UINT64_MAX), used, files;
        if (limit == UINT64_MAX) continue;
        used = read_number(folder, e->usage, "", 0);
        files = read_number(folder, "memory.stat", e->inactive, 0) +
                read_number(folder, "memory.stat", e->active, 0);
        limit = less_or_zero(limit, less_or_zero(used, files));
        if (limit < *least) *least = limit;
    }
}

uint64_t sp_free_group_memory(const char *list, const char *root)
{
    uint64_t least = UINT64_MAX;

    sp_each_control_group(list, root, "memory", take_least, &least);
    return least;
}

uint64_t sp_free_memory(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
    uint64_t kibibytes = read_number("/proc", "meminfo", "MemAvailable:", all), least = UINT64_MAX;

    sp_each_own_control_group("memory", take_least, &least);
    return kibibytes < least / 1024 ? kibibytes * 1024 : least;
}

bool sp_address_space(uint64_t *left, uint64_t *limit)
{
    uint64_t pages = read_number("/proc/self", "statm", "", 0);
    struct rlimit r;

    if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY) return false;
    *limit = r.rlim_cur;
    *left = less_or_zero(*limit, pages * (uint64_t)sysconf(_SC_PAGESIZE));
    return true;
}
