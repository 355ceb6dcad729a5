/* Greedy choice (runtime/sampling/chooser.h). */
#include "runtime/sampling/chooser.h"

#include "runtime/vector/fmath.h"
#include "runtime/vector/rng.h"

#include <string.h>

double sp_greedy_confidence(const struct sp_vector *vector, const struct sp_logits *logits,
                            uint32_t id)
{
    const struct sp_logits *from = logits->scored ? logits->scored : logits;
    const float *row = from->sums ? NULL : sp_logits_row(from);
    double at, total = 0;

    if (id == logits->best)
        at = row ? (double)row[from->best] : (double)from->max;
    else
        at = (double)sp_logits_row(logits)[id];
    for (size_t i = 0; i < from->n; i += SP_LOGITS_BLOCK) {
        size_t len = from->n - i < SP_LOGITS_BLOCK ? from->n - i : SP_LOGITS_BLOCK;
        struct sp_logits_sum s =
            row ? sp_logits_sum_of(vector, row + i, len) : from->sums[i / SP_LOGITS_BLOCK];
        total += (double)s.sum * sp_exp((double)s.max - at);
    }
    return 1 / total;
}

static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    (void)ids;
    if (logits->best == SIZE_MAX)
        return sp_fail(err, SP_E_INPUT, "a logit for position %zu is not finite", pos);
    *id = (uint32_t)logits->best;
    if (confidence) *confidence = sp_greedy_confidence(state, logits, *id);
    return SP_OK;
}

static enum sp_status choose(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err)
{
    (void)draft_token;
    return propose(state, id, NULL, logits, ids, pos, err);
}

struct sp_chooser sp_greedy_chooser(const struct sp_vector *vector)
{
    struct sp_chooser chooser = {.propose = propose, .choose = choose, .needs = SP_LOGITS_BEST};

    memcpy(&chooser.state, &vector, sizeof vector); /* drops const: the state is only read */
    return chooser;
}

/* ---- simulated acceptance ---- */

/* Does the work of a greedy choice; the confidence is the simulated acceptance rate. */
static enum sp_status propose_simulated(void *state, uint32_t *id, double *confidence,
                                        const struct sp_logits *logits, const uint32_t *ids,
                                        size_t pos, struct sp_err *err)
{
    const struct sp_simulated_choice *choice = state;
    struct sp_chooser greedy = sp_greedy_chooser(choice->vector);
    enum sp_status st = propose(greedy.state, id, confidence, logits, ids, pos, err);

    if (confidence) *confidence = choice->simulation.acceptance;
    return st;
}

static enum sp_status choose_simulated(void *state, uint32_t *id, const struct sp_logits *logits,
                                       const uint32_t *ids, size_t pos, uint32_t draft_token,
                                       struct sp_err *err)
{
    const struct sp_simulated_choice *choice = state;
    uint64_t key = sp_rng_key(choice->simulation.seed, pos, SP_PURPOSE_ACCEPT);
    enum sp_status st;

    if ((st = propose_simulated(state, id, NULL, logits, ids, pos, err))) return st;
    if (draft_token == SP_NO_DRAFT_TOKEN) return SP_OK;
    if (sp_rng_uniform(key, 0) < choice->simulation.acceptance)
        *id = draft_token;
    else if (*id == draft_token)
        *id = draft_token ? 0 : 1; /* any other token */
    return SP_OK;
}

struct sp_chooser sp_simulated_chooser(struct sp_simulated_choice *choice)
{
    return (struct sp_chooser){.propose = propose_simulated,
                               .choose = choose_simulated,
                               .needs = SP_LOGITS_BEST,
                               .state = choice};
}
