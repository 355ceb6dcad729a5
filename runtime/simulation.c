#include "runtime/simulation.h"

#include "runtime/rng.h"

/* The work of a greedy choice. */
static enum sp_status propose(void *state, uint32_t *id, const float *logits, size_t n_vocab,
                              const uint32_t *ids, size_t pos, struct sp_err *err)
{
    const struct sp_simulated_choice *choice = state;
    size_t best = choice->vector->argmax(logits, n_vocab);

    (void)ids;
    if (best == SIZE_MAX) {
        return sp_fail(err, SP_E_INPUT, "a logit for position %zu is not finite", pos);
    }
    *id = (uint32_t)best;
    return SP_OK;
}

static enum sp_status choose(void *state, uint32_t *id, const float *logits, size_t n_vocab,
                             const uint32_t *ids, size_t pos, uint32_t guess, struct sp_err *err)
{
    const struct sp_simulated_choice *choice = state;
    uint64_t key = sp_rng_key(choice->simulation.seed, pos, SP_PURPOSE_ACCEPT);
    enum sp_status st;

    if ((st = propose(state, id, logits, n_vocab, ids, pos, err))) return st;
    if (guess == SP_NO_GUESS) return SP_OK;
    if (sp_rng_uniform(key, 0) < choice->simulation.acceptance) {
        *id = guess;
    } else if (*id == guess) {
        *id = guess ? 0 : 1; /* any other token */
    }
    return SP_OK;
}

struct sp_chooser sp_simulation_chooser(struct sp_simulated_choice *choice)
{
    return (struct sp_chooser){.propose = propose, .choose = choose, .state = choice};
}
