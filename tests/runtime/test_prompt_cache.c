/* Tests sessions that load a prompt cache: they continue exactly as the session that saved it. The
 * same tokens of the next prompt are reused, the same draft tokens are proposed, and the response
 * equals that of a fresh session. Caches that do not fit and damaged files are refused. */
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

#include <sys/stat.h>

enum {
    N_CONTEXT = 256,
    N_FIRST = 100,
    N_COMMON = 90,
    N_NEXT = 130,
    N_TOKENS = 12,
    DRAFT_LENGTH = 4
};
enum { N_LAST = N_NEXT + N_TOKENS + 8 };

static const struct sp_session_options default_options = {
    .size = sizeof default_options, .n_context = N_CONTEXT, .draft_by = SP_DRAFT_BY_BOTH};

static void ids_of(uint32_t *ids, size_t n, uint32_t seed, size_t n_vocab)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (seed >> 8) % (uint32_t)n_vocab;
    }
}

/* A prompt, one that shares its beginning, and one that continues after the response to the second.
 */
struct prompts {
    uint32_t first[N_FIRST], next[N_NEXT], last[N_LAST];
};

static struct prompts prompts_for(const struct generate_fixture *g)
{
    size_t n_vocab = g->package->target->config.n_vocab;
    struct prompts p;

    ids_of(p.first, N_FIRST, 1, n_vocab);
    ids_of(p.next, N_NEXT, 2, n_vocab);
    ids_of(p.last, N_LAST, 3, n_vocab);
    memcpy(p.next, p.first, N_COMMON * sizeof *p.next);
    p.next[N_COMMON] = (p.first[N_COMMON] + 1) % (uint32_t)n_vocab;
    memcpy(p.last, p.next, sizeof p.next);
    return p;
}

static void save(struct sp_session *session, const char *path)
{
    struct sp_err err = {0};

    if (sp_session_save(session, path, &err)) fail_msg("%s", err.text);
}

static void load(struct sp_session *session, const char *path)
{
    struct sp_err err = {0};

    if (sp_session_load(session, path, &err)) fail_msg("%s", err.text);
}

/* Checks that both sessions propose the same after a prompt, to the bit. */
static void check_proposal(struct generate_fixture *writer, struct generate_fixture *reader,
                           const uint32_t *ids, size_t n)
{
    const struct sp_model *draft = writer->package->draft, *target = writer->package->target;

    if (draft == NULL || draft->config.draft.kind == SP_DRAFT_NONE) return;
    generate_assert_same_proposal(writer->session, reader->session, ids, n, 3,
                                  draft->head.rows ? draft->head.rows : target->head.rows);
}

/* Checks that both sessions give the same response to the prompt and the same caches afterwards. */
static void check_answers(struct generate_fixture *writer, struct generate_fixture *reader,
                          const char *path, const uint32_t *ids, size_t n, size_t least_reused,
                          uint32_t *answer)
{
    struct generate_fixture fresh = generate_open(path, NULL, 1, &default_options);
    struct sp_result want = generate_run(fresh.session, ids, n, N_TOKENS, PLAIN, true);
    struct sp_result a = generate_run(writer->session, ids, n, N_TOKENS, DRAFT_LENGTH, true);
    struct sp_result b = generate_run(reader->session, ids, n, N_TOKENS, DRAFT_LENGTH, true);

    generate_assert_same(&a, &want);
    generate_assert_same(&b, &want);
    assert_int_equal(b.n_reused, a.n_reused);
    assert_in_range(b.n_reused, least_reused, n);
    assert_int_equal(b.n_rounds, a.n_rounds);
    assert_memory_equal(b.rounds, a.rounds, a.n_rounds * sizeof *a.rounds);
    memcpy(answer, want.ids, N_TOKENS * sizeof *answer);
}

/* Opens a session that loads the cache saved by another. */
static struct generate_fixture reader_of(struct generate_fixture *writer, const char *path,
                                         const struct sp_session_options *options)
{
    const char *cache = packed_path("cache");
    struct generate_fixture reader = generate_open(path, "scalar", 1, options);

    save(writer->session, cache);
    load(reader.session, cache);
    return reader;
}

/* Checks a cache saved after a prompt, and one saved after a drafted response. */
static void check(const char *path)
{
    struct generate_fixture writer = generate_open(path, NULL, 1, &default_options), reader;
    struct prompts p = prompts_for(&writer);
    uint32_t answer[N_TOKENS];

    generate_run(writer.session, p.first, N_FIRST, 1, DRAFT_LENGTH, true);
    reader = reader_of(&writer, path, &default_options);
    check_answers(&writer, &reader, path, p.next, N_NEXT, N_FIRST - 16, p.last + N_NEXT);
    reader = reader_of(&writer, path, &default_options);
    check_answers(&writer, &reader, path, p.last, N_LAST, N_NEXT + N_TOKENS - 2, answer);
    check_proposal(&writer, &reader, p.last, N_LAST - 1);
    assert_int_equal(decoder_digest(reader.session->speculator->decoder, N_LAST - 1),
                     decoder_digest(writer.session->speculator->decoder, N_LAST - 1));
}

/* Checks that both sessions propose and accept the same draft tokens from the first round on. */
static void check_accepted_drafts(const char *path, const struct sp_session_options *options)
{
    enum { N_PROMPT = 4, N_ANSWER = 60, N_BOTH = N_PROMPT + N_ANSWER };
    uint32_t ids[N_BOTH] = {82, 80, 58, 121};
    struct generate_fixture writer = generate_open(path, NULL, 1, options), reader;
    struct sp_result r = generate_run(writer.session, ids, N_PROMPT, N_ANSWER, DRAFT_LENGTH, true),
                     a = SP_RESULT_INIT, b = SP_RESULT_INIT;

    memcpy(ids + N_PROMPT, r.ids, N_ANSWER * sizeof *ids);
    reader = reader_of(&writer, path, options);
    a = generate_run(writer.session, ids, N_BOTH, N_TOKENS, DRAFT_LENGTH, true);
    b = generate_run(reader.session, ids, N_BOTH, N_TOKENS, DRAFT_LENGTH, true);
    generate_assert_same(&a, &b);
    assert_int_equal(b.n_rounds, a.n_rounds);
    assert_memory_equal(b.rounds, a.rounds, a.n_rounds * sizeof *a.rounds);
    assert_true(a.rounds[0].accepted > 0);
}

TEST(families)
{
    for (const char *const *name = golden_families(); *name; name++) {
        char folder[400];
        snprintf(folder, sizeof folder, TESTDATA "/families/%s", *name);
        print_message("%s\n", *name);
        check(packed_file(packed_modelfile(folder, NULL), SP_Q8, SP_DTYPE_NONE));
    }
}

TEST(tiny_drafts)
{
    static const char *const modelfiles[] = {TESTDATA "/tiny/Modelfile",
                                             TESTDATA "/tiny/Modelfile.ar"};

    for (size_t i = 0; i < sizeof modelfiles / sizeof *modelfiles; i++) {
        const char *path = packed_file(modelfiles[i], SP_DTYPE_NONE, SP_Q8);
        check(path);
        check_accepted_drafts(
            path, &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                               .n_context = N_CONTEXT});
    }
}

TEST(speculators)
{
    static const char *const drafts[] = {"anchored", "dflash2", "dspark", "peagle",
                                         "peagle_sliding"};

    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        char folder[400];
        snprintf(folder, sizeof folder, TESTDATA "/speculators/%s", drafts[i]);
        print_message("%s\n", drafts[i]);
        check(packed_file(packed_modelfile(TESTDATA "/speculators/target", folder), SP_Q8, SP_Q8));
    }
}

/* A recurrent model with its built-in head, with an EAGLE-3 draft, and with n-gram drafting. */
TEST(heads)
{
    static const struct handmade_options how = {.mixing = 0.01f, .copies = true};
    static const struct sp_session_options by_lookup = {
        .size = sizeof by_lookup, .n_context = N_CONTEXT, .draft_by = SP_DRAFT_BY_NGRAM};
    char folder[512];
    const char *path;

    handmade_qwen3_5(scratch_folder(), &how);
    path = packed_file(scratch_write("Modelfile", "FROM .\n", 7), SP_Q8, SP_Q8);
    check(path);
    check_accepted_drafts(path,
                          &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                                       .n_context = N_CONTEXT});
    check_accepted_drafts(path, &by_lookup);
    snprintf(folder, sizeof folder, "%s/draft", scratch_folder());
    assert_int_equal(mkdir(folder, 0777), 0);
    handmade_eagle3(folder, &how);
    check(packed_file(scratch_write("Modelfile", "FROM .\nDRAFT ./draft\n", 21), SP_Q8, SP_Q8));
    scratch_remove();
}

TEST(assistants)
{
    static const char modelfile[] = SHARED "/oracle/drafts/assistant_shared/Modelfile";

    if (!golden_exists(modelfile)) skip();
    check(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE));
}

/* ---- refusals ---------------------------------------------------------------------------------
 */

static const char *save_first_prompt(const char *path, const struct sp_session_options *options)
{
    const char *cache = packed_path("cache");
    struct generate_fixture g = generate_open(path, NULL, 1, options);
    struct prompts p = prompts_for(&g);

    generate_run(g.session, p.first, N_FIRST, 1, PLAIN, true);
    save(g.session, cache);
    return cache;
}

/* Checks that the cache is refused and that the session then generates without reused tokens. */
static void check_refused(const char *path, const struct sp_session_options *options,
                          const char *cache, enum sp_status status, const char *why)
{
    struct generate_fixture g = generate_open(path, NULL, 1, options);
    struct prompts p = prompts_for(&g);
    struct sp_err err = {0};
    struct sp_result r = SP_RESULT_INIT;

    assert_int_equal(sp_session_load(g.session, cache, &err), status);
    if (strstr(err.text, why) == NULL) fail_msg("%s: expected %s", err.text, why);
    assert_non_null(strstr(err.text, cache));
    r = generate_run(g.session, p.next, N_NEXT > 64 ? 64 : N_NEXT, 4, DRAFT_LENGTH, true);
    assert_int_equal(r.n_reused, 0);
}

TEST(mismatched_caches_are_refused)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    const char *other = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q4), *cache;
    const struct sp_session_options plain = {.size = sizeof plain,
                                             .n_context = N_CONTEXT,
                                             .draft_by = SP_DRAFT_BY_NOTHING},
                                    q8 = {.size = sizeof q8,
                                          .n_context = N_CONTEXT,
                                          .cache = SP_CACHE_Q8},
                                    narrow = {.size = sizeof narrow, .n_context = 64};

    cache = save_first_prompt(path, &default_options);
    check_refused(other, &default_options, cache, SP_E_INPUT, "another packed file");
    check_refused(path, &q8, cache, SP_E_INPUT, "another type");
    check_refused(path, &narrow, cache, SP_E_INPUT,
                  "a prompt cache of 100 tokens, the context has 64");
    check_refused(path, &default_options, packed_path("none"), SP_E_IO, "");
    check_refused(path, &default_options, path, SP_E_INPUT, "is not a prompt cache");
    cache = save_first_prompt(path, &plain);
    check_refused(path, &default_options, cache, SP_E_CHECK, "without the draft");
}

/* A session without drafting ignores the draft's caches in the file. */
TEST(undrafted_sessions_load_any_cache)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    const char *cache = save_first_prompt(path, &default_options);
    const struct sp_session_options plain = {
        .size = sizeof plain, .n_context = N_CONTEXT, .draft_by = SP_DRAFT_BY_NOTHING};
    struct generate_fixture g = generate_open(path, NULL, 1, &plain);
    struct prompts p = prompts_for(&g);
    struct sp_result r = SP_RESULT_INIT;

    load(g.session, cache);
    r = generate_run(g.session, p.next, N_NEXT, 4, PLAIN, true);
    assert_int_equal(r.n_reused, N_COMMON);
}

/* Saving overwrites prompt caches only. */
TEST(other_files_are_kept)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct generate_fixture g = generate_open(path, NULL, 1, &default_options);
    struct sp_err err = {0};

    assert_int_equal(sp_session_save(g.session, path, &err), SP_E_USAGE);
    assert_non_null(strstr(err.text, "is not a prompt cache"));
}

/* ---- damage -----------------------------------------------------------------------------------
 */

static uint8_t *read_cache(const char *path, size_t *size)
{
    return (uint8_t *)scratch_read(path, size);
}

static void write_cache(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

TEST(damage_is_detected)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    const char *cache = save_first_prompt(path, &default_options);
    size_t size;
    uint8_t *bytes = read_cache(cache, &size);

    for (size_t i = 0; i < 12; i++) {
        size_t at = 40 + (size - 41) * i / 11;
        bytes[at] ^= 4;
        write_cache(cache, bytes, size);
        check_refused(path, &default_options, cache, SP_E_INPUT, "");
        bytes[at] ^= 4;
    }
    for (size_t i = 0; i < 12; i++) {
        write_cache(cache, bytes, (size - 1) * i / 11);
        check_refused(path, &default_options, cache, SP_E_INPUT, "");
    }
    bytes[8] = 3;
    write_cache(cache, bytes, size);
    check_refused(path, &default_options, cache, SP_E_UNSUPPORTED, "version 3");
}

enum { HEAD = 16 };

/* Corrects the digest. The file must be refused, or generation must continue from it. */
static void try_bytes(const char *path, const char *cache, uint8_t *bytes, size_t size)
{
    size_t n_kept = kept_count();
    struct generate_fixture g = generate_open(path, NULL, 1, &default_options);
    struct prompts p = prompts_for(&g);
    struct sp_request request = {.size = sizeof request,
                                 .prompt = p.next,
                                 .n_prompt = N_NEXT,
                                 .max_tokens = 6,
                                 .draft_len = DRAFT_LENGTH};

    sp_put64(bytes + size - 8, sp_hash64(bytes + HEAD, size - HEAD - 8));
    write_cache(cache, bytes, size);
    if (sp_session_load(g.session, cache, NULL) == SP_OK) {
        struct sp_result result = SP_RESULT_INIT;
        enum sp_status st = sp_session_generate(g.session, &request, &result, NULL);
        assert_true(st == SP_OK || st == SP_E_INPUT);
        sp_result_release(&result);
    }
    kept_release(n_kept);
}

/* Changes every number that may be a size, and writes random bytes anywhere. */
TEST(corrupted_caches_are_refused_or_usable)
{
    static const char *const drafts[] = {"anchored", "peagle"};
    static const uint64_t numbers[] = {0, 1, 2, 99, 101, 200, 1ull << 40, UINT64_MAX};
    uint32_t noise = 1;

    for (size_t k = 0; k < sizeof drafts / sizeof *drafts; k++) {
        char folder[400];
        const char *path, *cache;
        uint8_t *bytes;
        size_t size;
        snprintf(folder, sizeof folder, TESTDATA "/speculators/%s", drafts[k]);
        path = packed_file(packed_modelfile(TESTDATA "/speculators/target", folder), SP_Q8, SP_Q8);
        cache = save_first_prompt(path, &default_options);
        bytes = read_cache(cache, &size);
        for (size_t at = HEAD; at + 16 <= size; at += 8) {
            uint64_t was = sp_get64(bytes + at);
            if (was == 0 || was > 1024) continue;
            for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                sp_put64(bytes + at, numbers[i]);
                try_bytes(path, cache, bytes, size);
            }
            sp_put64(bytes + at, was);
        }
        for (size_t i = 0; i < 60; i++) {
            noise = noise * 1664525u + 1013904223u;
            size_t at = HEAD + (noise >> 4) % (size - HEAD - 8);
            uint8_t was = bytes[at];
            bytes[at] = (uint8_t)(noise >> 24);
            try_bytes(path, cache, bytes, size);
            bytes[at] = was;
        }
    }
}

struct saving {
    struct sp_session *session;
    const char *cache;
    size_t n_calls, n_reused;
    int answer;
};

static int save_prompt(void *context, size_t n_reused)
{
    struct saving *s = context;

    s->n_calls++;
    s->n_reused = n_reused;
    save(s->session, s->cache);
    return s->answer;
}

/* A cache saved in the callback after prompt processing does not change the response, and contains
 * the prompt without the response. */
TEST(saved_in_the_callback)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct generate_fixture writer = generate_open(path, NULL, 2, &default_options);
    struct generate_fixture reader = generate_open(path, NULL, 1, &default_options);
    struct saving saving = {.session = writer.session, .cache = packed_path("called")};
    struct prompts p = prompts_for(&writer);
    struct sp_result want = generate_run(reader.session, p.first, N_FIRST, N_TOKENS, PLAIN, true);
    struct sp_request request = {.size = sizeof request,
                                 .prompt = p.first,
                                 .n_prompt = N_FIRST,
                                 .max_tokens = N_TOKENS,
                                 .draft_len = DRAFT_LENGTH,
                                 .ignore_eos = true,
                                 .digest = true,
                                 .context = &saving,
                                 .prompt_read = save_prompt};
    struct sp_result r = SP_RESULT_INIT;

    assert_int_equal(sp_session_generate(writer.session, &request, &r, NULL), SP_OK);
    assert_int_equal(saving.n_calls, 1);
    assert_int_equal(saving.n_reused, 0);
    generate_assert_same(&r, &want);
    sp_result_release(&r);

    reader = generate_open(path, "scalar", 1, &default_options);
    load(reader.session, saving.cache);
    assert_int_equal(sp_session_n_cached(reader.session), N_FIRST);
    r = generate_run(reader.session, p.first, N_FIRST, N_TOKENS, DRAFT_LENGTH, true);
    generate_assert_same(&r, &want);
    assert_in_range(r.n_reused, N_FIRST - 2, N_FIRST - 1);
    r = (struct sp_result)SP_RESULT_INIT;

    /* A callback that cancels ends the response. The cache that it saved is complete. */
    saving.answer = 1;
    request.prompt = p.next;
    request.n_prompt = N_NEXT;
    assert_int_equal(sp_session_generate(writer.session, &request, &r, NULL), SP_E_CANCELLED);
    assert_int_equal(saving.n_calls, 2);
    assert_in_range(saving.n_reused, N_COMMON - 2, N_COMMON);
    load(reader.session, saving.cache);
    assert_int_equal(sp_session_n_cached(reader.session), N_NEXT);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
