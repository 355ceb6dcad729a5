#include "format/base/mem.h"
#include "runtime/grammar/grammar.h"

/* A node ends if a text leads from it to the end of its rule. Nodes that end are found from their
 * successors; `waiting` are those whose predecessors must still be looked at. An edge is
 * 3 * (its node) + 0 for `next`, 1 for the other node of EITHER, 2 for a called rule's start. */
struct prune {
    struct sp_grammar *g;
    bool *ends;        /* [n_nodes] */
    uint32_t *first;   /* [n_nodes] an edge to the node + 1; 0: none */
    uint32_t *more;    /* [3 * n_nodes] the next edge to the same node + 1 */
    uint32_t *waiting; /* [n_nodes], the first n_waiting are used */
    size_t n_waiting;
};

static void add_edge(struct prune *p, size_t node, unsigned which, uint32_t to)
{
    size_t edge = 3 * node + which;

    p->more[edge] = p->first[to];
    p->first[to] = (uint32_t)edge + 1;
}

static void add_edges(struct prune *p)
{
    const struct sp_grammar *g = p->g;

    for (size_t i = SP_GRAMMAR_NEVER + 1; i < g->n_nodes; i++) {
        const struct sp_node *node = &g->nodes[i];
        add_edge(p, i, 0, node->next);
        if (node->kind == SP_NODE_EITHER) add_edge(p, i, 1, node->operand);
        if (node->kind == SP_NODE_CALL) add_edge(p, i, 2, g->rules[node->operand].start);
    }
}

static bool has_bytes(const struct sp_byte_set *set)
{
    return (set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]) != 0;
}

static bool ends(const struct prune *p, uint32_t i)
{
    const struct sp_node *node = &p->g->nodes[i];

    switch (node->kind) {
    case SP_NODE_EITHER:
        return p->ends[node->next] || p->ends[node->operand];
    case SP_NODE_CALL:
        return p->ends[node->next] && (node->min == 0 || p->ends[p->g->rules[node->operand].start]);
    case SP_NODE_BYTES:
        return p->ends[node->next] && has_bytes(&p->g->sets[node->operand]);
    default:
        return true;
    }
}

static void find_ends(struct prune *p)
{
    p->ends[SP_GRAMMAR_END] = true;
    p->waiting[p->n_waiting++] = SP_GRAMMAR_END;
    while (p->n_waiting > 0) {
        uint32_t at = p->waiting[--p->n_waiting];
        for (uint32_t edge = p->first[at]; edge; edge = p->more[edge - 1]) {
            uint32_t node = (edge - 1) / 3;
            if (p->ends[node] || !ends(p, node)) continue;
            p->ends[node] = true;
            p->waiting[p->n_waiting++] = node;
        }
    }
}

static uint32_t kept(const struct prune *p, uint32_t node)
{
    return p->ends[node] ? node : SP_GRAMMAR_NEVER;
}

/* A call that may be left out of a rule without a text is always left out. */
static void remove_endless(struct prune *p)
{
    struct sp_grammar *g = p->g;

    for (size_t i = SP_GRAMMAR_NEVER + 1; i < g->n_nodes; i++) {
        struct sp_node *node = &g->nodes[i];
        bool endless = node->kind == SP_NODE_CALL && !p->ends[g->rules[node->operand].start];
        node->next = kept(p, node->next);
        if (node->kind == SP_NODE_EITHER) node->operand = kept(p, node->operand);
        if (endless) *node = (struct sp_node){SP_NODE_EITHER, node->next, SP_GRAMMAR_NEVER, 0, 0};
    }
    for (size_t i = 0; i < g->n_rules; i++)
        g->rules[i].start = kept(p, g->rules[i].start);
}

enum sp_status sp_grammar_prune(struct sp_grammar *g, uint32_t *root, const char **endless,
                                struct sp_err *err)
{
    struct sp_arena arena = {0};
    struct prune p = {
        .g = g,
        .ends = sp_arena_new(&arena, g->n_nodes, sizeof *p.ends),
        .first = sp_arena_new(&arena, g->n_nodes, sizeof *p.first),
        .more = sp_arena_new(&arena, 3 * g->n_nodes, sizeof *p.more),
        .waiting = sp_arena_new(&arena, g->n_nodes, sizeof *p.waiting),
    };
    enum sp_status st = sp_arena_check(&arena, err);

    if (st) goto done;
    add_edges(&p);
    find_ends(&p);
    remove_endless(&p);
    *root = kept(&p, *root);
    *endless = NULL;
    for (size_t i = 0; i < g->n_rules && *root == SP_GRAMMAR_NEVER && *endless == NULL; i++)
        if (g->rules[i].start == SP_GRAMMAR_NEVER) *endless = g->rules[i].name;
done:
    sp_arena_release(&arena);
    return st;
}
