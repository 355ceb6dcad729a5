/* The part of a rank other than 0 in caches and attention (runtime/remote/remote_cache.c,
 * runtime/remote/remote_attention.c): it stores its kv heads of every cache and attends for the
 * query heads that read them, after it made them if the message says so. */
#ifndef SP_RUNTIME_REMOTE_REMOTE_CACHE_SERVICE_H
#define SP_RUNTIME_REMOTE_REMOTE_CACHE_SERVICE_H

#include "runtime/remote/remote_job.h"

struct sp_cache_service; /* opaque: the caches of this rank */

/* The reader is borrowed until sp_cache_service_close. */
SP_MUST_CHECK enum sp_status sp_cache_service_open(struct sp_cache_service **out,
                                                   struct sp_transport *transport,
                                                   struct sp_job_reader *reader,
                                                   struct sp_err *err);
void sp_cache_service_close(struct sp_cache_service *service); /* NULL is fine */

/* Answer an SP_MESSAGE_CACHE and an SP_MESSAGE_ATTENTION. A cache that does not open or grow is an
 * answer; failures are those of memory for an answer and of messages about unknown caches. */
SP_MUST_CHECK enum sp_status sp_cache_service_act(struct sp_cache_service *service,
                                                  const uint8_t *message, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_cache_service_attend(struct sp_cache_service *service,
                                                     void *message, struct sp_err *err);

#endif
