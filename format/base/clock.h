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

/* The time of the realtime clock in so many seconds, until which a thread may wait. */
static inline struct timespec sp_deadline(double seconds)
{
    const long second = 1000000000;
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)seconds;
    t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    t.tv_sec += t.tv_nsec / second;
    t.tv_nsec %= second;
    return t;
}

#endif
