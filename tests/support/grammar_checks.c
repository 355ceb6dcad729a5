#include "tests/support/grammar_checks.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

static void close_grammar(void *grammar)
{
    sp_grammar_close(grammar);
}

struct sp_grammar *keep_gbnf(const char *text)
{
    struct sp_grammar *g = NULL;

    assert_case_ok(text, sp_grammar_of_gbnf(&g, text, strlen(text), why));
    return keep_with(g, close_grammar);
}

struct sp_grammar *keep_schema(const char *text)
{
    struct sp_grammar *g = NULL;

    assert_case_ok(text, sp_grammar_of_schema(&g, text, strlen(text), why));
    return keep_with(g, close_grammar);
}

static void close_matcher(void *matcher)
{
    sp_grammar_matcher_close(matcher);
}

struct sp_grammar_matcher *keep_matcher(const struct sp_grammar *g)
{
    struct sp_grammar_matcher *matcher = NULL;

    assert_ok(sp_grammar_matcher_open(&matcher, g, why));
    return keep_with(matcher, close_matcher);
}

bool matcher_allows(struct sp_grammar_matcher *matcher, const char *text, size_t size)
{
    uint32_t state = SP_STATE_START;

    assert_ok(sp_grammar_matcher_read(matcher, &state, text, size, why));
    return sp_grammar_matcher_may_end(matcher, state);
}

bool grammar_allows(const struct sp_grammar *g, const char *text)
{
    size_t n_kept = kept_count();
    bool whole = matcher_allows(keep_matcher(g), text, strlen(text));

    kept_release(n_kept);
    return whole;
}
