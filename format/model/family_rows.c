/* The forms in which a source tensor holds a canonical one, as runs of its rows. Each insists on
 * the shape that the config gives the source. */
#include "format/model/family_parts.h"

#include <stdio.h>
#include <string.h>

enum sp_status sp_form_add_whole(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const char *name)
{
    struct sp_row_span span = {.step = 1, .n_rows = 1, .n_cols = spec->shape[spec->rank - 1]};
    enum sp_status st;
    bool found;

    for (unsigned i = 0; i + 1 < spec->rank; i++)
        span.n_rows *= spec->shape[i];
    if ((st = sp_tensor_match_claim(&found, m, name, spec->shape, spec->rank)) || !found) return st;
    return sp_tensor_match_add(m, spec, name, span);
}

static enum sp_status add_row(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                              const char *name)
{
    uint64_t shape[2] = {1, spec->shape[0]};
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, shape, 2)) || !found) return st;
    return sp_tensor_match_add(
        m, spec, name, (struct sp_row_span){.step = 1, .n_rows = 1, .n_cols = spec->shape[0]});
}

/* Contiguous rows out of a matrix that holds several; of a vector, elements. */
static enum sp_status add_slice(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                const char *name, uint64_t first_row, uint64_t n_all)
{
    uint64_t n_cols = spec->rank == 2 ? spec->shape[1] : 1, shape[2] = {n_all, n_cols};
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, shape, spec->rank)) || !found) return st;
    return sp_tensor_match_add(
        m, spec, name,
        (struct sp_row_span){
            .first_row = first_row, .step = 1, .n_rows = spec->shape[0], .n_cols = n_cols});
}

void sp_form_name_expert(char *out, size_t size, const char *pattern, unsigned expert)
{
    const char *mark = strstr(pattern, "%u");

    snprintf(out, size, "%.*s%u%s", (int)(mark - pattern), pattern, expert, mark + 2);
}

static enum sp_status add_each(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                               const char *pattern)
{
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    for (unsigned e = 0; st == SP_OK && e < spec->shape[0]; e++) {
        bool found;
        if (m->findings.n >= SP_MAX_FINDINGS) break;
        sp_form_name_expert(name, sizeof name, pattern, e);
        if ((st = sp_tensor_match_claim(&found, m, name, spec->shape + 1, 2)) || !found) continue;
        st = sp_tensor_match_add(
            m, spec, name,
            (struct sp_row_span){.step = 1, .n_rows = spec->shape[1], .n_cols = spec->shape[2]});
    }
    return st;
}

/* Every other run of n rows: of each pair of runs the one numbered `part`. */
static enum sp_status add_runs(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                               const char *name, const uint64_t *shape, unsigned rank, uint64_t n,
                               unsigned part)
{
    uint64_t n_cols = shape[rank - 1], n_rows = shape[0] * (rank == 3 ? shape[1] : 1);
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, shape, rank)) || !found) return st;
    for (uint64_t row = part * n; st == SP_OK && row < n_rows; row += 2 * n) {
        st = sp_tensor_match_add(
            m, spec, name,
            (struct sp_row_span){.first_row = row, .step = 1, .n_rows = n, .n_cols = n_cols});
    }
    return st;
}

/* Each expert's rows. */
static enum sp_status add_halves(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const char *name, unsigned part)
{
    uint64_t n = spec->shape[1], shape[3] = {spec->shape[0], 2 * n, spec->shape[2]};

    return add_runs(m, spec, name, shape, 3, n, part);
}

/* Every other row over all experts: they have an even number of rows each. */
static enum sp_status add_alternate(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                    const char *name, enum sp_response_format form, unsigned part)
{
    uint64_t rows = 2 * spec->shape[1], cols = form == SP_FORM_BIASES ? 1 : spec->shape[2];
    uint64_t shape[3] = {spec->shape[0], rows, cols};
    struct sp_row_span span = {.first_row = part,
                               .step = 2,
                               .n_rows = spec->shape[0] * spec->shape[1],
                               .n_cols = cols,
                               .transposed = form == SP_FORM_ALTERNATE};
    enum sp_status st;
    bool found;

    if (span.transposed) {
        shape[1] = cols;
        shape[2] = rows;
    }
    st = sp_tensor_match_claim(&found, m, name, shape, form == SP_FORM_BIASES ? 2 : 3);
    if (st || !found) return st;
    return sp_tensor_match_add(m, spec, name, span);
}

static enum sp_status add_transposed(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const char *name)
{
    uint64_t shape[3] = {spec->shape[0], spec->shape[2], spec->shape[1]};
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, shape, 3)) || !found) return st;
    return sp_tensor_match_add(m, spec, name,
                               (struct sp_row_span){.step = 1,
                                                    .n_rows = spec->shape[0] * spec->shape[1],
                                                    .n_cols = spec->shape[2],
                                                    .transposed = true});
}

/* Each head's rows. */
static enum sp_status add_heads(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                const char *name, const struct sp_layer_config *l, unsigned part)
{
    uint64_t shape[2] = {2 * spec->shape[0], spec->shape[1]};

    return add_runs(m, spec, name, shape, 2, l->head_dim, part);
}

/* Rows that turn the other way round turn as they should when the two of each pair change places.
 */
static enum sp_status add_backward(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                   const char *name, const struct sp_layer_config *l)
{
    uint64_t n_cols = spec->rank == 2 ? spec->shape[1] : 1, half = l->head_dim / 2;
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, spec->shape, spec->rank)) || !found) return st;
    for (uint64_t row = 0; st == SP_OK && row < spec->shape[0]; row += l->head_dim) {
        struct sp_row_span span = {
            .first_row = row + half, .step = 1, .n_rows = half, .n_cols = n_cols};
        if ((st = sp_tensor_match_add(m, spec, name, span))) break;
        span.first_row = row;
        st = sp_tensor_match_add(m, spec, name, span);
    }
    return st;
}

static enum sp_status add_headwise(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                   const char *pattern, const struct sp_layer_config *l)
{
    uint64_t width = l->head_dim;
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    for (unsigned h = 0; st == SP_OK && h < spec->shape[0] / width; h++) {
        bool found;
        sp_form_name_expert(name, sizeof name, pattern, h);
        if ((st = sp_tensor_match_claim(&found, m, name, &width, 1)) || !found) continue;
        st = sp_tensor_match_add(m, spec, name,
                                 (struct sp_row_span){.step = 1, .n_rows = 1, .n_cols = width});
    }
    return st;
}

static enum sp_status add_scalar(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const char *name)
{
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, spec->shape, 0)) || !found) return st;
    return sp_tensor_match_add(m, spec, name,
                               (struct sp_row_span){.step = 1, .n_rows = 1, .n_cols = 1});
}

/* Heads of rows, of which n_rot rotate, and `still` rows in front of them do not: of each head what
 * is in front, rotated rows 0, 2, 4, ..., then 1, 3, 5, ..., then the rest: row i of the rotated
 * ones rotates with row i + n_rot / 2, as everywhere else. The source has been claimed. */
static enum sp_status add_paired(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const char *name, uint64_t head_dim, uint64_t still,
                                 uint64_t n_rot)
{
    uint64_t n_cols = spec->rank == 2 ? spec->shape[1] : 1, behind = still + n_rot;
    enum sp_status st = SP_OK;

    for (uint64_t row = 0; st == SP_OK && row < spec->shape[0]; row += head_dim) {
        const struct sp_row_span spans[] = {
            {.first_row = row, .step = 1, .n_rows = still, .n_cols = n_cols},
            {.first_row = row + still, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
            {.first_row = row + still + 1, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
            {.first_row = row + behind, .step = 1, .n_rows = head_dim - behind, .n_cols = n_cols},
        };
        for (size_t i = 0; st == SP_OK && i < 4; i++) {
            if (spans[i].n_rows) st = sp_tensor_match_add(m, spec, name, spans[i]);
        }
    }
    return st;
}

static enum sp_status add_pairs(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                const char *name, const struct sp_layer_config *l)
{
    /* A norm with weights for every head is a matrix there, of a row for each. */
    bool is_matrix = spec->role == SP_ROLE_NORM && m->config->qk_norm == SP_QK_OWN;
    uint64_t heads[2] = {spec->shape[0] / l->head_dim, l->head_dim};
    enum sp_status st;
    bool found;

    st = sp_tensor_match_claim(&found, m, name, is_matrix ? heads : spec->shape,
                               is_matrix ? 2 : spec->rank);
    if (st || !found) return st;
    return add_paired(m, spec, name, l->head_dim, 0,
                      l->rope < 0 ? 0 : m->config->ropes[l->rope].n_rot);
}

/* Heads whose last rows rotate, maybe in pairs of neighbours: of queries, or the latent with the
 * key beside it. */
static enum sp_status add_tails(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                const char *name, unsigned part)
{
    const struct sp_latent_config *c = &m->config->latent;
    uint64_t still = part ? c->kv_rank : c->nope_dim;
    enum sp_status st;
    bool found;

    if (!c->rows_paired) return sp_form_add_whole(m, spec, name);
    st = sp_tensor_match_claim(&found, m, name, spec->shape, spec->rank);
    if (st || !found) return st;
    return add_paired(m, spec, name, still + c->rope_dim, still, c->rope_dim);
}

/* Of each head's rows in kv_b_proj, those that make keys of a latent, as columns; or values. */
static enum sp_status add_latent(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const char *name, enum sp_response_format form, uint64_t n_heads)
{
    const struct sp_latent_config *c = &m->config->latent;
    uint64_t head = (uint64_t)c->nope_dim + c->value_dim;
    uint64_t shape[2] = {n_heads * head, c->kv_rank};
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, shape, 2)) || !found) return st;
    if (form == SP_FORM_LATENT_KEYS) {
        return sp_tensor_match_add(m, spec, name,
                                   (struct sp_row_span){.step = 1,
                                                        .n_rows = n_heads * c->kv_rank,
                                                        .n_cols = c->nope_dim,
                                                        .transposed = true,
                                                        .pitch = head});
    }
    for (uint64_t h = 0; st == SP_OK && h < n_heads; h++) {
        struct sp_row_span span = {.first_row = h * head + c->nope_dim,
                                   .step = 1,
                                   .n_rows = c->value_dim,
                                   .n_cols = c->kv_rank};
        st = sp_tensor_match_add(m, spec, name, span);
    }
    return st;
}

/* Rows that lie group by group, one group for each key head of a delta layer: of each group a run
 * of rows[i] after another. Runs first..last of all groups, run by run. */
static enum sp_status add_groups(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const char *name, const uint64_t *rows, size_t n_runs,
                                 size_t first, size_t last)
{
    uint64_t n_groups = m->config->delta.n_key_heads, group = 0, before = 0;
    uint64_t shape[2] = {0, spec->shape[1]};
    enum sp_status st;
    bool found;

    for (size_t i = 0; i < n_runs; i++)
        group += rows[i];
    shape[0] = n_groups * group;
    if ((st = sp_tensor_match_claim(&found, m, name, shape, 2)) || !found) return st;
    for (size_t i = 0; i <= last; before += rows[i++]) {
        for (uint64_t g = 0; i >= first && st == SP_OK && g < n_groups; g++) {
            struct sp_row_span span = {.first_row = g * group + before,
                                       .step = 1,
                                       .n_rows = rows[i],
                                       .n_cols = spec->shape[1]};
            st = sp_tensor_match_add(m, spec, name, span);
        }
    }
    return st;
}

static enum sp_status add_delta_rows(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const char *name, const struct sp_form_row *form)
{
    const struct sp_delta_config *c = &m->config->delta;
    uint64_t n = c->n_value_heads / c->n_key_heads, values = n * c->value_dim;
    const uint64_t qkvz[] = {c->key_dim, c->key_dim, values, values}, ba[] = {n, n};

    if (form->form == SP_FORM_BA) return add_groups(m, spec, name, ba, 2, form->part, form->part);
    return add_groups(m, spec, name, qkvz, 4, form->part ? 3 : 0, form->part ? 3 : 2);
}

static enum sp_status add_mamba_rows(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const char *name, unsigned part)
{
    const struct sp_mamba_config *c = &m->config->mamba;
    uint64_t values = (uint64_t)c->n_heads * c->head_dim;
    uint64_t keys = (uint64_t)c->n_groups * c->state_dim, dt = 2 * values + 2 * keys;
    const uint64_t first[] = {0, values, dt};

    return add_slice(m, spec, name, first[part], dt + c->n_heads);
}

enum sp_status sp_form_add(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                           const struct sp_form_row *form, const char *name,
                           const struct sp_layer_config *l)
{
    uint64_t q = (uint64_t)l->n_heads * l->head_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    uint64_t first[3] = {0, q, q + kv};

    switch (form->form) {
    case SP_FORM_WHOLE:
        return sp_form_add_whole(m, spec, name);
    case SP_FORM_QKV:
        return add_slice(m, spec, name, first[form->part], q + 2 * kv);
    case SP_FORM_GATE_UP:
        return add_slice(m, spec, name, form->part * spec->shape[0], 2 * spec->shape[0]);
    case SP_FORM_EACH:
        return add_each(m, spec, name);
    case SP_FORM_HALVES:
        return add_halves(m, spec, name, form->part);
    case SP_FORM_ALTERNATE:
    case SP_FORM_ROWS:
    case SP_FORM_BIASES:
        return add_alternate(m, spec, name, form->form, form->part);
    case SP_FORM_HEADS:
        return add_heads(m, spec, name, l, form->part);
    case SP_FORM_ROW:
        return add_row(m, spec, name);
    case SP_FORM_QKVZ:
    case SP_FORM_BA:
        return add_delta_rows(m, spec, name, form);
    case SP_FORM_ZXBCDT:
        return add_mamba_rows(m, spec, name, form->part);
    case SP_FORM_PAIRS:
        return add_pairs(m, spec, name, l);
    case SP_FORM_TAILS:
        return add_tails(m, spec, name, form->part);
    case SP_FORM_LATENT_KEYS:
    case SP_FORM_LATENT_VALUES:
        return add_latent(m, spec, name, form->form, l->n_heads);
    case SP_FORM_HEADWISE:
        return add_headwise(m, spec, name, l);
    case SP_FORM_BACKWARD:
        return add_backward(m, spec, name, l);
    case SP_FORM_SCALAR:
        return add_scalar(m, spec, name);
    case SP_FORM_TRANSPOSED:
        return add_transposed(m, spec, name);
    }
    return sp_fail(m->err, SP_E_BUG, "tensor \"%s\" has no form", spec->name);
}

enum sp_status sp_form_add_tap_norms(struct sp_tensor_match *m, struct sp_tensor_spec *spec)
{
    uint64_t width = m->config->draft.target_hidden;
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    for (unsigned i = 0; st == SP_OK && i < m->config->draft.n_taps; i++) {
        bool found;
        snprintf(name, sizeof name, "%sfc_norm.%u.weight", m->prefix, i);
        if ((st = sp_tensor_match_claim(&found, m, name, &width, 1)) || !found) continue;
        st = sp_tensor_match_add(m, spec, name,
                                 (struct sp_row_span){.step = 1, .n_rows = 1, .n_cols = width});
    }
    return st;
}
