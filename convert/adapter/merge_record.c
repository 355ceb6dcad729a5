#include "convert/adapter/merge.h"

#include "format/base/number_text.h"
#include "format/json/json_write.h"
#include "format/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RECORDS = 1000 };

static const char *const format_names[] = {
    [SP_ADAPTER_PEFT] = "peft", [SP_ADAPTER_MLX] = "mlx", [SP_ADAPTER_GGUF] = "gguf"};

const char *sp_adapter_format_name(enum sp_adapter_format format)
{
    return format_names[format];
}

struct sp_merge_record sp_merge_record_of(const struct sp_adapter *a)
{
    struct sp_merge_record r = {
        .format = a->config.format,
        .digest = a->digest,
        .n_products = a->n_products,
        .has_magnitudes = a->config.has_magnitudes,
        .n_wholes = a->n_wholes,
    };

    for (size_t i = 0; i < a->n_products; i++) {
        const struct sp_adapter_product *p = &a->products[i];
        uint64_t rank = sp_adapter_factors(a, p).rank;
        if (p->experts) r.n_products += p->a->shape[0] - 1;
        if (i == 0 || rank < r.rank[0]) r.rank[0] = rank;
        if (i == 0 || rank > r.rank[1]) r.rank[1] = rank;
        if (i == 0 || p->scale < r.scale[0]) r.scale[0] = p->scale;
        if (i == 0 || p->scale > r.scale[1]) r.scale[1] = p->scale;
    }
    return r;
}

void sp_merge_words(char text[SP_MERGE_WORDS], const struct sp_merge_record *r)
{
    char rank[64], scale[64], products[200] = "", wholes[48] = "";

    snprintf(rank, sizeof rank, r->rank[0] < r->rank[1] ? "%" PRIu64 " to %" PRIu64 : "%" PRIu64,
             r->rank[0], r->rank[1]);
    sp_number_print(scale, sizeof scale, r->scale[0] < r->scale[1] ? "%.6g to %.6g" : "%.6g",
                    r->scale[0], r->scale[1]);
    if (r->n_products) {
        snprintf(products, sizeof products, "%" PRIu64 " low-rank product%s of rank %s, scale %s%s",
                 r->n_products, r->n_products == 1 ? "" : "s", rank, scale,
                 r->has_magnitudes ? ", DoRA" : "");
    }
    if (r->n_wholes) {
        snprintf(wholes, sizeof wholes, "%s%" PRIu64 " whole tensor%s", r->n_products ? ", " : "",
                 r->n_wholes, r->n_wholes == 1 ? "" : "s");
    }
    snprintf(text, SP_MERGE_WORDS, "%s%s", products, wholes);
}

static void put_record(struct sp_json_out *out, const struct sp_merge_record *r)
{
    sp_json_out_print(out,
                      "{\"format\":\"%s\",\"digest\":\"%016" PRIx64 "\",\"products\":%" PRIu64
                      ",\"rank\":[%" PRIu64 ",%" PRIu64 "],",
                      sp_adapter_format_name(r->format), r->digest, r->n_products, r->rank[0],
                      r->rank[1]);
    sp_json_out_print(out, "\"scale\":[%.17g,%.17g],\"magnitudes\":%s,\"tensors\":%" PRIu64 "}",
                      r->scale[0], r->scale[1], r->has_magnitudes ? "true" : "false", r->n_wholes);
}

enum sp_status sp_merge_records_add(struct sp_text *out, const struct sp_text *text,
                                    const struct sp_merge_record *record, struct sp_err *err)
{
    struct sp_merge_record *before = NULL;
    struct sp_json_out joined = {0};
    enum sp_status st;
    size_t n = 0;

    if (text->at) {
        if ((st = sp_merge_records_read(&before, &n, text->at, text->size, err))) return st;
        free(before);
    }
    /* [A] and B become [A,B]. */
    if (n) sp_json_out_bytes(&joined, text->at, text->size - 1);
    sp_json_out_raw(&joined, n ? "," : "[");
    put_record(&joined, record);
    sp_json_out_raw(&joined, "]");
    return sp_json_out_take(out, &joined, err);
}

/* Two numbers, the second not the smaller. */
static bool read_range(double out[2], const struct sp_json *array)
{
    return sp_json_len(array) == 2 && sp_json_to_double(sp_json_at(array, 0), &out[0]) &&
           sp_json_to_double(sp_json_at(array, 1), &out[1]) && out[0] <= out[1];
}

static bool read_format(enum sp_adapter_format *out, const char *name)
{
    for (unsigned i = 0; i < sizeof format_names / sizeof *format_names; i++) {
        if (strcmp(name, format_names[i]) != 0) continue;
        *out = (enum sp_adapter_format)i;
        return true;
    }
    return false;
}

static bool read_record(struct sp_merge_record *out, const struct sp_json *v)
{
    const char *format = sp_json_to_string(sp_json_get(v, "format"), NULL);
    const char *digest = sp_json_to_string(sp_json_get(v, "digest"), NULL);
    double rank[2];

    if (format == NULL || digest == NULL || strlen(digest) != 16 ||
        strspn(digest, "0123456789abcdef") != 16)
        return false;
    if (!read_format(&out->format, format)) return false;
    out->digest = strtoull(digest, NULL, 16);
    if (!read_range(rank, sp_json_get(v, "rank")) || rank[0] < 0 || rank[1] > 1e9) return false;
    for (int i = 0; i < 2; i++)
        out->rank[i] = (uint64_t)rank[i];
    return read_range(out->scale, sp_json_get(v, "scale")) &&
           sp_json_to_u64(sp_json_get(v, "products"), &out->n_products) &&
           sp_json_to_u64(sp_json_get(v, "tensors"), &out->n_wholes) &&
           sp_json_to_bool(sp_json_get(v, "magnitudes"), &out->has_magnitudes);
}

enum sp_status sp_merge_records_read(struct sp_merge_record **out, size_t *n, const char *text,
                                     size_t size, struct sp_err *err)
{
    struct sp_merge_record *records = NULL;
    struct sp_json *root = NULL;
    enum sp_status st;
    size_t len = 0;
    bool good;

    if ((st = sp_json_parse_within(&root, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err)))
        goto done;
    len = sp_json_len(root);
    good = sp_json_kind(root) == SP_JSON_ARRAY && len >= 1 && len <= MAX_RECORDS &&
           text[size - 1] == ']';
    if (good && (st = sp_new(&records, len, sizeof *records, err))) goto done;
    for (size_t i = 0; good && i < len; i++)
        good = read_record(&records[i], sp_json_at(root, i));
    if (!good) st = sp_fail(err, SP_E_INPUT, "not a list of merged adapters");
    if (st) goto done;
    *out = records;
    *n = len;
    records = NULL;
done:
    if (st) sp_context(err, "adapters");
    free(records);
    sp_json_free(root);
    return st;
}
