/* GGUF models: the files of a split one, lookups, and values by type. The header of one file is in
 * gguf_header.c. */
#include "format/gguf.h"
#include "format/base/affix.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/gguf_header.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SHARDS = 4096,
    OPEN_SHARDS = 64, /* further files are closed between reads: a process may open some 1024 */
    SPLIT_NAME = 20,  /* characters of "-00001-of-00003.gguf" */
};

struct shard {
    struct sp_file *file;
    struct sp_gguf_header header; /* its tensors move to the model's table */
};

struct sp_gguf {
    struct sp_gguf_tensor *tensors; /* [n], by name */
    size_t n;
    struct shard *shards; /* [n_shards] */
    size_t n_shards;
};

bool sp_gguf_is_magic(const uint8_t bytes[4])
{
    return memcmp(bytes, "GGUF", 4) == 0;
}

static enum sp_status open_shard(struct sp_gguf *g, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct shard *s = &g->shards[g->n_shards];

    if ((st = sp_file_open(&s->file, path, err))) return st;
    g->n_shards++;
    st = sp_gguf_header_read(&s->header, s->file, err);
    if (g->n_shards > OPEN_SHARDS) sp_file_rest(s->file);
    return st;
}

static enum sp_status join_tables(struct sp_gguf *g, struct sp_err *err)
{
    enum sp_status st;
    size_t n = 0;

    for (size_t i = 0; i < g->n_shards; i++)
        n += g->shards[i].header.n_tensors;
    if ((st = sp_new(&g->tensors, n, sizeof *g->tensors, err))) return st;
    for (size_t i = 0; i < g->n_shards; i++) {
        struct sp_gguf_header *h = &g->shards[i].header;
        if (h->n_tensors) memcpy(g->tensors + g->n, h->tensors, h->n_tensors * sizeof *h->tensors);
        g->n += h->n_tensors;
        free(h->tensors);
        h->tensors = NULL;
    }
    qsort(g->tensors, g->n, sizeof *g->tensors, sp_compare_names);
    for (size_t i = 1; i < g->n; i++) {
        if (strcmp(g->tensors[i].name, g->tensors[i - 1].name) != 0) continue;
        return sp_fail(err, SP_E_INPUT, "%s: tensor %.*s occurs twice", sp_gguf_path(g),
                       SP_GGUF_SHOWN, g->tensors[i].name);
    }
    return SP_OK;
}

/* ---- split files ---- */

/* The number that a shard states under a key of its own. */
static enum sp_status shard_number(uint64_t *out, struct shard *s, const char *key,
                                   struct sp_err *err)
{
    struct sp_gguf one = {.shards = s, .n_shards = 1};

    return sp_gguf_get_u64(&one, key, INT32_MAX, out, err);
}

static enum sp_status check_shard(struct shard *s, uint64_t number, uint64_t count,
                                  struct sp_err *err)
{
    enum sp_status st;
    uint64_t no = 0, of = 1;

    if ((st = shard_number(&no, s, "split.no", err))) return st;
    if ((st = shard_number(&of, s, "split.count", err))) return st;
    if (no == number && of == count) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "%s is part %" PRIu64 " of %" PRIu64 " of a split file, expected part %" PRIu64
                   " of %" PRIu64 "%s",
                   sp_file_path(s->file), no + 1, of, number + 1, count,
                   number ? "" : "; name the first part, the others are found by it");
}

/* Opens the other parts, which differ from the first in the number in their names. */
static enum sp_status open_parts(struct sp_gguf *g, uint64_t count, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    const char *first = sp_gguf_path(g);
    size_t len = strlen(first);
    char end[64], *path = NULL;

    snprintf(end, sizeof end, "-00001-of-%05u.gguf", (unsigned)count);
    if (len < SPLIT_NAME || strcmp(first + len - SPLIT_NAME, end) != 0) {
        return sp_fail(err, SP_E_INPUT,
                       "%s is the first of %" PRIu64
                       " parts of a split file, so its name should end with %s",
                       first, count, end);
    }
    if ((st = sp_copy_text(&path, first, len, err))) return st;
    for (unsigned i = 1; i < count && !st; i++) {
        snprintf(path + len - SPLIT_NAME, SPLIT_NAME + 1, "-%05u-of-%05u.gguf", i + 1,
                 (unsigned)count);
        st = open_shard(g, path, err);
        if (!st) st = check_shard(&g->shards[i], i, count, err);
        sp_gguf_header_drop_values(&g->shards[i].header); /* only those of the first part count */
    }
    free(path);
    return st;
}

static enum sp_status open_all(struct sp_gguf *g, const char *path, struct sp_err *err)
{
    enum sp_status st;
    uint64_t count = 1, n_tensors = UINT64_MAX;

    if ((st = sp_new(&g->shards, MAX_SHARDS, sizeof *g->shards, err))) return st;
    if ((st = open_shard(g, path, err))) return st;
    if ((st = shard_number(&count, g->shards, "split.count", err))) return st;
    if (count == 0) count = 1;
    if (count > MAX_SHARDS) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s: %" PRIu64 " parts, at most %d are supported",
                       path, count, MAX_SHARDS);
    }
    if (count > 1) {
        if ((st = check_shard(g->shards, 0, count, err))) return st;
        if ((st = open_parts(g, count, err))) return st;
    }
    if ((st = join_tables(g, err))) return st;
    if ((st = shard_number(&n_tensors, g->shards, "split.tensors.count", err))) return st;
    if (count == 1 || n_tensors == UINT64_MAX || n_tensors == g->n) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s: its parts hold %zu tensors, expected %" PRIu64, path, g->n,
                   n_tensors);
}

enum sp_status sp_gguf_open(struct sp_gguf **out, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_gguf *g = NULL;

    if ((st = sp_new(&g, 1, sizeof *g, err))) return st;
    if ((st = open_all(g, path, err))) goto done;
    *out = g;
    g = NULL;
done:
    sp_gguf_close(g);
    return st;
}

enum sp_status sp_gguf_of_values(struct sp_gguf **out, const struct sp_gguf_value *values, size_t n,
                                 struct sp_err *err)
{
    struct sp_gguf *g = NULL;
    struct sp_gguf_header *header;
    enum sp_status st;

    if ((st = sp_new(&g, 1, sizeof *g, err))) return st;
    if ((st = sp_new(&g->shards, 1, sizeof *g->shards, err))) goto fail;
    g->n_shards = 1;
    header = &g->shards->header;
    if ((st = sp_new(&header->values, n, sizeof *values, err))) goto fail;
    memcpy(header->values, values, n * sizeof *values);
    header->n_values = n;
    *out = g;
    return SP_OK;
fail:
    sp_gguf_close(g);
    return st;
}

void sp_gguf_close(struct sp_gguf *g)
{
    if (g == NULL) return;
    for (size_t i = 0; i < g->n_shards; i++) {
        sp_file_close(g->shards[i].file);
        sp_gguf_header_release(&g->shards[i].header);
    }
    free(g->shards);
    free(g->tensors);
    free(g);
}

/* ---- lookups ---- */

const char *sp_gguf_path(const struct sp_gguf *g)
{
    return sp_file_path(g->shards[0].file);
}

const struct sp_gguf_tensor *sp_gguf_tensors(const struct sp_gguf *g, size_t *n)
{
    *n = g->n;
    return g->tensors;
}

const struct sp_gguf_value *sp_gguf_values(const struct sp_gguf *g, size_t *n)
{
    *n = g->shards[0].header.n_values;
    return g->shards[0].header.values;
}

const struct sp_gguf_tensor *sp_gguf_find_tensor(const struct sp_gguf *g, const char *name)
{
    return g->n ? bsearch(&name, g->tensors, g->n, sizeof *g->tensors, sp_compare_names) : NULL;
}

const struct sp_gguf_value *sp_gguf_find(const struct sp_gguf *g, const char *key)
{
    const struct sp_gguf_header *h = &g->shards[0].header;

    return bsearch(&key, h->values, h->n_values, sizeof *h->values, sp_compare_names);
}

enum sp_status sp_gguf_read(const struct sp_gguf_tensor *tensor, uint64_t offset, size_t size,
                            void *buffer, struct sp_err *err)
{
    enum sp_status st;

    if (offset > tensor->size || size > tensor->size - offset) {
        return sp_fail(err, SP_E_BUG, "tensor %.*s: %zu bytes at %" PRIu64 " of %" PRIu64 " wanted",
                       SP_GGUF_SHOWN, tensor->name, size, offset, tensor->size);
    }
    st = sp_file_read_at(tensor->file, tensor->offset + offset, buffer, size, err);
    if (st) sp_context(err, "tensor %.*s", SP_GGUF_SHOWN, tensor->name);
    return st;
}

/* ---- values ---- */

int64_t sp_gguf_integer_at(const struct sp_gguf_value *v, uint64_t i)
{
    switch (v->type) {
    case SP_GGUF_U8:
    case SP_GGUF_BOOL:
        return v->at[i];
    case SP_GGUF_I8:
        return (int8_t)v->at[i];
    case SP_GGUF_U16:
        return sp_get16(v->at + 2 * i);
    case SP_GGUF_I16:
        return (int16_t)sp_get16(v->at + 2 * i);
    case SP_GGUF_U32:
        return sp_get32(v->at + 4 * i);
    case SP_GGUF_I32:
        return (int32_t)sp_get32(v->at + 4 * i);
    default:
        return (int64_t)sp_get64(v->at + 8 * i);
    }
}

double sp_gguf_number_at(const struct sp_gguf_value *v, uint64_t i)
{
    uint64_t bits;
    double d;

    if (v->type == SP_GGUF_F32) return (double)sp_float_of_bits(sp_get32(v->at + 4 * i));
    if (v->type != SP_GGUF_F64) return (double)sp_gguf_integer_at(v, i);
    bits = sp_get64(v->at + 8 * i);
    memcpy(&d, &bits, sizeof d);
    return d;
}

const char *sp_gguf_next_string(const uint8_t **at, size_t *len)
{
    const char *text = (const char *)*at + 8;

    *len = (size_t)sp_get64(*at);
    *at += 8 + *len;
    return text;
}

/* Sets of types, a bit each. */
enum {
    BOOLS = 1 << SP_GGUF_BOOL,
    STRINGS = 1 << SP_GGUF_STRING,
    REALS = 1 << SP_GGUF_F32 | 1 << SP_GGUF_F64,
    INTEGERS = ~(BOOLS | STRINGS | REALS),
};

/* The value or array of a key, if it has one of these types; *out = NULL: there is no key. */
static enum sp_status find_value(const struct sp_gguf_value **out, const struct sp_gguf *g,
                                 const char *key, bool array, int types, const char *expected,
                                 struct sp_err *err)
{
    const struct sp_gguf_value *v = sp_gguf_find(g, key);

    *out = NULL;
    if (v && (v->is_array != array || !(1 << v->type & types)))
        return sp_fail(err, SP_E_INPUT, "%s is not %s", key, expected);
    *out = v;
    return SP_OK;
}

enum sp_status sp_gguf_get_u64(const struct sp_gguf *g, const char *key, uint64_t max,
                               uint64_t *out, struct sp_err *err)
{
    const struct sp_gguf_value *v;
    enum sp_status st = find_value(&v, g, key, false, INTEGERS, "an integer", err);
    int64_t number;

    if (v == NULL) return st;
    number = sp_gguf_integer_at(v, 0);
    if (number < 0 || (uint64_t)number > max) {
        return sp_fail(err, SP_E_INPUT, "%s is %" PRId64 ", expected 0..%" PRIu64, key, number,
                       max);
    }
    *out = (uint64_t)number;
    return SP_OK;
}

enum sp_status sp_gguf_get_float(const struct sp_gguf *g, const char *key, double *out,
                                 struct sp_err *err)
{
    const struct sp_gguf_value *v;
    enum sp_status st = find_value(&v, g, key, false, INTEGERS | REALS, "a number", err);
    double number;

    if (v == NULL) return st;
    number = sp_gguf_number_at(v, 0);
    if (!isfinite(number)) return sp_fail(err, SP_E_INPUT, "%s is not a finite number", key);
    *out = number;
    return SP_OK;
}

enum sp_status sp_gguf_get_bool(const struct sp_gguf *g, const char *key, bool *out,
                                struct sp_err *err)
{
    const struct sp_gguf_value *v;
    enum sp_status st = find_value(&v, g, key, false, BOOLS, "true or false", err);

    if (v) *out = v->at[0] != 0;
    return st;
}

enum sp_status sp_gguf_get_text(const struct sp_gguf *g, const char *key, const char **text,
                                size_t *len, struct sp_err *err)
{
    const struct sp_gguf_value *v;
    enum sp_status st = find_value(&v, g, key, false, STRINGS, "a string", err);
    const uint8_t *at;

    if (v == NULL) return st;
    at = v->at;
    *text = sp_gguf_next_string(&at, len);
    return SP_OK;
}

enum sp_status sp_gguf_get_array(const struct sp_gguf *g, const char *key, enum sp_gguf_type type,
                                 const struct sp_gguf_value **out, struct sp_err *err)
{
    return find_value(out, g, key, true, 1 << type,
                      type == SP_GGUF_STRING ? "an array of strings" : "an array of bool", err);
}

enum sp_status sp_gguf_get_numbers(const struct sp_gguf *g, const char *key, bool integers,
                                   const struct sp_gguf_value **out, struct sp_err *err)
{
    return find_value(out, g, key, true, integers ? INTEGERS : INTEGERS | REALS,
                      integers ? "an array of integers" : "an array of numbers", err);
}
