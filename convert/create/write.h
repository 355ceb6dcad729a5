/* Writes a packed file from sources and a plan: tensors, texts and pairing record, all or nothing.
 */
#ifndef SP_CONVERT_CREATE_WRITE_H
#define SP_CONVERT_CREATE_WRITE_H

#include "convert/create/create_report.h"
#include "convert/create/plan.h"
#include "format/packfile_write.h"
#include "format/base/pool.h"

/* The complete input of a packed file. */
struct sp_pack_input {
    const struct sp_source *target, *draft; /* borrowed; draft may be NULL */
    struct sp_text records;                 /* the Modelfile's; borrowed */
    struct sp_text smoothing;               /* its section, or none; borrowed */
    struct sp_budget budget;                /* that the target's types were chosen for */
    double predicted_kl;                    /* of that choice; 0: unknown */
    const char *draft_choice;               /* of struct sp_create_options; borrowed */
    struct sp_plan plan;                    /* released by the caller */
};

/* *most = bytes of the file that would be written, or a few more. No weight is read. `outline`, if
 * it is not NULL: where the file's outline is written (format/packfile_write.h). */
SP_MUST_CHECK enum sp_status sp_pack_input_measure(uint64_t *most,
                                                   const struct sp_pack_input *input,
                                                   const char *outline, struct sp_err *err);

/* Reads and converts every weight as sp_pack_input_write does, and writes nothing. */
SP_MUST_CHECK enum sp_status sp_pack_input_read(const struct sp_pack_input *input,
                                                unsigned n_threads,
                                                const struct sp_create_callbacks *callbacks,
                                                struct sp_err *err);

/* Writes the packed file at `path`. */
SP_MUST_CHECK enum sp_status sp_pack_input_write(const struct sp_pack_input *input,
                                                 const char *path, bool force, unsigned n_threads,
                                                 const struct sp_create_callbacks *callbacks,
                                                 uint64_t *file_size, struct sp_err *err);

/* ---- carrying a plan out (execute.c) ----
 *
 * Carries a plan out: reads, decodes, encodes and writes every tensor. The executor chooses
 * nothing.
 *
 * Tensors are cut into chunks of whole panels. Worker threads convert chunks while one of them
 * hashes and writes the oldest finished chunk. The chunks form a ring of fixed size, which bounds
 * memory whatever the size of the model. The digests of a packed source are checked while it is
 * read. The bytes written do not depend on the number of threads: every chunk is a function of its
 * rows, and chunks are written in order. */

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
