/* Tests the limit of reasoning: at the limit the tokens of the closing tag follow, and the answer
 * goes on as after a prompt that has them, with any draft and next to other sessions. */
#include "format/base/mem.h"
#include "runtime/chat/chat_grammar.h"
#include "runtime/session/session.h"
#include "tests/support/generate_checks.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"

#include <pthread.h>

/* Tokens of testdata/tiny's tokenizer, as its tokenizer.json numbers them. */
enum { END_OF_TEXT = 1596, MASK = 1599 };
enum { N_PREDICT = 40, MOST_IDS = 128 };

static const uint32_t story[] = {402, 258, 275, 350, 21, 60, 61, 402, 258, 275};
enum { N_STORY = sizeof story / sizeof *story };

static const char *tiny(void)
{
    return packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
}

struct ids {
    uint32_t at[MOST_IDS];
    size_t n;
};

static void add(struct ids *to, const uint32_t *ids, size_t n)
{
    assert_true(to->n + n <= MOST_IDS);
    memcpy(to->at + to->n, ids, n * sizeof *ids);
    to->n += n;
}

static void add_text(struct ids *to, const struct sp_package *package, const char *text)
{
    uint32_t *ids = NULL;
    size_t n = 0;

    assert_ok(sp_tokenizer_encode(sp_package_tokenizer(package), text, strlen(text),
                                  SP_ENCODE_PARSE_SPECIAL, &ids, &n, NULL));
    add(to, ids, n);
    free(ids);
}

static struct sp_result generate(struct sp_session *session, const struct ids *prompt,
                                 size_t max_tokens, int draft_len,
                                 const struct sp_sampling *sampling,
                                 const struct sp_reasoning_limit *limit)
{
    const struct sp_request request = {ANSWER_TO(prompt->at, prompt->n, max_tokens),
                                       .ignore_eos = true,
                                       .draft_len = draft_len == PLAIN ? 0 : draft_len,
                                       .digest = true,
                                       .sampling = sampling,
                                       .reasoning_limit = limit};

    return keep_answer(session, &request);
}

/* The expected answer: the first n ids of an answer without limit, the closing tag, and the answer
 * to a prompt with all of these. */
static void expect(struct ids *out, struct sp_session *session, const struct sp_sampling *sampling,
                   size_t n, const char *close)
{
    struct ids prompt = {.n = 0};
    struct sp_result r;

    add(&prompt, story, N_STORY);
    r = generate(session, &prompt, n ? n : 1, PLAIN, sampling, NULL);
    add(&prompt, r.ids, n);
    add_text(&prompt, session->package, close);
    r = generate(session, &prompt, N_STORY + N_PREDICT - prompt.n, PLAIN, sampling, NULL);
    add(&prompt, r.ids, r.n_ids);
    out->n = 0;
    add(out, prompt.at + N_STORY, prompt.n - N_STORY);
}

static void assert_ids(const struct sp_result *r, const struct ids *expected)
{
    assert_int_equal(r->n_ids, expected->n);
    assert_memory_equal(r->ids, expected->at, expected->n * sizeof *r->ids);
}

/* Compares a limited answer, plain and drafted, with the expected one. */
static void check(const struct generate_fixture *plain_one, const struct generate_fixture *o,
                  const struct sp_sampling *sampling, const struct sp_reasoning_limit *limit,
                  size_t n_before)
{
    struct ids prompt = {.n = 0}, expected;
    struct sp_result plain;

    add(&prompt, story, N_STORY);
    expect(&expected, plain_one->session, sampling, n_before + limit->max_tokens, limit->close);
    plain = generate(plain_one->session, &prompt, N_PREDICT, PLAIN, sampling, limit);
    assert_ids(&plain, &expected);
    for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= 7; draft_len += 4) {
        struct sp_result r = generate(o->session, &prompt, N_PREDICT, draft_len, sampling, limit);
        generate_assert_same(&r, &plain);
    }
}

TEST(goes_on_after_the_tag)
{
    static const char *const closes[] = {"<|mask|>", "</think>"};
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture plain_one = generate_open(tiny(), generate_reference, 1, &options), o;
    struct sp_sampling sampled = SP_SAMPLING_INIT;

    sampled.temperature = 1.2f;
    sampled.repeat_penalty = 1.1f;
    sampled.seed = 5;
    options.draft_by = SP_DRAFT_BY_BOTH;
    o = generate_open(tiny(), NULL, 2, &options);
    for (size_t i = 0; i < sizeof closes / sizeof *closes; i++) {
        for (size_t n = 0; n < 20; n += n ? 10 : 1) {
            const struct sp_reasoning_limit limit = {.size = sizeof limit,
                                                     .max_tokens = n,
                                                     .open = "<think>",
                                                     .close = closes[i],
                                                     .is_open = true};
            check(&plain_one, &o, NULL, &limit, 0);
            check(&plain_one, &o, &sampled, &limit, 0);
        }
    }
}

/* The model opens the reasoning itself, with the first token of its answer as the tag. */
TEST(counts_from_the_opening_tag)
{
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture plain_one = generate_open(tiny(), NULL, 1, &options), o;
    struct sp_reasoning_limit limit = {
        .size = sizeof limit, .max_tokens = 6, .close = "<|mask|>", .is_open = false};
    struct ids prompt = {.n = 0};
    struct sp_result first;

    add(&prompt, story, N_STORY);
    first = generate(plain_one.session, &prompt, 1, PLAIN, NULL, NULL);
    limit.open = first.text + strspn(first.text, " \n");
    assert_true(*limit.open != '\0');
    options.draft_by = SP_DRAFT_BY_DEFAULT;
    o = generate_open(tiny(), NULL, 2, &options);
    check(&plain_one, &o, NULL, &limit, 1);
    /* An answer that begins otherwise has no reasoning. */
    limit.open = "<|mask|>";
    limit.close = "</think>";
    for (int draft_len = 0; draft_len <= 4; draft_len += 4) {
        struct sp_result r = generate(o.session, &prompt, N_PREDICT, draft_len, NULL, &limit);
        struct sp_result unlimited =
            generate(plain_one.session, &prompt, N_PREDICT, PLAIN, NULL, NULL);
        generate_assert_same(&r, &unlimited);
    }
}

/* ---- several rows ---- */

struct row {
    struct sp_session *session;
    struct sp_reasoning_limit limit;
    struct sp_result result;
};

static void *run_row(void *context)
{
    struct row *row = context;
    struct ids prompt = {.n = 0};

    add(&prompt, story, N_STORY);
    row->result =
        generate(row->session, &prompt, N_PREDICT, SP_DRAFT_LENGTH_AUTO, NULL, &row->limit);
    return NULL;
}

TEST(rows_have_limits_of_their_own)
{
    enum { N = 3 };
    struct sp_session_options options = {.size = sizeof options, .max_batch = N};
    struct generate_fixture o = generate_open(tiny(), NULL, 2, &options);
    struct row rows[N] = {{.session = o.session}};
    pthread_t threads[N];
    struct ids expected;

    for (size_t i = 0; i < N; i++) {
        rows[i].limit = (struct sp_reasoning_limit){.size = sizeof rows[i].limit,
                                                    .max_tokens = 4 * i + 1,
                                                    .open = "",
                                                    .close = i ? "<|mask|>" : "</think>",
                                                    .is_open = true};
        if (i > 0) rows[i].session = keep_shared_session(o.session);
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_row, &rows[i]), 0);
    for (size_t i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < N; i++) {
        expect(&expected, o.session, NULL, rows[i].limit.max_tokens, rows[i].limit.close);
        assert_ids(&rows[i].result, &expected);
    }
}

/* ---- with a grammar ---- */

TEST(calls_follow_limited_reasoning)
{
    static const struct sp_chat_format format = {
        .reasoning_close = "<|mask|>",
        .calls = {.style = SP_TOOL_CALL_OBJECT, .name_key = "name", .arguments_key = "arguments"},
    };
    static const char tools_text[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"paint\", \"parameters\": {\"type\": "
        "\"object\", \"properties\": {\"coats\": {\"type\": \"integer\"}}}}}]";
    static const uint32_t ends[] = {END_OF_TEXT};
    struct generate_fixture o = generate_open(tiny(), NULL, 2, NULL);
    struct sp_reasoning_limit limit = {
        .size = sizeof limit, .max_tokens = 7, .open = "", .close = "<|mask|>", .is_open = true};
    struct sp_chat_grammar_options g_options = {.format = &format,
                                                .tokenizer = o.package->tokenizer,
                                                .ends = ends,
                                                .n_ends = 1,
                                                .thinking = SP_REASONING_OPEN,
                                                .must_call = true,
                                                .one_call = true};
    struct sp_grammar *g = NULL;
    struct sp_result plain, drafted;
    struct sp_request request = {ANSWER_TO(story, N_STORY, 100), .digest = true,
                                 .reasoning_limit = &limit};

    g_options.tools = keep_parsed(tools_text, strlen(tools_text), SP_JSON_STRICT);
    assert_ok(sp_chat_grammar(&g, &g_options, NULL));
    request.grammar = g;
    plain = keep_answer(o.session, &request);
    assert_int_equal(plain.ids[7], MASK);
    assert_non_null(strstr(plain.text, "\"paint\""));
    assert_int_equal(plain.stop, SP_STOP_EOS);
    request.draft_len = SP_DRAFT_LENGTH_AUTO;
    drafted = keep_answer(o.session, &request);
    generate_assert_same(&drafted, &plain);
    sp_grammar_close(g);
}

/* ---- the chooser ---- */

static enum sp_status choose_next(void *state, uint32_t *id, const struct sp_logits *logits,
                                  const uint32_t *ids, size_t pos, uint32_t draft_token,
                                  struct sp_err *err)
{
    const struct ids *script = state;

    (void)logits, (void)ids, (void)draft_token, (void)err;
    *id = pos < script->n ? script->at[pos] : MASK;
    return SP_OK;
}

/* Limits an answer that would be `script`, and returns it as a text. */
static void check_script(const char *script, const struct sp_reasoning_limit *limit,
                         const char *expected)
{
    struct sp_package *package = keep_package(tiny(), NULL);
    struct sp_reasoning_limiter_options options = {.limit = *limit,
                                                   .tokenizer = package->tokenizer};
    const struct sp_logits logits = {.n = 0};
    struct sp_reasoning_limiter *limiter = NULL;
    struct ids ids = {.n = 0}, answer = {.n = 0};
    struct sp_chooser chooser;
    char *text = NULL;
    size_t size;

    add_text(&ids, package, script);
    options.inner = (struct sp_chooser){.choose = choose_next, .state = &ids};
    assert_ok(sp_package_trie(package, &options.trie, NULL));
    assert_ok(sp_reasoning_limiter_open(&limiter, &options, NULL));
    chooser = sp_reasoning_limiter_chooser(limiter);
    for (size_t pos = 0; pos < ids.n; pos++) {
        assert_ok(chooser.choose(chooser.state, &answer.at[pos], &logits, answer.at, pos,
                                 SP_NO_DRAFT_TOKEN, NULL));
    }
    assert_ok(sp_tokenizer_decode(sp_package_tokenizer(package), answer.at, ids.n, false, &text,
                                  &size, NULL));
    assert_string_equal(text, expected);
    free(text);
    sp_reasoning_limiter_close(limiter);
}

TEST(keeps_characters_whole)
{
    const struct sp_reasoning_limit limit = {
        .size = sizeof limit, .max_tokens = 1, .open = "", .close = "<|mask|>", .is_open = true};

    check_script("\xF0\x9F\xA6\x89!!", &limit, "\xF0\x9F\xA6\x89<|mask|>!");
}

/* Reasoning that follows reasoning counts as well; tags in the content do not. */
TEST(counts_all_reasoning)
{
    struct sp_reasoning_limit limit = {.size = sizeof limit,
                                       .max_tokens = 2,
                                       .open = "<|im_start|>",
                                       .close = "<|mask|>",
                                       .is_open = false};

    check_script("\n<|im_start|>!<|mask|>\n<|im_start|>!!!!", &limit,
                 "\n<|im_start|>!<|mask|>\n<|im_start|>!<|mask|>!!");
    check_script("#<|im_start|>!!!!!", &limit, "#<|im_start|>!!!!!");
    /* The model closes the reasoning in time. */
    check_script("<|im_start|>!<|mask|>!!!!", &limit, "<|im_start|>!<|mask|>!!!!");
}

/* The model has begun to write the tag where the limit is reached. */
TEST(completes_a_tag)
{
    const struct sp_reasoning_limit limit = {
        .size = sizeof limit, .max_tokens = 3, .open = "", .close = "!!!!", .is_open = true};
    struct sp_package *package = keep_package(tiny(), NULL);
    struct ids tag = {.n = 0}, one = {.n = 0};

    add_text(&tag, package, "!!!!");
    add_text(&one, package, "!");
    assert_true(one.n == 1 && tag.n == 4 && tag.at[0] == one.at[0]);
    check_script("#!!#####", &limit, "#!!!!###");
    check_script("#######", &limit, "###!!!!");
}

GROUP_FIXTURE(packed_setup, packed_teardown);
