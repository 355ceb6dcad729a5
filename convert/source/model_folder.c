/* A message about a folder that is no checkpoint names the file in it: many are nearly one. */
#include "convert/source/source_name.h"

#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/unicode_case.h"
#include "format/json/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TAG = 256 };

/* ---- GGUF files ---- */

/* Image projectors, importance matrices and prediction heads lie beside models. */
static bool is_model_gguf(const char *name)
{
    const char *of = strstr(name, "-of-");

    if (!sp_ends_with(name, ".gguf") || strstr(name, "mmproj") || sp_begins_with(name, "imatrix") ||
        sp_ends_with(name, "imatrix.gguf") || sp_begins_with(name, "mtp-"))
        return false;
    return of == NULL || of - name < 6 || strncmp(of - 6, "-00001", 6) == 0;
}

/* True if a name has the tag between '-', '.' and its ends, as model-Q4_K_M.gguf has Q4_K_M. */
static bool has_tag(const char *name, const char *tag)
{
    size_t len = strlen(tag);
    char piece[MAX_TAG + 1];

    for (const char *at = name; len <= MAX_TAG && strlen(at) >= len; at++) {
        bool begins = at == name || at[-1] == '-' || at[-1] == '.';
        snprintf(piece, sizeof piece, "%.*s", (int)len, at);
        if (begins && strchr("-.", at[len]) && sp_equal_ignoring_case(piece, tag)) return true;
    }
    return false;
}

static enum sp_status find_gguf(char **path, size_t *n, const char *folder, const char *tag,
                                bool inside, struct sp_err *err)
{
    struct dirent **entries = NULL;
    int n_entries = scandir(folder, &entries, NULL, alphasort);
    enum sp_status st = SP_OK;

    for (int i = 0; i < n_entries; i++) {
        const char *name = entries[i]->d_name;
        char *at = NULL;
        if (!st && name[0] != '.') st = sp_file_join(&at, folder, name, err);
        if (at && !inside && sp_file_is_folder(at)) {
            st = find_gguf(path, n, at, tag && has_tag(name, tag) ? NULL : tag, true, err);
        } else if (at && is_model_gguf(name) && (tag == NULL || has_tag(name, tag))) {
            free(*path);
            *path = at;
            at = NULL;
            ++*n;
        }
        free(at);
        free(entries[i]);
    }
    free(entries);
    return st;
}

enum sp_status sp_folder_find_gguf(char **path, size_t *n, const char *folder, const char *tag,
                                   struct sp_err *err)
{
    enum sp_status st;

    *path = NULL;
    *n = 0;
    if ((st = find_gguf(path, n, folder, tag, false, err))) {
        free(*path);
        *path = NULL;
    }
    return st;
}

/* ---- what else there may be ---- */

/* Files by the ends of their names, the more telling first, and the rest of the sentence. */
static const struct {
    const char *begin, *end, *text;
} others[] = {
    {"consolidated", ".safetensors",
     "Mistral's own format with params.json, which is not read; most repositories also have "
     "config.json and model.safetensors"},
    {"model-0", ".safetensors", "but model.safetensors.index.json is missing beside it"},
    {"pytorch_model", ".bin", "PyTorch's format"},
    {"", ".pth", "PyTorch's format"},
    {"", ".pt", "PyTorch's format"},
    {"", ".ckpt", "PyTorch's format"},
    {"tf_model", ".h5", "TensorFlow's format"},
    {"flax_model", ".msgpack", "Flax's format"},
    {"", ".onnx", "ONNX's format"},
    {"", ".safetensors", "but no model.safetensors: name the file, if it is the model"},
    {"", ".gguf", "which is no model of its own"},
};

static const char unread[] =
    ", which is not read; save the model as safetensors, as save_pretrained of transformers does";

/* The first file of the folder with these ends. */
static bool find_named(char **name, const char *folder, size_t kind)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, alphasort);

    *name = NULL;
    for (int i = 0; i < n; i++) {
        const char *file = entries[i]->d_name;
        if (*name == NULL && sp_begins_with(file, others[kind].begin) &&
            sp_ends_with(file, others[kind].end) &&
            sp_copy_text(name, file, strlen(file), NULL) != SP_OK)
            *name = NULL;
        free(entries[i]);
    }
    free(entries);
    return *name != NULL;
}

static enum sp_status fail_adapter(const char *folder, struct sp_err *err)
{
    struct sp_json *root = NULL;
    const char *base = NULL;

    if (sp_json_read_in(&root, folder, "adapter_config.json", NULL) == SP_OK)
        base = sp_json_get_text(root, "base_model_name_or_path");
    (void)sp_fail(err, SP_E_INPUT,
                  "%s: it holds a LoRA adapter; a Modelfile names the model it belongs to (%.200s) "
                  "after FROM, and this folder after ADAPTER",
                  folder, base ? base : "its adapter_config.json does not say which");
    sp_json_free(root);
    return SP_E_INPUT;
}

static enum sp_status fail_other(const char *folder, bool configured, struct sp_err *err)
{
    char *name = NULL;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!find_named(&name, folder, i)) continue;
        if (sp_file_exists_in(folder, name))
            (void)sp_fail(err, SP_E_INPUT, "%s: it holds %.200s, %s%s", folder, name,
                          others[i].text, sp_ends_with(others[i].text, "'s format") ? unread : "");
        else
            (void)sp_fail(err, SP_E_INPUT,
                          "%s: %.200s is a link to a missing file, as of an incomplete download",
                          folder, name);
        free(name);
        return SP_E_INPUT;
    }
    return sp_fail(err, SP_E_INPUT,
                   configured
                       ? "%s: it has config.json, but neither model.safetensors nor "
                         "model.safetensors.index.json"
                       : "%s: a folder without config.json is no checkpoint; expected a "
                         "packed file or the folder with the model's config.json and weights",
                   folder);
}

enum sp_status sp_folder_find_model(char **path, const char *folder, struct sp_err *err)
{
    bool configured = sp_file_exists_in(folder, "config.json");
    bool weights = sp_file_exists_in(folder, "model.safetensors") ||
                   sp_file_exists_in(folder, "model.safetensors.index.json");
    size_t n;
    enum sp_status st;

    *path = NULL;
    if (configured && weights) return SP_OK;
    if (weights) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: a folder without config.json is no checkpoint; its weights are there",
                       folder);
    }
    if ((st = sp_folder_find_gguf(path, &n, folder, NULL, err)) || n == 1) return st;
    free(*path);
    *path = NULL;
    if (n)
        return sp_fail(err, SP_E_INPUT, "%s: it holds %zu GGUF files; name one of them", folder, n);
    return sp_file_exists_in(folder, "adapter_config.json") ? fail_adapter(folder, err)
                                                            : fail_other(folder, configured, err);
}
