/* The caches of a speculator, to a file and back. */
#include "runtime/speculate/speculate_state.h"
#include "runtime/speculate/speculate.h"

#include "runtime/model/state_checkpoint.h"

static enum sp_status walk(struct sp_speculator *s, struct sp_session_file *file,
                           struct sp_err *err)
{
    size_t n = s->n_cached, has_draft = s->drafter != NULL;
    enum sp_status st;

    if ((st = sp_session_file_number(file, &n, SIZE_MAX, err))) return st;
    if (n > s->n_positions) {
        return sp_fail(err, SP_E_INPUT, "%s: a prompt cache of %zu tokens, the context has %zu",
                       sp_session_file_path(file), n, s->n_positions);
    }
    if (sp_session_file_is_read(file) && (st = sp_speculator_grow(s, n, err))) return st;
    if ((st = sp_session_file_number(file, &has_draft, 1, err))) return st;
    if ((st = sp_session_file_bytes(file, s->ids, n * sizeof *s->ids, err))) return st;
    if ((st = sp_decoder_transfer(s->decoder, file, n, err))) return st;
    s->n_cached = s->n_ids = n;
    if (s->drafter == NULL) return SP_OK; /* a draft's caches in the file are not read */
    if (!has_draft) {
        return sp_fail(err, SP_E_CHECK, "%s: a prompt cache that was written without the draft",
                       sp_session_file_path(file));
    }
    if (s->drafter->ops->state == NULL) return SP_OK;
    return s->drafter->ops->state(s->drafter, file, n, err);
}

/* The draft may not have read the prompt yet: it does so at its next proposal. */
static void read_up(struct sp_speculator *s)
{
    struct sp_drafter *d = s->drafter;

    if (d == NULL || d->ops->catch_up == NULL || s->n_cached >= s->n_positions) return;
    if (sp_speculator_limit(s, d)) d->ops->catch_up(d, s->ids, s->n_cached);
}

enum sp_status sp_speculator_save(struct sp_speculator *s, struct sp_session_file *file,
                                  struct sp_err *err)
{
    read_up(s);
    return walk(s, file, err);
}

static enum sp_status check_ids(const struct sp_speculator *s, const struct sp_session_file *file,
                                struct sp_err *err)
{
    for (size_t i = 0; i < s->n_cached; i++) {
        if (s->ids[i] < s->target->config.n_vocab) continue;
        return sp_fail(err, SP_E_INPUT, "%s: token ID %u, the vocabulary has %u tokens",
                       sp_session_file_path(file), (unsigned)s->ids[i], s->target->config.n_vocab);
    }
    return SP_OK;
}

static void forget(struct sp_speculator *s)
{
    if (s->drafter) s->drafter->ops->truncate(s->drafter, 0, 0);
    if (s->ngram) s->ngram->ops->truncate(s->ngram, 0, 0);
    sp_decoder_rewind(s->decoder, s->n_cached, 0);
    s->n_cached = s->n_ids = 0;
}

enum sp_status sp_speculator_load(struct sp_speculator *s, struct sp_session_file *file,
                                  struct sp_err *err)
{
    enum sp_status st;

    forget(s);
    if ((st = walk(s, file, err)) || (st = sp_session_file_finish(file, err)) ||
        (st = check_ids(s, file, err)))
        forget(s);
    return st;
}
