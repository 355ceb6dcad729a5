#include "runtime/grammar/constraint.h"
#include "format/base/mem.h"
#include "format/base/unicode_case.h"
#include "runtime/grammar/token_masks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- optional whitespace, predicted from the answer's own style ---- */

enum { MOST_DEPTH = 32 }; /* levels of brackets that are distinguished */

/* The last place before text[end - 1] with the same byte, outside strings and inside the same
 * number of brackets; SIZE_MAX: none. */
static size_t find_same_context(const char *text, size_t end)
{
    size_t at[MOST_DEPTH], depth = 0, last = end - 1;
    bool quoted = false;

    for (size_t i = 0; i < MOST_DEPTH; i++)
        at[i] = SIZE_MAX;
    for (size_t i = 0; i <= last; i++) {
        char c = text[i];
        if (quoted && c == '\\') i++;
        if (c == '"') quoted = !quoted;
        if (quoted) continue;
        if (strchr("{[", c) && c && depth + 1 < MOST_DEPTH) depth++;
        if (strchr("}]", c) && c && depth > 0) depth--;
        if (i == last) return at[depth];
        if (c == text[last]) at[depth] = i;
    }
    return SIZE_MAX;
}

/* Sets *next to the byte that probably follows text[0 .. len-1]; it need not be whitespace.
 * Returns false if the text has no earlier place to predict it from. */
static bool whitespace_style_next(char *next, const char *text, size_t len)
{
    size_t n = 0, at;

    while (n < len && sp_is_whitespace(text[len - 1 - n]))
        n++;
    if (n == len) return false;
    at = find_same_context(text, len - n);
    if (at == SIZE_MAX || memcmp(text + at + 1, text + len - n, n) != 0) return false;
    *next = text[at + 1 + n];
    return true;
}

/* The most work of one mask; jump-forward may take an eighth of it. */
enum { MOST_WORK = 1 << 23, JUMP_DIVISOR = 8 };

struct sp_constraint {
    struct sp_constraint_options options;
    struct sp_grammar_matcher *matcher;
    struct sp_token_masks *masks;
    uint32_t *ends; /* [n_ends] */
    /* The answer as of the last call: states[i] is the matcher state after the first i tokens. */
    uint32_t *ids, *states;
    size_t n_ids, cap_ids, cap_states;
    float *row; /* [n_vocab] masked logits */
};

enum sp_status sp_constraint_open(struct sp_constraint **out,
                                  const struct sp_constraint_options *options, struct sp_err *err)
{
    struct sp_constraint *c = NULL;
    enum sp_status st;

    if ((st = sp_new(&c, 1, sizeof *c, err))) goto done;
    c->options = *options;
    if ((st = sp_grammar_matcher_open(&c->matcher, options->grammar, err))) goto done;
    if ((st = sp_new(&c->ends, options->n_ends, sizeof *c->ends, err))) goto done;
    if ((st = sp_new_aligned(&c->row, options->n_vocab + 16, sizeof *c->row, err))) goto done;
    if ((st = sp_grow(&c->states, &c->cap_states, 1, sizeof *c->states, err))) goto done;
    if (c->options.work == 0) c->options.work = MOST_WORK;
    if (options->memory) sp_grammar_matcher_bound(c->matcher, options->memory);
    if (options->n_ends) memcpy(c->ends, options->ends, options->n_ends * sizeof *c->ends);
    c->options.ends = c->ends;
    if ((st = sp_token_masks_open(&c->masks, &c->options, c->matcher, err))) goto done;
    c->states[0] = SP_STATE_START;
    *out = c;
    c = NULL;
done:
    sp_constraint_close(c);
    return st;
}

void sp_constraint_close(struct sp_constraint *c)
{
    if (c == NULL) return;
    sp_token_masks_close(c->masks);
    sp_grammar_matcher_close(c->matcher);
    free(c->ends);
    free(c->ids);
    free(c->states);
    free(c->row);
    free(c);
}

/* ---- state of the answer ---- */

/* The first token of an answer may lose its leading space when it is decoded. */
static bool drops_space(const struct sp_constraint *c, size_t n_tokens)
{
    return n_tokens == 0 && c->options.trie->drops_space;
}

/* Finds the index of a token among the grammar's own tokens; false: it is none of them. */
static bool find_own_token(const struct sp_constraint *c, size_t *number, uint32_t id)
{
    const struct sp_grammar *g = c->options.grammar;

    for (*number = 0; *number < g->n_tokens; ++*number)
        if (g->tokens[*number] == id) return true;
    return false;
}

/* Advances *state by a token, the answer's (n_tokens + 1)th. */
static enum sp_status read_token(struct sp_constraint *c, uint32_t *state, size_t n_tokens,
                                 uint32_t id, struct sp_err *err)
{
    const struct sp_token_trie *t = c->options.trie;
    const char *text;
    size_t len, number;

    if (find_own_token(c, &number, id))
        return sp_grammar_matcher_read_token(c->matcher, state, number, err);
    if (id >= t->n_ids || t->at[id] == t->at[id + 1]) {
        *state = SP_STATE_DEAD;
        return SP_OK;
    }
    text = t->bytes + t->at[id];
    len = t->at[id + 1] - t->at[id];
    if (memchr(text, SP_GRAMMAR_TOKEN, len))
        *state = SP_STATE_DEAD; /* this byte begins the encoding of the grammar's own tokens */
    if (drops_space(c, n_tokens) && text[0] == ' ') {
        if (len == 1 || text[1] == ' ') *state = SP_STATE_DEAD;
        text++;
        len--;
    }
    return sp_grammar_matcher_read(c->matcher, state, text, len, err);
}

static enum sp_status append(struct sp_constraint *c, uint32_t id, struct sp_err *err)
{
    uint32_t state = c->states[c->n_ids];
    enum sp_status st;

    if ((st = sp_grow(&c->ids, &c->cap_ids, c->n_ids + 1, sizeof *c->ids, err))) return st;
    if ((st = sp_grow(&c->states, &c->cap_states, c->n_ids + 2, sizeof *c->states, err))) return st;
    if ((st = read_token(c, &state, c->n_ids, id, err))) return st;
    c->ids[c->n_ids++] = id;
    c->states[c->n_ids] = state;
    return SP_OK;
}

/* Sets *state to the state after ids[start..pos-1]. A shorter position keeps the longer answer,
 * since the next call often returns to it. */
static enum sp_status find_state(struct sp_constraint *c, uint32_t *state, const uint32_t *ids,
                                 size_t pos, struct sp_err *err)
{
    size_t n = pos - c->options.start, same = 0;
    enum sp_status st;

    if (sp_grammar_matcher_is_full(c->matcher)) {
        c->n_ids = 0;
        sp_token_masks_forget(c->masks);
        if ((st = sp_grammar_matcher_forget(c->matcher, err))) return st;
    }
    ids += c->options.start;
    while (same < n && same < c->n_ids && c->ids[same] == ids[same])
        same++;
    if (same < n) c->n_ids = same;
    while (c->n_ids < n)
        if ((st = append(c, ids[c->n_ids], err))) return st;
    *state = c->states[n];
    return SP_OK;
}

enum sp_status sp_constraint_mask(struct sp_constraint *c, struct sp_token_mask *mask,
                                  const uint32_t *ids, size_t pos, struct sp_err *err)
{
    const struct sp_token_mask *m;
    uint32_t state;
    enum sp_status st;

    if ((st = find_state(c, &state, ids, pos, err))) return st;
    *mask = (struct sp_token_mask){.only = SP_TOKEN_NONE};
    if (state == SP_STATE_DEAD) return SP_OK;
    st = sp_token_masks_find(c->masks, &m, state, drops_space(c, pos - c->options.start), err);
    if (st == SP_OK) *mask = *m;
    return st;
}

/* ---- looking ahead ---- */

/* Removes whitespace from a set and returns how many bytes were removed. */
static size_t remove_whitespace(struct sp_byte_set *bytes)
{
    size_t n = 0;

    for (unsigned byte = 0; byte < 64; byte++) {
        if (!sp_is_whitespace((char)byte) || !sp_byte_set_has(bytes, (uint8_t)byte)) continue;
        bytes->bits[0] &= ~((uint64_t)1 << byte);
        n++;
    }
    return n;
}

static char first_of(const struct sp_byte_set *bytes)
{
    unsigned byte = 0;

    while (byte < 255 && !sp_byte_set_has(bytes, (uint8_t)byte))
        byte++;
    return (char)byte;
}

/* Sets *next to the byte after text[0 .. len-1]; *sure is false where several bytes may follow. */
static enum sp_status look_ahead(struct sp_constraint *c, bool *sure, char *next, uint32_t state,
                                 const char *text, size_t len, struct sp_err *err)
{
    enum { FEW = 32 }; /* more than this many bytes may only follow inside a string */
    struct sp_byte_set bytes;
    size_t n, n_whitespace;
    enum sp_status st;

    *sure = false;
    if (sp_grammar_matcher_may_end(c->matcher, state)) return SP_OK;
    if ((st = sp_grammar_matcher_bytes(c->matcher, state, &bytes, &n, FEW, err)) || n > FEW)
        return st;
    *next = first_of(&bytes);
    *sure = n == 1;
    if (*sure) return SP_OK;
    n_whitespace = remove_whitespace(&bytes);
    if (n_whitespace == 0 || !whitespace_style_next(next, text, len)) return SP_OK;
    *sure = sp_is_whitespace(*next) || n == n_whitespace + 1;
    if (!sp_is_whitespace(*next)) *next = first_of(&bytes);
    return SP_OK;
}

enum sp_status sp_constraint_jump_forward(struct sp_constraint *c, char *text, size_t from,
                                          size_t cap, size_t *len, const uint32_t *ids, size_t pos,
                                          struct sp_err *err)
{
    uint32_t state;
    bool sure = true;
    enum sp_status st;

    *len = from;
    if ((st = find_state(c, &state, ids, pos, err))) return st;
    sp_grammar_matcher_begin_probe(c->matcher);
    while (*len < cap && state != SP_STATE_DEAD &&
           sp_grammar_matcher_work(c->matcher) < c->options.work / JUMP_DIVISOR) {
        if ((st = look_ahead(c, &sure, &text[*len], state, text, *len, err))) return st;
        if (!sure) return SP_OK;
        if ((st = sp_grammar_matcher_step(c->matcher, &state, (uint8_t)text[*len], err))) return st;
        if (state != SP_STATE_DEAD) ++*len;
    }
    return SP_OK;
}

size_t sp_constraint_start(const struct sp_constraint *c)
{
    return c->options.start;
}

const char *sp_constraint_spelling(const struct sp_constraint *c, uint32_t id, size_t *len)
{
    const struct sp_token_trie *t = c->options.trie;

    *len = id < t->n_ids ? t->at[id + 1] - t->at[id] : 0;
    return *len ? t->bytes + t->at[id] : "";
}

uint32_t sp_constraint_token(const struct sp_constraint *c, size_t number)
{
    return c->options.grammar->tokens[number];
}

/* ---- choosing ---- */

/* Tests a single token without a mask: reading one token is cheaper than making a mask. */
static enum sp_status find_possible(struct sp_constraint *c, bool *possible, uint32_t state,
                                    size_t n_tokens, uint32_t id, struct sp_err *err)
{
    enum sp_status st;

    *possible = false;
    if (state == SP_STATE_DEAD) return SP_OK;
    if (sp_ids_have(c->ends, c->options.n_ends, id)) {
        *possible = sp_grammar_matcher_may_end(c->matcher, state);
        return SP_OK;
    }
    st = read_token(c, &state, n_tokens, id, err);
    *possible = state != SP_STATE_DEAD;
    return st;
}

/* Replaces *logits by a copy without the excluded tokens; *n = the number of allowed tokens, or 1
 * if the largest logit is allowed and no mask was needed. */
static enum sp_status mask_logits(struct sp_constraint *c, struct sp_logits *logits, size_t *n,
                                  uint32_t state, size_t n_tokens, struct sp_err *err)
{
    const struct sp_token_mask *m;
    const float *row;
    bool possible = false;
    enum sp_status st;

    *n = 1;
    if (logits->best == SIZE_MAX) return SP_OK;
    if (c->options.takes_best &&
        (st = find_possible(c, &possible, state, n_tokens, (uint32_t)logits->best, err)))
        return st;
    if (possible) return SP_OK;
    if ((st = sp_token_masks_find(c->masks, &m, state, drops_space(c, n_tokens), err))) return st;
    *n = 0;
    row = sp_logits_row(logits);
    for (size_t i = 0; i < logits->n; i++) {
        bool left = (m->bits[i / 64] >> i % 64 & 1) != 0;
        c->row[i] = left ? row[i] : SP_NEVER;
        *n += left;
    }
    *logits = sp_logits_of(c->options.vector, c->row, logits->n);
    return SP_OK;
}

/* Masks *logits for position `pos`, after ids[start..pos-1]. *n = 0: no token is allowed.
 * *refused: the grammar does not allow the text before `pos`. */
static enum sp_status mask_logits_at(struct sp_constraint *c, struct sp_logits *logits, size_t *n,
                                     bool *refused, const uint32_t *ids, size_t pos,
                                     struct sp_err *err)
{
    uint32_t state;
    enum sp_status st;

    *n = 0;
    if ((st = find_state(c, &state, ids, pos, err))) return st;
    *refused = state == SP_STATE_DEAD;
    if (*refused) return SP_OK;
    return mask_logits(c, logits, n, state, pos - c->options.start, err);
}

/* Proposes from unmasked logits, with confidence 0, after a draft token that the grammar does not
 * allow, after an end token, and where the states of draft tokens take too much memory. */
static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    struct sp_constraint *c = state;
    const struct sp_chooser *inner = &c->options.inner;
    struct sp_logits left = *logits;
    bool refused;
    size_t n;
    enum sp_status st = mask_logits_at(c, &left, &n, &refused, ids, pos, NULL);

    if (st && st != SP_E_INPUT) return sp_fail(err, st, "out of memory: draft tokens of a grammar");
    if (st) n = 0;
    st = inner->propose(inner->state, id, confidence, n ? &left : logits, ids, pos, err);
    if (n == 0 && confidence) *confidence = 0;
    return st;
}

static enum sp_status adopt(void *state, bool *possible, const uint32_t *ids, size_t pos,
                            struct sp_err *err)
{
    struct sp_constraint *c = state;
    const struct sp_chooser *inner = &c->options.inner;
    uint32_t at;
    enum sp_status st = find_state(c, &at, ids, pos, NULL);

    if (st == SP_OK) st = find_possible(c, possible, at, pos - c->options.start, ids[pos], NULL);
    if (st && st != SP_E_INPUT) return sp_fail(err, st, "out of memory: draft tokens of a grammar");
    if (st) *possible = false;
    if (!*possible || inner->adopt == NULL) return SP_OK;
    return inner->adopt(inner->state, possible, ids, pos, err);
}

/* If states take too much memory, the mask is computed a second time: find_state then drops the
 * states of earlier calls, so the outcome depends on the answer alone. Too much work is final. */
static enum sp_status choose(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err)
{
    struct sp_constraint *c = state;
    const struct sp_chooser *inner = &c->options.inner;
    struct sp_logits left = *logits;
    bool refused;
    size_t n;
    enum sp_status st;

    sp_grammar_matcher_begin_probe(c->matcher);
    if (mask_logits_at(c, &left, &n, &refused, ids, pos, NULL) &&
        ((st = sp_token_masks_check_work(c->masks, err)) ||
         (st = mask_logits_at(c, &left, &n, &refused, ids, pos, err))))
        return st;
    if (refused) {
        return sp_fail(err, SP_E_BUG, "position %zu is after the end of what the grammar allows",
                       pos);
    }
    if (n == 0) {
        return sp_fail(
            err, SP_E_INPUT, "no token of the vocabulary fits the grammar at position %zu%s", pos,
            sp_grammar_matcher_was_ambiguous(c->matcher) ? ", where it is too ambiguous" : "");
    }
    return inner->choose(inner->state, id, &left, ids, pos, draft_token, err);
}

struct sp_chooser sp_constraint_chooser(struct sp_constraint *c)
{
    return (struct sp_chooser){
        .propose = propose,
        .adopt = adopt,
        .choose = choose,
        .needs = c->options.takes_best ? c->options.inner.needs : SP_LOGITS_ROWS,
        .state = c,
    };
}
