#include "runtime/draft_lookup.h"

#include "format/mem.h"

#include <stdlib.h>

enum {
    NONE = 0,          /* positions of pairs begin with 1 */
    MOST_PLACES = 64,  /* that a search looks at */
    LONGEST_MATCH = 64 /* that is told apart from longer ones */
};

struct lookup {
    struct sp_drafter base;
    uint32_t *newest; /* [1 << bits] place of the newest pair by hash */
    uint32_t *older;  /* [n_positions] the next older one of the same hash, by place */
    uint32_t *hash;   /* [n_positions] of the pair that ends at a place */
    unsigned bits;
    size_t n_filed;       /* pairs end before this position */
    size_t match, length; /* of the last search: where it ends, how long it is */
};

static struct lookup *lookup_of(struct sp_drafter *base)
{
    return (struct lookup *)base;
}

static void lookup_close(struct sp_drafter *base)
{
    struct lookup *l = lookup_of(base);

    if (l == NULL) return;
    free(l->newest);
    free(l->older);
    free(l->hash);
    free(l);
}

/* Fibonacci hashing of a pair (Knuth, volume 3, section 6.4). */
static uint32_t hash_of(const struct lookup *l, const uint32_t *pair)
{
    uint64_t key = (uint64_t)pair[0] << 32 | pair[1];

    return (uint32_t)(key * 0x9E3779B97F4A7C15u >> (64 - l->bits));
}

static size_t matching(const uint32_t *ids, size_t a, size_t b)
{
    size_t n = 0;

    while (n <= a && n < LONGEST_MATCH && ids[a - n] == ids[b - n])
        n++;
    return n;
}

/* Searches for the end of ids[0..n_cached]. */
static size_t lookup_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    struct lookup *l = lookup_of(base);
    size_t at, left = MOST_PLACES;

    l->length = 0;
    if (n_cached == 0) return 0;
    at = l->newest[hash_of(l, ids + n_cached - 1)];
    for (; at != NONE && left > 0 && l->length < LONGEST_MATCH; at = l->older[at], left--) {
        size_t length = matching(ids, at, n_cached);
        if (length < 2 || length <= l->length) continue;
        l->length = length;
        l->match = at;
    }
    return l->length ? SP_LOOKUP_DEPTH : 0;
}

/* A copy may run into what it writes: a text that repeats itself. A right guess makes the match
 * longer. */
static enum sp_status lookup_propose(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                     size_t *n, const struct sp_guesser *guesser,
                                     struct sp_err *err)
{
    struct lookup *l = lookup_of(base);
    size_t i = 0;
    bool more = true;

    for (; i < *n && more; i++) {
        double confidence = 1 - 1.5 / (double)(l->length + i);
        enum sp_status st;
        ids[n_cached + 1 + i] = ids[l->match + 1 + i];
        if ((st = sp_guess_copied(guesser, &more, ids, n_cached + 1 + i, confidence, err))) {
            return st;
        }
    }
    *n = i;
    return SP_OK;
}

/* A pair is filed when the token after it is known. */
static void lookup_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct lookup *l = lookup_of(base);
    size_t end = commit->first + commit->n;

    for (size_t at = l->n_filed ? l->n_filed : 1; at < end; at++) {
        l->hash[at] = hash_of(l, commit->ids + at - 1);
        l->older[at] = l->newest[l->hash[at]];
        l->newest[l->hash[at]] = (uint32_t)at;
    }
    l->n_filed = end;
}

static bool lookup_truncate(struct sp_drafter *base, size_t len)
{
    struct lookup *l = lookup_of(base);

    while (l->n_filed > len) {
        size_t at = --l->n_filed;
        if (at > 0) l->newest[l->hash[at]] = l->older[at];
    }
    return true;
}

static size_t lookup_cache_size(const struct sp_drafter *base)
{
    (void)base;
    return 0; /* no keys, no values */
}

static const struct sp_drafter_ops ops = {
    .name = SP_LOOKUP_NAME,
    .stepwise = true,
    .limit = lookup_limit,
    .propose = lookup_propose,
    .commit = lookup_commit,
    .truncate = lookup_truncate,
    .cache_size = lookup_cache_size,
    .close = lookup_close,
};

enum sp_status sp_lookup_open(struct sp_drafter **out, size_t n_positions, struct sp_err *err)
{
    struct lookup *l = NULL;
    enum sp_status st;

    if ((st = sp_new(&l, 1, sizeof *l, err))) goto done;
    l->base.ops = &ops;
    l->bits = 1;
    while (l->bits < 31 && (size_t)1 << l->bits < n_positions)
        l->bits++;
    if ((st = sp_new(&l->newest, (size_t)1 << l->bits, sizeof *l->newest, err))) goto done;
    if ((st = sp_new(&l->older, n_positions, sizeof *l->older, err))) goto done;
    if ((st = sp_new(&l->hash, n_positions, sizeof *l->hash, err))) goto done;
    *out = &l->base;
    l = NULL;
done:
    lookup_close(l ? &l->base : NULL);
    return st;
}
