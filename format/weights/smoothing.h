/* Smoothing (SmoothQuant, arXiv 2211.10438): the columns of the matrices that read a norm are
 * multiplied by powers of two, and the norm's weights are divided by them. The products of floats
 * stay the same to the bit, but for norms that multiply by 1 + w, whose w is rounded once more;
 * rounded weights and rounded activations lose less, because the channels of the norm's output
 * become more alike.
 *
 * A calibration states the exponents of each norm (runtime/measure/calibrate.c), a plan
 * applies them (convert/create/smooth.c), and a packed file states those that were applied, so that
 * its source reads the numbers of the model (convert/source/source_read.c), and an adapter that is
 * added to a matrix is scaled as well (runtime/model/lora.c). */
#ifndef SP_FORMAT_WEIGHTS_SMOOTHING_H
#define SP_FORMAT_WEIGHTS_SMOOTHING_H

#include "format/family/family.h"
#include "format/json/json.h"
#include "format/json/json_write.h"
#include "format/packfile.h"

enum { SP_MAX_EXPONENT = 7, SP_NORM_NAME = 96 };

struct sp_smoothed_norm {
    char *name;        /* canonical; owned */
    int8_t *exponents; /* [n] of the columns of its matrices, within +-SP_MAX_EXPONENT; owned */
    size_t n;
};

/* Valid when zeroed: nothing is smoothed. */
struct sp_smoothing {
    struct sp_smoothed_norm *norms; /* owned */
    size_t n, cap;
};

/* Reads an object that has for each norm a text with one letter per column, "a" for -7 to "o" for
 * 7; of NULL nothing is smoothed. SP_E_INPUT names what is malformed. */
SP_MUST_CHECK enum sp_status sp_smoothing_read(struct sp_smoothing *out,
                                               const struct sp_json *object, struct sp_err *err);
/* Appends that object. */
void sp_smoothing_print(struct sp_json_out *out, const struct sp_smoothing *smoothing);
/* Appends a norm with a copy of its exponents. */
SP_MUST_CHECK enum sp_status sp_smoothing_add(struct sp_smoothing *smoothing, const char *name,
                                              const int8_t *exponents, size_t n,
                                              struct sp_err *err);
void sp_smoothing_release(struct sp_smoothing *smoothing);

/* The entry of a norm; NULL: it is not smoothed. */
const struct sp_smoothed_norm *sp_smoothing_find(const struct sp_smoothing *smoothing,
                                                 const char *name);

/* out = the name of the norm whose output the matrix of this canonical name reads, if it is one
 * that only matrices read. Returns false if there is none. */
bool sp_smoothing_norm_of(char out[SP_NORM_NAME], const struct sp_config *config,
                          const char *matrix);

/* True for a name that a smoothed norm may have: that of the weights of a norm in a layer. */
bool sp_smoothing_is_norm(const char *name);

/* True if the exponents of the norm scale the tensor of this canonical name: a matrix that reads
 * the norm, or the norm's weight or bias. */
bool sp_smoothing_scales(const char *norm, const struct sp_config *config, const char *tensor);

/* Reads the section of a packed file; nothing is smoothed if it has none. */
SP_MUST_CHECK enum sp_status sp_smoothing_of_pack(struct sp_smoothing *out,
                                                  const struct sp_pack *pack, struct sp_err *err);

/* The entry whose exponents scale the tensor; NULL: it is not smoothed. */
const struct sp_smoothed_norm *sp_smoothing_of(const struct sp_smoothing *smoothing,
                                               const struct sp_config *config, const char *tensor);

/* Scales n numbers of such a tensor, or scales them back: whole rows of a matrix, or all of a
 * norm's weight or bias. cols: number of exponents. */
void sp_smoothing_apply(float *x, size_t n, enum sp_role role, const struct sp_config *config,
                        const int8_t *exponents, size_t cols, bool back);

/* 2^exponent, within +-SP_MAX_EXPONENT. */
static inline float sp_power_of_two(int exponent)
{
    return exponent < 0 ? 1.0f / (float)(1u << -exponent) : (float)(1u << exponent);
}

#endif
