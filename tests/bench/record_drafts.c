/* Records what a file's draft proposes at every position of an answer, for tests of the draft
 * length controller: with these records any controller can be replayed without a model.
 *
 *   record_drafts FILE N_TOKENS PROMPT...     PROMPT: a file, whose text is a whole templated
 * prompt
 *
 * Prints for each prompt a line "prompt N TOKENS" and N lines, one for each position of the greedy
 * answer: how many of the LENGTH draft tokens proposed there equal the answer, in hexadecimal, then
 * the draft's confidence in each of them, two hexadecimal digits: 128 + 8 ln(c / (1 - c)). */
#include "runtime/session/session.h"

#include "format/base/file.h"
#include "runtime/sampling/chooser.h"
#include "tests/bench/bench_times.h"

#include <math.h>

enum { LENGTH = 15 };

struct recorder {
    struct sp_chooser greedy;
    double confidence[LENGTH];
    size_t n;
};

static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    struct recorder *r = state;
    double own;
    enum sp_status st = r->greedy.propose(r->greedy.state, id, &own, logits, ids, pos, err);

    if (confidence) *confidence = own;
    r->confidence[r->n++] = own;
    return st;
}

static unsigned code(double confidence)
{
    double logit = 128 + 8 * log(confidence / (1 - confidence));

    if (!(logit > 1)) return 1;
    return logit < 255 ? (unsigned)lrint(logit) : 255;
}

/* The draft tokens for the positions after ids[n - 1], compared with the answer. */
static void record(struct sp_session *session, const uint32_t *ids, size_t n, size_t n_all)
{
    struct sp_speculator *s = session->speculator;
    struct recorder r = {.greedy = sp_greedy_chooser(session->package->backend.vector)};
    struct sp_chooser chooser = {.propose = propose, .state = &r};
    struct sp_proposal proposal = {.chooser = &chooser};
    struct sp_round round = {0};
    struct sp_logits logits;
    struct sp_err err = {0};
    size_t most, right = 0;

    sp_scheduler_acquire(s->scheduler);
    if (sp_speculator_prompt(s, ids, n - 1, &logits, NULL, NULL, &err)) die(&err);
    sp_speculator_begin(s, ids[n - 1]);
    most = sp_speculator_limit(s, s->drafter);
    if (most > LENGTH) most = LENGTH;
    if (most && sp_speculator_propose(s, s->drafter, most, &proposal, &round, &err)) die(&err);
    sp_scheduler_release(s->scheduler);
    while (right < round.made && n + right < n_all && s->ids[n + right] == ids[n + right])
        right++;
    printf("%zx", right);
    for (size_t i = 0; i < r.n; i++)
        printf("%02x", code(r.confidence[i]));
    printf("\n");
}

static void record_answer(struct sp_session *session, const char *prompt, size_t n_tokens)
{
    struct sp_package *package = session->package;
    struct sp_request request = {.size = sizeof request, .max_tokens = n_tokens + LENGTH};
    struct sp_result result = SP_RESULT_INIT;
    struct sp_err err = {0};
    uint32_t *ids, *all;
    size_t n, n_rows;

    if (sp_tokenizer_encode(sp_package_tokenizer(package), prompt, strlen(prompt),
                            SP_ENCODE_PARSE_SPECIAL, &ids, &n, &err))
        die(&err);
    request.prompt = ids;
    request.n_prompt = n;
    if (sp_session_generate(session, &request, &result, &err)) die(&err);
    all = malloc((n + result.n_ids) * sizeof *all);
    if (all == NULL) abort();
    memcpy(all, ids, n * sizeof *all);
    memcpy(all + n, result.ids, result.n_ids * sizeof *all);
    n_rows = result.n_ids < n_tokens ? result.n_ids : n_tokens;
    printf("prompt %zu %zu\n", n_rows, n);
    for (size_t i = 1; i <= n_rows; i++)
        record(session, all, n + i, n + result.n_ids);
    fflush(stdout);
    free(all);
    free(ids);
    sp_result_release(&result);
}

int main(int argc, char **argv)
{
    struct sp_package_options package_options = {.size = sizeof package_options, .n_threads = 2};
    struct sp_session_options session_options = {.size = sizeof session_options, .n_context = 2048};
    struct sp_package *package;
    struct sp_session *session;
    struct sp_err err = {0};
    struct sp_text prompt;

    if (argc < 4) {
        fprintf(stderr, "usage: record_drafts FILE N_TOKENS PROMPT...\n");
        return 2;
    }
    if (sp_package_open(&package, argv[1], &package_options, &err) ||
        sp_session_open(&session, package, &session_options, &err))
        die(&err);
    for (int i = 3; i < argc; i++) {
        if (sp_file_read_text(&prompt, argv[i], 1 << 20, &err)) die(&err);
        record_answer(session, prompt.at, strtoul(argv[2], NULL, 10));
        free(prompt.at);
    }
    sp_session_close(session);
    sp_package_close(package);
    return 0;
}
