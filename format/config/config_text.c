/* Lookup of keys in the config of a language model. The config of a multimodal checkpoint has the
 * keys of its text model in text_config, and common keys at the root. */
#include "format/config/config_text.h"

#include "format/config/family_row.h"

#include <string.h>

static const struct sp_json *find_exact(const struct sp_config_text *t, const char *key)
{
    const char *nested = t->family ? t->family->nested : NULL;
    const struct sp_json *object;

    if (t->skips_null ? sp_json_get(t->text, key) != NULL : sp_json_has(t->text, key))
        return t->text;
    if (sp_json_has(t->root, key)) return t->root;
    object = nested ? sp_json_get(t->text ? t->text : t->root, nested) : NULL;
    return sp_json_has(object, key) ? object : NULL;
}

/* *key becomes the family's other spelling of it if only that is there. */
static const struct sp_json *find(const struct sp_config_text *t, const char **key)
{
    const struct sp_json *holder = *key ? find_exact(t, *key) : NULL;
    const struct sp_key_name *name = t->family ? t->family->key_names : NULL;

    for (; *key && holder == NULL && name && name->other; name++) {
        if (strcmp(name->key, *key) != 0) continue;
        holder = find_exact(t, name->other);
        if (holder) *key = name->other;
    }
    return holder;
}

bool sp_text_has(const struct sp_config_text *t, const char *key)
{
    return find(t, &key) != NULL;
}

const struct sp_json *sp_text_get(const struct sp_config_text *t, const char *key)
{
    const struct sp_json *holder = find(t, &key);

    return sp_json_get(holder, key);
}

enum sp_status sp_object_unsigned(const struct sp_json *object, const char *key, unsigned min,
                                  unsigned max, unsigned *out, struct sp_err *err)
{
    int64_t v = *out;
    enum sp_status st = sp_json_get_i64(object, key, min, max, &v, err);

    if (!st) *out = (unsigned)v;
    return st;
}

void sp_member_unsigned(const struct sp_config_text *t, const struct sp_json *object,
                        const char *key, unsigned min, unsigned max, unsigned *out)
{
    (void)!sp_object_unsigned(object, key, min, max, out, t->err);
}

void sp_member_double(const struct sp_config_text *t, const struct sp_json *object, const char *key,
                      double min, double max, double *out)
{
    (void)!sp_json_get_double(object, key, min, max, out, t->err);
}

void sp_member_bool(const struct sp_config_text *t, const struct sp_json *object, const char *key,
                    bool *out)
{
    (void)!sp_json_get_bool(object, key, out, t->err);
}

void sp_member_string(const struct sp_config_text *t, const struct sp_json *object, const char *key,
                      const char **out)
{
    (void)!sp_json_get_string(object, key, out, t->err);
}

void sp_text_unsigned(const struct sp_config_text *t, const char *key, unsigned min, unsigned max,
                      unsigned *out)
{
    const struct sp_json *holder = find(t, &key);

    sp_member_unsigned(t, holder, key, min, max, out);
}

void sp_text_uniform(const struct sp_config_text *t, const char *key, unsigned min, unsigned max,
                     unsigned *out)
{
    const struct sp_json *list = sp_text_get(t, key);
    int64_t first = *out, v;

    if (sp_json_kind(list) != SP_JSON_ARRAY) {
        sp_text_unsigned(t, key, min, max, out);
        return;
    }
    for (size_t i = 0; i < sp_json_len(list) && !sp_text_failed(t); i++) {
        v = -1;
        if (!sp_json_to_i64(sp_json_at(list, i), &v) || v < min || v > max)
            SP_INVALID(t, "%s[%zu] is not a number from %u to %u", key, i, min, max);
        if (i == 0) first = v;
        if (v != first) SP_REFUSED(t, "%s that differs from layer to layer is not supported", key);
    }
    if (!sp_text_failed(t)) *out = (unsigned)first;
}

void sp_text_i64(const struct sp_config_text *t, const char *key, int64_t min, int64_t max,
                 int64_t *out)
{
    const struct sp_json *holder = find(t, &key);

    (void)!sp_json_get_i64(holder, key, min, max, out, t->err);
}

void sp_text_double(const struct sp_config_text *t, const char *key, double min, double max,
                    double *out)
{
    const struct sp_json *holder = find(t, &key);

    sp_member_double(t, holder, key, min, max, out);
}

void sp_text_bool(const struct sp_config_text *t, const char *key, bool *out)
{
    const struct sp_json *holder = find(t, &key);

    sp_member_bool(t, holder, key, out);
}

void sp_text_flag(const struct sp_config_text *t, const char *key, bool *out)
{
    if (sp_text_has(t, key) && sp_text_get(t, key) == NULL) *out = false;
    sp_text_bool(t, key, out);
}

void sp_text_string(const struct sp_config_text *t, const char *key, const char **out)
{
    const struct sp_json *holder = find(t, &key);

    sp_member_string(t, holder, key, out);
}

void sp_text_need(const struct sp_config_text *t, const char *key)
{
    bool on = true;

    sp_text_bool(t, key, &on);
    if (!on) SP_REFUSED(t, "%s false is not supported for %s", key, t->family->name);
}
