/* The divergence of a model's output when the matrices of some groups
 * (format/weights/tensor_group.h) are rounded: windows of texts run through the model as it is and
 * then, from the first changed layer on, through the changed model.
 *
 * The residual stream that enters the current layer is kept for each window, so groups are measured
 * in ascending depth and the layers below are not run again. */
#ifndef SP_RUNTIME_MEASURE_GROUP_DIVERGENCE_H
#define SP_RUNTIME_MEASURE_GROUP_DIVERGENCE_H

#include "format/base/pool.h"
#include "format/weights/cache_divergence.h"
#include "format/weights/sensitivity.h"
#include "format/weights/tensor_group.h"
#include "quantize/codec.h"
#include "runtime/backend/backend.h"
#include "runtime/measure/input_stats.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

/* Copies of matrices in a type of few bits, to measure what rounding a model's weights costs. */

struct sp_rounded_matrix {
    struct sp_matrix w; /* its panels are in `memory` */
    void *memory;       /* owned */
};

struct sp_rounding {
    const struct sp_encoder *encoder;
    struct sp_pool *pool;
    enum sp_dtype dtype;            /* q2 to q6 */
    struct sp_gptq_weights weights; /* of the errors */
};

/* Rounds a stack of n_matrices matrices of w's shape, whose panels follow one another, as a
 * calibration with the weights has them rounded. w->cols is a multiple of 32. If used is not NULL,
 * only panels p with used[p] are made; the others are undefined. */
SP_MUST_CHECK enum sp_status sp_rounded_matrix_init(struct sp_rounded_matrix *out,
                                                    const struct sp_rounding *rounding,
                                                    const struct sp_matrix *w, size_t n_matrices,
                                                    const bool *used, struct sp_err *err);
void sp_rounded_matrix_release(struct sp_rounded_matrix *matrix); /* a zeroed one is fine */

/* Measures the sensitivities of a target's groups of matrices (format/weights/sensitivity.h).
 *
 * In a layer each group is rounded to q2, and all groups together to q6. A group's divergence is
 *
 *   K = f + s E(q2);   of all of them with q6:   F = f + E(q6) sum of s
 *
 * with the sensitivity s, the error E of a type (sp_policy_error) and f, what any change costs
 * where activations are rounded to 8 bits: the roundings of the layers above come out differently,
 * by about as much for a small change as for a large one. The two equations give s and f. Matrices
 * outside of the layers, which matter more, are rounded to q3 instead of q2. */

/* Measures with the texts, callback and output path of `request`. Matrices are rounded with the
 * weights of `stats`, as create rounds them with this calibration. What is measured is kept in a
 * file beside the output, and the same request continues from there; the caller removes that file
 * when it has written the output. SP_E_CANCELLED: the callback stopped. */
SP_MUST_CHECK enum sp_status
sp_measure_sensitivity(struct sp_sensitivities *out, struct sp_cache_divergences *caches,
                       struct sp_package *package, const struct sp_input_stats *stats,
                       const struct sp_calibration_request *request, struct sp_err *err);

/* *path = the file beside the output, owned by the caller. */
SP_MUST_CHECK enum sp_status sp_measure_sensitivity_path(char **path,
                                                         const struct sp_calibration_request *q,
                                                         struct sp_err *err);

struct sp_group_divergence; /* opaque */

/* A group of the target's matrices that q2 to q6 can store. */
struct sp_matrix_group {
    struct sp_tensor_group group;
    unsigned depth;  /* 0: read before the layers; 1 + i: in layer i; 1 + n_layers: after them */
    size_t first, n; /* its matrices */
};

/* At most so many windows of so many tokens. */
enum { SP_MAX_DIVERGENCE_WINDOWS = 4, SP_DIVERGENCE_WINDOW = 128 };

/* A part of a text to run through the model, after the tokens that begin every text. */
struct sp_text_window {
    size_t text;     /* its index */
    size_t first, n; /* tokens */
    size_t lead;     /* the number of the tokens that are put before them */
};

/* out[0..SP_MAX_DIVERGENCE_WINDOWS-1] = the windows of the texts, in their order; returns their
 * number. The texts have at least one token. Windows overlap only in very short texts. */
size_t sp_group_divergence_windows(struct sp_text_window *out, const struct sp_package *package,
                                   const struct sp_calibration_text *texts, size_t n_texts);

/* Runs windows of the texts, fewer or shorter ones if the texts are short. Matrices are
 * rounded with the weights of `stats`, which was solved, and must outlive this one; NULL: all
 * errors weigh equally. No other pass of the target may run until it is closed. */
SP_MUST_CHECK enum sp_status sp_group_divergence_open(struct sp_group_divergence **out,
                                                      struct sp_package *package,
                                                      const struct sp_input_stats *stats,
                                                      const struct sp_calibration_text *texts,
                                                      size_t n_texts, struct sp_err *err);
void sp_group_divergence_close(struct sp_group_divergence *d); /* NULL is fine */

/* The groups, by depth and kind; *n is their number; borrowed. */
const struct sp_matrix_group *sp_group_divergence_groups(const struct sp_group_divergence *d,
                                                         size_t *n);

/* *nats = the mean of KL(unchanged || changed) over the scored tokens, if the matrices of groups
 * first..first+n-1, which have one depth, are rounded to `dtype` (q2 to q6). No depth is smaller
 * than that of an earlier call. SP_E_INPUT if a logit is not finite. */
SP_MUST_CHECK enum sp_status sp_group_divergence_measure(struct sp_group_divergence *d,
                                                         double *nats, size_t first, size_t n,
                                                         enum sp_dtype dtype, struct sp_err *err);

/* The same if the cache of layer `layer`, which may vary (runtime/model/cache_types.h), has another
 * type than f32. */
SP_MUST_CHECK enum sp_status sp_group_divergence_measure_cache(struct sp_group_divergence *d,
                                                               double *nats, unsigned layer,
                                                               enum sp_cache_type type,
                                                               struct sp_err *err);

#endif
