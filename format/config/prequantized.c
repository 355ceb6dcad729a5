/* Reads quantization_config: checks the method, and collects the sizes of blocks and groups. An
 * option that changes the layout and is not read is refused by name.
 *
 * Lists of modules that are or are not quantized (ignore, targets, modules_to_not_convert) are not
 * read, because they may be patterns and the tensors show it more reliably. */
#include "format/config/prequantized.h"

#include "format/base/affix.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PATH_LEN = 512 };

static const int64_t MAX_TILE = 1 << 24;

#define COUNT(list) (sizeof(list) / sizeof *(list))

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

/* Adds the tile of a group size, of one row. A missing, null or negative one means whole rows. */
static enum sp_status read_group(struct sp_prequantized *out, const struct sp_json *object,
                                 const char *key, struct sp_err *err)
{
    int64_t size = -1; /* -1: no groups */
    enum sp_status st;

    if ((st = sp_json_get_i64(object, key, -1, MAX_TILE, &size, err))) return st;
    return size > 0 ? add_tile(out, 1, (uint64_t)size, err) : SP_OK;
}

/* ---- methods with a scale beside the weight ---- */

static enum sp_status check_format(const struct sp_json *object, struct sp_err *err)
{
    static const char known[] =
        "float-quantized naive-quantized int-quantized pack-quantized nvfp4-pack-quantized "
        "mixed-precision dense mxfp4-pack-quantized mxfp8-quantized";
    const char *format = "float-quantized";
    enum sp_status st;

    if ((st = sp_json_get_string(object, "format", &format, err))) return st;
    if (sp_is_among(format, known)) return SP_OK;
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

    out->has_zeros = out->has_index = sp_json_len(groups) > 0;
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
        bool symmetric = true;
        const char *order = sp_json_get_text(weights, "actorder");
        if ((st = check_format(it.value, err))) return st;
        if ((st = sp_json_get_bool(weights, "symmetric", &symmetric, err))) return st;
        if (symmetric) out->has_zeros = false;
        if (order == NULL || strcmp(order, "group") != 0) out->has_index = false;
        if ((st = read_group(out, weights, "group_size", err))) return st;
        if ((st = read_block(out, weights, "block_structure", err))) return st;
    }
    return SP_OK;
}

/* quant_algo may be missing in checkpoints that mix formats. */
static enum sp_status read_modelopt(struct sp_prequantized *out, const struct sp_json *q,
                                    struct sp_err *err)
{
    const char *algo = "FP8";
    enum sp_status st;

    if ((st = sp_json_get_string(q, "quant_algo", &algo, err))) return st;
    if (!sp_is_among(algo, "FP8 NVFP4 MIXED_PRECISION"))
        return sp_fail(err, SP_E_UNSUPPORTED, "modelopt algorithm \"%s\" is not supported", algo);
    return read_group(out, q, "group_size", err);
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

/* ---- methods that pack codes into words ---- */

/* A string that must be one of the words `known` where it is stated. */
static enum sp_status check_text(const struct sp_json *q, const char *key, const char *known,
                                 const char **value, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_json_get_string(q, key, value, err))) return st;
    if (*value == NULL || sp_is_among(*value, known)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s \"%s\" is not supported", key, *value);
}

/* A number of bits that must be one of the digits of `known`. */
static enum sp_status check_bits(const struct sp_json *q, const char *key, const char *known,
                                 int64_t *bits, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_json_get_i64(q, key, 0, 64, bits, err))) return st;
    if (*bits >= 1 && *bits <= 9 && strchr(known, (int)('0' + *bits))) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s %lld is not supported", key, (long long)*bits);
}

static enum sp_status refuse_if_true(const struct sp_json *q, const char *key, struct sp_err *err)
{
    bool set = false;
    enum sp_status st;

    if ((st = sp_json_get_bool(q, key, &set, err)) || !set) return st;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s true is not supported", key);
}

/* ---- GPTQ and AutoRound ---- */

/* The rules of `dynamic` by regular expressions, or extra_config by module paths: bits and groups
 * of some modules. Shapes show the bits, and which modules are quantized at all. */
static enum sp_status read_rules(struct sp_prequantized *out, const struct sp_json *rules,
                                 const char *known_bits, struct sp_err *err)
{
    for (struct sp_json_iter it = {0}; sp_json_next(rules, &it);) {
        int64_t bits = 16;
        enum sp_status st;
        if (it.key[0] == '-') continue;
        if ((st = sp_json_get_i64(it.value, "bits", 1, 64, &bits, err))) return st;
        if (bits >= 16) continue;
        if (sp_json_get(it.value, "bits"))
            st = check_bits(it.value, "bits", known_bits, &bits, err);
        if (st || (st = read_group(out, it.value, "group_size", err))) {
            sp_context(err, "%s", it.key);
            return st;
        }
    }
    return SP_OK;
}

static enum sp_status read_gptq(struct sp_prequantized *out, const struct sp_json *q,
                                struct sp_err *err)
{
    static const char formats[] = "gptq gptq_v2";
    const char *format = NULL, *pack = NULL;
    int64_t bits = 4;
    enum sp_status st;

    if ((st = check_text(q, "checkpoint_format", formats, &format, err))) return st;
    if (format == NULL && (st = check_text(q, "format", formats, &format, err))) return st;
    if ((st = check_text(q, "pack_dtype", "int32", &pack, err))) return st;
    if ((st = refuse_if_true(q, "is_marlin_format", err))) return st;
    if ((st = check_bits(q, "bits", "2348", &bits, err))) return st;
    if ((st = read_group(out, q, "group_size", err))) return st;
    if ((st = read_rules(out, sp_json_get(q, "dynamic"), "2348", err))) return st;
    out->bits = (unsigned)bits;
    out->zeros_less_one = format == NULL || strcmp(format, "gptq") == 0;
    return SP_OK;
}

static enum sp_status read_auto_round(struct sp_prequantized *out, const struct sp_json *q,
                                      struct sp_err *err)
{
    static const char packings[] =
        "auto_round:auto_gptq auto_round auto_round:gptqmodel auto_round:auto_awq";
    const char *packing = "auto_round:auto_gptq", *type = NULL;
    int64_t bits = 4;
    enum sp_status st;

    if ((st = check_text(q, "packing_format", packings, &packing, err))) return st;
    if ((st = check_text(q, "data_type", "int", &type, err))) return st;
    if ((st = check_bits(q, "bits", "2348", &bits, err))) return st;
    if ((st = read_group(out, q, "group_size", err))) return st;
    if ((st = read_rules(out, sp_json_get(q, "extra_config"), "2348", err))) return st;
    out->bits = (unsigned)bits;
    if (strcmp(packing, "auto_round:auto_awq") == 0) out->layout = SP_QUANT_AWQ;
    out->zeros_less_one = strcmp(packing, "auto_round:auto_gptq") == 0;
    return SP_OK;
}

/* ---- AWQ ---- */

/* Old files have w_bit, q_group_size and "GEMM", and those of GPTQModel checkpoint_format. The
 * layout of llm-awq is a third one. */
static enum sp_status read_awq(struct sp_prequantized *out, const struct sp_json *q,
                               struct sp_err *err)
{
    static const char *const keys[] = {"version", "format", "checkpoint_format"};
    const char *version = NULL, *backend = "autoawq";
    int64_t bits = 4;
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < COUNT(keys) && version == NULL; i++) {
        st = check_text(q, keys[i], "gemm GEMM exllama gemv GEMV", &version, err);
        if (st) return st;
    }
    if ((st = sp_json_get_string(q, "backend", &backend, err))) return st;
    if ((st = check_bits(q, "bits", "4", &bits, err))) return st;
    if ((st = check_bits(q, "w_bit", "4", &bits, err))) return st;
    if ((st = read_group(out, q, "group_size", err))) return st;
    if ((st = read_group(out, q, "q_group_size", err))) return st;
    if (strcmp(backend, "llm-awq") == 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "backend \"%s\" is not supported", backend);
    if (version && sp_is_among(version, "gemv GEMV")) out->layout = SP_QUANT_AWQ_V;
    return SP_OK;
}

/* ---- MLX ---- */

static const struct {
    const char *name;
    enum sp_mlx_mode mode;
    unsigned group;
    const char *bits; /* digits; the first is the default */
} mlx_modes[] = {
    {"affine", SP_MLX_AFFINE, 64, "423568"},
    {"mxfp4", SP_MLX_MXFP4, 32, "4"},
    {"nvfp4", SP_MLX_NVFP4, 16, "4"},
    {"mxfp8", SP_MLX_MXFP8, 32, "8"},
};

/* Reads the mode of the whole model or of one module, which may have its own; affine by default. */
static enum sp_status read_mlx_format(struct sp_mlx_format *out, const struct sp_json *q,
                                      struct sp_err *err)
{
    const char *mode = "affine";
    int64_t group, bits;
    size_t i = 0;
    enum sp_status st;

    if ((st = sp_json_get_string(q, "mode", &mode, err))) return st;
    while (i < COUNT(mlx_modes) && strcmp(mode, mlx_modes[i].name) != 0)
        i++;
    if (i == COUNT(mlx_modes))
        return sp_fail(err, SP_E_UNSUPPORTED, "mode \"%s\" is not supported", mode);
    group = mlx_modes[i].group;
    bits = mlx_modes[i].bits[0] - '0';
    if ((st = check_bits(q, "bits", mlx_modes[i].bits, &bits, err))) return st;
    if ((st = sp_json_get_i64(q, "group_size", 1, 1 << 24, &group, err))) return st;
    if (i == 0 ? group != 32 && group != 64 && group != 128 : group != mlx_modes[i].group) {
        return sp_fail(err, SP_E_UNSUPPORTED, "group_size %lld is not supported for mode \"%s\"",
                       (long long)group, mode);
    }
    *out = (struct sp_mlx_format){mlx_modes[i].mode, (unsigned)bits, (unsigned)group, true};
    return SP_OK;
}

enum sp_status sp_prequantized_mlx(struct sp_mlx_format *out, const struct sp_prequantized *stated,
                                   const char *path, size_t len, struct sp_err *err)
{
    char key[MAX_PATH_LEN];
    const struct sp_json *own = NULL;
    bool quantized = true;
    enum sp_status st;

    if (len < sizeof key) {
        snprintf(key, sizeof key, "%.*s", (int)len, path);
        own = sp_json_get(stated->json, key);
    }
    (void)sp_json_to_bool(own, &quantized);
    st = read_mlx_format(out, sp_json_kind(own) == SP_JSON_OBJECT ? own : stated->json, err);
    out->quantized = quantized;
    return st;
}

static enum sp_status read_mlx(struct sp_prequantized *out, const struct sp_json *q,
                               struct sp_err *err)
{
    struct sp_mlx_format ignored;
    enum sp_status st;

    if ((st = read_mlx_format(&ignored, q, err))) return st;
    for (struct sp_json_iter it = {0}; sp_json_next(q, &it);) {
        bool flag;
        if (sp_is_among(it.key, "group_size bits mode quant_method")) continue;
        if (sp_json_to_bool(it.value, &flag)) continue;
        if (sp_json_kind(it.value) != SP_JSON_OBJECT) {
            return sp_fail(err, SP_E_UNSUPPORTED,
                           "%s: expected an object, true or false, as for a module", it.key);
        }
        if ((st = read_mlx_format(&ignored, it.value, err))) {
            sp_context(err, "%s", it.key);
            return st;
        }
    }
    out->json = q;
    return SP_OK;
}

/* ---- bitsandbytes ---- */

/* Types, blocks and shapes stand beside each weight. */
static enum sp_status read_bitsandbytes(struct sp_prequantized *out, const struct sp_json *q,
                                        struct sp_err *err)
{
    const char *type = NULL;

    (void)out;
    return check_text(q, "bnb_4bit_quant_type", "nf4 fp4", &type, err);
}

/* ---- BitNet ---- */

/* With mode online the weights of the file are rounded when it is loaded. */
static enum sp_status read_bitnet(struct sp_prequantized *out, const struct sp_json *q,
                                  struct sp_err *err)
{
    const char *name = NULL, *mode = NULL;
    bool normed = false;
    enum sp_status st;

    if ((st = check_text(q, "linear_class", "bitlinear autobitlinear", &name, err)) ||
        (st = check_text(q, "quantization_mode", "offline", &mode, err)) ||
        (st = sp_json_get_bool(q, "use_rms_norm", &normed, err)))
        return st;
    if (normed)
        return sp_fail(err, SP_E_UNSUPPORTED, "use_rms_norm is true, which is not supported");
    out->scales_divide = name == NULL || strcmp(name, "bitlinear") == 0;
    return SP_OK;
}

/* ---- all methods ---- */

typedef enum sp_status read_fn(struct sp_prequantized *out, const struct sp_json *q,
                               struct sp_err *err);

static const struct {
    const char *name; /* quant_method */
    enum sp_quant_layout layout;
    read_fn *read;
} methods[] = {
    {"fp8", SP_QUANT_SCALED, read_blocks},
    {"fbgemm_fp8", SP_QUANT_SCALED, read_nothing},
    {"compressed-tensors", SP_QUANT_SCALED, read_compressed_tensors},
    {"modelopt", SP_QUANT_SCALED, read_modelopt},
    {"mxfp4", SP_QUANT_SCALED, read_nothing},
    {"mlx", SP_QUANT_MLX, read_mlx},
    {"gptq", SP_QUANT_GPTQ, read_gptq},
    {"awq", SP_QUANT_AWQ, read_awq},
    {"auto-round", SP_QUANT_GPTQ, read_auto_round},
    {"intel/auto-round", SP_QUANT_GPTQ, read_auto_round},
    {"bitnet", SP_QUANT_BITNET, read_bitnet},
    {"bitsandbytes", SP_QUANT_BNB, read_bitsandbytes},
};

static enum sp_status read_method(struct sp_prequantized *out, const struct sp_json *q,
                                  const char *method, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_json_get_string(q, "quant_method", &method, err))) return st;
    for (size_t i = 0; i < COUNT(methods); i++) {
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
    for (size_t i = 0; i < 2 * COUNT(keys); i++) {
        const char *key = keys[i / 2];
        const struct sp_json *q = sp_json_get(texts[i % 2], key);
        enum sp_status st;
        if (q == NULL || (sp_json_kind(q) == SP_JSON_OBJECT && sp_json_len(q) == 0)) continue;
        if ((st = read_method(out, q, i < 2 ? "mlx" : "unnamed", err))) sp_context(err, "%s", key);
        return st;
    }
    return SP_OK;
}
