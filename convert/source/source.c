/* Opening sources: what is there, and how it is stored. Reading weights is in source_read.c. */
#include "convert/source/source.h"

#include "convert/gguf/gguf_model.h"
#include "format/tokenizer/gguf_tokenizer.h"
#include "convert/source/source_name.h"
#include "convert/source/pooling_files.h"
#include "convert/source/quantized_weights.h"
#include "format/base/affix.h"
#include "format/family/config_packed.h"
#include "format/base/file.h"
#include "format/json/json.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/family/config_parse.h"
#include "format/pack_contents.h"
#include "format/tokenizer/bpe_files.h"
#include "format/tokenizer/older_files.h"
#include "format/packfile_layout.h"
#include "format/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* Texts larger than this are neither a config nor a tokenizer. */
enum { MAX_TEXT = 512 << 20 };

/* ---- checkpoints ---- */

/* Some checkpoints keep their template in a JSON file: its text then stands for
 * chat_template.jinja. */
static enum sp_status read_json_template(struct sp_source *source, const char *folder,
                                         struct sp_err *err)
{
    static const char name[] = "chat_template.json";
    struct sp_text *out = &source->texts[SP_SECTION_TEMPLATE];
    struct sp_json *json;
    const char *text;
    enum sp_status st;

    if (out->at != NULL) return SP_OK;
    if ((st = sp_json_read_in(&json, folder, name, err)) || json == NULL) return st;
    text = sp_json_to_string(sp_json_get(json, "chat_template"), &out->size);
    st = text ? sp_copy_text(&out->at, text, out->size, err)
              : sp_fail(err, SP_E_INPUT, "%s/%s: chat_template is not a string", folder, name);
    sp_json_free(json);
    return st;
}

static void list_tensor(struct sp_source_tensor *list, size_t *n, const char *name,
                        enum sp_dtype dtype, unsigned rank, const uint64_t *shape)
{
    struct sp_source_tensor *t = &list[(*n)++];

    *t = (struct sp_source_tensor){.name = name, .dtype = (uint32_t)dtype, .rank = rank};
    memcpy(t->shape, shape, rank * sizeof *shape);
}

enum sp_status sp_source_list(struct sp_source_tensor **tensors, size_t *n,
                              const struct sp_source *source, struct sp_err *err)
{
    const struct sp_quantized_weights *weights = &source->weights;
    const struct sp_gguf_model *gguf = source->gguf;
    const struct sp_safetensor *all = NULL;
    size_t n_all = 0;
    struct sp_source_tensor *list;
    enum sp_status st;

    if (gguf == NULL) all = sp_safetensors_tensors(source->checkpoint, &n_all);
    if ((st = sp_new(&list, gguf ? gguf->n : n_all, sizeof *list, err))) return st;
    *n = 0;
    for (size_t i = 0; gguf && i < gguf->n; i++) {
        const struct sp_gguf_weight *w = &gguf->weights[i];
        list_tensor(list, n, w->name, sp_gguf_weight_float_type(w), w->rank, w->shape);
    }
    for (size_t i = 0; i < n_all; i++)
        if (!weights->taken[i])
            list_tensor(list, n, all[i].name, all[i].dtype, all[i].rank, all[i].shape);
    for (size_t i = 0; i < weights->n; i++) {
        const struct sp_weight *w = &weights->all[i];
        list_tensor(list, n, w->name, sp_weight_float_type(w), w->rank, w->shape);
    }
    *tensors = list;
    return SP_OK;
}

/* A quantize_config.json or quant_config.json beside a config that states nothing, as old versions
 * of AutoGPTQ and AutoAWQ wrote. *root is owned by the caller. */
static enum sp_status read_quantize_config(struct sp_prequantized *stated, struct sp_json **root,
                                           const char *folder, struct sp_err *err)
{
    static const struct {
        const char *name, *method;
    } files[] = {{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < 2 && stated->layout == SP_QUANT_NONE; i++) {
        if ((st = sp_json_read_in(root, folder, files[i].name, err))) break;
        if (*root && (st = sp_prequantized_parse_file(stated, *root, files[i].method, err))) {
            sp_context(err, "%s/%s", folder, files[i].name);
            break;
        }
    }
    return st;
}

/* The checkpoint and what of it is quantized; the config's text is read already. */
static enum sp_status open_weights(struct sp_source *source, const char *folder, const char *path,
                                   char **warnings, struct sp_err *err)
{
    struct sp_prequantized stated;
    struct sp_json *root = NULL, *beside = NULL;
    enum sp_status st = sp_json_parse_settings(&root, &source->texts[SP_SECTION_CONFIG], err);

    if (st || (st = sp_prequantized_parse(&stated, root, err))) goto done;
    if ((st = read_quantize_config(&stated, &beside, folder, err))) goto done;
    if ((st = sp_safetensors_open(&source->checkpoint, path, warnings, err))) goto done;
    if (source->config.pooling.n_dense && !source->config.pooling.classifies &&
        (st = sp_pooling_files_add(source->checkpoint, folder, err)))
        goto done;
    if ((st = sp_quantized_weights_open(&source->weights, source->checkpoint, &stated, err)))
        sp_context(err, "%s", path);
done:
    sp_json_free(root);
    sp_json_free(beside);
    return st;
}

/* True if there are layers of a prediction head, and no others. */
static bool is_head_alone(const struct sp_source_tensor *tensors, size_t n)
{
    bool head = false, layers = false;

    for (size_t i = 0; i < n; i++) {
        bool of_head = strstr(tensors[i].name, "mtp.") != NULL;
        head = head || of_head;
        layers = layers || (!of_head && strstr(tensors[i].name, "layers.") != NULL);
    }
    return head && !layers;
}

static enum sp_status match_tensors(struct sp_source *source, struct sp_err *err)
{
    enum sp_status st;
    struct sp_source_tensor *tensors = NULL;
    size_t n;

    if ((st = sp_source_list(&tensors, &n, source, err))) return st;
    if (is_head_alone(tensors, n)) {
        free(tensors);
        return sp_fail(
            err, SP_E_INPUT,
            "it holds a prediction head alone (mtp.*), which drafts only as a part of its "
            "model's checkpoint");
    }
    source->has_mtp = sp_source_has_mtp(&source->config, tensors, n);
    st = sp_specs_of_source(&source->specs, &source->config, tensors, n, &source->compare_heads,
                            &source->n_skipped, err);
    free(tensors);
    return st;
}

static enum sp_status check_classifier(const struct sp_source *source, struct sp_err *err)
{
    if (source->part == SP_PART_TARGET) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s cannot be a draft", source->config.architecture);
}

/* Names which weights a failure is about where a folder has two kinds. */
static void name_weights(const char *folder, struct sp_err *err)
{
    if (!sp_file_exists_in(folder, "model.safetensors") ||
        !sp_file_exists_in(folder, "model.safetensors.index.json"))
        return;
    sp_context(err, "%s: of two, model.safetensors is read and not model.safetensors.index.json",
               folder);
}

/* `folder` holds the texts, `weights` is the folder or one file. */
static enum sp_status open_checkpoint(struct sp_source *source, const char *folder,
                                      const char *weights, char **warnings, struct sp_err *err)
{
    struct sp_text *texts = source->texts, *json = &texts[SP_SECTION_CONFIG];
    enum sp_status st;
    bool untied;

    for (int s = SP_SECTION_CONFIG; s <= SP_SECTION_TEMPLATE; s++) {
        st = sp_file_read_in(&texts[s], folder, sp_section_name((enum sp_section)s), MAX_TEXT, err);
        if (st) return st;
    }
    if (texts[SP_SECTION_TOKENIZER].at == NULL &&
        (st = sp_bpe_files_read(&texts[SP_SECTION_TOKENIZER], folder,
                                &texts[SP_SECTION_TOKENIZER_CONFIG], err)))
        return st;
    st = sp_older_files_add(&texts[SP_SECTION_TOKENIZER_CONFIG], folder,
                            &texts[SP_SECTION_TOKENIZER], err);
    if (st) return st;
    if ((st = read_json_template(source, folder, err))) return st;
    if (json->at == NULL) {
        return sp_fail(err, SP_E_INPUT, "%s: config.json is missing %s", source->path,
                       folder == weights ? "in it" : "in its folder");
    }
    if ((st = sp_config_parse(&source->config, json->at, json->size, warnings, err))) {
        sp_context(err, "%s: config.json", source->path);
        return st;
    }
    if (sp_config_is_classifier(&source->config)) {
        if ((st = check_classifier(source, err)) ||
            (st = sp_classifier_head_read(&texts[SP_SECTION_POOLING], &source->config.pooling,
                                          folder, NULL, &source->config, json, err))) {
            sp_context(err, "%s", source->path);
            return st;
        }
    } else if (source->part == SP_PART_TARGET && source->config.draft.kind == SP_DRAFT_NONE &&
               (st = sp_pooling_files_read(&texts[SP_SECTION_POOLING], &source->config.pooling,
                                           folder, source->config.n_hidden,
                                           source->config.max_positions, err))) {
        return st;
    }
    untied = source->config.draft.kind == SP_DRAFT_NONE && !source->config.tied;
    if ((st = open_weights(source, folder, weights, warnings, err)) == SP_OK &&
        (st = match_tensors(source, err)))
        sp_context(err, "%s", source->path);
    if (st) {
        if (folder == weights) name_weights(folder, err);
        return st;
    }
    if (untied && source->config.tied && !source->config.headless) {
        st = sp_warn(warnings, err,
                     "%s: tie_word_embeddings is not true, but the checkpoint has only one of "
                     "embedding and lm_head.weight, which is used for both",
                     source->path);
        if (st) return st;
    }
    return SP_OK;
}

enum sp_status sp_source_open_mtp(struct sp_source *out, const struct sp_source *target,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct sp_source source = {0};
    struct sp_source_tensor *tensors = NULL;
    struct sp_text *json = &source.texts[SP_SECTION_CONFIG];
    size_t n;

    *out = source;
    source.part = SP_PART_DRAFT;
    if ((st = sp_copy_text(&source.path, target->path, strlen(target->path), err))) goto done;
    if ((st = sp_source_read_text(json, target, SP_SECTION_CONFIG, err))) goto done;
    if ((st = sp_config_parse(&source.config, json->at, json->size, NULL, err))) goto done;
    if (target->gguf) {
        if ((st = sp_new(&source.gguf, 1, sizeof *source.gguf, err))) goto done;
        if ((st = sp_gguf_model_open(source.gguf, source.path, NULL, NULL, err))) goto done;
    } else if ((st = open_weights(&source, source.path, source.path, NULL, err))) {
        goto done;
    }
    if ((st = sp_source_list(&tensors, &n, &source, err))) goto done;
    if ((st = sp_specs_of_mtp(&source.specs, &source.config, tensors, n, err))) goto done;
    *out = source;
    source = (struct sp_source){0};
done:
    free(tensors);
    if (st) sp_context(err, "%s", target->path);
    sp_source_release(&source);
    return st;
}

/* ---- GGUF files ---- */

static enum sp_status make_texts(struct sp_source *source, char **warnings, struct sp_err *err)
{
    const struct sp_gguf_model *gguf = source->gguf;
    struct sp_text *texts = source->texts;
    enum sp_status st;

    if ((st = sp_gguf_config_text(&texts[SP_SECTION_CONFIG], gguf, warnings, err)) ||
        (st = sp_gguf_generation_text(&texts[SP_SECTION_GENERATION], gguf, err)) ||
        (st = sp_gguf_tokenizer_text(&texts[SP_SECTION_TOKENIZER], gguf->file, NULL, err)) ||
        (st = sp_gguf_tokenizer_config_text(&texts[SP_SECTION_TOKENIZER_CONFIG], gguf->file, err)))
        return st;
    return sp_gguf_template_text(&texts[SP_SECTION_TEMPLATE], gguf->file, warnings, err);
}

static enum sp_status read_gguf_head(struct sp_source *source, struct sp_err *err)
{
    enum sp_status st = check_classifier(source, err);

    if (!st) st = sp_gguf_pooling_check_rank(source->gguf, err);
    if (st) return st;
    return sp_classifier_head_read(&source->texts[SP_SECTION_POOLING], &source->config.pooling,
                                   NULL, &source->texts[SP_SECTION_TOKENIZER], &source->config,
                                   &source->texts[SP_SECTION_CONFIG], err);
}

static enum sp_status open_gguf(struct sp_source *source, char **warnings, struct sp_err *err)
{
    const struct sp_text *json = &source->texts[SP_SECTION_CONFIG];
    enum sp_status st;

    if ((st = sp_new(&source->gguf, 1, sizeof *source->gguf, err))) return st;
    if ((st = sp_gguf_model_open(source->gguf, source->path, NULL, warnings, err))) return st;
    st = make_texts(source, warnings, err);
    if (!st && (st = sp_config_parse(&source->config, json->at, json->size, warnings, err)))
        sp_context(err, "config.json made of its metadata");
    if (!st && sp_config_is_classifier(&source->config)) {
        st = read_gguf_head(source, err);
    } else if (!st && source->part == SP_PART_TARGET) {
        st = sp_gguf_pooling_text(&source->texts[SP_SECTION_POOLING], &source->config.pooling,
                                  source->gguf, source->config.max_positions, warnings, err);
    }
    if (!st) st = match_tensors(source, err);
    if (st) sp_context(err, "%s", source->path);
    source->n_skipped += source->gguf->n_skipped;
    return st;
}

/* ---- packed files ---- */

/* Every tensor that the config calls for, with its shape, and no other. */
static enum sp_status match_pack(struct sp_source *source, struct sp_err *err)
{
    enum sp_status st;
    size_t n = 0;

    if ((st = sp_specs_of_config(&source->specs, &source->config, err))) return st;
    for (size_t i = 0; i < source->specs.n_specs; i++) {
        const struct sp_tensor_spec *spec = &source->specs.specs[i];
        const struct sp_pack_tensor *t = sp_pack_find(source->pack, source->part, spec->name);
        if (t == NULL) return sp_fail(err, SP_E_INPUT, "tensor %s is missing", spec->name);
        if (t->rank != spec->rank ||
            memcmp(t->shape, spec->shape, spec->rank * sizeof *spec->shape) != 0) {
            return sp_fail(err, SP_E_INPUT, "tensor %s has another shape than the config states",
                           spec->name);
        }
    }
    for (size_t i = 0; i < sp_pack_n_tensors(source->pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(source->pack, i);
        if (t->part != source->part) continue;
        n++;
        if (sp_specs_find(&source->specs, t->name) == NULL)
            return sp_fail(err, SP_E_INPUT, "tensor %s is not a tensor of its model", t->name);
    }
    return n ? SP_OK : sp_fail(err, SP_E_INPUT, "no tensors");
}

/* Reads how the tensors are smoothed; each must have as many columns as there are exponents. */
static enum sp_status read_smoothing(struct sp_source *source, struct sp_err *err)
{
    enum sp_status st = sp_smoothing_of_pack(&source->smoothing, source->pack, err);

    for (size_t i = 0; i < source->specs.n_specs && !st; i++) {
        const struct sp_tensor_spec *spec = &source->specs.specs[i];
        const struct sp_smoothed_norm *norm =
            sp_smoothing_of(&source->smoothing, &source->config, spec->name);
        if (norm == NULL || norm->n == sp_spec_cols(spec)) continue;
        st = sp_fail(err, SP_E_INPUT, "section %s: %zu exponents of %s",
                     sp_section_name(SP_SECTION_SMOOTHING), norm->n, spec->name);
    }
    return st;
}

static enum sp_status read_part(struct sp_source *source, struct sp_err *err)
{
    enum sp_status st;

    static const enum sp_section kept[] = {SP_SECTION_CONFIG, SP_SECTION_GENERATION,
                                           SP_SECTION_ADAPTERS, SP_SECTION_POOLING};

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        st =
            sp_pack_read_section(source->pack, source->part, kept[i], &source->texts[kept[i]], err);
        if (st) return st;
    }
    st = sp_config_of_pack(&source->config, source->pack, source->part, err);
    if (!st) st = match_pack(source, err);
    if (!st && source->part == SP_PART_TARGET) st = read_smoothing(source, err);
    if (st) sp_context(err, "%s: %s", source->path, sp_part_name(source->part));
    return st;
}

static enum sp_status open_pack(struct sp_source *source, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_pack_open(&source->pack, source->path, err))) return st;
    if ((st = sp_pack_expect_model(source->pack, err))) return st;
    if (!sp_pack_find_section(source->pack, SP_PART_DRAFT, SP_SECTION_CONFIG))
        source->part = SP_PART_TARGET;
    return read_part(source, err);
}

/* ---- either ---- */

bool sp_source_has_text(const struct sp_source *source, enum sp_section section)
{
    return source->texts[section].at != NULL ||
           (source->pack != NULL &&
            sp_pack_find_section(source->pack, source->part, section) != NULL);
}

enum sp_status sp_source_read_text(struct sp_text *out, const struct sp_source *source,
                                   enum sp_section section, struct sp_err *err)
{
    const struct sp_text *text = &source->texts[section];

    *out = (struct sp_text){.size = text->size};
    if (text->at) return sp_copy_text(&out->at, text->at, text->size, err);
    if (source->pack == NULL) return SP_OK;
    return sp_pack_read_section(source->pack, source->part, section, out, err);
}

static enum sp_status open_file(struct sp_source *source, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    uint8_t magic[8];
    char *folder = NULL;

    if ((st = sp_file_read_magic(magic, sizeof magic, source->path, err))) return st;
    if (memcmp(magic, sp_pack_magic, sizeof magic) == 0) return open_pack(source, err);
    if (sp_gguf_is_magic(magic)) return open_gguf(source, warnings, err);
    if (!sp_ends_with(source->path, ".safetensors")) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: neither safetensors, GGUF nor packed, expected a checkpoint folder, a "
                       ".safetensors file, a GGUF file or a packed file",
                       source->path);
    }
    if ((st = sp_file_folder(&folder, source->path, err))) return st;
    st = open_checkpoint(source, folder, source->path, warnings, err);
    free(folder);
    return st;
}

/* A checkpoint, or the one GGUF file in the folder. */
static enum sp_status open_folder(struct sp_source *source, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    char *gguf = NULL;

    if ((st = sp_folder_find_model(&gguf, source->path, err))) return st;
    if (gguf) {
        free(source->path);
        source->path = gguf;
        return open_gguf(source, warnings, err);
    }
    return open_checkpoint(source, source->path, source->path, warnings, err);
}

enum sp_status sp_source_open(struct sp_source *out, const char *path, enum sp_part want,
                              char **warnings, struct sp_err *err)
{
    enum sp_status st;
    struct sp_source source = {0};

    *out = source;
    source.part = want;
    if ((st = sp_copy_text(&source.path, path, strlen(path), err))) goto done;
    if (!sp_file_exists(path)) {
        st = sp_fail(err, SP_E_INPUT,
                     "%s does not exist, expected a checkpoint folder, a .safetensors file, a "
                     "GGUF file, a packed file or the name of a model on this machine; models are "
                     "not downloaded",
                     path);
    } else if (sp_file_is_folder(path)) {
        st = open_folder(&source, warnings, err);
    } else {
        st = open_file(&source, warnings, err);
    }
    if (st) goto done;
    *out = source;
    source = (struct sp_source){0};
done:
    sp_source_release(&source);
    return st;
}

bool sp_source_same(const struct sp_source *a, const struct sp_source *b)
{
    if (a->merge || b->merge) return false;
    if (a->pack && b->pack)
        return a->part == b->part && sp_pack_identity(a->pack) == sp_pack_identity(b->pack);
    if (a->pack || b->pack) return false;
    return sp_file_same(a->path, b->path);
}

void sp_source_release(struct sp_source *source)
{
    for (int s = 0; s < SP_N_SECTIONS; s++)
        free(source->texts[s].at);
    sp_specs_release(&source->specs);
    sp_config_release(&source->config);
    sp_smoothing_release(&source->smoothing);
    sp_quantized_weights_release(&source->weights);
    if (source->merge) sp_merge_release(source->merge);
    free(source->merge);
    sp_safetensors_close(source->checkpoint);
    if (source->gguf) sp_gguf_model_release(source->gguf);
    free(source->gguf);
    sp_pack_close(source->pack);
    free(source->path);
    *source = (struct sp_source){0};
}
