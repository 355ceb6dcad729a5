/* A column's exponent follows from the root mean squares x of its inputs and w of its weights, over
 * all matrices that read the norm: inputs and weights of the column are brought to the same size,
 * 2^e = sqrt(x / w), relative to the mean of all columns (the migration strength of SmoothQuant is
 * 1/2). The rows of a tensor are alike, so that a sample of them suffices. */
#include "runtime/measure/measure_smoothing.h"

#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "quantize/codec.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLED_ROWS = 512 }; /* of a tensor, or nearly twice as many */

static const double LN_2 = 0.6931471805599453;

/* A norm that is measured. */
struct measured {
    const char *norm;
    size_t cols;
    float *row, *inputs; /* [cols] a row of weights; sums of squares of the inputs */
    double *weights;     /* [cols] sums of squares of the sampled weights */
    int8_t *exponents;   /* [cols] */
    bool observed;
};

/* The panels of matrix `index` of a stack. */
static const uint8_t *panels_of(const struct sp_pack_tensor *t, size_t index)
{
    size_t rows = (size_t)t->shape[t->rank - 2], size = 0;
    bool known = sp_panel_size(&size, t->dtype, (size_t)t->shape[t->rank - 1]);

    return known ? t->data + index * ((rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS) * size : t->data;
}

/* Adds the squares of a sample of a tensor's weights. */
static void add_weights(struct measured *m, const struct sp_pack_tensor *t)
{
    size_t rows = (size_t)t->shape[t->rank - 2], n = sp_pack_tensor_n_matrices(t) * rows;
    size_t step = n > SAMPLED_ROWS ? n / SAMPLED_ROWS : 1;

    for (size_t row = 0; row < n; row += step) {
        sp_panel_row(m->row, t->dtype, panels_of(t, row / rows), m->cols, row % rows);
        for (size_t k = 0; k < m->cols; k++)
            m->weights[k] += (double)m->row[k] * (double)m->row[k];
    }
}

/* False if a matrix reads the norm that cannot be taken into account. */
static bool add_readers(struct measured *m, const struct sp_input_stats *stats,
                        const struct sp_pack *pack, const struct sp_config *config)
{
    char norm[SP_NORM_NAME];

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);

        if (t->part != SP_PART_TARGET || !sp_smoothing_norm_of(norm, config, t->name)) continue;
        if (strcmp(norm, m->norm) != 0) continue;
        if (t->layout != SP_PANEL || t->shape[t->rank - 1] != m->cols) return false;
        add_weights(m, t);
        if (!m->observed) m->observed = sp_input_stats_squares(m->inputs, stats, t->name);
    }
    return m->observed;
}

/* log2 of the square of a column's 2^e, before it is brought to the mean; false: it has no inputs
 * or no weights. */
static bool balance(double *out, const struct measured *m, size_t k)
{
    double ratio = (double)m->inputs[k] / m->weights[k];

    if (!(m->inputs[k] > 0 && m->weights[k] > 0) || !isfinite(ratio) || !(ratio > 0)) return false;
    *out = sp_log(ratio) / LN_2 / 2;
    return true;
}

static void set_exponents(struct measured *m)
{
    double sum = 0, mean, value;
    size_t n = 0;

    for (size_t k = 0; k < m->cols; k++) {
        if (!balance(&value, m, k)) continue;
        sum += value;
        n++;
    }
    mean = n ? sum / (double)n : 0;
    for (size_t k = 0; k < m->cols; k++) {
        long e = balance(&value, m, k) ? lround((value - mean) / 2) : 0;

        if (e > SP_MAX_EXPONENT) e = SP_MAX_EXPONENT;
        if (e < -SP_MAX_EXPONENT) e = -SP_MAX_EXPONENT;
        m->exponents[k] = (int8_t)e;
    }
}

static enum sp_status measure(struct sp_smoothing *out, struct measured *m,
                              const struct sp_input_stats *stats, const struct sp_pack *pack,
                              const struct sp_config *config, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_new(&m->row, m->cols, sizeof *m->row, err)) ||
        (st = sp_new(&m->inputs, m->cols, sizeof *m->inputs, err)) ||
        (st = sp_new(&m->weights, m->cols, sizeof *m->weights, err)) ||
        (st = sp_new(&m->exponents, m->cols, 1, err)) || !add_readers(m, stats, pack, config))
        return st;
    set_exponents(m);
    return sp_smoothing_add(out, m->norm, m->exponents, m->cols, err);
}

static void release(struct measured *m)
{
    free(m->row);
    free(m->inputs);
    free(m->weights);
    free(m->exponents);
}

enum sp_status sp_measure_smoothing(struct sp_smoothing *out, const struct sp_input_stats *stats,
                                    const struct sp_pack *pack, const struct sp_config *config,
                                    struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sp_pack_n_tensors(pack) && !st; i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        struct measured m = {.norm = t->name, .cols = (size_t)t->shape[0]};

        if (t->part != SP_PART_TARGET || t->rank != 1 || !sp_smoothing_is_norm(t->name)) continue;
        st = measure(out, &m, stats, pack, config, err);
        release(&m);
    }
    return st;
}
