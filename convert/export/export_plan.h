/* The plan of a checkpoint that is made of a packed file, decided before any weight is read: its
 * tensors under their published names, and the rows of stored tensors that each is made of. */
#ifndef SP_CONVERT_EXPORT_EXPORT_PLAN_H
#define SP_CONVERT_EXPORT_EXPORT_PLAN_H

#include "convert/create/create.h"
#include "convert/source/source.h"
#include "format/pack_contents.h"
#include "format/base/pool.h"

/* Rows of a stored tensor and their destination: span.n_rows rows from row `first` on. */
struct sp_export_cut {
    const struct sp_source *source;    /* borrowed */
    const struct sp_tensor_spec *spec; /* borrowed from the source */
    struct sp_row_span span;           /* its rows are those of the published tensor */
    uint64_t first;
    size_t item;
};

struct sp_export_item {
    struct sp_safetensor tensor; /* name, type and shape; the name borrowed from the plan */
    size_t first_cut, n_cuts;    /* together they fill it */
    enum sp_part part;
    enum sp_dtype from; /* as it is stored; NONE: its cuts are of several types */
    bool rounded;       /* quantized numbers are written in a type that may round them */
    bool marks_tokens;  /* t2d: true where d2t, its only cut, maps to */
};

/* Valid when zeroed. */
struct sp_export_plan {
    struct sp_export_item *items; /* by source and name, owned */
    size_t n_items, cap_items;
    struct sp_export_cut *cuts; /* by item, owned */
    size_t n_cuts, cap_cuts;
    struct sp_specs published[2]; /* owns the names */
    size_t n_published;
};

/* Appends the tensors of a packed source; target: of a built-in prediction head its model, else
 * NULL. `type`: what quantized numbers become. Refusals name the tensor. */
SP_MUST_CHECK enum sp_status sp_export_plan_add(struct sp_export_plan *plan,
                                                struct sp_source *source,
                                                const struct sp_source *target, enum sp_dtype type,
                                                struct sp_err *err);
void sp_export_plan_release(struct sp_export_plan *plan);

/* Elements and bytes of an item. */
uint64_t sp_export_elements(const struct sp_export_item *item);
uint64_t sp_export_size(const struct sp_export_item *item);

/* ---- carrying the plan out (export_write.c) ----
 *
 * Carries an export's plan out: decodes stored rows, puts them where they were published, and
 * writes the weights files of one checkpoint.
 *
 * Published tensors are cut into chunks of rows that any thread makes from first to last, so memory
 * is bounded whatever the model's size, and every byte is a function of its chunk alone. The digest
 * of each stored tensor is checked before the first chunk that is made of it. */

/* Into `folder`, which is there. Progress is told from this thread: bytes written before, plus
 * those written so far, of `total`; a result other than zero ends in SP_E_CANCELLED. */
struct sp_export_progress {
    const struct sp_create_callbacks *callbacks;
    uint64_t before, total;
};

SP_MUST_CHECK enum sp_status sp_export_write(const struct sp_export_plan *plan, const char *folder,
                                             uint64_t shard_size, struct sp_pool *pool,
                                             const struct sp_export_progress *progress,
                                             struct sp_err *err);

#endif
