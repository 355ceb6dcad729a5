#define _GNU_SOURCE /* sched_getaffinity: POSIX cannot ask which CPUs a process may use */
#include "format/base/cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A group's folder is root, then the place of its hierarchy in it, then its path. */
struct group {
    const char *root, *hierarchy;
    char path[PATH_MAX];
};

static FILE *open_entry(const struct group *g, const char *name)
{
    char path[PATH_MAX + 256];
    int n = snprintf(path, sizeof path, "%s%s%s/%s", g->root, g->hierarchy, g->path, name);

    return n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
}

/* The first number of an entry and, where it has one, the second. How many there are. */
static int read_numbers(const struct group *g, const char *name, long long *first,
                        long long *second)
{
    FILE *f = open_entry(g, name);
    int n;

    if (f == NULL) return 0;
    n = fscanf(f, "%lld %lld", first, second);
    fclose(f);
    return n;
}

/* "max 100000" or "150000 100000"; in version 1 a file for each, and -1 for no quota. */
static unsigned quota_of(const struct group *g)
{
    long long quota = -1, period = 0, none;

    if (read_numbers(g, "cpu.max", &quota, &period) < 2 &&
        (read_numbers(g, "cpu.cfs_quota_us", &quota, &none) < 1 ||
         read_numbers(g, "cpu.cfs_period_us", &period, &none) < 1)) {
        return 0;
    }
    if (quota <= 0 || period <= 0) return 0;
    quota = quota / period + (quota % period != 0);
    return quota > UINT_MAX ? 0 : (unsigned)quota;
}

static unsigned smaller_quota(unsigned a, unsigned b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The limit of a control group and of all its parents. In a container the path may be the host's,
 * of which only the root is visible. */
static unsigned smallest_quota(struct group *g)
{
    unsigned smallest = quota_of(g);

    for (char *slash; (slash = strrchr(g->path, '/')) != NULL;) {
        *slash = '\0';
        smallest = smaller_quota(smallest, quota_of(g));
    }
    return smallest;
}

/* Returns true if `name` is one of the words of a comma-separated list. */
static bool has_word(const char *list, size_t len, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list, *end = list + len; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t word = (size_t)((comma ? comma : end) - at);
        if (word == n && memcmp(at, name, n) == 0) return true;
        at += word + 1;
    }
    return false;
}

/* A line is "number:controllers:path", without controllers in version 2. */
static unsigned quota_of_line(const char *line, size_t len, const char *root)
{
    struct group g = {.root = root};
    const char *controllers = memchr(line, ':', len), *path;
    size_t n;

    if (controllers == NULL) return 0;
    controllers++;
    path = memchr(controllers, ':', len - (size_t)(controllers - line));
    if (path == NULL) return 0;
    if (path == controllers) {
        g.hierarchy = "";
    } else if (has_word(controllers, (size_t)(path - controllers), "cpu")) {
        g.hierarchy = "/cpu";
    } else {
        return 0;
    }
    path++;
    n = len - (size_t)(path - line);
    if (n >= sizeof g.path) return 0;
    memcpy(g.path, path, n);
    if (n == 1) g.path[0] = '\0'; /* the root: "/" */
    return smallest_quota(&g);
}

unsigned sp_quota_cpus(const char *list, const char *root)
{
    unsigned smallest = 0;

    while (*list) {
        size_t len = strcspn(list, "\n");
        smallest = smaller_quota(smallest, quota_of_line(list, len, root));
        list += len + (list[len] == '\n');
    }
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
    FILE *f = fopen("/proc/self/cgroup", "r");

    if (f) {
        char list[1 << 14];
        size_t size = fread(list, 1, sizeof list - 1, f);
        list[size] = '\0';
        fclose(f);
        quota = sp_quota_cpus(list, "/sys/fs/cgroup");
    }
    if (quota && quota < n) n = quota;
    return n ? n : 1;
}
