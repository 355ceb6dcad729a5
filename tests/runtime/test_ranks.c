/* Tests ranks through the library: their link is measured, a prompt cache is the same file with any
 * number of ranks, and a generation that loses a rank fails with one sentence. */
#include "format/base/hash.h"
#include "runtime/ranks/forked_ranks.h"
#include "runtime/sampling/chooser.h"
#include "runtime/session/session.h"
#include "runtime/speculate/draft_length.h"
#include "tests/support/generate_checks.h"
#include "tests/support/grammar_checks.h"
#include "tests/support/handmade_models.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

enum { N_IDS = 24 };

static char lost[256]; /* what was said of a rank that was lost */

static void note_lost(void *context, const char *sentence)
{
    (void)context;
    snprintf(lost, sizeof lost, "%s", sentence);
}

/* draft: NULL: none. */
static struct sp_package *open_pair(const char *model, const char *draft, unsigned n_ranks)
{
    const struct sp_package_options options = {
        .size = sizeof options, .n_threads = 1, .n_ranks = n_ranks, .rank_lost = note_lost};

    *lost = '\0';
    return keep_package(packed_file(packed_modelfile(model, draft), SP_DTYPE_NONE, SP_DTYPE_NONE),
                        &options);
}

/* A model with two kv heads, and windows that the prompt and the answer exceed. */
static const char heads[] = TESTDATA "/families/exaone4";
/* A model with a vocabulary of 1600 tokens and two drafts. */
static const char tiny[] = TESTDATA "/tiny/target";

static struct sp_package *open_ranks(unsigned n_ranks)
{
    return open_pair(heads, NULL, n_ranks);
}

static const uint32_t story[] = {5, 8, 25, 42};

/* A request for N_IDS tokens after the story. */
#define STORY_REQUEST ANSWER_TO(story, 4, N_IDS), .ignore_eos = true

/* The last child of this process. */
static pid_t find_rank(void)
{
    FILE *f = fopen(keep_format("/proc/self/task/%d/children", (int)getpid()), "r");
    int pid = 0, next;

    if (f == NULL) return 0; /* a kernel without this list */
    while (fscanf(f, "%d", &next) == 1)
        pid = next;
    fclose(f);
    return pid;
}

TEST(lost_rank_ends_generation)
{
    static const char cause[] = "rank 2 of 3 was ended by signal 9";
    const struct sp_request request = {STORY_REQUEST, .draft_len = SP_DRAFT_LENGTH_AUTO};
    struct sp_package *three = open_ranks(3);
    struct sp_session *session = keep_session(three, NULL), *another = NULL;
    struct sp_result got, want, none = SP_RESULT_INIT;
    pid_t rank = find_rank();

    want = keep_answer(keep_session(open_ranks(1), NULL), &request);
    got = keep_answer(session, &request);
    assert_int_equal(want.n_ids, N_IDS);
    assert_int_equal(got.n_ids, N_IDS);
    assert_memory_equal(got.ids, want.ids, N_IDS * sizeof *want.ids);
    assert_string_equal(lost, "");
    if (rank) {
        assert_int_equal(kill(rank, SIGKILL), 0);
        assert_fails_as(sp_session_generate(session, &request, &none, why), SP_E_IO, cause);
        assert_string_equal(lost, cause);
        assert_fails_as(sp_session_open(&another, three, NULL, why), SP_E_IO, cause);
    }
}

/* ---- logits ---- */

/* The answer of n_ranks ranks to a request; *info: after it. */
static struct sp_result answer_of(const char *model, const char *draft, unsigned n_ranks,
                                  const struct sp_request *request, struct sp_rank_info *info)
{
    struct sp_package *package = open_pair(model, draft, n_ranks);
    struct sp_result result = keep_answer(keep_session(package, NULL), request);

    assert_int_equal(result.n_ids, N_IDS);
    *info = (struct sp_rank_info)SP_RANK_INFO_INIT;
    sp_package_describe_ranks(package, info);
    return result;
}

/* Two ranks write the tokens of one process. Returns what they exchanged. */
static struct sp_rank_info exchange_of(const char *model, const struct sp_request *request)
{
    struct sp_rank_info info;
    struct sp_result one = answer_of(model, NULL, 1, request, &info);
    struct sp_result two = answer_of(model, NULL, 2, request, &info);

    assert_memory_equal(two.ids, one.ids, N_IDS * sizeof *one.ids);
    return info;
}

/* The second rank has half of the 128 logits of a row. It sends 64 bytes with the largest of them,
 * and all 256 bytes if the row is needed. */
TEST(largest_logit_is_sent_instead_of_rows)
{
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = {STORY_REQUEST};
    struct sp_rank_info plain = exchange_of(heads, &request), other;

    request.sampling = &sampling; /* temperature 0 */
    other = exchange_of(heads, &request);
    assert_int_equal(other.received, plain.received);
    request.digest = true;
    other = exchange_of(heads, &request);
    assert_int_equal(other.received, plain.received + N_IDS * (256 - 64));
    assert_int_equal(other.messages, plain.messages);
    request.digest = false;
    sampling.temperature = 1;
    other = exchange_of(heads, &request);
    assert_int_equal(other.received, plain.received + N_IDS * (256 - 64));
}

/* Where a grammar does not allow the largest logit, the row follows: 800 of 1600 logits. */
TEST(row_follows_if_a_grammar_needs_it)
{
    struct sp_request request = {STORY_REQUEST};
    struct sp_rank_info plain = exchange_of(tiny, &request), constrained;
    uint64_t n_rows;

    request.ignore_eos = false;
    request.grammar = keep_gbnf("root ::= [b-x]{400}");
    constrained = exchange_of(tiny, &request);
    n_rows = constrained.messages - plain.messages;
    assert_in_range(n_rows, 1, N_IDS);
    assert_int_equal(constrained.received - plain.received, n_rows * 800 * sizeof(float));
}

/* Greedy draft tokens need no rows either, and are those of one process: as many are accepted. */
TEST(drafts_are_those_of_one_process)
{
    static const char *const drafts[] = {TESTDATA "/tiny/ar", TESTDATA "/tiny/dflash"};
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = {STORY_REQUEST, .draft_len = 3};

    for (size_t i = 0; i < 2; i++) {
        struct sp_rank_info info, rows;
        request.sampling = NULL;
        struct sp_result one = answer_of(tiny, drafts[i], 1, &request, &info);
        struct sp_result two = answer_of(tiny, drafts[i], 2, &request, &info);
        assert_memory_equal(two.ids, one.ids, N_IDS * sizeof *one.ids);
        assert_int_equal(two.drafted, one.drafted);
        assert_int_equal(two.accepted, one.accepted);
        assert_true(one.drafted > 0);
        sampling.repeat_penalty = 1.0001F; /* needs rows, and changes no token here */
        request.sampling = &sampling;
        struct sp_result penalized = answer_of(tiny, drafts[i], 2, &request, &rows);
        assert_memory_equal(penalized.ids, one.ids, N_IDS * sizeof *one.ids);
        assert_int_equal(rows.messages, info.messages);
        assert_true(rows.received - info.received >=
                    (penalized.drafted + N_IDS) * (800 * sizeof(float) - 64));
    }
}

/* The logits of story's tokens by one pass of the target. The scheduler is held. */
static void run_story(struct sp_session *session, enum sp_logits_need needs)
{
    const struct sp_model *target = session->package->target;
    struct sp_batch_seq seq = {.decoder = session->speculator->decoder,
                               .embedder = target,
                               .head = target,
                               .ids = story,
                               .n = 4,
                               .n_logits = 4,
                               .needs = needs};

    assert_ok(sp_decoder_grow(seq.decoder, 4, why));
    sp_batch_run(&seq, 1);
}

/* Row t of the logits: its largest element and the element's probability in those of one process,
 * and the row itself if it is asked for. */
static void check_row(const struct sp_session *session, size_t t, const struct sp_logits *want,
                      bool has_sums)
{
    const struct sp_vector *vector = session->package->backend.vector;
    struct sp_logits got = sp_decoder_row(session->speculator->decoder, t);
    double p = sp_greedy_confidence(vector, want, (uint32_t)want->best), q;

    assert_null(got.row);
    assert_int_equal(got.n, want->n);
    assert_int_equal(got.best, want->best);
    assert_true(has_sums == (got.sums != NULL));
    q = sp_greedy_confidence(vector, &got, (uint32_t)got.best);
    assert_memory_equal(&p, &q, sizeof p);
    assert_memory_equal(sp_logits_row(&got), want->row, want->n * sizeof *want->row);
}

/* A row of 1600 logits has two blocks: the first of three ranks has none, the others have one. */
TEST(probability_has_the_bits_of_one_process)
{
    struct sp_session *alone = keep_session(open_pair(tiny, NULL, 1), NULL);

    run_story(alone, SP_LOGITS_ROWS);
    for (unsigned n_ranks = 2; n_ranks <= 3; n_ranks++) {
        struct sp_session *session = keep_session(open_pair(tiny, NULL, n_ranks), NULL);
        for (int best = 0; best < 2; best++) {
            run_story(session, best ? SP_LOGITS_BEST : SP_LOGITS_PROBABILITY);
            for (size_t t = 4; t-- > 0;) {
                struct sp_logits want = sp_decoder_row(alone->speculator->decoder, t);
                check_row(session, t, &want, !best);
            }
        }
    }
}

/* ---- drafts with vocabularies and scores of their own ---- */

enum { N_DRAFT = 4 };

/* What a draft proposed after story, and what its ranks sent for that. */
struct proposed {
    uint32_t ids[N_DRAFT];
    double confidences[N_DRAFT];
    uint64_t rows; /* a digest of the rows of logits, if the chooser reads them */
    size_t n;
    uint64_t n_messages, received;
};

/* A greedy chooser that reads every row. */
static enum sp_status propose_by_rows(void *state, uint32_t *id, double *confidence,
                                      const struct sp_logits *logits, const uint32_t *ids,
                                      size_t pos, struct sp_err *err)
{
    struct proposed *p = state;
    const float *row = sp_logits_row(logits);

    (void)ids;
    (void)pos;
    (void)err;
    assert_null(confidence);
    *id = 0;
    for (uint32_t i = 0; i < logits->n; i++)
        if (row[i] > row[*id]) *id = i;
    assert_int_equal(*id, logits->best);
    p->rows = p->rows * 31 + sp_hash64(row, logits->n * sizeof *row);
    return SP_OK;
}

/* rates: with probabilities. reads_rows: with a chooser that reads rows which it does not state to
 * need. */
static struct proposed propose(const char *target, const char *draft, unsigned n_ranks,
                               enum sp_logits_need needs, bool rates, bool reads_rows)
{
    size_t n_kept = kept_count();
    struct sp_package *package = open_pair(target, draft, n_ranks);
    struct sp_speculator *s = keep_session(package, NULL)->speculator;
    struct sp_chooser chooser = sp_greedy_chooser(package->backend.vector);
    struct sp_drafting_controller batch;
    struct sp_draft_length length;
    struct sp_proposal proposal = {.chooser = &chooser, .draft_len = rates ? &length : NULL};
    struct proposed p = {.n = N_DRAFT};
    struct sp_rank_traffic before = {0};
    struct sp_logits ignored;

    chooser.needs = needs;
    if (reads_rows) {
        chooser.propose = propose_by_rows;
        chooser.state = &p;
    }
    sp_drafting_controller_init(&batch, N_DRAFT, false);
    sp_draft_length_init(&length, &batch);
    length.n_asked = N_DRAFT;
    sp_scheduler_acquire(s->scheduler);
    assert_ok(sp_speculator_prompt(s, story, 3, &ignored, NULL, NULL, why));
    sp_speculator_begin(s, story[3]);
    if (n_ranks > 1) before = package->ranks->traffic;
    assert_ok(sp_drafter_propose(s->drafter, s->ids, s->n_cached, &p.n, &proposal, why));
    if (n_ranks > 1) {
        p.n_messages = package->ranks->traffic.n_messages - before.n_messages;
        p.received = package->ranks->traffic.received - before.received;
    }
    sp_scheduler_release(s->scheduler);
    memcpy(p.ids, s->ids + s->n_cached + 1, sizeof p.ids);
    memcpy(p.confidences, length.confidences + 1, sizeof p.confidences);
    kept_release(n_kept);
    assert_int_equal(p.n, N_DRAFT);
    return p;
}

/* Drafts that score a part of the vocabulary, correct their logits or choose among candidates: the
 * same tokens, probabilities and rows, without sending rows that nobody reads. */
TEST(no_draft_needs_rows)
{
    static const char *const names[] = {"pruned", "dflash2", "dspark", "dspark_anchored", "peagle"};
    static const char target[] = TESTDATA "/speculators/target";

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *draft = keep_format(TESTDATA "/speculators/%s", names[i]);
        struct proposed rated = propose(target, draft, 1, SP_LOGITS_BEST, true, false);
        struct proposed read = propose(target, draft, 1, SP_LOGITS_BEST, false, true);
        for (unsigned n_ranks = 2; n_ranks <= 3; n_ranks++) {
            struct proposed p = propose(target, draft, n_ranks, SP_LOGITS_BEST, true, false);
            struct proposed rows = propose(target, draft, n_ranks, SP_LOGITS_WHOLE, true, false);
            assert_memory_equal(p.ids, rated.ids, sizeof p.ids);
            assert_memory_equal(rows.ids, rated.ids, sizeof p.ids);
            assert_memory_equal(p.confidences, rated.confidences, sizeof p.confidences);
            assert_memory_equal(rows.confidences, rated.confidences, sizeof p.confidences);
            if (p.received >= rows.received)
                fail_msg("%s, %u ranks: %llu bytes, %llu with rows", names[i], n_ranks,
                         (unsigned long long)p.received, (unsigned long long)rows.received);
            p = propose(target, draft, n_ranks, SP_LOGITS_BEST, false, true);
            assert_memory_equal(p.ids, read.ids, sizeof p.ids);
            assert_true(p.rows == read.rows);
        }
    }
}

/* ---- caches of several ranks ---- */

/* The digest of an answer with the types of each layer's cache. Layers 1 and 3 have two kv heads of
 * 32 dims, of which the third rank has none. */
static uint64_t digest_with(const char *path, enum sp_cache_type types[4], unsigned n_ranks)
{
    const struct sp_package_options options = {
        .size = sizeof options, .n_threads = 1, .n_ranks = n_ranks};
    const struct sp_session_options chosen = {.size = sizeof chosen, .cache = SP_CACHE_AUTO};
    const struct sp_request request = {STORY_REQUEST, .digest = true};
    struct sp_package *package = keep_package(path, &options);

    package->target->cache_types = types;
    return keep_answer(keep_session(package, &chosen), &request).logits_digest;
}

TEST(chosen_types_are_those_of_every_rank)
{
    const char *path =
        packed_handmade(&(struct handmade_options){.mixing = 0.4f}, SP_DTYPE_NONE, SP_DTYPE_NONE);
    enum sp_cache_type types[2][4] = {
        {SP_CACHE_F16, SP_CACHE_Q4, SP_CACHE_F16, SP_CACHE_F16_Q8},
        {SP_CACHE_F16, SP_CACHE_F16_Q4, SP_CACHE_F16, SP_CACHE_Q8_Q4},
    };
    uint64_t digests[2];

    for (int i = 0; i < 2; i++) {
        digests[i] = digest_with(path, types[i], 1);
        for (unsigned n_ranks = 2; n_ranks <= 3; n_ranks++)
            assert_true(digest_with(path, types[i], n_ranks) == digests[i]);
    }
    assert_true(digests[0] != digests[1]);
}

enum { N_POSITIONS = 4096 };
static const struct sp_kv_options large = {.type = SP_CACHE_F16,
                                           .shape = {5, 64, 64},
                                           .n_query_heads = 5,
                                           .n_positions = N_POSITIONS,
                                           .max_rows = 1};

static enum sp_status serve(struct sp_transport *transport, void *context, struct sp_err *err)
{
    struct sp_backend backend;
    bool has_ended;
    enum sp_status st = sp_backend_init(&backend, "scalar", 1, err);

    if (st) return st;
    st = sp_ranks_serve(transport, &backend, context, &has_ended, err);
    sp_backend_release(&backend);
    return st;
}

/* Returns the other ranks, if there are any. */
static struct sp_ranks *open_backend(struct sp_backend *backend, unsigned n_ranks)
{
    static struct sp_rank_file none;
    struct sp_ranks with = {.file = none}, *ranks = NULL;

    if (n_ranks > 1) {
        assert_ok(sp_ranks_fork(&with.transport, n_ranks, serve, &none, why));
        assert_ok(sp_ranks_new(&ranks, &with, why));
    }
    assert_ok(sp_backend_init(backend, "scalar", 1, why));
    if (ranks) backend->remote = &ranks->remote;
    return ranks;
}

/* Writes a cache to a file, or fills it from a file. */
static void transfer(struct sp_kv *kv, const char *path, bool reads)
{
    struct sp_cache_file *file;

    assert_ok(reads ? sp_cache_file_open(&file, path, why)
                    : sp_cache_file_create(&file, path, why));
    for (size_t i = 0; i < kv->n_slots / SP_SPAN; i++)
        assert_ok(sp_kv_transfer(kv, file, i, why));
    assert_ok(sp_cache_file_finish(file, why));
    sp_cache_file_close(file);
}

/* Memory of a process that no file backs, in kB. */
static size_t private_memory(pid_t pid)
{
    FILE *f = fopen(keep_format("/proc/%d/status", (int)pid), "r");
    char line[128];
    size_t n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f) && sscanf(line, "RssAnon: %zu", &n) != 1)
        continue;
    fclose(f);
    return n;
}

/* Five heads over three ranks: the last one has one, and its memory grows by one fifth. */
TEST(rank_stores_its_heads)
{
    const char *path = packed_path("large");
    struct sp_backend one, three;
    struct sp_ranks *ranks;
    struct sp_kv whole, divided;
    size_t size, before, grown;
    bool is_seen; /* the memory of the rank: sanitizers have memory of their own */
    pid_t rank;

    ranks = open_backend(&three, 3);
    rank = find_rank();
    is_seen = rank && !IS_SANITIZED;
    open_backend(&one, 1);
    assert_ok(sp_kv_open(&whole, one.remote, &large, why));
    assert_ok(sp_kv_grow(&whole, SIZE_MAX, why));
    transfer(&whole, path, false);
    size = sp_kv_size_here(&whole, N_POSITIONS);
    assert_int_equal(size, sp_kv_size(&whole, N_POSITIONS));

    assert_ok(sp_kv_open(&divided, three.remote, &large, why));
    assert_int_equal(divided.n_heads, 2);
    assert_int_equal(sp_kv_size_here(&divided, N_POSITIONS), size);
    assert_int_equal(sp_kv_size(&divided, N_POSITIONS), size / 5 * 2);
    assert_ok(sp_kv_grow(&divided, SIZE_MAX, why));
    before = is_seen ? private_memory(rank) : 0;
    transfer(&divided, path, true);
    grown = is_seen ? private_memory(rank) - before : size / 5 / 1024;
    assert_in_range(grown, size / 5 / 1024, size / 5 / 1024 + 400);
    sp_kv_shrink(&divided, 0);
    if (is_seen) assert_in_range(private_memory(rank), 0, before + 400);

    sp_kv_release(&divided);
    sp_kv_release(&whole);
    sp_ranks_close(ranks);
    sp_backend_release(&three);
    sp_backend_release(&one);
}

/* A session whose passes do not fit in a message is refused when it is opened. */
TEST(large_passes_are_refused)
{
    struct sp_kv_options options = {.type = SP_CACHE_F32,
                                    .shape = {2, 64, 64},
                                    .n_query_heads = 4,
                                    .n_inputs = 256,
                                    .n_positions = N_POSITIONS,
                                    .max_rows = 1000};
    struct sp_backend two;
    struct sp_ranks *ranks = open_backend(&two, 2);
    struct sp_kv kv;

    ranks->transport->max_size = 1 << 20;
    assert_fails_as(sp_kv_open(&kv, two.remote, &options, why), SP_E_UNSUPPORTED,
                    "2 ranks: a pass of 1000 rows has messages of up to 1610240 "
                    "bytes, expected at most 1048576");
    options.max_rows = 500;
    assert_ok(sp_kv_open(&kv, two.remote, &options, why));
    sp_kv_release(&kv);
    sp_ranks_close(ranks);
    sp_backend_release(&two);
}

enum { ECHOED = 42 };

/* Answers with as many bytes as the message has; the last one is the same. */
static enum sp_status answer_last_byte(struct sp_transport *transport, void *context,
                                       struct sp_err *err)
{
    const uint8_t *message;
    uint8_t *answer;
    size_t size;

    (void)context;
    (void)err;
    while ((message = transport->ops->next(transport, &size)) != NULL) {
        if ((answer = transport->ops->buffer(transport, size)) == NULL) return SP_E_NOMEM;
        answer[size - 1] = message[size - 1];
        transport->ops->reply(transport, size);
    }
    return SP_OK;
}

/* A text of 64 thousand tokens that is embedded in one pass has messages of more than a gigabyte.
 * This one has a page of memory. */
TEST(messages_may_have_gigabytes)
{
    size_t size = (size_t)5 << 30;
    struct sp_transport *t;
    uint8_t *message;
    const uint8_t *answer;

    assert_ok(sp_ranks_fork(&t, 3, answer_last_byte, NULL, why));
    assert_null(t->ops->buffer(t, t->max_size + 1));
    if (t->max_size >= size) { /* address space is not limited */
        message = t->ops->buffer(t, size);
        assert_non_null(message);
        message[size - 1] = ECHOED;
        assert_true(t->ops->send(t, size, size));
        for (unsigned rank = 1; rank < 3; rank++) {
            answer = t->ops->receive(t, rank);
            assert_non_null(answer);
            assert_int_equal(answer[size - 1], ECHOED);
        }
    }
    t->ops->close(t);
}

/* The only page in a folder. */
static const char *page_in(const char *folder)
{
    const char *const *names = folder_names(folder);

    assert_true(names[0] && !names[1]);
    return keep_format("%s/%s", folder, names[0]);
}

/* Reads a prompt of more than a page in a new session; returns the number of reused tokens. */
static size_t read_prompt(struct sp_package *package, const char *folder, uint32_t ids[N_IDS])
{
    const struct sp_prompt_cache_options where = {.size = sizeof where, .folder = folder};
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    uint32_t prompt[SP_SPAN + 40];
    size_t n_kept = kept_count();

    package->target->config.max_positions = 512;
    for (uint32_t i = 0; i < SP_SPAN + 40; i++)
        prompt[i] = 5 + i * 31 % 50;
    assert_ok(sp_prompt_cache_open(&options.prompt_cache, &where, why));
    struct sp_result result = generate_run(keep_session(package, &options), prompt, SP_SPAN + 40,
                                           N_IDS, SP_DRAFT_LENGTH_AUTO, true);
    memcpy(ids, result.ids, N_IDS * sizeof *ids);
    kept_release(n_kept);
    sp_prompt_cache_close(options.prompt_cache);
    return result.n_reused;
}

/* A prompt's page has all heads, so that sessions with another number of ranks continue from it. */
TEST(prompt_pages_are_equal)
{
    const char *folder = packed_path("pages");
    uint32_t want[N_IDS], got[N_IDS];
    char *first = NULL;
    size_t n, n_first = 0;

    for (unsigned i = 0; i < 3; i++) {
        struct sp_package *package = open_ranks(i + 1);
        assert_int_equal(read_prompt(package, folder, i ? got : want), i ? SP_SPAN : 0);
        if (i > 0) {
            assert_memory_equal(got, want, sizeof want);
            assert_int_equal(unlink(page_in(folder)), 0);
            assert_int_equal(read_prompt(package, folder, got), 0);
            assert_memory_equal(got, want, sizeof want);
        }
        char *page = scratch_read(page_in(folder), &n);
        if (i == 0) {
            first = page;
            n_first = n;
        }
        assert_int_equal(n, n_first);
        assert_memory_equal(page, first, n);
    }
}

TEST(link_is_measured)
{
    struct sp_package *two = open_ranks(2);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_rank_link link = SP_RANK_LINK_INIT;

    assert_fails(sp_package_measure_link(open_ranks(1), &link, why), SP_E_USAGE, "");
    assert_ok(sp_package_measure_link(two, &link, why));
    assert_true(link.round_trip > 0 && link.bandwidth > 0);
    sp_package_describe(two, &info);
    assert_int_equal(info.n_ranks, 2);
    assert_int_equal(info.n_ranks_here, 2);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
