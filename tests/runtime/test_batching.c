/* Tests sessions of one package that generate at the same time in shared passes: the output of
 * each is bit for bit what it generates alone. */
#include "tests/support/cache_digest.h"
#include "tests/support/handmade_models.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { N_CLIENTS = 4, N_TURNS = 3, N_CONTEXT = 256, MOST_TOKENS = 26 };

/* The conversation of one thread: each prompt is the last prompt, its response and new text. */
struct client {
    struct sp_session *session;
    struct sp_result results[N_TURNS];
    uint32_t ids[N_CONTEXT];
    size_t n_ids;
    uint32_t seed;
    size_t which; /* index of the client, which selects its settings */
    size_t n_turns;
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

static int draft_length_of(size_t which, size_t turn)
{
    static const int draft_lengths[] = {SP_DRAFT_LENGTH_AUTO, 3, PLAIN, 15};

    return draft_lengths[(which + turn) % (sizeof draft_lengths / sizeof *draft_lengths)];
}

static int cancel_later(void *context, const struct sp_token *token)
{
    size_t *left = context;

    (void)token;
    return --*left == 0;
}

/* Generates one response. The clients differ in the length of their responses, their draft lengths
 * and their sampling. Client 2 cancels a response early, and the last client starts a new
 * conversation while the others continue theirs. */
static enum sp_status answer(struct client *c, size_t turn)
{
    size_t which = c->which;
    int draft_len = draft_length_of(which, turn);
    size_t n_before_cancel = 7;
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request q = {
        .size = sizeof q,
        .prompt = c->ids,
        .max_tokens = MOST_TOKENS - 5 * which,
        .ignore_eos = true,
        .draft_len = draft_len == PLAIN ? 0 : draft_len,
        .digest = true,
        .measure = which == 1,
        .token = which == 2 && turn == 1 ? cancel_later : NULL,
        .context = &n_before_cancel,
    };
    enum sp_status st;

    if (which == N_CLIENTS - 1 && turn == 1) c->n_ids = 0;
    add_ids(c, 3 + 17 * ((which + 2 * turn) % N_CLIENTS));
    q.n_prompt = c->n_ids;
    if (which % 2 == 1) {
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

static void *converse(void *context)
{
    struct client *c = context;

    for (size_t turn = 0; turn < c->n_turns && !c->failed; turn++)
        c->failed = answer(c, turn) != SP_OK;
    return NULL;
}

static void begin(struct client *c, size_t which, struct sp_session *session)
{
    *c = (struct client){
        .session = session, .seed = (uint32_t)which, .which = which, .n_turns = N_TURNS};
    for (size_t turn = 0; turn < N_TURNS; turn++)
        c->results[turn] = (struct sp_result)SP_RESULT_INIT;
}

static void end(struct client *c)
{
    for (size_t turn = 0; turn < N_TURNS; turn++)
        sp_result_release(&c->results[turn]);
}

/* Runs all clients at the same time. No client begins before all of them are active. */
static void converse_together(struct client *clients, size_t n, struct sp_scheduler *scheduler)
{
    pthread_t threads[N_CLIENTS];

    sp_scheduler_acquire(scheduler);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, converse, &clients[i]), 0);
    while (sp_scheduler_n_active(scheduler) <= n)
        continue;
    sp_scheduler_release(scheduler);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Compares two responses. Their draft tokens must be equal too, unless the draft length depends on
 * timings. */
static void assert_same_response(const struct sp_result *a, const struct sp_result *b,
                                 int draft_len)
{
    generate_assert_same(a, b);
    if (draft_len == SP_DRAFT_LENGTH_AUTO) return;
    assert_int_equal(a->drafted, b->drafted);
    assert_int_equal(a->accepted, b->accepted);
}

/* Scales queries with their positions as Ministral 3 does; no test checkpoint does. */
static void scale_queries(struct sp_package *package)
{
    package->target->config.query_growth.beta = 0.5;
    package->target->config.query_growth.from = 8;
}

static void check_with(const char *path, const char *kernels, unsigned n_threads,
                       const struct sp_session_options *options, bool scales_queries)
{
    struct generate_fixture g = generate_open(path, kernels, n_threads, options);
    struct client clients[N_CLIENTS], alone;
    size_t n_shared = 0;

    if (scales_queries) scale_queries(g.package);
    begin(&clients[0], 0, g.session);
    for (size_t i = 1; i < N_CLIENTS; i++)
        begin(&clients[i], i, keep_shared_session(g.session));
    converse_together(clients, N_CLIENTS, g.package->scheduler);
    for (size_t i = 0; i < N_CLIENTS; i++) {
        struct generate_fixture reference = generate_open(path, NULL, 1, options);
        if (scales_queries) scale_queries(reference.package);
        begin(&alone, i, reference.session);
        converse(&alone);
        assert_false(clients[i].failed || alone.failed);
        for (size_t turn = 0; turn < N_TURNS; turn++) {
            n_shared += clients[i].results[turn].n_shared;
            assert_int_equal(alone.results[turn].n_shared, 0);
            assert_same_response(&clients[i].results[turn], &alone.results[turn],
                                 draft_length_of(i, turn));
        }
        assert_int_equal(decoder_digest(clients[i].session->speculator->decoder,
                                        clients[i].session->speculator->n_cached),
                         decoder_digest(reference.session->speculator->decoder,
                                        reference.session->speculator->n_cached));
        end(&alone);
        end(&clients[i]);
    }
    assert_true(n_shared > 0);
}

static void check(const char *path, const char *kernels, unsigned n_threads,
                  enum sp_cache_type cache)
{
    check_with(path, kernels, n_threads,
               &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                            .n_context = N_CONTEXT,
                                            .cache = cache,
                                            .max_batch = N_CLIENTS},
               false);
}

static const char *family(const char *name)
{
    return packed_family(name, SP_Q8);
}

TEST(attention)
{
    check(family("olmo2"), NULL, 2, SP_CACHE_F16);
    check(family("cohere2"), NULL, 1, SP_CACHE_F32);
    check(family("gemma4_silu"), "scalar", 2, SP_CACHE_F32);
}

TEST(queries_scaled_by_position)
{
    const struct sp_session_options options = {
        .size = sizeof options, .n_context = N_CONTEXT, .max_batch = N_CLIENTS};

    check_with(family("olmo2"), NULL, 1, &options, true);
}

TEST(experts)
{
    check(family("mixtral"), NULL, 2, SP_CACHE_F16);
    check(family("glm4_moe"), NULL, 1, SP_CACHE_F16);
}

TEST(latents)
{
    check(family("glm4_moe_lite"), NULL, 2, SP_CACHE_Q8_Q4);
    check(family("deepseek_v2"), NULL, 1, SP_CACHE_F16);
    check(family("youtu"), "scalar", 2, SP_CACHE_F32);
}

TEST(states)
{
    check(family("qwen3_next"), NULL, 2, SP_CACHE_F16);
    check(family("falcon_h1"), NULL, 2, SP_CACHE_F16);
    check(family("granite4_h_moe"), NULL, 1, SP_CACHE_F16);
    check(family("lfm2_moe"), NULL, 2, SP_CACHE_F16);
    check(family("zaya"), NULL, 2, SP_CACHE_F16);
    check(family("mamba2"), "scalar", 1, SP_CACHE_F16);
}

TEST(drafts)
{
    static const char *const names[] = {"dflash2", "dspark", "peagle_sliding"};

    check(packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q4), NULL, 2, SP_CACHE_Q8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(packed_speculator(names[i], SP_Q8, SP_Q4), NULL, 1 + i % 2, SP_CACHE_F16);
}

static const char *self_drafted_family(const char *name)
{
    const char *folder = keep_format(TESTDATA "/families/%s", name);
    return packed_file(packed_modelfile(folder, folder), SP_Q8, SP_Q4);
}

/* An autoregressive draft needs one pass per draft token. A recurrent draft also repeats the tokens
 * of its last proposal in every pass. */
TEST(autoregressive_drafts)
{
    check(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q4), NULL, 2, SP_CACHE_F16);
    check(self_drafted_family("olmo3"), NULL, 1, SP_CACHE_F32);
    check(self_drafted_family("falcon_h1"), NULL, 2, SP_CACHE_F16);
}

static const char *eagle3(float mixing, bool copies)
{
    struct handmade_options how = {.mixing = mixing, .copies = copies};

    return packed_handmade_eagle3(&how, SP_Q8, SP_Q8);
}

/* Drafts that read pairs of a token and a hidden state: EAGLE-3 heads. The families glm4_moe and
 * qwen3_next have built-in heads of this kind. */
TEST(eagle3_drafts)
{
    check(eagle3(0.4f, false), NULL, 2, SP_CACHE_F16);
    check(eagle3(0.01f, true), NULL, 1, SP_CACHE_F32);
}

TEST(assistants)
{
    static const char *const names[] = {"assistant_dense", "assistant_centroids"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *modelfile = keep_format(SHARED "/oracle/drafts/%s/Modelfile", names[i]);
        if (!golden_exists(modelfile)) skip();
        check(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE), NULL, 2, SP_CACHE_F16);
    }
}

/* Two sessions with equal prompts draft in the same passes, and each is charged half the cost. */
TEST(equal_prompts_share_draft_passes)
{
    const struct sp_session_options options = {
        .size = sizeof options, .n_context = N_CONTEXT, .max_batch = 2};
    const char *path = packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q4);
    struct generate_fixture g = generate_open(path, NULL, 2, &options);
    struct client clients[2];

    begin(&clients[0], 1, g.session);
    begin(&clients[1], 1, keep_shared_session(g.session));
    clients[0].n_turns = clients[1].n_turns = 1;
    converse_together(clients, 2, g.package->scheduler);
    for (size_t i = 0; i < 2; i++) {
        const struct sp_pass_time *time = &clients[i].session->speculator->drafter->time;
        assert_false(clients[i].failed);
        assert_true(time->seconds > 0);
        assert_true(time->part * 2 == time->seconds);
        end(&clients[i]);
    }
}

/* ---- a draft that fails ---- */

static const struct sp_drafter_ops *sound_ops;
static size_t proposals_left;

static struct sp_logits fail_at_last(struct sp_drafter *drafter, uint32_t *ids, size_t n_cached,
                                     size_t i, double *confidence)
{
    struct sp_logits logits = sound_ops->next(drafter, ids, n_cached, i, confidence);

    if (i == 0 && --proposals_left == 0) logits.best = SIZE_MAX;
    return logits;
}

/* When the proposal of one session fails during the rounds of the others, only its response ends,
 * and its next response is complete. */
TEST(failing_draft)
{
    const struct sp_session_options options = {
        .size = sizeof options, .n_context = N_CONTEXT, .max_batch = 2};
    const char *path = packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q4);
    struct generate_fixture g = generate_open(path, NULL, 2, &options);
    struct generate_fixture reference = generate_open(path, NULL, 1, &options);
    struct client clients[2], alone;
    struct sp_session *shared = keep_shared_session(g.session);
    struct sp_drafter *drafter = shared->speculator->drafter;
    struct sp_drafter_ops failing = *drafter->ops;

    begin(&clients[0], 0, g.session);
    begin(&clients[1], 1, shared);
    sound_ops = drafter->ops;
    failing.next = fail_at_last;
    drafter->ops = &failing;
    proposals_left = 4;
    converse_together(clients, 2, g.package->scheduler);
    assert_true(clients[1].failed);
    drafter->ops = sound_ops;
    end(&clients[1]);
    for (size_t i = 0; i < 2; i++) {
        begin(&alone, i, reference.session);
        converse(&alone);
        if (i == 1) {
            begin(&clients[i], i, shared);
            converse(&clients[i]);
        }
        assert_false(clients[i].failed || alone.failed);
        for (size_t turn = 0; turn < N_TURNS; turn++)
            assert_same_response(&clients[i].results[turn], &alone.results[turn],
                                 draft_length_of(i, turn));
        end(&alone);
        end(&clients[i]);
    }
}

/* ---- order of the passes ---- */

enum { N_THREADS = 4 };

/* One row in a pass of the draft, if there is one, followed by one row in a pass of the target. */
struct row_request {
    struct generate_fixture *g;
    struct sp_decoder *draft, *target;
    enum sp_priority priority; /* priority of the target's pass */
    size_t *clock, at[2];      /* times at which the passes were done */
    struct sp_pass passes[2];
};

static void run_row(struct row_request *r, size_t which, struct sp_decoder *decoder,
                    const struct sp_model *model, enum sp_priority priority)
{
    static const uint32_t id = 5;
    struct sp_batch_seq seq = {.decoder = decoder,
                               .embedder = model,
                               .head = model,
                               .ids = &id,
                               .n = 1,
                               .n_committed = 1,
                               .n_logits = 1};

    sp_scheduler_run(r->g->package->scheduler, &seq, priority, &r->passes[which]);
    r->at[which] = ++*r->clock;
}

static void *run_rows(void *context)
{
    struct row_request *r = context;
    const struct sp_package *package = r->g->package;

    sp_scheduler_acquire(package->scheduler);
    if (r->draft) run_row(r, 0, r->draft, package->draft, SP_PRIORITY_DRAFT);
    run_row(r, 1, r->target, package->target, r->priority);
    sp_scheduler_release(package->scheduler);
    return NULL;
}

static struct sp_decoder *open_decoder(const struct generate_fixture *g,
                                       const struct sp_model *model,
                                       const struct sp_decoder *shared)
{
    return keep_decoder(g->package, model,
                        &(struct sp_decoder_options){.n_positions = 16,
                                                     .max_rows = 8,
                                                     .max_logit_rows = 1,
                                                     .cache_type = SP_CACHE_F32,
                                                     .max_batch = N_THREADS,
                                                     .workspace_of = shared});
}

static struct generate_fixture open_autoregressive(void)
{
    return generate_open(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_Q4, SP_Q4), NULL, 1,
                         &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                                      .n_context = N_CONTEXT});
}

/* The two oldest threads request passes of the target first, one of them exclusively. The passes of
 * the draft still run before these, so that the drafting threads join the pass of the target. */
TEST(draft_passes_run_first)
{
    struct generate_fixture g = open_autoregressive();
    struct sp_scheduler *scheduler = g.package->scheduler;
    struct row_request rows[N_THREADS] = {{0}};
    pthread_t threads[N_THREADS];
    size_t clock = 0;

    sp_scheduler_acquire(scheduler);
    for (size_t i = 0; i < N_THREADS; i++) {
        rows[i] = (struct row_request){
            .g = &g,
            .target = open_decoder(&g, g.package->target, i ? rows[0].target : NULL),
            .priority = i == 1 ? SP_PRIORITY_EXCLUSIVE : SP_PRIORITY_FIFO,
            .clock = &clock,
        };
        if (i >= 2)
            rows[i].draft = open_decoder(&g, g.package->draft, i > 2 ? rows[2].draft : NULL);
        assert_int_equal(pthread_create(&threads[i], NULL, run_rows, &rows[i]), 0);
        while (sp_scheduler_n_active(scheduler) < i + 2)
            continue;
    }
    sp_scheduler_release(scheduler);
    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 2; i < N_THREADS; i++) {
        assert_int_equal(rows[i].passes[0].n_seqs, 2);
        assert_true(rows[i].at[0] < rows[0].at[1] && rows[i].at[0] < rows[1].at[1]);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(rows[i].passes[1].n_seqs, i == 1 ? 1 : 3);
        assert_int_equal(rows[i].passes[1].n_rows, i == 1 ? 1 : 3);
    }
}

static void *acquire_once(void *scheduler)
{
    sp_scheduler_acquire(scheduler);
    sp_scheduler_release(scheduler);
    return NULL;
}

/* Beside answers, a pass has few rows of prompts: 3/4 of 44 ms are 6 rows of 5 ms. */
TEST(prompts_are_short_beside_answers)
{
    struct sp_pass pass = {.number = 1, .n_rows = 1, .n_seqs = 1, .seconds = 0.044};
    struct sp_scheduler *scheduler;
    pthread_t other;

    assert_ok(sp_scheduler_open(&scheduler, why));
    sp_scheduler_acquire(scheduler);
    sp_scheduler_learn(scheduler, &pass);
    assert_int_equal(sp_scheduler_target_rows(scheduler, 256), 256);
    assert_int_equal(pthread_create(&other, NULL, acquire_once, scheduler), 0);
    while (sp_scheduler_n_active(scheduler) < 2)
        continue;
    assert_int_equal(sp_scheduler_target_rows(scheduler, 256), 32);
    pass = (struct sp_pass){
        .number = 2, .n_rows = 33, .n_seqs = 2, .n_prompts = 1, .seconds = 0.044 + 31 * 0.005};
    sp_scheduler_learn(scheduler, &pass);
    assert_int_equal(sp_scheduler_target_rows(scheduler, 256), 6);
    /* One longer pass of answers says little: 3/4 of 45 ms are 6 rows, too. */
    pass = (struct sp_pass){.number = 3, .n_rows = 1, .n_seqs = 1, .seconds = 0.06};
    sp_scheduler_learn(scheduler, &pass);
    assert_int_equal(sp_scheduler_target_rows(scheduler, 256), 6);
    pass = (struct sp_pass){
        .number = 4, .n_rows = 7, .n_seqs = 3, .n_prompts = 2, .seconds = 0.045 + 4 * 0.005};
    sp_scheduler_learn(scheduler, &pass);
    assert_int_equal(sp_scheduler_target_rows(scheduler, 256), 3);
    sp_scheduler_release(scheduler);
    assert_int_equal(pthread_join(other, NULL), 0);
    sp_scheduler_close(scheduler);
}

enum { N_PASSES = 20 };

/* A thread that runs N_PASSES passes. */
struct passing {
    struct row_request row;
    atomic_bool done;
};

static void *run_passes(void *context)
{
    struct passing *p = context;

    for (int i = 0; i < N_PASSES; i++)
        run_rows(&p->row);
    atomic_store(&p->done, true);
    return NULL;
}

/* A thread that acquires the scheduler again as soon as it has released it lets the passes of
 * another thread run in between. */
TEST(passes_run_between_holders)
{
    struct generate_fixture g = open_autoregressive();
    struct passing p = {.row = {.g = &g,
                                .target = open_decoder(&g, g.package->target, NULL),
                                .priority = SP_PRIORITY_FIFO}};
    size_t clock = 0, n_held = 0;
    pthread_t thread;

    p.row.clock = &clock;
    sp_scheduler_acquire(g.package->scheduler);
    assert_int_equal(pthread_create(&thread, NULL, run_passes, &p), 0);
    while (sp_scheduler_n_active(g.package->scheduler) < 2)
        continue;
    sp_scheduler_release(g.package->scheduler);
    while (!atomic_load(&p.done)) {
        sp_scheduler_acquire(g.package->scheduler);
        n_held += sp_scheduler_n_active(g.package->scheduler) > 1;
        sp_scheduler_release(g.package->scheduler);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(n_held, 0, 4 * N_PASSES);
}

/* ---- small batches, and logit requests between passes ---- */

/* With max_batch 1 the logits of all sessions do not fit in one pass. With rows_per_pass 16 their
 * rows do not fit either. */
TEST(small_batches_change_nothing)
{
    struct sp_session_options options = {
        .size = sizeof options, .n_context = N_CONTEXT, .max_batch = 1};

    check_with(packed_file(TESTDATA "/tiny/Modelfile", SP_Q4, SP_Q4), NULL, 2, &options, false);
    options.rows_per_pass = 16;
    check_with(family("qwen3_next"), NULL, 1, &options, false);
}

/* A thread that requests the logits of given tokens. */
struct logits_request {
    struct sp_session *session;
    uint64_t sum;
    bool failed;
};

static int add_logits(void *context, size_t row, const float *logits, size_t n)
{
    struct logits_request *a = context;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        a->sum = a->sum * 31 + bits + row;
    }
    return 0;
}

static void *request_logits(void *context)
{
    struct logits_request *a = context;
    uint32_t ids[40];

    for (size_t i = 0; i < 40; i++)
        ids[i] = (uint32_t)i * 5;
    a->failed = sp_session_logits(a->session, ids, 40, add_logits, a, NULL) ||
                sp_session_draft_logits(a->session, ids, 40, 0, add_logits, a, NULL);
    return NULL;
}

TEST(logits_between_shared_passes)
{
    struct sp_session_options options = {
        .size = sizeof options, .n_context = N_CONTEXT, .max_batch = 2};
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct generate_fixture g = generate_open(path, NULL, 2, &options);
    struct logits_request alone = {.session = g.session};
    struct logits_request concurrent = {.session = keep_shared_session(g.session)};
    struct client client, expected;
    pthread_t thread;

    request_logits(&alone);
    begin(&client, 0, g.session);
    assert_int_equal(pthread_create(&thread, NULL, request_logits, &concurrent), 0);
    converse(&client);
    assert_int_equal(pthread_join(thread, NULL), 0);
    begin(&expected, 0, concurrent.session);
    converse(&expected);
    assert_false(alone.failed || concurrent.failed || client.failed || expected.failed);
    assert_int_equal(alone.sum, concurrent.sum);
    for (size_t turn = 0; turn < N_TURNS; turn++)
        generate_assert_same(&client.results[turn], &expected.results[turn]);
    end(&client);
    end(&expected);
}

/* ---- logits of a long text beside an answer ---- */

struct answer {
    struct sp_session *session;
    atomic_size_t n_tokens;
    atomic_bool ends;
};

static int count_token(void *context, const struct sp_token *token)
{
    struct answer *a = context;

    (void)token;
    atomic_fetch_add(&a->n_tokens, 1);
    return atomic_load(&a->ends);
}

static void *answer_until_end(void *context)
{
    static const uint32_t prompt[] = {582, 580, 258, 421};
    struct answer *a = context;
    const struct sp_request request = {ANSWER_TO(prompt, 4, 0), .ignore_eos = true, .context = a,
                                       .token = count_token};
    struct sp_result r = SP_RESULT_INIT;

    (void)!sp_session_generate(a->session, &request, &r, NULL);
    sp_result_release(&r);
    return NULL;
}

struct rows {
    struct answer *answer;
    size_t first, last; /* tokens of the answer at the first and at the last row */
};

static int note_row(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct rows *rows = context;

    (void)logits, (void)n_vocab;
    rows->last = atomic_load(&rows->answer->n_tokens);
    if (row == 0) rows->first = rows->last;
    return 0;
}

/* An answer goes on between the passes that compute the logits of a long text. */
TEST(answers_beside_logits)
{
    enum { N = 320, LEAST = 5 };
    struct sp_session_options options = {.size = sizeof options, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture g = generate_open(
        packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_DTYPE_NONE), NULL, 1, &options);
    struct answer answer = {.session = keep_session(g.package, &options)};
    struct rows rows = {.answer = &answer};
    uint32_t ids[N];
    pthread_t thread;

    for (size_t i = 0; i < N; i++)
        ids[i] = (uint32_t)(i * 7 % 500);
    assert_int_equal(pthread_create(&thread, NULL, answer_until_end, &answer), 0);
    while (atomic_load(&answer.n_tokens) == 0)
        sched_yield();
    assert_ok(sp_session_logits(g.session, ids, N, note_row, &rows, why));
    atomic_store(&answer.ends, true);
    pthread_join(thread, NULL);
    assert_true(rows.last >= rows.first + LEAST);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
