#include "runtime/grammar/grammar_matcher.h"

#include "format/base/hash.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    VISITS = 4 * SP_GRAMMAR_MATCHER_ITEMS, /* most items visited by one transition */
    SEEN_SLOTS = 4 * VISITS,
    MOST_BYTES = 256 << 20, /* default limit of the memory of all states */
    FULL_DIVISOR = 8,       /* the matcher is full at an eighth of the limit */
};

static const uint32_t unknown_state = UINT32_MAX;

/* A call in progress, on top of the calls that led to it. */
struct frame {
    uint32_t below; /* the next frame of the stack + 1; 0: none */
    uint32_t call;  /* the CALL node */
    uint32_t done;  /* completed repetitions */
};

/* One parse of the text: a node, and the top frame of its stack + 1 (0: empty). */
struct item {
    uint32_t node, stack;
};

/* The cost of a transition: items visited, and the last probe that counted it. */
struct cost {
    uint16_t n_visits, probe;
};

struct state {
    size_t first, n; /* range in `items`; the nodes are all BYTES */
    bool may_end;
};

/* A hash table of frames or states: a slot is 0, or holds a hash and an index + 1. */
struct index {
    uint64_t *slots;   /* hash << 32 | (index + 1) */
    size_t n_slots, n; /* n_slots is a power of two */
};

struct sp_grammar_matcher {
    const struct sp_grammar *grammar; /* borrowed */
    size_t most_bytes;
    struct frame *frames;
    size_t n_frames, cap_frames;
    struct item *items; /* of all states; each state's items are sorted */
    size_t n_items, cap_items;
    struct state *states;
    size_t n_states, cap_states;
    uint32_t *next; /* [n_states][n_classes] a state, or unknown_state */
    size_t cap_next;
    struct cost *cost; /* [n_states][n_classes] of computing `next` */
    size_t cap_cost;
    uint16_t probe;
    uint64_t work; /* of the current probe */
    struct index frame_index, state_index;
    /* Scratch of the transition that is being computed, from here on. */
    struct item queue[VISITS], found[SP_GRAMMAR_MATCHER_ITEMS + 1];
    size_t n_queue, n_found;
    struct item seen[SEEN_SLOTS];
    uint32_t seen_in[SEEN_SLOTS], round; /* a slot is in use if its number is `round` */
    size_t n_visits;
    bool may_end, too_many;
    bool was_ambiguous;
};

/* ---- indexes ---- */

static enum sp_status index_init(struct index *x, size_t n_slots, struct sp_err *err)
{
    enum sp_status st = sp_new(&x->slots, n_slots, sizeof *x->slots, err);

    if (st) return st;
    x->n_slots = n_slots;
    x->n = 0;
    return SP_OK;
}

static void index_put(struct index *x, uint32_t hash, uint32_t number)
{
    size_t slot = hash & (x->n_slots - 1);

    while (x->slots[slot])
        slot = (slot + 1) & (x->n_slots - 1);
    x->slots[slot] = (uint64_t)hash << 32 | (number + 1);
    x->n++;
}

/* Makes space for one more entry. */
static enum sp_status index_reserve(struct index *x, struct sp_err *err)
{
    struct index grown;
    enum sp_status st;

    if (2 * (x->n + 1) <= x->n_slots) return SP_OK;
    if ((st = index_init(&grown, 2 * x->n_slots, err))) return st;
    for (size_t slot = 0; slot < x->n_slots; slot++)
        if (x->slots[slot])
            index_put(&grown, (uint32_t)(x->slots[slot] >> 32), (uint32_t)x->slots[slot] - 1);
    free(x->slots);
    *x = grown;
    return SP_OK;
}

/* ---- stacks ---- */

/* Sets *stack to the stack with this frame on top. */
static enum sp_status push(struct sp_grammar_matcher *m, uint32_t *stack, struct frame frame,
                           struct sp_err *err)
{
    struct index *x = &m->frame_index;
    uint32_t hash = (uint32_t)sp_hash64(&frame, sizeof frame);
    enum sp_status st;

    for (size_t slot = hash & (x->n_slots - 1); x->slots[slot];
         slot = (slot + 1) & (x->n_slots - 1)) {
        *stack = (uint32_t)x->slots[slot];
        if (memcmp(&m->frames[*stack - 1], &frame, sizeof frame) == 0) return SP_OK;
    }
    if ((st = index_reserve(x, err))) return st;
    if ((st = sp_grow(&m->frames, &m->cap_frames, m->n_frames + 1, sizeof *m->frames, err)))
        return st;
    m->frames[m->n_frames] = frame;
    index_put(x, hash, (uint32_t)m->n_frames++);
    *stack = (uint32_t)m->n_frames;
    return SP_OK;
}

/* ---- from one state to the next ---- */

/* Queues an item unless it was already visited in this round. */
static void visit(struct sp_grammar_matcher *m, uint32_t node, uint32_t stack)
{
    struct item item = {node, stack};
    size_t slot;

    if (m->too_many) return;
    slot = sp_hash64(&item, sizeof item) % SEEN_SLOTS;
    for (; m->seen_in[slot] == m->round; slot = (slot + 1) % SEEN_SLOTS)
        if (m->seen[slot].node == node && m->seen[slot].stack == stack) return;
    m->seen[slot] = item;
    m->seen_in[slot] = m->round;
    if (++m->n_visits > VISITS) {
        m->too_many = true;
        return;
    }
    m->queue[m->n_queue++] = item;
}

/* Enters a called rule. A call that is the last node of its rule pushes no frame. */
static enum sp_status enter_call(struct sp_grammar_matcher *m, uint32_t call, uint32_t below,
                                 uint32_t done, struct sp_err *err)
{
    const struct sp_node *node = &m->grammar->nodes[call];
    uint32_t start = m->grammar->rules[node->operand].start, stack;
    enum sp_status st;

    if (node->max == 1 && node->next == SP_GRAMMAR_END) {
        visit(m, start, below);
        return SP_OK;
    }
    if ((st = push(m, &stack, (struct frame){below, call, done}, err))) return st;
    visit(m, start, stack);
    return SP_OK;
}

static enum sp_status return_from_call(struct sp_grammar_matcher *m, uint32_t stack,
                                       struct sp_err *err)
{
    struct frame f;
    const struct sp_node *call;

    if (stack == 0) {
        m->may_end = true;
        return SP_OK;
    }
    f = m->frames[stack - 1];
    call = &m->grammar->nodes[f.call];
    if (f.done + 1 >= call->min) visit(m, call->next, f.below);
    return f.done + 1 < call->max ? enter_call(m, f.call, f.below, f.done + 1, err) : SP_OK;
}

static enum sp_status expand(struct sp_grammar_matcher *m, struct item item, struct sp_err *err)
{
    const struct sp_node *node = &m->grammar->nodes[item.node];

    switch (node->kind) {
    case SP_NODE_BYTES:
        if (item.node == SP_GRAMMAR_NEVER) return SP_OK;
        m->found[m->n_found++] = item;
        m->too_many = m->n_found > SP_GRAMMAR_MATCHER_ITEMS;
        return SP_OK;
    case SP_NODE_EITHER:
        visit(m, node->next, item.stack);
        visit(m, node->operand, item.stack);
        return SP_OK;
    case SP_NODE_CALL:
        if (node->min == 0) visit(m, node->next, item.stack);
        return enter_call(m, item.node, item.stack, 0, err);
    case SP_NODE_END:
    default:
        return return_from_call(m, item.stack, err);
    }
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->stack > y->stack) - (x->stack < y->stack);
}

static bool is_found_state(const struct sp_grammar_matcher *m, const struct state *s)
{
    return s->n == m->n_found && s->may_end == m->may_end &&
           memcmp(m->items + s->first, m->found, s->n * sizeof *m->items) == 0;
}

static size_t size_of(const struct sp_grammar_matcher *m)
{
    return m->n_frames * sizeof *m->frames + m->n_items * sizeof *m->items +
           m->n_states *
               (sizeof *m->states + m->grammar->n_classes * (sizeof *m->next + sizeof *m->cost));
}

/* Appends a state with the found items. */
static enum sp_status add_state(struct sp_grammar_matcher *m, struct sp_err *err)
{
    size_t n_classes = m->grammar->n_classes;
    struct state s = {m->n_items, m->n_found, m->may_end};
    enum sp_status st;

    if (size_of(m) > m->most_bytes) {
        return sp_fail(err, SP_E_INPUT,
                       "the grammar is too ambiguous: its states take more than %zu bytes",
                       m->most_bytes);
    }
    if ((st = sp_grow(&m->states, &m->cap_states, m->n_states + 1, sizeof *m->states, err)) ||
        (st = sp_grow(&m->next, &m->cap_next, (m->n_states + 1) * n_classes, sizeof *m->next,
                      err)) ||
        (st = sp_grow(&m->cost, &m->cap_cost, (m->n_states + 1) * n_classes, sizeof *m->cost,
                      err)) ||
        (st = sp_grow(&m->items, &m->cap_items, m->n_items + m->n_found, sizeof *m->items, err)))
        return st;
    if (m->n_found) memcpy(m->items + m->n_items, m->found, m->n_found * sizeof *m->items);
    m->n_items += m->n_found;
    for (size_t c = 0; c < n_classes; c++) {
        m->next[m->n_states * n_classes + c] = unknown_state;
        m->cost[m->n_states * n_classes + c] = (struct cost){0, 0};
    }
    m->states[m->n_states++] = s;
    return SP_OK;
}

/* Expands the queued items until all read a byte, and sets *state to their state. */
static enum sp_status finish_state(struct sp_grammar_matcher *m, uint32_t *state,
                                   struct sp_err *err)
{
    struct index *x = &m->state_index;
    uint32_t hash;
    enum sp_status st;

    while (m->n_queue > 0 && !m->too_many)
        if ((st = expand(m, m->queue[--m->n_queue], err))) return st;
    m->was_ambiguous = m->was_ambiguous || m->too_many;
    if (m->too_many || (m->n_found == 0 && !m->may_end)) {
        *state = SP_STATE_DEAD;
        return SP_OK;
    }
    qsort(m->found, m->n_found, sizeof *m->found, compare_items);
    hash = (uint32_t)sp_hash64(m->found, m->n_found * sizeof *m->found) + m->may_end;
    for (size_t slot = hash & (x->n_slots - 1); x->slots[slot];
         slot = (slot + 1) & (x->n_slots - 1)) {
        *state = (uint32_t)x->slots[slot] - 1;
        if (is_found_state(m, &m->states[*state])) return SP_OK;
    }
    if ((st = index_reserve(x, err)) || (st = add_state(m, err))) return st;
    *state = (uint32_t)m->n_states - 1;
    index_put(x, hash, *state);
    return SP_OK;
}

static void begin_round(struct sp_grammar_matcher *m)
{
    if (++m->round == 0) {
        memset(m->seen_in, 0, sizeof m->seen_in);
        m->round = 1;
    }
    m->n_queue = m->n_found = m->n_visits = 0;
    m->may_end = m->too_many = false;
}

static enum sp_status find_next(struct sp_grammar_matcher *m, uint32_t from, uint8_t class,
                                uint32_t *state, struct sp_err *err)
{
    const struct sp_grammar *g = m->grammar;
    size_t first = m->states[from].first, n = m->states[from].n;

    begin_round(m);
    for (size_t i = first; i < first + n; i++) {
        const struct sp_node *node = &g->nodes[m->items[i].node];
        if (sp_byte_set_has(&g->sets[node->operand], g->byte_of[class]))
            visit(m, node->next, m->items[i].stack);
    }
    return finish_state(m, state, err);
}

/* The cost of the transition that was just computed. The order of visits depends on stack numbers,
 * so a transition with too many visits costs the maximum. */
static struct cost cost_of(const struct sp_grammar_matcher *m, uint32_t from)
{
    size_t n_visits = 1 + m->states[from].n + (m->too_many ? VISITS : m->n_visits);

    _Static_assert(1 + SP_GRAMMAR_MATCHER_ITEMS + VISITS <= UINT16_MAX, "the cost of a step");
    return (struct cost){(uint16_t)n_visits, 0};
}

enum sp_status sp_grammar_matcher_step(struct sp_grammar_matcher *m, uint32_t *state, uint8_t byte,
                                       struct sp_err *err)
{
    uint8_t class = m->grammar->class_of[byte];
    size_t at = *state * m->grammar->n_classes + class;
    enum sp_status st;

    if (m->next[at] == unknown_state) {
        uint32_t to;
        if ((st = find_next(m, *state, class, &to, err))) return st;
        m->next[at] = to;
        m->cost[at] = cost_of(m, *state);
    }
    if (m->cost[at].probe != m->probe) {
        m->cost[at].probe = m->probe;
        m->work += m->cost[at].n_visits;
    }
    *state = m->next[at];
    return SP_OK;
}

enum sp_status sp_grammar_matcher_read(struct sp_grammar_matcher *m, uint32_t *state,
                                       const char *text, size_t len, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < len && *state != SP_STATE_DEAD && !st; i++)
        st = sp_grammar_matcher_step(m, state, (uint8_t)text[i], err);
    return st;
}

enum sp_status sp_grammar_matcher_read_token(struct sp_grammar_matcher *m, uint32_t *state,
                                             size_t number, struct sp_err *err)
{
    const char code[] = {(char)SP_GRAMMAR_TOKEN, (char)number};

    return sp_grammar_matcher_read(m, state, code, sizeof code, err);
}

bool sp_grammar_matcher_may_end(const struct sp_grammar_matcher *m, uint32_t state)
{
    return m->states[state].may_end;
}

enum sp_status sp_grammar_matcher_bytes(struct sp_grammar_matcher *m, uint32_t state,
                                        struct sp_byte_set *bytes, size_t *n, size_t most,
                                        struct sp_err *err)
{
    const struct sp_grammar *g = m->grammar;
    enum sp_status st;

    *n = 0;
    *bytes = (struct sp_byte_set){{0}};
    for (size_t class = 0; class < g->n_classes && *n <= most; class ++) {
        uint32_t to = state;
        if ((st = sp_grammar_matcher_step(m, &to, g->byte_of[class], err))) return st;
        if (to == SP_STATE_DEAD) continue;
        *n += g->class_size[class];
        for (unsigned byte = 0; byte < 256; byte++) {
            uint64_t bit = g->class_of[byte] == class;
            bytes->bits[byte / 64] |= bit << byte % 64;
        }
    }
    return SP_OK;
}

void sp_grammar_matcher_begin_probe(struct sp_grammar_matcher *m)
{
    size_t n = m->n_states * m->grammar->n_classes;

    if (++m->probe == 0) {
        for (size_t i = 0; i < n; i++)
            m->cost[i].probe = 0;
        m->probe = 1;
    }
    m->work = 0;
}

uint64_t sp_grammar_matcher_work(const struct sp_grammar_matcher *m)
{
    return m->work;
}

bool sp_grammar_matcher_was_ambiguous(const struct sp_grammar_matcher *m)
{
    return m->was_ambiguous;
}

size_t sp_grammar_matcher_n_states(const struct sp_grammar_matcher *m)
{
    return m->n_states;
}

bool sp_grammar_matcher_is_full(const struct sp_grammar_matcher *m)
{
    return size_of(m) > m->most_bytes / FULL_DIVISOR;
}

void sp_grammar_matcher_bound(struct sp_grammar_matcher *m, size_t most_bytes)
{
    m->most_bytes = most_bytes;
}

/* ---- opening ---- */

enum sp_status sp_grammar_matcher_forget(struct sp_grammar_matcher *m, struct sp_err *err)
{
    uint32_t state;
    enum sp_status st;

    m->n_frames = m->n_items = m->n_states = 0;
    memset(m->frame_index.slots, 0, m->frame_index.n_slots * sizeof *m->frame_index.slots);
    memset(m->state_index.slots, 0, m->state_index.n_slots * sizeof *m->state_index.slots);
    m->frame_index.n = m->state_index.n = 0;
    begin_round(m);
    if ((st = add_state(m, err))) return st; /* SP_STATE_DEAD */
    visit(m, m->grammar->root, 0);
    if ((st = finish_state(m, &state, err))) return st;
    if (state == SP_STATE_START) return SP_OK;
    if (!m->too_many) return sp_fail(err, SP_E_INPUT, "the grammar allows no text at all");
    return sp_fail(err, SP_E_INPUT,
                   "the grammar is too ambiguous: it can begin in more than %d ways",
                   SP_GRAMMAR_MATCHER_ITEMS);
}

enum sp_status sp_grammar_matcher_open(struct sp_grammar_matcher **out,
                                       const struct sp_grammar *grammar, struct sp_err *err)
{
    enum { FIRST_SLOTS = 1024 };
    struct sp_grammar_matcher *m = NULL;
    enum sp_status st;

    if ((st = sp_new(&m, 1, sizeof *m, err))) goto done;
    m->grammar = grammar;
    m->most_bytes = MOST_BYTES;
    if ((st = index_init(&m->frame_index, FIRST_SLOTS, err))) goto done;
    if ((st = index_init(&m->state_index, FIRST_SLOTS, err))) goto done;
    if ((st = sp_grammar_matcher_forget(m, err))) goto done;
    *out = m;
    m = NULL;
done:
    sp_grammar_matcher_close(m);
    return st;
}

void sp_grammar_matcher_close(struct sp_grammar_matcher *m)
{
    if (m == NULL) return;
    free(m->frames);
    free(m->items);
    free(m->states);
    free(m->next);
    free(m->cost);
    free(m->frame_index.slots);
    free(m->state_index.slots);
    free(m);
}
