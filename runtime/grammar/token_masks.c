#include "runtime/grammar/token_masks.h"

#include "format/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Number of cached masks: each takes 19 KB for 150 000 tokens. */
enum { N_MASKS = 256 };

struct kept {
    uint64_t *bits;            /* owned */
    struct sp_token_mask mask; /* refers to `bits` */
    uint32_t state;            /* state of the mask */
};

struct sp_token_masks {
    const struct sp_constraint_options *options; /* borrowed, like the matcher */
    struct sp_grammar_matcher *matcher;
    struct kept kept[N_MASKS];
    size_t n_kept, oldest;
    uint32_t *mask_of; /* [n_mask_of] by state: index of its mask + 1; 0: none; owned */
    size_t n_mask_of, cap_mask_of;
    uint32_t *path; /* [UINT16_MAX + 1] states along the path to a trie node; owned */
};

enum sp_status sp_token_masks_open(struct sp_token_masks **out,
                                   const struct sp_constraint_options *options,
                                   struct sp_grammar_matcher *matcher, struct sp_err *err)
{
    struct sp_token_masks *k = NULL;
    enum sp_status st;

    if ((st = sp_new(&k, 1, sizeof *k, err)) ||
        (st = sp_new(&k->path, UINT16_MAX + 1, sizeof *k->path, err))) {
        sp_token_masks_close(k);
        return st;
    }
    k->options = options;
    k->matcher = matcher;
    *out = k;
    return SP_OK;
}

void sp_token_masks_close(struct sp_token_masks *k)
{
    if (k == NULL) return;
    for (size_t i = 0; i < k->n_kept; i++)
        free(k->kept[i].bits);
    free(k->mask_of);
    free(k->path);
    free(k);
}

void sp_token_masks_forget(struct sp_token_masks *k)
{
    k->oldest = 0;
    k->n_mask_of = 0;
    for (size_t i = 0; i < k->n_kept; i++)
        k->kept[i].state = SP_STATE_DEAD;
}

static void allow(struct kept *m, uint32_t id)
{
    uint64_t bit = (uint64_t)1 << id % 64;

    m->mask.n += (m->bits[id / 64] & bit) == 0;
    m->bits[id / 64] |= bit;
    m->mask.only = id;
}

enum sp_status sp_token_masks_check_work(const struct sp_token_masks *k, struct sp_err *err)
{
    if (sp_grammar_matcher_work(k->matcher) <= k->options->work) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "the grammar is too ambiguous: checking all tokens takes more than "
                   "%" PRIu64 " steps",
                   k->options->work);
}

/* Allows all tokens that a walk from the mask's state reaches. */
static enum sp_status walk(struct sp_token_masks *k, struct kept *m, bool drop, struct sp_err *err)
{
    const struct sp_token_trie *t = k->options->trie;
    enum sp_status st;

    k->path[0] = m->state;
    sp_grammar_matcher_begin_probe(k->matcher);
    for (size_t i = 0; i < t->n_nodes;) {
        const struct sp_trie_node *node = &t->nodes[i];
        uint32_t state = k->path[node->depth];
        bool dropped = drop && node->byte == ' ' && node->depth == 0;
        if (drop && node->byte == ' ' && node->depth == 1 && t->nodes[i - 1].byte == ' ')
            state = SP_STATE_DEAD;
        if (node->byte == SP_GRAMMAR_TOKEN) state = SP_STATE_DEAD;
        if (!dropped && state != SP_STATE_DEAD &&
            ((st = sp_grammar_matcher_step(k->matcher, &state, node->byte, err)) ||
             (st = sp_token_masks_check_work(k, err))))
            return st;
        if (state == SP_STATE_DEAD) {
            i = node->after;
            continue;
        }
        for (uint32_t id = dropped ? SP_TOKEN_NONE : node->token; id != SP_TOKEN_NONE;
             id = t->same[id])
            if (id < k->options->n_vocab) allow(m, id);
        k->path[node->depth + 1] = state;
        i++;
    }
    return SP_OK;
}

/* Allows the grammar's own tokens where they may follow. */
static enum sp_status add_own_tokens(struct sp_token_masks *k, struct kept *m, struct sp_err *err)
{
    const struct sp_grammar *g = k->options->grammar;
    enum sp_status st;

    for (size_t number = 0; number < g->n_tokens; number++) {
        uint32_t state = m->state;
        if ((st = sp_grammar_matcher_read_token(k->matcher, &state, number, err))) return st;
        if (state != SP_STATE_DEAD && g->tokens[number] < k->options->n_vocab)
            allow(m, g->tokens[number]);
    }
    return SP_OK;
}

/* Returns an empty mask: a new one, or the oldest. */
static enum sp_status take_mask(struct sp_token_masks *k, struct kept **out, struct sp_err *err)
{
    size_t n_words = (k->options->n_vocab + 63) / 64;
    enum sp_status st;

    *out = &k->kept[k->oldest];
    if (k->oldest == k->n_kept) {
        if ((st = sp_new(&(*out)->bits, n_words, sizeof *(*out)->bits, err))) return st;
        k->n_kept++;
    } else if ((*out)->state < k->n_mask_of) {
        k->mask_of[(*out)->state] = 0;
    }
    k->oldest = (k->oldest + 1) % N_MASKS;
    memset((*out)->bits, 0, n_words * sizeof *(*out)->bits);
    return SP_OK;
}

static enum sp_status make_mask(struct sp_token_masks *k, struct kept **out, uint32_t state,
                                bool drop, struct sp_err *err)
{
    struct kept *m;
    enum sp_status st;

    if ((st = take_mask(k, out, err))) return st;
    m = *out;
    m->state = state;
    m->mask = (struct sp_token_mask){.bits = m->bits, .only = SP_TOKEN_NONE};
    for (size_t i = 0; i < k->options->n_ends && sp_grammar_matcher_may_end(k->matcher, state); i++)
        if (k->options->ends[i] < k->options->n_vocab) allow(m, k->options->ends[i]);
    if ((st = walk(k, m, drop, err))) return st;
    return add_own_tokens(k, m, err);
}

enum sp_status sp_token_masks_find(struct sp_token_masks *k, const struct sp_token_mask **out,
                                   uint32_t state, bool drop, struct sp_err *err)
{
    struct kept *made;
    enum sp_status st;

    if (!drop && state < k->n_mask_of && k->mask_of[state]) {
        *out = &k->kept[k->mask_of[state] - 1].mask;
        return SP_OK;
    }
    if ((st = make_mask(k, &made, state, drop, err))) return st;
    if ((st = sp_grow(&k->mask_of, &k->cap_mask_of, (size_t)state + 1, sizeof *k->mask_of, err)))
        return st;
    while (k->n_mask_of <= state)
        k->mask_of[k->n_mask_of++] = 0;
    if (!drop) k->mask_of[state] = (uint32_t)(made - k->kept) + 1;
    *out = &made->mask;
    return SP_OK;
}
