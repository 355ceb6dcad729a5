/* Fuzzes grammars and JSON schemas, and texts that a random walk through them writes. A text of a
 * schema must be JSON. The first byte of the input selects grammar or schema. */
#include "format/json/json.h"
#include "runtime/grammar/grammar_matcher.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_STEPS = 120, MOST_STATES = 4000 };

static void fail(void)
{
    abort();
}

/* Writes a text of at most MOST_STEPS bytes. Returns true if it is complete. */
static bool write_text(struct sp_grammar_matcher *a, const struct sp_grammar *g, uint32_t seed,
                       char *text, size_t *len)
{
    uint32_t state = SP_STATE_START;

    for (*len = 0; *len < MOST_STEPS && sp_grammar_matcher_n_states(a) < MOST_STATES;) {
        size_t first, tried = 0;
        uint32_t next = SP_STATE_DEAD;
        seed = seed * 1664525u + 1013904223u;
        if (sp_grammar_matcher_may_end(a, state) && seed >> 29 == 0) return true;
        first = (seed >> 8) % g->n_classes;
        for (; tried < g->n_classes && next == SP_STATE_DEAD; tried++) {
            uint8_t byte = g->byte_of[(first + tried) % g->n_classes];
            next = state;
            if (sp_grammar_matcher_step(a, &next, byte, NULL)) return false;
            text[*len] = (char)byte;
        }
        if (next == SP_STATE_DEAD) return sp_grammar_matcher_may_end(a, state);
        state = next;
        ++*len;
    }
    return sp_grammar_matcher_may_end(a, state);
}

static void walk(const struct sp_grammar *g, bool is_schema, uint32_t seed)
{
    struct sp_grammar_matcher *a = NULL;
    struct sp_json *json = NULL;
    char text[MOST_STEPS + 1];
    size_t len = 0;

    if (sp_grammar_matcher_open(&a, g, NULL)) return;
    for (unsigned i = 0; i < 4; i++) {
        uint32_t state = SP_STATE_START;
        if (!write_text(a, g, seed + i, text, &len)) continue;
        if (sp_grammar_matcher_read(a, &state, text, len, NULL)) continue;
        if (state == SP_STATE_DEAD || !sp_grammar_matcher_may_end(a, state)) fail();
        if (is_schema && sp_json_parse(&json, text, len, SP_JSON_LENIENT, NULL)) fail();
        sp_json_free(json);
        json = NULL;
    }
    sp_grammar_matcher_close(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_grammar *g = NULL;
    const char *text = (const char *)data + 1;

    if (size == 0) return 0;
    bool is_schema = data[0] == 's';
    if ((is_schema ? sp_grammar_of_schema(&g, text, size - 1, NULL)
                   : sp_grammar_of_gbnf(&g, text, size - 1, NULL)) == SP_OK)
        walk(g, is_schema, (uint32_t)size * 2654435761u);
    sp_grammar_close(g);
    return 0;
}
