#include "runtime/sampling/logit_transforms.h"

#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_BREAKER = 128, /* bytes */
    MAX_BREAKERS = 32, /* each is compared with every token of the vocabulary */
};

/* The largest penalty. It leaves a token that a grammar allows above all that it excludes, whose
 * logits are SP_NEVER. */
static const double max_penalty = 1e9;

/* A token whose text contains a breaker, or ends in its beginning and is followed by the rest. */
struct sequence {
    uint32_t head;
    uint32_t at, n; /* tail: tails[at .. at + n - 1] */
};

struct sp_dry_breakers {
    struct sequence *sequences; /* [n] by ascending head */
    uint32_t *tails;            /* [n_tails] */
    size_t n, cap, n_tails, cap_tails;
};

/* ---- breakers ---- */

static enum sp_status add_sequence(struct sp_dry_breakers *b, struct sequence sequence,
                                   struct sp_err *err)
{
    enum sp_status st = sp_grow(&b->sequences, &b->cap, b->n + 1, sizeof *b->sequences, err);

    if (!st) b->sequences[b->n++] = sequence;
    return st;
}

/* Encodes the rest of a breaker, which the head has begun. */
static enum sp_status add_tail(struct sp_dry_breakers *b, struct sequence *tail,
                               const struct sp_tokenizer *tokenizer, const char *rest, size_t size,
                               struct sp_err *err)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    enum sp_status st = sp_tokenizer_encode(tokenizer, rest, size, 0, &ids, &n, err);

    if (st) return st;
    st = sp_grow(&b->tails, &b->cap_tails, b->n_tails + n, sizeof *b->tails, err);
    if (!st) {
        if (n) memcpy(b->tails + b->n_tails, ids, n * sizeof *ids);
        *tail = (struct sequence){.at = (uint32_t)b->n_tails, .n = (uint32_t)n};
        b->n_tails += n;
    }
    free(ids);
    return st;
}

static bool contains(const struct sp_token_info *token, const char *text, size_t size)
{
    for (size_t at = 0; at + size <= token->len; at++)
        if (memcmp(token->bytes + at, text, size) == 0) return true;
    return false;
}

/* True if the token ends in the first `begun` bytes of the text, after which a character begins. */
static bool begins(const struct sp_token_info *token, const char *text, size_t begun)
{
    return begun <= token->len && ((unsigned char)text[begun] & 0xC0) != 0x80 &&
           memcmp(token->bytes + token->len - begun, text, begun) == 0;
}

/* Adds the sequences that begin with one token. tails[k]: what follows k bytes of the text; its n
 * is UINT32_MAX until it is needed. */
static enum sp_status add_token(struct sp_dry_breakers *b, struct sequence tails[MAX_BREAKER],
                                const struct sp_tokenizer *tokenizer, uint32_t id, const char *text,
                                size_t size, struct sp_err *err)
{
    struct sp_token_info token = {0};
    enum sp_status st;

    if (!sp_tokenizer_token(tokenizer, id, &token) || token.len == 0) return SP_OK;
    if (contains(&token, text, size)) return add_sequence(b, (struct sequence){.head = id}, err);
    for (size_t begun = 1; begun < size; begun++) {
        if (!begins(&token, text, begun)) continue;
        if (tails[begun].n == UINT32_MAX &&
            (st = add_tail(b, &tails[begun], tokenizer, text + begun, size - begun, err)))
            return st;
        tails[begun].head = id;
        if ((st = add_sequence(b, tails[begun], err))) return st;
    }
    return SP_OK;
}

static enum sp_status add_breaker(struct sp_dry_breakers *b, const struct sp_tokenizer *tokenizer,
                                  size_t n_vocab, const char *text, struct sp_err *err)
{
    struct sequence tails[MAX_BREAKER];
    size_t size = strlen(text);
    enum sp_status st = SP_OK;

    if (size == 0 || size > MAX_BREAKER || sp_utf8_valid(text, size) != size) {
        return sp_fail(err, SP_E_USAGE,
                       "a DRY sequence breaker has %zu bytes, expected 1 to %d of valid UTF-8",
                       size, MAX_BREAKER);
    }
    for (size_t i = 0; i < size; i++)
        tails[i].n = UINT32_MAX;
    for (size_t id = 0; id < n_vocab && !st; id++)
        st = add_token(b, tails, tokenizer, (uint32_t)id, text, size, err);
    return st;
}

static int compare_sequences(const void *a, const void *b)
{
    const struct sequence *x = a, *y = b;

    return (x->head > y->head) - (x->head < y->head);
}

enum sp_status sp_dry_breakers_open(struct sp_dry_breakers **out, const struct sp_sampling *s,
                                    size_t n_vocab, struct sp_err *err)
{
    struct sp_dry_breakers *b = NULL;
    enum sp_status st = SP_OK;

    *out = NULL;
    if (!sp_dry_is_on(s) || s->n_dry_breakers == 0) return SP_OK;
    if (s->n_dry_breakers > MAX_BREAKERS) {
        return sp_fail(err, SP_E_USAGE, "%zu DRY sequence breakers, at most %d are supported",
                       s->n_dry_breakers, MAX_BREAKERS);
    }
    if (s->dry_tokenizer == NULL)
        return sp_fail(err, SP_E_USAGE, "DRY sequence breakers require a tokenizer");
    if ((st = sp_new(&b, 1, sizeof *b, err))) return st;
    for (size_t i = 0; i < s->n_dry_breakers && !st; i++)
        st = add_breaker(b, s->dry_tokenizer, n_vocab, s->dry_breakers[i], err);
    if (st) {
        sp_dry_breakers_close(b);
        return st;
    }
    if (b->n) qsort(b->sequences, b->n, sizeof *b->sequences, compare_sequences);
    *out = b;
    return SP_OK;
}

void sp_dry_breakers_close(struct sp_dry_breakers *b)
{
    if (b == NULL) return;
    free(b->sequences);
    free(b->tails);
    free(b);
}

/* Returns the index of the first sequence whose head is not below `head`. */
static size_t find_head(const struct sp_dry_breakers *b, uint32_t head)
{
    size_t low = 0, high = b ? b->n : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->sequences[middle].head < head)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds the longest sequence that begins at recent[at] and goes on towards recent[0]; *n = the
 * tokens after its head. */
static bool find_breaker(const struct sp_dry_breakers *b, const uint32_t *recent, size_t at,
                         size_t *n)
{
    bool found = false;

    *n = 0;
    for (size_t i = find_head(b, recent[at]); b && i < b->n; i++) {
        const struct sequence *q = &b->sequences[i];
        size_t same = 0;
        if (q->head != recent[at]) break;
        if (q->n > at) continue;
        while (same < q->n && b->tails[q->at + same] == recent[at - 1 - same])
            same++;
        if (same < q->n) continue;
        found = true;
        *n = same > *n ? same : *n;
    }
    return found;
}

static bool is_breaker(const struct sp_dry_breakers *b, uint32_t id)
{
    for (size_t i = find_head(b, id); b && i < b->n && b->sequences[i].head == id; i++)
        if (b->sequences[i].n == 0) return true;
    return false;
}

/* ---- penalties ---- */

void sp_dry_scratch_release(struct sp_dry_scratch *scratch)
{
    free(scratch->recent);
    free(scratch->matches);
    free(scratch->longest);
    *scratch = (struct sp_dry_scratch){0};
}

bool sp_dry_is_on(const struct sp_sampling *s)
{
    return s->dry_multiplier > 0 && s->dry_penalty_last_n != 0;
}

static enum sp_status reserve(struct sp_dry_scratch *d, size_t n, size_t n_vocab,
                              struct sp_err *err)
{
    size_t had = d->cap_longest;
    enum sp_status st;

    if ((st = sp_grow(&d->recent, &d->cap_recent, n, sizeof *d->recent, err))) return st;
    if ((st = sp_grow(&d->matches, &d->cap_matches, n, sizeof *d->matches, err))) return st;
    if ((st = sp_grow(&d->longest, &d->cap_longest, n_vocab, sizeof *d->longest, err))) return st;
    if (d->cap_longest > had)
        memset(d->longest + had, 0, (d->cap_longest - had) * sizeof *d->longest);
    return SP_OK;
}

/* The Z-algorithm (Gusfield 1997, section 1.4): matches[i] = the number of equal tokens of recent
 * and recent + i, for i > 0. */
static void find_matches(uint32_t *matches, const uint32_t *recent, size_t n)
{
    size_t left = 0, right = 0; /* recent[left .. right - 1] equals the beginning */

    for (size_t i = 1; i < n; i++) {
        size_t len = i < right ? matches[i - left] : 0;
        if (i + len >= right) {
            len = i < right ? right - i : 0;
            while (i + len < n && recent[len] == recent[i + len])
                len++;
            left = i;
            right = i + len;
        }
        matches[i] = (uint32_t)len;
    }
}

static float penalty(const struct sp_sampling *s, size_t n_repeated)
{
    double penalty = (double)s->dry_multiplier;

    for (size_t i = (size_t)s->dry_allowed_length; i < n_repeated && penalty < max_penalty; i++)
        penalty *= (double)s->dry_base;
    return (float)(penalty < max_penalty ? penalty : max_penalty);
}

enum sp_status sp_dry_penalize(struct sp_dry_scratch *d, float *logits, size_t n_vocab,
                               const struct sp_sampling *s, const struct sp_history *h,
                               struct sp_err *err)
{
    size_t n = h->n_older + h->n_newer, limit, n_tail, allowed = (size_t)s->dry_allowed_length;
    enum sp_status st;

    if (s->dry_penalty_last_n > 0 && n > (size_t)s->dry_penalty_last_n)
        n = (size_t)s->dry_penalty_last_n;
    if (!sp_dry_is_on(s) || n <= allowed) return SP_OK;
    if ((st = reserve(d, n, n_vocab, err))) return st;
    for (size_t i = 0; i < n; i++)
        d->recent[i] = sp_history_at(h, i);
    limit = n; /* tokens after the last breaker */
    for (size_t i = 0; i < limit; i++)
        if (find_breaker(h->breakers, d->recent, i, &n_tail)) limit = i - n_tail;
    if (limit < allowed) return SP_OK;
    find_matches(d->matches, d->recent, n);
    for (size_t i = 1; i < n; i++) {
        uint32_t id = d->recent[i - 1];
        size_t len = d->matches[i] < limit ? d->matches[i] : limit;
        if (len >= allowed && id < n_vocab && len + 1 > d->longest[id])
            d->longest[id] = (uint32_t)len + 1;
    }
    for (size_t i = 1; i < n; i++) {
        uint32_t id = d->recent[i - 1];
        if (id >= n_vocab || d->longest[id] == 0) continue;
        if (!is_breaker(h->breakers, id)) logits[id] -= penalty(s, d->longest[id] - 1);
        d->longest[id] = 0;
    }
    return SP_OK;
}
