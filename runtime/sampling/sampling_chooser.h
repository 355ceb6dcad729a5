/* The chooser that draws from the distribution of a row, coupled or with rejection sampling. */
#ifndef SP_RUNTIME_SAMPLING_SAMPLING_CHOOSER_H
#define SP_RUNTIME_SAMPLING_SAMPLING_CHOOSER_H

#include "runtime/sampling/chooser.h"
#include "runtime/spectool.h"
#include "runtime/vector/vector.h"
#include "runtime/sampling/logit_transforms.h"

/* A chooser that chooses no end token before an answer has its least number of tokens: `min_tokens`
 * of a request. It masks the logits of draft and target alike. */

struct sp_end_mask {
    struct sp_chooser inner; /* chooses from the masked logits */
    const struct sp_vector *vector;
    const uint32_t *ends; /* [n_ends] end tokens; borrowed */
    size_t n_ends;
    size_t first; /* the first position that may have one */
    float *row;   /* [n_vocab rounded up to 16] owned by the caller */
};

/* `mask` is borrowed by the chooser. */
struct sp_chooser sp_end_mask_chooser(struct sp_end_mask *mask);

struct sp_sampler;
struct sp_sampling_chooser; /* the state of a struct sp_chooser, for one sequence */

/* Takes a slot of `sampler`, which must outlive the chooser. max_draft_len: of a round. SP_E_USAGE
 * names an option out of its range. */
SP_MUST_CHECK enum sp_status sp_sampling_chooser_new(struct sp_sampling_chooser **out,
                                                     struct sp_sampler *sampler,
                                                     const struct sp_sampling *sampling,
                                                     size_t max_draft_len, struct sp_err *err);
void sp_sampling_chooser_free(struct sp_sampling_chooser *state); /* NULL is fine */
struct sp_chooser sp_sampling_chooser_of(struct sp_sampling_chooser *state);

/* ---- the sampler of a package (sampler.c) ----
 *
 * What the choosers of sessions use of struct sp_sampler, whose public functions spectool.h
 * declares.
 *
 * A package has one sampler. Each sampled answer has a slot in it, so that all sequences share the
 * buffers of the transforms. Its functions are called by the thread that holds the scheduler. */

/* sp_sampler_open with the instruction set `vector` and the threads of `pool` (NULL: none besides
 * the caller), which change no result. */
SP_MUST_CHECK enum sp_status sp_sampler_open_for(struct sp_sampler **out, size_t n_vocab,
                                                 size_t n_context, const struct sp_vector *vector,
                                                 struct sp_pool *pool, struct sp_err *err);

/* The distribution of position `pos` of a sequence whose caller holds its tokens, ids[0..pos-1].
 * Failures are those of sp_sampler_distribution. */
SP_MUST_CHECK enum sp_status sp_sampler_slot_distribution(struct sp_sampler *sampler, size_t slot,
                                                          struct sp_distribution *out,
                                                          const struct sp_logits *logits,
                                                          const uint32_t *ids, size_t pos,
                                                          struct sp_err *err);

const struct sp_vector *sp_sampler_vector(const struct sp_sampler *sampler); /* static */

#endif
