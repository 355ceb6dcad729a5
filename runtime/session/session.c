/* Sessions: a token sequence with its caches, the logits of given tokens, and timings. */
#include "runtime/session/session.h"

#include "format/base/clock.h"
#include "format/system/free_memory.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "runtime/sampling/chooser.h"
#include "runtime/speculate/speculate.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <stdlib.h>

enum {
    USUAL_CONTEXT = 4096, /* what users rarely exceed without noticing */
    LOGIT_ROWS = 16,      /* rows whose logits are computed at once */
};

/* Chooses a number of prompt rows that fills the experts' tiles. Buffers and caches grow with it,
 * and beyond 256 rows no gain was measured. */
static size_t choose_prompt_rows(const struct sp_config *config)
{
    enum { MOST = 2 * SP_PROMPT_ROWS };
    size_t n = SP_PROMPT_ROWS;

    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        if (l->n_experts == 0) continue;
        size_t full = (size_t)SP_TILE_ROWS * l->n_experts / l->n_experts_used;
        if (full > n) n = full;
    }
    return n < MOST ? n : MOST;
}

/* The context of a session that states none. A rotation that depends on the context's length has
 * its best numbers within the length that the model was trained with. */
static size_t choose_context(const struct sp_config *config)
{
    size_t n = config->max_positions;

    for (unsigned i = 0; i < config->n_ropes; i++) {
        const struct sp_rope *rope = &config->ropes[i];
        size_t trained = (size_t)rope->original_positions;
        if (rope->kind != SP_ROPE_LONGROPE && rope->kind != SP_ROPE_DYNAMIC) continue;
        if (trained < USUAL_CONTEXT) trained = USUAL_CONTEXT;
        if (trained < n) n = trained;
    }
    return n;
}

static enum sp_status open_session(struct sp_session **out, struct sp_package *package,
                                   const struct sp_session_options *options,
                                   const struct sp_speculator *shared_with, struct sp_err *err)
{
    struct sp_session *s = NULL;
    const struct sp_config *config = &package->target->config;
    size_t max = config->max_positions;
    bool drafts = options->draft_by != SP_DRAFT_BY_NOTHING;
    bool by_model = drafts && options->draft_by != SP_DRAFT_BY_NGRAM;
    struct sp_speculator_options inner = {
        .setup = {.target = package->target,
                  .draft = by_model ? package->draft : NULL,
                  .backend = &package->backend,
                  .scheduler = package->scheduler,
                  .prompt_cache = options->prompt_cache,
                  .identity = sp_pack_identity(package->pack),
                  .options = {.n_positions = options->n_context,
                              .budget = package->caches,
                              .cache_type = options->cache,
                              .max_batch = options->max_batch ? options->max_batch : 1}},
        .prompt_rows = options->rows_per_pass ? options->rows_per_pass : choose_prompt_rows(config),
        .ngram = drafts && options->draft_by != SP_DRAFT_BY_MODEL,
        .draft_size = by_model ? sp_package_draft_size(package) : 0,
        .shared_with = shared_with,
    };
    enum sp_status st;

    if (options->n_context > max) {
        return sp_fail(err, SP_E_USAGE, "context of %zu tokens: the model's maximum is %zu",
                       options->n_context, max);
    }
    if (inner.prompt_rows > options->n_context) inner.prompt_rows = options->n_context;
    if ((st = sp_new(&s, 1, sizeof *s, err))) goto done;
    s->package = package;
    s->options = *options;
    if ((st = sp_speculator_open(&s->speculator, &inner, err))) goto done;
    sp_draft_mix_init(&s->mix, &package->drafting,
                      options->draft_by == SP_DRAFT_BY_DEFAULT && package->draft);
    if ((st = sp_new_aligned(&s->scratch, config->n_vocab + 16, sizeof *s->scratch, err)))
        goto done;
    *out = s;
    s = NULL;
done:
    sp_session_close(s);
    return st;
}

/* Opens a session with the default context, or the largest half, quarter, ... of it whose caches
 * the address space holds, with a quarter of it left for everything else if it is limited. */
static enum sp_status open_default(struct sp_session **out, struct sp_package *package,
                                   struct sp_session_options *options, struct sp_err *err)
{
    options->n_context = choose_context(&package->target->config);
    for (;; options->n_context /= 2) {
        bool smallest = options->n_context <= USUAL_CONTEXT;
        uint64_t left, limit;
        struct sp_session *s = NULL;
        struct sp_err reason = {0};
        enum sp_status st = open_session(&s, package, options, NULL, &reason);

        if (st && (st != SP_E_NOMEM || smallest)) return sp_fail_as(err, &reason);
        if (!st && (smallest || !sp_address_space(&left, &limit) || left >= limit / 4)) {
            *out = s;
            return SP_OK;
        }
        sp_session_close(s);
    }
}

enum sp_status sp_session_open(struct sp_session **out, struct sp_package *package,
                               const struct sp_session_options *options, struct sp_err *err)
{
    struct sp_session_options o = {0};
    enum sp_status st =
        options ? sp_copy_in(&o, sizeof o, options, "sp_session_options", err) : SP_OK;

    if (st) return st;
    return o.n_context ? open_session(out, package, &o, NULL, err)
                       : open_default(out, package, &o, err);
}

enum sp_status sp_session_open_shared(struct sp_session **out, const struct sp_session *shared_with,
                                      struct sp_err *err)
{
    return open_session(out, shared_with->package, &shared_with->options, shared_with->speculator,
                        err);
}

void sp_session_close(struct sp_session *session)
{
    if (session == NULL) return;
    sp_speculator_close(session->speculator);
    free(session->scratch);
    free(session);
}

size_t sp_session_n_cached(const struct sp_session *session)
{
    return session->speculator->n_cached;
}

size_t sp_session_cache_memory(const struct sp_session *session)
{
    return sp_speculator_cache_size(session->speculator);
}

size_t sp_session_cache_memory_for(const struct sp_session *session, size_t n)
{
    return sp_speculator_cache_size_for(session->speculator, n);
}

void sp_session_clear(struct sp_session *session)
{
    sp_speculator_clear(session->speculator);
}

enum sp_status sp_lora_open(struct sp_lora **out, struct sp_package *package, struct sp_err *err)
{
    return sp_lora_new(out, package->target, package->pack, err);
}

enum sp_status sp_session_set_lora(struct sp_session *session, const struct sp_lora *lora,
                                   float scale, struct sp_err *err)
{
    struct sp_decoder *decoder = session->speculator->decoder;

    if (!isfinite(scale))
        return sp_fail(err, SP_E_USAGE, "the scale of the adapter is not a finite number");
    if (sp_session_has_lora(session, lora, scale)) return SP_OK;
    if (lora && sp_lora_products_of(lora)->rank > sp_decoder_max_lora_rank(decoder)) {
        return sp_fail(err, SP_E_USAGE,
                       "the session was opened before the adapter had its products");
    }
    sp_session_clear(session);
    sp_decoder_set_lora(decoder, lora, scale);
    return SP_OK;
}

bool sp_session_has_lora(const struct sp_session *session, const struct sp_lora *lora, float scale)
{
    float set;

    return lora == sp_decoder_lora(session->speculator->decoder, &set) &&
           (lora == NULL || scale == set);
}

size_t sp_session_match_prefix(const struct sp_session *session, const uint32_t *prompt, size_t n)
{
    return sp_speculator_find(session->speculator, prompt, n);
}

const struct sp_lora *sp_session_lora(const struct sp_session *s, float *scale)
{
    return sp_decoder_lora(s->speculator->decoder, scale);
}

double sp_session_prompt_seconds(const struct sp_session *session, size_t n)
{
    double own = session->speculator->row_seconds;

    return (double)n * (own > 0 ? own : session->package->row_seconds);
}

size_t sp_session_n_context(const struct sp_session *session)
{
    return session->speculator->n_positions;
}

size_t sp_session_max_draft_len(const struct sp_session *session)
{
    const struct sp_speculator *s = session->speculator;

    return s->ngram && s->max_draft_len < SP_DRAFT_NGRAM_MAX ? SP_DRAFT_NGRAM_MAX
                                                             : s->max_draft_len;
}

enum sp_status sp_package_check_generates(const struct sp_package *package, struct sp_err *err)
{
    const struct sp_config *c = &package->target->config;

    if (!c->bidirectional && !c->headless) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "the model makes embeddings and does not generate: %s",
                   c->bidirectional ? "its attention is bidirectional" : "it has no output matrix");
}

enum sp_status sp_package_check_ids(const struct sp_package *package, const uint32_t *ids, size_t n,
                                    struct sp_err *err)
{
    enum sp_status st = sp_package_check_generates(package, err);

    return st ? st : sp_package_check_vocabulary(package, ids, n, err);
}

enum sp_status sp_package_check_vocabulary(const struct sp_package *package, const uint32_t *ids,
                                           size_t n, struct sp_err *err)
{
    size_t n_vocab = package->target->config.n_inputs;

    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= n_vocab) {
            return sp_fail(err, SP_E_USAGE, "token ID %u: the vocabulary has %zu tokens",
                           (unsigned)ids[i], n_vocab);
        }
    }
    return SP_OK;
}

enum sp_status sp_session_check_ids(const struct sp_session *session, const uint32_t *ids, size_t n,
                                    struct sp_err *err)
{
    if (n == 0) return sp_fail(err, SP_E_USAGE, "no tokens given");
    if (n > session->speculator->n_positions) {
        return sp_fail(err, SP_E_USAGE, "%zu tokens do not fit the context of %zu", n,
                       session->speculator->n_positions);
    }
    return sp_package_check_ids(session->package, ids, n, err);
}

/* Passes the logits of rows 0..rows-1 of the decoder's last run to fn, as positions pos.. */
static enum sp_status show_logits(struct sp_decoder *decoder, const struct sp_model *model,
                                  size_t rows, size_t pos, sp_logits_fn *fn, void *context,
                                  struct sp_err *err)
{
    for (size_t t = 0; t < rows; t += LOGIT_ROWS) {
        size_t batch = rows - t < LOGIT_ROWS ? rows - t : LOGIT_ROWS;
        enum sp_status st;
        sp_decoder_logits(decoder, t, batch);
        if ((st = sp_decoder_check(decoder, err))) return st;
        for (size_t i = 0; i < batch; i++)
            if (fn(context, pos + t + i, sp_decoder_row(decoder, i).row, model->config.n_vocab))
                return sp_fail(err, SP_E_CANCELLED, "interrupted");
    }
    return SP_OK;
}

/* Runs ids[0..n-1] through a decoder of its own, which computes the logits of every row. Passes are
 * submitted one by one, and short ones beside other threads, so that these generate in between. */
static enum sp_status all_logits(struct sp_session *session, const struct sp_model *model,
                                 const uint32_t *ids, size_t n, sp_logits_fn *fn, void *context,
                                 struct sp_err *err)
{
    const struct sp_speculator *s = session->speculator;
    struct sp_decoder *decoder = NULL;
    struct sp_decoder_options options = {
        .n_positions = n,
        .budget = session->package->caches,
        .max_rows = s->prompt_rows < n ? s->prompt_rows : n,
        .max_logit_rows = LOGIT_ROWS,
        .cache_type = sp_decoder_cache_type(s->decoder),
    };
    struct sp_batch_seq seq = {.embedder = model, .head = model};
    struct sp_pass pass;
    const struct sp_lora *lora;
    float scale;
    enum sp_status st;

    if ((st = sp_decoder_open(&decoder, model, &session->package->backend, &options, err)) ||
        (st = sp_decoder_grow(decoder, n, err))) {
        sp_decoder_close(decoder);
        return st;
    }
    seq.decoder = decoder;
    lora = sp_decoder_lora(s->decoder, &scale);
    if (model == s->target) sp_decoder_set_lora(decoder, lora, scale);
    sp_scheduler_acquire(s->scheduler);
    for (; st == SP_OK && seq.pos < n; seq.pos += seq.n) {
        seq.ids = ids + seq.pos;
        seq.n = sp_scheduler_prompt_rows(s->scheduler, options.max_rows);
        if (seq.n > n - seq.pos) seq.n = n - seq.pos;
        seq.n_committed = seq.n;
        sp_scheduler_run(s->scheduler, &seq, SP_PRIORITY_EXCLUSIVE, &pass);
        sp_decoder_commit(decoder, seq.n);
        st = show_logits(decoder, model, seq.n, seq.pos, fn, context, err);
    }
    sp_scheduler_release(s->scheduler);
    sp_decoder_close(decoder);
    return st;
}

enum sp_status sp_session_logits(struct sp_session *session, const uint32_t *ids, size_t n,
                                 sp_logits_fn *fn, void *context, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_session_check_ids(session, ids, n, err))) return st;
    return all_logits(session, session->package->target, ids, n, fn, context, err);
}

/* Runs the target on everything but the anchor, then one full proposal. */
static enum sp_status block_logits(struct sp_session *session, const uint32_t *ids, size_t n,
                                   size_t n_rows, sp_logits_fn *fn, void *context,
                                   struct sp_err *err)
{
    struct sp_speculator *s = session->speculator;
    struct sp_drafter *drafter = s->drafter;
    struct sp_chooser greedy = sp_greedy_chooser(session->package->backend.vector);
    struct sp_proposal proposal = {.chooser = &greedy};
    struct sp_logits ignored;
    enum sp_status st;

    if (n < 2) return sp_fail(err, SP_E_USAGE, "the draft needs a token before the anchor");
    greedy.needs = SP_LOGITS_WHOLE;
    if ((st = sp_speculator_prompt(s, ids, n - 1, &ignored, NULL, NULL, err))) return st;
    sp_speculator_begin(s, ids[n - 1]);
    if ((st = sp_drafter_propose(drafter, s->ids, s->n_cached, &n_rows, &proposal, err))) return st;
    for (size_t i = 0; i < n_rows; i++) {
        struct sp_logits logits = drafter->ops->logits(drafter, i);
        if (fn(context, i, logits.row, logits.n))
            return sp_fail(err, SP_E_CANCELLED, "interrupted");
    }
    return SP_OK;
}

enum sp_status sp_session_draft_logits(struct sp_session *session, const uint32_t *ids, size_t n,
                                       size_t steps, sp_logits_fn *fn, void *context,
                                       struct sp_err *err)
{
    struct sp_speculator *s = session->speculator;
    enum sp_status st;

    if (s->drafter == NULL) return sp_fail(err, SP_E_USAGE, "the file has no draft");
    if ((st = sp_session_check_ids(session, ids, n, err))) return st;
    if (s->drafter->ops->kind == SP_DRAFT_NONE)
        return all_logits(session, session->package->draft, ids, n, fn, context, err);
    if (steps == 0 || steps > s->max_draft_len) steps = s->max_draft_len;
    sp_scheduler_acquire(s->scheduler);
    st = block_logits(session, ids, n, steps, fn, context, err);
    sp_scheduler_release(s->scheduler);
    return st;
}

enum sp_status sp_session_benchmark(struct sp_session *session, size_t n_before,
                                    const size_t *n_rows, size_t n, size_t repeats,
                                    sp_timing_fn *fn, void *context, struct sp_err *err)
{
    struct sp_speculator *s = session->speculator;
    struct sp_chooser greedy = sp_greedy_chooser(session->package->backend.vector);
    size_t n_vocab = session->package->target->config.n_vocab;
    struct sp_logits ignored;
    uint32_t *ids = NULL;
    enum sp_status st = sp_package_check_generates(session->package, err);

    if (st) return st;
    for (size_t i = 0; i < n; i++) {
        if (n_before >= 1 && n_rows[i] >= 1 && n_before + n_rows[i] <= s->n_positions) continue;
        return sp_fail(err, SP_E_USAGE,
                       "%zu tokens and a block of %zu do not fit the context of %zu", n_before,
                       n_rows[i], s->n_positions);
    }
    if ((st = sp_new(&ids, n_before, sizeof *ids, err))) return st;
    sp_scheduler_acquire(s->scheduler);
    for (size_t i = 0; i < n_before; i++)
        ids[i] = (uint32_t)(i * 7919 % n_vocab);
    s->needs = greedy.needs;
    if ((st = sp_speculator_prompt(s, ids, n_before, &ignored, NULL, NULL, err))) goto done;
    sp_speculator_begin(s, ids[0]);
    for (size_t i = 0; i < n * repeats && !st; i++) {
        double verify, draft;
        s->ids[s->n_cached] =
            (uint32_t)(i % n_vocab); /* other tokens, and so other experts, each time */
        st = sp_speculator_time(s, n_rows[i % n], n_rows[i % n] - 1, &greedy, &verify, &draft, err);
        if (!st && fn(context, i % n, verify, draft))
            st = sp_fail(err, SP_E_CANCELLED, "interrupted");
    }
done:
    sp_scheduler_release(s->scheduler);
    free(ids);
    return st;
}
