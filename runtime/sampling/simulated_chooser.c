#include "runtime/sampling/simulated_chooser.h"

#include "runtime/sampling/greedy_chooser.h"
#include "runtime/vector/rng.h"

/* Does the work of a greedy choice; the confidence is the simulated acceptance rate. */
static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    const struct sp_simulated_choice *choice = state;
    struct sp_chooser greedy = sp_greedy_chooser(choice->vector);
    enum sp_status st = greedy.propose(greedy.state, id, confidence, logits, ids, pos, err);

    if (confidence) *confidence = choice->simulation.acceptance;
    return st;
}

static enum sp_status choose(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err)
{
    const struct sp_simulated_choice *choice = state;
    uint64_t key = sp_rng_key(choice->simulation.seed, pos, SP_PURPOSE_ACCEPT);
    enum sp_status st;

    if ((st = propose(state, id, NULL, logits, ids, pos, err))) return st;
    if (draft_token == SP_NO_DRAFT_TOKEN) return SP_OK;
    if (sp_rng_uniform(key, 0) < choice->simulation.acceptance)
        *id = draft_token;
    else if (*id == draft_token)
        *id = draft_token ? 0 : 1; /* any other token */
    return SP_OK;
}

struct sp_chooser sp_simulated_chooser(struct sp_simulated_choice *choice)
{
    return (struct sp_chooser){
        .propose = propose, .choose = choose, .needs = SP_LOGITS_BEST, .state = choice};
}
