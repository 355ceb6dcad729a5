/* Tests files of random weights: sizes computed by hand from the published shape, reproducible
 * bytes, use like any other file, the shapes of mixtures of experts and hybrids, the bytes that a
 * step reads, and simulated acceptance. */
#include "convert/create/synthetic.h"
#include "convert/create/create_job.h"
#include "format/family/config_parse.h"
#include "format/family/config_settle.h"
#include "format/family/family.h"
#include "format/pack_contents.h"
#include "runtime/sampling/chooser.h"
#include "tests/support/generate_checks.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "runtime/spectool_measure.h"

#include <math.h>

static const char shape[] = "smollm2-135m";

/* SmolLM2-135M as published: 134 515 008 weights. */
static const uint64_t keys_values =
    2 * 192 * 576; /* number of weights of a key or value matrix, stored in q8 like the embedding */
static const uint64_t layer_matrices = 2 * 576 * 576 + 3 * 576 * 1536;
static const uint64_t layer_panels = (2 * 576 + 2 * 1536 + 576) / 16;
static const uint64_t norms = 30 * 2 * 576 + 576, embedding = 49152 * 576;

/* A q4 block of 512 weights takes 288 bytes and a panel 64 more; a q8 block takes 544 bytes, a bf16
 * number 2. */
static uint64_t size_in_q4(void)
{
    return 30 * (layer_matrices / 512 * 288 + layer_panels * 64) +
           (30 * keys_values + embedding) / 512 * 544 + 2 * norms;
}

static enum sp_status write(const char *path, const char *target, const char *draft,
                            struct sp_err *err)
{
    struct sp_synthetic_options options = {
        .shape = target, .draft = draft, .target_type = SP_Q4, .draft_type = SP_Q4};

    return sp_synthetic_write(path, &options, err);
}

static struct sp_pack *open_pack(const char *path)
{
    struct sp_pack *pack = NULL;

    assert_ok(sp_pack_open(&pack, path, why));
    return pack;
}

TEST(test_shape)
{
    const char *paths[2] = {packed_path("a.bin"), packed_path("b.bin")};
    uint64_t identities[2], n_weights = 0, size = 0;

    for (int i = 0; i < 2; i++) {
        assert_ok(write(paths[i], shape, NULL, why));
        struct sp_pack *pack = open_pack(paths[i]);
        identities[i] = sp_pack_identity(pack);
        for (size_t t = 0; t < sp_pack_n_tensors(pack) && i == 0; t++) {
            const struct sp_pack_tensor *tensor = sp_pack_tensor(pack, t);
            assert_ok(sp_pack_check_tensor(pack, t, why));
            n_weights += tensor->shape[0] * (tensor->rank > 1 ? tensor->shape[1] : 1);
            size += tensor->size;
        }
        sp_pack_close(pack);
    }
    assert_int_equal(n_weights, 134515008);
    assert_int_equal(size, size_in_q4());
    assert_true(identities[0] ==
                identities[1]); /* equal identities: the directory contains every tensor's digest */
}

static uint64_t read_size(struct sp_package *package, enum sp_cache_type cache, size_t n_before)
{
    struct sp_session_options options = {
        .size = sizeof options, .n_context = 128, .cache = cache, .draft_by = SP_DRAFT_BY_NOTHING};

    return sp_session_read_size(keep_session(package, &options), n_before, 0);
}

/* Returns the fraction of accepted draft tokens in rounds of two. *n_ids: number of generated
 * tokens. */
static double simulate(struct sp_session *session, double acceptance, size_t *n_ids)
{
    static const uint32_t prompt[] = {5, 7};
    struct sp_simulation simulation = {.acceptance = acceptance};
    struct sp_request request = {ANSWER_TO(prompt, 2, 7), .ignore_eos = true, .draft_len = 2,
                                 .simulation = &simulation};
    struct sp_result result = keep_answer(session, &request);

    assert_true(result.drafted > 0);
    *n_ids = result.n_ids;
    return (double)result.accepted / (double)result.drafted;
}

TEST(test_generation)
{
    const char *path = packed_path("pair.bin");
    struct sp_session_options options = {.size = sizeof options, .n_context = 64};
    size_t n_ids;
    uint64_t n_cached = UINT64_C(64) * 30 * 2 * 192; /* elements of 64 positions, keys and values */

    assert_ok(write(path, shape, shape, why));
    struct sp_pack *pack = open_pack(path);
    assert_ok(sp_pairing_record_check(pack, why));
    sp_pack_close(pack);
    struct sp_package *package = keep_package(path, NULL);
    assert_int_equal(read_size(package, SP_CACHE_F16, 63), size_in_q4() + 2 * n_cached);
    assert_int_equal(read_size(package, SP_CACHE_F32, 63), size_in_q4() + 4 * n_cached);
    struct sp_session *session = keep_session(package, &options);
    assert_true(simulate(session, 1, &n_ids) == 1);
    assert_int_equal(n_ids, 7);
    assert_true(simulate(session, 0, &n_ids) == 0);
    assert_int_equal(n_ids, 7);
}

TEST(test_refusals)
{
    const char *path = packed_path("refused.bin");
    struct sp_err unknown = {0}, no_draft = {0}, vocabulary = {0};

    assert_int_equal(write(path, "gpt", NULL, &unknown), SP_E_USAGE);
    assert_string_equal(unknown.text, "there is no synthetic model gpt");
    assert_int_equal(write(path, shape, "dflash", &no_draft), SP_E_USAGE);
    assert_int_equal(write(path, shape, "qwen3-0.6b", &vocabulary), SP_E_USAGE);
    assert_string_equal(
        vocabulary.text,
        "the draft qwen3-0.6b does not fit smollm2-135m: it has 151936 tokens, expected 49152");
}

/* Every name of a model is valid: its shape is parsed, and a block draft fits its target. The
 * callback stops at the first panel. */
static int stop(void *context, uint64_t done, uint64_t total)
{
    (void)done;
    *(uint64_t *)context = total;
    return 1;
}

TEST(test_names)
{
    static const struct {
        const char *target, *draft;
        uint64_t n_weights;
    } cases[] = {
        /* published: 596 049 920 and 4 022 468 096 weights */
        {"qwen3-0.6b", NULL, UINT64_C(596049920)},
        {"qwen3-4b", NULL, UINT64_C(4022468096)},
        {"smollm2-135m", NULL, UINT64_C(134515008)},
        /* five layers, fc of five taps, and two norms */
        {"qwen3-0.6b", "dflash",
         UINT64_C(596049920) +
             5 * (UINT64_C(1024) * (2 * 2048 + 2 * 1024 + 3 * 3072) + 2 * 1024 + 2 * 128) +
             UINT64_C(5) * 1024 * 1024 + 2 * 1024},
        /* the same, and two tables of the Markov head */
        {"qwen3-0.6b", "dspark",
         UINT64_C(596049920) +
             5 * (UINT64_C(1024) * (2 * 2048 + 2 * 1024 + 3 * 3072) + 2 * 1024 + 2 * 128) +
             UINT64_C(5) * 1024 * 1024 + 2 * 1024 + 2 * UINT64_C(151936) * 256},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t total = 0;
        struct sp_synthetic_options options = {
            .shape = cases[i].target,
            .draft = cases[i].draft,
            .callbacks = {.context = &total, .progress = stop},
        };
        assert_fails_as(sp_synthetic_write(packed_path("never.bin"), &options, why), SP_E_CANCELLED,
                        "interrupted");
        assert_int_equal(total, 2 * cases[i].n_weights); /* bf16 */
    }
}

/* Returns the number of weights of a language model. */
static uint64_t count_weights(const char *name, unsigned n_layers)
{
    struct sp_config config = {0};
    struct sp_specs specs = {0};
    struct sp_tables found = {.embedding = true, .layer_scalars = true};
    uint64_t n = 0;
    char *text;

    assert_ok(sp_synthetic_shape_config(&text, sp_synthetic_shape_find(name, NULL), n_layers, why));
    assert_ok(sp_config_parse(&config, text, strlen(text), NULL, why));
    found.head = !config.tied;
    assert_ok(sp_config_settle(&config, &found, why));
    assert_ok(sp_specs_of_config(&specs, &config, why));
    for (size_t i = 0; i < specs.n_specs; i++) {
        uint64_t size = 1;
        for (unsigned k = 0; k < specs.specs[i].rank; k++)
            size *= specs.specs[i].shape[k];
        n += size;
    }
    sp_specs_release(&specs);
    sp_config_release(&config);
    free(text);
    return n;
}

/* The number of parameters of transformers' models of these shapes, which for Gemma 4 does not
 * include the scalar of each layer. Of 12 layers of Gemma 4, 5 use the keys of others. */
TEST(test_layers)
{
    char *text;

    assert_int_equal(count_weights("qwen3-30b-a3b", 0), UINT64_C(30532122624));
    assert_int_equal(count_weights("gpt-oss-20b", 0), UINT64_C(20914757184));
    assert_int_equal(count_weights("qwen3.5-4b", 0), UINT64_C(4205751296));
    assert_int_equal(count_weights("gemma4-e4b", 0), UINT64_C(7463013376) + 42);
    assert_int_equal(count_weights("qwen3-30b-a3b", 2), UINT64_C(1868573184));
    assert_int_equal(count_weights("gpt-oss-20b", 2), UINT64_C(2804643712));
    assert_int_equal(count_weights("qwen3.5-4b", 4), UINT64_C(1081957952));
    assert_int_equal(count_weights("gemma4-e4b", 12), UINT64_C(2611640576) + 12);
    assert_fails_as(
        sp_synthetic_shape_config(&text, sp_synthetic_shape_find("qwen3.5-4b", NULL), 33, why),
        SP_E_USAGE, "qwen3.5-4b has 32 layers, fewer than 33");
}

/* A mixture of experts and a hybrid of both kinds of layers generate, in each of the types. */
TEST(test_mixtures)
{
    static const struct {
        const char *shape;
        unsigned n_layers;
        enum sp_dtype type;
    } cases[] = {{"qwen3-30b-a3b", 1, SP_Q2}, {"qwen3.5-4b", 4, SP_Q3}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_synthetic_options write_options = {.shape = cases[i].shape,
                                                     .n_layers = cases[i].n_layers,
                                                     .target_type = cases[i].type,
                                                     .output_type = cases[i].type,
                                                     .force = true};
        struct sp_session_options options = {.size = sizeof options, .n_context = 64};
        const char *path = packed_path("mixture.bin");
        uint32_t prompt[] = {5, 7};
        struct sp_request request = {ANSWER_TO(prompt, 2, 3), .ignore_eos = true};
        assert_ok(sp_synthetic_write(path, &write_options, why));
        struct sp_session *session = keep_session(keep_package(path, NULL), &options);
        assert_int_equal(keep_answer(session, &request).n_ids, 3);
    }
}

/* Simulated acceptance has the requested probability, and a rejected draft token is not emitted,
 * whatever the logits are. */
TEST(test_simulated_acceptance)
{
    enum { N = 20000, VOCABULARY = 32 };
    float logits[VOCABULARY] = {0};
    const struct sp_vector *vector = sp_vector_find("scalar");
    struct sp_simulated_choice choice = {.simulation = {.acceptance = 0.3, .seed = 1}};
    struct sp_chooser chooser = sp_simulated_chooser(&choice);
    size_t accepted = 0, again = 0;
    uint32_t id;

    choice.vector = vector;
    logits[9] = 1;
    struct sp_logits row = sp_logits_of(vector, logits, VOCABULARY);
    for (size_t pos = 0; pos < N; pos++) {
        uint32_t draft_token = (uint32_t)(pos % VOCABULARY), same;
        assert_ok(chooser.choose(chooser.state, &id, &row, NULL, pos, draft_token, NULL));
        accepted += id == draft_token;
        assert_ok(chooser.choose(chooser.state, &same, &row, NULL, pos, draft_token, NULL));
        again += id == same;
    }
    /* four standard deviations */
    assert_true(fabs((double)accepted / (double)N - 0.3) < 4 * sqrt(0.3 * 0.7 / (double)N));
    assert_int_equal(again, N);
    assert_ok(chooser.choose(chooser.state, &id, &row, NULL, 3, SP_NO_DRAFT_TOKEN, NULL));
    assert_int_equal(id, 9);
    logits[4] = NAN;
    row = sp_logits_of(vector, logits, VOCABULARY);
    assert_int_equal(chooser.choose(chooser.state, &id, &row, NULL, 3, 9, NULL), SP_E_INPUT);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
