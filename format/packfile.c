/* The packed file's reader. Opening checks everything that the directory claims against the file's
 * length and against the canonical layout (packfile_layout.h), so that nothing after it needs to:
 * every offset must be the one that the layout rule gives, which rules out overlaps, holes and
 * false offsets. Payload bytes are not read at open; sp_pack_check_* read them, and the zero bytes
 * in front of them. */
#include "format/packfile.h"

#include "format/base/atomic_file.h"
#include "format/base/compress.h"
#include "format/base/file.h"
#include "format/system/file_guard.h"
#include "format/base/hash.h"
#include "format/packfile_layout.h"

#include <stdlib.h>
#include <string.h>

struct sp_pack {
    struct sp_mapping mapping; /* empty when the bytes are borrowed */
    const uint8_t *bytes;
    uint64_t size;
    char *path;
    struct sp_pack_header header;
    struct sp_pack_tensor *tensors;
    struct sp_pack_section *sections;
    uint64_t *gaps; /* [n_tensors + n_sections]: where the zero bytes before each thing begin */
};

/* Progress through the directory and through the layout it must describe. */
struct layout_cursor {
    uint64_t end; /* of the last thing placed */
    size_t n_placed;
    const uint8_t *name; /* next name */
    size_t names_left;
};

/* The thing described must begin where the layout puts it and end before the directory. */
static enum sp_status place(struct sp_pack *pack, struct layout_cursor *at, const char *what,
                            uint64_t offset, uint64_t size, bool first, struct sp_err *err)
{
    uint64_t expected;

    if (!sp_pack_next_offset(&expected, at->end, first) || offset != expected) {
        return sp_fail(err, SP_E_INPUT, "%s: offset %llu, expected %llu", what,
                       (unsigned long long)offset, (unsigned long long)expected);
    }
    if (offset > pack->header.directory_offset || size > pack->header.directory_offset - offset) {
        return sp_fail(err, SP_E_INPUT, "%s: %llu bytes at offset %llu reach beyond offset %llu",
                       what, (unsigned long long)size, (unsigned long long)offset,
                       (unsigned long long)pack->header.directory_offset);
    }
    pack->gaps[at->n_placed++] = at->end;
    at->end = offset + size;
    return SP_OK;
}

static enum sp_status read_name(struct sp_pack_tensor *t, struct layout_cursor *at, size_t size,
                                struct sp_err *err)
{
    if (size >= at->names_left || at->name[size] != 0)
        return sp_fail(err, SP_E_INPUT, "its name is not among the directory's names");
    t->name = (const char *)at->name;
    if (!sp_pack_name_valid(t->name, size)) {
        return sp_fail(err, SP_E_INPUT, "its name is not 1 to %d bytes of printable UTF-8",
                       SP_PACK_MAX_NAME);
    }
    at->name += size + 1;
    at->names_left -= size + 1;
    return SP_OK;
}

static enum sp_status read_tensor(struct sp_pack *pack, struct layout_cursor *at, size_t i,
                                  const uint8_t *entry, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_tensor *t = &pack->tensors[i];
    uint64_t offset;
    size_t name_size;
    bool first;

    if ((st = sp_pack_get_tensor(t, &offset, &name_size, entry, err)) ||
        (st = read_name(t, at, name_size, err))) {
        sp_context(err, "tensor %zu of the directory", i);
        return st;
    }
    if (sp_pack_minor_of(t->dtype) > pack->header.minor) {
        return sp_fail(err, SP_E_INPUT, "tensor %s: type %s in a file of format version %d.%u",
                       t->name, sp_dtype_info(t->dtype)->name, SP_PACK_MAJOR, pack->header.minor);
    }
    if (i > 0 && sp_pack_tensor_compare(t - 1, t) >= 0) {
        return sp_fail(err, SP_E_INPUT, "tensor %s: not after %s in the directory's order", t->name,
                       (t - 1)->name);
    }
    first = i == 0 || (t - 1)->part != t->part;
    if ((st = place(pack, at, t->name, offset, t->size, first, err))) {
        sp_context(err, "tensor");
        return st;
    }
    t->data = pack->bytes + offset;
    return SP_OK;
}

static enum sp_status read_section(struct sp_pack *pack, struct layout_cursor *at, size_t i,
                                   const uint8_t *entry, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_section *s = &pack->sections[i];
    uint64_t offset;

    if ((st = sp_pack_get_section(s, &offset, entry, err))) return st;
    if (sp_pack_section_minor(s->kind) > pack->header.minor) {
        return sp_fail(err, SP_E_INPUT, "section %s in a file of format version %d.%u",
                       sp_section_name(s->kind), SP_PACK_MAJOR, pack->header.minor);
    }
    if (i > 0 && (s[-1].part > s->part || (s[-1].part == s->part && s[-1].kind >= s->kind))) {
        return sp_fail(err, SP_E_INPUT, "section %s: not after %s in the directory's order",
                       sp_section_name(s->kind), sp_section_name(s[-1].kind));
    }
    if ((st = place(pack, at, sp_section_name(s->kind), offset, s->stored, i == 0, err))) {
        sp_context(err, "section");
        return st;
    }
    s->data = pack->bytes + offset;
    return SP_OK;
}

static enum sp_status check_zeros(const struct sp_pack *pack, uint64_t from, uint64_t to,
                                  struct sp_err *err)
{
    for (uint64_t i = from; i < to; i++) {
        if (pack->bytes[i]) {
            return sp_fail(err, SP_E_INPUT, "byte %llu is not zero, but belongs to nothing",
                           (unsigned long long)i);
        }
    }
    return SP_OK;
}

static enum sp_status read_directory(struct sp_pack *pack, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_pack_header *h = &pack->header;
    const uint8_t *entry = pack->bytes + h->directory_offset;
    struct layout_cursor at = {.end = SP_PACK_HEADER_SIZE};
    uint64_t end;

    sp_file_prefetch(entry, (size_t)h->directory_size);
    if (sp_hash64(entry, h->directory_size) != h->directory_digest)
        return sp_fail(err, SP_E_INPUT, "the directory does not match its digest");
    at.name = entry + (size_t)h->n_tensors * SP_PACK_TENSOR_ENTRY +
              (size_t)h->n_sections * SP_PACK_SECTION_ENTRY;
    at.names_left = h->names_size;
    if ((st = sp_new(&pack->tensors, h->n_tensors, sizeof *pack->tensors, err))) return st;
    if ((st = sp_new(&pack->sections, h->n_sections, sizeof *pack->sections, err))) return st;
    if ((st = sp_new(&pack->gaps, (size_t)h->n_tensors + h->n_sections, sizeof *pack->gaps, err)))
        return st;
    for (size_t i = 0; i < h->n_tensors; i++, entry += SP_PACK_TENSOR_ENTRY)
        if ((st = read_tensor(pack, &at, i, entry, err))) return st;
    if (at.names_left)
        return sp_fail(err, SP_E_INPUT, "%zu bytes of names belong to no tensor", at.names_left);
    for (size_t i = 0; i < h->n_sections; i++, entry += SP_PACK_SECTION_ENTRY)
        if ((st = read_section(pack, &at, i, entry, err))) return st;
    if (at.n_placed == 0) at.end = SP_PACK_PAGE;
    if (!sp_pack_next_offset(&end, at.end, false) || end != h->directory_offset) {
        return sp_fail(err, SP_E_INPUT, "directory at offset %llu, expected %llu",
                       (unsigned long long)h->directory_offset, (unsigned long long)end);
    }
    return check_zeros(pack, at.end, end, err);
}

static enum sp_status open_bytes(struct sp_pack *pack, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_pack_get_header(&pack->header, pack->bytes, pack->size, err))) return st;
    st = read_directory(pack, err);
    if (st == SP_E_UNSUPPORTED && pack->header.minor > SP_PACK_MINOR) {
        sp_context(err, "format version %u.%u is newer than %d.%d", pack->header.major,
                   pack->header.minor, SP_PACK_MAJOR, SP_PACK_MINOR);
    }
    return st;
}

enum sp_status sp_pack_recognize(bool *is_pack, const char *path, struct sp_err *err)
{
    uint8_t first[sizeof sp_pack_magic];
    enum sp_status st;

    *is_pack = false;
    if ((st = sp_file_read_magic(first, sizeof first, path, err))) return st;
    *is_pack = memcmp(first, sp_pack_magic, sizeof first) == 0;
    return SP_OK;
}

bool sp_pack_is_file(const char *path)
{
    bool is_pack = false;

    return sp_pack_recognize(&is_pack, path, NULL) == SP_OK && is_pack;
}

/* Opens these bytes, or, if they are NULL, the file of this name. */
static enum sp_status open_named(struct sp_pack **out, const struct sp_mapping *bytes,
                                 const char *name, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack *pack = NULL;

    if ((st = sp_new(&pack, 1, sizeof *pack, err))) goto done;
    if ((st = sp_copy_text(&pack->path, name, strlen(name), err))) goto done;
    if (bytes == NULL && (st = sp_file_map(&pack->mapping, name, err))) goto done;
    pack->bytes = bytes ? bytes->data : pack->mapping.data;
    pack->size = bytes ? bytes->size : pack->mapping.size;
    if (bytes == NULL) sp_file_set_paging(pack->bytes, pack->size, SP_PAGING_SINGLE);
    if ((st = open_bytes(pack, err))) {
        sp_context(err, "%s", name);
        goto done;
    }
    if (bytes == NULL) sp_file_set_paging(pack->bytes, pack->size, SP_PAGING_HUGE);
    *out = pack;
    pack = NULL;
done:
    sp_pack_close(pack);
    return st;
}

enum sp_status sp_pack_open(struct sp_pack **out, const char *path, struct sp_err *err)
{
    if (!sp_file_is_folder(path)) return open_named(out, NULL, path, err);
    return sp_fail(
        err, SP_E_INPUT,
        "%s is a folder, expected a packed file; spectool create makes one of a checkpoint", path);
}

enum sp_status sp_pack_open_bytes(struct sp_pack **out, const void *bytes, size_t size,
                                  const char *name, struct sp_err *err)
{
    return open_named(out, &(struct sp_mapping){.data = bytes, .size = size}, name, err);
}

void sp_pack_close(struct sp_pack *pack)
{
    if (pack == NULL) return;
    sp_file_unmap(&pack->mapping);
    free(pack->tensors);
    free(pack->sections);
    free(pack->gaps);
    free(pack->path);
    free(pack);
}

enum sp_status sp_pack_check(const struct sp_pack *pack, struct sp_err *err)
{
    if (!sp_file_guard_is_damaged(pack->bytes)) return SP_OK;
    return sp_fail(err, SP_E_IO, "%s: was changed while it was in use", pack->path);
}

const char *sp_pack_path(const struct sp_pack *pack)
{
    return pack->path;
}

uint64_t sp_pack_size(const struct sp_pack *pack)
{
    return pack->size;
}

void sp_pack_copied_by(const struct sp_pack *pack, struct sp_atomic_file *output)
{
    sp_atomic_file_copies(output, &pack->mapping);
}

const uint8_t *sp_pack_bytes(const struct sp_pack *pack)
{
    return pack->bytes;
}

uint64_t sp_pack_identity(const struct sp_pack *pack)
{
    return pack->header.directory_digest;
}

size_t sp_pack_n_tensors(const struct sp_pack *pack)
{
    return pack->header.n_tensors;
}

const struct sp_pack_tensor *sp_pack_tensor(const struct sp_pack *pack, size_t i)
{
    return &pack->tensors[i];
}

const struct sp_pack_tensor *sp_pack_find(const struct sp_pack *pack, enum sp_part part,
                                          const char *name)
{
    const struct sp_pack_tensor key = {.part = part, .name = name};

    return bsearch(&key, pack->tensors, pack->header.n_tensors, sizeof key, sp_pack_tensor_compare);
}

size_t sp_pack_n_sections(const struct sp_pack *pack)
{
    return pack->header.n_sections;
}

const struct sp_pack_section *sp_pack_section(const struct sp_pack *pack, size_t i)
{
    return &pack->sections[i];
}

const struct sp_pack_section *sp_pack_find_section(const struct sp_pack *pack, enum sp_part part,
                                                   enum sp_section kind)
{
    for (size_t i = 0; i < pack->header.n_sections; i++) {
        const struct sp_pack_section *s = &pack->sections[i];
        if (s->part == part && s->kind == kind) return s;
    }
    return NULL;
}

bool sp_pack_is_calibration(const struct sp_pack *pack)
{
    return sp_pack_find_section(pack, SP_PART_FILE, SP_SECTION_CALIBRATION) != NULL;
}

enum sp_status sp_pack_expect_model(const struct sp_pack *pack, struct sp_err *err)
{
    if (!sp_pack_is_calibration(pack)) return SP_OK;
    return sp_fail_about(err, SP_E_INPUT, SP_TOPIC_CALIBRATION, "%s is a calibration, not a model",
                         pack->path);
}

enum sp_status sp_pack_part_digests(struct sp_part_digests *out, const struct sp_pack *pack,
                                    struct sp_err *err)
{
    return sp_pack_digest_parts(out, pack->tensors, pack->header.n_tensors, err);
}

static enum sp_status check_section_digest(const struct sp_pack *pack,
                                           const struct sp_pack_section *s, struct sp_err *err)
{
    if (sp_hash64(s->data, s->stored) == s->digest) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s: section %s of the %s does not match its digest",
                   pack->path, sp_section_name(s->kind), sp_part_name(s->part));
}

/* Unpacks a section whose digest was checked; `text` has s->size + 1 bytes. */
static enum sp_status unpack(const struct sp_pack_section *s, char *text, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (s->compressed)
        st = sp_decompress(text, s->size, s->data, s->stored, err);
    else
        memcpy(text, s->data, s->size);
    text[s->size] = 0;
    return st;
}

enum sp_status sp_pack_read_section(const struct sp_pack *pack, enum sp_part part,
                                    enum sp_section kind, struct sp_text *text, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_pack_section *s = sp_pack_find_section(pack, part, kind);
    char *content = NULL;

    if (s == NULL) {
        *text = (struct sp_text){0};
        return SP_OK;
    }
    sp_file_prefetch(s->data, (size_t)s->stored);
    if ((st = check_section_digest(pack, s, err))) goto done;
    if ((st = sp_new(&content, s->size + 1, 1, err))) goto done;
    if ((st = unpack(s, content, err))) {
        sp_context(err, "%s: section %s of the %s", pack->path, sp_section_name(kind),
                   sp_part_name(part));
        goto done;
    }
    *text = (struct sp_text){content, s->size};
    content = NULL;
done:
    free(content);
    return st;
}

/* The zero bytes in front of `data`, the i-th thing of the file. */
static enum sp_status check_gap(const struct sp_pack *pack, size_t i, const uint8_t *data,
                                struct sp_err *err)
{
    uint64_t from = pack->gaps[i] < SP_PACK_PAGE ? SP_PACK_PAGE : pack->gaps[i];
    enum sp_status st = check_zeros(pack, from, (uint64_t)(data - pack->bytes), err);

    if (st) sp_context(err, "%s", pack->path);
    return st;
}

enum sp_status sp_pack_check_tensor(const struct sp_pack *pack, size_t i, struct sp_err *err)
{
    enum { AT_ONCE = 8 << 20 };
    enum sp_status st;
    const struct sp_pack_tensor *t = &pack->tensors[i];
    struct sp_hash *hash;

    if ((st = check_gap(pack, i, t->data, err))) return st;
    if ((st = sp_hash_new(&hash, err))) return st;
    for (uint64_t at = 0; at < t->size; at += AT_ONCE) {
        size_t n = t->size - at < AT_ONCE ? (size_t)(t->size - at) : AT_ONCE;
        sp_hash_update(hash, t->data + at, n);
        if (pack->mapping.data) sp_file_unload(t->data + at, n);
    }
    if (sp_hash_digest(hash) != t->digest) {
        st = sp_fail(err, SP_E_INPUT, "%s: tensor %s of the %s does not match its digest",
                     pack->path, t->name, sp_part_name(t->part));
    }
    sp_hash_free(hash);
    return st;
}

enum sp_status sp_pack_check_section(const struct sp_pack *pack, size_t i, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_pack_section *s = &pack->sections[i];
    struct sp_text text = {0};

    if ((st = check_gap(pack, pack->header.n_tensors + i, s->data, err))) return st;
    if ((st = check_section_digest(pack, s, err)) || !s->compressed) return st;
    /* The digest covers the stored bytes: that they unpack is another question. */
    st = sp_pack_read_section(pack, s->part, s->kind, &text, err);
    free(text.at);
    return st;
}
