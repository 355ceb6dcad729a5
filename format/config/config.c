#include "format/config/config.h"

#include "format/base/mem.h"
#include "format/config/config_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sp_draft_is_eagle(enum sp_draft_kind kind)
{
    return kind == SP_DRAFT_EAGLE3 || kind == SP_DRAFT_PEAGLE;
}

const char *sp_draft_kind_name(enum sp_draft_kind kind)
{
    static const char *const names[] = {
        [SP_DRAFT_NONE] = "autoregressive",
        [SP_DRAFT_DFLASH] = "dflash",
        [SP_DRAFT_MTP] = "mtp",
        [SP_DRAFT_ASSISTANT] = "assistant",
        [SP_DRAFT_DFLASH2] = "dflash2",
        [SP_DRAFT_DSPARK] = "dspark",
        [SP_DRAFT_EAGLE3] = "eagle3",
        [SP_DRAFT_PEAGLE] = "peagle",
    };

    return names[kind];
}

const char *sp_draft_name(enum sp_draft_kind kind)
{
    if (kind == SP_DRAFT_ASSISTANT) return "assistant";
    if (kind == SP_DRAFT_PEAGLE) return "peagle";
    return kind == SP_DRAFT_EAGLE3 ? "eagle3" : "dflash";
}

const struct sp_latent_config *sp_config_latent(const struct sp_config *config,
                                                const struct sp_layer_config *layer)
{
    return layer->other_latent ? &config->other_latent : &config->latent;
}

unsigned sp_config_value_dim(const struct sp_config *config, const struct sp_layer_config *layer)
{
    if (config->latent.kv_rank) return sp_config_latent(config, layer)->kv_rank;
    return layer->value_dim ? layer->value_dim : layer->head_dim;
}

unsigned sp_config_last_keys(const struct sp_config *config, bool windowed)
{
    for (unsigned i = config->n_layers; i-- > 0;) {
        const struct sp_layer_config *l = &config->layers[i];
        if (!(l->mixers & SP_MIXER_ATTENTION) || l->kv_source != (int)i) continue;
        if ((l->window != 0) == windowed) return i;
    }
    return config->n_layers;
}

unsigned sp_config_first_layer(const struct sp_config *config, enum sp_mixer mixer)
{
    unsigned i = 0;

    while (i < config->n_layers && !(config->layers[i].mixers & mixer))
        i++;
    return i;
}

bool sp_config_is_recurrent(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++)
        if (config->layers[i].mixers & ~(unsigned)SP_MIXER_ATTENTION) return true;
    return config->n_residual_taps != 0;
}

unsigned sp_config_tensor_layer(const struct sp_config *config, unsigned i, const char *name)
{
    static const char *const own[] = {"mamba.", "input_layernorm.", "block."};

    for (size_t k = 0; k < 3 && sp_layer_has_block(&config->layers[i]); k++)
        if (strncmp(name, own[k], strlen(own[k])) == 0) return i;
    return i - config->layers[i].repeats;
}

float sp_residual_factor(const struct sp_config *config, bool dynamic)
{
    return (float)(1 / sqrt((dynamic ? 2.0 : 1.0) * config->n_residual_taps + 1));
}

static bool is_prime(unsigned n)
{
    for (unsigned d = 2; d * d <= n; d++)
        if (n % d == 0) return false;
    return n > 1;
}

uint64_t sp_ngram_rows(unsigned *rows, const struct sp_ngram_config *c, unsigned table)
{
    unsigned n = c->n_parts, prime = c->least_rows - 1;
    uint64_t sum = 0;

    for (unsigned i = 0; i < table * n; i++) {
        do
            prime++;
        while (!is_prime(prime));
        if (i < (table - 1) * n) continue;
        if (rows) rows[i % n] = prime;
        sum += prime;
    }
    return (sum + c->multiple - 1) / c->multiple * c->multiple;
}

bool sp_config_joins(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++)
        if (config->layers[i].joins) return true;
    return false;
}

enum sp_status sp_config_repeat_layers(struct sp_config *config, unsigned first, unsigned n,
                                       unsigned times, struct sp_err *err)
{
    struct sp_layer_config *layers = NULL;
    unsigned more = n * (times - 1), n_all = config->n_layers + more;
    enum sp_status st;

    if (n_all > SP_CAP_LAYERS) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%u layers with those that repeat, expected 1..%d",
                       n_all, SP_CAP_LAYERS);
    }
    if ((st = sp_new(&layers, n_all, sizeof *layers, err))) return st;
    for (unsigned i = 0; i < n_all; i++) {
        unsigned again = i < first ? 0 : (i - first) / n < times ? (i - first) / n : times - 1;
        layers[i] = config->layers[i - again * n];
        layers[i].kv_source = (int)i;
        if (i < first + n * times) layers[i].repeats += again * n;
    }
    free(config->layers);
    config->layers = layers;
    config->n_layers = n_all;
    return SP_OK;
}

void sp_config_release(struct sp_config *config)
{
    free(config->layers);
    for (size_t i = 0; i < sizeof config->ropes / sizeof config->ropes[0]; i++) {
        free(config->ropes[i].short_factors);
        free(config->ropes[i].long_factors);
    }
    memset(config, 0, sizeof *config);
}
