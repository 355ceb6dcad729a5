/* runtime/tokenizer/token_trie.h and constraint.h: token masks are compared with the texts of a
 * grammar, and a response constrained by a grammar has the same bits with and without drafting. */
#include "runtime/grammar/constraint.h"
#include "runtime/sampling/chooser.h"
#include "runtime/vector/vector_tables.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/grammar_checks.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

/* ---- masks ---- */

/* The tokens of a vocabulary: the bytes that each token spells inside a text and at its beginning;
 * NULL: the token spells nothing. */
struct vocabulary {
    const char *json;
    size_t n;
    const char *const *inside, *const *first;
};

#define SPACE                                                                                      \
    "\xC4\xA0" /* U+0120: a space in the byte alphabet; the bytes E2 82 AC are spelled below */

static const char byte_level[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true},{\"id\":10,\"content\":\"<"
    "t>\",\"special\":false}],\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":"
    "\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,"
    "\"ab\":2,\"" SPACE "\":3,\"" SPACE
    "a\":4,\"\xC3\xA2\":5,\"\xC4\xA4\":6,\"\xC2\xAC\":7,\"\xC3\xA2\xC4\xA4\":8}}}";
static const char *const byte_level_bytes[] = {"a",    "b",    "ab",       " ",  " a", "\xE2",
                                               "\x82", "\xAC", "\xE2\x82", NULL, "<t>"};

/* Llama's vocabulary: a space is U+2581, byte tokens are written in brackets (the decoder takes
 * small digits, too), and the first space of a text is dropped. */
static const char sentence_piece[] =
    "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
    "\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":"
    "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},\"model\":{"
    "\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xE2\x96\x81\":3,\"\xE2\x96\x81"
    "a\":4,\"<0xE2>\":5,\"<0x82>\":6,\"<0xac>\":7,\"\xE2\x82\xAC\":8}}}";
static const char *const sentence_piece_bytes[] = {"a",    "b",    "ab",   " ",           " a",
                                                   "\xE2", "\x82", "\xAC", "\xE2\x82\xAC"};
static const char *const sentence_piece_first[] = {"a",    "b",    "ab",   NULL,          "a",
                                                   "\xE2", "\x82", "\xAC", "\xE2\x82\xAC"};

static const struct vocabulary vocabularies[] = {
    {byte_level, 11, byte_level_bytes, byte_level_bytes},
    {sentence_piece, 9, sentence_piece_bytes, sentence_piece_first},
};

/* All texts of the grammar above. The allowed continuations of a prefix are those that occur in one
 * of these texts. */
static const char grammar_text[] =
    "root ::= \"ab\" (\" a\" | \"a\xE2\x82\xAC\") \"b\"? | \"<t>\" | \"\xE2\x82\xAC\" | \"b\"{2,3}";
#define EURO "\xE2\x82\xAC"
static const char *const texts[] = {"ab a", "ab ab", "aba" EURO, "aba" EURO "b",
                                    "<t>",  EURO,    "bb",       "bbb"};
enum { N_TEXTS = sizeof texts / sizeof *texts, END = 9, N_VOCAB = 70 };

static bool is_prefix(const char *text, size_t len)
{
    for (size_t i = 0; i < N_TEXTS; i++)
        if (strlen(texts[i]) >= len && memcmp(texts[i], text, len) == 0) return true;
    return false;
}

static bool is_text(const char *text)
{
    for (size_t i = 0; i < N_TEXTS; i++)
        if (strcmp(texts[i], text) == 0) return true;
    return false;
}

/* Compares the mask after ids[0..n-1], and recursively the masks after every allowed token. Returns
 * the number of compared masks. */
static size_t compare_masks(struct sp_constraint *c, const struct vocabulary *v, uint32_t *ids,
                            size_t n, const char *text)
{
    struct sp_token_mask mask;
    size_t n_left = 0, n_compared = 1;
    bool left[N_VOCAB] = {false};
    char longer[64];

    assert_ok(sp_constraint_mask(c, &mask, ids, 2 + n, NULL));
    for (uint32_t id = 0; id < N_VOCAB; id++) {
        const char *bytes = id < v->n ? (n ? v->inside : v->first)[id] : NULL;
        if (bytes) {
            snprintf(longer, sizeof longer, "%s%s", text, bytes);
            left[id] = is_prefix(longer, strlen(longer));
        }
        if (id == N_VOCAB - 1) left[id] = is_text(text); /* the end of the answer */
        if (((mask.bits[id / 64] >> id % 64 & 1) != 0) != left[id])
            fail_msg("\"%s\": token %u, expected %d", text, (unsigned)id, left[id]);
        n_left += left[id];
    }
    assert_int_equal(mask.n, n_left);
    assert_true(left[mask.only]);
    for (uint32_t id = 0; id < v->n; id++) {
        if (!left[id]) continue;
        snprintf(longer, sizeof longer, "%s%s", text, (n ? v->inside : v->first)[id]);
        ids[2 + n] = id;
        n_compared += compare_masks(c, v, ids, n + 1, longer);
    }
    return n_compared;
}

static void close_trie(void *trie)
{
    sp_token_trie_close(trie);
}

/* The tokens of a tokenizer.json; kept. */
static struct sp_token_trie *open_trie(const char *json)
{
    struct sp_token_trie *trie = NULL;
    struct tokenizer_case t;

    tokenizer_case_open(&t, json, strlen(json), NULL);
    assert_ok(sp_token_trie_open(&trie, t.tok, NULL));
    return keep_with(trie, close_trie);
}

TEST(masks)
{
    static const size_t wanted[] = {41, 52};

    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        struct sp_constraint *c = NULL;
        uint32_t ids[16] = {7, 7}, ends[] = {N_VOCAB - 1, 1000};
        const struct sp_constraint_options options = {.grammar = keep_gbnf(grammar_text),
                                                      .trie = open_trie(vocabularies[i].json),
                                                      .n_vocab = N_VOCAB,
                                                      .start = 2,
                                                      .ends = ends,
                                                      .n_ends = 2};
        assert_int_equal(options.trie->drops_space, i == 1);
        assert_ok(sp_constraint_open(&c, &options, NULL));
        assert_int_equal(compare_masks(c, &vocabularies[i], ids, 0, ""), wanted[i]);
        sp_constraint_close(c);
    }
}

/* ---- memory and work ---- */

enum { N_LONG = 60 };

/* Chooses a token after N_LONG tokens "a" within the given memory and work; 0: the default limit.
 * has_cache: a choice after a few "b" precedes it, and with a work limit also one after the same
 * tokens. */
static enum sp_status choose_within(const struct sp_token_trie *trie, const struct sp_grammar *g,
                                    size_t memory, uint64_t work, bool has_cache, bool proposes)
{
    static const struct sp_vector *const vector = &sp_vector_ref;
    float row[N_VOCAB + 16] = {1, 0};
    uint32_t ids[N_LONG + 1] = {0}, others[8] = {1, 1, 1, 1, 1, 1, 1, 1}, id;
    uint32_t ends[] = {N_VOCAB - 1};
    struct sp_constraint *c = NULL;
    struct sp_logits logits = sp_logits_of(vector, row, N_VOCAB);
    struct sp_chooser chooser;
    struct sp_constraint_options options = {.grammar = g,
                                            .trie = trie,
                                            .vector = vector,
                                            .n_vocab = N_VOCAB,
                                            .ends = ends,
                                            .n_ends = 1,
                                            .inner = sp_greedy_chooser(vector),
                                            .memory = memory,
                                            .work = work};

    assert_ok(sp_constraint_open(&c, &options, NULL));
    chooser = sp_constraint_chooser(c);
    if (has_cache)
        assert_ok(chooser.choose(chooser.state, &id, &logits, others, 4, SP_NO_DRAFT_TOKEN, NULL));
    if (has_cache && work)
        (void)chooser.choose(chooser.state, &id, &logits, ids, N_LONG, SP_NO_DRAFT_TOKEN, NULL);
    if (proposes) {
        double confidence = 1;
        bool possible = true;
        assert_ok(chooser.propose(chooser.state, &id, &confidence, &logits, ids, N_LONG, NULL));
        assert_true(confidence == 0);
        assert_ok(chooser.adopt(chooser.state, &possible, ids, N_LONG, NULL));
        assert_false(possible);
    }
    enum sp_status st =
        chooser.choose(chooser.state, &id, &logits, ids, N_LONG, SP_NO_DRAFT_TOKEN, NULL);
    sp_constraint_close(c);
    return st;
}

/* The first vocabulary with a grammar; kept. */
struct small_grammar {
    struct sp_token_trie *trie;
    struct sp_grammar *g;
};

static struct small_grammar open_small(const char *text)
{
    return (struct small_grammar){open_trie(vocabularies[0].json), keep_gbnf(text)};
}

/* Earlier choices do not change whether memory suffices for a choice. Insufficient memory makes a
 * proposal uncertain, not an error. */
TEST(memory_limit_ignores_earlier_choices)
{
    struct small_grammar s = open_small("root ::= \"a\" [ab]{1,200} | \"b\" [ab]{1,200}");
    size_t memory = 1024;

    while (choose_within(s.trie, s.g, memory, 0, false, false) == SP_E_INPUT)
        memory += 16;
    assert_true(memory > 2048);
    assert_ok(choose_within(s.trie, s.g, memory, 0, false, false));
    assert_ok(choose_within(s.trie, s.g, memory, 0, true, false));
    assert_int_equal(choose_within(s.trie, s.g, memory / 2, 0, false, true), SP_E_INPUT);
}

/* Earlier choices do not change whether work suffices for a choice: cached states count as work
 * too. */
TEST(work_limit_ignores_earlier_choices)
{
    struct small_grammar s = open_small("root ::= [ab]{1,200} | \"a\" ([ab]{1,3}){1,100}");
    uint64_t work = 1;

    while (choose_within(s.trie, s.g, 0, work, false, false) == SP_E_INPUT)
        work++;
    /* The limit counts at least one item per alternative: a text of N_LONG is 20 to 60 groups. */
    assert_true(work > 40);
    assert_ok(choose_within(s.trie, s.g, 0, work, true, false));
    assert_int_equal(choose_within(s.trie, s.g, 0, work - 1, true, false), SP_E_INPUT);
}

/* ---- jump-forward ---- */

/* Where whitespace is optional, jump-forward repeats the choice made the last time after the same
 * byte, at the same bracket depth and outside of strings. */
TEST(whitespace_follows_earlier_style)
{
    static const uint32_t ids[] = {0}; /* "a" */
    static const struct {
        const char *before, *comes;
    } cases[] = {
        {"a", ""},
        {"ab a", "b"},
        {"a b a", " b"},
        {"a bab a", "b"},
        {"aba b a", " b"},
        {"[a b[ab]a", " b"},
        {"[ab[a b]a", "b"},
        {"{\"a\": ab, a", "b"},
        {"ab \"a \\\"a \"a", "b"},
        {"a b \"ab\"a", " b"},
        {"]a b}a", " b"},
    };
    struct small_grammar s = open_small("root ::= \"a\" \" \"? \"b\"");
    struct sp_constraint *c = NULL;
    struct sp_constraint_options options = {.grammar = s.g, .trie = s.trie, .n_vocab = N_VOCAB};

    assert_ok(sp_constraint_open(&c, &options, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t from = strlen(cases[i].before), len;
        char text[64] = "";

        strcpy(text, cases[i].before);
        assert_ok(sp_constraint_jump_forward(c, text, from, 63, &len, ids, 1, NULL));
        text[len] = '\0';
        assert_string_equal(text + from, cases[i].comes);
    }
    sp_constraint_close(c);
}

/* ---- the largest logit ---- */

/* With takes_best the best token is checked alone, without a mask. The choice equals that of the
 * mask. */
TEST(best_token_is_checked_alone)
{
    static const struct {
        uint32_t ids[3], end, best, second, chosen;
    } cases[] = {
        {{0}, 1, N_VOCAB - 1, 1, 1},           /* "a" may not end */
        {{0}, 1, 0, 1, 1},                     /* "a" may not be followed by "a" */
        {{0}, 1, 1, 0, 1},                     /* "a" may be followed by "b" */
        {{2}, 1, N_VOCAB - 1, 1, N_VOCAB - 1}, /* "ab" may end */
        {{2, 1}, 2, 1, 0, N_VOCAB - 1},        /* "abb" must end */
    };
    struct small_grammar s = open_small("root ::= \"ab\" \"b\"?");

    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        uint32_t ends[] = {N_VOCAB - 1}, id;
        float row[N_VOCAB + 16] = {0};
        struct sp_constraint *c = NULL;
        struct sp_constraint_options options = {.grammar = s.g,
                                                .trie = s.trie,
                                                .vector = &sp_vector_ref,
                                                .n_vocab = N_VOCAB,
                                                .ends = ends,
                                                .n_ends = 1,
                                                .inner = sp_greedy_chooser(&sp_vector_ref),
                                                .takes_best = i % 2};
        row[cases[i / 2].best] = 2;
        row[cases[i / 2].second] = 1;
        struct sp_logits logits = sp_logits_of(&sp_vector_ref, row, N_VOCAB);
        assert_ok(sp_constraint_open(&c, &options, NULL));
        struct sp_chooser chooser = sp_constraint_chooser(c);
        assert_ok(chooser.choose(chooser.state, &id, &logits, cases[i / 2].ids, cases[i / 2].end,
                                 SP_NO_DRAFT_TOKEN, NULL));
        assert_int_equal(id, cases[i / 2].chosen);
        sp_constraint_close(c);
    }
}

/* ---- the masks of another implementation ---- */

enum { GOLDEN_VOCAB = 1600, GOLDEN_EOS = 1598 };

/* Returns how many masks were compared. */
static size_t compare_golden(const struct sp_json *line, const struct sp_token_trie *trie)
{
    const char *grammar = sp_json_to_string(sp_json_get(line, "grammar"), NULL);
    const char *kind = sp_json_to_string(sp_json_get(line, "kind"), NULL);
    const struct sp_json *masks = sp_json_get(line, "masks");
    static const uint32_t end = GOLDEN_EOS;
    struct sp_constraint *c = NULL;
    size_t n, n_compared = 0;
    uint32_t *ids = golden_ids(sp_json_get(line, "ids"), &n);
    struct sp_constraint_options options = {.grammar = kind[0] == 'g' ? keep_gbnf(grammar)
                                                                      : keep_schema(grammar),
                                            .trie = trie,
                                            .n_vocab = GOLDEN_VOCAB,
                                            .ends = &end,
                                            .n_ends = 1};

    assert_ok(sp_constraint_open(&c, &options, NULL));
    assert_int_equal(sp_json_len(masks), n + 1);
    for (size_t pos = 0; pos <= n; pos++) {
        const char *hex = sp_json_to_string(sp_json_at(masks, pos), NULL);
        struct sp_token_mask mask;
        char text[8];
        size_t n_grammar;
        assert_ok(sp_constraint_jump_forward(c, text, 0, 8, &n_grammar, ids, pos, NULL));
        if (n_grammar > 0) continue; /* llguidance allows only one tokenization of it */
        assert_ok(sp_constraint_mask(c, &mask, ids, pos, NULL));
        n_compared++;
        for (size_t i = 0; i < GOLDEN_VOCAB; i++) {
            char digit[2] = {hex[i / 4], '\0'};
            bool left = strtoul(digit, NULL, 16) >> i % 4 & 1;
            /* JSON allows an unescaped U+007F, llguidance does not. */
            if (memchr(trie->bytes + trie->at[i], 0x7F, trie->at[i + 1] - trie->at[i])) continue;
            if ((mask.bits[i / 64] >> i % 64 & 1) == left) continue;
            fail_msg("%s, %s: behind %zu tokens token %zu is %sleft by llguidance", grammar,
                     sp_json_to_string(sp_json_get(line, "text"), NULL), pos, i,
                     left ? "" : "not ");
        }
    }
    sp_constraint_close(c);
    return n_compared;
}

/* Compares masks with those of tests/oracle/mask_cases.py, for grammars and for JSON schemas. */
TEST(golden_masks)
{
    size_t size, n_compared = 0;
    char *json = golden_file(TESTDATA "/tiny/target/tokenizer.json", &size);

    assert_non_null(json);
    const struct sp_token_trie *trie = open_trie(json);
    for (struct sp_json *const *line = golden_lines(TESTDATA "/grammars/masks.jsonl"); *line;
         line++)
        n_compared += compare_golden(*line, trie);
    assert_true(n_compared >= 80);
}

/* ---- answers ---- */

static const char person[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"age\":{"
    "\"type\":\"integer\",\"minimum\":0,\"maximum\":120},\"kind\":{\"enum\":[\"owl\",\"fox\"]},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"maxItems\":3}},\"required\":["
    "\"name\",\"age\",\"kind\"]}";
static const char list[] = "root ::= (\"- \" [a-z]{2,6} (\" \" [a-z]+){0,2} \"\\n\"){3}";

struct request_options {
    const struct sp_grammar *grammar;
    int draft_len; /* or PLAIN */
    const struct sp_sampling *sampling;
};

static struct sp_result generate(struct sp_session *session, const struct request_options *a)
{
    static const uint32_t prompt[] = {402, 258, 275, 350, 21, 60, 61, 402, 258, 275};
    struct sp_request request = {ANSWER_TO(prompt, sizeof prompt / sizeof *prompt, 48),
                                 .draft_len = a->draft_len == PLAIN ? 0 : a->draft_len,
                                 .digest = true, .sampling = a->sampling, .grammar = a->grammar};

    return keep_answer(session, &request);
}

/* A response that ended by itself is a text of the grammar. A response cut by its length is a
 * prefix of one. */
static void assert_follows_grammar(const struct sp_grammar *g, const struct sp_result *r)
{
    struct sp_grammar_matcher *a = keep_matcher(g);
    uint32_t state = SP_STATE_START;

    assert_ok(sp_grammar_matcher_read(a, &state, r->text, r->text_size, NULL));
    assert_int_not_equal(state, SP_STATE_DEAD);
    if (r->stop == SP_STOP_EOS)
        assert_true(sp_grammar_matcher_may_end(a, state));
    else
        assert_int_equal(r->stop, SP_STOP_LENGTH);
}

/* Generates with and without drafting and compares the responses. Returns how many draft tokens
 * were accepted. */
static size_t check_responses(const char *path, enum sp_draft_by by, const struct sp_grammar *g,
                              const struct sp_sampling *sampling)
{
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture o = generate_open(path, generate_reference, 1, &options);
    struct sp_result plain = generate(o.session, &(struct request_options){g, PLAIN, sampling});
    size_t n_right = 0;

    assert_follows_grammar(g, &plain);
    options.draft_by = by;
    o = generate_open(path, NULL, 2, &options);
    for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= 7; draft_len += 4) { /* auto, 3, 7 */
        struct sp_result r = generate(o.session, &(struct request_options){g, draft_len, sampling});
        if (sampling && sampling->accept == SP_ACCEPT_REJECTION)
            assert_follows_grammar(g, &r);
        else
            generate_assert_same(&r, &plain);
        n_right += r.accepted;
    }
    return n_right;
}

TEST(constrained_responses_equal_undrafted)
{
    const char *const files[] = {
        packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8),
        packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q8),
        packed_alone(TESTDATA "/tiny/target", SP_Q4),
    };
    const struct sp_grammar *const grammars[] = {keep_schema(person), keep_gbnf(list)};
    struct sp_sampling sampled = SP_SAMPLING_INIT, coupled = SP_SAMPLING_INIT,
                       rejected = SP_SAMPLING_INIT;

    sampled.seed = 11;
    sampled.repeat_penalty = 1.3f; /* greedy, but not the largest logit */
    coupled = sampled;
    coupled.temperature = 1.5f;
    coupled.top_k = 40;
    rejected = coupled;
    rejected.accept = SP_ACCEPT_REJECTION;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t n_right = 0;
        for (size_t k = 0; k < 2; k++) {
            n_right += check_responses(files[i], SP_DRAFT_BY_BOTH, grammars[k], NULL);
            n_right += check_responses(files[i], SP_DRAFT_BY_DEFAULT, grammars[k], &sampled);
            n_right += check_responses(files[i], SP_DRAFT_BY_BOTH, grammars[k], &coupled);
            n_right += check_responses(files[i], SP_DRAFT_BY_DEFAULT, grammars[k], &rejected);
        }
        assert_true(n_right > 0);
    }
}

/* Tokens that the grammar determines are drafted by jump-forward and nearly always accepted,
 * several per round. */
TEST(jump_forward_drafts_determined_tokens)
{
    static const char text[] = "\"Once upon a time there was an owl\"";
    static const char schema[] = "{\"const\":\"Once upon a time there was an owl\"}";
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NGRAM};
    struct generate_fixture o = generate_open(path, NULL, 1, &options);
    const struct sp_grammar *g = keep_schema(schema);

    for (int draft_len = 0; draft_len <= 15; draft_len += 5) {
        struct sp_result r = generate(o.session, &(struct request_options){g, draft_len, NULL});
        assert_string_equal(r.text, text);
        assert_int_equal(r.stop, SP_STOP_EOS);
        assert_int_equal(r.grammar_drafted > 0, draft_len > 0);
        assert_true(r.grammar_accepted * 10 >= r.grammar_drafted * 7);
        assert_true(draft_len < 5 || r.n_rounds * 2 < r.n_ids);
    }
}

/* ignore_eos and simulated acceptance cannot be combined with a grammar. */
TEST(refusals)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_session *session = keep_session(keep_package(path, NULL), NULL);
    struct sp_simulation simulation = {.acceptance = .5};
    struct sp_grammar *g = NULL;
    uint32_t prompt[] = {402};
    struct sp_request request = {ANSWER_TO(prompt, 1, 0), .ignore_eos = true};
    struct sp_result result = SP_RESULT_INIT;

    assert_ok(sp_grammar_of_json(&g, NULL));
    request.grammar = g;
    assert_fails_as(sp_session_generate(session, &request, &result, why), SP_E_USAGE,
                    "ignore_eos cannot be combined with a grammar");
    request.ignore_eos = false;
    request.min_tokens = 1;
    assert_fails_as(sp_session_generate(session, &request, &result, why), SP_E_USAGE,
                    "min_tokens cannot be combined with a grammar");
    request.min_tokens = 0;
    request.simulation = &simulation;
    assert_fails_as(sp_session_generate(session, &request, &result, why), SP_E_USAGE,
                    "acceptance is not simulated in a grammar");
    sp_grammar_close(g);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
