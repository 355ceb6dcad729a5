/* The members of a config that depend on the tensors: whether there is an output matrix, whose
 * tables a draft uses, how many of the target's layers it reads, and whether the model is a
 * built-in prediction head. The importer and the runtime both call sp_config_settle, so a model
 * runs as it was packed. */
#include "format/family/config_settle.h"

#include "format/family/family_table.h"

/* The default of tap i of n: round(1 + i (N - 4) / (n - 1)) in integers, ties to even, where N is
 * n_layers. A single tap is the middle layer. */
static unsigned default_tap(unsigned i, unsigned n, unsigned n_layers)
{
    unsigned step = n - 1, whole, rest;

    if (n == 1) return n_layers / 2;
    whole = i * (n_layers - 4) / step;
    rest = i * (n_layers - 4) % step;
    if (2 * rest > step || (2 * rest == step && (1 + whole) % 2 != 0)) whole++;
    return 1 + whole;
}

/* *n = the number of taps that fc reads. It must be that of the config if the config lists taps. */
static enum sp_status count_taps(uint64_t *n, const struct sp_draft_config *d, uint64_t fc_cols,
                                 const char *what, struct sp_err *err)
{
    if (fc_cols == 0) return sp_fail(err, SP_E_INPUT, "missing tensor \"fc.weight\"");
    *n = fc_cols / d->target_hidden;
    if (fc_cols % d->target_hidden == 0 && (d->n_taps == 0 || *n == d->n_taps)) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s fc input %llu != %llu ids * target hidden %u", what,
                   (unsigned long long)fc_cols, (unsigned long long)(d->n_taps ? d->n_taps : *n),
                   d->target_hidden);
}

static enum sp_status settle_taps(struct sp_draft_config *d, uint64_t fc_cols, struct sp_err *err)
{
    uint64_t n = 0;
    enum sp_status st;

    if ((st = count_taps(&n, d, fc_cols, "dflash", err)) || d->n_taps) return st;
    if (d->n_target_layers == 0) {
        return sp_fail(err, SP_E_INPUT,
                       "dflash config has neither target_layer_ids nor num_target_layers");
    }
    if (n > SP_MAX_TAPS || d->n_target_layers < 4 || n > d->n_target_layers - 3) {
        return sp_fail(err, SP_E_INPUT,
                       "dflash fc reads %llu layers, which has no default for %u target layers",
                       (unsigned long long)n, d->n_target_layers);
    }
    d->n_taps = (unsigned)n;
    for (unsigned i = 0; i < d->n_taps; i++)
        d->taps[i] = default_tap(i, d->n_taps, d->n_target_layers);
    return SP_OK;
}

/* A vocabulary of its own (d2t) requires a head of its own. */
static enum sp_status settle_vocabulary(struct sp_config *config, const struct sp_tables *found,
                                        const char *what, struct sp_err *err)
{
    struct sp_draft_config *d = &config->draft;

    if (!found->d2t && d->n_head_rows && d->n_head_rows != config->n_vocab) {
        return sp_fail(err, SP_E_INPUT, "%s draft vocab %u != target vocab %u and no d2t", what,
                       d->n_head_rows, config->n_vocab);
    }
    if (found->d2t && !found->head)
        return sp_fail(err, SP_E_INPUT, "missing tensor \"lm_head.weight\", which goes with d2t");
    d->maps_tokens = found->d2t;
    d->owns_head = found->head;
    d->borrows_tables = !found->embedding;
    return SP_OK;
}

/* A draft uses the target's embedding and head, or has both, one table for both, or a head only. */
static enum sp_status settle_tables(struct sp_config *config, const struct sp_tables *found,
                                    struct sp_err *err)
{
    if (found->d2t && config->draft.kind == SP_DRAFT_DFLASH2)
        return sp_fail(err, SP_E_UNSUPPORTED, "a vocabulary of its own (d2t) is not supported");
    if (found->embedding && !found->head && !config->tied) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "dflash: embed_tokens.weight without lm_head.weight is not supported");
    }
    config->tied = !found->head;
    return settle_vocabulary(config, found, "dflash", err);
}

/* The layer's MLP becomes that of the first layer with experts, or that without. */
static void take_mlp(struct sp_layer_config *l, const struct sp_config *config, bool experts)
{
    l->n_experts = l->n_experts_used = l->n_shared_ffn = 0;
    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *other = &config->layers[i];
        if (experts != (other->n_experts != 0)) continue;
        l->n_ffn = other->n_ffn;
        l->n_experts = other->n_experts;
        l->n_experts_used = other->n_experts_used;
        if (experts) l->n_shared_ffn = other->n_shared_ffn;
        break;
    }
}

/* A built-in prediction head is one layer with the shape of its model's last attention layer with
 * or without a window. It uses the embedding and the output matrix of the model. If there are
 * several such layers, it is the first. */
static enum sp_status settle_mtp(struct sp_config *config, const struct sp_tables *found,
                                 struct sp_err *err)
{
    const struct sp_family *family = sp_family_by_type(config->family);
    unsigned end = config->n_layers; /* number of the last attention layer, plus 1 */
    struct sp_layer_config *l = &config->layers[0], kept;

    while (end > 0 && !(config->layers[end - 1].mixers & SP_MIXER_ATTENTION &&
                        (config->layers[end - 1].window != 0) == config->mtp_windowed))
        end--;
    if (config->mtp_tables || found->embedding || found->head)
        return sp_fail(err, SP_E_UNSUPPORTED, "mtp: dedicated embeddings not supported");
    if (config->n_mtp_layers > 1 && !family->prediction_layer) {
        return sp_fail(err, SP_E_UNSUPPORTED, "mtp: %u layers, only 1 supported",
                       config->n_mtp_layers);
    }
    if (end == 0) return sp_fail(err, SP_E_INPUT, "mtp: its model has no such attention layer");
    if (found->fc_cols != 2 * (uint64_t)config->n_hidden) {
        return sp_fail(err, SP_E_INPUT, "mtp: fc is [.., %llu], expected [%u,%llu]",
                       (unsigned long long)found->fc_cols, config->n_hidden,
                       2 * (unsigned long long)config->n_hidden);
    }
    config->draft.kind = SP_DRAFT_MTP;
    config->draft.borrows_tables = true;
    config->draft.n_target_layers = config->n_layers;
    config->draft.target_hidden = config->n_hidden;
    config->delta = (struct sp_delta_config){0};
    config->mamba = (struct sp_mamba_config){0};
    config->hyper = (struct sp_hyper_config){0};
    config->draft.unnormed = family->prediction_unnormed;
    config->draft.normed_output =
        family->prediction_normed || !(family->prediction_layer || family->prediction_path);
    kept = config->layers[end - 1];
    if (found->mtp_experts != (kept.n_experts != 0)) take_mlp(&kept, config, found->mtp_experts);
    *l = kept;
    l->kv_source = 0;
    l->shares_index = l->unindexed = false;
    if (config->mtp_limit != 0)
        l->limits[0] = l->limits[1] = config->mtp_limit > 0 ? config->mtp_limit : 0;
    config->n_layers = 1;
    if (!found->mtp_ffn) l->n_ffn = l->n_shared_ffn = l->n_experts = l->n_experts_used = 0;
    return SP_OK;
}

/* An assistant always has an embedding of its own, because its width is not that of its target. */
static enum sp_status settle_assistant(struct sp_config *config, const struct sp_tables *found,
                                       struct sp_err *err)
{
    if (!found->embedding)
        return sp_fail(err, SP_E_INPUT, "missing tensor \"embed_tokens.weight\"");
    config->tied = !found->head;
    config->layer_scalars = config->layer_scalars && found->layer_scalars;
    return SP_OK;
}

/* EAGLE-3 and P-EAGLE drafts always have a head of their own and may have an embedding. */
static enum sp_status settle_eagle3(struct sp_config *config, const struct sp_tables *found,
                                    struct sp_err *err)
{
    struct sp_draft_config *d = &config->draft;
    const char *what = sp_draft_name(d->kind);
    uint64_t n = 0;
    enum sp_status st;

    if ((st = count_taps(&n, d, found->fc_cols, what, err))) return st;
    if (n > SP_MAX_TAPS) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s reads %llu layers, at most %d", what,
                       (unsigned long long)n, SP_MAX_TAPS);
    }
    if ((st = settle_vocabulary(config, found, what, err))) return st;
    d->n_taps = (unsigned)n;
    d->owns_head = true;
    config->tied = false;
    return SP_OK;
}

/* mlx stores convolutions as [channels, kernel, 1], and the weights of shifted norms with the 1
 * added. */
static void settle_delta(struct sp_config *config, const struct sp_tables *found)
{
    if (config->delta.n_value_heads == 0 || found->conv_taps != 1) return;
    config->delta.converted = true;
    config->norm_shifted = false;
}

static bool has_mtp_head(const struct sp_config *config, const struct sp_tables *found)
{
    const struct sp_family *family = sp_family_by_type(config->family);

    return found->mtp && family && sp_family_predicts(family);
}

enum sp_status sp_config_settle(struct sp_config *config, const struct sp_tables *found,
                                struct sp_err *err)
{
    enum sp_status st;

    if (has_mtp_head(config, found)) return settle_mtp(config, found, err);
    if (config->draft.kind == SP_DRAFT_NONE) {
        if (found->fc_cols) {
            return sp_fail(err, SP_E_INPUT,
                           "tensor \"fc.weight\" belongs to a draft, but architecture is \"%s\"",
                           config->architecture);
        }
        if (!found->embedding && !found->head)
            return sp_fail(err, SP_E_INPUT, "missing tensor \"embed_tokens.weight\"");
        config->headless =
            (config->pooling.mode || config->bidirectional) && !config->tied && !found->head;
        config->tied = !(found->embedding && found->head);
        if (config->tied && config->n_inputs != config->n_vocab) {
            return sp_fail(err, SP_E_INPUT,
                           "missing tensor \"lm_head.weight\": %u of %u tokens have logits",
                           config->n_vocab, config->n_inputs);
        }
        config->padded_head =
            found->head_rows == config->n_inputs && sp_family_by_type(config->family)->padded_head;
        config->layer_scalars = config->layer_scalars && found->layer_scalars;
        settle_delta(config, found);
        return SP_OK;
    }
    if (config->draft.kind == SP_DRAFT_ASSISTANT) return settle_assistant(config, found, err);
    if (sp_draft_is_eagle(config->draft.kind)) return settle_eagle3(config, found, err);
    if ((st = settle_tables(config, found, err))) return st;
    return settle_taps(&config->draft, found->fc_cols, err);
}
