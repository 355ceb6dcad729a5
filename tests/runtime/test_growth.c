/* Caches that grow with the sequence: the same bits as caches that are laid out at once, no memory
 * before it is used, and refusals with numbers where the budget ends. */
#include "tests/support/cache_digest.h"
#include "tests/support/generate_checks.h"
#include "tests/support/handmade_models.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "format/system/free_memory.h"
#include "runtime/model/cache_types.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/session/session.h"

#include <sys/resource.h>
#include <unistd.h>

enum { N = 1100, ROWS = 97, N_SHORT = 60, N_LONG = 1040 };

/* Returns NULL if caches of this type do not support the model's heads. */
static struct sp_decoder *open_decoder(const struct sp_package *package, enum sp_cache_type type,
                                       struct sp_cache_budget *budget)
{
    struct sp_decoder_options options = {.n_positions = N,
                                         .max_rows = ROWS,
                                         .max_logit_rows = 1,
                                         .cache_type = type,
                                         .budget = budget};
    struct sp_decoder *decoder = NULL;
    enum sp_status st =
        sp_decoder_open(&decoder, package->target, &package->backend, &options, why);

    if (st != SP_E_UNSUPPORTED) assert_ok(st);
    return decoder;
}

/* Reads ids[from..to-1] with both decoders and compares the logits after every pass. */
static void read_both(const struct sp_package *package, struct sp_decoder *whole,
                      struct sp_decoder *grown, const uint32_t *ids, size_t from, size_t to)
{
    struct sp_decoder *both[] = {whole, grown};

    for (size_t pos = from, n; pos < to; pos += n) {
        n = to - pos < ROWS ? to - pos : ROWS;
        assert_ok(sp_decoder_grow(grown, pos + n, why));
        for (size_t k = 0; k < 2; k++) {
            sp_decoder_run(both[k], ids + pos, n, pos, n);
            sp_decoder_commit(both[k], n);
            sp_decoder_logits(both[k], n - 1, 1);
        }
        assert_memory_equal(sp_decoder_row(whole, 0).row, sp_decoder_row(grown, 0).row,
                            package->target->config.n_vocab * sizeof(float));
    }
    assert_true(decoder_digest(whole, to) == decoder_digest(grown, to));
}

/* With sanitizers each file is tested with every third type: what grows differs by the family, and
 * what is stored by the type. */
static void check_file(const char *path, int place)
{
    struct generate_fixture g = generate_open(path, NULL, 1, NULL);
    size_t most, few;
    uint32_t ids[N];

    generate_ids(ids, N, 5, g.package->target->config.n_vocab);
    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        if (IS_SANITIZED && (type + place) % 3 != 0) continue;
        struct sp_cache_budget budget = {.limit = (size_t)1 << 30};
        struct sp_decoder *whole = open_decoder(g.package, (enum sp_cache_type)type, NULL);
        struct sp_decoder *grown = open_decoder(g.package, (enum sp_cache_type)type, &budget);
        assert_int_equal(budget.used, 0);
        if (whole == NULL && type != SP_CACHE_F16 && type != SP_CACHE_F32) continue;
        read_both(g.package, whole, grown, ids, 0, N_SHORT);
        few = budget.used;
        read_both(g.package, whole, grown, ids, N_SHORT, N);
        most = budget.used;
        assert_true(few < most);
        sp_decoder_shrink(grown, N);
        assert_int_equal(budget.used, most);
        sp_decoder_shrink(grown, N_SHORT);
        assert_int_equal(budget.used, few);
        read_both(g.package, whole, grown, ids, 0, IS_SANITIZED ? N / 2 : N - 200);
        sp_decoder_close(grown);
        sp_decoder_close(whole);
        assert_int_equal(budget.used, 0);
    }
}

/* Full attention, sliding windows, latents, gated delta layers, Mamba-2 beside attention, short
 * convolutions. */
TEST(same_bits)
{
    static const char *const families[] = {"cohere2", "deepseek_v3", "falcon_h1", "lfm2"};
    static const struct handmade_options how = {.mixing = 0.4f};

    check_file(packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_DTYPE_NONE), 0);
    check_file(packed_handmade(&how, SP_DTYPE_NONE, SP_DTYPE_NONE), 1);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        check_file(packed_family(families[i], SP_DTYPE_NONE), 2 + (int)i);
}

/* Keys with a bias above 64 keep f16 where others become codes, and pages of prompts know it. */
TEST(large_biases_keep_f16)
{
    struct generate_fixture g = generate_open(
        packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_DTYPE_NONE), NULL, 1, NULL);
    struct sp_model *model = (struct sp_model *)g.package->target;
    const struct sp_layer_config *l = &model->config.layers[1];
    float *bias = calloc((size_t)l->n_kv_heads * l->head_dim, sizeof *bias);
    uint64_t digests[2];
    struct sp_decoder *d;

    assert_non_null(bias);
    model->layers[1].k_bias = bias;
    for (int i = 0; i < 2; i++) {
        bias[l->n_kv_heads * l->head_dim - 1] = i ? -65 : -64;
        d = open_decoder(g.package, SP_CACHE_Q4, NULL);
        assert_int_equal(d->caches[0].type, SP_CACHE_Q4);
        assert_int_equal(d->caches[1].type, i ? SP_CACHE_F16_Q4 : SP_CACHE_Q4);
        digests[i] = sp_decoder_cache_digest(d);
        sp_decoder_close(d);
    }
    assert_true(digests[0] != digests[1]);
    d = open_decoder(g.package, SP_CACHE_Q8, NULL);
    assert_int_equal(d->caches[1].type, SP_CACHE_F16_Q8);
    sp_decoder_close(d);
    model->layers[1].k_bias = NULL;
    free(bias);
}

/* The types of SP_CACHE_AUTO by layer. Growing, and a decoder whose layers got these types one by
 * one, give the same bits; the first layer stores what it does if all have its type. */
TEST(chosen_by_layer)
{
    enum sp_cache_type types[] = {SP_CACHE_Q4, SP_CACHE_F16,   SP_CACHE_Q8_Q4,
                                  SP_CACHE_Q8, SP_CACHE_Q8_Q4, SP_CACHE_Q8};
    enum { LAYERS = sizeof types / sizeof *types };
    struct generate_fixture g = generate_open(
        packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_DTYPE_NONE), NULL, 1, NULL);
    struct sp_model *model = (struct sp_model *)g.package->target;
    struct sp_cache_budget budget = {.limit = (size_t)1 << 30};
    uint32_t ids[N];
    uint64_t digest;

    assert_int_equal(model->config.n_layers, LAYERS);
    assert_null(open_decoder(g.package, SP_CACHE_AUTO, NULL)); /* nothing is stated */
    model->cache_types = types;
    generate_ids(ids, N, 5, model->config.n_vocab);
    struct sp_decoder *grown = open_decoder(g.package, SP_CACHE_AUTO, &budget);
    struct sp_decoder *set = open_decoder(g.package, SP_CACHE_F16, NULL);
    struct sp_decoder *all = open_decoder(g.package, SP_CACHE_Q4, NULL);
    for (unsigned i = 0; i < LAYERS; i++)
        assert_ok(sp_decoder_set_cache_type(set, i, types[i], NULL));
    read_both(g.package, set, grown, ids, 0, N);
    sp_decoder_run(all, ids, ROWS, 0, ROWS);
    assert_true(kv_digest(&all->caches[0], 0, ROWS) == kv_digest(&grown->caches[0], 0, ROWS));
    assert_true(kv_digest(&all->caches[2], 0, ROWS) != kv_digest(&grown->caches[2], 0, ROWS));
    digest = sp_decoder_cache_digest(grown);
    assert_true(digest == sp_decoder_cache_digest(set) && digest != sp_decoder_cache_digest(all));
    sp_decoder_close(grown);
    types[4] = SP_CACHE_Q8;
    types[5] = SP_CACHE_Q8_Q4;
    grown = open_decoder(g.package, SP_CACHE_AUTO, NULL);
    assert_true(digest != sp_decoder_cache_digest(grown));
    sp_decoder_close(grown);
    sp_decoder_close(set);
    sp_decoder_close(all);
    model->cache_types = NULL;
}

/* A draft, whose caches change no text, has q8, or f16 if a layer's heads cannot have codes. */
TEST(chosen_for_a_draft)
{
    struct sp_layer_config layers[2] = {
        {.mixers = SP_MIXER_ATTENTION, .kv_source = 0, .n_kv_heads = 1, .head_dim = 64},
        {.mixers = SP_MIXER_ATTENTION, .kv_source = 1, .n_kv_heads = 1, .head_dim = 64}};
    struct sp_model draft = {.part = SP_PART_DRAFT, .config = {.n_layers = 2, .layers = layers}};
    enum sp_cache_type type = SP_CACHE_AUTO;

    assert_ok(sp_cache_types_resolve(&type, &draft, NULL));
    assert_int_equal(type, SP_CACHE_Q8);
    layers[1].head_dim = 40;
    type = SP_CACHE_AUTO;
    assert_ok(sp_cache_types_resolve(&type, &draft, NULL));
    assert_int_equal(type, SP_CACHE_F16);
}

/* The resident memory of this process in bytes. */
static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long all = 0, pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A model with a small draft; the caller closes it, and its sessions. */
static struct sp_package *open_package(size_t cache_memory, struct sp_cache_budget *budget)
{
    struct sp_package_options options = {
        .size = sizeof options, .cache_memory = cache_memory, .budget = budget};
    const char *path = packed_file(TESTDATA "/tiny/Modelfile.ar", SP_DTYPE_NONE, SP_DTYPE_NONE);
    struct sp_package *package = NULL;

    assert_ok(sp_package_open(&package, path, &options, why));
    return package;
}

static struct sp_session *open_session(struct sp_package *package, size_t n_context)
{
    struct sp_session_options options = {.size = sizeof options, .n_context = n_context};
    struct sp_session *session = NULL;

    assert_ok(sp_session_open(&session, package, &options, why));
    return session;
}

/* The default context is the model's own maximum, and a million positions cost no memory. */
TEST(free_of_charge)
{
    struct sp_package *package = open_package(0, NULL);
    struct sp_session *session = open_session(package, 0);
    size_t before;

    assert_int_equal(sp_session_n_context(session), 2048);
    sp_session_close(session);
    package->target->config.max_positions = package->draft->config.max_positions = 1 << 20;
    before = resident();
    session = open_session(package, 0);
    assert_int_equal(sp_session_n_context(session), 1 << 20);
    assert_int_equal(package->caches->used, 0);
    assert_true(resident() < before + (32 << 20));
    sp_session_close(session);
    sp_package_close(package);
}

/* Under a limit of the address space the default context is halved until the caches fit and leave
 * space for everything else. Sanitizers reserve more than any limit. */
TEST(limited_space)
{
#ifdef SP_SANITIZED
    skip();
#else
    struct sp_package *package = open_package(0, NULL);
    struct rlimit before, limit;
    struct sp_session *session;
    uint64_t left, all;
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    (void)state;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    package->target->config.max_positions = package->draft->config.max_positions = 1 << 20;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + (400 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    session = open_session(package, 0);
    assert_in_range(sp_session_n_context(session), 4096, (1 << 20) - 1);
    assert_int_equal((1 << 20) % sp_session_n_context(session), 0);
    assert_true(sp_address_space(&left, &all));
    assert_true(left >= all / 4);
    sp_session_close(session);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    sp_package_close(package);
#endif
}

/* A long answer from caches that grow is that of a context that is laid out at once; the draft's
 * caches grow as well. A new prompt returns the memory. */
TEST(long_answer)
{
    struct sp_package *package = open_package(0, NULL);
    struct sp_session *grown = open_session(package, 2048), *small;
    struct sp_result a, b;
    uint32_t ids[N_SHORT];
    size_t most;

    generate_ids(ids, N_SHORT, 5, package->target->config.n_vocab);
    a = generate_run(grown, ids, N_SHORT, N_LONG, SP_DRAFT_LENGTH_AUTO, true);
    most = package->caches->used;
    small = open_session(package, N_SHORT + N_LONG);
    b = generate_run(small, ids, N_SHORT, N_LONG, 4, true);
    generate_assert_same(&a, &b);
    sp_session_close(small);
    assert_int_equal(package->caches->used, most);
    a = generate_run(grown, ids, N_SHORT - 1, 1, PLAIN, true);
    assert_true(package->caches->used < most);
    sp_session_close(grown);
    assert_int_equal(package->caches->used, 0);
    sp_package_close(package);
}

/* A budget that holds one step of growth: a longer prompt is refused with the numbers before it is
 * read, and an answer ends where the budget does, with the tokens of the whole answer. */
TEST(budgets)
{
    struct sp_package *package = open_package(0, NULL);
    struct sp_session *session = open_session(package, 0);
    uint32_t ids[N];
    struct sp_request request = {ANSWER_TO(ids, N, 1), .ignore_eos = true};
    struct sp_result whole, part, result = SP_RESULT_INIT;
    struct sp_err err = {0};
    size_t step;

    generate_ids(ids, N, 5, package->target->config.n_vocab);
    whole = generate_run(session, ids, N_SHORT, N_LONG, SP_DRAFT_LENGTH_AUTO, true);
    sp_session_close(session);
    session = open_session(package, 0);
    part = generate_run(session, ids, N_SHORT, 1, SP_DRAFT_LENGTH_AUTO, true);
    step = package->caches->used;
    sp_session_close(session);
    sp_package_close(package);

    package = open_package(step + step / 2, NULL);
    session = open_session(package, 0);
    assert_int_equal(sp_session_generate(session, &request, &result, &err), SP_E_NOMEM);
    assert_non_null(strstr(err.text, "KV caches for "));
    assert_non_null(strstr(err.text, "of the limit are left"));
    assert_int_equal(err.topic, SP_TOPIC_CACHES);
    assert_int_equal(sp_session_n_cached(session), 0);
    part = generate_run(session, ids, N_SHORT, N_LONG, SP_DRAFT_LENGTH_AUTO, true);
    assert_int_equal(part.stop, SP_STOP_MEMORY);
    assert_string_equal(sp_stop_name(part.stop), "memory");
    assert_in_range(part.n_ids, 100, N_LONG - 1);
    assert_memory_equal(part.ids, whole.ids, part.n_ids * sizeof *part.ids);
    sp_session_close(session);
    sp_package_close(package);
}

/* A session to clear when memory lacks, and how often it was asked for. */
struct reclaim {
    struct sp_session *session;
    int n_calls;
};

static bool clear(void *context)
{
    struct reclaim *r = context;

    r->n_calls++;
    if (r->session == NULL || sp_session_cache_memory(r->session) == 0) return false;
    sp_session_clear(r->session);
    return true;
}

/* A budget of two packages: what one holds is not left for the other, which frees it. The cleared
 * session gives its answer again. */
TEST(shared_budget)
{
    struct reclaim reclaim = {.n_calls = 0};
    struct sp_cache_budget_options options = {
        .size = sizeof options, .limit = 1, .reclaim = clear, .context = &reclaim};
    struct sp_cache_budget *budget = NULL;
    struct sp_package *packages[2];
    struct sp_session *sessions[2];
    uint32_t ids[N_SHORT];
    struct sp_request request = {ANSWER_TO(ids, N_SHORT, 40)};
    struct sp_result a, b, result = SP_RESULT_INIT;

    assert_ok(sp_cache_budget_new(&budget, &options, why));
    for (size_t i = 0; i < 2; i++) {
        packages[i] = open_package(0, budget);
        sessions[i] = open_session(packages[i], 0);
    }
    generate_ids(ids, N_SHORT, 5, packages[0]->target->config.n_vocab);
    assert_fails(sp_session_generate(sessions[0], &request, &result, why), SP_E_NOMEM, "");
    assert_int_equal(reclaim.n_calls, 0);
    budget->limit = SIZE_MAX;
    a = generate_run(sessions[0], ids, N_SHORT, 40, 2, true);
    assert_int_equal(sp_cache_budget_used(budget), sp_session_cache_memory(sessions[0]));
    budget->limit = sp_cache_budget_used(budget) * 3 / 2;
    assert_fails(sp_session_generate(sessions[1], &request, &result, why), SP_E_NOMEM, "");
    assert_int_equal(reclaim.n_calls, 1);
    assert_int_equal(sp_session_cache_memory(sessions[1]), 0);
    reclaim.session = sessions[0];
    b = generate_run(sessions[1], ids, N_SHORT, 40, 2, true);
    assert_int_equal(sp_session_cache_memory(sessions[0]), 0);
    assert_int_equal(sp_session_n_cached(sessions[0]), 0);
    generate_assert_same(&a, &b);
    reclaim.session = sessions[1];
    b = generate_run(sessions[0], ids, N_SHORT, 40, 2, true);
    generate_assert_same(&a, &b);
    for (size_t i = 0; i < 2; i++) {
        sp_session_close(sessions[i]);
        sp_package_close(packages[i]);
    }
    assert_int_equal(sp_cache_budget_used(budget), 0);
    assert_int_equal(budget->mapped, 0);
    sp_cache_budget_close(budget);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
