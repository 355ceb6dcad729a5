#include "runtime/model/head_state.h"

#include <assert.h>
#include <string.h>

enum { STATE_ROWS = 16 }; /* rows of a state that are stepped together */

void sp_head_workspace_init(struct sp_head_workspace *workspace, struct sp_arena *arena,
                            size_t key_dim, size_t n_threads)
{
    workspace->states = sp_arena_rows(arena, n_threads, STATE_ROWS * key_dim);
    workspace->unused = sp_arena_rows(arena, n_threads, STATE_ROWS);
}

static size_t n_values(const struct sp_head_sizes *sizes)
{
    return sizes->n_heads * sizes->value_dim;
}

static size_t n_keys(const struct sp_head_sizes *sizes)
{
    return sizes->n_keys * sizes->key_dim;
}

size_t sp_head_n_decays(const struct sp_head_sizes *sizes)
{
    if (sizes->by_element) return n_values(sizes);
    return sizes->n_heads * (sizes->by_channel ? sizes->key_dim : 1);
}

void sp_head_state_init(struct sp_head_state *s, struct sp_arena *arena,
                        const struct sp_head_sizes *sizes)
{
    *s = (struct sp_head_state){.sizes = *sizes};
    s->state = sp_arena_rows(arena, n_values(sizes), sizes->key_dim);
    s->keys = sp_arena_rows(arena, sizes->max_logged, n_keys(sizes));
    s->deltas = sp_arena_rows(arena, sizes->max_logged, n_values(sizes));
    s->decays = sp_arena_rows(arena, sizes->max_logged, sp_head_n_decays(sizes));
}

/* Offset of a head's key in a row of keys. */
static size_t key_of(const struct sp_head_sizes *sizes, size_t head)
{
    return head / (sizes->n_heads / sizes->n_keys) * sizes->key_dim;
}

/* The decay by which a step multiplies n_rows rows of head h's state from row j on. Decays by
 * channel or element are applied here, so that the step multiplies by 1, which changes nothing. */
static float decay_rows(const struct sp_head_state *s, const struct sp_vector *vector,
                        const float *decays, size_t h, size_t j, float *state, size_t n_rows)
{
    size_t dim = s->sizes.key_dim, row = h * s->sizes.value_dim + j;

    for (size_t i = 0; s->sizes.by_element && i < n_rows; i++)
        vector->exp_mul(state + i * dim, s->rates + (row + i) * dim, decays[row + i], dim);
    for (size_t i = 0; s->sizes.by_channel && i < n_rows; i++)
        vector->mul(state + i * dim, decays + h * dim, dim);
    return s->sizes.by_element || s->sizes.by_channel ? 1 : decays[h];
}

/* Applies the committed rows of the log to rows j..j+n_rows-1 of a head's state. */
static void replay_rows(struct sp_head_state *s, const struct sp_vector *vector, size_t h, size_t j,
                        size_t n_rows)
{
    const struct sp_head_sizes *sizes = &s->sizes;
    size_t key = key_of(sizes, h), value = h * sizes->value_dim + j;
    float *state = s->state + value * sizes->key_dim;

    for (size_t i = 0; i < s->n_pending; i++) {
        float decay =
            decay_rows(s, vector, s->decays + i * sp_head_n_decays(sizes), h, j, state, n_rows);
        vector->state_replay(state, s->deltas + i * n_values(sizes) + value,
                             s->keys + i * n_keys(sizes) + key, decay, sizes->key_dim, n_rows);
    }
}

/* Applies row t of the pass to rows of a head's state, the first of which is value row `value`. */
static void step_row(const struct sp_head_pass *p, float *state, float *delta, size_t t, size_t h,
                     size_t value, size_t n_rows)
{
    const struct sp_head_sizes *sizes = &p->state->sizes;
    size_t key = t * p->ld + key_of(sizes, h);
    const float *v = p->v + t * p->ld_v + value;
    float *out = p->out + t * p->ld_out + value;
    float decay = decay_rows(p->state, p->vector, p->decays + t * p->ld_decays, h,
                             value - h * sizes->value_dim, state, n_rows);

    if (p->strengths) {
        p->vector->delta_step(state, out, delta, p->q + key, p->k + key, v, decay,
                              p->strengths[t * p->ld_heads + h], sizes->key_dim, n_rows);
        return;
    }
    memcpy(delta, v, n_rows * sizeof *delta);
    p->vector->state_step(state, out, delta, p->q + key, p->k + key, decay, sizes->key_dim, n_rows);
}

/* Applies all rows of the pass to rows j..j+n_rows-1 of a head's state: committed rows to the state
 * itself, the others to a copy. */
static void step_state_rows(const struct sp_head_pass *p, size_t h, size_t j, size_t n_rows,
                            unsigned worker)
{
    struct sp_head_state *s = p->state;
    size_t dim = s->sizes.key_dim, value = h * s->sizes.value_dim + j;
    float *state = s->state + value * dim, *copy = p->workspace->states + worker * STATE_ROWS * dim;

    replay_rows(s, p->vector, h, j, n_rows);
    for (size_t t = 0; t < p->n; t++) {
        float *delta = p->workspace->unused + worker * STATE_ROWS;
        if (t == p->n_committed) {
            memcpy(copy, state, n_rows * dim * sizeof *copy);
            state = copy;
        }
        if (t >= p->n_committed)
            delta = s->deltas + (t - p->n_committed) * n_values(&s->sizes) + value;
        step_row(p, state, delta, t, h, value, n_rows);
    }
}

/* Processes one head. The rows of its state are independent: a few at a time go through the whole
 * pass and stay in the nearest cache. */
static void step_head(void *context, size_t h, unsigned worker)
{
    const struct sp_head_pass *p = context;
    size_t dim = p->state->sizes.value_dim;

    for (size_t j = 0; j < dim; j += STATE_ROWS)
        step_state_rows(p, h, j, dim - j < STATE_ROWS ? dim - j : STATE_ROWS, worker);
}

void sp_head_state_run(const struct sp_head_pass *pass, struct sp_pool *pool)
{
    struct sp_head_pass p = *pass;
    struct sp_head_state *s = p.state;
    size_t keys = n_keys(&s->sizes), heads = s->sizes.n_heads;
    size_t decays = sp_head_n_decays(&s->sizes);

    assert(p.n_committed <= p.n && p.n - p.n_committed <= s->sizes.max_logged);
    sp_pool_run(pool, heads, step_head, &p);
    s->n_pending = 0;
    for (size_t t = p.n_committed; t < p.n; t++) {
        size_t i = t - p.n_committed;
        memcpy(s->keys + i * keys, p.k + t * p.ld, keys * sizeof *s->keys);
        memcpy(s->decays + i * decays, p.decays + t * p.ld_decays, decays * sizeof *s->decays);
    }
}

void sp_head_state_commit(struct sp_head_state *s, size_t n_more)
{
    assert(s->n_pending == 0 && n_more <= s->sizes.max_logged);
    s->n_pending = n_more;
}

struct replay_job {
    struct sp_head_state *state;
    const struct sp_vector *vector;
};

static void replay_head(void *context, size_t h, unsigned worker)
{
    const struct replay_job *job = context;

    (void)worker;
    replay_rows(job->state, job->vector, h, 0, job->state->sizes.value_dim);
}

void sp_head_state_flush(struct sp_head_state *s, const struct sp_vector *vector,
                         struct sp_pool *pool)
{
    struct replay_job job = {s, vector};

    sp_pool_run(pool, s->sizes.n_heads, replay_head, &job);
    s->n_pending = 0;
}
