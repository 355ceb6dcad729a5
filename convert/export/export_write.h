/* Carries an export's plan out: decodes stored rows, puts them where they were published, and
 * writes the weights files of one checkpoint.
 *
 * Published tensors are cut into chunks of rows that any thread makes from first to last, so memory
 * is bounded whatever the model's size, and every byte is a function of its chunk alone. The digest
 * of each stored tensor is checked before the first chunk that is made of it. */
#ifndef SP_CONVERT_EXPORT_EXPORT_WRITE_H
#define SP_CONVERT_EXPORT_EXPORT_WRITE_H

#include "convert/export/export_plan.h"
#include "format/base/pool.h"

/* Into `folder`, which is there. `progress` (may be NULL) is called from this thread with bytes
 * written before, plus those written so far, and `total`; a result other than zero ends in
 * SP_E_CANCELLED. */
struct sp_export_progress {
    int (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    uint64_t before, total;
};

SP_MUST_CHECK enum sp_status sp_export_write(const struct sp_export_plan *plan, const char *folder,
                                             uint64_t shard_size, struct sp_pool *pool,
                                             const struct sp_export_progress *progress,
                                             struct sp_err *err);

#endif
