#include "runtime/model/recurrent_scratch.h"

#include "runtime/model/decoder_internal.h"

enum sp_status sp_recurrent_scratch_open(struct sp_recurrent_scratch **out, struct sp_workspace *ws,
                                         const struct sp_head_sizes *sizes, size_t kernel,
                                         bool has_strengths, struct sp_err *err)
{
    struct sp_recurrent_scratch *s = NULL;
    size_t n = ws->max_rows;
    enum sp_status st;

    if ((st = sp_arena_new(&ws->memory, &s, 1, sizeof *s, err))) return st;
    *out = s;
    s->sizes = *sizes;
    s->n_values = sizes->n_heads * sizes->value_dim;
    s->n_keys = sizes->n_keys * sizes->key_dim;
    s->channels = s->n_convolved = s->n_values + 2 * s->n_keys;
    s->ld = sp_matrix_ld(s->channels);
    s->ld_z = sp_matrix_ld(s->n_values);
    s->ld_heads = sp_matrix_ld(sizes->n_heads);
    s->ld_decays = sp_matrix_ld(sp_head_n_decays(sizes));
    if ((st = sp_arena_rows(&ws->memory, &s->input, kernel - 1 + n, s->ld, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &s->mixed, n, s->ld, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &s->z, n, s->ld_z, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &s->out, n, s->ld_z, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &s->decays, n, s->ld_decays, err))) return st;
    if ((st = has_strengths ? sp_arena_rows(&ws->memory, &s->strengths, n, s->ld_heads, err)
                            : sp_arena_rows(&ws->memory, &s->values, n, s->ld_z, err)))
        return st;
    return sp_head_workspace_init(&s->workspace, &ws->memory, sizes->key_dim,
                                  sp_pool_n_threads(ws->backend->pool), err);
}

float *sp_recurrent_convolve(const struct sp_recurrent_job *job, const float *taps, size_t i)
{
    const struct sp_recurrent_scratch *s = job->scratch;
    float *u = s->mixed + (job->first + i) * s->ld;

    sp_conv_history_convolve(job->history, job->ws->backend->vector, u, taps,
                             s->input + job->first * s->ld, s->ld, i);
    return u;
}

static void run_recurrence(const struct sp_recurrent_job *job, struct sp_head_state *state,
                           const struct sp_batch_seq *seq)
{
    const struct sp_recurrent_scratch *s = job->scratch;
    size_t ld_v = s->values ? s->ld_z : s->ld;
    struct sp_head_pass pass = {
        .vector = job->ws->backend->vector,
        .workspace = &s->workspace,
        .state = state,
        .q = job->q + job->first * s->ld,
        .k = job->k + job->first * s->ld,
        .v = job->v + job->first * ld_v,
        .ld = s->ld,
        .ld_v = ld_v,
        .decays = s->decays + job->first * s->ld_decays,
        .strengths = s->strengths ? s->strengths + job->first * s->ld_heads : NULL,
        .ld_decays = s->ld_decays,
        .ld_heads = s->ld_heads,
        .out = s->out + job->first * s->ld_z,
        .ld_out = s->ld_z,
        .n = seq->n,
        .n_committed = seq->n_committed,
    };

    sp_head_state_run(&pass, job->ws->backend->pool);
}

void sp_recurrent_job_convolve(struct sp_recurrent_job *job, unsigned layer)
{
    const struct sp_recurrent_scratch *s = job->scratch;

    job->history = &job->ws->seqs[0].decoder->recurrent[layer].histories[0];
    sp_conv_history_run(job->ws, layer, 0, s->input, s->ld, job->mix_row, job, &job->first);
}

void sp_recurrent_job_scan(struct sp_recurrent_job *job, unsigned layer)
{
    const struct sp_workspace *ws = job->ws;

    job->first = 0;
    for (size_t i = 0; i < ws->n_seqs; job->first += ws->seqs[i++].n)
        run_recurrence(job, &ws->seqs[i].decoder->recurrent[layer].heads, &ws->seqs[i]);
}
