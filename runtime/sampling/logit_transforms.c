#include "runtime/sampling/logit_transforms.h"

#include "format/base/mem.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    double prob;
    uint32_t id;
};

struct sp_sampler_scratch {
    const struct sp_vector *vector;
    struct sp_pool *pool; /* borrowed; NULL: one thread */
    size_t n_vocab;
    struct sp_arena memory;       /* of the next four */
    float *logits;                /* [n_vocab] after bias and penalties */
    double *probs;                /* [n_vocab] */
    struct candidate *candidates; /* [n_vocab] */
    struct sp_top_n *ranks[2]; /* [n_vocab] sort keys of the candidates, and scratch for sorting */
    uint32_t *recent;          /* the history, sorted by id */
    size_t cap_recent;
    struct sp_dry_scratch dry;
};

enum sp_status sp_sampler_scratch_new(struct sp_sampler_scratch **out, size_t n_vocab,
                                      const struct sp_vector *vector, struct sp_pool *pool,
                                      struct sp_err *err)
{
    struct sp_sampler_scratch *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    s->vector = vector;
    s->pool = pool;
    s->n_vocab = n_vocab;
    s->logits = sp_arena_rows(&s->memory, 1, n_vocab + 16);
    s->probs = sp_arena_new(&s->memory, n_vocab, sizeof *s->probs);
    s->candidates = sp_arena_new(&s->memory, n_vocab, sizeof *s->candidates);
    for (int i = 0; i < 2; i++)
        s->ranks[i] = sp_arena_new(&s->memory, n_vocab, sizeof *s->ranks[i]);
    if ((st = sp_arena_check(&s->memory, err)))
        sp_sampler_scratch_free(s);
    else
        *out = s;
    return st;
}

void sp_sampler_scratch_free(struct sp_sampler_scratch *s)
{
    if (s == NULL) return;
    sp_arena_release(&s->memory);
    free(s->recent);
    sp_dry_scratch_release(&s->dry);
    free(s);
}

/* ---- penalties ---- */

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static bool penalizes_tokens(const struct sp_sampling *s)
{
    return s->repeat_last_n != 0 &&
           (s->repeat_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0);
}

bool sp_sampling_looks_back(const struct sp_sampling *s)
{
    return penalizes_tokens(s) || sp_dry_is_on(s);
}

/* Of a token of the history: the repeat penalty multiplies a negative logit and divides any other,
 * the presence penalty counts once, the frequency penalty per occurrence. */
static enum sp_status apply_penalties(struct sp_sampler_scratch *scratch,
                                      const struct sp_sampling *s, const struct sp_history *h,
                                      struct sp_err *err)
{
    size_t n = h->n_older + h->n_newer;
    enum sp_status st;

    if (s->repeat_last_n >= 0 && n > (size_t)s->repeat_last_n) n = (size_t)s->repeat_last_n;
    if (!penalizes_tokens(s) || n == 0) return SP_OK;
    if ((st = sp_grow(&scratch->recent, &scratch->cap_recent, n, sizeof *scratch->recent, err)))
        return st;
    for (size_t i = 0; i < n; i++)
        scratch->recent[i] = sp_history_at(h, i);
    qsort(scratch->recent, n, sizeof *scratch->recent, compare_ids);
    for (size_t i = 0, j; i < n; i = j) {
        float *logit;
        for (j = i; j < n && scratch->recent[j] == scratch->recent[i]; j++)
            continue;
        if (scratch->recent[i] >= scratch->n_vocab) continue;
        logit = &scratch->logits[scratch->recent[i]];
        *logit = *logit < 0 ? *logit * s->repeat_penalty : *logit / s->repeat_penalty;
        *logit -= s->presence_penalty;
        *logit -= s->frequency_penalty * (float)(j - i);
    }
    return SP_OK;
}

/* ---- truncation ---- */

/* Orders by descending probability, ties by ascending id. */
static int compare_probs(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->prob != y->prob) return x->prob < y->prob ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int compare_candidate_ids(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static void sift_down(struct candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t worst = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (compare_probs(&heap[child], &heap[worst]) > 0) worst = child;
        if (worst == i) return;
        struct candidate swap = heap[i];
        heap[i] = heap[worst];
        heap[worst] = swap;
        i = worst;
    }
}

/* Collects the k largest logits as candidates, 0 < k < n_vocab: a heap whose root ranks last.
 * `prob` holds the logit. */
static void collect_top_k(struct sp_sampler_scratch *s, size_t k)
{
    struct candidate *c = s->candidates;

    for (size_t i = 0; i < s->n_vocab; i++) {
        struct candidate next = {.prob = (double)s->logits[i], .id = (uint32_t)i};
        if (i < k) {
            c[i] = next;
            for (size_t j = i + 1 == k ? k / 2 : 0; j-- > 0;)
                sift_down(c, k, j);
        } else if (compare_probs(&c[0], &next) > 0) {
            c[0] = next;
            sift_down(c, k, 0);
        }
    }
}

/* Softmax over the logits in `prob`. */
static void softmax_candidates(struct candidate *c, size_t n, double temperature)
{
    double max = c[0].prob, sum = 0;

    for (size_t i = 1; i < n; i++)
        max = c[i].prob > max ? c[i].prob : max;
    for (size_t i = 0; i < n; i++) {
        c[i].prob = sp_exp((c[i].prob - max) / temperature);
        sum += c[i].prob;
    }
    for (size_t i = 0; i < n; i++)
        c[i].prob /= sum;
}

/* Exponentials of the vocabulary, by all threads if there are several. */
struct exponentials {
    const struct sp_sampler_scratch *s;
    double *p; /* [n_vocab] */
    double max, temperature;
};

static void soften_range(void *context, size_t first, size_t n, unsigned worker)
{
    const struct exponentials *e = context;

    (void)worker;
    e->s->vector->soften(e->p + first, e->s->logits + first, n, e->max, e->temperature);
}

/* p = softmax over the whole vocabulary. The sum is eight running sums by id % 8, added as a tree:
 * a single running sum would wait for every addition. */
static void softmax_all(const struct sp_sampler_scratch *s, double *p, double temperature)
{
    enum { LEAST = 4096 }; /* tokens of the shortest range */
    size_t n = s->n_vocab, best = s->vector->argmax(s->logits, n);
    struct exponentials e = {s, p, (double)s->logits[best], temperature};
    double sums[8] = {0}, sum;

    if (s->pool)
        sp_pool_run_ranges(s->pool, n, LEAST, soften_range, &e);
    else
        soften_range(&e, 0, n, 0);
    for (size_t i = 0; i < n; i++)
        sums[i % 8] += p[i];
    sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    for (size_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* Collects the tokens with a probability of at least `least` as candidates, or with such a logit,
 * in `prob`; returns their number. */
static size_t collect_above(struct sp_sampler_scratch *s, bool logits, double least)
{
    struct candidate *c = s->candidates;
    size_t n = 0;

    for (size_t i = 0; i < s->n_vocab; i++) {
        double x = logits ? (double)s->logits[i] : s->probs[i];
        if (x >= least) c[n++] = (struct candidate){.prob = x, .id = (uint32_t)i};
    }
    return n;
}

/* Keeps the shortest prefix of the candidates, in the order of the n ranks, whose probabilities add
 * up to p, but at least one. The kept candidates are in ascending id; *sum is their total. */
static size_t keep_mass(struct sp_sampler_scratch *s, size_t n, double p, double *sum)
{
    struct candidate *c = s->candidates;
    struct sp_top_n *ranks = s->ranks[0];
    size_t kept = 0;

    sp_top_n_sort(ranks, s->ranks[1], n);
    *sum = 0;
    while (kept < n && (kept == 0 || *sum < p))
        *sum += c[ranks[kept++].at].prob;
    for (size_t i = 0; i < kept; i++)
        ranks[i].key = ranks[i].at;
    sp_top_n_sort(ranks, s->ranks[1], kept);
    for (size_t i = 0; i < kept; i++)
        c[i] = c[ranks[i].at];
    return kept;
}

/* The bits of x >= 0, which order like x when compared as integers. */
static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Typical-p (Meister et al. 2022): keeps the candidates whose -ln(prob) is closest to the entropy,
 * while the probability of those before is below p, and renormalizes. */
static size_t keep_typical(struct sp_sampler_scratch *s, size_t n, double p)
{
    struct candidate *c = s->candidates;
    double *surprise = s->probs; /* reused as scratch: the candidates hold the probabilities */
    double entropy = 0, sum;

    for (size_t i = 0; i < n; i++) {
        surprise[i] = c[i].prob > 0 ? -sp_log(c[i].prob) : HUGE_VAL;
        if (c[i].prob > 0) entropy += c[i].prob * surprise[i];
    }
    for (size_t i = 0; i < n; i++) {
        double off = fabs(surprise[i] - entropy);
        s->ranks[0][i] = (struct sp_top_n){.key = bits_of(off), .at = (uint32_t)i};
    }
    n = keep_mass(s, n, p, &sum);
    for (size_t i = 0; i < n; i++)
        c[i].prob /= sum;
    return n;
}

/* A probability below which no token can be in the nucleus: n tokens below (1 - p) / n have less
 * than 1 - p in total. The factor keeps rounding from excluding the most probable token. */
static double floor_of_nucleus(size_t n, double p)
{
    return .999 * (1 - p) / (double)n;
}

/* Top-p: keeps the most probable candidates, while the probability of those before is below p. */
static size_t keep_nucleus(struct sp_sampler_scratch *s, size_t n, double p)
{
    struct candidate *c = s->candidates;
    double floor = floor_of_nucleus(n, p), sum;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (c[i].prob < floor) continue;
        s->ranks[0][kept] = (struct sp_top_n){.key = ~bits_of(c[i].prob), .at = (uint32_t)kept};
        c[kept++] = c[i];
    }
    return keep_mass(s, kept, p, &sum);
}

static size_t keep_above(struct candidate *c, size_t n, double least)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (c[i].prob >= least) c[kept++] = c[i];
    return kept;
}

/* Min-p: keeps the candidates with at least min_p times the largest probability. */
static size_t keep_min(struct candidate *c, size_t n, double min_p)
{
    double max = 0;

    for (size_t i = 0; i < n; i++)
        max = c[i].prob > max ? c[i].prob : max;
    return keep_above(c, n, min_p * max);
}

/* Top-n-sigma (Tang et al. 2024): returns the least logit that is kept, the largest less n standard
 * deviations of the vocabulary. Logits that a grammar or a bias excludes do not count. */
static double floor_of_sigma(const struct sp_sampler_scratch *s, double n_sigma)
{
    static const float excluded = -1e6f;
    double max = (double)s->logits[s->vector->argmax(s->logits, s->n_vocab)], mean = 0, sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_vocab; i++) {
        if (s->logits[i] <= excluded) continue;
        mean += (double)s->logits[i];
        n++;
    }
    mean /= n ? (double)n : 1;
    for (size_t i = 0; i < s->n_vocab; i++) {
        double off = (double)s->logits[i] - mean;
        if (s->logits[i] > excluded) sum += off * off;
    }
    return max - n_sigma * sqrt(n ? sum / (double)n : 0);
}

/* XTC ("exclude top choices", by p-e-w, text-generation-webui's pull request 6335): of the
 * candidates with a probability of at least the threshold, keeps the least likely alone. */
static size_t keep_least_of_top(struct candidate *c, size_t n, double threshold)
{
    double sum = 0;
    size_t last = n, kept = 0;

    for (size_t i = 0; i < n; i++)
        sum += c[i].prob;
    for (size_t i = 0; i < n; i++) {
        if (c[i].prob / sum < threshold) continue;
        if (last == n || compare_probs(&c[i], &c[last]) > 0) last = i;
    }
    for (size_t i = 0; i < n; i++)
        if (i == last || c[i].prob / sum < threshold) c[kept++] = c[i];
    return kept;
}

/* True if XTC excludes tokens at this position, by the number of (seed, position). */
static bool excludes_top(const struct sp_sampling *s, uint64_t position)
{
    return s->xtc_probability > 0 && sp_rng_uniform(sp_rng_key(s->seed, position, SP_PURPOSE_XTC),
                                                    0) < (double)s->xtc_probability;
}

bool sp_sampling_excludes_alike(const struct sp_sampling *a, uint64_t position_a,
                                const struct sp_sampling *b, uint64_t position_b)
{
    bool excludes = excludes_top(a, position_a);

    return excludes == excludes_top(b, position_b) &&
           (!excludes ||
            !(a->xtc_threshold < b->xtc_threshold || a->xtc_threshold > b->xtc_threshold));
}

/* True if no option truncates the distribution. */
static bool keeps_all(const struct sp_sampling *s, size_t n_vocab)
{
    bool top = (s->top_k > 0 && (size_t)s->top_k < n_vocab) || s->top_n_sigma > 0;

    return !top && !(s->typical_p < 1) && !(s->top_p < 1) && !(s->min_p > 0) &&
           !(s->xtc_probability > 0);
}

/* Keeps the tokens near the largest logit (top-n-sigma) and those with the k largest, and makes
 * their logits probabilities. Returns the number of candidates, in ascending id; without either
 * they are the tokens that truncation by probability may keep. */
static size_t find_candidates(struct sp_sampler_scratch *scratch, const struct sp_sampling *s)
{
    struct candidate *c = scratch->candidates;
    size_t n = scratch->n_vocab, k = s->top_k > 0 ? (size_t)s->top_k : n;
    double least = s->top_n_sigma > 0 ? floor_of_sigma(scratch, (double)s->top_n_sigma) : 0;

    if (k < n) {
        collect_top_k(scratch, k);
        if (s->top_n_sigma > 0) k = keep_above(c, k, least);
        qsort(c, k, sizeof *c, compare_candidate_ids);
        softmax_candidates(c, k, (double)s->temperature);
        return k;
    }
    if (s->top_n_sigma > 0) {
        n = collect_above(scratch, true, least);
        softmax_candidates(c, n, (double)s->temperature);
        return n;
    }
    softmax_all(scratch, scratch->probs, (double)s->temperature);
    if (!(s->typical_p < 1) && s->top_p < 1) least = floor_of_nucleus(n, (double)s->top_p);
    return collect_above(scratch, false, least);
}

/* Returns the number of candidates left, in ascending id. XTC sees what the others keep. */
static size_t truncate_candidates(struct sp_sampler_scratch *scratch, const struct sp_sampling *s,
                                  uint64_t position)
{
    size_t n = find_candidates(scratch, s);

    if (s->typical_p < 1) n = keep_typical(scratch, n, (double)s->typical_p);
    if (s->top_p < 1) n = keep_nucleus(scratch, n, (double)s->top_p);
    if (s->min_p > 0) n = keep_min(scratch->candidates, n, (double)s->min_p);
    if (excludes_top(s, position))
        n = keep_least_of_top(scratch->candidates, n, (double)s->xtc_threshold);
    return n;
}

/* ---- all ---- */

/* The distribution over the whole vocabulary. */
static enum sp_status distribution_of_all(struct sp_distribution *out,
                                          struct sp_sampler_scratch *scratch, double temperature,
                                          struct sp_err *err)
{
    enum sp_status st = sp_distribution_reserve(out, scratch->n_vocab, err);

    if (st) return st;
    softmax_all(scratch, out->probs, temperature);
    for (size_t i = 0; i < scratch->n_vocab; i++)
        out->ids[i] = (uint32_t)i;
    out->n = scratch->n_vocab;
    return SP_OK;
}

enum sp_status
sp_sampler_distribution(struct sp_distribution *out, struct sp_sampler_scratch *scratch,
                        const struct sp_sampling *sampling, const struct sp_logits *logits,
                        const struct sp_history *history, uint64_t position, struct sp_err *err)
{
    struct candidate *c = scratch->candidates;
    enum sp_status st;
    double sum = 0;
    size_t n_vocab = logits->n, n;

    /* A draft's vocabulary may be smaller than the target's. */
    scratch->n_vocab = n_vocab;
    memcpy(scratch->logits, sp_logits_row(logits), n_vocab * sizeof *scratch->logits);
    if (logits->best == SIZE_MAX) {
        return sp_fail(err, SP_E_INPUT, "a logit for position %llu is not finite",
                       (unsigned long long)position);
    }
    for (size_t i = 0; i < sampling->n_biases; i++)
        if (sampling->biases[i].id < n_vocab)
            scratch->logits[sampling->biases[i].id] += sampling->biases[i].bias;
    if ((st = apply_penalties(scratch, sampling, history, err))) return st;
    if ((st = sp_dry_penalize(&scratch->dry, scratch->logits, n_vocab, sampling, history, err)))
        return st;
    if (sampling->temperature <= 0) {
        size_t best = scratch->vector->argmax(scratch->logits, n_vocab);
        return sp_distribution_certain(out, (uint32_t)best, err);
    }
    if (keeps_all(sampling, n_vocab))
        return distribution_of_all(out, scratch, (double)sampling->temperature, err);
    n = truncate_candidates(scratch, sampling, position);
    if ((st = sp_distribution_reserve(out, n, err))) return st;
    for (size_t i = 0; i < n; i++)
        sum += c[i].prob;
    for (size_t i = 0; i < n; i++) {
        out->ids[i] = c[i].id;
        out->probs[i] = c[i].prob / sum;
    }
    out->n = n;
    return SP_OK;
}
