#include "runtime/model/workspace.h"

#include "runtime/backend/logits.h"

#include <string.h>

static const double forget = 1 - 1.0 / 24; /* weight that the counts of tokens keep */
static const double first_tokens = 16;     /* tokens assumed to be listed before the first one */
static const double most_new = 1.0 / 9;    /* part of the tokens; with more, the whole head pays */

enum { FREQUENT_PANELS = SP_SHORTLIST_FREQUENT / SP_PANEL_ROWS };

struct sp_vocab_shortlist {
    struct sp_matrix frequent;            /* the first rows of the head */
    struct sp_matrix recent;              /* copies of panels */
    const uint8_t *head;                  /* the head's panels */
    uint8_t *copies;                      /* [SP_SHORTLIST_RECENT][panel_size], in a sparse store */
    uint32_t panels[SP_SHORTLIST_RECENT]; /* of the head, in the order of the copies */
    size_t next;                          /* copy that makes way for the next panel */
    bool *listed;                         /* [panels of the head] */
    size_t n_panels, n_rows;              /* of the head */
    double n_tokens, n_new; /* tokens of the text, and those not listed before; both decay */
};

struct sp_vocab_shortlist *sp_vocab_shortlist_new(struct sp_arena *memory,
                                                  const struct sp_matrix *head)
{
    struct sp_vocab_shortlist *list;
    void *block = NULL;

    if (head->rows < 2 * SP_SHORTLIST_FREQUENT) return NULL;
    if ((list = sp_arena_new(memory, 1, sizeof *list)) == NULL) return NULL;
    list->frequent = list->recent = *head;
    list->frequent.rows = SP_SHORTLIST_FREQUENT;
    list->frequent.n_panels = FREQUENT_PANELS;
    list->recent.rows = list->recent.n_panels = 0;
    list->head = head->panels;
    list->n_panels = head->n_panels;
    list->n_rows = head->rows;
    list->n_tokens = first_tokens;
    list->listed = sp_arena_new(memory, head->n_panels, sizeof *list->listed);
    if (sp_new_sparse(&list->copies, &block, SP_SHORTLIST_RECENT, head->panel_size, NULL))
        block = NULL;
    sp_arena_keep(memory, block, SP_SHORTLIST_RECENT, head->panel_size);
    list->recent.panels = list->copies;
    for (size_t p = 0; list->listed && p < FREQUENT_PANELS; p++)
        list->listed[p] = true;
    return list;
}

static void add_panel(struct sp_vocab_shortlist *list, uint32_t panel)
{
    size_t size = list->recent.panel_size, at = list->next;

    if (at < list->recent.n_panels) {
        list->listed[list->panels[at]] = false;
    } else {
        list->recent.n_panels = at + 1;
        list->recent.rows = (at + 1) * SP_PANEL_ROWS;
    }
    memcpy(list->copies + at * size, list->head + panel * size, size);
    list->panels[at] = panel;
    list->listed[panel] = true;
    list->next = (at + 1) % SP_SHORTLIST_RECENT;
}

void sp_vocab_shortlist_add(struct sp_vocab_shortlist *list, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t panel = ids[i] / SP_PANEL_ROWS;
        bool is_new = panel < list->n_panels && !list->listed[panel];
        list->n_tokens = forget * list->n_tokens + 1;
        list->n_new = forget * list->n_new + is_new;
        if (is_new) add_panel(list, panel);
    }
}

size_t sp_vocab_shortlist_products(const struct sp_vocab_shortlist *list,
                                   struct sp_product products[2])
{
    if (list->n_new > most_new * list->n_tokens) return 0;
    products[1] = products[0];
    products[0].w = &list->frequent;
    products[1].w = &list->recent;
    products[1].y += SP_SHORTLIST_FREQUENT;
    return list->recent.rows ? 2 : 1;
}

void sp_vocab_shortlist_spread(const struct sp_vocab_shortlist *list, float *logits)
{
    float recent[SP_SHORTLIST_RECENT][SP_PANEL_ROWS];

    memcpy(recent, logits + SP_SHORTLIST_FREQUENT,
           list->recent.n_panels * SP_PANEL_ROWS * sizeof **recent);
    for (size_t i = SP_SHORTLIST_FREQUENT; i < list->n_rows; i++)
        logits[i] = SP_NEVER;
    for (size_t p = 0; p < list->recent.n_panels; p++) {
        size_t first = (size_t)list->panels[p] * SP_PANEL_ROWS, n = list->n_rows - first;
        memcpy(logits + first, recent[p], (n < SP_PANEL_ROWS ? n : SP_PANEL_ROWS) * sizeof *logits);
    }
}
