/* Tests ranks through the library: their link is measured, a prompt cache is the same file with any
 * number of ranks, and a generation that loses a rank fails with one sentence. */
#include "format/base/file.h"
#include "format/base/hash.h"
#include "runtime/ranks/forked_ranks.h"
#include "runtime/sampling/greedy_chooser.h"
#include "runtime/session/session.h"
#include "runtime/speculate/draft_length.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

#include <dirent.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

enum { N_IDS = 24 };
static void note_lost(void *context, const char *sentence)
{
    snprintf(context, 256, "%s", sentence);
}

/* draft: NULL: none. */
static struct sp_package *open_pair(const char *model, const char *draft, unsigned n_ranks,
                                    char lost[256])
{
    const char *path = packed_file(packed_modelfile(model, draft), SP_DTYPE_NONE, SP_DTYPE_NONE);
    struct sp_package_options options = SP_PACKAGE_OPTIONS_INIT;
    struct sp_package *package;

    options.n_threads = 1;
    options.n_ranks = n_ranks;
    options.rank_lost = note_lost;
    options.rank_context = lost;
    assert_int_equal(sp_package_open(&package, path, &options, NULL), SP_OK);
    return package;
}

/* A model with two kv heads, and windows that the prompt and the answer exceed. */
static const char heads[] = TESTDATA "/families/exaone4";
/* A model with a vocabulary of 1600 tokens and two drafts. */
static const char tiny[] = TESTDATA "/tiny/target";

static struct sp_package *open_ranks(unsigned n_ranks, char lost[256])
{
    return open_pair(heads, NULL, n_ranks, lost);
}

static const uint32_t story[] = {5, 8, 25, 42};

static enum sp_status generate_in(struct sp_session *session, uint32_t ids[N_IDS],
                                  struct sp_err *err)
{
    struct sp_request request = {.size = sizeof request,
                                 .prompt = story,
                                 .n_prompt = 4,
                                 .max_tokens = N_IDS,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO,
                                 .ignore_eos = true};
    struct sp_result result = SP_RESULT_INIT;
    enum sp_status st = sp_session_generate(session, &request, &result, err);

    if (st) return st;
    assert_int_equal(result.n_ids, N_IDS);
    memcpy(ids, result.ids, N_IDS * sizeof *ids);
    sp_result_release(&result);
    return SP_OK;
}

static struct sp_session *open_session(struct sp_package *package)
{
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_session *session;

    assert_int_equal(sp_session_open(&session, package, &options, NULL), SP_OK);
    return session;
}

/* The last child of this process. */
static pid_t find_rank(void)
{
    int pid = 0, next;
    FILE *f;

    const char *path = keep_format("/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "r");
    if (f == NULL) return 0; /* a kernel without this list */
    while (fscanf(f, "%d", &next) == 1)
        pid = next;
    fclose(f);
    return pid;
}

TEST(lost_rank_ends_generation)
{
    uint32_t want[N_IDS], got[N_IDS];
    char lost[256] = "";
    struct sp_package *one = open_ranks(1, lost), *three = open_ranks(3, lost);
    struct sp_session *alone = open_session(one), *session = open_session(three), *another = NULL;
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_err err = {0};
    pid_t rank = find_rank();

    assert_int_equal(generate_in(alone, want, NULL), SP_OK);
    assert_int_equal(generate_in(session, got, NULL), SP_OK);
    assert_memory_equal(got, want, sizeof want);
    assert_string_equal(lost, "");
    if (rank) {
        assert_int_equal(kill(rank, SIGKILL), 0);
        assert_int_equal(generate_in(session, got, &err), SP_E_IO);
        assert_string_equal(err.text, "rank 2 of 3 was ended by signal 9");
        assert_string_equal(lost, err.text);
        assert_int_equal(sp_session_open(&another, three, &options, &err), SP_E_IO);
        assert_string_equal(err.text, lost);
    }
    sp_session_close(session);
    sp_session_close(alone);
    sp_package_close(three);
    sp_package_close(one);
}

/* ---- logits ---- */

/* The answer of n_ranks ranks to a request; *info: after it. */
static struct sp_result answer_of(const char *model, const char *draft, unsigned n_ranks,
                                  const struct sp_request *request, struct sp_rank_info *info)
{
    char lost[256] = "";
    struct sp_package *package = open_pair(model, draft, n_ranks, lost);
    struct sp_session *session = open_session(package);
    struct sp_result result = SP_RESULT_INIT;

    assert_int_equal(sp_session_generate(session, request, &result, NULL), SP_OK);
    assert_int_equal(result.n_ids, N_IDS);
    *info = (struct sp_rank_info)SP_RANK_INFO_INIT;
    sp_package_describe_ranks(package, info);
    sp_session_close(session);
    sp_package_close(package);
    return result;
}

/* Two ranks write the tokens of one process. Returns what they exchanged. */
static struct sp_rank_info exchange_of(const char *model, const struct sp_request *request)
{
    struct sp_rank_info info;
    struct sp_result one = answer_of(model, NULL, 1, request, &info);
    struct sp_result two = answer_of(model, NULL, 2, request, &info);

    assert_memory_equal(two.ids, one.ids, N_IDS * sizeof *one.ids);
    sp_result_release(&one);
    sp_result_release(&two);
    return info;
}

/* The second rank has half of the 128 logits of a row. It sends 64 bytes with the largest of them,
 * and all 256 bytes if the row is needed. */
TEST(largest_logit_is_sent_instead_of_rows)
{
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = {.size = sizeof request,
                                 .prompt = story,
                                 .n_prompt = 4,
                                 .max_tokens = N_IDS,
                                 .ignore_eos = true};
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
    static const char text[] = "root ::= [b-x]{400}";
    struct sp_request request = {.size = sizeof request,
                                 .prompt = story,
                                 .n_prompt = 4,
                                 .max_tokens = N_IDS,
                                 .ignore_eos = true};
    struct sp_rank_info plain = exchange_of(tiny, &request), constrained;
    struct sp_grammar *grammar;
    uint64_t n_rows;

    assert_int_equal(sp_grammar_of_gbnf(&grammar, text, sizeof text - 1, NULL), SP_OK);
    request.ignore_eos = false;
    request.grammar = grammar;
    constrained = exchange_of(tiny, &request);
    n_rows = constrained.messages - plain.messages;
    assert_in_range(n_rows, 1, N_IDS);
    assert_int_equal(constrained.received - plain.received, n_rows * 800 * sizeof(float));
    sp_grammar_close(grammar);
}

/* Greedy draft tokens need no rows either, and are those of one process: as many are accepted. */
TEST(drafts_are_those_of_one_process)
{
    static const char *const drafts[] = {TESTDATA "/tiny/ar", TESTDATA "/tiny/dflash"};
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = {.size = sizeof request,
                                 .prompt = story,
                                 .n_prompt = 4,
                                 .max_tokens = N_IDS,
                                 .draft_len = 3,
                                 .ignore_eos = true};

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
        sp_result_release(&penalized);
        sp_result_release(&two);
        sp_result_release(&one);
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

    assert_int_equal(sp_decoder_grow(seq.decoder, 4, NULL), SP_OK);
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
    char lost[256] = "";
    struct sp_package *one = open_pair(tiny, NULL, 1, lost);
    struct sp_session *alone = open_session(one);

    run_story(alone, SP_LOGITS_ROWS);
    for (unsigned n_ranks = 2; n_ranks <= 3; n_ranks++) {
        struct sp_package *package = open_pair(tiny, NULL, n_ranks, lost);
        struct sp_session *session = open_session(package);
        for (int best = 0; best < 2; best++) {
            run_story(session, best ? SP_LOGITS_BEST : SP_LOGITS_PROBABILITY);
            for (size_t t = 4; t-- > 0;) {
                struct sp_logits want = sp_decoder_row(alone->speculator->decoder, t);
                check_row(session, t, &want, !best);
            }
        }
        sp_session_close(session);
        sp_package_close(package);
    }
    sp_session_close(alone);
    sp_package_close(one);
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
    char lost[256] = "";
    struct sp_package *package = open_pair(target, draft, n_ranks, lost);
    struct sp_session *session = open_session(package);
    struct sp_speculator *s = session->speculator;
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
    assert_int_equal(sp_speculator_prompt(s, story, 3, &ignored, NULL, NULL, NULL), SP_OK);
    sp_speculator_begin(s, story[3]);
    if (n_ranks > 1) before = package->ranks->traffic;
    assert_int_equal(sp_drafter_propose(s->drafter, s->ids, s->n_cached, &p.n, &proposal, NULL),
                     SP_OK);
    if (n_ranks > 1) {
        p.n_messages = package->ranks->traffic.n_messages - before.n_messages;
        p.received = package->ranks->traffic.received - before.received;
    }
    sp_scheduler_release(s->scheduler);
    memcpy(p.ids, s->ids + s->n_cached + 1, sizeof p.ids);
    memcpy(p.confidences, length.confidences + 1, sizeof p.confidences);
    sp_session_close(session);
    sp_package_close(package);
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
        assert_int_equal(sp_ranks_fork(&with.transport, n_ranks, serve, &none, NULL), SP_OK);
        assert_int_equal(sp_ranks_new(&ranks, &with, NULL), SP_OK);
    }
    assert_int_equal(sp_backend_init(backend, "scalar", 1, NULL), SP_OK);
    if (ranks) backend->remote = &ranks->remote;
    return ranks;
}

/* Writes a cache to a file, or fills it from a file. */
static void transfer(struct sp_kv *kv, const char *path, bool reads)
{
    struct sp_cache_file *file;

    assert_int_equal(reads ? sp_cache_file_open(&file, path, NULL)
                           : sp_cache_file_create(&file, path, NULL),
                     SP_OK);
    for (size_t i = 0; i < kv->n_slots / SP_SPAN; i++)
        assert_int_equal(sp_kv_transfer(kv, file, i, NULL), SP_OK);
    assert_int_equal(sp_cache_file_finish(file, NULL), SP_OK);
    sp_cache_file_close(file);
}

/* Memory of a process that no file backs, in kB. */
static size_t private_memory(pid_t pid)
{
    char line[128];
    size_t n = 0;
    FILE *f;

    const char *path = keep_format("/proc/%d/status", (int)pid);
    f = fopen(path, "r");
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
    assert_int_equal(sp_kv_open(&whole, one.remote, &large, NULL), SP_OK);
    assert_int_equal(sp_kv_grow(&whole, SIZE_MAX, NULL), SP_OK);
    transfer(&whole, path, false);
    size = sp_kv_size_here(&whole, N_POSITIONS);
    assert_int_equal(size, sp_kv_size(&whole, N_POSITIONS));

    assert_int_equal(sp_kv_open(&divided, three.remote, &large, NULL), SP_OK);
    assert_int_equal(divided.n_heads, 2);
    assert_int_equal(sp_kv_size_here(&divided, N_POSITIONS), size);
    assert_int_equal(sp_kv_size(&divided, N_POSITIONS), size / 5 * 2);
    assert_int_equal(sp_kv_grow(&divided, SIZE_MAX, NULL), SP_OK);
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
    struct sp_ranks *ranks;
    struct sp_err err = {0};
    struct sp_kv kv;

    ranks = open_backend(&two, 2);
    ranks->transport->max_size = 1 << 20;
    assert_int_equal(sp_kv_open(&kv, two.remote, &options, &err), SP_E_UNSUPPORTED);
    assert_string_equal(err.text, "2 ranks: a pass of 1000 rows has messages of up to 1610240 "
                                  "bytes, expected at most 1048576");
    options.max_rows = 500;
    assert_int_equal(sp_kv_open(&kv, two.remote, &options, &err), SP_OK);
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

    assert_int_equal(sp_ranks_fork(&t, 3, answer_last_byte, NULL, NULL), SP_OK);
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
    static char path[4096];
    DIR *files = opendir(folder);

    assert_non_null(files);
    *path = '\0';
    for (const struct dirent *e; (e = readdir(files)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        assert_int_equal(*path, 0);
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    }
    closedir(files);
    return path;
}

/* Reads a prompt of more than a page in a new session; returns the number of reused tokens. */
static size_t read_prompt(struct sp_package *package, const char *folder, uint32_t ids[N_IDS])
{
    const struct sp_prompt_cache_options where = {.size = sizeof where, .folder = folder};
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_session *session;
    struct sp_result result = SP_RESULT_INIT;
    uint32_t prompt[SP_SPAN + 40];
    struct sp_request request = {.size = sizeof request,
                                 .prompt = prompt,
                                 .n_prompt = SP_SPAN + 40,
                                 .max_tokens = N_IDS,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO,
                                 .ignore_eos = true};
    size_t n_reused;

    package->target->config.max_positions = 512;
    for (uint32_t i = 0; i < SP_SPAN + 40; i++)
        prompt[i] = 5 + i * 31 % 50;
    assert_int_equal(sp_prompt_cache_open(&options.prompt_cache, &where, NULL), SP_OK);
    assert_int_equal(sp_session_open(&session, package, &options, NULL), SP_OK);
    assert_int_equal(sp_session_generate(session, &request, &result, NULL), SP_OK);
    memcpy(ids, result.ids, N_IDS * sizeof *ids);
    n_reused = result.n_reused;
    sp_result_release(&result);
    sp_session_close(session);
    sp_prompt_cache_close(options.prompt_cache);
    return n_reused;
}

/* A page of a prompt has all heads, so that sessions with another number of ranks continue from it.
 */
TEST(prompt_pages_are_equal)
{
    const char *folder = packed_path("pages");
    uint32_t want[N_IDS], got[N_IDS];
    char lost[256] = "";
    struct sp_text files[3];

    for (unsigned i = 0; i < 3; i++) {
        struct sp_package *package = open_ranks(i + 1, lost);
        assert_int_equal(read_prompt(package, folder, i ? got : want), i ? SP_SPAN : 0);
        if (i > 0) {
            assert_memory_equal(got, want, sizeof want);
            assert_int_equal(unlink(page_in(folder)), 0);
            assert_int_equal(read_prompt(package, folder, got), 0);
            assert_memory_equal(got, want, sizeof want);
        }
        assert_int_equal(sp_file_read_text(&files[i], page_in(folder), 1 << 28, NULL), SP_OK);
        assert_int_equal(files[i].size, files[0].size);
        assert_memory_equal(files[i].at, files[0].at, files[0].size);
        sp_package_close(package);
    }
    for (size_t i = 0; i < 3; i++)
        free(files[i].at);
}

TEST(link_is_measured)
{
    char lost[256] = "";
    struct sp_package *one = open_ranks(1, lost), *two = open_ranks(2, lost);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_rank_link link = SP_RANK_LINK_INIT;

    assert_int_equal(sp_package_measure_link(one, &link, NULL), SP_E_USAGE);
    assert_int_equal(sp_package_measure_link(two, &link, NULL), SP_OK);
    assert_true(link.round_trip > 0 && link.bandwidth > 0);
    sp_package_describe(two, &info);
    assert_int_equal(info.n_ranks, 2);
    assert_int_equal(info.n_ranks_here, 2);
    sp_package_close(two);
    sp_package_close(one);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
