#include "format/family/config_packed.h"
#include "format/config/pooling.h"
#include "format/family/config_parse.h"
#include "format/family/config_settle.h"
#include "format/pack_contents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t last_dimension(const struct sp_pack_tensor *t)
{
    return t && t->rank ? t->shape[t->rank - 1] : 0;
}

static uint64_t first_dimension(const struct sp_pack_tensor *t)
{
    return t && t->rank ? t->shape[0] : 0;
}

static struct sp_tables tables_of(const struct sp_config *config, const struct sp_pack *pack,
                                  enum sp_part part)
{
    static const char mlp[] = "layers.0.mlp.";
    struct sp_tables found = {
        .embedding = sp_pack_find(pack, part, "embed_tokens.weight") != NULL,
        .head = sp_pack_find(pack, part, "lm_head.weight") != NULL,
        .head_rows = first_dimension(sp_pack_find(pack, part, "lm_head.weight")),
        .layer_scalars = sp_pack_find(pack, part, "layers.0.layer_scalar") != NULL,
        .fc_cols = last_dimension(sp_pack_find(pack, part, "fc.weight")),
        .mtp = sp_pack_find(pack, part, "pre_fc_norm_hidden.weight") != NULL,
        .d2t = sp_pack_find(pack, part, "d2t") != NULL,
        .mtp_experts = sp_pack_find(pack, part, "layers.0.mlp.router.weight") != NULL,
        .mtp_ffn = sp_pack_find(pack, part, "layers.0.post_attention_layernorm.weight") != NULL,
    };
    char conv[64];

    snprintf(conv, sizeof conv, "layers.%u.linear_attn.conv1d.weight",
             sp_config_first_layer(config, SP_MIXER_DELTA_NET));
    found.conv_taps = last_dimension(sp_pack_find(pack, part, conv));
    for (size_t i = 0; i < sp_pack_n_tensors(pack) && !found.mtp_ffn; i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        found.mtp_ffn = t->part == part && strncmp(t->name, mlp, strlen(mlp)) == 0;
    }
    return found;
}

static enum sp_status read_pooling(struct sp_config *config, const struct sp_pack *pack,
                                   enum sp_part part, struct sp_err *err)
{
    struct sp_text text = {0};
    enum sp_status st;

    if (part != SP_PART_TARGET) return SP_OK;
    st = sp_pack_read_section(pack, part, SP_SECTION_POOLING, &text, err);
    if (text.at) st = sp_pooling_read(&config->pooling, NULL, &text, config->n_hidden, err);
    free(text.at);
    return st;
}

enum sp_status sp_config_of_pack(struct sp_config *out, const struct sp_pack *pack,
                                 enum sp_part part, struct sp_err *err)
{
    struct sp_tables found;
    struct sp_text text;
    enum sp_status st;

    memset(out, 0, sizeof *out);
    if ((st = sp_pack_read_section(pack, part, SP_SECTION_CONFIG, &text, err))) return st;
    if (text.at == NULL)
        return sp_fail(err, SP_E_INPUT, "%s: no configuration in the file", sp_part_name(part));
    if ((st = sp_config_parse(out, text.at, text.size, NULL, err))) {
        sp_context(err, "%s config.json", sp_part_name(part));
        goto done;
    }
    if ((st = read_pooling(out, pack, part, err))) goto done;
    found = tables_of(out, pack, part);
    st = sp_config_settle(out, &found, err);
done:
    if (st) sp_config_release(out);
    free(text.at);
    return st;
}
