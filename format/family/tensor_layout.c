#include "format/family/tensor_alias.h"

#include "format/family/family_parts.h"

#include <stdio.h>
#include <string.h>

void sp_layout_numbered_name(char *out, size_t size, const char *pattern, unsigned number)
{
    const char *place = strstr(pattern, "%u");

    snprintf(out, size, "%.*s%u%s", (int)(place - pattern), pattern, number, place + 2);
}

/* Takes n spans of a source in this shape, each `stride` rows behind the one before. */
static enum sp_status take_each(const struct sp_alias_source *s, const uint64_t *shape,
                                unsigned rank, struct sp_row_span span, uint64_t n, uint64_t stride)
{
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, s, shape, rank)) || !found) return st;
    for (uint64_t i = 0; st == SP_OK && i < n; i++, span.first_row += stride)
        st = sp_tensor_match_add(s, span);
    return st;
}

/* Columns of a matrix; a vector counts as rows of one element. */
static uint64_t columns(const struct sp_tensor_spec *spec)
{
    return spec->rank == 2 ? spec->shape[1] : 1;
}

enum sp_status sp_layout_whole(const struct sp_alias_source *s)
{
    const struct sp_tensor_spec *spec = s->spec;
    struct sp_row_span span = sp_rows(0, 1, spec->shape[spec->rank - 1]);

    for (unsigned i = 0; i + 1 < spec->rank; i++)
        span.n_rows *= spec->shape[i];
    return sp_tensor_match_take(s, spec->shape, spec->rank, span);
}

enum sp_status sp_layout_one_row(const struct sp_alias_source *s)
{
    uint64_t shape[2] = {1, s->spec->shape[0]};

    return sp_tensor_match_take(s, shape, 2, sp_rows(0, 1, shape[1]));
}

enum sp_status sp_layout_scalar(const struct sp_alias_source *s)
{
    return sp_tensor_match_take(s, s->spec->shape, 0, sp_rows(0, 1, 1));
}

/* Contiguous rows of a source that has n_all rows; elements, if it is a vector. */
static enum sp_status take_slice(const struct sp_alias_source *s, uint64_t first_row,
                                 uint64_t n_all)
{
    uint64_t n_cols = columns(s->spec), shape[2] = {n_all, n_cols};

    return sp_tensor_match_take(s, shape, s->spec->rank,
                                sp_rows(first_row, s->spec->shape[0], n_cols));
}

enum sp_status sp_layout_qkv(const struct sp_alias_source *s)
{
    const struct sp_layer_config *l = s->layer;
    uint64_t q = (uint64_t)l->n_heads * l->head_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    const uint64_t first[] = {0, q, q + kv};

    return take_slice(s, first[s->part], q + 2 * kv);
}

enum sp_status sp_layout_gate_qkv(const struct sp_alias_source *s)
{
    const struct sp_layer_config *l = s->layer;
    uint64_t q = (uint64_t)l->n_heads * l->head_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    const uint64_t first[] = {0, q, 2 * q, 2 * q + kv};

    return take_slice(s, first[s->part], 2 * (q + kv));
}

enum sp_status sp_layout_gate_up(const struct sp_alias_source *s)
{
    uint64_t n = s->spec->shape[0];

    return take_slice(s, s->part * n, 2 * n);
}

enum sp_status sp_layout_mamba_in_proj(const struct sp_alias_source *s)
{
    const struct sp_mamba_config *c = &s->match->config->mamba;
    uint64_t values = (uint64_t)c->n_heads * c->head_dim;
    uint64_t keys = (uint64_t)c->n_groups * c->state_dim, dt = 2 * values + 2 * keys;
    const uint64_t first[] = {0, values, dt};

    return take_slice(s, first[s->part], dt + c->n_heads);
}

enum sp_status sp_layout_query_gate(const struct sp_alias_source *s)
{
    const struct sp_tensor_spec *spec = s->spec;
    uint64_t n = s->layer->head_dim, shape[2] = {2 * spec->shape[0], spec->shape[1]};

    return take_each(s, shape, spec->rank, sp_rows(s->part * n, n, columns(spec)),
                     spec->shape[0] / n, 2 * n);
}

enum sp_status sp_layout_expert_gate_up(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape, n = own[1], shape[3] = {own[0], 2 * n, own[2]};

    return take_each(s, shape, 3, sp_rows(s->part * n, n, own[2]), own[0], 2 * n);
}

/* Takes the rows of n sources, whose names are numbered. */
static enum sp_status take_numbered(const struct sp_alias_source *s, uint64_t n,
                                    const uint64_t *shape, unsigned rank, struct sp_row_span span)
{
    struct sp_alias_source one = *s;
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    one.name = name;
    for (unsigned i = 0; st == SP_OK && i < n; i++) {
        if (s->match->findings.n >= SP_MAX_FINDINGS) break;
        sp_layout_numbered_name(name, sizeof name, s->name, i);
        st = sp_tensor_match_take(&one, shape, rank, span);
    }
    return st;
}

enum sp_status sp_layout_each_expert(const struct sp_alias_source *s)
{
    const uint64_t *shape = s->spec->shape;

    return take_numbered(s, shape[0], shape + 1, 2, sp_rows(0, shape[1], shape[2]));
}

enum sp_status sp_layout_each_head(const struct sp_alias_source *s)
{
    uint64_t width = s->layer->head_dim;

    return take_numbered(s, s->spec->shape[0] / width, &width, 1, sp_rows(0, 1, width));
}

enum sp_status sp_layout_transposed(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape, shape[3] = {own[0], own[2], own[1]};
    struct sp_row_span span = sp_rows(0, own[0] * own[1], own[2]);

    span.transposed = true;
    return sp_tensor_match_take(s, shape, 3, span);
}

enum sp_status sp_layout_transposed_gate_up(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape, n = own[1], shape[3] = {own[0], own[2], 2 * n};
    struct sp_row_span span = sp_rows(s->part * n, n, shape[1]);

    span.transposed = true;
    return take_each(s, shape, 3, span, shape[0], 2 * n);
}

/* Every other row of a matrix, or of all experts: one has an even number of rows, so a step over
 * the border between two experts stays in the same part. */
static struct sp_row_span every_other_row(const struct sp_alias_source *s, uint64_t n_rows,
                                          uint64_t n_cols)
{
    struct sp_row_span span = sp_rows(s->part, n_rows, n_cols);

    span.step = 2;
    return span;
}

enum sp_status sp_layout_alternating_rows(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape;
    const uint64_t matrix[2] = {2 * own[0], own[1]}, stack[3] = {own[0], 2 * own[1], own[2]};

    if (s->spec->rank == 2)
        return sp_tensor_match_take(s, matrix, 2, every_other_row(s, own[0], own[1]));
    return sp_tensor_match_take(s, stack, 3, every_other_row(s, own[0] * own[1], own[2]));
}

enum sp_status sp_layout_alternating_cols(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape, shape[3] = {own[0], own[2], 2 * own[1]};
    struct sp_row_span span = every_other_row(s, own[0] * own[1], own[2]);

    span.transposed = true;
    return sp_tensor_match_take(s, shape, 3, span);
}

enum sp_status sp_layout_alternating_biases(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape, shape[2] = {own[0], 2 * own[1]};

    return sp_tensor_match_take(s, shape, 2, every_other_row(s, own[0] * own[1], 1));
}

/* Rotating in the other direction is equal to exchanging the two rows of each pair. */
enum sp_status sp_layout_swapped_halves(const struct sp_alias_source *s)
{
    const struct sp_tensor_spec *spec = s->spec;
    uint64_t n_cols = columns(spec), head_dim = s->layer->head_dim, half = head_dim / 2;
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, s, spec->shape, spec->rank)) || !found) return st;
    for (uint64_t row = 0; st == SP_OK && row < spec->shape[0]; row += head_dim)
        if (!(st = sp_tensor_match_add(s, sp_rows(row + half, half, n_cols))))
            st = sp_tensor_match_add(s, sp_rows(row, half, n_cols));
    return st;
}

enum sp_status sp_layout_add_head(const struct sp_alias_source *s, uint64_t row, uint64_t head_dim,
                                  uint64_t n_before, uint64_t n_rot)
{
    uint64_t n_cols = columns(s->spec), n_first = n_before + n_rot;
    enum sp_status st = SP_OK;
    const struct sp_row_span spans[] = {
        {.first_row = row, .step = 1, .n_rows = n_before, .n_cols = n_cols},
        {.first_row = row + n_before, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
        {.first_row = row + n_before + 1, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
        {.first_row = row + n_first, .step = 1, .n_rows = head_dim - n_first, .n_cols = n_cols},
    };

    for (size_t i = 0; st == SP_OK && i < 4; i++)
        if (spans[i].n_rows) st = sp_tensor_match_add(s, spans[i]);
    return st;
}

/* The same for all heads of a source in this shape. */
static enum sp_status take_heads(const struct sp_alias_source *s, const uint64_t *shape,
                                 unsigned rank, uint64_t head_dim, uint64_t n_before,
                                 uint64_t n_rot)
{
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, s, shape, rank)) || !found) return st;
    for (uint64_t row = 0; st == SP_OK && row < s->spec->shape[0]; row += head_dim)
        st = sp_layout_add_head(s, row, head_dim, n_before, n_rot);
    return st;
}

enum sp_status sp_layout_interleaved_heads(const struct sp_alias_source *s)
{
    const struct sp_config *c = s->match->config;
    const struct sp_tensor_spec *spec = s->spec;
    const struct sp_layer_config *l = s->layer;
    /* A norm that weighs every head on its own is stored as a matrix with one row per head. */
    bool is_matrix = spec->role == SP_ROLE_NORM && c->qk_norm == SP_QK_OWN;
    uint64_t heads[2] = {spec->shape[0] / l->head_dim, l->head_dim};

    return take_heads(s, is_matrix ? heads : spec->shape, is_matrix ? 2 : spec->rank, l->head_dim,
                      0, l->rope < 0 ? 0 : c->ropes[l->rope].n_rot);
}

enum sp_status sp_layout_index_heads(const struct sp_alias_source *s)
{
    const struct sp_config *c = s->match->config;

    if (!c->index.rows_paired) return sp_layout_whole(s);
    return take_heads(s, s->spec->shape, s->spec->rank, c->index.head_dim, 0,
                      sp_config_latent(c, s->layer)->rope_dim);
}

/* Heads whose last rope_dim rows rotate, after n_before rows that do not. */
static enum sp_status take_tails(const struct sp_alias_source *s, uint64_t n_before)
{
    const struct sp_latent_config *c = sp_config_latent(s->match->config, s->layer);

    if (!c->rows_paired) return sp_layout_whole(s);
    return take_heads(s, s->spec->shape, s->spec->rank, n_before + c->rope_dim, n_before,
                      c->rope_dim);
}

enum sp_status sp_layout_query_tails(const struct sp_alias_source *s)
{
    return take_tails(s, sp_config_latent(s->match->config, s->layer)->nope_dim);
}

enum sp_status sp_layout_key_tail(const struct sp_alias_source *s)
{
    uint64_t rope = sp_config_latent(s->match->config, s->layer)->rope_dim;

    return take_tails(s, s->spec->shape[0] - rope);
}

enum sp_status sp_layout_latent_keys(const struct sp_alias_source *s)
{
    const struct sp_latent_config *c = sp_config_latent(s->match->config, s->layer);
    uint64_t n_heads = s->layer->n_heads, head = (uint64_t)c->nope_dim + c->value_dim;
    uint64_t shape[2] = {n_heads * head, c->kv_rank};
    struct sp_row_span span = sp_rows(0, n_heads * c->kv_rank, c->nope_dim);

    span.transposed = true;
    span.pitch = head;
    return sp_tensor_match_take(s, shape, 2, span);
}

enum sp_status sp_layout_latent_values(const struct sp_alias_source *s)
{
    const struct sp_latent_config *c = sp_config_latent(s->match->config, s->layer);
    uint64_t n_heads = s->layer->n_heads, head = (uint64_t)c->nope_dim + c->value_dim;
    uint64_t shape[2] = {n_heads * head, c->kv_rank};

    return take_each(s, shape, 2, sp_rows(c->nope_dim, c->value_dim, c->kv_rank), n_heads, head);
}

/* The source has n_groups groups of rows, and each group consists of n_runs runs of rows[i] rows.
 * Takes the runs first to last: run `first` of all groups, then the next run of all groups. */
static enum sp_status take_groups(const struct sp_alias_source *s, uint64_t n_groups,
                                  const uint64_t *rows, size_t n_runs, size_t first, size_t last)
{
    uint64_t group = 0, before = 0, shape[2] = {0, columns(s->spec)};
    enum sp_status st;
    bool found;

    for (size_t i = 0; i < n_runs; i++)
        group += rows[i];
    shape[0] = n_groups * group;
    if ((st = sp_tensor_match_claim(&found, s, shape, s->spec->rank)) || !found) return st;
    for (size_t i = 0; i <= last; before += rows[i++])
        for (uint64_t g = 0; i >= first && st == SP_OK && g < n_groups; g++)
            st = sp_tensor_match_add(s, sp_rows(g * group + before, rows[i], shape[1]));
    return st;
}

enum sp_status sp_layout_grouped_qkv(const struct sp_alias_source *s)
{
    const struct sp_layer_config *l = s->layer;
    const uint64_t d = l->head_dim, rows[] = {l->n_heads / l->n_kv_heads * d, d, d};

    return take_groups(s, l->n_kv_heads, rows, 3, s->part, s->part);
}

/* Runs first to last of in_proj_qkvz, whose groups are rows of q, k, v and z. */
static enum sp_status take_qkvz(const struct sp_alias_source *s, size_t first, size_t last)
{
    const struct sp_delta_config *c = &s->match->config->delta;
    uint64_t values = (uint64_t)(c->n_value_heads / c->n_key_heads) * c->value_dim;
    const uint64_t rows[] = {c->key_dim, c->key_dim, values, values};

    return take_groups(s, c->n_key_heads, rows, 4, first, last);
}

enum sp_status sp_layout_delta_qkv(const struct sp_alias_source *s)
{
    return take_qkvz(s, 0, 2);
}

enum sp_status sp_layout_delta_z(const struct sp_alias_source *s)
{
    return take_qkvz(s, 3, 3);
}

enum sp_status sp_layout_delta_heads(const struct sp_alias_source *s)
{
    const struct sp_delta_config *c = &s->match->config->delta;
    const uint64_t rows[] = {c->key_dim, c->key_dim, c->value_dim};

    return take_groups(s, c->n_key_heads, rows, 3, 0, 2);
}

enum sp_status sp_layout_delta_each(const struct sp_alias_source *s)
{
    const struct sp_tensor_match *m = s->match;
    const struct sp_tensor_spec *spec = s->spec;
    const struct sp_delta_config *c = &m->config->delta;
    uint64_t keys = (uint64_t)c->n_key_heads * c->key_dim;
    uint64_t values = (uint64_t)c->n_value_heads * c->value_dim;
    const uint64_t third = (2 * keys + values) / 3;
    uint64_t rows[] = {keys, keys, values};
    size_t first = sp_tensor_match_find(m, s->name);
    struct sp_alias_source one = *s;
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    /* transformers saves a convolution in three equal parts. */
    if (spec->rank == 3 && first < m->n && m->sorted[first]->shape[0] == third &&
        3 * third == spec->shape[0])
        rows[0] = rows[1] = rows[2] = third;
    snprintf(name, sizeof name, "%s", s->name);
    one.name = name;
    for (size_t i = 0; i < 3 && st == SP_OK; i++) {
        uint64_t shape[3] = {rows[i], spec->shape[1], spec->shape[2]};
        name[strstr(s->name, ".q_") + 1 - s->name] = "qkv"[i];
        st = sp_tensor_match_take(&one, shape, spec->rank,
                                  sp_rows(0, rows[i], shape[spec->rank - 1]));
    }
    return st;
}

enum sp_status sp_layout_delta_ba(const struct sp_alias_source *s)
{
    const struct sp_delta_config *c = &s->match->config->delta;
    uint64_t n = c->n_value_heads / c->n_key_heads;
    const uint64_t rows[] = {n, n};

    return take_groups(s, c->n_key_heads, rows, 2, s->part, s->part);
}
