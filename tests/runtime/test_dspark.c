/* Tests DSpark drafts: the effect of their heads on the rows of a block, by DeepSpec's formulas in
 * double precision, their confidences, also against golden values, and lossless drafting. */
#include "runtime/sampling/chooser.h"
#include "tests/support/cache_digest.h"
#include "tests/support/config_checks.h"
#include "tests/support/create_files.h"
#include "tests/support/handmade_models.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "convert/create/create_job.h"
#include "format/safetensors.h"
#include "quantize/codec.h"
#include "quantize/kernels/kernels.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <sys/stat.h>

enum { V = HANDMADE_TOKENS, H = HANDMADE_WIDTH, MAX_BLOCK = 16, MAX_RANK = 64 };

static const uint32_t prompt[] = {12, 40, 7, 99, 3, 58, 121, 76, 20, 33, 91, 150, 2};
enum { N_GIVEN = sizeof prompt / sizeof *prompt, N_TOKENS = 40 };

static const struct handmade_options varied = {.mixing = 0.4f};
static const struct handmade_options partly_accepted = {.mixing = 0.25f};
static const struct handmade_options steady = {.mixing = 0.01f};

/* ---- files ---- */

/* Writes checkpoints side by side to the scratch folder, which stays until scratch_remove. */
static const char *checkpoints(const struct handmade_options *target,
                               const struct handmade_dspark *draft)
{
    static const char records[] = "FROM ./target\nDRAFT ./draft\n";

    scratch_folder();
    assert_int_equal(mkdir(scratch_path("target"), 0777), 0);
    assert_int_equal(mkdir(scratch_path("draft"), 0777), 0);
    handmade_qwen3_5(scratch_path("target"), target);
    handmade_dspark(scratch_path("draft"), draft);
    return scratch_write("Modelfile", records, sizeof records - 1);
}

static const char *handmade_file(const struct handmade_options *target,
                                 const struct handmade_dspark *draft, enum sp_dtype target_type,
                                 enum sp_dtype draft_type)
{
    const char *path = packed_file(checkpoints(target, draft), target_type, draft_type);

    scratch_remove();
    return path;
}

static struct generate_fixture open_f32(const char *path)
{
    return generate_open(path, NULL, 1,
                         &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                                      .cache = SP_CACHE_F32,
                                                      .n_context = 200});
}

/* The draft for the varied target, both as stored. */
static struct generate_fixture open_draft(const struct handmade_options *target,
                                          const struct handmade_dspark *draft)
{
    return open_f32(handmade_file(target, draft, SP_DTYPE_NONE, SP_DTYPE_NONE));
}

/* ---- the rows of a block ---- */

/* Returns the draft's rows after ids (kept), and the tokens that it chose from them. */
static float *draft_rows(struct sp_session *session, const uint32_t *ids, size_t n,
                         uint32_t *chosen, size_t n_rows)
{
    float *rows = keep_draft_logits(session, ids, n, 0).values;

    memcpy(chosen, session->speculator->ids + n, n_rows * sizeof *chosen);
    return rows;
}

/* Returns the confidences of a whole block as the draft length controller receives them. The
 * session has just computed the rows of these ids. */
static void observed_confidences(struct sp_session *session, double *out, size_t n_rows)
{
    struct sp_speculator *s = session->speculator;
    struct sp_chooser greedy = sp_greedy_chooser(session->package->backend.vector);
    struct sp_drafting_controller batch;
    struct sp_draft_length draft_len;
    struct sp_proposal proposal = {.chooser = &greedy, .draft_len = &draft_len};
    size_t n = n_rows;

    sp_drafting_controller_init(&batch, n_rows, false);
    sp_draft_length_init(&draft_len, &batch);
    draft_len.n_asked = n_rows;
    sp_scheduler_acquire(s->scheduler);
    assert_ok(sp_drafter_propose(s->drafter, s->ids, s->n_cached, &n, &proposal, why));
    sp_scheduler_release(s->scheduler);
    assert_int_equal(n, n_rows);
    assert_int_equal(draft_len.n_made, n_rows);
    for (size_t i = 0; i < n; i++)
        out[i] = draft_len.confidences[i + 1];
}

/* ---- DeepSpec's formulas ---- */

/* A tensor of the handmade draft. */
struct table {
    float at[3 * MAX_RANK * (H + 2 * MAX_RANK) + V * MAX_RANK];
    size_t cols;
};

static void read_table(struct table *out, const char *name)
{
    struct sp_safetensors *file = NULL;
    const struct sp_safetensor *t;

    assert_ok(sp_safetensors_open(&file, scratch_path("draft"), NULL, why));
    t = sp_safetensors_find(file, name);
    if (t == NULL) fail_msg("no tensor %s", name);
    assert_true(t->size <= sizeof out->at);
    assert_ok(sp_safetensors_read(t, 0, (size_t)t->size, out->at, why));
    out->cols = (size_t)t->shape[t->rank - 1];
    sp_safetensors_close(file);
}

struct heads {
    struct table w1, w2, gate, gate_bias, confidence, confidence_bias;
};

static void read_heads(struct heads *h, const struct handmade_dspark *how)
{
    bool rnn = strcmp(how->markov, "rnn") == 0;

    read_table(&h->w1, "markov_head.markov_w1.weight");
    read_table(&h->w2, "markov_head.markov_w2.weight");
    if (rnn || strcmp(how->markov, "gated") == 0) {
        read_table(&h->gate,
                   rnn ? "markov_head.joint_proj.weight" : "markov_head.gate_proj.weight");
        read_table(&h->gate_bias,
                   rnn ? "markov_head.joint_proj.bias" : "markov_head.gate_proj.bias");
    }
    if (!how->confidence) return;
    read_table(&h->confidence, "confidence_head.proj.weight");
    read_table(&h->confidence_bias, "confidence_head.proj.bias");
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Row `row` of the matrix times the concatenation of up to three vectors. */
static double product(const struct table *w, size_t row, const double *a, size_t na,
                      const double *b, size_t nb, const double *c, size_t nc)
{
    const float *x = w->at + row * w->cols;
    double sum = 0;

    assert_int_equal(w->cols, na + nb + nc);
    for (size_t i = 0; i < na; i++)
        sum += (double)x[i] * a[i];
    for (size_t i = 0; i < nb; i++)
        sum += (double)x[na + i] * b[i];
    for (size_t i = 0; i < nc; i++)
        sum += (double)x[na + nb + i] * c[i];
    return sum;
}

/* Computes the vector that one row multiplies by W2, and advances the state. */
static void corrector(double *out, double *state, const struct heads *heads,
                      const struct handmade_dspark *how, const double *e, const double *h)
{
    size_t r = how->rank;
    double next[MAX_RANK];

    for (size_t k = 0; k < r; k++) {
        const float *bias = heads->gate_bias.at;
        if (strcmp(how->markov, "vanilla") == 0) {
            out[k] = e[k];
        } else if (strcmp(how->markov, "gated") == 0) {
            out[k] =
                e[k] * sigmoid(product(&heads->gate, k, h, H, e, r, NULL, 0) + (double)bias[k]);
        } else {
            double g = sigmoid(product(&heads->gate, k, state, r, e, r, h, H) + (double)bias[k]);
            double c = product(&heads->gate, r + k, state, r, e, r, h, H) + (double)bias[r + k];
            double o =
                product(&heads->gate, 2 * r + k, state, r, e, r, h, H) + (double)bias[2 * r + k];
            next[k] = g * state[k] + (1 - g) * tanh(c);
            out[k] = tanh(o);
        }
    }
    if (strcmp(how->markov, "rnn") == 0) memcpy(state, next, r * sizeof *state);
}

static uint32_t largest(const float *row)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < V; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* Compares the rows with heads with the rows without, whose first logits are the hidden state. */
static void check_formula(const struct handmade_dspark *how)
{
    static struct heads heads;
    struct handmade_dspark bare = {.block_size = how->block_size};
    struct generate_fixture plain = open_draft(&varied, &bare);
    struct generate_fixture o =
        open_f32(packed_file(checkpoints(&varied, how), SP_DTYPE_NONE, SP_DTYPE_NONE));
    size_t n = how->block_size;
    uint32_t ignored[MAX_BLOCK], chosen[MAX_BLOCK];
    float *base = draft_rows(plain.session, prompt, N_GIVEN, ignored, n);
    float *rows = draft_rows(o.session, prompt, N_GIVEN, chosen, n);
    double state[MAX_RANK] = {0}, worst = 0, observed[MAX_BLOCK];

    read_heads(&heads, how);
    if (how->confidence) observed_confidences(o.session, observed, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t previous = i ? chosen[i - 1] : prompt[N_GIVEN - 1];
        double h[H], e[MAX_RANK], x[MAX_RANK];
        for (size_t k = 0; k < H; k++)
            h[k] = (double)base[i * V + k];
        for (size_t k = 0; k < how->rank; k++)
            e[k] = (double)heads.w1.at[previous * how->rank + k];
        corrector(x, state, &heads, how, e, h);
        for (size_t v = 0; v < V; v++) {
            double want =
                (double)base[i * V + v] + product(&heads.w2, v, x, how->rank, NULL, 0, NULL, 0);
            worst = fmax(worst, fabs(want - (double)rows[i * V + v]));
        }
        assert_int_equal(chosen[i], largest(rows + i * V));
        if (how->confidence) {
            double want = sigmoid(product(&heads.confidence, 0, h, H, e,
                                          how->confidence_markov ? how->rank : 0, NULL, 0) +
                                  (double)heads.confidence_bias.at[0]);
            assert_true(fabs(want - observed[i]) < 1e-6);
        }
    }
    if (!(worst < 2e-5)) fail_msg("%s: off by %g", how->markov, worst);
    scratch_remove();
}

TEST(vanilla_formula)
{
    check_formula(&(struct handmade_dspark){
        .markov = "vanilla", .rank = 6, .block_size = 5, .confidence = true});
    check_formula(&(struct handmade_dspark){.markov = "vanilla", .rank = 32, .block_size = 1});
}

TEST(gated_formula)
{
    check_formula(&(struct handmade_dspark){.markov = "gated",
                                            .rank = 7,
                                            .block_size = 6,
                                            .confidence = true,
                                            .confidence_markov = true});
}

TEST(rnn_formula)
{
    check_formula(&(struct handmade_dspark){.markov = "rnn",
                                            .rank = 10,
                                            .block_size = 9,
                                            .confidence = true,
                                            .confidence_markov = true});
    check_formula(
        &(struct handmade_dspark){.markov = "rnn", .rank = 5, .block_size = 4, .confidence = true});
}

/* A trained DFlash draft, read as a DSpark draft without heads, has the same rows and the row of
 * the anchor. */
TEST(rows_of_dflash)
{
    static const char config[] =
        "{\"architectures\": [\"Qwen3DSparkModel\"], \"model_type\": \"qwen3\", "
        "\"vocab_size\": 1600, \"hidden_size\": 192, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 3, \"num_key_value_heads\": 1, \"head_dim\": 64, "
        "\"intermediate_size\": 512, \"rope_theta\": 10000, \"max_position_embeddings\": 2048, "
        "\"tie_word_embeddings\": true, \"num_target_layers\": 6, \"block_size\": 16, "
        "\"target_layer_ids\": [0, 2, 4], \"mask_token_id\": 1599, \"markov_rank\": 0}";
    struct generate_fixture dflash =
        open_f32(packed_file(TESTDATA "/tiny/Modelfile", SP_DTYPE_NONE, SP_DTYPE_NONE));
    uint32_t chosen[16];
    size_t size;
    char *weights = scratch_read(TESTDATA "/tiny/dflash/model.safetensors", &size);

    scratch_write("model.safetensors", weights, size);
    scratch_write("config.json", config, sizeof config - 1);
    struct generate_fixture o = open_f32(packed_file(
        packed_modelfile(TESTDATA "/tiny/target", scratch_path("")), SP_DTYPE_NONE, SP_DTYPE_NONE));
    scratch_remove();
    float *want = draft_rows(dflash.session, prompt, N_GIVEN, chosen, 15);
    float *rows = draft_rows(o.session, prompt, N_GIVEN, chosen, 16);
    assert_memory_equal(rows + 1600, want, 15 * 1600 * sizeof *want);
}

static void golden_confidences(void **state)
{
    const char *folder = keep_format(SHARED "/oracle/drafts/%s", (const char *)*state);
    const struct sp_json *root = golden_json(keep_format("%s/golden.json", folder));

    if (root == NULL) skip();
    struct generate_fixture o =
        open_f32(packed_file(keep_format("%s/Modelfile", folder), SP_DTYPE_NONE, SP_DTYPE_NONE));
    const struct sp_json *cases = sp_json_get(root, "ids");
    for (size_t i = 0; i < sp_json_len(cases); i++) {
        const struct sp_json *want = sp_json_at(sp_json_get(root, "confidence"), i);
        uint32_t chosen[MAX_BLOCK];
        double observed[MAX_BLOCK], x = NAN;
        size_t n, n_rows = sp_json_len(want);
        uint32_t *ids = golden_ids(sp_json_at(cases, i), &n);
        draft_rows(o.session, ids, n, chosen, n_rows);
        observed_confidences(o.session, observed, n_rows);
        for (size_t k = 0; k < n_rows; k++) {
            assert_true(sp_json_to_double(sp_json_at(want, k), &x));
            assert_true(fabs(observed[k] - x) < 1e-5);
        }
    }
}

/* ---- the target's embeddings as a tap ---- */

TEST(embedding_tap)
{
    static const unsigned taps[] = {SP_TAP_EMBEDDING, 0, SP_TAP_FINAL};
    struct handmade_dspark draft = {.block_size = 2};
    struct generate_fixture o =
        generate_open(handmade_file(&varied, &draft, SP_Q8, SP_DTYPE_NONE), NULL, 2, NULL);
    struct sp_decoder_options options = {.n_positions = 64,
                                         .max_rows = 16,
                                         .max_logit_rows = 1,
                                         .cache_type = SP_CACHE_F16,
                                         .taps = taps,
                                         .n_taps = 3};
    struct sp_decoder *decoder = keep_decoder(o.package, o.package->target, &options);
    float row[H];

    sp_decoder_run(decoder, prompt, N_GIVEN, 0, N_GIVEN);
    for (size_t t = 0; t < N_GIVEN; t++) {
        const float *features = sp_decoder_features(decoder) + t * 3 * H;
        const struct sp_matrix *w = &o.package->target->embedding;
        sp_panel_row(row, w->dtype, w->panels, w->cols, prompt[t]);
        assert_memory_equal(features, row, sizeof row);
        assert_memory_not_equal(features + H, row, sizeof row);
    }
}

/* ---- drafting ---- */

static void assert_same_rounds(const struct sp_result *a, const struct sp_result *b)
{
    assert_int_equal(a->n_rounds, b->n_rounds);
    for (size_t i = 0; i < a->n_rounds; i++) {
        assert_int_equal(a->rounds[i].drafted, b->rounds[i].drafted);
        assert_int_equal(a->rounds[i].accepted, b->rounds[i].accepted);
    }
}

/* Compares the responses for every draft length, number of threads, kernel set and prompt chunk
 * size; for one draft length the rounds are equal too. Returns how many draft tokens were accepted.
 * place: index of the file, for generate_threads. */
static size_t check_lossless(const char *path, int block, size_t place)
{
    struct sp_session_options options = {.size = sizeof options, .n_context = 200};
    struct generate_fixture o = generate_open(path, generate_reference, 1, &options);
    struct sp_result plain = generate_run(o.session, prompt, N_GIVEN, N_TOKENS, PLAIN, true);
    struct sp_result deep = generate_run(o.session, prompt, N_GIVEN, N_TOKENS, block, true);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    size_t accepted = deep.accepted;

    sp_package_describe(o.package, &info);
    assert_string_equal(info.draft, "dspark");
    assert_int_equal(info.max_draft_len, block);
    generate_assert_same(&deep, &plain);
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k) || *k == &sp_kernels_ref) continue;
        for (unsigned n_threads = 1; n_threads <= 2; n_threads++) {
            options.rows_per_pass = n_threads == 1 ? 0 : 3;
            o = generate_open(path, (*k)->name, n_threads, &options);
            for (int draft_len = SP_DRAFT_LENGTH_AUTO; draft_len <= block; draft_len++) {
                if (generate_threads(place + (size_t)(draft_len + 1)) != n_threads) continue;
                struct sp_result r =
                    generate_run(o.session, prompt, N_GIVEN, N_TOKENS, draft_len, true);
                generate_assert_same(&r, &plain);
                if (draft_len == block) assert_same_rounds(&r, &deep);
            }
        }
        place++;
    }
    return accepted;
}

TEST(lossless_handmade)
{
    static const struct handmade_dspark drafts[] = {
        {.block_size = 1},
        {.markov = "vanilla", .rank = 64, .block_size = 7, .confidence = true, .repeats = true},
        {.markov = "gated", .rank = 32, .block_size = 5, .confidence = true, .repeats = true},
        {.markov = "rnn", .rank = 8, .block_size = 6},
    };

    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        int block = (int)drafts[i].block_size;
        check_lossless(handmade_file(&varied, &drafts[i], SP_Q8, SP_Q4), block, i);
    }
    /* Some draft tokens are accepted, and some are rejected. */
    size_t n =
        check_lossless(handmade_file(&partly_accepted, &drafts[1], SP_DTYPE_NONE, SP_Q8), 7, 0);
    assert_true(n > 0 && n < N_TOKENS - N_TOKENS / 8 - 1);
}

static void lossless_oracle(void **state)
{
    const char *path = keep_format(SHARED "/oracle/drafts/%s/Modelfile", (const char *)*state);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;

    if (!golden_exists(path)) skip();
    for (size_t i = 0; i < 2; i++) {
        const char *file = packed_file(path, i ? SP_Q4 : SP_DTYPE_NONE, i ? SP_Q8 : SP_DTYPE_NONE);
        sp_package_describe(open_f32(file).package, &info);
        check_lossless(file, (int)info.max_draft_len, i);
    }
}

/* Coupled sampling with this draft equals undrafted sampling with the same seed. */
TEST(sampled)
{
    struct handmade_dspark draft = {.markov = "vanilla",
                                    .rank = 64,
                                    .block_size = 5,
                                    .confidence = true,
                                    .confidence_markov = true,
                                    .repeats = true};
    const char *path = handmade_file(&partly_accepted, &draft, SP_Q8, SP_Q8);
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = {ANSWER_TO(prompt, N_GIVEN, 100), .ignore_eos = true,
                                 .digest = true, .sampling = &sampling};

    for (sampling.seed = 1; sampling.seed <= 3; sampling.seed++) {
        struct sp_result plain, r;
        struct generate_fixture o = open_f32(path);
        size_t accepted = 0;
        sampling.temperature = 0.4f + 0.4f * (float)sampling.seed;
        sampling.accept = SP_ACCEPT_COUPLED;
        request.draft_len = 0;
        plain = keep_answer(o.session, &request);
        for (request.draft_len = SP_DRAFT_LENGTH_AUTO; request.draft_len <= 5;
             request.draft_len++) {
            r = keep_answer(o.session, &request);
            generate_assert_same(&r, &plain);
            accepted += r.accepted;
        }
        assert_true(accepted > 0);
        /* Rejection sampling gives another text of the same length. */
        sampling.accept = SP_ACCEPT_REJECTION;
        request.draft_len = 5;
        r = keep_answer(o.session, &request);
        assert_int_equal(r.n_ids, 100);
    }
}

/* The head and the target both repeat the previous token, so every draft token of a block is
 * accepted. */
TEST(always_right)
{
    struct handmade_dspark draft = {
        .markov = "vanilla", .rank = 64, .block_size = 7, .repeats = true};
    struct generate_fixture o = open_draft(&steady, &draft);

    for (int draft_len = 1; draft_len <= 7; draft_len++) {
        size_t n_rounds = 5, n = 1 + n_rounds * (size_t)(draft_len + 1);
        struct sp_result plain = generate_run(o.session, prompt, N_GIVEN, n, PLAIN, true);
        struct sp_result r = generate_run(o.session, prompt, N_GIVEN, n, draft_len, true);
        generate_assert_same(&r, &plain);
        assert_int_equal(r.n_rounds, n_rounds);
        assert_int_equal(r.drafted, n_rounds * (size_t)draft_len);
        assert_int_equal(r.accepted, r.drafted);
    }
}

/* After a drafted response the draft proposes the same as with fresh caches. */
TEST(is_rolled_back)
{
    struct handmade_dspark draft = {.markov = "rnn", .rank = 8, .block_size = 7};
    struct generate_fixture used = open_draft(&varied, &draft);
    uint32_t ids[N_GIVEN + N_TOKENS + 1], chosen[MAX_BLOCK];
    struct sp_result r = generate_run(used.session, prompt, N_GIVEN, N_TOKENS, 5, true);
    struct sp_session_options options = {
        .size = sizeof options, .cache = SP_CACHE_F32, .n_context = 200, .rows_per_pass = 5};

    memcpy(ids, prompt, sizeof prompt);
    memcpy(ids + N_GIVEN, r.ids, N_TOKENS * sizeof *ids);
    ids[N_GIVEN + N_TOKENS] = 5;
    struct sp_session *fresh = keep_session(used.package, &options);
    float *a = draft_rows(used.session, ids, N_GIVEN + N_TOKENS + 1, chosen, 7);
    float *b = draft_rows(fresh, ids, N_GIVEN + N_TOKENS + 1, chosen, 7);
    assert_memory_equal(a, b, 7 * V * sizeof *a);
}

/* ---- packed files ---- */

static enum sp_dtype type_of(const struct sp_pack *pack, const char *name)
{
    const struct sp_pack_tensor *t = sp_pack_find(pack, SP_PART_DRAFT, name);

    assert_non_null(t);
    return t->dtype;
}

/* Only matrices that are read for every draft token are quantized like an output matrix. */
TEST(stored_types)
{
    struct handmade_dspark draft = {
        .markov = "gated", .rank = 32, .block_size = 3, .confidence = true};
    const struct sp_pack *pack = create_open(handmade_file(&varied, &draft, SP_Q4, SP_Q4));

    assert_int_equal(type_of(pack, "markov_head.markov_w2.weight"), SP_Q8);
    assert_int_equal(type_of(pack, "lm_head.weight"), SP_Q8);
    assert_int_equal(type_of(pack, "layers.0.mlp.up_proj.weight"), SP_Q4);
    assert_int_equal(type_of(pack, "markov_head.markov_w1.weight"), SP_F32);
    assert_int_equal(type_of(pack, "markov_head.gate_proj.weight"), SP_F32);
    assert_int_equal(type_of(pack, "confidence_head.proj.weight"), SP_F32);
}

TEST(pairing_record)
{
    static const char want[] =
        "{\"kind\":\"dspark\",\"block_size\":7,\"mask_token_id\":96,\"target_hidden_size\":32,"
        "\"num_target_layers\":6,\"target_layer_ids\":[-1,2,4],\"markov_rank\":8,"
        "\"markov_head_type\":\"gated\",\"confidence_head\":true,\"rope\":[{\"type\":\"default\","
        "\"theta\":1000000,\"factor\":1,\"rotated\":16}],\"target\":\"0000000000000001\","
        "\"draft\":\"0000000000000002\"}";
    static const struct sp_part_digests digests = {1, 2};
    struct sp_text text;

    assert_ok(
        sp_pairing_record_print(&text, config_read_testdata("dspark_gated", NULL), &digests, why));
    assert_int_equal(text.size, sizeof want - 1);
    assert_memory_equal(text.at, want, text.size);
    free(text.at);
}

CASES(golden_confidences, "dspark_vanilla", "dspark_gated", "dspark_rnn");
CASES(lossless_oracle, "dspark_vanilla", "dspark_gated", "dspark_rnn");
GROUP_FIXTURE(packed_setup, packed_teardown);
