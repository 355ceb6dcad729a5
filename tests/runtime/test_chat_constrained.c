/* Tests responses constrained to reasoning and tool calls whose tags are special tokens: the
 * allowed ids, and that drafting does not change the response. */
#include "format/json/json.h"
#include "runtime/chat/chat_grammar.h"
#include "runtime/session/session.h"
#include "tests/support/generate_checks.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"

/* Tokens of testdata/tiny's tokenizer, as its tokenizer.json numbers them. */
enum { END_OF_TEXT = 1596, IM_START = 1597, MASK = 1599 };

static const struct sp_chat_format format = {
    .reasoning_close = "<|mask|>",
    .calls = {.style = SP_TOOL_CALL_OBJECT,
              .open = "call <|im_start|>",
              .close = "<|mask|>",
              .name_key = "name",
              .arguments_key = "arguments"},
};
static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"paint\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"colour\": {\"enum\": [\"red\", \"blue\"]}, \"coats\": "
    "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 3}}, \"required\": [\"colour\", "
    "\"coats\"]}}}]";

static struct sp_result generate(const struct generate_fixture *o, const struct sp_grammar *g,
                                 int draft_len, const struct sp_sampling *sampling)
{
    static const uint32_t prompt[] = {402, 258, 275, 350, 21, 60, 61, 402, 258, 275};
    const struct sp_request request = {ANSWER_TO(prompt, sizeof prompt / sizeof *prompt, 200),
                                       .draft_len = draft_len == PLAIN ? 0 : draft_len,
                                       .digest = true, .sampling = sampling, .grammar = g};

    return keep_answer(o->session, &request);
}

static struct sp_grammar *make_grammar(const struct generate_fixture *o,
                                       enum sp_reasoning_mode thinking)
{
    static const uint32_t ends[] = {END_OF_TEXT};
    struct sp_chat_grammar_options options = {
        .format = &format,
        .tokenizer = o->package->tokenizer,
        .ends = ends,
        .n_ends = 1,
        .thinking = thinking,
        .must_call = true,
        .one_call = true,
    };
    struct sp_json *tools = NULL;
    struct sp_grammar *g = NULL;

    tools = keep_parsed(tools_text, strlen(tools_text), SP_JSON_STRICT);
    options.tools = tools;
    assert_ok(sp_chat_grammar(&g, &options, why));
    return g;
}

static size_t count(const struct sp_result *r, uint32_t id)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_ids; i++)
        n += r->ids[i] == id;
    return n;
}

/* Generates greedily or sampled: each tag is its special token, occurs once, and encloses a call;
 * the drafted response equals the plain one. Returns how many draft tokens of the grammar were
 * accepted. */
static size_t check_call(const char *path, const struct sp_sampling *sampling)
{
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture plain_one = generate_open(path, generate_reference, 1, &options), o;
    struct sp_grammar *g = make_grammar(&plain_one, SP_REASONING_NONE);
    struct sp_result plain = generate(&plain_one, g, PLAIN, sampling);
    size_t n_right = 0;

    assert_int_equal(plain.stop, SP_STOP_EOS);
    assert_int_equal(count(&plain, IM_START), 1);
    assert_int_equal(count(&plain, MASK), 1);
    assert_non_null(strstr(plain.text, "call"));
    assert_non_null(strstr(plain.text, "\"paint\""));
    options = (struct sp_session_options){.size = sizeof(struct sp_session_options),
                                          .draft_by = SP_DRAFT_BY_BOTH};
    o = generate_open(path, NULL, 2, &options);
    for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= 7; draft_len += 4) {
        struct sp_result r = generate(&o, g, draft_len, sampling);
        generate_assert_same(&r, &plain);
        n_right += r.grammar_accepted;
    }
    sp_grammar_close(g);
    return n_right;
}

TEST(calls_between_special_tokens)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_sampling sampled = SP_SAMPLING_INIT;

    sampled.temperature = 1.2f;
    sampled.seed = 5;
    assert_in_range(check_call(path, NULL), 20, 500);
    assert_in_range(check_call(path, &sampled), 20, 500);
}

/* Reasoning may contain any token except the end of the response and other special tokens. Its end
 * tag may follow anywhere and is followed by a call. */
TEST(reasoning_ends_at_a_special_token)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture o = generate_open(path, NULL, 1, &options);
    struct sp_grammar *g = make_grammar(&o, SP_REASONING_OPEN);
    struct sp_token_trie *trie = NULL;
    struct sp_constraint *c = NULL;
    const uint32_t ends[] = {END_OF_TEXT};
    uint32_t ids[4] = {402, 258, 275, MASK};
    size_t n_vocab = o.package->target->config.n_vocab, n_spelled = 0;
    struct sp_token_mask mask;

    assert_ok(sp_token_trie_open(&trie, o.package->tokenizer, why));
    const struct sp_constraint_options all = {
        .grammar = g, .trie = trie, .n_vocab = n_vocab, .ends = ends, .n_ends = 1};
    assert_ok(sp_constraint_open(&c, &all, why));
    for (uint32_t id = 0; id < n_vocab && id < trie->n_ids; id++) {
        const char *bytes = trie->bytes + trie->at[id];
        size_t len = trie->at[id + 1] - trie->at[id];
        bool is_invalid_utf8 = false; /* bytes that never occur in UTF-8 (RFC 3629) */
        for (size_t i = 0; i < len; i++)
            is_invalid_utf8 = is_invalid_utf8 || (unsigned char)bytes[i] >= 0xF8;
        n_spelled += len > 0 && !is_invalid_utf8;
    }
    for (size_t n = 0; n <= 3; n++) {
        assert_ok(sp_constraint_mask(c, &mask, ids, n, why));
        assert_int_equal(mask.n, n_spelled + 1);
        assert_true((mask.bits[MASK / 64] >> MASK % 64 & 1) != 0);
        assert_false((mask.bits[END_OF_TEXT / 64] >> END_OF_TEXT % 64 & 1) != 0);
    }
    assert_ok(sp_constraint_mask(c, &mask, ids, 4, why));
    assert_in_range(mask.n, 1, 60); /* whitespace and prefixes of "call" */
    sp_constraint_close(c);
    sp_token_trie_close(trie);
    sp_grammar_close(g);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
