/* The two stores:
 *
 *   HUB/models--ORG--NAME/refs/REVISION           holds a commit
 *   HUB/models--ORG--NAME/snapshots/COMMIT/       the files
 *
 *   OLLAMA/manifests/HOST/NAMESPACE/NAME/TAG      JSON: layers of a media type and a digest
 *   OLLAMA/blobs/sha256-DIGEST                    a layer */
#include "convert/source/source_name.h"

#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/base/unicode.h"
#include "format/base/warnings.h"
#include "format/modelfile/modelfile_check.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096, MAX_NAME = 256, MAX_COMMIT = 256, MAX_MANIFEST = 1 << 20 };
enum { DIGEST_SIZE = 71 /* "sha256:" and 64 hex digits */ };

#define LAYER "application/vnd.ollama.image."

/* ---- names ---- */

/* True for a part of a name: letters, digits, '-', '_' and '.', and no step to another folder. */
static bool is_part(const char *text, size_t len)
{
    if (len == 0 || len > MAX_NAME || text[0] == '.') return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '-' && c != '_' && c != '.') return false;
    }
    return true;
}

struct part {
    const char *at;
    size_t len;
};

/* host/namespace/name with what follows '@' or ':'. */
struct model_name {
    const char *text;
    struct part parts[3];
    size_t n;                  /* of the parts; 0: the text is no name */
    struct part revision, tag; /* .at is NULL: none; not both */
};

static struct model_name split_name(const char *text)
{
    const struct model_name none = {.text = text};
    struct model_name name = none;
    const char *slash = strrchr(text, '/'), *last = slash ? slash + 1 : text;
    const char *stop = last + strcspn(last, "@:"), *begin = text;
    const struct part end = {stop + 1, *stop ? strlen(stop + 1) : 0};

    if (*stop && !is_part(end.at, end.len)) return none;
    if (*stop == '@') name.revision = end;
    if (*stop == ':') name.tag = end;
    for (;;) {
        const char *next = memchr(begin, '/', (size_t)(stop - begin));
        size_t len = (size_t)((next ? next : stop) - begin);
        if (name.n == 3 || !is_part(begin, len)) return none;
        name.parts[name.n++] = (struct part){begin, len};
        if (next == NULL) return name;
        begin = next + 1;
    }
}

static enum sp_status print_path(char out[PATH_SIZE], struct sp_err *err, const char *folder,
                                 const char *rest)
{
    int n = snprintf(out, PATH_SIZE, "%s/%s", folder, rest);

    if (n > 0 && n < PATH_SIZE) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s: its path is too long", rest);
}

bool sp_source_name_is_file(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && sp_is_among(dot, ".gguf .safetensors .bin .json");
}

/* ---- Hugging Face's cache ---- */

/* Replaces the folder by the GGUF file in it that the tag names, or without a tag by the only one
 * if there is no config.json. *found = false if no file has the tag. */
static enum sp_status choose_gguf(char snapshot[PATH_SIZE], bool *found, const char *name,
                                  struct part tag, struct sp_err *err)
{
    enum sp_status st;
    char path[PATH_SIZE], *file = NULL;
    size_t n;

    *found = tag.at == NULL;
    if ((st = print_path(path, err, snapshot, "config.json"))) return st;
    if (tag.at == NULL && sp_file_exists(path)) return SP_OK;
    if ((st = sp_folder_find_gguf(&file, &n, snapshot, tag.at, err)) || n == 0) return st;
    if (n == 1 && strlen(file) < PATH_SIZE) {
        snprintf(snapshot, PATH_SIZE, "%s", file);
        *found = true;
    } else {
        st = sp_fail(err, SP_E_INPUT,
                     "%s: its folder holds %zu GGUF files%s; name one of them, as "
                     "ORG/NAME:Q4_K_M or by its path: %s/",
                     name, n, tag.at ? " of this tag" : "", snapshot);
    }
    free(file);
    return st;
}

/* The commit that refs/REVISION names, or the revision itself. */
static enum sp_status read_commit(char out[MAX_COMMIT], const char *folder, struct part revision,
                                  struct sp_err *err)
{
    enum sp_status st;
    char path[PATH_SIZE], ref[MAX_NAME + 8];
    struct sp_text text;

    snprintf(ref, sizeof ref, "refs/%.*s", (int)revision.len, revision.at);
    snprintf(out, MAX_COMMIT, "%.*s", (int)revision.len, revision.at);
    if ((st = print_path(path, err, folder, ref)) || !sp_file_exists(path)) return st;
    if ((st = sp_file_read_text(&text, path, MAX_COMMIT - 1, err))) return st;
    while (text.size && (text.at[text.size - 1] == '\n' || text.at[text.size - 1] == '\r'))
        text.at[--text.size] = 0;
    if (is_part(text.at, text.size))
        snprintf(out, MAX_COMMIT, "%s", text.at);
    else
        st = sp_fail(err, SP_E_INPUT, "%s: does not name a commit", path);
    free(text.at);
    return st;
}

/* Leaves *path NULL if the cache does not have the model. */
static enum sp_status find_in_hub(char **path, const struct model_name *name, const char *hub,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct part revision = name->revision;
    bool found;
    char folder[PATH_SIZE], snapshot[PATH_SIZE], commit[MAX_COMMIT];
    char rest[MAX_COMMIT + 2 * MAX_NAME + 32];

    if (hub == NULL) return SP_OK;
    if (revision.at == NULL) revision = (struct part){"main", 4};
    snprintf(rest, sizeof rest, "models--%.*s--%.*s", (int)name->parts[0].len, name->parts[0].at,
             (int)name->parts[1].len, name->parts[1].at);
    if ((st = print_path(folder, err, hub, rest))) return st;
    if ((st = read_commit(commit, folder, revision, err))) return st;
    snprintf(rest, sizeof rest, "snapshots/%s", commit);
    if ((st = print_path(snapshot, err, folder, rest)) || !sp_file_is_folder(snapshot)) return st;
    if ((st = choose_gguf(snapshot, &found, name->text, name->tag, err)) || !found) return st;
    return sp_copy_text(path, snapshot, strlen(snapshot), err);
}

/* ---- ollama's models ---- */

static enum sp_status read_manifest(struct sp_json **out, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_text text;

    if ((st = sp_file_read_text(&text, path, MAX_MANIFEST, err))) return st;
    if ((st = sp_json_parse(out, text.at, text.size, SP_JSON_LENIENT, err)))
        sp_context(err, "%s", path);
    free(text.at);
    return st;
}

/* Sets *path to that of a layer's blob, owned by the caller. */
static enum sp_status blob_path(char **path, const struct sp_json *layer, const char *manifest,
                                const char *ollama, struct sp_err *err)
{
    const char *digest = sp_json_get_text(layer, "digest");
    char rest[DIGEST_SIZE + 16];

    if (digest == NULL || strlen(digest) != DIGEST_SIZE || strncmp(digest, "sha256:", 7) != 0 ||
        strspn(digest + 7, "0123456789abcdef") != DIGEST_SIZE - 7)
        return sp_fail(err, SP_E_INPUT, "%s: a layer has no sha256 digest", manifest);
    snprintf(rest, sizeof rest, "blobs/sha256-%s", digest + 7);
    return sp_file_join(path, ollama, rest, err);
}

/* The kind of a layer, for example "model"; "" for others than ollama's. */
static const char *layer_kind(const struct sp_json *layer)
{
    const char *type = sp_json_get_text(layer, "mediaType");

    return type && strncmp(type, LAYER, sizeof LAYER - 1) == 0 ? type + sizeof LAYER - 1 : "";
}

/* The layers of weights: one model and at most one adapter. */
static enum sp_status find_weight_layers(const struct sp_json **model,
                                         const struct sp_json **adapter,
                                         const struct sp_json *layers, const char *manifest,
                                         struct sp_err *err)
{
    *model = *adapter = NULL;
    for (size_t i = 0; i < sp_json_len(layers); i++) {
        const struct sp_json *layer = sp_json_at(layers, i), **of;
        const char *kind = layer_kind(layer);
        if (strcmp(kind, "tensor") == 0) {
            return sp_fail(err, SP_E_UNSUPPORTED, "%s: ollama's layer \"tensor\" is not supported",
                           manifest);
        }
        of = strcmp(kind, "model") == 0 ? model : strcmp(kind, "adapter") == 0 ? adapter : NULL;
        if (of == NULL) continue;
        if (*of) {
            return sp_fail(err, SP_E_UNSUPPORTED,
                           "%s: ollama's layer \"%s\" occurs twice, which is not supported",
                           manifest, kind);
        }
        *of = layer;
    }
    if (*model == NULL) return sp_fail(err, SP_E_INPUT, "%s: no model layer", manifest);
    return SP_OK;
}

static enum sp_status find_weights(struct sp_named_source *out, const char *manifest,
                                   const char *ollama, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *root = NULL;
    const struct sp_json *model, *adapter;

    if ((st = read_manifest(&root, manifest, err))) return st;
    st = find_weight_layers(&model, &adapter, sp_json_get(root, "layers"), manifest, err);
    if (!st) st = blob_path(&out->path, model, manifest, ollama, err);
    if (!st && adapter) st = blob_path(&out->adapter, adapter, manifest, ollama, err);
    sp_json_free(root);
    return st;
}

/* Leaves *out unchanged if ollama does not have the model. */
static enum sp_status find_in_ollama(struct sp_named_source *out, const struct model_name *model,
                                     const char *ollama, struct sp_err *err)
{
    static const struct part defaults[] = {{"registry.ollama.ai", 18}, {"library", 7}};
    const struct part host = model->n == 3 ? model->parts[0] : defaults[0];
    const struct part space = model->n > 1 ? model->parts[model->n - 2] : defaults[1];
    const struct part name = model->parts[model->n - 1];
    struct part tag = model->tag;
    char manifest[PATH_SIZE], rest[4 * MAX_NAME + 32];
    enum sp_status st;

    if (ollama == NULL) return SP_OK;
    if (tag.at == NULL) tag = (struct part){"latest", 6};
    snprintf(rest, sizeof rest, "manifests/%.*s/%.*s/%.*s/%.*s", (int)host.len, host.at,
             (int)space.len, space.at, (int)name.len, name.at, (int)tag.len, tag.at);
    if ((st = print_path(manifest, err, ollama, rest))) return st;
    if (!sp_file_exists(manifest) || sp_file_is_folder(manifest)) return SP_OK;
    if ((st = find_weights(out, manifest, ollama, err))) return st;
    return sp_copy_text(&out->manifest, manifest, strlen(manifest), err);
}

/* ---- both ---- */

/* The sentence on a name of a form that only models have, or SP_OK. */
static enum sp_status fail_absent(const struct model_name *name,
                                  const struct sp_source_stores *stores, struct sp_err *err)
{
    const char *hub = stores->hub ? stores->hub : "none";
    const char *ollama = stores->ollama ? stores->ollama : "none";
    const int repository =
        (int)(name->n == 2 ? name->parts[1].at + name->parts[1].len - name->text : 0);

    if (name->n == 2 && name->tag.at) {
        return sp_fail_about(
            err, SP_E_INPUT, SP_TOPIC_NO_MODEL,
            "%s: neither a file nor a model in the Hugging Face cache (%s) or in "
            "ollama's store (%s); to download it: hf download %.*s --include '*%s*', "
            "or ollama pull %s",
            name->text, hub, ollama, repository, name->text, name->tag.at, name->text);
    }
    if (name->n == 2) {
        return sp_fail_about(
            err, SP_E_INPUT, SP_TOPIC_NO_MODEL,
            "%s: neither a file nor a model in the Hugging Face cache (%s); to download "
            "it: hf download %.*s%s%s",
            name->text, hub, repository, name->text, name->revision.at ? " --revision " : "",
            name->revision.at ? name->revision.at : "");
    }
    if (name->tag.at == NULL) return SP_OK;
    return sp_fail_about(
        err, SP_E_INPUT, SP_TOPIC_NO_MODEL,
        "%s: neither a file nor a model in ollama's store (%s); to download it: ollama "
        "pull %s; or download a model of Hugging Face: hf download ORG/NAME",
        name->text, ollama, name->text);
}

enum sp_status sp_source_name_find(struct sp_named_source *out, const char *text,
                                   const struct sp_source_stores *stores, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_named_source found = {0};
    const struct model_name name = split_name(text);

    if (name.n == 0 || sp_source_name_is_file(text)) return SP_OK;
    if (name.n == 2) st = find_in_hub(&found.path, &name, stores->hub, err);
    if (!st && found.path == NULL && name.revision.at == NULL)
        st = find_in_ollama(&found, &name, stores->ollama, err);
    if (!st && found.path == NULL) st = fail_absent(&name, stores, err);
    if (st) {
        sp_named_source_release(&found);
        return st;
    }
    *out = found;
    return SP_OK;
}

void sp_named_source_release(struct sp_named_source *source)
{
    free(source->path);
    free(source->adapter);
    free(source->manifest);
    *source = (struct sp_named_source){0};
}

/* ---- records of ollama's models ---- */

/* A command, maybe a name, and a value in three quotes. */
static enum sp_status put_record(struct sp_strbuf *out, enum sp_modelfile_command command,
                                 const char *name, const char *value, struct sp_err *err)
{
    const char *const parts[] = {sp_modelfile_command_name(command),
                                 " ",
                                 name,
                                 *name ? " " : "",
                                 "\"\"\"",
                                 value,
                                 "\"\"\"\n"};
    enum sp_status st = SP_OK;

    for (const char *at = value; (at = strstr(at, "\"\"\"")) != NULL; at++) {
        const char *end = at + 3 + strspn(at + 3, " \t\v\f");
        if (*end != '\n' && *end != '\r') continue;
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s of ollama's model has a line that ends with three quotes, which a "
                       "Modelfile cannot hold",
                       sp_modelfile_command_name(command));
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !st; i++) {
        size_t len = strlen(parts[i]);
        if (len + out->len > SP_MODELFILE_MAX_SIZE) { /* a layer may be named again and again */
            return sp_fail(err, SP_E_INPUT, "the records of ollama's model have more than %u bytes",
                           (unsigned)SP_MODELFILE_MAX_SIZE);
        }
        st = sp_strbuf_append(out, parts[i], len, err);
    }
    return st;
}

static enum sp_status put_parameter(struct sp_strbuf *out, const struct sp_parameter *parameter,
                                    const struct sp_json *value, char **warnings,
                                    struct sp_err *err)
{
    struct sp_err unusable = {0};
    char *text = NULL;
    enum sp_status st = sp_parameter_of_json(&text, parameter, value, &unusable);

    if (st == SP_E_INPUT)
        return sp_warn(warnings, err, "ollama's model: %s; it has no effect", unusable.text);
    if (st) *err = unusable;
    if (!st && text) st = put_record(out, SP_MODELFILE_PARAMETER, parameter->name, text, err);
    free(text);
    return st;
}

/* A parameter whose value is a list is set once for each element. */
static enum sp_status put_parameters(struct sp_strbuf *out, const struct sp_json *root,
                                     const struct sp_modelfile *own, char **warnings,
                                     struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (struct sp_json_iter it = {0}; sp_json_next(root, &it) && !st;) {
        const struct sp_parameter *parameter = sp_parameter_find(it.key);
        bool list = sp_json_kind(it.value) == SP_JSON_ARRAY;
        size_t n = list ? sp_json_len(it.value) : 1;
        if (parameter == NULL) {
            st = sp_warn(warnings, err,
                         "ollama's model: parameter %.100s is unknown and has no effect", it.key);
            continue;
        }
        if (sp_modelfile_find(own, SP_MODELFILE_PARAMETER, parameter->name)) continue;
        for (size_t i = 0; i < n && !st; i++)
            st = put_parameter(out, parameter, list ? sp_json_at(it.value, i) : it.value, warnings,
                               err);
    }
    return st;
}

static enum sp_status put_messages(struct sp_strbuf *out, const struct sp_json *list,
                                   struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sp_json_len(list) && !st; i++) {
        const char *role = sp_json_get_text(sp_json_at(list, i), "role");
        const char *content = sp_json_get_text(sp_json_at(list, i), "content");
        if (role == NULL || content == NULL || !is_part(role, strlen(role)))
            return sp_fail(err, SP_E_INPUT, "a message of ollama's model has no role or content");
        st = put_record(out, SP_MODELFILE_MESSAGE, role, content, err);
    }
    return st;
}

static enum sp_status put_layer(struct sp_strbuf *out, const char *kind, const struct sp_text *blob,
                                const struct sp_modelfile *own, char **warnings, struct sp_err *err)
{
    static const struct {
        const char *kind;
        enum sp_modelfile_command command;
    } texts[] = {
        {"template", SP_MODELFILE_TEMPLATE},
        {"system", SP_MODELFILE_SYSTEM},
        {"license", SP_MODELFILE_LICENSE},
    };
    enum sp_status st;
    struct sp_json *root = NULL;

    if (strlen(blob->at) != blob->size)
        return sp_fail(err, SP_E_INPUT, "%s of ollama's model contains a NUL", kind);
    if (sp_utf8_valid(blob->at, blob->size) != blob->size)
        return sp_fail(err, SP_E_INPUT, "%s of ollama's model is not UTF-8 text", kind);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(kind, texts[i].kind) != 0) continue;
        if (sp_modelfile_find(own, texts[i].command, NULL)) return SP_OK;
        return put_record(out, texts[i].command, "", blob->at, err);
    }
    if ((st = sp_json_parse(&root, blob->at, blob->size, SP_JSON_LENIENT, err))) return st;
    st = strcmp(kind, "params") == 0 ? put_parameters(out, root, own, warnings, err)
         : sp_modelfile_find(own, SP_MODELFILE_MESSAGE, NULL) ? SP_OK
                                                              : put_messages(out, root, err);
    sp_json_free(root);
    return st;
}

enum sp_status sp_ollama_append_records(struct sp_strbuf *text, const char *manifest,
                                        const struct sp_modelfile *own,
                                        const struct sp_source_stores *stores, char **warnings,
                                        struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *root = NULL;
    const struct sp_json *layers;

    if ((st = read_manifest(&root, manifest, err))) return st;
    layers = sp_json_get(root, "layers");
    for (size_t i = 0; i < sp_json_len(layers) && !st; i++) {
        const struct sp_json *layer = sp_json_at(layers, i);
        const char *kind = layer_kind(layer);
        char *path = NULL;
        struct sp_text blob = {0};
        if (!sp_is_among(kind, "template system license params messages")) continue;
        st = blob_path(&path, layer, manifest, stores->ollama, err);
        if (!st) st = sp_file_read_text(&blob, path, SP_MODELFILE_MAX_SIZE, err);
        if (!st && (st = put_layer(text, kind, &blob, own, warnings, err)))
            sp_context(err, "%s", path);
        free(blob.at);
        free(path);
    }
    sp_json_free(root);
    return st;
}
