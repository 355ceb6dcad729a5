/* Tests embeddings: equal to those of sentence-transformers, and the same bits whatever shares the
 * passes, whichever kernels and however many threads compute them. */
#include "format/json/json.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "runtime/session/session.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { MOST_CASES = 32 };

/* The golden texts of a model, as ids. */
struct golden {
    struct sp_package *package;
    struct sp_json *json;
    const struct sp_json *cases[MOST_CASES];
    struct sp_embedding_text texts[MOST_CASES];
    size_t n, n_max;
};

static struct sp_package *open_model(const char *folder, enum sp_dtype type, const char *kernels,
                                     unsigned n_threads)
{
    return keep_package_with(packed_alone(folder, type), kernels, n_threads);
}

static void encode(struct golden *g, const struct sp_json *one)
{
    size_t size, i = g->n++;
    uint32_t *ids = NULL;
    const char *text = sp_json_to_string(sp_json_get(one, "text"), &size);
    int64_t n = -1;

    assert_ok(sp_package_encode_for_embedding(g->package, sp_json_get_text(one, "prompt"), text,
                                              size, g->n_max, &ids, &g->texts[i].n, why));
    assert_true(sp_json_to_i64(sp_json_get(one, "tokens"), &n));
    assert_int_equal(g->texts[i].n, n);
    g->texts[i].ids = keep(ids);
    g->cases[i] = one;
}

/* The tokens of the longest text, to which sentence-transformers cuts longer ones. */
static size_t most_tokens(const struct sp_json *cases)
{
    int64_t n = 0, most = 0;

    for (size_t i = 0; i < sp_json_len(cases); i++) {
        assert_true(sp_json_to_i64(sp_json_get(sp_json_at(cases, i), "tokens"), &n));
        if (n > most) most = n;
    }
    return (size_t)most;
}

/* The texts of testdata/embeddings/NAME with the model at `path`. Without sentence-transformers'
 * files it has no prompts and no limit of tokens. */
static struct golden golden_open_with(const char *path, const char *name, bool complete,
                                      enum sp_dtype type, const char *kernels, unsigned n_threads)
{
    struct golden g = {
        .package = open_model(path, type, kernels, n_threads),
        .json = golden_json(keep_format(TESTDATA "/embeddings/%s/golden.json", name)),
    };
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    const struct sp_json *cases = sp_json_get(g.json, "cases");

    sp_package_describe(g.package, &info);
    g.n_max = info.max_embedding_tokens;
    assert_in_range(sp_json_len(cases), 1, MOST_CASES);
    if (!complete) g.n_max = most_tokens(cases);
    for (size_t i = 0; i < sp_json_len(cases); i++) {
        const struct sp_json *one = sp_json_at(cases, i);
        if (complete || sp_json_get_text(one, "prompt") == NULL) encode(&g, one);
    }
    return g;
}

static struct golden golden_open(const char *name, enum sp_dtype type, const char *kernels,
                                 unsigned n_threads)
{
    const char *path = keep_format(TESTDATA "/embeddings/%s", name);
    return golden_open_with(path, name, true, type, kernels, n_threads);
}

static float *embed(const struct golden *g, size_t first, size_t n, size_t n_dimensions,
                    size_t *width)
{
    struct sp_embedding_request request = {.size = sizeof request,
                                           .texts = g->texts + first,
                                           .n_texts = n,
                                           .n_dimensions = n_dimensions};
    float *rows = NULL;

    assert_ok(sp_package_embed(g->package, &request, &rows, width, why));
    return keep(rows);
}

static double length_of(const struct sp_json *numbers)
{
    double sum = 0, x = 0;

    for (size_t k = 0; k < sp_json_len(numbers); k++) {
        assert_true(sp_json_to_double(sp_json_at(numbers, k), &x));
        sum += x * x;
    }
    return sqrt(sum);
}

/* unit: the embeddings have length 1 even if the golden ones have not. */
static void assert_golden(const struct golden *g, bool unit)
{
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    size_t width;
    float *rows = embed(g, 0, g->n, 0, &width);

    sp_package_describe(g->package, &info);
    assert_int_equal(info.n_embedding, width);
    for (size_t i = 0; i < g->n; i++) {
        const struct sp_json *want = sp_json_get(g->cases[i], "embedding");
        double length = unit ? length_of(want) : 1;
        assert_int_equal(sp_json_len(want), width);
        for (size_t k = 0; k < width; k++) {
            double x = 0;
            assert_true(sp_json_to_double(sp_json_at(want, k), &x));
            if (fabs(x / length - (double)rows[i * width + k]) > 1e-5)
                fail_msg("text %zu, number %zu: %g, expected %g", i, k, (double)rows[i * width + k],
                         x / length);
        }
    }
}

static void equals_sentence_transformers(void **state)
{
    struct golden g = golden_open(*state, SP_DTYPE_NONE, NULL, 2);

    assert_golden(&g, false);
}

/* What llama.cpp's converter made of an encoder and its tokenizer. */
static void gguf_equals_sentence_transformers(void **state)
{
    const char *path = keep_format(TESTDATA "/gguf/%s.gguf", (const char *)*state);
    struct golden g = golden_open_with(path, *state, false, SP_DTYPE_NONE, NULL, 2);

    assert_golden(&g, true);
}

/* A text by itself has the bits that it has among others, with any kernels and threads. */
static void same_bits(void **state)
{
    static const enum sp_dtype types[] = {SP_DTYPE_NONE, SP_Q8};

    for (size_t t = 0; t < 2; t++) {
        struct golden g = golden_open(*state, types[t], NULL, 1);
        struct golden other = golden_open(*state, types[t], "scalar", 3);
        size_t width;
        float *all = embed(&g, 0, g.n, 0, &width), *again = embed(&other, 0, g.n, 0, &width);
        assert_memory_equal(all, again, g.n * width * sizeof *all);
        for (size_t i = 0; i < g.n; i++) {
            float *one = embed(i % 2 ? &g : &other, i, 1, 0, &width);
            assert_memory_equal(one, all + i * width, width * sizeof *one);
        }
    }
}

TEST(more_texts_than_decoders)
{
    enum { N = 70 };
    struct golden g = golden_open("qwen3", SP_DTYPE_NONE, NULL, 2), many = g;
    struct sp_embedding_text texts[N];
    struct sp_embedding_request request = {.size = sizeof request, .texts = texts, .n_texts = N};
    size_t width;
    float *all = embed(&g, 0, g.n, 0, &width), *rows = NULL;

    for (size_t i = 0; i < N; i++)
        texts[i] = g.texts[i % g.n];
    assert_ok(sp_package_embed(many.package, &request, &rows, &width, why));
    for (size_t i = 0; i < N; i++)
        assert_memory_equal(rows + i * width, all + i % g.n * width, width * sizeof *rows);
    free(rows);
}

/* A request of many texts, which a short request joins after its first pass. */
struct long_request {
    struct golden *g;
    size_t n_calls;
    pthread_t other;
    atomic_bool other_is_done;
    bool was_first; /* the short request was done before the last pass of the long one */
};

static void *embed_one(void *context)
{
    struct long_request *r = context;
    size_t width;

    embed(r->g, 0, 1, 0, &width);
    atomic_store(&r->other_is_done, true);
    return NULL;
}

static int join_in(void *context, size_t done, size_t total)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    struct long_request *r = context;

    if (r->n_calls++ == 0) {
        assert_int_equal(pthread_create(&r->other, NULL, embed_one, r), 0);
        while (sp_scheduler_n_active(r->g->package->embedding) == 1) /* this one alone */
            nanosleep(&pause, NULL);
    }
    for (int i = 0; i < 2000 && done == total && !r->was_first; i++) {
        r->was_first = atomic_load(&r->other_is_done);
        if (!r->was_first) nanosleep(&pause, NULL);
    }
    return 0;
}

/* A short request does not wait for all of a long one, whose embeddings stay the same. */
TEST(requests_alternate)
{
    enum { N = 256, LEN = 24 };
    struct golden g = golden_open("qwen3", SP_DTYPE_NONE, NULL, 2);
    struct sp_embedding_text texts[N];
    uint32_t ids[LEN];
    struct long_request r = {.g = &g};
    struct sp_embedding_request request = {
        .size = sizeof request, .texts = texts, .n_texts = N, .context = &r, .progress = join_in};
    float *rows = NULL;
    size_t width;

    for (size_t i = 0; i < LEN; i++)
        ids[i] = (uint32_t)(3 + i);
    for (size_t i = 0; i < N; i++)
        texts[i] = (struct sp_embedding_text){ids, LEN - i % 3};
    assert_int_equal(sp_package_embed(g.package, &request, &rows, &width, NULL), SP_OK);
    assert_int_equal(pthread_join(r.other, NULL), 0);
    assert_true(r.was_first);
    for (size_t i = 3; i < N; i++)
        assert_memory_equal(rows + i * width, rows + i % 3 * width, width * sizeof *rows);
    free(rows);
}

/* Fewer dimensions are the first ones, with length 1 again if the whole embedding has it. */
static void dimensions(void **state)
{
    struct golden g = golden_open(*state, SP_DTYPE_NONE, NULL, 1);
    size_t width, n;
    float *all = embed(&g, 0, 1, 0, &width), *few = embed(&g, 0, 1, 5, &n);
    double square = 0;
    bool normal = strcmp(*state, "llama") != 0;

    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++)
        square += (double)all[i] * (double)all[i];
    for (size_t i = 0; i < n; i++) {
        double want = (double)all[i] / (normal ? sqrt(square) : 1);
        assert_true(fabs((double)few[i] - want) < 1e-6);
    }
}

static void check_refusal(const struct golden *g, const struct sp_embedding_request *request,
                          enum sp_status st, const char *message)
{
    float *rows = NULL;
    size_t width;

    assert_fails(sp_package_embed(g->package, request, &rows, &width, why), st, message);
    assert_null(rows);
}

static int stop(void *context, size_t done, size_t total)
{
    (void)context;
    (void)total;
    return done > 0;
}

TEST(refusals)
{
    struct golden g = golden_open("qwen3", SP_DTYPE_NONE, NULL, 1);
    uint32_t ids[64] = {1, 2, 300};
    struct sp_embedding_text texts[2] = {{ids, 2}, {ids, 3}};
    struct sp_embedding_request q = {.size = sizeof q, .texts = texts, .n_texts = 2};
    uint32_t *encoded = NULL;
    size_t n;

    check_refusal(&g, &q, SP_E_USAGE, "token ID 300");
    texts[1].n = 0;
    check_refusal(&g, &q, SP_E_USAGE, "text 1 has no tokens");
    texts[1].n = 41;
    check_refusal(&g, &q, SP_E_USAGE, "text 1 has 41 tokens, but the model reads at most 40");
    q.n_texts = 1;
    q.n_dimensions = 33;
    check_refusal(&g, &q, SP_E_USAGE, "33 dimensions: the model's embeddings have 32");
    q.n_dimensions = 0;
    q.pooling = (enum sp_pooling)9;
    check_refusal(&g, &q, SP_E_USAGE, "pooling 9");
    q.pooling = SP_POOLING_OF_FILE;
    q.progress = stop;
    check_refusal(&g, &q, SP_E_CANCELLED, "interrupted");
    assert_fails(sp_package_encode_for_embedding(g.package, "other", "a", 1, 0, &encoded, &n, why),
                 SP_E_USAGE, "has no prompt \"other\"");
}

/* A language model embeds texts if it is told which states to pool. */
TEST(language_model)
{
    struct golden g = {.package = open_model(TESTDATA "/tiny/target", SP_DTYPE_NONE, NULL, 1)};
    uint32_t ids[] = {582, 580, 258, 421};
    struct sp_embedding_text text = {ids, 4};
    struct sp_embedding_request q = {.size = sizeof q, .texts = &text, .n_texts = 1};
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    double square = 0;
    float *rows = NULL;
    size_t width;

    sp_package_describe(g.package, &info);
    assert_true(info.generates && info.pooling == SP_POOLING_OF_FILE);
    check_refusal(&g, &q, SP_E_UNSUPPORTED, "not an embedding model");
    q.pooling = SP_POOLING_MEAN;
    assert_ok(sp_package_embed(g.package, &q, &rows, &width, why));
    assert_int_equal(width, info.n_embedding);
    for (size_t i = 0; i < width; i++)
        square += (double)rows[i] * (double)rows[i];
    assert_true(fabs(square - 1) < 1e-5);
    free(rows);
}

/* Models whose tokens see those after them, or without an output matrix, do not generate. */
static void no_generation(void **state)
{
    struct golden g = golden_open(*state, SP_DTYPE_NONE, NULL, 1);
    const struct sp_request request = {ANSWER_TO(g.texts[0].ids, g.texts[0].n, 0)};
    struct sp_result result = SP_RESULT_INIT;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;

    sp_package_describe(g.package, &info);
    assert_false(info.generates);
    assert_fails(sp_session_generate(keep_session(g.package, NULL), &request, &result, why),
                 SP_E_UNSUPPORTED, "makes embeddings and does not generate");
}

CASES(equals_sentence_transformers, "qwen3", "gemma3", "llama", "modernbert", "eurobert",
      "qwen2_bidirectional", "bert", "nomic_bert", "roberta", "xlm_roberta");
CASES(same_bits, "qwen3", "gemma3", "llama", "bert", "modernbert", "nomic_bert",
      "qwen2_bidirectional");
CASES(gguf_equals_sentence_transformers, "qwen3", "gemma3", "modernbert", "eurobert", "bert",
      "nomic_bert", "roberta", "xlm_roberta");
CASES(dimensions, "qwen3", "llama");
CASES(no_generation, "gemma3", "llama", "bert", "modernbert", "qwen2_bidirectional");
GROUP_FIXTURE(packed_setup, packed_teardown);
