/* What EAGLE-3 and P-EAGLE drafts do alike: pairs made from several of the target's layers, and a
 * vocabulary of their own. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_EAGLE3_H
#define SP_RUNTIME_SPECULATE_DRAFT_EAGLE3_H

#include "runtime/speculate/draft_feature_head.h"
#include "runtime/speculate/draft_vocab.h"

struct sp_eagle3 {
    struct sp_feature_head pairs;
    struct sp_draft_vocab vocabulary;
};

/* Depth and parallel of the pairs are the caller's; `tap` as in sp_feature_head_init. On failure
 * sp_eagle3_release cleans up. */
SP_MUST_CHECK enum sp_status sp_eagle3_init(struct sp_eagle3 *d, const struct sp_drafter_ops *ops,
                                            const struct sp_drafter_setup *setup,
                                            const unsigned *tap, struct sp_err *err);
void sp_eagle3_release(struct sp_eagle3 *d);

/* Members of sp_drafter_ops; the drafter begins with a struct sp_eagle3. */
const unsigned *sp_eagle3_taps(const struct sp_model *draft, unsigned *n_taps);
SP_MUST_CHECK enum sp_status sp_eagle3_check(const struct sp_model *target,
                                             const struct sp_model *draft, struct sp_err *err);
void sp_eagle3_commit(struct sp_drafter *base, const struct sp_commit *commit);

#endif
