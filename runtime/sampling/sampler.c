/* Samples a batch of sequences; each has a slot with its options and, if its caller does not hold
 * them, its tokens.
 *
 * The transforms are expensive, the draw is cheap. Slots with the same row (such as a prompt's
 * last row, from which many answers begin), equal options and, if penalties are set, equal recent
 * tokens share one pass of the transforms; each slot draws with its own seed. */
#include "runtime/sampling/sampling_chooser.h"

#include "format/base/mem.h"
#include "quantize/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

struct slot {
    bool used;
    struct sp_sampling options; /* biases owned; without the texts of DRY */
    struct sp_dry_breakers *breakers;
    uint32_t *ids; /* [n] the history; owned */
    size_t n, cap;
};

struct sp_sampler {
    size_t n_vocab, n_context;
    struct slot *slots;
    size_t n_slots;
    const struct sp_vector *vector;
    struct sp_sampler_scratch *scratch;
    struct sp_distribution distribution;
    bool *sampled; /* [n] rows of the batch that are done */
    size_t cap_sampled;
};

enum sp_status sp_sampler_open(struct sp_sampler **out, size_t n_vocab, size_t n_context,
                               struct sp_err *err)
{
    return sp_sampler_open_for(out, n_vocab, n_context, sp_vector_find(sp_kernels_best()->name),
                               NULL, err);
}

enum sp_status sp_sampler_open_for(struct sp_sampler **out, size_t n_vocab, size_t n_context,
                                   const struct sp_vector *vector, struct sp_pool *pool,
                                   struct sp_err *err)
{
    struct sp_sampler *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) goto done;
    s->n_vocab = n_vocab;
    s->n_context = n_context;
    s->vector = vector;
    if ((st = sp_sampler_scratch_new(&s->scratch, n_vocab, vector, pool, err))) goto done;
    *out = s;
    s = NULL;
done:
    sp_sampler_close(s);
    return st;
}

static void release_slot(struct slot *slot)
{
    void *biases;

    memcpy(&biases, &slot->options.biases, sizeof biases);
    free(biases);
    free(slot->ids);
    sp_dry_breakers_close(slot->breakers);
    memset(slot, 0, sizeof *slot);
}

void sp_sampler_close(struct sp_sampler *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < s->n_slots; i++)
        release_slot(&s->slots[i]);
    free(s->slots);
    sp_sampler_scratch_free(s->scratch);
    sp_distribution_release(&s->distribution);
    free(s->sampled);
    free(s);
}

static enum sp_status push(struct slot *slot, const uint32_t *ids, size_t n, struct sp_err *err)
{
    enum sp_status st = sp_grow(&slot->ids, &slot->cap, slot->n + n, sizeof *slot->ids, err);

    if (st) return st;
    if (n) memcpy(slot->ids + slot->n, ids, n * sizeof *ids);
    slot->n += n;
    return SP_OK;
}

static enum sp_status fill_slot(struct slot *slot, const struct sp_sampler *s,
                                const struct sp_sampling *sampling, struct sp_err *err)
{
    struct sp_logit_bias *biases = NULL;
    enum sp_status st;

    slot->options = *sampling;
    slot->options.biases = NULL;
    slot->options.dry_breakers = NULL;
    slot->options.dry_tokenizer = NULL;
    if ((st = sp_dry_breakers_open(&slot->breakers, sampling, s->n_vocab, err))) return st;
    if ((st = sp_new(&biases, sampling->n_biases, sizeof *biases, err))) return st;
    if (sampling->n_biases) memcpy(biases, sampling->biases, sampling->n_biases * sizeof *biases);
    slot->options.biases = biases;
    slot->used = true;
    return SP_OK;
}

enum sp_status sp_sampler_add(struct sp_sampler *s, size_t *out, const struct sp_sampling *sampling,
                              const uint32_t *prior, size_t n_prior, struct sp_err *err)
{
    struct sp_sampling o = {0};
    size_t i = 0, cap = s->n_slots;
    enum sp_status st;

    if ((st = sp_copy_in(&o, sizeof o, sampling, "sp_sampling", err))) return st;
    if ((st = sp_sampling_check(&o, s->n_vocab, err))) return st;
    while (i < s->n_slots && s->slots[i].used)
        i++;
    if (i == s->n_slots) {
        if ((st = sp_grow(&s->slots, &cap, cap + 1, sizeof *s->slots, err))) return st;
        memset(s->slots + i, 0, (cap - i) * sizeof *s->slots);
        s->n_slots = cap;
    }
    st = fill_slot(&s->slots[i], s, &o, err);
    if (!st && n_prior) st = push(&s->slots[i], prior, n_prior, err);
    if (st)
        release_slot(&s->slots[i]);
    else
        *out = i;
    return st;
}

static enum sp_status get_slot(struct slot **out, const struct sp_sampler *s, size_t i,
                               struct sp_err *err)
{
    if (i >= s->n_slots || !s->slots[i].used)
        return sp_fail(err, SP_E_USAGE, "sampler slot %zu holds no sequence", i);
    *out = &s->slots[i];
    return SP_OK;
}

void sp_sampler_remove(struct sp_sampler *s, size_t slot)
{
    if (slot < s->n_slots) release_slot(&s->slots[slot]);
}

enum sp_status sp_sampler_reset(struct sp_sampler *s, size_t i, const uint32_t *prior,
                                size_t n_prior, struct sp_err *err)
{
    struct slot *slot = NULL;
    enum sp_status st = get_slot(&slot, s, i, err);

    if (st) return st;
    slot->n = 0;
    return push(slot, prior, n_prior, err);
}

enum sp_status sp_sampler_commit(struct sp_sampler *s, size_t i, const uint32_t *ids, size_t n,
                                 struct sp_err *err)
{
    struct slot *slot = NULL;
    enum sp_status st = get_slot(&slot, s, i, err);

    if (st) return st;
    return push(slot, ids, n, err);
}

/* The tokens that the penalties of the options read, drafts the newest of them. */
static struct sp_history recent(const struct slot *slot, const struct sp_sampler_row *row,
                                size_t n_context)
{
    const struct sp_sampling *o = &slot->options;
    size_t n = o->repeat_last_n < 0 ? n_context : (size_t)o->repeat_last_n;
    size_t dry = o->dry_penalty_last_n < 0 ? n_context : (size_t)o->dry_penalty_last_n;
    struct sp_history h = {.breakers = slot->breakers};

    if (sp_dry_is_on(o) && dry > n) n = dry;
    h.n_newer = row->n_drafts < n ? row->n_drafts : n;
    h.n_older = slot->n < n - h.n_newer ? slot->n : n - h.n_newer;
    if (h.n_newer) h.newer = row->drafts + (row->n_drafts - h.n_newer);
    if (h.n_older) h.older = slot->ids + (slot->n - h.n_older);
    return h;
}

enum sp_status sp_sampler_slot_distribution(struct sp_sampler *s, size_t i,
                                            struct sp_distribution *out,
                                            const struct sp_logits *logits, const uint32_t *ids,
                                            size_t pos, struct sp_err *err)
{
    const struct slot *slot = &s->slots[i];
    struct sp_history history = {.older = ids, .n_older = pos, .breakers = slot->breakers};

    return sp_sampler_distribution(out, s->scratch, &slot->options, logits, &history, pos, err);
}

const struct sp_vector *sp_sampler_vector(const struct sp_sampler *s)
{
    return s->vector;
}

/* A row of the batch with everything that its distribution depends on. */
struct query {
    const struct sp_sampler_row *row;
    const struct slot *slot;
    struct sp_history history;
};

static enum sp_status make_query(struct query *query, const struct sp_sampler *s,
                                 const struct sp_sampler_row *row, struct sp_err *err)
{
    struct slot *slot = NULL;
    enum sp_status st = get_slot(&slot, s, row->slot, err);

    if (st) return st;
    *query = (struct query){row, slot, recent(slot, row, s->n_context)};
    return SP_OK;
}

static bool same_history(const struct sp_history *a, const struct sp_history *b)
{
    size_t n = a->n_older + a->n_newer;

    if (n != b->n_older + b->n_newer) return false;
    for (size_t i = 0; i < n; i++)
        if (sp_history_at(a, i) != sp_history_at(b, i)) return false;
    return true;
}

static bool same_biases(const struct sp_sampling *a, const struct sp_sampling *b)
{
    if (a->n_biases != b->n_biases) return false;
    for (size_t i = 0; i < a->n_biases; i++) {
        float x = a->biases[i].bias, y = b->biases[i].bias;
        if (a->biases[i].id != b->biases[i].id || x < y || x > y) return false;
    }
    return true;
}

static uint64_t position(const struct query *query)
{
    return query->slot->n + query->row->n_drafts;
}

static bool same_query(const struct query *a, const struct query *b)
{
    const struct sp_sampling *x = &a->slot->options, *y = &b->slot->options;

    /* Slots with DRY share nothing: breakers may differ. */
    if (a->row->logits != b->row->logits || !sp_sampling_same(x, y) || sp_dry_is_on(x) ||
        !same_biases(x, y))
        return false;
    if (!sp_sampling_excludes_alike(x, position(a), y, position(b))) return false;
    return !sp_sampling_looks_back(x) || same_history(&a->history, &b->history);
}

static uint32_t draw(const struct sp_sampler *s, const struct query *query)
{
    return sp_distribution_draw(&s->distribution, s->vector, query->slot->options.seed,
                                position(query), SP_PURPOSE_TOKEN, NULL);
}

/* Samples row `first` and all later rows with an equal distribution. */
static enum sp_status sample_alike(struct sp_sampler *s, uint32_t *ids,
                                   const struct sp_sampler_row *rows, size_t first, size_t n,
                                   struct sp_err *err)
{
    struct query query, other;
    struct sp_logits logits;
    enum sp_status st;

    if ((st = make_query(&query, s, &rows[first], err))) return st;
    logits = sp_logits_of(s->vector, query.row->logits, s->n_vocab);
    if ((st = sp_sampler_distribution(&s->distribution, s->scratch, &query.slot->options, &logits,
                                      &query.history, position(&query), err)))
        return st;
    ids[first] = draw(s, &query);
    for (size_t i = first + 1; i < n; i++) {
        if (s->sampled[i] || rows[i].logits != query.row->logits) continue;
        if ((st = make_query(&other, s, &rows[i], err))) return st;
        if (!same_query(&query, &other)) continue;
        ids[i] = draw(s, &other);
        s->sampled[i] = true;
    }
    return SP_OK;
}

enum sp_status sp_sampler_sample(struct sp_sampler *s, uint32_t *ids,
                                 const struct sp_sampler_row *rows, size_t n, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_grow(&s->sampled, &s->cap_sampled, n, sizeof *s->sampled, err))) return st;
    if (n) memset(s->sampled, 0, n * sizeof *s->sampled);
    for (size_t i = 0; i < n; i++) {
        if (s->sampled[i]) continue;
        if ((st = sample_alike(s, ids, rows, i, n, err))) return st;
    }
    return SP_OK;
}
