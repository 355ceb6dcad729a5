#include "cli/serve/http/serve_http.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* glibc keeps freed memory in the arenas of its threads. Returning it takes milliseconds, so that
 * is only done after much of it was in use. */
static void trim(size_t peak)
{
    static const size_t much = (size_t)8 << 20;

    if (peak < much) return;
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

bool sp_serve_budget_take(struct sp_serve_budget *b, size_t size)
{
    bool fits;

    pthread_mutex_lock(&b->lock);
    fits = size <= b->max - b->used;
    if (fits) b->used += size;
    if (b->used > b->peak) b->peak = b->used;
    pthread_mutex_unlock(&b->lock);
    return fits;
}

size_t sp_serve_budget_used(struct sp_serve_budget *b)
{
    size_t used;

    pthread_mutex_lock(&b->lock);
    used = b->used;
    pthread_mutex_unlock(&b->lock);
    return used;
}

void sp_serve_budget_give(struct sp_serve_budget *b, size_t size)
{
    size_t peak = 0;

    pthread_mutex_lock(&b->lock);
    b->used -= size;
    if (b->used == 0) {
        peak = b->peak;
        b->peak = 0;
    }
    pthread_mutex_unlock(&b->lock);
    trim(peak);
}
