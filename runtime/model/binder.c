#include "runtime/model/binder.h"

#include "format/base/mem.h"
#include "quantize/types/float_cast.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

const struct sp_pack_tensor *sp_bind_find(struct sp_binder *b, const char *format, unsigned layer)
{
    char name[128];

    if (b->status) return NULL;
    if (strncmp(format, "@", 1) == 0)
        snprintf(name, sizeof name, "layers.%u.%s",
                 sp_config_tensor_layer(&b->model->config, layer, format + 1), format + 1);
    else
        snprintf(name, sizeof name, "%s", format);
    return sp_pack_find(b->pack, b->model->part, name);
}

float *sp_bind_room(struct sp_binder *b, size_t n)
{
    float *room = b->status ? NULL : sp_arena_rows(&b->model->memory, 1, sp_round_up(n, 16));

    if (b->status == SP_OK) b->status = sp_arena_check(&b->model->memory, b->err);
    return room;
}

const float *sp_bind_vector(struct sp_binder *b, const char *name, unsigned layer, bool is_norm)
{
    const struct sp_pack_tensor *t = sp_bind_find(b, name, layer);
    float *v;
    size_t n;

    if (t == NULL) return NULL;
    n = (size_t)sp_n_elements(t->shape, t->rank);
    if ((v = sp_bind_room(b, n)) == NULL) return NULL;
    sp_decode_floats(v, t->dtype, t->data, n);
    if (is_norm && b->model->config.norm_shifted)
        for (size_t i = 0; i < n; i++)
            v[i] += 1.0f;
    return v;
}

const float *sp_bind_scaled(struct sp_binder *b, const char *name, unsigned layer, size_t n,
                            double scale)
{
    const float *norm = sp_bind_vector(b, name, layer, true);
    float *v;

    if (norm == NULL || scale == 1 || scale == 0) return norm;
    v = sp_bind_room(b, n);
    for (size_t i = 0; v && i < n; i++)
        v[i] = norm[i] * (float)scale;
    return v;
}

const float *sp_bind_scales(struct sp_binder *b, const char *name, unsigned layer, double factor,
                            int power)
{
    const struct sp_pack_tensor *t = sp_bind_find(b, name, layer);
    float *v = (float *)(uintptr_t)sp_bind_vector(b, name, layer, false);

    for (size_t i = 0; v && i < (size_t)t->shape[0]; i++) {
        float x = v[i] * (float)(factor / b->model->config.unit.init);
        v[i] = power == 2 ? x * x : power == 0 && x < 0 ? -x : x;
    }
    return v;
}

const float *sp_bind_norm(struct sp_binder *b, const char *name, unsigned layer)
{
    return sp_bind_vector(b, name, layer, true);
}

const float *sp_bind_bias(struct sp_binder *b, const char *name, unsigned layer)
{
    return sp_bind_vector(b, name, layer, false);
}

void sp_bind_matrix(struct sp_binder *b, struct sp_matrix *w, const char *name, unsigned layer)
{
    const struct sp_pack_tensor *t = sp_bind_find(b, name, layer);
    struct sp_model *m = b->model;

    if (t == NULL) return;
    b->status =
        sp_grow(&m->matrices, &m->cap_matrices, m->n_matrices + 1, sizeof *m->matrices, b->err);
    if (b->status) return;
    m->matrices[m->n_matrices++] = (struct sp_bound_matrix){t, w};
    w->dtype = t->dtype;
    w->rows = (size_t)t->shape[t->rank - 2];
    w->cols = (size_t)t->shape[t->rank - 1];
    w->n_panels = (w->rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
    w->panels = t->data;
    if (!sp_panel_size(&w->panel_size, w->dtype, w->cols))
        b->status = sp_fail(b->err, SP_E_BUG, "tensor \"%s\" has no panels", t->name);
}

struct sp_tensor_name sp_join_name(const char *begin, const char *end)
{
    struct sp_tensor_name name;

    snprintf(name.text, sizeof name.text, "%s%s", begin, end);
    return name;
}

void sp_bind_linear(struct sp_binder *b, struct sp_matrix *w, const float **bias, const char *name,
                    unsigned layer)
{
    sp_bind_matrix(b, w, sp_join_name(name, ".weight").text, layer);
    *bias = sp_bind_bias(b, sp_join_name(name, ".bias").text, layer);
}

float *sp_bind_taps(struct sp_binder *b, const char *name, unsigned layer, size_t channels,
                    size_t kernel)
{
    const float *stored = sp_bind_bias(b, name, layer);
    float *taps = stored ? sp_bind_room(b, channels * kernel) : NULL;

    for (size_t j = 0; taps && j < channels; j++)
        for (size_t i = 0; i < kernel; i++)
            taps[i * channels + j] = stored[j * kernel + i];
    return taps;
}
