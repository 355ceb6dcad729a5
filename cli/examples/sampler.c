/* Two answers to one prompt, sampled together by the batch sampler: cc sampler.c $(pkg-config
 * --cflags --libs spectool). usage: sampler FILE PROMPT. A scheduler has a forward pass of its own;
 * here sp_session_logits takes its place. */
#include <spectool_measure.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEQUENCES = 2, N_TOKENS = 24, N_CONTEXT = 256 };

struct sequence {
    uint32_t ids[N_CONTEXT];
    size_t n, slot;
    float *logits; /* [n_vocab] after the last id; owned */
};

static int keep_last(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct sequence *s = context;

    if (row + 1 == s->n) memcpy(s->logits, logits, n_vocab * sizeof *logits);
    return 0;
}

/* The next token of every sequence. */
static enum sp_status step(struct sequence *all, struct sp_session *session,
                           struct sp_sampler *sampler, struct sp_err *err)
{
    struct sp_sampler_row rows[N_SEQUENCES] = {{0}};
    uint32_t ids[N_SEQUENCES];
    enum sp_status st;

    for (size_t i = 0; i < N_SEQUENCES; i++) {
        st = sp_session_logits(session, all[i].ids, all[i].n, keep_last, &all[i], err);
        if (st) return st;
        rows[i].slot = all[i].slot;
        rows[i].logits = all[i].logits;
    }
    st = sp_sampler_sample(sampler, ids, rows, N_SEQUENCES, err);
    for (size_t i = 0; i < N_SEQUENCES && !st; i++) {
        st = sp_sampler_commit(sampler, all[i].slot, &ids[i], 1, err);
        all[i].ids[all[i].n++] = ids[i];
    }
    return st;
}

int main(int argc, char **argv)
{
    struct sp_session_options options = {
        .size = sizeof options, .n_context = N_CONTEXT, .draft_by = SP_DRAFT_BY_NOTHING};
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_package *package = NULL;
    struct sp_session *session = NULL;
    struct sp_sampler *sampler = NULL;
    struct sequence all[N_SEQUENCES] = {{{0}, 0, 0, NULL}};
    uint32_t *prompt = NULL;
    size_t n = 0, size;
    char *text = NULL;
    struct sp_err err = {0};
    enum sp_status st;

    if (argc != 3) return SP_E_USAGE;
    sampling.temperature = 0.8f;
    if ((st = sp_package_open(&package, argv[1], NULL, &err)) ||
        (st = sp_session_open(&session, package, &options, &err)) ||
        (st = sp_tokenizer_encode(sp_package_tokenizer(package), argv[2], strlen(argv[2]), 0,
                                  &prompt, &n, &err)))
        goto done;
    sp_package_describe(package, &info);
    if (n == 0 || n + N_TOKENS > N_CONTEXT)
        st = sp_fail(&err, SP_E_USAGE, "a prompt of %zu tokens", n);
    if (!st) st = sp_sampler_open(&sampler, info.n_vocab, N_CONTEXT, &err);
    for (size_t i = 0; i < N_SEQUENCES && !st; i++) {
        sampling.seed = i + 1;
        st = sp_sampler_add(sampler, &all[i].slot, &sampling, prompt, n, &err);
        memcpy(all[i].ids, prompt, n * sizeof *prompt);
        all[i].n = n;
        if ((all[i].logits = malloc(info.n_vocab * sizeof(float))) == NULL) abort();
    }
    for (size_t i = 0; i < N_TOKENS && !st; i++)
        st = step(all, session, sampler, &err);
    for (size_t i = 0; i < N_SEQUENCES && !st; i++) {
        st = sp_tokenizer_decode(sp_package_tokenizer(package), all[i].ids + n, N_TOKENS, true,
                                 &text, &size, &err);
        if (!st) puts(text);
        free(text);
        text = NULL;
    }
done:
    if (st) fprintf(stderr, "%s\n", err.text);
    for (size_t i = 0; i < N_SEQUENCES; i++)
        free(all[i].logits);
    free(prompt);
    sp_sampler_close(sampler);
    sp_session_close(session);
    sp_package_close(package);
    return (int)st;
}
