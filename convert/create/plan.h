/* The plan of a packed file: its tensors and their types, chosen before any weight is read.
 *
 * A plan is a pure function of the sources' headers and of the requested types: one item per
 * tensor, in the file's order, with the rule that chose its type. The executor
 * (execute.c) only carries the plan out. */
#ifndef SP_CONVERT_CREATE_PLAN_H
#define SP_CONVERT_CREATE_PLAN_H

#include "convert/create/create.h"
#include "convert/source/source.h"
#include "format/base/pool.h"
#include "format/pack_contents.h"
#include "format/packfile_write.h"
#include "quantize/policy.h"
#include "quantize/types/gptq.h"
#include "format/weights/sensitivity.h"

struct sp_plan_item {
    const struct sp_source *source;    /* borrowed */
    const struct sp_tensor_spec *spec; /* borrowed from the source */
    enum sp_part part;
    enum sp_dtype from, to;
    enum sp_layout layout;
    const char *rule;   /* static, or that of the sp_plan_choice */
    const char *coding; /* how a quantized source codes its numbers; NULL: not quantized; static */
    unsigned code_bits; /* bits of its codes; 0: not quantized */
    bool keeps_codes;   /* they are taken over as they are, not converted */
    bool merged;        /* an adapter changes some of the rows */
    const uint8_t *bytes;    /* stored bytes to copy unchanged; NULL: the tensor is converted */
    const int8_t *exponents; /* of its columns if it is smoothed (smooth.c), borrowed; NULL: not */
    struct sp_gptq_weights weights; /* for q2 to q6, borrowed from a calibration */
    uint64_t source_size, size;
};

/* A list of plan items. A zeroed plan is empty. */
struct sp_plan {
    struct sp_plan_item *items; /* by part and name; owned */
    size_t n_items, cap_items;
};

/* What is known of one tensor before it is planned. Valid when zeroed: nothing. */
struct sp_plan_choice {
    enum sp_dtype type; /* chosen, whatever the request says; SP_DTYPE_NONE: by the request */
    const char *rule;   /* names the choice in the plan and in errors; borrowed by the plan */
    bool calibrated;    /* a calibration has statistics of its inputs */
};

/* Appends the tensors of a source as `part`; the target must be added before the draft. With
 * `allow_lossy` a tensor that is already quantized may be quantized again. `choices` has one
 * element for each spec of the source; NULL: none. Errors name the tensor; SP_E_USAGE if it cannot
 * have the chosen type. */
SP_MUST_CHECK enum sp_status sp_plan_add(struct sp_plan *plan, const struct sp_source *source,
                                         enum sp_part part, const struct sp_policy_request *request,
                                         const struct sp_plan_choice *choices, bool allow_lossy,
                                         struct sp_err *err);
void sp_plan_release(struct sp_plan *plan);

/* Prints a heading and a line for each item. *text is owned by the caller. */
SP_MUST_CHECK enum sp_status sp_plan_print(char **text, const struct sp_plan *plan,
                                           struct sp_err *err);

/* ---- groups of tensors (plan_groups.c) ----
 *
 * The plan's tensors by group (format/weights/tensor_group.h): types, bytes, and what rounding is
 * predicted to cost. */

/* *kl = the KL divergence that rounding the target's weights is predicted to cause, in nats per
 * token; NAN if a group that is rounded was not measured. */
SP_MUST_CHECK enum sp_status sp_plan_groups_predict(double *kl, const struct sp_plan *plan,
                                                    const struct sp_sensitivities *sensitivities,
                                                    struct sp_err *err);

/* *text = a table, without a last newline, owned by the caller: a line for each group, where
 * consecutive layers that agree are one line, and a line for the whole of each part. With measured
 * sensitivities (n > 0) it has a column for the predicted KL divergence, of the target. */
SP_MUST_CHECK enum sp_status sp_plan_groups_print(char **text, const struct sp_plan *plan,
                                                  const struct sp_sensitivities *sensitivities,
                                                  struct sp_err *err);

/* ---- smoothing (smooth.c) ----
 *
 * Applies the smoothing that a calibration states (format/weights/smoothing.h) to a plan: a norm is
 * smoothed if matrices of 5 to 8 bits read it, and all matrices that read it can be scaled exactly
 * and have no fewer bits. */

/* Sets the exponents of the items of the target, borrowed from `smoothing`, and the type of norms
 * that their stored type could not hold exactly. The norms that are smoothed are added to *applied,
 * which the caller releases, on failure too. SP_E_INPUT: the smoothing is that of another model. */
SP_MUST_CHECK enum sp_status sp_plan_smooth(struct sp_smoothing *applied, struct sp_plan *plan,
                                            const struct sp_smoothing *smoothing,
                                            const struct sp_source *target, struct sp_err *err);

/* The most bytes by which sp_plan_smooth makes norms of the plan larger. */
uint64_t sp_plan_smooth_growth(const struct sp_plan *plan, const struct sp_smoothing *smoothing);

/* ---- carrying a plan out (execute.c) ----
 *
 * Reads, decodes, encodes and writes every tensor. The executor chooses nothing. Memory is bounded
 * whatever the size of the model. The digests of a packed source are checked while it is read. The
 * bytes written do not depend on the number of threads. */

/* Writes all tensors, item i as tensor i of the writer; writer NULL: they are read and converted
 * only. Progress is told from the calling thread; a nonzero result of it stops the writing with
 * SP_E_CANCELLED. */
SP_MUST_CHECK enum sp_status sp_plan_execute(const struct sp_plan *plan,
                                             struct sp_pack_writer *writer, struct sp_pool *pool,
                                             const struct sp_create_callbacks *callbacks,
                                             struct sp_err *err);

#endif
