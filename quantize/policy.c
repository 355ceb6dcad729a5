/* The rules; the first that matches is used: for matrices requested_choice and choose_matrix, for
 * embeddings and heads output_default, for the rest choose_other. Each has a row in the table of
 * tests/quantize/test_policy.c.
 *
 * In a Mamba-2 layer the rows of in_proj for z, x, B and C, and out_proj, are matrices like others.
 * The rows for dt are a gate: one row decides how long a whole head remembers. The convolution, A,
 * D and the bias of dt are small tensors, whose errors would add up over a sequence.
 *
 * A draft's feature projection keeps 8 bits because the whole input of the draft passes through
 * it. */
#include "quantize/policy.h"

/* A smaller matrix gains nothing from fewer bits, because of padding and panel heads. */
static const uint64_t SMALL_MATRIX = 1024;

bool sp_policy_rounds_twice(enum sp_dtype from, enum sp_dtype to)
{
    return sp_dtype_is_block(from) && to != from && to != SP_F32;
}

double sp_policy_error(enum sp_dtype dtype)
{
    const struct sp_block_dtype *t = sp_block_dtype_find(dtype);

    return t ? t->error * t->error : 0;
}

static struct sp_policy_choice keep(const struct sp_policy_tensor *tensor, enum sp_layout layout,
                                    const char *rule)
{
    if (tensor->stored == SP_F64)
        return (struct sp_policy_choice){SP_F32, layout, "f64 becomes f32"};
    return (struct sp_policy_choice){tensor->stored, layout, rule};
}

/* Elements of the whole tensor, or any number from SMALL_MATRIX on if it has that many. */
static uint64_t count_up_to_small(const struct sp_policy_tensor *tensor)
{
    uint64_t n = 1;

    for (unsigned i = 0; i < tensor->spec->rank; i++) {
        if (tensor->spec->shape[i] >= SMALL_MATRIX) return tensor->spec->shape[i];
        n *= tensor->spec->shape[i];
        if (n >= SMALL_MATRIX) return n;
    }
    return n;
}

/* True for the types of 2 to 6 bits, with which the most sensitive matrices keep more bits. */
static bool has_few_bits(enum sp_dtype dtype)
{
    return sp_dtype_code_bits(dtype) != 0;
}

/* The type of embeddings and output matrix if only the type of the whole part was requested. With
 * few bits for the other matrices they keep 8 bits, or 6 where 8 would not reduce the divergence,
 * by measurement (SmolLM2-135M, tied; KL divergence from the unquantized model on a license and on
 * C source, MB of the file):
 *
 *   other matrices   these q8              q6                    as the others
 *   q2               2.39    2.61    72                          7.92   7.20   46
 *   q3               0.440   0.334   85    0.440   0.339   78    0.970  0.793  63
 *   q5               0.0247  0.0206 110    0.0292  0.0256 103    0.0525 0.0514 97
 *
 * Calibrated, 6 bits suffice (license, C and prose):
 *
 *   q4               0.1135  0.0339  0.0415  97    0.1108  0.0353  0.0428  90
 *   q5               0.0290  0.0113  0.0138 110    0.0317  0.0122  0.0144 103 */
static struct sp_policy_choice output_default(enum sp_dtype type, bool calibrated)
{
    if (has_few_bits(type) && sp_dtype_code_bits(type) < (calibrated ? 6 : 4))
        return (struct sp_policy_choice){SP_Q6, SP_PANEL, "output matrix keeps 6 bits"};
    if (has_few_bits(type))
        return (struct sp_policy_choice){SP_Q8, SP_PANEL, "output matrix keeps 8 bits"};
    return (struct sp_policy_choice){type, SP_PANEL, "requested"};
}

/* True for keys and values that keep 8 bits under q2 to q6. Few kv heads serve many queries, so
 * they are a small part of a model, and their errors reach all heads: they keep 8 bits if they have
 * at most half as many rows as columns, by measurement (KL divergence from the unquantized model on
 * two texts, bits a weight of the whole file):
 *
 *                            keys and values q4          q8
 *   SmolLM2-135M             0.122  0.113  5.38 bits     0.074  0.074  5.58 bits
 *   Qwen2.5-Coder-0.5B       0.082  0.026  5.62 bits     0.063  0.020  5.67 bits
 *   Gemma 3 270M             0.095  0.119  7.02 bits     0.067  0.085  7.11 bits
 *   SmolLM2-135M with q2     5.06   5.23   4.00 bits     2.39   2.61   4.29 bits
 *                with q6     0.024  0.013  7.15 bits     0.012  0.010  7.25 bits
 *
 * The acceptance of a draft did not improve with 8 bits (two trained drafts, 7000 draft tokens
 * each), so a draft uses the requested type; and a user who requests the same type for the output
 * matrix wants all of it. */
static bool keeps_8_bits(const struct sp_policy_request *request,
                         const struct sp_policy_tensor *tensor)
{
    if (tensor->spec->role != SP_ROLE_KEY_VALUE || tensor->spec->rank != 2) return false;
    if (request->draft || !has_few_bits(request->type) || request->output_type == request->type)
        return false;
    return tensor->stored != request->type && tensor->spec->shape[0] <= tensor->spec->shape[1] / 2;
}

const char sp_policy_odd_width[] = "width is not a multiple of 32";

static struct sp_policy_choice requested_choice(const struct sp_policy_request *request,
                                                const struct sp_policy_tensor *tensor)
{
    bool is_output = tensor->spec->role == SP_ROLE_EMBEDDING || tensor->spec->role == SP_ROLE_HEAD;

    if (request->exact) return (struct sp_policy_choice){request->type, SP_PANEL, "requested"};
    if (is_output && request->output_type != SP_DTYPE_NONE)
        return (struct sp_policy_choice){request->output_type, SP_PANEL, "output type requested"};
    if (request->type == SP_DTYPE_NONE) return keep(tensor, SP_PANEL, "as stored");
    if (is_output) return output_default(request->type, tensor->calibrated);
    if (tensor->spec->role == SP_ROLE_FEATURE && has_few_bits(request->type))
        return (struct sp_policy_choice){SP_Q8, SP_PANEL, "feature projection keeps 8 bits"};
    if (keeps_8_bits(request, tensor))
        return (struct sp_policy_choice){SP_Q8, SP_PANEL, "keys and values keep 8 bits"};
    return (struct sp_policy_choice){request->type, SP_PANEL, "requested"};
}

static struct sp_policy_choice choose_matrix(const struct sp_policy_request *request,
                                             const struct sp_policy_tensor *tensor)
{
    struct sp_policy_choice choice = requested_choice(request, tensor);

    if (choice.dtype == tensor->stored) return choice;
    if (tensor->spec->role == SP_ROLE_ROUTER) return keep(tensor, SP_PANEL, "router stays float");
    if (tensor->spec->role == SP_ROLE_GATE) return keep(tensor, SP_PANEL, "gate stays float");
    if (tensor->spec->role == SP_ROLE_CODEBOOK)
        return keep(tensor, SP_PANEL, "codebook stays float");
    if (sp_dtype_is_block(choice.dtype) && tensor->spec->shape[tensor->spec->rank - 1] % SP_BLOCK)
        return keep(tensor, SP_PANEL, sp_policy_odd_width);
    if (sp_dtype_is_block(choice.dtype) && count_up_to_small(tensor) < SMALL_MATRIX)
        return keep(tensor, SP_PANEL, "too small to quantize");
    return choice;
}

static struct sp_policy_choice choose_other(const struct sp_policy_tensor *tensor)
{
    enum sp_role role = tensor->spec->role;

    if (role == SP_ROLE_INDEX)
        return (struct sp_policy_choice){SP_F32, SP_PLAIN, "whole numbers stay exact"};
    return keep(tensor, SP_PLAIN,
                role == SP_ROLE_NORM   ? "norm stays float"
                : role == SP_ROLE_BIAS ? "bias stays float"
                                       : "small tensor stays float");
}

enum sp_status sp_policy_choose(struct sp_policy_choice *out,
                                const struct sp_policy_request *request,
                                const struct sp_policy_tensor *tensor, struct sp_err *err)
{
    bool matrix = sp_role_is_matrix(tensor->spec->role) && tensor->spec->rank >= 2,
         index = tensor->spec->role == SP_ROLE_INDEX;

    if (index && tensor->stored != SP_I64 && tensor->stored != SP_F32)
        return sp_fail(err, SP_E_INPUT, "tensor %s: numbers of type %s, expected i64",
                       tensor->spec->name, sp_dtype_info(tensor->stored)->name);
    if (!(index || tensor->stored == SP_F64 || sp_dtype_is_packed(tensor->stored)))
        return sp_fail(
            err, SP_E_UNSUPPORTED,
            "tensor %s: numbers of type %s cannot be converted, expected f32, f16, bf16 or "
            "f64",
            tensor->spec->name, sp_dtype_info(tensor->stored)->name);
    if (sp_dtype_is_packed(tensor->stored) && !sp_dtype_is_float(tensor->stored) && !matrix)
        return sp_fail(err, SP_E_INPUT, "tensor %s: a %s cannot be stored as %s",
                       tensor->spec->name, sp_role_name(tensor->spec->role),
                       sp_dtype_info(tensor->stored)->name);
    if ((request->type != SP_DTYPE_NONE && !sp_dtype_is_packed(request->type)) ||
        (request->output_type != SP_DTYPE_NONE && !sp_dtype_is_packed(request->output_type)))
        return sp_fail(
            err, SP_E_UNSUPPORTED,
            "tensor %s: the requested type cannot be written, expected f32, f16, bf16 or q2 to q8",
            tensor->spec->name);
    *out = matrix ? choose_matrix(request, tensor) : choose_other(tensor);
    return SP_OK;
}
