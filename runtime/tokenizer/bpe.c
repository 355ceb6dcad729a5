/* Byte pair encoding and WordPiece, and the cache of the ids of short pieces, which Unigram shares.
 *
 * Byte pair encoding has three algorithms, by the length of a piece. A short piece keeps its
 * symbols in an array and searches it linearly for the best pair. A long piece keeps its symbols in
 * a linked list and its pairs in a heap, so that a word of n bytes takes n log n steps.
 *
 * In vocabularies of characters a piece is often a whole document. Where no merge can join the two
 * characters at a place, the text can be cut there without changing the result, so the document
 * falls into words again (SP_TOKMAP_CUT). */
#include "runtime/tokenizer/tokenizer_parts.h"

#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SHORT = 40, /* most symbols of a short piece */
    CACHED_TEXT = 26,
    CACHED_IDS = 8,
    MIN_CACHED = 64,
    MAX_CACHED = 8192, /* half a megabyte, which fits in a second-level cache */
};

/* A cached piece and its ids; 64 bytes. */
struct cached {
    uint32_t hash;
    uint8_t len; /* 0: free */
    uint8_t n_ids;
    char text[CACHED_TEXT];
    uint32_t ids[CACHED_IDS];
};

struct symbol {
    uint32_t id;
    uint32_t rank; /* rank of the merge with the next symbol, or SP_ID_NONE */
    uint32_t prev, next;
};

struct sp_bpe {
    const struct sp_tokmap *map;
    uint32_t ascii[128];   /* ids of characters */
    struct cached *cached; /* [n_cached], a power of two */
    size_t n_cached;
    struct sp_id_list symbols; /* of the current piece, before merging */
    struct symbol *list;
    size_t list_cap;
    uint64_t *heap; /* rank << 32 | position of the left symbol */
    size_t heap_n, heap_cap;
    struct sp_unigram unigram;
};

enum sp_status sp_bpe_open(struct sp_bpe **out, const struct sp_tokmap *map, size_t text_size,
                           struct sp_err *err)
{
    struct sp_bpe *bpe = NULL;
    enum sp_status st;

    if ((st = sp_new(&bpe, 1, sizeof *bpe, err))) return st;
    bpe->map = map;
    bpe->n_cached = MIN_CACHED;
    while (bpe->n_cached < text_size / 16 && bpe->n_cached < MAX_CACHED)
        bpe->n_cached *= 2;
    if ((st = sp_new(&bpe->cached, bpe->n_cached, sizeof *bpe->cached, err))) goto done;
    if (!(map->flags & SP_TOKMAP_BYTES))
        for (unsigned c = 0; c < 128; c++)
            bpe->ascii[c] = sp_token_find(map, &(char){(char)c}, 1);
    *out = bpe;
    bpe = NULL;
done:
    sp_bpe_close(bpe);
    return st;
}

void sp_bpe_close(struct sp_bpe *bpe)
{
    if (bpe == NULL) return;
    free(bpe->cached);
    free(bpe->symbols.at);
    free(bpe->list);
    free(bpe->heap);
    sp_unigram_release(&bpe->unigram);
    free(bpe);
}

/* ---- symbols ---- */

static uint32_t byte_id(const struct sp_tokmap *map, uint8_t byte)
{
    uint32_t id = sp_get32(map->byte_ids + 4 * (size_t)byte);

    return id < map->n_ids ? id : SP_ID_NONE;
}

/* Appends the tokens of all bytes of a character, or nothing if one of them is missing. */
static enum sp_status append_bytes(struct sp_bpe *bpe, const char *text, size_t len, bool *done,
                                   struct sp_err *err)
{
    enum sp_status st;

    *done = false;
    for (size_t i = 0; i < len; i++)
        if (byte_id(bpe->map, (uint8_t)text[i]) == SP_ID_NONE) return SP_OK;
    *done = true;
    for (size_t i = 0; i < len; i++)
        if ((st = sp_id_list_append(&bpe->symbols, byte_id(bpe->map, (uint8_t)text[i]), err)))
            return st;
    return SP_OK;
}

/* Splits a piece into its first symbols: one id per character, or per byte in a byte-level model.
 * As in the reference implementation, byte tokens are not placed before an unknown token that is
 * waiting to be fused. */
static enum sp_status split_symbols(struct sp_bpe *bpe, const char *piece, size_t len,
                                    struct sp_err *err)
{
    const struct sp_tokmap *map = bpe->map;
    bool bytes = (map->flags & SP_TOKMAP_BYTES) != 0, unknown = false, done;
    uint32_t unk = map->numbers[SP_TOKMAP_UNK];
    enum sp_status st;

    bpe->symbols.n = 0;
    for (size_t i = 0, begin = 0; i < len; begin = i) {
        uint32_t c = bytes ? (uint8_t)piece[i++] : sp_utf8_next(piece, len, &i);
        uint32_t id = bytes     ? byte_id(map, (uint8_t)c)
                      : c < 128 ? bpe->ascii[c]
                                : sp_token_find(map, piece + begin, i - begin);
        if (id != SP_ID_NONE) {
            if (unknown && (st = sp_id_list_append(&bpe->symbols, unk, err))) return st;
            unknown = false;
            if ((st = sp_id_list_append(&bpe->symbols, id, err))) return st;
            continue;
        }
        if (map->flags & SP_TOKMAP_BYTE_FALLBACK) {
            if ((st = append_bytes(bpe, piece + begin, i - begin, &done, err))) return st;
            if (done) continue;
        }
        if (unk == SP_ID_NONE) continue;
        if (unknown && !(map->flags & SP_TOKMAP_FUSE_UNK) &&
            (st = sp_id_list_append(&bpe->symbols, unk, err)))
            return st;
        unknown = true;
    }
    return unknown ? sp_id_list_append(&bpe->symbols, unk, err) : SP_OK;
}

/* ---- merging ---- */

/* The id that a merge creates; SP_ID_NONE for a rank of a damaged file. */
static uint32_t merged_id(const struct sp_tokmap *map, uint32_t rank)
{
    uint32_t id = sp_get32(map->merged + 4 * (size_t)rank);

    return id < map->n_ids ? id : SP_ID_NONE;
}

static void merge_few(const struct sp_tokmap *map, uint32_t *ids, size_t *n_ids)
{
    uint32_t ranks[MAX_SHORT]; /* rank of the pair that begins at a symbol */
    size_t n = *n_ids;

    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = sp_tokmap_rank(map, ids[i], ids[i + 1]);
    for (;;) {
        uint32_t best = SP_ID_NONE;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            if (ranks[i] < best) {
                best = ranks[i];
                at = i;
            }
        }
        if (best == SP_ID_NONE) break;
        uint32_t id = merged_id(map, best);
        if (id == SP_ID_NONE) {
            ranks[at] = SP_ID_NONE;
            continue;
        }
        ids[at] = id;
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
        if (at + 1 < n) {
            memmove(ranks + at + 1, ranks + at + 2, (n - at - 2) * sizeof *ranks);
            ranks[at] = sp_tokmap_rank(map, id, ids[at + 1]);
        }
        if (at > 0) ranks[at - 1] = sp_tokmap_rank(map, ids[at - 1], id);
    }
    *n_ids = n;
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t moving = heap[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (moving <= heap[child]) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

/* Pushes a pair. There is space: a merge removes one pair and adds at most two, see merge_many. */
static void push(struct sp_bpe *bpe, uint32_t rank, size_t at)
{
    uint64_t key = (uint64_t)rank << 32 | at;
    size_t i = bpe->heap_n++;

    for (; i > 0 && bpe->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        bpe->heap[i] = bpe->heap[(i - 1) / 2];
    bpe->heap[i] = key;
}

static uint64_t pop(struct sp_bpe *bpe)
{
    uint64_t top = bpe->heap[0];

    bpe->heap[0] = bpe->heap[--bpe->heap_n];
    if (bpe->heap_n) sift_down(bpe->heap, bpe->heap_n, 0);
    return top;
}

/* Sets the rank of the pair that begins at symbol i and queues it. */
static void update(struct sp_bpe *bpe, uint32_t i)
{
    struct symbol *s = &bpe->list[i];

    s->rank = SP_ID_NONE;
    if (s->next == SP_ID_NONE) return;
    s->rank = sp_tokmap_rank(bpe->map, s->id, bpe->list[s->next].id);
    if (s->rank != SP_ID_NONE) push(bpe, s->rank, i);
}

static void merge_at(struct sp_bpe *bpe, uint32_t i, uint32_t id)
{
    struct symbol *s = &bpe->list[i];

    s->id = id;
    bpe->list[s->next].rank = SP_ID_NONE; /* removed: its entries in the heap are stale */
    s->next = bpe->list[s->next].next;
    if (s->next != SP_ID_NONE) bpe->list[s->next].prev = i;
    update(bpe, i);
    if (s->prev != SP_ID_NONE) update(bpe, s->prev);
}

/* Merges a long piece. Each of the at most n - 1 merges pops one entry and pushes at most two, so
 * a heap of 2 n entries suffices. */
static enum sp_status merge_many(struct sp_bpe *bpe, uint32_t *ids, size_t *n_ids,
                                 struct sp_err *err)
{
    size_t n = *n_ids, out = 0, capacity;
    enum sp_status st;

    if (n >= SP_ID_NONE || !sp_mul(&capacity, n, 2))
        return sp_fail(err, SP_E_UNSUPPORTED, "a word of %zu characters is not supported", n);
    if ((st = sp_grow(&bpe->list, &bpe->list_cap, n, sizeof *bpe->list, err))) return st;
    if ((st = sp_grow(&bpe->heap, &bpe->heap_cap, capacity, sizeof *bpe->heap, err))) return st;
    bpe->heap_n = 0;
    for (size_t i = 0; i < n; i++) {
        bpe->list[i] = (struct symbol){
            .id = ids[i],
            .rank = i + 1 < n ? sp_tokmap_rank(bpe->map, ids[i], ids[i + 1]) : SP_ID_NONE,
            .prev = i > 0 ? (uint32_t)i - 1 : SP_ID_NONE,
            .next = i + 1 < n ? (uint32_t)i + 1 : SP_ID_NONE,
        };
        if (bpe->list[i].rank == SP_ID_NONE) continue;
        bpe->heap[bpe->heap_n++] = (uint64_t)bpe->list[i].rank << 32 | i;
    }
    for (size_t i = bpe->heap_n / 2; i-- > 0;)
        sift_down(bpe->heap, bpe->heap_n, i);
    while (bpe->heap_n) {
        uint64_t top = pop(bpe);
        uint32_t at = (uint32_t)top, rank = (uint32_t)(top >> 32);
        if (bpe->list[at].rank != rank) continue; /* the pair has changed since it was pushed */
        uint32_t id = merged_id(bpe->map, rank);
        if (id != SP_ID_NONE) merge_at(bpe, at, id);
    }
    for (uint32_t i = 0; i != SP_ID_NONE; i = bpe->list[i].next)
        ids[out++] = bpe->list[i].id;
    *n_ids = out;
    return SP_OK;
}

static enum sp_status merge_word(struct sp_bpe *bpe, const char *word, size_t len,
                                 struct sp_id_list *ids, struct sp_err *err)
{
    struct sp_id_list *symbols = &bpe->symbols;
    enum sp_status st;

    if ((st = split_symbols(bpe, word, len, err))) return st;
    if (symbols->n > MAX_SHORT) {
        if ((st = merge_many(bpe, symbols->at, &symbols->n, err))) return st;
    } else if (symbols->n > 1) {
        merge_few(bpe->map, symbols->at, &symbols->n);
    }
    if (symbols->n == 0) return SP_OK;
    if ((st = sp_grow(&ids->at, &ids->cap, ids->n + symbols->n, sizeof *ids->at, err))) return st;
    memcpy(ids->at + ids->n, symbols->at, symbols->n * sizeof *ids->at);
    ids->n += symbols->n;
    return SP_OK;
}

/* ---- WordPiece ---- */

/* The end of the longest token of the word that begins at `begin`; *id is that token. Returns
 * `begin` if there is none. */
static size_t find_longest(const struct sp_tokmap *map, const char *word, size_t len, size_t begin,
                           uint32_t *id)
{
    char text[sizeof SP_WORDPIECE_PREFIX + 4 * SP_WORDPIECE_MAX] = SP_WORDPIECE_PREFIX;
    size_t n_prefix = begin ? strlen(SP_WORDPIECE_PREFIX) : 0;

    memcpy(text + n_prefix, word + begin, len - begin);
    for (size_t end = len; end > begin; end--) {
        if (end < len && ((uint8_t)word[end] & 0xC0) == 0x80) continue; /* inside a character */
        *id = sp_token_find(map, text, n_prefix + end - begin);
        if (*id != SP_ID_NONE) return end;
    }
    return begin;
}

/* Cuts a word into the longest tokens; it is unknown as a whole if it is too long, or if a part of
 * it is not in the vocabulary. */
static enum sp_status cut_word(struct sp_bpe *bpe, const char *word, size_t len,
                               struct sp_id_list *ids, struct sp_err *err)
{
    size_t n_chars = 0, before = ids->n, end;
    uint32_t id, unk = bpe->map->numbers[SP_TOKMAP_UNK];
    enum sp_status st;

    for (size_t i = 0; i < len; i++)
        n_chars += ((uint8_t)word[i] & 0xC0) != 0x80;
    for (size_t begin = 0; begin < len; begin = end) {
        end = n_chars > SP_WORDPIECE_MAX ? begin : find_longest(bpe->map, word, len, begin, &id);
        if (end == begin) {
            ids->n = before;
            return unk == SP_ID_NONE ? SP_OK : sp_id_list_append(ids, unk, err);
        }
        if ((st = sp_id_list_append(ids, id, err))) return st;
    }
    return SP_OK;
}

/* ---- pieces ---- */

static void remember(struct cached *cached, uint32_t hash, const char *word, size_t len,
                     const uint32_t *ids, size_t n)
{
    if (n > CACHED_IDS) return;
    cached->hash = hash;
    cached->len = (uint8_t)len;
    cached->n_ids = (uint8_t)n;
    memcpy(cached->text, word, len);
    if (n) memcpy(cached->ids, ids, n * sizeof *ids);
}

static enum sp_status encode_word(struct sp_bpe *bpe, const char *word, size_t len, bool whole,
                                  struct sp_id_list *ids, struct sp_err *err)
{
    uint64_t hash = sp_word_hash(word, len);
    struct cached *cached = len <= CACHED_TEXT ? &bpe->cached[hash & (bpe->n_cached - 1)] : NULL;
    size_t before = ids->n;
    uint32_t id = SP_ID_NONE;
    enum sp_status st;

    if (cached != NULL && cached->len == len && cached->hash == (uint32_t)(hash >> 32) &&
        memcmp(cached->text, word, len) == 0) {
        st = sp_grow(&ids->at, &ids->cap, ids->n + CACHED_IDS, sizeof *ids->at, err);
        if (st) return st;
        memcpy(ids->at + ids->n, cached->ids, sizeof cached->ids);
        ids->n += cached->n_ids;
        return SP_OK;
    }
    if (whole && bpe->map->flags & SP_TOKMAP_IGNORE_MERGES)
        id = sp_tokmap_find(bpe->map, word, len, hash);
    if (id != SP_ID_NONE)
        st = sp_id_list_append(ids, id, err);
    else if (bpe->map->flags & SP_TOKMAP_UNIGRAM)
        st = sp_unigram_encode(&bpe->unigram, bpe->map, word, len, ids, err);
    else if (bpe->map->flags & SP_TOKMAP_WORDPIECE)
        st = cut_word(bpe, word, len, ids, err);
    else
        st = merge_word(bpe, word, len, ids, err);
    if (st == SP_OK && cached != NULL)
        remember(cached, (uint32_t)(hash >> 32), word, len, ids->at + before, ids->n - before);
    return st;
}

/* The end of the span that begins at `begin` and contains no place where the text can be cut. */
static size_t find_cut(const struct sp_tokmap *map, const char *piece, size_t len, size_t begin)
{
    for (size_t i = begin + 1; i < len; i++) {
        uint8_t next = (uint8_t)piece[i];
        if ((next & 0xC0) == 0x80) continue; /* inside a character */
        if (!sp_tokmap_joins(map, (uint8_t)piece[i - 1], next)) return i;
    }
    return len;
}

enum sp_status sp_bpe_encode(struct sp_bpe *bpe, const char *piece, size_t len,
                             struct sp_id_list *ids, struct sp_err *err)
{
    uint32_t flags = bpe->map->flags;
    bool cut = flags & SP_TOKMAP_CUT && !(flags & (SP_TOKMAP_BYTES | SP_TOKMAP_IGNORE_MERGES));
    enum sp_status st = SP_OK;

    if (!cut) return encode_word(bpe, piece, len, true, ids, err);
    for (size_t begin = 0, end; begin < len && st == SP_OK; begin = end) {
        end = find_cut(bpe->map, piece, len, begin);
        st = encode_word(bpe, piece + begin, end - begin, false, ids, err);
    }
    return st;
}
