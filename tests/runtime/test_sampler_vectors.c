/* Tests DRY, top-n-sigma and XTC against numpy's distributions (tests/oracle/sampler_vectors.py),
 * and their exactness: a drafted sequence and a batch give what a plain sequence gives. */
#include "format/json/json.h"
#include "runtime/sampling/logit_transforms.h"
#include "runtime/sampling/sampling_chooser.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { MOST_TEXTS = 8, N_VOCAB = 1600, MOST_HISTORY = 512 };

static struct sp_tokenizer *tokenizer;

static int setup(void **state)
{
    (void)state;
    return sp_tokenizer_open_file(&tokenizer, TESTDATA "/tiny/target", NULL) != SP_OK;
}

static int teardown(void **state)
{
    (void)state;
    sp_tokenizer_close(tokenizer);
    return 0;
}

static double number(const struct sp_json *object, const char *key)
{
    double x = NAN;

    if (!sp_json_to_double(sp_json_get(object, key), &x)) fail_msg("no number %s", key);
    return x;
}

static struct sp_sampling options_of(const struct sp_json *c, const char *texts[MOST_TEXTS])
{
    const struct sp_json *breakers = sp_json_get(c, "dry_breakers");
    struct sp_sampling s = SP_SAMPLING_INIT;

    s.temperature = (float)number(c, "temperature");
    s.top_k = (int)number(c, "top_k");
    s.top_p = (float)number(c, "top_p");
    s.min_p = (float)number(c, "min_p");
    s.top_n_sigma = (float)number(c, "top_n_sigma");
    s.xtc_probability = (float)number(c, "xtc_probability");
    s.xtc_threshold = (float)number(c, "xtc_threshold");
    s.dry_multiplier = (float)number(c, "dry_multiplier");
    s.dry_base = (float)number(c, "dry_base");
    s.dry_allowed_length = (int)number(c, "dry_allowed_length");
    s.dry_penalty_last_n = (int)number(c, "dry_penalty_last_n");
    s.n_dry_breakers = sp_json_len(breakers);
    assert_true(s.n_dry_breakers <= MOST_TEXTS);
    for (size_t i = 0; i < s.n_dry_breakers; i++)
        texts[i] = sp_json_to_string(sp_json_at(breakers, i), NULL);
    s.dry_breakers = texts;
    s.dry_tokenizer = tokenizer;
    return s;
}

static size_t read_history(uint32_t ids[MOST_HISTORY], const struct sp_json *c)
{
    const struct sp_json *history = sp_json_get(c, "history");
    int64_t id;

    assert_true(sp_json_len(history) <= MOST_HISTORY);
    for (size_t i = 0; i < sp_json_len(history); i++) {
        assert_true(sp_json_to_i64(sp_json_at(history, i), &id));
        ids[i] = (uint32_t)id;
    }
    return sp_json_len(history);
}

static void check_case(const struct sp_json *c, const char *line)
{
    const struct sp_json *probs = sp_json_get(c, "probs");
    const struct sp_vector *vector = sp_vector_find("scalar");
    struct sp_sampler_scratch *scratch = NULL;
    struct sp_dry_breakers *breakers = NULL;
    struct sp_distribution d = {0};
    const char *texts[MOST_TEXTS] = {NULL};
    struct sp_sampling s = options_of(c, texts);
    static float logits[N_VOCAB];
    uint32_t ids[MOST_HISTORY];
    struct sp_history h = {.older = ids, .n_older = read_history(ids, c)};
    struct sp_logits row;

    for (size_t i = 0; i < N_VOCAB; i++)
        logits[i] = (float)(i * (size_t)number(c, "step") % (size_t)number(c, "modulus")) / 64;
    /* The history in two spans, which a scheduler's draft tokens make of it. */
    h.n_newer = h.n_older / 3;
    h.n_older -= h.n_newer;
    h.newer = ids + h.n_older;
    row = sp_logits_of(vector, logits, N_VOCAB);
    assert_case_ok(line, sp_sampling_check(&s, N_VOCAB, why));
    assert_ok(sp_dry_breakers_open(&breakers, &s, N_VOCAB, why));
    assert_ok(sp_sampler_scratch_new(&scratch, N_VOCAB, vector, NULL, why));
    h.breakers = breakers;
    assert_ok(sp_sampler_distribution(&d, scratch, &s, &row, &h, 5, why));
    if (d.n != (size_t)number(c, "kept")) fail_msg("%zu tokens are kept: %s", d.n, line);
    for (size_t i = 0; i < sp_json_len(probs); i++) {
        const struct sp_json *pair = sp_json_at(probs, i);
        double want, got;
        int64_t id;
        assert_true(sp_json_to_i64(sp_json_at(pair, 0), &id));
        assert_true(sp_json_to_double(sp_json_at(pair, 1), &want));
        got = sp_distribution_at(&d, (uint32_t)id);
        if (!(fabs(got - want) <= 1e-6 * want + 1e-12))
            fail_msg("p(%d) = %.9g, expected %.9g: %s", (int)id, got, want, line);
    }
    sp_distribution_release(&d);
    sp_dry_breakers_close(breakers);
    sp_sampler_scratch_free(scratch);
}

TEST(distributions)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/vectors/samplers.jsonl");
    size_t n = 0;

    for (; line[n]; n++)
        check_case(line[n], keep_printed(line[n]));
    assert_true(n > 90);
}

/* ---- exactness ---- */

enum { V = 9, PROMPT = 6, LENGTH = 60 };

/* Logits of a model that repeats itself, and of a draft that mostly agrees with it. */
static void model_logits(float out[V], const uint32_t *ids, size_t pos, bool draft)
{
    for (uint32_t i = 0; i < V; i++) {
        out[i] = (float)((ids[pos - 1] * 4 + ids[pos - 2] + i * 5) % 11) / 2;
        if (draft) out[i] += (float)((ids[pos - 1] + i * 7) % 5) / 4;
    }
}

static struct sp_sampling all_samplers(void)
{
    static const char *const none[1] = {NULL};
    struct sp_sampling s = SP_SAMPLING_INIT;

    s.temperature = 1.1f;
    s.top_n_sigma = 1.5f;
    s.xtc_probability = 0.4f;
    s.xtc_threshold = 0.1f;
    s.dry_multiplier = 0.7f;
    s.dry_allowed_length = 1;
    s.dry_penalty_last_n = 24;
    s.dry_breakers = none;
    return s;
}

static void generate(uint32_t ids[], const struct sp_sampling *s, size_t draft_len)
{
    const struct sp_vector *vector = sp_vector_find("scalar");
    struct sp_sampler *sampler = NULL;
    struct sp_sampling_chooser *state = NULL;
    struct sp_chooser chooser;
    float logits[V];
    struct sp_logits row;

    assert_ok(sp_sampler_open(&sampler, V, 0, NULL));
    assert_ok(sp_sampling_chooser_new(&state, sampler, s, 4, NULL));
    chooser = sp_sampling_chooser_of(state);
    for (size_t n = PROMPT; n < PROMPT + LENGTH;) {
        uint32_t drafted[4];
        for (size_t i = 0; i < draft_len; i++) {
            model_logits(logits, ids, n + i, true);
            row = sp_logits_of(vector, logits, V);
            assert_ok(chooser.propose(chooser.state, &ids[n + i], NULL, &row, ids, n + i, NULL));
            drafted[i] = ids[n + i];
        }
        for (size_t i = 0; i <= draft_len && n < PROMPT + LENGTH; i++) {
            uint32_t draft_token = i < draft_len ? drafted[i] : SP_NO_DRAFT_TOKEN, id;
            model_logits(logits, ids, n, false);
            row = sp_logits_of(vector, logits, V);
            assert_ok(chooser.choose(chooser.state, &id, &row, ids, n, draft_token, NULL));
            ids[n++] = id;
            if (id != draft_token) break;
        }
    }
    sp_sampling_chooser_free(state);
    sp_sampler_close(sampler);
}

TEST(drafted_equals_plain)
{
    struct sp_sampling s = all_samplers();
    uint32_t plain[PROMPT + LENGTH + 4] = {1, 2, 3, 1, 2, 3}, drafted[PROMPT + LENGTH + 4];

    for (s.seed = 0; s.seed < 200; s.seed++) {
        generate(plain, &s, 0);
        for (size_t draft_len = 1; draft_len <= 4; draft_len++) {
            memcpy(drafted, plain, PROMPT * sizeof *plain);
            generate(drafted, &s, draft_len);
            assert_memory_equal(plain, drafted, (PROMPT + LENGTH) * sizeof *plain);
        }
    }
}

/* A batch of slots with the same row gives each slot the token that it samples alone. */
TEST(batch_equals_alone)
{
    enum { SLOTS = 12 };
    uint32_t prior[] = {1, 2, 3, 1, 2}, together[SLOTS], alone;
    struct sp_sampler_row rows[SLOTS];
    struct sp_sampler *sampler = NULL;
    float logits[V];
    size_t slots[SLOTS], n_different = 0;

    assert_ok(sp_sampler_open(&sampler, V, 100, NULL));
    model_logits(logits, prior, 5, false);
    for (size_t i = 0; i < SLOTS; i++) {
        struct sp_sampling s = all_samplers();
        s.seed = i;
        if (i % 2) s.dry_multiplier = 0;
        if (i % 3 == 0) s.xtc_threshold = 0.2f;
        if (i % 4 == 0) s.top_n_sigma = 0;
        assert_ok(sp_sampler_add(sampler, &slots[i], &s, prior, 5, NULL));
        rows[i] = (struct sp_sampler_row){slots[i], logits, NULL, 0};
    }
    assert_ok(sp_sampler_sample(sampler, together, rows, SLOTS, NULL));
    for (size_t i = 0; i < SLOTS; i++) {
        assert_ok(sp_sampler_sample(sampler, &alone, &rows[i], 1, NULL));
        assert_int_equal(alone, together[i]);
        n_different += alone != together[0];
    }
    assert_true(n_different > 0);
    sp_sampler_close(sampler);
}

/* XTC applies at about the given share of positions. */
TEST(xtc_share)
{
    struct sp_sampling s = SP_SAMPLING_INIT, off = SP_SAMPLING_INIT;
    size_t n = 0;

    s.xtc_probability = 0.3f;
    for (uint64_t position = 0; position < 10000; position++)
        n += !sp_sampling_excludes_alike(&s, position, &off, position);
    assert_in_range(n, 2800, 3200);
}

TEST(refusals)
{
    char *long_text = keep(calloc(1, 200));
    const char *texts[] = {""};
    struct sp_sampling s = SP_SAMPLING_INIT;
    struct sp_dry_breakers *b = NULL;

    assert_non_null(long_text);
    s.dry_base = 0.5f;
    assert_ok(sp_sampling_check(&s, V, why)); /* DRY is off */
    s.dry_multiplier = 1;
    assert_fails_as(sp_sampling_check(&s, V, why), SP_E_USAGE,
                    "dry_base is 0.5, expected 1 to 100");
    s.dry_breakers = texts;
    s.n_dry_breakers = 1;
    assert_fails_as(sp_dry_breakers_open(&b, &s, V, why), SP_E_USAGE,
                    "DRY sequence breakers require a tokenizer");
    s.dry_tokenizer = tokenizer;
    assert_fails_as(sp_dry_breakers_open(&b, &s, V, why), SP_E_USAGE,
                    "a DRY sequence breaker has 0 bytes, expected 1 to 128 of valid UTF-8");
    s.n_dry_breakers = 33;
    assert_fails_as(sp_dry_breakers_open(&b, &s, V, why), SP_E_USAGE,
                    "33 DRY sequence breakers, at most 32 are supported");
    s.n_dry_breakers = 1;
    memset(long_text, 'a', 129);
    texts[0] = long_text;
    assert_int_equal(sp_dry_breakers_open(&b, &s, V, NULL), SP_E_USAGE);
    texts[0] = "\xff";
    assert_int_equal(sp_dry_breakers_open(&b, &s, V, NULL), SP_E_USAGE);
    assert_null(b);
}

GROUP_FIXTURE(setup, teardown);
