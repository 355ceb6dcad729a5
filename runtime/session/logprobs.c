
#include "format/base/mem.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"
#include "runtime/vector/fmath.h"

#include <stdlib.h>
#include <string.h>

/* Finds the n_top largest logits, best first, ties by lower id, by insertion into a sorted list. */
static size_t find_top(struct sp_logprob *top, size_t n_top, const float *logits, size_t n)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        size_t at = len;
        if (len == n_top && !(logits[i] > top[len - 1].logprob)) continue;
        while (at > 0 && logits[i] > top[at - 1].logprob)
            at--;
        if (len < n_top) len++;
        memmove(top + at + 1, top + at, (len - at - 1) * sizeof *top);
        top[at] = (struct sp_logprob){(uint32_t)i, logits[i]};
    }
    return len;
}

/* The raw log-softmax: logit - max - log(sum of exp(logit - max)). */
void sp_logprobs_fill(struct sp_token *token, struct sp_logprob *top, unsigned n_top,
                      float *scratch, const struct sp_vector *vector, const float *logits, size_t n)
{
    float max, sum, log_sum;

    memcpy(scratch, logits, n * sizeof *logits);
    vector->softmax(scratch, 0, n, &max, &sum);
    log_sum = sp_logf(sum);
    token->logprob = logits[token->id] - max - log_sum;
    if (n_top == 0) return;
    token->n_top = find_top(top, n_top, logits, n);
    token->top = top;
    for (size_t i = 0; i < token->n_top; i++)
        top[i].logprob = top[i].logprob - max - log_sum;
}

/* ---- given tokens ---- */

struct scoring {
    const struct sp_session *session;
    const uint32_t *ids; /* [n] */
    size_t n;
    unsigned n_top;
    struct sp_logprob *top; /* [n_top] */
    sp_logprob_fn *fn;
    void *context;
};

static int score_row(void *context, size_t row, const float *logits, size_t n_vocab)
{
    const struct scoring *s = context;
    struct sp_token token = {0};

    if (row + 1 == s->n) return 0;
    token.id = s->ids[row + 1];
    sp_logprobs_fill(&token, s->top, s->n_top, s->session->scratch,
                     s->session->package->backend.vector, logits, n_vocab);
    return s->fn(s->context, row + 1, &token);
}

enum sp_status sp_session_logprobs(struct sp_session *session, const uint32_t *ids, size_t n,
                                   unsigned n_top, sp_logprob_fn *fn, void *context,
                                   struct sp_err *err)
{
    struct scoring s = {session, ids, n, n_top, NULL, fn, context};
    enum sp_status st = sp_new(&s.top, (size_t)n_top + 1, sizeof *s.top, err);

    if (!st) st = sp_session_logits(session, ids, n, score_row, &s, err);
    free(s.top);
    return st;
}
