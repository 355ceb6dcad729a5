/* Reads quantization_config: checks the method, and collects the sizes of blocks and groups. The
 * methods that pack codes into words are in prequantized_words.c.
 *
 * Lists of modules that are or are not quantized (ignore, targets, modules_to_not_convert) are not
 * read, because they may be patterns and the tensors show it more reliably. */
#include "format/config/prequantized_parts.h"

#include <stdio.h>
#include <string.h>

static const int64_t MAX_TILE = 1 << 24;

/* Adds a tile unless it is listed. */
static enum sp_status add_tile(struct sp_prequantized *out, uint64_t rows, uint64_t cols,
                               struct sp_err *err)
{
    for (size_t i = 0; i < out->n_tiles; i++)
        if (out->tiles[i].rows == rows && out->tiles[i].cols == cols) return SP_OK;
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
    if (rows < 1 || cols < 1 || rows > MAX_TILE || cols > MAX_TILE)
        return sp_fail(err, SP_E_INPUT, "%s: expected rows and columns of a block", key);
    return add_tile(out, (uint64_t)rows, (uint64_t)cols, err);
}

enum sp_status sp_quant_read_group(struct sp_prequantized *out, const struct sp_json *object,
                                   const char *key, struct sp_err *err)
{
    int64_t size = -1; /* -1: no groups */
    enum sp_status st;

    if ((st = sp_json_get_i64(object, key, -1, MAX_TILE, &size, err))) return st;
    return size > 0 ? add_tile(out, 1, (uint64_t)size, err) : SP_OK;
}

static enum sp_status check_format(const struct sp_json *object, struct sp_err *err)
{
    static const char *const known[] = {
        "float-quantized", "naive-quantized",      "int-quantized",
        "pack-quantized",  "nvfp4-pack-quantized", "mixed-precision",
        "dense",           "mxfp4-pack-quantized", "mxfp8-quantized",
    };
    const char *format = known[0];
    enum sp_status st;

    if ((st = sp_json_get_string(object, "format", &format, err))) return st;
    if (sp_is_one_of(format, known, sizeof known / sizeof known[0])) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "compressed-tensors format \"%s\" is not supported",
                   format);
}

/* Refuses a transform that runs with the model. One that is folded into the weights needs
 * nothing. */
static enum sp_status check_transform(const struct sp_json *scheme, const char *name,
                                      struct sp_err *err)
{
    const struct sp_json *apply = sp_json_get(scheme, "apply");

    for (size_t i = 0; i < sp_json_len(apply); i++) {
        const char *location = "unnamed";
        enum sp_status st;
        st = sp_json_get_string(sp_json_at(apply, i), "location", &location, err);
        if (st) return st;
        if (strcmp(location, "weight_input") == 0 || strcmp(location, "weight_output") == 0)
            continue;
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "transform_config: \"%s\" transforms at location \"%s\", which is not "
                       "supported; only weight_input and weight_output are",
                       name, location);
    }
    return SP_OK;
}

static enum sp_status read_compressed_tensors(struct sp_prequantized *out, const struct sp_json *q,
                                              struct sp_err *err)
{
    const struct sp_json *groups = sp_json_get(q, "config_groups");
    const struct sp_json *transforms =
        sp_json_get(sp_json_get(q, "transform_config"), "config_groups");
    const char *sparsity = "dense";
    enum sp_status st;

    if ((st = check_format(q, err))) return st;
    st = sp_json_get_string(sp_json_get(q, "sparsity_config"), "format", &sparsity, err);
    if (st) return st;
    if (strcmp(sparsity, "dense") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "sparsity_config: format \"%s\" is not supported",
                       sparsity);
    }
    for (struct sp_json_iter it = {0}; sp_json_next(transforms, &it);)
        if ((st = check_transform(it.value, it.key, err))) return st;
    for (struct sp_json_iter it = {0}; sp_json_next(groups, &it);) {
        const struct sp_json *weights = sp_json_get(it.value, "weights");
        if ((st = check_format(it.value, err)) ||
            (st = sp_quant_read_group(out, weights, "group_size", err)) ||
            (st = read_block(out, weights, "block_structure", err)))
            return st;
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
    if (!sp_is_one_of(algo, known, sizeof known / sizeof known[0]))
        return sp_fail(err, SP_E_UNSUPPORTED, "modelopt algorithm \"%s\" is not supported", algo);
    return sp_quant_read_group(out, q, "group_size", err);
}

static enum sp_status read_blocks(struct sp_prequantized *out, const struct sp_json *q,
                                  struct sp_err *err)
{
    return read_block(out, q, "weight_block_size", err);
}

static enum sp_status read_nothing(struct sp_prequantized *out, const struct sp_json *q,
                                   struct sp_err *err)
{
    (void)out;
    (void)q;
    (void)err;
    return SP_OK;
}

static const struct {
    const char *name; /* quant_method */
    enum sp_quant_layout layout;
    sp_quant_read_fn *read;
} methods[] = {
    {"fp8", SP_QUANT_SCALED, read_blocks},
    {"fbgemm_fp8", SP_QUANT_SCALED, read_nothing},
    {"compressed-tensors", SP_QUANT_SCALED, read_compressed_tensors},
    {"modelopt", SP_QUANT_SCALED, read_modelopt},
    {"mxfp4", SP_QUANT_SCALED, read_nothing},
    {"mlx", SP_QUANT_MLX, sp_quant_read_mlx},
    {"gptq", SP_QUANT_GPTQ, sp_quant_read_gptq},
    {"awq", SP_QUANT_AWQ, sp_quant_read_awq},
    {"auto-round", SP_QUANT_GPTQ, sp_quant_read_auto_round},
    {"intel/auto-round", SP_QUANT_GPTQ, sp_quant_read_auto_round},
    {"bitsandbytes", SP_QUANT_BNB, sp_quant_read_bitsandbytes},
};

static enum sp_status read_method(struct sp_prequantized *out, const struct sp_json *q,
                                  const char *method, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_json_get_string(q, "quant_method", &method, err))) return st;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(method, methods[i].name) != 0) continue;
        out->layout = methods[i].layout;
        return methods[i].read(out, q, err);
    }
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "checkpoints quantized by method \"%s\" are not supported", method);
}

enum sp_status sp_prequantized_parse_file(struct sp_prequantized *out, const struct sp_json *root,
                                          const char *method, struct sp_err *err)
{
    *out = (struct sp_prequantized){0};
    return read_method(out, root, method, err);
}

/* mlx-lm adds its `quantization` beside the quantization_config of the model that it converted. */
enum sp_status sp_prequantized_parse(struct sp_prequantized *out, const struct sp_json *root,
                                     struct sp_err *err)
{
    static const char *const keys[] = {"quantization", "quantization_config", "compression_config"};
    const struct sp_json *texts[] = {root, sp_json_get(root, "text_config")};

    *out = (struct sp_prequantized){0};
    for (size_t i = 0; i < 2 * sizeof keys / sizeof keys[0]; i++) {
        const char *key = keys[i / 2];
        const struct sp_json *q = sp_json_get(texts[i % 2], key);
        enum sp_status st;
        if (q == NULL || (sp_json_kind(q) == SP_JSON_OBJECT && sp_json_len(q) == 0)) continue;
        if ((st = read_method(out, q, i < 2 ? "mlx" : "unnamed", err))) sp_context(err, "%s", key);
        return st;
    }
    return SP_OK;
}
