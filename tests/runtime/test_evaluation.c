/* Tests evaluation: figures against numpy's long double over the logits of other implementations,
 * windows against the definition, and draft evaluation against rounds of generation. */
#include "format/base/bytes.h"
#include "quantize/kernels/kernels.h"
#include "runtime/measure/logit_score.h"
#include "runtime/session/session.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sp_evaluation evaluate(struct sp_package *package,
                                     const struct sp_evaluation_request *request)
{
    struct sp_evaluation out = SP_EVALUATION_INIT;

    assert_ok(sp_package_evaluate(package, request, &out, why));
    return out;
}

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g", a, b);
}

/* ---- rows ---- */

TEST(rows_by_hand)
{
    /* 0.1, 0.2, 0.3, 0.4 against four times 0.25; entropies computed by hand. */
    static const float fourths[4] = {0, 0, 0, 0};
    float tenths[4];
    struct sp_logit_score even, score, back;
    double divergence;
    const struct sp_vector *vector = sp_vector_find("scalar");

    for (size_t i = 0; i < 4; i++)
        tenths[i] = logf((float)i + 1) - 2;
    assert_true(sp_logit_score(&even, vector, fourths, 4, 2));
    assert_int_equal(even.best, 0);
    assert_near(even.logprob, -1.3862943611198906, 1e-15);
    assert_true(sp_row_compare(&score, &divergence, vector, tenths, fourths, &even, 4, 1));
    assert_int_equal(score.best, 3);
    assert_near(score.logprob, -1.6094379124341003, 1e-7);
    assert_near(score.log_sum, 2.302585092994046 - 2, 1e-7);
    assert_near(divergence, 1.3862943611198906 - 1.2798542258336676, 1e-7);
    assert_true(sp_row_compare(&back, &divergence, vector, fourths, tenths, &score, 4, 1));
    assert_near(divergence, 0.25 * log(0.25 * 0.25 * 0.25 * 0.25 / (0.1 * 0.2 * 0.3 * 0.4)), 1e-7);
}

TEST(rows_of_vectors)
{
    enum { N = 16, PER_LINE = 2 * N + 8 };
    size_t n_lines;
    uint64_t *numbers = vector_file_read("logit_scores.txt", PER_LINE, &n_lines);
    const struct sp_vector *vector = sp_vector_find("scalar");

    for (size_t line = 0; line < n_lines; line++) {
        const uint64_t *v = numbers + line * PER_LINE;
        struct sp_logit_score score, reference;
        double want[5], divergence, size = 0;
        float rows[2][N];
        for (size_t i = 0; i < 2 * N; i++) {
            rows[i / N][i % N] = sp_float_of_bits((uint32_t)v[i]);
            if (fabs((double)rows[i / N][i % N]) > size) size = fabs((double)rows[i / N][i % N]);
        }
        memcpy(&want[0], &v[2 * N + 2], 16);
        memcpy(&want[2], &v[2 * N + 5], 16);
        memcpy(&want[4], &v[2 * N + 7], 8);
        assert_true(sp_logit_score(&score, vector, rows[1], N, (uint32_t)v[2 * N]));
        assert_true(sp_row_compare(&reference, &divergence, vector, rows[0], rows[1], &score, N,
                                   (uint32_t)v[2 * N]));
        assert_int_equal(reference.best, v[2 * N + 1]);
        assert_int_equal(score.best, v[2 * N + 4]);
        size = (1 + size) *
               1e-15; /* the tolerance: a few roundings of numbers as large as the logits */
        assert_near(reference.log_sum, want[0], size);
        assert_near(reference.logprob, want[1], 2 * size);
        assert_near(score.log_sum, want[2], size);
        assert_near(score.logprob, want[3], 2 * size);
        assert_near(divergence, want[4], 4 * size);
    }
}

TEST(rows_that_are_not_finite)
{
    float good[3] = {1, 2, 3}, bad[3] = {1, 2, 3};
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    struct sp_logit_score score, other;
    double divergence;

    for (size_t k = 0; k < 3; k++) {
        const struct sp_vector *vector = sp_vector_find("scalar");
        bad[k] = wrong[k];
        assert_false(sp_logit_score(&score, vector, bad, 3, 0));
        assert_true(sp_logit_score(&score, vector, good, 3, 0));
        assert_false(sp_row_compare(&other, &divergence, vector, bad, good, &score, 3, 0));
    }
}

/* ---- texts ---- */

/* The same pairs as PAIRS in tests/oracle/evaluation_vectors.py. */
static const struct {
    const char *model, *reference;
} pairs[] = {
    {"tiny/target", "tiny/ar"}, {"tiny/ar", "tiny/target"}, {"qwen3", "qwen3_yarn"},
    {"qwen3_5", "qwen3"},       {"gpt_oss", "qwen2"},       {"llama_gqa_tied", "llama_linear_rope"},
    {"gemma2", "gemma3"},
};

enum { N_PAIRS = sizeof pairs / sizeof *pairs, N_PROMPTS = 3, N_FIGURES = 20 };

/* Opens a file of testdata, or of the shared oracle; NULL where the latter is missing. */
static struct sp_package *open_golden(const char *name, struct sp_json **golden)
{
    bool tiny = strncmp(name, "tiny/", 5) == 0;

    const char *folder = keep_format(tiny ? TESTDATA "/%s" : SHARED "/oracle/targets/%s", name);
    const char *path = keep_format(tiny ? TESTDATA "/tiny/golden_%s.json" : "%s/golden.json",
                                   tiny ? name + 5 : folder);
    if (!golden_exists(path)) return NULL;
    *golden = golden_json(path);
    return keep_package(packed_alone(folder, SP_DTYPE_NONE), NULL);
}

static void flatten(double out[N_FIGURES], const struct sp_evaluation *e)
{
    const struct sp_estimate estimates[] = {e->loss,        e->right,      e->reference_loss,
                                            e->loss_change, e->divergence, e->agreement,
                                            e->prob_change};

    memcpy(out, estimates, sizeof estimates);
    out[14] = e->divergence_50;
    out[15] = e->divergence_90;
    out[16] = e->divergence_99;
    out[17] = e->divergence_999;
    out[18] = e->divergence_max;
    out[19] = e->prob_change_rms;
}

TEST(goldens)
{
    size_t n_lines;
    uint64_t *numbers = vector_file_read("evaluation.txt", 3 + N_FIGURES, &n_lines);

    assert_int_equal(n_lines, N_PAIRS * N_PROMPTS);
    for (size_t k = 0; k < N_PAIRS; k++) {
        struct sp_json *golden = NULL, *unused = NULL;
        struct sp_package *package = open_golden(pairs[k].model, &golden);
        struct sp_package *reference = open_golden(pairs[k].reference, &unused);
        for (size_t prompt = 0; prompt < N_PROMPTS && package; prompt++) {
            const uint64_t *want = numbers + (k * N_PROMPTS + prompt) * (3 + N_FIGURES);
            struct sp_evaluation_request request = {
                .size = sizeof request, .reference = reference, .cache = SP_CACHE_F32};
            double got[N_FIGURES], value;
            request.ids =
                golden_ids(sp_json_at(sp_json_get(golden, "prompts"), prompt), &request.n);
            assert_true(want[0] == k && want[1] == prompt);
            struct sp_evaluation e = evaluate(package, &request);
            assert_int_equal(e.n_windows, 1);
            assert_int_equal(e.first_scored, 1);
            assert_int_equal(e.n_scored, want[2]);
            flatten(got, &e);
            for (size_t i = 0; i < N_FIGURES; i++) {
                memcpy(&value, &want[3 + i], sizeof value);
                if (!(fabs(got[i] - value) <= 1e-4 * (fabs(value) + 1e-3))) {
                    fail_msg("%s, prompt %zu: figure %zu is %.9g, not %.9g", pairs[k].model, prompt,
                             i, got[i], value);
                }
            }
        }
    }
}

/* Returns the ids of a text of the kind that the tiny models were trained on. */
static const char story[] =
    "Once upon a time there was a shy rabbit named Finn. Finn lived in a cave near the sea with a "
    "frog named Clara. Every day they went to the sea. One day Finn found a red stone. \"What is "
    "this?\" said Clara.\n<|im_start|>user\nWhat is 7 plus 8?<|im_end|>\n<|im_start|>assistant\n7 "
    "plus 8 is 15.<|im_end|>\nCount from 3 to 15.\n3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
    "int add(int a, int b)\n{\n    return a + b;\n}\nOnce upon a time there was a lonely owl named "
    "Max. Max lived in a forest near a lake.";

static uint32_t *story_ids(const struct sp_package *package, size_t *n)
{
    uint32_t *ids = NULL;

    assert_ok(sp_tokenizer_encode(sp_package_tokenizer(package), story, strlen(story),
                                  SP_ENCODE_ADD_SPECIAL | SP_ENCODE_PARSE_SPECIAL, &ids, n, NULL));
    return keep(ids);
}

struct losses {
    const uint32_t *ids;
    size_t n, first; /* first: index of the first row that counts */
    double sum;
};

static int add_loss(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct losses *l = context;
    long double sum = 0;

    if (row < l->first || row + 1 >= l->n) return 0;
    for (size_t i = 0; i < n_vocab; i++)
        sum += expl((long double)logits[i]);
    l->sum += (double)(logl(sum) - (long double)logits[l->ids[row + 1]]);
    return 0;
}

/* Computes the loss by the definition in the header: each token counts in the first window that
 * holds it and a token before it, with the logits of that window alone. */
static double plain_loss(struct sp_package *package, const uint32_t *ids, size_t n, size_t n_lead,
                         size_t n_window, size_t stride, size_t *n_windows)
{
    struct sp_session_options options = {
        .size = sizeof options, .n_context = n_window, .cache = SP_CACHE_F32};
    uint32_t *window = keep(malloc(n_window * sizeof *window));
    size_t scored_to = n_lead ? n_lead : 1;
    double sum = 0;

    struct sp_session *session = keep_session(package, &options);
    memcpy(window, ids, n_lead * sizeof *ids);
    *n_windows = 0;
    for (size_t k = 0; scored_to < n; k++) {
        size_t from = n_lead + k * stride, to = from + n_window - n_lead;
        struct losses l = {.ids = window};
        if (to > n) to = n;
        memcpy(window + n_lead, ids + from, (to - from) * sizeof *ids);
        l.n = n_lead + to - from;
        l.first = n_lead + scored_to - from - 1;
        assert_ok(sp_session_logits(session, window, l.n, add_loss, &l, NULL));
        sum += l.sum;
        scored_to = to;
        ++*n_windows;
    }
    return sum / (double)(n - (n_lead ? n_lead : 1));
}

static void check_windows(struct sp_package *package, size_t n_lead)
{
    static const size_t shapes[][2] = {{2, 1},    {3, 1},   {7, 5},     {40, 0},    {64, 7},
                                       {130, 40}, {131, 0}, {200, 100}, {200, 199}, {2048, 0}};
    size_t n;
    uint32_t *ids = story_ids(package, &n);

    assert_true(n > 150 && n < 220);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t window = shapes[i][0], stride = shapes[i][1], n_windows;
        struct sp_evaluation_request request = {.size = sizeof request,
                                                .ids = ids,
                                                .n = n,
                                                .n_window = window,
                                                .stride = stride,
                                                .cache = SP_CACHE_F32};
        if (window <= n_lead || stride > window - n_lead) continue; /* no space for text */
        struct sp_evaluation e = evaluate(package, &request);
        if (stride == 0) stride = (window - n_lead + 1) / 2;
        double loss = plain_loss(package, ids, n, n_lead, window, stride, &n_windows);
        assert_int_equal(e.n_lead, n_lead);
        assert_int_equal(e.first_scored, n_lead ? n_lead : 1);
        assert_int_equal(e.first_scored + e.n_scored, n);
        assert_int_equal(e.n_windows, n_windows);
        assert_int_equal(e.stride, stride);
        assert_near(e.loss.mean, loss, 1e-12);
        request.max_windows = 2;
        e = evaluate(package, &request);
        assert_int_equal(e.n_windows, n_windows < 2 ? n_windows : 2);
    }
}

/* Rows of a learned table are added to the embeddings of each pass, by its own positions. */
TEST(table_of_positions)
{
    enum { N = 40, WINDOW = 16, STRIDE = 8 };
    struct sp_package *package =
        keep_package(packed_alone(TESTDATA "/gguf/gpt2.gguf", SP_DTYPE_NONE), NULL);
    uint32_t ids[N];
    size_t n_windows;
    const struct sp_evaluation_request request = {.size = sizeof request,
                                                  .ids = ids,
                                                  .n = N,
                                                  .n_window = WINDOW,
                                                  .stride = STRIDE,
                                                  .cache = SP_CACHE_F32};

    for (size_t i = 0; i < N; i++)
        ids[i] = (uint32_t)(i * 7 % package->target->config.n_vocab);
    struct sp_evaluation e = evaluate(package, &request);
    assert_near(e.loss.mean, plain_loss(package, ids, N, e.n_lead, WINDOW, STRIDE, &n_windows),
                1e-6);
    assert_int_equal(e.n_windows, n_windows);
}

/* Copies the tiny target into a folder of its own with a changed tokenizer.json. */
static const char *variant(const char *name, const char *from, const char *to)
{
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    const char *folder = scratch_path(name);
    size_t size;

    assert_int_equal(mkdir(folder, 0777), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(symlink(keep_format(TESTDATA "/tiny/target/%s", files[i]),
                                 keep_format("%s/%s", folder, files[i])),
                         0);
    char *text = scratch_read(TESTDATA "/tiny/target/tokenizer.json", &size);
    const char *at = strstr(text, from);
    assert_non_null(at);
    char *changed = keep(malloc(size + strlen(to) + 1));
    size = (size_t)sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    scratch_write(keep_format("%s/tokenizer.json", name), changed, size);
    return packed_alone(folder, SP_DTYPE_NONE);
}

static const char plain_template[] =
    "\"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
    "false, \"use_regex\": false}";
static const char leading_template[] =
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
    "{\"id\": \"<|endoftext|>\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": "
    "\"<|im_start|>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
    "\"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", "
    "\"type_id\": 1}}], \"special_tokens\": {\"<|endoftext|>\": {\"id\": \"<|endoftext|>\", "
    "\"ids\": [1596], \"tokens\": [\"<|endoftext|>\"]}, \"<|im_start|>\": {\"id\": "
    "\"<|im_start|>\", \"ids\": [1597], \"tokens\": [\"<|im_start|>\"]}}}";

static const char *tiny_pair(enum sp_dtype target)
{
    return packed_file(TESTDATA "/tiny/Modelfile", target, SP_DTYPE_NONE);
}

static struct sp_package *open_pair(enum sp_dtype target)
{
    return keep_package(tiny_pair(target), NULL);
}

TEST(windows)
{
    check_windows(open_pair(SP_DTYPE_NONE), 0);
}

/* Tokens that the post-processor puts in front of a text lead every window and are not scored. */
TEST(windows_with_a_lead)
{
    struct sp_package *package =
        keep_package(variant("lead", plain_template, leading_template), NULL);
    size_t n;
    uint32_t *ids = story_ids(package, &n);
    struct sp_evaluation_request request = {.size = sizeof request, .ids = ids + 1, .n = n - 1};
    struct sp_evaluation_request narrow = {
        .size = sizeof narrow, .ids = ids, .n = n, .n_window = 2};
    struct sp_evaluation e = SP_EVALUATION_INIT;

    assert_true(ids[0] == 1596 && ids[1] == 1597);
    check_windows(package, 2);
    assert_fails_as(sp_package_evaluate(package, &narrow, &e, why), SP_E_USAGE,
                    "context of 2 tokens: expected at least 3");
    narrow.n_window = 3;
    narrow.cache = SP_CACHE_F32;
    e = evaluate(package, &narrow);
    assert_int_equal(e.n_windows, n - 2);
    assert_int_equal(e.n_scored, n - 2);
    /* An incomplete lead is scored as text. */
    e = evaluate(package, &request);
    assert_int_equal(e.n_lead, 0);
}

/* Checks that all figures are equal to the bit. */
static void assert_same_draft_eval(const struct sp_draft_eval *a, const struct sp_draft_eval *b)
{
    struct sp_draft_eval other = *b;

    assert_int_equal(a->n_draft_positions, b->n_draft_positions);
    assert_memory_equal(a->draft_positions, b->draft_positions,
                        a->n_draft_positions * sizeof *a->draft_positions);
    other.draft_positions = a->draft_positions;
    assert_memory_equal(a, &other, sizeof other);
}

/* The figures depend on the file, the ids and the cache type alone. */
TEST(same_figures_with_all_kernels_and_threads)
{
    const char *path = tiny_pair(SP_Q4), *exact = tiny_pair(SP_DTYPE_NONE);
    struct sp_evaluation first = SP_EVALUATION_INIT, e = SP_EVALUATION_INIT;
    struct sp_draft_eval first_trial = SP_DRAFT_EVAL_INIT, trial = SP_DRAFT_EVAL_INIT;
    bool any = false;

    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        /* Scalar kernels are slow, so one number of threads is tested. */
        for (unsigned threads = 1; threads <= (*k == &sp_kernels_ref ? 1 : 2); threads++) {
            struct sp_package *package = keep_package_with(path, (*k)->name, threads);
            struct sp_evaluation_request request = {
                .size = sizeof request,
                .n_window = 40,
                .reference = keep_package_with(exact, (*k)->name, threads)};
            struct sp_draft_eval_request try = {
                .size = sizeof try, .n_places = 2, .n_predict = 6, .draft_len = 7};
            request.ids = try.ids = story_ids(package, &request.n);
            request.n = try.n = 80;
            e = evaluate(package, &request);
            struct sp_session *session = keep_session(package, NULL);
            assert_ok(sp_session_eval_draft(session, &try, &trial, NULL));
            if (any) assert_memory_equal(&e, &first, sizeof e);
            if (any) assert_same_draft_eval(&trial, &first_trial);
            sp_draft_eval_release(&first_trial);
            first = e;
            first_trial = trial;
            any = true;
        }
    }
    assert_true(first.divergence.mean > 0 && first.divergence.mean < 1);
    assert_true(first.agreement.mean > 0.5);
    sp_draft_eval_release(&first_trial);
}

TEST(self_comparison_loses_nothing)
{
    struct sp_package *package = open_pair(SP_Q8);
    struct sp_evaluation_request request = {
        .size = sizeof request, .reference = package, .n_window = 50, .cache = SP_CACHE_F32};

    request.ids = story_ids(package, &request.n);
    struct sp_evaluation e = evaluate(package, &request);
    assert_true(e.divergence.mean == 0 && e.divergence_max == 0 && e.divergence.error == 0);
    assert_true(e.agreement.mean == 1 && e.loss_change.mean == 0 && e.prob_change_rms == 0);
    assert_true(e.reference_loss.mean == e.loss.mean);
}

struct blocks {
    struct sp_evaluation_block at[32];
    size_t n;
};

static void keep_block(void *context, const struct sp_evaluation_block *block)
{
    struct blocks *blocks = context;

    assert_true(blocks->n < 32);
    blocks->at[blocks->n++] = *block;
}

/* The sums over the first blocks equal those of a text that ends where they end. */
TEST(blocks_of_positions)
{
    struct sp_package *package = open_pair(SP_Q4);
    struct blocks blocks = {.n = 0};
    struct sp_evaluation_request request = {.size = sizeof request,
                                            .reference = open_pair(SP_DTYPE_NONE),
                                            .context = &blocks,
                                            .block = keep_block};
    uint32_t *ids = story_ids(package, &request.n);
    struct sp_evaluation e;
    size_t n_sums = 0;
    double loss = 0, right = 0, reference_loss = 0, change = 0, divergence = 0, agreement = 0,
           prob_change = 0;

    request.ids = ids;
    e = evaluate(package, &request);
    assert_int_equal(blocks.n, (size_t)sqrt((double)e.n_scored));
    request.block = NULL;
    for (size_t i = 0; i < blocks.n; i++) {
        const struct sp_evaluation_block *b = &blocks.at[i];
        double n = (double)b->n;
        assert_true(b->n == e.n_scored / blocks.n || b->n == e.n_scored / blocks.n + 1);
        n_sums += b->n;
        request.n = n_sums + 1;
        loss += n * b->loss;
        right += n * b->right;
        reference_loss += n * b->reference_loss;
        change += n * b->loss_change;
        divergence += n * b->divergence;
        agreement += n * b->agreement;
        prob_change += n * b->prob_change;
        struct sp_evaluation part = evaluate(package, &request);
        n = (double)n_sums;
        assert_int_equal(part.n_scored, n_sums);
        assert_near(loss / n, part.loss.mean, 1e-12);
        assert_near(right / n, part.right.mean, 1e-12);
        assert_near(reference_loss / n, part.reference_loss.mean, 1e-12);
        assert_near(change / n, part.loss_change.mean, 1e-12);
        assert_near(divergence / n, part.divergence.mean, 1e-12);
        assert_near(agreement / n, part.agreement.mean, 1e-12);
        assert_near(prob_change / n, part.prob_change.mean, 1e-12);
    }
    assert_int_equal(n_sums, e.n_scored);
}

static int stop_at_once(void *context, size_t done, size_t total)
{
    (void)context;
    return done < total;
}

TEST(refusals)
{
    static const uint32_t ids[] = {582, 580, 258, 421}, wild[] = {582, 1600};
    static const struct {
        const uint32_t *ids;
        size_t n, n_window, stride;
        const char *sentence;
    } cases[] = {
        {wild, 2, 0, 0, "token ID 1600: the vocabulary has 1600 tokens"},
        {ids, 0, 0, 0, "0 tokens: there is nothing to predict"},
        {ids, 1, 0, 0, "1 token: there is nothing to predict"},
        {ids, 4, 2049, 0, "context of 2049 tokens: the model's maximum is 2048"},
        {ids, 4, 1, 0, "context of 1 tokens: expected at least 2"},
        {ids, 4, 8, 8, "stride of 8 tokens: expected at most 7"},
    };
    struct sp_package *package = open_pair(SP_DTYPE_NONE);
    struct sp_evaluation e = SP_EVALUATION_INIT;
    struct sp_evaluation_request request = {.size = sizeof request};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request.ids = cases[i].ids;
        request.n = cases[i].n;
        request.n_window = cases[i].n_window;
        request.stride = cases[i].stride;
        assert_fails_as(sp_package_evaluate(package, &request, &e, why), SP_E_USAGE,
                        cases[i].sentence);
    }
    request = (struct sp_evaluation_request){
        .size = sizeof request, .ids = ids, .n = 4, .progress = stop_at_once};
    assert_fails_as(sp_package_evaluate(package, &request, &e, why), SP_E_CANCELLED, "interrupted");
    request.progress = NULL;
    request.reference = keep_package(variant("renamed", "<|im_end|>", "<|im_stop|>"), NULL);
    assert_fails_as(sp_package_evaluate(package, &request, &e, why), SP_E_INPUT,
                    "token 1598 is \"<|im_end|>\", the reference's is \"<|im_stop|>\"");
}

/* ---- drafts ---- */

/* Adds the rounds of sp_session_generate, whose token budget has a margin for the last round. */
static void add_place(struct sp_draft_eval *out, struct sp_session *session, const uint32_t *ids,
                      size_t n, size_t n_predict, size_t draft_len)
{
    struct sp_request request = {ANSWER_TO(ids, n, n_predict + 2 * draft_len),
                                 .draft_len = (int)draft_len};
    struct sp_result r = keep_answer(session, &request);
    size_t n_tokens = 1;

    for (size_t i = 0; i < r.n_rounds && n_tokens < n_predict; i++) {
        size_t accepted = r.rounds[i].accepted, drafted = r.rounds[i].drafted;
        bool last = i + 1 == r.n_rounds && r.stop == SP_STOP_EOS;
        size_t emitted = last ? r.n_ids - n_tokens : accepted + 1;
        out->n_rounds++;
        out->n_tokens += emitted;
        out->drafted += drafted;
        out->accepted += accepted;
        for (size_t g = 0; g < drafted && g < emitted; g++) {
            out->draft_positions[g].tried++;
            out->draft_positions[g].accepted += g < accepted;
            if (g == out->n_draft_positions) out->n_draft_positions++;
        }
        n_tokens += emitted;
    }
}

static void check_draft_eval(const char *modelfile, size_t draft_len, size_t n_predict)
{
    struct sp_package *package =
        keep_package(packed_file(modelfile, SP_DTYPE_NONE, SP_DTYPE_NONE), NULL);
    struct sp_draft_eval_request request = {.size = sizeof request,
                                            .n_places = 5,
                                            .n_predict = n_predict,
                                            .draft_len =
                                                draft_len ? (int)draft_len : SP_DRAFT_LENGTH_AUTO};
    struct sp_position_count positions[64] = {{0}};
    struct sp_draft_eval want = {.size = sizeof want, .draft_positions = positions};
    struct sp_draft_eval got = SP_DRAFT_EVAL_INIT;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    uint32_t *ids = story_ids(package, &request.n);

    request.ids = ids;
    sp_package_describe(package, &info);
    want.draft_len = draft_len ? draft_len : SP_DRAFT_EVAL_LENGTH;
    if (want.draft_len > info.max_draft_len) want.draft_len = info.max_draft_len;
    struct sp_session *session = keep_session(package, NULL);
    for (size_t i = 0; i < 5; i++)
        add_place(&want, session, ids, request.n * (2 * i + 1) / 10, n_predict, want.draft_len);
    assert_ok(sp_session_eval_draft(session, &request, &got, NULL));
    want.n_places = 5;
    assert_near(got.per_round.mean, (double)want.n_tokens / (double)want.n_rounds, 1e-12);
    want.per_round = got.per_round;
    assert_same_draft_eval(&got, &want);
    assert_true(got.accepted > 0 && got.accepted < got.drafted);
    sp_draft_eval_release(&got);
}

TEST(draft_evals)
{
    check_draft_eval(TESTDATA "/tiny/Modelfile", 0, 24);
    check_draft_eval(TESTDATA "/tiny/Modelfile", 3, 40);
    check_draft_eval(TESTDATA "/tiny/Modelfile.ar", 0, 12);
    check_draft_eval(TESTDATA "/tiny/Modelfile.ar", 2, 2);
}

/* A small language model is read once for each token, with its output matrix, but not its
 * embedding; a block draft once, with the output matrix of its target. */
TEST(bytes_that_drafts_read)
{
    static const char *const modelfiles[] = {TESTDATA "/tiny/Modelfile.ar",
                                             TESTDATA "/tiny/Modelfile"};

    for (size_t i = 0; i < 2; i++) {
        const char *path = packed_file(modelfiles[i], SP_DTYPE_NONE, SP_DTYPE_NONE);
        struct sp_package *package = keep_package(path, NULL);
        struct sp_session *session = keep_session(package, NULL);
        struct sp_session_options plain = {.size = sizeof plain, .draft_by = SP_DRAFT_BY_NOTHING};
        uint64_t size = 0, one = sp_session_read_size(session, 0, 0);
        for (size_t k = 0; k < sp_pack_n_tensors(package->pack); k++) {
            const struct sp_pack_tensor *t = sp_pack_tensor(package->pack, k);
            if (t->part == SP_PART_DRAFT) size += t->size;
        }
        if (i == 1) { /* tied: its embedding is the target's output matrix */
            assert_null(sp_pack_find(package->pack, SP_PART_TARGET, "lm_head.weight"));
            size += sp_pack_find(package->pack, SP_PART_TARGET, "embed_tokens.weight")->size;
        }
        assert_int_equal(sp_session_read_size(session, 0, 1) - one, size);
        assert_int_equal(sp_session_read_size(session, 0, 3) - one, i == 0 ? 3 * size : size);
        assert_int_equal(sp_session_read_size(keep_session(package, &plain), 0, 1), one);
    }
}

/* A context shorter than needed, a text shorter than the requested places, and a file without a
 * draft. */
TEST(draft_evals_at_limits)
{
    static const uint32_t ids[] = {582, 580, 258};
    struct sp_package *package = open_pair(SP_DTYPE_NONE);
    struct sp_session_options options = {.size = sizeof options, .n_context = 6};
    struct sp_draft_eval_request request = {.size = sizeof request,
                                            .ids = ids,
                                            .n = 3,
                                            .n_places = 16,
                                            .n_predict = 32,
                                            .draft_len = SP_DRAFT_LENGTH_AUTO};
    struct sp_draft_eval out = SP_DRAFT_EVAL_INIT;

    struct sp_session *session = keep_session(package, &options);
    assert_ok(sp_session_eval_draft(session, &request, &out, NULL));
    assert_int_equal(out.n_places, 3);
    assert_true(out.n_tokens <= 3 * 6);
    sp_draft_eval_release(&out);
    request.progress = stop_at_once;
    assert_fails(sp_session_eval_draft(session, &request, &out, why), SP_E_CANCELLED, "");
    options.draft_by = SP_DRAFT_BY_NOTHING;
    session = keep_session(package, &options);
    assert_fails_as(sp_session_eval_draft(session, &request, &out, why), SP_E_USAGE,
                    "the file has no draft");
}

GROUP_FIXTURE(packed_setup, packed_teardown);
TEST_FIXTURE(NULL, scratch_teardown);
