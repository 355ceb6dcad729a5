/* One GGUF file, all numbers little-endian:
 *
 *   "GGUF"  u32 version  u64 tensors  u64 values
 *   values:  string key, u32 type, the value; a string is u64 length and bytes;
 *            an array is u32 type of the elements, u64 count and the elements
 *   tensors: string name, u32 dimensions, u64 each, columns first, u32 type, u64 offset
 *   the tensors' bytes, from the next multiple of general.alignment on, each at such a multiple
 *
 * The header's length is stated nowhere. It is read in growing pieces while it is parsed, up to
 * MAX_HEADER and never beyond the file's end. Every entry takes bytes of the file, so that tables
 * are bounded by it. */
#include "format/gguf_header.h"
#include "format/base/affix.h"
#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "format/ggml_type.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIXED_SIZE = 24,
    MAX_HEADER = 1 << 29,
    FIRST_PIECE = 1 << 16,
    MAX_NAME = 1 << 16,
    MIN_VALUE = 13,  /* bytes of the shortest value: an empty key, a type, one byte */
    MIN_TENSOR = 32, /* bytes of the shortest tensor: an empty name, one dimension */
    DEFAULT_ALIGNMENT = 32,
};

static const unsigned char sizes[SP_GGUF_N_TYPES] = {
    [SP_GGUF_U8] = 1,  [SP_GGUF_I8] = 1,  [SP_GGUF_U16] = 2, [SP_GGUF_I16] = 2,
    [SP_GGUF_U32] = 4, [SP_GGUF_I32] = 4, [SP_GGUF_F32] = 4, [SP_GGUF_BOOL] = 1,
    [SP_GGUF_U64] = 8, [SP_GGUF_I64] = 8, [SP_GGUF_F64] = 8,
};

/* An offset into the header until all of it is read and its address is final. */
struct place {
    size_t name, name_len, at;
};

struct reader {
    const struct sp_file *file;
    uint64_t file_size;
    size_t n, cap, pos; /* bytes read, bytes allocated, next byte to parse */
    struct sp_gguf_header header;
    struct place *values, *tensors; /* of the entries with these numbers */
    size_t names_size;
    struct sp_err *err;
};

/* Fails with a message about the file. */
#define INVALID(r, ...) sp_fail((r)->err, SP_E_INPUT, __VA_ARGS__)

/* Makes sure that `size` more bytes are in memory. */
static enum sp_status need(struct reader *r, uint64_t size, const char *what)
{
    enum sp_status st;
    size_t want;

    if (size <= r->n - r->pos) return SP_OK;
    if (size > r->file_size - r->pos) {
        return INVALID(r, "%s at byte %zu takes %" PRIu64 " bytes, but only %" PRIu64 " follow",
                       what, r->pos, size, r->file_size - r->pos);
    }
    if (size > MAX_HEADER - r->pos) {
        return sp_fail(r->err, SP_E_UNSUPPORTED, "its metadata is longer than %d bytes",
                       MAX_HEADER);
    }
    want = r->pos + (size_t)size;
    if (want < 2 * r->n) want = 2 * r->n;
    if (want < FIRST_PIECE) want = FIRST_PIECE;
    if (want > r->file_size) want = (size_t)r->file_size;
    if ((st = sp_grow(&r->header.bytes, &r->cap, want, 1, r->err))) return st;
    if ((st = sp_file_read_at(r->file, r->n, r->header.bytes + r->n, want - r->n, r->err)))
        return st;
    r->n = want;
    return SP_OK;
}

static enum sp_status take_u32(struct reader *r, uint32_t *out, const char *what)
{
    enum sp_status st = need(r, 4, what);

    if (st) return st;
    *out = sp_get32(r->header.bytes + r->pos);
    r->pos += 4;
    return SP_OK;
}

static enum sp_status take_u64(struct reader *r, uint64_t *out, const char *what)
{
    enum sp_status st = need(r, 8, what);

    if (st) return st;
    *out = sp_get64(r->header.bytes + r->pos);
    r->pos += 8;
    return SP_OK;
}

static enum sp_status take_name(struct reader *r, struct place *place, const char *what)
{
    enum sp_status st;
    uint64_t len;

    if ((st = take_u64(r, &len, what))) return st;
    if (len == 0 || len > MAX_NAME) {
        return INVALID(r, "%s at byte %zu has %" PRIu64 " bytes, expected 1..%d", what, r->pos, len,
                       MAX_NAME);
    }
    if ((st = need(r, len, what))) return st;
    place->name = r->pos;
    place->name_len = (size_t)len;
    if (memchr(r->header.bytes + r->pos, 0, (size_t)len))
        return INVALID(r, "%s at byte %zu holds a NUL", what, r->pos);
    r->names_size += (size_t)len + 1;
    r->pos += (size_t)len;
    return SP_OK;
}

/* The last name that was read, for messages. */
#define NAME_OF(r, place)                                                                          \
    (int)((place)->name_len < SP_GGUF_SHOWN ? (place)->name_len : SP_GGUF_SHOWN),                  \
        (const char *)(r)->header.bytes + (place)->name

static enum sp_status skip_elements(struct reader *r, const struct sp_gguf_value *v)
{
    enum sp_status st;
    uint64_t len;

    if (v->type == SP_GGUF_STRING) {
        for (uint64_t i = 0; i < v->n; i++) {
            if ((st = take_u64(r, &len, "the length of a string"))) return st;
            if ((st = need(r, len, "a string"))) return st;
            r->pos += (size_t)len;
        }
        return SP_OK;
    }
    if (v->n > (uint64_t)MAX_HEADER)
        len = UINT64_MAX;
    else
        len = v->n * sizes[v->type];
    if ((st = need(r, len, "an array"))) return st;
    r->pos += (size_t)len;
    return SP_OK;
}

static enum sp_status read_value(struct reader *r, struct sp_gguf_value *v, struct place *place)
{
    enum sp_status st;
    uint32_t type;

    if ((st = take_name(r, place, "a key"))) return st;
    if ((st = take_u32(r, &type, "the type of a value"))) return st;
    v->n = 1;
    v->is_array = type == SP_GGUF_ARRAY;
    if (v->is_array && ((st = take_u32(r, &type, "the type of an array")) ||
                        (st = take_u64(r, &v->n, "the length of an array"))))
        return st;
    if (type >= SP_GGUF_N_TYPES || type == SP_GGUF_ARRAY) {
        return INVALID(r, "%.*s: %s has type %" PRIu32 ", which is unknown", NAME_OF(r, place),
                       v->is_array ? "an array's element" : "its value", type);
    }
    v->type = (enum sp_gguf_type)type;
    place->at = r->pos;
    if ((st = skip_elements(r, v))) sp_context(r->err, "%.*s", NAME_OF(r, place));
    return st;
}

static enum sp_status read_shape(struct reader *r, struct sp_gguf_tensor *t)
{
    enum sp_status st;
    uint32_t rank;

    if ((st = take_u32(r, &rank, "the number of dimensions"))) return st;
    if (rank == 0 || rank > SP_GGUF_MAX_RANK)
        return INVALID(r, "%" PRIu32 " dimensions, expected 1..%d", rank, SP_GGUF_MAX_RANK);
    t->rank = rank;
    for (unsigned i = 0; i < rank; i++) {
        if ((st = take_u64(r, &t->shape[rank - 1 - i], "a dimension"))) return st;
        if (t->shape[rank - 1 - i] == 0) return INVALID(r, "dimension %u is 0", i);
    }
    return SP_OK;
}

static enum sp_status size_tensor(struct reader *r, struct sp_gguf_tensor *t)
{
    const struct sp_ggml_type_info *info = sp_ggml_type_info(t->type);
    uint64_t rows = 1, cols = t->shape[t->rank - 1];

    if (info->name == NULL) return INVALID(r, "its type %" PRIu32 " is unknown", t->type);
    if (info->block == 0) {
        return sp_fail(r->err, SP_E_UNSUPPORTED, "type %s (%" PRIu32 ") is not supported",
                       info->name, t->type);
    }
    if (cols % info->block)
        return INVALID(r, "rows of %" PRIu64 " elements are no whole %s blocks", cols, info->name);
    for (unsigned i = 0; i + 1 < t->rank; i++) {
        if (rows > UINT64_MAX / t->shape[i]) return INVALID(r, "its dimensions are too large");
        rows *= t->shape[i];
    }
    if (!sp_ggml_size(&t->size, t->type, rows, cols))
        return INVALID(r, "its dimensions are too large");
    return SP_OK;
}

static enum sp_status read_tensor(struct reader *r, struct sp_gguf_tensor *t, struct place *place)
{
    enum sp_status st;

    if ((st = take_name(r, place, "a tensor's name"))) return st;
    t->file = r->file;
    st = read_shape(r, t);
    if (!st) st = take_u32(r, &t->type, "a type");
    if (!st) st = take_u64(r, &t->offset, "an offset");
    if (!st) st = size_tensor(r, t);
    if (st) sp_context(r->err, "tensor %.*s", NAME_OF(r, place));
    return st;
}

static enum sp_status read_fixed(struct reader *r)
{
    enum sp_status st;
    uint64_t n_tensors, n_values, left = r->file_size - FIXED_SIZE;
    uint32_t version;

    if (r->file_size < FIXED_SIZE)
        return INVALID(r, "%" PRIu64 " bytes are too few for a GGUF file", r->file_size);
    if ((st = need(r, FIXED_SIZE, "the header"))) return st;
    if (!sp_gguf_is_magic(r->header.bytes)) return INVALID(r, "not a GGUF file");
    version = sp_get32(r->header.bytes + 4);
    n_tensors = sp_get64(r->header.bytes + 8);
    n_values = sp_get64(r->header.bytes + 16);
    r->pos = FIXED_SIZE;
    if ((version & 0xffff) == 0)
        return sp_fail(r->err, SP_E_UNSUPPORTED, "big-endian GGUF is not supported");
    if (version != 2 && version != 3) {
        return sp_fail(r->err, SP_E_UNSUPPORTED,
                       "GGUF version %" PRIu32 " is not supported, only 2 and 3", version);
    }
    if (n_tensors > left / MIN_TENSOR || n_values > left / MIN_VALUE) {
        return INVALID(r, "%" PRIu64 " tensors and %" PRIu64 " values do not fit %" PRIu64 " bytes",
                       n_tensors, n_values, r->file_size);
    }
    r->header.n_tensors = (size_t)n_tensors;
    r->header.n_values = (size_t)n_values;
    return SP_OK;
}

static enum sp_status read_entries(struct reader *r)
{
    enum sp_status st;
    struct sp_gguf_header *h = &r->header;

    if ((st = sp_new(&h->values, h->n_values, sizeof *h->values, r->err))) return st;
    if ((st = sp_new(&h->tensors, h->n_tensors, sizeof *h->tensors, r->err))) return st;
    if ((st = sp_new(&r->values, h->n_values, sizeof *r->values, r->err))) return st;
    if ((st = sp_new(&r->tensors, h->n_tensors, sizeof *r->tensors, r->err))) return st;
    for (size_t i = 0; i < h->n_values; i++)
        if ((st = read_value(r, &h->values[i], &r->values[i]))) return st;
    for (size_t i = 0; i < h->n_tensors; i++)
        if ((st = read_tensor(r, &h->tensors[i], &r->tensors[i]))) return st;
    return SP_OK;
}

/* Copies a name behind those copied before, with a NUL. */
static const char *keep_name(struct reader *r, size_t *used, const struct place *place)
{
    char *name = r->header.names + *used;

    memcpy(name, r->header.bytes + place->name, place->name_len);
    name[place->name_len] = 0;
    *used += place->name_len + 1;
    return name;
}

/* Gives the entries their names and addresses, which are final from here on. */
static enum sp_status keep_names(struct reader *r)
{
    enum sp_status st;
    struct sp_gguf_header *h = &r->header;
    size_t used = 0;

    if ((st = sp_new(&h->names, r->names_size, 1, r->err))) return st;
    for (size_t i = 0; i < h->n_values; i++) {
        h->values[i].key = keep_name(r, &used, &r->values[i]);
        h->values[i].at = h->bytes + r->values[i].at;
    }
    for (size_t i = 0; i < h->n_tensors; i++)
        h->tensors[i].name = keep_name(r, &used, &r->tensors[i]);
    return SP_OK;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct sp_gguf_tensor *a = left, *b = right;

    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static enum sp_status sort_values(struct reader *r, uint64_t *alignment)
{
    struct sp_gguf_header *h = &r->header;

    qsort(h->values, h->n_values, sizeof *h->values, sp_compare_names);
    *alignment = DEFAULT_ALIGNMENT;
    for (size_t i = 0; i < h->n_values; i++) {
        const struct sp_gguf_value *v = &h->values[i];
        if (i && strcmp(v->key, v[-1].key) == 0)
            return INVALID(r, "%.*s occurs twice", SP_GGUF_SHOWN, v->key);
        if (strcmp(v->key, "general.alignment") != 0) continue;
        if (v->is_array || v->type != SP_GGUF_U32 || sp_get32(v->at) == 0 ||
            (sp_get32(v->at) & (sp_get32(v->at) - 1)))
            return INVALID(r, "general.alignment is not a power of two");
        *alignment = sp_get32(v->at);
    }
    return SP_OK;
}

/* Turns offsets into those from the file's beginning. */
static enum sp_status place_tensors(struct reader *r, uint64_t alignment)
{
    struct sp_gguf_header *h = &r->header;
    uint64_t start = (r->pos + alignment - 1) & ~(alignment - 1), end = 0;

    qsort(h->tensors, h->n_tensors, sizeof *h->tensors, compare_offsets);
    for (size_t i = 0; i < h->n_tensors; i++) {
        struct sp_gguf_tensor *t = &h->tensors[i];
        uint64_t space = r->file_size > start ? r->file_size - start : 0;
        if (t->offset % alignment) {
            return INVALID(r, "tensor %.*s: offset %" PRIu64 " is not a multiple of %" PRIu64,
                           SP_GGUF_SHOWN, t->name, t->offset, alignment);
        }
        if (t->offset > space || t->size > space - t->offset) {
            return INVALID(r,
                           "tensor %.*s: %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64
                           " reach beyond the file's end",
                           SP_GGUF_SHOWN, t->name, t->size, t->offset, space);
        }
        if (t->offset < end) {
            return INVALID(r, "tensors %.*s and %.*s overlap", SP_GGUF_SHOWN, t[-1].name,
                           SP_GGUF_SHOWN, t->name);
        }
        end = t->offset + t->size;
        t->offset += start;
    }
    return SP_OK;
}

enum sp_status sp_gguf_header_read(struct sp_gguf_header *out, const struct sp_file *file,
                                   struct sp_err *err)
{
    enum sp_status st;
    struct reader r = {.file = file, .file_size = sp_file_size(file), .err = err};
    uint64_t alignment;

    if ((st = read_fixed(&r)) || (st = read_entries(&r)) || (st = keep_names(&r)) ||
        (st = sort_values(&r, &alignment)) || (st = place_tensors(&r, alignment))) {
        sp_context(err, "%s", sp_file_path(file));
        sp_gguf_header_release(&r.header);
    }
    free(r.values);
    free(r.tensors);
    *out = r.header;
    return st;
}

void sp_gguf_header_drop_values(struct sp_gguf_header *header)
{
    free(header->values);
    free(header->bytes);
    header->values = NULL;
    header->bytes = NULL;
    header->n_values = 0;
}

void sp_gguf_header_release(struct sp_gguf_header *header)
{
    sp_gguf_header_drop_values(header);
    free(header->tensors);
    free(header->names);
    *header = (struct sp_gguf_header){0};
}
