/* The table of mappings is global since a signal handler has no other argument, and shared with the
 * ranks that the process forks, whose damage counts as well. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "format/system/file_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_MAPPINGS = 256 };

struct guarded {
    atomic_uintptr_t begin; /* 0: free; 1: being added */
    atomic_size_t size;
    atomic_bool is_damaged;
};

static struct guarded *table; /* [n_mappings] */
static size_t n_mappings;     /* 0: the guard was not started */
static uintptr_t page_size;
static struct sigaction former; /* what the process does with other faults */

static struct guarded *find(uintptr_t begin)
{
    for (size_t i = 0; i < n_mappings; i++)
        if (atomic_load(&table[i].begin) == begin) return &table[i];
    return NULL;
}

void sp_file_guard_add(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < n_mappings; i++) {
        uintptr_t is_free = 0;
        if (!atomic_compare_exchange_strong(&table[i].begin, &is_free, 1)) continue;
        atomic_store(&table[i].size, size);
        atomic_store(&table[i].is_damaged, false);
        atomic_store(&table[i].begin, (uintptr_t)data);
        return;
    }
}

void sp_file_guard_remove(const uint8_t *data)
{
    struct guarded *g = find((uintptr_t)data);

    if (g) atomic_store(&g->begin, 0);
}

bool sp_file_guard_is_damaged(const uint8_t *data)
{
    const struct guarded *g = find((uintptr_t)data);

    return g && atomic_load(&g->is_damaged);
}

/* Maps zeros from the missing page to the end of its mapping. */
static bool replace(uintptr_t at)
{
    uintptr_t page = at & ~(page_size - 1);

    for (size_t i = 0; i < n_mappings; i++) {
        uintptr_t begin = atomic_load(&table[i].begin), end = begin + atomic_load(&table[i].size);
        if (begin <= 1 || at < begin || at >= end) continue;
        atomic_store(&table[i].is_damaged, true);
        return mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0) != MAP_FAILED;
    }
    return false;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int before = errno;

    (void)context;
    if (info->si_code <= 0 || !replace((uintptr_t)info->si_addr)) {
        sigaction(number, &former, NULL);
        raise(number);
    }
    errno = before;
}

void sp_file_guard_start(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    void *shared = mmap(NULL, MAX_MAPPINGS * sizeof *table, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) return;
    table = shared;
    n_mappings = MAX_MAPPINGS;
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &former);
}
