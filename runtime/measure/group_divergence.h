/* The divergence of a model's output when the matrices of some groups
 * (format/weights/tensor_group.h) are rounded: windows of texts run through the model as it is and
 * then, from the first changed layer on, through the changed model.
 *
 * The residual stream that enters the current layer is kept for each window, so groups are measured
 * in ascending depth and the layers below are not run again. */
#ifndef SP_RUNTIME_MEASURE_GROUP_DIVERGENCE_H
#define SP_RUNTIME_MEASURE_GROUP_DIVERGENCE_H

#include "format/weights/tensor_group.h"
#include "runtime/measure/input_stats.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

struct sp_group_divergence; /* opaque */

/* A group of the target's matrices that q2 to q6 can store. */
struct sp_matrix_group {
    struct sp_tensor_group group;
    unsigned depth;  /* 0: read before the layers; 1 + i: in layer i; 1 + n_layers: after them */
    size_t first, n; /* its matrices */
};

enum { SP_MAX_DIVERGENCE_WINDOWS = 4 };

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

/* Runs windows of the texts, 512 tokens in all or fewer if the texts are short. Matrices are
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

#endif
