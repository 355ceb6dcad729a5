/* Wall time for statistics and cost estimates. The generated text never depends on it. */
#ifndef SP_FORMAT_BASE_CLOCK_H
#define SP_FORMAT_BASE_CLOCK_H

#include <time.h>

/* Seconds of the monotonic clock. */
static inline double sp_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
