#include "runtime/speculate/speculate.h"

#include "format/base/mem.h"
#include "format/base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The largest batch in which every sequence can have the most draft tokens. */
enum { FULL_BATCH = 4 };

static enum sp_status open_decoder(struct sp_speculator *s,
                                   const struct sp_speculator_options *options, struct sp_err *err)
{
    const struct sp_sequence_setup *setup = &options->setup;
    struct sp_decoder_options decoder = setup->options;

    decoder.checkpoints = true;
    if (decoder.max_batch > FULL_BATCH) decoder.max_batch = FULL_BATCH;
    if (options->shared_with) decoder.workspace_of = options->shared_with->decoder;
    if (setup->draft) {
        s->max_draft_len = sp_drafter_max_draft_len(setup->draft);
        decoder.taps = sp_drafter_taps(setup->draft, &decoder.n_taps);
    }
    decoder.max_logit_rows =
        s->max_draft_len + 1 < SP_TIMED_ROWS ? SP_TIMED_ROWS : s->max_draft_len + 1;
    s->max_rows = s->prompt_rows > decoder.max_logit_rows ? s->prompt_rows : decoder.max_logit_rows;
    decoder.max_rows = s->max_rows;
    return sp_decoder_open(&s->decoder, setup->target, setup->backend, &decoder, err);
}

static enum sp_status open_drafter(struct sp_speculator *s,
                                   const struct sp_speculator_options *options, struct sp_err *err)
{
    struct sp_sequence_setup setup = options->setup;

    if (setup.draft == NULL) return SP_OK;
    setup.decoder = s->decoder;
    setup.options.max_rows = s->max_rows;
    if (options->shared_with) setup.options.workspace_of = options->shared_with->drafter->decoder;
    return sp_drafter_open(&s->drafter, sp_drafter_find(setup.draft->config.draft.kind), &setup,
                           err);
}

enum sp_status sp_speculator_open(struct sp_speculator **out,
                                  const struct sp_speculator_options *options, struct sp_err *err)
{
    const struct sp_sequence_setup *setup = &options->setup;
    struct sp_speculator *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) goto done;
    s->target = setup->target;
    s->scheduler = setup->scheduler;
    s->n_positions = setup->options.n_positions;
    s->prompt_rows = options->prompt_rows;
    s->draft_size = options->draft_size;
    if ((st = open_decoder(s, options, err))) goto done;
    if ((st = open_drafter(s, options, err))) goto done;
    if (setup->prompt_cache &&
        (st = sp_prompt_pages_open(&s->pages, setup, s->decoder, s->drafter, setup->identity, err)))
        goto done;
    if (options->ngram && (st = sp_draft_ngram_open(&s->ngram, s->n_positions, err))) goto done;
    if ((st = sp_new(&s->ids, s->n_positions + s->max_rows + 1, sizeof *s->ids, err))) goto done;
    *out = s;
    s = NULL;
done:
    sp_speculator_close(s);
    return st;
}

void sp_speculator_close(struct sp_speculator *s)
{
    if (s == NULL) return;
    sp_drafter_close(s->drafter);
    sp_drafter_close(s->ngram);
    sp_prompt_pages_close(s->pages);
    sp_decoder_close(s->decoder);
    free(s->ids);
    free(s);
}

/* Positions that need memory after the first n: those of a round and of a timed pass. */
static size_t with_passes(const struct sp_speculator *s, size_t n)
{
    return n + 2 * s->max_rows;
}

/* Returns memory of a sequence that was much longer. */
static void shrink(struct sp_speculator *s, size_t n)
{
    sp_decoder_shrink(s->decoder, with_passes(s, n));
    if (s->drafter) sp_decoder_shrink(s->drafter->decoder, with_passes(s, n));
}

enum sp_status sp_speculator_grow(struct sp_speculator *s, size_t n, struct sp_err *err)
{
    enum sp_status st = sp_decoder_grow(s->decoder, with_passes(s, n), err);

    if (!st && s->drafter) st = sp_decoder_grow(s->drafter->decoder, with_passes(s, n), err);
    if (st) shrink(s, s->n_cached);
    return st;
}

size_t sp_speculator_cache_size_for(const struct sp_speculator *s, size_t n)
{
    size_t size = sp_decoder_cache_size_for(s->decoder, with_passes(s, n));

    return s->drafter ? size + sp_decoder_cache_size_for(s->drafter->decoder, with_passes(s, n))
                      : size;
}

size_t sp_speculator_cache_size(const struct sp_speculator *s)
{
    size_t size = sp_decoder_cache_size(s->decoder);

    return s->drafter ? size + sp_decoder_cache_size(s->drafter->decoder) : size;
}

/* Runs ids[n_cached..n_cached+n-1] through the target and computes the last n_logits rows of
 * logits. The first n_committed rows will not be rolled back. */
static enum sp_status run_target(struct sp_speculator *s, size_t n, size_t n_committed,
                                 size_t n_logits, enum sp_priority priority, struct sp_pass *pass,
                                 struct sp_err *err)
{
    struct sp_batch_seq seq = {
        .decoder = s->decoder,
        .embedder = s->target,
        .head = s->target,
        .ids = s->ids + s->n_cached,
        .n = n,
        .pos = s->n_cached,
        .n_committed = n_committed,
        .first_logits = n - n_logits,
        .n_logits = n_logits,
        .needs = s->needs,
    };

    sp_scheduler_run(s->scheduler, &seq, priority, pass);
    if (priority == SP_PRIORITY_FIFO) sp_scheduler_learn(s->scheduler, pass);
    return sp_decoder_check(s->decoder, err);
}

/* Commits the first n rows of the last pass. What was rejected is undone by n_cached alone in KV
 * caches, whose rows behind it are written again; by sp_decoder_commit in recurrent states; and by
 * each drafter's commit in what it keeps. */
static void commit(struct sp_speculator *s, size_t n)
{
    struct sp_commit rows = {
        .ids = s->ids,
        .first = s->n_cached,
        .n = n,
        .features = sp_decoder_features(s->decoder),
    };

    sp_decoder_commit(s->decoder, n);
    if (s->drafter) s->drafter->ops->commit(s->drafter, &rows);
    if (s->ngram) s->ngram->ops->commit(s->ngram, &rows);
    s->n_cached += n;
}

/* Rewinds to `to`; the first n_same >= to tokens stay the same. False: the draft cannot. */
static bool rewind_to(struct sp_speculator *s, size_t to, size_t n_same)
{
    if (s->drafter && !s->drafter->ops->truncate(s->drafter, to, n_same)) return false;
    if (s->ngram) s->ngram->ops->truncate(s->ngram, to, n_same);
    sp_decoder_rewind(s->decoder, s->n_cached, to);
    s->n_cached = to;
    return true;
}

void sp_speculator_clear(struct sp_speculator *s)
{
    rewind_to(s, 0, 0);
    s->n_ids = 0;
    sp_decoder_shrink(s->decoder, 0);
    if (s->drafter) sp_decoder_shrink(s->drafter->decoder, 0);
}

/* The number of leading tokens that are cached and in the prompt, without the prompt's last token,
 * which runs again for its logits. */
static size_t common_prefix(const struct sp_speculator *s, const uint32_t *prompt, size_t n)
{
    size_t same = 0, most = n - 1 < s->n_cached ? n - 1 : s->n_cached;

    while (same < most && s->ids[same] == prompt[same])
        same++;
    return same;
}

size_t sp_speculator_find(const struct sp_speculator *s, const uint32_t *prompt, size_t n)
{
    return sp_decoder_rewind_point(s->decoder, s->n_cached, common_prefix(s, prompt, n));
}

/* Rewinds the caches to the prefix that they share with the prompt. If the draft lacks the state
 * in front of the first different token, one more token runs again. */
static void keep_common_prefix(struct sp_speculator *s, const uint32_t *prompt, size_t n)
{
    size_t same = common_prefix(s, prompt, n), to;

    to = sp_decoder_rewind_point(s->decoder, s->n_cached, same);
    if (rewind_to(s, to, same)) return;
    to = to ? sp_decoder_rewind_point(s->decoder, s->n_cached, to - 1) : 0;
    if (!rewind_to(s, to, same)) rewind_to(s, 0, same);
}

/* The position at which a prompt of n tokens gets a state checkpoint; 0: none. The next prompt of a
 * conversation often differs from this one a few tokens before its end, where the template opens
 * the answer, perhaps with reasoning that it omits later. A short prompt is processed again. */
static size_t checkpoint_place(const struct sp_speculator *s, size_t n)
{
    enum { LAST_TOKENS = 16, LEAST_TOKENS = 64 };

    if (sp_decoder_state_size(s->decoder) == 0 || n - s->n_cached < LEAST_TOKENS) return 0;
    return n - LAST_TOKENS;
}

static size_t rows_of_pass(const struct sp_speculator *s, size_t n, size_t checkpoint)
{
    size_t end = s->n_cached < checkpoint ? checkpoint : n, left = end - s->n_cached;
    size_t most = sp_scheduler_target_rows(s->scheduler, s->prompt_rows);

    most = sp_prompt_pages_rows(s->pages, s->n_cached, most);
    return left < most ? left : most;
}

/* Reads the pages of the prompt that the prompt cache has by now. */
static void read_pages(struct sp_speculator *s, size_t n)
{
    size_t had = s->n_cached;
    size_t has = sp_prompt_pages_restore(s->pages, s->ids, had, n, s->row_seconds);

    if (has < had) rewind_to(s, has, has);
    s->n_reused = has < had ? has : s->n_reused + has - had;
    s->n_cached = has;
    if (has > had && s->drafter && s->drafter->decoder)
        sp_decoder_add_tokens(s->drafter->decoder, s->ids + had, has - had);
}

enum sp_status sp_speculator_prompt(struct sp_speculator *s, const uint32_t *prompt, size_t n,
                                    struct sp_logits *logits,
                                    int (*progress)(void *, size_t, size_t), void *context,
                                    struct sp_err *err)
{
    enum { MANY_ROWS = 16 }; /* a small pass says little about the rows of a large one */
    size_t rows, checkpoint;
    struct sp_pass pass;
    enum sp_status st = SP_OK;

    assert(n >= 1 && n <= s->n_positions);
    if ((st = sp_speculator_grow(s, n, err))) return st;
    keep_common_prefix(s, prompt, n);
    shrink(s, n);
    memcpy(s->ids, prompt, n * sizeof *prompt);
    s->n_ids = s->n_prompt = n;
    s->n_last = s->n_positions;
    s->n_reused = s->n_cached;
    if (s->pages) read_pages(s, n);
    checkpoint = checkpoint_place(s, n);
    while (s->n_cached < n) {
        if (progress && progress(context, s->n_cached, n)) {
            s->n_ids = s->n_cached;
            st = sp_fail(err, SP_E_CANCELLED, "interrupted");
            break;
        }
        if (s->pages && !sp_prompt_pages_claim(s->pages, s->n_cached)) {
            read_pages(s, n);
            continue;
        }
        rows = rows_of_pass(s, n, checkpoint);
        if ((st = run_target(s, rows, rows, s->n_cached + rows == n, SP_PRIORITY_FIFO, &pass, err)))
            break;
        if (pass.n_rows >= MANY_ROWS) s->row_seconds = pass.seconds / (double)pass.n_rows;
        commit(s, rows);
        if (s->n_cached == checkpoint) sp_decoder_checkpoint(s->decoder, checkpoint);
        if (s->pages && s->n_cached < n) sp_prompt_pages_keep(s->pages, s->ids, s->n_cached);
    }
    if (s->pages) sp_prompt_pages_unclaim(s->pages);
    if (st) return st;
    *logits = sp_decoder_row(s->decoder, 0);
    return SP_OK;
}

void sp_speculator_begin(struct sp_speculator *s, uint32_t id)
{
    s->ids[s->n_ids++] = id;
}

size_t sp_speculator_limit(struct sp_speculator *s, struct sp_drafter *drafter)
{
    size_t left = s->n_positions - s->n_cached - 1, limit;

    if (drafter == NULL) return 0;
    limit =
        drafter->ops->limit ? drafter->ops->limit(drafter, s->ids, s->n_cached) : s->max_draft_len;
    return limit < left ? limit : left;
}

static size_t clamp_draft_len(struct sp_speculator *s, size_t draft_len)
{
    size_t limit = sp_speculator_limit(s, s->drafter);

    return draft_len < limit ? draft_len : limit;
}

static void catch_up(struct sp_speculator *s, struct sp_drafter *drafter)
{
    if (drafter->ops->catch_up) drafter->ops->catch_up(drafter, s->ids, s->n_cached);
}

static size_t n_unread(const struct sp_speculator *s, const struct sp_drafter *drafter)
{
    return drafter->ops->n_unread ? drafter->ops->n_unread(drafter, s->n_cached) : 0;
}

struct sp_draft_outlook sp_speculator_outlook(const struct sp_speculator *s,
                                              const struct sp_drafter *drafter)
{
    return (struct sp_draft_outlook){
        .n_unread = n_unread(s, drafter),
        .n_written = s->n_ids - s->n_prompt,
        .n_left = s->n_last - s->n_ids,
        .row_seconds = s->row_seconds * s->draft_size,
    };
}

/* The time that the drafter has taken since t0. */
static struct sp_pass_time spent(const struct sp_drafter *drafter, double t0)
{
    struct sp_pass_time t = drafter->time;
    double own = sp_seconds() - t0 - t.away;

    return (struct sp_pass_time){.seconds = own + t.seconds, .part = own + t.part};
}

enum sp_status sp_speculator_propose(struct sp_speculator *s, struct sp_drafter *drafter, size_t n,
                                     const struct sp_proposal *proposal, struct sp_round *round,
                                     struct sp_err *err)
{
    double t0 = sp_seconds();
    struct sp_pass_time time;
    enum sp_status st;

    round->asked = n;
    drafter->time = (struct sp_pass_time){0};
    round->n_caught_up = n_unread(s, drafter);
    catch_up(s, drafter);
    round->catch_up_seconds = spent(drafter, t0).seconds;
    t0 = sp_seconds();
    drafter->time = (struct sp_pass_time){0};
    if ((st = sp_drafter_propose(drafter, s->ids, s->n_cached, &n, proposal, err))) return st;
    round->made = n;
    round->drafted = proposal->draft_len ? proposal->draft_len->n_verify : n;
    time = spent(drafter, t0);
    round->draft_seconds = time.seconds;
    round->draft_cost = time.part;
    return SP_OK;
}

enum sp_status sp_speculator_verify(struct sp_speculator *s, const struct sp_chooser *chooser,
                                    sp_emit_fn *emit, void *context, struct sp_round *round,
                                    struct sp_err *err)
{
    size_t n = round->drafted, pos = s->n_cached + 1;
    struct sp_pass done;
    double t0;
    enum sp_status st;

    assert(s->n_ids == pos && s->n_cached < s->n_positions);
    if ((st = run_target(s, n + 1, 1, n + 1, SP_PRIORITY_FIFO, &done, err))) return st;
    t0 = sp_seconds();
    round->other_rows = done.n_rows - (n + 1);
    round->n_others = done.n_seqs - 1;
    round->beside_prompt = done.n_prompts > 0;
    round->pass = done.number;
    for (size_t i = 0; i <= n; i++) {
        struct sp_logits logits = sp_decoder_row(s->decoder, i);
        uint32_t draft_token = i < n ? s->ids[pos + i] : SP_NO_DRAFT_TOKEN, id;
        bool right;
        st = chooser->choose(chooser->state, &id, &logits, s->ids, pos + i, draft_token, err);
        if (!st) st = sp_decoder_check(s->decoder, err); /* the chooser may complete the row */
        if (st) break;
        right = id == draft_token;
        s->ids[pos + i] = id;
        round->emitted++;
        round->accepted += right;
        round->stopped = emit(context, id, &logits, right) != 0;
        if (!right || round->stopped) break;
    }
    /* If the chooser failed at a row, that row is committed all the same, and no token is cur. */
    commit(s, round->emitted + (st != SP_OK));
    s->n_ids = s->n_cached + (st == SP_OK);
    round->verify_seconds = done.seconds + sp_seconds() - t0;
    if (s->pages) sp_prompt_pages_keep(s->pages, s->ids, s->n_cached);
    return st;
}

enum sp_status sp_speculator_round(struct sp_speculator *s, size_t draft_len,
                                   const struct sp_proposal *proposal, sp_emit_fn *emit,
                                   void *context, struct sp_round *round, struct sp_err *err)
{
    size_t n = clamp_draft_len(s, draft_len);
    enum sp_status st;

    memset(round, 0, sizeof *round);
    if ((st = sp_speculator_grow(s, s->n_cached, err))) return st;
    if (n && (st = sp_speculator_propose(s, s->drafter, n, proposal, round, err))) return st;
    return sp_speculator_verify(s, proposal->chooser, emit, context, round, err);
}

/* Distance between the tokens of a timed pass: a prime, so that they differ as those of a text do
 * and are routed to different experts. */
enum { STRIDE = 7919 };

enum sp_status sp_speculator_time(struct sp_speculator *s, size_t n_rows, size_t n,
                                  const struct sp_chooser *chooser, double *verify_seconds,
                                  double *draft_seconds, struct sp_err *err)
{
    size_t most = s->n_positions - s->n_cached, n_vocab = s->target->config.n_vocab;
    double t0;
    struct sp_proposal proposal = {.chooser = chooser};
    struct sp_pass pass;
    enum sp_status st;

    if (n_rows > most) n_rows = most;
    n = clamp_draft_len(s, n);
    if (n) catch_up(s, s->drafter);
    t0 = sp_seconds();
    if (n && (st = sp_drafter_propose(s->drafter, s->ids, s->n_cached, &n, &proposal, err)))
        return st;
    *draft_seconds = n ? sp_seconds() - t0 : 0;
    for (size_t i = 1; i < n_rows; i++)
        s->ids[s->n_cached + i] = (uint32_t)((s->ids[s->n_cached] + i * STRIDE) % n_vocab);
    if ((st = run_target(s, n_rows, 0, n_rows, SP_PRIORITY_EXCLUSIVE, &pass, err))) return st;
    *verify_seconds = pass.seconds;
    if (s->drafter && !s->drafter->ops->truncate(s->drafter, s->n_cached, s->n_cached))
        return sp_fail(err, SP_E_BUG, "a timed proposal damaged the draft's cache");
    return SP_OK;
}
