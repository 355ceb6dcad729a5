/* Tests n-gram drafting: the position from which tokens are copied, against a search of all
 * positions, and rejection sampling of draft tokens that no logits chose. */
#include "runtime/sampling/sampling_chooser.h"
#include "runtime/speculate/drafter.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { TEXT = 300, CAPACITY = TEXT + SP_DRAFT_NGRAM_MAX + 2 };

static struct sp_drafter *open_ngram(size_t n_positions)
{
    struct sp_drafter *l = NULL;

    assert_ok(sp_draft_ngram_open(&l, n_positions, why));
    return l;
}

static void commit(struct sp_drafter *l, const uint32_t *ids, size_t first, size_t n)
{
    struct sp_commit rows = {.ids = ids, .first = first, .n = n};

    l->ops->commit(l, &rows);
}

/* Returns the number of draft tokens after ids[0..n_cached]; 0: none. */
static size_t propose(struct sp_drafter *l, uint32_t *ids, size_t n_cached)
{
    struct sp_chooser chooser = {0};
    struct sp_proposal proposal = {.chooser = &chooser};
    size_t n = l->ops->limit(l, ids, n_cached);

    if (n && sp_drafter_propose(l, ids, n_cached, &n, &proposal, NULL)) fail_msg("no proposal");
    return n;
}

/* Returns the newest position before which the longest suffix of the text occurred already; 0: not
 * even two tokens match. */
static size_t search(const uint32_t *ids, size_t n_cached)
{
    size_t best = 0, longest = 1;

    for (size_t at = n_cached - 1; at > 0; at--) {
        size_t n = 0;
        while (n <= at && ids[at - n] == ids[n_cached - n])
            n++;
        if (n <= longest) continue;
        longest = n;
        best = at;
    }
    return best;
}

static void check_proposal(struct sp_drafter *l, const uint32_t *text, size_t n_cached)
{
    uint32_t ids[CAPACITY], expected[CAPACITY];
    size_t at = search(text, n_cached), n;

    memcpy(ids, text, (n_cached + 1) * sizeof *ids);
    memcpy(expected, ids, sizeof ids);
    n = propose(l, ids, n_cached);
    assert_int_equal(n, at ? SP_DRAFT_NGRAM_MAX : 0);
    for (size_t i = 0; i < n; i++) { /* tokens copied from the text, or from the proposal itself */
        expected[n_cached + 1 + i] = expected[at + 1 + i];
        assert_int_equal(ids[n_cached + 1 + i], expected[n_cached + 1 + i]);
    }
}

/* Texts of few different tokens, committed a few at a time, and sometimes rolled back and continued
 * with other tokens. */
TEST(longest_match)
{
    uint64_t random = 7;
    size_t n_found = 0;

    for (unsigned n_tokens = 3; n_tokens <= 60; n_tokens += 19) {
        struct sp_drafter *l = open_ngram(TEXT);
        uint32_t text[CAPACITY];
        size_t n_cached = 0;
        for (size_t i = 0; i < TEXT; i++)
            text[i] = next(&random) % n_tokens;
        while (n_cached + 8 < TEXT) {
            size_t n = 1 + next(&random) % 7;
            commit(l, text, n_cached, n);
            n_cached += n;
            check_proposal(l, text, n_cached);
            n_found += search(text, n_cached) > 0;
            if (next(&random) % 6) continue;
            n_cached -= next(&random) % (n_cached + 1) / 2;
            assert_true(l->ops->truncate(l, n_cached, n_cached));
            for (size_t i = n_cached; i < TEXT; i++)
                text[i] = next(&random) % n_tokens;
        }
        sp_drafter_close(l);
    }
    assert_true(n_found > 50);
}

/* Returns the newest position of the last token where no two tokens match; 0: none. *again: an
 * older occurrence has the same next token. */
static size_t search_single(const uint32_t *ids, size_t n_cached, bool *repeated)
{
    size_t newest = 0;

    *repeated = false;
    for (size_t at = n_cached - 1; at > 0; at--) {
        if (ids[at] != ids[n_cached]) continue;
        if (newest && ids[at + 1] == ids[newest + 1]) *repeated = true;
        if (newest == 0) newest = at;
    }
    return newest;
}

/* The token after a single match is proposed with a controlled draft length only, with more
 * confidence if it followed twice. */
TEST(single_tokens)
{
    struct sp_chooser chooser = {0};
    uint64_t random = 5;
    size_t n_found[2] = {0};

    for (unsigned n_tokens = 20; n_tokens <= 50; n_tokens += 15) {
        struct sp_drafter *l = open_ngram(TEXT);
        uint32_t ids[CAPACITY];
        for (size_t i = 0; i < TEXT; i++)
            ids[i] = next(&random) % n_tokens;
        for (size_t n_cached = 1; n_cached + 1 < TEXT; n_cached++) {
            uint32_t kept = ids[n_cached + 1];
            struct sp_drafting_controller batch;
            struct sp_draft_length draft_len;
            struct sp_proposal proposal = {.chooser = &chooser, .draft_len = &draft_len};
            bool repeated;
            size_t at = search_single(ids, n_cached, &repeated), n = 1;
            commit(l, ids, n_cached - 1, 1);
            if (n_cached > 60 && next(&random) % 60 == 0) {
                n_cached -= 20;
                l->ops->truncate(l, n_cached, n_cached);
                continue;
            }
            if (search(ids, n_cached)) continue;
            assert_int_equal(l->ops->limit(l, ids, n_cached), at ? SP_DRAFT_NGRAM_MAX : 0);
            if (at == 0) continue;
            sp_drafting_controller_init(&batch, SP_DRAFT_NGRAM_MAX, true);
            sp_draft_length_init(&draft_len, &batch);
            assert_int_equal(sp_draft_length_choose(&draft_len, 1, NULL), 1);
            assert_ok(sp_drafter_propose(l, ids, n_cached, &n, &proposal, NULL));
            assert_int_equal(n, 1);
            assert_int_equal(ids[n_cached + 1], ids[at + 1]);
            assert_true(repeated ? draft_len.confidences[1] > 0.3 : draft_len.confidences[1] < 0.3);
            n_found[repeated]++;
            ids[n_cached + 1] = kept;
            assert_int_equal(propose(l, ids, n_cached),
                             0); /* a fixed draft length proposes nothing */
        }
        sp_drafter_close(l);
    }
    assert_true(n_found[0] > 50 && n_found[1] > 50);
}

/* A repetition is continued beyond the end of the text. */
TEST(repetition)
{
    struct sp_drafter *l = open_ngram(TEXT);
    uint32_t ids[CAPACITY];

    for (uint32_t i = 0; i < 8; i++)
        ids[i] = i % 3;
    commit(l, ids, 0, 7);
    assert_int_equal(propose(l, ids, 7), SP_DRAFT_NGRAM_MAX);
    for (uint32_t i = 8; i < 8 + SP_DRAFT_NGRAM_MAX; i++)
        assert_int_equal(ids[i], i % 3);
    sp_drafter_close(l);
}

/* No proposal: an empty text, one token, no repetition. */
TEST(no_match)
{
    struct sp_drafter *l = open_ngram(4);
    uint32_t ids[8] = {5, 6, 7, 8};

    assert_int_equal(propose(l, ids, 0), 0);
    commit(l, ids, 0, 3);
    assert_int_equal(propose(l, ids, 3), 0);
    assert_true(l->ops->truncate(l, 0, 0));
    assert_int_equal(propose(l, ids, 0), 0);
    sp_drafter_close(l);
}

/* The confidence grows with the length of the match, which shows in how many draft tokens are
 * considered. */
TEST(confidence_grows_with_match_length)
{
    struct sp_drafter *l = open_ngram(TEXT);
    uint32_t ids[CAPACITY] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 1, 2};
    struct sp_chooser chooser = {0};
    struct sp_drafting_controller batch;
    struct sp_draft_length draft_len;
    struct sp_proposal proposal = {.chooser = &chooser, .draft_len = &draft_len};
    size_t n[2];

    for (size_t i = 0; i < 2; i++) {
        size_t n_cached = i ? 25 : 15;
        for (size_t k = 16; k <= n_cached; k++)
            ids[k] = ids[k - 14];
        commit(l, ids, i ? 15 : 0, n_cached - (i ? 15 : 0));
        assert_int_equal(l->ops->limit(l, ids, n_cached), SP_DRAFT_NGRAM_MAX);
        sp_drafting_controller_init(&batch, SP_DRAFT_NGRAM_MAX, true);
        sp_draft_length_init(&draft_len, &batch);
        n[i] = sp_draft_length_choose(&draft_len, SP_DRAFT_NGRAM_MAX, NULL);
        assert_ok(sp_drafter_propose(l, ids, n_cached, &n[i], &proposal, NULL));
        n[i] = (size_t)(1e3 * draft_len.confidences[1]);
    }
    assert_in_range(n[0], 100, 500); /* two tokens match */
    assert_in_range(n[1], 800, 999); /* twelve tokens match */
    sp_drafter_close(l);
}

/* Rejection sampling of a draft token with probability 1 in the draft gives the target's
 * distribution p, within four standard errors at each token. */
TEST(rejection_sampling_keeps_the_distribution)
{
    enum { N = 5, DRAWS = 40000 };
    static const float row[16] = {1.5f, .2f, -1, .9f, 0};
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_sampler *sampler = NULL;
    struct sp_sampling_chooser *c = NULL;
    struct sp_chooser chooser;
    struct sp_logits logits = {.row = row, .n = N, .best = 0};
    static uint32_t ids[DRAWS + 1];

    sampling.temperature = 1;
    sampling.repeat_last_n = 0;
    sampling.accept = SP_ACCEPT_REJECTION;
    assert_ok(sp_sampler_open(&sampler, N, 0, why));
    for (uint32_t draft_token = 0; draft_token < N; draft_token += 2) {
        size_t seen[N] = {0};
        double sum = 0;
        sampling.seed = 11 + draft_token;
        assert_ok(sp_sampling_chooser_new(&c, sampler, &sampling, SP_DRAFT_NGRAM_MAX, why));
        chooser = sp_sampling_chooser_of(c);
        for (size_t pos = 1; pos <= DRAWS; pos++) {
            uint32_t id = N;
            bool possible = true;
            ids[pos] = draft_token;
            assert_ok(chooser.adopt(chooser.state, &possible, ids, pos, why));
            assert_true(possible);
            assert_ok(chooser.choose(chooser.state, &id, &logits, ids, pos, draft_token, why));
            assert_true(id < N);
            seen[id]++;
        }
        for (size_t i = 0; i < N; i++)
            sum += exp((double)row[i]);
        for (size_t i = 0; i < N; i++) {
            double p = exp((double)row[i]) / sum, error = sqrt(p * (1 - p) / (double)DRAWS);
            double share = (double)seen[i] / (double)DRAWS;
            if (fabs(share - p) > 4 * error) fail_msg("token %zu: %.4f, %.4f", i, share, p);
        }
        sp_sampling_chooser_free(c);
    }
    sp_sampler_close(sampler);
}
