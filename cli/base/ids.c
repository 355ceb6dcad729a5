#include "cli/base/input_text.h"
#include "format/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_whitespace(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return s;
}

enum sp_status sp_ids_parse(struct sp_ids *out, const char *text, struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};
    const char *s = skip_whitespace(text), *last;
    char *end;
    bool array = *s == '[';

    if ((st = sp_new(&ids.at, strlen(text) / 2 + 1, sizeof *ids.at, err))) return st;
    if (array) s = skip_whitespace(s + 1);
    last = array ? strrchr(s, ']') : NULL;
    if (last != NULL && *skip_whitespace(last + 1) != '\0') last = NULL;
    while (*s && s != last) {
        unsigned long long id = isdigit((unsigned char)*s) ? strtoull(s, &end, 10) : UINT64_MAX;
        if (id > UINT32_MAX) {
            int len = (int)strcspn(s + 1, ", \t\r\n") + 1;
            st = sp_fail(err, SP_E_USAGE, "\"%.*s\" is not a token ID, expected id,id,...",
                         len < 40 ? len : 40, s);
            break;
        }
        ids.at[ids.n++] = (uint32_t)id;
        s = skip_whitespace(end);
        if (*s == ',') s = skip_whitespace(s + 1);
    }
    if (st == SP_OK && array && last == NULL)
        st = sp_fail(err, SP_E_USAGE, "token IDs begin with [ but do not end with ]");
    if (st) sp_ids_release(&ids);
    *out = ids;
    return st;
}

enum sp_status sp_ids_of_json(struct sp_ids *out, const struct sp_json *array, struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};
    uint64_t id;

    if (sp_json_kind(array) != SP_JSON_ARRAY) {
        return sp_fail(err, SP_E_INPUT, "expected an array of token IDs, found %s",
                       sp_json_kind_name(sp_json_kind(array)));
    }
    if ((st = sp_new(&ids.at, sp_json_len(array), sizeof *ids.at, err))) return st;
    for (; ids.n < sp_json_len(array); ids.n++) {
        if (!sp_json_to_u64(sp_json_at(array, ids.n), &id) || id > UINT32_MAX) {
            st = sp_fail(err, SP_E_INPUT, "element %zu is not a token ID", ids.n);
            sp_ids_release(&ids);
            return st;
        }
        ids.at[ids.n] = (uint32_t)id;
    }
    *out = ids;
    return SP_OK;
}

enum sp_status sp_ids_append(struct sp_ids *to, const uint32_t *ids, size_t n, struct sp_err *err)
{
    size_t cap = to->n;
    enum sp_status st = sp_grow(&to->at, &cap, to->n + n, sizeof *to->at, err);

    if (st) return st;
    if (n) memcpy(to->at + to->n, ids, n * sizeof *ids);
    to->n += n;
    return SP_OK;
}

void sp_ids_release(struct sp_ids *ids)
{
    free(ids->at);
    *ids = (struct sp_ids){0};
}

void sp_ids_to_json(struct sp_json_out *out, const char *key, const uint32_t *ids, size_t n)
{
    sp_json_out_begin(out, key, '[');
    for (size_t i = 0; i < n; i++)
        sp_json_out_u64(out, NULL, ids[i]);
    sp_json_out_end(out, ']');
}
