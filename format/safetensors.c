/* Checkpoints: which files there are, what the index says about them, and reading their tensors.
 * The header of one file is safetensors_header.c's business. */
#include "format/safetensors.h"
#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/json/json.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_INDEX = 100000000,
    MAX_INDEX_TREE = 256 << 20, /* of SP_SAFETENSORS_MAX_TENSORS names of customary length */
    MAX_SHARDS = 4096,
    OPEN_SHARDS = 64, /* the others rest: a process may have so many files open, often 1024 */
    SHOWN_NAME = 200
};

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

struct shard {
    struct sp_file *file;
    struct sp_safetensors_header header; /* its tensors move to the checkpoint's table */
};

struct sp_safetensors {
    struct sp_safetensor *tensors; /* [n], by name */
    size_t n;
    struct shard *shards; /* [n_shards] */
    size_t n_shards;
    size_t n_listed; /* tensors in the headers of all shards */
};

/* A member of the index's weight_map. */
struct mapped {
    const char *tensor, *shard; /* borrowed from the index's JSON */
};

static enum sp_status open_shard(struct sp_safetensors *c, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct shard *s = c->shards + c->n_shards;

    if ((st = sp_file_open(&s->file, path, err))) return st;
    c->n_shards++;
    st = sp_safetensors_header_read(&s->header, s->file, err);
    if (c->n_shards > OPEN_SHARDS) sp_file_rest(s->file);
    c->n_listed += s->header.n;
    if (st || c->n_listed <= SP_SAFETENSORS_MAX_TENSORS) return st;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%s: tensor %zu of its checkpoint, at most %d are supported", path, c->n_listed,
                   SP_SAFETENSORS_MAX_TENSORS);
}

/* Moves the tensors of shards first.. to the checkpoint's table. The first table of all becomes the
 * checkpoint's own, so that there are never two of a large one. */
static enum sp_status move_tables(struct sp_safetensors *c, size_t first, struct sp_err *err)
{
    enum sp_status st;
    struct sp_safetensor *joined = NULL;
    size_t n = c->n;

    if (c->tensors == NULL && c->n_shards == first + 1) {
        struct sp_safetensors_header *h = &c->shards[first].header;
        c->tensors = h->tensors;
        c->n = h->n;
        h->tensors = NULL;
        return SP_OK;
    }
    for (size_t i = first; i < c->n_shards; i++)
        n += c->shards[i].header.n;
    if ((st = sp_new(&joined, n, sizeof *joined, err))) return st;
    if (c->n) memcpy(joined, c->tensors, c->n * sizeof *joined);
    free(c->tensors);
    c->tensors = joined;
    for (size_t i = first; i < c->n_shards; i++) {
        struct sp_safetensors_header *h = &c->shards[i].header;
        if (h->n) memcpy(c->tensors + c->n, h->tensors, h->n * sizeof *h->tensors);
        c->n += h->n;
        free(h->tensors);
        h->tensors = NULL;
    }
    return SP_OK;
}

/* Adds the tensors of shards first.. to the checkpoint's table, and sorts it. */
static enum sp_status join_tables(struct sp_safetensors *c, size_t first, struct sp_err *err)
{
    enum sp_status st;

    if ((st = move_tables(c, first, err))) return st;
    qsort(c->tensors, c->n, sizeof *c->tensors, sp_compare_names);
    for (size_t i = 1; i < c->n; i++) {
        const struct sp_safetensor *a = c->tensors + i - 1, *b = a + 1;
        if (strcmp(a->name, b->name) != 0) continue;
        return sp_fail(err, SP_E_INPUT, "tensor %.*s is in %s and in %s", SHOWN_NAME, a->name,
                       sp_file_path(a->file), sp_file_path(b->file));
    }
    return SP_OK;
}

static enum sp_status open_single(struct sp_safetensors *c, const char *path, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_new(&c->shards, 1, sizeof *c->shards, err))) return st;
    if ((st = open_shard(c, path, err))) return st;
    return join_tables(c, 0, err);
}

/* A shard is a file next to its index; a name that could lead elsewhere is refused. */
static bool is_bare_name(const char *name, size_t len)
{
    return len > 0 && len < 256 && strlen(name) == len && strpbrk(name, "/\\") == NULL &&
           strcmp(name, ".") != 0 && strstr(name, "..") == NULL;
}

/* By shard, then by tensor. */
static int compare_mapped(const void *left, const void *right)
{
    const struct mapped *a = left, *b = right;
    int order = strcmp(a->shard, b->shard);

    return order ? order : strcmp(a->tensor, b->tensor);
}

static enum sp_status read_weight_map(struct mapped **out, size_t *n, const struct sp_json *index,
                                      struct sp_err *err)
{
    enum sp_status st;
    const struct sp_json *map = sp_json_get(index, "weight_map");
    struct mapped *mapped = NULL;
    size_t i = 0, len;

    if (sp_json_kind(map) != SP_JSON_OBJECT || sp_json_len(map) == 0)
        return sp_fail(err, SP_E_INPUT, "weight_map is missing, empty or no object");
    if ((st = sp_new(&mapped, sp_json_len(map), sizeof *mapped, err))) return st;
    for (struct sp_json_iter it = {0}; sp_json_next(map, &it); i++) {
        const char *shard = sp_json_to_string(it.value, &len);
        if (shard == NULL) {
            st = sp_fail(err, SP_E_INPUT,
                         "tensor %.*s: weight_map has a value of kind %s, expected a file's name",
                         SHOWN_NAME, it.key, sp_json_kind_name(sp_json_kind(it.value)));
        } else if (!is_bare_name(shard, len)) {
            st = sp_fail(err, SP_E_INPUT,
                         "tensor %.*s: shard \"%.*s\" is not a plain file name next to the index",
                         SHOWN_NAME, it.key, SHOWN_NAME, shard);
        }
        if (st) goto done;
        mapped[i] = (struct mapped){it.key, shard};
    }
    qsort(mapped, i, sizeof *mapped, compare_mapped);
    *out = mapped;
    *n = i;
    mapped = NULL;
done:
    free(mapped);
    return st;
}

static enum sp_status open_shards(struct sp_safetensors *c, const char *folder,
                                  const struct mapped *mapped, size_t n, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    size_t n_shards = 0;

    for (size_t i = 0; i < n; i++)
        n_shards += i == 0 || strcmp(mapped[i].shard, mapped[i - 1].shard);
    if (n_shards > MAX_SHARDS) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%zu shards, at most %d are supported", n_shards,
                       MAX_SHARDS);
    }
    if ((st = sp_new(&c->shards, n_shards, sizeof *c->shards, err))) return st;
    for (size_t i = 0; i < n && st == SP_OK; i++) {
        char *path = NULL;
        if (i > 0 && strcmp(mapped[i].shard, mapped[i - 1].shard) == 0) continue;
        if ((st = sp_file_join(&path, folder, mapped[i].shard, err))) return st;
        st = open_shard(c, path, err);
        free(path);
    }
    return st;
}

/* The shards were opened in the order of `mapped`, so its shards count up with theirs. */
static enum sp_status check_mapped(const struct sp_safetensors *c, const struct mapped *mapped,
                                   size_t n, struct sp_err *err)
{
    const struct shard *shard = c->shards;

    for (size_t i = 0; i < n; i++) {
        const struct sp_safetensor *t = sp_safetensors_find(c, mapped[i].tensor);
        if (i > 0 && strcmp(mapped[i].shard, mapped[i - 1].shard) != 0) shard++;
        if (t != NULL && t->file == shard->file) continue;
        if (t == NULL) {
            return sp_fail(err, SP_E_INPUT, "tensor %.*s is not in its shard %s", SHOWN_NAME,
                           mapped[i].tensor, mapped[i].shard);
        }
        return sp_fail(err, SP_E_INPUT, "tensor %.*s is in %s, weight_map says %s", SHOWN_NAME,
                       mapped[i].tensor, sp_file_path(t->file), mapped[i].shard);
    }
    return SP_OK;
}

static enum sp_status note_unmapped(const struct sp_safetensors *c, const struct sp_json *index,
                                    char **warnings, struct sp_err *err)
{
    const struct sp_json *map = sp_json_get(index, "weight_map");
    const struct sp_safetensor *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (sp_json_has(map, c->tensors[i].name)) continue;
        if (n++ == 0) first = c->tensors + i;
    }
    if (n == 0) return SP_OK;
    return sp_warn(warnings, err, "%zu tensors are in the shards but not in %s, the first is %.*s",
                   n, index_name, SHOWN_NAME, first->name);
}

static enum sp_status open_index(struct sp_safetensors *c, const char *folder, const char *path,
                                 char **warnings, struct sp_err *err)
{
    enum sp_status st;
    struct sp_text text;
    size_t n = 0;
    struct sp_json *index = NULL;
    struct mapped *mapped = NULL;

    if ((st = sp_file_read_text(&text, path, MAX_INDEX, err))) return st;
    if ((st = sp_json_parse_within(&index, text.at, text.size, SP_JSON_STRICT, MAX_INDEX_TREE,
                                   err)) ||
        (st = read_weight_map(&mapped, &n, index, err))) {
        sp_context(err, "%s", path);
        goto done;
    }
    if ((st = open_shards(c, folder, mapped, n, err))) goto done;
    if ((st = join_tables(c, 0, err))) goto done;
    if ((st = check_mapped(c, mapped, n, err))) {
        sp_context(err, "%s", path);
        goto done;
    }
    st = note_unmapped(c, index, warnings, err);
done:
    free(mapped);
    sp_json_free(index);
    free(text.at);
    return st;
}

static enum sp_status open_folder(struct sp_safetensors *c, const char *folder, char **warnings,
                                  struct sp_err *err)
{
    enum sp_status st;
    char *single = NULL, *index = NULL;

    if ((st = sp_file_join(&single, folder, single_name, err))) goto done;
    if ((st = sp_file_join(&index, folder, index_name, err))) goto done;
    if (sp_file_exists(single)) {
        if ((st = open_single(c, single, err))) goto done;
        if (!sp_file_exists(index)) goto done;
        st = sp_warn(
            warnings, err,
            "model.safetensors and model.safetensors.index.json are both there; the first is used");
    } else if (sp_file_exists(index)) {
        st = open_index(c, folder, index, warnings, err);
    } else {
        st = sp_fail(err, SP_E_INPUT, "%s: neither %s nor %s exists", folder, single_name,
                     index_name);
    }
done:
    free(single);
    free(index);
    return st;
}

enum sp_status sp_safetensors_open(struct sp_safetensors **out, const char *path, char **warnings,
                                   struct sp_err *err)
{
    enum sp_status st;
    struct sp_safetensors *c = NULL;

    if ((st = sp_new(&c, 1, sizeof *c, err))) return st;
    st = sp_file_is_folder(path) ? open_folder(c, path, warnings, err) : open_single(c, path, err);
    if (st) goto done;
    *out = c;
    c = NULL;
done:
    sp_safetensors_close(c);
    return st;
}

/* Puts a prefix in front of the names of a file's tensors. */
static enum sp_status add_prefix(struct sp_safetensors_header *h, const char *prefix,
                                 struct sp_err *err)
{
    enum sp_status st;
    size_t n_prefix = strlen(prefix), size = 0, len;
    char *names = NULL;

    for (size_t i = 0; i < h->n; i++)
        size += n_prefix + strlen(h->tensors[i].name) + 1;
    if ((st = sp_new(&names, size, 1, err))) return st;
    size = 0;
    for (size_t i = 0; i < h->n; i++, size += n_prefix + len) {
        len = strlen(h->tensors[i].name) + 1;
        memcpy(names + size, prefix, n_prefix);
        memcpy(names + size + n_prefix, h->tensors[i].name, len);
        h->tensors[i].name = names + size;
    }
    free(h->names);
    h->names = names;
    return SP_OK;
}

enum sp_status sp_safetensors_add(struct sp_safetensors *c, const char *path, const char *prefix,
                                  struct sp_err *err)
{
    enum sp_status st;
    size_t first = c->n_shards, cap = c->n_shards;

    if ((st = sp_grow(&c->shards, &cap, c->n_shards + 1, sizeof *c->shards, err))) return st;
    c->shards[first] = (struct shard){0};
    if ((st = open_shard(c, path, err))) return st;
    if ((st = add_prefix(&c->shards[first].header, prefix, err))) return st;
    return join_tables(c, first, err);
}

void sp_safetensors_close(struct sp_safetensors *c)
{
    if (c == NULL) return;
    for (size_t i = 0; i < c->n_shards; i++) {
        sp_file_close(c->shards[i].file);
        sp_safetensors_header_release(&c->shards[i].header);
    }
    free(c->shards);
    free(c->tensors);
    free(c);
}

const struct sp_safetensor *sp_safetensors_tensors(const struct sp_safetensors *c, size_t *n)
{
    *n = c->n;
    return c->tensors;
}

const struct sp_safetensor *sp_safetensors_find(const struct sp_safetensors *c, const char *name)
{
    return bsearch(&name, c->tensors, c->n, sizeof *c->tensors, sp_compare_names);
}

size_t sp_safetensors_n_shards(const struct sp_safetensors *c)
{
    return c->n_shards;
}

enum sp_status sp_safetensors_read(const struct sp_safetensor *tensor, uint64_t offset, size_t size,
                                   void *buffer, struct sp_err *err)
{
    enum sp_status st;

    if (offset > tensor->size || size > tensor->size - offset) {
        return sp_fail(err, SP_E_BUG, "tensor %.*s: %zu bytes at %" PRIu64 " of %" PRIu64 " wanted",
                       SHOWN_NAME, tensor->name, size, offset, tensor->size);
    }
    st = sp_file_read_at(tensor->file, tensor->offset + offset, buffer, size, err);
    if (st) sp_context(err, "tensor %.*s", SHOWN_NAME, tensor->name);
    return st;
}
