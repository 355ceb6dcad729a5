#include "runtime/grammar/grammar_matcher.h"

#include "format/base/hash.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    VISITS = 4 * SP_GRAMMAR_MATCHER_ITEMS, /* of places, on the way from one state to the next */
    SEEN_SLOTS = 4 * VISITS,
    MOST_BYTES = 256 << 20, /* that states may take */
    KEPT_SHARE = 8,         /* ... an eighth of which is worth keeping */
};

static const uint32_t not_known = UINT32_MAX;

/* A call that is under way, on top of others. */
struct frame {
    uint32_t below; /* frame + 1; 0: none */
    uint32_t call;  /* the node */
    uint32_t done;  /* times that it was run through */
};

/* A way to have read the text: a place, and the calls that lead there, frame + 1. */
struct item {
    uint32_t node, stack;
};

/* Of a step: places looked at, and the last question that it was counted for. */
struct cost {
    uint16_t places, question;
};

struct state {
    size_t first, n; /* ways, whose nodes read a byte */
    bool may_end;
};

/* Numbers by what they stand for: slots hold a number + 1. */
struct index {
    uint32_t *slots;
    size_t n_slots, n; /* a power of two */
};

struct sp_grammar_matcher {
    const struct sp_grammar *grammar; /* borrowed */
    size_t most_bytes;
    struct frame *frames;
    size_t n_frames, cap_frames;
    struct item *items; /* of all states, each state's sorted */
    size_t n_items, cap_items;
    struct state *states;
    size_t n_states, cap_states;
    uint32_t *next; /* [n_states][n_classes] a state, or not_known */
    size_t cap_next;
    struct cost *cost; /* [n_states][n_classes] of finding it */
    size_t cap_cost;
    uint16_t question;
    uint64_t work; /* for this question */
    struct index frame_index, state_index;
    /* On the way to a state: */
    struct item todo[VISITS], found[SP_GRAMMAR_MATCHER_ITEMS + 1];
    size_t n_todo, n_found;
    struct item seen[SEEN_SLOTS];
    uint32_t seen_in[SEEN_SLOTS], round; /* a slot counts if it was filled in this round */
    size_t n_visits;
    bool may_end, too_many;
    bool was_ambiguous;
};

/* ---- indexes ----------------------------------------------------------------------------------
 */

static enum sp_status index_init(struct index *x, size_t n_slots, struct sp_err *err)
{
    enum sp_status st = sp_new(&x->slots, n_slots, sizeof *x->slots, err);

    if (st) return st;
    x->n_slots = n_slots;
    x->n = 0;
    return SP_OK;
}

static void index_put(struct index *x, uint64_t hash, uint32_t number)
{
    size_t slot = hash & (x->n_slots - 1);

    while (x->slots[slot])
        slot = (slot + 1) & (x->n_slots - 1);
    x->slots[slot] = number + 1;
    x->n++;
}

static uint64_t hash_frame(const struct sp_grammar_matcher *a, uint32_t number)
{
    return sp_hash64(&a->frames[number], sizeof *a->frames);
}

static uint64_t hash_state(const struct sp_grammar_matcher *a, uint32_t number)
{
    const struct state *s = &a->states[number];

    return sp_hash64(a->items + s->first, s->n * sizeof *a->items) + s->may_end;
}

/* Room for one more, where `hash` tells the numbers' hashes. */
static enum sp_status index_reserve(struct sp_grammar_matcher *a, struct index *x,
                                    uint64_t (*hash)(const struct sp_grammar_matcher *, uint32_t),
                                    struct sp_err *err)
{
    struct index grown;
    enum sp_status st;

    if (2 * (x->n + 1) <= x->n_slots) return SP_OK;
    if ((st = index_init(&grown, 2 * x->n_slots, err))) return st;
    for (size_t slot = 0; slot < x->n_slots; slot++) {
        if (x->slots[slot]) index_put(&grown, hash(a, x->slots[slot] - 1), x->slots[slot] - 1);
    }
    free(x->slots);
    *x = grown;
    return SP_OK;
}

/* ---- stacks -----------------------------------------------------------------------------------
 */

/* *stack = the one with this frame on top. */
static enum sp_status push(struct sp_grammar_matcher *a, uint32_t *stack, struct frame frame,
                           struct sp_err *err)
{
    struct index *x = &a->frame_index;
    uint64_t hash = sp_hash64(&frame, sizeof frame);
    enum sp_status st;

    for (size_t slot = hash & (x->n_slots - 1); x->slots[slot];
         slot = (slot + 1) & (x->n_slots - 1)) {
        if (memcmp(&a->frames[x->slots[slot] - 1], &frame, sizeof frame)) continue;
        *stack = x->slots[slot];
        return SP_OK;
    }
    if ((st = index_reserve(a, x, hash_frame, err)) ||
        (st = sp_grow(&a->frames, &a->cap_frames, a->n_frames + 1, sizeof *a->frames, err))) {
        return st;
    }
    a->frames[a->n_frames] = frame;
    index_put(x, hash, (uint32_t)a->n_frames++);
    *stack = (uint32_t)a->n_frames;
    return SP_OK;
}

/* ---- from one state to the next ---------------------------------------------------------------
 */

/* Takes note of a place, unless it has been in this round. */
static void visit(struct sp_grammar_matcher *a, uint32_t node, uint32_t stack)
{
    struct item item = {node, stack};
    size_t slot;

    if (a->too_many) return;
    slot = sp_hash64(&item, sizeof item) % SEEN_SLOTS;
    for (; a->seen_in[slot] == a->round; slot = (slot + 1) % SEEN_SLOTS) {
        if (a->seen[slot].node == node && a->seen[slot].stack == stack) return;
    }
    a->seen[slot] = item;
    a->seen_in[slot] = a->round;
    if (++a->n_visits > VISITS) {
        a->too_many = true;
        return;
    }
    a->todo[a->n_todo++] = item;
}

/* A call whose next is the end of its rule need not be come back to. */
static enum sp_status run_through(struct sp_grammar_matcher *a, uint32_t call, uint32_t below,
                                  uint32_t done, struct sp_err *err)
{
    const struct sp_node *node = &a->grammar->nodes[call];
    uint32_t start = a->grammar->rules[node->what].start, stack;
    enum sp_status st;

    if (node->max == 1 && node->next == SP_GRAMMAR_END) {
        visit(a, start, below);
        return SP_OK;
    }
    if ((st = push(a, &stack, (struct frame){below, call, done}, err))) return st;
    visit(a, start, stack);
    return SP_OK;
}

static enum sp_status come_back(struct sp_grammar_matcher *a, uint32_t stack, struct sp_err *err)
{
    struct frame f;
    const struct sp_node *call;

    if (stack == 0) {
        a->may_end = true;
        return SP_OK;
    }
    f = a->frames[stack - 1];
    call = &a->grammar->nodes[f.call];
    if (f.done + 1 >= call->min) visit(a, call->next, f.below);
    return f.done + 1 < call->max ? run_through(a, f.call, f.below, f.done + 1, err) : SP_OK;
}

static enum sp_status go_on(struct sp_grammar_matcher *a, struct item item, struct sp_err *err)
{
    const struct sp_node *node = &a->grammar->nodes[item.node];

    switch (node->kind) {
    case SP_NODE_BYTES:
        if (item.node == SP_GRAMMAR_NEVER) return SP_OK;
        a->found[a->n_found++] = item;
        a->too_many = a->n_found > SP_GRAMMAR_MATCHER_ITEMS;
        return SP_OK;
    case SP_NODE_EITHER:
        visit(a, node->next, item.stack);
        visit(a, node->what, item.stack);
        return SP_OK;
    case SP_NODE_CALL:
        if (node->min == 0) visit(a, node->next, item.stack);
        return run_through(a, item.node, item.stack, 0, err);
    case SP_NODE_END:
    default:
        return come_back(a, item.stack, err);
    }
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->stack > y->stack) - (x->stack < y->stack);
}

static bool is_found(const struct sp_grammar_matcher *a, const struct state *s)
{
    return s->n == a->n_found && s->may_end == a->may_end &&
           memcmp(a->items + s->first, a->found, s->n * sizeof *a->items) == 0;
}

static size_t size_of(const struct sp_grammar_matcher *a)
{
    return a->n_frames * sizeof *a->frames + a->n_items * sizeof *a->items +
           a->n_states *
               (sizeof *a->states + a->grammar->n_classes * (sizeof *a->next + sizeof *a->cost));
}

/* A state of what is found. */
static enum sp_status add_state(struct sp_grammar_matcher *a, struct sp_err *err)
{
    size_t n_classes = a->grammar->n_classes;
    struct state s = {a->n_items, a->n_found, a->may_end};
    enum sp_status st;

    if (size_of(a) > a->most_bytes) {
        return sp_fail(err, SP_E_INPUT,
                       "the grammar is too ambiguous: its states take more than %zu bytes",
                       a->most_bytes);
    }
    if ((st = sp_grow(&a->states, &a->cap_states, a->n_states + 1, sizeof *a->states, err)) ||
        (st = sp_grow(&a->next, &a->cap_next, (a->n_states + 1) * n_classes, sizeof *a->next,
                      err)) ||
        (st = sp_grow(&a->cost, &a->cap_cost, (a->n_states + 1) * n_classes, sizeof *a->cost,
                      err)) ||
        (st = sp_grow(&a->items, &a->cap_items, a->n_items + a->n_found, sizeof *a->items, err))) {
        return st;
    }
    if (a->n_found) memcpy(a->items + a->n_items, a->found, a->n_found * sizeof *a->items);
    a->n_items += a->n_found;
    for (size_t c = 0; c < n_classes; c++) {
        a->next[a->n_states * n_classes + c] = not_known;
        a->cost[a->n_states * n_classes + c] = (struct cost){0, 0};
    }
    a->states[a->n_states++] = s;
    return SP_OK;
}

/* *state = that of all places taken note of. */
static enum sp_status settle(struct sp_grammar_matcher *a, uint32_t *state, struct sp_err *err)
{
    struct index *x = &a->state_index;
    uint64_t hash;
    enum sp_status st;

    while (a->n_todo > 0 && !a->too_many) {
        if ((st = go_on(a, a->todo[--a->n_todo], err))) return st;
    }
    a->was_ambiguous = a->was_ambiguous || a->too_many;
    if (a->too_many || (a->n_found == 0 && !a->may_end)) {
        *state = SP_STATE_DEAD;
        return SP_OK;
    }
    qsort(a->found, a->n_found, sizeof *a->found, compare_items);
    hash = sp_hash64(a->found, a->n_found * sizeof *a->found) + a->may_end;
    for (size_t slot = hash & (x->n_slots - 1); x->slots[slot];
         slot = (slot + 1) & (x->n_slots - 1)) {
        *state = x->slots[slot] - 1;
        if (is_found(a, &a->states[*state])) return SP_OK;
    }
    if ((st = index_reserve(a, x, hash_state, err)) || (st = add_state(a, err))) return st;
    *state = (uint32_t)a->n_states - 1;
    index_put(x, hash, *state);
    return SP_OK;
}

static void begin_round(struct sp_grammar_matcher *a)
{
    if (++a->round == 0) {
        memset(a->seen_in, 0, sizeof a->seen_in);
        a->round = 1;
    }
    a->n_todo = a->n_found = a->n_visits = 0;
    a->may_end = a->too_many = false;
}

static enum sp_status find_next(struct sp_grammar_matcher *a, uint32_t from, uint8_t class,
                                uint32_t *state, struct sp_err *err)
{
    const struct sp_grammar *g = a->grammar;
    size_t first = a->states[from].first, n = a->states[from].n;

    begin_round(a);
    for (size_t i = first; i < first + n; i++) {
        const struct sp_node *node = &g->nodes[a->items[i].node];
        if (sp_byte_set_has(&g->sets[node->what], g->byte_of[class])) {
            visit(a, node->next, a->items[i].stack);
        }
    }
    return settle(a, state, err);
}

/* Of the step that was just found. In what order places are looked at depends on the numbers of
 * stacks, so where there are too many of them the cost is that of the most there may be. */
static struct cost cost_of(const struct sp_grammar_matcher *a, uint32_t from)
{
    size_t places = 1 + a->states[from].n + (a->too_many ? VISITS : a->n_visits);

    _Static_assert(1 + SP_GRAMMAR_MATCHER_ITEMS + VISITS <= UINT16_MAX, "the cost of a step");
    return (struct cost){(uint16_t)places, 0};
}

enum sp_status sp_grammar_matcher_step(struct sp_grammar_matcher *a, uint32_t *state, uint8_t byte,
                                       struct sp_err *err)
{
    uint8_t class = a->grammar->class_of[byte];
    size_t at = *state * a->grammar->n_classes + class;
    enum sp_status st;

    if (a->next[at] == not_known) {
        uint32_t to;
        if ((st = find_next(a, *state, class, &to, err))) return st;
        a->next[at] = to;
        a->cost[at] = cost_of(a, *state);
    }
    if (a->cost[at].question != a->question) {
        a->cost[at].question = a->question;
        a->work += a->cost[at].places;
    }
    *state = a->next[at];
    return SP_OK;
}

enum sp_status sp_grammar_matcher_read(struct sp_grammar_matcher *a, uint32_t *state,
                                       const char *text, size_t len, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < len && *state != SP_STATE_DEAD && !st; i++)
        st = sp_grammar_matcher_step(a, state, (uint8_t)text[i], err);
    return st;
}

enum sp_status sp_grammar_matcher_read_own(struct sp_grammar_matcher *a, uint32_t *state,
                                           size_t number, struct sp_err *err)
{
    const char code[] = {(char)SP_GRAMMAR_TOKEN, (char)number};

    return sp_grammar_matcher_read(a, state, code, sizeof code, err);
}

bool sp_grammar_matcher_may_end(const struct sp_grammar_matcher *a, uint32_t state)
{
    return a->states[state].may_end;
}

enum sp_status sp_grammar_matcher_bytes(struct sp_grammar_matcher *a, uint32_t state,
                                        struct sp_byte_set *bytes, size_t *n, size_t most,
                                        struct sp_err *err)
{
    const struct sp_grammar *g = a->grammar;
    enum sp_status st;

    *n = 0;
    *bytes = (struct sp_byte_set){{0}};
    for (size_t class = 0; class < g->n_classes && *n <= most; class ++) {
        uint32_t to = state;
        if ((st = sp_grammar_matcher_step(a, &to, g->byte_of[class], err))) return st;
        if (to == SP_STATE_DEAD) continue;
        *n += g->class_size[class];
        for (unsigned byte = 0; byte < 256; byte++) {
            uint64_t bit = g->class_of[byte] == class;
            bytes->bits[byte / 64] |= bit << byte % 64;
        }
    }
    return SP_OK;
}

void sp_grammar_matcher_begin_probe(struct sp_grammar_matcher *a)
{
    size_t n = a->n_states * a->grammar->n_classes;

    if (++a->question == 0) {
        for (size_t i = 0; i < n; i++)
            a->cost[i].question = 0;
        a->question = 1;
    }
    a->work = 0;
}

uint64_t sp_grammar_matcher_work(const struct sp_grammar_matcher *a)
{
    return a->work;
}

bool sp_grammar_matcher_was_ambiguous(const struct sp_grammar_matcher *a)
{
    return a->was_ambiguous;
}

size_t sp_grammar_matcher_n_states(const struct sp_grammar_matcher *a)
{
    return a->n_states;
}

bool sp_grammar_matcher_is_full(const struct sp_grammar_matcher *a)
{
    return size_of(a) > a->most_bytes / KEPT_SHARE;
}

void sp_grammar_matcher_bound(struct sp_grammar_matcher *a, size_t most_bytes)
{
    a->most_bytes = most_bytes;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

enum sp_status sp_grammar_matcher_forget(struct sp_grammar_matcher *a, struct sp_err *err)
{
    uint32_t state;
    enum sp_status st;

    a->n_frames = a->n_items = a->n_states = 0;
    memset(a->frame_index.slots, 0, a->frame_index.n_slots * sizeof *a->frame_index.slots);
    memset(a->state_index.slots, 0, a->state_index.n_slots * sizeof *a->state_index.slots);
    a->frame_index.n = a->state_index.n = 0;
    begin_round(a);
    if ((st = add_state(a, err))) return st; /* SP_STATE_DEAD */
    visit(a, a->grammar->root, 0);
    if ((st = settle(a, &state, err))) return st;
    if (state == SP_STATE_START) return SP_OK;
    if (!a->too_many) return sp_fail(err, SP_E_INPUT, "the grammar allows no text at all");
    return sp_fail(err, SP_E_INPUT,
                   "the grammar is too ambiguous: it can begin in more than %d ways",
                   SP_GRAMMAR_MATCHER_ITEMS);
}

enum sp_status sp_grammar_matcher_open(struct sp_grammar_matcher **out,
                                       const struct sp_grammar *grammar, struct sp_err *err)
{
    enum { FIRST_SLOTS = 1024 };
    struct sp_grammar_matcher *a = NULL;
    enum sp_status st;

    if ((st = sp_new(&a, 1, sizeof *a, err))) goto done;
    a->grammar = grammar;
    a->most_bytes = MOST_BYTES;
    if ((st = index_init(&a->frame_index, FIRST_SLOTS, err)) ||
        (st = index_init(&a->state_index, FIRST_SLOTS, err)) ||
        (st = sp_grammar_matcher_forget(a, err))) {
        goto done;
    }
    *out = a;
    a = NULL;
done:
    sp_grammar_matcher_close(a);
    return st;
}

void sp_grammar_matcher_close(struct sp_grammar_matcher *a)
{
    if (a == NULL) return;
    free(a->frames);
    free(a->items);
    free(a->states);
    free(a->next);
    free(a->cost);
    free(a->frame_index.slots);
    free(a->state_index.slots);
    free(a);
}
