/* What the choosers of sessions use of struct sp_sampler, whose public functions spectool.h
 * declares.
 *
 * A package has one sampler. Each sampled answer has a slot in it, so that all sequences share the
 * buffers of the transforms. Its functions are called by the thread that holds the scheduler. */
#ifndef SP_RUNTIME_SAMPLING_SAMPLER_H
#define SP_RUNTIME_SAMPLING_SAMPLER_H

#include "runtime/sampling/logit_transforms.h"

/* sp_sampler_open with the instruction set `vector`, which changes no result. */
SP_MUST_CHECK enum sp_status sp_sampler_open_for(struct sp_sampler **out, size_t n_vocab,
                                                 size_t n_context, const struct sp_vector *vector,
                                                 struct sp_err *err);

/* The distribution of position `pos` of a sequence whose caller holds its tokens, ids[0..pos-1].
 * Failures are those of sp_sampler_distribution. */
SP_MUST_CHECK enum sp_status sp_sampler_slot_distribution(struct sp_sampler *sampler, size_t slot,
                                                          struct sp_distribution *out,
                                                          const struct sp_logits *logits,
                                                          const uint32_t *ids, size_t pos,
                                                          struct sp_err *err);

const struct sp_vector *sp_sampler_vector(const struct sp_sampler *sampler); /* static */

#endif
