/* The state of a recurrent layer whose heads decay and add one outer product per token:
 *
 *   S <- S diag(decay) + d k^T,  out = S q        S [value_dim][key_dim], for each head
 *
 * The decay is one number, or one for each channel of a key (Kimi delta attention), or, in Mamba-1,
 * e^(dt rate) for each element of S, with a dt for each of its rows. Otherwise the layers differ
 * only in the definition of d.
 *
 * The rows of a pass go through the recurrence one by one, whatever their number: chunked forms
 * round differently. Rows that may be rejected run on a copy of the head's state and leave a log
 * (k, d, decay). A commit repeats the same operations on the real state, which therefore equals,
 * bit for bit, the state of a sequence without the rejected rows.
 *
 * Costs. Memory: a logged row takes 4 bytes for each key, value and head; with 16 key and 48 value
 * heads of 128 that is 32 KiB, where a snapshot would take 3 MiB. The first row of a round is
 * always committed and is not logged. Time: one copy of each head's state per pass, a few rows at a
 * time, which stay in the nearest cache while the pass steps them; and one multiply-add over the
 * state per accepted draft token, which is deferred to the next pass. */
#ifndef SP_RUNTIME_MODEL_HEAD_STATE_H
#define SP_RUNTIME_MODEL_HEAD_STATE_H

#include "format/base/mem.h"
#include "format/base/pool.h"
#include "runtime/vector/vector.h"

#include <stdbool.h>

/* Head h reads key h / (n_heads / n_keys). */
struct sp_head_sizes {
    size_t n_heads, n_keys, value_dim, key_dim;
    bool by_channel; /* each channel of a key has its own decay */
    bool by_element; /* a decay is the dt of a row of S */
    size_t max_logged;
};

/* The state of one layer after its last committed row. */
struct sp_head_state {
    struct sp_head_sizes sizes;
    float *state;       /* [n_heads][value_dim][key_dim] */
    float *keys;        /* [max_logged][n_keys * key_dim] */
    float *deltas;      /* [max_logged][n_heads * value_dim] */
    float *decays;      /* [max_logged][n_heads * decays of a head] */
    const float *rates; /* [n_heads][value_dim][key_dim] by element; borrowed from the weights */
    size_t n_pending;   /* logged rows that were committed but not yet applied to the state */
};

/* A few rows of a state for every thread; shared by layers of the same sizes. */
struct sp_head_workspace {
    float *states; /* [threads][rows][key_dim] */
    float *unused; /* [threads][rows] d of committed rows */
};

/* The rows of a pass over one layer's state. All pointers are borrowed. */
struct sp_head_pass {
    const struct sp_vector *vector;
    const struct sp_head_workspace *workspace;
    struct sp_head_state *state;
    const float *q, *k; /* [n][ld], the keys of a row are contiguous */
    const float *v;     /* [n][ld_v], the heads of a row are contiguous */
    size_t ld, ld_v;
    const float *decays;    /* [n][ld_decays], those of a head are contiguous */
    const float *strengths; /* [n][ld_heads] beta of d = beta (v - S diag(decay) k); NULL: d = v */
    size_t ld_decays, ld_heads;
    float *out; /* [n][ld_out] */
    size_t ld_out;
    size_t n, n_committed;
};

/* Decays of all heads. */
size_t sp_head_n_decays(const struct sp_head_sizes *sizes);

/* The memory of both is that of an arena, which the caller checks. */
void sp_head_workspace_init(struct sp_head_workspace *workspace, struct sp_arena *arena,
                            size_t key_dim, size_t n_threads);

/* The state is zero, as at the beginning of a sequence. */
void sp_head_state_init(struct sp_head_state *s, struct sp_arena *arena,
                        const struct sp_head_sizes *sizes);

/* Sets pass->out. The first n_committed rows change the state, the others are logged. */
void sp_head_state_run(const struct sp_head_pass *pass, struct sp_pool *pool);
/* Commits n_more of the logged rows. The state changes when it is next used. */
void sp_head_state_commit(struct sp_head_state *s, size_t n_more);

/* Applies the committed rows to the state. */
void sp_head_state_flush(struct sp_head_state *s, const struct sp_vector *vector,
                         struct sp_pool *pool);

#endif
