/* The mixture-of-experts MLP. */
#ifndef SP_RUNTIME_MODEL_EXPERTS_H
#define SP_RUNTIME_MODEL_EXPERTS_H

#include "runtime/backend/backend.h"

struct sp_layer;     /* runtime/model/model.h */
struct sp_workspace; /* runtime/model/workspace.h */

/* Which rows of a pass are routed to which expert, and the rows of the experts that run at once. An
 * expert's slot is the place of one row in its input and output. */
struct sp_experts_scratch {
    unsigned max_used;      /* most experts of a row */
    float *scores;          /* [max_rows][ld_scores] router logits, then scores */
    float *selection;       /* [max_rows][ld_scores] scores to select by, if not `scores` */
    float *group_selection; /* [max_rows][n_groups] scores of groups of experts */
    size_t ld_scores;
    unsigned *chosen;            /* [max_rows][max_used] experts of a row, ascending */
    float *weights;              /* [max_rows][max_used] weights of the chosen experts */
    size_t *slots;               /* [max_rows][max_used] slots of the row in the chosen experts */
    size_t *n_rows;              /* [n_experts] rows of the pass that chose the expert */
    size_t n_slots;              /* at least max_rows */
    struct sp_acts latent;       /* [max_rows][n_latent], or empty */
    struct sp_acts input;        /* [n_slots] normed rows, grouped by expert */
    struct sp_acts ffn;          /* [n_slots] gated rows, input of down */
    float *up;                   /* [n_slots][ld_ffn] */
    float *y;                    /* [n_slots][ld_x] outputs of the experts */
    struct sp_row_group *groups; /* [n_slots] the experts that run and their rows */
    struct sp_acts router_input; /* [max_rows] input of the router, if not ws->hidden */
    float *shared;               /* [max_rows][ld_x] output of the shared expert */
    float *router_state; /* [max_rows][ld_x] r of struct sp_router_mlp, of the layer before */
    float *shared_gate;  /* [max_rows][ld_shared_gate] its weight before the sigmoid */
    size_t ld_shared_gate;
};

/* Allocates ws->experts; leaves it NULL if no layer has experts. */
SP_MUST_CHECK enum sp_status sp_experts_open(struct sp_workspace *ws, struct sp_err *err);

/* Sets ws->y to the output of the layer's experts and of its shared expert for the n rows of
 * ws->hidden. With config.expert_norms it also reads ws->x. */
void sp_experts_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);

#endif
