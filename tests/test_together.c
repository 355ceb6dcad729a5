/* Several sessions of a package that generate at the same time, in passes that they share: what
 * each of them makes is, to the bit, what it makes alone. */
#include "tests/generating.h"
#include "tests/golden.h"
#include "tests/packed.h"

#include "runtime/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CLIENTS = 4, N_TURNS = 3, N_CONTEXT = 256, MOST_TOKENS = 26 };

/* One thread's conversation: each prompt is the last one, its answer, and something new. */
struct client {
    struct sp_session *session;
    struct sp_result results[N_TURNS];
    uint32_t ids[N_CONTEXT];
    size_t n_ids;
    uint32_t seed;
    bool failed;
};

static void add_ids(struct client *c, size_t n)
{
    size_t n_vocab = c->session->package->target->config.n_vocab;

    for (size_t i = 0; i < n; i++) {
        c->seed = c->seed * 1664525u + 1013904223u;
        c->ids[c->n_ids++] = (c->seed >> 8) % (uint32_t)n_vocab;
    }
}

static int depth_of(size_t which, size_t turn)
{
    static const int depths[] = {SP_DEPTH_AUTO, 3, PLAIN, 15};

    return depths[(which + turn) % (sizeof depths / sizeof *depths)];
}

/* Clients differ in the length of what they say, in how they draft, and in how they choose; the
 * last one begins another conversation while the others are in the middle of theirs. */
static enum sp_status answer(struct client *c, size_t which, size_t turn)
{
    int depth = depth_of(which, turn);
    struct sp_sampling sampling;
    struct sp_request q = {
        .prompt = c->ids,
        .max_tokens = MOST_TOKENS - 5 * which,
        .ignore_eos = true,
        .plain = depth == PLAIN,
        .depth = depth == PLAIN ? 0 : depth,
        .digest = true,
        .measure = which == 1,
    };
    enum sp_status st;

    if (which == N_CLIENTS - 1 && turn == 1) c->n_ids = 0;
    add_ids(c, 3 + 17 * ((which + 2 * turn) % N_CLIENTS));
    q.n_prompt = c->n_ids;
    if (which % 2 == 1) {
        sp_sampling_defaults(&sampling);
        sampling.temperature = 0.8f;
        sampling.top_k = 20;
        sampling.seed = which;
        q.sampling = &sampling;
    }
    if ((st = sp_session_generate(c->session, &q, &c->results[turn], NULL))) return st;
    memcpy(c->ids + c->n_ids, c->results[turn].ids, c->results[turn].n_ids * sizeof *c->ids);
    c->n_ids += c->results[turn].n_ids;
    return SP_OK;
}

struct work {
    struct client *client;
    size_t which;
};

static void *converse(void *context)
{
    struct work *w = context;

    for (size_t turn = 0; turn < N_TURNS && !w->client->failed; turn++)
        w->client->failed = answer(w->client, w->which, turn) != SP_OK;
    return NULL;
}

static void begin(struct client *c, size_t which, struct sp_session *session)
{
    *c = (struct client){.session = session, .seed = (uint32_t)which};
}

static void end(struct client *c)
{
    for (size_t turn = 0; turn < N_TURNS; turn++)
        sp_result_release(&c->results[turn]);
}

/* All at once: nobody begins before everybody is in. */
static void converse_together(struct client *clients, struct sp_turns *turns)
{
    pthread_t threads[N_CLIENTS];
    struct work work[N_CLIENTS];

    sp_turns_enter(turns);
    for (size_t i = 0; i < N_CLIENTS; i++) {
        work[i] = (struct work){&clients[i], i};
        assert_int_equal(pthread_create(&threads[i], NULL, converse, &work[i]), 0);
    }
    while (sp_turns_n_in(turns) <= N_CLIENTS)
        continue;
    sp_turns_leave(turns);
    for (size_t i = 0; i < N_CLIENTS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* What was guessed too, where it does not hang on the time that it took. */
static void same(const struct sp_result *a, const struct sp_result *b, int depth)
{
    generating_same(a, b);
    if (depth == SP_DEPTH_AUTO) return;
    assert_int_equal(a->drafted, b->drafted);
    assert_int_equal(a->accepted, b->accepted);
}

/* Ministral 3: queries grow with their own positions. No checkpoint here does. */
static void grow_queries(struct sp_package *package)
{
    package->target->config.query_growth = 0.5;
    package->target->config.query_growth_from = 8;
}

static void check_with(const char *path, const char *kernels, unsigned n_threads,
                       const struct sp_session_options *options, bool grows)
{
    struct generating g = generating_open(path, kernels, n_threads, options);
    struct client clients[N_CLIENTS], alone;
    size_t n_shared = 0;

    if (grows) grow_queries(g.package);
    begin(&clients[0], 0, g.session);
    for (size_t i = 1; i < N_CLIENTS; i++) {
        struct sp_session *like;
        assert_int_equal(sp_session_open_like(&like, g.session, NULL), SP_OK);
        begin(&clients[i], i, like);
    }
    converse_together(clients, g.package->turns);
    for (size_t i = 0; i < N_CLIENTS; i++) {
        struct generating own = generating_open(path, NULL, 1, options);
        if (grows) grow_queries(own.package);
        begin(&alone, i, own.session);
        converse(&(struct work){&alone, i});
        assert_false(clients[i].failed || alone.failed);
        for (size_t turn = 0; turn < N_TURNS; turn++) {
            n_shared += clients[i].results[turn].n_shared;
            assert_int_equal(alone.results[turn].n_shared, 0);
            same(&clients[i].results[turn], &alone.results[turn], depth_of(i, turn));
        }
        assert_int_equal(
            sp_decoder_digest(clients[i].session->speculator->decoder,
                              clients[i].session->speculator->n_cached),
            sp_decoder_digest(own.session->speculator->decoder, own.session->speculator->n_cached));
        end(&alone);
        generating_close(&own);
        end(&clients[i]);
        if (i > 0) sp_session_close(clients[i].session);
    }
    assert_true(n_shared > 0);
    generating_close(&g);
}

static void check(const char *path, const char *kernels, unsigned n_threads,
                  enum sp_cache_type cache)
{
    check_with(path, kernels, n_threads,
               &(struct sp_session_options){
                   .n_context = N_CONTEXT, .cache = cache, .n_together = N_CLIENTS},
               false);
}

static const char *family(const char *name)
{
    char folder[400];

    snprintf(folder, sizeof folder, TESTDATA "/families/%s", name);
    return packed_file(packed_modelfile(folder, NULL), SP_Q8, SP_DTYPE_NONE);
}

static void attention(void **state)
{
    (void)state;
    check(family("olmo2"), NULL, 2, SP_CACHE_F16);
    check(family("cohere2"), NULL, 1, SP_CACHE_F32);
    check(family("gemma4_silu"), "scalar", 2, SP_CACHE_F32);
}

static void growing_queries(void **state)
{
    const struct sp_session_options options = {.n_context = N_CONTEXT, .n_together = N_CLIENTS};

    (void)state;
    check_with(family("olmo2"), NULL, 1, &options, true);
}

static void experts(void **state)
{
    (void)state;
    check(family("mixtral"), NULL, 2, SP_CACHE_F16);
    check(family("glm4_moe"), NULL, 1, SP_CACHE_F16);
}

static void states(void **state)
{
    (void)state;
    check(family("qwen3_next"), NULL, 2, SP_CACHE_F16);
    check(family("falcon_h1"), NULL, 2, SP_CACHE_F16);
    check(family("granite4_h_moe"), NULL, 1, SP_CACHE_F16);
    check(family("lfm2_moe"), NULL, 2, SP_CACHE_F16);
    check(family("mamba2"), "scalar", 1, SP_CACHE_F16);
}

static void drafts(void **state)
{
    static const char *const names[] = {"dflash2", "dspark", "peagle_sliding"};
    char folder[400];

    (void)state;
    check(packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q4), NULL, 2, SP_CACHE_Q8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(folder, sizeof folder, TESTDATA "/speculators/%s", names[i]);
        check(packed_file(packed_modelfile(TESTDATA "/speculators/target", folder), SP_Q8, SP_Q4),
              NULL, 1 + i % 2, SP_CACHE_F16);
    }
}

/* The logits of all do not fit in one pass, nor, where prompts are read in smaller steps, their
 * rows. */
static void little_room(void **state)
{
    struct sp_session_options options = {.n_context = N_CONTEXT, .n_together = 1};

    (void)state;
    check_with(packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q4), NULL, 2, &options, false);
    options.rows_per_pass = 16;
    check_with(family("qwen3_next"), NULL, 1, &options, false);
}

/* Logits of given tokens, timings and trials take their turn between the passes of others. */
struct asking {
    struct sp_session *session;
    uint64_t sum;
    bool failed;
};

static int add_logits(void *context, size_t row, const float *logits, size_t n)
{
    struct asking *a = context;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        a->sum = a->sum * 31 + bits + row;
    }
    return 0;
}

static void *ask_logits(void *context)
{
    struct asking *a = context;
    uint32_t ids[40];

    for (size_t i = 0; i < 40; i++)
        ids[i] = (uint32_t)i * 5;
    a->failed = sp_session_logits(a->session, ids, 40, add_logits, a, NULL) ||
                sp_session_draft_logits(a->session, ids, 40, 0, add_logits, a, NULL);
    return NULL;
}

static void logits_between(void **state)
{
    struct sp_session_options options = {.n_context = N_CONTEXT, .n_together = 2};
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct generating g = generating_open(path, NULL, 2, &options);
    struct asking alone = {.session = g.session}, beside = {0};
    struct client client, wanted;
    pthread_t thread;

    (void)state;
    ask_logits(&alone);
    assert_int_equal(sp_session_open_like(&beside.session, g.session, NULL), SP_OK);
    begin(&client, 0, g.session);
    assert_int_equal(pthread_create(&thread, NULL, ask_logits, &beside), 0);
    converse(&(struct work){&client, 0});
    assert_int_equal(pthread_join(thread, NULL), 0);
    begin(&wanted, 0, beside.session);
    converse(&(struct work){&wanted, 0});
    assert_false(alone.failed || beside.failed || client.failed || wanted.failed);
    assert_int_equal(alone.sum, beside.sum);
    for (size_t turn = 0; turn < N_TURNS; turn++)
        generating_same(&client.results[turn], &wanted.results[turn]);
    end(&client);
    end(&wanted);
    sp_session_close(beside.session);
    generating_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),      cmocka_unit_test(growing_queries),
        cmocka_unit_test(experts),        cmocka_unit_test(states),
        cmocka_unit_test(drafts),         cmocka_unit_test(little_room),
        cmocka_unit_test(logits_between),
    };

    return cmocka_run_group_tests(tests, packed_begin, packed_end);
}
