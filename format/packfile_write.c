/* The packed file's writer. Tensor data comes first in the file and its layout is known at open, so
 * it streams straight to its place; sections and directory follow at finish, when their sizes are
 * known, and the header is written last of all.
 *
 * On the way they are gathered into windows of the file, so that tensors of any size, in the file's
 * order, become writes of whole windows: a file system that keeps files in large pages does so for
 * what comes in large, aligned pieces, and readers map those faster. */
#include "format/packfile_write.h"

#include "format/base/atomic_file.h"
#include "format/base/compress.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "format/packfile.h"
#include "format/packfile_layout.h"

#include <stdlib.h>
#include <string.h>

/* A tensor on its way into the file. */
struct slot {
    struct sp_pack_tensor tensor; /* name owned by the writer's `names` */
    size_t given;                 /* index in the array given to open */
    uint64_t offset;
    uint64_t written;
    struct sp_hash *hash; /* while 0 < written < size */
};

enum { WINDOW = 4 << 20 }; /* bytes, a power of two; a multiple of what can be one page */

struct sp_pack_writer {
    struct sp_atomic_file *file;
    uint8_t *window;       /* [WINDOW], owned */
    uint64_t collected_at; /* offset in the file of the bytes that the window holds */
    size_t gathered;       /* number of bytes that the window holds */
    struct slot *slots;    /* in file order */
    size_t n_slots;
    size_t *slot_of; /* [n_slots]: given index -> index into slots */
    char *names;     /* all names in file order, a NUL after each: the directory's last part */
    size_t names_size;
    uint64_t end; /* end of the last tensor or section that has a place */
    struct sp_pack_section sections[SP_N_SECTIONS * 3];
    uint64_t section_offsets[SP_N_SECTIONS * 3];
    uint8_t *contents[SP_N_SECTIONS * 3]; /* stored bytes, owned */
    size_t n_sections;
};

static enum sp_status check_tensor(const struct sp_pack_tensor *t, size_t *size, struct sp_err *err)
{
    bool shape_ok = t->rank <= SP_PACK_MAX_RANK;

    for (unsigned i = 0; shape_ok && i < t->rank; i++)
        shape_ok = t->shape[i] != 0;
    if (!sp_pack_name_valid(t->name, strlen(t->name))) {
        return sp_fail(err, SP_E_INPUT, "tensor name %s is not 1 to %d bytes of printable UTF-8",
                       t->name, SP_PACK_MAX_NAME);
    }
    if (t->part != SP_PART_TARGET && t->part != SP_PART_DRAFT)
        return sp_fail(err, SP_E_BUG, "tensor %s belongs to part %d", t->name, (int)t->part);
    if (!shape_ok || !sp_dtype_is_packed((uint32_t)t->dtype) ||
        !sp_tensor_size(size, t->dtype, t->layout, t->shape, t->rank)) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "tensor %s: its shape cannot be stored in its type and layout", t->name);
    }
    return SP_OK;
}

/* Sorts the slots and gives each its place and its own copy of the name. */
static enum sp_status lay_out(struct sp_pack_writer *w, struct sp_err *err)
{
    enum sp_status st;
    char *name;

    qsort(w->slots, w->n_slots, sizeof *w->slots, sp_pack_tensor_compare);
    for (size_t i = 0; i < w->n_slots; i++)
        if (!sp_add(&w->names_size, w->names_size, strlen(w->slots[i].tensor.name) + 1))
            return sp_fail(err, SP_E_UNSUPPORTED, "the tensors' names are too long together");
    if (w->names_size > UINT32_MAX || w->n_slots > UINT32_MAX) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%zu tensors are more than a packed file holds",
                       w->n_slots);
    }
    if ((st = sp_new(&w->names, w->names_size, 1, err))) return st;
    name = w->names;
    w->end = SP_PACK_HEADER_SIZE;
    for (size_t i = 0; i < w->n_slots; i++) {
        struct slot *s = &w->slots[i];
        bool first = i == 0 || s[-1].tensor.part != s->tensor.part;
        size_t size = strlen(s->tensor.name) + 1;
        if (i > 0 && sp_pack_tensor_compare(s - 1, s) == 0) {
            return sp_fail(err, SP_E_INPUT, "tensor %s occurs twice in the %s", s->tensor.name,
                           sp_part_name(s->tensor.part));
        }
        memcpy(name, s->tensor.name, size);
        s->tensor.name = name;
        name += size;
        if (!sp_pack_next_offset(&s->offset, w->end, first) ||
            __builtin_add_overflow(s->offset, s->tensor.size, &w->end) || w->end > INT64_MAX)
            return sp_fail(err, SP_E_UNSUPPORTED, "the tensors are too large for one file");
        w->slot_of[s->given] = i;
    }
    return SP_OK;
}

enum sp_status sp_pack_writer_check(const char *path, bool force, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (force) {
        st = sp_atomic_file_check_replaced(path, sp_pack_magic, sizeof sp_pack_magic, "packed file",
                                           err);
    }
    return st ? st : sp_atomic_file_check(path, force, err);
}

enum sp_status sp_pack_writer_open(struct sp_pack_writer **out, const char *path, bool force,
                                   const struct sp_pack_tensor *tensors, size_t n_tensors,
                                   struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_writer *w = NULL;
    uint64_t reserved;

    if (path && (st = sp_pack_writer_check(path, force, err))) goto done;
    if ((st = sp_new(&w, 1, sizeof *w, err))) goto done;
    if (path && (st = sp_new_aligned(&w->window, WINDOW, 1, err))) goto done;
    if ((st = sp_new(&w->slots, n_tensors, sizeof *w->slots, err))) goto done;
    if ((st = sp_new(&w->slot_of, n_tensors, sizeof *w->slot_of, err))) goto done;
    w->n_slots = n_tensors;
    for (size_t i = 0; i < n_tensors; i++) {
        size_t size = 0;
        if ((st = check_tensor(&tensors[i], &size, err))) goto done;
        w->slots[i].tensor = tensors[i];
        w->slots[i].tensor.size = size;
        w->slots[i].given = i;
    }
    if ((st = lay_out(w, err))) goto done;
    reserved = w->end < SP_PACK_PAGE ? SP_PACK_PAGE : w->end;
    if (path && (st = sp_atomic_file_open(&w->file, path, force, reserved, err))) goto done;
    *out = w;
    w = NULL;
done:
    sp_pack_writer_close(w);
    return st;
}

/* Takes `stored`, which is owned by the writer from here on, also on failure. */
static enum sp_status add_section(struct sp_pack_writer *w, const struct sp_pack_section *section,
                                  uint8_t *stored, struct sp_err *err)
{
    size_t at = w->n_sections;
    const struct sp_pack_section *before;

    if (at == sizeof w->sections / sizeof w->sections[0] || section->stored == 0) {
        free(stored);
        return sp_fail(err, SP_E_BUG, "section %s is empty", sp_section_name(section->kind));
    }
    for (; at > 0; at--) {
        before = &w->sections[at - 1];
        if (before->part < section->part ||
            (before->part == section->part && before->kind <= section->kind))
            break;
        w->sections[at] = w->sections[at - 1];
        w->contents[at] = w->contents[at - 1];
    }
    w->sections[at] = *section;
    w->contents[at] = stored;
    w->n_sections++;
    before = at ? &w->sections[at - 1] : NULL;
    if (before && before->part == section->part && before->kind == section->kind)
        return sp_fail(err, SP_E_BUG, "section %s is given twice", sp_section_name(section->kind));
    return SP_OK;
}

static enum sp_status check_section(enum sp_part part, enum sp_section kind, size_t size,
                                    struct sp_err *err)
{
    if (!sp_pack_section_valid(kind, part)) {
        return sp_fail(err, SP_E_BUG, "a %s section cannot belong to the %s", sp_section_name(kind),
                       sp_part_name(part));
    }
    if (size <= sp_pack_section_limit(kind)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s of the %s: %zu bytes, expected at most %llu",
                   sp_section_name(kind), sp_part_name(part), size,
                   (unsigned long long)sp_pack_section_limit(kind));
}

enum sp_status sp_pack_writer_section(struct sp_pack_writer *w, enum sp_part part,
                                      enum sp_section kind, const void *content, size_t size,
                                      struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_section s = {.kind = kind, .part = part, .size = size};
    uint8_t *stored = NULL;
    size_t n = 0;

    if ((st = check_section(part, kind, size, err))) return st;
    s.compressed = kind != SP_SECTION_TOKENIZER_MAP;
    if (s.compressed && (st = sp_compress(&stored, &n, content, size, err))) return st;
    if (!s.compressed || size > sp_pack_content_limit(n)) {
        free(stored);
        s.compressed = false;
        n = size;
        if ((st = sp_new(&stored, size, 1, err))) return st;
        if (size) memcpy(stored, content, size);
    }
    s.stored = n;
    s.digest = sp_hash64(stored, n);
    return add_section(w, &s, stored, err);
}

enum sp_status sp_pack_writer_copy_section(struct sp_pack_writer *w, enum sp_part part,
                                           const struct sp_pack_section *section,
                                           struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_section s = *section;
    uint8_t *stored = NULL;

    if (sp_hash64(s.data, s.stored) != s.digest) {
        return sp_fail(err, SP_E_INPUT, "section %s of the %s does not match its digest",
                       sp_section_name(s.kind), sp_part_name(s.part));
    }
    s.part = part;
    if ((st = check_section(part, s.kind, s.size, err))) return st;
    if ((st = sp_new(&stored, s.stored, 1, err))) return st;
    memcpy(stored, s.data, s.stored);
    return add_section(w, &s, stored, err);
}

void sp_pack_writer_copies(struct sp_pack_writer *w, const struct sp_pack *source)
{
    sp_pack_copied_by(source, w->file);
}

static enum sp_status write_gathered(struct sp_pack_writer *w, struct sp_err *err)
{
    size_t size = w->gathered;

    w->gathered = 0;
    if (size == 0) return SP_OK;
    return sp_atomic_file_write_at(w->file, w->collected_at, w->window + w->collected_at % WINDOW,
                                   size, err);
}

/* Makes the gathered bytes end where the slot goes on. Behind the tensor before it, that takes the
 * padding in between. */
static enum sp_status move_to(struct sp_pack_writer *w, const struct slot *s, struct sp_err *err)
{
    enum sp_status st;
    uint64_t end = w->collected_at + w->gathered, offset = s->offset + s->written;
    bool follows = s > w->slots && end == s[-1].offset + s[-1].tensor.size;

    if (w->gathered && (offset == end || follows) && offset / WINDOW == w->collected_at / WINDOW) {
        memset(w->window + end % WINDOW, 0, (size_t)(offset - end));
        w->gathered += (size_t)(offset - end);
        return SP_OK;
    }
    if ((st = write_gathered(w, err))) return st;
    w->collected_at = offset;
    return SP_OK;
}

static enum sp_status gather(struct sp_pack_writer *w, const struct slot *s, const uint8_t *bytes,
                             size_t size, struct sp_err *err)
{
    enum sp_status st;
    uint64_t offset = s->offset + s->written;

    if ((st = move_to(w, s, err))) return st;
    while (size > 0) {
        size_t at = (size_t)(offset % WINDOW), n = WINDOW - at < size ? WINDOW - at : size;
        size_t past = at % SP_FILE_BLOCK;
        if (past == 0 && size >= WINDOW) { /* much needs no gathering */
            n = size - size % SP_FILE_BLOCK;
            if ((st = write_gathered(w, err))) return st;
            if ((st = sp_atomic_file_write_at(w->file, offset, bytes, n, err))) return st;
        } else {
            if (size >= WINDOW && n > SP_FILE_BLOCK - past) n = SP_FILE_BLOCK - past;
            memcpy(w->window + at, bytes, n);
            w->gathered += n;
            if (at + n == WINDOW && (st = write_gathered(w, err))) return st;
        }
        offset += n;
        bytes += n;
        size -= n;
        if (w->gathered == 0) w->collected_at = offset;
    }
    return SP_OK;
}

enum sp_status sp_pack_writer_put(struct sp_pack_writer *w, size_t i, const void *bytes,
                                  size_t size, struct sp_err *err)
{
    enum sp_status st;
    struct slot *s = &w->slots[w->slot_of[i]];

    if (size > s->tensor.size - s->written) {
        return sp_fail(err, SP_E_BUG, "tensor %s gets more than its %llu bytes", s->tensor.name,
                       (unsigned long long)s->tensor.size);
    }
    if (s->hash == NULL && (st = sp_hash_new(&s->hash, err))) return st;
    sp_hash_update(s->hash, bytes, size);
    if ((st = gather(w, s, bytes, size, err))) return st;
    s->written += size;
    if (s->written == s->tensor.size) {
        s->tensor.digest = sp_hash_digest(s->hash);
        sp_hash_free(s->hash);
        s->hash = NULL;
    }
    return SP_OK;
}

static enum sp_status check_complete(const struct sp_pack_writer *w, struct sp_err *err)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        const struct slot *s = &w->slots[i];
        if (s->written == s->tensor.size) continue;
        return sp_fail(err, SP_E_BUG, "tensor %s got %llu of its %llu bytes", s->tensor.name,
                       (unsigned long long)s->written, (unsigned long long)s->tensor.size);
    }
    return SP_OK;
}

enum sp_status sp_pack_writer_part_digests(struct sp_part_digests *out,
                                           const struct sp_pack_writer *w, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_tensor *tensors = NULL;

    if ((st = check_complete(w, err))) return st;
    if ((st = sp_new(&tensors, w->n_slots, sizeof *tensors, err))) return st;
    for (size_t i = 0; i < w->n_slots; i++)
        tensors[i] = w->slots[i].tensor;
    st = sp_pack_digest_parts(out, tensors, w->n_slots, err);
    free(tensors);
    return st;
}

/* Places sections and directory behind the tensors; *h is the header. */
static enum sp_status place_rest(struct sp_pack_writer *w, struct sp_pack_header *h,
                                 struct sp_err *err)
{
    uint64_t end = w->end;

    *h = (struct sp_pack_header){
        .major = SP_PACK_MAJOR,
        .n_tensors = (uint32_t)w->n_slots,
        .n_sections = (uint32_t)w->n_sections,
        .names_size = (uint32_t)w->names_size,
        .directory_size = w->n_slots * SP_PACK_TENSOR_ENTRY +
                          w->n_sections * SP_PACK_SECTION_ENTRY + w->names_size,
    };
    for (size_t i = 0; i < w->n_slots; i++) {
        unsigned minor = sp_pack_minor_of(w->slots[i].tensor.dtype);
        if (minor > h->minor) h->minor = minor;
    }
    for (size_t i = 0; i < w->n_sections; i++) {
        unsigned minor = sp_pack_section_minor(w->sections[i].kind);
        if (minor > h->minor) h->minor = minor;
    }
    for (size_t i = 0; i < w->n_sections; i++) {
        if (!sp_pack_next_offset(&w->section_offsets[i], end, i == 0))
            return sp_fail(err, SP_E_UNSUPPORTED, "the sections are too large for one file");
        end = w->section_offsets[i] + w->sections[i].stored;
    }
    if (w->n_slots + w->n_sections == 0) end = SP_PACK_PAGE;
    if (!sp_pack_next_offset(&h->directory_offset, end, false) ||
        h->directory_offset > INT64_MAX - h->directory_size)
        return sp_fail(err, SP_E_UNSUPPORTED, "the sections are too large for one file");
    h->file_size = h->directory_offset + h->directory_size;
    return SP_OK;
}

static enum sp_status write_sections(struct sp_pack_writer *w, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < w->n_sections && !st; i++) {
        st = sp_atomic_file_write_at(w->file, w->section_offsets[i], w->contents[i],
                                     w->sections[i].stored, err);
    }
    return st;
}

static void put_directory(uint8_t *p, const struct sp_pack_writer *w)
{
    for (size_t i = 0; i < w->n_slots; i++, p += SP_PACK_TENSOR_ENTRY)
        sp_pack_put_tensor(p, &w->slots[i].tensor, w->slots[i].offset);
    for (size_t i = 0; i < w->n_sections; i++, p += SP_PACK_SECTION_ENTRY)
        sp_pack_put_section(p, &w->sections[i], w->section_offsets[i]);
    memcpy(p, w->names, w->names_size);
}

/* The gaps need no writing: what a file was never given reads as zero. */
static enum sp_status write_directory(struct sp_pack_writer *w, struct sp_pack_header *h,
                                      struct sp_err *err)
{
    enum sp_status st;
    uint8_t header[SP_PACK_HEADER_SIZE];
    uint8_t *directory = NULL;
    size_t size = (size_t)h->directory_size;

    if ((st = sp_new(&directory, size, 1, err))) return st;
    put_directory(directory, w);
    h->directory_digest = sp_hash64(directory, size);
    sp_pack_put_header(header, h);
    st = sp_atomic_file_write_at(w->file, h->directory_offset, directory, size, err);
    if (!st) st = sp_atomic_file_write_at(w->file, 0, header, sizeof header, err);
    free(directory);
    return st;
}

enum sp_status sp_pack_writer_measure(uint64_t *file_size, struct sp_pack_writer *w,
                                      struct sp_err *err)
{
    struct sp_pack_header h;
    enum sp_status st = place_rest(w, &h, err);

    if (!st) *file_size = h.file_size;
    return st;
}

/* Writes all that follows the tensors, and the header. */
static enum sp_status write_rest(struct sp_pack_writer *w, uint64_t *file_size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_header h;

    if ((st = place_rest(w, &h, err))) return st;
    if ((st = write_sections(w, err))) return st;
    if ((st = write_directory(w, &h, err))) return st;
    if ((st = sp_atomic_file_commit(w->file, err))) return st;
    if (file_size) *file_size = h.file_size;
    return SP_OK;
}

enum sp_status sp_pack_writer_finish(struct sp_pack_writer *w, uint64_t *file_size,
                                     struct sp_err *err)
{
    enum sp_status st;

    if ((st = check_complete(w, err)) || (st = write_gathered(w, err))) return st;
    return write_rest(w, file_size, err);
}

enum sp_status sp_pack_writer_outline(struct sp_pack_writer *w, const char *path,
                                      struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_atomic_file_open(&w->file, path, true, 0, err))) return st;
    return write_rest(w, NULL, err);
}

void sp_pack_writer_close(struct sp_pack_writer *w)
{
    if (w == NULL) return;
    sp_atomic_file_close(w->file);
    for (size_t i = 0; i < w->n_slots; i++)
        sp_hash_free(w->slots[i].hash);
    for (size_t i = 0; i < w->n_sections; i++)
        free(w->contents[i]);
    free(w->window);
    free(w->slots);
    free(w->slot_of);
    free(w->names);
    free(w);
}
