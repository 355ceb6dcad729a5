/* Members of JSON objects out of metadata. */
#include "convert/gguf/gguf_writer.h"
#include "convert/gguf/gguf_names.h"
#include "convert/gguf/gguf_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

uint64_t sp_gguf_rows_of(const struct sp_gguf_writer *w, const char *tensor)
{
    const struct sp_gguf_tensor *t = sp_gguf_find_tensor(w->model->file, tensor);

    return t == NULL ? 0 : t->rank < 2 ? 1 : t->shape[t->rank - 2];
}

/* Element i of a list of sizes. */
static enum sp_status get_size_at(uint64_t *out, const struct sp_gguf_writer *w,
                                  const struct sp_gguf_value *v, uint64_t i)
{
    int64_t value = i < v->n ? sp_gguf_integer_at(v, i) : -1;

    if (value < 0 || value > MAX_SIZE)
        return sp_fail(w->err, SP_E_INPUT, "%s is out of range", v->key);
    *out = (uint64_t)value;
    return SP_OK;
}

/* *list = the value of a key if it is a list of integers or booleans, else NULL. */
static enum sp_status get_list(const struct sp_gguf_value **list, const struct sp_gguf_writer *w,
                               const char *name)
{
    const struct sp_gguf_value *v = sp_gguf_find(w->model->file, name);

    *list = NULL;
    if (v == NULL || !v->is_array) return SP_OK;
    if (v->type == SP_GGUF_STRING || v->type == SP_GGUF_F32 || v->type == SP_GGUF_F64 || v->n == 0)
        return sp_fail(w->err, SP_E_INPUT, "%s is not a list of integers", name);
    *list = v;
    return SP_OK;
}

enum sp_status sp_gguf_get_size(uint64_t *out, const struct sp_gguf_writer *w, const char *key)
{
    char name[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    uint64_t chosen = 0;
    enum sp_status st;

    sp_gguf_key(name, w, key);
    if ((st = get_list(&v, w, name))) return st;
    if (v == NULL) return sp_gguf_get_u64(w->model->file, name, MAX_SIZE, out, w->err);
    while (w->model->family.gguf.sizes_per_layer && chosen + 1 < v->n &&
           sp_gguf_integer_at(v, chosen) == 0)
        chosen++;
    for (uint64_t i = 1; i < v->n && !w->model->family.gguf.sizes_per_layer; i++) {
        if (sp_gguf_integer_at(v, i) == sp_gguf_integer_at(v, 0)) continue;
        return sp_fail(w->err, SP_E_UNSUPPORTED, "%s differs between layers", name);
    }
    return get_size_at(out, w, v, chosen);
}

enum sp_status sp_gguf_get_layer_size(uint64_t *out, const struct sp_gguf_writer *w,
                                      const char *key, uint64_t layer)
{
    char name[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    enum sp_status st;

    sp_gguf_key(name, w, key);
    if ((st = get_list(&v, w, name))) return st;
    if (v == NULL) return sp_gguf_get_u64(w->model->file, name, MAX_SIZE, out, w->err);
    if (layer < v->n) return get_size_at(out, w, v, layer);
    return sp_fail(w->err, SP_E_INPUT,
                   "%s has %" PRIu64 " numbers, but there are %" PRIu64 " layers", name, v->n,
                   w->model->n_layers);
}

enum sp_status sp_gguf_read_float(double *out, const struct sp_gguf_writer *w, const char *key)
{
    char name[SP_GGUF_KEY_SIZE];

    sp_gguf_key(name, w, key);
    return sp_gguf_get_float(w->model->file, name, out, w->err);
}

enum sp_status sp_gguf_read_bool(bool *out, const struct sp_gguf_writer *w, const char *key)
{
    char name[SP_GGUF_KEY_SIZE];

    sp_gguf_key(name, w, key);
    return sp_gguf_get_bool(w->model->file, name, out, w->err);
}

enum sp_status sp_gguf_need_size(uint64_t *out, const struct sp_gguf_writer *w, const char *key)
{
    if (sp_gguf_has(w, key)) return sp_gguf_get_size(out, w, key);
    return sp_fail(w->err, SP_E_INPUT, "%s.%s is missing", w->model->arch->name, key);
}

enum sp_status sp_gguf_head_size(uint64_t *out, const struct sp_gguf_writer *w)
{
    uint64_t hidden, heads;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&hidden, w, "embedding_length"))) return st;
    if ((st = sp_gguf_need_size(&heads, w, "attention.head_count"))) return st;
    *out = heads ? hidden / heads : 0;
    return sp_gguf_get_size(out, w, "attention.key_length");
}

enum sp_status sp_gguf_put_integer(struct sp_gguf_writer *w, const char *key, uint64_t value)
{
    return sp_json_put(&w->text, w->err, ",\n  \"%s\": %" PRIu64, key, value);
}

enum sp_status sp_gguf_put_word(struct sp_gguf_writer *w, const char *key, const char *word)
{
    return sp_json_put(&w->text, w->err, ",\n  \"%s\": %s", key, word);
}

enum sp_status sp_gguf_put_bool(struct sp_gguf_writer *w, const char *key, bool value)
{
    return sp_gguf_put_word(w, key, value ? "true" : "false");
}

enum sp_status sp_gguf_put_float(struct sp_gguf_writer *w, const char *key, double value)
{
    enum sp_status st = sp_json_put(&w->text, w->err, ",\n  \"%s\": ", key);

    return st ? st : sp_json_put_f32(&w->text, (float)value, w->err);
}

enum sp_status sp_gguf_copy_size(struct sp_gguf_writer *w, const char *key, const char *published)
{
    uint64_t value = 0;
    enum sp_status st;

    if (!sp_gguf_has(w, key)) return SP_OK;
    st = sp_gguf_get_size(&value, w, key);
    return st ? st : sp_gguf_put_integer(w, published, value);
}

enum sp_status sp_gguf_copy_float(struct sp_gguf_writer *w, const char *key, const char *published)
{
    double value = 0;
    enum sp_status st;

    if (!sp_gguf_has(w, key)) return SP_OK;
    st = sp_gguf_read_float(&value, w, key);
    return st ? st : sp_gguf_put_float(w, published, value);
}

enum sp_status sp_gguf_copy_id(struct sp_gguf_writer *w, const char *key, const char *published)
{
    uint64_t id = UINT64_MAX;
    enum sp_status st = sp_gguf_token_id(&id, w->model->file, key, w->err);

    return st || id == UINT64_MAX ? st : sp_gguf_put_integer(w, published, id);
}

enum sp_status sp_gguf_finish(char **text, size_t *size, struct sp_gguf_writer *w,
                              enum sp_status st)
{
    if (!st) st = sp_strbuf_append(&w->text, "", 1, w->err);
    if (st) {
        sp_strbuf_release(&w->text);
        return st;
    }
    *text = w->text.at;
    *size = w->text.len - 1;
    return SP_OK;
}
