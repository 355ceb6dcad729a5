/* Evaluates a draft: rounds of the same loop that generates, started at places spread over a text.
 *
 * Every round uses the same draft length and no budget cuts it short, so the figures are those of
 * a long answer. They depend on the file and the text alone, not on a clock. */
#include "runtime/sampling/chooser.h"
#include "runtime/session/session.h"

#include "format/base/mem.h"
#include "runtime/measure/running_stats.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>
#include <string.h>

struct draft_eval {
    struct sp_session *session;
    const struct sp_draft_eval_request *request;
    struct sp_draft_eval *out;
    uint32_t *prompt; /* [n_prompt_max] owned */
    size_t n_lead, n_prompt_max;
    struct sp_running_stats per_round;
    struct sp_err *err;
};

/* An end of sequence ends the place, as it ends an answer. */
static int is_end(void *context, uint32_t id, const struct sp_logits *logits, bool drafted)
{
    const struct sp_package *package = context;

    (void)logits;
    (void)drafted;
    return sp_ids_have(package->eos, package->n_eos, id);
}

/* A draft token counts as tried if all before it were accepted and the sequence had not ended. */
static void count_round(struct draft_eval *t, const struct sp_round *round)
{
    struct sp_draft_eval *out = t->out;

    out->n_rounds++;
    out->n_tokens += round->emitted;
    out->drafted += round->drafted;
    out->accepted += round->accepted;
    for (size_t i = 0; i < round->drafted && i < round->emitted; i++) {
        out->draft_positions[i].tried++;
        out->draft_positions[i].accepted += i < round->accepted;
        if (i == out->n_draft_positions) out->n_draft_positions++;
    }
    sp_running_stats_add(&t->per_round, (double)round->emitted);
}

static enum sp_status interrupted(const struct draft_eval *t, size_t n_here)
{
    const struct sp_draft_eval_request *q = t->request;
    size_t done = t->out->n_places * q->n_predict + (n_here < q->n_predict ? n_here : q->n_predict);

    if (q->progress == NULL || !q->progress(q->context, done, q->n_places * q->n_predict))
        return SP_OK;
    return sp_fail(t->err, SP_E_CANCELLED, "interrupted");
}

static enum sp_status go_on(struct draft_eval *t, size_t n_prompt)
{
    struct sp_speculator *s = t->session->speculator;
    struct sp_package *package = t->session->package;
    struct sp_chooser greedy = sp_greedy_chooser(package->backend.vector);
    struct sp_proposal proposal = {
        .chooser = &greedy, .ends = package->eos, .n_ends = package->n_eos};
    struct sp_logits logits;
    struct sp_round round = {0};
    enum sp_status st;
    uint32_t id;

    if ((st = interrupted(t, 0))) return st;
    s->needs = greedy.needs;
    if ((st = sp_speculator_prompt(s, t->prompt, n_prompt, &logits, NULL, NULL, t->err))) return st;
    if ((st = greedy.choose(greedy.state, &id, &logits, t->prompt, n_prompt, SP_NO_DRAFT_TOKEN,
                            t->err)))
        return st;
    sp_speculator_begin(s, id);
    round.stopped = is_end(package, id, NULL, false);
    for (size_t n = 1; n < t->request->n_predict && !round.stopped; n += round.emitted) {
        if (s->n_cached == s->n_positions) break;
        if ((st = interrupted(t, n))) return st;
        if ((st = sp_speculator_round(s, t->out->draft_len, &proposal, is_end, package, &round,
                                      t->err)))
            return st;
        count_round(t, &round);
    }
    return SP_OK;
}

/* The prompt of place i: the lead, then as much text before the middle of its i-th part as fits. */
static size_t cut_prompt(struct draft_eval *t, size_t i, size_t n_places)
{
    const struct sp_draft_eval_request *q = t->request;
    size_t n_text = q->n - t->n_lead,
           end = (size_t)((2.0 * (double)i + 1) * (double)n_text / (2.0 * (double)n_places));
    size_t n, most = t->n_prompt_max - t->n_lead;

    if (end == 0) end = 1;
    n = end < most ? end : most;
    memcpy(t->prompt, q->ids, t->n_lead * sizeof *q->ids);
    memcpy(t->prompt + t->n_lead, q->ids + t->n_lead + end - n, n * sizeof *q->ids);
    return t->n_lead + n;
}

/* Settles the length of prompts: half of a context too small for a prompt and its continuation. */
static enum sp_status settle(struct draft_eval *t)
{
    const struct sp_draft_eval_request *q = t->request;
    const struct sp_package *package = t->session->package;
    size_t n_context = t->session->speculator->n_positions,
           max_draft_len = t->session->speculator->max_draft_len;
    enum sp_status st;

    t->n_lead = package->tokenizer ? sp_tokenizer_lead(package->tokenizer, q->ids, q->n) : 0;
    t->n_prompt_max = n_context > 2 * q->n_predict ? n_context - q->n_predict : n_context / 2;
    if (t->n_prompt_max > SP_DRAFT_EVAL_PROMPT) t->n_prompt_max = SP_DRAFT_EVAL_PROMPT;
    if (t->n_prompt_max <= t->n_lead) {
        return sp_fail(t->err, SP_E_USAGE, "context of %zu tokens: expected at least %zu",
                       n_context, 2 * t->n_lead + 2);
    }
    t->out->draft_len =
        q->draft_len == SP_DRAFT_LENGTH_AUTO ? SP_DRAFT_EVAL_LENGTH : (size_t)q->draft_len;
    if (t->out->draft_len > max_draft_len) t->out->draft_len = max_draft_len;
    if ((st = sp_new(&t->out->draft_positions, t->out->draft_len, sizeof *t->out->draft_positions,
                     t->err)))
        return st;
    return sp_new(&t->prompt, t->n_prompt_max, sizeof *t->prompt, t->err);
}

void sp_draft_eval_release(struct sp_draft_eval *eval)
{
    struct sp_draft_eval e = {0};

    if (sp_copy_in(&e, sizeof e, eval, "sp_draft_eval", NULL)) return;
    free(e.draft_positions);
    sp_copy_out(eval, &(struct sp_draft_eval)SP_DRAFT_EVAL_INIT);
}

static enum sp_status evaluate(struct draft_eval *t)
{
    const struct sp_draft_eval_request *q = t->request;
    struct sp_draft_eval *out = t->out;
    size_t n_text, n_places;
    enum sp_status st;

    if ((st = settle(t))) return st;
    n_text = q->n - t->n_lead;
    n_places = n_text < q->n_places ? n_text : q->n_places;
    for (; out->n_places < n_places; out->n_places++)
        if ((st = go_on(t, cut_prompt(t, out->n_places, n_places)))) return st;
    out->per_round = sp_running_stats_estimate(&t->per_round);
    return SP_OK;
}

enum sp_status sp_session_eval_draft(struct sp_session *session,
                                     const struct sp_draft_eval_request *request,
                                     struct sp_draft_eval *out, struct sp_err *err)
{
    struct sp_draft_eval_request q = {0};
    struct sp_draft_eval whole = SP_DRAFT_EVAL_INIT;
    struct draft_eval t = {.session = session, .request = &q, .out = &whole, .err = err};
    enum sp_status st;

    if ((st = sp_check_size(out, sizeof whole, "sp_draft_eval", err))) return st;
    sp_copy_out(out, &whole);
    if ((st = sp_copy_in(&q, sizeof q, request, "sp_draft_eval_request", err))) return st;
    if (session->speculator->drafter == NULL)
        return sp_fail(err, SP_E_USAGE, "the file has no draft");
    if ((st = sp_package_check_ids(session->package, q.ids, q.n, err))) return st;
    sp_scheduler_acquire(session->package->scheduler);
    st = evaluate(&t);
    sp_scheduler_release(session->package->scheduler);
    free(t.prompt);
    if (st) sp_draft_eval_release(&whole);
    sp_hand_out(out, &whole);
    sp_draft_eval_release(&whole);
    return st;
}
