/* Fuzzes config.json files: the text is refused with a message, or its tensors can be listed and a
 * checkpoint of exactly these tensors matches it. The exported config has the same meaning. */
#include "format/config/config.h"
#include "format/family/config_parse.h"
#include "format/family/config_publish.h"
#include "format/family/config_settle.h"
#include "format/family/family.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_EXPERTS = 1000 }; /* of all layers together, since each expert is a tensor */

/* A checkpoint with the tensors of the config must match it. */
static void match(struct sp_config *config)
{
    struct sp_specs made = {0}, found = {0};
    struct sp_source_tensor *tensors = NULL;
    struct sp_err err = {0};
    size_t n = 0, n_experts = 0, n_skipped;
    bool compare_equal;

    for (unsigned i = 0; i < config->n_layers; i++)
        n_experts += config->layers[i].n_experts;
    if (n_experts > MOST_EXPERTS) return;
    if (sp_specs_publish(&made, &tensors, &n, config, NULL, &err)) abort();
    if (sp_specs_of_source(&found, config, tensors, n, &compare_equal, &n_skipped, &err)) {
        if (err.text[0] == '\0') abort();
    } else if (found.n_spans != made.n_spans || n_skipped) {
        abort();
    }
    sp_specs_release(&found);
    sp_specs_release(&made);
    free(tensors);
}

/* The exported config must list the same tensors. */
static void publish(const struct sp_config *config, const struct sp_specs *specs, const char *text,
                    size_t size)
{
    struct sp_tables found = {.embedding = !config->draft.borrows_tables,
                              .head = config->draft.owns_head || !config->tied,
                              .fc_cols =
                                  (uint64_t)config->draft.n_taps * config->draft.target_hidden,
                              .d2t = config->draft.maps_tokens};
    struct sp_config again;
    struct sp_specs others = {0};
    struct sp_err err = {0};
    const struct sp_text json = {(char *)(uintptr_t)text, size};
    struct sp_text out;
    bool text_only;

    if (sp_config_publish(&out, &text_only, &json, config, SP_F16, &err)) {
        if (err.text[0] == '\0' || err.status == SP_E_BUG) abort();
        return;
    }
    if (sp_config_parse(&again, out.at, out.size, NULL, &err)) abort();
    if (sp_config_settle(&again, &found, &err)) abort();
    if (again.tied != config->tied || strcmp(again.family, config->family) != 0) abort();
    if (sp_specs_of_config(&others, &again, NULL)) abort();
    if (others.n_specs != specs->n_specs) abort();
    for (size_t i = 0; i < specs->n_specs; i++) {
        const struct sp_tensor_spec *a = &specs->specs[i], *b = &others.specs[i];
        if (strcmp(a->name, b->name) != 0 || a->rank != b->rank) abort();
        if (memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0) abort();
    }
    sp_specs_release(&others);
    sp_config_release(&again);
    free(out.at);
}

static void check_layers(const struct sp_config *c)
{
    for (unsigned i = 0; i < c->n_layers; i++) {
        const struct sp_layer_config *l = &c->layers[i];
        if (l->rope >= (int)c->n_ropes || l->rope < -1) abort();
        if (l->rope >= 0 && c->ropes[l->rope].n_rot > l->head_dim) abort();
        if (l->kv_source >= (int)i + 1 || (l->kv_source < 0 && c->draft.kind == SP_DRAFT_NONE))
            abort();
        if (l->n_experts_used > l->n_experts) abort();
        if ((l->mixers & SP_MIXER_ATTENTION) && l->n_heads % l->n_kv_heads) abort();
    }
    for (unsigned i = 0; i < c->n_ropes; i++) {
        if (c->ropes[i].n_rot == 0 && (c->latent.kv_rank == 0 || c->latent.rope_dim)) abort();
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
    char *warnings = NULL;

    if (sp_config_parse(&config, (const char *)data, size, &warnings, &err)) {
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
            publish(&config, &specs, (const char *)data, size);
            match(&config);
        }
        sp_specs_release(&specs);
        sp_config_release(&config);
    }
    const struct sp_text input = {(char *)(uintptr_t)data, size}, none = {0};
    (void)!sp_config_eos(ids, &n, &input, &none, NULL);
    free(warnings);
    return 0;
}
