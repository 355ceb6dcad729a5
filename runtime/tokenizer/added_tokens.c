/* The search finds the leftmost added token, and the longest of those that begin at one place.
 * Then its flags apply: a token that must stand alone is skipped inside a word, and whitespace
 * around a token may become part of it. */
#include "runtime/tokenizer/tokenizer_parts.h"

#include "format/base/unicode.h"

#include <string.h>

/* The edges of a node as a range, which is empty if the file is damaged. */
static void edges_of(const struct sp_tokmap_tree *tree, size_t node, size_t *begin, size_t *end)
{
    *begin = sp_get32(tree->first + 4 * node);
    *end = sp_get32(tree->first + 4 * node + 4);
    if (*begin > *end || *end >= tree->n_nodes) *begin = *end = 0;
}

void sp_added_init(struct sp_added *added, const struct sp_tokmap *map,
                   const struct sp_tokmap_tree *tree)
{
    size_t begin, end;

    memset(added, 0, sizeof *added);
    added->map = map;
    added->tree = tree;
    if (tree->n_nodes == 0) return;
    edges_of(tree, 0, &begin, &end);
    for (size_t e = begin; e < end; e++)
        added->first[tree->edges[e]] = (uint32_t)e + 1;
}

/* The child of a node for `byte`, 0 for none. */
static size_t step(const struct sp_tokmap_tree *tree, size_t node, uint8_t byte)
{
    size_t low, high;

    edges_of(tree, node, &low, &high);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (tree->edges[middle] == byte) return middle + 1;
        if (tree->edges[middle] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* The longest token that begins at `pos`: returns its id and sets its end. */
static uint32_t longest_at(const struct sp_added_walk *walk, size_t pos, size_t *end)
{
    const struct sp_tokmap_tree *tree = walk->added->tree;
    size_t node = walk->added->first[(uint8_t)walk->text[pos]];
    size_t limit = walk->len - pos < SP_TREE_MAX_DEPTH ? walk->len : pos + SP_TREE_MAX_DEPTH;
    uint32_t found = SP_ID_NONE;

    while (node) {
        uint32_t id = sp_get32(tree->ids + 4 * node);
        pos++;
        if (id && id <= walk->added->map->n_ids) {
            found = id - 1;
            *end = pos;
        }
        if (pos == limit) break;
        node = step(tree, node, (uint8_t)walk->text[pos]);
    }
    return found;
}

static bool is_boundary(const struct sp_added_walk *walk, size_t pos)
{
    return pos == walk->len || ((uint8_t)walk->text[pos] & 0xC0) != 0x80;
}

static bool find(struct sp_added_walk *walk, size_t *begin, size_t *end, uint32_t *id)
{
    const uint32_t *first = walk->added->first;

    if (walk->added->tree->n_nodes == 0) return false;
    while (walk->pos < walk->len) {
        size_t at = walk->pos;
        while (at < walk->len && !first[(uint8_t)walk->text[at]])
            at++;
        if (at == walk->len) break;
        *id = longest_at(walk, at, end);
        walk->pos = *id == SP_ID_NONE ? at + 1 : *end;
        *begin = at;
        /* Matches inside a character are ignored: a damaged tree may have parts of characters. */
        if (*id != SP_ID_NONE && is_boundary(walk, at) && is_boundary(walk, *end)) return true;
    }
    walk->pos = walk->len;
    return false;
}

static bool inside_word(const struct sp_added_walk *walk, size_t begin, size_t end)
{
    if (begin > 0) {
        size_t before = sp_utf8_prev(walk->text, begin);
        if (sp_char_is_word(sp_utf8_next(walk->text, walk->len, &before))) return true;
    }
    return end < walk->len && sp_char_is_word(sp_utf8_next(walk->text, walk->len, &end));
}

/* Extends a match to the left over whitespace, but not into spans that have been returned. */
static size_t strip_left(const struct sp_added_walk *walk, size_t begin)
{
    while (begin > walk->returned) {
        size_t before = sp_utf8_prev(walk->text, begin), at = before;
        if (!sp_char_is_space(sp_utf8_next(walk->text, walk->len, &at))) break;
        begin = before;
    }
    return begin > walk->returned ? begin : walk->returned;
}

/* Extends a match to the right over whitespace. The last run is remembered: otherwise tokens that
 * are whitespace themselves would scan it again and again. */
static size_t strip_right(struct sp_added_walk *walk, size_t end)
{
    if (end >= walk->space_begin && end < walk->space_end) return walk->space_end;
    walk->space_begin = end;
    while (end < walk->len) {
        size_t at = end;
        if (!sp_char_is_space(sp_utf8_next(walk->text, walk->len, &at))) break;
        end = at;
    }
    walk->space_end = end;
    return end;
}

/* Applies the token's flags to a match; false: the match is ignored. */
static bool accept(struct sp_added_walk *walk, uint32_t id, size_t *begin, size_t *end)
{
    uint8_t flags = walk->added->map->token_flags[id];

    if (flags & SP_TOKEN_SPECIAL && !walk->parse_special) return false;
    if (flags & SP_TOKEN_SINGLE_WORD && inside_word(walk, *begin, *end)) return false;
    if (flags & SP_TOKEN_LSTRIP) *begin = strip_left(walk, *begin);
    if (flags & SP_TOKEN_RSTRIP) *end = strip_right(walk, *end);
    return true;
}

/* The search continues at the end of a match before its extension, so a whitespace token may be
 * found inside the whitespace that extended the token before it. The text after it is then
 * returned a second time, as the reference implementation does. */
bool sp_added_next(struct sp_added_walk *walk, size_t *begin, size_t *end, uint32_t *id)
{
    size_t plain = walk->returned;

    if (walk->next_id) {
        *id = walk->next_id - 1;
        *begin = walk->returned;
        *end = walk->returned = walk->waiting_end;
        walk->next_id = 0;
        return true;
    }
    while (find(walk, begin, end, id)) {
        if (!accept(walk, *id, begin, end)) continue;
        if (*begin >= *end) { /* the token before it has taken the whole match */
            plain = walk->returned = *end;
            continue;
        }
        if (*begin <= plain) {
            walk->returned = *end;
            return true;
        }
        walk->next_id = *id + 1;
        walk->waiting_end = *end;
        *end = walk->returned = *begin;
        *begin = plain;
        *id = SP_ID_NONE;
        return true;
    }
    if (plain >= walk->len) return false;
    *begin = plain;
    *end = walk->returned = walk->len;
    *id = SP_ID_NONE;
    return true;
}
