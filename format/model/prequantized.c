/* Reads quantization_config: checks the method, and collects the sizes of blocks and groups.
 *
 * Lists of modules that are or are not quantized (ignore, targets, modules_to_not_convert) are not
 * read, because they may be patterns and the tensors show it more reliably. */
#include "format/model/prequantized.h"

#include <stdio.h>
#include <string.h>

static const int64_t MAX_TILE = 1 << 24;

static bool is_one_of(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, list[i]) == 0) return true;
    }
    return false;
}

static enum sp_status add_tile(struct sp_prequantized *out, uint64_t rows, uint64_t cols,
                               struct sp_err *err)
{
    for (size_t i = 0; i < out->n_tiles; i++) {
        if (out->tiles[i].rows == rows && out->tiles[i].cols == cols) return SP_OK;
    }
    if (out->n_tiles == SP_MAX_TILES) {
        return sp_fail(err, SP_E_UNSUPPORTED, "more than %d sizes of blocks and groups",
                       SP_MAX_TILES);
    }
    out->tiles[out->n_tiles++] = (struct sp_tile){rows, cols};
    return SP_OK;
}

/* Adds the tile of a key that may be missing: [rows, columns], or "128x128" in old files. */
static enum sp_status read_block(struct sp_prequantized *out, const struct sp_json *object,
                                 const char *key, struct sp_err *err)
{
    const struct sp_json *v = sp_json_get(object, key);
    const char *text = sp_json_to_string(v, NULL);
    int64_t rows = 0, cols = 0;

    if (v == NULL) return SP_OK;
    if (text) {
        unsigned r = 0, c = 0;
        char end;
        if (sscanf(text, "%8ux%8u%c", &r, &c, &end) == 2) {
            rows = r;
            cols = c;
        }
    } else if (sp_json_kind(v) == SP_JSON_ARRAY && sp_json_len(v) == 2) {
        if (!sp_json_to_i64(sp_json_at(v, 0), &rows)) rows = 0;
        if (!sp_json_to_i64(sp_json_at(v, 1), &cols)) cols = 0;
    }
    if (rows < 1 || cols < 1 || rows > MAX_TILE || cols > MAX_TILE) {
        return sp_fail(err, SP_E_INPUT, "%s: expected rows and columns of a block", key);
    }
    return add_tile(out, (uint64_t)rows, (uint64_t)cols, err);
}

static enum sp_status read_group(struct sp_prequantized *out, const struct sp_json *object,
                                 struct sp_err *err)
{
    int64_t size = -1; /* -1: no groups */
    enum sp_status st;

    if ((st = sp_json_get_i64(object, "group_size", -1, MAX_TILE, &size, err))) return st;
    return size > 0 ? add_tile(out, 1, (uint64_t)size, err) : SP_OK;
}

static enum sp_status check_format(const struct sp_json *object, struct sp_err *err)
{
    static const char *const known[] = {
        "float-quantized",      "naive-quantized", "int-quantized", "pack-quantized",
        "nvfp4-pack-quantized", "mixed-precision", "dense",
    };
    const char *format = known[0];
    enum sp_status st;

    if ((st = sp_json_get_string(object, "format", &format, err))) return st;
    if (is_one_of(format, known, sizeof known / sizeof known[0])) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "compressed-tensors format \"%s\" is not supported",
                   format);
}

static enum sp_status read_compressed_tensors(struct sp_prequantized *out, const struct sp_json *q,
                                              struct sp_err *err)
{
    const struct sp_json *groups = sp_json_get(q, "config_groups");
    const char *sparsity = "dense";
    enum sp_status st;

    if ((st = check_format(q, err))) return st;
    st = sp_json_get_string(sp_json_get(q, "sparsity_config"), "format", &sparsity, err);
    if (st) return st;
    if (strcmp(sparsity, "dense") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "sparsity_config: format \"%s\" is not supported",
                       sparsity);
    }
    if (sp_json_len(sp_json_get(sp_json_get(q, "transform_config"), "config_groups"))) {
        return sp_fail(err, SP_E_UNSUPPORTED, "transform_config is not supported");
    }
    for (struct sp_json_iter it = {0}; sp_json_next(groups, &it);) {
        const struct sp_json *weights = sp_json_get(it.value, "weights");
        if ((st = check_format(it.value, err)) || (st = read_group(out, weights, err)) ||
            (st = read_block(out, weights, "block_structure", err))) {
            return st;
        }
    }
    return SP_OK;
}

/* quant_algo may be missing in checkpoints that mix formats. */
static enum sp_status read_modelopt(struct sp_prequantized *out, const struct sp_json *q,
                                    struct sp_err *err)
{
    static const char *const known[] = {"FP8", "NVFP4", "MIXED_PRECISION"};
    const char *algo = known[0];
    enum sp_status st;

    if ((st = sp_json_get_string(q, "quant_algo", &algo, err))) return st;
    if (!is_one_of(algo, known, sizeof known / sizeof known[0])) {
        return sp_fail(err, SP_E_UNSUPPORTED, "modelopt algorithm \"%s\" is not supported", algo);
    }
    return read_group(out, q, err);
}

static enum sp_status read_method(struct sp_prequantized *out, const struct sp_json *q,
                                  const char *key, struct sp_err *err)
{
    const char *method = strcmp(key, "quantization") == 0 ? "mlx" : "unnamed";
    enum sp_status st;

    if ((st = sp_json_get_string(q, "quant_method", &method, err))) return st;
    if (strcmp(method, "fp8") == 0) return read_block(out, q, "weight_block_size", err);
    if (strcmp(method, "compressed-tensors") == 0) return read_compressed_tensors(out, q, err);
    if (strcmp(method, "modelopt") == 0) return read_modelopt(out, q, err);
    if (strcmp(method, "mxfp4") == 0) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "checkpoints quantized by method \"%s\" are not supported", method);
}

enum sp_status sp_prequantized_parse(struct sp_prequantized *out, const struct sp_json *root,
                                     struct sp_err *err)
{
    static const char *const keys[] = {"quantization_config", "compression_config", "quantization"};
    const struct sp_json *texts[] = {root, sp_json_get(root, "text_config")};

    *out = (struct sp_prequantized){0};
    for (size_t i = 0; i < 2 * sizeof keys / sizeof keys[0]; i++) {
        const char *key = keys[i / 2];
        const struct sp_json *q = sp_json_get(texts[i % 2], key);
        enum sp_status st;
        if (q == NULL || (sp_json_kind(q) == SP_JSON_OBJECT && sp_json_len(q) == 0)) continue;
        if ((st = read_method(out, q, key, err))) sp_context(err, "%s", key);
        return st;
    }
    return SP_OK;
}
