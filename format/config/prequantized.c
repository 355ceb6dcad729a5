/* Reads quantization_config: checks the method, and collects the sizes of blocks and groups. An
 * option that changes the layout and is not read is refused by name.
 *
 * Lists of modules that are or are not quantized (ignore, targets, modules_to_not_convert) are not
 * read, because they may be patterns and the tensors show it more reliably. */
#include "format/config/prequantized.h"

#include "format/base/affix.h"
#include "format/config/config_text.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PATH_LEN = 512 };

static const int64_t MAX_TILE = 1 << 24;

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* An object inside of the one that is read. */
static struct sp_config_text inside(const struct sp_config_text *q, const struct sp_json *object)
{
    return (struct sp_config_text){.root = object, .err = q->err};
}

/* Adds a tile unless it is listed. */
static void add_tile(struct sp_prequantized *out, uint64_t rows, uint64_t cols,
                     const struct sp_config_text *q)
{
    for (size_t i = 0; i < out->n_tiles; i++)
        if (out->tiles[i].rows == rows && out->tiles[i].cols == cols) return;
    if (out->n_tiles == SP_MAX_TILES)
        SP_REFUSED(q, "more than %d sizes of blocks and groups", SP_MAX_TILES);
    else
        out->tiles[out->n_tiles++] = (struct sp_tile){rows, cols};
}

/* Adds the tile of a key that may be missing: [rows, columns], or "128x128" in old files. */
static void read_block(struct sp_prequantized *out, const struct sp_config_text *q, const char *key)
{
    const struct sp_json *v = sp_text_get(q, key);
    const char *text = sp_json_to_string(v, NULL);
    int64_t rows = 0, cols = 0;

    if (v == NULL) return;
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
        SP_INVALID(q, "%s: expected rows and columns of a block", key);
    else
        add_tile(out, (uint64_t)rows, (uint64_t)cols, q);
}

/* Adds the tile of a group size, of one row. A missing, null or negative one means whole rows. */
static void read_group(struct sp_prequantized *out, const struct sp_config_text *q, const char *key)
{
    int64_t size = -1; /* -1: no groups */

    sp_text_i64(q, key, -1, MAX_TILE, &size);
    if (size > 0) add_tile(out, 1, (uint64_t)size, q);
}

/* ---- methods with a scale beside the weight ---- */

static void check_format(const struct sp_config_text *q)
{
    static const char known[] =
        "float-quantized naive-quantized int-quantized pack-quantized nvfp4-pack-quantized "
        "mixed-precision dense mxfp4-pack-quantized mxfp8-quantized";
    const char *format = "float-quantized";

    sp_text_string(q, "format", &format);
    if (!sp_is_among(format, known))
        SP_REFUSED(q, "compressed-tensors format \"%s\" is not supported", format);
}

/* Refuses a transform that runs with the model. One that is folded into the weights needs
 * nothing. */
static void check_transform(const struct sp_config_text *q, const struct sp_json *scheme,
                            const char *name)
{
    const struct sp_json *apply = sp_json_get(scheme, "apply");

    for (size_t i = 0; i < sp_json_len(apply); i++) {
        const char *location = NULL;
        sp_member_string(q, sp_json_at(apply, i), "location", &location);
        if (location == NULL) {
            SP_INVALID(q, "transform_config: apply[%zu] of \"%s\" has no location", i, name);
            return;
        }
        if (!sp_is_among(location, "weight_input weight_output")) {
            SP_REFUSED(q,
                       "transform_config: \"%s\" transforms at location \"%s\", which is not "
                       "supported; only weight_input and weight_output are",
                       name, location);
        }
    }
}

static void read_compressed_tensors(struct sp_prequantized *out, const struct sp_config_text *q)
{
    const struct sp_json *groups = sp_text_get(q, "config_groups");
    const struct sp_json *transforms =
        sp_json_get(sp_text_get(q, "transform_config"), "config_groups");
    const char *sparsity = "dense";

    out->has_zeros = out->has_index = sp_json_len(groups) > 0;
    check_format(q);
    sp_member_string(q, sp_text_get(q, "sparsity_config"), "format", &sparsity);
    if (strcmp(sparsity, "dense") != 0)
        SP_REFUSED(q, "sparsity_config: format \"%s\" is not supported", sparsity);
    for (struct sp_json_iter it = {0}; sp_json_next(transforms, &it);)
        check_transform(q, it.value, it.key);
    for (struct sp_json_iter it = {0}; sp_json_next(groups, &it);) {
        const struct sp_config_text group = inside(q, it.value);
        const struct sp_config_text weights = inside(q, sp_text_get(&group, "weights"));
        bool symmetric = true;
        const char *order = sp_json_get_text(weights.root, "actorder");
        check_format(&group);
        sp_text_bool(&weights, "symmetric", &symmetric);
        if (symmetric) out->has_zeros = false;
        if (order == NULL || strcmp(order, "group") != 0) out->has_index = false;
        read_group(out, &weights, "group_size");
        read_block(out, &weights, "block_structure");
    }
}

/* quant_algo may be missing in checkpoints that mix formats. */
static void read_modelopt(struct sp_prequantized *out, const struct sp_config_text *q)
{
    const char *algo = "FP8";

    sp_text_string(q, "quant_algo", &algo);
    if (!sp_is_among(algo, "FP8 NVFP4 MIXED_PRECISION"))
        SP_REFUSED(q, "modelopt algorithm \"%s\" is not supported", algo);
    read_group(out, q, "group_size");
}

static void read_blocks(struct sp_prequantized *out, const struct sp_config_text *q)
{
    read_block(out, q, "weight_block_size");
}

static void read_nothing(struct sp_prequantized *out, const struct sp_config_text *q)
{
    (void)out;
    (void)q;
}

/* ---- methods that pack codes into words ---- */

/* Reads a string that must be one of the words `known` where it is stated. */
static void read_word(const char **value, const struct sp_config_text *q, const char *key,
                      const char *known)
{
    sp_text_string(q, key, value);
    if (*value && !sp_is_among(*value, known))
        SP_REFUSED(q, "%s \"%s\" is not supported", key, *value);
}

/* Reads a number of bits that must be one of the digits of `known`. */
static void read_bits(int64_t *bits, const struct sp_config_text *q, const char *key,
                      const char *known)
{
    sp_text_i64(q, key, 0, 64, bits);
    if (*bits < 1 || *bits > 9 || !strchr(known, (int)('0' + *bits)))
        SP_REFUSED(q, "%s %lld is not supported", key, (long long)*bits);
}

/* ---- GPTQ and AutoRound ---- */

static const char gptq_bits[] = "2348";

/* The rules of `dynamic` by regular expressions, or extra_config by module paths: bits and groups
 * of some modules. Shapes show the bits, and which modules are quantized at all. */
static void read_rules(struct sp_prequantized *out, const struct sp_config_text *q,
                       const struct sp_json *rules)
{
    for (struct sp_json_iter it = {0}; !sp_text_failed(q) && sp_json_next(rules, &it);) {
        const struct sp_config_text rule = inside(q, it.value);
        int64_t bits = 16;
        if (it.key[0] == '-') continue;
        sp_text_i64(&rule, "bits", 1, 64, &bits);
        if (bits >= 16) continue;
        read_bits(&bits, &rule, "bits", gptq_bits);
        read_group(out, &rule, "group_size");
        sp_context(q->err, "%s", it.key);
    }
}

/* Both have a number of bits, groups and rules. */
static void read_codes(struct sp_prequantized *out, const struct sp_config_text *q,
                       const char *rules)
{
    int64_t bits = 4;

    read_bits(&bits, q, "bits", gptq_bits);
    read_group(out, q, "group_size");
    read_rules(out, q, sp_text_get(q, rules));
    out->bits = (unsigned)bits;
}

static void read_gptq(struct sp_prequantized *out, const struct sp_config_text *q)
{
    static const char formats[] = "gptq gptq_v2";
    const char *format = NULL, *pack = NULL;
    bool marlin = false;

    read_word(&format, q, "checkpoint_format", formats);
    if (format == NULL) read_word(&format, q, "format", formats);
    read_word(&pack, q, "pack_dtype", "int32");
    sp_text_bool(q, "is_marlin_format", &marlin);
    if (marlin) SP_REFUSED(q, "is_marlin_format true is not supported");
    read_codes(out, q, "dynamic");
    out->zeros_less_one = format == NULL || strcmp(format, "gptq") == 0;
}

static void read_auto_round(struct sp_prequantized *out, const struct sp_config_text *q)
{
    static const char packings[] =
        "auto_round:auto_gptq auto_round auto_round:gptqmodel auto_round:auto_awq";
    const char *packing = "auto_round:auto_gptq", *type = NULL;

    read_word(&packing, q, "packing_format", packings);
    read_word(&type, q, "data_type", "int");
    read_codes(out, q, "extra_config");
    if (strcmp(packing, "auto_round:auto_awq") == 0) out->layout = SP_QUANT_AWQ;
    out->zeros_less_one = strcmp(packing, "auto_round:auto_gptq") == 0;
}

/* ---- AWQ ---- */

/* Old files have w_bit, q_group_size and "GEMM", and those of GPTQModel checkpoint_format. The
 * layout of llm-awq is a third one. */
static void read_awq(struct sp_prequantized *out, const struct sp_config_text *q)
{
    static const char *const keys[] = {"version", "format", "checkpoint_format"};
    const char *version = NULL, *backend = "autoawq";
    int64_t bits = 4;

    for (size_t i = 0; i < COUNT(keys) && version == NULL; i++)
        read_word(&version, q, keys[i], "gemm GEMM exllama gemv GEMV");
    sp_text_string(q, "backend", &backend);
    read_bits(&bits, q, "bits", "4");
    read_bits(&bits, q, "w_bit", "4");
    read_group(out, q, "group_size");
    read_group(out, q, "q_group_size");
    if (strcmp(backend, "llm-awq") == 0) SP_REFUSED(q, "backend \"%s\" is not supported", backend);
    if (version && sp_is_among(version, "gemv GEMV")) out->layout = SP_QUANT_AWQ_V;
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
static struct sp_mlx_format read_mlx_format(const struct sp_config_text *q)
{
    const char *mode = "affine";
    int64_t group, bits;
    size_t i = 0;

    sp_text_string(q, "mode", &mode);
    while (i < COUNT(mlx_modes) && strcmp(mode, mlx_modes[i].name) != 0)
        i++;
    if (i == COUNT(mlx_modes)) {
        SP_REFUSED(q, "mode \"%s\" is not supported", mode);
        return (struct sp_mlx_format){0};
    }
    group = mlx_modes[i].group;
    bits = mlx_modes[i].bits[0] - '0';
    read_bits(&bits, q, "bits", mlx_modes[i].bits);
    sp_text_i64(q, "group_size", 1, 1 << 24, &group);
    if (i == 0 ? group != 32 && group != 64 && group != 128 : group != mlx_modes[i].group)
        SP_REFUSED(q, "group_size %lld is not supported for mode \"%s\"", (long long)group, mode);
    return (struct sp_mlx_format){mlx_modes[i].mode, (unsigned)bits, (unsigned)group, true};
}

enum sp_status sp_prequantized_mlx(struct sp_mlx_format *out, const struct sp_prequantized *stated,
                                   const char *path, size_t len, struct sp_err *err)
{
    struct sp_err failure = {0};
    struct sp_config_text q = {.root = stated->json, .err = &failure};
    char key[MAX_PATH_LEN];
    const struct sp_json *own = NULL;

    if (len < sizeof key) {
        snprintf(key, sizeof key, "%.*s", (int)len, path);
        own = sp_json_get(stated->json, key);
    }
    if (sp_json_kind(own) == SP_JSON_OBJECT) q.root = own;
    *out = read_mlx_format(&q);
    (void)sp_json_to_bool(own, &out->quantized);
    return failure.status ? sp_fail_as(err, &failure) : SP_OK;
}

static void read_mlx(struct sp_prequantized *out, const struct sp_config_text *q)
{
    (void)read_mlx_format(q);
    for (struct sp_json_iter it = {0}; !sp_text_failed(q) && sp_json_next(q->root, &it);) {
        const struct sp_config_text module = inside(q, it.value);
        bool flag;
        if (sp_is_among(it.key, "group_size bits mode quant_method")) continue;
        if (sp_json_to_bool(it.value, &flag)) continue;
        if (sp_json_kind(it.value) != SP_JSON_OBJECT) {
            SP_REFUSED(q, "%s: expected an object, true or false, as for a module", it.key);
            return;
        }
        (void)read_mlx_format(&module);
        sp_context(q->err, "%s", it.key);
    }
    out->json = q->root;
}

/* ---- bitsandbytes ---- */

/* Types, blocks and shapes stand beside each weight. */
static void read_bitsandbytes(struct sp_prequantized *out, const struct sp_config_text *q)
{
    const char *type = NULL;

    (void)out;
    read_word(&type, q, "bnb_4bit_quant_type", "nf4 fp4");
}

/* ---- BitNet ---- */

/* With mode online the weights of the file are rounded when it is loaded. */
static void read_bitnet(struct sp_prequantized *out, const struct sp_config_text *q)
{
    const char *name = "bitlinear", *mode = NULL;
    bool normed = false;

    read_word(&name, q, "linear_class", "bitlinear autobitlinear");
    read_word(&mode, q, "quantization_mode", "offline");
    sp_text_bool(q, "use_rms_norm", &normed);
    if (normed) SP_REFUSED(q, "use_rms_norm is true, which is not supported");
    out->scales_divide = strcmp(name, "bitlinear") == 0;
}

/* ---- all methods ---- */

typedef void read_fn(struct sp_prequantized *out, const struct sp_config_text *q);

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

enum sp_status sp_prequantized_parse_file(struct sp_prequantized *out, const struct sp_json *root,
                                          const char *method, struct sp_err *err)
{
    struct sp_err failure = {0};
    const struct sp_config_text q = {.root = root, .err = &failure};
    size_t i = 0;

    *out = (struct sp_prequantized){0};
    if (sp_json_kind(root) != SP_JSON_OBJECT)
        SP_INVALID(&q, "expected an object, found %s", sp_json_kind_name(sp_json_kind(root)));
    sp_text_string(&q, "quant_method", &method);
    while (method && i < COUNT(methods) && strcmp(method, methods[i].name) != 0)
        i++;
    if (method == NULL) {
        SP_INVALID(&q, "quant_method is missing");
    } else if (i == COUNT(methods)) {
        SP_REFUSED(&q, "checkpoints quantized by method \"%s\" are not supported", method);
    } else {
        out->layout = methods[i].layout;
        methods[i].read(out, &q);
    }
    return failure.status ? sp_fail_as(err, &failure) : SP_OK;
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
        st = sp_prequantized_parse_file(out, q, i < 2 ? "mlx" : NULL, err);
        if (st) sp_context(err, "%s", key);
        return st;
    }
    return SP_OK;
}
