#include "runtime/speculate/speculate.h"

#include <string.h>

/* The least multiple of the draft model's rate that an n-gram proposal must promise. Its confidence
 * is known only on average over texts, while the draft model's rate is measured in this one. */
static const double ngram_margin = 1.5;

void sp_draft_mix_init(struct sp_draft_mix *mix, struct sp_drafting_controller *drafting,
                       bool ngram_if_automatic)
{
    mix->ngram_if_automatic = ngram_if_automatic;
    sp_drafting_controller_init(&mix->ngram_controller, SP_DRAFT_NGRAM_MAX, true);
    sp_drafting_controller_init(&mix->grammar_controller, SP_DRAFT_GRAMMAR_MAX, true);
    sp_draft_length_init(&mix->draft, drafting);
    sp_draft_length_init(&mix->ngram, &mix->ngram_controller);
    sp_draft_length_init(&mix->grammar_draft, &mix->grammar_controller);
}

/* Lets one drafter propose; round->drafted is 0 if no draft token is worth verifying. */
static enum sp_status propose_by(struct sp_speculator *s, struct sp_drafter *drafter,
                                 struct sp_draft_length *length, size_t most, bool automatic,
                                 const struct sp_chooser *chooser, struct sp_round *round,
                                 struct sp_err *err)
{
    struct sp_proposal proposal = {.chooser = chooser,
                                   .draft_len = automatic ? length : NULL,
                                   .ends = s->ends,
                                   .n_ends = s->n_ends};
    size_t n = most ? sp_speculator_limit(s, drafter) : 0;
    struct sp_draft_outlook outlook;
    enum sp_status st;

    if (n > most) n = most;
    if (n && automatic) {
        outlook = sp_speculator_outlook(s, drafter);
        n = sp_draft_length_choose(length, n, &outlook);
        round->reason = length->reason;
    }
    if (n == 0) return SP_OK;
    if ((st = sp_speculator_propose(s, drafter, n, &proposal, round, err))) return st;
    if (automatic) round->reason = length->reason;
    return SP_OK;
}

static enum sp_status propose(struct sp_draft_mix *d, struct sp_speculator *s, size_t most,
                              bool automatic, const struct sp_chooser *chooser,
                              struct sp_round *round, enum sp_proposed_by *by, struct sp_err *err)
{
    const struct {
        struct sp_drafter *drafter;
        struct sp_draft_length *length;
        enum sp_proposed_by by;
        double margin;
        bool only_automatic;
    } free_ones[] = {
        {s->grammar_draft, &d->grammar_draft, SP_PROPOSED_BY_GRAMMAR, 1, false},
        {s->ngram, &d->ngram, SP_PROPOSED_BY_NGRAM, ngram_margin, d->ngram_if_automatic},
    };
    enum sp_status st;

    for (size_t i = 0; i < sizeof free_ones / sizeof *free_ones; i++) {
        struct sp_draft_length *length = free_ones[i].length;
        if (free_ones[i].only_automatic && !automatic) continue;
        *by = free_ones[i].by;
        memset(round, 0, sizeof *round);
        if ((st =
                 propose_by(s, free_ones[i].drafter, length, most, automatic, chooser, round, err)))
            return st;
        if (round->drafted == 0) continue;
        if (s->drafter == NULL || !automatic ||
            sp_draft_length_expected_rate(length) >
                free_ones[i].margin * sp_drafting_controller_rate(d->draft.controller))
            return SP_OK;
    }
    *by = SP_PROPOSED_BY_DRAFT;
    if (s->drafter == NULL) return SP_OK;
    memset(round, 0, sizeof *round);
    return propose_by(s, s->drafter, &d->draft, most, automatic, chooser, round, err);
}

/* A drafter that did not propose, or promised less, still learns what the pass cost. */
static void learn(struct sp_draft_length *length, bool its_own, const struct sp_round *round)
{
    if (its_own) {
        sp_draft_length_record(length, round);
    } else {
        sp_draft_length_observe(length, round);
        sp_drafting_controller_add_round(length->controller, round);
    }
}

enum sp_status sp_draft_mix_round(struct sp_draft_mix *d, struct sp_speculator *s, size_t most,
                                  bool automatic, const struct sp_chooser *chooser,
                                  sp_emit_fn *emit, void *context, struct sp_round *round,
                                  enum sp_proposed_by *by, struct sp_err *err)
{
    enum sp_status st;

    if ((st = propose(d, s, most, automatic, chooser, round, by, err))) return st;
    if ((st = sp_speculator_verify(s, chooser, emit, context, round, err))) return st;
    if (*by == SP_PROPOSED_BY_DRAFT)
        sp_draft_length_record(&d->draft, round);
    else
        sp_draft_length_observe(&d->draft, round);
    learn(&d->ngram, *by == SP_PROPOSED_BY_NGRAM, round);
    learn(&d->grammar_draft, *by == SP_PROPOSED_BY_GRAMMAR, round);
    return SP_OK;
}
