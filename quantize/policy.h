/* Which type a tensor gets, and the rule that selects it.
 *
 * A pure function of the tensor (role, shape, stored type) and the request. Without a request every
 * tensor keeps its stored type. Each choice names its rule, so that a plan can be read line by
 * line; nothing here reads weights. */
#ifndef SP_QUANTIZE_POLICY_H
#define SP_QUANTIZE_POLICY_H

#include "format/dtype.h"
#include "format/family/family.h"

/* The user's request for one part of the file (target or draft). Valid when zeroed: keep all
 * types. */
struct sp_policy_request {
    enum sp_dtype type;        /* --quantize, --quantize-draft; SP_DTYPE_NONE: as stored */
    enum sp_dtype output_type; /* --quantize-output: embeddings and head; SP_DTYPE_NONE: by rule */
    bool draft;                /* the part is a draft */
    bool exact;                /* `type` is for this very tensor: no matrix keeps more bits */
};

struct sp_policy_tensor {
    const struct sp_tensor_spec *spec; /* borrowed */
    enum sp_dtype stored;              /* f32, f16, bf16, f64, or a packed file's q2 to q8 */
    bool calibrated; /* its errors are weighed by what it reads (quantize/types/gptq.h) */
};

struct sp_policy_choice {
    enum sp_dtype dtype;
    enum sp_layout layout;
    const char *rule; /* static: "requested", "norm stays float", ... */
};

/* SP_E_UNSUPPORTED if the stored type cannot be read or the requested one cannot be written. */
SP_MUST_CHECK enum sp_status sp_policy_choose(struct sp_policy_choice *out,
                                              const struct sp_policy_request *request,
                                              const struct sp_policy_tensor *tensor,
                                              struct sp_err *err);

/* Relative squared error of weights that are rounded to a type: the sum of squared errors over the
 * sum of squared weights, of Gaussian weights; 0 for floats. */
double sp_policy_error(enum sp_dtype dtype);

/* True if writing `from` as `to` would round numbers that a block type has rounded before. Such a
 * step is only taken if the user requests it (--requantize). */
bool sp_policy_rounds_twice(enum sp_dtype from, enum sp_dtype to);

/* The rule of a matrix whose width no block type can have. */
extern const char sp_policy_odd_width[];

#endif
