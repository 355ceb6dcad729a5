/* The part of a rank other than 0 in products (runtime/backend/remote_products.h) and, by
 * runtime/backend/remote_cache_service.h, in attention: it computes what the messages describe
 * until rank 0 ends or sends another kind of message. */
#ifndef SP_RUNTIME_BACKEND_REMOTE_SERVICE_H
#define SP_RUNTIME_BACKEND_REMOTE_SERVICE_H

#include "runtime/backend/backend.h"
#include "runtime/ranks/transport.h"

#include <stdint.h>

/* The mapped file that all ranks have, from which matrices are taken. */
struct sp_rank_file {
    const uint8_t *bytes;
    uint64_t size;
};

/* Computes products and attention until a message of another kind, which is dropped, or until rank
 * 0 ends (*has_ended). Failures are those of memory and of messages that do not fit the file. */
SP_MUST_CHECK enum sp_status sp_remote_serve(struct sp_transport *transport,
                                             const struct sp_backend *backend,
                                             const struct sp_rank_file *file, bool *has_ended,
                                             struct sp_err *err);

#endif
