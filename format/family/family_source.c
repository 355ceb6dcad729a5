/* Matches a checkpoint with a config: finds the prefix and the tables, places every canonical
 * tensor (family_place.c), and refuses a checkpoint with other tensors.
 *
 * Every tensor must have the shape that follows from the config. A tensor of the text model that is
 * not used is an error, because it means that the config does not describe the model. */
#include "format/family/family.h"

#include "format/base/affix.h"
#include "format/family/config_settle.h"
#include "format/family/family_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Refuses tensors of another kind of model than the config describes. */
static enum sp_status refuse_evidence(const struct sp_tensor_match *m)
{
    static const struct {
        const char *begin; /* of the name */
        const char *what;
        unsigned kinds; /* bits 1 << sp_draft_kind of the drafts that have such tensors */
    } evidence[] = {
        {SP_MTP_PREFIX, "a multi-token prediction head", 0},
        {"midlayer.", "an EAGLE-3 draft", 1u << SP_DRAFT_EAGLE3},
        {"mask_hidden", "a P-EAGLE draft", 1u << SP_DRAFT_PEAGLE},
        {"d2t", "an EAGLE-3, P-EAGLE, DFlash or DSpark draft",
         1u << SP_DRAFT_EAGLE3 | 1u << SP_DRAFT_PEAGLE | 1u << SP_DRAFT_DFLASH |
             1u << SP_DRAFT_DSPARK},
        {"markov_head.", "a DSpark draft", 1u << SP_DRAFT_DSPARK},
        {"candidate_selector.", "a DFlash2 draft", 1u << SP_DRAFT_DFLASH2},
        {"aux_hidden_norms.", "a Laguna draft", 1u << SP_DRAFT_DFLASH},
        {"pre_projection.", "a Gemma 4 assistant", 1u << SP_DRAFT_ASSISTANT},
    };

    for (size_t i = 0; i < m->n; i++) {
        const char *name = m->sorted[i]->name;
        if (m->config->draft.kind == SP_DRAFT_NONE && sp_begins_with(name, SP_MTP_PREFIX)) continue;
        if (m->family->unread && sp_begins_with(name, m->family->unread)) continue;
        for (size_t k = 0; k < sizeof evidence / sizeof evidence[0]; k++) {
            if (!sp_begins_with(name, evidence[k].begin)) continue;
            if (evidence[k].kinds & 1u << m->config->draft.kind) continue;
            if (evidence[k].kinds) {
                return sp_fail(m->err, SP_E_INPUT,
                               "tensor \"%s\" belongs to %s, but architecture is \"%s\"", name,
                               evidence[k].what, m->config->architecture);
            }
            return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": %s, which is not supported",
                           name, evidence[k].what);
        }
    }
    return SP_OK;
}

static bool has_embedding(const struct sp_tensor_match *m, const char *prefix)
{
    char name[SP_SOURCE_NAME];

    sp_tensor_match_name(name, m, prefix, "embed_tokens.weight");
    return sp_tensor_match_has(m, "", name);
}

/* Finds the prefix of the text model. Tensors under two prefixes are an error. */
static enum sp_status find_prefix(struct sp_tensor_match *m)
{
    static const char *const prefixes[] = {
        "",
        "model.",
        "language_model.model.",
        "model.language_model.",
        "model.language_model.model.",
        "model.llm.",
        "model.text_model.",
        "transformer.",
        "model.transformer.",
        "backbone.",
        "gpt_neox.",
        "model.decoder.",
        "bert.", /* with a classification head */
        "roberta.",
    };
    size_t n = sizeof prefixes / sizeof prefixes[0];

    if (!m->config->pooling.classifies) n -= 2;
    if (m->config->draft.kind) n = 2;

    for (size_t i = 0; i < n; i++) {
        if (!has_embedding(m, prefixes[i]) && !sp_tensor_match_has(m, prefixes[i], "norm.weight"))
            continue;
        if (m->prefix) {
            return sp_fail(m->err, SP_E_INPUT,
                           "two text models, with tensors under \"%s\" and under \"%s\"", m->prefix,
                           prefixes[i]);
        }
        m->prefix = prefixes[i];
    }
    if (m->prefix && m->config->draft.kind == SP_DRAFT_EAGLE3 &&
        sp_tensor_match_has(m, m->prefix, "midlayer.hidden_norm.weight"))
        m->only_layer = "midlayer.";
    if (m->prefix) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT,
                   "no text model: no tensor \"norm.weight\" under any known prefix");
}

static void find_head(struct sp_tensor_match *m)
{
    static const char *const names[] = {"lm_head.weight", "language_model.lm_head.weight",
                                        "model.lm_head.weight", "model.llm.unembed.weight"};

    if (m->family->head && sp_tensor_match_has(m, "", m->family->head))
        m->head_name = m->family->head;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && m->head_name == NULL; i++)
        if (sp_tensor_match_has(m, "", names[i])) m->head_name = names[i];
}

/* Finds out which tables exist and settles the config by them. A language model whose config
 * contradicts them is refused. */
static enum sp_status settle(struct sp_tensor_match *m, bool *compare_equal)
{
    struct sp_config *c = m->config;
    struct sp_tables found = {.embedding = has_embedding(m, m->prefix),
                              .head = m->head_name != NULL,
                              .layer_scalars =
                                  sp_tensor_match_has(m, m->prefix, "layers.0.layer_scalar"),
                              .d2t = sp_tensor_match_has(m, m->prefix, "d2t")};
    size_t head = sp_tensor_match_find(m, m->head_name ? m->head_name : "");
    unsigned delta = sp_config_first_layer(c, SP_MIXER_DELTA_NET);
    char name[SP_SOURCE_NAME];
    size_t fc, conv;

    if (head < m->n && m->sorted[head]->rank) found.head_rows = m->sorted[head]->shape[0];
    snprintf(name, sizeof name, "%slayers.%u.linear_attn.conv1d.weight", m->prefix, delta);
    conv = sp_tensor_match_find(m, name);
    if (conv < m->n && m->sorted[conv]->rank > 0)
        found.conv_taps = m->sorted[conv]->shape[m->sorted[conv]->rank - 1];
    sp_tensor_match_name(name, m, m->prefix, "fc.weight");
    fc = sp_tensor_match_find(m, name);
    if (fc < m->n) {
        const struct sp_source_tensor *t = m->sorted[fc];
        if (t->rank != 2 || t->shape[1] == 0)
            return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is not a matrix", t->name);
        found.fc_cols = t->shape[1];
    }
    if (c->draft.kind == SP_DRAFT_NONE) {
        *compare_equal = found.embedding && found.head && c->tied;
        m->embedding_is_head = found.head && !found.embedding;
        if (m->embedding_is_head && c->tied_stated && !c->tied) {
            return sp_fail(
                m->err, SP_E_INPUT,
                "missing tensor \"%sembed_tokens.weight\", and tie_word_embeddings is false",
                m->prefix);
        }
        if (!found.head && !c->tied && m->prefix[0] == '\0' && !c->bidirectional &&
            c->pooling.mode == SP_POOL_NONE) {
            return sp_fail(m->err, SP_E_INPUT,
                           "missing tensor \"lm_head.weight\": this is the export of a base model");
        }
    }
    return sp_config_settle(c, &found, m->err);
}

bool sp_source_is_skipped(const char *name)
{
    static const char parts[] =
        "vision_tower. vision_model. multi_modal_projector. patch_merge_mlp. visual. "
        "audio_tower. audio. embed_vision. embed_audio. image_newline vision_embedder. "
        "vision_adapter. vision_projection. mm_projector. vision_tokenizer. audio_tokenizer. "
        "connector. vit_large_projector. vision_encoder. audio_encoder. audio_adapter. "
        "pre_mm_projector_norm. patch_merger. vision_language_adapter.";
    /* Last parts of names. */
    static const char buffers[] =
        "layer_multipliers ngram_heads_offsets ngram_heads_vocab_sizes slope_rate query_decay "
        "key_decay diagonal_decay position_ids masked_bias "
        "activation_scale input_scale output_scale input_global_scale output_global_scale "
        "input_zero_point output_zero_point q_scale k_scale v_scale kv_scale prob_scale "
        "q_zero_point k_zero_point v_zero_point kv_zero_point prob_zero_point";
    const char *inner = sp_begins_with(name, "model.") ? name + strlen("model.") : name;
    const char *last = strrchr(name, '.');

    if (sp_begins_with_any(inner, parts)) return true;
    return last && (sp_is_among(last + 1, buffers) || sp_ends_with(name, ".rotary_emb.inv_freq") ||
                    sp_ends_with(name, ".attn.bias") || sp_ends_with(name, ".attention.bias"));
}

/* True for a projection of keys or values, or of a whole block, in a layer that uses those of an
 * earlier layer. Some checkpoints have such tensors. */
static bool is_unused_key(const struct sp_tensor_match *m, const char *name)
{
    static const char *const keys[] = {".self_attn.k_proj.weight", ".self_attn.v_proj.weight",
                                       ".self_attn.k_norm.weight"};
    const char *inner = sp_begins_with(name, m->prefix) ? name + strlen(m->prefix) : name;
    unsigned long layer;

    if (!sp_begins_with(inner, "layers.")) return false;
    layer = strtoul(inner + 7, NULL, 10);
    if (layer < m->config->n_layers && m->config->layers[layer].repeats &&
        strstr(inner, ".shared_transformer."))
        return true;
    if (layer >= m->config->n_layers || m->config->layers[layer].kv_source < 0 ||
        m->config->layers[layer].kv_source == (int)layer)
        return false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (sp_ends_with(name, keys[i])) return true;
    return false;
}

/* True for a part of an expert that returns its input. transformers writes some of them. */
static bool is_zero_expert(const struct sp_tensor_match *m, const char *name)
{
    const char *number = strstr(name, ".experts.");
    unsigned first = 0;

    for (unsigned i = 0; i < m->config->n_layers; i++)
        if (m->config->layers[i].n_experts) first = m->config->layers[i].n_experts;
    if (number == NULL || m->config->routing.n_zero == 0) return false;
    return strtoul(number + strlen(".experts."), NULL, 10) - first < m->config->routing.n_zero;
}

/* True for a tensor of a layer behind those of the model; *n = its number there. */
static bool is_behind(unsigned long *n, const struct sp_tensor_match *m, const char *inner)
{
    unsigned long layer;

    if (!sp_begins_with(inner, "layers.")) return false;
    layer = strtoul(inner + strlen("layers."), NULL, 10);
    *n = layer - m->config->n_layers;
    return layer >= m->config->n_layers;
}

/* True for a tensor of a prediction head that is not supported: the model is packed without it. A
 * layer behind those of the model that projects pairs is one. */
static bool is_unsupported_head(const struct sp_tensor_match *m, const char *name)
{
    const char *inner = sp_begins_with(name, m->prefix) ? name + strlen(m->prefix) : name;
    char projection[64];
    unsigned long n;

    if (m->config->draft.kind != SP_DRAFT_NONE) return false;
    if (sp_begins_with(name, SP_MTP_PREFIX) || sp_begins_with(inner, SP_MTP_PREFIX)) return true;
    if (is_behind(&n, m, inner)) {
        snprintf(projection, sizeof projection, "layers.%lu.eh_proj.weight",
                 n + m->config->n_layers);
        if (sp_tensor_match_has(m, m->prefix, projection)) return true;
    }
    return m->family->unread && sp_begins_with(inner, m->family->unread);
}

/* True for a tensor of the built-in prediction head, which sp_specs_of_mtp reads. */
static bool is_prediction_head(const struct sp_tensor_match *m, const char *name)
{
    const char *inner = sp_begins_with(name, m->prefix) ? name + strlen(m->prefix) : name;
    unsigned long n;

    if (m->family->prediction_path) return sp_begins_with(inner, m->family->prediction_path);
    if (m->family->prediction_head && sp_begins_with(name, SP_MTP_PREFIX)) return true;
    return m->family->prediction_layer && is_behind(&n, m, inner) && n < m->config->n_mtp_layers;
}

/* True for t2d, the inverse of d2t. */
static bool is_reverse_map(const struct sp_tensor_match *m, const char *name)
{
    return m->config->draft.maps_tokens && sp_begins_with(name, m->prefix) &&
           strcmp(name + strlen(m->prefix), "t2d") == 0;
}

static void report_unexpected(struct sp_tensor_match *m, const char *name)
{
    const char *inner = sp_begins_with(name, m->prefix) ? name + strlen(m->prefix) : name;
    unsigned long layer;
    char *end;

    if (sp_begins_with(inner, "layers.") && inner[7] >= '0' && inner[7] <= '9') {
        layer = strtoul(inner + 7, &end, 10);
        if (*end == '.' && layer >= m->config->n_layers) {
            sp_tensor_match_report(m, "unexpected tensor \"%s\": the config has %u layers", name,
                                   m->config->n_layers);
            return;
        }
    }
    sp_tensor_match_report(m, "unexpected tensor \"%s\"%s", name,
                           sp_ends_with(name, ".bias") ? ": the config has no such bias" : "");
}

static enum sp_status match(struct sp_tensor_match *m, bool *compare_equal, size_t *n_skipped)
{
    enum sp_status st;

    if ((st = refuse_evidence(m)) || (st = find_prefix(m))) return st;
    find_head(m);
    if ((st = settle(m, compare_equal))) return st;
    if ((st = sp_specs_of_config(m->specs, m->config, m->err))) return st;
    for (size_t i = 0; i < m->specs->n_specs && m->findings.n < SP_MAX_FINDINGS; i++)
        if ((st = sp_tensor_match_place(m, &m->specs->specs[i]))) return st;
    for (size_t i = 0; i < m->n && m->findings.n < SP_MAX_FINDINGS; i++) {
        if (m->used[i] || is_prediction_head(m, m->sorted[i]->name)) continue;
        if (sp_source_is_skipped(m->sorted[i]->name) || is_unused_key(m, m->sorted[i]->name) ||
            is_unsupported_head(m, m->sorted[i]->name) || is_zero_expert(m, m->sorted[i]->name) ||
            is_reverse_map(m, m->sorted[i]->name))
            ++*n_skipped;
        else
            report_unexpected(m, m->sorted[i]->name);
    }
    return sp_tensor_match_conclude(m);
}

enum sp_status sp_specs_of_source(struct sp_specs *out, struct sp_config *config,
                                  const struct sp_source_tensor *tensors, size_t n,
                                  bool *compare_equal, size_t *n_skipped, struct sp_err *err)
{
    struct sp_specs specs = {0};
    struct sp_tensor_match m = {.specs = &specs, .config = config, .err = err};
    enum sp_status st;

    *compare_equal = false;
    *n_skipped = 0;
    if ((st = sp_tensor_match_init(&m, tensors, n))) goto done;
    if ((st = match(&m, compare_equal, n_skipped))) goto done;
    *out = specs;
    memset(&specs, 0, sizeof specs);
done:
    sp_specs_release(&specs);
    sp_tensor_match_release(&m);
    return st;
}
