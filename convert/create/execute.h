/* Carries a plan out: reads, decodes, encodes and writes every tensor. The executor chooses
 * nothing.
 *
 * Tensors are cut into chunks of whole panels. Worker threads convert chunks while one of them
 * hashes and writes the oldest finished chunk. The chunks form a ring of fixed size, which bounds
 * memory whatever the size of the model. The digests of a packed source are checked while it is
 * read. The bytes written do not depend on the number of threads: every chunk is a function of its
 * rows, and chunks are written in order. */
#ifndef SP_CONVERT_CREATE_EXECUTE_H
#define SP_CONVERT_CREATE_EXECUTE_H

#include "convert/create/plan.h"
#include "format/packfile_write.h"
#include "format/base/pool.h"

/* Opens a writer for the plan's tensors; tensor i of the writer is item i of the plan. */
SP_MUST_CHECK enum sp_status sp_plan_open_writer(struct sp_pack_writer **out,
                                                 const struct sp_plan *plan, const char *path,
                                                 bool force, struct sp_err *err);

/* Writes all tensors; writer NULL: they are read and converted only. `progress` (may be NULL) is
 * called from the calling thread with the bytes of sources read so far and in total; a nonzero
 * result stops the writing with SP_E_CANCELLED. */
SP_MUST_CHECK enum sp_status
sp_plan_execute(const struct sp_plan *plan, struct sp_pack_writer *writer, struct sp_pool *pool,
                int (*progress)(void *context, uint64_t done, uint64_t total), void *context,
                struct sp_err *err);

#endif
