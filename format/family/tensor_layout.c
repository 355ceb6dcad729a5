#include "format/family/tensor_alias.h"

#include "format/family/family_parts.h"

#include <stdio.h>
#include <string.h>

void sp_layout_numbered_name(char *out, size_t size, const char *pattern, unsigned number)
{
    const char *place = strstr(pattern, "%u");

    snprintf(out, size, "%.*s%u%s", (int)(place - pattern), pattern, number, place + 2);
}

/* Claims one source in this shape and takes one span of its rows. */
static enum sp_status add_span(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                               const char *name, const uint64_t *shape, unsigned rank,
                               struct sp_row_span span)
{
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, shape, rank)) || !found) return st;
    return sp_tensor_match_add(m, spec, name, span);
}

/* Columns of a matrix; a vector counts as rows of one element. */
static uint64_t columns(const struct sp_tensor_spec *spec)
{
    return spec->rank == 2 ? spec->shape[1] : 1;
}

enum sp_status sp_layout_whole(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                               const struct sp_alias_source *source)
{
    struct sp_row_span span = {.step = 1, .n_rows = 1, .n_cols = spec->shape[spec->rank - 1]};

    for (unsigned i = 0; i + 1 < spec->rank; i++)
        span.n_rows *= spec->shape[i];
    return add_span(m, spec, source->name, spec->shape, spec->rank, span);
}

enum sp_status sp_layout_one_row(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const struct sp_alias_source *source)
{
    uint64_t shape[2] = {1, spec->shape[0]};

    return add_span(m, spec, source->name, shape, 2,
                    (struct sp_row_span){.step = 1, .n_rows = 1, .n_cols = spec->shape[0]});
}

enum sp_status sp_layout_scalar(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                const struct sp_alias_source *source)
{
    return add_span(m, spec, source->name, spec->shape, 0,
                    (struct sp_row_span){.step = 1, .n_rows = 1, .n_cols = 1});
}

/* Contiguous rows of a source that has n_all rows; elements, if it is a vector. */
static enum sp_status add_slice(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                const char *name, uint64_t first_row, uint64_t n_all)
{
    uint64_t n_cols = columns(spec), shape[2] = {n_all, n_cols};
    struct sp_row_span span = {
        .first_row = first_row, .step = 1, .n_rows = spec->shape[0], .n_cols = n_cols};

    return add_span(m, spec, name, shape, spec->rank, span);
}

enum sp_status sp_layout_qkv(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                             const struct sp_alias_source *source)
{
    const struct sp_layer_config *l = source->layer;
    uint64_t q = (uint64_t)l->n_heads * l->head_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    const uint64_t first[] = {0, q, q + kv};

    return add_slice(m, spec, source->name, first[source->part], q + 2 * kv);
}

enum sp_status sp_layout_gate_qkv(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                  const struct sp_alias_source *source)
{
    const struct sp_layer_config *l = source->layer;
    uint64_t q = (uint64_t)l->n_heads * l->head_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    const uint64_t first[] = {0, q, 2 * q, 2 * q + kv};

    return add_slice(m, spec, source->name, first[source->part], 2 * (q + kv));
}

enum sp_status sp_layout_gate_up(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const struct sp_alias_source *source)
{
    uint64_t n = spec->shape[0];

    return add_slice(m, spec, source->name, source->part * n, 2 * n);
}

enum sp_status sp_layout_mamba_in_proj(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                       const struct sp_alias_source *source)
{
    const struct sp_mamba_config *c = &m->config->mamba;
    uint64_t values = (uint64_t)c->n_heads * c->head_dim;
    uint64_t keys = (uint64_t)c->n_groups * c->state_dim, dt = 2 * values + 2 * keys;
    const uint64_t first[] = {0, values, dt};

    return add_slice(m, spec, source->name, first[source->part], dt + c->n_heads);
}

/* Takes runs of n rows from a source, elements if it is a vector: of each pair of runs the one with
 * the number `part`. */
static enum sp_status add_runs(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                               const char *name, const uint64_t *shape, unsigned rank, uint64_t n,
                               unsigned part)
{
    uint64_t n_cols = rank > 1 ? shape[rank - 1] : 1;
    uint64_t n_rows = shape[0] * (rank == 3 ? shape[1] : 1);
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

enum sp_status sp_layout_query_gate(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                    const struct sp_alias_source *source)
{
    uint64_t shape[2] = {2 * spec->shape[0], spec->shape[1]};

    return add_runs(m, spec, source->name, shape, spec->rank, source->layer->head_dim,
                    source->part);
}

enum sp_status sp_layout_expert_gate_up(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                        const struct sp_alias_source *source)
{
    uint64_t n = spec->shape[1], shape[3] = {spec->shape[0], 2 * n, spec->shape[2]};

    return add_runs(m, spec, source->name, shape, 3, n, source->part);
}

enum sp_status sp_layout_each_expert(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const struct sp_alias_source *source)
{
    struct sp_row_span span = {.step = 1, .n_rows = spec->shape[1], .n_cols = spec->shape[2]};
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    for (unsigned e = 0; st == SP_OK && e < spec->shape[0]; e++) {
        if (m->findings.n >= SP_MAX_FINDINGS) break;
        sp_layout_numbered_name(name, sizeof name, source->name, e);
        st = add_span(m, spec, name, spec->shape + 1, 2, span);
    }
    return st;
}

enum sp_status sp_layout_each_head(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                   const struct sp_alias_source *source)
{
    uint64_t width = source->layer->head_dim;
    struct sp_row_span span = {.step = 1, .n_rows = 1, .n_cols = width};
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    for (unsigned h = 0; st == SP_OK && h < spec->shape[0] / width; h++) {
        sp_layout_numbered_name(name, sizeof name, source->name, h);
        st = add_span(m, spec, name, &width, 1, span);
    }
    return st;
}

enum sp_status sp_layout_transposed(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                    const struct sp_alias_source *source)
{
    uint64_t shape[3] = {spec->shape[0], spec->shape[2], spec->shape[1]};
    struct sp_row_span span = {.step = 1,
                               .n_rows = spec->shape[0] * spec->shape[1],
                               .n_cols = spec->shape[2],
                               .transposed = true};

    return add_span(m, spec, source->name, shape, 3, span);
}

enum sp_status sp_layout_transposed_gate_up(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                            const struct sp_alias_source *source)
{
    uint64_t n = spec->shape[1], shape[3] = {spec->shape[0], spec->shape[2], 2 * n};
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, source->name, shape, 3)) || !found) return st;
    for (uint64_t e = 0; st == SP_OK && e < shape[0]; e++) {
        struct sp_row_span span = {.first_row = (2 * e + source->part) * n,
                                   .step = 1,
                                   .n_rows = n,
                                   .n_cols = shape[1],
                                   .transposed = true};
        st = sp_tensor_match_add(m, spec, source->name, span);
    }
    return st;
}

/* Every other row of all experts. An expert has an even number of rows, so a step over the border
 * between two experts stays in the same part. */
static struct sp_row_span every_other_row(const struct sp_tensor_spec *spec, uint64_t n_cols,
                                          unsigned part)
{
    return (struct sp_row_span){
        .first_row = part, .step = 2, .n_rows = spec->shape[0] * spec->shape[1], .n_cols = n_cols};
}

enum sp_status sp_layout_alternating_rows(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                          const struct sp_alias_source *source)
{
    uint64_t cols = spec->shape[2], shape[3] = {spec->shape[0], 2 * spec->shape[1], cols};

    return add_span(m, spec, source->name, shape, 3, every_other_row(spec, cols, source->part));
}

enum sp_status sp_layout_alternating_cols(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                          const struct sp_alias_source *source)
{
    uint64_t cols = spec->shape[2], shape[3] = {spec->shape[0], cols, 2 * spec->shape[1]};
    struct sp_row_span span = every_other_row(spec, cols, source->part);

    span.transposed = true;
    return add_span(m, spec, source->name, shape, 3, span);
}

enum sp_status sp_layout_alternating_biases(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                            const struct sp_alias_source *source)
{
    uint64_t shape[2] = {spec->shape[0], 2 * spec->shape[1]};

    return add_span(m, spec, source->name, shape, 2, every_other_row(spec, 1, source->part));
}

/* Rotating in the other direction is equal to exchanging the two rows of each pair. */
enum sp_status sp_layout_swapped_halves(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                        const struct sp_alias_source *source)
{
    uint64_t n_cols = columns(spec), head_dim = source->layer->head_dim, half = head_dim / 2;
    const char *name = source->name;
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, name, spec->shape, spec->rank)) || !found) return st;
    for (uint64_t row = 0; st == SP_OK && row < spec->shape[0]; row += head_dim) {
        struct sp_row_span span = {
            .first_row = row + half, .step = 1, .n_rows = half, .n_cols = n_cols};
        if ((st = sp_tensor_match_add(m, spec, name, span))) break;
        span.first_row = row;
        st = sp_tensor_match_add(m, spec, name, span);
    }
    return st;
}

enum sp_status sp_layout_add_head(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                  const char *name, uint64_t row, uint64_t head_dim,
                                  uint64_t n_before, uint64_t n_rot)
{
    uint64_t n_cols = columns(spec), n_first = n_before + n_rot;
    enum sp_status st = SP_OK;
    const struct sp_row_span spans[] = {
        {.first_row = row, .step = 1, .n_rows = n_before, .n_cols = n_cols},
        {.first_row = row + n_before, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
        {.first_row = row + n_before + 1, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
        {.first_row = row + n_first, .step = 1, .n_rows = head_dim - n_first, .n_cols = n_cols},
    };

    for (size_t i = 0; st == SP_OK && i < 4; i++)
        if (spans[i].n_rows) st = sp_tensor_match_add(m, spec, name, spans[i]);
    return st;
}

/* The same for all heads of the tensor. */
static enum sp_status add_interleaved(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                      const char *name, uint64_t head_dim, uint64_t n_before,
                                      uint64_t n_rot)
{
    enum sp_status st = SP_OK;

    for (uint64_t row = 0; st == SP_OK && row < spec->shape[0]; row += head_dim)
        st = sp_layout_add_head(m, spec, name, row, head_dim, n_before, n_rot);
    return st;
}

enum sp_status sp_layout_interleaved_heads(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                           const struct sp_alias_source *source)
{
    const struct sp_layer_config *l = source->layer;
    /* A norm that weighs every head on its own is stored as a matrix with one row per head. */
    bool is_matrix = spec->role == SP_ROLE_NORM && m->config->qk_norm == SP_QK_OWN;
    uint64_t heads[2] = {spec->shape[0] / l->head_dim, l->head_dim};
    bool found;
    enum sp_status st = sp_tensor_match_claim(
        &found, m, source->name, is_matrix ? heads : spec->shape, is_matrix ? 2 : spec->rank);

    if (st || !found) return st;
    return add_interleaved(m, spec, source->name, l->head_dim, 0,
                           l->rope < 0 ? 0 : m->config->ropes[l->rope].n_rot);
}

enum sp_status sp_layout_index_heads(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const struct sp_alias_source *source)
{
    const struct sp_config *c = m->config;
    enum sp_status st;
    bool found;

    if (!c->index.rows_paired) return sp_layout_whole(m, spec, source);
    st = sp_tensor_match_claim(&found, m, source->name, spec->shape, spec->rank);
    if (st || !found) return st;
    return add_interleaved(m, spec, source->name, c->index.head_dim, 0, c->latent.rope_dim);
}

/* Heads whose last rope_dim rows rotate, after n_before rows that do not. */
static enum sp_status add_tails(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                const struct sp_alias_source *source, uint64_t n_before)
{
    const struct sp_latent_config *c = &m->config->latent;
    enum sp_status st;
    bool found;

    if (!c->rows_paired) return sp_layout_whole(m, spec, source);
    st = sp_tensor_match_claim(&found, m, source->name, spec->shape, spec->rank);
    if (st || !found) return st;
    return add_interleaved(m, spec, source->name, n_before + c->rope_dim, n_before, c->rope_dim);
}

enum sp_status sp_layout_query_tails(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const struct sp_alias_source *source)
{
    return add_tails(m, spec, source, m->config->latent.nope_dim);
}

enum sp_status sp_layout_key_tail(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                  const struct sp_alias_source *source)
{
    return add_tails(m, spec, source, m->config->latent.kv_rank);
}

enum sp_status sp_layout_latent_keys(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const struct sp_alias_source *source)
{
    const struct sp_latent_config *c = &m->config->latent;
    uint64_t n_heads = source->layer->n_heads, head = (uint64_t)c->nope_dim + c->value_dim;
    uint64_t shape[2] = {n_heads * head, c->kv_rank};
    struct sp_row_span span = {.step = 1,
                               .n_rows = n_heads * c->kv_rank,
                               .n_cols = c->nope_dim,
                               .transposed = true,
                               .pitch = head};

    return add_span(m, spec, source->name, shape, 2, span);
}

enum sp_status sp_layout_latent_values(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                       const struct sp_alias_source *source)
{
    const struct sp_latent_config *c = &m->config->latent;
    uint64_t n_heads = source->layer->n_heads, head = (uint64_t)c->nope_dim + c->value_dim;
    uint64_t shape[2] = {n_heads * head, c->kv_rank};
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, m, source->name, shape, 2)) || !found) return st;
    for (uint64_t h = 0; st == SP_OK && h < n_heads; h++) {
        struct sp_row_span span = {.first_row = h * head + c->nope_dim,
                                   .step = 1,
                                   .n_rows = c->value_dim,
                                   .n_cols = c->kv_rank};
        st = sp_tensor_match_add(m, spec, source->name, span);
    }
    return st;
}

/* The source has n_groups groups of rows, and each group consists of n_runs runs of rows[i] rows.
 * Takes the runs first to last: run `first` of all groups, then the next run of all groups. */
static enum sp_status add_groups(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const char *name, uint64_t n_groups, const uint64_t *rows,
                                 size_t n_runs, size_t first, size_t last)
{
    uint64_t group = 0, before = 0;
    uint64_t shape[2] = {0, columns(spec)};
    enum sp_status st;
    bool found;

    for (size_t i = 0; i < n_runs; i++)
        group += rows[i];
    shape[0] = n_groups * group;
    if ((st = sp_tensor_match_claim(&found, m, name, shape, spec->rank)) || !found) return st;
    for (size_t i = 0; i <= last; before += rows[i++]) {
        for (uint64_t g = 0; i >= first && st == SP_OK && g < n_groups; g++) {
            struct sp_row_span span = {
                .first_row = g * group + before, .step = 1, .n_rows = rows[i], .n_cols = shape[1]};
            st = sp_tensor_match_add(m, spec, name, span);
        }
    }
    return st;
}

enum sp_status sp_layout_grouped_qkv(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const struct sp_alias_source *source)
{
    const struct sp_layer_config *l = source->layer;
    const uint64_t d = l->head_dim, rows[] = {l->n_heads / l->n_kv_heads * d, d, d};

    return add_groups(m, spec, source->name, l->n_kv_heads, rows, 3, source->part, source->part);
}

/* Runs first to last of in_proj_qkvz, whose groups are rows of q, k, v and z. */
static enum sp_status add_qkvz(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                               const char *name, size_t first, size_t last)
{
    const struct sp_delta_config *c = &m->config->delta;
    uint64_t values = (uint64_t)(c->n_value_heads / c->n_key_heads) * c->value_dim;
    const uint64_t rows[] = {c->key_dim, c->key_dim, values, values};

    return add_groups(m, spec, name, c->n_key_heads, rows, 4, first, last);
}

enum sp_status sp_layout_delta_qkv(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                   const struct sp_alias_source *source)
{
    return add_qkvz(m, spec, source->name, 0, 2);
}

enum sp_status sp_layout_delta_heads(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                     const struct sp_alias_source *source)
{
    const struct sp_delta_config *c = &m->config->delta;
    const uint64_t rows[] = {c->key_dim, c->key_dim, c->value_dim};

    return add_groups(m, spec, source->name, c->n_key_heads, rows, 3, 0, 2);
}

enum sp_status sp_layout_delta_each(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                    const struct sp_alias_source *source)
{
    const struct sp_delta_config *c = &m->config->delta;
    uint64_t keys = (uint64_t)c->n_key_heads * c->key_dim;
    uint64_t values = (uint64_t)c->n_value_heads * c->value_dim;
    const uint64_t third = (2 * keys + values) / 3;
    uint64_t rows[] = {keys, keys, values};
    size_t first = sp_tensor_match_find(m, source->name);
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    /* transformers saves a convolution in three equal parts. */
    if (spec->rank == 3 && first < m->n && m->sorted[first]->shape[0] == third &&
        3 * third == spec->shape[0])
        rows[0] = rows[1] = rows[2] = third;
    snprintf(name, sizeof name, "%s", source->name);
    for (size_t i = 0; i < 3 && st == SP_OK; i++) {
        uint64_t shape[3] = {rows[i], spec->shape[1], spec->shape[2]};
        struct sp_row_span span = {.step = 1, .n_rows = rows[i], .n_cols = shape[spec->rank - 1]};
        name[strstr(source->name, ".q_") + 1 - source->name] = "qkv"[i];
        st = add_span(m, spec, name, shape, spec->rank, span);
    }
    return st;
}

enum sp_status sp_layout_delta_z(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                 const struct sp_alias_source *source)
{
    return add_qkvz(m, spec, source->name, 3, 3);
}

enum sp_status sp_layout_delta_ba(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                  const struct sp_alias_source *source)
{
    const struct sp_delta_config *c = &m->config->delta;
    uint64_t n = c->n_value_heads / c->n_key_heads;
    const uint64_t rows[] = {n, n};

    return add_groups(m, spec, source->name, c->n_key_heads, rows, 2, source->part, source->part);
}
