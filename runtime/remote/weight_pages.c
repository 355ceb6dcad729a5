#include "runtime/remote/ranks.h"

#include "format/base/file.h"
#include "format/base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { PAGE = 4096, WORD = 64 };

struct sp_weight_pages {
    const uint8_t *file;
    uint64_t size;
    atomic_uint_least64_t *marks; /* a bit for each page that was prefetched */
};

enum sp_status sp_weight_pages_open(struct sp_weight_pages **out, const uint8_t *file,
                                    uint64_t size, struct sp_err *err)
{
    struct sp_weight_pages *pages = NULL;
    enum sp_status st;

    if ((st = sp_new(&pages, 1, sizeof *pages, err))) return st;
    pages->file = file;
    pages->size = size;
    if ((st = sp_new(&pages->marks, (size_t)(size / PAGE / WORD) + 1, sizeof *pages->marks, err))) {
        free(pages);
        return st;
    }
    *out = pages;
    return SP_OK;
}

void sp_weight_pages_close(struct sp_weight_pages *pages)
{
    if (pages == NULL) return;
    free(pages->marks);
    free(pages);
}

/* Marks pages first..last. Returns true if all of them were marked. */
static bool mark(struct sp_weight_pages *pages, size_t first, size_t last)
{
    bool were_marked = true;

    for (size_t i = first / WORD; i <= last / WORD; i++) {
        uint64_t mask = UINT64_MAX;
        if (i == first / WORD) mask &= UINT64_MAX << first % WORD;
        if (i == last / WORD) mask &= UINT64_MAX >> (WORD - 1 - last % WORD);
        if ((atomic_load_explicit(&pages->marks[i], memory_order_relaxed) & mask) == mask) continue;
        atomic_fetch_or_explicit(&pages->marks[i], mask, memory_order_relaxed);
        were_marked = false;
    }
    return were_marked;
}

void sp_weight_pages_need(struct sp_weight_pages *pages, const uint8_t *weights, size_t size)
{
    uintptr_t at = (uintptr_t)weights, file;

    if (pages == NULL || size == 0) return;
    file = (uintptr_t)pages->file;
    if (at < file || at - file >= pages->size) return;
    if (!mark(pages, (at - file) / PAGE, (at - file + size - 1) / PAGE))
        sp_file_prefetch(weights, size);
}
