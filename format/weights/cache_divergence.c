#include "format/weights/cache_divergence.h"

#include "format/base/mem.h"
#include "format/pack_contents.h"

#include <stdlib.h>
#include <string.h>

const char *const sp_layer_cache_names[SP_N_LAYER_CACHES] = {"f16", "q8", "q8:q4", "q4"};

/* More than any measurement gives. */
static const double MOST = 1e6;

static enum sp_status read_type(struct sp_cache_divergences *out, enum sp_layer_cache type,
                                const struct sp_json *list, struct sp_err *err)
{
    if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(list) != out->n)
        return sp_fail(err, SP_E_INPUT, "caches: %s is not an array of %zu layers",
                       sp_layer_cache_names[type], out->n);
    for (size_t i = 0; i < out->n; i++) {
        double *nats = &out->layers[i].nats[type];
        const struct sp_json *value = sp_json_at(list, i);
        *nats = -1;
        if (value && !(sp_json_to_double(value, nats) && *nats >= 0 && *nats <= MOST))
            return sp_fail(err, SP_E_INPUT, "caches: %s[%zu] is not a divergence",
                           sp_layer_cache_names[type], i);
    }
    return SP_OK;
}

/* Reads the type of a layer, which was measured with it unless it is f16; false: it is neither. */
static bool read_chosen(struct sp_cache_divergence *layer, const struct sp_json *name)
{
    const char *text = sp_json_to_string(name, NULL);

    for (int t = 0; t < SP_N_LAYER_CACHES && text; t++) {
        if (strcmp(text, sp_layer_cache_names[t]) != 0) continue;
        layer->chosen = (enum sp_layer_cache)t;
        return t == SP_LAYER_F16 || layer->nats[t] >= 0;
    }
    return false;
}

static enum sp_status read_choice(struct sp_cache_divergences *out, const struct sp_json *object,
                                  struct sp_err *err)
{
    const struct sp_json *chosen = sp_json_get(object, "chosen");
    enum sp_status st;

    if (chosen == NULL) return SP_OK;
    if (sp_json_kind(chosen) != SP_JSON_ARRAY || sp_json_len(chosen) != out->n)
        return sp_fail(err, SP_E_INPUT, "caches: chosen is not an array of %zu layers", out->n);
    for (size_t i = 0; i < out->n; i++)
        if (!read_chosen(&out->layers[i], sp_json_at(chosen, i)))
            return sp_fail(err, SP_E_INPUT, "caches: chosen[%zu] is not a measured type", i);
    out->has_choice = true;
    if ((st = sp_json_get_double(object, "divergence", 0, MOST, &out->nats, err))) return st;
    return sp_json_get_double(object, "error", 0, MOST, &out->error, err);
}

enum sp_status sp_cache_divergences_read(struct sp_cache_divergences *out,
                                         const struct sp_json *object, struct sp_err *err)
{
    struct sp_cache_divergences made = {
        .n = sp_json_len(sp_json_get(object, sp_layer_cache_names[0]))};
    enum sp_status st = SP_OK;

    *out = (struct sp_cache_divergences){0};
    if (object == NULL) return SP_OK;
    st = sp_grow(&made.layers, &made.cap, made.n, sizeof *made.layers, err);
    for (int t = 0; t < SP_N_LAYER_CACHES && !st; t++)
        st = read_type(&made, (enum sp_layer_cache)t, sp_json_get(object, sp_layer_cache_names[t]),
                       err);
    if (!st) st = read_choice(&made, object, err);
    if (st) {
        sp_cache_divergences_release(&made);
        return st;
    }
    *out = made;
    return SP_OK;
}

void sp_cache_divergences_print(struct sp_json_out *out, const struct sp_cache_divergences *all)
{
    for (int t = 0; t < SP_N_LAYER_CACHES; t++) {
        sp_json_out_print(out, "%s\"%s\":[", t ? "," : "{", sp_layer_cache_names[t]);
        for (size_t i = 0; i < all->n; i++) {
            double nats = all->layers[i].nats[t];
            if (i) sp_json_out_raw(out, ",");
            if (nats < 0)
                sp_json_out_raw(out, "null");
            else
                sp_json_out_print(out, "%.6g", nats);
        }
        sp_json_out_raw(out, "]");
    }
    for (size_t i = 0; all->has_choice && i < all->n; i++)
        sp_json_out_print(out, "%s\"%s\"", i ? "," : ",\"chosen\":[",
                          sp_layer_cache_names[all->layers[i].chosen]);
    if (all->has_choice)
        sp_json_out_print(out, "],\"divergence\":%.6g,\"error\":%.6g", all->nats, all->error);
    sp_json_out_raw(out, "}");
}

enum sp_status sp_cache_divergences_add(struct sp_cache_divergences *all,
                                        struct sp_cache_divergence layer, struct sp_err *err)
{
    enum sp_status st = sp_grow(&all->layers, &all->cap, all->n + 1, sizeof *all->layers, err);

    if (!st) all->layers[all->n++] = layer;
    return st;
}

void sp_cache_divergences_release(struct sp_cache_divergences *all)
{
    free(all->layers);
    *all = (struct sp_cache_divergences){0};
}

enum sp_status sp_cache_divergences_of_pack(struct sp_cache_divergences *out,
                                            const struct sp_pack *pack, struct sp_err *err)
{
    struct sp_json *object = NULL;
    struct sp_text text;
    enum sp_status st;

    *out = (struct sp_cache_divergences){0};
    st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_CACHES, &text, err);
    if (st || text.at == NULL) return st;
    st = sp_json_parse_within(&object, text.at, text.size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    if (!st) st = sp_cache_divergences_read(out, object, err);
    if (st)
        sp_context(err, "%s: section %s", sp_pack_path(pack), sp_section_name(SP_SECTION_CACHES));
    sp_json_free(object);
    free(text.at);
    return st;
}

double sp_cache_divergence_of(const struct sp_cache_divergence *layer, enum sp_layer_cache type)
{
    double added = layer->nats[type] - layer->nats[SP_LAYER_F16];

    return added > 0 ? added : 0;
}

double sp_cache_divergences_choose(struct sp_cache_divergences *all,
                                   const double (*sizes)[SP_N_LAYER_CACHES], double most)
{
    const double least = 1e-9; /* added by a step, to compare those that add nothing */
    double sum = 0;

    for (size_t i = 0; i < all->n; i++)
        all->layers[i].chosen = SP_LAYER_F16;
    for (;;) {
        double best = 0, best_added = 0;
        enum sp_layer_cache best_type = SP_LAYER_F16;
        size_t best_layer = 0;
        for (size_t i = 0; i < all->n; i++) {
            const struct sp_cache_divergence *layer = &all->layers[i];
            for (int t = (int)layer->chosen + 1; t < SP_N_LAYER_CACHES; t++) {
                enum sp_layer_cache type = (enum sp_layer_cache)t;
                double added = sp_cache_divergence_of(layer, type) -
                               sp_cache_divergence_of(layer, layer->chosen);
                double saved = sizes[i][layer->chosen] - sizes[i][t];
                double gain = saved / (added > least ? added : least);
                if (layer->nats[t] < 0 || sum + added > most || gain <= best) continue;
                best = gain;
                best_added = added;
                best_layer = i;
                best_type = type;
            }
        }
        if (best_type == SP_LAYER_F16) return sum;
        all->layers[best_layer].chosen = best_type;
        sum += best_added;
    }
}
