#include "runtime/speculate/drafting_controller.h"

#include <math.h>

static const double prior = 20;    /* curvature of the prior */
static const double forget = 0.99; /* weight that the curvature keeps */

void sp_calibrated_confidence_init(struct sp_calibrated_confidence *c)
{
    *c = (struct sp_calibrated_confidence){.b = 1, .h_aa = prior, .h_bb = prior};
}

static double logit(double confidence)
{
    static const double least = 1e-4;

    confidence = fmin(fmax(confidence, least), 1 - least / 10);
    return log(confidence / (1 - confidence));
}

double sp_calibrated_confidence_at(const struct sp_calibrated_confidence *c, double confidence)
{
    return 1 / (1 + exp(-(c->a + c->b * logit(confidence))));
}

double sp_calibrated_confidence_upper(const struct sp_calibrated_confidence *c, double confidence)
{
    double x = logit(confidence), det = c->h_aa * c->h_bb - c->h_ab * c->h_ab;
    double variance = (c->h_bb - 2 * x * c->h_ab + x * x * c->h_aa) / det;

    return 1 / (1 + exp(-(c->a + c->b * x + 2 * sqrt(variance))));
}

/* A Newton step on the log-likelihood. */
void sp_calibrated_confidence_record(struct sp_calibrated_confidence *c, double confidence,
                                     bool accepted)
{
    static const double least = 1e-3;
    double x = logit(confidence), p = sp_calibrated_confidence_at(c, confidence);
    double g = (accepted ? 1 : 0) - p, h = p * (1 - p) + least, det;

    c->h_aa = prior + forget * (c->h_aa - prior) + h;
    c->h_ab = forget * c->h_ab + h * x;
    c->h_bb = prior + forget * (c->h_bb - prior) + h * x * x;
    det = c->h_aa * c->h_bb - c->h_ab * c->h_ab;
    c->a += (c->h_bb * g - c->h_ab * g * x) / det;
    c->b = fmax(c->b + (c->h_aa * g * x - c->h_ab * g) / det, 0);
}
