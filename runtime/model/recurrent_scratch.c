#include "runtime/model/recurrent_scratch.h"

#include "format/base/mem.h"
#include "runtime/backend/backend.h"

#include <stdlib.h>

enum sp_status sp_recurrent_scratch_init(struct sp_recurrent_scratch *s,
                                         const struct sp_head_sizes *sizes, size_t kernel,
                                         size_t max_rows, unsigned n_threads, struct sp_err *err)
{
    enum sp_status st;

    *s = (struct sp_recurrent_scratch){.sizes = *sizes};
    s->n_values = sizes->n_heads * sizes->value_dim;
    s->n_keys = sizes->n_keys * sizes->key_dim;
    s->channels = s->n_values + 2 * s->n_keys;
    s->ld = sp_matrix_ld(s->channels);
    s->ld_z = sp_matrix_ld(s->n_values);
    s->ld_heads = sp_matrix_ld(sizes->n_heads);
    if ((st = sp_new_rows(&s->input, kernel - 1 + max_rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->mixed, max_rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->z, max_rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->out, max_rows, s->ld_z, err))) return st;
    return sp_head_workspace_init(&s->workspace, sizes->key_dim, n_threads, err);
}

void sp_recurrent_scratch_release(struct sp_recurrent_scratch *s)
{
    free(s->input);
    free(s->mixed);
    free(s->z);
    free(s->out);
    sp_head_workspace_release(&s->workspace);
    *s = (struct sp_recurrent_scratch){0};
}
