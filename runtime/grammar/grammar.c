#include "runtime/grammar/grammar.h"

#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/base/number_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static uint32_t add_node(struct sp_grammar *g, struct sp_node node)
{
    if (g->err.status) return SP_GRAMMAR_NEVER;
    if (g->n_nodes == SP_GRAMMAR_NODES) {
        sp_grammar_fail(g, SP_E_INPUT, "the grammar is too large: more than %d nodes",
                        SP_GRAMMAR_NODES);
        return SP_GRAMMAR_NEVER;
    }
    if (sp_grow(&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof *g->nodes, &g->err))
        return SP_GRAMMAR_NEVER;
    g->nodes[g->n_nodes] = node;
    return (uint32_t)g->n_nodes++;
}

/* The index of a set; equal sets have the same index. */
static uint32_t set_number(struct sp_grammar *g, const struct sp_byte_set *set)
{
    enum { SLOTS = 2 * SP_GRAMMAR_SETS };
    size_t slot = sp_hash64(set, sizeof *set) % SLOTS;

    for (; g->set_index[slot]; slot = (slot + 1) % SLOTS) {
        uint32_t number = g->set_index[slot] - 1;
        if (memcmp(&g->sets[number], set, sizeof *set) == 0) return number;
    }
    if (g->err.status) return 0;
    if (g->n_sets == SP_GRAMMAR_SETS) {
        sp_grammar_fail(g, SP_E_INPUT, "the grammar has more than %d different sets of characters",
                        SP_GRAMMAR_SETS);
        return 0;
    }
    if (sp_grow(&g->sets, &g->cap_sets, g->n_sets + 1, sizeof *g->sets, &g->err)) return 0;
    g->sets[g->n_sets] = *set;
    g->set_index[slot] = (uint32_t)++g->n_sets;
    return g->set_index[slot] - 1;
}

enum sp_status sp_grammar_new(struct sp_grammar **out, struct sp_err *err)
{
    struct sp_grammar *g = NULL;
    enum sp_status st;

    if ((st = sp_new(&g, 1, sizeof *g, err))) goto done;
    if ((st = sp_new(&g->set_index, 2 * SP_GRAMMAR_SETS, sizeof *g->set_index, err))) goto done;
    for (unsigned byte = 0; byte < 256; byte++) {
        struct sp_byte_set set = {0};
        set.bits[byte / 64] = (uint64_t)1 << byte % 64;
        (void)set_number(g, &set);
    }
    (void)add_node(g, (struct sp_node){.kind = SP_NODE_END});
    (void)sp_grammar_bytes(g, &(struct sp_byte_set){0}, SP_GRAMMAR_END);
    if ((st = g->err.status)) {
        sp_fail_as(err, &g->err);
        goto done;
    }
    *out = g;
    g = NULL;
done:
    sp_grammar_close(g);
    return st;
}

void sp_grammar_close(struct sp_grammar *g)
{
    if (g == NULL) return;
    for (size_t i = 0; i < g->n_rules; i++)
        free(g->rules[i].name);
    free(g->rules);
    free(g->nodes);
    free(g->sets);
    free(g->set_index);
    free(g->tokens);
    free(g);
}

void sp_grammar_fail(struct sp_grammar *g, enum sp_status status, const char *format, ...)
{
    char text[SP_ERR_TEXT];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    sp_fail(&g->err, status, "%s", text);
}

uint32_t sp_grammar_rule(struct sp_grammar *g, const char *name, size_t len)
{
    struct sp_grammar_rule rule = {.start = SP_GRAMMAR_NEVER};

    if (g->err.status) return 0;
    if (g->n_rules == SP_GRAMMAR_NODES) {
        sp_grammar_fail(g, SP_E_INPUT, "the grammar is too large: more than %d rules",
                        SP_GRAMMAR_NODES);
        return 0;
    }
    if (sp_grow(&g->rules, &g->cap_rules, g->n_rules + 1, sizeof *g->rules, &g->err)) return 0;
    if (name && sp_copy_text(&rule.name, name, len, &g->err)) return 0;
    g->rules[g->n_rules] = rule;
    return (uint32_t)g->n_rules++;
}

void sp_grammar_define(struct sp_grammar *g, uint32_t rule, uint32_t start)
{
    if (g->err.status) return;
    g->rules[rule].start = start;
    g->rules[rule].defined = true;
}

uint32_t sp_grammar_group(struct sp_grammar *g, uint32_t start)
{
    uint32_t rule = sp_grammar_rule(g, NULL, 0);

    sp_grammar_define(g, rule, start);
    return rule;
}

void sp_grammar_shrink(struct sp_grammar *g, size_t n_nodes, size_t n_rules)
{
    while (g->n_rules > n_rules)
        free(g->rules[--g->n_rules].name);
    g->n_nodes = n_nodes;
    g->err = (struct sp_err){0};
}

uint32_t sp_grammar_text(struct sp_grammar *g, const char *text, size_t len, uint32_t next)
{
    while (len-- > 0) {
        next = add_node(g, (struct sp_node){.kind = SP_NODE_BYTES,
                                            .next = next,
                                            .operand = (unsigned char)text[len]});
    }
    return next;
}

uint32_t sp_grammar_string(struct sp_grammar *g, const char *text, uint32_t next)
{
    return sp_grammar_text(g, text, strlen(text), next);
}

uint32_t sp_grammar_bytes(struct sp_grammar *g, const struct sp_byte_set *set, uint32_t next)
{
    return add_node(
        g, (struct sp_node){.kind = SP_NODE_BYTES, .next = next, .operand = set_number(g, set)});
}

uint32_t sp_grammar_token(struct sp_grammar *g, uint32_t id, uint32_t next)
{
    size_t number = 0;

    while (number < g->n_tokens && g->tokens[number] != id)
        number++;
    if (number == g->n_tokens) {
        if (number == SP_GRAMMAR_TOKENS) {
            sp_grammar_fail(g, SP_E_INPUT, "the grammar has more than %d different tokens",
                            SP_GRAMMAR_TOKENS);
        }
        if (g->err.status ||
            sp_grow(&g->tokens, &g->cap_tokens, number + 1, sizeof *g->tokens, &g->err))
            return SP_GRAMMAR_NEVER;
        g->tokens[g->n_tokens++] = id;
    }
    return sp_grammar_text(g, (const char[]){(char)SP_GRAMMAR_TOKEN, (char)number}, 2, next);
}

uint32_t sp_grammar_either(struct sp_grammar *g, uint32_t a, uint32_t b)
{
    uint32_t fork;

    if (a == SP_GRAMMAR_NEVER || a == b) return b;
    if (b == SP_GRAMMAR_NEVER) return a;
    fork = sp_grammar_fork(g);
    sp_grammar_join(g, fork, a, b);
    return fork;
}

uint32_t sp_grammar_fork(struct sp_grammar *g)
{
    return add_node(g, (struct sp_node){SP_NODE_EITHER, SP_GRAMMAR_NEVER, SP_GRAMMAR_NEVER, 0, 0});
}

void sp_grammar_join(struct sp_grammar *g, uint32_t fork, uint32_t a, uint32_t b)
{
    if (g->err.status) return;
    g->nodes[fork].next = a;
    g->nodes[fork].operand = b;
}

static uint32_t add_call(struct sp_grammar *g, uint32_t rule, uint32_t min, uint32_t max,
                         uint32_t next)
{
    return add_node(g, (struct sp_node){SP_NODE_CALL, next, rule, min, max});
}

uint32_t sp_grammar_call(struct sp_grammar *g, uint32_t rule, uint32_t min, uint32_t max,
                         uint32_t next)
{
    if (max == SP_NO_LIMIT) {
        uint32_t fork = sp_grammar_fork(g);
        sp_grammar_join(g, fork, add_call(g, rule, 1, 1, fork), next);
        return min ? add_call(g, rule, min, min, fork) : fork;
    }
    if (max == 0) return next;
    if (max == 1) {
        uint32_t call = add_call(g, rule, 1, 1, next);
        return min ? call : sp_grammar_either(g, call, next);
    }
    return add_call(g, rule, min, max, next);
}

/* The index of a copied node: END and NEVER keep theirs, all others move up by `by`. */
static uint32_t moved_node(uint32_t node, uint32_t by)
{
    return node <= SP_GRAMMAR_NEVER ? node : node + by;
}

uint32_t sp_grammar_include(struct sp_grammar *g, const struct sp_grammar *other)
{
    uint32_t by = (uint32_t)g->n_nodes - (SP_GRAMMAR_NEVER + 1), rules = (uint32_t)g->n_rules;

    assert(other->n_tokens == 0);
    for (size_t i = 0; i < other->n_rules; i++) {
        const char *name = other->rules[i].name;
        uint32_t rule = sp_grammar_rule(g, name, name ? strlen(name) : 0);
        sp_grammar_define(g, rule, moved_node(other->rules[i].start, by));
    }
    for (size_t i = SP_GRAMMAR_NEVER + 1; i < other->n_nodes && !g->err.status; i++) {
        struct sp_node node = other->nodes[i];
        node.next = moved_node(node.next, by);
        if (node.kind == SP_NODE_BYTES) node.operand = set_number(g, &other->sets[node.operand]);
        if (node.kind == SP_NODE_EITHER) node.operand = moved_node(node.operand, by);
        if (node.kind == SP_NODE_CALL) node.operand += rules;
        (void)add_node(g, node);
    }
    return sp_grammar_group(g, moved_node(other->root, by));
}

/* ---- finishing ---- */

/* A depth-first walk over all nodes that are reachable without reading a byte, rule by rule. It
 * finds the rules that may match the empty text and those that are left-recursive. A rule's walk
 * is suspended while a rule that it calls is walked. */
enum color { NEW, OPEN, DONE };

struct walk {
    const struct sp_grammar *g;
    uint8_t *color; /* [n_rules] */
    bool *empty;    /* [n_rules] the rule matches the empty text */
    uint32_t *open; /* [n_open] rules being walked, each called by the one before it */
    size_t n_open;
    uint32_t *waiting; /* [n_nodes] linked list of a rule's suspended nodes: the next node + 1 */
    uint32_t *first;   /* [n_rules] head of that list: node + 1 */
    bool *seen;        /* [n_nodes] */
};

static void wait_for(struct walk *w, uint32_t rule, uint32_t node)
{
    if (w->seen[node] && node != SP_GRAMMAR_END) return;
    w->seen[node] = true;
    if (node == SP_GRAMMAR_END) {
        w->empty[rule] = true;
        return;
    }
    w->waiting[node] = w->first[rule];
    w->first[rule] = node + 1;
}

static void enter(struct walk *w, uint32_t rule)
{
    w->color[rule] = OPEN;
    w->open[w->n_open++] = rule;
    wait_for(w, rule, w->g->rules[rule].start);
}

static const char *name_of(const struct sp_grammar *g, uint32_t rule)
{
    return g->rules[rule].name ? g->rules[rule].name : "a group";
}

static enum sp_status walk_call(struct walk *w, uint32_t rule, uint32_t at, struct sp_err *err)
{
    const struct sp_node *node = &w->g->nodes[at];

    switch (w->color[node->operand]) {
    case NEW:
        w->waiting[at] = w->first[rule];
        w->first[rule] = at + 1;
        enter(w, node->operand);
        return SP_OK;
    case OPEN:
        return sp_fail(err, SP_E_INPUT, "%s begins with itself (left recursion)",
                       name_of(w->g, node->operand));
    default:
        if (node->min == 0 || w->empty[node->operand]) wait_for(w, rule, node->next);
        return SP_OK;
    }
}

static enum sp_status walk_rule(struct walk *w, struct sp_err *err)
{
    uint32_t rule = w->open[w->n_open - 1], at;

    if (w->first[rule] == 0) {
        w->color[rule] = DONE;
        w->n_open--;
        return SP_OK;
    }
    at = w->first[rule] - 1;
    w->first[rule] = w->waiting[at];
    switch (w->g->nodes[at].kind) {
    case SP_NODE_EITHER:
        wait_for(w, rule, w->g->nodes[at].next);
        wait_for(w, rule, w->g->nodes[at].operand);
        return SP_OK;
    case SP_NODE_CALL:
        return walk_call(w, rule, at, err);
    default:
        return SP_OK;
    }
}

static enum sp_status check_recursion(const struct sp_grammar *g, struct sp_err *err)
{
    struct sp_arena arena = {0};
    struct walk w = {
        .g = g,
        .color = sp_arena_new(&arena, g->n_rules, sizeof *w.color),
        .empty = sp_arena_new(&arena, g->n_rules, sizeof *w.empty),
        .open = sp_arena_new(&arena, g->n_rules, sizeof *w.open),
        .first = sp_arena_new(&arena, g->n_rules, sizeof *w.first),
        .waiting = sp_arena_new(&arena, g->n_nodes, sizeof *w.waiting),
        .seen = sp_arena_new(&arena, g->n_nodes, sizeof *w.seen),
    };
    enum sp_status st = sp_arena_check(&arena, err);

    for (uint32_t rule = 0; rule < g->n_rules && !st; rule++) {
        if (w.color[rule] == NEW) enter(&w, rule);
        while (w.n_open > 0 && !st)
            st = walk_rule(&w, err);
    }
    sp_arena_release(&arena);
    return st;
}

/* Splits each class that has bytes both inside and outside the set. */
static void split_classes(struct sp_grammar *g, const struct sp_byte_set *set)
{
    unsigned size[256] = {0}, inside[256] = {0};
    uint8_t becomes[256];

    for (unsigned byte = 0; byte < 256; byte++) {
        size[g->class_of[byte]]++;
        inside[g->class_of[byte]] += sp_byte_set_has(set, (uint8_t)byte);
    }
    for (size_t c = 0, n = g->n_classes; c < n; c++) {
        bool cut = inside[c] > 0 && inside[c] < size[c];
        becomes[c] = (uint8_t)(cut ? g->n_classes++ : c);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t class = g->class_of[byte];
        if (sp_byte_set_has(set, (uint8_t)byte)) g->class_of[byte] = becomes[class];
    }
}

static enum sp_status find_classes(struct sp_grammar *g, struct sp_err *err)
{
    bool *used = NULL;
    enum sp_status st = sp_new(&used, g->n_sets, sizeof *used, err);

    if (st) return st;
    g->n_classes = 1;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].kind == SP_NODE_BYTES) used[g->nodes[i].operand] = true;
    for (size_t i = 0; i < g->n_sets; i++)
        if (used[i]) split_classes(g, &g->sets[i]);
    for (unsigned byte = 0; byte < 256; byte++) {
        g->byte_of[g->class_of[byte]] = (uint8_t)byte;
        g->class_size[g->class_of[byte]]++;
    }
    free(used);
    return SP_OK;
}

enum sp_status sp_grammar_finish(struct sp_grammar *g, uint32_t root, struct sp_err *err)
{
    const bool has_text = root != SP_GRAMMAR_NEVER;
    const char *endless;
    enum sp_status st;

    if (g->err.status) return sp_fail_as(err, &g->err);
    for (size_t i = 0; i < g->n_rules; i++)
        if (!g->rules[i].defined)
            return sp_fail(err, SP_E_INPUT, "%s is not defined", name_of(g, (uint32_t)i));
    if ((st = check_recursion(g, err))) return st;
    if ((st = sp_grammar_prune(g, &root, &endless, err))) return st;
    if ((st = find_classes(g, err))) return st;
    if (has_text && root == SP_GRAMMAR_NEVER)
        return sp_fail(err, g->is_narrowed ? SP_E_UNSUPPORTED : SP_E_INPUT,
                       "%s: no finite text can match", endless ? endless : "the grammar");
    g->root = root;
    return SP_OK;
}
