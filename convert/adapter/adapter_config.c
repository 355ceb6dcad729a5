#include "convert/adapter/adapter.h"

#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/json/json_write.h"
#include "format/tokenizer/regex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 256 << 20 }; /* of the document in memory */

static const double MAX_NUMBER = 1e9; /* of what scales */

/* ---- keys ---- */

/* Keys of PEFT that are ignored: the tensors contain the same, or the keys describe training,
 * initialization or origin. */
static const char harmless[] =
    "auto_mapping base_model_name_or_path bias corda_config eva_config exclude_modules "
    "inference_mode layers_pattern layers_to_transform loftq_config lora_bias lora_dropout "
    "lora_ga_config megatron_config megatron_core modules_to_save peft_version qalora_group_size "
    "revision runtime_config target_modules task_type";

/* The keys that read_peft and its callees read. */
static const char read_here[] =
    "peft_type r lora_alpha use_rslora rank_pattern alpha_pattern use_dora init_lora_weights "
    "ensure_weight_tying";

/* null, false, 0, and what is empty. */
static bool switches_nothing(const struct sp_json *v)
{
    double number;
    bool flag;

    if (v == NULL) return true;
    if (sp_json_to_bool(v, &flag)) return !flag;
    if (sp_json_to_double(v, &number)) return number == 0;
    if (sp_json_kind(v) == SP_JSON_STRING) return *sp_json_to_string(v, NULL) == '\0';
    return sp_json_len(v) == 0;
}

/* A key with its value, as much of it as reads well. */
static enum sp_status refuse(const char *key, const struct sp_json *v, const char *why,
                             struct sp_err *err)
{
    char *text = NULL;
    enum sp_status st;

    if ((st = sp_json_print(&text, v, err))) return st;
    st = sp_fail(err, SP_E_UNSUPPORTED, "%s is %.80s: %s", key, text, why);
    free(text);
    return st;
}

static enum sp_status refuse_unknown(const struct sp_json *root, struct sp_err *err)
{
    for (struct sp_json_iter it = {0}; sp_json_next(root, &it);) {
        if (sp_is_among(it.key, harmless) || sp_is_among(it.key, read_here)) continue;
        if (switches_nothing(it.value)) continue;
        return refuse(it.key, it.value, "not supported", err);
    }
    return SP_OK;
}

/* ---- PEFT ---- */

/* Some ways to begin take a part out of the model's own weights, which the adapter then stands in
 * for: added to the published weights it would count twice. */
static enum sp_status check_beginning(const struct sp_json *root, struct sp_err *err)
{
    static const char plain[] = "gaussian eva orthogonal true";
    const struct sp_json *v = sp_json_get(root, "init_lora_weights");
    const char *text = sp_json_to_string(v, NULL);
    bool flag;

    if (v == NULL || sp_json_to_bool(v, &flag) || (text && sp_is_among(text, plain))) return SP_OK;
    return refuse("init_lora_weights", v,
                  "such an adapter belongs to weights that its training changed; save it converted "
                  "to plain LoRA",
                  err);
}

static enum sp_status add_pattern(struct sp_adapter_patterns *out, const char *key, double value,
                                  struct sp_err *err)
{
    struct sp_adapter_pattern *p;
    size_t cap = strlen(key) + 32;
    char *whole = NULL;
    enum sp_status st = sp_grow(&out->all, &out->cap, out->n + 1, sizeof *out->all, err);

    if (st) return st;
    p = &out->all[out->n];
    *p = (struct sp_adapter_pattern){.value = value};
    if ((st = sp_copy_text(&p->key, key, strlen(key), err))) return st;
    out->n++;
    if ((st = sp_new(&whole, cap, 1, err))) return st;
    snprintf(whole, cap, "^(?:.*\\.)?(?:%s)$", key);
    st = sp_regex_open(&p->regex, whole, strlen(whole), true, err);
    free(whole);
    return st;
}

/* Absent: none. */
static enum sp_status read_patterns(struct sp_adapter_patterns *out, const struct sp_json *root,
                                    const char *name, bool are_ranks, struct sp_err *err)
{
    const struct sp_json *object = sp_json_get(root, name);
    double min = are_ranks ? 1 : -MAX_NUMBER;
    double max = are_ranks ? (double)SP_ADAPTER_MAX_RANK : MAX_NUMBER;
    enum sp_status st;

    if (object && sp_json_kind(object) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "%s is not an object", name);
    if (sp_json_len(object) > SP_ADAPTER_MAX_PATTERNS) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s has more than %d members", name,
                       SP_ADAPTER_MAX_PATTERNS);
    }
    for (struct sp_json_iter it = {0}; sp_json_next(object, &it);) {
        double value;
        if (!sp_json_to_double(it.value, &value) || !(value >= min && value <= max) ||
            (are_ranks && value != floor(value))) {
            return sp_fail(err, SP_E_INPUT, "%s: the value of \"%s\" is not a %s", name, it.key,
                           are_ranks ? "valid rank" : "finite number");
        }
        if ((st = add_pattern(out, it.key, value, err))) {
            sp_context(err, "%s", name);
            return st;
        }
    }
    return SP_OK;
}

static enum sp_status read_peft(struct sp_adapter_config *out, const struct sp_json *root,
                                struct sp_err *err)
{
    const char *type = NULL;
    int64_t rank = 8;
    enum sp_status st;

    if ((st = sp_json_get_string(root, "peft_type", &type, err))) return st;
    if (type == NULL || strcmp(type, "LORA") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "peft_type is %s, only LORA is supported",
                       type ? type : "not stated");
    }
    if ((st = refuse_unknown(root, err)) || (st = check_beginning(root, err))) return st;
    if ((st = sp_json_get_i64(root, "r", 1, SP_ADAPTER_MAX_RANK, &rank, err))) return st;
    out->format = SP_ADAPTER_PEFT;
    out->rank = (double)rank;
    out->alpha = 8;
    if ((st = sp_json_get_double(root, "lora_alpha", -MAX_NUMBER, MAX_NUMBER, &out->alpha, err)))
        return st;
    if ((st = sp_json_get_bool(root, "use_rslora", &out->by_root, err))) return st;
    if ((st = sp_json_get_bool(root, "use_dora", &out->has_magnitudes, err))) return st;
    if ((st = sp_json_get_bool(root, "ensure_weight_tying", &out->keeps_tied, err))) return st;
    st = read_patterns(&out->ranks, root, "rank_pattern", true, err);
    return st ? st : read_patterns(&out->alphas, root, "alpha_pattern", false, err);
}

/* ---- mlx-lm ---- */

/* Beside `scale`; alpha is of its first versions, whose scale was another. */
static enum sp_status check_parameters(const struct sp_json *p, struct sp_err *err)
{
    static const char known[] = "rank scale dropout keys";
    double alpha, rank;

    for (struct sp_json_iter it = {0}; sp_json_next(p, &it);) {
        if (sp_is_among(it.key, known) || switches_nothing(it.value)) continue;
        if (strcmp(it.key, "alpha") == 0 && sp_json_to_double(it.value, &alpha) &&
            sp_json_to_double(sp_json_get(p, "rank"), &rank) && alpha == rank)
            continue;
        return refuse(it.key, it.value,
                      strcmp(it.key, "alpha") == 0 ? "its effect on scale differs between versions "
                                                     "of mlx-lm; correct scale and remove it"
                                                   : "not supported",
                      err);
    }
    return SP_OK;
}

static enum sp_status read_mlx(struct sp_adapter_config *out, const struct sp_json *root,
                               struct sp_err *err)
{
    const struct sp_json *p = sp_json_get(root, "lora_parameters");
    const char *type = "lora";
    int64_t rank = 0;
    enum sp_status st;

    if ((st = sp_json_get_string(root, "fine_tune_type", &type, err))) return st;
    if (strcmp(type, "lora") != 0 && strcmp(type, "dora") != 0 && strcmp(type, "full") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "fine_tune_type is %s, expected lora, dora or full",
                       type);
    }
    out->format = SP_ADAPTER_MLX;
    out->has_magnitudes = strcmp(type, "dora") == 0;
    if (strcmp(type, "full") == 0) return SP_OK;
    if (p == NULL || sp_json_get(p, "scale") == NULL)
        return sp_fail(err, SP_E_INPUT, "lora_parameters.scale is missing");
    if ((st = check_parameters(p, err))) return st;
    if ((st = sp_json_get_double(p, "scale", -MAX_NUMBER, MAX_NUMBER, &out->scale, err))) return st;
    if ((st = sp_json_get_i64(p, "rank", 1, SP_ADAPTER_MAX_RANK, &rank, err))) return st;
    out->rank = (double)rank;
    return SP_OK;
}

/* ---- GGUF ---- */

enum sp_status sp_adapter_config_of_gguf(struct sp_adapter_config *out, const struct sp_gguf *file,
                                         struct sp_err *err)
{
    static const char known[] = "adapter.type adapter.lora.alpha adapter.lora.task_name";
    size_t n;
    const struct sp_gguf_value *values = sp_gguf_values(file, &n);
    double alpha = 0;
    enum sp_status st;

    *out = (struct sp_adapter_config){0};
    for (size_t i = 0; i < n; i++) {
        if (strncmp(values[i].key, "adapter.", 8) != 0 || sp_is_among(values[i].key, known))
            continue;
        return sp_fail(err, SP_E_UNSUPPORTED, "%.100s: not supported", values[i].key);
    }
    if ((st = sp_gguf_get_float(file, "adapter.lora.alpha", &alpha, err))) return st;
    if (!(fabs(alpha) <= MAX_NUMBER))
        return sp_fail(err, SP_E_INPUT, "adapter.lora.alpha is out of range");
    *out = (struct sp_adapter_config){.format = SP_ADAPTER_GGUF, .alpha = alpha};
    return SP_OK;
}

/* ---- PEFT and mlx-lm ---- */

static void release_patterns(struct sp_adapter_patterns *patterns)
{
    for (size_t i = 0; i < patterns->n; i++) {
        free(patterns->all[i].key);
        sp_regex_close(patterns->all[i].regex);
    }
    free(patterns->all);
}

void sp_adapter_config_release(struct sp_adapter_config *config)
{
    release_patterns(&config->ranks);
    release_patterns(&config->alphas);
    *config = (struct sp_adapter_config){0};
}

enum sp_status sp_adapter_config_parse(struct sp_adapter_config *out, const char *text, size_t size,
                                       struct sp_err *err)
{
    struct sp_adapter_config config = {0};
    struct sp_json *root = NULL;
    enum sp_status st;

    *out = config;
    st = sp_json_parse_within(&root, text, size, SP_JSON_LENIENT, MAX_BYTES, err);
    if (st) goto done;
    if (sp_json_has(root, "peft_type")) {
        st = read_peft(&config, root, err);
    } else if (sp_json_has(root, "lora_parameters") || sp_json_has(root, "fine_tune_type")) {
        st = read_mlx(&config, root, err);
    } else {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "neither a PEFT config (peft_type) nor an mlx-lm config (lora_parameters)");
    }
    if (st) goto done;
    *out = config;
    config = (struct sp_adapter_config){0};
done:
    sp_json_free(root);
    sp_adapter_config_release(&config);
    return st;
}

/* *value stays where no pattern matches. */
static enum sp_status find_pattern(double *value, const struct sp_adapter_patterns *patterns,
                                   const char *module, struct sp_regex_matcher *matcher,
                                   struct sp_err *err)
{
    for (size_t i = 0; i < patterns->n; i++) {
        struct sp_find find = {.regex = patterns->all[i].regex,
                               .matcher = matcher,
                               .text = module,
                               .len = strlen(module)};
        size_t start, end;
        bool found;
        enum sp_status st = sp_find_next(&find, &found, &start, &end, err);
        if (st) {
            sp_context(err, "pattern \"%s\"", patterns->all[i].key);
            return st;
        }
        if (!found) continue;
        *value = patterns->all[i].value;
        return SP_OK;
    }
    return SP_OK;
}

enum sp_status sp_adapter_config_find(uint64_t *rank, double *scale,
                                      const struct sp_adapter_config *config, const char *module,
                                      struct sp_regex_matcher *matcher, struct sp_err *err)
{
    double r = config->rank, alpha = config->alpha;
    enum sp_status st;

    if ((st = find_pattern(&r, &config->ranks, module, matcher, err))) return st;
    if ((st = find_pattern(&alpha, &config->alphas, module, matcher, err))) return st;
    *rank = (uint64_t)r;
    *scale =
        config->format == SP_ADAPTER_MLX ? config->scale : alpha / (config->by_root ? sqrt(r) : r);
    return SP_OK;
}
