/* Any config.json is refused with a sentence, or makes a config whose tensors can be listed, and
 * which a checkpoint of just these tensors satisfies. */
#include "format/config.h"
#include "format/family.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The canonical tensors under the names that plain families have in a checkpoint. Other ways of
 * storage are refused for what they lack. */
static void match(struct sp_config *config, const struct sp_specs *specs)
{
    struct sp_source_tensor *tensors = calloc(specs->n_specs + 1, sizeof *tensors);
    struct sp_specs found = {0};
    struct sp_err err = {0};
    bool compare_equal;
    size_t n_skipped;

    if (tensors == NULL) abort();
    for (size_t i = 0; i < specs->n_specs; i++) {
        tensors[i].name = specs->specs[i].name;
        tensors[i].rank = specs->specs[i].rank;
        memcpy(tensors[i].shape, specs->specs[i].shape, sizeof specs->specs[i].shape);
    }
    if (sp_specs_of_source(&found, config, tensors, specs->n_specs, &compare_equal, &n_skipped,
                           &err)) {
        if (err.text[0] == '\0') abort();
    } else if (found.n_pieces < specs->n_specs || n_skipped) {
        abort();
    }
    sp_specs_release(&found);
    free(tensors);
}

static void check_layers(const struct sp_config *c)
{
    for (unsigned i = 0; i < c->n_layers; i++) {
        const struct sp_layer_config *l = &c->layers[i];
        if (l->rope >= (int)c->n_ropes || l->rope < -1) abort();
        if (l->rope >= 0 && c->ropes[l->rope].n_rot > l->head_dim) abort();
        if (l->kv_source >= (int)i + 1 || (l->kv_source < 0 && c->draft.kind == SP_DRAFT_NONE)) {
            abort();
        }
        if (l->n_experts_used > l->n_experts) abort();
        if ((l->mixers & SP_MIXER_ATTENTION) && l->n_heads % l->n_kv_heads) abort();
    }
    for (unsigned i = 0; i < c->n_ropes; i++) {
        if (c->ropes[i].n_rot == 0) abort();
        if (!(c->ropes[i].amplitude > 0) || !(c->ropes[i].theta > 1)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_config config;
    struct sp_specs specs = {0};
    struct sp_err err = {0};
    uint32_t ids[SP_MAX_EOS];
    size_t n;
    char *notes = NULL;

    if (sp_config_parse(&config, (const char *)data, size, &notes, &err)) {
        if (err.text[0] == '\0' || config.layers) abort();
    } else {
        bool own_tables =
            config.draft.kind == SP_DRAFT_NONE || config.draft.kind == SP_DRAFT_ASSISTANT;
        struct sp_tables found = {.embedding = own_tables,
                                  .head = own_tables,
                                  .fc_cols =
                                      (uint64_t)config.draft.n_taps * config.draft.target_hidden,
                                  .d2t = config.draft.n_head_rows != config.n_vocab};
        check_layers(&config);
        if (sp_config_settle(&config, &found, &err) == SP_OK &&
            sp_specs_of_config(&specs, &config, NULL) == SP_OK) {
            match(&config, &specs);
        }
        sp_specs_release(&specs);
        sp_config_release(&config);
    }
    (void)!sp_config_eos(ids, &n, (const char *)data, size, NULL, 0, NULL);
    free(notes);
    return 0;
}
