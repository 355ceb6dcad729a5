/* The multi-head latent attention sublayer (MLA). */
#ifndef SP_RUNTIME_MODEL_LATENT_ATTENTION_H
#define SP_RUNTIME_MODEL_LATENT_ATTENTION_H

#include "runtime/backend/backend.h"

struct sp_workspace; /* runtime/model/workspace.h */

/* Buffers with a row per head and token are head-major: row (h * n + t) belongs to head h of row t
 * of a pass of n rows. */
struct sp_latent_attention_scratch {
    struct sp_acts q_latent; /* [max_rows][q_rank] latents of queries, input of q_b; if it is gated,
                               the same before their norm follow; or [max_rows][H] input of the
                               index (sp_index_config.normed_input) */
    struct sp_acts nope; /* [heads * max_rows][nope_dim] unrotated dims of queries, input of k_b */
    float *queries;      /* [heads * max_rows][ld_queries] queries in the latent's dims */
    struct sp_acts attended; /* [heads * max_rows][kv_rank] attention output, input of v_b */
    float *values;           /* [heads * max_rows][ld_values] */
    size_t ld_queries, ld_values;
    struct sp_row_group *groups; /* [heads] */
};

/* Allocates ws->latent; leaves it NULL if the model has no latent attention. */
SP_MUST_CHECK enum sp_status sp_latent_attention_open(struct sp_workspace *ws, struct sp_err *err);

/* Stores the latents of the n rows of ws->hidden; sets ws->y to the output of the sublayer. */
void sp_latent_attention_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
