/* The pooling of a checkpoint by sentence-transformers' files. A model is a chain of modules: the
 * transformer, the pooling, any number of dense layers, and a normalization; or, of a reranker, the
 * transformer and a score by logits. What the file of a
 * module says is refused by name if the runtime would compute something else.
 *
 * Source: the modules of sentence-transformers 6.2, whose earlier releases wrote other names of
 * modules and one key for each pooling mode. */
#include "convert/source/pooling_files.h"

#include "format/base/file.h"
#include "format/config/config_text.h"
#include "format/json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODULES = 3 + SP_MAX_DENSE };

/* One module: the class without its Python package, and its folder, which is relative. */
struct module {
    const char *class, *path;
};

static enum sp_status read_module(struct module *m, const struct sp_json *v, struct sp_err *err)
{
    const char *type = NULL, *dot;
    enum sp_status st;

    m->path = "";
    if ((st = sp_json_get_string(v, "type", &type, err))) return st;
    if ((st = sp_json_get_string(v, "path", &m->path, err))) return st;
    if (type == NULL || m->path[0] == '/' || strstr(m->path, "..") || strchr(m->path, '\\'))
        return sp_fail(err, SP_E_INPUT, "a module has no type, or a path outside the folder");
    dot = strrchr(type, '.');
    m->class = dot ? dot + 1 : type;
    return SP_OK;
}

/* Reads modules.json; *n = 0 if there is none. The modules are borrowed from *root. */
static enum sp_status read_modules(struct module modules[MAX_MODULES], size_t *n,
                                   struct sp_json **root, const char *folder, struct sp_err *err)
{
    enum sp_status st = sp_json_read_in(root, folder, "modules.json", err);

    *n = 0;
    if (st || *root == NULL) return st;
    if (sp_json_kind(*root) != SP_JSON_ARRAY || sp_json_len(*root) > MAX_MODULES)
        st = sp_fail(err, SP_E_INPUT, "not a list of at most %d modules", MAX_MODULES);
    for (; !st && *n < sp_json_len(*root); (*n)++)
        st = read_module(&modules[*n], sp_json_at(*root, *n), err);
    if (st) sp_context(err, "%s/modules.json", folder);
    return st;
}

/* ---- the configurations of modules ---- */

/* The pooling mode as one key, or as one key for each mode. */
static enum sp_status read_mode(struct sp_pooling_config *p, const struct sp_json *v,
                                struct sp_err *err)
{
    static const struct {
        const char *name, *old_key;
        enum sp_pooling_mode mode;
    } modes[] = {
        {"cls", "pooling_mode_cls_token", SP_POOL_CLS},
        {"mean", "pooling_mode_mean_tokens", SP_POOL_MEAN},
        {"lasttoken", "pooling_mode_lasttoken", SP_POOL_LAST},
        {"max", "pooling_mode_max_tokens", SP_POOL_NONE},
        {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", SP_POOL_NONE},
        {"weightedmean", "pooling_mode_weightedmean_tokens", SP_POOL_NONE},
    };
    const struct sp_json *stated = sp_json_get(v, "pooling_mode");
    const char *one = sp_json_to_string(stated, NULL);
    size_t n = 0, last = 1; /* mean is the default */

    if (stated && one == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "pooling_mode: several modes are not supported");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        bool on = false;
        sp_json_to_bool(sp_json_get(v, modes[i].old_key), &on);
        if (one) on = strcmp(one, modes[i].name) == 0;
        if (!on) continue;
        last = i;
        n++;
    }
    if ((one && n == 0) || n > 1 || modes[last].mode == SP_POOL_NONE) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "pooling mode %s is not supported, expected cls, mean or lasttoken",
                       n > 1           ? "of several kinds"
                       : one && n == 0 ? one
                                       : modes[last].name);
    }
    p->mode = modes[last].mode;
    return SP_OK;
}

static enum sp_status read_pooling(struct sp_pooling_config *p, const struct sp_json *v,
                                   unsigned n_hidden, struct sp_err *err)
{
    unsigned width = n_hidden;
    bool include_prompt = true;
    enum sp_status st;

    if ((st = sp_object_unsigned(v, "word_embedding_dimension", 1, SP_CAP_WIDTH, &width, err)) ||
        (st = sp_object_unsigned(v, "embedding_dimension", 1, SP_CAP_WIDTH, &width, err)) ||
        (st = sp_json_get_bool(v, "include_prompt", &include_prompt, err)))
        return st;
    if (width != n_hidden) {
        return sp_fail(err, SP_E_INPUT, "embedding_dimension %u, but the hidden size is %u", width,
                       n_hidden);
    }
    if (!include_prompt)
        return sp_fail(err, SP_E_UNSUPPORTED, "include_prompt false is not supported");
    return read_mode(p, v, err);
}

static enum sp_status read_dense(struct sp_pooling_config *p, const struct sp_json *v,
                                 struct sp_err *err)
{
    struct sp_dense_config *d = &p->dense[p->n_dense];
    const char *activation = "torch.nn.modules.activation.Tanh";
    const char *input = "sentence_embedding", *output = NULL, *dot;
    bool residual = false;
    enum sp_status st;

    *d = (struct sp_dense_config){.bias = true};
    if ((st = sp_object_unsigned(v, "in_features", 1, SP_CAP_WIDTH, &d->n_in, err))) return st;
    if ((st = sp_object_unsigned(v, "out_features", 1, SP_CAP_WIDTH, &d->n_out, err))) return st;
    if ((st = sp_json_get_bool(v, "bias", &d->bias, err))) return st;
    if ((st = sp_json_get_bool(v, "use_residual", &residual, err))) return st;
    if ((st = sp_json_get_string(v, "activation_function", &activation, err))) return st;
    if ((st = sp_json_get_string(v, "module_input_name", &input, err))) return st;
    if ((st = sp_json_get_string(v, "module_output_name", &output, err))) return st;
    if (residual) return sp_fail(err, SP_E_UNSUPPORTED, "use_residual true is not supported");
    if (strcmp(input, "sentence_embedding") != 0 || (output && strcmp(output, input) != 0)) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "a dense layer for anything but sentence_embedding is not supported");
    }
    dot = strrchr(activation, '.');
    d->tanh = dot && strcmp(dot, ".Tanh") == 0;
    if (!d->tanh && (dot == NULL || strcmp(dot, ".Identity") != 0)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "activation_function \"%.80s\" is not supported",
                       activation);
    }
    p->n_dense++;
    return SP_OK;
}

/* The score of a cross-encoder on a language model. */
static enum sp_status read_logit_score(struct sp_pooling_config *p, const struct sp_json *v,
                                       struct sp_err *err)
{
    const char *input = "causal_logits";
    int64_t yes = -1, no = -1;
    enum sp_status st;

    if ((st = sp_json_get_i64(v, "true_token_id", 0, UINT32_MAX, &yes, err))) return st;
    if ((st = sp_json_get_i64(v, "false_token_id", 0, UINT32_MAX, &no, err))) return st;
    if ((st = sp_json_get_string(v, "module_input_name", &input, err))) return st;
    if (yes < 0) return sp_fail(err, SP_E_INPUT, "true_token_id is missing");
    if (strcmp(input, "causal_logits") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "module_input_name \"%.40s\" is not supported",
                       input);
    }
    p->mode = SP_POOL_RANK;
    p->score = (struct sp_score_config){.true_token = (uint32_t)yes,
                                        .false_token = no < 0 ? 0 : (uint32_t)no,
                                        .two_tokens = no >= 0,
                                        .sigmoid = true};
    return SP_OK;
}

/* The order is that of struct sp_pooling_config: transformer, pooling, dense, normalization. */
static enum sp_status check_order(const struct sp_pooling_config *p, const struct module *m,
                                  size_t i, struct sp_err *err)
{
    bool is_first = strcmp(m->class, "Transformer") == 0;
    bool is_pooling = strcmp(m->class, "Pooling") == 0 || strcmp(m->class, "LogitScore") == 0;
    bool is_later = strcmp(m->class, "Dense") == 0 || strcmp(m->class, "Normalize") == 0;

    if (!is_first && !is_pooling && !is_later)
        return sp_fail(err, SP_E_UNSUPPORTED, "module %s is not supported", m->class);
    if (is_first == (i == 0) && is_pooling == (i == 1) && !p->normalize &&
        p->mode != SP_POOL_RANK && (p->n_dense < SP_MAX_DENSE || strcmp(m->class, "Dense") != 0))
        return SP_OK;
    return sp_fail(
        err, SP_E_UNSUPPORTED,
        "module %s at position %zu is not supported, expected Transformer, Pooling, at most "
        "%d Dense, Normalize, or Transformer, LogitScore",
        m->class, i, SP_MAX_DENSE);
}

static enum sp_status add_module(struct sp_pooling_config *p, const char *folder,
                                 const struct module *m, unsigned n_hidden, struct sp_err *err)
{
    char *path = NULL;
    struct sp_json *config = NULL;
    enum sp_status st;

    if ((st = sp_file_join(&path, folder, m->path, err))) return st;
    if (strcmp(m->class, "Normalize") == 0) {
        p->normalize = true;
    } else if (strcmp(m->class, "Transformer") != 0) {
        if ((st = sp_json_read_in(&config, path, "config.json", err))) goto done;
        st = config == NULL                        ? sp_fail(err, SP_E_INPUT, "file is missing")
             : strcmp(m->class, "Pooling") == 0    ? read_pooling(p, config, n_hidden, err)
             : strcmp(m->class, "LogitScore") == 0 ? read_logit_score(p, config, err)
                                                   : read_dense(p, config, err);
        if (st) sp_context(err, "%s/config.json", path);
    } else if (m->path[0] != '\0') {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "modules.json: the transformer is in %s, pack that "
                     "folder",
                     path);
    }
done:
    sp_json_free(config);
    free(path);
    return st;
}

/* ---- the longest text, and the prompts ---- */

/* The first of the limits that a file states, as sentence-transformers finds it. */
enum sp_status sp_pooling_files_max_tokens(unsigned *out, const char *folder,
                                           unsigned max_positions, struct sp_err *err)
{
    static const struct {
        const char *file, *key;
    } places[] = {{"sentence_bert_config.json", "max_seq_length"},
                  {"tokenizer_config.json", "model_max_length"}};
    enum sp_status st = SP_OK;
    double n = 0;

    for (size_t i = 0; i < 2 && n < 1; i++) {
        struct sp_json *root;
        if ((st = sp_json_read_in(&root, folder, places[i].file, err))) return st;
        if (!sp_json_to_double(sp_json_get(root, places[i].key), &n)) n = 0;
        sp_json_free(root);
    }
    *out = n >= 1 && n < max_positions ? (unsigned)n : max_positions;
    return SP_OK;
}

static const char activation_key[] = "activation_fn";

/* A score passes through the activation that the file of a cross-encoder names. */
enum sp_status sp_pooling_files_activation(struct sp_score_config *score,
                                           const struct sp_json *object, const char *key,
                                           struct sp_err *err)
{
    const char *name = "torch.nn.modules.activation.Sigmoid", *dot;
    enum sp_status st = sp_json_get_string(object, key, &name, err);

    if (st) return st;
    dot = strrchr(name, '.');
    score->sigmoid = dot && strcmp(dot, ".Sigmoid") == 0;
    if (score->sigmoid || (dot && strcmp(dot, ".Identity") == 0)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s \"%.80s\" is not supported", key, name);
}

/* True if the tokenizer of this folder makes letters lower case, as BERT's does. */
static enum sp_status read_lowercase(bool *lowercase, const char *folder, struct sp_err *err)
{
    struct sp_json *root = NULL;
    enum sp_status st = sp_json_read_in(&root, folder, "tokenizer.json", err);

    if (!st) st = sp_json_get_bool(sp_json_get(root, "normalizer"), "lowercase", lowercase, err);
    sp_json_free(root);
    return st;
}

/* Refuses texts that are not read as they are: embedding models whose texts pass through a chat
 * template, and do_lower_case, unless the tokenizer makes letters small anyway. */
static enum sp_status check_texts(const struct sp_pooling_config *p, const char *folder,
                                  struct sp_err *err)
{
    struct sp_json *root = NULL;
    bool lower = false, done = false;
    enum sp_status st;

    if ((st = sp_json_read_in(&root, folder, "sentence_bert_config.json", err))) goto done;
    if ((st = sp_json_get_bool(root, "do_lower_case", &lower, err))) goto done;
    if (lower && (st = read_lowercase(&done, folder, err))) goto done;
    if (p->mode != SP_POOL_RANK && sp_json_get(sp_json_get(root, "modality_config"), "message")) {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "%s/sentence_bert_config.json: modality_config has message: texts that pass "
                     "through a chat template are not supported",
                     folder);
    } else if (lower && !done) {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "%s/sentence_bert_config.json: do_lower_case true is not supported", folder);
    }
done:
    sp_json_free(root);
    return st;
}

static enum sp_status print_record(struct sp_text *record, struct sp_pooling_config *p,
                                   const char *folder, struct sp_err *err)
{
    struct sp_json *root = NULL;
    const struct sp_json *prompts;
    const char *name = NULL;
    enum sp_status st = sp_json_read_in(&root, folder, "config_sentence_transformers.json", err);

    if (st) return st;
    if (p->mode == SP_POOL_RANK)
        st = sp_pooling_files_activation(&p->score, root, activation_key, err);
    prompts = sp_json_get(root, "prompts");
    if (!st && prompts && sp_json_kind(prompts) != SP_JSON_OBJECT)
        st = sp_fail(err, SP_E_INPUT, "prompts is not an object");
    for (struct sp_json_iter it = {0}; !st && sp_json_next(prompts, &it);) {
        if (sp_json_to_string(it.value, NULL)) continue;
        st = sp_fail(err, SP_E_INPUT, "prompt \"%.40s\" is not a string", it.key);
    }
    if (!st) st = sp_json_get_string(root, "default_prompt_name", &name, err);
    if (!st && name && sp_json_get(prompts, name) == NULL) {
        st = sp_fail(err, SP_E_INPUT, "default_prompt_name \"%.40s\" is not one of the prompts",
                     name);
    }
    if (st)
        sp_context(err, "%s/config_sentence_transformers.json", folder);
    else
        st = sp_pooling_print(record, p, prompts, name, err);
    sp_json_free(root);
    return st;
}

enum sp_status sp_pooling_files_read(struct sp_text *record, struct sp_pooling_config *out,
                                     const char *folder, unsigned n_hidden, unsigned max_positions,
                                     struct sp_err *err)
{
    struct sp_pooling_config p = {0};
    struct module modules[MAX_MODULES];
    struct sp_json *root = NULL;
    size_t n;
    enum sp_status st;

    *record = (struct sp_text){0};
    if ((st = read_modules(modules, &n, &root, folder, err)) || n == 0) goto done;
    for (size_t i = 0; i < n; i++) {
        if ((st = check_order(&p, &modules[i], i, err))) {
            sp_context(err, "%s/modules.json", folder);
            goto done;
        }
        if ((st = add_module(&p, folder, &modules[i], n_hidden, err))) goto done;
    }
    if (p.mode == SP_POOL_NONE) {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "%s/modules.json: a model without Pooling is not "
                     "supported",
                     folder);
        goto done;
    }
    if ((st = check_texts(&p, folder, err))) goto done;
    if ((st = sp_pooling_files_max_tokens(&p.max_tokens, folder, max_positions, err))) goto done;
    if ((st = print_record(record, &p, folder, err))) goto done;
    /* Reading it back checks what concerns all layers together. */
    if ((st = sp_pooling_read(out, NULL, record, n_hidden, err))) {
        sp_context(err, "%s/modules.json", folder);
        free(record->at);
        *record = (struct sp_text){0};
    }
done:
    sp_json_free(root);
    return st;
}

enum sp_status sp_pooling_files_add(struct sp_safetensors *checkpoint, const char *folder,
                                    struct sp_err *err)
{
    struct module modules[MAX_MODULES];
    struct sp_json *root = NULL;
    char *sub = NULL, *path = NULL, prefix[32];
    size_t n, n_dense = 0;
    enum sp_status st = read_modules(modules, &n, &root, folder, err);

    for (size_t i = 0; i < n && !st; i++) {
        if (strcmp(modules[i].class, "Dense") != 0) continue;
        snprintf(prefix, sizeof prefix, SP_DENSE_PREFIX "%zu.", n_dense++);
        st = sp_file_join(&sub, folder, modules[i].path, err);
        if (!st) st = sp_file_join(&path, sub, "model.safetensors", err);
        if (!st) st = sp_safetensors_add(checkpoint, path, prefix, err);
        free(path);
        free(sub);
        path = sub = NULL;
    }
    sp_json_free(root);
    return st;
}
