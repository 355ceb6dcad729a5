/* Which type a tensor gets, and which rule says so.
 *
 * A pure function of what the tensor is (role, shape, stored type) and what was asked for. Without
 * a request every tensor keeps its stored type. Each choice carries the rule that made it, so that
 * a plan can be read line by line; nothing here looks at weights. */
#ifndef SP_QUANTIZE_POLICY_H
#define SP_QUANTIZE_POLICY_H

#include "format/dtype.h"
#include "format/model/family.h"

/* What the user asked for, for one part of the file (target or draft). Valid when zeroed: keep all.
 */
struct sp_policy_request {
    enum sp_dtype type;        /* --quantize, --quantize-draft; SP_DTYPE_NONE: as stored */
    enum sp_dtype output_type; /* --quantize-output: embeddings and head; SP_DTYPE_NONE: by rule */
    bool draft;                /* the part is a draft */
};

struct sp_policy_tensor {
    const char *name; /* canonical; for messages */
    enum sp_role role;
    unsigned rank;
    const uint64_t *shape;
    enum sp_dtype stored; /* f32, f16, bf16, f64, or a packed file's q8, q4 */
};

struct sp_policy_choice {
    enum sp_dtype dtype;
    enum sp_layout layout;
    const char *rule; /* static: "requested", "norm stays float", ... */
};

/* SP_E_UNSUPPORTED when the stored type cannot be read or the requested one cannot be written. */
SP_MUST_CHECK enum sp_status sp_policy_choose(struct sp_policy_choice *out,
                                              const struct sp_policy_request *request,
                                              const struct sp_policy_tensor *tensor,
                                              struct sp_err *err);

/* Would writing `from` as `to` round numbers that a block type has rounded before? Such a step is
 * only taken when the user insists (--requantize). */
bool sp_policy_rounds_twice(enum sp_dtype from, enum sp_dtype to);

#endif
