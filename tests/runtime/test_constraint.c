/* runtime/tokenizer/token_trie.h and constraint.h: which tokens are left, against the texts
 * themselves, and that an answer held to a grammar is the same with and without drafting, to the
 * bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/grammar/constraint.h"
#include "runtime/sampling/greedy_chooser.h"
#include "runtime/vector/vector_tables.h"
#include "tests/support/generate_checks.h"
#include "tests/support/packed_models.h"
#include "tests/support/tokenizer_cases.h"

/* ---- masks ------------------------------------------------------------------------------------
 */

/* Tokens, the bytes that each spells inside a text, and at its beginning; NULL: none. */
struct vocabulary {
    const char *json;
    size_t n;
    const char *const *inside, *const *first;
};

#define SPACE "\xC4\xA0" /* how the byte alphabet spells a blank; E2 82 AC is spelled below */

static const char byte_level[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":10,\"content\":\"<t>\",\"special\":false}],"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"" SPACE "\":3,\"" SPACE
    "a\":4,\"\xC3\xA2\":5,\"\xC4\xA4\":6,\"\xC2\xAC\":7,\"\xC3\xA2\xC4\xA4\":8}}}";
static const char *const byte_level_bytes[] = {"a",    "b",    "ab",       " ",  " a", "\xE2",
                                               "\x82", "\xAC", "\xE2\x82", NULL, "<t>"};

/* Llama's: a blank is U+2581, bytes stand in brackets, and a text loses its first blank. */
static const char sentence_piece[] =
    "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
    "\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":"
    "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},\"model\":{"
    "\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xE2\x96\x81\":3,\"\xE2\x96\x81"
    "a\":4,\"<0xE2>\":5,\"<0x82>\":6,\"<0xAC>\":7,\"\xE2\x82\xAC\":8}}}";
static const char *const sentence_piece_bytes[] = {"a",    "b",    "ab",   " ",           " a",
                                                   "\xE2", "\x82", "\xAC", "\xE2\x82\xAC"};
static const char *const sentence_piece_first[] = {"a",    "b",    "ab",   NULL,          "a",
                                                   "\xE2", "\x82", "\xAC", "\xE2\x82\xAC"};

static const struct vocabulary vocabularies[] = {
    {byte_level, 11, byte_level_bytes, byte_level_bytes},
    {sentence_piece, 9, sentence_piece_bytes, sentence_piece_first},
};

/* All texts of a grammar. What may follow a beginning follows it in one of them. */
static const char grammar_text[] =
    "root ::= \"ab\" (\" a\" | \"a\xE2\x82\xAC\") \"b\"? | \"<t>\" | \"\xE2\x82\xAC\" | \"b\"{2,3}";
#define EURO "\xE2\x82\xAC"
static const char *const texts[] = {"ab a", "ab ab", "aba" EURO, "aba" EURO "b",
                                    "<t>",  EURO,    "bb",       "bbb"};
enum { N_TEXTS = sizeof texts / sizeof *texts, END = 9, N_VOCAB = 70 };

static bool begins_one(const char *text, size_t len)
{
    for (size_t i = 0; i < N_TEXTS; i++) {
        if (strlen(texts[i]) >= len && memcmp(texts[i], text, len) == 0) return true;
    }
    return false;
}

static bool is_one(const char *text)
{
    for (size_t i = 0; i < N_TEXTS; i++) {
        if (strcmp(texts[i], text) == 0) return true;
    }
    return false;
}

/* Compares the masks after ids[0..n-1], and after all that they allow. */
static size_t compare_masks(struct sp_constraint *c, const struct vocabulary *v, uint32_t *ids,
                            size_t n, const char *text)
{
    struct sp_token_mask mask;
    size_t n_left = 0, n_compared = 1;
    bool left[N_VOCAB] = {false};
    char longer[64];

    assert_int_equal(sp_constraint_mask(c, &mask, ids, 2 + n, NULL), SP_OK);
    for (uint32_t id = 0; id < N_VOCAB; id++) {
        const char *bytes = id < v->n ? (n ? v->inside : v->first)[id] : NULL;
        if (bytes) {
            snprintf(longer, sizeof longer, "%s%s", text, bytes);
            left[id] = begins_one(longer, strlen(longer));
        }
        if (id == N_VOCAB - 1) left[id] = is_one(text); /* the end of the answer */
        if (((mask.bits[id / 64] >> id % 64 & 1) != 0) != left[id]) {
            fail_msg("\"%s\": token %u, expected %d", text, (unsigned)id, left[id]);
        }
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

static void masks(void **state)
{
    struct sp_grammar *g = NULL;
    static const size_t wanted[] = {41, 52};

    (void)state;
    assert_int_equal(sp_grammar_of_gbnf(&g, grammar_text, strlen(grammar_text), NULL), SP_OK);
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        const struct vocabulary *v = &vocabularies[i];
        struct sp_token_trie *trie = NULL;
        struct sp_constraint *c = NULL;
        struct tokenizer_case t;
        uint32_t ids[16] = {7, 7}, ends[] = {N_VOCAB - 1, 1000};
        tokenizer_case_open(&t, v->json, strlen(v->json), NULL);
        assert_int_equal(sp_token_trie_open(&trie, t.tok, NULL), SP_OK);
        assert_int_equal(trie->drops_space, i == 1);
        struct sp_constraint_options options = {
            .grammar = g, .trie = trie, .n_vocab = N_VOCAB, .start = 2, .ends = ends, .n_ends = 2};
        assert_int_equal(sp_constraint_open(&c, &options, NULL), SP_OK);
        assert_int_equal(compare_masks(c, v, ids, 0, ""), wanted[i]);
        sp_constraint_close(c);
        sp_token_trie_close(trie);
        tokenizer_case_close(&t);
    }
    sp_grammar_close(g);
}

/* ---- memory and work --------------------------------------------------------------------------
 */

enum { N_LONG = 60 };

/* A choice after N_LONG tokens "a" with so much memory and work, 0 for the usual, perhaps after
 * one after a few "b" or, with the same work, after the same tokens. */
static enum sp_status choose_within(const struct sp_token_trie *trie, const struct sp_grammar *g,
                                    size_t memory, uint64_t work, bool asked_before, bool proposes)
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
    enum sp_status st;

    assert_int_equal(sp_constraint_open(&c, &options, NULL), SP_OK);
    chooser = sp_constraint_chooser(c);
    if (asked_before) {
        st = chooser.choose(chooser.state, &id, &logits, others, 4, SP_NO_DRAFT_TOKEN, NULL);
        assert_int_equal(st, SP_OK);
    }
    if (asked_before && work) {
        (void)chooser.choose(chooser.state, &id, &logits, ids, N_LONG, SP_NO_DRAFT_TOKEN, NULL);
    }
    if (proposes) {
        double confidence = 1;
        bool possible = true;
        st = chooser.propose(chooser.state, &id, &confidence, &logits, ids, N_LONG, NULL);
        assert_int_equal(st, SP_OK);
        assert_true(confidence == 0);
        st = chooser.adopt(chooser.state, &possible, ids, N_LONG, NULL);
        assert_int_equal(st, SP_OK);
        assert_false(possible);
    }
    st = chooser.choose(chooser.state, &id, &logits, ids, N_LONG, SP_NO_DRAFT_TOKEN, NULL);
    sp_constraint_close(c);
    return st;
}

/* The first vocabulary, and a grammar. */
struct small {
    struct tokenizer_case t;
    struct sp_token_trie *trie;
    struct sp_grammar *g;
};

static void small_open(struct small *s, const char *text)
{
    const struct vocabulary *v = &vocabularies[0];

    tokenizer_case_open(&s->t, v->json, strlen(v->json), NULL);
    assert_int_equal(sp_token_trie_open(&s->trie, s->t.tok, NULL), SP_OK);
    assert_int_equal(sp_grammar_of_gbnf(&s->g, text, strlen(text), NULL), SP_OK);
}

static void small_close(struct small *s)
{
    sp_grammar_close(s->g);
    sp_token_trie_close(s->trie);
    tokenizer_case_close(&s->t);
}

/* Whether memory is enough does not depend on what was asked before; too little fails no draft
 * token. */
static void memory_is_for_one_question(void **state)
{
    struct small s;
    size_t memory = 1024;

    (void)state;
    small_open(&s, "root ::= \"a\" [ab]{1,200} | \"b\" [ab]{1,200}");
    while (choose_within(s.trie, s.g, memory, 0, false, false) == SP_E_INPUT)
        memory += 16;
    assert_true(memory > 2048);
    assert_int_equal(choose_within(s.trie, s.g, memory, 0, false, false), SP_OK);
    assert_int_equal(choose_within(s.trie, s.g, memory, 0, true, false), SP_OK);
    assert_int_equal(choose_within(s.trie, s.g, memory / 2, 0, false, true), SP_E_INPUT);
    small_close(&s);
}

/* Nor whether work is: what is known from before is no less work. */
static void work_is_for_one_question(void **state)
{
    struct small s;
    uint64_t work = 1;

    (void)state;
    small_open(&s, "root ::= [ab]{1,200} | \"a\" ([ab]{1,3}){1,100}");
    while (choose_within(s.trie, s.g, 0, work, false, false) == SP_E_INPUT)
        work++;
    /* At least a place for each of the ways on: a text of N_LONG is 20 to 60 groups and single. */
    assert_true(work > 40);
    assert_int_equal(choose_within(s.trie, s.g, 0, work, true, false), SP_OK);
    assert_int_equal(choose_within(s.trie, s.g, 0, work - 1, true, false), SP_E_INPUT);
    small_close(&s);
}

/* ---- looking ahead ----------------------------------------------------------------------------
 */

/* Where blanks may come or not, they come as they did the last time after the same byte, as deep
 * in brackets, outside of strings. */
static void whitespace_keeps_its_style(void **state)
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
    struct small s;
    struct sp_constraint *c = NULL;

    (void)state;
    small_open(&s, "root ::= \"a\" \" \"? \"b\"");
    struct sp_constraint_options options = {.grammar = s.g, .trie = s.trie, .n_vocab = N_VOCAB};
    assert_int_equal(sp_constraint_open(&c, &options, NULL), SP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t from = strlen(cases[i].before), len;
        char text[64] = "";

        strcpy(text, cases[i].before);
        assert_int_equal(sp_constraint_jump_forward(c, text, from, 63, &len, ids, 1, NULL), SP_OK);
        text[len] = '\0';
        assert_string_equal(text + from, cases[i].comes);
    }
    sp_constraint_close(c);
    small_close(&s);
}

/* ---- the largest logit ------------------------------------------------------------------------
 */

/* It is asked about by itself, without a mask: the choice is the one that the mask leaves. */
static void the_best_token_is_checked(void **state)
{
    static const char text[] = "root ::= \"ab\" \"b\"?";
    static const struct {
        uint32_t ids[3], end, best, second, chosen;
    } cases[] = {
        {{0}, 1, N_VOCAB - 1, 1, 1},           /* "a" may not end */
        {{0}, 1, 0, 1, 1},                     /* ... nor go on with "a" */
        {{0}, 1, 1, 0, 1},                     /* "b" is right */
        {{2}, 1, N_VOCAB - 1, 1, N_VOCAB - 1}, /* "ab" may end */
        {{2, 1}, 2, 1, 0, N_VOCAB - 1},        /* "abb" has to */
    };
    const struct vocabulary *v = &vocabularies[0];
    struct sp_token_trie *trie = NULL;
    struct sp_grammar *g = NULL;
    struct tokenizer_case t;

    (void)state;
    tokenizer_case_open(&t, v->json, strlen(v->json), NULL);
    assert_int_equal(sp_token_trie_open(&trie, t.tok, NULL), SP_OK);
    assert_int_equal(sp_grammar_of_gbnf(&g, text, strlen(text), NULL), SP_OK);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        uint32_t ends[] = {N_VOCAB - 1}, id;
        float row[N_VOCAB + 16] = {0};
        struct sp_constraint *c = NULL;
        struct sp_constraint_options options = {.grammar = g,
                                                .trie = trie,
                                                .vector = &sp_vector_ref,
                                                .n_vocab = N_VOCAB,
                                                .ends = ends,
                                                .n_ends = 1,
                                                .inner = sp_greedy_chooser(&sp_vector_ref),
                                                .takes_best = i % 2};
        row[cases[i / 2].best] = 2;
        row[cases[i / 2].second] = 1;
        struct sp_logits logits = sp_logits_of(&sp_vector_ref, row, N_VOCAB);
        assert_int_equal(sp_constraint_open(&c, &options, NULL), SP_OK);
        struct sp_chooser chooser = sp_constraint_chooser(c);
        assert_int_equal(chooser.choose(chooser.state, &id, &logits, cases[i / 2].ids,
                                        cases[i / 2].end, SP_NO_DRAFT_TOKEN, NULL),
                         SP_OK);
        assert_int_equal(id, cases[i / 2].chosen);
        sp_constraint_close(c);
    }
    sp_grammar_close(g);
    sp_token_trie_close(trie);
    tokenizer_case_close(&t);
}

/* ---- the masks of another implementation ------------------------------------------------------
 */

enum { GOLDEN_VOCAB = 1600, GOLDEN_EOS = 1598 };

/* Returns how many masks were compared. */
static size_t compare_golden(const struct sp_json *line, const struct sp_token_trie *trie)
{
    const char *grammar = sp_json_to_string(sp_json_get(line, "grammar"), NULL);
    const char *kind = sp_json_to_string(sp_json_get(line, "kind"), NULL);
    const struct sp_json *masks = sp_json_get(line, "masks");
    static const uint32_t end = GOLDEN_EOS;
    struct sp_grammar *g = NULL;
    struct sp_constraint *c = NULL;
    struct sp_err err = {0};
    uint32_t *ids;
    size_t n, n_compared = 0;

    if (kind[0] == 'g' ? sp_grammar_of_gbnf(&g, grammar, strlen(grammar), &err)
                       : sp_grammar_of_schema(&g, grammar, strlen(grammar), &err)) {
        fail_msg("%s: %s", grammar, err.text);
    }
    struct sp_constraint_options options = {
        .grammar = g, .trie = trie, .n_vocab = GOLDEN_VOCAB, .ends = &end, .n_ends = 1};
    assert_int_equal(sp_constraint_open(&c, &options, NULL), SP_OK);
    ids = ids_of_json(sp_json_get(line, "ids"), &n);
    assert_int_equal(sp_json_len(masks), n + 1);
    for (size_t pos = 0; pos <= n; pos++) {
        const char *hex = sp_json_to_string(sp_json_at(masks, pos), NULL);
        struct sp_token_mask mask;
        char text[8];
        size_t n_grammar;
        assert_int_equal(sp_constraint_jump_forward(c, text, 0, 8, &n_grammar, ids, pos, NULL),
                         SP_OK);
        if (n_grammar > 0) continue; /* llguidance leaves one spelling of it only */
        assert_int_equal(sp_constraint_mask(c, &mask, ids, pos, NULL), SP_OK);
        n_compared++;
        for (size_t i = 0; i < GOLDEN_VOCAB; i++) {
            char digit[2] = {hex[i / 4], '\0'};
            bool left = strtoul(digit, NULL, 16) >> i % 4 & 1;
            /* JSON lets U+007F stand as it is, llguidance does not. */
            if (memchr(trie->bytes + trie->at[i], 0x7F, trie->at[i + 1] - trie->at[i])) continue;
            if ((mask.bits[i / 64] >> i % 64 & 1) == left) continue;
            fail_msg("%s, %s: behind %zu tokens token %zu is %sleft by llguidance", grammar,
                     sp_json_to_string(sp_json_get(line, "text"), NULL), pos, i,
                     left ? "" : "not ");
        }
    }
    free(ids);
    sp_constraint_close(c);
    sp_grammar_close(g);
    return n_compared;
}

/* tests/oracle/mask_cases.py: grammars, and values of schemas, that are read alike. */
static void golden_masks(void **state)
{
    size_t size, n_compared = 0;
    char *json = read_file(TESTDATA "/tiny/target/tokenizer.json", &size);
    char *text = read_file(TESTDATA "/grammars/masks.jsonl", &size), *next = text, *line;
    struct sp_token_trie *trie = NULL;
    struct tokenizer_case t;

    (void)state;
    assert_non_null(json);
    assert_non_null(text);
    tokenizer_case_open(&t, json, strlen(json), NULL);
    assert_int_equal(sp_token_trie_open(&trie, t.tok, NULL), SP_OK);
    while ((line = next_line(&next))) {
        struct sp_json *parsed = NULL;
        assert_int_equal(sp_json_parse(&parsed, line, strlen(line), SP_JSON_STRICT, NULL), SP_OK);
        n_compared += compare_golden(parsed, trie);
        sp_json_free(parsed);
    }
    assert_true(n_compared >= 80);
    sp_token_trie_close(trie);
    tokenizer_case_close(&t);
    free(json);
    free(text);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static const char person[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"age\":{"
    "\"type\":\"integer\",\"minimum\":0,\"maximum\":120},\"kind\":{\"enum\":[\"owl\",\"fox\"]},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"maxItems\":3}},\"required\":["
    "\"name\",\"age\",\"kind\"]}";
static const char list[] = "root ::= (\"- \" [a-z]{2,6} (\" \" [a-z]+){0,2} \"\\n\"){3}";

struct asked {
    const struct sp_grammar *grammar;
    int draft_len; /* or PLAIN */
    const struct sp_sampling *sampling;
};

static struct sp_result ask(struct sp_session *session, const struct asked *a)
{
    static const uint32_t prompt[] = {402, 258, 275, 350, 21, 60, 61, 402, 258, 275};
    struct sp_request request = {
        .size = sizeof request,
        .prompt = prompt,
        .n_prompt = sizeof prompt / sizeof *prompt,
        .max_tokens = 48,
        .no_draft = a->draft_len == PLAIN,
        .draft_len = a->draft_len == PLAIN ? 0 : a->draft_len,
        .digest = true,
        .sampling = a->sampling,
        .grammar = a->grammar,
    };
    struct sp_result result = SP_RESULT_INIT;
    struct sp_err err = {0};

    if (sp_session_generate(session, &request, &result, &err)) fail_msg("%s", err.text);
    return result;
}

/* Ended by itself: a text of the grammar; by its length: the beginning of one. */
static void assert_holds(const struct sp_grammar *g, const struct sp_result *r)
{
    struct sp_grammar_matcher *a = NULL;
    uint32_t state = SP_STATE_START;

    assert_int_equal(sp_grammar_matcher_open(&a, g, NULL), SP_OK);
    assert_int_equal(sp_grammar_matcher_read(a, &state, r->text, r->text_size, NULL), SP_OK);
    assert_int_not_equal(state, SP_STATE_DEAD);
    if (r->stop == SP_STOP_EOS)
        assert_true(sp_grammar_matcher_may_end(a, state));
    else
        assert_int_equal(r->stop, SP_STOP_LENGTH);
    sp_grammar_matcher_close(a);
}

/* One way to sample, with and without drafting; returns how many draft tokens were right. */
static size_t check_answers(const char *path, enum sp_draft_by by, const struct sp_grammar *g,
                            const struct sp_sampling *sampling)
{
    struct sp_session_options options = {.size = sizeof options, .no_draft = true};
    struct generate_fixture o = generate_open(path, "scalar", 1, &options);
    struct sp_result plain = ask(o.session, &(struct asked){g, PLAIN, sampling});
    size_t n_right = 0;

    assert_holds(g, &plain);
    generate_close(&o);
    options =
        (struct sp_session_options){.size = sizeof(struct sp_session_options), .draft_by = by};
    o = generate_open(path, NULL, 2, &options);
    for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= 7; draft_len += 4) { /* auto, 3, 7 */
        struct sp_result r = ask(o.session, &(struct asked){g, draft_len, sampling});
        if (sampling && sampling->accept == SP_ACCEPT_REJECTION)
            assert_holds(g, &r);
        else
            generate_assert_same(&r, &plain);
        n_right += r.accepted;
        sp_result_release(&r);
    }
    generate_close(&o);
    sp_result_release(&plain);
    return n_right;
}

static void answers(void **state)
{
    const char *const files[] = {
        packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8),
        packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q8),
        packed_file(packed_modelfile(TESTDATA "/tiny/target", NULL), SP_Q4, SP_DTYPE_NONE),
    };
    struct sp_grammar *grammars[2] = {NULL};
    struct sp_sampling sampled = SP_SAMPLING_INIT, coupled = SP_SAMPLING_INIT,
                       rejected = SP_SAMPLING_INIT;

    (void)state;
    sampled.seed = 11;
    sampled.repeat_penalty = 1.3f; /* greedy, but not the largest logit */
    coupled = sampled;
    coupled.temperature = 1.5f;
    coupled.top_k = 40;
    rejected = coupled;
    rejected.accept = SP_ACCEPT_REJECTION;
    assert_int_equal(sp_grammar_of_schema(&grammars[0], person, strlen(person), NULL), SP_OK);
    assert_int_equal(sp_grammar_of_gbnf(&grammars[1], list, strlen(list), NULL), SP_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t n_right = 0;
        for (size_t k = 0; k < 2; k++) {
            n_right += check_answers(files[i], SP_DRAFT_BY_BOTH, grammars[k], NULL);
            n_right += check_answers(files[i], SP_DRAFT_BY_DEFAULT, grammars[k], &sampled);
            n_right += check_answers(files[i], SP_DRAFT_BY_BOTH, grammars[k], &coupled);
            n_right += check_answers(files[i], SP_DRAFT_BY_DEFAULT, grammars[k], &rejected);
        }
        assert_true(n_right > 0);
    }
    sp_grammar_close(grammars[0]);
    sp_grammar_close(grammars[1]);
}

/* What a grammar leaves no choice about is guessed, and nearly always right: a round brings several
 * tokens of it. */
static void guesses(void **state)
{
    static const char text[] = "\"Once upon a time there was an owl\"";
    static const char schema[] = "{\"const\":\"Once upon a time there was an owl\"}";
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NGRAM};
    struct generate_fixture o = generate_open(path, NULL, 1, &options);
    struct sp_grammar *g = NULL;

    (void)state;
    assert_int_equal(sp_grammar_of_schema(&g, schema, strlen(schema), NULL), SP_OK);
    for (int draft_len = 0; draft_len <= 15; draft_len += 5) {
        struct sp_result r = ask(o.session, &(struct asked){g, draft_len, NULL});
        assert_string_equal(r.text, text);
        assert_int_equal(r.stop, SP_STOP_EOS);
        assert_int_equal(r.grammar_drafted > 0, draft_len > 0);
        assert_true(r.grammar_accepted * 10 >= r.grammar_drafted * 7);
        assert_true(draft_len < 5 || r.n_rounds * 2 < r.n_ids);
        sp_result_release(&r);
    }
    sp_grammar_close(g);
    generate_close(&o);
}

/* What cannot be asked for together, and a grammar of what no token spells. */
static void refusals(void **state)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct generate_fixture o = generate_open(path, NULL, 1, &options);
    struct sp_simulation simulation = {.acceptance = .5};
    struct sp_grammar *g = NULL;
    uint32_t prompt[] = {402};
    struct sp_request request = {
        .size = sizeof request, .prompt = prompt, .n_prompt = 1, .ignore_eos = true};
    struct sp_result result = SP_RESULT_INIT;
    struct sp_err err = {0};

    (void)state;
    assert_int_equal(sp_grammar_of_json(&g, NULL), SP_OK);
    request.grammar = g;
    assert_int_equal(sp_session_generate(o.session, &request, &result, &err), SP_E_USAGE);
    assert_string_equal(err.text, "ignore_eos cannot be combined with a grammar");
    request.ignore_eos = false;
    request.simulation = &simulation;
    err = (struct sp_err){0};
    assert_int_equal(sp_session_generate(o.session, &request, &result, &err), SP_E_USAGE);
    assert_string_equal(err.text, "acceptance is not simulated in a grammar");
    sp_grammar_close(g);
    generate_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks),
        cmocka_unit_test(memory_is_for_one_question),
        cmocka_unit_test(work_is_for_one_question),
        cmocka_unit_test(whitespace_keeps_its_style),
        cmocka_unit_test(the_best_token_is_checked),
        cmocka_unit_test(golden_masks),
        cmocka_unit_test(answers),
        cmocka_unit_test(guesses),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, packed_setup, packed_teardown);
}
