/* Generates one answer: the prompt, then rounds until it ends; the callbacks for tokens and text;
 * the statistics.
 *
 * Every token is handled in a fixed order: recorded, passed to `token`, then checked for end of
 * sequence, stop texts (stop_filter.c) and max_tokens. */
#include "runtime/chat/chat_reader.h"
#include "runtime/sampling/chooser.h"
#include "runtime/sampling/sampling_chooser.h"
#include "runtime/session/session.h"

#include "format/base/clock.h"
#include "format/base/hash.h"
#include "format/base/median.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "runtime/grammar/constraint.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct run {
    struct sp_session *session;
    const struct sp_request *request;
    struct sp_result *result;
    struct sp_detokenizer *detokenizer;   /* NULL: no tokenizer */
    struct sp_sampling_chooser *sampling; /* NULL: no options of sampling were given */
    struct sp_constraint *constraint;     /* NULL: none */
    struct sp_drafter *grammar_draft;     /* the drafter of the grammar; NULL: none */
    struct sp_reasoning_limiter *limiter; /* NULL: none */
    struct sp_end_mask end_mask;          /* its row is owned */
    uint32_t *ends;                       /* [n_ends] tokens that end the answer */
    size_t n_ends;
    struct sp_hash *hash; /* NULL: no digest */
    struct sp_stop_filter filter;
    size_t cap_ids, cap_rounds;
    struct sp_logprob *top; /* [n_top] */
    bool ended;
    enum sp_status status; /* status of a failure inside a callback */
    struct sp_err *err;
};

static int end(struct run *run, enum sp_stop stop)
{
    run->result->stop = stop;
    run->ended = true;
    return 1;
}

static bool is_eos(const struct run *run, uint32_t id)
{
    return sp_ids_have(run->session->package->eos, run->session->package->n_eos, id);
}

/* ---- tokens ---- */

static int record(struct run *run, uint32_t id, const struct sp_logits *logits, bool drafted)
{
    struct sp_result *r = run->result;
    struct sp_token token = {.id = id, .drafted = drafted};

    if ((run->status = sp_grow(&r->ids, &run->cap_ids, r->n_ids + 1, sizeof *r->ids, run->err)))
        return 1;
    r->ids[r->n_ids++] = id;
    if (run->hash) sp_hash_update(run->hash, logits->row, logits->n * sizeof *logits->row);
    if (run->request->token == NULL) return 0;
    if (run->request->logprobs || run->request->n_top) {
        sp_logprobs_fill(&token, run->top, run->request->n_top, run->session->scratch,
                         run->session->package->backend.vector, logits->row, logits->n);
    }
    if (run->request->token(run->request->context, &token)) return end(run, SP_STOP_CANCELLED);
    return 0;
}

/* Passes on the text of a token, or a special token that the caller asked for. */
static int show(struct run *run, uint32_t id, bool drafted)
{
    const struct sp_request *q = run->request;
    const char *text;
    size_t n;

    if ((run->status = sp_detokenizer_feed(run->detokenizer, id, &text, &n, run->err))) return 1;
    if ((q->special || q->reader) && sp_ids_have(q->special_ids, q->n_special_ids, id) &&
        (run->status = sp_stop_filter_add_special(&run->filter, id, run->err)))
        return 1;
    if ((run->status = sp_stop_filter_add(&run->filter, text, n, drafted, run->err))) return 1;
    if (run->filter.is_cancelled) return end(run, SP_STOP_CANCELLED);
    return run->filter.is_stopped ? end(run, SP_STOP_TEXT) : 0;
}

static int emit(void *context, uint32_t id, const struct sp_logits *logits, bool drafted)
{
    struct run *run = context;

    if (record(run, id, logits, drafted)) return 1;
    if (sp_ids_have(run->ends, run->n_ends, id)) return end(run, SP_STOP_EOS);
    if (run->request->reader && !is_eos(run, id)) sp_chat_reader_count_token(run->request->reader);
    if (run->detokenizer && show(run, id, drafted)) return 1;
    if (run->request->max_tokens && run->result->n_ids >= run->request->max_tokens)
        return end(run, SP_STOP_LENGTH);
    return 0;
}

/* ---- rounds ---- */

static enum sp_status one_round(struct run *run, const struct sp_chooser *chooser)
{
    struct sp_session *s = run->session;
    struct sp_result *r = run->result;
    const struct sp_request *q = run->request;
    size_t draft_len = sp_session_max_draft_len(s), left;
    struct sp_round round;
    enum sp_proposed_by by;
    enum sp_status st;

    if (draft_len > 0 && run->grammar_draft && draft_len < SP_DRAFT_GRAMMAR_MAX)
        draft_len = SP_DRAFT_GRAMMAR_MAX;
    if (q->draft_len >= 0 && draft_len > (size_t)q->draft_len) draft_len = (size_t)q->draft_len;
    left = q->max_tokens ? q->max_tokens - r->n_ids - 1 : SIZE_MAX;
    if (draft_len > left) draft_len = left;
    if ((st = sp_draft_mix_round(&s->mix, s->speculator, draft_len,
                                 q->draft_len == SP_DRAFT_LENGTH_AUTO, chooser, emit, run, &round,
                                 &by, run->err)))
        return st;
    if (run->status) return run->status;
    sp_result_count_round(r, &round);
    if (by == SP_PROPOSED_BY_NGRAM) {
        r->ngram_drafted += round.drafted;
        r->ngram_accepted += round.accepted;
    }
    if (by == SP_PROPOSED_BY_GRAMMAR) {
        r->grammar_drafted += round.drafted;
        r->grammar_accepted += round.accepted;
    }
    if ((st = sp_grow(&r->rounds, &run->cap_rounds, r->n_rounds + 1, sizeof *r->rounds, run->err)))
        return st;
    r->rounds[r->n_rounds++] = (struct sp_round_count){
        .asked = (uint16_t)round.asked,
        .made = (uint16_t)round.made,
        .drafted = (uint16_t)round.drafted,
        .accepted = (uint16_t)round.accepted,
        .reason = round.reason,
    };
    return SP_OK;
}

/* True if the largest logit of the target is chosen: nothing changes logits before. */
static bool takes_best(const struct sp_request *q)
{
    const struct sp_sampling *s = q->sampling;

    return s == NULL || (s->temperature <= 0 && s->n_biases == 0 && !sp_sampling_looks_back(s));
}

/* Constrains `chooser` to the request's grammar. */
static enum sp_status constrain(struct run *run, struct sp_chooser *chooser)
{
    const struct sp_request *q = run->request;
    const struct sp_package *package = run->session->package;
    struct sp_constraint_options options = {
        .grammar = q->grammar,
        .vector = package->backend.vector,
        .n_vocab = package->target->config.n_vocab,
        .start = q->n_prompt,
        .inner = *chooser,
        .takes_best = takes_best(q),
        .ends = run->ends,
        .n_ends = run->n_ends,
    };
    enum sp_status st;

    if ((st = sp_package_trie(run->session->package, &options.trie, run->err))) return st;
    if ((st = sp_constraint_open(&run->constraint, &options, run->err))) return st;
    *chooser = sp_constraint_chooser(run->constraint);
    return sp_draft_grammar_open(&run->grammar_draft, run->constraint, package->tokenizer,
                                 run->err);
}

/* Keeps end tokens away from the first min_tokens tokens. */
static enum sp_status mask_ends(struct run *run, struct sp_chooser *chooser)
{
    const struct sp_request *q = run->request;
    const struct sp_package *package = run->session->package;
    struct sp_end_mask *m = &run->end_mask;

    *m = (struct sp_end_mask){.inner = *chooser,
                              .vector = package->backend.vector,
                              .ends = run->ends,
                              .n_ends = run->n_ends,
                              .first = q->n_prompt + q->min_tokens};
    *chooser = sp_end_mask_chooser(m);
    return sp_new_aligned(&m->row, package->target->config.n_vocab + 16, sizeof *m->row, run->err);
}

/* Limits the reasoning that `chooser` chooses. */
static enum sp_status limit_reasoning(struct run *run, struct sp_chooser *chooser)
{
    const struct sp_request *q = run->request;
    struct sp_package *package = run->session->package;
    struct sp_reasoning_limiter_options options = {
        .tokenizer = package->tokenizer,
        .start = q->n_prompt,
        .inner = *chooser,
    };
    enum sp_status st;

    if ((st = sp_copy_in(&options.limit, sizeof options.limit, q->reasoning_limit,
                         "sp_reasoning_limit", run->err)))
        return st;
    if ((st = sp_package_trie(package, &options.trie, run->err))) return st;
    if ((st = sp_reasoning_limiter_open(&run->limiter, &options, run->err))) return st;
    *chooser = sp_reasoning_limiter_chooser(run->limiter);
    return SP_OK;
}

/* Runs rounds until the answer ends. */
static enum sp_status run_rounds(struct run *run, const struct sp_chooser *chooser)
{
    struct sp_speculator *speculator = run->session->speculator;
    enum sp_status st = SP_OK;

    while (!run->ended && !st)
        if (speculator->n_cached == speculator->n_positions)
            end(run, SP_STOP_CONTEXT);
        else if (sp_speculator_grow(speculator, speculator->n_cached, NULL))
            end(run, SP_STOP_MEMORY);
        else
            st = one_round(run, chooser);
    return st;
}

static enum sp_status answer(struct run *run)
{
    struct sp_session *s = run->session;
    const struct sp_request *q = run->request;
    struct sp_speculator *speculator = s->speculator;
    struct sp_chooser chooser = sp_greedy_chooser(s->package->backend.vector);
    struct sp_simulated_choice simulated = {.vector = s->package->backend.vector};
    double t0 = sp_seconds();
    struct sp_logits logits;
    enum sp_status st;
    uint32_t id;

    if (!takes_best(q)) chooser = sp_sampling_chooser_of(run->sampling);
    if (q->simulation) {
        simulated.simulation = *q->simulation;
        chooser = sp_simulated_chooser(&simulated);
    }
    if (q->min_tokens && (st = mask_ends(run, &chooser))) return st;
    if (q->grammar && (st = constrain(run, &chooser))) return st;
    if (q->reasoning_limit && (st = limit_reasoning(run, &chooser))) return st;
    speculator->grammar_draft = run->grammar_draft;
    speculator->ends = run->ends;
    speculator->n_ends = run->n_ends;
    speculator->needs =
        run->hash || (q->token && (q->logprobs || q->n_top)) ? SP_LOGITS_ROWS : chooser.needs;
    if ((st = sp_speculator_prompt(speculator, q->prompt, q->n_prompt, &logits, q->prompt_progress,
                                   q->context, run->err)))
        return st;
    if ((st = chooser.choose(chooser.state, &id, &logits, q->prompt, q->n_prompt, SP_NO_DRAFT_TOKEN,
                             run->err)))
        return st;
    if ((st = sp_decoder_check(speculator->decoder, run->err))) return st;
    run->result->prompt_seconds = sp_seconds() - t0;
    if (speculator->row_seconds > 0) s->package->row_seconds = speculator->row_seconds;
    run->result->n_reused = speculator->n_reused;
    sp_speculator_begin(speculator, id);
    if (q->max_tokens && q->max_tokens < speculator->n_last - q->n_prompt)
        speculator->n_last = q->n_prompt + q->max_tokens;
    emit(run, id, &logits, false);
    if (run->status) return run->status;
    st = run_rounds(run, &chooser);
    sp_drafting_controller_end_answer(&s->package->drafting, run->result->n_ids);
    return st;
}

/* Flushes text that was held back for a stop text, and the bytes of an unfinished character. */
static enum sp_status flush_text(struct run *run)
{
    const char *text = NULL;
    size_t n = 0;
    enum sp_status st;

    if (run->detokenizer == NULL) return SP_OK;
    if (run->result->stop != SP_STOP_TEXT &&
        (st = sp_detokenizer_flush(run->detokenizer, &text, &n, run->err)))
        return st;
    if (run->result->stop == SP_STOP_CANCELLED) run->filter.is_cancelled = true;
    if ((st = sp_stop_filter_end(&run->filter, text, n, run->err))) return st;
    if (run->filter.is_cancelled) end(run, SP_STOP_CANCELLED);
    if (run->request->reader == NULL || run->filter.is_cancelled) return SP_OK;
    st = sp_chat_reader_finish(run->request->reader, run->err);
    if (st != SP_E_CANCELLED) return st;
    end(run, SP_STOP_CANCELLED);
    return SP_OK;
}

/* The median time of a plain step, from those taken and a few more: enough to be steady, few
 * enough not to delay the answer. */
static enum sp_status time_plain_step(struct run *run, double *seconds)
{
    enum { MOST = 9 };
    static const double patience = 0.1;
    struct sp_speculator *s = run->session->speculator;
    struct sp_chooser chooser = sp_greedy_chooser(run->session->package->backend.vector);
    double times[MOST], spent = 0, ignored;
    enum sp_status st;
    size_t n = 0;

    while (n < MOST && (n < 3 || spent < patience) && s->n_cached < s->n_positions) {
        if ((st = sp_speculator_time(s, 1, 0, &chooser, &times[n], &ignored, run->err))) return st;
        spent += times[n++];
    }
    *seconds = n ? sp_median(times, n) : 0;
    return SP_OK;
}

/* Estimates the time that plain steps would have taken, divided by that of the rounds. */
static enum sp_status estimate_speed_up(struct run *run)
{
    struct sp_result *r = run->result;
    double taken = r->draft_seconds + r->verify_seconds + r->plain_seconds;
    enum sp_status st;

    if (!run->request->measure || r->drafted == 0) return SP_OK;
    if (r->plain_rounds > 8)
        r->plain_step_seconds = r->plain_seconds / (double)r->plain_rounds;
    else if ((st = time_plain_step(run, &r->plain_step_seconds)))
        return st;
    if (taken > 0) r->speed_up = r->plain_step_seconds * (double)(r->n_ids - 1) / taken;
    return SP_OK;
}

static enum sp_status check_request(const struct run *run)
{
    const struct sp_request *q = run->request;

    if (q->draft_len < 0 && q->draft_len != SP_DRAFT_LENGTH_AUTO) {
        return sp_fail(run->err, SP_E_USAGE, "draft depth %d: expected 0 or more, or auto",
                       q->draft_len);
    }
    for (size_t i = 0; i < q->n_stops; i++) {
        size_t size = strlen(q->stops[i]);
        if (size == 0) return sp_fail(run->err, SP_E_USAGE, "a stop text is empty");
        if (sp_utf8_valid(q->stops[i], size) != size)
            return sp_fail(run->err, SP_E_USAGE, "a stop text is not valid UTF-8");
    }
    if (q->grammar && (q->ignore_eos || q->min_tokens)) {
        return sp_fail(run->err, SP_E_USAGE, "%s cannot be combined with a grammar",
                       q->ignore_eos ? "ignore_eos" : "min_tokens");
    }
    if (q->simulation == NULL) return SP_OK;
    if (q->grammar)
        return sp_fail(run->err, SP_E_USAGE, "acceptance is not simulated in a grammar");
    if (q->reasoning_limit)
        return sp_fail(run->err, SP_E_USAGE, "acceptance is not simulated with limited reasoning");
    if (q->sampling)
        return sp_fail(run->err, SP_E_USAGE, "acceptance is simulated for greedy generation only");
    if (!(q->simulation->acceptance >= 0 && q->simulation->acceptance <= 1)) {
        return sp_fail(run->err, SP_E_USAGE, "simulated acceptance %g: expected 0..1",
                       q->simulation->acceptance);
    }
    return SP_OK;
}

/* Takes a slot of the package's sampler, which the first sampled answer opens. */
static enum sp_status open_sampling(struct run *run, size_t max_draft_len)
{
    struct sp_package *package = run->session->package;
    size_t n_vocab = package->target->config.n_vocab;
    enum sp_status st;

    if (package->sampler == NULL &&
        (st = sp_sampler_open_for(&package->sampler, n_vocab, package->target->config.max_positions,
                                  package->backend.vector, package->backend.pool, run->err)))
        return st;
    return sp_sampling_chooser_new(&run->sampling, package->sampler, run->request->sampling,
                                   max_draft_len, run->err);
}

/* Lists the tokens that end the answer: those of the package, then those of the request. */
static enum sp_status list_ends(struct run *run)
{
    const struct sp_request *q = run->request;
    const struct sp_package *package = run->session->package;
    size_t n = q->ignore_eos ? 0 : package->n_eos;
    enum sp_status st = sp_new(&run->ends, n + q->n_end_ids, sizeof *run->ends, run->err);

    if (st) return st;
    if (n) memcpy(run->ends, package->eos, n * sizeof *run->ends);
    if (q->n_end_ids) memcpy(run->ends + n, q->end_ids, q->n_end_ids * sizeof *run->ends);
    run->n_ends = n + q->n_end_ids;
    return SP_OK;
}

static enum sp_status open_run(struct run *run)
{
    const struct sp_request *q = run->request;
    const struct sp_package *package = run->session->package;
    size_t max_draft_len = sp_session_max_draft_len(run->session);
    enum sp_status st;

    if (q->grammar && max_draft_len < SP_DRAFT_GRAMMAR_MAX) max_draft_len = SP_DRAFT_GRAMMAR_MAX;
    if ((st = sp_session_check_ids(run->session, q->prompt, q->n_prompt, run->err))) return st;
    if ((st = check_request(run))) return st;
    if ((st = list_ends(run))) return st;
    if (package->tokenizer &&
        (st = sp_detokenizer_open(&run->detokenizer, package->tokenizer, true, run->err)))
        return st;
    if (q->sampling && (st = open_sampling(run, max_draft_len))) return st;
    if (q->digest && (st = sp_hash_new(&run->hash, run->err))) return st;
    if ((st = sp_new(&run->result->draft_positions, max_draft_len,
                     sizeof *run->result->draft_positions, run->err)))
        return st;
    return sp_new(&run->top, q->n_top + 1, sizeof *run->top, run->err);
}

static enum sp_status generate(struct run *run)
{
    struct sp_result *result = run->result;
    enum sp_status st;

    if ((st = open_run(run))) return st;
    result->n_prompt = run->request->n_prompt;
    if ((st = answer(run))) return st;
    if ((st = flush_text(run))) return st;
    if (run->hash) result->logits_digest = sp_hash_digest(run->hash);
    return estimate_speed_up(run);
}

/* The request and its sampling options as this version has them. */
static enum sp_status read_request(struct sp_request *q, struct sp_sampling *sampling,
                                   const struct sp_request *request,
                                   const struct sp_package *package, struct sp_err *err)
{
    static const char *const breakers[] = {"\n", ":", "\"", "*"}; /* of DRY, as in llama.cpp */
    enum sp_status st = sp_copy_in(q, sizeof *q, request, "sp_request", err);

    if (st || q->sampling == NULL) return st;
    st = sp_copy_in(sampling, sizeof *sampling, q->sampling, "sp_sampling", err);
    q->sampling = sampling;
    if (sampling->dry_breakers == NULL && package->tokenizer) {
        sampling->dry_breakers = breakers;
        sampling->n_dry_breakers = sizeof breakers / sizeof *breakers;
    }
    if (sampling->dry_tokenizer == NULL) sampling->dry_tokenizer = package->tokenizer;
    return st;
}

enum sp_status sp_session_generate(struct sp_session *session, const struct sp_request *request,
                                   struct sp_result *result, struct sp_err *err)
{
    struct sp_request q = {0};
    struct sp_sampling sampling = {0};
    struct sp_result whole; /* used if the caller's struct has fewer members */
    struct run run = {.session = session, .request = &q, .filter = {.request = &q}, .err = err};
    enum sp_status st;

    if ((st = sp_check_size(result, sizeof whole, "sp_result", err))) return st;
    run.result = result->size < sizeof whole ? &whole : result;
    run.filter.result = run.result;
    sp_copy_out(result, &(struct sp_result)SP_RESULT_INIT);
    *run.result = (struct sp_result)SP_RESULT_INIT;
    if ((st = read_request(&q, &sampling, request, session->package, err))) return st;
    sp_scheduler_acquire(session->package->scheduler);
    session->is_running = true;
    st = generate(&run);
    sp_sampling_chooser_free(run.sampling);
    session->is_running = false;
    sp_scheduler_release(session->package->scheduler);
    sp_detokenizer_close(run.detokenizer);
    session->speculator->grammar_draft = NULL;
    session->speculator->n_ends = 0;
    sp_drafter_close(run.grammar_draft);
    sp_constraint_close(run.constraint);
    sp_reasoning_limiter_close(run.limiter);
    sp_hash_free(run.hash);
    sp_stop_filter_release(&run.filter);
    free(run.end_mask.row);
    free(run.ends);
    free(run.top);
    if (st) sp_result_release(run.result);
    if (run.result != &whole) return st;
    sp_hand_out(result, &whole);
    sp_result_release(&whole);
    return st;
}
