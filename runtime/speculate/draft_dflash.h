/* What DFlash drafts of both versions and DSpark drafts share: the block, context and caches. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_DFLASH_H
#define SP_RUNTIME_SPECULATE_DRAFT_DFLASH_H

#include "runtime/speculate/draft_vocab.h"
#include "runtime/speculate/drafter.h"

struct sp_dflash {
    struct sp_drafter base;
    const struct sp_model *model, *embedder, *head; /* the draft's own tables or the target's */
    size_t n_positions, block_size, n_vocab, max_rows;
    size_t n_context; /* positions whose keys and values are there */
    struct sp_draft_vocab vocabulary;
};

/* Opens the decoder and the vocabulary; `taps` are the decoder's own, borrowed. */
SP_MUST_CHECK enum sp_status sp_dflash_init(struct sp_dflash *d,
                                            const struct sp_drafter_setup *setup,
                                            const unsigned *taps, unsigned n_taps,
                                            struct sp_err *err);

/* Runs the block of the anchor ids[n_cached]; the decoder's logits: of the first n drafting rows.
 */
void sp_dflash_run_block(struct sp_dflash *d, const uint32_t *ids, size_t n_cached, size_t n,
                         enum sp_logits_need needs);

/* Members of sp_drafter_ops; the drafter begins with a struct sp_dflash. */
SP_MUST_CHECK enum sp_status sp_dflash_check(const struct sp_model *target,
                                             const struct sp_model *draft, struct sp_err *err);
struct sp_logits sp_dflash_logits(const struct sp_drafter *base, size_t i);
void sp_dflash_commit(struct sp_drafter *base, const struct sp_commit *commit);
bool sp_dflash_truncate(struct sp_drafter *base, size_t len, size_t n_same);
SP_MUST_CHECK enum sp_status sp_dflash_page(struct sp_drafter *base, struct sp_cache_file *file,
                                            size_t span, bool resumes, struct sp_err *err);

#endif
