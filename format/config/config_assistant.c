/* Gemma 4 assistants: small decoders that attend to their target's keys and values and have none of
 * their own. This file reads their keys of config.json and checks a target against them. The config
 * holds an ordinary Gemma 4 text_config. Source: Gemma4AssistantConfig in transformers. */
#include "format/config/config_readers.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The keys of a head that scores only the tokens of the clusters nearest to the hidden state. */
static void read_clusters(struct sp_config *c, const struct sp_config_text *t)
{
    struct sp_draft_config *d = &c->draft;
    const unsigned n_vocab = c->n_vocab;
    bool ordered = false;

    sp_member_bool(t, t->root, "use_ordered_embeddings", &ordered);
    if (!ordered) return;
    d->n_clusters = 2048;
    d->n_clusters_used = 32;
    sp_member_unsigned(t, t->root, "num_centroids", 1, SP_CAP_VOCAB, &d->n_clusters);
    sp_member_unsigned(t, t->root, "centroid_intermediate_top_k", 1, SP_CAP_VOCAB,
                       &d->n_clusters_used);
    if (n_vocab % d->n_clusters != 0)
        SP_INVALID(t, "assistant: vocab %u not divisible by %u centroids", n_vocab, d->n_clusters);
    if (d->n_clusters_used > d->n_clusters)
        SP_INVALID(t, "assistant: centroid_intermediate_top_k %u of %u centroids",
                   d->n_clusters_used, d->n_clusters);
}

void sp_config_read_assistant(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_draft_config *d = &out->draft;

    d->target_hidden = 1536;
    sp_member_unsigned(t, t->root, "backbone_hidden_size", 1, SP_CAP_WIDTH, &d->target_hidden);
    out->logit_cap = 0; /* a cap does not change the order of the logits */
    read_clusters(out, t);
}

static const char *type_name(const struct sp_layer_config *l)
{
    return l->window ? "sliding" : "full";
}

/* The target must have keys of the type of layer i that fit its queries, and a window that is not
 * smaller. */
static enum sp_status check_layer(const struct sp_config *assistant, unsigned i,
                                  const struct sp_config *target, struct sp_err *err)
{
    const struct sp_layer_config *l = &assistant->layers[i], *keys;
    unsigned source = sp_config_last_keys(target, l->window != 0);

    if (source == target->n_layers)
        return sp_fail(err, SP_E_INPUT, "target has no %s_attention cache to share", type_name(l));
    keys = &target->layers[source];
    if (l->head_dim != keys->head_dim) {
        return sp_fail(err, SP_E_INPUT, "assistant layer %u (%s): head_dim %u, target K/V has %u",
                       i, type_name(l), l->head_dim, keys->head_dim);
    }
    if (l->n_heads % keys->n_kv_heads != 0) {
        return sp_fail(err, SP_E_INPUT, "assistant layer %u (%s): %u heads, target K/V has %u", i,
                       type_name(l), l->n_heads, keys->n_kv_heads);
    }
    if (l->window <= keys->window && l->window != 1) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "assistant layer %u (%s): window %u, target K/V has %u", i,
                   type_name(l), l->window, keys->window);
}

enum sp_status sp_config_check_assistant(const struct sp_config *assistant,
                                         const struct sp_config *target, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (strcmp(target->family, assistant->family) != 0) {
        return sp_fail(err, SP_E_INPUT, "gemma4 assistant requires a gemma4 target, got %s",
                       target->family);
    }
    if (assistant->draft.target_hidden != target->n_hidden) {
        return sp_fail(err, SP_E_INPUT,
                       "assistant backbone hidden size %u does not match target hidden size %u",
                       assistant->draft.target_hidden, target->n_hidden);
    }
    if (assistant->n_vocab != target->n_vocab) {
        return sp_fail(err, SP_E_INPUT,
                       "assistant vocab size %u does not match target vocab size %u",
                       assistant->n_vocab, target->n_vocab);
    }
    for (unsigned i = 0; st == SP_OK && i < assistant->n_layers; i++)
        st = check_layer(assistant, i, target, err);
    return st;
}

enum sp_status sp_config_check_token_order(const float *order, size_t n, struct sp_err *err)
{
    bool *seen = NULL;
    enum sp_status st;

    if ((st = sp_new(&seen, n, sizeof *seen, err))) return st;
    for (size_t i = 0; st == SP_OK && i < n; i++)
        if (order[i] >= 0 && order[i] < (float)n && !seen[(size_t)order[i]])
            seen[(size_t)order[i]] = true;
        else
            st = sp_fail(err, SP_E_INPUT, "assistant: token_ordering is not a permutation");
    free(seen);
    return st;
}
