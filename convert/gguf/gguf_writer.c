/* Members of JSON objects out of metadata. */
#include "convert/gguf/gguf_writer.h"
#include "format/tokenizer/gguf_tokens.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MAX_SIZE = 1 << 30 };

void sp_gguf_key(char out[SP_GGUF_KEY_SIZE], const struct sp_gguf_writer *w, const char *key)
{
    sp_gguf_stored_key(out, SP_GGUF_KEY_SIZE, w->model->file, &w->model->family,
                       w->model->arch->name, key);
}

bool sp_gguf_has(const struct sp_gguf_writer *w, const char *key)
{
    char name[SP_GGUF_KEY_SIZE];

    sp_gguf_key(name, w, key);
    return sp_gguf_find(w->model->file, name) != NULL;
}

bool sp_gguf_layer_has(const struct sp_gguf_writer *w, uint64_t layer, const char *name)
{
    char whole[80];

    snprintf(whole, sizeof whole, "blk.%" PRIu64 ".%s.weight", layer, name);
    return sp_gguf_find_tensor(w->model->file, whole) != NULL;
}

uint64_t sp_gguf_rows_of(const struct sp_gguf_writer *w, const char *tensor)
{
    const struct sp_gguf_tensor *t = sp_gguf_find_tensor(w->model->file, tensor);

    return t == NULL ? 0 : t->rank < 2 ? 1 : t->shape[t->rank - 2];
}

/* Element i of a list of sizes. */
static uint64_t size_at(struct sp_gguf_writer *w, const struct sp_gguf_value *v, uint64_t i)
{
    int64_t value = i < v->n ? sp_gguf_integer_at(v, i) : -1;

    if (value >= 0 && value <= MAX_SIZE) return (uint64_t)value;
    sp_fail(&w->err, SP_E_INPUT, "%s is out of range", v->key);
    return 0;
}

/* Returns the value of a key if it is a list of integers or booleans; else NULL, and *value = its
 * number. */
static const struct sp_gguf_value *find_list(struct sp_gguf_writer *w, const char *key,
                                             uint64_t *value)
{
    char name[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;

    sp_gguf_key(name, w, key);
    v = sp_gguf_find(w->model->file, name);
    if (v == NULL || !v->is_array) {
        (void)!sp_gguf_get_u64(w->model->file, name, MAX_SIZE, value, &w->err);
        return NULL;
    }
    if (v->type != SP_GGUF_STRING && v->type != SP_GGUF_F32 && v->type != SP_GGUF_F64 && v->n)
        return v;
    sp_fail(&w->err, SP_E_INPUT, "%s is not a list of integers", name);
    return NULL;
}

uint64_t sp_gguf_size(struct sp_gguf_writer *w, const char *key, uint64_t otherwise)
{
    const struct sp_gguf_value *v = find_list(w, key, &otherwise);
    bool differ = w->model->family.gguf.sizes_per_layer;
    uint64_t chosen = 0;

    if (v == NULL) return otherwise;
    while (differ && chosen + 1 < v->n && sp_gguf_integer_at(v, chosen) == 0)
        chosen++;
    for (uint64_t i = 1; i < v->n && !differ; i++) {
        if (sp_gguf_integer_at(v, i) == sp_gguf_integer_at(v, 0)) continue;
        sp_fail(&w->err, SP_E_UNSUPPORTED, "%s differs between layers", v->key);
    }
    return size_at(w, v, chosen);
}

uint64_t sp_gguf_layer_size(struct sp_gguf_writer *w, const char *key, uint64_t layer,
                            uint64_t otherwise)
{
    const struct sp_gguf_value *v = find_list(w, key, &otherwise);

    if (v == NULL) return otherwise;
    if (layer < v->n) return size_at(w, v, layer);
    sp_fail(&w->err, SP_E_INPUT, "%s has %" PRIu64 " numbers, but there are %" PRIu64 " layers",
            v->key, v->n, w->model->n_layers);
    return 0;
}

double sp_gguf_number(struct sp_gguf_writer *w, const char *key, double otherwise)
{
    char name[SP_GGUF_KEY_SIZE];

    sp_gguf_key(name, w, key);
    (void)!sp_gguf_get_float(w->model->file, name, &otherwise, &w->err);
    if (!(fabs(otherwise) <= FLT_MAX))
        sp_fail(&w->err, SP_E_INPUT, "%s is %g, out of range", name, otherwise);
    return otherwise;
}

bool sp_gguf_flag(struct sp_gguf_writer *w, const char *key, bool otherwise)
{
    char name[SP_GGUF_KEY_SIZE];

    sp_gguf_key(name, w, key);
    (void)!sp_gguf_get_bool(w->model->file, name, &otherwise, &w->err);
    return otherwise;
}

uint64_t sp_gguf_need_size(struct sp_gguf_writer *w, const char *key)
{
    if (sp_gguf_has(w, key)) return sp_gguf_size(w, key, 0);
    sp_fail(&w->err, SP_E_INPUT, "%s.%s is missing", w->model->arch->name, key);
    return 0;
}

uint64_t sp_gguf_head_size(struct sp_gguf_writer *w)
{
    uint64_t hidden = sp_gguf_need_size(w, "embedding_length");
    uint64_t heads = sp_gguf_need_size(w, "attention.head_count");

    return sp_gguf_size(w, "attention.key_length", heads ? hidden / heads : 0);
}

void sp_gguf_put_integer(struct sp_gguf_writer *w, const char *key, uint64_t value)
{
    sp_json_out_print(&w->out, ",\n  \"%s\": %" PRIu64, key, value);
}

void sp_gguf_put_word(struct sp_gguf_writer *w, const char *key, const char *word)
{
    sp_json_out_print(&w->out, ",\n  \"%s\": %s", key, word);
}

void sp_gguf_put_bool(struct sp_gguf_writer *w, const char *key, bool value)
{
    sp_gguf_put_word(w, key, value ? "true" : "false");
}

void sp_gguf_put_float(struct sp_gguf_writer *w, const char *key, double value)
{
    sp_gguf_put_word(w, key, "");
    sp_json_out_f32(&w->out, (float)value);
}

void sp_gguf_copy_size(struct sp_gguf_writer *w, const char *key, const char *published)
{
    if (sp_gguf_has(w, key)) sp_gguf_put_integer(w, published, sp_gguf_size(w, key, 0));
}

void sp_gguf_copy_float(struct sp_gguf_writer *w, const char *key, const char *published)
{
    if (sp_gguf_has(w, key)) sp_gguf_put_float(w, published, sp_gguf_number(w, key, 0));
}

void sp_gguf_copy_id(struct sp_gguf_writer *w, const char *key, const char *published)
{
    uint64_t id = UINT64_MAX;

    (void)!sp_gguf_token_id(&id, w->model->file, key, &w->err);
    if (id != UINT64_MAX) sp_gguf_put_integer(w, published, id);
}

enum sp_status sp_gguf_finish(struct sp_text *text, struct sp_gguf_writer *w, struct sp_err *err)
{
    enum sp_status st = sp_fail_as(err, &w->err);

    if (!st) st = sp_json_out_take(text, &w->out, err);
    sp_strbuf_release(&w->out.text);
    return st;
}
