#include "runtime/speculate/drafter.h"

enum sp_status sp_draft_vocab_check(const struct sp_model *draft, size_t n_vocab,
                                    struct sp_err *err)
{
    if (draft->token_map == NULL) return SP_OK;
    return sp_config_check_token_map(draft->config.draft.kind, draft->token_map, draft->head.rows,
                                     n_vocab, err);
}

void sp_draft_vocab_init(struct sp_draft_vocab *map, struct sp_arena *memory,
                         const struct sp_model *draft, size_t n_vocab)
{
    map->n_vocab = n_vocab;
    if (draft->token_map == NULL) return;
    map->tokens = sp_arena_new(memory, draft->head.rows, sizeof *map->tokens);
    map->scores = sp_arena_rows(memory, 1, n_vocab);
    for (size_t i = 0; map->tokens && i < draft->head.rows; i++)
        map->tokens[i] = (uint32_t)((double)i + (double)draft->token_map[i]);
    for (size_t i = 0; map->scores && i < n_vocab; i++)
        map->scores[i] = SP_NEVER;
}

static const float *spread_row(void *source, size_t at)
{
    struct sp_draft_vocab *map = source;
    const float *row = sp_logits_row(&map->scored);

    (void)at;
    for (size_t i = 0; i < map->scored.n; i++)
        map->scores[map->tokens[i]] = row[i];
    return map->scores;
}

struct sp_logits sp_draft_vocab_spread(struct sp_draft_vocab *map, struct sp_logits logits)
{
    if (map->tokens == NULL) return logits;
    map->scored = logits;
    return (struct sp_logits){
        .n = map->n_vocab,
        .best = logits.best == SIZE_MAX ? SIZE_MAX : map->tokens[logits.best],
        .scored = &map->scored,
        .complete = spread_row,
        .source = map,
    };
}
