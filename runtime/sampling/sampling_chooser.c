/* Sampled choice in a drafted sequence, coupled or by rejection (runtime/sampling/chooser.h). */
#include "runtime/sampling/sampling_chooser.h"
#include "runtime/sampling/chooser.h"

#include "format/base/mem.h"

#include <stdlib.h>

struct sp_sampling_chooser {
    struct sp_sampling options;
    struct sp_sampler *sampler; /* borrowed; NULL: the slot is not taken */
    size_t slot;
    const struct sp_vector *vector;
    struct sp_distribution p, rest;
    struct sp_distribution *q; /* [max_draft_len + 1] of draft tokens; that of pos at pos % n_q */
    size_t n_q;
};

enum sp_status sp_sampling_chooser_new(struct sp_sampling_chooser **out, struct sp_sampler *sampler,
                                       const struct sp_sampling *sampling, size_t max_draft_len,
                                       struct sp_err *err)
{
    struct sp_sampling_chooser *c = NULL;
    enum sp_status st;

    if ((st = sp_new(&c, 1, sizeof *c, err))) goto done;
    c->options = *sampling;
    c->vector = sp_sampler_vector(sampler);
    c->n_q = max_draft_len + 1;
    if ((st = sp_new(&c->q, c->n_q, sizeof *c->q, err))) goto done;
    if ((st = sp_sampler_add(sampler, &c->slot, sampling, NULL, 0, err))) goto done;
    c->sampler = sampler;
    *out = c;
    c = NULL;
done:
    sp_sampling_chooser_free(c);
    return st;
}

void sp_sampling_chooser_free(struct sp_sampling_chooser *c)
{
    if (c == NULL) return;
    for (size_t i = 0; c->q && i < c->n_q; i++)
        sp_distribution_release(&c->q[i]);
    free(c->q);
    sp_distribution_release(&c->p);
    sp_distribution_release(&c->rest);
    if (c->sampler) sp_sampler_remove(c->sampler, c->slot);
    free(c);
}

/* The confidence at temperature 0 is that of a greedy choice. Otherwise, if coupled, the draft
 * token is accepted when it also wins the target's draw under the same noise, which is more likely
 * the clearer it won the draft's; with rejection sampling, min(1, p/q) tends to grow with q. */
static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    struct sp_sampling_chooser *c = state;
    struct sp_distribution *q = &c->q[pos % c->n_q];
    bool coupled = c->options.accept == SP_ACCEPT_COUPLED;
    enum sp_status st = sp_sampler_slot_distribution(c->sampler, c->slot, q, logits, ids, pos, err);

    if (st) return st;
    *id = sp_distribution_draw(q, c->vector, c->options.seed, pos,
                               coupled ? SP_PURPOSE_TOKEN : SP_PURPOSE_PROPOSAL,
                               coupled ? confidence : NULL);
    if (confidence && c->options.temperature <= 0)
        *confidence = sp_greedy_confidence(c->vector, logits, *id);
    else if (confidence && !coupled)
        *confidence = sp_distribution_at(q, *id);
    return SP_OK;
}

/* Stores a distribution that is certain of the token, so that rejection sampling accepts it with
 * its probability in the target. */
static enum sp_status adopt(void *state, bool *possible, const uint32_t *ids, size_t pos,
                            struct sp_err *err)
{
    struct sp_sampling_chooser *c = state;

    (void)possible;
    return sp_distribution_certain(&c->q[pos % c->n_q], ids[pos], err);
}

static enum sp_status choose(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err)
{
    struct sp_sampling_chooser *c = state;
    const struct sp_distribution *q = &c->q[pos % c->n_q], *from = &c->p;
    enum sp_purpose purpose = SP_PURPOSE_TOKEN;
    enum sp_status st =
        sp_sampler_slot_distribution(c->sampler, c->slot, &c->p, logits, ids, pos, err);

    if (st) return st;
    if (c->options.accept == SP_ACCEPT_REJECTION && draft_token != SP_NO_DRAFT_TOKEN) {
        double coin = sp_rng_uniform(sp_rng_key(c->options.seed, pos, SP_PURPOSE_ACCEPT), 0);
        if (coin * sp_distribution_at(q, draft_token) < sp_distribution_at(&c->p, draft_token)) {
            *id = draft_token;
            return SP_OK;
        }
        if ((st = sp_distribution_residual(&c->rest, &c->p, q, err))) return st;
        from = &c->rest;
        purpose = SP_PURPOSE_RESIDUAL;
    }
    *id = sp_distribution_draw(from, c->vector, c->options.seed, pos, purpose, NULL);
    return SP_OK;
}

struct sp_chooser sp_sampling_chooser_of(struct sp_sampling_chooser *state)
{
    return (struct sp_chooser){
        .propose = propose, .adopt = adopt, .choose = choose, .state = state};
}
