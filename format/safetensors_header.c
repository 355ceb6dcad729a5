/* One safetensors file: u64 little-endian N, N bytes of JSON, then the tensors' bytes to the end of
 * the file, in the order of their offsets, without a gap.
 *
 * The checks and their order are those of the safetensors crate (tensor.rs, `Metadata::validate`).
 * Everything is linear or n log n in the number of entries: a header may have half a million. */
#include "format/safetensors_header.h"
#include "format/base/bytes.h"
#include "format/json/json_scan.h"
#include "format/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_SIZE = 8, MAX_HEADER = 100000000, MAX_NAME = 65536, SHOWN_NAME = 200 };

static const char lfs_pointer[] = "version https://git-lfs";

/* A key of the header and the byte of the JSON at which it begins. */
struct key {
    const char *name; /* borrowed from the names of the header */
    size_t at;
};

struct reader {
    const struct sp_file *file;
    uint64_t data_start; /* 8 + N */
    char *text;          /* the JSON */
    size_t text_size;
    struct sp_json_scan json;
    size_t n_members;
    struct key *keys; /* [n_members] */
    struct sp_safetensors_header header;
    const struct sp_safetensor **by_offset; /* [header.n] */
    struct sp_err *err;
};

/* Fails with a message about the file. */
#define INVALID(r, ...) sp_fail((r)->err, SP_E_INPUT, __VA_ARGS__)

static enum sp_status check_lfs_pointer(struct reader *r, uint64_t file_size)
{
    enum sp_status st;
    char start[sizeof lfs_pointer - 1];

    if (file_size < sizeof start) return SP_OK;
    if ((st = sp_file_read_at(r->file, 0, start, sizeof start, r->err))) return st;
    if (memcmp(start, lfs_pointer, sizeof start) != 0) return SP_OK;
    return INVALID(r,
                   "is a Git LFS pointer, not the tensors themselves; `git lfs pull` fetches them");
}

static enum sp_status read_text(struct reader *r)
{
    enum sp_status st;
    uint64_t size = sp_file_size(r->file), n;
    uint8_t length[LENGTH_SIZE];

    if (size < LENGTH_SIZE)
        return INVALID(r, "%" PRIu64 " bytes are too few for a safetensors file", size);
    if ((st = check_lfs_pointer(r, size))) return st;
    if ((st = sp_file_read_at(r->file, 0, length, sizeof length, r->err))) return st;
    n = sp_get64(length);
    if (n == 0 || n > MAX_HEADER)
        return INVALID(r, "header length is %" PRIu64 ", expected 1..%d", n, MAX_HEADER);
    if (n > size - LENGTH_SIZE) {
        return INVALID(r, "header length is %" PRIu64 ", but only %" PRIu64 " bytes follow", n,
                       size - LENGTH_SIZE);
    }
    if ((st = sp_new(&r->text, (size_t)n, 1, r->err))) return st;
    r->text_size = (size_t)n;
    r->data_start = LENGTH_SIZE + n;
    return sp_file_read_at(r->file, LENGTH_SIZE, r->text, (size_t)n, r->err);
}

static enum sp_status check_metadata(struct reader *r, const struct sp_json *metadata)
{
    if (metadata == NULL) return SP_OK; /* null counts as absent */
    if (sp_json_kind(metadata) != SP_JSON_OBJECT) {
        return INVALID(r, "__metadata__ is of kind %s, expected an object",
                       sp_json_kind_name(sp_json_kind(metadata)));
    }
    for (struct sp_json_iter it = {0}; sp_json_next(metadata, &it);) {
        if (sp_json_kind(it.value) == SP_JSON_STRING) continue;
        return INVALID(r, "__metadata__: %.*s is of kind %s, expected a string", SHOWN_NAME, it.key,
                       sp_json_kind_name(sp_json_kind(it.value)));
    }
    return SP_OK;
}

static enum sp_status missing(struct reader *r, const struct sp_json *v, const char *key,
                              const char *expected)
{
    if (v == NULL) return INVALID(r, "%s is missing", key);
    return INVALID(r, "%s is of kind %s, expected %s", key, sp_json_kind_name(sp_json_kind(v)),
                   expected);
}

static enum sp_status read_dtype(struct reader *r, struct sp_safetensor *t,
                                 const struct sp_json *entry)
{
    const struct sp_json *v = sp_json_get(entry, "dtype");
    size_t len;
    const char *name = sp_json_to_string(v, &len);

    if (name == NULL) return missing(r, v, "dtype", "a string");
    t->dtype = strlen(name) == len ? sp_dtype_find_safetensors(name) : SP_DTYPE_NONE;
    if (t->dtype != SP_DTYPE_NONE) return SP_OK;
    return INVALID(r, "dtype \"%.*s\" is unknown", SHOWN_NAME, name);
}

static enum sp_status read_shape(struct reader *r, struct sp_safetensor *t,
                                 const struct sp_json *entry)
{
    const struct sp_json *v = sp_json_get(entry, "shape");

    if (sp_json_kind(v) != SP_JSON_ARRAY) return missing(r, v, "shape", "an array");
    if (sp_json_len(v) > SP_MAX_RANK) {
        return sp_fail(r->err, SP_E_UNSUPPORTED,
                       "shape has %zu dimensions, at most %d are supported", sp_json_len(v),
                       SP_MAX_RANK);
    }
    t->rank = (unsigned)sp_json_len(v);
    for (unsigned i = 0; i < t->rank; i++) {
        if (sp_json_to_u64(sp_json_at(v, i), &t->shape[i])) continue;
        return INVALID(r, "shape[%u] is not an integer 0..2^64-1", i);
    }
    return SP_OK;
}

/* Leaves the offsets in the data buffer in t->offset and t->size (= end - begin). */
static enum sp_status read_offsets(struct reader *r, struct sp_safetensor *t,
                                   const struct sp_json *entry)
{
    const struct sp_json *v = sp_json_get(entry, "data_offsets");
    uint64_t begin, end;

    if (sp_json_kind(v) != SP_JSON_ARRAY) return missing(r, v, "data_offsets", "an array");
    if (sp_json_len(v) != 2)
        return INVALID(r, "data_offsets has %zu elements, expected 2", sp_json_len(v));
    if (!sp_json_to_u64(sp_json_at(v, 0), &begin) || !sp_json_to_u64(sp_json_at(v, 1), &end))
        return INVALID(r, "data_offsets are not two integers 0..2^64-1");
    if (begin > end) {
        return INVALID(r, "data_offsets [%" PRIu64 ", %" PRIu64 "] end before they begin", begin,
                       end);
    }
    t->offset = begin;
    t->size = end - begin;
    return SP_OK;
}

static enum sp_status read_entry(struct reader *r, struct sp_safetensor *t,
                                 const struct sp_json *entry)
{
    enum sp_status st;

    if (sp_json_kind(entry) != SP_JSON_OBJECT) {
        return INVALID(r, "its entry is of kind %s, expected an object",
                       sp_json_kind_name(sp_json_kind(entry)));
    }
    if ((st = read_dtype(r, t, entry))) return st;
    if ((st = read_shape(r, t, entry))) return st;
    return read_offsets(r, t, entry);
}

/* Allocates all entries and their names, which are no longer than the text. */
static enum sp_status size_tables(struct reader *r)
{
    enum sp_status st;

    if ((st = sp_new(&r->header.names, r->text_size, 1, r->err))) return st;
    if ((st = sp_new(&r->keys, r->n_members, sizeof *r->keys, r->err))) return st;
    return sp_new(&r->header.tensors, r->n_members, sizeof *r->header.tensors, r->err);
}

static enum sp_status read_member(struct reader *r, const char *name, size_t len,
                                  const struct sp_json *value)
{
    struct sp_safetensor *t = r->header.tensors + r->header.n;
    enum sp_status st;

    if (strcmp(name, "__metadata__") == 0) return check_metadata(r, value);
    if (len == 0) return INVALID(r, "a tensor's name is empty");
    if (len > MAX_NAME) {
        return INVALID(r, "tensor %.*s...: name of %zu bytes, expected at most %d", SHOWN_NAME,
                       name, len, MAX_NAME);
    }
    if ((st = read_entry(r, t, value))) {
        sp_context(r->err, "tensor %.*s", SHOWN_NAME, name);
        return st;
    }
    t->name = name;
    t->file = r->file;
    r->header.n++;
    return SP_OK;
}

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    return order ? order : (a->at > b->at) - (a->at < b->at);
}

/* Refuses the first key that the header has twice. */
static enum sp_status check_keys(struct reader *r, size_t n)
{
    const struct key *repeated = NULL;
    enum sp_status st = SP_OK;

    qsort(r->keys, n, sizeof *r->keys, compare_keys);
    for (size_t i = 1; i < n; i++) {
        const struct key *key = r->keys + i;
        if (strcmp(key[-1].name, key->name) != 0) continue;
        if (repeated == NULL || key->at < repeated->at) repeated = key;
    }
    if (repeated) {
        st = INVALID(r, "header: not valid JSON at byte %zu: key \"%s\" occurs twice", repeated->at,
                     repeated->name);
    }
    return st;
}

/* Finds the header's object, of r->n_members members, and checks its syntax to the end. */
static enum sp_status open_object(struct reader *r)
{
    enum sp_status st;
    struct sp_json_scan scan = {.text = r->text, .size = r->text_size};

    r->json = scan;
    while (!(st = sp_json_scan(&scan, r->err)) && scan.token != SP_JSON_TOKEN_END)
        r->n_members += scan.token == SP_JSON_TOKEN_KEY && scan.depth == 1;
    if (!st) st = sp_json_scan(&r->json, r->err);
    if (st) sp_context(r->err, "header");
    return st;
}

/* Reads a member up to the end of its value. */
static enum sp_status read_value(struct sp_json **value, struct sp_strbuf *names, struct reader *r)
{
    enum sp_status st;

    if ((st = sp_json_scan_text(names, &r->json, r->err))) return st;
    if ((st = sp_strbuf_append(names, "", 1, r->err))) return st;
    if ((st = sp_json_scan(&r->json, r->err))) return st;
    return sp_json_parse_value(value, &r->json, SP_JSON_STRICT, SP_JSON_SETTINGS, r->err);
}

/* Reads the members one after another, so that the memory of their trees does not grow with their
 * number. After a member that is wrong the values of the others are still checked: a failure of the
 * JSON is what the user must know first. */
static enum sp_status read_members(struct reader *r)
{
    enum sp_status st;
    struct sp_err *err = r->err, of_member = {0};
    /* the names never move, since they are no longer than the text */
    struct sp_strbuf names = {.at = r->header.names, .cap = r->text_size};
    size_t n = 0;

    for (; !(st = sp_json_scan(&r->json, err)) && r->json.token == SP_JSON_TOKEN_KEY; n++) {
        const char *name = names.at + names.len;
        struct sp_json *value = NULL;
        r->keys[n] = (struct key){name, r->json.start};
        if ((st = read_value(&value, &names, r))) break;
        r->err = &of_member;
        if (!of_member.status) (void)!read_member(r, name, strlen(name), value);
        r->err = err;
        sp_json_free(value);
    }
    if (st)
        sp_context(err, "header");
    else
        st = check_keys(r, n);
    if (st || !of_member.status) return st;
    if (err) *err = of_member;
    return of_member.status;
}

static enum sp_status read_entries(struct reader *r)
{
    enum sp_status st;
    struct sp_json *value = NULL;

    if ((st = open_object(r))) return st;
    if (r->json.token != SP_JSON_TOKEN_OPEN_OBJECT) {
        if ((st = sp_json_parse_value(&value, &r->json, SP_JSON_STRICT, SP_JSON_SETTINGS, r->err)))
            return st;
        st = INVALID(r, "header is of kind %s, expected an object",
                     sp_json_kind_name(sp_json_kind(value)));
        sp_json_free(value);
        return st;
    }
    if (r->n_members > SP_SAFETENSORS_MAX_TENSORS) {
        return sp_fail(r->err, SP_E_UNSUPPORTED, "header has %zu entries, at most %d are supported",
                       r->n_members, SP_SAFETENSORS_MAX_TENSORS);
    }
    if ((st = size_tables(r))) return st;
    return read_members(r);
}

/* By first byte, then by length: an empty tensor lies before the one that begins where it is. The
 * name decides at last, so that messages do not depend on the sort. */
static int compare_offsets(const void *left, const void *right)
{
    const struct sp_safetensor *a = *(const struct sp_safetensor *const *)left;
    const struct sp_safetensor *b = *(const struct sp_safetensor *const *)right;

    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Checks that a tensor's range has the size that its shape and dtype need. */
static enum sp_status check_size(struct reader *r, const struct sp_safetensor *t)
{
    const char *dtype = sp_dtype_info(t->dtype)->safetensors;
    char shape[SP_SHAPE_TEXT];
    size_t size;

    if (!sp_tensor_size(&size, t->dtype, SP_PLAIN, t->shape, t->rank)) {
        return INVALID(r, "%s %s is not a whole number of bytes below 2^61", dtype,
                       sp_shape_text(shape, t->shape, t->rank));
    }
    if (size != t->size) {
        return INVALID(r, "%s %s needs %zu bytes, data_offsets span %" PRIu64, dtype,
                       sp_shape_text(shape, t->shape, t->rank), size, t->size);
    }
    return SP_OK;
}

static enum sp_status check_place(struct reader *r, const struct sp_safetensor *t, uint64_t at)
{
    if (t->offset == at) return SP_OK;
    return INVALID(r,
                   "begins at %" PRIu64 " of the data, expected %" PRIu64
                   ", where the one before it ends: %s",
                   t->offset, at, t->offset > at ? "a gap" : "an overlap");
}

/* Together the tensors must cover the data exactly. Makes the offsets those of the file. */
static enum sp_status check_ranges(struct reader *r)
{
    enum sp_status st;
    size_t n = r->header.n;
    uint64_t at = 0, have = sp_file_size(r->file) - r->data_start;

    if ((st = sp_new(&r->by_offset, n, sizeof *r->by_offset, r->err))) return st;
    for (size_t i = 0; i < n; i++)
        r->by_offset[i] = r->header.tensors + i;
    qsort(r->by_offset, n, sizeof *r->by_offset, compare_offsets);
    for (size_t i = 0; i < n; i++) {
        const struct sp_safetensor *t = r->by_offset[i];
        st = check_place(r, t, at);
        if (st == SP_OK) st = check_size(r, t);
        if (st) {
            sp_context(r->err, "tensor %.*s", SHOWN_NAME, t->name);
            return st;
        }
        at = t->offset + t->size;
        if (at <= have) continue;
        return INVALID(r,
                       "tensor %.*s: ends at byte %" PRIu64
                       " of the data, but the file has only %" PRIu64 ": truncated",
                       SHOWN_NAME, t->name, at, have);
    }
    if (at != have) return INVALID(r, "%" PRIu64 " bytes follow the last tensor", have - at);
    for (size_t i = 0; i < n; i++)
        r->header.tensors[i].offset += r->data_start;
    return SP_OK;
}

enum sp_status sp_safetensors_header_read(struct sp_safetensors_header *out,
                                          const struct sp_file *file, struct sp_err *err)
{
    enum sp_status st;
    struct reader r = {.file = file, .err = err};

    if ((st = read_text(&r))) goto done;
    if ((st = read_entries(&r))) goto done;
    st = check_ranges(&r);
done:
    free(r.by_offset);
    free(r.keys);
    free(r.text);
    if (st) {
        sp_context(err, "%s", sp_file_path(file));
        sp_safetensors_header_release(&r.header);
    }
    *out = r.header;
    return st;
}

void sp_safetensors_header_release(struct sp_safetensors_header *header)
{
    free(header->tensors);
    free(header->names);
    *header = (struct sp_safetensors_header){0};
}
