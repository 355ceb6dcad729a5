/* A small autoregressive language model as a drafter: it has a cache of its own and drafts one
 * token per pass.
 *
 * Its cache follows the committed sequence with a lag. Before a proposal it reads what it has not
 * seen: the anchor and, if every draft token was accepted, the last draft token, which was
 * proposed but never read. A prompt and the output of plain steps are read earlier, by catch_up.
 *
 * A recurrent state cannot be rolled back, so it stays at the last committed row: every step of a
 * proposal runs cur and all draft tokens so far again, in one pass that reads the weights once.
 * The accepted rows are then committed from the log of the last such pass. */
#include "runtime/speculate/prompt_pages.h"

#include "format/base/mem.h"

enum { MAX_DRAFT_LEN = 32 };

struct draft_lm {
    struct sp_drafter base;
    const struct sp_model *model;
    struct sp_prompt_pages *pages; /* owned; NULL: no prompt cache */
    size_t max_rows, n_positions;
    size_t n_vocab;              /* size of the vocabulary that both models share */
    size_t n_fed;                /* positions 0..n_fed-1 of the cache hold the sequence's tokens */
    bool recurrent;              /* the model is recurrent: all fed tokens are committed ones */
    size_t n_committed, n_draft; /* recurrent: committed rows and draft rows of the last pass */
    uint32_t *known;             /* [max_rows] ids of one pass */
    float *logits;               /* [n_vocab] of the last token, where the draft has more */
    enum sp_logits_need needs;   /* of the last proposal */
};

/* The draft reads only tokens of the target, so any target fits. */
static enum sp_status lm_check(const struct sp_model *target, const struct sp_model *draft,
                               struct sp_err *err)
{
    (void)target;
    if (draft->embedding.rows && draft->head.rows) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "draft: no embedding of its own");
}

static enum sp_status lm_open(struct sp_drafter *base, const struct sp_sequence_setup *setup,
                              struct sp_err *err)
{
    const struct sp_config *config = &setup->draft->config;
    struct sp_decoder_options options = setup->options;
    struct draft_lm *d = (struct draft_lm *)base;
    enum sp_status st;

    d->model = setup->draft;
    d->max_rows = options.max_rows;
    d->n_vocab = config->n_vocab < setup->target->config.n_vocab ? config->n_vocab
                                                                 : setup->target->config.n_vocab;
    d->recurrent = sp_config_is_recurrent(config);
    if (options.n_positions > config->max_positions) options.n_positions = config->max_positions;
    d->n_positions = options.n_positions;
    options.max_logit_rows =
        d->recurrent ? MAX_DRAFT_LEN : 1; /* as many rows may be draft tokens */
    options.shortlist_of = setup->draft;
    if ((st = sp_decoder_open(&base->decoder, d->model, setup->backend, &options, err))) return st;
    /* The draft reads tokens alone: its pages are those of another model. */
    if (setup->prompt_cache && (st = sp_prompt_pages_open(&d->pages, setup, base->decoder, NULL,
                                                          setup->identity + 1, err)))
        return st;
    if (d->n_vocab < d->model->head.rows) d->logits = sp_arena_rows(&base->memory, 1, d->n_vocab);
    d->known = sp_arena_new(&base->memory, d->max_rows, sizeof *d->known);
    return SP_OK;
}

/* The draft's own context may be shorter than the session's; nothing is drafted beyond it. */
static size_t lm_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    const struct draft_lm *d = (const struct draft_lm *)base;
    size_t left = n_cached + 1 < d->n_positions ? d->n_positions - n_cached - 1 : 0;

    (void)ids;
    return left < MAX_DRAFT_LEN ? left : MAX_DRAFT_LEN;
}

/* Runs one pass over ids[n_fed..n_fed+n-1] and computes the last n_logits rows of logits. An id
 * that only the target knows is read as id 0. */
static void run(struct draft_lm *d, const uint32_t *ids, size_t n, size_t n_committed,
                size_t n_logits, enum sp_priority priority)
{
    struct sp_batch_seq seq = {
        .ids = d->known,
        .n = n,
        .pos = d->n_fed,
        .n_committed = n_committed,
        .first_logits = n - n_logits,
        .n_logits = n_logits,
        .needs = d->needs,
    };

    for (size_t i = 0; i < n; i++) {
        uint32_t id = ids[d->n_fed + i];
        d->known[i] = id < d->model->config.n_vocab ? id : 0;
    }
    sp_drafter_pass(&d->base, seq, priority);
    sp_decoder_commit(d->base.decoder, n_committed);
    d->n_fed += n_committed;
    d->n_committed = n_committed;
    d->n_draft = n - n_committed;
}

/* Reads ids[n_fed..last], of which those before n_true are committed, and computes the logits of
 * position last + 1. */
static void feed(struct draft_lm *d, const uint32_t *ids, size_t n_true, size_t last)
{
    size_t left, n, n_committed;

    do {
        left = last + 1 - d->n_fed;
        n = left < d->max_rows ? left : d->max_rows;
        n_committed = n;
        if (d->recurrent && d->n_fed + n > n_true) n_committed = n_true - d->n_fed;
        run(d, ids, n, n_committed, n == left, SP_PRIORITY_DRAFT);
    } while (n < left);
}

static size_t lm_n_unread(const struct sp_drafter *base, size_t n_cached)
{
    const struct draft_lm *d = (const struct draft_lm *)base;

    return d->n_fed + 1 < n_cached ? n_cached - d->n_fed : 0;
}

static void lm_catch_up(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    struct draft_lm *d = (struct draft_lm *)base;

    if (lm_n_unread(base, n_cached) == 0) return;
    if (d->pages) d->n_fed = sp_prompt_pages_restore(d->pages, ids, d->n_fed, n_cached, 0);
    while (d->n_fed < n_cached) {
        size_t n = sp_scheduler_prompt_rows(d->base.scheduler, d->max_rows);
        if (d->pages && !sp_prompt_pages_claim(d->pages, d->n_fed)) {
            d->n_fed = sp_prompt_pages_restore(d->pages, ids, d->n_fed, n_cached, 0);
            continue;
        }
        n = sp_prompt_pages_rows(d->pages, d->n_fed, n);
        if (n > n_cached - d->n_fed) n = n_cached - d->n_fed;
        run(d, ids, n, n, 0, SP_PRIORITY_FIFO);
        if (d->pages) sp_prompt_pages_keep(d->pages, ids, d->n_fed);
    }
    if (d->pages) sp_prompt_pages_unclaim(d->pages);
}

static void lm_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                     const struct sp_proposal *proposal)
{
    struct draft_lm *d = (struct draft_lm *)base;

    (void)ids;
    (void)n_cached;
    (void)n;
    d->needs = sp_proposal_needs(proposal, d->logits ? SP_LOGITS_ROWS : SP_LOGITS_PROBABILITY);
}

static struct sp_logits lm_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t i,
                                double *confidence)
{
    struct draft_lm *d = (struct draft_lm *)base;

    (void)confidence;
    feed(d, ids, n_cached, n_cached + i);
    return d->logits ? sp_decoder_keep_row(base->decoder, 0, d->logits, d->n_vocab)
                     : sp_decoder_row(base->decoder, 0);
}

/* Tokens read beyond the committed positions were draft tokens; accepted ones stay in the cache. */
static void lm_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct draft_lm *d = (struct draft_lm *)base;
    size_t end = commit->first + commit->n, n_kept;

    sp_decoder_add_tokens(d->base.decoder, commit->ids + commit->first, commit->n);
    if (d->n_fed > end) d->n_fed = end;
    if (!d->recurrent || d->n_draft == 0) return;
    n_kept = end - d->n_fed < d->n_draft ? end - d->n_fed : d->n_draft;
    sp_decoder_commit(d->base.decoder, d->n_committed + n_kept);
    d->n_fed += n_kept;
    d->n_draft = 0;
}

static bool lm_truncate(struct sp_drafter *base, size_t len, size_t n_same)
{
    struct draft_lm *d = (struct draft_lm *)base;

    (void)n_same;
    d->n_draft = 0;
    if (d->n_fed <= len) return true;
    if (!sp_decoder_can_rewind(d->base.decoder, d->n_fed, len)) len = 0;
    d->n_fed = len;
    return true;
}

static void lm_close(struct sp_drafter *base)
{
    sp_prompt_pages_close(((struct draft_lm *)base)->pages);
}

const struct sp_drafter_ops sp_draft_lm_ops = {
    .kind = SP_DRAFT_NONE,
    .stepwise = true,
    .max_draft_len = MAX_DRAFT_LEN,
    .check = lm_check,
    .size = sizeof(struct draft_lm),
    .open = lm_open,
    .limit = lm_limit,
    .catch_up = lm_catch_up,
    .n_unread = lm_n_unread,
    .begin = lm_begin,
    .next = lm_next,
    .commit = lm_commit,
    .truncate = lm_truncate,
    .close = lm_close,
};
