#include "format/tokenizer/tokmap_write.h"

#include "format/base/mem.h"
#include "format/tokenizer/rewrite.h"
#include "format/tokenizer/tokmap.h"

struct sought {
    char *text; /* owned */
    size_t len;
    uint32_t id;
    size_t order; /* in the file */
    bool special;
};

/* The added tokens of one kind, with the texts that are sought. */
struct list {
    struct sought *at; /* [n] owned, with the texts */
    size_t n, cap;
};

struct range {
    size_t begin, end; /* entries that agree in the first `depth` bytes */
    size_t depth;
};

/* Among equal texts the special token comes first and wins, then the one that is first in the
 * file. */
static int compare_sought(const void *a, const void *b)
{
    const struct sought *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);

    if (order) return order;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    if (x->special != y->special) return x->special ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Writes the node of one range: its id, and an edge and a new range for each next byte. */
static void write_node(struct range *queue, size_t *n_queued, size_t node, size_t max_nodes,
                       uint8_t *tree, uint8_t *edges, const struct sought *sought)
{
    struct range r = queue[node];
    uint8_t *ids = tree + 4 * (max_nodes + 1);

    sp_put32(tree + 4 * node, (uint32_t)(*n_queued - 1));
    if (r.begin < r.end && sought[r.begin].len == r.depth) {
        sp_put32(ids + 4 * node, sought[r.begin].id + 1);
        while (r.begin < r.end && sought[r.begin].len == r.depth)
            r.begin++;
    }
    while (r.begin < r.end) {
        size_t end = r.begin;
        char byte = sought[r.begin].text[r.depth];
        while (end < r.end && sought[end].text[r.depth] == byte)
            end++;
        edges[*n_queued - 1] = (uint8_t)byte;
        queue[(*n_queued)++] = (struct range){r.begin, end, r.depth + 1};
        r.begin = end;
    }
}

/* Breadth first, so that a node's edges lie together and edge e leads to node e + 1. */
static enum sp_status write_tree(uint8_t **out, size_t *size, const struct list *list,
                                 struct sp_err *err)
{
    struct range *queue = NULL;
    uint8_t *tree = NULL, *edges = NULL, *made = NULL;
    size_t max_nodes = 1, n_queued = 1;
    enum sp_status st;

    for (size_t i = 0; i < list->n; i++)
        max_nodes += list->at[i].len;
    if (max_nodes >= UINT32_MAX / 16) {
        return sp_fail(err, SP_E_UNSUPPORTED, "the added tokens have more than %zu bytes",
                       max_nodes);
    }
    if ((st = sp_new(&queue, max_nodes, sizeof *queue, err))) goto done;
    if ((st = sp_new(&tree, 2 * max_nodes + 1, 4, err))) goto done;
    if ((st = sp_new(&edges, max_nodes, 1, err))) goto done;
    queue[0] = (struct range){0, list->n, 0};
    for (size_t node = 0; node < n_queued; node++)
        write_node(queue, &n_queued, node, max_nodes, tree, edges, list->at);
    /* `tree` was sized for tokens without a common beginning; the block has the nodes there are. */
    if ((st = sp_new(&made, 9 * n_queued + 3, 1, err))) goto done;
    memcpy(made, tree, 4 * n_queued);
    sp_put32(made + 4 * n_queued, (uint32_t)(n_queued - 1));
    memcpy(made + 4 * (n_queued + 1), tree + 4 * (max_nodes + 1), 4 * n_queued);
    memcpy(made + 4 * (2 * n_queued + 1), edges, n_queued - 1);
    *out = made;
    *size = 9 * n_queued + 3;
done:
    free(queue);
    free(tree);
    free(edges);
    return st;
}

static enum sp_status add(struct list *list, const struct sp_vocab *vocab, size_t order,
                          const char *text, size_t len, struct sp_err *err)
{
    uint32_t id = vocab->added[order];
    const struct sp_vocab_token *token = &vocab->tokens[id];
    struct sought sought = {
        .len = len, .id = id, .order = order, .special = (token->flags & SP_TOKEN_SPECIAL) != 0};
    enum sp_status st;

    if (len == 0 || len > SP_TREE_MAX_DEPTH) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "added token \"%s\": its normalized form has %zu bytes, expected 1 to %d",
                       token->text, len, SP_TREE_MAX_DEPTH);
    }
    if ((st = sp_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, err))) return st;
    if ((st = sp_copy_text(&sought.text, text, len, err))) return st;
    list->at[list->n++] = sought;
    return SP_OK;
}

static enum sp_status add_plain(struct list *list, const struct sp_vocab *vocab, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < vocab->n_added && st == SP_OK; i++) {
        const struct sp_vocab_token *token = &vocab->tokens[vocab->added[i]];
        if (token->flags & SP_TOKEN_NORMALIZED) continue;
        st = add(list, vocab, i, token->text, token->len, err);
    }
    return st;
}

static enum sp_status add_normalized(struct list *list, const struct sp_vocab *vocab,
                                     struct sp_err *err)
{
    struct sp_rewrite normalizer[SP_MAX_STEPS];
    struct sp_rewritten space = {{{0}}};
    struct sp_regex_matcher *matcher = NULL;
    size_t n = 0, budget = sp_rewrite_budget(0);
    enum sp_status st;

    if ((st = sp_regex_matcher_open(&matcher, err))) return st;
    for (; n < vocab->normalizer.n; n++) {
        if ((st = sp_rewrite_init(&normalizer[n], &vocab->normalizer.at[n], err))) {
            sp_context(err, "normalizer");
            goto done;
        }
    }
    for (size_t i = 0; i < vocab->n_added; i++) {
        const struct sp_vocab_token *token = &vocab->tokens[vocab->added[i]];
        const char *text = token->text;
        size_t len = token->len;
        if (!(token->flags & SP_TOKEN_NORMALIZED)) continue;
        if ((st =
                 sp_rewrite_all(normalizer, n, matcher, &budget, &space, true, &text, &len, err)) ||
            (st = add(list, vocab, i, text, len, err)))
            goto done;
    }
done:
    while (n > 0)
        sp_rewrite_release(&normalizer[--n]);
    sp_rewritten_release(&space);
    sp_regex_matcher_close(matcher);
    return st;
}

enum sp_status sp_tokmap_make_tree(uint8_t **out, size_t *size, const struct sp_vocab *vocab,
                                   bool normalized, struct sp_err *err)
{
    struct list list = {NULL, 0, 0};
    enum sp_status st;

    st = normalized ? add_normalized(&list, vocab, err) : add_plain(&list, vocab, err);
    if (st) goto done;
    if (list.n == 0) {
        *size = 0;
        st = sp_new(out, 0, 1, err);
        goto done;
    }
    qsort(list.at, list.n, sizeof *list.at, compare_sought);
    st = write_tree(out, size, &list, err);
done:
    for (size_t i = 0; i < list.n; i++)
        free(list.at[i].text);
    free(list.at);
    return st;
}
