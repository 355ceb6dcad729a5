#include "runtime/sampling/sampling_chooser.h"

#include <string.h>

/* Masks *logits for position `pos`. */
static void mask_logits(struct sp_end_mask *m, struct sp_logits *logits, size_t pos)
{
    if (pos >= m->first || logits->best == SIZE_MAX) return;
    memcpy(m->row, sp_logits_row(logits), logits->n * sizeof *m->row);
    for (size_t i = 0; i < m->n_ends; i++)
        if (m->ends[i] < logits->n) m->row[m->ends[i]] = SP_NEVER;
    *logits = sp_logits_of(m->vector, m->row, logits->n);
}

static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    struct sp_end_mask *m = state;
    struct sp_logits left = *logits;

    mask_logits(m, &left, pos);
    return m->inner.propose(m->inner.state, id, confidence, &left, ids, pos, err);
}

static enum sp_status choose(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err)
{
    struct sp_end_mask *m = state;
    struct sp_logits left = *logits;

    mask_logits(m, &left, pos);
    return m->inner.choose(m->inner.state, id, &left, ids, pos, draft_token, err);
}

static enum sp_status adopt(void *state, bool *possible, const uint32_t *ids, size_t pos,
                            struct sp_err *err)
{
    const struct sp_end_mask *m = state;

    return m->inner.adopt ? m->inner.adopt(m->inner.state, possible, ids, pos, err) : SP_OK;
}

struct sp_chooser sp_end_mask_chooser(struct sp_end_mask *mask)
{
    return (struct sp_chooser){.propose = propose,
                               .adopt = adopt,
                               .choose = choose,
                               .needs = SP_LOGITS_ROWS,
                               .state = mask};
}
