/* The grammar of tags and of texts up to a tag. A tag matches as in chat_tag.h, with any
 * whitespace, but a special token in it is a token here. */
#include "runtime/chat/chat_grammar_parts.h"

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A tag, item by item: bytes, whitespace and words of any length. A special token covers the items
 * of its bytes. */
struct item {
    enum { ITEM_BYTE, ITEM_WHITESPACE, ITEM_WORD } kind;
    char byte;
    bool is_token, in_token; /* the first byte of a special token, and its other bytes */
    uint32_t id;             /* of the token */
};

struct tag {
    struct item at[SP_TAG_SIZE];
    size_t n;
};

/* Returns the index of the first special token in ids[from .. n-1] with its text; n: none. */
static size_t next_special(const struct sp_tokenizer *tokenizer, struct sp_token_info *token,
                           const uint32_t *ids, size_t from, size_t n)
{
    while (from < n && !(sp_tokenizer_token(tokenizer, ids[from], token) && token->special))
        from++;
    return from;
}

static void read_tag(struct sp_chat_grammar_builder *b, struct tag *t, const char *text)
{
    const struct sp_tokenizer *tokenizer = b->options->tokenizer;
    size_t size = strlen(text), n_ids = 0, next, left = 0; /* left: bytes of a token */
    struct sp_token_info token = {0};
    uint32_t *ids = NULL;

    t->n = 0;
    if (tokenizer && sp_tokenizer_encode(tokenizer, text, size, SP_ENCODE_PARSE_SPECIAL, &ids,
                                         &n_ids, &b->g->err))
        return;
    next = next_special(tokenizer, &token, ids, 0, n_ids);
    for (size_t i = 0; i < size;) {
        struct item *item = &t->at[t->n++];
        *item = (struct item){.kind = ITEM_BYTE, .byte = text[i], .in_token = left > 0};
        if (left == 0 && next < n_ids && token.len <= size - i &&
            memcmp(text + i, token.bytes, token.len) == 0) {
            item->is_token = true;
            item->id = ids[next];
            left = token.len;
            next = next_special(tokenizer, &token, ids, next + 1, n_ids);
        }
        if (left > 0) {
            left--;
            i++;
        } else if (sp_is_whitespace(text[i])) {
            item->kind = ITEM_WHITESPACE;
            i += sp_whitespace_run(text + i, size - i);
        } else if (text[i++] == SP_TAG_ANY) {
            item->kind = ITEM_WORD;
        }
    }
    free(ids);
}

/* The items from `first` on. */
static uint32_t items(struct sp_chat_grammar_builder *b, const struct tag *t, size_t first,
                      uint32_t next)
{
    for (size_t i = t->n; i-- > first;) {
        const struct item *item = &t->at[i];
        if (item->kind == ITEM_WHITESPACE)
            next = sp_chat_grammar_whitespace(b, next);
        else if (item->kind == ITEM_WORD)
            next = sp_grammar_call(b->g, b->word, 0, 1, next);
        else if (item->is_token)
            next = sp_ids_have(b->options->ends, b->options->n_ends, item->id)
                       ? SP_GRAMMAR_END
                       : sp_grammar_token(b->g, item->id, next);
        else if (!item->in_token)
            next = sp_grammar_text(b->g, &item->byte, 1, next);
    }
    return next;
}

uint32_t sp_chat_grammar_whitespace(struct sp_chat_grammar_builder *b, uint32_t next)
{
    return sp_grammar_call(b->g, b->json.whitespace, 0, 2, next);
}

uint32_t sp_chat_grammar_tag(struct sp_chat_grammar_builder *b, const char *tag, uint32_t next)
{
    struct tag t;

    read_tag(b, &t, tag);
    return items(b, &t, 0, next);
}

uint32_t sp_chat_grammar_close_tag(struct sp_chat_grammar_builder *b, const char *tag,
                                   uint32_t next)
{
    return *tag ? sp_chat_grammar_whitespace(b, sp_chat_grammar_tag(b, tag, next)) : next;
}

/* ---- a text up to a tag ---- */

/* A stop is a tag as text. If the tag has a token, the token is the stop: spelled out it would be
 * parsed as the tag, so no text contains it. */
struct stop {
    struct tag tag;
    size_t token_at; /* item of the first token; tag.n: there is none */
    uint32_t token;  /* node of the token and of what follows */
    uint32_t next;   /* node after the tag; SP_GRAMMAR_NEVER with a token */
};

/* The state of a text: the items of stops that may come next, for every beginning of a stop that
 * matches. One bit for each. */
enum { PLACE_WORDS = (SP_STOP_TAGS * SP_TAG_SIZE + 63) / 64, MOST_PLACES = 1024 };
struct place {
    uint64_t bits[PLACE_WORDS];
    uint32_t fork;
};

struct scan {
    struct sp_chat_grammar_builder *b;
    const struct sp_free_text *free;
    struct stop stops[SP_STOP_TAGS];
    struct place *places; /* [n_places] states, owned; in the first nothing has begun */
    size_t n_places, cap_places;
};

static void read_stop(struct scan *scan, struct stop *stop, const struct sp_stop_tag *from)
{
    const struct tag *t = &stop->tag;

    *stop = (struct stop){.token = SP_GRAMMAR_NEVER, .next = from->next};
    read_tag(scan->b, &stop->tag, from->tag);
    while (stop->token_at < t->n && !t->at[stop->token_at].is_token)
        stop->token_at++;
    if (stop->token_at == t->n) return;
    stop->token = items(scan->b, t, stop->token_at, from->next);
    stop->next = SP_GRAMMAR_NEVER;
}

static bool is_set(const struct place *p, size_t stop, size_t item)
{
    size_t bit = stop * SP_TAG_SIZE + item;

    return (p->bits[bit / 64] >> bit % 64 & 1) != 0;
}

/* Sets an item; an optional item sets the next one, too. */
static void set(const struct scan *scan, struct place *p, size_t stop, size_t item)
{
    const struct tag *t = &scan->stops[stop].tag;

    for (;; item++) {
        size_t bit = stop * SP_TAG_SIZE + item;
        p->bits[bit / 64] |= (uint64_t)1 << bit % 64;
        if (item >= t->n || t->at[item].kind == ITEM_BYTE) return;
    }
}

static bool takes(const struct item *item, char byte)
{
    switch (item->kind) {
    case ITEM_WHITESPACE:
        return sp_is_whitespace(byte);
    case ITEM_WORD:
        return sp_tag_is_any(byte);
    case ITEM_BYTE:
    default:
        return item->byte == byte;
    }
}

/* *to = the state after a byte; true if a stop is complete, with *next the node after it. */
static bool step(const struct scan *scan, struct place *to, uint32_t *next,
                 const struct place *from, char byte)
{
    *to = (struct place){.fork = SP_GRAMMAR_NEVER};
    for (size_t i = 0; i < scan->free->n_stops; i++) {
        const struct tag *t = &scan->stops[i].tag;
        set(scan, to, i, 0);
        for (size_t k = 0; k < t->n; k++) {
            if (!is_set(from, i, k) || !takes(&t->at[k], byte)) continue;
            set(scan, to, i, t->at[k].kind == ITEM_BYTE ? k + 1 : k);
        }
        *next = scan->stops[i].next;
        if (is_set(to, i, t->n)) return true;
    }
    return false;
}

/* Returns the node of a state, a new one if the state is new. */
static uint32_t find_place(struct scan *scan, const struct place *place)
{
    struct sp_grammar *g = scan->b->g;

    for (size_t i = 0; i < scan->n_places; i++) {
        const struct place *p = &scan->places[i];
        if (memcmp(p->bits, place->bits, sizeof p->bits) == 0) return p->fork;
    }
    if (scan->n_places == MOST_PLACES) {
        sp_grammar_fail(g, SP_E_UNSUPPORTED, "the model's tag \"%s\" is too long",
                        scan->free->stops[0].tag);
    }
    if (g->err.status ||
        sp_grow(&scan->places, &scan->cap_places, scan->n_places + 1, sizeof *place, &g->err))
        return SP_GRAMMAR_NEVER;
    scan->places[scan->n_places] = *place;
    scan->places[scan->n_places].fork = sp_grammar_fork(g);
    return scan->places[scan->n_places++].fork;
}

/* Builds the transitions of a state. `whitespace`: the state that whitespace leads to unless
 * others do; `not`: bytes that are not allowed here. */
static uint32_t add_transitions(struct scan *scan, const struct place *from,
                                uint32_t after_whitespace, const char * not )
{
    enum { FIRST_OF_NO_TEXT = 0xF8 };
    struct sp_grammar *g = scan->b->g;
    struct sp_byte_set others = {0};
    uint32_t ways = scan->free->end, none = scan->places[0].fork, next;

    for (unsigned byte = 0; byte < FIRST_OF_NO_TEXT; byte++) {
        char c = (char)byte;
        struct place to;
        if (c && strchr(not, c)) continue;
        if (!step(scan, &to, &next, from, c)) next = find_place(scan, &to);
        if (after_whitespace != SP_GRAMMAR_NEVER && sp_is_whitespace(c)) next = after_whitespace;
        if (next == none)
            others.bits[byte / 64] |= (uint64_t)1 << byte % 64;
        else if (next != SP_GRAMMAR_NEVER)
            ways = sp_grammar_either(g, ways, sp_grammar_text(g, &c, 1, next));
    }
    for (size_t i = 0; i < scan->free->n_stops; i++) {
        const struct stop *s = &scan->stops[i];
        if (s->token_at == s->tag.n || !is_set(from, i, s->token_at)) continue;
        ways = sp_grammar_either(g, ways, s->token);
    }
    return sp_grammar_either(g, ways, sp_grammar_bytes(g, &others, none));
}

uint32_t sp_chat_grammar_free_text(struct sp_chat_grammar_builder *b,
                                   const struct sp_free_text *text)
{
    struct sp_grammar *g = b->g;
    struct scan *scan = NULL;
    struct place first = {.fork = SP_GRAMMAR_NEVER};
    uint32_t start;

    if (sp_new(&scan, 1, sizeof *scan, &g->err)) return SP_GRAMMAR_NEVER;
    scan->b = b;
    scan->free = text;
    for (size_t i = 0; i < text->n_stops; i++) {
        read_stop(scan, &scan->stops[i], &text->stops[i]);
        set(scan, &first, i, 0);
    }
    start = find_place(scan, &first);
    for (size_t i = 0; i < scan->n_places && !g->err.status; i++) {
        const struct place from = scan->places[i]; /* a copy, since the list grows */
        sp_grammar_join(g, from.fork, add_transitions(scan, &from, SP_GRAMMAR_NEVER, ""),
                        SP_GRAMMAR_NEVER);
    }
    if (text->not_first && !g->err.status) {
        start = sp_grammar_fork(g);
        sp_grammar_join(g, start, add_transitions(scan, &first, start, text->not_first),
                        SP_GRAMMAR_NEVER);
    }
    free(scan->places);
    free(scan);
    return start;
}
