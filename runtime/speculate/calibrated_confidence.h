/* The probability that a draft token is accepted, from the draft's confidence in it: Platt scaling
 * (Platt 1999), p = sigmoid(a + b logit(confidence)), learned online by Newton steps. */
#ifndef SP_RUNTIME_SPECULATE_CALIBRATED_CONFIDENCE_H
#define SP_RUNTIME_SPECULATE_CALIBRATED_CONFIDENCE_H

#include <stdbool.h>

/* b and the curvature [[h_aa, h_ab], [h_ab, h_bb]] start at a prior that trusts the confidence. */
struct sp_calibrated_confidence {
    double a, b;
    double h_aa, h_ab, h_bb;
};

void sp_calibrated_confidence_init(struct sp_calibrated_confidence *c);

/* The probability, 0..1. */
double sp_calibrated_confidence_at(const struct sp_calibrated_confidence *c, double confidence);

/* An upper bound of the probability, two standard deviations of the logit above it, which shrinks
 * as outcomes are recorded: what is tried for it is soon known (LinUCB, Li et al. 2010). */
double sp_calibrated_confidence_upper(const struct sp_calibrated_confidence *c, double confidence);

/* Learns from one outcome. */
void sp_calibrated_confidence_record(struct sp_calibrated_confidence *c, double confidence,
                                     bool accepted);

#endif
