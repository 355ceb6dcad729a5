/* What ollama cuts off a Go template for the last turn. */
#include "runtime/template/go/gotemplate_exec.h"

/* Marks the arguments of a pipeline after the first .Response. The whole pipeline is marked if one
 * of its commands loses all arguments. */
static void cut_pipe(struct sp_go_node *pipe, bool *cut)
{
    for (struct sp_go_node *command = pipe->list; command != NULL; command = command->next) {
        for (struct sp_go_node *arg = command->list; arg != NULL; arg = arg->next) {
            arg->cut = *cut;
            if (*cut) continue;
            for (size_t i = 0; arg->kind == SP_N_FIELD && i < arg->names->n; i++)
                *cut = *cut || sp_text_is(arg->names->at[i], "Response");
            if (arg->kind == SP_N_PIPE) cut_pipe(arg, cut);
        }
        if (command->list->cut) pipe->cut = true;
    }
}

/* Marks the nodes that follow the first .Response in document order, as ollama does; conditions
 * are not searched. The parser limits nesting; a chain of else-if is walked in a loop. */
static void cut_list(struct sp_go_node *node, bool *cut)
{
    for (; node != NULL; node = node->next) {
        node->cut = *cut;
        if (*cut) continue;
        if (node->kind == SP_N_ACTION) {
            cut_pipe(node->a, cut);
            node->cut = node->a->cut;
        }
        if (node->kind != SP_N_IF && node->kind != SP_N_WITH && node->kind != SP_N_RANGE) continue;
        for (struct sp_go_node *n = node; n != NULL; n = n->other) {
            n->cut = n != node && *cut;
            cut_list(n->body, cut);
            if (n->other == NULL || n->other->chained) continue;
            cut_list(n->other, cut);
            break;
        }
    }
}

void sp_gotemplate_cut(struct sp_go_node *body)
{
    bool cut = false;

    cut_list(body, &cut);
}
