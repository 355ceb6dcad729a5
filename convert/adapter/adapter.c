#include "convert/adapter/adapter.h"

#include "format/base/affix.h"
#include "format/family/family.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/tokenizer/regex.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CONFIG = 16 << 20,
    READ_SIZE = 1 << 20, /* bytes hashed at a time */
};

static const char config_name[] = "adapter_config.json";

/* ---- files ---- */

/* *out = the tensors' file of a folder, owned by the caller. The message names a file of another
 * format if there is one. */
static enum sp_status find_tensors(char **out, const char *folder, struct sp_err *err)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapters.safetensors"};
    static const char *const others[] = {"adapter_model.bin", "adapters.npz"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (sp_file_exists_in(folder, names[i])) return sp_file_join(out, folder, names[i], err);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!sp_file_exists_in(folder, others[i])) continue;
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s: its tensors are in %s, expected adapter_model.safetensors or "
                       "adapters.safetensors",
                       folder, others[i]);
    }
    return sp_fail(
        err, SP_E_INPUT,
        "%s: contains neither adapter_model.safetensors (PEFT) nor adapters.safetensors (mlx-lm)",
        folder);
}

/* *is_gguf = whether a file is a GGUF file; one that is neither that nor safetensors is refused. */
static enum sp_status check_file(bool *is_gguf, const char *path, struct sp_err *err)
{
    uint8_t magic[4];
    enum sp_status st;

    if ((st = sp_file_read_magic(magic, sizeof magic, path, err))) return st;
    *is_gguf = sp_gguf_is_magic(magic);
    if (*is_gguf || sp_ends_with(path, ".safetensors")) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "%s: expected an adapter's folder, its .safetensors file or a GGUF file", path);
}

static enum sp_status read_config(struct sp_adapter *a, const char *folder, struct sp_err *err)
{
    enum sp_status st;
    struct sp_text text = {0};
    char *path = NULL;

    if (!sp_file_exists_in(folder, config_name))
        return sp_fail(err, SP_E_INPUT, "%s: %s is missing in its folder", a->path, config_name);
    if ((st = sp_file_join(&path, folder, config_name, err))) return st;
    if ((st = sp_file_read_text(&text, path, MAX_CONFIG, err))) goto done;
    if ((st = sp_adapter_config_parse(&a->config, text.at, text.size, err)))
        sp_context(err, "%s", path);
done:
    free(text.at);
    free(path);
    return st;
}

static enum sp_status digest_file(uint64_t *out, const char *path, struct sp_err *err)
{
    struct sp_file *file = NULL;
    struct sp_hash *hash = NULL;
    uint8_t *bytes = NULL;
    enum sp_status st;

    if ((st = sp_file_open(&file, path, err))) goto done;
    if ((st = sp_hash_new(&hash, err)) || (st = sp_new(&bytes, READ_SIZE, 1, err))) goto done;
    for (uint64_t at = 0; at < sp_file_size(file);) {
        uint64_t left = sp_file_size(file) - at;
        size_t n = left < READ_SIZE ? (size_t)left : READ_SIZE;
        if ((st = sp_file_read_at(file, at, bytes, n, err))) goto done;
        sp_hash_update(hash, bytes, n);
        at += n;
    }
    *out = sp_hash_digest(hash);
done:
    free(bytes);
    sp_hash_free(hash);
    sp_file_close(file);
    return st;
}

/* ---- tensors by module ---- */

#define PART(member) offsetof(struct sp_adapter_product, member)

/* The endings of tensor names, and the members of a product that they stand for. */
static const struct ending {
    enum sp_adapter_format format;
    const char *end;
    size_t part;
    bool embeds;
} endings[] = {
    {SP_ADAPTER_PEFT, ".lora_A.weight", PART(a), false},
    {SP_ADAPTER_PEFT, ".lora_B.weight", PART(b), false},
    {SP_ADAPTER_PEFT, ".lora_embedding_A", PART(a), true},
    {SP_ADAPTER_PEFT, ".lora_embedding_B", PART(b), true},
    {SP_ADAPTER_PEFT, ".lora_magnitude_vector", PART(magnitudes), false},
    {SP_ADAPTER_PEFT, ".lora_magnitude_vector.weight", PART(magnitudes), false},
    {SP_ADAPTER_PEFT, ".lora_B.bias", PART(bias), false},
    {SP_ADAPTER_MLX, ".lora_a", PART(a), false},
    {SP_ADAPTER_MLX, ".lora_b", PART(b), false},
    {SP_ADAPTER_MLX, ".m", PART(magnitudes), false},
    {SP_ADAPTER_GGUF, ".weight.lora_a", PART(a), false},
    {SP_ADAPTER_GGUF, ".weight.lora_b", PART(b), false},
};

/* Its row of the table; NULL: a tensor of the model, changed whole. */
static const struct ending *find_ending(enum sp_adapter_format format, const char *name)
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (endings[i].format == format && sp_ends_with(name, endings[i].end)) return &endings[i];
    return NULL;
}

/* The name inside the model. PEFT wraps the model twice. */
static const char *inner_name(const struct sp_adapter *a, const struct sp_adapter_tensor *t)
{
    static const char prefix[] = "base_model.model.";
    const char *name = t->published;

    if (a->config.format != SP_ADAPTER_PEFT) return name;
    return strncmp(name, prefix, sizeof prefix - 1) ? name : name + sizeof prefix - 1;
}

/* A tensor of the adapter and the module that its name belongs to. */
struct entry {
    const struct sp_adapter_tensor *tensor;
    const char *module; /* [len], not NUL-terminated */
    size_t len;
    const struct ending *ending;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = memcmp(x->module, y->module, x->len < y->len ? x->len : y->len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* A whole tensor may be named as the wrapper has it: X.base_layer.weight, or
 * X.modules_to_save.weight. */
static enum sp_status add_whole(struct sp_adapter *a, const struct sp_adapter_tensor *t,
                                struct sp_err *err)
{
    static const char *const wrappers[] = {".base_layer.", ".modules_to_save."};
    const char *name = inner_name(a, t);
    bool is_gguf = a->config.format == SP_ADAPTER_GGUF;
    struct sp_adapter_whole *w;
    enum sp_status st;

    if (strstr(t->name, ".lora_") || (is_gguf && !sp_ends_with(name, "norm.weight"))) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor \"%s\" is not a tensor of a LoRA adapter",
                       t->name);
    }
    st = sp_grow(&a->wholes, &a->cap_wholes, a->n_wholes + 1, sizeof *a->wholes, err);
    if (st) return st;
    w = &a->wholes[a->n_wholes];
    *w = (struct sp_adapter_whole){.tensor = t};
    if ((st = sp_copy_text(&w->name, name, strlen(name), err))) return st;
    a->n_wholes++;
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        char *at = strstr(w->name, wrappers[i]);
        if (at) memmove(at, at + strlen(wrappers[i]) - 1, strlen(at + strlen(wrappers[i])) + 2);
    }
    return SP_OK;
}

static enum sp_status take(struct sp_adapter_product *p, const struct entry *e, struct sp_err *err)
{
    const struct sp_adapter_tensor **slot = (void *)((char *)p + e->ending->part);

    if (*slot) {
        return sp_fail(err, SP_E_INPUT, "tensors \"%s\" and \"%s\" have the same role",
                       (*slot)->name, e->tensor->name);
    }
    *slot = e->tensor;
    if (e->ending->embeds) p->embeds = true;
    return SP_OK;
}

/* A module of n tensors. */
static enum sp_status add_product(struct sp_adapter *a, const struct entry *entries, size_t n,
                                  struct sp_err *err)
{
    struct sp_adapter_product *p;
    enum sp_status st;

    st = sp_grow(&a->products, &a->cap_products, a->n_products + 1, sizeof *a->products, err);
    if (st) return st;
    p = &a->products[a->n_products];
    *p = (struct sp_adapter_product){0};
    if ((st = sp_copy_text(&p->module, entries->module, entries->len, err))) return st;
    a->n_products++;
    for (size_t i = 0; i < n; i++)
        if ((st = take(p, &entries[i], err))) return st;
    p->experts = a->config.format != SP_ADAPTER_PEFT && p->a && p->a->rank == 3;
    if (p->a == NULL || p->b == NULL) {
        return sp_fail(err, SP_E_INPUT, "tensor \"%s\" has no %s for its low-rank product",
                       entries->tensor->name, p->a ? "second factor" : "first factor");
    }
    if (a->config.has_magnitudes != (p->magnitudes != NULL)) {
        return sp_fail(err, SP_E_INPUT, "module %s %s", p->module,
                       p->magnitudes ? "has magnitudes (DoRA), but its config does not mention them"
                                     : "has no magnitudes, though its config says DoRA");
    }
    if (p->magnitudes && p->embeds) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "tensor \"%s\": DoRA of an embedding is not supported", p->magnitudes->name);
    }
    return SP_OK;
}

static enum sp_status group(struct sp_adapter *a, struct entry *entries, struct sp_err *err)
{
    const struct sp_adapter_tensor *all = a->file.tensors;
    enum sp_status st;
    size_t n = 0;

    for (size_t i = 0; i < a->file.n; i++) {
        const struct ending *ending = find_ending(a->config.format, all[i].published);
        const char *inner = inner_name(a, &all[i]);
        if (sp_source_is_skipped(inner)) {
            a->n_skipped++;
        } else if (ending == NULL) {
            if ((st = add_whole(a, &all[i], err))) return st;
        } else if (strlen(inner) > strlen(ending->end)) {
            entries[n++] =
                (struct entry){&all[i], inner, strlen(inner) - strlen(ending->end), ending};
        } else {
            return sp_fail(err, SP_E_INPUT, "tensor \"%s\" belongs to no module", all[i].name);
        }
    }
    if (n > 1) qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_entries(&entries[i], &entries[end]) == 0;)
            end++;
        if ((st = add_product(a, &entries[i], end - i, err))) return st;
    }
    if (a->n_products + a->n_wholes) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "no tensors");
}

/* Sets the scales of a GGUF adapter, where a rank of 0 is refused later. */
static void set_scales(struct sp_adapter *a)
{
    for (size_t i = 0; i < a->n_products; i++) {
        uint64_t rank = sp_adapter_factors(a, &a->products[i]).rank;
        bool stated = a->config.alpha != 0 && rank > 0;
        a->products[i].scale = stated ? a->config.alpha / (double)rank : 1;
    }
}

/* Sets the scale of every product from the config. */
static enum sp_status find_scales(struct sp_adapter *a, struct sp_err *err)
{
    struct sp_regex_matcher *matcher = NULL;
    enum sp_status st;

    if (a->config.format == SP_ADAPTER_GGUF) {
        set_scales(a);
        return SP_OK;
    }
    if ((st = sp_regex_matcher_open(&matcher, err))) return st;
    for (size_t i = 0; i < a->n_products && !st; i++) {
        struct sp_adapter_product *p = &a->products[i];
        st = sp_adapter_config_find(&p->rank, &p->scale, &a->config, p->module, matcher, err);
    }
    sp_regex_matcher_close(matcher);
    return st;
}

static enum sp_status read_tensors(struct sp_adapter *a, struct sp_err *err)
{
    struct entry *entries = NULL;
    enum sp_status st;

    if ((st = sp_new(&entries, a->file.n, sizeof *entries, err))) return st;
    st = group(a, entries, err);
    free(entries);
    if (!st) st = find_scales(a, err);
    if (st) sp_context(err, "%s", a->path);
    return st;
}

enum sp_status sp_adapter_open(struct sp_adapter *out, const char *path,
                               const struct sp_config *model, struct sp_err *err)
{
    struct sp_adapter a = {0};
    char *folder = NULL;
    bool is_gguf = false;
    enum sp_status st;

    *out = a;
    if (!sp_file_exists(path)) {
        st = sp_fail(err, SP_E_INPUT,
                     "%s does not exist, expected an adapter's folder, its .safetensors file or a "
                     "GGUF file",
                     path);
        goto done;
    }
    if (sp_file_is_folder(path)) {
        if ((st = sp_copy_text(&folder, path, strlen(path), err))) goto done;
        if ((st = find_tensors(&a.path, folder, err))) goto done;
    } else {
        if ((st = check_file(&is_gguf, path, err))) goto done;
        if ((st = sp_file_folder(&folder, path, err))) goto done;
        if ((st = sp_copy_text(&a.path, path, strlen(path), err))) goto done;
    }
    if (!is_gguf && (st = read_config(&a, folder, err))) goto done;
    if ((st = sp_adapter_file_open(&a.file, a.path, is_gguf, model, err))) goto done;
    if (is_gguf && (st = sp_adapter_config_of_gguf(&a.config, a.file.gguf.file, err))) {
        sp_context(err, "%s", a.path);
        goto done;
    }
    a.n_skipped = a.file.gguf.n_skipped;
    if ((st = read_tensors(&a, err))) goto done;
    if ((st = digest_file(&a.digest, a.path, err))) goto done;
    *out = a;
    a = (struct sp_adapter){0};
done:
    free(folder);
    sp_adapter_release(&a);
    return st;
}

void sp_adapter_release(struct sp_adapter *adapter)
{
    for (size_t i = 0; i < adapter->n_products; i++)
        free(adapter->products[i].module);
    for (size_t i = 0; i < adapter->n_wholes; i++)
        free(adapter->wholes[i].name);
    free(adapter->products);
    free(adapter->wholes);
    sp_adapter_config_release(&adapter->config);
    sp_adapter_file_close(&adapter->file);
    free(adapter->path);
    *adapter = (struct sp_adapter){0};
}

/* Rows of W are a matrix's outputs, or an embedding's tokens. As stored:
 *
 *            matrix                        embedding
 *   PEFT     b [rows][rank] a [rank][cols] a [rank][rows] b [cols][rank]
 *   mlx-lm   b [rank][rows] a [cols][rank] a [rows][rank] b [rank][cols]
 *   GGUF     b [rows][rank] a [rank][cols] a [rows][rank] b [cols][rank]
 *   experts  b [..][rows][rank] a [..][rank][cols] */
struct sp_adapter_factors sp_adapter_factors(const struct sp_adapter *adapter,
                                             const struct sp_adapter_product *product)
{
    enum sp_adapter_format format = adapter->config.format;
    bool mlx = format == SP_ADAPTER_MLX, transposed = mlx != product->embeds && !product->experts;
    struct sp_adapter_factors f = {
        .left = product->embeds ? product->a : product->b,
        .right = product->embeds ? product->b : product->a,
        .left_transposed = transposed && format != SP_ADAPTER_GGUF,
        .right_transposed = transposed,
    };

    if (f.left->rank == (product->experts ? 3 : 2))
        f.rank = f.left->shape[f.left_transposed ? 0 : f.left->rank - 1];
    return f;
}
