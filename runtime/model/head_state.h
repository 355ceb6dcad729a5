/* The state of a recurrent layer whose heads fade and take up one outer product a token:
 *
 *   S <- decay S + d k^T,  out = S q        S [value_dim][key_dim], for each head
 *
 * Gated delta-rule layers and Mamba-2 layers differ in what d is, and share all else here.
 *
 * The rows of a pass go through the recurrence one by one, whatever their number: chunked forms
 * round differently. Rows that may be rejected run on a copy of the head's state and leave a log
 * (k, d, decay): commit repeats the very same operations on the real state, so it equals, bit for
 * bit, that of a sequence in which the rejected rows never were.
 *
 * What that costs. Memory: a logged row takes 4 bytes for each key, value and head; with 16 key and
 * 48 value heads of 128 that is 32 KiB, where a snapshot would take 3 MiB. The first row of a round
 * is certain and takes none. Time: one copy of each head's state per pass, a few rows at a time,
 * which stay in the nearest cache while the pass steps them; and one multiply-add over the state
 * per accepted guess, which waits for the next pass to bring these rows there. */
#ifndef SP_RUNTIME_MODEL_HEAD_STATE_H
#define SP_RUNTIME_MODEL_HEAD_STATE_H

#include "format/base/err.h"
#include "format/base/pool.h"
#include "runtime/vector/vector.h"

/* Head h reads key h / (n_heads / n_keys). */
struct sp_head_sizes {
    size_t n_heads, n_keys, value_dim, key_dim;
    size_t max_logged;
};

/* Of one layer. It stands behind the last certain row. */
struct sp_head_state {
    struct sp_head_sizes sizes;
    float *state;     /* [n_heads][value_dim][key_dim], owned */
    float *keys;      /* [max_logged][n_keys * key_dim], owned */
    float *deltas;    /* [max_logged][n_heads * value_dim], owned */
    float *decays;    /* [max_logged][n_heads], owned */
    size_t n_pending; /* logged rows that became true; the state catches up when it is next used */
};

/* A few rows of a state for every thread; shared by layers of the same sizes. */
struct sp_head_workspace {
    float *states; /* [threads][rows][key_dim], owned */
    float *unused; /* [threads][rows]: d of certain rows, owned */
};

/* What the rows of a pass are to a state. All pointers are borrowed. */
struct sp_head_pass {
    const struct sp_vector *vector;
    const struct sp_head_workspace *workspace;
    struct sp_head_state *state;
    const float *q, *k; /* [n][ld], keys one after another in a row */
    const float *v;     /* [n][ld_v], heads one after another */
    size_t ld, ld_v;
    const float *decays;    /* [n][ld_heads] */
    const float *strengths; /* [n][ld_heads] beta of d = beta (v - decay S k); NULL: d = v */
    size_t ld_heads;
    float *out; /* [n][ld_out] */
    size_t ld_out;
    size_t n, n_committed;
};

SP_MUST_CHECK enum sp_status sp_head_workspace_init(struct sp_head_workspace *workspace,
                                                    size_t key_dim, size_t n_threads,
                                                    struct sp_err *err);
void sp_head_workspace_release(struct sp_head_workspace *workspace);

/* All zero: the beginning of a sequence. */
SP_MUST_CHECK enum sp_status
sp_head_state_init(struct sp_head_state *s, const struct sp_head_sizes *sizes, struct sp_err *err);
void sp_head_state_release(struct sp_head_state *s);
void sp_head_state_reset(struct sp_head_state *s);
size_t sp_head_state_size(const struct sp_head_sizes *sizes); /* bytes, the log's included */

/* Fills out. The first n_certain rows are true, the others are logged. */
void sp_head_state_run(const struct sp_head_pass *pass, struct sp_pool *pool);
/* n_more of the logged rows became true. */
void sp_head_state_commit(struct sp_head_state *s, size_t n_more);

/* The state catches up with the rows that became true. */
void sp_head_state_settle(struct sp_head_state *s, const struct sp_vector *vector,
                          struct sp_pool *pool);

/* Of the rows that are true. */
uint64_t sp_head_state_digest(struct sp_head_state *s, const struct sp_vector *vector,
                              struct sp_pool *pool);

#endif
