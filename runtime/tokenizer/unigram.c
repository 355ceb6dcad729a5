#include "runtime/tokenizer/tokenizer_parts.h"

#include "format/base/unicode.h"

#include <stdlib.h>

/* The best way to cut the text before a position, and the last token of it. */
struct sp_unigram_node {
    double score;
    size_t begin; /* where the last token begins; NOT_REACHED: no token ends here */
    uint32_t id;
};

#define NOT_REACHED SIZE_MAX

void sp_unigram_release(struct sp_unigram *unigram)
{
    free(unigram->nodes);
    *unigram = (struct sp_unigram){0};
}

/* Among equal sums the first wins, which has the longest last token. */
static void offer(struct sp_unigram_node *node, double score, size_t begin, uint32_t id)
{
    if (node->begin != NOT_REACHED && !(score > node->score)) return;
    *node = (struct sp_unigram_node){score, begin, id};
}

static void search(struct sp_unigram_node *nodes, const struct sp_tokmap *map, const char *piece,
                   size_t len)
{
    size_t longest = map->numbers[SP_TOKMAP_LONGEST];
    double unknown = sp_get_double(map->scores + 8 * (size_t)map->n_ids);
    size_t next;

    if (longest > SP_UNIGRAM_MAX) longest = SP_UNIGRAM_MAX;
    nodes[0] = (struct sp_unigram_node){0, 0, 0};
    for (size_t i = 1; i <= len; i++)
        nodes[i].begin = NOT_REACHED;
    for (size_t begin = 0; begin < len; begin = next) {
        double before = nodes[begin].score;
        bool single = false;
        next = begin;
        (void)sp_utf8_next(piece, len, &next);
        for (size_t end = next; end - begin <= longest;) {
            uint32_t id = sp_token_find(map, piece + begin, end - begin);
            if (id != SP_ID_NONE) {
                offer(&nodes[end], before + sp_get_double(map->scores + 8 * (size_t)id), begin, id);
                single |= end == next;
            }
            if (end == len) break;
            (void)sp_utf8_next(piece, len, &end);
        }
        if (!single) offer(&nodes[next], before + unknown, begin, map->numbers[SP_TOKMAP_UNK]);
    }
}

/* Appends a run of unknown characters, last byte first, as one token. */
static enum sp_status append_unknown(const struct sp_tokmap *map, const char *text, size_t len,
                                     struct sp_id_list *ids, struct sp_err *err)
{
    uint32_t id = sp_token_find(map, text, len);
    bool all = (map->flags & SP_TOKMAP_BYTE_FALLBACK) != 0;
    enum sp_status st = SP_OK;

    for (size_t i = 0; id == SP_ID_NONE && all && i < len; i++)
        all = sp_get32(map->byte_ids + 4 * (size_t)(uint8_t)text[i]) < map->n_ids;
    if (id != SP_ID_NONE || !all)
        return sp_id_list_append(ids, id != SP_ID_NONE ? id : map->numbers[SP_TOKMAP_UNK], err);
    for (size_t i = len; i-- > 0 && !st;)
        st = sp_id_list_append(ids, sp_get32(map->byte_ids + 4 * (size_t)(uint8_t)text[i]), err);
    return st;
}

enum sp_status sp_unigram_encode(struct sp_unigram *unigram, const struct sp_tokmap *map,
                                 const char *piece, size_t len, struct sp_id_list *ids,
                                 struct sp_err *err)
{
    size_t first = ids->n, begin, unknown_end = 0;
    uint32_t unk = map->numbers[SP_TOKMAP_UNK];
    enum sp_status st;

    st = sp_grow(&unigram->nodes, &unigram->cap, len + 1, sizeof *unigram->nodes, err);
    if (st) return st;
    search(unigram->nodes, map, piece, len);
    for (size_t end = len; end > 0; end = begin) {
        const struct sp_unigram_node *node = &unigram->nodes[end];
        begin = node->begin;
        if (node->id == unk) {
            if (unknown_end == 0) unknown_end = end;
            bool whole = begin == 0 || unigram->nodes[begin].id != unk;
            if (!whole) continue;
            st = append_unknown(map, piece + begin, unknown_end - begin, ids, err);
            unknown_end = 0;
        } else {
            st = sp_id_list_append(ids, node->id, err);
        }
        if (st) return st;
    }
    for (size_t i = first, k = ids->n; i + 1 < k; i++) {
        uint32_t id = ids->at[i];
        ids->at[i] = ids->at[--k];
        ids->at[k] = id;
    }
    return SP_OK;
}
