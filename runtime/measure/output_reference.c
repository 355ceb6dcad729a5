#include "runtime/measure/output_reference.h"

#include "format/base/mem.h"
#include "runtime/vector/fmath.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_output_reference_init(struct sp_output_reference *reference, size_t n_rows,
                                        size_t n, struct sp_err *err)
{
    struct sp_output_reference r = {.n_rows = n_rows, .n = n};
    enum sp_status st;

    if ((st = sp_new(&r.probs, n_rows, n * sizeof *r.probs, err)) ||
        (st = sp_new(&r.sums, n_rows, sizeof *r.sums, err)) ||
        (st = sp_new(&r.entropies, n_rows, sizeof *r.entropies, err))) {
        sp_output_reference_release(&r);
        return st;
    }
    *reference = r;
    return SP_OK;
}

void sp_output_reference_release(struct sp_output_reference *reference)
{
    free(reference->probs);
    free(reference->sums);
    free(reference->entropies);
    *reference = (struct sp_output_reference){0};
}

/* Rounds to nearest; x is a probability. */
static uint16_t to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float y;

    memcpy(&y, &bits, sizeof y);
    return (double)y;
}

bool sp_output_reference_set(struct sp_output_reference *reference, size_t i,
                             const struct sp_vector *vector, const float *logits, float *scratch)
{
    uint16_t *probs = reference->probs + i * reference->n;
    float max, sum;
    double all = 0, entropy = 0;

    if (vector->argmax(logits, reference->n) == SIZE_MAX) return false;
    memcpy(scratch, logits, reference->n * sizeof *scratch);
    vector->softmax(scratch, 0, reference->n, &max, &sum);
    for (size_t k = 0; k < reference->n; k++) {
        double p;

        probs[k] = to_bf16(scratch[k] / sum);
        if ((p = from_bf16(probs[k])) == 0) continue;
        all += p;
        entropy -= p * sp_log(p);
    }
    reference->sums[i] = all;
    reference->entropies[i] = entropy;
    return true;
}

/* The sum of p times logit, in four running sums. */
static double weigh(const uint16_t *probs, const float *logits, size_t n)
{
    double sums[4] = {0};
    size_t k = 0;

    for (; k + 4 <= n; k += 4)
        for (size_t j = 0; j < 4; j++)
            sums[j] += from_bf16(probs[k + j]) * (double)logits[k + j];
    for (; k < n; k++)
        sums[0] += from_bf16(probs[k]) * (double)logits[k];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* With P the sum of the kept p, the distribution is p / P, and
 *
 *   KL = ln sum e^logit - (sum of p logit + entropy) / P - ln P */
bool sp_output_reference_compare(double *divergence, const struct sp_output_reference *reference,
                                 size_t i, const struct sp_vector *vector, const float *logits,
                                 float *scratch)
{
    double mean, all = reference->sums[i];
    float max, sum;

    if (vector->argmax(logits, reference->n) == SIZE_MAX) return false;
    mean = weigh(reference->probs + i * reference->n, logits, reference->n);
    memcpy(scratch, logits, reference->n * sizeof *scratch);
    vector->softmax(scratch, 0, reference->n, &max, &sum);
    *divergence =
        (double)max + sp_log((double)sum) - (mean + reference->entropies[i]) / all - sp_log(all);
    if (*divergence < 0) *divergence = 0;
    return true;
}
