/* Matching vocabularies: an entry that the tokenizer of either side can produce has one id on both.
 */
#include "convert/create/vocab_match.h"

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct sp_shown_token sp_vocab_show(const struct sp_vocab *v, uint32_t id)
{
    const struct sp_vocab_token *t = id < v->n_ids ? &v->tokens[id] : NULL;

    if (t == NULL || t->text == NULL) return (struct sp_shown_token){0, ""};
    return (struct sp_shown_token){t->len < 64 ? (int)t->len : 64, t->text};
}

static const struct sp_vocab_token *token_of(const struct sp_vocab *v, size_t id)
{
    return id < v->n_ids && v->tokens[id].text ? &v->tokens[id] : NULL;
}

static bool equal_tokens(const struct sp_vocab_token *a, const struct sp_vocab_token *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static bool is_one_character(const struct sp_vocab_token *t)
{
    size_t n = 0;

    for (uint32_t i = 0; i < t->len; i++)
        n += ((uint8_t)t->text[i] & 0xc0) != 0x80;
    return n <= 1 || t->len == 1;
}

/* movable[id]: an added token, or an entry that is not a character, a byte, the unknown token or
 * the result of a merge. Without merges, or if whole words are looked up, every entry of the model
 * can be produced. */
static enum sp_status find_movable(bool **out, const struct sp_vocab *v, struct sp_err *err)
{
    bool all_used = v->n_merges == 0 || v->ignore_merges;
    enum sp_status st;

    if ((st = sp_new(out, v->n_ids, sizeof **out, err))) return st;
    for (size_t id = 0; id < v->n_ids; id++) {
        const struct sp_vocab_token *t = token_of(v, id);
        bool byte = t && v->byte_fallback && t->len == 6 && memcmp(t->text, "<0x", 3) == 0;

        (*out)[id] = t && ((t->flags & SP_TOKEN_ADDED) != 0 ||
                           (!all_used && !byte && id != v->unk && !is_one_character(t)));
    }
    for (size_t i = 0; i < v->n_merges; i++) {
        uint32_t id = v->merges[i].merged;
        if ((v->tokens[id].flags & SP_TOKEN_ADDED) == 0) (*out)[id] = false;
    }
    return SP_OK;
}

/* The draft's id of a token of the target, or SP_ID_NONE. */
static uint32_t find_text(const struct sp_vocab *draft, const struct sp_vocab_token *t)
{
    for (size_t i = 0; i < draft->n_added; i++)
        if (equal_tokens(&draft->tokens[draft->added[i]], t)) return draft->added[i];
    return sp_vocab_find(draft, t->text, t->len);
}

static enum sp_status refuse(const struct sp_vocab *target, const struct sp_vocab *draft,
                             uint32_t id, struct sp_err *err)
{
    struct sp_shown_token a = sp_vocab_show(draft, id), b = sp_vocab_show(target, id);

    return sp_fail(err, SP_E_INPUT,
                   "draft tokenizer differs from target at id %u (\"%.*s\" vs \"%.*s\")", id, a.len,
                   a.text, b.len, b.text);
}

/* The rows that no token has been matched with go to the ids that have none, in order. */
static void fill(uint32_t *rows, const bool *taken, size_t n)
{
    size_t next = 0;

    for (size_t id = 0; id < n; id++) {
        if (rows[id] != SP_ID_NONE) continue;
        while (taken[next])
            next++;
        rows[id] = (uint32_t)next++;
    }
}

/* Matches every token of the target at whose id the draft has another one, or none. */
static void match_moved(struct sp_vocab_order *out, bool *taken, const struct sp_vocab *target,
                        const struct sp_vocab *draft)
{
    for (size_t id = 0; id < out->n; id++) {
        const struct sp_vocab_token *a = token_of(target, id), *b = token_of(draft, id);
        uint32_t row;
        if (a && b && equal_tokens(a, b)) {
            out->rows[id] = (uint32_t)id;
            taken[id] = true;
        }
        if (a == NULL || (b && equal_tokens(a, b))) continue;
        row = find_text(draft, a);
        if (row == SP_ID_NONE || row >= out->n || taken[row] ||
            (row < target->n_ids && token_of(target, row) &&
             equal_tokens(token_of(target, row), &draft->tokens[row]))) {
            out->n_unknown += b != NULL;
            continue;
        }
        out->rows[id] = row;
        taken[row] = true;
        out->n_matched++;
    }
}

/* An id without a match keeps its own row if that is free. */
static void keep_places(struct sp_vocab_order *out, bool *taken)
{
    for (size_t id = 0; id < out->n; id++) {
        if (out->rows[id] != SP_ID_NONE || taken[id]) continue;
        out->rows[id] = (uint32_t)id;
        taken[id] = true;
    }
}

enum sp_status sp_vocab_match(struct sp_vocab_order *out, const struct sp_vocab *target,
                              const struct sp_vocab *draft, size_t n_rows, struct sp_err *err)
{
    size_t n = target->n_ids < draft->n_ids ? target->n_ids : draft->n_ids;
    struct sp_vocab_order order = {.n = n_rows};
    bool *of_target = NULL, *of_draft = NULL, *taken = NULL;
    enum sp_status st;

    *out = (struct sp_vocab_order){.n = n_rows};
    if ((st = find_movable(&of_target, target, err)) || (st = find_movable(&of_draft, draft, err)))
        goto done;
    for (uint32_t id = 0; id < n; id++) {
        const struct sp_vocab_token *a = token_of(target, id), *b = token_of(draft, id);
        if ((a && b && equal_tokens(a, b)) || (a == NULL && b == NULL)) continue;
        if ((a == NULL || of_target[id]) && (b == NULL || of_draft[id])) continue;
        st = refuse(target, draft, id, err);
        goto done;
    }
    if ((st = sp_new(&order.rows, n_rows, sizeof *order.rows, err)) ||
        (st = sp_new(&taken, n_rows, sizeof *taken, err)))
        goto done;
    for (size_t id = 0; id < n_rows; id++)
        order.rows[id] = SP_ID_NONE;
    match_moved(&order, taken, target, draft);
    keep_places(&order, taken);
    fill(order.rows, taken, n_rows);
    *out = order;
    order.rows = NULL;
    if (out->n_matched == 0) {
        free(out->rows);
        out->rows = NULL;
    }
done:
    free(of_target);
    free(of_draft);
    free(taken);
    free(order.rows);
    return st;
}
