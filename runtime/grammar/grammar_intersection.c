/* The product of the automata of all patterns and of a counter of characters: a state of the
 * product is the states of all matchers and the count. Each state becomes a fork that is joined
 * when its transitions are known. The patterns are matched on characters in UTF-8, and the grammar
 * writes these as JSON does. */
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "runtime/grammar/grammar_matcher.h"
#include "runtime/grammar/grammar_sequence.h"
#include "runtime/grammar/json_grammar.h"
#include "runtime/grammar/json_schema.h"

#include <stdlib.h>
#include <string.h>

/* N_ESCAPED: characters below U+0020, the quotation mark and the backslash. */
enum {
    N_ESCAPED = 34,
    MOST_PATTERNS = 8,
    MOST_STATES = 20000,
    SLOTS = 1 << 16,
    MOST_BYTES = 32 << 20
};

struct state {
    uint32_t at[MOST_PATTERNS]; /* of each matcher; 0 beyond the last one */
    uint32_t count;             /* characters, at most the largest that is told apart */
};

struct product {
    struct sp_grammar *g;
    const struct sp_text_pattern *first;        /* for messages */
    struct sp_grammar *patterns[MOST_PATTERNS]; /* owned, like the matchers */
    struct sp_grammar_matcher *matchers[MOST_PATTERNS];
    bool negated[MOST_PATTERNS];
    size_t n;
    uint32_t min, max;
    struct state *states; /* [n_states] owned */
    uint32_t *forks;      /* [n_states] owned */
    uint32_t *escapes;    /* [n_states] node of all escaped characters to it; 0: none yet; owned */
    uint32_t *slots;      /* [SLOTS] state + 1 by hash; owned */
    size_t n_states;
};

static enum sp_status open_pattern(struct product *p, const struct sp_text_pattern *pattern,
                                   struct sp_err *err)
{
    struct sp_grammar *g = NULL;
    uint32_t start;
    enum sp_status st;

    if ((st = sp_grammar_new(&g, err))) return st;
    p->patterns[p->n] = g;
    p->negated[p->n] = pattern->negated;
    start = sp_grammar_regex(g, pattern->text, pattern->len, sp_grammar_chars, SP_GRAMMAR_END);
    if ((st = sp_grammar_finish(g, start, err))) {
        sp_context(err, "%s/%s", pattern->path, pattern->key);
        return st;
    }
    return sp_grammar_matcher_open(&p->matchers[p->n++], g, err);
}

/* The index of a state, which is added if it is new. */
static size_t add_state(struct product *p, const struct state *state)
{
    size_t slot = sp_hash64(state, sizeof *state) % SLOTS;

    for (; p->slots[slot]; slot = (slot + 1) % SLOTS) {
        uint32_t i = p->slots[slot] - 1;
        if (memcmp(&p->states[i], state, sizeof *state) == 0) return i;
    }
    if (p->n_states == MOST_STATES) {
        sp_grammar_fail(p->g, SP_E_UNSUPPORTED,
                        "%s/%s: too large with other patterns and lengths: more than %d states",
                        p->first->path, p->first->key, MOST_STATES);
        return 0;
    }
    p->states[p->n_states] = *state;
    p->slots[slot] = (uint32_t)p->n_states + 1;
    p->forks[p->n_states] = sp_grammar_fork(p->g);
    return p->n_states++;
}

static enum sp_status step(struct product *p, struct state *state, uint8_t byte, bool *dead,
                           struct sp_err *err)
{
    uint32_t most = p->max == SP_NO_LIMIT ? p->min : p->max;
    enum sp_status st;

    *dead = false;
    if ((byte & 0xC0) != 0x80) {
        *dead = p->max != SP_NO_LIMIT && state->count == p->max;
        if (state->count < most) state->count++;
    }
    for (size_t i = 0; i < p->n && !*dead; i++) {
        if (state->at[i] == SP_STATE_DEAD) continue; /* of a negated pattern: any text may follow */
        st = sp_grammar_matcher_step(p->matchers[i], &state->at[i], byte, err);
        if (st) return st;
        *dead = state->at[i] == SP_STATE_DEAD && !p->negated[i];
    }
    return SP_OK;
}

/* The bytes that lead to the same state, as JSON writes them. */
struct way {
    size_t to;
    struct sp_byte_set bytes; /* that stand as they are */
    struct sp_char_range escaped[N_ESCAPED];
    size_t n_escaped;
};

static enum sp_status add_byte(struct product *p, const struct state *from, unsigned byte,
                               struct way ways[256], size_t *n_ways, struct sp_err *err)
{
    struct state to = *from;
    size_t i = 0, at;
    bool dead;
    enum sp_status st;

    if ((st = step(p, &to, (uint8_t)byte, &dead, err)) || dead) return st;
    at = add_state(p, &to);
    while (i < *n_ways && ways[i].to != at)
        i++;
    if (i == *n_ways) ways[(*n_ways)++] = (struct way){.to = at};
    if (byte < 0x20 || byte == '"' || byte == '\\')
        ways[i].escaped[ways[i].n_escaped++] = (struct sp_char_range){byte, byte};
    else
        ways[i].bytes.bits[byte / 64] |= (uint64_t)1 << byte % 64;
    return SP_OK;
}

/* The node of the bytes of a way. All escaped characters to one state are one node. */
static uint32_t way_node(struct product *p, const struct way *way)
{
    uint32_t fork = p->forks[way->to], plain = sp_grammar_bytes(p->g, &way->bytes, fork), escapes;
    bool all = way->n_escaped == N_ESCAPED;

    if (all && p->escapes[way->to]) return sp_grammar_either(p->g, plain, p->escapes[way->to]);
    escapes = sp_json_spell(p->g, way->escaped, way->n_escaped, fork);
    if (all) p->escapes[way->to] = escapes;
    return sp_grammar_either(p->g, plain, escapes);
}

/* True if a text may end in this state. */
static bool may_end(const struct product *p, const struct state *state)
{
    for (size_t i = 0; i < p->n; i++) {
        bool matches = state->at[i] != SP_STATE_DEAD &&
                       sp_grammar_matcher_may_end(p->matchers[i], state->at[i]);
        if (matches == p->negated[i]) return false;
    }
    return state->count >= p->min;
}

static enum sp_status expand(struct product *p, size_t at, uint32_t end, struct sp_err *err)
{
    const struct state from = p->states[at];
    struct way ways[256];
    size_t n_ways = 0;
    uint32_t choice = SP_GRAMMAR_NEVER;
    enum sp_status st = SP_OK;

    for (unsigned byte = 0; byte < 256 && !st && !p->g->err.status; byte++)
        st = add_byte(p, &from, byte, ways, &n_ways, err);
    for (size_t i = 0; i < n_ways && !st; i++)
        choice = sp_grammar_either(p->g, choice, way_node(p, &ways[i]));
    sp_grammar_join(p->g, p->forks[at], choice, may_end(p, &from) ? end : SP_GRAMMAR_NEVER);
    return st;
}

/* SP_E_UNSUPPORTED: the product, or the states of a matcher, are too large. */
static enum sp_status multiply(struct product *p, const struct sp_text_pattern *patterns, size_t n,
                               uint32_t end, struct sp_err *err)
{
    struct state start = {.count = 0};
    enum sp_status st;

    for (size_t i = 0; i < n; i++) {
        if ((st = open_pattern(p, &patterns[i], err))) return st;
        sp_grammar_matcher_bound(p->matchers[i], MOST_BYTES / n);
        start.at[i] = SP_STATE_START;
    }
    if ((st = sp_new(&p->states, MOST_STATES, sizeof *p->states, err))) return st;
    if ((st = sp_new(&p->forks, MOST_STATES, sizeof *p->forks, err))) return st;
    if ((st = sp_new(&p->escapes, MOST_STATES, sizeof *p->escapes, err))) return st;
    if ((st = sp_new(&p->slots, SLOTS, sizeof *p->slots, err))) return st;
    (void)add_state(p, &start);
    for (size_t at = 0; at < p->n_states && !p->g->err.status; at++)
        if ((st = expand(p, at, end, err))) return st == SP_E_INPUT ? SP_E_UNSUPPORTED : st;
    /* A text that a matcher refuses only because it has too many parses must not be forbidden. */
    for (size_t i = 0; i < p->n; i++)
        if (sp_grammar_matcher_was_ambiguous(p->matchers[i]))
            return sp_fail(err, SP_E_UNSUPPORTED, "%s/%s: too ambiguous", patterns[i].path,
                           patterns[i].key);
    return SP_OK;
}

uint32_t sp_grammar_intersection(struct sp_grammar *g, const struct sp_text_pattern *patterns,
                                 size_t n, uint32_t min, uint32_t max, uint32_t next)
{
    struct product p = {.g = g, .first = patterns, .min = min, .max = max};
    struct sp_err err = {0};
    uint32_t node = SP_GRAMMAR_NEVER;
    enum sp_status st;

    if (g->err.status) return node;
    st = multiply(&p, patterns, n, sp_grammar_text(g, "\"", 1, next), &err);
    if (st && !g->err.status) sp_grammar_fail(g, st, "%s", err.text);
    if (!g->err.status) node = sp_grammar_text(g, "\"", 1, p.forks[0]);
    for (size_t i = 0; i < MOST_PATTERNS; i++) {
        sp_grammar_matcher_close(p.matchers[i]);
        sp_grammar_close(p.patterns[i]);
    }
    free(p.states);
    free(p.forks);
    free(p.slots);
    free(p.escapes);
    return node;
}

bool sp_grammar_pattern_matches(struct sp_grammar *g, const struct sp_text_pattern *pattern,
                                const char *text)
{
    struct product p = {.g = g};
    struct sp_err err = {0};
    uint32_t state = SP_STATE_START;
    enum sp_status st = open_pattern(&p, pattern, &err);
    bool matches;

    if (!st) st = sp_grammar_matcher_read(p.matchers[0], &state, text, strlen(text), &err);
    if (st && !g->err.status) sp_grammar_fail(g, st, "%s", err.text);
    matches = !st && sp_grammar_matcher_may_end(p.matchers[0], state);
    sp_grammar_matcher_close(p.matchers[0]);
    sp_grammar_close(p.patterns[0]);
    return matches;
}
