#include "runtime/tokenizer/token_trie.h"

#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "format/base/unicode.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- spellings ---- */

struct speller {
    const struct sp_tokenizer *tokenizer;
    struct sp_detokenizer *stream; /* a stream that is past the beginning of a text */
    struct sp_strbuf bytes;
    bool byte_level, byte_fallback;
};

static bool has_step(const struct sp_tokenizer *tok, enum sp_step_kind kind)
{
    for (size_t i = 0; i < tok->decoder.n; i++)
        if (tok->decoder.at[i].step.kind == kind) return true;
    return false;
}

static enum sp_status spell(struct speller *s, uint32_t id, struct sp_err *err)
{
    const struct sp_tokmap *map = &s->tokenizer->map;
    const char *text;
    size_t len;
    int byte;
    enum sp_status st;

    if (!sp_tokmap_token(map, id, &text, &len)) return SP_OK;
    if (map->token_flags[id] & SP_TOKEN_SPECIAL) return SP_OK;
    if (s->byte_level && map->token_flags[id] & SP_TOKEN_BYTES)
        return sp_strbuf_append(&s->bytes, text, len, err);
    if (s->byte_fallback && (byte = sp_fallback_byte(text, len)) >= 0)
        return sp_strbuf_append(&s->bytes, &(char){(char)byte}, 1, err);
    if ((st = sp_detokenizer_feed(s->stream, id, &text, &len, err))) return st;
    return sp_strbuf_append(&s->bytes, text, len, err);
}

/* Feeds one token, so that the stream is past the special treatment of a text's beginning. */
static enum sp_status begin_stream(struct speller *s, uint32_t n_ids, struct sp_err *err)
{
    const struct sp_tokmap *map = &s->tokenizer->map;
    const char *text = NULL;
    size_t len = 0;
    enum sp_status st = SP_OK;

    for (uint32_t id = 0; id < n_ids && len == 0 && !st; id++) {
        if (!sp_tokmap_token(map, id, &text, &len)) continue;
        bool part = map->token_flags[id] & SP_TOKEN_BYTES || sp_fallback_byte(text, len) >= 0;
        len = 0;
        if (!part) st = sp_detokenizer_feed(s->stream, id, &text, &len, err);
    }
    return st;
}

static enum sp_status spell_all(struct sp_token_trie *t, struct speller *s, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_detokenizer_open(&s->stream, s->tokenizer, true, err))) return st;
    if ((st = begin_stream(s, (uint32_t)t->n_ids, err))) return st;
    for (uint32_t id = 0; id < t->n_ids; id++) {
        if ((st = spell(s, id, err))) return st;
        if (s->bytes.len > UINT32_MAX)
            return sp_fail(err, SP_E_UNSUPPORTED, "the tokens have more than 4 GiB of text");
        t->at[id + 1] = (uint32_t)s->bytes.len;
    }
    return SP_OK;
}

/* Finds out whether a text loses the leading space of its first token: all such tokens or none. */
static enum sp_status find_drop(struct sp_token_trie *t, struct speller *s, struct sp_err *err)
{
    const char *text;
    size_t len;
    uint32_t id = 0;
    enum sp_status st;

    while (id < t->n_ids && (t->at[id + 1] - t->at[id] < 2 || t->bytes[t->at[id]] != ' '))
        id++;
    if (id == t->n_ids) return SP_OK;
    if ((st = sp_detokenizer_flush(s->stream, &text, &len, err))) return st;
    if ((st = sp_detokenizer_feed(s->stream, id, &text, &len, err))) return st;
    t->drops_space = len > 0 && len < t->at[id + 1] - t->at[id];
    return SP_OK;
}

/* ---- the tree ---- */

struct spelling {
    const char *bytes;
    size_t len;
    uint32_t id;
};

static int compare_spellings(const void *a, const void *b)
{
    const struct spelling *x = a, *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->bytes, y->bytes, len);

    if (order) return order;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static size_t shared(const struct spelling *a, const struct spelling *b)
{
    size_t n = 0;

    while (n < a->len && n < b->len && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Appends the nodes of the sorted spellings; path[d] is the open node at depth d. */
static enum sp_status grow_tree(struct sp_token_trie *t, const struct spelling *sorted, size_t n,
                                uint32_t *path, struct sp_err *err)
{
    size_t cap = 0, depth = 0;
    enum sp_status st;

    for (size_t i = 0; i < n; i++) {
        size_t keep = i ? shared(&sorted[i - 1], &sorted[i]) : 0;
        while (depth > keep)
            t->nodes[path[--depth]].after = (uint32_t)t->n_nodes;
        if ((st = sp_grow(&t->nodes, &cap, t->n_nodes + sorted[i].len, sizeof *t->nodes, err)))
            return st;
        for (; depth < sorted[i].len; depth++) {
            path[depth] = (uint32_t)t->n_nodes;
            t->nodes[t->n_nodes++] = (struct sp_trie_node){
                .token = SP_TOKEN_NONE,
                .depth = (uint16_t)depth,
                .byte = (uint8_t)sorted[i].bytes[depth],
            };
        }
        t->same[sorted[i].id] = t->nodes[path[depth - 1]].token;
        t->nodes[path[depth - 1]].token = sorted[i].id;
    }
    while (depth > 0)
        t->nodes[path[--depth]].after = (uint32_t)t->n_nodes;
    return SP_OK;
}

static enum sp_status make_tree(struct sp_token_trie *t, struct sp_err *err)
{
    struct spelling *sorted = NULL;
    uint32_t *path = NULL;
    size_t n = 0;
    enum sp_status st;

    if ((st = sp_new(&sorted, t->n_ids, sizeof *sorted, err))) goto done;
    for (uint32_t id = 0; id < t->n_ids; id++) {
        size_t len = t->at[id + 1] - t->at[id];
        t->same[id] = SP_TOKEN_NONE;
        if (len && len <= UINT16_MAX)
            sorted[n++] = (struct spelling){t->bytes + t->at[id], len, id};
    }
    qsort(sorted, n, sizeof *sorted, compare_spellings);
    if ((st = sp_new(&path, UINT16_MAX, sizeof *path, err))) goto done;
    st = grow_tree(t, sorted, n, path, err);
done:
    free(sorted);
    free(path);
    return st;
}

enum sp_status sp_token_trie_open(struct sp_token_trie **out, const struct sp_tokenizer *tokenizer,
                                  struct sp_err *err)
{
    struct speller s = {.tokenizer = tokenizer,
                        .byte_level = has_step(tokenizer, SP_STEP_BYTE_LEVEL),
                        .byte_fallback = has_step(tokenizer, SP_STEP_BYTE_FALLBACK)};
    struct sp_token_trie *t = NULL;
    enum sp_status st;

    if ((st = sp_new(&t, 1, sizeof *t, err))) goto done;
    t->n_ids = sp_tokenizer_n_ids(tokenizer);
    if ((st = sp_new(&t->at, t->n_ids + 1, sizeof *t->at, err))) goto done;
    if ((st = sp_new(&t->same, t->n_ids, sizeof *t->same, err))) goto done;
    if ((st = spell_all(t, &s, err))) goto done;
    t->bytes = s.bytes.at;
    memset(&s.bytes, 0, sizeof s.bytes);
    if ((st = find_drop(t, &s, err)) || (st = make_tree(t, err))) goto done;
    *out = t;
    t = NULL;
done:
    sp_detokenizer_close(s.stream);
    sp_strbuf_release(&s.bytes);
    sp_token_trie_close(t);
    return st;
}

void sp_token_trie_close(struct sp_token_trie *t)
{
    if (t == NULL) return;
    free(t->nodes);
    free(t->same);
    free(t->bytes);
    free(t->at);
    free(t);
}
