/* The memory that the requests of all clients may hold together: bodies that are being received and
 * the JSON of requests that wait or are answered. */
#ifndef SP_CLI_SERVE_HTTP_SERVE_BUDGET_H
#define SP_CLI_SERVE_HTTP_SERVE_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct sp_serve_budget {
    pthread_mutex_t lock;
    size_t used, max; /* bytes */
    size_t peak;      /* largest `used` since it was 0 */
};
#define SP_SERVE_BUDGET_INIT(bytes)                                                                \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .max = (bytes)                                          \
    }

/* Takes `size` bytes. False: fewer are left, and none are taken. [any thread] */
bool sp_serve_budget_take(struct sp_serve_budget *budget, size_t size);
/* The bytes in use. */
size_t sp_serve_budget_used(struct sp_serve_budget *budget);
/* Gives bytes back. When none are used any more, the memory is returned to the system. */
void sp_serve_budget_give(struct sp_serve_budget *budget, size_t size);

#endif
