/* Tests sessions with a prompt cache: they reuse what earlier sessions processed, of any thread
 * number and kernel set, give the response of a session without one, to the bit, and propose the
 * same draft tokens. Damaged, foreign and missing pages are processed again. */
#include "tests/support/cache_digest.h"
#include "tests/support/handmade_models.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "format/base/bytes.h"
#include "format/base/hash.h"
#include "runtime/session/session.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The second prompt shares 520 tokens with the first; its response crosses the end of a page. */
enum {
    N_CONTEXT = 1024,
    N_FIRST = 530,
    N_COMMON = 520,
    N_NEXT = 762,
    N_TOKENS = 12,
    N_LAST = N_NEXT + N_TOKENS + 8,
    DRAFT_LENGTH = 4
};

struct prompts {
    uint32_t first[N_FIRST], next[N_NEXT], last[N_LAST];
};

static char notes[4096];

static void add_note(void *context, const char *sentence)
{
    (void)context;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", sentence);
}

/* The folder of the pages, empty. */
static const char *new_folder(void)
{
    const char *folder = packed_path("pages");

    for (const char *const *name = folder_names(folder); *name; name++)
        assert_int_equal(unlink(keep_format("%s/%s", folder, *name)), 0);
    notes[0] = '\0';
    return folder;
}

static size_t count_files(const char *folder, const char *part)
{
    size_t n = 0;

    for (const char *const *name = folder_names(folder); *name; name++)
        n += strstr(*name, part) != NULL;
    return n;
}

static void close_cache(void *cache)
{
    sp_prompt_cache_close(cache);
}

static struct sp_prompt_cache *open_cache(const char *folder, uint64_t limit)
{
    const struct sp_prompt_cache_options options = {
        .size = sizeof options, .folder = folder, .limit = limit, .note = add_note};
    struct sp_prompt_cache *cache = NULL;

    assert_ok(sp_prompt_cache_open(&cache, &options, why));
    return keep_with(cache, close_cache);
}

/* A session of a longer context than the small models state. */
static struct generate_fixture open_with(const char *path, const char *kernels, unsigned n_threads,
                                         struct sp_session_options options)
{
    struct sp_package *package = keep_package_with(path, kernels, n_threads);

    package->target->config.max_positions = N_CONTEXT;
    if (package->draft) package->draft->config.max_positions = N_CONTEXT;
    options.size = sizeof options;
    options.n_context = N_CONTEXT;
    return (struct generate_fixture){package, keep_session(package, &options)};
}

static struct generate_fixture open_long(const char *path, const char *kernels, unsigned n_threads,
                                         struct sp_prompt_cache *cache)
{
    return open_with(
        path, kernels, n_threads,
        (struct sp_session_options){.draft_by = SP_DRAFT_BY_BOTH, .prompt_cache = cache});
}

/* The prompts for a package. p.last lacks the response to the second one. */
static void make_prompts(struct prompts *p, const struct generate_fixture *g)
{
    size_t n_vocab = g->package->target->config.n_vocab;

    generate_ids(p->first, N_FIRST, 1, n_vocab);
    generate_ids(p->next, N_NEXT, 2, n_vocab);
    generate_ids(p->last, N_LAST, 3, n_vocab);
    memcpy(p->next, p->first, N_COMMON * sizeof *p->next);
    p->next[N_COMMON] = (p->first[N_COMMON] + 1) % (uint32_t)n_vocab;
    memcpy(p->last, p->next, sizeof p->next);
}

/* Generates in a new session with this cache, and checks that the response is `want`. Returns the
 * number of reused tokens. */
static size_t answer_anew(const char *path, const char *kernels, const char *folder,
                          const uint32_t *ids, size_t n, const struct sp_result *want)
{
    size_t n_kept = kept_count();
    struct sp_prompt_cache *cache = open_cache(folder, 0);
    struct generate_fixture g = open_long(path, kernels, 2, cache);
    struct sp_result r = generate_run(g.session, ids, n, N_TOKENS, DRAFT_LENGTH, true);

    generate_assert_same(&r, want);
    kept_release(n_kept);
    return r.n_reused;
}

static struct sp_result plain_answer(const char *path, const uint32_t *ids, size_t n)
{
    return generate_run(open_long(path, NULL, 1, NULL).session, ids, n, N_TOKENS, PLAIN, true);
}

/* Checks that a session that reads pages has the caches and the proposals of the one that wrote
 * them. */
static void check_proposal(struct generate_fixture *writer, const char *path,
                           struct sp_prompt_cache *cache, const uint32_t *ids, size_t n)
{
    const struct sp_model *draft = writer->package->draft, *target = writer->package->target;
    struct generate_fixture reader = open_long(path, NULL, 1, cache);

    if (draft && draft->config.draft.kind != SP_DRAFT_NONE) {
        generate_assert_same_proposal(writer->session, reader.session, ids, n, 3,
                                      draft->head.rows ? draft->head.rows : target->head.rows);
    } else {
        generate_run(writer->session, ids, n, 1, PLAIN, true);
        generate_run(reader.session, ids, n, 1, PLAIN, true);
    }
    assert_int_equal(decoder_digest(reader.session->speculator->decoder, n),
                     decoder_digest(writer->session->speculator->decoder, n));
}

/* Two prompts of a conversation, each read by sessions of their own. */
static void check(const char *path)
{
    size_t n_kept = kept_count();
    const char *folder = new_folder();
    struct sp_prompt_cache *cache = open_cache(folder, 0);
    struct generate_fixture writer = open_long(path, NULL, 1, cache);
    struct generate_fixture plain = open_long(path, NULL, 1, NULL);
    bool is_recurrent = sp_config_is_recurrent(&writer.package->target->config);
    struct prompts p;
    size_t n_reused;

    make_prompts(&p, &writer);
    struct sp_result want = generate_run(plain.session, p.next, N_NEXT, N_TOKENS, PLAIN, true);
    struct sp_result r = generate_run(writer.session, p.next, N_NEXT, N_TOKENS, DRAFT_LENGTH, true);
    generate_assert_same(&r, &want);
    assert_int_equal(r.n_reused, 0);
    assert_int_equal(answer_anew(path, NULL, folder, p.next, N_NEXT, &want), 512);

    memcpy(p.last + N_NEXT, want.ids, N_TOKENS * sizeof *p.last);
    want = generate_run(plain.session, p.last, N_LAST, N_TOKENS, PLAIN, true);
    n_reused = answer_anew(path, IS_SANITIZED ? NULL : "scalar", folder, p.last, N_LAST, &want);
    /* A round may pass the end of the page, where the recurrent state is then not known. */
    assert_true(n_reused == 768 || (is_recurrent && n_reused == 512));
    check_proposal(&writer, path, cache, p.last, N_LAST - 1);
    assert_string_equal(notes, "");
    kept_release(n_kept);
}

/* What pages hold depends on the kinds of caches, and several families have the same. Races depend
 * on neither. */
TEST(families)
{
    const size_t step = RACES_ONLY ? 24 : IS_SANITIZED ? 4 : 1;
    size_t i = 0;

    for (const char *const *name = golden_families(); *name; name++) {
        if (i++ % step != 0) continue;
        print_message("%s\n", *name);
        check(packed_family(*name, SP_Q8));
    }
}

TEST(tiny_drafts)
{
    check(packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_Q8));
    check(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_DTYPE_NONE, SP_Q8));
}

TEST(speculators)
{
    static const char *const drafts[] = {"anchored", "dflash2", "dspark", "peagle",
                                         "peagle_sliding"};

    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        print_message("%s\n", drafts[i]);
        check(packed_speculator(drafts[i], SP_Q8, SP_Q8));
    }
}

/* A recurrent model with its built-in head, and with an EAGLE-3 draft. */
TEST(heads)
{
    static const struct handmade_options how = {.mixing = 0.01f, .copies = true};

    check(packed_handmade(&how, SP_Q8, SP_Q8));
    check(packed_handmade_eagle3(&how, SP_Q8, SP_Q8));
}

TEST(assistants)
{
    static const char modelfile[] = SHARED "/oracle/drafts/assistant_shared/Modelfile";

    if (!golden_exists(modelfile)) skip();
    check(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE));
}

/* The draft, a model of its own, does not read the prompt again either. */
TEST(draft_reads_pages)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile.ar", SP_DTYPE_NONE, SP_Q8);
    const char *folder = new_folder();

    for (size_t i = 0; i < 2; i++) {
        struct sp_prompt_cache *cache = open_cache(folder, 0);
        struct generate_fixture g = open_with(
            path, NULL, 1,
            (struct sp_session_options){.draft_by = SP_DRAFT_BY_MODEL, .prompt_cache = cache});
        struct prompts p;
        make_prompts(&p, &g);
        generate_run(g.session, p.first, N_FIRST, 8, DRAFT_LENGTH, true);
        assert_int_equal(count_files(folder, ".page"), 2 + 2);
    }
}

/* ---- pages that several sequences need at the same time ---- */

enum { N_TOGETHER = 3 };

/* A sequence with a thread of its own. */
struct together {
    struct sp_session *session;
    struct sp_request request;
    struct sp_result result;
    enum sp_status status;
    pthread_t thread;
};

static void *generate_together(void *context)
{
    struct together *t = context;

    t->status = sp_session_generate(t->session, &t->request, &t->result, NULL);
    return NULL;
}

static int cancel_begun(void *context, size_t done, size_t total)
{
    (void)context;
    (void)total;
    return done > 0;
}

/* Sequences of one package that begin with the same two pages, which the first n_cancelled of them
 * do not complete. All wait for the scheduler when the first one begins. */
static void check_together(const char *path, size_t n_cancelled)
{
    size_t n_kept = kept_count(), n_reused = 0;
    struct sp_prompt_cache *cache = open_cache(new_folder(), 0);
    struct generate_fixture g = open_long(path, NULL, 2, cache);
    const struct sp_session_options options = {.size = sizeof options,
                                               .n_context = N_CONTEXT,
                                               .draft_by = SP_DRAFT_BY_BOTH,
                                               .prompt_cache = cache};
    struct sp_scheduler *scheduler = g.package->scheduler;
    struct together all[N_TOGETHER] = {{0}};
    struct prompts p;
    struct sp_result want;

    make_prompts(&p, &g);
    want = plain_answer(path, p.next, N_NEXT);
    for (size_t i = 0; i < N_TOGETHER; i++)
        all[i] = (struct together){
            .session = keep_session(g.package, &options),
            .request = {ANSWER_TO(p.next, N_NEXT, N_TOKENS), .draft_len = DRAFT_LENGTH,
                        .digest = true, .ignore_eos = true,
                        .prompt_progress = i < n_cancelled ? cancel_begun : NULL},
            .result = SP_RESULT_INIT,
        };
    sp_scheduler_acquire(scheduler);
    for (size_t i = 0; i < N_TOGETHER; i++) {
        assert_int_equal(pthread_create(&all[i].thread, NULL, generate_together, &all[i]), 0);
        while (sp_scheduler_n_active(scheduler) < i + 2)
            continue;
    }
    sp_scheduler_release(scheduler);
    for (size_t i = 0; i < N_TOGETHER; i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        assert_int_equal(all[i].status, i < n_cancelled ? SP_E_CANCELLED : SP_OK);
        if (all[i].status == SP_OK) generate_assert_same(&all[i].result, &want);
        n_reused += all[i].result.n_reused;
        sp_result_release(&all[i].result);
    }
    assert_int_equal(n_reused, (N_TOGETHER - 1 - n_cancelled) * 512);
    assert_string_equal(notes, "");
    kept_release(n_kept);
}

/* Each page is computed once. */
TEST(sequences_wait_for_pages)
{
    check_together(packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_Q8), 0);
    check_together(packed_file(TESTDATA "/tiny/Modelfile.ar", SP_DTYPE_NONE, SP_Q8), 0);
    check_together(packed_family("olmo3", SP_Q8), 0);
    check_together(packed_family("qwen3_next", SP_Q8), 0);
}

/* A page whose computation is cancelled is computed by one of those that wait for it. */
TEST(cancelled_pages_are_computed)
{
    check_together(packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_Q8), 1);
}

/* ---- pages that several sequences have in memory ---- */

/* Bytes that the process has of shared pages, and what remains if each byte is divided among the
 * mappings that have it. */
static void shared_memory(size_t *resident, size_t *divided)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    bool is_shared = false;
    char line[512];
    size_t n, end;

    if (maps == NULL) skip();
    *resident = *divided = 0;
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%zx-%zx", &n, &end) == 2) is_shared = strstr(line, "memfd:pages") != NULL;
        if (is_shared && sscanf(line, "Rss: %zu", &n) == 1) *resident += n << 10;
        if (is_shared && sscanf(line, "Pss: %zu", &n) == 1) *divided += n << 10;
    }
    fclose(maps);
}

/* Bytes that the file of shared pages has. */
static size_t size_of_shared(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[64] = "";
        struct stat info;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) < 0 || !strstr(target, "memfd:pages"))
            continue;
        if (fstat(fd, &info) == 0) n += (size_t)info.st_blocks * 512;
    }
    return n;
}

/* Sessions with one prompt have its pages once. One of them that goes on to a prompt of which it
 * has the first tokens leaves the others theirs, and nothing is left after the last. */
static void check_shared(const char *path, enum sp_cache_type type)
{
    enum { N_SESSIONS = 3 };
    struct sp_prompt_cache *cache = open_cache(new_folder(), 0);
    const struct sp_session_options options = {
        .cache = type, .draft_by = SP_DRAFT_BY_BOTH, .prompt_cache = cache};
    struct generate_fixture all[N_SESSIONS], plain;
    size_t n_kept = kept_count(), resident, divided;
    uint64_t digest = 0;
    struct prompts p;

    for (size_t i = 0; i < N_SESSIONS; i++) {
        all[i] = open_with(path, NULL, 1, options);
        make_prompts(&p, &all[i]);
        generate_run(all[i].session, p.first, N_FIRST, 1, PLAIN, true);
        if (i == 0) digest = decoder_digest(all[0].session->speculator->decoder, N_FIRST);
        assert_int_equal(decoder_digest(all[i].session->speculator->decoder, N_FIRST), digest);
    }
    shared_memory(&resident, &divided);
    assert_in_range(size_of_shared(), 1, divided * 5 / 4);
    assert_in_range(resident, divided * N_SESSIONS, divided * N_SESSIONS * 5 / 4);

    plain = open_with(path, NULL, 1, (struct sp_session_options){.cache = type});
    generate_ids(p.next, N_NEXT, 7, plain.package->target->config.n_vocab);
    memcpy(p.next, p.first, 200 * sizeof *p.next);
    generate_run(plain.session, p.next, N_FIRST, 1, PLAIN, true);
    generate_run(all[1].session, p.next, N_FIRST, 1, PLAIN, true);
    assert_int_equal(decoder_digest(all[1].session->speculator->decoder, N_FIRST),
                     decoder_digest(plain.session->speculator->decoder, N_FIRST));
    assert_int_equal(decoder_digest(all[0].session->speculator->decoder, N_FIRST), digest);
    kept_release(n_kept);
    assert_int_equal(size_of_shared(), 0);
}

/* Where a sequence would have huge pages of memory, the second one that has a page fills it. */
TEST(second_use_maps)
{
    struct sp_prompt_cache *cache = open_cache(new_folder(), 0);
    struct sp_page_use uses[2] = {{0}};
    struct sp_region regions[2];
    struct sp_page_rows rows[2];
    enum { SIZE = 1 << 16 };

    for (size_t i = 0; i < 2; i++) {
        assert_ok(sp_region_open(&regions[i], SIZE, why));
        assert_ok(sp_region_grow(&regions[i], SIZE, why));
        memset(regions[i].at, 1, SIZE);
        rows[i] = (struct sp_page_rows){regions[i].at, SIZE};
        sp_prompt_cache_share(cache, &uses[i], "one", &rows[i], 1, false);
        assert_int_equal(uses[i].is_mapped, i == 1);
    }
    sp_prompt_cache_share(cache, &uses[0], "one", &rows[0], 1, false);
    assert_true(uses[0].is_mapped);
    assert_int_equal(size_of_shared(), SIZE);
    /* Half of the rows stay those that are mapped. */
    memset(regions[1].at, 2, SIZE / 2);
    sp_prompt_cache_share(cache, &uses[1], "two", &rows[1], 1, false);
    sp_page_use_end(&uses[0]);
    assert_int_equal(size_of_shared(), 0);
    assert_int_equal(regions[1].at[0], 2);
    assert_int_equal(regions[1].at[SIZE - 1], 1);
    sp_page_use_end(&uses[1]);
    sp_region_close(&regions[0]);
    sp_region_close(&regions[1]);
}

TEST(pages_are_shared)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);

    check_shared(path, SP_CACHE_F16);
    check_shared(path, SP_CACHE_F32);
    check_shared(packed_family("qwen3_next", SP_Q8), SP_CACHE_F16);
}

/* ---- pages that cannot be used ---- */

struct kept {
    const char *path, *folder;
    struct prompts p;
    struct sp_result want;
};

/* Has the pages of the first prompt written. */
static struct kept keep_first(const char *path, bool drafts)
{
    struct kept k = {.path = path, .folder = new_folder()};
    struct sp_prompt_cache *cache = open_cache(k.folder, 0);
    struct generate_fixture g = open_with(
        path, NULL, 1,
        (struct sp_session_options){.draft_by = drafts ? SP_DRAFT_BY_BOTH : SP_DRAFT_BY_NOTHING,
                                    .prompt_cache = cache});

    make_prompts(&k.p, &g);
    generate_run(g.session, k.p.first, N_FIRST, 1, drafts ? DRAFT_LENGTH : PLAIN, true);
    k.want = plain_answer(path, k.p.first, N_FIRST);
    assert_true(count_files(k.folder, ".page") >= 2);
    return k;
}

/* The path of the page, 0 or 1, of the first prompt: later pages have more tokens. */
static const char *page_path(const struct kept *k, size_t page)
{
    const char *paths[2];
    off_t sizes[2];
    size_t n = 0;

    for (const char *const *name = folder_names(k->folder); *name; name++) {
        struct stat info;
        if (strstr(*name, ".state")) continue;
        assert_true(n < 2);
        paths[n] = keep_format("%s/%s", k->folder, *name);
        assert_int_equal(stat(paths[n], &info), 0);
        sizes[n++] = info.st_size;
    }
    assert_int_equal(n, 2);
    assert_true(sizes[0] != sizes[1]);
    return paths[(sizes[0] < sizes[1]) == (page == 1)];
}

static void write_page(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Checks that the other page is used, that a note says why, and that the page is there
 * again. */
static void check_damage(const struct kept *k, const char *page, const char *reason)
{
    notes[0] = '\0';
    assert_int_equal(answer_anew(k->path, NULL, k->folder, k->p.first, N_FIRST, &k->want), 256);
    if (strstr(notes, reason) == NULL) fail_msg("%s: expected %s", notes, reason);
    assert_non_null(strstr(notes, page));
    notes[0] = '\0';
    assert_int_equal(answer_anew(k->path, NULL, k->folder, k->p.first, N_FIRST, &k->want), 512);
    assert_string_equal(notes, "");
}

static void check_damages(const char *path)
{
    struct kept k = keep_first(path, true);

    for (size_t page = 0; page < 2; page++) {
        const char *at = page_path(&k, page);
        size_t size;
        uint8_t *bytes = (uint8_t *)scratch_read(at, &size);
        for (size_t i = 0; i < 3; i++) {
            size_t changed = 40 + (size - 41) * i / 2;
            bytes[changed] ^= 4;
            write_page(at, bytes, size);
            check_damage(&k, at, at);
            bytes[changed] ^= 4;
            write_page(at, bytes, (size - 1) * i / 2);
            check_damage(&k, at, at);
        }
        bytes[8] = 9;
        write_page(at, bytes, size);
        check_damage(&k, at, "version 9");
    }
}

TEST(damage_is_detected)
{
    check_damages(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8));
}

/* Damage in windows, whose slots several pages share, loses all that was read. */
TEST(damage_in_windows_is_detected)
{
    check_damages(packed_family("olmo3", SP_Q8));
}

TEST(lost_states_are_missed)
{
    struct kept k = keep_first(packed_family("mamba2", SP_Q8), true);
    const char *path = NULL;
    uint8_t *bytes;
    size_t size;

    for (const char *const *name = folder_names(k.folder); *name; name++) {
        if (strstr(*name, ".state") == NULL) continue;
        path = keep_format("%s/%s", k.folder, *name);
        assert_int_equal(truncate(path, 100), 0);
    }
    assert_in_range(answer_anew(k.path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 0, 256);
    assert_non_null(strstr(notes, ".state.page"));
    assert_int_equal(answer_anew(k.path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 512);
    bytes = (uint8_t *)scratch_read(path, &size);
    write_page(page_path(&k, 1), bytes, size);
    assert_in_range(answer_anew(k.path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 0, 256);
}

/* A page of other tokens under the name of this one, and a FIFO. */
TEST(foreign_pages_are_refused)
{
    struct kept k = keep_first(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8), true);
    size_t size;
    const char *first = page_path(&k, 0), *second = page_path(&k, 1);
    uint8_t *bytes = (uint8_t *)scratch_read(first, &size);

    write_page(second, bytes, size);
    assert_int_equal(answer_anew(k.path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 256);
    assert_non_null(strstr(notes, "a page of other tokens"));
    assert_int_equal(unlink(second), 0);
    assert_int_equal(mkfifo(second, 0600), 0);
    assert_int_equal(answer_anew(k.path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 256);
}

/* Another file, another type of the caches, and another context of a rotation that depends on it
 * find nothing. */
TEST(mismatched_pages_are_not_found)
{
    struct kept k = keep_first(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8), true);
    const char *other = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q4);
    struct sp_prompt_cache *cache = open_cache(k.folder, 0);
    struct generate_fixture g = open_long(other, NULL, 1, cache);
    struct sp_result r = generate_run(g.session, k.p.first, N_FIRST, 1, PLAIN, true);

    assert_int_equal(r.n_reused, 0);
    g = open_with(k.path, NULL, 1,
                  (struct sp_session_options){.cache = SP_CACHE_Q8, .prompt_cache = cache});
    r = generate_run(g.session, k.p.first, N_FIRST, 1, PLAIN, true);
    assert_int_equal(r.n_reused, 0);
    assert_string_equal(notes, "");
}

/* A prompt that begins like another one. */
TEST(beginnings_are_shared)
{
    struct kept k = keep_first(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8), true);
    struct sp_result want = plain_answer(k.path, k.p.next, N_NEXT);

    assert_int_equal(answer_anew(k.path, NULL, k.folder, k.p.next, N_NEXT, &want), 512);
    /* The last token of a prompt is always processed. */
    want = plain_answer(k.path, k.p.first, 512);
    assert_int_equal(answer_anew(k.path, NULL, k.folder, k.p.first, 512, &want), 256);
    want = plain_answer(k.path, k.p.first, 513);
    assert_int_equal(answer_anew(k.path, NULL, k.folder, k.p.first, 513, &want), 512);
}

static int cancel_late(void *context, size_t done, size_t total)
{
    (void)context;
    (void)total;
    return done >= 640;
}

/* What was computed of a prompt that was cancelled is used when it is sent again, by the same
 * session and by another one. */
static void check_cancelled(const char *path)
{
    const char *folder = new_folder();
    struct sp_prompt_cache *cache = open_cache(folder, 0);
    struct generate_fixture g = open_long(path, NULL, 1, cache);
    struct prompts p;
    struct sp_result r = SP_RESULT_INIT;
    struct sp_request request = {ANSWER_TO(p.next, N_NEXT, 1), .prompt_progress = cancel_late};

    make_prompts(&p, &g);
    struct sp_result want = plain_answer(path, p.next, N_NEXT);
    assert_int_equal(sp_session_generate(g.session, &request, &r, NULL), SP_E_CANCELLED);
    assert_in_range(answer_anew(path, NULL, folder, p.next, N_NEXT, &want), 512, 640);
    r = generate_run(g.session, p.next, N_NEXT, N_TOKENS, DRAFT_LENGTH, true);
    generate_assert_same(&r, &want);
    assert_in_range(r.n_reused, 640, N_NEXT - 1);
    assert_true(sp_session_prompt_seconds(g.session, 100) > 0);
}

TEST(cancelled_prompts_are_kept)
{
    check_cancelled(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8));
    check_cancelled(packed_family("mamba2", SP_Q8));
    check_cancelled(packed_family("olmo3", SP_Q8));
}

/* Sessions with and without the draft have pages of their own. */
TEST(pages_have_the_draft)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct kept k = keep_first(path, false);

    assert_int_equal(answer_anew(path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 0);
    assert_int_equal(answer_anew(path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 512);
    assert_int_equal(count_files(k.folder, ".page"), 4);
    assert_string_equal(notes, "");
}

/* ---- the folder ---- */

TEST(oldest_pages_are_removed)
{
    struct kept k = keep_first(packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8), true);
    const char *first = page_path(&k, 0), *second = page_path(&k, 1);
    struct stat info;
    uint64_t size;
    struct sp_prompt_cache *cache;

    /* The first page of a sequence is the last to be removed. */
    assert_int_equal(stat(first, &info), 0);
    size = (uint64_t)info.st_size;
    cache = open_cache(k.folder, size + 1);
    assert_int_equal(access(first, F_OK), 0);
    assert_int_equal(access(second, F_OK), -1);
    assert_int_equal(answer_anew(k.path, NULL, k.folder, k.p.first, N_FIRST, &k.want), 256);
    /* A session keeps the bound. */
    cache = open_cache(k.folder, 2 * size);
    struct generate_fixture g = open_long(k.path, NULL, 1, cache);
    generate_run(g.session, k.p.next, N_NEXT, 1, DRAFT_LENGTH, true);
    assert_in_range(count_files(k.folder, ".page"), 1, 2);
    assert_string_equal(notes, "");
    /* What the user has in the folder stays. */
    write_page(keep_format("%s/letter.pages", k.folder), (const uint8_t *)"Dear", 4);
    cache = open_cache(k.folder, 1);
    assert_int_equal(count_files(k.folder, ".page"), 1);
}

/* Pages that another process removed are not written again from windows that have moved on. */
TEST(windows_that_moved_on_are_not_kept)
{
    const char *path = packed_family("olmo3", SP_Q8);
    struct generate_fixture g = open_long(path, NULL, 1, open_cache(new_folder(), 0));
    struct prompts p;
    struct sp_result r, want;

    make_prompts(&p, &g);
    want = plain_answer(path, p.next, N_FIRST);
    generate_run(g.session, p.next, N_FIRST, 1, PLAIN, true);
    new_folder();
    r = generate_run(g.session, p.next, N_NEXT, 1, PLAIN, true);
    assert_in_range(r.n_reused, 512, N_FIRST);
    assert_int_equal(answer_anew(path, NULL, packed_path("pages"), p.next, N_FIRST, &want), 0);
}

/* A page that cannot be written costs a note. */
TEST(full_disk)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    const char *folder = new_folder();
    struct sp_prompt_cache *cache = open_cache(folder, 0);
    struct generate_fixture g = open_long(path, NULL, 1, cache);
    struct rlimit limit, small;
    struct prompts p;
    struct sp_result r, want;

    make_prompts(&p, &g);
    want = plain_answer(path, p.first, N_FIRST);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    r = generate_run(g.session, p.first, N_FIRST, N_TOKENS, DRAFT_LENGTH, true);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    generate_assert_same(&r, &want);
    assert_int_equal(count_files(folder, ""), 0);
    assert_non_null(strstr(notes, "prompts are not kept for now"));
    assert_null(strchr(strchr(notes, '\n') + 1, '\n'));
}

TEST(unusable_folders_are_refused)
{
    struct sp_prompt_cache_options options = {.size = sizeof options, .folder = "/dev/null"};
    struct sp_prompt_cache *cache;

    assert_fails_as(sp_prompt_cache_open(&cache, &options, why), SP_E_USAGE,
                    "/dev/null is not a folder");
    options.folder = "/dev/null/pages";
    assert_fails(sp_prompt_cache_open(&cache, &options, why), SP_E_IO, "");
}

/* ---- pages from strangers ---- */

enum { HEAD = 16 };

/* Corrects the digest. The page must be refused, or generation must continue from it. */
static void try_bytes(const struct kept *k, const char *page, uint8_t *bytes, size_t size)
{
    size_t n_kept = kept_count();
    struct sp_prompt_cache *cache = open_cache(k->folder, 0);
    struct generate_fixture g = open_long(k->path, NULL, 1, cache);
    struct sp_request request = {ANSWER_TO(k->p.first, N_FIRST, 6), .draft_len = DRAFT_LENGTH};
    struct sp_result result = SP_RESULT_INIT;

    sp_put64(bytes + size - 8, sp_hash64(bytes + HEAD, size - HEAD - 8));
    write_page(page, bytes, size);
    enum sp_status st = sp_session_generate(g.session, &request, &result, NULL);
    assert_true(st == SP_OK || st == SP_E_INPUT);
    sp_result_release(&result);
    kept_release(n_kept);
    notes[0] = '\0';
}

/* Changes numbers that may be sizes, and writes random bytes anywhere behind the tokens. */
TEST(corrupted_pages_are_refused_or_usable)
{
    static const char *const drafts[] = {"anchored", "peagle"};
    static const uint64_t numbers[] = {0, 3, 1ull << 40, UINT64_MAX};
    enum { TOKENS = HEAD + 37 + 512 * 4 };
    uint32_t noise = 1;

    for (size_t d = 0; d < sizeof drafts / sizeof *drafts; d++) {
        struct kept k = keep_first(packed_speculator(drafts[d], SP_Q8, SP_Q8), true);
        const char *page = page_path(&k, 1);
        size_t size, n_tried = 0;
        uint8_t *bytes = (uint8_t *)scratch_read(page, &size);
        for (size_t at = size - 8; at >= TOKENS + 8 && n_tried < 8; at -= 4) {
            uint64_t was = sp_get64(bytes + at - 8);
            if (was == 0 || was > 1024) continue;
            for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++, n_tried++) {
                sp_put64(bytes + at - 8, numbers[i]);
                try_bytes(&k, page, bytes, size);
            }
            sp_put64(bytes + at - 8, was);
        }
        assert_true(n_tried > 0 || d == 0);
        for (size_t i = 0; i < 8; i++) {
            noise = noise * 1664525u + 1013904223u;
            size_t at = HEAD + (noise >> 4) % (size - HEAD - 8);
            uint8_t was = bytes[at];
            bytes[at] = (uint8_t)(noise >> 24);
            try_bytes(&k, page, bytes, size);
            bytes[at] = was;
        }
    }
}

GROUP_FIXTURE(packed_setup, packed_teardown);
