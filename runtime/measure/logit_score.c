#include "runtime/measure/logit_score.h"

#include "runtime/vector/fmath.h"

bool sp_logit_score(struct sp_logit_score *out, const struct sp_vector *vector, const float *logits,
                    size_t n, uint32_t token)
{
    double max, sum = 0;

    out->best = vector->argmax(logits, n);
    if (out->best == SIZE_MAX) return false;
    max = (double)logits[out->best];
    for (size_t i = 0; i < n; i++)
        sum += sp_exp((double)logits[i] - max);
    out->log_sum = max + sp_log(sum);
    out->logprob = (double)logits[token] - out->log_sum;
    return true;
}

bool sp_row_compare(struct sp_logit_score *out, double *divergence, const struct sp_vector *vector,
                    const float *reference, const float *logits, const struct sp_logit_score *score,
                    size_t n, uint32_t token)
{
    double max, sum = 0, gap = 0;

    out->best = vector->argmax(reference, n);
    if (out->best == SIZE_MAX) return false;
    max = (double)reference[out->best];
    for (size_t i = 0; i < n; i++) {
        double weight = sp_exp((double)reference[i] - max);
        sum += weight;
        gap += weight * ((double)reference[i] - (double)logits[i]);
    }
    out->log_sum = max + sp_log(sum);
    out->logprob = (double)reference[token] - out->log_sum;
    *divergence = gap / sum - (out->log_sum - score->log_sum);
    if (*divergence < 0) *divergence = 0;
    return true;
}
