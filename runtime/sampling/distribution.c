#include "runtime/sampling/logit_transforms.h"

#include "format/base/mem.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sp_distribution_release(struct sp_distribution *d)
{
    free(d->ids);
    free(d->probs);
    memset(d, 0, sizeof *d);
}

enum sp_status sp_distribution_reserve(struct sp_distribution *d, size_t n, struct sp_err *err)
{
    size_t cap_ids = d->cap, cap_probs = d->cap;
    enum sp_status st;

    if ((st = sp_grow(&d->ids, &cap_ids, n, sizeof *d->ids, err))) return st;
    if ((st = sp_grow(&d->probs, &cap_probs, n, sizeof *d->probs, err))) return st;
    d->cap = cap_probs;
    return SP_OK;
}

/* Draws by exponential noise -ln u >= 1 - u: the logarithm is skipped where the bound loses. */
uint32_t sp_distribution_draw(const struct sp_distribution *d, const struct sp_vector *vector,
                              uint64_t seed, uint64_t position, enum sp_purpose purpose,
                              double *clarity)
{
    enum { BLOCK = 256 };
    uint64_t key = sp_rng_key(seed, position, purpose);
    double best = HUGE_VAL, second = HUGE_VAL, noise[BLOCK];
    size_t winner = 0;

    for (size_t i = 0; i < d->n; i++) {
        double u, e, bar = clarity ? second : best;
        if (i % BLOCK == 0)
            vector->uniform(noise, d->ids + i, d->n - i < BLOCK ? d->n - i : BLOCK, key);
        u = noise[i % BLOCK];
        if (!(d->probs[i] > 0) || 1 - u >= bar * d->probs[i]) continue;
        e = -sp_log(u) / d->probs[i];
        if (e < best) {
            second = best;
            best = e;
            winner = i;
        } else if (e < second) {
            second = e;
        }
    }
    if (clarity) *clarity = 1 - best / second;
    return d->ids[winner];
}

double sp_distribution_at(const struct sp_distribution *d, uint32_t id)
{
    size_t first = 0, last = d->n;

    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (d->ids[middle] == id) return d->probs[middle];
        if (d->ids[middle] < id)
            first = middle + 1;
        else
            last = middle;
    }
    return 0;
}

enum sp_status sp_distribution_certain(struct sp_distribution *out, uint32_t id, struct sp_err *err)
{
    enum sp_status st = sp_distribution_reserve(out, 1, err);

    if (st) return st;
    out->n = 1;
    out->ids[0] = id;
    out->probs[0] = 1;
    return SP_OK;
}

enum sp_status sp_distribution_residual(struct sp_distribution *out,
                                        const struct sp_distribution *p,
                                        const struct sp_distribution *q, struct sp_err *err)
{
    enum sp_status st = sp_distribution_reserve(out, p->n, err);
    double sum = 0;

    if (st) return st;
    out->n = p->n;
    for (size_t i = 0; i < p->n; i++) {
        double rest = p->probs[i] - sp_distribution_at(q, p->ids[i]);
        out->ids[i] = p->ids[i];
        out->probs[i] = rest > 0 ? rest : 0;
        sum += out->probs[i];
    }
    for (size_t i = 0; i < p->n; i++)
        out->probs[i] = sum > 0 ? out->probs[i] / sum : p->probs[i];
    return SP_OK;
}
