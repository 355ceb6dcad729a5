#include "runtime/speculate/draft_length.h"

#include <math.h>

static const double exploration = 0.85; /* part of its cost that one more draft token must save
                                         * if a sequence is alone: drafting it also yields its
                                         * confidence */

enum { FIRST_BLOCK = 8 /* draft length of the first round, if a pass drafts a block */ };

void sp_draft_length_init(struct sp_draft_length *d, struct sp_drafting_controller *controller)
{
    *d = (struct sp_draft_length){.controller = controller};
}

/* ---- choosing ---- */

/* Tokens that verifying n draft tokens brings beyond those that its time would bring elsewhere, if
 * `accepted` of them are accepted on average. */
static double worth(const struct sp_drafting_controller *c, size_t n, double accepted)
{
    return accepted - c->rate * (c->verify_seconds[n] - c->verify_seconds[0]);
}

/* Returns the draft length of a block. All tokens of a block are drafted before the first of them
 * is considered, so the length is the one that pays most if only those worth it are verified. */
static size_t block_length(const struct sp_drafting_controller *c, size_t limit)
{
    double all_accepted = 1, accepted = 0, verified = 0, most = -1;
    size_t best = 1;

    if (c->draft.n_timings == 0) return limit < FIRST_BLOCK ? limit : FIRST_BLOCK;
    for (size_t i = 1; i <= limit; i++) {
        double net;
        all_accepted *= c->acceptance[i];
        accepted += all_accepted;
        verified = fmax(verified, worth(c, i, accepted));
        net = verified - c->rate * (c->draft_seconds[i] - c->draft_seconds[1]);
        if (net <= most) continue;
        most = net;
        best = i;
    }
    return best;
}

size_t sp_draft_length_choose(struct sp_draft_length *d, size_t limit,
                              const struct sp_draft_outlook *outlook)
{
    struct sp_drafting_controller *c = d->controller;

    if (limit > c->max) limit = c->max;
    if (limit == 0) return 0;
    sp_drafting_controller_plan(c, d->pass);
    d->has_chosen = true;
    d->reason = c->plan;
    if (sp_drafting_controller_is_plain(c)) return 0;
    if (outlook && outlook->n_unread && !sp_drafting_controller_pays_to_catch_up(c, outlook)) {
        d->reason = SP_ROUND_CATCH_UP;
        return 0;
    }
    if (!c->stepwise)
        d->n_asked = block_length(c, limit);
    else if (d->reason == SP_ROUND_PROBE)
        d->n_asked = 1;
    else
        d->n_asked = limit;
    d->n_made = d->n_verify = 0;
    d->all_accepted = 1;
    d->sum_accepted = d->gain = d->worth = 0;
    return d->n_asked;
}

/* Returns true if draft token i is worth its time. It is estimated to be accepted with the mean of
 * p, the probability of the token before it, and the acceptance at its position. */
static bool is_worth_drafting(const struct sp_draft_length *d, size_t i, double p)
{
    const struct sp_drafting_controller *c = d->controller;
    double cost = c->rate * (sp_drafting_controller_verify_step(c, i) +
                             sp_drafting_controller_draft_step(c, i));

    if (c->n_drafting == 1) cost *= exploration;
    return d->all_accepted * (p + c->acceptance[i]) / 2 > cost;
}

/* A token of a block is drafted already, and costs only its row: an optimistic probability tries
 * tokens of the tail, whose acceptance would never be known otherwise. */
bool sp_draft_length_consider(struct sp_draft_length *d, double confidence)
{
    const struct sp_drafting_controller *c = d->controller;
    size_t i = ++d->n_made;
    double p = c->stepwise ? sp_calibrated_confidence_at(&c->confidence, confidence)
                           : sp_calibrated_confidence_upper(&c->confidence, confidence);
    bool is_probe = d->reason == SP_ROUND_PROBE;

    d->confidences[i] = confidence;
    d->all_accepted *= p;
    d->sum_accepted += d->all_accepted;
    if (worth(c, i, d->sum_accepted) > d->worth || (is_probe && i == 1)) {
        d->n_verify = i;
        d->gain = d->sum_accepted;
        d->worth = worth(c, i, d->gain);
    }
    if (i >= d->n_asked) return false;
    if (!c->stepwise || (d->n_verify == i && is_worth_drafting(d, i + 1, p))) return true;
    if (!is_probe) d->reason = SP_ROUND_CONFIDENCE;
    return false;
}

double sp_draft_length_expected_rate(const struct sp_draft_length *d)
{
    return sp_drafting_controller_tokens_each(d->controller, 1 + d->gain) /
           d->controller->verify_seconds[d->n_verify];
}

/* ---- learning ---- */

/* Whether a draft token after the first rejected one would have been accepted is not known.
 * If none was worth verifying, the first counts by its confidence: else a draft that has none would
 * keep the acceptance that is assumed before anything is known. */
static void count_tokens(struct sp_draft_length *d, size_t drafted, size_t accepted)
{
    struct sp_drafting_controller *c = d->controller;

    if (drafted == 0 && d->n_made > 0)
        sp_drafting_controller_count(
            c, 1, -1, sp_calibrated_confidence_at(&c->confidence, d->confidences[1]));
    for (size_t i = 1; i <= drafted && i <= accepted + 1; i++)
        sp_drafting_controller_count(c, i, i <= d->n_made ? d->confidences[i] : -1, i <= accepted);
}

/* Ends the round. */
static void end(struct sp_draft_length *d, const struct sp_round *r, bool chose)
{
    sp_drafting_controller_record(d->controller, r, chose, chose && d->reason == SP_ROUND_PROBE);
    d->pass = r->pass;
    d->n_asked = d->n_made = 0;
    d->has_chosen = false;
}

void sp_draft_length_observe(struct sp_draft_length *d, const struct sp_round *r)
{
    struct sp_round pass = *r;

    pass.asked = pass.made = 0;
    end(d, &pass, false);
}

void sp_draft_length_record(struct sp_draft_length *d, const struct sp_round *r)
{
    if (r->made > d->controller->max || r->asked > d->controller->max) {
        sp_draft_length_observe(d, r);
        return;
    }
    count_tokens(d, r->drafted, r->accepted);
    end(d, r, d->has_chosen);
}
